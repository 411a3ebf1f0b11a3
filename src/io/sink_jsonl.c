/* One JSON line per log, for scripts. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "io/append.h"
#include "io/sink.h"

typedef struct jsonl {
    et_sink sink;
    et_append file;
    et_strbuf line;
} jsonl;

static const et_sink_class jsonl_class;

/* A log as it is to be printed: step first, time last, with the wall clock in it. */
static int make_line(et_value **out, et_arena *arena, int64_t step, const et_value *values,
                     et_error *error)
{
    et_value *line = et_value_dict(arena);
    if (et_value_set_int(line, "step", step) == NULL)
        return et_alloc_failed(error, 0, "a log");
    const int status = et_value_merge(line, values, error);
    if (status)
        return status;
    et_value *clock = et_value_get(line, ET_SINK_TIME);
    if (clock == NULL)
        clock = et_value_set_dict(line, ET_SINK_TIME);
    if (et_value_set_float(clock, "wall", et_clock_wall()) == NULL)
        return et_alloc_failed(error, 0, "a log");
    *out = line;
    return ET_OK;
}

static int jsonl_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    jsonl *sink = (jsonl *)self;
    et_arena arena = ET_ARENA_INIT;
    et_value *line = NULL;
    int status = make_line(&line, &arena, step, values, error);
    if (!status) {
        et_strbuf_reset(&sink->line);
        et_json_print(&sink->line, line, 0);
        et_strbuf_append_char(&sink->line, '\n');
        status = sink->line.failed
                     ? et_alloc_failed(error, sink->line.length, "a log")
                     : et_append_write(&sink->file, sink->line.data, sink->line.length, error);
    }
    et_arena_release(&arena);
    return status;
}

static int jsonl_flush(et_sink *self, et_error *error)
{
    return et_append_flush(&((jsonl *)self)->file, error);
}

static void jsonl_positions(const et_sink *self, et_value *out)
{
    et_value_set_int(out, jsonl_class.name, (int64_t)((const jsonl *)self)->file.offset);
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

/* Up to and with the last line end. */
static int whole_lines(uint64_t *out, const char *path, et_error *error)
{
    et_mapping mapping;
    const int status = et_mapping_open(&mapping, path, error);
    if (status)
        return status;
    const char *text = mapping.data;
    const char *last = mapping.length > 0 ? memrchr(text, '\n', mapping.length) : NULL;
    *out = last == NULL ? 0 : (uint64_t)(last - text) + 1;
    et_mapping_close(&mapping);
    return ET_OK;
}

int et_sink_jsonl_open(et_sink **out, const char *path, const et_value *positions, et_error *error)
{
    *out = NULL;
    int64_t offset = 0;
    int status = ET_OK;
    if (et_value_get(positions, jsonl_class.name) != NULL)
        status = et_value_read_int(positions, jsonl_class.name, &offset, error);
    if (status || offset < 0)
        return status ? status : et_fail(error, ET_EFORMAT, "%s: a negative position", path);
    jsonl *sink = et_alloc_zero(1, sizeof *sink);
    if (sink == NULL)
        return et_alloc_failed(error, sizeof *sink, path);
    sink->sink.class = &jsonl_class;
    status = et_append_open(&sink->file, path, offset, whole_lines, error);
    if (status)
        et_free(sink);
    else
        *out = &sink->sink;
    return status;
}
