/* The folder, or archive, that is imported. Private to this room. */
#ifndef ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_PRIVATE_H

#include <etude/error.h>
#include <etude/tensor.h>
#include <etude/value.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "engine/tensor/params.h"
#include "formats/marian/lexicon.h"
#include "formats/marian/marian_model.h"
#include "formats/numpy/npz.h"
#include "formats/torch/zip_archive.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/interchange/foreign_settings.h"
#include "tasks/translation/interchange/tensor_map.h"

/* ---- import_tensors.c: files of weights ---- */

/* A file of weights of another program: safetensors, PyTorch's, numpy's, Marian's. Its tensors are
 * read one by one, as float32. The file remembers which tensors were read, to find unused ones. One
 * thread at a time. */
typedef struct et_weights_file et_weights_file;

/* One of npz, Marian's arrays of numpy, and marian, its binary model; neither: path is opened. Both
 * become the file's, also after a failure. Arrays of bytes ("special:...") are no tensors, and
 * multipliers of rows (ET_MARIAN_MULTIPLIER) need not be read. */
int et_weights_file_open(et_weights_file **out, et_npz *npz, et_marian_model *marian,
                         const char *path, et_error *error);
void et_weights_file_close(et_weights_file *file); /* NULL allowed */

/* ---- the folder ---- */

struct et_import {
    const char *folder; /* all lives in arena but the vocabularies */
    et_arena arena;
    et_foreign_model facts; /* its settings are the group "model" of the next */
    et_value *settings;
    char *vocabulary[ET_SIDES]; /* owned */
    size_t vocabulary_length[ET_SIDES];
    et_weights_file *weights; /* owned */
    et_zip *zip;              /* owned; NULL: a folder */
    const char *in_zip;       /* the folder inside the archive, "" or "opus/" */
    bool marian;              /* a release of Marian; false: a folder of transformers */
    const char *root;         /* no link leads out of it (realpath(3)); NULL: links are followed */
    const char *models[ET_SIDES]; /* names of the SentencePiece models */
    et_lexicon *lexicon;          /* of shortlists; owned; NULL: none */
    et_value *tokens[ET_SIDES];   /* IDs of tokens by text; both may be the same list */
    const char *lists[ET_SIDES];  /* the files of these numbers */
    const char *start[ET_SIDES];  /* of Marian: the token that begins a target; static */
    int32_t added[ET_SIDES];      /* how many of them were added to the vocabulary */
    const char *kept_name[3];     /* the files that say more of tokens, each read once */
    et_value *kept[3];
};

/* import_files.c. Opens the archive, if folder is one. */
int et_import_open_files(et_import *from, et_error *error);

/* The name of a file for messages, and in a folder its path; NULL: no memory. */
const char *et_import_path(et_import *from, const char *name);
bool et_import_has(et_import *from, const char *name);

/* ET_EFORMAT: the file is a Git LFS pointer, so the real file was not downloaded. ET_ENOTFOUND: no
 * such file. */
int et_import_check_file(et_import *from, const char *name, et_error *error);

/* Finds the only file of the folder whose name has this beginning and ending. *name: its name
 * without the ".gz" of a packed file, in the arena; NULL: no file. ET_EFORMAT: several files. */
int et_import_find_file(et_import *from, const char *begin, const char *ending, const char **name,
                        et_error *error);

/* Reads a whole file of at most `most` bytes and adds a 0; free with et_free. Fails as
 * et_import_check_file. */
int et_import_read_file(et_import *from, const char *name, size_t most, char **bytes,
                        size_t *length, et_error *error);

/* A file of JSON, or of YAML, as a dict. */
int et_import_read_json(et_import *from, const char *name, et_value **out, et_error *error);
int et_import_read_yaml(et_import *from, const char *name, et_value **out, et_error *error);

/* import_marian.c: facts, settings, tokens; opens the weights. */
int et_import_read_marian(et_import *from, et_error *error);

/* Empty settings, with the stacks of the model. */
int et_import_begin_settings(et_import *from, et_error *error);

/* Sets the codes of the languages, for models that do not normalize punctuation by them. */
void et_import_set_pair(et_value *settings, const char *source, const char *target);

/* Tensors on their way into the parameters; all borrowed. */
typedef struct et_import_reading {
    et_weights_file *file;
    et_params *params;
    const et_foreign_model *facts;
    const et_transformer *model;
} et_import_reading;

/* import_vocabulary.c */
int et_import_read_vocabularies(et_import *from, et_error *error);

/* import_tensors.c: opens the weights of a folder of transformers, and finds out which sinusoids it
 * has and whether both sides share one table. */
int et_import_open_weights(et_import *from, et_error *error);

/* The text ET_UNUSED_TENSORS of the export (interchange/unused_tensors.h), once tensors were read.
 * *bytes: free with et_free; NULL: all tensors are used. */
int et_import_read_unused(et_import *from, char **bytes, size_t *length, et_error *error);

/* Fills params, which are declared and have memory. ET_EFORMAT: a tensor is
 * missing, is not known, or has another shape. */
int et_import_read_tensors(et_import *from, et_params *params, const et_transformer *model,
                           et_error *error);

#endif
