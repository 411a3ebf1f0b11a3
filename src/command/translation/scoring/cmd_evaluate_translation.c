/* etude evaluate: translates a file with a run's model and scores the translation. It checks
 * options and reads both files before it loads the model, so a misspelt path is reported early.
 * Without files it measures the run's own validation data, like training
 * (systems/training/evaluation.h).
 *
 *   sources -> et_translator -> results [lines of the source] -> file (--output), scores
 *
 * Scores go to standard output, the bar to standard error. An interrupted evaluation starts again
 * from the beginning. Several ranks share the lines; rank 0 alone reads files, scores and writes.
 *
 *   exit code 2: an option; 3: files, lines or the run; 75: interrupted, with --profile */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/comm.h>
#include <etude/translator.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/training/evaluate.h"
#include "command/translation/lines.h"
#include "command/translation/scoring/scores.h"
#include "command/translation/translating.h"
#include "command/translation/translation_commands.h"
#include "formats/records/packed.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/overlap.h"

typedef struct evaluate_options {
    et_translating work;
    et_parallel_args text;
    et_ensemble_args ensemble; /* its words: more runs, and the files of text */
    et_score_options score;
    et_strings set;
    bool json;
    et_value *results; /* of json: a dict */
} evaluate_options;

static const et_option options[] = {
    ET_OPTION_MODEL_DIR(evaluate_options, work.model_dir),
    ET_OPTION_TASK(evaluate_options, work.task),
    ET_OPTION_GROUP(evaluate_options, text, et_parallel_options),
    ET_OPTION_TEXT(evaluate_options, work.output, "output", "FILE",
                   "file for the translations, plain or .gz (default: not written)"),
    ET_OPTION_CHECKPOINT(evaluate_options, work.options.checkpoint),
    ET_OPTION_GROUP(evaluate_options, work, et_translating_search_options),
    ET_OPTION_PRECISION(evaluate_options, work.options.precision),
    ET_OPTION_LIVE_WEIGHTS(evaluate_options, work.options.live_weights),
    ET_OPTION_ENSEMBLE_WEIGHTS(evaluate_options, ensemble.weights),
    ET_OPTION_GROUP(evaluate_options, score, et_scores_options),
    ET_OPTION_SET(
        evaluate_options, set,
        "without --source: settings that override the run's settings; may be given again"),
    ET_OPTION_GROUP(evaluate_options, work.profiling, et_profiling_options),
    ET_OPTION_JSON(evaluate_options, json),
    ET_OPTION_QUIET(evaluate_options, work.quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_RUN(evaluate_options, work.model_dir),
    ET_OPTION_REST(evaluate_options, ensemble.words, "[RUN]... [SOURCE TARGET]"),
    ET_OPTION_END
};

const et_usage et_usage_evaluate_translation = {
    options, sizeof(evaluate_options),
    "Translates a file and scores the result: BLEU, chrF2 and Model Garden's "
    "BLEU. Several runs translate together, as an ensemble.",
    "runs/a test.en test.de"
};

/* The message for a missing option names the purpose of the option. */
static int missing(const char *option, const char *what, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "evaluate: %s is missing; name %s", option, what);
}

/* In the order in which help shows them. */
static int check(const evaluate_options *args, const et_program *program, et_error *error)
{
    const et_parallel_args *text = &args->text;
    const char *run = args->work.model_dir;
    if (text->source && !text->reference && !text->pairs && run && !et_file_exists(run))
        return et_experiment_no_directory(program, run, error);
    int status = et_parallel_check(text, "evaluate", error);
    if (status)
        return status;
    if (text->source && args->set.count)
        return et_fail(error, ET_EUSAGE,
                       "evaluate: --set: only without --source, for the run's own data");
    if (!args->text.source && args->work.ensemble.count)
        return missing("--source", "a file that the runs translate together", error);
    if (!args->text.source &&
        (args->work.output || args->work.options.precision || args->work.profiling.path))
        return missing("--source",
                       "a file to translate, which --output, --precision and --profile need",
                       error);
    if (!args->text.source && (args->score.metrics.count || args->score.case_sensitive))
        return missing("--source",
                       "a file to translate, which --metrics and "
                       "--ter-case-sensitive need",
                       error);
    return et_scores_check(&args->score, error);
}

static int translate(evaluate_options *args, const et_lines *sources, char **results,
                     et_error *error)
{
    et_assert(sources->count > 0);
    et_translating *work = &args->work;
    int status = et_translating_lines(work, sources, results, error);
    if (!status && args->results) {
        et_value_set_string(args->results, "checkpoint",
                            et_translator_checkpoint(work->translator));
        et_value_set_int(args->results, "step", et_translator_step(work->translator));
        et_value *list = work->others.count ? et_value_set_list(args->results, "others") : NULL;
        for (int i = 0; list && i < work->others.count; i++)
            et_value_add_string(list, et_translator_checkpoint(work->others.items[i]));
    } else if (!status && !work->helps) {
        /* Names the checkpoints, above the scores that they got. */
        for (int i = -1; i < work->others.count; i++) {
            const et_translator *translator = i < 0 ? work->translator : work->others.items[i];
            et_print(stdout, "checkpoint %s, step %lld\n", et_translator_checkpoint(translator),
                     (long long)et_translator_step(translator));
        }
    }
    return et_translating_close(work, status, error);
}

/* The file appears when it is complete, so that --output never holds half of a translation. */
static int write_results(const char *path, char *const *results, size_t count, et_error *error)
{
    et_packed_writer *file;
    int status = et_packed_writer_open(&file, path, et_path_ends(path, ".gz"), error);
    if (status)
        return status;
    for (size_t i = 0; !status && i < count; i++) {
        status = et_packed_write(file, results[i], strlen(results[i]), error);
        if (!status)
            status = et_packed_write(file, "\n", 1, error);
    }
    return et_packed_writer_end(file, status, error);
}

/* Translations are written before they are scored: scoring fails on text that is not UTF-8. A disk
 * that is full by then costs the file and not the scores. */
static int evaluate_lines(evaluate_options *args, const et_lines *sources,
                          const et_lines *references, et_error *error)
{
    et_assert_equal(sources->count, references->count);
    /* All translations stay in memory, like the references, because scoring needs both. */
    char **results;
    if (ET_ALLOC_ZERO(results, sources->count, "translations", error))
        return ET_ENOMEM;
    int status = translate(args, sources, results, error);
    int written = ET_OK;
    if (!status && args->work.output)
        written = write_results(args->work.output, results, sources->count, error);
    if (!status && !args->work.helps)
        status =
            et_scores_print((const char *const *)results, (const char *const *)references->items,
                            references->count, &args->score, args->results, written ? NULL : error);
    et_translator_free_results(results, sources->count);
    et_free(results);
    return written ? written : status;
}

/* Warns of a text that the model was trained on, of swapped languages and of equal sides. */
static int tell_overlap(const evaluate_options *args, const et_program *program, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    et_error unread = ET_ERROR_INIT;
    const et_strings source = { (const char **)&args->text.source, 1 };
    const et_strings target = { (const char **)&args->text.reference, 1 };
    const et_strings none = { NULL, 0 };
    const bool pairs = args->text.pairs;
    const et_translation_text text = { .paths = { .source = pairs ? none : source,
                                                  .target = pairs ? none : target,
                                                  .tsv = pairs ? source : none } };
    int status = ET_OK;
    if (!et_comm_rank(args->work.options.comm) &&
        !et_experiment_open_run(&experiment, program, args->work.model_dir, &arena, &unread) &&
        !strcmp(experiment.kind->name, "translation")) {
        const et_translation_options *kept = experiment.task;
        status = et_translation_tell_overlap(&(et_overlap_texts){ .train_data = &kept->train_data,
                                                                  .tested = &text,
                                                                  .tested_count = 1,
                                                                  .stop = &et_stop_requested },
                                             error);
    }
    et_arena_release(&arena);
    return status;
}

static int evaluate_files(evaluate_options *args, const et_program *program, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_lines sources = ET_LINES_INIT, references = ET_LINES_INIT;
    signal(SIGPIPE, SIG_IGN); /* progress never stops the work */
    args->results = args->json ? et_value_dict(&arena) : NULL;
    int status = args->json && !args->results ? et_alloc_failed(error, "scores")
                                              : et_parallel_read(&args->text, &sources, &references,
                                                                 args->work.options.comm, error);
    if (!status)
        status = evaluate_lines(args, &sources, &references, error);
    if (!status && !args->work.helps)
        status = tell_overlap(args, program, error);
    if (!status && args->json && !args->work.helps)
        status = et_print_json(args->results, error);
    et_lines_release(&sources);
    et_lines_release(&references);
    et_arena_release(&arena);
    return status;
}

static int evaluate_together(evaluate_options *args, const et_call *call, et_error *error)
{
    int status = et_translating_join(&args->work, error);
    if (!status) {
        /* Before minutes of decoding. */
        et_outputs outputs = { .program = call->program };
        et_outputs_read_model(&outputs, args->work.model_dir, args->work.options.checkpoint);
        for (int i = 0; i < args->work.ensemble.count; i++)
            et_outputs_read(&outputs, args->work.ensemble.others[i]);
        et_outputs_read(&outputs, args->text.source);
        et_outputs_read(&outputs, args->text.reference);
        et_outputs_check_standard(&outputs, error);
        et_outputs_check(&outputs, "--output", args->work.output, error);
        et_profiling_check(&args->work.profiling, &outputs, error);
        status = et_outputs_release(&outputs);
    }
    if (!status)
        status = evaluate_files(args, call->program, error);
    return et_ranks_leave(args->work.options.comm, call->program, status, error);
}

/* Options for decoding and scores become settings of validation. */
static int evaluate_own(evaluate_options *args, const et_call *call, et_error *error)
{
    const et_translating *work = &args->work;
    et_arena arena = ET_ARENA_INIT;
    et_evaluate_args own = { .model_dir = work->model_dir,
                             .checkpoint = work->options.checkpoint,
                             .live_weights = work->options.live_weights,
                             .json = args->json,
                             .quiet = work->quiet };
    const char *texts[] = {
        work->beam_size
            ? et_arena_printf(&arena, "task.model.beam_size=%lld", (long long)work->beam_size)
            : "",
        work->alpha >= 0 ? et_arena_printf(&arena, "task.model.alpha=%.17g", work->alpha) : "",
        args->score.tokenize >= 0 ? et_arena_printf(&arena, "task.score_tokenize=%s",
                                                    et_score_tokens[args->score.tokenize])
                                  : "",
        args->score.lowercase ? "task.score_lowercase=true" : "",
    };
    enum { TEXTS = sizeof texts / sizeof *texts };
    const char **set = et_arena_array(&arena, args->set.count + TEXTS, sizeof *set);
    size_t count = 0;
    for (; set && count < args->set.count; count++)
        set[count] = args->set.items[count];
    for (int i = 0; set && i < TEXTS; i++)
        if (texts[i] && *texts[i])
            set[count++] = texts[i];
    own.set = (et_strings){ set, count };
    int status = arena.failed ? et_alloc_failed(error, "settings")
                              : et_evaluate_own_data(call, &own, NULL, error);
    et_arena_release(&arena);
    /* Ranks have printed the error: its text is empty. */
    return status == ET_ECONFIG && !args->set.count && error && *error->text
               ? et_fail_while(error, status,
                               "evaluate: no SOURCE and TARGET are given, so it reads the run's "
                               "validation data")
               : status;
}

/* The order reports every mistake that can be found without the model first. */
int et_cmd_evaluate_translation(const et_call *call, et_error *error)
{
    et_assert(call && call->options);
    evaluate_options *args = call->options;
    args->score.model_garden = true;
    args->score.width = 2;
    et_translating_take_options(&args->work);
    et_translating *work = &args->work;
    const char **const files[] = { &args->text.source, &args->text.reference };
    int status;
    if (!(status = et_ensemble_runs_take(&work->ensemble, &args->ensemble, files, 2,
                                         work->options.checkpoint, work->task.name, error)) &&
        !(status = et_runs_check_kinds(call->program, work->model_dir, work->ensemble.others,
                                       work->ensemble.count, error)) &&
        !(status = et_parallel_take(&args->text, "evaluate", error)) &&
        !(status = check(args, call->program, error)))
        status = (args->text.source ? evaluate_together : evaluate_own)(args, call, error);
    et_ensemble_runs_release(&args->work.ensemble);
    return status;
}
