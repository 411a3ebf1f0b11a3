/* One JSON line per log, for scripts:
 *
 *   {"step":200,"train":{"training_loss":4.1,...},"time":{"wall":1700000000.25}}
 *
 * Numbers are printed so that they read back as the same double; "wall" is the time of writing, in
 * seconds since 1970.
 *
 * Resuming: the first `lines` lines stay and the rest is cut off, so no step occurs twice. A
 * checkpoint has only the number of lines. Finding their end reads that part of the file once, at a
 * start. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/aside.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/append.h"
#include "formats/events/sink.h"

/* Handling of another run's logs at a sink's place; for event.c, too. */

et_sink_resume_policy et_sink_resume_policy_of(const et_value *positions, const char *kind)
{
    const et_value *keeps = et_value_get(positions, ET_SINK_KEEPS);
    const et_value *since = et_value_get(positions, ET_SINK_SINCE);
    et_sink_resume_policy policy = { .keeps =
                                         keeps && keeps->kind == ET_VALUE_BOOL && keeps->boolean };
    if (since && since->kind == ET_VALUE_FLOAT)
        policy.since = since->real;
    else if (!et_value_get(positions, kind))
        policy.keeps = true;
    return policy;
}

int et_sink_set_aside(et_sink_resume_policy policy, const char *path, uint64_t offset,
                      et_error *error)
{
    return policy.keeps || et_file_written(path) < policy.since
               ? et_aside_truncate(path, offset, error)
               : ET_OK;
}

/* A resumed run gets its position as a number of lines. Bytes would depend on the clock, whose
 * digits vary, and a checkpoint must not depend on the clock. */
typedef struct jsonl {
    et_sink sink;
    et_append file; /* PATH, open at its end */
    int64_t lines;  /* in the file: whole ones, since a write that fails is cut off */
    et_strbuf line; /* memory that is used again */
} jsonl;

static const et_sink_class jsonl_class;

/* Makes the printed log: step first, time last, with the wall clock in it. values is copied, so the
 * caller's dict does not get the clock. NULL: no memory. */
static et_value *make_line(et_arena *arena, int64_t step, const et_value *values)
{
    et_assert(step >= 0);
    et_value *line = et_value_dict(arena);
    if (!et_value_set_int(line, "step", step) || et_value_merge(line, values, NULL))
        return NULL;
    et_value_set_int(line, "step", step); /* the log's own, whatever it has under that name */
    /* Uses the caller's "time" dict, or a new one at the end. A value called "time" that is no dict
     * goes into the new one. */
    et_value *clock = et_value_get(line, ET_SINK_TIME);
    const et_value own = clock ? *clock : (et_value){ .kind = ET_VALUE_DICT };
    if (clock == NULL || own.kind != ET_VALUE_DICT)
        clock = et_value_set_dict(line, ET_SINK_TIME);
    if (own.kind != ET_VALUE_DICT)
        et_value_append_copy(clock, ET_SINK_TIME, &own);
    et_value_set_float(clock, "wall", et_clock_wall());
    return et_value_failed(line) ? NULL : line;
}

/* Bytes up to and with the last line end of the first *lines; *lines becomes what there is. A
 * last line without its end was torn by a kill and does not count. */
static int measure_lines(uint64_t *out, int64_t *lines, const char *path, et_error *error)
{
    et_mapping mapping;
    const int64_t wanted = *lines;
    *out = 0;
    *lines = 0;
    /* A run directory that was copied without its logs continues with new ones. */
    if (!et_file_exists(path))
        return ET_OK;
    const int status = et_mapping_open(&mapping, path, error);
    if (status)
        return status;
    const char *text = mapping.data;
    while (*lines < wanted && *out < mapping.length) {
        const char *end = memchr(text + *out, '\n', mapping.length - *out);
        if (end == NULL)
            break;
        *out = (uint64_t)(end - text) + 1;
        ++*lines;
    }
    et_mapping_close(&mapping);
    return ET_OK;
}

/* The line is made whole before it is written, in one write. */
static int jsonl_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    jsonl *sink = (jsonl *)self;
    et_arena arena = ET_ARENA_INIT;
    et_strbuf *text = &sink->line;
    bool moved;
    int status = et_append_follow(&sink->file, &moved, error);
    /* If another program has replaced the file, its lines are counted again. */
    if (!status && moved) {
        uint64_t offset;
        sink->lines = INT64_MAX;
        status = measure_lines(&offset, &sink->lines, sink->file.path, error);
    }
    if (status)
        return status;
    const et_value *line = make_line(&arena, step, values);
    et_strbuf_reset(text);
    if (line)
        et_json_print(text, line, 0);
    et_strbuf_append_char(text, '\n');
    status = !line || text->failed ? et_alloc_failed(error, "a log")
                                   : et_append_write(&sink->file, text->data, text->length, error);
    /* A line that was not written whole has been cut off again (append.c). */
    sink->lines += !status;
    et_arena_release(&arena);
    return status;
}

static int jsonl_flush(et_sink *self, et_error *error)
{
    return et_append_flush(&((jsonl *)self)->file, error);
}

/* {"jsonl": 12} */
static void jsonl_positions(const et_sink *self, et_value *out)
{
    et_value_set_int(out, jsonl_class.name, ((const jsonl *)self)->lines);
}

static int jsonl_close(et_sink *self, et_error *error)
{
    jsonl *sink = (jsonl *)self;
    const int status = et_append_close(&sink->file, error);
    et_strbuf_release(&sink->line);
    et_free(sink);
    return status;
}

static const et_sink_class jsonl_class = {
    .name = "jsonl",
    .write = jsonl_write,
    .flush = jsonl_flush,
    .positions = jsonl_positions,
    .close = jsonl_close,
};

/* The offset was just measured, so the file is never shorter. */
static int whole_lines(uint64_t *out, const char *path, et_error *error)
{
    /* All that there are: used only when the file is opened to be continued. */
    int64_t lines = INT64_MAX;
    return measure_lines(out, &lines, path, error);
}

/* Without a position, or with 0, the file begins anew. Without a position, existing contents are
 * set aside; so are lines that are not the run's own (sink.h). */
int et_sink_jsonl_open(et_sink **out, const char *path, const et_value *positions, et_error *error)
{
    *out = NULL;
    int64_t lines = 0;
    uint64_t offset = 0;
    int status = et_path_check(path, error);
    if (!status && et_value_get(positions, jsonl_class.name) != NULL)
        status = et_value_read_int(positions, jsonl_class.name, &lines, error);
    if (status || lines < 0)
        return status ? status : et_fail(error, ET_EFORMAT, "%s: a negative position", path);
    const int64_t before = lines;
    if (lines > 0)
        status = measure_lines(&offset, &lines, path, error);
    if (!status && lines < before) /* reported, but the run continues */
        et_log(ET_LOG_WARNING,
               "%s: %s lines were written before, but now the file has only %s: the rest is lost",
               path, et_format_count(before).text, et_format_count(lines).text);
    if (!status)
        status = et_sink_set_aside(et_sink_resume_policy_of(positions, jsonl_class.name), path,
                                   offset, error);
    if (status)
        return status;
    jsonl *sink = et_alloc_zero(1, sizeof *sink);
    if (sink == NULL)
        return et_alloc_failed(error, path);
    sink->sink.class = &jsonl_class;
    sink->lines = lines;
    if ((status = et_parent_make(path, error)) ||
        (status = et_append_open(&sink->file, path, (int64_t)offset, whole_lines, error)))
        et_free(sink);
    else
        *out = &sink->sink;
    return status;
}
