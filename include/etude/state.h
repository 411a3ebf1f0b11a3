/* The state tree: all state that resumes, so that a checkpoint is one transaction. Parts are
 * attached: small ones as plain values (a dict each), arrays as named tensors. The tree knows no
 * files, and does not own the attached objects, which must outlive it.
 *
 *     static int save_rate(const void *self, et_value *dict, et_error *error)
 *     {
 *         et_part_set_real(dict, "rate", *(const double *)self);
 *         return ET_OK;
 *     }
 *     static int restore_rate(void *self, const et_value *dict, et_error *error)
 *     {
 *         return et_part_read_real(dict, "rate", self, error);
 *     }
 *     static const et_part_class rate_part = { "rate", save_rate, restore_rate };
 *     if (et_state_new(&state, &error)) ...
 *     et_state_add(state, "rate", &rate_part, &rate, &error);
 *     et_state_add_tensor(state, "noise", values, et_shape_1(64), &error);
 *     et_state_free(state);                    after everything that saves it
 *
 * Attach everything before the first save or restore; trainers do so in their attach method. Use
 * from one thread. */
#ifndef ETUDE_STATE_H
#define ETUDE_STATE_H

#include <etude/error.h>
#include <etude/tensor.h>
#include <etude/value.h>

/* Saves an object as plain values, and restores it. */
typedef struct et_part_class {
    const char *name; /* name of the kind, for messages */
    /* Fills the empty dict. The values must depend only on the state: no time, no pointer. The
     * caller checks for a lack of memory (et_value_failed). */
    int (*save)(const void *self, et_value *dict, et_error *error);
    /* Reads the values of save. In a tree, all tensors are restored first, then parts in order of
     * adding. */
    int (*restore)(void *self, const et_value *dict, et_error *error);
} et_part_class;

typedef struct et_state et_state;

/* An empty tree. A controller makes its own. */
ET_API int et_state_new(et_state **out, et_error *error);
ET_API void et_state_free(et_state *state); /* NULL allowed */

/* Attaches a part; name is its key in the tree, unique, copied. ET_EUSAGE: the name is taken, or
 * the run has begun. */
ET_API int et_state_add(et_state *state, const char *name, const et_part_class *kind, void *self,
                        et_error *error);

/* Attaches an array; name is unique, copied. A save copies the array, so it may change at any time
 * between two calls. ET_EUSAGE as above, and for a name that et_params_declare refuses. */
ET_API int et_state_add_tensor(et_state *state, const char *name, float *data, et_shape shape,
                               et_error *error);

/* Stores a double so that it is restored bit for bit: JSON has neither NaN nor infinity, so they
 * are written as text. NULL: no memory. */
ET_API et_value *et_part_set_real(et_value *dict, const char *key, double real);
/* Reads such a number or text. ET_EFORMAT: any other value. */
ET_API int et_part_read_real(const et_value *dict, const char *key, double *out, et_error *error);

#endif
