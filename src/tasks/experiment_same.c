/* Whether the settings of a start are those of the run that is there. Both are echoed as trees
 * (et_fields_echo), and the parts named in `fixed` compared leaf by leaf; so there is no list of
 * members that could miss a new one below these paths.
 *
 *   not in `fixed`      may change: how long, how often, how fast
 *   in `fixed`          must be the same: ET_ECONFIG, with both values
 *   and `acceptable`    may change with --accept-changes, which makes it a warning
 *   and `is_path`       where files lie: may change, since their contents are compared elsewhere
 *                       (data/encoded.h)
 *
 * The leaves of `fixed` are also what a checkpoint keeps of the settings it was made with
 * (train/identity.h). What it says goes before params.yaml, which lies beside it unprotected: a
 * digit that has changed there is found, and a start with the right value mends the file. A leaf
 * that a checkpoint of another version has not is that of params.yaml.
 *
 * Example: trainer.train_steps 2000 -> 4000 goes on; task.model.embedding_width 128 -> 256 is
 * another model; trainer.optimizer_config.learning_rate.* is a person's decision. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/yaml.h"
#include "base/checksum.h"
#include "tasks/experiment.h"

/* Settings that make a run what it is. Paths of groups stand for all that is below them. */
static const char *const fixed[] = {
    "task.model.encoder",
    "task.model.decoder",
    "task.model.embedding_width",
    "task.model.dropout_rate",
    "task.model.label_smoothing",
    "task.train_data",
    "task.vocabulary",
    "trainer.optimizer_config",
    "trainer.gradient_accumulation",
    "runtime.seed",
    "runtime.mixed_precision_dtype",
};

/* What of it a person may want to change in mid-run: no saved number loses its meaning. Another
 * optimizer has other slots; those begin anew (et_state_start_slots). Looked for anywhere in a
 * path. */
static const char *const acceptable[] = {
    "trainer.optimizer_config.",
    "dropout_rate",
    "intermediate_dropout",
    "label_smoothing",
};

/* The first row covers a whole group, by its dot; the others are names of members anywhere. */
static bool is_acceptable(const char *path)
{
    for (size_t i = 0; i < sizeof acceptable / sizeof acceptable[0]; i++)
        if (strstr(path, acceptable[i]))
            return true;
    return false;
}

/* Names of files in the settings. */
static bool is_path(const char *path)
{
    static const char end[] = "_path";
    size_t length = strlen(path);
    return length > sizeof end && !strcmp(path + length - (sizeof end - 1), end);
}

/* Which of an identity's trees a leaf stands in: what a model computes, or how it was trained. */
static const char *tree_of(const char *path)
{
    bool model = !strncmp(path, "task.model.", strlen("task.model."));
    return model && !is_acceptable(path) ? ET_IDENTITY_MODEL : ET_IDENTITY_TRAINING;
}

/* ---- leaves ------------------------------------------------------------------------------ */

typedef struct walk walk;

/* Called for each leaf of `fixed`, whose path is walk->path. */
typedef int leaf_fn(walk *w, const et_value *leaf);

struct walk {
    leaf_fn *visit;
    et_strbuf path; /* of what is visited; grows and shrinks with the depth */
    et_error *error;
    const et_value *kept;        /* settings of params.yaml as a tree; NULL: not compared */
    const et_identity *identity; /* of the checkpoint */
    const char *model_dir;       /* for messages */
    bool accept;                 /* --accept-changes was given */
    et_value *values;            /* identity in the making */
};

/* As deep as the tables. A leaf: a scalar, a list or null. */
static int descend(walk *w, const et_value *value)
{
    const char *path = et_strbuf_text(&w->path);
    if (value->kind != ET_VALUE_DICT)
        return is_path(path) ? ET_OK : w->visit(w, value);
    size_t length = w->path.length;
    int status = ET_OK;
    for (const et_value *child = value->first; child && !status; child = child->next) {
        et_strbuf_printf(&w->path, ".%s", child->key);
        status = w->path.failed ? et_alloc_failed(w->error, length, "settings") : descend(w, child);
        et_strbuf_cut(&w->path, length);
    }
    return status;
}

/* All leaves of `fixed`, in its order: the first difference is the one that is said. */
static int walk_fixed(walk *w, const et_experiment *experiment, et_arena *arena)
{
    const et_value *root = et_fields_echo(&et_experiment_fields, experiment, arena);
    int status = root ? ET_OK : et_alloc_failed(w->error, 0, "settings");
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !status; i++) {
        et_strbuf_reset(&w->path);
        et_strbuf_append(&w->path, fixed[i]);
        const et_value *value = et_value_path(root, fixed[i]);
        et_assert(value);
        status = descend(w, value);
    }
    et_strbuf_release(&w->path);
    return status;
}

/* ---- what a checkpoint keeps -------------------------------------------------------------- */

/* Copies a leaf to its place: a.b.c=1 as {a: {b: {c: 1}}}, the dicts made where they are not. */
static int keep_leaf(walk *w, const et_value *leaf)
{
    et_arena *arena = w->values->arena;
    et_value *dict = et_value_get(w->values, tree_of(et_strbuf_text(&w->path)));
    const char *part = et_arena_printf(arena, "%s", et_strbuf_text(&w->path));
    et_value *copy = et_arena_alloc(arena, sizeof *copy);
    if (!part || !copy)
        return et_alloc_failed(w->error, w->path.length, "settings");
    for (const char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1) {
        char *key = et_arena_printf(arena, "%.*s", (int)(dot - part), part);
        et_value *below = key ? et_value_get(dict, key) : NULL;
        dict = below ? below : key ? et_value_set_dict(dict, key) : NULL;
        if (!dict)
            return et_alloc_failed(w->error, w->path.length, "settings");
    }
    *copy = *leaf;
    copy->next = NULL;
    et_value_append(dict, part, copy);
    return ET_OK;
}

int et_experiment_identity(et_value **out, const et_experiment *experiment, uint64_t vocabulary,
                           uint64_t text, et_arena *arena, et_error *error)
{
    walk w = { .visit = keep_leaf, .path = ET_STRBUF_INIT, .error = error };
    *out = w.values = et_value_dict(arena);
    et_value_set_string(*out, ET_IDENTITY_VOCABULARY, et_checksum_print(vocabulary).digits);
    et_value_set_string(*out, ET_IDENTITY_TEXT, et_checksum_print(text).digits);
    et_value_set_dict(*out, ET_IDENTITY_MODEL);
    if (!et_value_set_dict(*out, ET_IDENTITY_TRAINING))
        return et_alloc_failed(error, 0, "settings");
    int status = walk_fixed(&w, experiment, arena);
    return status || !et_value_failed(*out) ? status : et_alloc_failed(error, 0, "settings");
}

/* ---- comparing ---------------------------------------------------------------------------- */

/* The first line of its YAML: scalars have one. */
static void print_value(et_strbuf *out, const et_value *value)
{
    et_strbuf whole = ET_STRBUF_INIT;
    et_yaml_print(&whole, value);
    const char *text = et_strbuf_text(&whole);
    et_strbuf_append_bytes(out, text, strcspn(text, "\n"));
    et_strbuf_release(&whole);
}

/* What a leaf was when the checkpoint was made; NULL: it does not say. */
static const et_value *leaf_of(const et_identity *identity, const char *path)
{
    const et_value *values = identity ? identity->values : NULL;
    return et_value_path(et_value_get(values, tree_of(path)), path);
}

/* Three answers: refused, refused with a way to go on, accepted with a warning. */
static int report_difference(const walk *w, const char *owner, const char *kept, const char *now)
{
    const char *path = et_strbuf_text(&w->path);
    if (!is_acceptable(path))
        return et_fail(w->error, ET_ECONFIG,
                       "%s belongs to a run with %s: %s, now it is %s; choose another "
                       "--model-dir, or that value to go on (--set, or in %s/" ET_EXPERIMENT_FILE
                       ")",
                       owner, path, kept, now, w->model_dir);
    if (!w->accept)
        return et_fail(w->error, ET_ECONFIG,
                       "%s belongs to a run with %s: %s, now it is %s; choose another "
                       "--model-dir, or that value to go on (--set, or in %s/" ET_EXPERIMENT_FILE
                       "), or --accept-changes to go on with the new one",
                       owner, path, kept, now, w->model_dir);
    et_log(ET_LOG_WARNING, "%s is %s from here on, it was %s", path, now, kept);
    return ET_OK;
}

/* With the checkpoint's value where it has one, else with that of params.yaml. */
static int compare_leaf(walk *w, const et_value *leaf)
{
    const char *path = et_strbuf_text(&w->path);
    const et_value *there = leaf_of(w->identity, path);
    const char *owner = there ? w->identity->checkpoint : w->model_dir;
    if (!there && w->kept)
        there = et_value_path(w->kept, path);
    if (!there || et_identity_same(there, leaf))
        return ET_OK;
    et_strbuf kept = ET_STRBUF_INIT, now = ET_STRBUF_INIT;
    print_value(&kept, there);
    print_value(&now, leaf);
    int status = kept.failed || now.failed
                     ? et_alloc_failed(w->error, kept.length + now.length, "settings")
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
    walk w = { compare_leaf, ET_STRBUF_INIT, error, NULL, identity, model_dir, accept, NULL };
    w.kept = et_fields_echo(&et_experiment_fields, kept, &arena);
    int status = w.kept ? walk_fixed(&w, now, &arena) : et_alloc_failed(error, 0, "settings");
    et_arena_release(&arena);
    return status;
}

/* Of the model only: how it was trained changes no translation. */
static int check_model_leaf(walk *w, const et_value *leaf)
{
    const char *path = et_strbuf_text(&w->path);
    const et_value *there = leaf_of(w->identity, path);
    if (!there || strcmp(tree_of(path), ET_IDENTITY_MODEL) || et_identity_same(there, leaf))
        return ET_OK;
    et_strbuf was = ET_STRBUF_INIT, is = ET_STRBUF_INIT;
    print_value(&was, there);
    print_value(&is, leaf);
    int status = et_fail(w->error, ET_ECONFIG,
                         "%s/" ET_EXPERIMENT_FILE " does not belong to %s: %s is %s there and was "
                         "%s when it was trained; put that value back",
                         w->model_dir, w->identity->checkpoint, path, et_strbuf_text(&is),
                         et_strbuf_text(&was));
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
    int status = walk_fixed(&w, experiment, &arena);
    et_arena_release(&arena);
    return status;
}

int et_experiment_check_vocabulary(uint64_t vocabulary, const et_identity *identity,
                                   const char *path, et_error *error)
{
    const char *was, *is;
    et_checksum_text text = et_checksum_print(vocabulary);
    is = text.digits;
    if (!identity || !identity->values || !et_value_get(identity->values, ET_IDENTITY_VOCABULARY))
        return ET_OK;
    int status = et_value_read_string(identity->values, ET_IDENTITY_VOCABULARY, &was, error);
    if (status)
        return et_fail_while(error, status, "%s", identity->checkpoint);
    if (!strcmp(was, is))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%s does not belong to %s: its checksum is %s, that of the vocabulary it was "
                   "trained with %s; put that file back",
                   path, identity->checkpoint, is, was);
}
