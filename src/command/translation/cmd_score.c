/* etude score: compares hypotheses, from a file or standard input, with one file of references,
 * line by line. Prints the lines of sacrebleu with its signatures, so numbers of both programs can
 * be in one table.
 *
 *   reference file  --lines--\
 *                             equal counts? -> BLEU, chrF2 [, Model Garden's BLEU] -> stdout
 *   standard input  --lines--/
 *
 * All lines are in memory at once: a corpus score needs only sums, but the numbers of lines must
 * agree before a score is printed. */
#include <stdint.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/translation/lines.h"
#include "command/translation/scores.h"
#include "command/translation/translation_commands.h"

typedef struct score_command {
    et_score_options score;
    int64_t width; /* decimals; more than 17 of a double say nothing */
    et_strings paths;
    bool json;
} score_command;

/* sacrebleu's own default of --width. */
static const et_option options[] = {
    ET_OPTION_CHOICE(score_command, score.tokenize, "tokenize", NULL, et_score_tokens,
                     "tokenization of BLEU; none: for text that is already tokenized",
                     .field.default_number = -1),
    ET_OPTION_FLAG(score_command, score.lowercase, "lowercase", "ignore case"),
    ET_OPTION_FLAG(score_command, score.model_garden, "model-garden",
                   "also print Model Garden's uncased BLEU"),
    ET_OPTION_COUNT(score_command, width, "width", "N", 0, 17, "number of decimals of the scores",
                    .field.default_number = 1),
    ET_OPTION_JSON(score_command, json),
    ET_OPTION_REST(score_command, paths, "REFERENCE [FILE]"),
    ET_OPTION_END
};

const et_usage et_usage_score = { options, sizeof(score_command),
                                  "Scores translations, a file or standard input, against a file "
                                  "of references:\nBLEU and chrF2 as sacrebleu prints them.",
                                  "test.de test.hyp" };

/* An output appended to the references or translations would be scored as part of them. */
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
                 const et_score_options *how, et_value *results, et_error *error)
{
    const char *name = path ? path : "standard input";
    et_assert(reference_path && how);
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
                                 (const char *const *)references.items, references.count, how,
                                 results, error);
    et_line_reader_close(&input);
    et_lines_release(&references);
    et_lines_release(&hypotheses);
    return status;
}

int et_cmd_score(const et_call *call, et_error *error)
{
    score_command *o = call->options;
    const et_strings *paths = &o->paths;
    if (paths->count != 1 && paths->count != 2)
        return et_fail(error, ET_EUSAGE,
                       "score: found %zu files; give a file of references, and a file of "
                       "translations or standard input",
                       paths->count);
    o->score.width = (int)o->width;
    et_arena arena = ET_ARENA_INIT;
    et_value *results = o->json ? et_value_dict(&arena) : NULL;
    int status = o->json && !results
                     ? et_alloc_failed(error, 0, "scores")
                     : score(call, paths->items[0], paths->count > 1 ? paths->items[1] : NULL,
                             &o->score, results, error);
    if (!status && o->json)
        status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}
