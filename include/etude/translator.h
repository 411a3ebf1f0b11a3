/* Using a trained translation model: open, translate, close. No training code runs.
 *
 *     et_translator *t;
 *     et_translator_options options = { .beam_size = 4 };
 *     if (et_translator_open(&t, "runs/help", &options, &error)) ...
 *     char *results[2];
 *     if (et_translator_translate(t, lines, 2, results, &error)) ...
 *     et_translator_free_results(results, 2);
 *     printf("%s, step %d\n", et_translator_checkpoint(t), (int)et_translator_step(t));
 *     et_translator_set_progress(t, show, NULL);
 *     if (et_translator_export(t, "models/help", NULL, &error)) ...
 *     if (et_translator_open_memory(&t2, bytes, length, NULL, &error)) ...   an export's bytes
 *     et_translator_close(t);
 *
 * The translation of a line does not depend on the call, on the other lines or on the number of
 * threads. A sampled translation also depends on the line's number. Use a translator from one
 * thread at a time. For more threads, open more translators; they share the weights of the first,
 * and are closed before it:
 *
 *     if (et_translator_open(&t2, NULL, &(et_translator_options){ .shares = t }, &error)) ...
 *
 * The stacks of calling threads and of OpenMP's threads (OMP_STACKSIZE) must have at least 256 KB,
 * else ET_EUSAGE.
 *
 * fork(): a child may use its parent's translator. In the child, the thread that called fork()
 * computes with one thread, with the same bits. Call fork() while no thread is in a call of the
 * library. */
#ifndef ETUDE_TRANSLATOR_H
#define ETUDE_TRANSLATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_translator et_translator;

typedef struct et_translator_options {
    const char *checkpoint; /* a file, "best", "newest" or a step of the run; NULL: the best, or the
                               newest if there is no best */
    int beam_size;          /* 1 (greedy) to 64; 0: the run's */
    double alpha;           /* length penalty, up to 10; 0: the run's */
    bool no_length_penalty; /* use no length penalty; alpha is ignored */
    int64_t max_length;     /* most tokens of a translation, 1 to 65,535; 0: the run's rule */
    const struct et_decoding_options
        *decoding;         /* sampling, several results and more (hypotheses.h);
                              NULL: beam search for the best one */
    int sentences;         /* sentences that each thread decodes together; 0: 32 */
    const char *precision; /* "float32", "bfloat16", "int8"; NULL: the precision of the run, or of a
                              bfloat16 or int8 export. int8: products use weights and activations as
                              bytes, with a scale for each column and row and without calibration;
                              the rest is float32. Faster, with nearly the same translations */
    const char *tag;       /* a token of the source vocabulary in front of each line, such as
                              ">>fra<<" for the target language of a multilingual model. Lines that
                              begin with a language tag stay as they are. Excludes alignments.
                              NULL: none */
    bool shortlist;        /* use the shortlist even if the model was trained further (its step is
                              not 0): the lexicon of the initial model may lack words of the new
                              text, so a trained model's is used only on request */
    bool no_shortlist;     /* translate with all tokens of the vocabulary, although the model has a
                              shortlist of likely ones for each token of the source. An ensemble,
                              and scores of given translations, never use shortlists */
    bool live_weights;     /* use the trained weights even if there are averaged weights */
    const et_translator *shares; /* use the weights, settings and vocabulary of this translator; see
                                    below. NULL: load them */
    /* More models of an ensemble; see below. Borrowed until close. */
    const et_translator *const *others; /* [other_count] */
    int other_count;                    /* up to 31 */
    const double *weights; /* [1 + other_count] > 0, of this model and the others; only their ratios
                              count; NULL: all equal. Borrowed during open */
    struct et_comm *comm;  /* ranks (comm.h) that all make the same calls: each decodes (and aligns)
                              some of the lines, and all get all results; borrowed. NULL: this
                              process alone */
} et_translator_options;

/* Most sentences that a thread decodes together. */
#define ET_TRANSLATOR_SENTENCES_MAX 65536

/* An ensemble averages the probabilities that its models give to the next token, in each step of
 * the search. The models may differ, except that a target token must have the same number in all of
 * them. The opened model decides the settings of the search, checkpoint, step and alignments, not
 * the models in `others`. If one model never generates a token, the ensemble does not either. A
 * translator that shares weights has the same `others`. An ensemble cannot be exported.
 *
 * model_dir: a run of `etude train`, an export (a directory or one file), or the folder or archive
 * of a published model that `etude import` reads; nothing is written there. With `shares` it must
 * be NULL; then all options may differ except checkpoint, live_weights and whether precision is
 * int8. options NULL: the defaults. ET_ECONFIG: an option is invalid or out of range, or the others
 * have another vocabulary. Float32 weights are read where their file is mapped: to change a model
 * in use, rename a new file to its name, and never write into the old one. */
ET_API int et_translator_open(et_translator **out, const char *model_dir,
                              const et_translator_options *options, et_error *error);
/* The same from the bytes of an export in one file; borrowed only during the call. */
ET_API int et_translator_open_memory(et_translator **out, const void *bytes, size_t length,
                                     const et_translator_options *options, et_error *error);
ET_API void et_translator_close(et_translator *translator); /* NULL allowed */

/* Called on the caller's thread with the number of finished lines: after each token of the current
 * sentences, and at the end with all lines. Return true to end the call with ET_EINTERRUPTED. Not
 * called if no line has a word. */
typedef bool et_translator_progress_fn(void *payload, size_t done, size_t count);
ET_API void et_translator_set_progress(et_translator *translator, et_translator_progress_fn *fn,
                                       void *payload);

/* Translates count lines of UTF-8 into results[count]; you free them. A line without words gives an
 * empty result. A line of more than 1,023 tokens is translated in pieces, with a warning: it is cut
 * at ends of sentences, else at blanks. ET_EDATA: a line is NULL or not UTF-8; the error has its
 * number. On failure there are no results to free. */
ET_API int et_translator_translate(et_translator *translator, const char *const *lines,
                                   size_t count, char **results, et_error *error);
/* results NULL: does nothing. */
ET_API void et_translator_free_results(char **results, size_t count);

/* Writes all that translation needs, and nothing else: the weights in use, the vocabulary and the
 * settings. The target is a directory, which is made if missing, or one file if path ends in
 * ".safetensors". et_translator_open opens both. ET_ECONFIG: the directory has a run or other
 * files. options (model_export.h): narrower weights, other formats; NULL: the defaults. */
struct et_export_options;
ET_API int et_translator_export(const et_translator *translator, const char *path,
                                const struct et_export_options *options, et_error *error);

/* The checkpoint in use and its step. Borrowed. */
ET_API const char *et_translator_checkpoint(const et_translator *translator);
ET_API int64_t et_translator_step(const et_translator *translator);

/* The kind of task that trains such models, for et_task_open (task_open.h) and et_command_main
 * (command.h). Its batches count sentence pairs, source tokens and target tokens, with the int32
 * fields source_ids, source_positions, source_offsets [pairs + 1], and of the target also the
 * inputs target_ids and target_labels. A program's batch may have the field source_embedded in
 * place of source_ids: float32 rows as in et_embedded (hypotheses.h). inference_step translates a
 * batch without targets. */
struct et_task_kind;
ET_DATA const struct et_task_kind et_translation_kind;

#endif
