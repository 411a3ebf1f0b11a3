/* Whether the settings of a start are those of the run that is there. Both are echoed as trees
 * (et_fields_echo), and the parts named in `fixed` compared leaf by leaf, as they would be
 * printed; so there is no list of members that could miss a new one below these paths.
 *
 *   not in `fixed`      may change: how long, how often, how fast
 *   in `fixed`          must be the same: ET_ECONFIG, with both values
 *   and `acceptable`    may change with --accept-changes, which makes it a warning
 *
 * Example: trainer.train_steps 2000 -> 4000 goes on; task.model.embedding_width 128 -> 256 is
 * another model; trainer.optimizer_config.learning_rate.* is a person's decision. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/yaml.h"
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

/* What of it a person may want to change in mid-run: no saved number loses its meaning. (Another
 * optimizer has other slots, which restoring finds out.) Looked for anywhere in a path. */
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

/* A comparison of two trees of settings. */
typedef struct comparison {
    const char *model_dir; /* for messages */
    bool accept;           /* --accept-changes was given */
    et_strbuf path;        /* of what is compared; grows and shrinks with the depth */
    et_error *error;       /* where the first difference goes */
} comparison;

/* The first line of its YAML: scalars have one. */
static void print_value(et_strbuf *out, const et_value *value)
{
    et_strbuf whole = ET_STRBUF_INIT;
    et_yaml_print(&whole, value);
    const char *text = et_strbuf_text(&whole);
    et_strbuf_append_bytes(out, text, strcspn(text, "\n"));
    et_strbuf_release(&whole);
}

/* ET_OK only for what is acceptable and accepted: the comparison goes on. */
static int report_difference(const comparison *c, const char *kept, const char *now)
{
    et_assert(kept && now);
    /* Three answers: refused, refused with a way to go on, accepted with a warning. */
    const char *path = et_strbuf_text(&c->path);
    if (!is_acceptable(path))
        return et_fail(c->error, ET_ECONFIG,
                       "%s belongs to a run with %s: %s, now it is %s; choose another "
                       "--model-dir, or that value to go on",
                       c->model_dir, path, kept, now);
    if (!c->accept)
        return et_fail(c->error, ET_ECONFIG,
                       "%s belongs to a run with %s: %s, now it is %s; choose another "
                       "--model-dir, or that value to go on, or --accept-changes to go on with "
                       "the new one",
                       c->model_dir, path, kept, now);
    et_log(ET_LOG_WARNING, "%s is %s from here on, it was %s", path, now, kept);
    return ET_OK;
}

/* By their printed texts, which hold every bit of a number: two that print alike are the same. */
static int compare_scalars(const comparison *c, const et_value *a, const et_value *b)
{
    et_strbuf kept = ET_STRBUF_INIT, now = ET_STRBUF_INIT;
    print_value(&kept, a);
    print_value(&now, b);
    int status = ET_OK;
    if (kept.failed || now.failed)
        status = et_alloc_failed(c->error, kept.length + now.length, "settings");
    else if (strcmp(et_strbuf_text(&kept), et_strbuf_text(&now)))
        status = report_difference(c, et_strbuf_text(&kept), et_strbuf_text(&now));
    et_strbuf_release(&kept);
    et_strbuf_release(&now);
    return status;
}

/* Nothing if an append failed: the text is empty then. */
static void cut(et_strbuf *text, size_t length)
{
    et_assert(text->failed || length <= text->length);
    if (text->failed)
        return;
    text->length = length;
    text->data[length] = 0;
}

/* Both come from one table: the same keys in the same order. As deep as the tables. */
static int compare(comparison *c, const et_value *a, const et_value *b)
{
    /* A leaf: a scalar, a list or null. */
    if (a->kind != ET_VALUE_DICT || b->kind != ET_VALUE_DICT)
        return compare_scalars(c, a, b);
    /* Key by key; the path grows on the way down and is cut on the way up. */
    const et_value *x = a->first, *y = b->first;
    int status = ET_OK;
    for (; x && y && !status; x = x->next, y = y->next) {
        size_t length = c->path.length;
        et_strbuf_printf(&c->path, ".%s", x->key);
        status = compare(c, x, y);
        cut(&c->path, length);
    }
    return status;
}

/* In the order of `fixed`: the first difference is the one that is said. */
int et_experiment_check_same(const et_experiment *kept, const et_experiment *now,
                             const char *model_dir, bool accept, et_error *error)
{
    et_assert(kept && now && model_dir);
    /* Trees of both, made by the same table: same keys, same order. */
    et_arena arena = ET_ARENA_INIT;
    const et_value *a = et_fields_echo(&et_experiment_fields, kept, &arena);
    const et_value *b = et_fields_echo(&et_experiment_fields, now, &arena);
    comparison c = { model_dir, accept, ET_STRBUF_INIT, error };
    /* One path of `fixed` after another, each from its own root. */
    int status = a && b ? ET_OK : et_alloc_failed(error, 0, "settings");
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !status; i++) {
        et_strbuf_reset(&c.path);
        et_strbuf_append(&c.path, fixed[i]);
        status = compare(&c, et_value_path(a, fixed[i]), et_value_path(b, fixed[i]));
    }
    et_strbuf_release(&c.path);
    et_arena_release(&arena);
    return status;
}
