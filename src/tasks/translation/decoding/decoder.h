/* The decoder, from source tokens to target tokens: batched beam search with a key/value cache.
 *
 * Sentences are sorted by length and put in one queue. Each thread takes some of them through
 * encoder and decoder alone (search.h), so threads meet only at the queue. A single sentence uses
 * all threads in its products. If there are fewer sentences than threads, some threads are idle.
 *
 * A sentence's result has the same bits with any other sentences and any number of threads.
 * Searches are made for the longest sentences so far, and kept; later runs of the same size
 * allocate little. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_DECODER_H
#define ETUDE_TASKS_TRANSLATION_DECODING_DECODER_H

#include <etude/comm.h>

#include <stdatomic.h>

#include "base/arena.h"
#include "engine/exec/device.h"
#include "engine/nn/transformer.h"
#include "formats/marian/lexicon.h"
#include "tasks/translation/decoding/beam.h"
#include "tasks/translation/decoding/sampling.h"

typedef struct et_decoder et_decoder;

/* Name of a decoding step, one more token for all, in a trace of the device. */
#define ET_DECODER_STEP_SPAN "decode"
/* Name of the span for the other models of an ensemble in this step. */
#define ET_DECODER_OTHER_SPAN "decode others"

/* A model. Borrowed; params are materialized. act is the type of activations and caches. int8:
 * weights and rows as bytes in products; act is float32. */
typedef struct et_decoder_model {
    et_params *params;
    const et_transformer *transformer;
    et_dtype act;
    bool int8;
} et_decoder_model;

#define ET_DECODER_MODELS_MAX ET_CHOICE_MODELS_MAX

/* act and int8 are for the first model. others: [other_count] models that form an ensemble with the
 * first model. choice.weights weigh their probabilities. All models have the same number of target
 * tokens. Pointers in beam and choice are borrowed. forced: each sentence has a given target of at
 * most max_length tokens, and the result is the target's log p; the beam's size is 1. */
typedef struct et_decoder_options {
    et_beam_options beam;
    et_sampling_options choice;
    bool forced;
    int32_t start;      /* the symbol a target begins with */
    int64_t max_length; /* most tokens of a target, EOS included. 0: source length * length_factor,
                           rounded up; if this is also 0: source length + extra_length */
    double length_factor;
    int64_t extra_length;
    int sentences; /* most that one thread has under way together */
    et_dtype act;
    bool int8;
    const et_lexicon *lexicon; /* a translation has only tokens of its shortlist (search.c); not
                                  with `forced` or others. NULL: all tokens. Borrowed */
    const et_decoder_model *others; /* borrowed during et_decoder_new */
    int other_count;
} et_decoder_options;

/* A result: tokens without the final one, their number with it, the beam's score. */
typedef et_beam_hypothesis et_decoder_result;

typedef struct et_decoder_source {
    const int32_t *ids; /* EOS last */
    int64_t length;
    const float *rows; /* [length, width] in place of ids, for a model with embedded sources */
    const int32_t *positions; /* [length] of rows; NULL: from 0 */
} et_decoder_source;

/* The caller sets the members before results, which are borrowed through the run. */
typedef struct et_decoder_sentence {
    const int32_t *source; /* tokens, EOS last */
    int64_t length;
    const float *rows;               /* in place of source, as in et_decoder_source; one model */
    const int32_t *positions;        /* the same */
    int64_t extent;                  /* all positions are below it; 0: length */
    const et_decoder_source *others; /* [other_count] for the other models of an ensemble */
    int other_count;                 /* 0: all models read the same tokens */
    uint64_t number;                 /* chooses its random numbers */
    const et_phrases *phrases;       /* phrases that its translation must have, with a beam for
                                        phrases; NULL: none */
    const int32_t *forced;           /* tokens of the given target, EOS last */
    int forced_length;
    const atomic_bool *ended; /* true: the sentence is not wanted any more, and the next step
                                 abandons it. Any thread may set it. NULL: never */
    int count;                /* number of results: at least 1, at most the requested number; 0:
                                 abandoned */
    const et_decoder_result *results; /* best first; in the run's arena, as their ids */
} et_decoder_sentence;

/* Source tokens of the model that has most, or the extent of rows: they decide about seats and
 * greatest lengths. */
static inline int64_t et_decoder_sentence_length(const et_decoder_sentence *sentence)
{
    int64_t most = sentence->extent > sentence->length ? sentence->extent : sentence->length;
    for (int i = 0; i < sentence->other_count; i++)
        most = sentence->others[i].length > most ? sentence->others[i].length : most;
    return most;
}

/* Called on the caller's thread with the number of finished sentences: after each step of this
 * thread, after steps of other threads if this thread has no sentences left, and at the end. If the
 * function returns true, the run ends with ET_EINTERRUPTED. */
typedef bool et_decoder_progress_fn(void *payload, int64_t done);

/* params must be materialized; the first use of a model declares nothing new. All borrowed but the
 * models' descriptions. */
int et_decoder_new(et_decoder **out, et_params *params, et_device *device,
                   const et_transformer *model, const et_decoder_options *options, et_error *error);
void et_decoder_free(et_decoder *decoder);

/* Translates count sentences; results live in arena. progress may be NULL. */
int et_decoder_run(et_decoder *decoder, et_decoder_sentence *sentences, int64_t count,
                   et_arena *arena, et_decoder_progress_fn *progress, void *payload,
                   et_error *error);

/* Like et_decoder_run, by all ranks with the same sentences. Each rank decodes some sentences,
 * chosen by position in the list, and gets the other results from the other ranks; all have the
 * results of one process. comm NULL: this process alone. progress assumes that all ranks have done
 * the same number of sentences. */
int et_decoder_run_on_ranks(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                            int64_t count, et_arena *arena, et_decoder_progress_fn *progress,
                            void *payload, et_error *error);

/* The same for the sentences that are wanted. Others, as those without a word, stay as they are. */
typedef bool et_decoder_wants_fn(const et_decoder_sentence *sentence);
int et_decoder_run_wanted(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                          int64_t count, et_decoder_wants_fn *wants, et_arena *arena,
                          et_decoder_progress_fn *progress, void *payload, et_error *error);

#endif
