/* The parameter store and its groups, for the library, beyond <etude/params.h> and
 * <etude/group.h>.
 *
 * A view of a parameter store for one of several models in it. Names that a model declares and
 * finds through the view are its own, except shared names. The view finds, and et_params_elements
 * counts, only parameters that were declared through it. Indices, values and everything else are
 * the store's, also the names from et_params_name.
 *
 *     et_params_naming naming = { "digits/", shares, patterns };
 *     et_params_view_new(&view, params, &naming, &error);
 *     et_params_declare(view, "head/weight", shape, init, &i, &error);     digits/head/weight in it
 *     et_params_free(view);                             the store stays; free it after its views
 */
#ifndef ETUDE_ENGINE_TENSOR_PARAMS_H
#define ETUDE_ENGINE_TENSOR_PARAMS_H

#include <stdint.h>

#include <etude/group.h>
#include <etude/params.h>

#include "formats/safetensors/safetensors.h"

/* Alignment of parts of flat float32 arrays, in elements: 64 bytes of float32, a cache line and an
 * AVX-512 register. So parts that begin at multiples are loaded aligned, and no two share a line.
 */
#define ET_FLAT_ALIGN 16

static inline int64_t et_flat_up(int64_t elements)
{
    return (elements + ET_FLAT_ALIGN - 1) / ET_FLAT_ALIGN * ET_FLAT_ALIGN;
}

/* A group by the caller's own function, which is called once for each parameter. */
typedef bool et_group_fn(const et_params *params, int index, void *payload);
int et_group_choose(et_group **out, et_params *params, et_group_fn *chosen, void *payload,
                    et_error *error);

et_params *et_group_params(const et_group *group);

/* Elements of the flat arrays in all ranges together. */
int64_t et_group_size(const et_group *group);

/* Whether the values have memory: after materialize or map. */
bool et_params_ready(const et_params *params);

/* Instead of et_params_materialize, or after it, for a store whose values are only read: parameter
 * i has the values of found[i] (float32, its shape) where `file` is mapped. The values are not
 * adjacent, and there are no gradients and no shadow. found: [et_params_count]. On success the
 * store owns `file`, and frees its former arrays or file. et_params_materialize may follow. */
int et_params_map(et_params *params, et_safetensors *file,
                  const et_safetensors_tensor *const *found, et_error *error);

bool et_params_mapped(const et_params *params);

/* Lets a parameter of a mapped store change; others must not. A page that is written is copied, and
 * the file keeps its bytes. Nothing to do for other stores. */
int et_params_unlock(et_params *params, int index, et_error *error);

/* The values of a parameter no longer count as memory of the process until they are read again, if
 * they are mapped and locked. */
void et_params_forget(const et_params *params, int index);

/* flat_size: elements of the flat array of values, which pads each parameter to 16 elements
 * (padding is zero and stays zero). trained_size: elements of its first part, the trained
 * parameters, and of the array of gradients. */
int64_t et_params_flat_size(const et_params *params);
int64_t et_params_trained_size(const et_params *params);

/* et_params_find of a name by its parts: "%s/table", scope. */
int et_params_find_printf(const et_params *params, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Where the values of one parameter begin. */
static inline float *et_params_values_of(et_params *params, int index)
{
    return et_params_values(params) + et_params_offset(params, index);
}

/* By index. Borrowed; a scalar, zeros of an index that is no parameter's. */
et_init et_params_init(const et_params *params, int index); /* as first declared */
/* The index of the place-th parameter in the flat arrays, from 0; call once they are made. */
int et_params_in_order(const et_params *params, int nth);
/* The bfloat16 copy of the values, [et_params_flat_size]; NULL: not kept. */
et_bf16 *et_params_shadow(et_params *params);

/* Row `row` of a matrix that is trained is zeros and stays so: updates clear its gradient, so that
 * no rule moves it. */
void et_params_hold_zeros(et_params *params, int index, int64_t row);
/* Clears the gradients of these rows. gradients: [et_params_trained_size]. */
void et_params_clear_held(const et_params *params, float *gradients);

/* A reader of values that others may want to change: wait returns once it has finished with them.
 * Owned by the reader, the first member of its own struct; no other use of next. */
typedef struct et_params_reader {
    void (*wait)(struct et_params_reader *self);
    struct et_params_reader *next;
} et_params_reader;
void et_params_add_reader(et_params *params, et_params_reader *reader);
void et_params_remove_reader(et_params *params, et_params_reader *reader);

/* Counts et_params_changed. */
uint64_t et_params_version(const et_params *params);

/* Points the store at other values of the same layout (an average) and back; NULL: its own.
 * Until set back, et_params_values gives these. Borrowed; [et_params_flat_size]. */
void et_params_use(et_params *params, float *values);

typedef struct et_params_naming {
    const char *prefix; /* of the view's own parameters; borrowed, as payload */
    bool (*shares)(const void *payload, const char *name);
    const void *payload;
} et_params_naming;

/* of is no view. */
int et_params_view_new(et_params **out, et_params *of, const et_params_naming *naming,
                       et_error *error);

#endif
