/* etude translate: a filter from lines to lines, in the order of input. It takes all available
 * lines together, because many sentences sorted by length are decoded fastest. It only waits for
 * the first line of a batch, so a program that asks line by line is answered line by line. At a
 * terminal, each line is answered alone.
 *
 * Options that are not given have the run's values: the defaults of et_translator_options.
 *
 *   stdin -> available lines [at most BATCH] -> translator -> stdout, flushed -> the next lines
 *
 * A translation depends only on its line (with sampling also on the line's number). So the size of
 * batches and the number of ranks change the speed, but no word. Ranks divide the lines of a batch;
 * only rank 0 reads and writes.
 *
 * --split and --format translate pieces of the input and join the translations; a format needs the
 * whole input.
 *
 * Plain translations are printed alone, other results as in translating.h. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/comm.h>
#include <etude/hypotheses.h>
#include <etude/log.h>
#include <etude/translator.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "command/command.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/runs/chart.h"
#include "command/translation/lines.h"
#include "command/translation/translating.h"
#include "command/translation/translation_commands.h"
#include "data/text/sentences.h"
#include "engine/comm/together.h"
#include "formats/records/packed.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/documents/document.h"

/* ---- attention ---- */

/* The line is split at blanks. If this gives as many words as the vocabulary finds, columns have
 * these words. If the vocabulary's normalization joins or splits words, columns have numbers
 * instead. */
#define BLANKS " \t\r\n"

/* The `count` words of a text. If the text has another number of words, "1", "2", ... Without
 * memory the arena has failed. */
static const char **words_of(et_arena *arena, const char *text, int count)
{
    const char **words = et_arena_array(arena, count, sizeof *words);
    char *rest = et_arena_strdup(arena, text), *word;
    int found = 0;
    if (!words || !rest)
        return NULL;
    while ((word = strtok_r(rest, BLANKS, &rest))) {
        if (found < count)
            words[found] = word;
        found++;
    }
    for (int i = 0; i < count && found != count; i++)
        words[i] = et_arena_printf(arena, "%d", i + 1);
    return words;
}

/* As et_attention_plot, of a translation that has alignments (et_decoding_options). Words of the
 * translation label the rows, words of the line the columns. */
static int draw_attention(const char *path, const char *line, const et_hypothesis *found,
                          et_error *error)
{
    et_assert(path && line && found);
    if (!found->alignment_count)
        return et_fail(error, ET_EDATA, "nothing to draw: the translation has no word");
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    const int count = found->alignment_count;
    const double **values = et_arena_array(&arena, count, sizeof *values);
    for (int i = 0; values && i < count; i++)
        values[i] = found->alignment[i].weights;
    const et_chart_heat heat = { .title = "attention",
                                 .rows = words_of(&arena, found->text, count),
                                 .columns = words_of(&arena, line, found->source_words),
                                 .row_count = count,
                                 .column_count = found->source_words,
                                 .values = values };
    int status =
        arena.failed ? et_alloc_failed(error, "a picture") : et_chart_heat_svg(&text, &heat, error);
    if (!status)
        status = et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

int et_attention_plot(const char *run, const char *line, const char *path, et_error *error)
{
    et_assert(run && line && path);
    const et_decoding_options decoding = { .results = 1, .alignments = -1 };
    const et_translator_options options = { .decoding = &decoding };
    et_translator *translator;
    et_hypotheses *found = NULL;
    int status;
    if (!(status = et_translator_open(&translator, run, &options, error)) &&
        !(status = et_translator_search(translator, &line, 1, &found, error)))
        status = draw_attention(path, line, et_hypotheses_at(found, 0, 0), error);
    et_hypotheses_free(found);
    et_translator_close(translator);
    return status;
}

/* ---- documents ---- */

/* Texts that are more than lines (documents/document.h), for --split and --format. */
typedef struct documents {
    int format;                     /* an et_document_format */
    struct et_sentences *sentences; /* owned; NULL: segments are not cut into sentences */
    const char *name;               /* of the input, for messages */
    size_t translated;              /* lines that the translator got so far: numbers of samples */
    size_t lines;                   /* of the input so far */
    et_document_counts counts;
} documents;

/* Standard output, flushed after each write, or a file that becomes visible when it is complete.
 * After a failure there is no file. Only rank 0 writes. */
typedef struct line_output {
    et_packed_writer *file; /* NULL: standard output */
    bool silent;            /* another rank's */
} line_output;

/* All of text, which is empty afterwards. ET_ENOMEM: text is not whole. */
static int line_output_write(line_output *output, et_strbuf *text, et_error *error)
{
    int status = text->failed ? et_alloc_failed(error, "translations") : ET_OK;
    if (!status && output->file) {
        status = et_packed_write(output->file, et_strbuf_text(text), text->length, error);
    } else if (!status && !output->silent) {
        et_print_results(stdout, et_strbuf_text(text), text->length);
        status = et_print_end(status, error);
    }
    et_strbuf_reset(text);
    return status;
}

static void count(et_document_counts *all, const et_document_counts *some)
{
    size_t known = 0;
    if (!all->repaired)
        all->line = some->line;
    all->segments += some->segments;
    all->repaired += some->repaired;
    all->kept += some->kept;
    if (!all->refused)
        all->refused_line = some->refused_line;
    all->refused += some->refused;
    while (known < ET_DOCUMENT_KEPT_LINES && all->kept_lines[known])
        known++;
    for (size_t i = 0; known < ET_DOCUMENT_KEPT_LINES && i < ET_DOCUMENT_KEPT_LINES; i++)
        all->kept_lines[known++] = some->kept_lines[i];
}

static int translate_round(documents *texts, et_translator *translator, et_document *document,
                           const char *const *lines, size_t lines_count, et_error *error)
{
    char **results;
    if (ET_ALLOC_ZERO(results, lines_count, "translations", error))
        return ET_ENOMEM;
    et_translator_set_first_line(translator, texts->translated + 1);
    et_translator_set_line_numbers(translator, et_document_line_numbers(document));
    int status = et_translator_translate(translator, lines, lines_count, results, error);
    et_translator_set_line_numbers(translator, NULL);
    if (!status) {
        texts->translated += lines_count;
        status = et_document_take(document, results, error);
        et_translator_free_results(results, lines_count);
    }
    et_free(results);
    return status;
}

/* Appends the translation of lines to out. Format LINES: they have no ends and get LF; any number
 * at a time. Others: they have their ends, and are the whole text. */
static int documents_translate(documents *texts, et_translator *translator, const et_lines *lines,
                               et_strbuf *out, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (size_t i = 0; i < lines->count; i++) {
        et_strbuf_append(&text, lines->items[i]);
        if (texts->format == ET_DOCUMENT_LINES)
            et_strbuf_append_char(&text, '\n');
    }
    const et_document_options options = { .format = texts->format,
                                          .sentences = texts->sentences,
                                          .tags = &translator->language_tags,
                                          .name = texts->name,
                                          .first_line = texts->lines + 1 };
    et_document *document = NULL;
    const char *const *segments;
    size_t found;
    int status = text.failed ? et_alloc_failed(error, texts->name)
                             : et_document_open(&document, et_strbuf_text(&text), text.length,
                                                &options, error);
    while (!status && (segments = et_document_lines(document, &found)) != NULL)
        status = translate_round(texts, translator, document, segments, found, error);
    if (!status) {
        const et_document_counts counts = et_document_count(document);
        count(&texts->counts, &counts);
        et_document_print(document, out);
    }
    et_document_close(document);
    texts->lines += lines->count;
    et_strbuf_release(&text);
    return status;
}

/* Prints to standard error the counts of texts that were translated in parts or not translated,
 * with places. */
static void documents_tell(const documents *texts)
{
    const et_document_counts *c = &texts->counts;
    if (c->refused)
        fprintf(stderr,
                "left empty   %s: msgfmt -c would refuse the translations; the first is %s:%zu\n",
                et_format_many((int64_t)c->refused, "message").text, texts->name, c->refused_line);
    if (c->repaired)
        fprintf(stderr,
                "in parts     %s of %s segments: the model changed their markup, placeholders, "
                "addresses or numbers, so the text between these was translated alone; the first "
                "is %s:%zu\n",
                et_format_count((int64_t)c->repaired).text,
                et_format_count((int64_t)c->segments).text, texts->name, c->line);
    if (!c->kept)
        return;
    fprintf(stderr,
            "as it was    %s not translated:", et_format_many((int64_t)c->kept, "text").text);
    for (size_t i = 0; i < ET_DOCUMENT_KEPT_LINES && c->kept_lines[i]; i++)
        fprintf(stderr, "%s %s:%zu", i ? "," : "", texts->name, c->kept_lines[i]);
    fprintf(stderr, "%s\n",
            c->kept > ET_DOCUMENT_KEPT_LINES && c->kept_lines[ET_DOCUMENT_KEPT_LINES - 1] ? ", ..."
                                                                                          : "");
}

/* Most lines read at a time: enough to sort by length, few enough to answer soon. */
#define BATCH 2048

typedef struct translate_options {
    et_translating work;
    et_ensemble_args ensemble; /* its words: more runs, or the input */
    int64_t results;
    bool scores, alignments, json;
    int64_t alignment_layer;   /* negative: not given, the last */
    const char *attention;     /* a file for a picture; NULL: none */
    const char *input;         /* a file; NULL: standard input */
    int replace;               /* bytes that are no UTF-8: 1; else they end it */
    const char *score_targets; /* a file of them, NULL: translate */
    et_lines targets;          /* targets to score, if the input has pairs */
    int format;                /* an et_document_format */
    int chosen;                /* --format; 0: by the input's ending */
    bool split;                /* cut lines into sentences */
    const char *language;      /* of the sentences; NULL: all */
    documents *texts;          /* NULL: neither a format nor --split */
} translate_options;

static const char *const invalid[] = { "stop", "replace", NULL };

/* After the first, in the order of et_document_format. */
static const char *const formats[] = { "auto", "lines", "text", "html", "xml",
                                       "po",   "srt",   "md",   NULL };

/* Options that are not given have the run's values. */
static const et_option options[] = {
    ET_OPTION_MODEL_DIR(translate_options, work.model_dir),
    ET_OPTION_TASK(translate_options, work.task),
    ET_OPTION_CHECKPOINT(translate_options, work.options.checkpoint),
    ET_OPTION_TEXT(translate_options, input, "input", "FILE",
                   "lines to translate, plain or .gz (default: standard input)"),
    ET_OPTION_TEXT(
        translate_options, work.output, "output", "FILE",
        "file for the translations, plain or .gz, written when all are done (default: standard "
        "output)"),
    ET_OPTION_CHOICE(translate_options, chosen, "format", "lines|text|html|xml|po|srt|md", formats,
                     "format of the input (default: by the file's name, or lines); all but lines "
                     "keep markup, placeholders, URLs and numbers"),
    ET_OPTION_FLAG(translate_options, split, "split",
                   "cut lines into sentences, translate each, and join them again"),
    ET_OPTION_TEXT(translate_options, language, "language", "CODE",
                   "language of the input, such as en: --split knows its abbreviations"),
    ET_OPTION_CHOICE(translate_options, replace, "invalid", NULL, invalid,
                     "what to do with bytes that are not UTF-8: stop (default) or replace"),
    ET_OPTION_GROUP(translate_options, work, et_translating_search_options),
    ET_OPTION_ENSEMBLE_WEIGHTS(translate_options, ensemble.weights),
    ET_OPTION_GROUP(translate_options, work, et_translating_decoding_options),
    ET_OPTION_TEXT(translate_options, work.decoding.terms, "terms", "FILE",
                   "glossary with a line for each term: source term, TAB, target term"),
    ET_OPTION_COUNT(translate_options, results, "n-best", "N", 1, 64,
                    "print the N best translations of each line", .alias = "nbest",
                    .field.default_number = 1),
    ET_OPTION_FLAG(translate_options, scores, "scores", "also print log-probability and score"),
    ET_OPTION_FLAG(translate_options, alignments, "alignments",
                   "also print the source word of each word, by the decoder's attention: 0-0 1-2"),
    ET_OPTION_TEXT(translate_options, attention, "attention", "FILE",
                   "draw the attention of one line and its translation as SVG"),
    ET_OPTION_COUNT(translate_options, alignment_layer, "alignment-layer", "N", 0,
                    ET_OPTION_COUNT_MAX,
                    "decoder layer for --alignments and --attention (default: the last)",
                    .field.default_number = -1),
    ET_OPTION_TEXT(translate_options, score_targets, "score-targets", "FILE",
                   "score these given translations instead of translating"),
    ET_OPTION_PRECISION(translate_options, work.options.precision),
    ET_OPTION_LIVE_WEIGHTS(translate_options, work.options.live_weights),
    ET_OPTION_GROUP(translate_options, work.profiling, et_profiling_options),
    ET_OPTION_FLAG(translate_options, json, "json",
                   "print a JSON object per line, with all results and scores"),
    ET_OPTION_QUIET(translate_options, work.quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_RUN(translate_options, work.model_dir),
    ET_OPTION_REST(translate_options, ensemble.words, "[RUN|FILE]..."),
    ET_OPTION_END
};

const et_usage et_usage_translate = {
    options, sizeof(translate_options),
    "Translates standard input, or a file, line by line. "
    "Several runs translate together, as\nan ensemble. A run may be the "
    "folder of a published model (see import).",
    "runs/a < test.en > test.hyp"
};

/* Sizes that would make no sense; the rest is the translator's to check. */
static int check(const translate_options *args, et_error *error)
{
    if (args->alignment_layer == 0)
        return et_fail(
            error, ET_EUSAGE,
            "--alignment-layer 0: layers are counted from 1; leave it out for the last layer");
    if (args->alignment_layer > 0 && !args->alignments && !args->attention)
        return et_fail(error, ET_EUSAGE,
                       "--alignment-layer: only with --alignments or --attention");
    if (args->attention &&
        (et_path_ends(args->attention, ".png") || et_path_ends(args->attention, ".pdf")))
        return et_fail(
            error, ET_EUSAGE,
            "--attention %s: a picture of attention is an SVG file; choose a name in .svg",
            args->attention);
    int status = et_translating_check_decoding(&args->work, error);
    if (status)
        return status;
    const char *needless = args->results > 1                ? "--n-best"
                           : args->work.decoding.sampling   ? "sampling"
                           : args->work.decoding.noise != 0 ? "--noise"
                           : args->work.decoding.terms      ? "--terms"
                           : args->work.beam_size           ? "--beam-size"
                           : args->work.max_length          ? "--max-length"
                                                            : NULL;
    if (args->score_targets && needless)
        return et_fail(error, ET_EUSAGE, "--score-targets: translations are given, so leave out %s",
                       needless);
    /* Texts have one translation and no other results. */
    const char *other = args->results > 1     ? "--n-best"
                        : args->scores        ? "--scores"
                        : args->alignments    ? "--alignments"
                        : args->json          ? "--json"
                        : args->attention     ? "--attention"
                        : args->score_targets ? "--score-targets"
                                              : NULL;
    if (args->language && !args->split)
        return et_fail(error, ET_EUSAGE, "--language: only with --split");
    if ((args->split || args->format) && other)
        return et_fail(error, ET_EUSAGE, "%s is for single sentences; %s", other,
                       args->split    ? "leave out --split"
                       : args->chosen ? "leave out --format"
                                      : "with --format lines each line of the file is one");
    if (args->format && args->input && et_path_ends(args->input, ".gz"))
        return et_fail(error, ET_EUSAGE, "--format %s: %s is compressed; unpack it first",
                       formats[args->format + 1], args->input);
    return ET_OK;
}

/* Refuses standard output that is appended to the file of standard input, because it would be read
 * again without an end. */
static int check_outputs(translate_options *args, const et_call *call, et_error *error)
{
    et_outputs outputs = { .program = call->program };
    et_outputs_read_input(&outputs, args->input);
    et_outputs_read_model(&outputs, args->work.model_dir, args->work.options.checkpoint);
    for (int i = 0; i < args->work.ensemble.count; i++)
        et_outputs_read(&outputs, args->work.ensemble.others[i]);
    et_outputs_read(&outputs, args->score_targets);
    et_outputs_read(&outputs, args->work.decoding.terms);
    et_outputs_check_standard(&outputs, error);
    et_outputs_check(&outputs, "--output", args->work.output, error);
    et_outputs_check(&outputs, "--attention", args->work.helps ? NULL : args->attention, error);
    et_profiling_check(&args->work.profiling, &outputs, error);
    return et_outputs_release(&outputs);
}

/* The counts that the progress bar shows: lines of all batches. */
typedef struct counter {
    et_progress *progress;
    size_t before; /* lines of earlier batches */
    double start;  /* of the first */
} counter;

/* A single line is answered before a bar could be read. How many lines will come is not known.
 * Signals are watched only with a profile to write; else they end the process as they always do. */
static bool tell_progress(void *payload, size_t done, size_t count)
{
    const counter *lines = payload;
    if (count > 1)
        et_lines_show(lines->progress, lines->before + done, 0, lines->start);
    return et_flag_is_set(&et_stop_requested);
}

/* before: lines of earlier batches. */
static int search_batch(et_translator *translator, const translate_options *args,
                        const et_lines *lines, size_t before, et_hypotheses **found,
                        et_error *error)
{
    const char *const *items = (const char *const *)lines->items;
    if (!args->score_targets)
        return et_translator_search(translator, items, lines->count, found, error);
    if (before + lines->count > args->targets.count)
        return et_fail(error, ET_EDATA, "%s has only %s, but the input has more",
                       args->score_targets,
                       et_format_many((int64_t)args->targets.count, "line").text);
    return et_translator_score(translator, items, (const char *const *)args->targets.items + before,
                               lines->count, found, error);
}

static int translate_plainly(et_translator *translator, const et_lines *lines,
                             et_progress *progress, et_strbuf *text, et_error *error)
{
    et_assert(lines->count <= BATCH);
    char *results[BATCH];
    int status = et_translator_translate(translator, (const char *const *)lines->items,
                                         lines->count, results, error);
    if (status)
        return status;
    et_progress_finish(progress, false);
    for (size_t i = 0; i < lines->count; i++) {
        et_strbuf_append(text, results[i]);
        et_strbuf_append_char(text, '\n');
    }
    et_translator_free_results(results, lines->count);
    return ET_OK;
}

/* Results are written and flushed before the next lines are read, so a reader of the pipe never
 * waits for the next batch. The bar may be on the same terminal. */
static int translate_batch(const translate_options *args, const et_lines *lines, size_t before,
                           line_output *output, et_error *error)
{
    et_translator *translator = args->work.translator;
    et_progress *progress = args->work.progress;
    et_hypotheses *found = NULL;
    et_strbuf text = ET_STRBUF_INIT;
    int status;
    const et_result_lines how = { .json = args->json,
                                  .scores = args->scores || args->score_targets,
                                  .alignments = args->alignments,
                                  .several = args->results > 1 };
    if (args->texts) {
        status = documents_translate(args->texts, translator, lines, &text, error);
        if (!status)
            et_progress_finish(progress, false);
    } else if (!how.json && !how.scores && !how.alignments && !how.several && !args->attention) {
        status = translate_plainly(translator, lines, progress, &text, error);
    } else {
        status = search_batch(translator, args, lines, before, &found, error);
        if (!status)
            et_progress_finish(progress, false);
        if (!status)
            et_result_lines_print(&text, found, lines->count, before, &how);
        if (!status && args->attention && (before || lines->count > 1))
            status = et_fail(error, ET_EUSAGE, "--attention: give one line; the input has more");
        else if (!status && args->attention && !args->work.helps)
            status = draw_attention(args->attention, lines->items[0], et_hypotheses_at(found, 0, 0),
                                    error);
        et_hypotheses_free(found);
    }
    if (!status)
        status = line_output_write(output, &text, error);
    et_strbuf_release(&text);
    return status;
}

static const et_activity read_activity = { .name = "read lines", .kind = "reading" };

static int translate_lines(const translate_options *args, et_line_reader *input, size_t most,
                           line_output *output, et_error *error)
{
    et_translator *translator = args->work.translator;
    et_track *track = et_device_track(et_translator_device(translator));
    et_lines lines = ET_LINES_INIT;
    counter done = { args->work.progress, 0, et_clock_monotonic() };
    int status;
    et_translator_set_progress(translator, tell_progress, &done);
    do {
        done.before = input->number - 1;
        et_lines_clear(&lines);
        et_track_begin(track, &read_activity, (int64_t)input->number);
        status = et_line_reader_read(input, &lines, most, error);
        et_track_end(track);
        if (!status && et_flag_is_set(&et_stop_requested))
            status = et_fail(error, ET_EINTERRUPTED, "interrupted after line %zu", done.before);
        et_translator_set_first_line(translator, done.before + 1);
        if (!status && lines.count)
            status = translate_batch(args, &lines, done.before, output, error);
    } while (!status && lines.count);
    et_translator_set_progress(translator, NULL, NULL);
    et_lines_release(&lines);
    if (!status && args->score_targets && input->number - 1 < args->targets.count)
        status = et_fail(error, ET_EDATA, "%s has %s, %s only %zu", args->score_targets,
                         et_format_many((int64_t)args->targets.count, "line").text, input->name,
                         input->number - 1);
    return status;
}

/* Ends at the end of input, or at the first line that is no text. Earlier translations are written
 * by then, unless they go to a file. */
static int translate_input(const translate_options *args, line_output *output, et_error *error)
{
    /* If the input is a terminal, a person types, so a hint is printed there. */
    bool person = !args->input && isatty(STDIN_FILENO);
    if (person && isatty(STDERR_FILENO) && !args->work.quiet)
        fputs("Type a line to translate; Ctrl-D ends.\n", stderr);
    int status = ET_OK;
    et_line_reader input = { .name = args->input, .number = 1 };
    if (!args->work.helps && args->input)
        status = et_line_reader_open_file(&input, args->input, args->replace, error);
    else if (!args->work.helps)
        status = et_line_reader_open(&input, STDIN_FILENO, "standard input", error);
    if (!args->input)
        input.replace = args->replace;
    input.comm = args->work.options.comm;
    input.keeps_ends = args->format != ET_DOCUMENT_LINES;
    if (args->texts)
        args->texts->name = args->input ? args->input : "standard input";
    if (!status)
        status = translate_lines(args, &input,
                                 args->format ? 0
                                 : person     ? 1
                                              : BATCH,
                                 output, error);
    if (!status && args->texts && !args->work.quiet)
        documents_tell(args->texts);
    if (!status && input.replaced)
        et_log(ET_LOG_WARNING, "%s: bytes that are not UTF-8 were replaced in %s", input.name,
               et_format_many((int64_t)input.replaced, "line").text);
    et_line_reader_close(&input);
    return status;
}

typedef struct translation {
    translate_options *args;
    line_output output;
} translation;

/* The bar is for people who translate a file. There is no bar if a person types the input, or if
 * standard error is a file. */
static int translate_all(void *self, et_error *error)
{
    translation *t = self;
    translate_options *args = t->args;
    et_translating *work = &args->work;
    et_comm *comm = args->work.options.comm;
    bool shown =
        !args->work.quiet && isatty(STDERR_FILENO) && (args->input || !isatty(STDIN_FILENO));
    int status = args->texts && args->split
                     ? et_sentences_open(&args->texts->sentences, args->language, error)
                     : ET_OK;
    if (!status)
        status = et_translating_open(work, shown ? STDERR_FILENO : -1, error);
    if (!status && args->score_targets)
        status = et_lines_read_file(&args->targets, args->score_targets, comm, error);
    /* An output file is complete or absent: a signal ends the work and removes the temporary file.
     */
    if (!status && args->work.output)
        et_signals_catch_with_input();
    if (status)
        return status;
    const bool silent = et_comm_rank(comm) != 0;
    t->output = (line_output){ .silent = silent };
    if (args->work.output && !silent)
        status = et_packed_writer_open(&t->output.file, args->work.output,
                                       et_path_ends(args->work.output, ".gz"), error);
    return status ? status : translate_input(args, &t->output, error);
}

/* The file of translations appears only if no rank has failed. */
static int translate(translate_options *args, et_error *error)
{
    translation t = { .args = args };
    documents texts = { .format = args->format };
    args->texts = args->split || args->format ? &texts : NULL;
    int status = et_together_run(args->work.options.comm, translate_all, &t, error);
    status = et_packed_writer_end(t.output.file, status, error);
    et_lines_release(&args->targets);
    et_sentences_close(texts.sentences);
    texts.sentences = NULL;
    args->texts = NULL;
    return et_translating_close(&args->work, status, error);
}

int et_cmd_translate(const et_call *call, et_error *error)
{
    et_assert(call && call->options);
    translate_options *args = call->options;
    /* Counts are int64_t in the table; all fit (ET_OPTION_COUNT_MAX). */
    et_decoding_options *decoding = &args->work.decoding;
    et_translating_take_options(&args->work);
    et_translating_take_decoding(&args->work);
    decoding->results = (int)args->results;
    if (args->alignments || args->attention)
        decoding->alignments = args->alignment_layer > 0 ? (int)args->alignment_layer : -1;
    const char **const files[] = { &args->input };
    et_ensemble_runs *runs = &args->work.ensemble;
    int status = et_ensemble_runs_take(runs, &args->ensemble, files, 1,
                                       args->work.options.checkpoint, args->work.task.name, error);
    if (!status) {
        /* As given, or by the ending of the input's name. */
        args->format = args->chosen ? args->chosen - 1 : ET_DOCUMENT_LINES;
        if (!args->chosen && args->input)
            status = et_document_format_of(args->input, &args->format, error);
        if (!status && !args->chosen && args->format && !args->work.quiet && !args->work.helps)
            fprintf(stderr, "format       %s, by the name of %s\n", formats[args->format + 1],
                    args->input);
    }
    if (!status && !(status = check(args, error)) &&
        !(status = et_runs_check_kinds(call->program, args->work.model_dir, runs->others,
                                       runs->count, error))) {
        if (!(status = et_translating_join(&args->work, error)) &&
            !(status = check_outputs(args, call, error)))
            status = translate(args, error);
        status = et_ranks_leave(args->work.options.comm, call->program, status, error);
    }
    et_ensemble_runs_release(runs);
    return status;
}
