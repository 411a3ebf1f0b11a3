/* A folder of a MarianMT model of transformers: what its model and its tokenizer read, and files of
 * weights, which the caller writes.
 *
 *   config.json, generation_config.json      sizes and symbols, and how it is searched
 *   source.spm, target.spm                   the vocabularies, which split text
 *   vocab.json                               numbers of tokens; if the sides have a table each,
 *                                            the source's, and target_vocab.json
 *   tokenizer_config.json                    names of the special symbols */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_TRANSFORMERS_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_TRANSFORMERS_H

#include "base/files/file.h"
#include "tasks/translation/decoding/translator_private.h"

/* Rows of the table of positions: the longest source, and target, that such a model takes. */
#define ET_TRANSFORMERS_POSITIONS ET_TRANSLATION_SOURCE_MAX

/* All borrowed. */
typedef struct et_transformers_folder {
    const et_translator *translator;
    const char *precision;    /* of the weights; NULL: "float32" */
    const char *const *names; /* [count] files of weights, which are written last */
    int count;
    et_directory_write_fn *write; /* which: from 0 */
    void *self;
    int64_t vocab_size; /* what config.json says: tokens of the source, or of the
                           target, where a search goes by it */
    bool shares;        /* the folder that was imported had a table that no side uses, which
                           transformers reads only if config.json says that tables are shared */
    int64_t positions;  /* rows of the table of positions; 0: ET_TRANSFORMERS_POSITIONS */
    int64_t longest;    /* longest target of a search; 0: as positions */
} et_transformers_folder;

/* Warns where the search of transformers is another than the model's. ET_ECONFIG: the sides have
 * other symbols. */
int et_transformers_write(const et_transformers_folder *folder, const char *directory,
                          et_error *error);

/* Whether both sides' tokens have rows of one table. */
bool et_transformers_shares_table(const et_transformer *model);

/* transformers' word for an activation; NULL: it has none. */
const char *et_transformers_activation(et_activation activation);

#endif
