/* etude score: compares hypotheses, from files or standard input, with one file of references, line
 * by line. Prints the lines of sacrebleu with its signatures, so numbers of both programs can be in
 * one table.
 *
 *   reference file  --lines--\
 *                             equal counts? -> BLEU, chrF2 [, TER, Model Garden's BLEU] -> stdout
 *   standard input  --lines--/
 *
 * Several files of hypotheses, or --significance, give tables. All lines are in memory at once: a
 * corpus score needs only sums, but the numbers of lines must agree before a score is printed. */
#include <stdint.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/translation/lines.h"
#include "command/translation/scoring/scores.h"
#include "command/translation/translation_commands.h"
#include "train/checkpoint/run_names.h"

/* sacrebleu's. */
enum { SAMPLES = 1000, SEED = 12345 };

typedef struct score_command {
    et_score_options score;
    int64_t width;         /* decimals; more than 17 of a double say nothing */
    int64_t samples, seed; /* negative: not given */
    et_strings paths;
    bool json;
} score_command;

/* sacrebleu's own default of --width. */
static const et_option options[] = {
    ET_OPTION_GROUP(score_command, score, et_scores_options),
    ET_OPTION_FLAG(score_command, score.model_garden, "model-garden",
                   "also print Model Garden's uncased BLEU"),
    ET_OPTION_FLAG(score_command, score.significance, "significance",
                   "intervals by bootstrap resampling, and whether files differ from the first by "
                   "more than chance"),
    ET_OPTION_COUNT(score_command, samples, "samples", "N", 1, 1000000,
                    "number of resamples for --significance (default: 1000)",
                    .field.default_number = -1),
    ET_OPTION_COUNT(score_command, seed, "seed", "N", 0, ET_OPTION_COUNT_MAX,
                    "seed of the resamples (default: 12345)", .field.default_number = -1),
    ET_OPTION_COUNT(score_command, width, "width", "N", 0, 17, "number of decimals of the scores",
                    .field.default_number = 1),
    ET_OPTION_JSON(score_command, json),
    ET_OPTION_REST(score_command, paths, "REFERENCE [FILE]..."),
    ET_OPTION_END
};

const et_usage et_usage_score = {
    options, sizeof(score_command),
    "Scores translations, files or standard input, against a file of references:\n"
    "BLEU, chrF2 and TER as sacrebleu prints them.",
    "test.de test.hyp"
};

/* The files of a call: references, then outputs, of which standard input has no path. */
typedef struct scoring {
    const et_score_options *how;
    const char *const *paths; /* [1 + count] */
    int count;                /* of outputs; at least 1 */
    bool standard;            /* the only output is standard input */
    et_lines references;
    et_lines *lines;           /* [count], owned, as the next */
    et_scored_output *outputs; /* [count] */
} scoring;

/* An output appended to the references or translations would be scored as part of them. */
static int check_output(const et_call *call, const scoring *s, et_error *error)
{
    et_outputs outputs = { .program = call->program };
    for (int i = 0; i <= s->count; i++)
        if (i && s->standard)
            et_outputs_read_input(&outputs, NULL);
        else
            et_outputs_read(&outputs, s->paths[i]);
    int status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    return status;
}

static int read_standard(et_lines *lines, const char *name, et_error *error)
{
    et_line_reader input;
    int status = et_line_reader_open(&input, STDIN_FILENO, name, error);
    if (!status)
        status = et_line_reader_read(&input, lines, 0, error);
    et_line_reader_close(&input);
    return status;
}

static int read_output(scoring *s, int i, et_error *error)
{
    const char *name = s->standard ? "standard input" : s->paths[i + 1];
    et_lines *lines = &s->lines[i];
    int status = s->standard ? read_standard(lines, name, error)
                             : et_lines_read_file(lines, name, NULL, error);
    if (!status)
        status = et_lines_check_pairs(lines, name, &s->references, s->paths[0], error);
    s->outputs[i] = (et_scored_output){ name, (const char *const *)lines->items };
    return status;
}

/* References first: their path may be wrong, and standard input can be read once only. */
static int read_all(scoring *s, et_error *error)
{
    s->lines = et_alloc_zero((size_t)s->count, sizeof *s->lines);
    s->outputs = et_alloc_zero((size_t)s->count, sizeof *s->outputs);
    if (!s->lines || !s->outputs)
        return et_alloc_failed(error, (size_t)s->count * sizeof *s->lines, "files");
    int status = et_lines_read_file(&s->references, s->paths[0], NULL, error);
    for (int i = 0; i < s->count && !status; i++)
        status = read_output(s, i, error);
    return status;
}

static int score(const et_call *call, scoring *s, et_value *results, et_error *error)
{
    int status = et_scores_check(s->how, error);
    if (!status)
        status = check_output(call, s, error);
    if (!status)
        status = read_all(s, error);
    const char *const *references = (const char *const *)s->references.items;
    if (!status && (s->count > 1 || s->how->significance))
        status = et_scores_compare(s->outputs, s->count, references, s->references.count, s->how,
                                   results, error);
    else if (!status)
        status = et_scores_print(s->outputs[0].lines, references, s->references.count, s->how,
                                 results, error);
    for (int i = 0; s->lines && i < s->count; i++)
        et_lines_release(&s->lines[i]);
    et_lines_release(&s->references);
    et_free(s->lines);
    et_free(s->outputs);
    return status;
}

static int take_options(score_command *o, const et_program *program, et_error *error)
{
    if (!o->score.significance && (o->samples >= 0 || o->seed >= 0))
        return et_fail(error, ET_EUSAGE, "score: --%s: only with --significance",
                       o->samples >= 0 ? "samples" : "seed");
    if (!o->paths.count)
        return et_fail(error, ET_EUSAGE,
                       "score: give a file of references, and files of translations or standard "
                       "input");
    for (size_t i = 0; i < o->paths.count; i++)
        if (et_file_exists_in(o->paths.items[i], ET_RUN_SETTINGS))
            return et_fail(error, ET_EUSAGE,
                           "score: %s is a run, and score compares files of translations; to "
                           "evaluate the run: `%s evaluate %s`",
                           o->paths.items[i], program->name, o->paths.items[i]);
    o->score.width = (int)o->width;
    o->score.samples = o->samples >= 0 ? o->samples : SAMPLES;
    o->score.seed = o->seed >= 0 ? o->seed : SEED;
    return ET_OK;
}

int et_cmd_score(const et_call *call, et_error *error)
{
    et_assert(call && call->options);
    score_command *o = call->options;
    int status = take_options(o, call->program, error);
    if (status)
        return status;
    const bool standard = o->paths.count == 1;
    scoring s = { .how = &o->score,
                  .paths = o->paths.items,
                  .count = standard ? 1 : (int)o->paths.count - 1,
                  .standard = standard };
    et_arena arena = ET_ARENA_INIT;
    et_value *results = o->json ? et_value_dict(&arena) : NULL;
    status =
        o->json && !results ? et_alloc_failed(error, 0, "scores") : score(call, &s, results, error);
    if (!status && o->json)
        status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}
