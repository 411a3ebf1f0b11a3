/* The common part of commands that translate: a translator with progress bar and profile, for any
 * number of ranks. Only rank 0 shows the bar and writes output files. A command's table has the
 * options of the search as a group; after its checks the command calls:
 *
 *     et_translating_take_options(&work);
 *     int status = et_translating_join(&work, &error);
 *     if (!status)
 *         status = et_translating_open(&work, STDERR_FILENO, &error);
 *     if (!status)
 *         status = et_translator_translate(work.translator, lines, count, results, &error);
 *     status = et_translating_close(&work, status, &error);
 *     status = et_ranks_leave(work.options.comm, call->program, status, &error);
 *
 * Results are printed as text or as JSON (et_result_lines):
 *
 *     et_result_lines how = { .scores = true };
 *     et_result_lines_print(&text, found, count, 0, &how);
 */
#ifndef ETUDE_COMMAND_TRANSLATION_TRANSLATING_H
#define ETUDE_COMMAND_TRANSLATION_TRANSLATING_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/hypotheses.h>
#include <etude/translator.h>

#include "base/text/strbuf.h"
#include "command/options/ensemble.h"
#include "formats/events/progress.h"
#include "systems/training/profile.h"

/* The other models of an ensemble, opened for a translator: for `translate` and `serve`. */
typedef struct et_ensemble_models {
    et_translator **items; /* [count] owned, as each of them */
    int count;
} et_ensemble_models;

/* Opens a translator for each run with the checkpoint, precision and live_weights of options, and
 * makes them the others of options. Close them after the translator that is opened with options. */
int et_ensemble_models_open(et_ensemble_models *models, const char *const *runs, int count,
                            et_translator_options *options, et_error *error);
void et_ensemble_models_close(et_ensemble_models *models); /* all zeros allowed */

typedef struct et_translating {
    const char *model_dir;         /* NULL: not given */
    et_option_task task;           /* of a run of several */
    const char *output;            /* a file; NULL: none */
    int64_t beam_size;             /* 0: as in the run's settings */
    double alpha;                  /* of the length penalty; negative: as in the run's settings */
    int shortlist;                 /* use of the shortlist: auto, on, off */
    int64_t max_length, sentences; /* 0: the run's; 0: the translator's */
    int64_t top_k, seed;           /* top_k negative: not given */
    double top_p, temperature;     /* negative: not given */
    et_decoding_options decoding;
    et_translator_options options; /* passed to the translator unchanged */
    et_profiling profiling;
    bool quiet;
    bool helps;                /* this rank helps another rank, which writes the results */
    et_ensemble_runs ensemble; /* of a command that takes several runs; else zeros */
    et_ensemble_models others;
    et_translator *translator;
    et_progress *progress;
} et_translating;

/* Rows of a table of options: of the beam; of lengths, batches and sampling. */
extern const et_option et_translating_search_options[], et_translating_decoding_options[];

/* Each of them into options. */
void et_translating_take_options(et_translating *work);
void et_translating_take_decoding(et_translating *work);

/* ET_EUSAGE: a value with which sampling is impossible. */
int et_translating_check_decoding(const et_translating *work, et_error *error);

/* Sets options.comm; call et_ranks_leave in any case. From here on, only rank 0 shows and
 * writes. */
int et_translating_join(et_translating *work, et_error *error);

/* fd: for the bar; -1: no bar. Checks that all ranks have the same checkpoint (else ET_EBUSY) and
 * the same kernels (else ET_ECONFIG). With --profile, SIGINT and SIGTERM set et_stop_requested from
 * now on and end a waiting read of input, so that the profile is written. */
int et_translating_open(et_translating *work, int fd, et_error *error);

/* Opens the translator and translates the lines with it, on all ranks. results: [sources->count],
 * each the caller's on success. Shows the bar, or plain lines if standard error is not a
 * terminal. */
struct et_lines;
int et_translating_lines(et_translating *work, const struct et_lines *sources, char **results,
                         et_error *error);

/* Allowed without open. status: the result of the work. Returns status if the work failed, else the
 * status of the profile. */
int et_translating_close(et_translating *work, int status, et_error *error);

/* ---- results ---- */

/* Results of lines, as text or as JSON:
 *
 *   Ein Hund rennt.                                              one result
 *   Ein Hund rennt. ||| 0-0 1-1 2-2                              with alignments, source-target
 *   0 ||| Ein Hund rennt. ||| logp=-1.8301 score=-0.9204         several results, or with scores
 *   {"line": 0, "hypotheses": [{"text": "Ein Hund rennt.", "score": -0.9204,
 *    "log_probability": -1.8301, "alignment": [[0, 0], [1, 1], [2, 2]]}]}       as JSON
 *
 * JSON is on one line, with full numbers, and has "alignment" only on request. */

typedef struct et_result_lines {
    bool json, scores, alignments;
    bool several; /* results of a line, so that its number is needed */
} et_result_lines;

/* first: the number of the first of the lines, from 0. */
void et_result_lines_print(et_strbuf *out, const et_hypotheses *found, size_t lines, size_t first,
                           const et_result_lines *how);

/* [{"text": ..., "score": ..., "log_probability": ...}, ...]: the results of one line. */
void et_result_lines_print_json(et_strbuf *out, const et_hypotheses *found, size_t line,
                                bool alignments);

#endif
