/* Translators in the formats of other programs, as a directory. options were checked: export.c.
 * ET_ECONFIG: one of the files exists, or the format cannot express the model. */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_PRIVATE_H

#include <string.h>

#include <etude/model_export.h>

#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/interchange/foreign_settings.h"
#include "tasks/translation/interchange/tensor_map.h"

int et_translator_export_onnx(const et_translator *t, const char *directory,
                              const et_export_options *options, et_error *error);
int et_translator_export_ctranslate2(const et_translator *t, const char *directory,
                                     const et_export_options *options, et_error *error);
int et_translator_export_huggingface(const et_translator *t, const char *directory,
                                     const et_export_options *options, et_error *error);

int et_translator_export_marian(const et_translator *t, const char *directory,
                                const et_export_options *options, et_error *error);
int et_translator_export_bergamot(const et_translator *t, const char *directory,
                                  const et_export_options *options, et_error *error);

/* A folder of a MarianMT model of transformers: what its model and its tokenizer read, and files of
 * weights, which the caller writes.
 *
 *   config.json, generation_config.json      sizes and symbols, and how it is searched
 *   source.spm, target.spm                   the vocabularies, which split text
 *   vocab.json                               numbers of tokens; if the sides have a table each,
 *                                            the source's, and target_vocab.json
 *   tokenizer_config.json                    names of the special symbols */

/* Rows of the table of positions: most tokens of a source or target in such a model. */
#define ET_TRANSFORMERS_POSITIONS ET_TRANSLATION_SOURCE_MAX

/* All borrowed. */
typedef struct et_transformers_folder {
    const et_translator *translator;
    const char *precision;    /* of the weights; NULL: "float32" */
    const char *const *names; /* [count] files of weights, which are written last */
    int count;
    et_directory_write_fn *write; /* which: from 0 */
    void *self;
    int64_t vocab_size; /* number of tokens in config.json: of the source, or of the target if a
                           search uses this number */
    bool shares; /* the imported folder had a table that no side uses; transformers reads it only if
                    config.json declares shared tables */
    int64_t positions; /* rows of the table of positions; 0: ET_TRANSFORMERS_POSITIONS */
    int64_t longest;   /* longest target of a search; 0: as positions */
} et_transformers_folder;

/* Warns if transformers searches differently from the model. ET_ECONFIG: the two sides have
 * different symbols. */
int et_transformers_write(const et_transformers_folder *folder, const char *directory,
                          et_error *error);

/* The tensors of an export: tensors of layers by their names in the format, and additions of the
 * format. */
typedef struct et_exported_tensors {
    et_params *params;         /* borrowed */
    et_mapped_tensor *tensors; /* [count] owned */
    size_t count, capacity;
    int64_t most; /* elements of the largest */
} et_exported_tensors;

void et_exported_tensors_release(et_exported_tensors *list);

int et_exported_tensors_add(et_exported_tensors *list, const et_mapped_tensor *mapped,
                            et_error *error);
int et_exported_tensors_add_layers(et_exported_tensors *list, const et_transformer *model,
                                   et_tensor_names names, et_error *error);

/* The first rows of the table of a scope. */
int et_exported_tensors_add_table(et_exported_tensors *list, const char *name, const char *scope,
                                  int64_t rows, et_error *error);

/* The same of several, in order, but for those that are left out. */
typedef struct et_exported_table {
    const char *name, *scope;
    int64_t rows;
    bool left_out;
} et_exported_table;
int et_exported_tensors_add_tables(et_exported_tensors *list, const et_exported_table *tables,
                                   int count, et_error *error);

/* Whether both sides' tokens have rows of one table, and whether the output's table is the
 * target's. */
static inline bool et_export_shares(const et_transformer *model)
{
    return !strcmp(model->source.scope, model->target.scope);
}

static inline bool et_export_ties(const et_transformer *model)
{
    return !strcmp(model->output.scope, model->target.scope);
}

/* The first values of the bias of a scope, [1, count]; zeros if the model has none. */
int et_exported_tensors_add_bias(et_exported_tensors *list, const char *name, const char *scope,
                                 int64_t count, et_error *error);

/* Common part of exports to Marian: a release in its npz (export_marian.c) and a model of Bergamot
 * (export_bergamot.c). A model that Marian cannot run is refused, with the setting. */
typedef struct et_marian_export {
    const et_translator *t;
    et_transformer model;
    et_exported_tensors list;
    int64_t tokens[ET_SIDES]; /* of the files: all, or all but the last, which begins a target */
} et_marian_export;

/* Marian begins a target with zeros, so Etude's begin token must have an embedding of zeros. If it
 * is the last token, the files leave it out, as a release must. ET_ECONFIG: a setting or a
 * vocabulary does not fit. Close it in any case. */
int et_marian_export_open(et_marian_export *m, const et_translator *t, bool release,
                          et_error *error);
void et_marian_export_close(et_marian_export *m);

/* special:model.yml. */
int et_marian_export_print_settings(const et_marian_export *m, et_strbuf *text, et_error *error);
/* Warns of differences in Marian's results. */
void et_marian_export_warn(const et_marian_export *m);

/* Warns if the model's norms add another number to the variance than the program's norms. */
void et_export_warn_norms(const et_transformer *model, const char *program, float there);

/* Writes a file; releases text. */
int et_export_write_text(const char *path, et_strbuf *text, et_error *error);

#endif
