/* Values that change as training goes on, and where they go: into a variable of the model, or into
 * an optimizer's learning rate. A value is asked for (et_dynamic) in every step of a trainer, in
 * every batch of an evaluator (<etude/loop_trainer.h>, loop_evaluator.h).
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
 * What resumes: a scalar is a function of the loop's counters; a variable is one of the store,
 * which a checkpoint keeps. One thread. */
#ifndef ETUDE_ANNEALING_H
#define ETUDE_ANNEALING_H

#include <etude/loop.h>
#include <etude/optimizer.h>
#include <etude/params.h>

/* {0} and a constant: a number. */
typedef struct et_dynamic {
    double (*get)(void *payload); /* NULL: the constant */
    void *payload;                /* borrowed */
    double constant;
} et_dynamic;

/* Where a value goes: exactly one of both. */
typedef struct et_bound_value {
    const char *variable;    /* of the store, not trained, of one element (as et_variable makes) */
    et_optimizer *optimizer; /* borrowed: its learning rate, in place of its schedule */
    et_dynamic value;
} et_bound_value;

/* ---- a scalar: initial_value ratio^floor((n - 1) / period), n the loop's epoch or step, from 1;
 * within its limits ---- */

typedef struct et_annealing_scalar_options {
    double initial_value, ratio;
    int64_t epochs, steps;           /* the period: exactly one is positive, and the other 0 */
    const double *minimum, *maximum; /* NULL: none */
} et_annealing_scalar_options;

typedef struct et_annealing_scalar {
    const et_loop *loop; /* borrowed */
    double initial_value, ratio, minimum, maximum;
    int64_t epochs, steps;
} et_annealing_scalar;

/* ET_ECONFIG: a period, or limits that are not minimum <= initial_value <= maximum. */
ET_API int et_annealing_scalar_init(et_annealing_scalar *scalar, const et_loop *loop,
                                    const et_annealing_scalar_options *options, et_error *error);
ET_API double et_annealing_scalar_get(const et_annealing_scalar *scalar);
ET_API et_dynamic et_annealing_scalar_dynamic(et_annealing_scalar *scalar); /* borrows it */

/* ---- a variable of the store, in float32 ---- */

typedef struct et_scheduled_variable {
    et_params *params; /* borrowed */
    int index;
} et_scheduled_variable;

/* Takes a variable that the model or et_params_declare_variable has declared, one element, and sets
 * it: after et_init_draw and before the loop begins, which may restore another value. ET_ECONFIG:
 * the store, which has its memory, has no such variable; the value is not finite. */
ET_API int et_scheduled_variable_init(et_scheduled_variable *variable, et_params *params,
                                      const char *name, double initial_value, et_error *error);
ET_API double et_scheduled_variable_get(const et_scheduled_variable *variable);
/* Not in the middle of a pass. */
ET_API void et_scheduled_variable_set(et_scheduled_variable *variable, double value);
ET_API et_dynamic et_scheduled_variable_dynamic(et_scheduled_variable *variable); /* borrows it */

/* One that becomes max(minimum, value ratio) each time it is annealed; initial_value is raised to
 * the minimum, too. */
typedef struct et_annealing_variable {
    et_scheduled_variable variable;
    double ratio, minimum; /* minimum -INFINITY: none. May be set */
} et_annealing_variable;

ET_API int et_annealing_variable_init(et_annealing_variable *variable, et_params *params,
                                      const char *name, double initial_value, double ratio,
                                      double minimum, et_error *error);
ET_API void et_annealing_variable_anneal(et_annealing_variable *variable);

#endif
