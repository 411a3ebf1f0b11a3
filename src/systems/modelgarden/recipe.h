/* Recipes: settings of an experiment that follow from the size of the data and the length of the
 * run. A kind of task has at most two recipes: et_task_kind.recipe for one of its experiments, and
 * et_task_kind.finetuning for runs that begin with a trained model.
 *
 *     et_recipe_amounts amounts;
 *     if (et_recipe_of(&experiment)) {
 *         et_recipe_measure(&experiment, &amounts, &error);          reads the data
 *         amounts.steps = 2000;
 *         et_recipe_apply(&experiment, &amounts, &arena, &error);    chooses
 *         et_recipe_print(&experiment, &text, &error);               "dropout 0.2, peak 0.005"
 *     }
 *
 * A recipe chooses numbers. Values that a person has set stay: the recipe reads them and chooses
 * the others to fit. Equal amounts give equal settings on every machine. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_RECIPE_H
#define ETUDE_SYSTEMS_MODELGARDEN_RECIPE_H

#include "systems/modelgarden/experiment.h"

/* The input of a recipe. */
typedef struct et_recipe_amounts {
    int64_t samples;   /* of the training data, such as rows */
    double units;      /* amount of one pass over the data, in the unit of batches; estimated before
                          the data are opened */
    int64_t steps;     /* updates of the run; 0: epochs says how long the run is */
    double epochs;     /* passes over the data, if steps is 0 */
    int64_t shards;    /* equal parts of a batch, at least 1; et_recipe_apply sets it */
    double validation; /* duration of one validation, in updates; estimated; 0: no validation */
    double fitting;    /* validations that the run's time limit has room for; 0: no limit */
    bool sized;        /* the size of the model is chosen, and the amounts belong to this size */
} et_recipe_amounts;

/* The share of a run's time for validations, and the largest number of validations. There is at
 * least one validation. The recipe of fine-tuning sets a number of validations that ignores the
 * share (et_recipe.validations). */
#define ET_RECIPE_VALIDATION  0.12
#define ET_RECIPE_VALIDATIONS 8

/* A setting that a recipe chooses. */
typedef struct et_recipe_row {
    const char *setting; /* its value is a number: "task.model.dropout_rate" */
    const char *label;   /* word for people, printed before the value; NULL: the value belongs to
                            the row above and is not printed */
    bool size;           /* of the model: chosen before the time of an update is known */
    const char *const *unless; /* settings, ended by NULL. If one of them is not null, "" or 0, the
                                  recipe leaves this row's setting alone. NULL: no such settings */
} et_recipe_row;

typedef struct et_recipe_value {
    double number; /* before choose: the setting's value. Numbers of steps may be numbers of epochs,
                      as -1000 times the epochs */
    bool given;    /* a person has set the value, or the setting has no effect: choose does not
                      change number */
} et_recipe_value;

#define ET_RECIPE_MAX 32 /* rows of a recipe */

typedef struct et_recipe {
    const char *experiment;    /* of the kind's rows; NULL: the recipe of fine-tuning */
    const char *settings;      /* of fine-tuning: settings that are not numbers, and first values of
                                  numeric settings, as for et_experiment_set. NULL: none */
    const char *noun;          /* a sample: "pair" */
    const et_recipe_row *rows; /* [count] */
    int count;
    int validations; /* of a run without a time limit, at any cost; 0: limited by their share of the
                        time */
    /* Fills in samples, units, validation, and epochs for a run without a set length; the others
     * are 0. options: the kind's. */
    int (*measure)(const void *options, et_recipe_amounts *amounts, et_error *error);
    /* values: [count], in the order of rows. */
    void (*choose)(const void *options, const et_recipe_amounts *amounts, et_recipe_value *values);
} et_recipe;

/* The recipe of an experiment; NULL: the experiment has none. */
const et_recipe *et_recipe_of(const et_experiment *experiment);

/* If the kind has a recipe of fine-tuning: puts its settings on top of the settings of the initial
 * model. This recipe becomes the experiment's recipe. */
int et_recipe_begin_finetuning(et_experiment *experiment, et_arena *arena, et_error *error);

/* Whether the experiment's recipe, or each candidate of its series, chooses the setting or group at
 * path (also the length of the run) if it is not set. */
bool et_recipe_chooses(const et_experiment *experiment, const char *path);

/* Removes the settings of et_recipe_chooses from a tree of settings. */
void et_recipe_leave_out(const et_experiment *experiment, et_value *tree);

/* As the recipe's method. */
int et_recipe_measure(const et_experiment *experiment, et_recipe_amounts *amounts, et_error *error);

/* Whether a person has set the length of the run, in steps or in epochs. */
bool et_recipe_has_length(const et_experiment *experiment);

/* Sets the values that the recipe chooses, except the length of the run. Temporary values live in
 * arena. */
int et_recipe_apply(et_experiment *experiment, const et_recipe_amounts *amounts, et_arena *arena,
                    et_error *error);

/* Prepares a new run with a recipe, before its data are opened: measures amounts and applies the
 * recipe. A run without a set length gets the recipe's length, in epochs. seconds: time limit, from
 * which the length is estimated; negative: no limit. */
int et_recipe_begin(et_experiment *experiment, et_recipe_amounts *amounts, double seconds,
                    et_arena *arena, et_error *error);

/* Copies settings from kept, the settings at the start of the run: those that the recipe may
 * choose, also the length of the run, unless they are set. */
int et_recipe_adopt(et_experiment *experiment, const et_experiment *kept, et_arena *arena,
                    et_error *error);

/* Appends the chosen values: "dropout 0.2, peak 0.005", without values that a person has set. */
int et_recipe_print(const et_experiment *experiment, et_strbuf *text, et_error *error);

#endif
