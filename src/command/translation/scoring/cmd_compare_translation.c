/* etude compare for translation: with --translations, the sentences in which two outputs differ
 * most. An output is a file of translations, or a run that translates now.
 *
 *   A, B --files or runs--> lines --score of each sentence--> difference, the largest first
 *
 * With --json: {"metric": NAME, "outputs": [TEXT, TEXT], "scores": [NUMBER, NUMBER], "better": [N,
 * N], "sentence_count": N, "sentences": [{"line": N, "difference": NUMBER, "scores": [...],
 * "source": TEXT, "reference": TEXT, "translations": [TEXT, TEXT]}, ...]}, the second output less
 * the first.
 *
 * Without the option it is the `compare` of all runs (command/runs). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/score.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/terminal.h"
#include "command/options/ensemble.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/runs/histories.h"
#include "command/translation/lines.h"
#include "command/translation/translating.h"
#include "command/translation/translation_commands.h"
#include "metric/score.h"
#include "tasks/translation/settings/translation_options.h"

enum { SIDES = 2, LINES = 10, LABEL = 11 };

typedef struct compare_options {
    et_compare_args runs;
    et_translating work;
    bool translations;
    et_parallel_args text;
    int metric;    /* -1: not given, chrF */
    int64_t lines; /* negative: not given */
} compare_options;

/* ORDER kinds, below. */
static const char *const metrics[] = { "chrf", "bleu", "ter", NULL };

static const et_option options[] = {
    ET_OPTION_FLAG(compare_options, translations, "translations",
                   "show the sentences in which two runs, or two files of translations, differ "
                   "most"),
    ET_OPTION_ROW(compare_options, text.data, et_option_uses, STRING, FILES, "data",
                  "SOURCE TARGET",
                  "for --translations: sources and references, or one file of pairs, PAIRS.tsv"),
    ET_OPTION_TEXT(compare_options, text.source, "source", "FILE", "only the sources"),
    ET_OPTION_TEXT(compare_options, text.reference, "reference", "FILE", "only the references"),
    ET_OPTION_CHOICE(compare_options, metric, "metric", NULL, metrics,
                     "score of a sentence whose difference counts (default: chrf)",
                     .field.default_number = -1),
    ET_OPTION_COUNT(compare_options, lines, "lines", "N", 1, ET_OPTION_COUNT_MAX,
                    "number of sentences to show (default: 10)", .field.default_number = -1),
    ET_OPTION_GROUP(compare_options, work, et_translating_search_options),
    ET_OPTION_PRECISION(compare_options, work.options.precision),
    ET_OPTION_QUIET(compare_options, work.quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_GROUP(compare_options, runs, et_compare_options),
    ET_OPTION_END
};

const et_usage et_usage_compare_translation = {
    options, sizeof(compare_options),
    "Compares runs: settings that differ, last and best values, speed; or translations,\n"
    "sentence by sentence.",
    "runs/a runs/b"
};

/* ---- outputs ---- */

/* A line and its scores in both outputs. */
typedef struct sentence {
    size_t line; /* from 0 */
    double score[SIDES];
} sentence;

typedef struct comparison {
    compare_options *args;
    const char *const *words; /* [SIDES] */
    et_arena arena;           /* of names */
    et_lines sources, references;
    et_lines lines[SIDES];        /* of files */
    char **results[SIDES];        /* of runs; owned */
    const char *const *of[SIDES]; /* either of them */
    const char *name[SIDES];      /* for people */
    double corpus[SIDES];
    sentence *sentences; /* [references.count], the largest difference first; owned */
} comparison;

static int translate(comparison *c, int side, et_error *error)
{
    et_translating work = c->args->work;
    work.model_dir = c->words[side];
    if (ET_ALLOC_ZERO(c->results[side], c->sources.count, "translations", error))
        return ET_ENOMEM;
    int status = et_translating_lines(&work, &c->sources, c->results[side], error);
    if (!status) {
        c->name[side] = et_arena_printf(&c->arena, "%s, step %s", work.model_dir,
                                        et_format_count(et_translator_step(work.translator)).text);
        c->of[side] = (const char *const *)c->results[side];
        status = c->name[side] ? ET_OK : et_alloc_failed(error, "a name");
    }
    return et_translating_close(&work, status, error);
}

/* ---- scores ---- */

static int new_chrf(et_score **out, bool alone, et_error *error)
{
    (void)alone;
    return et_chrf_new(out, NULL, error);
}

static int new_bleu(et_score **out, bool alone, et_error *error)
{
    et_bleu_options bleu = ET_BLEU_OPTIONS_INIT;
    bleu.effective_order = alone;
    return et_bleu_new(out, &bleu, error);
}

static int new_ter(et_score **out, bool alone, et_error *error)
{
    (void)alone;
    return et_ter_new(out, NULL, error);
}

static const struct {
    const char *title, *name;
    bool lower;
    int (*make)(et_score **out, bool alone, et_error *error);
} kinds[] = {
    { "chrF2", ET_TRANSLATION_CHRF, false, new_chrf },
    { "BLEU", ET_TRANSLATION_BLEU, false, new_bleu },
    { "TER", "ter_score", true, new_ter },
};

static int kind_of(const comparison *c)
{
    return c->args->metric < 0 ? 0 : c->args->metric;
}

static double difference(const sentence *s)
{
    return s->score[1] - s->score[0];
}

static int larger_first(const void *left, const void *right)
{
    const sentence *a = left, *b = right;
    const double x = fabs(difference(a)), y = fabs(difference(b));
    if (x != y)
        return x < y ? 1 : -1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static int score_side(comparison *c, int side, et_score *corpus, et_score *alone, et_error *error)
{
    const char *const *references = (const char *const *)c->references.items;
    et_score_result result;
    int status = ET_OK;
    et_score_clear(corpus);
    for (size_t i = 0; i < c->references.count && !status; i++) {
        status = et_score_add(corpus, c->of[side][i], references[i], error);
        if (!status)
            status = et_score_sentence(alone, &result, c->of[side][i], references[i], error);
        c->sentences[i].line = i;
        c->sentences[i].score[side] = status ? 0 : result.score;
    }
    if (!status)
        status = et_score_value(corpus, &result, error);
    c->corpus[side] = status ? 0 : result.score;
    return status ? et_fail_while(error, status, "%s", c->name[side]) : ET_OK;
}

static int score_all(comparison *c, et_error *error)
{
    et_score *corpus = NULL, *alone = NULL;
    int status = ET_ALLOC(c->sentences, c->references.count, "scores of sentences", error);
    if (!status && !(status = kinds[kind_of(c)].make(&corpus, false, error)))
        status = kinds[kind_of(c)].make(&alone, true, error);
    for (int i = 0; i < SIDES && !status; i++)
        status = score_side(c, i, corpus, alone, error);
    if (!status)
        qsort(c->sentences, c->references.count, sizeof *c->sentences, larger_first);
    et_score_free(corpus);
    et_score_free(alone);
    return status;
}

/* The number of sentences in which an output is better than the other output. */
static int64_t count_better(const comparison *c, int side)
{
    int64_t count = 0;
    for (size_t i = 0; i < c->references.count; i++) {
        const double more = difference(&c->sentences[i]) * (kinds[kind_of(c)].lower ? -1 : 1);
        count += side ? more > 0 : more < 0;
    }
    return count;
}

/* Sentences to show: no more than differ. */
static size_t shown(const comparison *c)
{
    const size_t most = c->args->lines < 0 ? LINES : (size_t)c->args->lines;
    const size_t differ = (size_t)(count_better(c, 0) + count_better(c, 1));
    return differ < most ? differ : most;
}

/* ---- printing ---- */

static void print_labelled(const char *label, const char *text, int width, et_strbuf *plain)
{
    et_strbuf_reset(plain);
    et_plain_append(plain, text);
    printf("%-*s", LABEL, label);
    et_terminal_wrap(stdout, et_strbuf_text(plain), LABEL, LABEL, width);
    putchar('\n');
}

static int print_text(const comparison *c, et_error *error)
{
    static const char *const labels[SIDES] = { "A", "B" };
    const int width = et_terminal_width(STDOUT_FILENO);
    et_strbuf plain = ET_STRBUF_INIT;
    const int64_t a = count_better(c, 0), b = count_better(c, 1);
    for (int i = 0; i < SIDES; i++)
        et_print(stdout, "%-*s%s: %s %s, better in %s\n", LABEL, labels[i], c->name[i],
                 kinds[kind_of(c)].title, et_format_fixed(c->corpus[i], 1).text,
                 et_format_many(i ? b : a, "sentence").text);
    printf("%-*s%s\n", LABEL, "equal",
           et_format_many((int64_t)c->references.count - a - b, "sentence").text);
    for (size_t i = 0; i < shown(c); i++) {
        const sentence *s = &c->sentences[i];
        printf("\nline %s   %s %s -> %s (%s%s)\n", et_format_count((int64_t)s->line + 1).text,
               kinds[kind_of(c)].title, et_format_fixed(s->score[0], 1).text,
               et_format_fixed(s->score[1], 1).text, difference(s) > 0 ? "+" : "",
               et_format_fixed(difference(s), 1).text);
        if (c->sources.count)
            print_labelled("source", c->sources.items[s->line], width, &plain);
        print_labelled("reference", c->references.items[s->line], width, &plain);
        print_labelled("A", c->of[0][s->line], width, &plain);
        print_labelled("B", c->of[1][s->line], width, &plain);
    }
    int status = plain.failed ? et_alloc_failed(error, "a sentence") : ET_OK;
    et_strbuf_release(&plain);
    return status;
}

static void add_scores(et_value *dict, const double pair[SIDES])
{
    et_value *list = et_value_set_list(dict, "scores");
    for (int i = 0; i < SIDES; i++)
        et_value_add_float(list, pair[i]);
}

static int print_json(const comparison *c, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *all = et_value_dict(&arena);
    et_value_set_string(all, "metric", kinds[kind_of(c)].name);
    et_value *names = et_value_set_list(all, "outputs");
    et_value *better = et_value_set_list(all, "better");
    for (int i = 0; i < SIDES; i++) {
        et_value_add_string(names, c->words[i]);
        et_value_add_int(better, count_better(c, i));
    }
    et_value_set_int(all, "sentence_count", (int64_t)c->references.count);
    add_scores(all, c->corpus);
    et_value *sentences = et_value_set_list(all, "sentences");
    for (size_t i = 0; i < shown(c); i++) {
        const sentence *s = &c->sentences[i];
        et_value *to = et_value_add_dict(sentences);
        et_value_set_int(to, "line", (int64_t)s->line + 1);
        et_value_set_float(to, "difference", difference(s));
        add_scores(to, s->score);
        if (c->sources.count)
            et_value_set_string(to, "source", c->sources.items[s->line]);
        et_value_set_string(to, "reference", c->references.items[s->line]);
        et_value *texts = et_value_set_list(to, "translations");
        for (int k = 0; k < SIDES; k++)
            et_value_add_string(texts, c->of[k][s->line]);
    }
    int status = et_print_json(all, error);
    et_arena_release(&arena);
    return status;
}

/* ---- the command ---- */

static int compare(compare_options *args, et_error *error)
{
    comparison c = { .args = args, .words = args->runs.words.items };
    et_translating_take_options(&args->work);
    /* Files first: a wrong path is known before minutes of decoding. */
    const et_parallel_args *text = &c.args->text;
    int status = text->source ? et_parallel_read(text, &c.sources, &c.references, NULL, error)
                              : et_lines_read_file(&c.references, text->reference, NULL, error);
    for (int i = 0; i < SIDES && !status; i++)
        if (!et_word_is_run(c.words[i])) {
            const char *path = c.words[i];
            et_lines *lines = &c.lines[i];
            status = et_lines_read_file(lines, path, NULL, error);
            if (!status)
                status = et_lines_check_pairs(
                    lines, path, &c.references,
                    c.args->text.pairs ? c.args->text.source : c.args->text.reference, error);
            c.name[i] = path;
            c.of[i] = (const char *const *)lines->items;
        }
    for (int i = 0; i < SIDES && !status; i++)
        if (et_word_is_run(c.words[i]))
            status = translate(&c, i, error);
    if (!status && !(status = score_all(&c, error)))
        status = args->runs.json ? print_json(&c, error) : print_text(&c, error);
    for (int i = 0; i < SIDES; i++) {
        et_translator_free_results(c.results[i], c.sources.count);
        et_free(c.results[i]);
        et_lines_release(&c.lines[i]);
    }
    et_lines_release(&c.sources);
    et_lines_release(&c.references);
    et_free(c.sentences);
    et_arena_release(&c.arena);
    return status;
}

static int check_translations(const compare_options *args, const et_program *program,
                              et_error *error)
{
    const et_strings *words = &args->runs.words;
    if (words->count != SIDES)
        return et_fail(error, ET_EUSAGE,
                       "compare --translations: found %zu names; give two, each a run or a file of "
                       "translations",
                       words->count);
    int status = et_runs_check_kinds(program, words->items[0], words->items + 1, 1, error);
    if (status)
        return status;
    if (args->runs.all)
        return et_fail(error, ET_EUSAGE, "compare: --all: not with --translations; use --lines N");
    if (args->text.source)
        return et_parallel_check(&args->text, "compare", error);
    if (!args->text.reference)
        return et_fail(error, ET_EUSAGE,
                       "compare --translations: --data is missing; name sources and references");
    for (size_t i = 0; i < SIDES; i++)
        if (et_word_is_run(words->items[i]))
            return et_fail(error, ET_EUSAGE,
                           "compare: --source is missing; name the lines that %s translates",
                           words->items[i]);
    return ET_OK;
}

/* The options that only --translations has. */
static int check_runs(const compare_options *args, et_error *error)
{
    const et_translating *work = &args->work;
    const char *given = args->text.source         ? "data"
                        : args->text.reference    ? "reference"
                        : args->metric >= 0       ? "metric"
                        : args->lines >= 0        ? "lines"
                        : work->beam_size         ? "beam-size"
                        : work->alpha >= 0        ? "alpha"
                        : work->options.precision ? "precision"
                                                  : NULL;
    if (given)
        return et_fail(error, ET_EUSAGE, "compare: --%s: only with --translations", given);
    for (size_t i = 0; i < args->runs.words.count; i++)
        if (et_file_exists(args->runs.words.items[i]) && !et_word_is_run(args->runs.words.items[i]))
            return et_fail(error, ET_EUSAGE,
                           "compare: %s is a file; to compare files of translations, add "
                           "--translations",
                           args->runs.words.items[i]);
    return ET_OK;
}

int et_cmd_compare_translation(const et_call *call, et_error *error)
{
    et_assert(call && call->options);
    compare_options *args = call->options;
    int status = et_parallel_take(&args->text, "compare", error);
    if (!status)
        status = args->translations ? check_translations(args, call->program, error)
                                    : check_runs(args, error);
    if (status)
        return status;
    return args->translations ? compare(args, error) : et_compare_runs(&args->runs, error);
}
