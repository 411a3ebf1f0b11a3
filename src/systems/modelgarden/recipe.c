/* Values that follow from settings: the values that a recipe chooses, the type of activations, and
 * the options of a trainer and a controller. A recipe needs no struct: it reads settings from an
 * echo and changes them by path. */
#include "systems/modelgarden/recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/numbers/decimal.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "engine/kernel/gemm/gemm.h"
#include "systems/modelgarden/series.h"

#define LENGTH        "trainer.train_steps"
#define LENGTH_EPOCHS "trainer.train_epochs" /* the same length, in epochs */

const et_recipe *et_recipe_of(const et_experiment *experiment)
{
    const et_recipe *recipe = experiment->kind->recipe;
    if (experiment->finetunes)
        return experiment->kind->finetuning;
    return recipe && !strcmp(recipe->experiment, experiment->name) ? recipe : NULL;
}

/* No person has chosen these values, so they are not recorded as given. */
int et_recipe_begin_finetuning(et_experiment *experiment, et_arena *arena, et_error *error)
{
    const et_recipe *recipe = experiment->kind->finetuning;
    const et_fields_given given = experiment->given;
    if (!recipe)
        return ET_OK;
    int status =
        recipe->settings ? et_experiment_set(experiment, recipe->settings, arena, error) : ET_OK;
    experiment->given = given;
    experiment->finetunes = true;
    return status;
}

/* Settings that several candidates of a series have for themselves. */
static const char *const *candidates_own(const et_experiment *experiment)
{
    static const char *const none[] = { NULL };
    const et_series *series = et_series_of(experiment);
    return series && series->candidate(experiment->name, experiment->task, 1) ? series->own : none;
}

bool et_recipe_chooses(const et_experiment *experiment, const char *path)
{
    const et_recipe *recipe = et_recipe_of(experiment);
    bool found = recipe && !strcmp(path, LENGTH);
    for (int i = 0; recipe && !found && i < recipe->count; i++)
        found = !strcmp(path, recipe->rows[i].setting);
    for (const char *const *own = candidates_own(experiment); !found && *own; own++) {
        const size_t length = strlen(*own);
        found = !strncmp(path, *own, length) && (!path[length] || path[length] == '.');
    }
    return found;
}

static void leave_out(et_value *tree, const char *path)
{
    const size_t length = strcspn(path, ".");
    et_value *before = NULL, *value = tree->first;
    while (value && (strncmp(value->key, path, length) != 0 || value->key[length])) {
        before = value;
        value = value->next;
    }
    if (value && path[length]) {
        leave_out(value, path + length + 1);
    } else if (value) {
        *(before ? &before->next : &tree->first) = value->next;
        tree->last = value->next ? tree->last : before;
        tree->count--;
    }
}

void et_recipe_leave_out(const et_experiment *experiment, et_value *tree)
{
    const et_recipe *recipe = et_recipe_of(experiment);
    for (int i = 0; recipe && i < recipe->count; i++)
        leave_out(tree, recipe->rows[i].setting);
    if (recipe)
        leave_out(tree, LENGTH);
    for (const char *const *own = candidates_own(experiment); *own; own++)
        leave_out(tree, *own);
}

int et_recipe_measure(const et_experiment *experiment, et_recipe_amounts *amounts, et_error *error)
{
    *amounts = (et_recipe_amounts){ 0 };
    return et_recipe_of(experiment)->measure(experiment->task, amounts, error);
}

bool et_recipe_has_length(const et_experiment *experiment)
{
    return et_fields_was_given(&experiment->given, LENGTH) ||
           et_fields_was_given(&experiment->given, LENGTH_EPOCHS);
}

/* Steps in epochs, "2ep", become negative thousandths, as in their struct. */
static double number_of(const et_value *value)
{
    if (value->kind == ET_VALUE_STRING)
        return -1000 * et_decimal_read(value->string, NULL);
    et_assert(et_value_is_number(value));
    return et_value_number(value);
}

static bool is_replaced(const et_recipe_row *row, const et_value *echo)
{
    bool set = false;
    for (const char *const *path = row->unless; path && *path && !set; path++) {
        const et_value *value = et_value_path(echo, *path);
        if (value->kind == ET_VALUE_STRING)
            set = *value->string;
        else
            set = value->kind != ET_VALUE_NULL && number_of(value) != 0;
    }
    return set;
}

/* A setting of a branch that is not chosen has no effect. echo: the settings. */
static bool is_given(const et_experiment *experiment, const et_recipe_row *row,
                     const et_value *echo)
{
    return et_fields_was_given(&experiment->given, row->setting) || is_replaced(row, echo) ||
           !et_fields_is_open(experiment->table, experiment, row->setting);
}

/* Not recorded as given: no person has chosen these values. */
static int assign(et_experiment *experiment, const char *path, const et_value *value,
                  et_arena *arena, et_error *error)
{
    const et_fields_given given = experiment->given;
    int status = et_experiment_assign(experiment, experiment->name, path, value, arena, error);
    experiment->given = given;
    return status;
}

/* was: the setting's value. */
static int assign_number(et_experiment *experiment, const char *path, double number,
                         const et_value *was, et_arena *arena, et_error *error)
{
    const bool real = was->kind == ET_VALUE_FLOAT, epochs = !real && number < 0;
    et_value value = { .kind = epochs ? ET_VALUE_STRING : real ? ET_VALUE_FLOAT : ET_VALUE_INT };
    if (epochs) {
        value.string = et_arena_printf(arena, "%.3fep", -number / 1000);
        if (!value.string)
            return et_alloc_failed(error, "settings");
    } else if (real) {
        value.real = number;
    } else {
        value.integer = llround(number);
    }
    return assign(experiment, path, &value, arena, error);
}

static int echo_of(const et_value **echo, const et_experiment *experiment, et_arena *arena,
                   et_error *error)
{
    et_assert(experiment->table && arena);
    *echo = et_fields_echo(experiment->table, experiment, arena);
    return *echo ? ET_OK : et_alloc_failed(error, "settings");
}

int et_recipe_apply(et_experiment *experiment, const et_recipe_amounts *amounts, et_arena *arena,
                    et_error *error)
{
    const et_recipe *recipe = et_recipe_of(experiment);
    et_recipe_value values[ET_RECIPE_MAX];
    et_recipe_amounts whole = *amounts;
    const et_value *echo;
    et_assert(recipe->count <= ET_RECIPE_MAX && amounts->samples > 0 && amounts->units > 0);
    whole.shards = experiment->runtime.data_shards > 1 ? experiment->runtime.data_shards : 1;
    int status = echo_of(&echo, experiment, arena, error);
    for (int i = 0; !status && i < recipe->count; i++) {
        const char *path = recipe->rows[i].setting;
        values[i].number = number_of(et_value_path(echo, path));
        values[i].given = is_given(experiment, &recipe->rows[i], echo) ||
                          (amounts->sized && recipe->rows[i].size);
    }
    if (!status)
        recipe->choose(experiment->task, &whole, values);
    for (int i = 0; !status && i < recipe->count; i++) {
        const char *path = recipe->rows[i].setting;
        if (!values[i].given)
            status = assign_number(experiment, path, values[i].number, et_value_path(echo, path),
                                   arena, error);
    }
    return status;
}

#define GUESSED_RATE 10000.0 /* units a second, until updates have been timed */

int et_recipe_begin(et_experiment *experiment, et_recipe_amounts *amounts, double seconds,
                    et_arena *arena, et_error *error)
{
    int status = et_recipe_measure(experiment, amounts, error);
    if (status)
        return status;
    /* As a person has set it, by the time, or as the recipe likes. */
    int64_t *steps = &experiment->trainer.train_steps;
    if (!et_recipe_has_length(experiment)) {
        if (seconds >= 0)
            amounts->epochs = seconds * GUESSED_RATE / amounts->units;
        *steps = -(int64_t)llround(1000 * fmax(amounts->epochs, 0.001));
    } else if (*steps < 0) {
        amounts->epochs = (double)-*steps / 1000;
    } else {
        amounts->steps = *steps;
    }
    status = et_recipe_apply(experiment, amounts, arena, error);
    return status ? status : et_experiment_check(experiment, error);
}

int et_recipe_adopt(et_experiment *experiment, const et_experiment *kept, et_arena *arena,
                    et_error *error)
{
    const et_recipe *recipe = et_recipe_of(experiment);
    const et_value *echo, *own;
    int status = echo_of(&echo, kept, arena, error);
    if (!status)
        status = echo_of(&own, experiment, arena, error);
    for (int i = 0; !status && i < recipe->count; i++) {
        const char *path = recipe->rows[i].setting;
        if (!is_given(experiment, &recipe->rows[i], own))
            status = assign(experiment, path, et_value_path(echo, path), arena, error);
    }
    if (!status && !et_recipe_has_length(experiment))
        experiment->trainer.train_steps = kept->trainer.train_steps;
    return status;
}

int et_recipe_print(const et_experiment *experiment, et_strbuf *text, et_error *error)
{
    const et_recipe *recipe = et_recipe_of(experiment);
    et_arena arena = ET_ARENA_INIT;
    const et_value *echo;
    const char *between = "";
    int status = echo_of(&echo, experiment, &arena, error);
    for (int i = 0; !status && i < recipe->count; i++) {
        const et_recipe_row *row = &recipe->rows[i];
        if (!row->label || is_given(experiment, row, echo))
            continue;
        const et_value *value = et_value_path(echo, row->setting);
        et_strbuf_printf(text, "%s%s %s", between, row->label,
                         value->kind == ET_VALUE_INT      ? et_format_count(value->integer).text
                         : value->kind == ET_VALUE_STRING ? value->string
                                                          : et_format_value(value->real).text);
        between = ", ";
    }
    et_arena_release(&arena);
    return status ? status : text->failed ? et_alloc_failed(error, "settings") : ET_OK;
}

/* ---- what follows from settings ---- */

bool et_experiment_resolve_precision(et_experiment *experiment)
{
    et_assert(experiment->runtime.mixed_precision_dtype >= ET_PRECISION_AUTO);
    int *precision = &experiment->runtime.mixed_precision_dtype;
    if (*precision == ET_PRECISION_AUTO)
        *precision = et_gemm_has_bf16() ? ET_PRECISION_BFLOAT16 : ET_PRECISION_FLOAT32;
    return *precision == ET_PRECISION_BFLOAT16;
}

void et_experiment_set_context(et_experiment *experiment, et_task_context *context)
{
    const et_runtime_options *runtime = &experiment->runtime;
    context->bfloat16 = et_experiment_resolve_precision(experiment);
    context->seed = (uint64_t)runtime->seed;
    context->prefetch = (int)runtime->prefetch;
    context->data_shards = (int)runtime->data_shards;
    context->validation_interval = experiment->trainer.validation_interval;
    context->best_metric = et_trainer_own_metric(&experiment->trainer);
}

/* `auto` is replaced by the type with which the run began, even if this CPU would choose another
 * type. */
int et_experiment_adopt(et_experiment *experiment, const et_experiment *kept, et_arena *arena,
                        et_error *error)
{
    if (experiment->runtime.mixed_precision_dtype == ET_PRECISION_AUTO)
        experiment->runtime.mixed_precision_dtype = kept->runtime.mixed_precision_dtype;
    if (experiment->kind->adopt && kept->kind == experiment->kind)
        experiment->kind->adopt(experiment->task, kept->task);
    et_experiment_resolve_precision(experiment);
    const et_recipe *recipe = et_recipe_of(experiment);
    /* The settings of a run do not record that it fine-tunes. */
    const bool same = recipe && (experiment->finetunes ? experiment->kind == kept->kind
                                                       : recipe == et_recipe_of(kept));
    return same ? et_recipe_adopt(experiment, kept, arena, error) : ET_OK;
}

int et_experiment_trainer_options(const et_experiment *experiment, const et_trainer_options *plan,
                                  et_task_trainer_options *out, et_error *error)
{
    const et_runtime_options *runtime = &experiment->runtime;
    *out = (et_task_trainer_options){
        .optimization = &plan->optimizer_config,
        .seed = (uint64_t)runtime->seed,
        .bfloat16 = runtime->mixed_precision_dtype == ET_PRECISION_BFLOAT16,
        .recompute = runtime->recompute,
        .batches = (int)(plan->gradient_accumulation * runtime->data_shards),
        .loss_upper_bound = plan->recovery_max_trials < 0 ? 0 : plan->loss_upper_bound,
        .recovery_begin_steps = plan->recovery_begin_steps,
        .dp_config = et_privacy_in(experiment->kind->fields, experiment->task),
    };
    return et_runtime_loss_scale(runtime, &out->loss_scale, error);
}

void et_experiment_control(const et_trainer_options *plan, et_controller_options *options)
{
    options->run.max_to_keep = plan->max_to_keep ? plan->max_to_keep : -1;
    options->run.keep_every_n_hours = plan->keep_checkpoint_every_n_hours;
    options->run.on_failed_save = plan->on_failed_save;
    options->run.best_comparison = et_trainer_best_comparison(plan, options->run.best_metric);
    options->run.best_link = et_trainer_best_link(plan);
    options->train_steps = plan->train_steps;
    options->steps_per_loop = plan->steps_per_loop;
    options->summary_interval = plan->summary_interval;
    options->validation_interval = plan->validation_interval;
    options->validation_steps = plan->validation_steps;
    options->checkpoint_interval = plan->checkpoint_interval;
    options->recovery_max_trials = plan->recovery_max_trials;
}

int et_series_check_none(const et_experiment *experiment, const char *what, et_error *error)
{
    const et_series *class = et_series_of(experiment);
    if (!class)
        return ET_OK;
    const char *other = class->candidate(experiment->name, experiment->task, 1);
    return other ? et_fail(error, ET_ECONFIG,
                           "%s works with one model, but %s trains several: name one, for example "
                           "--experiment %s",
                           what, experiment->name, other)
                 : et_fail(error, ET_ECONFIG,
                           "%s works with one model, but these settings of %s train one for each "
                           "fold: leave --folds out",
                           what, experiment->name);
}
