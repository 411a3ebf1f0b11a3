/* Validation beside the loss: beam search on all sources, and its scores. The translations are
 * kept in MODEL_DIR/translations/<step>.txt.
 *
 *   sources -> decoder -> tokens -> lines -> sacrebleu_score, bleu_score, chrf_score
 *                                        \-> MODEL_DIR/translations/<step>.txt
 *
 * The sources are those whose loss was computed: all of them, or what a validation of some batches
 * has seen, each once and in the order of the text (seen.h).
 *
 * Ranks share the sentences; each of them has all translations then, and the same scores.
 *
 * The decoder is made at the first validation and kept: the store's weights change under it, and it
 * reads them anew. Asked to stop, it gives ET_EINTERRUPTED and has written nothing; the run does
 * the whole of it again when it goes on. */
#include <math.h>
#include <string.h>

#include <etude/score.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/flag.h"
#include "base/format.h"
#include "io/log_names.h"
#include "tasks/translation/decode_share.h"
#include "tasks/translation/task_private.h"

/* Sentences that are decoded together. Results do not depend on it; memory of the decoder and
 * speed do. */
#define GROUP 32

/* Translations in a log, which TensorBoard shows under "Text". */
#define LOGGED_MAX 20

/* In any state: what was not made is NULL. */
void et_translation_close_validation(et_translation_task *task)
{
    et_validation *v = &task->validation;
    for (int n = 0; n < v->count; n++) {
        et_scored *scored = &v->scored[n];
        for (int64_t i = 0; scored->references && i < scored->encoded->pairs; i++)
            et_free(scored->references[i]);
        et_free(scored->references);
        et_free(scored->seen.is);
    }
    et_decoder_free(v->decoder);
    et_translation_input_close(&v->input);
}

/* Asked between batches and by the decoder as it goes. */
static bool should_stop(const et_translation_task *task)
{
    return et_flag_is_set(task->context.stop);
}

/* exp of the plain negative log-likelihood: label smoothing is no part of it. */
static int log_perplexity(et_value *logs, et_error *error)
{
    double nll;
    int status = et_value_read_float(logs, ET_LOGGED_OF_VALIDATION "nll", &nll, error);
    if (!status && !et_value_set_float(logs, ET_LOGGED_OF_VALIDATION "perplexity", exp(nll)))
        status = et_alloc_failed(error, 0, "a log");
    return status;
}

/* ---- translations ---- */

/* All results of a validation are in memory at once, in an arena that ends with it. */

/* Two positions: the transformer's table is not used, the decoder has its own. */
static int make_decoder(et_translation_task *task, et_error *error)
{
    /* The same search as a translator's with the run's settings, so validation scores what it
     * would give. */
    const et_translation_model *model = &task->options.model;
    et_transformer transformer =
        et_translation_transformer(&task->options, et_vocabulary_size(task->sides.source),
                                   et_vocabulary_size(task->sides.target), 2);
    et_decoder_options options = {
        .beam = { .size = (int)model->beam_size,
                  .alpha = model->alpha,
                  .eos = et_vocabulary_eos(task->sides.target) },
        .start = et_vocabulary_start(task->sides.target),
        .max_length = model->decode_max_length,
        .extra_length = model->extra_decode_length,
        .sentences = GROUP,
        .act = task->context.bfloat16 ? ET_BF16 : ET_F32,
    };
    return et_decoder_new(&task->validation.decoder, task->context.params, task->context.device,
                          &transformer, &options, error);
}

/* The form in which the decoder asks. */
static bool stops(void *task, int64_t done)
{
    (void)done;
    return should_stop(task);
}

/* A validation's sentences, each with the number of its pair. */
typedef struct decoded {
    et_decoder_sentence *sentences; /* [count] in the arena */
    int64_t count;
} decoded;

/* Those that were seen, in the order of the text. Ids are widened from the corpus; EOS is the last
 * of each source, which is whole but where a translator would cut it too. */
static int choose_sentences(const et_translation_task *task, decoded *all, et_arena *arena,
                            et_error *error)
{
    const et_encoded *encoded = task->validation.now->encoded;
    size_t count = (size_t)encoded->pairs;
    all->sentences = et_arena_array(arena, count, sizeof *all->sentences);
    if (!all->sentences)
        return et_alloc_failed(error, count * sizeof *all->sentences, "validation");
    for (size_t i = 0; i < count; i++) {
        if (!task->validation.now->seen.is[i])
            continue;
        int64_t length =
            et_encoded_cut_length(encoded, (int64_t)i, false, ET_TRANSLATION_SOURCE_MAX);
        int32_t *ids = et_arena_array(arena, (size_t)length, sizeof *ids);
        if (!ids)
            return et_alloc_failed(error, (size_t)length * sizeof *ids, "validation");
        et_encoded_cut_ids(encoded, (int64_t)i, false, ET_TRANSLATION_SOURCE_MAX, ids);
        all->sentences[all->count++] =
            (et_decoder_sentence){ .source = ids, .length = length, .number = i };
    }
    return ET_OK;
}

/* The decoder sorts by length itself. */
static int decode(et_translation_task *task, decoded *all, et_arena *arena, et_error *error)
{
    int status = choose_sentences(task, all, arena, error);
    if (!status && all->count < task->validation.now->encoded->pairs)
        et_task_tell(&task->context, "validation   %s of %s pairs",
                     et_format_count(all->count).text,
                     et_format_count(task->validation.now->encoded->pairs).text);
    if (!status && !task->validation.decoder)
        status = make_decoder(task, error);
    return status ? status
                  : et_decoder_run_on_ranks(task->validation.decoder, task->context.comm,
                                            all->sentences, all->count, arena, stops, task, error);
}

/* The scores of one validation. */
typedef struct scores {
    et_bleu *bleu, *model_garden; /* sacrebleu's rules; Model Garden's own */
    et_chrf *chrf;                /* chrF2 */
} scores;

/* Model Garden's own has fixed rules; the settings are about the other two. */
static int open_scores(scores *s, const et_translation_options *options, et_error *error)
{
    et_bleu_options bleu = ET_BLEU_OPTIONS_INIT;
    et_bleu_options garden = ET_BLEU_OPTIONS_MODEL_GARDEN;
    et_chrf_options chrf = ET_CHRF_OPTIONS_INIT;
    bleu.tokens = options->score_tokenize ? ET_BLEU_TOKENS_NONE : ET_BLEU_TOKENS_13A;
    bleu.lowercase = chrf.lowercase = options->score_lowercase;
    int status = et_bleu_new(&s->bleu, &bleu, error);
    if (!status)
        status = et_bleu_new(&s->model_garden, &garden, error);
    if (!status)
        status = et_chrf_new(&s->chrf, &chrf, error);
    return status;
}

static void close_scores(scores *s)
{
    et_bleu_free(s->bleu);
    et_bleu_free(s->model_garden);
    et_chrf_free(s->chrf);
}

/* Each score reads the pair by itself: their tokens differ. */
static int add_pair(scores *s, const char *hypothesis, const char *reference, et_error *error)
{
    int status = et_bleu_add(s->bleu, hypothesis, reference, error);
    if (!status)
        status = et_bleu_add(s->model_garden, hypothesis, reference, error);
    if (!status)
        status = et_chrf_add(s->chrf, hypothesis, reference, error);
    return status;
}

static int log_scores(const scores *s, et_value *logs, et_error *error)
{
    et_bleu_result bleu, garden;
    double chrf;
    int status = et_bleu_value(s->bleu, &bleu, error);
    if (!status)
        status = et_bleu_value(s->model_garden, &garden, error);
    if (!status)
        status = et_chrf_value(s->chrf, &chrf, error);
    if (status)
        return status;
    et_value_set_float(logs, ET_TRANSLATION_BLEU, bleu.score);
    et_value_set_float(logs, ET_TRANSLATION_GARDEN_BLEU, garden.score);
    et_value_set_float(logs, ET_TRANSLATION_CHRF, chrf);
    return ET_OK;
}

/* The text of a source, as the vocabulary writes what the model has seen of it. */
static int write_source(const et_translation_task *task, const et_decoder_sentence *sentence,
                        et_strbuf *text, et_error *error)
{
    return et_vocabulary_decode(task->sides.source, sentence->source, (size_t)sentence->length,
                                text, error);
}

/* A cell of a table in Markdown. */
static void append_cell(et_strbuf *table, const char *text)
{
    et_strbuf_append(table, "| ");
    for (; *text; text++) {
        if (strchr("|\\<*_`[", *text))
            et_strbuf_append_char(table, '\\');
        et_strbuf_append_char(table, *text);
    }
    et_strbuf_append_char(table, ' ');
}

static void append_row(et_strbuf *table, const char *source, const char *hypothesis,
                       const char *reference)
{
    if (!table->length)
        et_strbuf_append(table, "| input | output | reference |\n|---|---|---|\n");
    append_cell(table, source);
    append_cell(table, hypothesis);
    append_cell(table, reference);
    et_strbuf_append(table, "|\n");
}

/* The first print_translations pairs, above the progress bar: the same at each validation, so that
 * progress can be seen in them. The first LOGGED_MAX go to table, for the log. */
static int show(const et_translation_task *task, int64_t shown, const et_decoder_sentence *sentence,
                const char *hypothesis, et_strbuf *table, et_error *error)
{
    if (shown >= task->options.print_translations)
        return ET_OK;
    et_strbuf text = ET_STRBUF_INIT, source = ET_STRBUF_INIT;
    const char *name = task->validation.now->name;
    const char *reference = task->validation.now->references[sentence->number];
    int status = write_source(task, sentence, &source, error);
    et_strbuf_printf(&text, "%s%s  Input      %s\n  Output     %s\n  Reference  %s",
                     name ? name : "", name ? "\n" : "", et_strbuf_text(&source), hypothesis,
                     reference);
    if (!status && task->context.tell)
        task->context.tell(task->context.listener, et_strbuf_text(&text));
    if (!status && shown < LOGGED_MAX)
        append_row(table, et_strbuf_text(&source), hypothesis, reference);
    et_strbuf_release(&source);
    et_strbuf_release(&text);
    return status;
}

/* Detokenises, scores and collects all lines into text. In the order of the corpus, one line for
 * each pair that was seen, so that the file can be scored by other programs against the references.
 */
static int score_all(et_translation_task *task, const decoded *all, scores *s, et_strbuf *text,
                     et_strbuf *table, et_error *error)
{
    /* One line's memory for all of them. */
    et_strbuf line = ET_STRBUF_INIT;
    int status = ET_OK;
    for (int64_t i = 0; i < all->count && !status; i++) {
        const et_decoder_sentence *sentence = &all->sentences[i];
        et_strbuf_reset(&line);
        if (sentence->length > 1) /* as et_translator_translate, EOS alone is an empty line */
            status = et_vocabulary_decode(task->sides.target, sentence->results[0].ids,
                                          (size_t)sentence->results[0].count, &line, error);
        if (!status)
            status = add_pair(s, et_strbuf_text(&line),
                              task->validation.now->references[sentence->number], error);
        if (!status)
            status = show(task, i, sentence, et_strbuf_text(&line), table, error);
        et_strbuf_append(text, et_strbuf_text(&line));
        et_strbuf_append_char(text, '\n');
    }
    et_strbuf_release(&line);
    return status;
}

/* <step>.txt, of a set <step>.<name>.txt, atomically; one of the same step is replaced. */
static int keep_translations(const et_translation_task *task, int64_t step, const et_strbuf *text,
                             et_arena *arena, et_error *error)
{
    et_assert(step >= 0);
    if (task->context.reader)
        return ET_OK;
    /* Made at the first validation, so that a run without one has no empty folder. */
    const char *directory =
        et_arena_printf(arena, "%s/%s", task->context.model_dir, ET_TRANSLATION_OUTPUT);
    const char *name = task->validation.now->name;
    const char *path = directory
                           ? et_arena_printf(arena, "%s/%lld%s%s.txt", directory, (long long)step,
                                             name ? "." : "", name ? name : "")
                           : NULL;
    if (!path || text->failed)
        return et_alloc_failed(error, text->length, "translations");
    int status = et_directory_make(directory, error);
    return status ? status : et_file_write(path, et_strbuf_text(text), text->length, error);
}

/* Logs are set before the file is written, which is the last thing that may fail. */
static int measure_translations(et_translation_task *task, int64_t step, et_value *logs,
                                et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT, table = ET_STRBUF_INIT;
    decoded all = { NULL, 0 };
    scores s = { NULL, NULL, NULL };
    int status = decode(task, &all, &arena, error);
    if (!status)
        status = open_scores(&s, &task->options, error);
    if (!status)
        status = score_all(task, &all, &s, &text, &table, error);
    if (!status)
        status = log_scores(&s, logs, error);
    if (!status && table.length)
        et_value_set_string(logs, ET_TRANSLATION_OUTPUT, et_strbuf_text(&table));
    if (!status)
        status = keep_translations(task, step, &text, &arena, error);
    close_scores(&s);
    et_strbuf_release(&table);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

int et_translation_validate(et_task *self, int64_t step, et_value *logs, et_error *error)
{
    et_translation_task *task = (et_translation_task *)(void *)self;
    /* An interruption leaves logs half filled; the run throws them away. */
    int status = log_perplexity(logs, error);
    return status ? status : measure_translations(task, step, logs, error);
}
