/* One checkpoint file: writes it from arrays and the state's text, and opens it with all checks.
 * checkpoint.c decides which files are written and deleted, and when. Private to checkpoint*.c. */
#ifndef ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_FILE_H
#define ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_FILE_H

#include <stdint.h>

#include <etude/checkpoint.h>
#include <etude/error.h>

#include "formats/safetensors/manifest.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state.h"

/* Writes items with the state tree as JSON text, until the items are no longer needed: see
 * et_safetensors_draft. */
int et_checkpoint_file_draft(et_file_writer *writer, et_safetensors_written *written,
                             const char *path, const et_safetensors_item *items, size_t count,
                             const et_safetensors_reader *reader, int64_t step, const char *state,
                             et_error *error);

/* The metadata of a checkpoint file, a new dict in arena; NULL: no memory. */
et_value *et_checkpoint_file_metadata(int64_t step, const char *state, et_arena *arena);

/* Opens a file and compares every checksum; close with et_safetensors_close. ET_EFORMAT:
 * damaged. */
int et_checkpoint_file_open(et_safetensors **out, const char *path, int64_t *step, et_error *error);

/* The same for an open file: checks its checksums, reads its step. */
int et_checkpoint_file_check(const et_safetensors *file, const char *path, int64_t *step,
                             et_error *error);

/* Differences between a file and a state that a restore accepts: none, or as the option of this
 * name in et_checkpoint_options. */
typedef enum et_restore_fit {
    ET_RESTORE_STRICT,
    ET_RESTORE_OTHER_OPTIMIZER,
    ET_RESTORE_PARTIAL
} et_restore_fit;

/* Restores the state from an open file, which is path; nothing was changed on ET_ECONFIG. */
int et_checkpoint_file_restore(et_state *state, const et_safetensors *file, const char *path,
                               et_restore_fit fit, et_error *error);

/* Loads the chosen weights from an open file, which is path. *file becomes NULL if params owns it
 * afterwards. */
int et_checkpoint_file_load(et_params *params, et_safetensors **file, const char *path,
                            et_weights_choice choice, et_checkpoint_facts *facts, et_error *error);

/* "<directory>/ckpt-2000.safetensors": the step without leading zeros, as et_manifest_rebuild
 * reads it. */
et_path et_checkpoint_file_path(const char *directory, const char *prefix, int64_t step);

/* Opens the newest undamaged checkpoint of a run; the open file stays readable when the run removes
 * its name. *path (et_free) is set as soon as it is known. */
int et_checkpoint_newest_file(et_safetensors **file, int64_t *step, char **path,
                              const char *model_dir, et_error *error);

/* Reads the manifest of a directory of checkpoints. A damaged manifest gives a warning and is made
 * again from the files. Complete files that are newer than all its entries, after a kill before the
 * commit, are added. *taken_up: number of the newest entries that the manifest on the disk lacks.
 * locked: the caller holds the lock, and leftovers of a killed run are deleted; otherwise nothing
 * changes. */
int et_checkpoint_list(et_manifest *out, size_t *taken_up, const char *directory, bool locked,
                       et_error *error);

/* Opens the newest undamaged file of the manifest. *index is its entry, or -1 if the manifest is
 * empty (then *file is NULL). Damaged and missing files give warnings; ET_EFORMAT: all are damaged.
 * If a file is gone because a running run has newer ones, *manifest is read again, and the search
 * starts again. */
int et_checkpoint_open_newest(et_safetensors **file, int64_t *step, int64_t *index,
                              et_manifest *manifest, const char *directory, et_error *error);

/* Restores the whole state from one file, after checking all of it. */
int et_checkpoint_restore_file(et_state *state, const char *path, et_restore_fit fit, int64_t *step,
                               et_error *error);

/* ---- stored weights ---- */

/* A weight as a file stores it: float32, bfloat16, or bytes. Bytes are a matrix as scale q
 * (engine/kernel/row_product.h); the scales, float32 [rows, 1] or [1, columns], are a separate
 * tensor named by ET_STORED_SCALE. Only matrices are stored as bytes; the rest of a model is
 * small. */

#define ET_STORED_SCALE "export/scale/" /* before the name of the weight */
#define ET_STORED_TEXT  "export/file/"  /* before the name of a text of an export in one file */

/* The tensor of a file with the name prefix name; NULL: no such tensor. */
const et_safetensors_tensor *et_stored_find(const et_safetensors *file, const char *prefix,
                                            const char *name);

/* Whether the weight with this name is a table whose rows are looked up. Its bytes are stored by
 * rows, for look-ups and for the product with the table. The bytes of all other matrices are stored
 * by columns. */
bool et_stored_weight_by_rows(const char *name);

/* Whether a weight of this shape can be stored narrower than float32, on request. */
bool et_stored_weight_is_narrowed(et_shape shape);

/* Replaces a weight by its value after storage as bytes. A model that computes with bytes has this
 * value, even if its file has float32. */
int et_stored_weight_round(float *w, const char *name, et_shape shape, et_error *error);

#endif
