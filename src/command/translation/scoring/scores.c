/* Prints scores as sacrebleu does (Post 2018, "A call for clarity in reporting BLEU scores"): the
 * value with its parts, and the signature, which gives the rules. Each metric has a line. On
 * request there is also a line of Model Garden's uncased BLEU, with its name in place of a
 * signature.
 *
 * The scores check both lists of lines for UTF-8; the caller has compared the numbers of lines. */
#include "command/translation/scoring/scores.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/score.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/translation/lines.h"
#include "command/translation/translation_commands.h"
#include "formats/grid.h"
#include "metric/bootstrap.h"
#include "metric/score.h"
#include "tasks/translation/settings/translation_options.h"
#include "train/checkpoint/run_names.h"

/* ORDER et_bleu_tokens. */
const char *const et_score_tokens[] = { "13a", "none", "char", NULL };

const et_option et_scores_options[] = {
    ET_OPTION_LIST(et_score_options, metrics, "metrics", "bleu|chrf|ter,...",
                   "scores to compute (default: bleu,chrf)"),
    ET_OPTION_CHOICE(et_score_options, tokenize, "tokenize", NULL, et_score_tokens,
                     "tokenization of BLEU; none: for text that is already tokenized",
                     .field.default_number = -1),
    ET_OPTION_FLAG(et_score_options, lowercase, "lowercase", "ignore case in BLEU and chrF2"),
    ET_OPTION_FLAG(et_score_options, case_sensitive, "ter-case-sensitive",
                   "distinguish case in TER, which ignores it otherwise"),
    ET_OPTION_END,
};

enum { METRICS_MAX = 4, SIGNATURE_MAX = ET_SCORE_TEXT_MAX + 64 };

/* title: of a column. */
typedef struct metric {
    const char *name, *title;
    et_score *score; /* owned */
    char signature[SIGNATURE_MAX];
} metric;

typedef struct metrics {
    metric items[METRICS_MAX];
    int count;
} metrics;

/* ---- metrics ---- */

static void close_metrics(metrics *m)
{
    for (int i = 0; i < m->count; i++)
        et_score_free(m->items[i].score);
    m->count = 0;
}

/* ORDER kinds. */
enum { BLEU, CHRF, TER, GARDEN, KINDS };

/* given: in --metrics. signature NULL: the score's own. */
static const struct kind {
    const char *given, *name, *title, *signature;
} kinds[] = {
    { "bleu", ET_TRANSLATION_BLEU, "BLEU", NULL },
    { "chrf", ET_TRANSLATION_CHRF, "chrF2", NULL },
    { "ter", "ter_score", "TER", NULL },
    { NULL, ET_TRANSLATION_GARDEN_BLEU, "Model Garden", "model-garden-uncased" },
};

static int add_metric(metrics *m, int number, const et_score_options *options, et_error *error)
{
    et_assert(m->count < METRICS_MAX);
    const struct kind *kind = &kinds[number];
    metric *to = &m->items[m->count];
    char own[ET_SCORE_TEXT_MAX];
    et_bleu_options bleu = ET_BLEU_OPTIONS_INIT;
    const et_bleu_options garden = ET_BLEU_OPTIONS_MODEL_GARDEN; /* no option changes its rules */
    const et_chrf_options chrf = { .lowercase = options->lowercase };
    const et_ter_options ter = { .case_sensitive = options->case_sensitive };
    if (options->tokenize >= 0)
        bleu.tokens = (et_bleu_tokens)options->tokenize;
    bleu.lowercase = options->lowercase;
    int status = number == CHRF  ? et_chrf_new(&to->score, &chrf, error)
                 : number == TER ? et_ter_new(&to->score, &ter, error)
                                 : et_bleu_new(&to->score, number == BLEU ? &bleu : &garden, error);
    if (status)
        return status;
    m->count++;
    to->name = kind->name;
    to->title = kind->title;
    const char *signature = kind->signature ? kind->signature : et_score_signature(to->score, own);
    const char *rest = strchr(signature, '|');
    if (options->significance && rest) /* at sacrebleu's position */
        snprintf(to->signature, sizeof to->signature, "%.*s|bs:%lld|seed:%lld%s",
                 (int)(rest - signature), signature, (long long)options->samples,
                 (long long)options->seed, rest);
    else
        snprintf(to->signature, sizeof to->signature, "%s", signature);
    return ET_OK;
}

static int open_metrics(metrics *m, const et_score_options *options, et_error *error)
{
    static const char *const usual[] = { "bleu", "chrf" };
    et_arena arena = ET_ARENA_INIT;
    et_strings names = { usual, 2 };
    int status = ET_OK;
    m->count = 0;
    if (options->metrics.count)
        status = et_name_list_read(&names, "--metrics", &options->metrics, &arena, error);
    for (size_t i = 0; i < names.count && !status; i++) {
        int k = 0;
        while (k < GARDEN && strcmp(kinds[k].given, names.items[i]) != 0)
            k++;
        status = k < GARDEN ? add_metric(m, k, options, error)
                            : et_fail(error, ET_EUSAGE,
                                      "--metrics %s: choose bleu, chrf and ter, with commas",
                                      names.items[i]);
    }
    if (!status && options->model_garden)
        status = add_metric(m, GARDEN, options, error);
    et_arena_release(&arena);
    if (status)
        close_metrics(m);
    return status;
}

int et_scores_check(const et_score_options *options, et_error *error)
{
    et_assert(options);
    metrics all;
    int status = open_metrics(&all, options, error);
    close_metrics(&all);
    return status;
}

/* ---- one output ---- */

int et_scores_print(const char *const *hypotheses, const char *const *references, size_t count,
                    const et_score_options *options, et_value *results, et_error *error)
{
    metrics all;
    et_value *values = results ? et_value_set_dict(results, "values") : NULL;
    et_value *signatures = results ? et_value_set_dict(results, "signatures") : NULL;
    et_assert(count > 0);
    if (results && !signatures)
        return et_alloc_failed(error, "scores");
    int status = open_metrics(&all, options, error);
    for (int i = 0; i < all.count && !status; i++) {
        const metric *m = &all.items[i];
        et_score_result result = { 0 };
        char text[ET_SCORE_TEXT_MAX];
        status = et_score_add_corpus(m->score, hypotheses, count, references, count, error);
        if (!status)
            status = et_score_value(m->score, &result, error);
        if (!status && values) {
            et_value_set_float(values, m->name, result.score);
            et_value_set_string(signatures, m->name, m->signature);
        } else if (!status) { /* sacrebleu has the signature between "BLEU" and the number */
            et_print(stdout, "%s\n",
                     et_score_print(m->score, &result, options->width, m->signature, text));
        }
    }
    close_metrics(&all);
    return status;
}

/* ---- several outputs ---- */

/* The output of a program: as many lines as the references. */
typedef struct scored_output {
    const char *name;
    const char *const *lines;
} scored_output;

/* counts: [outputs][lines] of the metric in hand; results: [metrics, outputs]. */
typedef struct comparison {
    const scored_output *outputs;
    int count;
    const char *const *references;
    size_t lines;
    const et_score_options *options;
    et_score_counts **counts;
    et_bootstrap_result *results;
} comparison;

static int compute(comparison *c, const metric *m, et_bootstrap_result *results, et_error *error)
{
    const et_bootstrap bootstrap = { c->options->samples, (uint64_t)c->options->seed };
    int status = ET_OK;
    et_assert(c->counts);
    for (int o = 0; o < c->count && !status; o++) {
        et_score_counts sum = { .bleu = { 0 } };
        for (size_t i = 0; i < c->lines && !status; i++) {
            status = et_score_count(m->score, &c->counts[o][i], (int64_t)i + 1,
                                    c->outputs[o].lines[i], c->references[i], error);
            if (!status)
                et_score_sum(m->score, &sum, &c->counts[o][i]);
        }
        if (status)
            return et_fail_while(error, status, "%s", c->outputs[o].name);
        et_score_compute(m->score, &results[o].real, &sum);
    }
    return c->options->significance ? et_bootstrap_run(&bootstrap, m->score, c->counts, c->count,
                                                       c->lines, results, error)
                                    : ET_OK;
}

static void add_number(et_grid *grid, double value, int width)
{
    et_grid_add(grid, et_format_fixed(value, width).text);
}

/* A table for each metric. */
static int print_significance(const comparison *c, const metric *m,
                              const et_bootstrap_result *results, et_error *error)
{
    const int width = c->options->width;
    et_grid grid = { .columns = c->count > 1 ? 5 : 4, .left = 1 };
    static const char *const head[] = { "output", "score", "mean", "+-", "p" };
    for (size_t i = 0; i < grid.columns; i++)
        et_grid_add(&grid, head[i]);
    for (int o = 0; o < c->count; o++) {
        et_grid_add(&grid, c->outputs[o].name);
        add_number(&grid, results[o].real.score, width);
        add_number(&grid, results[o].mean, width);
        add_number(&grid, results[o].interval, width);
        if (o)
            add_number(&grid, results[o].p_value, 4);
        else if (c->count > 1)
            et_grid_add(&grid, NULL);
    }
    et_print(stdout, "%s|%s\n", m->title, m->signature);
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    et_print(stdout, "\n");
    return status;
}

static int print_all(const comparison *c, const metrics *all, et_error *error)
{
    if (!c->options->significance) {
        /* A table with a row for each output and a column for each metric. */
        et_grid grid = { .columns = (size_t)all->count + 1, .left = 1 };
        et_grid_add(&grid, "output");
        for (int i = 0; i < all->count; i++)
            et_grid_add(&grid, all->items[i].title);
        for (int o = 0; o < c->count; o++) {
            et_grid_add(&grid, c->outputs[o].name);
            for (int i = 0; i < all->count; i++)
                add_number(&grid, c->results[i * c->count + o].real.score, c->options->width);
        }
        int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
        et_grid_release(&grid);
        for (int i = 0; i < all->count; i++)
            et_print(stdout, "%s%s|%s\n", i ? "" : "\n", all->items[i].title,
                     all->items[i].signature);
        return status;
    }
    int status = ET_OK;
    for (int i = 0; i < all->count && !status; i++)
        status = print_significance(c, &all->items[i], c->results + i * c->count, error);
    if (!status)
        et_print_lines(stdout,
                       "+-: 95 %% of %s resamples are within this distance of the middle%s%s\n",
                       et_format_count(c->options->samples).text,
                       c->count > 1 ? "; p: probability of such a difference by chance, from " : "",
                       c->count > 1 ? c->outputs[0].name : "");
    return status;
}

static void set_all(const comparison *c, const metrics *all, et_value *results)
{
    et_value *signatures = et_value_set_dict(results, "signatures");
    et_value *outputs = et_value_set_list(results, "outputs");
    for (int i = 0; i < all->count; i++)
        et_value_set_string(signatures, all->items[i].name, all->items[i].signature);
    for (int o = 0; o < c->count; o++) {
        et_value *output = et_value_add_dict(outputs);
        et_value_set_string(output, "output", c->outputs[o].name);
        et_value *values = et_value_set_dict(output, "values"), *means = NULL, *intervals = NULL;
        et_value *p_values = NULL;
        if (c->options->significance) {
            means = et_value_set_dict(output, "means");
            intervals = et_value_set_dict(output, "intervals");
            p_values = o ? et_value_set_dict(output, "p_values") : NULL;
        }
        for (int i = 0; i < all->count; i++) {
            const et_bootstrap_result *r = &c->results[i * c->count + o];
            const char *name = all->items[i].name;
            et_value_set_float(values, name, r->real.score);
            if (means) {
                et_value_set_float(means, name, r->mean);
                et_value_set_float(intervals, name, r->interval);
            }
            if (p_values)
                et_value_set_float(p_values, name, r->p_value);
        }
    }
}

/* As et_scores_print, for several outputs. The first output is the base of comparison. Sets in
 * results: "signatures", and "outputs", a list of dicts with "output", "values" and, with
 * significance, "means", "intervals" and "p_values". */
static int compare_outputs(const scored_output *outputs, int output_count,
                           const char *const *references, size_t count,
                           const et_score_options *options, et_value *results, et_error *error)
{
    et_assert(output_count > 0 && references);
    comparison c = { outputs, output_count, references, count, options, NULL, NULL };
    metrics all;
    et_arena arena = ET_ARENA_INIT;
    int status = open_metrics(&all, options, error);
    if (!status) {
        const size_t n = (size_t)output_count;
        c.results = et_arena_array(&arena, METRICS_MAX * n, sizeof *c.results);
        c.counts = et_arena_array(&arena, n, sizeof *c.counts);
        for (size_t o = 0; c.counts && o < n; o++)
            c.counts[o] = et_arena_array(&arena, count, sizeof **c.counts);
        if (arena.failed)
            status = et_alloc_failed(error, "scores of lines");
    }
    for (int i = 0; i < all.count && !status; i++)
        status = compute(&c, &all.items[i], c.results + i * output_count, error);
    if (!status && results)
        set_all(&c, &all, results);
    else if (!status)
        status = print_all(&c, &all, error);
    close_metrics(&all);
    et_arena_release(&arena);
    return status;
}

/* ---- score ---- */

/* etude score: compares hypotheses, from files or standard input, with one file of references, line
 * by line. Prints the lines of sacrebleu with its signatures, so numbers of both programs can be in
 * one table.
 *
 *   reference file  --lines--\
 *                             equal counts? -> BLEU, chrF2 [, TER, Model Garden's BLEU] -> stdout
 *   standard input  --lines--/
 *
 * Several files of hypotheses, or --significance, give tables. A corpus score needs only sums, but
 * the numbers of lines must agree before a score is printed, so all lines are in memory. */

/* sacrebleu's. */
enum { SAMPLES = 1000, SEED = 12345 };

typedef struct score_command {
    et_score_options score;
    int64_t width;         /* decimals; a double has at most 17 useful ones */
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
    et_lines *lines;        /* [count], owned, as the next */
    scored_output *outputs; /* [count] */
} scoring;

/* References first: their path may be wrong, and standard input can be read once only. */
static int read_all(scoring *s, et_error *error)
{
    s->lines = et_alloc_zero(s->count, sizeof *s->lines);
    s->outputs = et_alloc_zero(s->count, sizeof *s->outputs);
    if (!s->lines || !s->outputs)
        return et_alloc_failed(error, "files");
    int status = et_lines_read_file(&s->references, s->paths[0], NULL, error);
    for (int i = 0; i < s->count && !status; i++) {
        const char *name = s->standard ? "standard input" : s->paths[i + 1];
        et_lines *lines = &s->lines[i];
        if (s->standard) {
            et_line_reader input;
            status = et_line_reader_open(&input, STDIN_FILENO, name, error);
            if (!status)
                status = et_line_reader_read(&input, lines, 0, error);
            et_line_reader_close(&input);
        } else {
            status = et_lines_read_file(lines, name, NULL, error);
        }
        if (!status)
            status = et_lines_check_pairs(lines, name, &s->references, s->paths[0], error);
        s->outputs[i] = (scored_output){ name, (const char *const *)lines->items };
    }
    return status;
}

static int score(const et_call *call, scoring *s, et_value *results, et_error *error)
{
    int status = et_scores_check(s->how, error);
    if (!status) {
        /* An output appended to the references or translations would be scored as part of them. */
        et_outputs outputs = { .program = call->program };
        for (int i = 0; i <= s->count; i++)
            if (i && s->standard)
                et_outputs_read_input(&outputs, NULL);
            else
                et_outputs_read(&outputs, s->paths[i]);
        et_outputs_check_standard(&outputs, error);
        status = et_outputs_release(&outputs);
    }
    if (!status)
        status = read_all(s, error);
    const char *const *references = (const char *const *)s->references.items;
    if (!status && (s->count > 1 || s->how->significance))
        status = compare_outputs(s->outputs, s->count, references, s->references.count, s->how,
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
                           o->paths.items[i], program->name,
                           et_shell_quote(o->paths.items[i]).text);
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
        o->json && !results ? et_alloc_failed(error, "scores") : score(call, &s, results, error);
    if (!status && o->json)
        status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}
