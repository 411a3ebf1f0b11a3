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
#include "base/values/value.h"
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
    log->item = et_alloc_zero((size_t)run->count, sizeof *log->item);
    if (!log->item)
        return et_alloc_failed(error, (size_t)run->count * sizeof *log->item, "candidates");
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
    const char *model_dir;
    et_arena arena;
    et_path folder;
    struct dirent **items; /* [count], sorted; with malloc */
    int count;
} members;

static int select_all(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

static bool open_members(members *m, const char *model_dir)
{
    *m = (members){ .model_dir = model_dir, .arena = ET_ARENA_INIT };
    m->folder = et_path_of(model_dir, ET_SERIES_FOLDER);
    const int count = scandir(m->folder.text, &m->items, select_all, alphasort);
    m->count = count > 0 ? count : 0;
    return count >= 0;
}

static void close_members(members *m)
{
    for (int i = 0; i < m->count; i++)
        free(m->items[i]);
    free(m->items);
    et_arena_release(&m->arena);
}

/* Length of the name of a candidate; 0: another file. */
static size_t candidate_length(const char *file)
{
    et_assert(file);
    const size_t length = strlen(file), end = sizeof SETTINGS - 1;
    return length > end && !strcmp(file + length - end, SETTINGS) ? length - end : 0;
}

/* The fold of a candidate's folder, from 1; 0: no folds; -1: the folder of another candidate. */
static long fold_of(const char *folder, const char *name, size_t length)
{
    if (strncmp(folder, name, length) != 0)
        return -1;
    if (!folder[length])
        return 0;
    char *end;
    const long fold = folder[length] == '_' ? strtol(folder + length + 1, &end, 10) : 0;
    return fold > 0 && !*end ? fold : -1;
}

/* The folder of the candidate's latest training; NULL: no training has begun. */
static const char *last_training(const members *m, const char *name, size_t length)
{
    const char *last = NULL;
    long most = -1;
    for (int i = 0; i < m->count; i++) {
        const long fold = fold_of(m->items[i]->d_name, name, length);
        if (fold > most) {
            most = fold;
            last = m->items[i]->d_name;
        }
    }
    return last;
}

bool et_series_is_unfinished(const char *model_dir)
{
    return et_file_exists_in(model_dir, ET_SERIES_FOLDER) &&
           !et_file_exists_in(model_dir, ET_ARTIFACT_WEIGHTS);
}

const char *et_series_reason(const char *model_dir)
{
    members m;
    const char *reason = "interrupted";
    if (!et_file_exists_in(model_dir, ET_SERIES_FOLDER))
        return NULL;
    if (!et_series_is_unfinished(model_dir))
        return "done";
    if (open_members(&m, model_dir))
        for (int i = 0; i < m.count; i++) {
            const char *its = et_session_reason(et_path_of(m.folder.text, m.items[i]->d_name).text);
            reason =
                its && strcmp(its, "done") != 0 && strcmp(its, "interrupted") != 0 ? its : reason;
        }
    close_members(&m);
    return reason;
}

/* The candidates as a plan, sorted by name. */
static et_series_run list_candidates(members *m)
{
    et_series_candidate *all = et_arena_array(&m->arena, (size_t)m->count + 1, sizeof *all);
    et_series_run run = { .candidate = all };
    for (int i = 0; all && i < m->count; i++) {
        const char *file = m->items[i]->d_name;
        const size_t length = candidate_length(file);
        const char *name = length ? et_arena_printf(&m->arena, "%.*s", (int)length, file) : NULL;
        if (name)
            all[run.count++] = (et_series_candidate){ .name = name };
    }
    return run;
}

void et_series_describe(et_strbuf *out, const char *model_dir)
{
    et_assert(out && model_dir);
    members m;
    et_series_log log = { .item = NULL };
    open_members(&m, model_dir);
    const et_series_run run = list_candidates(&m);
    /* If the log is damaged: the lines before the damage. */
    if (run.count)
        (void)et_series_log_open(&log, model_dir, &run, NULL);
    for (int i = 0; log.item && i < run.count; i++) {
        const char *name = run.candidate[i].name;
        const et_series_entry *entry = &log.item[i];
        const bool over = entry->done || entry->left_out;
        const char *training = over ? NULL : last_training(&m, name, strlen(name));
        et_strbuf_printf(out, "%s%s: ", out->length ? "; " : "", name);
        if (training)
            et_strbuf_printf(out, "in training (%s/%s)", m.folder.text, training);
        else
            et_strbuf_append(out, entry->done       ? "done"
                                  : entry->left_out ? "left out"
                                                    : "not begun");
    }
    et_series_log_close(&log);
    close_members(&m);
}
