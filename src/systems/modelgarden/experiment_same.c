/* Compares the settings of a start with those of an existing run. Both are echoed as trees
 * (et_fields_echo) and compared leaf by leaf. The tables say whether a leaf may change
 * (et_field_change) and whether it has an effect, so no list of members can miss a new one.
 *
 *   free             may change: duration, intervals, speed; paths of files, whose contents are
 *                    compared elsewhere
 *   fixed, model     must be equal: ET_ECONFIG, with both values
 *   ask              may change with --accept-changes, then with a warning
 *
 * A list of groups that may not change is one leaf, and the message names the first member that
 * differs. In any other list, each group is compared.
 *
 * A checkpoint keeps the leaves that may not change (train/checkpoint/identity.h). Its values have
 * priority over params.yaml, which has no checksum. So a changed digit in params.yaml is found, and
 * a start with the right value repairs the file. A leaf that an older checkpoint lacks is read from
 * params.yaml.
 *
 * Examples: trainer.train_steps 2000 -> 4000 resumes, unless the learning rate falls to its end
 * with the run, because the rate then changes. A layer's width 128 -> 256 is another model.
 * trainer.optimizer_config.learning_rate.* needs --accept-changes. */
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/run_names.h"

/* ---- leaves ---- */

typedef struct walk walk;

/* Called for each leaf that may not change; walk->path is its path. */
typedef int leaf_fn(walk *w, const et_value *leaf);

struct walk {
    leaf_fn *visit;
    et_strbuf path;         /* of the visited leaf; grows and shrinks with the depth */
    et_field_change change; /* of the leaf */
    et_error *error;
    const et_value *kept;        /* settings of params.yaml as a tree; NULL: not compared */
    const et_identity *identity; /* of the checkpoint */
    const char *model_dir;       /* for messages */
    const char *source;          /* of settings, for messages */
    bool accept;                 /* --accept-changes was given */
    et_value *values;            /* identity in the making */
};

/* The identity's tree of the leaf: the model's computation, or its training. */
static const char *tree_of(const walk *w)
{
    return w->change == ET_CHANGE_MODEL ? ET_IDENTITY_MODEL : ET_IDENTITY_TRAINING;
}

static int descend(walk *w, const et_fields *table, const et_value *dict, et_field_change change);

/* Whether a table, or a list in it, has a setting that may not change. */
static bool holds_fixed(const et_fields *table)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++)
        if (field->change > ET_CHANGE_FREE || (field->nested && holds_fixed(field->nested)))
            return true;
    return false;
}

/* Compares item by item: "a.list[0].b". The number of items is a leaf, "a.list[]", that may not
 * change. */
static int descend_list(walk *w, const et_field *field, const et_value *list)
{
    size_t length = w->path.length;
    et_value count = { .kind = ET_VALUE_INT, .integer = (int64_t)list->count };
    int status = ET_OK, i = 0;
    if (!holds_fixed(field->nested))
        return ET_OK;
    et_strbuf_append(&w->path, "[]");
    w->change = ET_CHANGE_MODEL;
    status = w->path.failed ? et_alloc_failed(w->error, "settings") : w->visit(w, &count);
    et_strbuf_truncate(&w->path, length);
    for (const et_value *item = list->first; item && !status; item = item->next) {
        et_strbuf_printf(&w->path, "[%d]", i++);
        status = descend(w, field->nested, item, ET_CHANGE_FREE);
        et_strbuf_truncate(&w->path, length);
    }
    return status;
}

/* Walks the tables together with their values. change: of the group. */
static int descend(walk *w, const et_fields *table, const et_value *dict, et_field_change change)
{
    const et_value *value = dict->first;
    size_t length = w->path.length;
    int status = ET_OK;
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END && !status;
         field++, value = value->next) {
        et_field_change own = field->change ? field->change : change;
        et_assert(value && !strcmp(value->key, field->name));
        et_strbuf_append(&w->path, length ? "." : "");
        et_strbuf_append(&w->path, field->name);
        w->change = own;
        if (w->path.failed)
            status = et_alloc_failed(w->error, "settings");
        else if (!et_fields_counts(table, field, dict))
            status = ET_OK;
        else if (field->kind == ET_FIELD_KIND_STRUCT)
            status = descend(w, field->nested, value, own);
        else if (own > ET_CHANGE_FREE)
            status = w->visit(w, value);
        else if (field->kind == ET_FIELD_KIND_STRUCTS)
            status = descend_list(w, field, value);
        et_strbuf_truncate(&w->path, length);
    }
    return status;
}

/* A decay without a length gets the length of the run, because it changes the rate. */
static int echo(const et_value **out, const et_experiment *experiment, et_arena *arena,
                et_error *error)
{
    et_experiment whole = *experiment;
    et_trainer_options *trainer = &whole.trainer;
    int status = et_optimization_end_with_run(&trainer->optimizer_config, trainer->train_steps,
                                              arena, error);
    *out = status ? NULL : et_fields_echo(whole.table, &whole, arena);
    return status || *out ? status : et_alloc_failed(error, "settings");
}

/* In the tables' order: the first difference is reported. */
static int walk_leaves(walk *w, const et_experiment *experiment, et_arena *arena)
{
    const et_value *root;
    int status = echo(&root, experiment, arena, w->error);
    if (!status)
        status = descend(w, experiment->table, root, ET_CHANGE_FREE);
    et_strbuf_release(&w->path);
    return status;
}

/* ---- the settings in a checkpoint ---- */

/* Copies a leaf to its place: a.b.c=1 as {a: {b: {c: 1}}}; makes missing dicts. */
static int keep_leaf(walk *w, const et_value *leaf)
{
    et_arena *arena = w->values->arena;
    et_value *dict = et_value_get(w->values, tree_of(w));
    char *part = et_arena_strdup(arena, et_strbuf_text(&w->path));
    if (!part)
        return et_alloc_failed(w->error, "settings");
    for (char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1) {
        *dot = 0;
        et_value *below = et_value_get(dict, part);
        dict = below ? below : et_value_set_dict(dict, part);
        if (!dict)
            return et_alloc_failed(w->error, "settings");
    }
    return et_value_append_copy(dict, part, leaf) ? ET_OK : et_alloc_failed(w->error, "settings");
}

int et_experiment_identify(et_value **out, const et_experiment *experiment,
                           int (*own)(const et_task *task, et_value *identity, et_error *error),
                           const et_task *task, et_arena *arena, et_error *error)
{
    et_value *identity = *out = et_value_dict(arena);
    walk w = { .visit = keep_leaf, .path = ET_STRBUF_INIT, .error = error, .values = identity };
    int status = identity ? ET_OK : et_alloc_failed(error, "settings");
    if (!status && own)
        status = own(task, identity, error);
    if (status)
        return status;
    et_value_set_dict(identity, ET_IDENTITY_MODEL);
    if (!et_value_set_dict(identity, ET_IDENTITY_TRAINING))
        return et_alloc_failed(error, "settings");
    status = walk_leaves(&w, experiment, arena);
    return status || !et_value_failed(identity) ? status : et_alloc_failed(error, "settings");
}

/* ---- comparing ---- */

/* Prints the first line of the value's YAML, which is all of a scalar; a list of groups as JSON, on
 * one line. */
static void print_value(et_strbuf *out, const et_value *value)
{
    if (value->kind == ET_VALUE_LIST && value->first && value->first->kind == ET_VALUE_DICT) {
        et_json_print(out, value, 0);
        return;
    }
    et_strbuf whole = ET_STRBUF_INIT;
    et_yaml_print(&whole, value);
    const char *text = et_strbuf_text(&whole);
    et_strbuf_append_bytes(out, text, strcspn(text, "\n"));
    et_strbuf_release(&whole);
}

/* A leaf's value in the checkpoint; NULL: the checkpoint lacks it. */
static const et_value *leaf_of(const walk *w)
{
    const et_value *values = w->identity ? w->identity->values : NULL;
    return et_value_path(et_value_get(values, tree_of(w)), et_strbuf_text(&w->path));
}

/* Whether two leaves differ; then both become the first values that do, and path their place. In
 * groups of a list, a member that an older checkpoint lacks is not compared. */
static bool find_difference(et_strbuf *path, const et_value **there, const et_value **now)
{
    const et_value *was = *there, *is = *now;
    const bool dict = is->kind == ET_VALUE_DICT && was->kind == ET_VALUE_DICT;
    const bool list = is->kind == ET_VALUE_LIST && was->kind == ET_VALUE_LIST && is->first &&
                      is->first->kind == ET_VALUE_DICT && was->count == is->count;
    if (!dict && !list)
        return !et_identity_same(was, is);
    const et_value *next = was->first;
    int at = 0;
    for (const et_value *item = is->first; item; item = item->next, at++) {
        const et_value *old = list ? next : et_value_get(was, item->key);
        const size_t length = path->length;
        next = list ? next->next : NULL;
        if (!old)
            continue;
        if (list)
            et_strbuf_printf(path, "[%d]", at);
        else
            et_strbuf_printf(path, ".%s", item->key);
        *there = old;
        *now = item;
        if (find_difference(path, there, now))
            return true;
        et_strbuf_truncate(path, length);
    }
    *there = was;
    *now = is;
    for (const et_value *item = dict ? was->first : NULL; item; item = item->next)
        if (!et_value_get(is, item->key))
            return true;
    return false;
}

/* Three outcomes: refused, refused with a way to continue, accepted with a warning. */
static int report_difference(const walk *w, const char *owner, const char *kept, const char *now)
{
    const char *path = et_strbuf_text(&w->path);
    if (w->change != ET_CHANGE_ASK)
        return et_fail(w->error, ET_ECONFIG,
                       "%s belongs to a run with %s: %s, but now it is %s. Set the old value to "
                       "resume (%s, or in %s/" ET_RUN_SETTINGS
                       "), or train another run (--model-dir)",
                       owner, path, kept, now, w->source, w->model_dir);
    if (!w->accept)
        return et_fail(
            w->error, ET_ECONFIG,
            "%s belongs to a run with %s: %s, but now it is %s. Add --accept-changes to resume "
            "with the new value, set the old value (%s, or in %s/" ET_RUN_SETTINGS
            "), or train another run (--model-dir)",
            owner, path, kept, now, w->source, w->model_dir);
    et_log(ET_LOG_WARNING, "%s is %s from now on; it was %s", path, now, kept);
    return ET_OK;
}

/* Compares with the checkpoint's value, or without one with the value in params.yaml. */
static int compare_leaf(walk *w, const et_value *leaf)
{
    const et_value *there = leaf_of(w);
    const char *owner = there ? w->identity->checkpoint : w->model_dir;
    if (!there && w->kept)
        there = et_value_path(w->kept, et_strbuf_text(&w->path));
    if (!there || !find_difference(&w->path, &there, &leaf))
        return ET_OK;
    et_strbuf kept = ET_STRBUF_INIT, now = ET_STRBUF_INIT;
    print_value(&kept, there);
    print_value(&now, leaf);
    int status = kept.failed || now.failed
                     ? et_alloc_failed(w->error, "settings")
                     : report_difference(w, owner, et_strbuf_text(&kept), et_strbuf_text(&now));
    et_strbuf_release(&kept);
    et_strbuf_release(&now);
    return status;
}

int et_experiment_check_same(const et_experiment *kept, const et_experiment *now,
                             const et_identity *identity, const char *model_dir, bool accept,
                             et_error *error)
{
    et_assert(kept && now && model_dir);
    et_arena arena = ET_ARENA_INIT;
    walk w = { .visit = compare_leaf,
               .path = ET_STRBUF_INIT,
               .error = error,
               .identity = identity,
               .model_dir = model_dir,
               .source = now->source ? now->source : "in the settings",
               .accept = accept };
    int status = echo(&w.kept, kept, &arena, error);
    if (!status)
        status = walk_leaves(&w, now, &arena);
    et_arena_release(&arena);
    return status;
}

/* Compares only settings of the model: training settings do not change the output of the model. */
static int check_model_leaf(walk *w, const et_value *leaf)
{
    const et_value *there = leaf_of(w);
    if (!there || w->change != ET_CHANGE_MODEL || !find_difference(&w->path, &there, &leaf))
        return ET_OK;
    et_strbuf was = ET_STRBUF_INIT, is = ET_STRBUF_INIT;
    print_value(&was, there);
    print_value(&is, leaf);
    int status = et_fail(w->error, ET_ECONFIG,
                         "%s/" ET_RUN_SETTINGS
                         " does not match %s: %s is %s, but was %s in training; restore this value",
                         w->model_dir, w->identity->checkpoint, et_strbuf_text(&w->path),
                         et_strbuf_text(&is), et_strbuf_text(&was));
    et_strbuf_release(&was);
    et_strbuf_release(&is);
    return status;
}

int et_experiment_check_model(const et_experiment *experiment, const et_identity *identity,
                              const char *model_dir, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    walk w = { .visit = check_model_leaf,
               .path = ET_STRBUF_INIT,
               .error = error,
               .identity = identity,
               .model_dir = model_dir };
    int status = walk_leaves(&w, experiment, &arena);
    et_arena_release(&arena);
    return status;
}
