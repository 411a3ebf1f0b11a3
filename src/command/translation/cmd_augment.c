/* etude augment: back-translation (Sennrich, Haddow, Birch 2016, "Improving Neural Machine
 * Translation Models with Monolingual Data"). A model from target to source translates text of the
 * target language, and the pairs are data for a model from source to target. Samples teach more
 * than the best translations if the model is good (Edunov et al. 2018, "Understanding
 * Back-Translation at Scale"). With --forward, a teacher translates text of the source language,
 * and the pairs are data for a student (Kim, Rush 2016, "Sequence-Level Knowledge Distillation").
 *
 *   data -> batches -> translator -> OUTPUT.part -- all lines, and data again --> filter -> outputs
 *
 * 1. A translation depends only on its line, its number and the options in OUTPUT.part. So a killed
 *   command continues after the last line in this file, and gives the same bytes.
 * 2. The filter runs after all translations and does not change them.
 * 3. OUTPUT.part is removed when both outputs are complete. */
#include <math.h>
#include <string.h>

#include <etude/hypotheses.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/files/checksum.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/options/sets.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/translation/augment_journal.h"
#include "command/translation/lines.h"
#include "command/translation/translating.h"
#include "command/translation/translation_commands.h"
#include "data/text/punctuation.h"
#include "data/text/text.h"
#include "engine/tensor/params.h"
#include "formats/records/packed.h"
#include "tasks/translation/decoding/translator_private.h"

/* Limits of a batch. The next batch has twice as many lines after less than SHORT seconds, and half
 * as many after more than LONG. Sorting by length needs many lines, but a stop loses the lines of
 * the current batch. */
#define BATCH_MAX 2048
#define BATCH_MIN 64
#define SHORT     4.0
#define LONG      16.0

typedef struct augment_options {
    et_translating work;
    et_strings data;
    et_option_uses output;
    bool forward;
    double min_score; /* NaN: any */
    double max_ratio;
} augment_options;

static const et_option options[] = {
    ET_OPTION_MODEL_DIR(augment_options, work.model_dir),
    ET_OPTION_TASK(augment_options, work.task),
    ET_OPTION_LIST(augment_options, data, "data", "FILE",
                   "text of the language that RUN translates from, plain or .gz; may be given "
                   "again: the files are one text",
                   .missing = "the text to translate"),
    ET_OPTION_ROW(augment_options, output, et_option_uses, STRING, WORDS, "output", "SOURCE TARGET",
                  "files to write, plain or .gz: the translations, and the lines of --data that "
                  "are kept (default: SOURCE with the ending of --data)",
                  .missing = "the file for the translations"),
    ET_OPTION_FLAG(augment_options, forward, "forward",
                   "RUN translates from source to target: the lines of --data are SOURCE, and the "
                   "translations are TARGET, to train a smaller model on"),
    ET_OPTION_REAL(augment_options, min_score, "min-score", "X", -DBL_MAX, 0,
                   "leave out translations with a lower log-probability per token (default: none)",
                   .field.default_number = -INFINITY),
    ET_OPTION_REAL(augment_options, max_ratio, "max-ratio", "R", 0, DBL_MAX,
                   "leave out pairs whose longer side has more than R times the tokens of the "
                   "shorter one; 0: none",
                   .field.default_number = 3),
    ET_OPTION_GROUP(augment_options, work, et_translating_search_options),
    ET_OPTION_GROUP(augment_options, work, et_translating_decoding_options),
    ET_OPTION_CHECKPOINT(augment_options, work.options.checkpoint),
    ET_OPTION_PRECISION(augment_options, work.options.precision),
    ET_OPTION_LIVE_WEIGHTS(augment_options, work.options.live_weights),
    ET_OPTION_QUIET(augment_options, work.quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_RUN(augment_options, work.model_dir),
    ET_OPTION_REST(augment_options, data, "[FILE]..."),
    ET_OPTION_END
};

const et_usage et_usage_augment = {
    options, sizeof(augment_options),
    "Makes training data by back-translation: RUN translates text of the target language into the\n"
    "source language, and the translations and their originals are written as parallel files.\n"
    "With --forward, RUN translates text of the source language, for a smaller model.\n"
    "The same command resumes after a stop.",
    "runs/de-en --data mono.de --output synthetic.en"
};

typedef struct augmentation {
    augment_options *args;
    const char *synthetic, *kept; /* paths of the outputs */
    const char *name;             /* of the data, for messages */
    int64_t lines;                /* of the data */
    uint64_t checksum;            /* of the data */
    et_augment_journal journal;
} augmentation;

/* ---- files ---- */

/* The part of the file's name after its last dot, without .gz; "" without a dot. */
static const char *ending_of(const char *path, size_t *length)
{
    const char *base = et_path_base(path);
    size_t end = strlen(base) - (et_path_ends(base, ".gz") ? 3 : 0), dot = end;
    while (dot && base[--dot] != '.')
        continue;
    *length = dot ? end - dot : 0;
    return base + dot;
}

static bool is_same_ending(const char *a, size_t a_length, const char *b, size_t b_length)
{
    return a_length == b_length && !strncmp(a, b, a_length);
}

/* The common ending of all data files. *length 0: none. */
static const char *ending_of_data(const et_strings *data, size_t *length)
{
    size_t other;
    const char *ending = ending_of(data->items[0], length);
    for (size_t i = 1; i < data->count; i++) {
        const char *next = ending_of(data->items[i], &other);
        if (!is_same_ending(ending, *length, next, other))
            *length = 0;
    }
    return ending;
}

static int name_outputs(augmentation *a, et_arena *arena, et_error *error)
{
    const et_option_uses *output = &a->args->output;
    const et_option_given *last = &output->given[output->times - 1];
    const bool both = last->count > 1;
    a->synthetic = last->items[both && a->args->forward];
    a->kept = both ? last->items[!a->args->forward] : NULL;
    const et_strings *data = &a->args->data;
    for (size_t i = 0; i < data->count; i++) {
        const char *path = data->items[i];
        if (et_path_has_pairs(path) || et_path_ends(path, ".tmx"))
            return et_fail(error, ET_EUSAGE,
                           "--data: %s has both languages by its name; make a text file of the "
                           "language that the run translates from, with a sentence a line",
                           path);
    }
    a->name = data->count == 1 ? data->items[0]
                               : et_arena_printf(arena, "%zu files from %s to %s", data->count,
                                                 data->items[0], data->items[data->count - 1]);
    if (!a->name)
        return et_alloc_failed(error, "a name");
    if (a->kept)
        return ET_OK;
    /* "out/synthetic.en.gz" and "mono.de" -> "out/synthetic.de.gz", in arena. */
    size_t length, of_data;
    const char *ending = ending_of(a->synthetic, &length);
    const char *language = ending_of_data(&a->args->data, &of_data);
    if (!length || !of_data || is_same_ending(ending, length, language, of_data))
        return et_fail(error, ET_EUSAGE,
                       "--output %s: give a second file, for the lines of %s that are kept",
                       a->synthetic, a->name);
    a->kept = et_arena_printf(arena, "%.*s%.*s%s", (int)(ending - a->synthetic), a->synthetic,
                              (int)of_data, language, ending + length);
    return a->kept ? ET_OK : et_alloc_failed(error, "a path");
}

/* Reads all of the data, so that a bad line is found before the work. */
static int read_data(augmentation *a, et_error *error)
{
    et_text *text;
    et_text_line line = { 0 };
    int status = et_text_open(&text, &a->args->data, error);
    if (status)
        return status;
    do {
        status = et_text_next(text, &line, error);
    } while (!status && line.text);
    a->lines = et_text_count(text);
    et_text_close(text);
    if (!status && !a->lines)
        status = et_fail(error, ET_EDATA, "%s: the file is empty: nothing to translate", a->name);
    if (status)
        return status;
    /* The checksum of one file is its own; of several, of theirs and their lengths. */
    const et_strings *data = &a->args->data;
    et_checksum_stream *stream;
    uint64_t length;
    if (data->count == 1)
        return et_text_checksum(&a->checksum, &length, data->items[0], error);
    if (!(status = et_checksum_stream_open(&stream, error)) &&
        !(status = et_text_checksum_files(stream, data, error)))
        a->checksum = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return status;
}

/* ---- the dependencies of translations ---- */

/* A folder of another program is no file: its weights and vocabularies count. */
static int read_checksum(const et_translator *t, uint64_t *checksum, et_error *error)
{
    et_checksum_stream *stream;
    uint64_t length;
    if (!et_directory_exists(t->checkpoint))
        return et_text_checksum(checksum, &length, t->checkpoint, error);
    const uint64_t sides[] = { et_vocabulary_checksum(t->sides.source),
                               et_vocabulary_checksum(t->sides.target) };
    const size_t bytes = (size_t)et_params_flat_size(t->params) * sizeof(float);
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    et_checksum_stream_add(stream, et_params_values(t->params), bytes);
    et_checksum_stream_add(stream, sides, sizeof sides);
    *checksum = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return ET_OK;
}

static int open_journal(augmentation *a, et_error *error)
{
    const et_translator *t = a->args->work.translator;
    et_arena arena = ET_ARENA_INIT;
    uint64_t model;
    et_value *work = et_value_dict(&arena);
    et_value_set_int(work, et_augment_key, 1);
    et_value_set_string(work, "checksum of the data", et_checksum_print(a->checksum).digits);
    et_value_set_int(work, "step of the checkpoint", t->step);
    const et_decoder_options o = et_translator_decoder_options(t);
    et_value_set_int(work, "beam size", o.beam.size);
    et_value_set_float(work, "alpha", o.beam.alpha);
    et_value_set_int(work, "max length", o.max_length);
    et_value_set_bool(work, "sampling", o.choice.sampling);
    et_value_set_int(work, "top-k", o.choice.top_k);
    et_value_set_float(work, "top-p", o.choice.top_p);
    et_value_set_float(work, "temperature", o.choice.temperature);
    et_value_set_float(work, "noise", o.choice.noise);
    et_value_set_int(work, "seed", (int64_t)o.choice.seed);
    et_value_set_string(work, "precision", o.int8 ? "int8" : et_dtype_name(o.act));
    et_value_set_bool(work, "live weights", t->live_weights);
    if (t->options.tag)
        et_value_set_string(work, "tag", t->options.tag);
    if (t->lexicon)
        et_value_set_bool(work, "shortlist", o.lexicon != NULL);
    int status = work ? read_checksum(t, &model, error)
                      : et_alloc_failed(error, "what translations depend on");
    et_value_set_string(work, "checksum of the checkpoint",
                        et_checksum_print(status ? 0 : model).digits);
    if (!status)
        status = et_augment_journal_open(&a->journal, a->synthetic, work, error);
    et_arena_release(&arena);
    return status;
}

/* ---- translating ---- */

typedef struct counter {
    const augmentation *augmentation;
    int64_t first; /* lines of earlier calls of the command */
    double start;
} counter;

static bool show(void *payload, size_t done, size_t count)
{
    const counter *c = payload;
    const augmentation *a = c->augmentation;
    const int64_t lines = a->journal.lines + (int64_t)done;
    const double seconds = et_clock_monotonic() - c->start;
    et_progress_state state = { .what = "lines",
                                .step = lines,
                                .steps = a->lines,
                                .rate = seconds > 0 ? (double)(lines - c->first) / seconds : NAN,
                                .unit = "lines/s",
                                .seconds_left = NAN };
    (void)count;
    et_progress_update(a->args->work.progress, &state);
    return et_flag_is_set(&et_stop_requested);
}

static int translate_batch(augmentation *a, const et_lines *lines, et_error *error)
{
    et_translator *translator = a->args->work.translator;
    et_hypotheses *found = NULL;
    et_tokens ids = ET_TOKENS_INIT;
    const char **items = et_alloc(lines->count, sizeof *items);
    int64_t *tokens = et_alloc(lines->count, sizeof *tokens);
    int status = items && tokens ? ET_OK : et_alloc_failed(error, "lines");
    /* A line that is too long is left out later, so it needs no translation. */
    for (size_t i = 0; i < lines->count && !status; i++) {
        status = et_sides_encode(&translator->sides, false, lines->items[i],
                                 strlen(lines->items[i]), &ids, error);
        tokens[i] = (int64_t)ids.count + 1;
        items[i] = !status && tokens[i] > ET_TRANSLATION_SOURCE_MAX ? "" : lines->items[i];
    }
    et_translator_set_first_line(translator, (size_t)a->journal.lines + 1);
    if (!status)
        status = et_translator_search(translator, items, lines->count, &found, error);
    for (size_t i = 0; i < lines->count && !status; i++) {
        const et_hypothesis *best = et_hypotheses_at(found, i, 0);
        const et_augment_line line = { .log_probability = best->log_probability,
                                       .tokens = best->tokens,
                                       .source_tokens = tokens[i],
                                       .text = best->text,
                                       .length = strlen(best->text) };
        status = et_augment_journal_add(&a->journal, &line, error);
    }
    if (!status)
        status = et_augment_journal_flush(&a->journal, error);
    et_hypotheses_free(found);
    et_tokens_release(&ids);
    et_free(items);
    et_free(tokens);
    return status;
}

static int translate_rest(augmentation *a, et_line_reader *input, et_error *error)
{
    et_lines lines = ET_LINES_INIT;
    size_t size = BATCH_MIN;
    /* Up to the first line that the journal lacks. */
    int status = ET_OK;
    for (int64_t left = a->journal.lines; left && !status;) {
        et_lines_clear(&lines);
        status =
            et_line_reader_read(input, &lines, left < BATCH_MAX ? (size_t)left : BATCH_MAX, error);
        if (!status && !lines.count)
            status = et_fail(error, ET_EDATA, "%s changed while it was read", input->name);
        left -= (int64_t)lines.count;
    }
    while (!status && a->journal.lines < a->lines) {
        const double start = et_clock_monotonic();
        et_lines_clear(&lines);
        status = et_line_reader_read(input, &lines, size, error);
        if (!status && et_flag_is_set(&et_stop_requested))
            status = et_fail(error, ET_EINTERRUPTED, "stopped");
        if (!status && !lines.count)
            status = et_fail(error, ET_EDATA, "%s changed while it was read", input->name);
        if (!status)
            status = translate_batch(a, &lines, error);
        const double seconds = et_clock_monotonic() - start;
        if (seconds > LONG && size > BATCH_MIN)
            size /= 2;
        else if (seconds < SHORT && size < BATCH_MAX)
            size *= 2;
    }
    et_lines_release(&lines);
    return status;
}

static int translate(augmentation *a, et_error *error)
{
    et_translating *work = &a->args->work;
    counter lines = { a, a->journal.lines, et_clock_monotonic() };
    et_line_reader input;
    if (a->journal.lines && !work->quiet)
        et_print(stderr, "resuming     after line %s of %s\n",
                 et_format_count(a->journal.lines).text, a->name);
    int status = et_line_reader_open_texts(&input, &a->args->data, a->name, error);
    et_translator_set_progress(work->translator, show, &lines);
    if (!status)
        status = translate_rest(a, &input, error);
    et_translator_set_progress(work->translator, NULL, NULL);
    et_line_reader_close(&input);
    et_progress_finish(work->progress, false);
    if (status == ET_EINTERRUPTED)
        return et_fail(error, status,
                       "stopped: %s of %s are translated, in %s; the same command resumes",
                       et_format_count(a->journal.lines).text,
                       et_format_many(a->lines, "line").text, a->journal.path);
    return status;
}

/* ---- filtering ---- */

/* The outcome for a pair. */
enum { KEPT, EMPTY, TOO_LONG, LOPSIDED, UNLIKELY, FATES };

static const char *const reasons[FATES] = { "", "empty", "too long", "lopsided", "unlikely" };

typedef struct filter {
    const augmentation *augmentation;
    et_line_reader input;
    et_lines lines;
    size_t next; /* of lines */
    et_packed_writer *synthetic, *kept;
    int64_t counts[FATES];
} filter;

static int fate_of(const augment_options *args, const et_augment_line *line)
{
    const double source = (double)line->source_tokens, target = (double)line->tokens;
    if (line->source_tokens > ET_TRANSLATION_SOURCE_MAX)
        return TOO_LONG;
    if (!line->length || !line->tokens)
        return EMPTY;
    if (args->max_ratio > 0 && fmax(source, target) > args->max_ratio * fmin(source, target))
        return LOPSIDED;
    return line->log_probability / target < args->min_score ? UNLIKELY : KEPT;
}

static int write_line(et_packed_writer *writer, const char *text, size_t length, et_error *error)
{
    int status = et_packed_write(writer, text, length, error);
    return status ? status : et_packed_write(writer, "\n", 1, error);
}

static int filter_line(void *self, const et_augment_line *line, et_error *error)
{
    filter *f = self;
    if (f->next == f->lines.count) {
        f->next = 0;
        et_lines_clear(&f->lines);
        int status = et_line_reader_read(&f->input, &f->lines, BATCH_MAX, error);
        if (!status && !f->lines.count)
            status = et_fail(error, ET_EDATA, "%s changed while it was read", f->input.name);
        if (status)
            return status;
    }
    const char *original = f->lines.items[f->next++];
    const int fate = fate_of(f->augmentation->args, line);
    f->counts[fate]++;
    if (fate != KEPT)
        return ET_OK;
    int status = write_line(f->synthetic, line->text, line->length, error);
    return status ? status : write_line(f->kept, original, strlen(original), error);
}

/* "28,411 of 29,000 pairs kept; 589 filtered (2.0 %): 570 lopsided, 19 empty" */
static void print_counts(const filter *f, et_strbuf *out)
{
    const int64_t lines = f->augmentation->lines, left = lines - f->counts[KEPT];
    et_strbuf_printf(out, "%s of %s kept", et_format_count(f->counts[KEPT]).text,
                     et_format_many(lines, "pair").text);
    if (left)
        et_strbuf_printf(out, "; %s filtered (%.1f %%)", et_format_count(left).text,
                         100.0 * (double)left / (double)lines);
    const char *before = ": ";
    for (int fate = KEPT + 1; fate < FATES; fate++)
        if (f->counts[fate]) {
            et_strbuf_printf(out, "%s%s %s", before, et_format_count(f->counts[fate]).text,
                             reasons[fate]);
            before = ", ";
        }
}

static int write_outputs(augmentation *a, et_error *error)
{
    et_strbuf counts = ET_STRBUF_INIT;
    filter f = { .augmentation = a, .input = { .fd = -1 }, .lines = ET_LINES_INIT };
    int status;
    if (!(status = et_line_reader_open_texts(&f.input, &a->args->data, a->name, error)) &&
        !(status = et_packed_writer_open(&f.synthetic, a->synthetic,
                                         et_path_ends(a->synthetic, ".gz"), error)) &&
        !(status = et_packed_writer_open(&f.kept, a->kept, et_path_ends(a->kept, ".gz"), error)))
        status = et_augment_journal_read(&a->journal, filter_line, &f, error);
    print_counts(&f, &counts);
    if (!status && !f.counts[KEPT])
        status = et_fail(error, ET_EDATA,
                         "%s; raise --max-ratio or lower --min-score (the translations are in %s)",
                         et_strbuf_text(&counts), a->journal.path);
    status = et_packed_writer_end(f.synthetic, status, error);
    status = et_packed_writer_end(f.kept, status, error);
    et_line_reader_close(&f.input);
    et_lines_release(&f.lines);
    if (!status)
        status = et_augment_journal_remove(&a->journal, error);
    const bool forward = a->args->forward;
    if (!status && !a->args->work.quiet)
        et_print_lines(stderr, "augmented    %s\nwritten      %s, %s\n", et_strbuf_text(&counts),
                       forward ? a->kept : a->synthetic, forward ? a->synthetic : a->kept);
    et_strbuf_release(&counts);
    return status;
}

/* ---- all ---- */

static int augment(augmentation *a, et_error *error)
{
    et_translating *work = &a->args->work;
    int status;
    if (!(status = read_data(a, error)) &&
        !(status = et_translating_open(work, work->quiet ? -1 : STDERR_FILENO, error)) &&
        !(status = open_journal(a, error))) {
        et_signals_catch_stops();
        if (!(status = translate(a, error)))
            status = write_outputs(a, error);
    }
    et_augment_journal_close(&a->journal);
    return et_translating_close(work, status, error);
}

int et_cmd_augment(const et_call *call, et_error *error)
{
    et_assert(call && call->options);
    augmentation a = { .args = call->options, .journal = { .lock = -1 } };
    et_arena arena = ET_ARENA_INIT;
    et_translating_take_options(&a.args->work);
    et_translating_take_decoding(&a.args->work);
    int status;
    if (!(status = et_ranks_refuse(
              call, "split the data into several files, and run one command for each", error)) &&
        !(status = et_translating_check_decoding(&a.args->work, error)) &&
        !(status = name_outputs(&a, &arena, error))) {
        et_outputs outputs = { .program = call->program };
        et_outputs_read_all(&outputs, &a.args->data);
        et_outputs_read_model(&outputs, a.args->work.model_dir, a.args->work.options.checkpoint);
        et_outputs_check(&outputs, "--output", a.synthetic, error);
        et_outputs_check(&outputs, "--output", a.kept, error);
        status = et_outputs_release(&outputs);
    }
    if (!status)
        status = augment(&a, error);
    et_arena_release(&arena);
    return status;
}
