/* TensorBoard event files, one directory per nested dict. TensorBoard shows each directory as a
 * run, so curves of training and validation share a chart.
 *
 *   {"train": {"training_loss": 3.1, "time": {"tokens_per_second": 2.1e4}}, "note": "resumed"}
 *   ->  DIR/events...        note (text)
 *       DIR/train/events...  loss, time/tokens_per_second
 *
 * A file is opened at its first value, so there are no empty files. Positions are a dict from
 * directory to offset: {"": 120, "train": 5312}.
 *
 * Each directory has its own file, instead of tags with a slash in one file, because TensorBoard
 * overlays the same tag of several runs in one chart, and a run is a directory. To give training
 * and validation the same tags, "training_" and "validation_" are dropped from names in such
 * directories, unless two values would then have one tag.
 *
 * Invariants:
 *
 *   (1) a branch is opened once, either from a position of the checkpoint or at its first value;
 *   (2) a log gives at most one event to each branch.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "formats/events/event.h"
#include "formats/events/log_names.h"
#include "formats/events/sink.h"

/* A directory below the sink's, "" for itself. */
typedef struct branch {
    char *name;        /* "validation"; owned */
    et_events *events; /* owned */
} branch;

typedef struct events_sink {
    et_sink sink;
    char *directory;              /* owned */
    const char *file;             /* the name of all files, ET_EVENTS_* */
    bool named;                   /* directory is a summary directory itself */
    et_sink_resume_policy policy; /* of the part that is cut off */
    branch *branches;             /* [count], owned, in the order of their first log */
    size_t count, capacity;
} events_sink;

static const et_sink_class events_class;

/* ---- branches ---- */

/* Names are of logs, or of a checkpoint, and become paths. On failure the list is as before. */
static int open_branch(events_sink *sink, const char *name, int64_t offset, et_error *error)
{
    et_assert(name && offset >= 0 && !et_path_leads_out(name));
    branch *grown =
        et_vector_grow(sink->branches, &sink->capacity, sink->count + 1, sizeof *grown, 4);
    if (grown == NULL)
        return et_alloc_failed(error, (sink->count + 1) * sizeof *grown, "a list of event files");
    sink->branches = grown;
    /* The entry after the last; it counts only when the file is open. */
    branch *next = &sink->branches[sink->count];
    const et_path directory =
        *name ? et_path_of(sink->directory, name) : et_path_print("%s", sink->directory);
    next->name = et_strdup(name);
    int status = next->name == NULL
                     ? et_alloc_failed(error, strlen(name), "a path")
                     : et_sink_set_aside(sink->policy, et_path_of(directory.text, sink->file).text,
                                         (uint64_t)offset, error);
    if (!status)
        status = et_events_open(&next->events, directory.text, sink->file, offset, error);
    if (status)
        et_free(next->name);
    else
        sink->count++;
    return status;
}

/* Opens the event file of a branch at its first log. There are few directories, so each log
 * searches the list once. */
static int find_branch(et_events **out, events_sink *sink, const char *name, et_error *error)
{
    for (size_t i = 0; i < sink->count; i++) {
        if (strcmp(sink->branches[i].name, name) == 0) {
            *out = sink->branches[i].events;
            return ET_OK;
        }
    }
    const int status =
        et_path_leads_out(name)
            ? et_fail(
                  error, ET_EDATA,
                  "%s: the values \"%s\" would be written outside of this directory; rename them",
                  sink->directory, name)
            : open_branch(sink, name, 0, error);
    if (!status)
        *out = sink->branches[sink->count - 1].events;
    return status;
}

/* ---- values ---- */

/* From a dict to the values of an event. Texts and tags are made in the log's arena and live
 * until it is written. */

/* One log on its way: what all of the recursion shares. */
struct log {
    events_sink *sink; /* borrowed */
    int64_t step;      /* of the log */
    et_arena arena;    /* tags and texts, until the log is written */
};

/* A number called "time" is a value like any other. */
static bool is_time(const et_value *value)
{
    return value->kind == ET_VALUE_DICT && strcmp(value->key, ET_SINK_TIME) == 0;
}

static const char *leaf_of(const char *key)
{
    const char *slash = strrchr(key, '/');
    return slash ? slash + 1 : key;
}

/* Whether another value of the dict has the same tag, or would have it. */
static bool is_taken(const et_value *dict, const et_value *value, const char *rest)
{
    const size_t before = (size_t)(leaf_of(value->key) - value->key);
    for (const et_value *v = dict->first; v != NULL; v = v->next) {
        const char *leaf = leaf_of(v->key);
        if (v != value && (size_t)(leaf - v->key) == before &&
            strncmp(v->key, value->key, before) == 0 &&
            strcmp(leaf + et_logged_prefix(leaf), rest) == 0)
            return true;
    }
    return false;
}

/* Drops "training_" or "validation_": the directory has that information. NULL: out of memory. */
static const char *tag_of(et_arena *arena, const et_value *dict, const et_value *value)
{
    const char *leaf = leaf_of(value->key);
    const char *rest = leaf + et_logged_prefix(leaf);
    if (rest == leaf || is_taken(dict, value, rest))
        return value->key;
    return et_arena_printf(arena, "%.*s%s", (int)(leaf - value->key), value->key, rest);
}

/* False: out of memory. A bool is 0 or 1. */
static bool convert(et_events_value *out, et_arena *arena, const char *prefix, const char *tag,
                    const et_value *value)
{
    *out = (et_events_value){ .tag = tag ? et_arena_printf(arena, "%s%s", prefix, tag) : NULL };
    switch (value->kind) {
    case ET_VALUE_BOOL:
        out->scalar = value->boolean;
        break;
    case ET_VALUE_INT:
        out->scalar = (double)value->integer;
        break;
    case ET_VALUE_FLOAT:
        out->scalar = value->real;
        break;
    case ET_VALUE_STRING:
        out->text = value->string;
        break;
    default: { /* TensorBoard has no form for lists, so they are shown as JSON */
        et_strbuf text = ET_STRBUF_INIT;
        et_json_print(&text, value, 0);
        out->text = text.failed ? NULL : et_arena_strdup(arena, et_strbuf_text(&text));
        et_strbuf_release(&text);
        return out->tag != NULL && out->text != NULL;
    }
    }
    return out->tag != NULL;
}

/* Appends what belongs into a dict's own event file: all but nulls and nested dicts. out has
 * room for all members of dict; *count grows. named: dict is a summary directory's. */
static bool collect(et_events_value *out, size_t *count, et_arena *arena, const char *prefix,
                    const et_value *dict, bool named)
{
    for (const et_value *v = dict->first; v != NULL; v = v->next) {
        if (v->kind == ET_VALUE_NULL || v->kind == ET_VALUE_DICT)
            continue;
        const char *tag = named ? tag_of(arena, dict, v) : v->key;
        if (!convert(&out[(*count)++], arena, prefix, tag, v))
            return false;
    }
    return true;
}

/* Values and the clock's in one event; most + 1, so that an empty dict is no failure of memory. */
static int write_dict(struct log *log, const char *name, const et_value *dict, et_error *error)
{
    /* Values that depend on the clock go into the same event, under tags that can be left out when
     * runs are compared. */
    const et_value *clock = et_value_get(dict, ET_SINK_TIME);
    if (clock != NULL && !is_time(clock))
        clock = NULL;
    const size_t most = dict->count + (clock != NULL ? clock->count : 0);
    et_events_value *values = et_arena_array(&log->arena, most + 1, sizeof *values);
    size_t count = 0;
    const bool named = *name != '\0' || log->sink->named;
    if (values == NULL || !collect(values, &count, &log->arena, "", dict, named) ||
        (clock != NULL && !collect(values, &count, &log->arena, ET_SINK_TIME "/", clock, false)))
        return et_alloc_failed(error, most * sizeof *values, "a log");
    if (count == 0)
        return ET_OK;
    et_events *events;
    const int status = find_branch(&events, log->sink, name, error);
    return status ? status : et_events_write(events, log->step, values, count, error);
}

/* A dict, then those within it, each under its path: "train", "train/layer". */
static int write_tree(struct log *log, const char *name, const et_value *dict, et_error *error)
{
    int status = write_dict(log, name, dict, error);
    for (const et_value *v = dict->first; v != NULL && !status; v = v->next) {
        if (v->kind != ET_VALUE_DICT || is_time(v))
            continue;
        const char *below = et_arena_printf(&log->arena, "%s%s%s", name, *name ? "/" : "", v->key);
        status = below == NULL ? et_alloc_failed(error, strlen(v->key), "a log")
                               : write_tree(log, below, v, error);
    }
    return status;
}

/* ---- messages ---- */

int et_sink_events_write_message(et_sink *sink, const et_sink_message *message, et_error *error)
{
    et_events *events;
    const char *directory = message->directory ? message->directory : "";
    int status = find_branch(&events, (events_sink *)sink, directory, error);
    if (status)
        return status;
    return message->bytes
               ? et_events_summary(events, message->step, message->bytes, message->length, error)
               : et_events_graph(events, message->nodes, message->count, error);
}

/* ---- the class ---- */

static int events_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    struct log log = { (events_sink *)self, step, ET_ARENA_INIT };
    const int status = write_tree(&log, "", values, error);
    et_arena_release(&log.arena);
    return status;
}

static int events_flush(et_sink *self, et_error *error)
{
    events_sink *sink = (events_sink *)self;
    int status = ET_OK;
    for (size_t i = 0; i < sink->count && !status; i++)
        status = et_events_flush(sink->branches[i].events, error);
    return status;
}

/* The inverse of open_sink. Lengths do not depend on the clock (event.c), so a checkpoint may
 * contain them. */
static void events_positions(const et_sink *self, et_value *out)
{
    const events_sink *sink = (const events_sink *)self;
    et_value *dict = et_value_set_dict(out, events_class.name);
    for (size_t i = 0; i < sink->count; i++)
        et_value_set_int(dict, sink->branches[i].name, et_events_offset(sink->branches[i].events));
}

/* All are closed; the first error is reported. */
static int events_close(et_sink *self, et_error *error)
{
    events_sink *sink = (events_sink *)self;
    int status = ET_OK;
    for (size_t i = 0; i < sink->count; i++) {
        const int other = et_events_close(sink->branches[i].events, status ? NULL : error);
        status = status ? status : other;
        et_free(sink->branches[i].name);
    }
    et_free(sink->branches);
    et_free(sink->directory);
    et_free(sink);
    return status;
}

static const et_sink_class events_class = {
    .name = "events",
    .write = events_write,
    .flush = events_flush,
    .positions = events_positions,
    .close = events_close,
};

bool et_sink_is_events(const et_sink *sink)
{
    return sink->class == &events_class;
}

static int open_sink(et_sink **out, const char *directory, const char *name,
                     const et_value *positions, et_error *error)
{
    *out = NULL;
    events_sink *sink = et_alloc_zero(1, sizeof *sink);
    if (sink == NULL || (sink->directory = et_strdup(directory)) == NULL) {
        et_free(sink);
        return et_alloc_failed(error, sizeof *sink, "event files");
    }
    sink->sink.class = &events_class;
    sink->file = name;
    const et_value *offsets = et_value_get(positions, events_class.name);
    sink->policy = et_sink_resume_policy_of(positions, events_class.name);
    int status = ET_OK;
    /* Continues every directory that had an event file. */
    for (const et_value *v = offsets ? offsets->first : NULL; v != NULL && !status; v = v->next)
        status =
            v->kind != ET_VALUE_INT || v->integer < 0 || et_path_leads_out(v->key)
                ? et_fail(error, ET_EFORMAT,
                          "%s: the saved position of \"%s\" is invalid; the checkpoint is damaged",
                          sink->directory, v->key)
                : open_branch(sink, v->key, v->integer, error);
    if (status)
        events_close(&sink->sink, NULL);
    else
        *out = &sink->sink;
    return status;
}

/* Without positions no file is opened: a new run's files begin with their first log, and existing
 * files are set aside. */
int et_sink_events_open(et_sink **out, const char *directory, const et_value *positions,
                        et_error *error)
{
    *out = NULL;
    int status = et_path_check(directory, error);
    return status ? status : open_sink(out, directory, ET_EVENTS_NAME, positions, error);
}

int et_sink_events_open_as(et_sink **out, const char *directory, const char *name, et_error *error)
{
    const int status = open_sink(out, directory, name, NULL, error);
    if (status)
        return status;
    ((events_sink *)*out)->named = true;
    ((events_sink *)*out)->policy =
        (et_sink_resume_policy){ false, 0 }; /* made from another file, at every start */
    return ET_OK;
}
