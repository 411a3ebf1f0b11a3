/* Values that change during training: a learning rate, or a variable of the model. A trainer asks
 * for such a value (et_dynamic) in every step, an evaluator in every batch (<etude/loop_trainer.h>,
 * loop_evaluator.h).
 *
 *     et_annealing_scalar_options options = { .initial_value = 0.1, .ratio = 0.5, .epochs = 100 };
 *     et_annealing_scalar_init(&rate, loop, &options, &error);
 *     et_bound_value bound = { .optimizer = optimizer,
 *                              .value = et_annealing_scalar_dynamic(&rate) };
 *     printf("rate %g\n", et_annealing_scalar_get(&rate));
 *
 *     et_scheduled_variable_init(&noise, params, "noise", 0.1, &error);
 *     et_scheduled_variable_set(&noise, et_scheduled_variable_get(&noise) / 2);
 *     bound = (et_bound_value){ .variable = "beta",
 *                               .value = et_scheduled_variable_dynamic(&noise) };
 *     et_annealing_variable_init(&beta, params, "beta", 0.01, 2, -INFINITY, &error);
 *     et_annealing_variable_anneal(&beta);                     0.02
 *
 * Resuming: a scalar is a function of the loop's counters. A variable is in the parameter store,
 * and checkpoints contain the store. Use from one thread. */
#ifndef ETUDE_ANNEALING_H
#define ETUDE_ANNEALING_H

#include <etude/loop.h>
#include <etude/optimizer.h>
#include <etude/params.h>

/* A value that is read when needed. {0} with a constant is a fixed number. */
typedef struct et_dynamic {
    double (*get)(void *payload); /* NULL: use constant */
    void *payload;                /* borrowed */
    double constant;
} et_dynamic;

/* A value and its destination. Set either variable or optimizer, not both. */
typedef struct et_bound_value {
    const char *variable;    /* an untrained variable of the store with one element (as et_variable
                                makes) */
    et_optimizer *optimizer; /* borrowed; the value replaces the learning rate of its schedule */
    et_dynamic value;
} et_bound_value;

/* ---- a scalar: initial_value * ratio^floor((n - 1) / period), clipped to its limits; n is the
 * loop's epoch or step, from 1 ---- */

typedef struct et_annealing_scalar_options {
    double initial_value, ratio;
    int64_t epochs, steps;           /* the period: set one of them > 0, the other 0 */
    const double *minimum, *maximum; /* NULL: no limit */
} et_annealing_scalar_options;

typedef struct et_annealing_scalar {
    const et_loop *loop; /* borrowed */
    double initial_value, ratio, minimum, maximum;
    int64_t epochs, steps;
} et_annealing_scalar;

/* ET_ECONFIG: not exactly one period, or not minimum <= initial_value <= maximum. */
ET_API int et_annealing_scalar_init(et_annealing_scalar *scalar, const et_loop *loop,
                                    const et_annealing_scalar_options *options, et_error *error);
ET_API double et_annealing_scalar_get(const et_annealing_scalar *scalar);
ET_API et_dynamic et_annealing_scalar_dynamic(et_annealing_scalar *scalar); /* borrows it */

/* ---- a variable of the store, in float32 ---- */

typedef struct et_scheduled_variable {
    et_params *params; /* borrowed */
    int index;
} et_scheduled_variable;

/* Sets a variable that the model or et_params_declare_variable has declared with one element. Call
 * after et_init_draw and before the loop begins: a loop that resumes restores the variable's saved
 * value. ET_ECONFIG: the store has no memory yet or no such variable, or the value is not
 * finite. */
ET_API int et_scheduled_variable_init(et_scheduled_variable *variable, et_params *params,
                                      const char *name, double initial_value, et_error *error);
ET_API double et_scheduled_variable_get(const et_scheduled_variable *variable);
/* Do not call during a pass. */
ET_API void et_scheduled_variable_set(et_scheduled_variable *variable, double value);
ET_API et_dynamic et_scheduled_variable_dynamic(et_scheduled_variable *variable); /* borrows it */

/* A variable that each call of anneal sets to max(minimum, value * ratio). init also raises
 * initial_value to the minimum. */
typedef struct et_annealing_variable {
    et_scheduled_variable variable;
    double ratio, minimum; /* minimum -INFINITY: no limit. You may change both */
} et_annealing_variable;

ET_API int et_annealing_variable_init(et_annealing_variable *variable, et_params *params,
                                      const char *name, double initial_value, double ratio,
                                      double minimum, et_error *error);
ET_API void et_annealing_variable_anneal(et_annealing_variable *variable);

#endif
