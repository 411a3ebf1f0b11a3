/* The identity of a checkpoint: a dict of plain values that describes the settings and files that
 * its weights were made with. It is the part "identity" of the state tree. With it, files of
 * another run and damaged files in a run's directory are recognized. The trainer makes the dict;
 * this module saves, finds and compares it.
 *
 *     et_identity identity;
 *     et_state_add_identity(state, values, &error);                 saved from here on
 *     et_identity_of_newest(&identity, "RUN", &arena, &error);      before anything is restored
 *
 * A checkpoint that was saved without an identity has none, and is not refused. */
#ifndef ETUDE_TRAIN_CHECKPOINT_IDENTITY_H
#define ETUDE_TRAIN_CHECKPOINT_IDENTITY_H

#include <etude/experiment.h>

#include "train/checkpoint/state.h"

#define ET_IDENTITY "identity" /* the part's name */

/* Keys of the dict: settings that a model's output depends on, and settings that training depends
 * on, as trees from the root of settings; a checksum of the training data. All other keys come from
 * the kind (et_task_kind.identify); the model's output depends on them too. */
#define ET_IDENTITY_MODEL    "model"
#define ET_IDENTITY_TRAINING "training"
#define ET_IDENTITY_DATA     "text"
/* The format of rows of a table, for prediction; checkpoints may differ in it. */
#define ET_IDENTITY_DELIMITER "delimiter"

/* Attaches the part; values (a dict) are borrowed and outlive the state. A restore does not change
 * them: the next save writes values. */
int et_state_add_identity(et_state *state, const et_value *values, et_error *error);

/* The identity in a state tree as text (a file's metadata); NULL: none. path is for messages;
 * ET_EFORMAT: no JSON. */
int et_identity_parse(const et_value **out, const char *text, const char *path, et_arena *arena,
                      et_error *error);

/* Whether two scalars or lists are the same: numbers by value, however a reader took them. */
bool et_identity_same(const et_value *a, const et_value *b);

/* The checksum of the training data; 0: not known. identity NULL: none. */
uint64_t et_identity_data(const et_identity *identity);

/* Checks that two checkpoints belong to one model, by the values that both have. ET_ECONFIG names
 * both files and the first value that differs. */
int et_identity_compare(const et_identity *a, const et_identity *b, et_error *error);

/* The key of a file that differs between both identities; NULL: none. */
const char *et_identity_other_file(const et_value *a, const et_value *b);

/* The identity of one file; its checkpoint is NULL if there is none, or if the head of the file
 * cannot be read; a restore then reports it. path and all results live as long as the arena. */
int et_identity_of_file(et_identity *out, const char *path, et_arena *arena, et_error *error);

/* The identity of a run's newest checkpoint with a readable head; tensors are not read. All lives
 * in arena. No checkpoint is no error. */
int et_identity_of_newest(et_identity *out, const char *model_dir, et_arena *arena,
                          et_error *error);

#endif
