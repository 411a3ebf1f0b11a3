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
 *     if (et_translator_export(t, "models/help", &error)) ...
 *     if (et_translator_open_memory(&t2, bytes, length, NULL, &error)) ...   an export's bytes
 *     et_translator_close(t);
 *
 * A line's translation is the same in any call, beside any other lines and for any number of
 * threads (one that is drawn is its line number's as well). A translator is used by one thread at a
 * time; a thread more opens one more, which shares the weights of the first and is closed before
 * it:
 *
 *     if (et_translator_open(&t2, NULL, &(et_translator_options){ .shares = t }, &error)) ...
 *
 * Threads that use one, and OpenMP's (OMP_STACKSIZE), have stacks of 256 KB or more: else
 * ET_EUSAGE.
 *
 * fork(): a child may use a translator that its parent opened. The thread that called fork()
 * computes on one thread in the child, with the same bits. Call fork() while no thread is in a call
 * of the library. */
#ifndef ETUDE_TRANSLATOR_H
#define ETUDE_TRANSLATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_translator et_translator;

typedef struct et_translator_options {
    const char *checkpoint; /* a file, "best", "newest" or a step of the run; NULL: the best one, or
                               else the newest */
    int beam_size;          /* 1, greedy, to 64; 0: the run's */
    double alpha;           /* length penalty, up to 10; 0: the run's */
    bool no_length_penalty; /* in place of alpha */
    int64_t max_length;     /* tokens of a translation, 1 to 65,535; 0: the run's rule */
    const struct et_decoding_options
        *decoding;         /* sampling, several results and more (hypotheses.h);
                              NULL: beam search for the best one */
    int sentences;         /* decoded together, by each thread; 0: 32 */
    const char *precision; /* "float32", "bfloat16", "int8"; NULL: the run's. int8: products take
                              weights and activations as bytes (rounded anew for each column and
                              each row, nothing to calibrate), all else is float32: faster, and
                              nearly the same translations. NULL of an export that is stored in
                              bfloat16 or int8: that */
    bool live_weights;     /* not the averaged ones, where there are any */
    const et_translator *shares; /* whose weights, settings and vocabulary are read; see below.
                                    NULL: its own */
    struct et_comm *comm; /* ranks (comm.h) that all make the same calls: each decodes (and aligns)
                             its share of the lines, and all have all results; borrowed. NULL: this
                             process alone */
} et_translator_options;

/* The most sentences that a thread decodes together. */
#define ET_TRANSLATOR_SENTENCES_MAX 65536

/* model_dir: what `etude train` keeps, or an export, a directory or one file; NULL of one that
 * shares, whose options may differ in all but checkpoint, live_weights and whether precision is
 * int8. options NULL: the defaults. ET_ECONFIG: an option is out of its range or unknown. */
ET_API int et_translator_open(et_translator **out, const char *model_dir,
                              const et_translator_options *options, et_error *error);
/* The same of the bytes of an export that is one file, which are borrowed for the call alone. */
ET_API int et_translator_open_memory(et_translator **out, const void *bytes, size_t length,
                                     const et_translator_options *options, et_error *error);
ET_API void et_translator_close(et_translator *translator); /* NULL allowed */

/* Asked on the caller's thread with how many lines are done: whenever a token was added to the
 * sentences that are translated at the moment, and at the end, with all. True ends the call with
 * ET_EINTERRUPTED. Not asked where no line has a word. */
typedef bool et_translator_progress_fn(void *payload, size_t done, size_t count);
ET_API void et_translator_set_progress(et_translator *translator, et_translator_progress_fn *fn,
                                       void *payload);

/* Translates count lines of UTF-8 into results[count], yours to free. ET_EDATA: a line is NULL or
 * not UTF-8 (names its number). A line without a word gives an empty one; one of more than 1,024
 * tokens is cut there, with a warning. On failure no result is left. */
ET_API int et_translator_translate(et_translator *translator, const char *const *lines,
                                   size_t count, char **results, et_error *error);
/* results NULL: nothing. */
ET_API void et_translator_free_results(char **results, size_t count);

/* Writes what translating needs, and no more: the weights in use, the vocabulary and the settings,
 * to a directory, made if it is not there, or, where path ends in ".safetensors", to one file.
 * et_translator_open opens either as it opens a run. ET_ECONFIG: a run or other files are there.
 * et_translator_export_as (model_export.h): narrower weights, formats of other programs. */
ET_API int et_translator_export(const et_translator *translator, const char *path, et_error *error);

/* The checkpoint in use and its step. Borrowed. */
ET_API const char *et_translator_checkpoint(const et_translator *translator);
ET_API int64_t et_translator_step(const et_translator *translator);

/* The kind of task that trains what is opened here, for et_command_main (command.h). */
struct et_task_kind;
ET_DATA const struct et_task_kind et_translation_kind;

#endif
