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

/* Writes items with the state tree as JSON text, up to where items are needed no more: see
 * et_safetensors_draft. */
int et_checkpoint_file_draft(et_file_writer *writer, et_safetensors_written *written,
                             const char *path, const et_safetensors_item *items, size_t count,
                             const et_safetensors_reader *reader, int64_t step, const char *state,
                             et_error *error);

/* The metadata of such a file, a new dict in arena; NULL: no memory. */
et_value *et_checkpoint_file_metadata(int64_t step, const char *state, et_arena *arena);

/* Opens a file and compares every checksum; close with et_safetensors_close. ET_EFORMAT:
 * damaged. */
int et_checkpoint_file_open(et_safetensors **out, const char *path, int64_t *step, et_error *error);

/* The same of a file that is open: its checksums, its step. */
int et_checkpoint_file_check(const et_safetensors *file, const char *path, int64_t *step,
                             et_error *error);

/* Restores the state from an open file, which is path; nothing was changed on ET_ECONFIG.
 * other_optimizer: see et_checkpoint_options. */
int et_checkpoint_file_restore(et_state *state, const et_safetensors *file, const char *path,
                               bool other_optimizer, et_error *error);

/* Loads weights from an open file, which is path: et_checkpoint_take_weights. */
int et_checkpoint_file_load(et_params *params, const et_safetensors *file, const char *path,
                            et_weights_choice choice, et_checkpoint_facts *facts, et_error *error);

/* "<directory>/ckpt-2000.safetensors": the step without leading zeros, as et_manifest_rebuild
 * reads it. NULL: no memory. */
char *et_checkpoint_file_path(const char *directory, const char *prefix, int64_t step);

/* The newest sound one of a run, which stays open: its values are there although the run removes
 * its name. *path (et_free) is set as soon as it is known. */
int et_checkpoint_newest_file(et_safetensors **file, int64_t *step, char **path,
                              const char *model_dir, et_error *error);

/* The manifest of a directory of checkpoints: a damaged one is named in a warning and made
 * anew from the files; complete files newer than all it names (a kill came before the commit)
 * are taken up. *taken_up: how many of the newest the one on disk does not name. locked: the
 * caller holds the lock, and what a killed run left is cleared away; else nothing is changed. */
int et_checkpoint_list(et_manifest *out, size_t *taken_up, const char *directory, bool locked,
                       et_error *error);

/* The newest entry of the manifest whose file is sound, opened. *index is its place, or -1
 * when the manifest is empty (then *file is NULL). Damaged and missing ones are named in
 * warnings; ET_EFORMAT: none of several is sound. A file that is gone because a run at work has
 * newer ones by now: *manifest is read again, and the search begins anew. */
int et_checkpoint_open_newest(et_safetensors **file, int64_t *step, int64_t *index,
                              et_manifest *manifest, const char *directory, et_error *error);

/* Restores the whole state from one file, after checking all of it. */
int et_checkpoint_restore_file(et_state *state, const char *path, int64_t *step, et_error *error);

#endif
