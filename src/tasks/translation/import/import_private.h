/* The folder, or archive, that is imported. Private to import*.c. */
#ifndef ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_PRIVATE_H

#include "base/arena.h"
#include "engine/tensor/params.h"
#include "formats/marian/lexicon.h"
#include "formats/torch/zip_archive.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/import/import_fields.h"
#include "tasks/translation/import/weights_file.h"
#include "tasks/translation/interchange/tensor_map.h"
#include "tasks/translation/settings/vocabularies.h"

/* What config.json says beside the settings. */
typedef struct et_import_facts {
    int64_t tokens[ET_SIDES];   /* rows of the two tables */
    int64_t eos, pad;           /* numbers of the symbols */
    bool shared, tied;          /* source and target have one table; the target's is the output's */
    int64_t positions, longest; /* max_position_embeddings, max_length; 0: not given */
} et_import_facts;

struct et_import {
    const char *folder; /* all lives in arena but the vocabularies */
    et_arena arena;
    et_import_facts facts;
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

/* What messages call a file, and of a folder its path; NULL: no memory. */
const char *et_import_path(et_import *from, const char *name);
bool et_import_has(et_import *from, const char *name);

/* ET_EFORMAT: the file is a Git LFS pointer, which stands for a file that was not downloaded.
 * ET_ENOTFOUND: there is no such file. */
int et_import_check_file(et_import *from, const char *name, et_error *error);

/* The only file of the folder whose name begins and ends so, without the ".gz" of a packed one, in
 * the arena. *name NULL: there is none. ET_EFORMAT: there are several. */
int et_import_find_file(et_import *from, const char *begin, const char *ending, const char **name,
                        et_error *error);

/* All of a file, of at most `most` bytes, with a 0 behind them; free with et_free. Fails as
 * et_import_check_file does. */
int et_import_read_file(et_import *from, const char *name, size_t most, char **bytes,
                        size_t *length, et_error *error);

/* A file of JSON, or of YAML, as a dict. */
int et_import_read_json(et_import *from, const char *name, et_value **out, et_error *error);
int et_import_read_yaml(et_import *from, const char *name, et_value **out, et_error *error);

/* import_marian.c: facts, settings, tokens; opens the weights. */
int et_import_read_marian(et_import *from, et_error *error);

/* import_bergamot.c. The codes of the languages, where punctuation is not normalized by them. */
void et_import_set_pair(et_value *settings, const char *source, const char *target);
/* The codes of the two languages in the name of a model, "model.enpt.bin",
 * become settings; other names say nothing. */
void et_import_read_pair(et_import *from, const char *model);
/* The settings of a folder of Bergamot, of its config*.yml or made from the
 * names of its files; in from->arena. */
int et_import_read_bergamot(et_import *from, et_import_config *c, et_error *error);
/* IDs of tokens by text, of a SentencePiece model whose numbers are the tokens'. */
int et_import_list_pieces(et_import *from, const char *name, et_value **tokens, et_error *error);
/* Opens a binary model. settings: the text ET_MARIAN_SETTINGS, borrowed from it. */
int et_import_open_binary(et_import *from, const char *name, et_marian_model **model,
                          const char **settings, size_t *length, et_error *error);
/* Reads and checks the shortlist, for vocabularies of the facts. */
int et_import_read_lexicon(et_import *from, const char *name, et_error *error);

/* Tensors on their way into the parameters; all borrowed. */
typedef struct et_import_reading {
    et_weights_file *file;
    et_params *params;
    const et_import_facts *facts;
    const et_transformer *model;
} et_import_reading;

/* import_params.c. The values of the parameter scope/name, which is declared, and its shape. */
float *et_import_param(const et_import_reading *r, const char *scope, const char *name,
                       et_shape *shape);

/* Reads one tensor into its parameter; for et_tensor_map_each, self: an et_import_reading. */
int et_import_read_mapped(void *self, const et_mapped_tensor *mapped, et_error *error);

/* import_release.c: the punctuation that README.md says text was normalized for, if it says so. */
int et_import_read_release(et_import *from, et_value *vocabulary, et_error *error);

/* import_marian_tensors.c: as et_import_read_tensors. */
int et_import_read_marian_tensors(et_import *from, et_params *params, const et_transformer *model,
                                  et_error *error);

/* import_config.c: facts and settings. */
int et_import_read_config(et_import *from, et_error *error);

/* import_vocabulary.c */
int et_import_read_vocabularies(et_import *from, et_error *error);

/* import_tensors.c: the file; which sinusoids it has, if it says so. */
int et_import_open_weights(et_import *from, et_error *error);
int et_import_read_positions(et_import *from, et_error *error);

/* Decides whether the tables of both sides are one. */
int et_import_look_at_tables(et_import *from, et_error *error);

/* import_unused.c. Whether there is a shared table although each side has its own table. */
bool et_import_passes_shared(const et_import_facts *facts, const et_weights_file *file);

/* The text ET_UNUSED_TENSORS of the export (interchange/unused_tensors.h), once tensors were read.
 * *bytes: free with et_free; NULL: all tensors are used. */
int et_import_read_unused(et_import *from, char **bytes, size_t *length, et_error *error);

/* Fills params, which are declared and have memory. ET_EFORMAT: a tensor is
 * missing, is not known, or has another shape. */
int et_import_read_tensors(et_import *from, et_params *params, const et_transformer *model,
                           et_error *error);

#endif
