/* A published model of OPUS-MT or Bergamot. A folder with a MarianMT model of transformers:
 *
 *   config.json, generation_config.json       the model's sizes, and how it is searched
 *   tokenizer_config.json                     names of the special symbols; may be missing
 *   source.spm, target.spm                    SentencePiece models, which split text
 *   vocab.json (target_vocab.json)            numbers of tokens (of the target, if they differ)
 *   model.safetensors, or pytorch_model.bin   the weights
 *
 * Or a release of Marian, as a folder or as one archive, NAME.zip, or a folder of Bergamot
 * (interchange/marian_files.h).
 *
 *     et_import *from;
 *     if (et_import_open(&from, "opus-mt-en-de", &error) ||
 *         et_import_write(from, "runs/en-de", &error)) ...
 *     et_import_close(from);
 *
 * Everything is read and checked before anything is written. Code of a file is never run. A field
 * that is not supported is refused; the error has its name and value. */
#ifndef ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_H
#define ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_H

#include <stdbool.h>

#include <etude/params.h>
#include <etude/value.h>

#include "base/arena.h"
#include "tasks/translation/settings/translation_options.h"
#include "train/checkpoint/artifact/artifact.h"

typedef struct et_import et_import;

/* Whether a path is a folder or an archive with such a model; false for a run of Etude. */
bool et_import_is_folder(const char *path);

/* Reads settings and vocabularies, and opens the weights, which are read later. folder: copied. */
int et_import_open(et_import **out, const char *folder, et_error *error);

/* ET_ENOTFOUND: the folder does not exist. If it looks like a name of the Hugging Face hub, the
 * message names the command that downloads it. ET_EDATA: it is a file, but no archive. */
int et_import_check_folder(const char *folder, et_error *error);
void et_import_close(et_import *from); /* NULL allowed */

/* Whether the import was opened with this path. */
bool et_import_is_of(const et_import *from, const char *folder);

/* Replaces the folder's codes of the two languages. Punctuation is normalized for these languages,
 * unless the model reads plain text. */
int et_import_name_languages(et_import *from, const char *source, const char *target,
                             et_error *error);

/* Whether text for the model may need normalized punctuation; models of Bergamot read plain text.
 */
bool et_import_normalizes(const et_import *from);

/* The lexicon of shortlists, a file of formats/marian/lexicon.h; NULL: none. Borrowed until close.
 */
const char *et_import_lexicon(const et_import *from, size_t *length);

/* The model's settings, a tree for `task` (YAML's words). Borrowed until close. */
const et_value *et_import_settings(const et_import *from);

/* A side's vocabulary, as the bytes of a SentencePiece model. Borrowed until close. */
const char *et_import_vocabulary(const et_import *from, int side, size_t *length);

/* Writes an export (train/checkpoint/artifact/artifact.h) with step 0: a directory, or a file whose
 * name ends in ".safetensors". */
int et_import_write(et_import *from, const char *output, et_error *error);

/* Opens a run or an export as et_artifact_open does. A folder or archive of another program is
 * opened as if it were imported: the artifact has the weights in memory until close, and no file is
 * written. */
int et_import_open_artifact(et_artifact *out, const char *path, et_error *error);

/* Reads and checks the weights too, and prints the settings of a run that fine-tunes the model, as
 * params.yaml has them. *text: borrowed until close. */
int et_import_print_settings(et_import *from, const char **text, et_error *error);

/* Initializes parameters as et_checkpoint_initialize does. pattern: a regular expression that is
 * searched in names; NULL: all parameters. ET_ECONFIG: the model lacks a parameter or has it with
 * another shape; without a pattern also if params lack a parameter of the model. Closes the
 * weights; another call opens the folder again. */
int et_import_initialize(et_import *from, et_params *params, const char *pattern, et_error *error);

#endif
