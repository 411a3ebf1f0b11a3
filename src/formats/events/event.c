/* Event files. An event is one protobuf message in one record (record.c):
 *
 *   Event { wall_time, step, summary { value { tag, simple_value } ... } }       scalars
 *   Event { wall_time, step, summary { value { tag, tensor, metadata } ... } }   texts
 *   Event { wall_time, file_version "brain.Event:2" }                            the first one
 *
 * event.proto has the fields; protoc-c makes the packing code. Messages are trees of pointers,
 * built in an arena that is emptied after each event, and packed into one buffer that is reused.
 *
 * The wall time is a fixed64 and always present, so an event's length does not depend on the clock:
 * offsets of files are equal in equal runs, and a checkpoint may contain them. */
#include "formats/events/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "formats/events/event.pb-c.h"
#include "formats/events/log_names.h"
#include "formats/events/sink.h"
#include "formats/records/record.h"

/* protoc-c's names for what event.proto calls Event and Value. */
typedef Etude__Event__Event event_message;
typedef Etude__Event__Value value_message;

/* Numbers of TensorFlow's DataType and of TensorBoard's DataClass. */
enum { DTYPE_FLOAT = 1, DTYPE_STRING = 7, DATA_CLASS_TENSOR = 2 };

struct et_events {
    et_record_log writer;
    et_arena arena;        /* the messages of one event; empty between calls */
    unsigned char *packed; /* one event in bytes; owned */
    size_t packed_capacity;
};

/* The packed message has exactly the size that the library computed; otherwise its generated code
 * and header differ. */
static int write_message(et_events *events, event_message *event, et_error *error)
{
    event->has_wall_time = true;
    event->wall_time = et_clock_wall();
    const size_t size = etude__event__event__get_packed_size(event);
    if (!ET_VECTOR_GROW(events->packed, events->packed_capacity, size))
        return et_alloc_failed(error, "an event");
    const size_t packed = etude__event__event__pack(event, events->packed);
    et_assert_equal(packed, size);
    return et_record_log_write(&events->writer, events->packed, packed, error);
}

/* The first record of a file gives the version of the others. */
static int write_version(et_events *events, et_error *error)
{
    char version[] = "brain.Event:2";
    event_message event = ETUDE__EVENT__EVENT__INIT;
    event.file_version = version;
    return write_message(events, &event, error);
}

/* A new file, or one cut off at 0, gets its version record; a continued file has one. */
int et_events_open(et_events **out, const char *directory, const char *name, int64_t offset,
                   et_error *error)
{
    *out = NULL;
    et_assert(directory && name);
    int status = et_directory_make(directory, error);
    if (status)
        return status;
    et_events *events = et_alloc_zero(1, sizeof *events);
    /* One file of a fixed name in each directory: it is continued, so it needs no time or
     * machine in its name. */
    status = events == NULL ? et_alloc_failed(error, "an event file")
                            : et_record_log_open(&events->writer, et_path_of(directory, name).text,
                                                 offset, error);
    if (status) {
        et_free(events);
        return status;
    }
    /* New, or cut off at the very beginning. */
    if (events->writer.file.offset == 0)
        status = write_version(events, error);
    if (status)
        et_events_close(events, NULL);
    else
        *out = events;
    return status;
}

/* A text summary: a tensor of one string, shape [1], for the plugin "text". All parts of the
 * message are in one struct, so that one allocation holds them. */
typedef struct text_value {
    Etude__Event__Tensor tensor;
    Etude__Event__TensorShape shape;
    Etude__Event__TensorShape__Dim dim, *dims[1];
    Etude__Event__Metadata metadata;
    Etude__Event__PluginData plugin;
    ProtobufCBinaryData string;
    char plugin_name[5];
} text_value;

/* false: out of memory. The text is copied, since the library wants it without const. */
static bool set_text(value_message *value, const char *text, et_arena *arena)
{
    text_value *parts = et_arena_alloc(arena, sizeof *parts);
    char *copy = et_arena_strdup(arena, text);
    if (parts == NULL || copy == NULL)
        return false;
    *parts = (text_value){
        .tensor = ETUDE__EVENT__TENSOR__INIT,
        .shape = ETUDE__EVENT__TENSOR_SHAPE__INIT,
        .dim = ETUDE__EVENT__TENSOR_SHAPE__DIM__INIT,
        .dims = { &parts->dim },
        .metadata = ETUDE__EVENT__METADATA__INIT,
        .plugin = ETUDE__EVENT__PLUGIN_DATA__INIT,
        .string = { strlen(copy), (uint8_t *)copy },
        .plugin_name = "text",
    };
    /* shape [1]: a text summary of one string. */
    parts->dim.has_size = true;
    parts->dim.size = 1;
    parts->shape.n_dim = 1;
    parts->shape.dim = parts->dims;
    /* The string itself, as TensorFlow keeps strings: bytes in string_val. */
    parts->tensor.has_dtype = true;
    parts->tensor.dtype = DTYPE_STRING;
    parts->tensor.tensor_shape = &parts->shape;
    parts->tensor.n_string_val = 1;
    parts->tensor.string_val = &parts->string;
    /* The plugin that makes TensorBoard show the value under "Text". */
    parts->plugin.plugin_name = parts->plugin_name;
    parts->metadata.plugin_data = &parts->plugin;
    parts->metadata.has_data_class = true;
    parts->metadata.data_class = DATA_CLASS_TENSOR;
    value->tensor = &parts->tensor;
    value->metadata = &parts->metadata;
    return true;
}

/* A summary of count values in arena; NULL if none left. Pointers and messages are two arrays
 * because protobuf-c's repeated fields are arrays of pointers. */
static Etude__Event__Summary *new_summary(et_arena *arena, const et_events_value *values,
                                          size_t count)
{
    /* Three blocks in the arena: the summary, the values, and pointers to them. */
    Etude__Event__Summary *summary = et_arena_alloc(arena, sizeof *summary);
    value_message *messages = et_arena_array(arena, count, sizeof *messages);
    value_message **pointers = et_arena_array(arena, count, sizeof(value_message *));
    if (summary == NULL || messages == NULL || pointers == NULL)
        return NULL;
    *summary = (Etude__Event__Summary)ETUDE__EVENT__SUMMARY__INIT;
    summary->n_value = count;
    summary->value = pointers;
    for (size_t i = 0; i < count; i++) {
        value_message *message = pointers[i] = &messages[i];
        et_assert(values[i].tag);
        *message = (value_message)ETUDE__EVENT__VALUE__INIT;
        message->tag = et_arena_strdup(arena, values[i].tag);
        if (message->tag == NULL || (values[i].text && !set_text(message, values[i].text, arena)))
            return NULL;
        /* Scalars are float32 in the file, as TensorBoard's readers have them. */
        message->has_simple_value = values[i].text == NULL;
        message->simple_value = (float)values[i].scalar;
    }
    return summary;
}

/* A file that another program removed is made again, with its version. */
static int follow(et_events *events, et_error *error)
{
    bool moved;
    const int status = et_append_follow(&events->writer.file, &moved, error);
    return status || !moved || events->writer.file.offset > 0 ? status
                                                              : write_version(events, error);
}

/* The arena is emptied on failure too. */
int et_events_write(et_events *events, int64_t step, const et_events_value *values, size_t count,
                    et_error *error)
{
    event_message event = ETUDE__EVENT__EVENT__INIT;
    for (size_t i = 0; i < count; i++)
        if (!et_utf8_valid(values[i].tag, strlen(values[i].tag), NULL))
            return et_fail(error, ET_EDATA, "%s: the name of the value is not UTF-8",
                           values[i].tag);
    int status = follow(events, error);
    if (status)
        return status;
    event.has_step = true;
    event.step = step;
    event.summary = new_summary(&events->arena, values, count);
    status = event.summary == NULL ? et_alloc_failed(error, "an event")
                                   : write_message(events, &event, error);
    et_arena_release(&events->arena);
    return status;
}

/* ---- serialised summaries ---- */

/* Allocates for the library and notes a failure, so that it can be told from an invalid message. */
static void *take(void *payload, size_t size)
{
    void *memory = et_alloc(size, 1);
    *(bool *)payload |= memory == NULL;
    return memory;
}

static void leave(void *payload, void *memory)
{
    (void)payload;
    et_free(memory);
}

/* Unpacks a serialised tensorflow.Summary and packs it again within the event; fields that
 * event.proto does not name are kept. ET_EDATA: it is not a summary, or has no value. */
static int write_summary(et_events *events, int64_t step, const void *bytes, size_t length,
                         et_error *error)
{
    bool failed = false;
    ProtobufCAllocator allocator = { take, leave, &failed };
    event_message event = ETUDE__EVENT__EVENT__INIT;
    Etude__Event__Summary *summary =
        etude__event__summary__unpack(&allocator, length, (const uint8_t *)bytes);
    int status = ET_OK;
    if (failed)
        status = et_alloc_failed(error, "a summary");
    else if (!summary || !summary->n_value)
        status = et_fail(error, ET_EDATA, "%zu bytes are not a serialized tensorflow.Summary%s",
                         length, summary ? " with a value" : "");
    if (!status)
        status = follow(events, error);
    event.has_step = true;
    event.step = step;
    event.summary = summary;
    if (!status)
        status = write_message(events, &event, error);
    if (summary)
        etude__event__summary__free_unpacked(summary, &allocator);
    return status;
}

/* ---- graphs ---- */

typedef Etude__Event__Node node_message;

/* The shape is in the attribute that TensorFlow uses. */
typedef struct node_parts {
    Etude__Event__AttributeEntry entry, *entries[1];
    Etude__Event__Attribute attribute;
    Etude__Event__ShapeList list;
    Etude__Event__TensorShape shape, *shapes[1];
} node_parts;

static bool set_shape(node_message *message, const et_events_node *node, et_arena *arena)
{
    node_parts *parts = et_arena_alloc(arena, sizeof *parts);
    size_t rank = (size_t)node->rank;
    Etude__Event__TensorShape__Dim *dims = et_arena_array(arena, rank + 1, sizeof *dims);
    Etude__Event__TensorShape__Dim **pointers = et_arena_array(arena, rank + 1, sizeof *pointers);
    if (!parts || !dims || !pointers)
        return false;
    *parts = (node_parts){ .entry = ETUDE__EVENT__ATTRIBUTE_ENTRY__INIT,
                           .entries = { &parts->entry },
                           .attribute = ETUDE__EVENT__ATTRIBUTE__INIT,
                           .list = ETUDE__EVENT__SHAPE_LIST__INIT,
                           .shape = ETUDE__EVENT__TENSOR_SHAPE__INIT,
                           .shapes = { &parts->shape } };
    for (size_t i = 0; i < rank; i++) {
        dims[i] = (Etude__Event__TensorShape__Dim)ETUDE__EVENT__TENSOR_SHAPE__DIM__INIT;
        dims[i].has_size = true;
        dims[i].size = node->size[i];
        pointers[i] = &dims[i];
    }
    parts->shape.n_dim = rank;
    parts->shape.dim = pointers;
    parts->list.n_shape = 1;
    parts->list.shape = parts->shapes;
    parts->attribute.list = &parts->list;
    parts->entry.key = et_arena_strdup(arena, "_output_shapes");
    parts->entry.value = &parts->attribute;
    message->n_attr = 1;
    message->attr = parts->entries;
    return parts->entry.key != NULL;
}

static bool pack_graph(ProtobufCBinaryData *out, const et_events_node *nodes, size_t count,
                       et_arena *arena)
{
    Etude__Event__Graph graph = ETUDE__EVENT__GRAPH__INIT;
    node_message *messages = et_arena_array(arena, count + 1, sizeof *messages);
    graph.node = et_arena_array(arena, count + 1, sizeof *graph.node);
    if (!messages || !graph.node)
        return false;
    for (size_t i = 0; i < count; i++) {
        node_message *message = &messages[i];
        const et_events_node *node = &nodes[i];
        *message = (node_message)ETUDE__EVENT__NODE__INIT;
        message->name = et_arena_strdup(arena, node->name);
        message->op = et_arena_strdup(arena, node->op);
        message->input = et_arena_array(arena, (size_t)node->input_count + 1, sizeof(char *));
        for (int k = 0; message->input && k < node->input_count; k++) {
            message->input[k] = et_arena_strdup(arena, node->inputs[k]);
            message->n_input++;
        }
        if (!set_shape(message, node, arena) || arena->failed)
            return false;
        graph.node[graph.n_node++] = message;
    }
    out->data = et_arena_alloc(arena, etude__event__graph__get_packed_size(&graph) + 1);
    out->len = out->data ? etude__event__graph__pack(&graph, out->data) : 0;
    return out->data != NULL;
}

static int write_graph(et_events *events, const et_events_node *nodes, size_t count,
                       et_error *error)
{
    event_message event = ETUDE__EVENT__EVENT__INIT;
    int status = follow(events, error);
    if (status)
        return status;
    event.has_graph_def = pack_graph(&event.graph_def, nodes, count, &events->arena);
    status = event.has_graph_def ? write_message(events, &event, error)
                                 : et_alloc_failed(error, "a graph");
    et_arena_release(&events->arena);
    return status;
}

/* ---- settings ---- */

/* A value without numbers, whose metadata has all the content: a message packed into another. */

typedef struct setting_value {
    Etude__Event__SettingEntry entry;
    Etude__Event__Setting value;
} setting_value;

/* In arena; data NULL: out of memory. */
static ProtobufCBinaryData pack_settings(et_arena *arena, const et_events_setting *settings,
                                         size_t count)
{
    Etude__Event__Settings all = ETUDE__EVENT__SETTINGS__INIT;
    Etude__Event__SessionStart start = ETUDE__EVENT__SESSION_START__INIT;
    setting_value *values = et_arena_array(arena, count + 1, sizeof *values);
    start.hparams = et_arena_array(arena, count + 1, sizeof *start.hparams);
    start.has_start_time_secs = true;
    start.start_time_secs = et_clock_wall();
    all.has_version = true; /* 0 */
    all.session_start_info = &start;
    bool whole = values && start.hparams;
    for (size_t i = 0; i < count && whole; i++) {
        setting_value *to = &values[i];
        const et_events_setting *setting = &settings[i];
        to->entry = (Etude__Event__SettingEntry)ETUDE__EVENT__SETTING_ENTRY__INIT;
        to->value = (Etude__Event__Setting)ETUDE__EVENT__SETTING__INIT;
        to->entry.key = et_arena_strdup(arena, setting->name);
        to->entry.value = &to->value;
        to->value.has_number_value = setting->kind == ET_EVENTS_NUMBER;
        to->value.number_value = setting->number;
        to->value.has_bool_value = setting->kind == ET_EVENTS_BOOL;
        to->value.bool_value = setting->number != 0;
        if (setting->kind == ET_EVENTS_TEXT)
            to->value.string_value = et_arena_strdup(arena, setting->text);
        whole = to->entry.key && (setting->kind != ET_EVENTS_TEXT || to->value.string_value);
        start.hparams[start.n_hparams++] = &values[i].entry;
    }
    ProtobufCBinaryData packed = { 0, NULL };
    if (whole)
        packed.data = et_arena_alloc(arena, etude__event__settings__get_packed_size(&all) + 1);
    if (packed.data)
        packed.len = etude__event__settings__pack(&all, packed.data);
    return packed;
}

int et_events_settings(et_events *events, const et_events_setting *settings, size_t count,
                       et_error *error)
{
    char tag[] = "_hparams_/session_start_info", name[] = "hparams";
    event_message event = ETUDE__EVENT__EVENT__INIT;
    value_message message = ETUDE__EVENT__VALUE__INIT, *pointer = &message;
    Etude__Event__Summary summary = ETUDE__EVENT__SUMMARY__INIT;
    Etude__Event__Metadata metadata = ETUDE__EVENT__METADATA__INIT;
    Etude__Event__PluginData plugin = ETUDE__EVENT__PLUGIN_DATA__INIT;
    Etude__Event__Tensor tensor = ETUDE__EVENT__TENSOR__INIT;
    Etude__Event__TensorShape shape = ETUDE__EVENT__TENSOR_SHAPE__INIT;
    Etude__Event__TensorShape__Dim dim = ETUDE__EVENT__TENSOR_SHAPE__DIM__INIT, *dims = &dim;
    /* The tensor has shape [0]. */
    dim.has_size = true;
    shape.n_dim = 1;
    shape.dim = &dims;
    tensor.has_dtype = true;
    tensor.dtype = DTYPE_FLOAT;
    tensor.tensor_shape = &shape;
    plugin.plugin_name = name;
    plugin.has_content = true;
    plugin.content = pack_settings(&events->arena, settings, count);
    metadata.plugin_data = &plugin;
    message.tag = tag;
    message.tensor = &tensor;
    message.metadata = &metadata;
    summary.n_value = 1;
    summary.value = &pointer;
    event.has_step = true;
    event.summary = &summary;
    int status = plugin.content.data ? write_message(events, &event, error)
                                     : et_alloc_failed(error, "settings");
    et_arena_release(&events->arena);
    return status;
}

int et_events_flush(et_events *events, et_error *error)
{
    return et_record_log_flush(&events->writer, error);
}

/* The file is closed and all is freed even if its last bytes did not reach the disk. */
int et_events_close(et_events *events, et_error *error)
{
    const int status = et_record_log_close(&events->writer, error);
    et_arena_release(&events->arena);
    et_free(events->packed);
    et_free(events);
    return status;
}

int64_t et_events_offset(const et_events *events)
{
    return (int64_t)events->writer.file.offset;
}

/* ---- the sink ---- */

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
    if (!ET_VECTOR_GROW(sink->branches, sink->capacity, sink->count + 1))
        return et_alloc_failed(error, "a list of event files");
    /* The entry after the last; it counts only when the file is open. */
    branch *next = &sink->branches[sink->count];
    const et_path directory =
        *name ? et_path_of(sink->directory, name) : et_path_print("%s", sink->directory);
    next->name = et_strdup(name);
    int status = next->name == NULL
                     ? et_alloc_failed(error, "a path")
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

/* Whether another value of the dict has the same tag, or would have it. */
static bool is_taken(const et_value *dict, const et_value *value, const char *rest)
{
    const size_t before = (size_t)(et_path_base(value->key) - value->key);
    for (const et_value *v = dict->first; v != NULL; v = v->next) {
        const char *leaf = et_path_base(v->key);
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
    const char *leaf = et_path_base(value->key);
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
        out->text = et_strbuf_keep(&text, arena);
        return out->tag != NULL && out->text != NULL;
    }
    }
    return out->tag != NULL;
}

/* Appends the values for a dict's own event file: all values except nulls and nested dicts. out has
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
        return et_alloc_failed(error, "a log");
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
        status = below == NULL ? et_alloc_failed(error, "a log") : write_tree(log, below, v, error);
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
               ? write_summary(events, message->step, message->bytes, message->length, error)
               : write_graph(events, message->nodes, message->count, error);
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
        return et_alloc_failed(error, "event files");
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
