/* Evaluations by step. All lines are read once, at the start. Each line goes into the new event
 * file, and the last line has the step at which to continue. So a kill between writing the two
 * files loses nothing, and no position is stored. */
#include "command/evaluation_log.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/events/event.h"
#include "formats/events/sink.h"
#include "train/checkpoint/run_names.h"

/* A dict with the same children, without those named. NULL: no memory. */
static et_value *without(const et_value *dict, const char *const *names, et_arena *arena)
{
    et_value *rest = et_value_dict(arena);
    for (const et_value *child = dict->first; rest && child; child = child->next)
        if (!et_is_one_of(child->key, names))
            et_value_append_copy(rest, child->key, child);
    return et_value_failed(rest) ? NULL : rest;
}

static int replay(et_evaluation_log *log, et_sink *events, const et_value *line, et_arena *arena,
                  et_error *error)
{
    int64_t step;
    int status = et_value_read_int(line, "step", &step, error);
    if (status)
        return status;
    if (step <= log->last)
        return et_fail(error, ET_EFORMAT,
                       "step %" PRId64 " comes after step %" PRId64
                       "; remove the file to evaluate all checkpoints again",
                       step, log->last);
    const et_value *values =
        without(line, (const char *const[]){ "step", ET_SINK_TIME, NULL }, arena);
    status = values ? et_sink_write(events, step, values, error) : et_alloc_failed(error, "values");
    if (status)
        return status;
    log->last = step;
    log->count++;
    return ET_OK;
}

static int replay_all(et_evaluation_log *log, et_sink *events, const char *path, et_error *error)
{
    et_json_lines lines;
    et_value *line;
    int status = et_json_lines_open(&lines, path, SIZE_MAX, error);
    if (status)
        return status;
    while (!status && !(status = et_json_lines_next(&lines, &line, error)) && line)
        status = replay(log, events, line, &lines.arena, error);
    if (status)
        et_fail_while(error, status, "%s:%" PRId64, path, lines.number);
    et_json_lines_close(&lines);
    return status;
}

/* The log is continued after its whole lines. */
static int open_log(et_sink **out, const char *path, int64_t lines, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *positions = et_value_dict(&arena);
    et_value_set_int(positions, "jsonl", lines);
    int status = et_value_failed(positions) ? et_alloc_failed(error, path)
                                            : et_sink_jsonl_open(out, path, positions, error);
    et_arena_release(&arena);
    return status;
}

static int open_files(et_evaluation_log *log, const char *directory, const char *path,
                      et_error *error)
{
    et_sink *sinks[2] = { NULL, NULL };
    int status = et_sink_events_open_as(&sinks[1], directory, ET_EVENTS_MEASURED, error);
    if (!status && et_file_exists(path))
        status = replay_all(log, sinks[1], path, error);
    if (!status)
        status = open_log(&sinks[0], path, log->count, error);
    if (!status)
        return et_sink_multi_open(&log->sink, sinks, 2, error);
    et_sink_close(sinks[1], NULL);
    return status;
}

int et_evaluation_log_open(et_evaluation_log *log, const char *directory, et_error *error)
{
    et_assert(directory && *directory);
    *log = (et_evaluation_log)ET_EVALUATION_LOG_INIT;
    int status;
    if (!(status = et_directory_make(directory, error)) &&
        !(status = et_lock_take(&log->lock, et_path_of(directory, ET_RUN_LOCK).text, error)))
        status = open_files(log, directory, et_path_of(directory, ET_RUN_LOG).text, error);
    if (status)
        et_evaluation_log_close(log, NULL);
    return status;
}

int et_evaluation_log_add(et_evaluation_log *log, int64_t step, const et_value *values,
                          et_error *error)
{
    et_assert(step > log->last && log->last >= -1);
    et_assert(log->sink && log->lock >= 0);
    et_assert(log->count >= 0 && !log->count == (log->last < 0));
    et_assert(values->kind == ET_VALUE_DICT);
    int status;
    if ((status = et_sink_write(log->sink, step, values, error)) ||
        (status = et_sink_flush(log->sink, error)))
        return status;
    log->last = step;
    log->count++;
    return ET_OK;
}

int et_evaluation_log_close(et_evaluation_log *log, et_error *error)
{
    int status = et_sink_close(log->sink, error);
    if (log->lock >= 0)
        et_lock_drop(log->lock);
    *log = (et_evaluation_log)ET_EVALUATION_LOG_INIT;
    return status;
}

int et_evaluation_log_find_last(et_value **values, const char *path, const char *name,
                                et_arena *arena, et_error *error)
{
    et_json_lines lines;
    et_value *line;
    int status = et_json_lines_open(&lines, path, SIZE_MAX, error);
    *values = NULL;
    if (status)
        return status;
    while (!status && !(status = et_json_lines_next(&lines, &line, error)) && line) {
        const et_value *dict = et_value_get(line, name);
        if (!dict || dict->kind != ET_VALUE_DICT)
            continue;
        const et_value *rest =
            without(dict, (const char *const[]){ ET_SINK_TIME, ET_SINK_NOTE, NULL }, &lines.arena);
        *values = rest ? et_value_dict(arena) : NULL;
        status = *values ? et_value_merge(*values, rest, error) : et_alloc_failed(error, "values");
    }
    if (status)
        et_fail_while(error, status, "%s:%" PRId64, path, lines.number);
    else if (!*values)
        status = et_fail(error, ET_ENOTFOUND, "%s: no log of %s", path, name);
    et_json_lines_close(&lines);
    return status;
}
