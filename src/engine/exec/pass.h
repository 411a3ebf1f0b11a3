/* Passes, for the library, beyond <etude/pass.h>: plans, facts and gradients of a pass. */
#ifndef ETUDE_ENGINE_EXEC_PASS_H
#define ETUDE_ENGINE_EXEC_PASS_H

#include <etude/pass.h>

#include "engine/exec/plan.h"

/* The plan of the layout that was prepared or run last. */
et_plan *et_pass_plan(const et_pass *pass);
const et_graph *et_pass_graph(const et_pass *pass); /* its graph; NULL: planning has failed */
et_plan_memory et_pass_plan_memory(const et_pass *pass);
et_recompute et_pass_recompute(const et_pass *pass); /* never ET_RECOMPUTE_AUTO */

et_params *et_pass_params(const et_pass *pass);
et_device *et_pass_device(const et_pass *pass);
bool et_pass_is_training(const et_pass *pass);
/* Whether the pass computes the gradient of a parameter, if the loss depends on it; trains_all: of
 * all such parameters, because et_pass_options.trains, group and frozen are not set. */
bool et_pass_trains(const et_pass *pass, int param);
bool et_pass_trains_all(const et_pass *pass);

/* The number of a layout's variant in the pass, made if needed; the check of ids and labels of a
 * batch with this layout (et_pass_run); the run, without this check. */
int et_pass_variant(et_pass *pass, const et_layout *layout, int *which, et_error *error);
int et_pass_check(const et_pass *pass, int which, const et_batch *batch, et_error *error);
void et_pass_run_variant(et_pass *pass, int which, const et_batch *batch, uint64_t seed,
                         uint64_t number);

/* Calls the model function again, which now makes another graph with the same marks, and plans
 * again where there was a plan. Gradients that the loss no longer reaches are zero. After a failure
 * the pass can only be closed. */
int et_pass_rebuild(et_pass *pass, et_error *error);

/* For every plan of the pass, including later ones: et_plan_listen. A new listener replaces the
 * last one; NULL: no listener. */
int et_pass_listen(et_pass *pass, const et_plan_listener *listener, et_error *error);

/* Whether a run leaves a gradient of a parameter, by its index in the store: its loss reaches it.
 */
bool et_pass_reaches(const et_pass *pass, int param);

/* The name of the i-th et_output, in order; NULL: no more. */
const char *et_pass_output_name(const et_pass *pass, int i);

/* Whether the pass has values: the layout that was prepared last has been run. */
bool et_pass_has_run(const et_pass *pass);

/* Whether et_pass_loss equals the measure of this name, because it is the only loss, of weight 1;
 * also true without a loss. */
bool et_pass_loss_is_measured(const et_pass *pass, const char *name);

/* Reads et_pass_loss, et_pass_divisor and all of et_pass_measured in one call; out:
 * [et_pass_measures]. */
void et_pass_read(const et_pass *pass, double *loss, double *divisor, et_measured *out);

/* Tracked variables: count of them; the variable's index in the store, its new value of the last
 * run and the momentum. */
typedef struct et_tracked {
    int variable;
    float momentum;
    const float *value;
    int64_t elements;
} et_tracked;
int et_pass_tracks(const et_pass *pass);
et_tracked et_pass_tracked(const et_pass *pass, int i);

/* Each tracked variable becomes momentum variable + (1 - momentum) value. values: the new values,
 * one after another; NULL: values of the last run, used once. Waits for a save that reads the
 * store. */
void et_pass_move_means(et_pass *pass, const float *values);

#endif
