#include "command/series_log.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"

#define LOG_MAX ((size_t)1 << 20)

static int read_line(et_series_log *log, const char *line, size_t length, int number,
                     et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *value;
    const char *name = NULL;
    et_series_entry entry = { .done = true };
    int status = et_json_parse(&value, &arena, line, length, log->path, error);
    if (status == ET_EFORMAT)
        status = et_fail(error, status,
                         "%s:%d: not an object of JSON; remove this line, and the candidate is "
                         "trained again",
                         log->path, number);
    if (!status)
        status = et_value_read_string(value, "candidate", &name, error);
    entry.left_out = !status && et_value_get(value, "left_out");
    entry.done = !entry.left_out;
    if (!status && entry.done)
        status = et_value_read_float(value, "seconds", &entry.seconds, error);
    int which = 0;
    while (!status && which < log->run->count && strcmp(log->run->candidate[which].name, name) != 0)
        which++;
    if (!status && which == log->run->count)
        status = et_fail(error, ET_EFORMAT, "%s: there is no candidate %.80s in this run",
                         log->path, name);
    if (!status)
        log->item[which] = entry;
    et_arena_release(&arena);
    return status;
}

static int read_lines(et_series_log *log, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, log->path, LOG_MAX, error);
    if (status)
        return status;
    const char *line = text, *const end = text + length, *next;
    int number = 1;
    for (; !status && (next = memchr(line, '\n', (size_t)(end - line))) != NULL; line = next + 1) {
        status = read_line(log, line, (size_t)(next - line), number++, error);
        et_strbuf_append_bytes(&log->text, line, (size_t)(next + 1 - line));
    }
    if (!status && line < end)
        status = et_fail(error, ET_EFORMAT, "%s: the last line is not whole", log->path);
    et_free(text);
    return status;
}

int et_series_log_open(et_series_log *log, const char *path, const et_series_run *run,
                       et_error *error)
{
    et_assert(path && run->count >= 0 && (run->candidate || !run->count));
    *log = (et_series_log){ .run = run, .path = path, .text = ET_STRBUF_INIT };
    log->item = et_alloc_zero((size_t)run->count, sizeof *log->item);
    if (!log->item)
        return et_alloc_failed(error, (size_t)run->count * sizeof *log->item, "candidates");
    return et_file_exists(path) ? read_lines(log, error) : ET_OK;
}

void et_series_log_close(et_series_log *log)
{
    et_free(log->item);
    if (log->run)
        et_strbuf_release(&log->text);
}

/* Writes the whole file again: it is small, and never ends within a line. */
static int add_line(et_series_log *log, const et_value *line, et_error *error)
{
    et_json_print(&log->text, line, 0);
    et_strbuf_append_char(&log->text, '\n');
    return et_value_failed(line) || log->text.failed
               ? et_alloc_failed(error, log->text.length, "candidates")
               : et_file_write(log->path, et_strbuf_text(&log->text), log->text.length, error);
}

int et_series_log_add(et_series_log *log, int which, const et_series_score *score, double seconds,
                      et_error *error)
{
    et_assert(which >= 0 && which < log->run->count && score);
    et_arena arena = ET_ARENA_INIT;
    et_value *line = et_value_dict(&arena);
    et_value_set_string(line, "candidate", log->run->candidate[which].name);
    et_value_set_float(line, "seconds", seconds);
    et_value *values = et_value_set_dict(line, "values");
    et_value *deviation = et_value_set_dict(line, "deviation");
    for (int i = 0; i < ET_SERIES_METRICS; i++) {
        et_value_set_float(values, score->metric[i], score->mean[i]);
        et_value_set_float(deviation, score->metric[i], score->deviation[i]);
    }
    int status = add_line(log, line, error);
    if (!status)
        log->item[which] = (et_series_entry){ .done = true, .seconds = seconds };
    et_arena_release(&arena);
    return status;
}

int et_series_log_leave_out(et_series_log *log, int which, const char *why, et_error *error)
{
    et_assert(which >= 0 && which < log->run->count && why);
    et_arena arena = ET_ARENA_INIT;
    et_value *line = et_value_dict(&arena);
    et_value_set_string(line, "candidate", log->run->candidate[which].name);
    et_value_set_string(line, "left_out", why);
    int status = add_line(log, line, error);
    if (!status)
        log->item[which].left_out = true;
    et_arena_release(&arena);
    return status;
}

bool et_series_log_has_done(const et_series_log *log)
{
    et_assert(log->run && log->item);
    bool done = false;
    for (int i = 0; i < log->run->count; i++)
        done |= log->item[i].done;
    return done;
}

double et_series_log_pace(const et_series_log *log)
{
    et_assert(log->run && log->item);
    double seconds = ET_SERIES_PLANNED, cost = ET_SERIES_PLANNED;
    for (int i = 0; i < log->run->count; i++)
        if (log->item[i].done) {
            seconds += log->item[i].seconds;
            cost += log->run->candidate[i].cost;
        }
    return seconds / cost;
}
