/* etude score: hypotheses, a file or standard input, against one file of references, line by line.
 * Prints what sacrebleu prints, signatures included, so that numbers from both can stand in one
 * table.
 *
 *   reference file  --lines--\
 *                             equal counts? -> BLEU, chrF2 [, Model Garden's BLEU] -> stdout
 *   standard input  --lines--/
 *
 * All lines are in memory at once: a corpus score needs only sums, but the counts have to agree
 * before a number is printed. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "command/command.h"
#include "command/options/args.h"
#include "command/outputs.h"
#include "command/results.h"
#include "command/translation/lines.h"
#include "command/translation/scores.h"
#include "command/translation/translation_commands.h"

/* What is appended to the references, or to the translations, would be scored as one of them. */
static int check_output(const et_call *call, const char *reference_path, const char *path,
                        et_error *error)
{
    et_outputs outputs = { .program = call->program };
    et_outputs_read(&outputs, reference_path);
    et_outputs_read_input(&outputs, path);
    int status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    return status;
}

/* References first: their path may be wrong, and standard input can be read once only. */
static int score(const et_call *call, const char *reference_path, const char *path,
                 const et_score_options *options, et_value *results, et_error *error)
{
    const char *name = path ? path : "standard input";
    et_assert(reference_path && options);
    et_lines references = ET_LINES_INIT, hypotheses = ET_LINES_INIT;
    et_line_reader input = { .fd = -1 };
    int status = check_output(call, reference_path, path, error);
    if (!status)
        status = et_lines_read_file(&references, reference_path, NULL, error);
    if (!status && path)
        status = et_lines_read_file(&hypotheses, path, NULL, error);
    if (!status && !path)
        status = et_line_reader_open(&input, STDIN_FILENO, name, error);
    if (!status && !path)
        status = et_line_reader_read(&input, &hypotheses, 0, error);
    if (!status)
        status = et_lines_check_pairs(&hypotheses, name, &references, reference_path, error);
    if (!status)
        status = et_scores_print((const char *const *)hypotheses.items,
                                 (const char *const *)references.items, references.count, options,
                                 results, error);
    et_line_reader_close(&input);
    et_lines_release(&references);
    et_lines_release(&hypotheses);
    return status;
}

/* More than 17 decimals of a double say nothing. */
int et_cmd_score(const et_call *call, et_error *error)
{
    et_score_options options = { .tokenize = -1, .width = 1 };
    /* sacrebleu's own default of --width. */
    int64_t width = 1;
    et_arg_list paths = { .count = 0 };
    bool json = false;
    const et_arg table[] = { ET_ARG_CHOICE("tokenize", NULL, &options.tokenize, et_score_tokens,
                                           "none: for tokenized text"),
                             ET_ARG_FLAG("lowercase", &options.lowercase, "compare without case"),
                             ET_ARG_FLAG("model-garden", &options.model_garden,
                                         "also Model Garden's own uncased BLEU"),
                             ET_ARG_COUNT("width", "N", &width, 0, 17, "decimals of scores"),
                             ET_ARG_JSON(json),
                             ET_ARG_REST("REFERENCE [TRANSLATIONS]", &paths),
                             ET_ARG_END };
    bool help;
    int status = et_args_parse(table, call, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, call,
                     "Scores translations, a file or standard input, against a file of references: "
                     "BLEU and\nchrF2 as sacrebleu prints them.",
                     "test.de test.hyp");
        return ET_OK;
    }
    if (paths.count != 1 && paths.count != 2)
        return et_fail(error, ET_EUSAGE,
                       "score: found %d files; give one of references, and one of translations "
                       "unless they come from standard input",
                       paths.count);
    options.width = (int)width;
    et_arena arena = ET_ARENA_INIT;
    et_value *results = json ? et_value_dict(&arena) : NULL;
    status = json && !results ? et_alloc_failed(error, 0, "scores")
                              : score(call, paths.items[0], paths.count > 1 ? paths.items[1] : NULL,
                                      &options, results, error);
    if (!status && json)
        status = et_results_print(results, error);
    et_arena_release(&arena);
    return status;
}
