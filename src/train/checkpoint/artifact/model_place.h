/* Where a trained model lies: the directory of a run or of an export, one of the models that a run
 * trains together (model_member.h), an export that is one file, or the bytes of one in memory. What
 * a run keeps as files beside its weights (settings and the like) are *texts* here, by the names
 * that they have in a directory.
 *
 *     et_model_place place;
 *     if (et_model_place_open(&place, "models/a.safetensors", &error) ||
 *         et_model_place_read(&place, "params.yaml", 1 << 20, &bytes, &length, &error)) ...
 *     if (et_model_place_is_file(&place))
 *         et_model_place_load(&place, params, &facts, &error);
 *     et_model_place_close(&place);
 *
 * One file is a checkpoint file (checkpoint_file.h) with more in it; doc/reference/formats.md has
 * the layout, model_export.h writes it. Nothing in it is believed before its checksum was compared.
 */
#ifndef ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_PLACE_H
#define ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "train/checkpoint/artifact/model_member.h"
#include "train/checkpoint/checkpoint.h"

struct et_safetensors;

/* Metadata of one file: its version, which is in no other checkpoint; how its weights are stored
 * ("float32", "bfloat16", "int8"). Names of tensors that are no weights begin with the prefixes. */
#define ET_MODEL_KEY_EXPORT    "export"
#define ET_MODEL_KEY_PRECISION "precision"
#define ET_MODEL_VERSION       "1"
#define ET_MODEL_TEXT          "export/file/"
#define ET_MODEL_SCALE         "export/scale/"

typedef struct et_model_place {
    const char *name;            /* path, or "the model in memory"; borrowed */
    struct et_safetensors *file; /* NULL: a directory */
    et_model_member *member;     /* the directory is one of several models of a run; or NULL */
} et_model_place;

/* path is borrowed. What is no regular file counts as a directory, there or not. ET_EFORMAT: a file
 * that is no export, or a damaged one. */
int et_model_place_open(et_model_place *place, const char *path, et_error *error);

/* bytes are borrowed until close. */
int et_model_place_open_memory(et_model_place *place, const void *bytes, size_t length,
                               et_error *error);

void et_model_place_close(et_model_place *place);

bool et_model_place_is_file(const et_model_place *place);

/* The directory whose checkpoints hold the weights, where place is no file; what stands before the
 * names of the model's own there, NULL: nothing (et_weights_choice). */
const char *et_model_place_run(const et_model_place *place);
const char *et_model_place_prefix(const et_model_place *place);

/* What such a checkpoint says of itself becomes what one of this model says. Lives in arena. */
int et_model_place_identify(const et_model_place *place, const et_value **identity, et_arena *arena,
                            et_error *error);

/* How weights are stored; "float32" of a directory. */
const char *et_model_place_precision(const et_model_place *place);

/* Whether there is such a text. */
bool et_model_place_has(const et_model_place *place, const char *name);

/* A text, followed by a 0: free it with et_free. ET_EFORMAT: damaged, or of more than `most` bytes.
 * ET_ENOTFOUND: there is none. */
int et_model_place_read(const et_model_place *place, const char *name, size_t most, char **bytes,
                        size_t *length, et_error *error);

/* The text of a file of its own, or, where path is an export in one file (its name ends in
 * ".safetensors"), the one of that name in it. Otherwise as et_model_place_read. */
int et_model_place_read_named(const char *path, const char *name, size_t most, char **bytes,
                              size_t *length, et_error *error);

/* Writes all texts of one file into a directory, by their names. ET_EFORMAT: damaged, or a name is
 * none of a file in it. */
int et_model_place_unpack(const et_model_place *place, const char *directory, et_error *error);

/* What messages call a text: "runs/a/params.yaml", "a.safetensors: params.yaml". NULL: no memory.
 */
const char *et_model_place_path(const et_model_place *place, const char *name, et_arena *arena);

/* Loads the weights of one file: et_checkpoint_load_weights. */
int et_model_place_load(const et_model_place *place, et_params *params, et_checkpoint_facts *facts,
                        et_error *error);

/* The first by name of the runs right below a directory, "runs/a", for whoever named the directory
 * in place of a run. False: there is none, or no room. */
bool et_model_place_below(const char *directory, char *run, size_t size);

#endif
