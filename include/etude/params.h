/* The parameter store: every tensor that a model keeps, by name, with all values in one flat
 * array and all gradients in another, so that optimizer, clipping, averages, reduction and
 * checkpoints are loops over slices. What is trained comes first in it; behind that lie
 * variables, which a checkpoint keeps and no optimizer changes: statistics of batches, a loss
 * scale. A part of it chosen by name: <etude/group.h>.
 *
 *     et_params *params;
 *     if (et_params_new(&params, &error)) ...
 *     et_params_declare(params, "logits/weight", et_shape_2(512, 10), init, &index, &error);
 *     et_params_materialize(params, shadow, &error);      arrays made, all zero
 *     et_init_draw(params, seed);                         initial values, <etude/nn.h>
 *
 * Declaring happens while a graph is built (layers do it); the first declaration of a name
 * fixes its shape and a second one gives the same index, so several graphs share a store.
 * After materialize the set is closed. Not thread-safe.
 *
 * Values change only between et_params_begin_change, which waits for whoever reads them (a save
 * in progress), and et_params_changed. An optimizer does both itself. */
#ifndef ETUDE_PARAMS_H
#define ETUDE_PARAMS_H

#include <etude/error.h>
#include <etude/tensor.h>

typedef struct et_params et_params;

/* How values start. */
typedef enum et_init_kind {
    ET_INIT_ZEROS,
    ET_INIT_ONES,
    ET_INIT_UNIFORM,          /* in [-scale, scale) */
    ET_INIT_NORMAL,           /* mean 0, standard deviation scale */
    ET_INIT_TRUNCATED_NORMAL, /* the same; what is further than 2 scale from 0 is drawn again */
} et_init_kind;

typedef struct et_init {
    et_init_kind kind;
    float scale;
} et_init;

/* Uniform with limit sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010); declaring refuses
 * what comes of sizes that have none. */
ET_API et_init et_init_glorot_uniform(int64_t fan_in, int64_t fan_out);

ET_API int et_params_new(et_params **out, et_error *error);
ET_API void et_params_free(et_params *params);

/* Declares a float32 parameter; *index is its place, in order of first declaration. ET_EGRAPH: no
 * name, or one that no file can have (control characters, no UTF-8, "__metadata__"); no shape of a
 * tensor, initial values that are no finite numbers; declared before with another shape; or the set
 * is closed and the name is new. */
ET_API int et_params_declare(et_params *params, const char *name, et_shape shape, et_init init,
                             int *index, et_error *error);

/* The same for a variable: it has values and a place behind all that is trained, but no gradient.
 * ET_EGRAPH also: declared before as the other kind. */
ET_API int et_params_declare_variable(et_params *params, const char *name, et_shape shape,
                                      et_init init, int *index, et_error *error);

/* Closes the set and makes the arrays; all values are zero until they are drawn, loaded or set.
 * shadow: also keep a bfloat16 copy of the values, which the optimizer writes in its own pass.
 * ET_EGRAPH: done before. */
ET_API int et_params_materialize(et_params *params, bool shadow, et_error *error);

/* Number of parameters and variables; elements of all together. */
ET_API int et_params_count(const et_params *params);
ET_API int64_t et_params_elements(const et_params *params);

/* By index. Borrowed; valid as long as the store. An index that is no parameter's: NULL, a scalar,
 * zeros, -1. */
ET_API const char *et_params_name(const et_params *params, int index);
ET_API et_shape et_params_shape(const et_params *params, int index);
ET_API bool et_params_is_trained(const et_params *params, int index);
/* In the flat arrays; of a variable once they are made. */
ET_API int64_t et_params_offset(const et_params *params, int index);

/* -1 if there is none. name NULL: none. */
ET_API int et_params_find(const et_params *params, const char *name);

/* The flat arrays of values, and of gradients of what is trained, aligned to 64 bytes; each
 * parameter lies at its offset, padded to 16 elements. Borrowed. */
ET_API float *et_params_values(et_params *params);
ET_API float *et_params_gradients(et_params *params);

/* Before values are changed: waits for every reader. Again before et_params_changed: nothing. */
ET_API void et_params_begin_change(et_params *params);

/* Ends a change (an update, a restore): packed copies are made anew before the next run.
 * With refresh, the shadow is written from the values as well (an
 * optimizer has done it already). */
ET_API void et_params_changed(et_params *params, bool refresh_shadow);

#endif
