/* Each file NAME.yaml in members/ is a candidate. Its trainings are the folders NAME, or with K
 * folds NAME_1 to NAME_K. members.jsonl lists the candidates that are done or left out. */
#include "command/series_state.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "command/series_log.h"
#include "command/session.h"
#include "systems/modelgarden/series.h"
#include "train/checkpoint/artifact/artifact.h"

#define SETTINGS ".yaml"

typedef struct members {
    const char *model_dir;
    et_arena arena;
    char *folder;
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
    m->folder = et_arena_printf(&m->arena, "%s/" ET_SERIES_FOLDER, model_dir);
    const int count = m->folder ? scandir(m->folder, &m->items, select_all, alphasort) : 0;
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
            const char *path = et_arena_printf(&m.arena, "%s/%s", m.folder, m.items[i]->d_name);
            const char *its = path ? et_session_reason(path) : NULL;
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
    const char *path = et_arena_printf(&m.arena, "%s/" ET_SERIES_LOG, model_dir);
    /* If the log is damaged: the lines before the damage. */
    if (path && run.count)
        (void)et_series_log_open(&log, path, &run, NULL);
    for (int i = 0; log.item && i < run.count; i++) {
        const char *name = run.candidate[i].name;
        const et_series_entry *entry = &log.item[i];
        const bool over = entry->done || entry->left_out;
        const char *training = over ? NULL : last_training(&m, name, strlen(name));
        et_strbuf_printf(out, "%s%s: ", out->length ? "; " : "", name);
        if (training)
            et_strbuf_printf(out, "in training (%s/%s)", m.folder, training);
        else
            et_strbuf_append(out, entry->done       ? "done"
                                  : entry->left_out ? "left out"
                                                    : "not begun");
    }
    et_series_log_close(&log);
    close_members(&m);
}
