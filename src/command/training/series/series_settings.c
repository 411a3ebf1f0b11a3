/* Settings that the user gives to the run are settings of each training, if its model has them. For
 * example, the width of layers has no effect on a model without layers: it keeps its own settings,
 * and Etude prints this. */
#include "command/training/series/series_settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/print.h"

static bool is_same(const et_value *a, const et_value *b)
{
    et_strbuf x = ET_STRBUF_INIT, y = ET_STRBUF_INIT;
    et_json_print(&x, a, 0);
    if (b)
        et_json_print(&y, b, 0);
    const bool same =
        b && !x.failed && !y.failed && !strcmp(et_strbuf_text(&x), et_strbuf_text(&y));
    et_strbuf_release(&x);
    et_strbuf_release(&y);
    return same;
}

typedef struct giving {
    const et_experiment *run, *candidate;
    const char *alone; /* a setting that is left out; NULL: none */
    et_strbuf *unused; /* names of settings that the candidate has no use for */
} giving;

/* The values that differ from those of a new run of the same experiment, and the values that the
 * user gave. */
static void keep_given(const giving *g, et_value *out, const et_value *now, const et_value *usual,
                       const char *path)
{
    for (const et_value *v = now->first; v; v = v->next) {
        /* "task.target" below "task". */
        const char *name = *path ? et_arena_printf(out->arena, "%s.%s", path, v->key)
                                 : et_arena_strdup(out->arena, v->key);
        const et_value *other = et_value_get(usual, v->key);
        if (!name)
            return;
        if (g->alone && !strcmp(name, g->alone))
            continue;
        if (v->kind == ET_VALUE_DICT && v->first) {
            et_value *group = et_value_dict(out->arena);
            if (group)
                keep_given(g, group, v, other, name);
            if (group && group->first)
                et_value_append(out, v->key, group);
        } else if (is_same(v, other) && !et_fields_was_given(&g->run->given, name)) {
            continue;
        } else if (et_fields_is_open(g->candidate->table, g->candidate, name)) {
            et_value_append_copy(out, v->key, v);
        } else {
            et_strbuf_printf(g->unused, "%s%s", g->unused->length ? ", " : "", name);
        }
    }
}

/* Settings on top of a candidate's own: RUN/members/mlp.yaml. */
static const char *given_path(const et_series_settings *s, et_arena *arena,
                              const et_series_candidate *candidate)
{
    return et_arena_printf(arena, "%s/" ET_SERIES_FOLDER "/%s.yaml", s->run_dir, candidate->name);
}

static int write_given(const et_series_settings *s, const et_series_candidate *candidate,
                       const et_value *now, const et_value *usual, et_error *error)
{
    et_experiment own;
    et_strbuf text = ET_STRBUF_INIT, unused = ET_STRBUF_INIT;
    const giving g = { s->experiment, &own, et_series_of(s->experiment)->alone, &unused };
    const char *path = given_path(s, s->arena, candidate);
    et_value *given = et_value_dict(s->arena), *all = et_value_dict(s->arena);
    int status =
        et_experiment_begin(&own, s->program, candidate->training->experiment, s->arena, error);
    if (!status && given)
        keep_given(&g, given, now, usual, "");
    if (!status && candidate->training->defaults)
        status = et_yaml_parse_value(&all, s->arena, candidate->training->defaults, candidate->name,
                                     error);
    if (!status && given && all)
        status = et_value_merge(all, given, error);
    if (!status && all && all->first)
        et_yaml_print(&text, all);
    if (!status)
        status =
            et_value_failed(given) || et_value_failed(all) || text.failed || unused.failed || !path
                ? et_alloc_failed(error, 0, "settings")
                : et_file_write(path, et_strbuf_text(&text), text.length, error);
    if (!status && unused.length && !s->args->quiet)
        et_print(stderr, "%-12s keeps its own values of %s\n", candidate->name,
                 et_strbuf_text(&unused));
    et_strbuf_release(&text);
    et_strbuf_release(&unused);
    return status;
}

/* The settings of a training as a run of its own. */
int et_series_settings_args(const et_series_settings *s, et_train_args *args,
                            const et_series_candidate *candidate, int which, et_arena *arena,
                            et_error *error)
{
    const et_series_training *training = &candidate->training[which];
    const char **texts = et_arena_array(arena, 2, sizeof *texts);
    *args = *s->args;
    args->model_dir =
        et_arena_printf(arena, "%s/" ET_SERIES_FOLDER "/%s", s->run_dir, training->name);
    args->experiment = training->experiment;
    args->settings.count = 0;
    args->quiet = !args->verbose;
    args->counted =
        s->args->quiet ? NULL
        : candidate->count > 1
            ? et_arena_printf(arena, "%s %d/%d  step", candidate->name, which + 1, candidate->count)
            : et_arena_printf(arena, "%s  step", candidate->name);
    args->reported = s->reported;
    if (!texts || !args->model_dir || !(texts[0] = given_path(s, arena, candidate)))
        return et_alloc_failed(error, 0, "settings");
    texts[1] = training->settings;
    args->config = (et_strings){ texts, 1 };
    args->set = (et_strings){ texts + 1, training->settings ? 1 : 0 };
    return ET_OK;
}

/* Removes the files that a failed start has written in a new directory. */
void et_series_settings_remove(const et_series_settings *s)
{
    et_arena arena = ET_ARENA_INIT;
    const char *folder = et_arena_printf(&arena, "%s/" ET_SERIES_FOLDER, s->run_dir);
    for (int i = 0; s->run && i < s->run->count; i++) {
        const char *path = given_path(s, &arena, &s->run->candidate[i]);
        if (path)
            unlink(path);
    }
    if (folder)
        rmdir(folder);
    et_arena_release(&arena);
}

/* Checks that a candidate can be trained. All are checked before the first training. */
static int check_candidate(const et_series_settings *s, const et_series_candidate *candidate,
                           et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_train_args args;
    et_experiment experiment;
    et_initial initial;
    int status = et_series_settings_args(s, &args, candidate, 0, &arena, error);
    if (!status)
        status = et_train_configure(&experiment, &initial, &args, s->program, &arena, error);
    if (!status)
        et_initial_close(&initial);
    et_arena_release(&arena);
    return status ? et_fail_while(error, status, "candidate %s", candidate->name) : ET_OK;
}

int et_series_settings_make(const et_series_settings *s, et_error *error)
{
    et_experiment usual;
    const char *folder = et_arena_printf(s->arena, "%s/" ET_SERIES_FOLDER, s->run_dir);
    int status = et_experiment_begin(&usual, s->program, s->experiment->name, s->arena, error);
    if (status)
        return status;
    et_experiment_resolve_precision(&usual);
    const et_value *now = et_fields_effective(s->experiment->table, s->experiment, s->arena);
    const et_value *other = et_fields_effective(usual.table, &usual, s->arena);
    status = folder && now && other ? et_directory_make(folder, error)
                                    : et_alloc_failed(error, 0, "settings");
    for (int i = 0; i < s->run->count && !status; i++) {
        status = write_given(s, &s->run->candidate[i], now, other, error);
        if (!status)
            status = check_candidate(s, &s->run->candidate[i], error);
    }
    return status;
}
