/* The parameter store: all tensors of a model, by name. One flat array has all values and another
 * all gradients, so optimizer, clipping, averages, reduction and checkpoints are loops over slices.
 * Trained parameters come first. Variables follow; checkpoints contain them, but optimizers do not
 * change them: statistics of batches, a loss scale. To choose parameters by name see
 * <etude/group.h>.
 *
 *     et_params *params;
 *     if (et_params_new(&params, &error)) ...
 *     et_params_declare(params, "logits/weight", et_shape_2(512, 10), init, &index, &error);
 *     et_params_materialize(params, shadow, &error);      arrays made, all zero
 *     et_init_draw(params, seed);                         initial values, <etude/layers.h>
 *
 * Parameters are declared while a graph is built; layers do so. The first declaration of a name
 * fixes its shape; a later one returns the same index, so several graphs can share a store. After
 * materialize, no new names can be declared. Not thread-safe.
 *
 * To change values, call et_params_begin_change, which waits for readers (a save in progress), then
 * change them, then call et_params_changed. An optimizer makes both calls itself. */
#ifndef ETUDE_PARAMS_H
#define ETUDE_PARAMS_H

#include <etude/error.h>
#include <etude/tensor.h>

typedef struct et_params et_params;

/* Initial values. */
typedef enum et_init_kind {
    ET_INIT_ZEROS,
    ET_INIT_ONES,
    ET_INIT_UNIFORM,          /* in [-scale, scale) */
    ET_INIT_NORMAL,           /* mean 0, standard deviation scale */
    ET_INIT_TRUNCATED_NORMAL, /* the same, but values further than 2 scale from 0 are drawn again */
} et_init_kind;

typedef struct et_init {
    et_init_kind kind;
    float scale;
} et_init;

/* Uniform with limit sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). If the sizes give no
 * limit, declaring fails. */
ET_API et_init et_init_glorot_uniform(int64_t fan_in, int64_t fan_out);

ET_API int et_params_new(et_params **out, et_error *error);
ET_API void et_params_free(et_params *params);

/* Declares a float32 parameter; *index is its position in order of first declaration. ET_EGRAPH: an
 * empty name, or a name that files cannot have (control characters, not UTF-8, "__metadata__"); an
 * invalid shape; initial values that are not finite; the name was declared with another shape; or
 * the store is materialized and the name is new. */
ET_API int et_params_declare(et_params *params, const char *name, et_shape shape, et_init init,
                             int *index, et_error *error);

/* The same for a variable: it has values, stored after all trained parameters, but no gradient.
 * ET_EGRAPH also: the name was declared as a parameter (or, above, as a variable). */
ET_API int et_params_declare_variable(et_params *params, const char *name, et_shape shape,
                                      et_init init, int *index, et_error *error);

/* Allocates the arrays; no new names can be declared afterwards. All values are zero until they are
 * drawn, loaded or set. shadow: also keep a bfloat16 copy of the values, which the optimizer
 * updates. ET_EGRAPH: already done. */
ET_API int et_params_materialize(et_params *params, bool shadow, et_error *error);

/* Number of parameters and variables, and of their elements. */
ET_API int et_params_count(const et_params *params);
ET_API int64_t et_params_elements(const et_params *params);

/* By index. Borrowed; valid as long as the store. Invalid index: NULL, a scalar, zeros, -1. */
ET_API const char *et_params_name(const et_params *params, int index);
ET_API et_shape et_params_shape(const et_params *params, int index);
ET_API bool et_params_is_trained(const et_params *params, int index);
/* Offset in the flat arrays; for a variable only after materialize. */
ET_API int64_t et_params_offset(const et_params *params, int index);

/* Index by name; -1: no such name, or name is NULL. */
ET_API int et_params_find(const et_params *params, const char *name);

/* The flat arrays of values and of gradients (only of trained parameters), aligned to 64 bytes.
 * Each parameter is at its offset, padded to 16 elements. Borrowed. */
ET_API float *et_params_values(et_params *params);
ET_API float *et_params_gradients(et_params *params);

/* Begins a change of values: waits for every reader. Calling again before et_params_changed does
 * nothing. */
ET_API void et_params_begin_change(et_params *params);

/* Ends a change (an update, a restore): packed copies are made again before the next run.
 * refresh_shadow: also update the shadow from the values; an optimizer has already done so. */
ET_API void et_params_changed(et_params *params, bool refresh_shadow);

#endif
