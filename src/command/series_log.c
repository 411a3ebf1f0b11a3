#include "command/series_log.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "systems/modelgarden/series.h"
#include "systems/training/session.h"
#include "train/checkpoint/artifact/artifact.h"

#define LOG_MAX ((size_t)1 << 20)

static int take_line(et_series_log *log, const et_value *line, et_error *error)
{
    const char *name;
    et_series_entry entry = { .left_out = et_value_get(line, "left_out") != NULL };
    entry.done = !entry.left_out;
    int status = et_value_read_string(line, "candidate", &name, error);
    if (!status && entry.done)
        status = et_value_read_float(line, "seconds", &entry.seconds, error);
    for (int i = 0; !status && i < log->run->count; i++)
        if (!strcmp(log->run->candidate[i].name, name)) {
            log->item[i] = entry;
            return ET_OK;
        }
    return status ? status
                  : et_fail(error, ET_EFORMAT, "%s: there is no candidate %.80s in this run",
                            log->path.text, name);
}

int et_series_log_open(et_series_log *log, const char *model_dir, const et_series_run *run,
                       et_error *error)
{
    et_assert(model_dir && run->count >= 0 && (run->candidate || !run->count));
    *log = (et_series_log){ .run = run, .text = ET_STRBUF_INIT };
    log->path = et_path_of(model_dir, ET_SERIES_LOG);
    const char *path = log->path.text;
    if (ET_ALLOC_ZERO(log->item, run->count, "candidates", error))
        return ET_ENOMEM;
    if (!et_file_exists(path))
        return ET_OK;
    et_json_lines lines;
    et_value *line;
    int status = et_json_lines_open(&lines, path, LOG_MAX, error);
    if (status)
        return status;
    while (!status && !(status = et_json_lines_next(&lines, &line, error)) && line)
        status = take_line(log, line, error);
    if (status == ET_EFORMAT && !line)
        status = et_fail(error, status,
                         "%s:%" PRId64 ": not an object of JSON; remove this line, and the "
                         "candidate is trained again",
                         path, lines.number);
    if (!status && lines.at < lines.end)
        status = et_fail(error, ET_EFORMAT, "%s: the last line is not whole", path);
    et_strbuf_append_bytes(&log->text, lines.text, (size_t)(lines.at - lines.text));
    et_json_lines_close(&lines);
    return status;
}

void et_series_log_close(et_series_log *log)
{
    et_free(log->item);
    if (log->run)
        et_strbuf_release(&log->text);
}

/* ---- progress ---- */

/* Each file NAME.yaml in members/ is a candidate. Its trainings are the folders NAME, or with K
 * folds NAME_1 to NAME_K. members.jsonl lists the candidates that are done or left out. */
#define SETTINGS ".yaml"

typedef struct members {
    et_path folder;
    struct dirent **items; /* [count], sorted; with malloc */
    int count;
} members;

static int select_all(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

static members open_members(const char *model_dir)
{
    members m = { .folder = et_path_of(model_dir, ET_SERIES_FOLDER) };
    const int count = scandir(m.folder.text, &m.items, select_all, alphasort);
    m.count = count > 0 ? count : 0;
    return m;
}

static void close_members(members *m)
{
    for (int i = 0; i < m->count; i++)
        free(m->items[i]);
    free(m->items);
}

bool et_series_is_unfinished(const char *model_dir)
{
    return et_file_exists_in(model_dir, ET_SERIES_FOLDER) &&
           !et_file_exists_in(model_dir, ET_ARTIFACT_WEIGHTS);
}

const char *et_series_reason(const char *model_dir)
{
    const char *reason = "interrupted";
    if (!et_file_exists_in(model_dir, ET_SERIES_FOLDER))
        return NULL;
    if (!et_series_is_unfinished(model_dir))
        return "done";
    members m = open_members(model_dir);
    for (int i = 0; i < m.count; i++) {
        const char *its = et_session_reason(et_path_of(m.folder.text, m.items[i]->d_name).text);
        reason = its && strcmp(its, "done") != 0 && strcmp(its, "interrupted") != 0 ? its : reason;
    }
    close_members(&m);
    return reason;
}

/* The folder of the candidate's latest training; NULL: no training has begun. */
static const char *last_training(const members *m, const char *name)
{
    const size_t length = strlen(name);
    const char *last = NULL;
    long most = -1;
    for (int i = 0; i < m->count; i++) {
        char *folder = m->items[i]->d_name, *end = folder + length;
        if (strncmp(folder, name, length) != 0)
            continue;
        const bool whole = !*end;
        const long fold = *end == '_' ? strtol(end + 1, &end, 10) : 0;
        if (!*end && (whole || fold > 0) && fold > most) {
            most = fold;
            last = folder;
        }
    }
    return last;
}

void et_series_describe(et_strbuf *out, const char *model_dir)
{
    et_assert(out && model_dir);
    et_arena arena = ET_ARENA_INIT;
    members m = open_members(model_dir);
    et_series_candidate *all = et_arena_array(&arena, (size_t)m.count + 1, sizeof *all);
    et_series_run run = { .candidate = all };
    et_series_log log = { .item = NULL };
    for (int i = 0; all && i < m.count; i++) {
        const char *file = m.items[i]->d_name;
        const size_t length = strlen(file), end = sizeof SETTINGS - 1;
        if (length <= end || strcmp(file + length - end, SETTINGS) != 0)
            continue;
        const char *name = et_arena_strndup(&arena, file, length - end);
        if (name)
            all[run.count++] = (et_series_candidate){ .name = name };
    }
    /* Of a damaged log, the lines before the damage count. */
    if (run.count)
        (void)et_series_log_open(&log, model_dir, &run, NULL);
    for (int i = 0; log.item && i < run.count; i++) {
        const et_series_entry *entry = &log.item[i];
        const bool over = entry->done || entry->left_out;
        const char *training = over ? NULL : last_training(&m, run.candidate[i].name);
        et_strbuf_printf(out, "%s%s: ", out->length ? "; " : "", run.candidate[i].name);
        if (training)
            et_strbuf_printf(out, "in training (%s/%s)", m.folder.text, training);
        else
            et_strbuf_append(out, entry->done       ? "done"
                                  : entry->left_out ? "left out"
                                                    : "not begun");
    }
    et_series_log_close(&log);
    close_members(&m);
    et_arena_release(&arena);
}
