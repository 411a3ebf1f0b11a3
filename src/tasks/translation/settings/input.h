/* Training and validation texts: from settings to corpora. Settings name files by path, pattern or
 * list (data/text/paths.h), or several texts by weight (mix). They have Model Garden's names, so
 * its files can be used. Because samples are numbered, most of these settings have no effect:
 *
 *   is_training          training data are shuffled and repeated, validation data are not
 *   shuffle_buffer_size  all of the data is shuffled, for any size
 *   cache                encoded text is always kept
 *   cycle_length, block_length, deterministic    pairs are numbered as files come, then shuffled
 *   sharding             either: ranks read all data and divide batches
 *   drop_remainder       either: no pair is left out (Model Garden repeats before it batches) */
#ifndef ETUDE_TASKS_TRANSLATION_SETTINGS_INPUT_H
#define ETUDE_TASKS_TRANSLATION_SETTINGS_INPUT_H

#include <etude/data.h>

#include "base/arena.h"
#include "data/text/encoded.h"
#include "tasks/translation/settings/translation_options.h"

/* Texts of a mix: each has its own cache, which the kind's list of files names. */
#define ET_TRANSLATION_MIX_MAX 8

/* Sets of validation data; each set has its own cache. */
#define ET_TRANSLATION_SETS_MAX 8

typedef struct et_translation_text {
    const char *name;      /* of a set, from the settings; NULL: no name */
    et_corpus_paths paths; /* lists in the input's arena */
    double weight;
    et_encoded *encoded; /* owned; NULL: not yet */
} et_translation_text;

struct et_samples;
struct et_subwords;

typedef struct et_translation_input {
    et_translation_text *texts;      /* [count], in the arena */
    size_t count;                    /* 0: the settings name no files */
    struct et_subwords *subwords[2]; /* owned, of source and target; NULL: encoded tokens are used
                                      */
    et_arena arena;
} et_translation_input;

/* Checks that need only the settings: ET_ECONFIG names setting and cure. name: "train_data". */
int et_translation_check_data(const char *name, const et_translation_data *data, bool training,
                              et_error *error);
bool et_translation_has_data(const et_translation_data *data);

/* "news/chrf_score" -> "chrf_score" if a set is named news; NULL: no such set. */
const char *et_translation_metric_of_set(const et_translation_data *data, const char *name);

/* Finds the files. data outlives the input. */
int et_translation_input_open(et_translation_input *input, const char *name,
                              const et_translation_data *data, et_error *error);
void et_translation_input_close(et_translation_input *input); /* all zeros allowed */

/* The key of all encoded texts and their weights; of a single text, its own key. */
uint64_t et_translation_input_key(const et_translation_input *input);

/* ET_ECONFIG: data asks for sub-words that are drawn, and not from vocabularies of this kind. */
int et_translation_check_drawing(const et_translation_data *data, const char *kind,
                                 et_error *error);

/* Sub-words for drawing, if data asks for draws; checked as above. */
int et_translation_input_subwords(et_translation_input *input, const et_translation_data *data,
                                  et_sides sides, et_error *error);

/* Their pairs as samples, by weight; of up to most tokens of a side. Borrows the texts. */
int et_translation_input_samples(struct et_samples **out, const et_translation_input *input,
                                 uint64_t seed, int64_t most, et_error *error);

/* Calls file for each file that the settings name. */
void et_translation_input_reads(const et_translation_data *data,
                                void (*file)(void *payload, const char *path), void *payload);

/* Lines of all texts on the requested sides, one text after another, for et_vocabulary_train. */
typedef struct et_translation_lines {
    const et_translation_input *input;
    bool of[2];        /* whether sources, targets are given */
    int side;          /* that the next line of corpus is of */
    size_t text;       /* that is read */
    et_corpus *corpus; /* NULL: the next text is to be opened */
} et_translation_lines;

int et_translation_next_line(et_translation_lines *lines, const char **text, size_t *length,
                             et_error *error);
void et_translation_lines_close(et_translation_lines *lines);

/* Batches of pairs, by the settings: packed, as many pairs as fit the token budget; or as in Model
 * Garden's loader, grouped by length or (static_batch) in order. No batch has Model Garden's
 * padding. */

/* ET_ECONFIG: a budget that is too small for a pair, or two kinds of batching. name: of the
 * setting, below task. training false: validation, whose static batches count pairs. */
int et_translation_check_batching(const char *name, const et_translation_data *data, bool training,
                                  et_error *error);

/* Owns samples, also on failure. order: options of packed batches; all batches use its seed,
 * shuffle and repeat. */
int et_translation_batches(et_source **out, et_samples *samples, const et_translation_data *data,
                           const et_batches_options *order, bool training, et_error *error);

#endif
