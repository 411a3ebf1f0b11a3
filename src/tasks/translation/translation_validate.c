/* Translations of a validation, and their scores in addition to the loss.
 *
 *   a batch without targets  -> inference_step      -> outputs, scores
 *   a validation's batch     -> validation_outputs  -> unique_ids, inputs, outputs, scores
 *   logs, step by step       -> aggregate           -> state: unique_ids, inputs, outputs of all
 *   state -> pairs by number -> [search of pairs without translation] -> lines
 *         -> sacrebleu_score, bleu_score, chrf_score; MODEL_DIR/translations/<step>.txt
 *
 * If the trainer itself aggregates and reduces, a step logs only the numbers of its pairs, and
 * reduce searches all sentences at once, which keeps all threads and ranks busy. A translation does
 * not depend on the other sentences.
 *
 * The state lists the scored pairs: all pairs, or the pairs of a validation of some batches, each
 * once and in the order of the text.
 *
 * Ranks divide the search; afterwards each has all translations and the same scores. If asked to
 * stop, the result is ET_EINTERRUPTED and nothing is written; the resumed run repeats all of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/score.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "engine/nn/transformer.h"
#include "formats/events/log_names.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/translation_task_private.h"
#include "train/task/task_private.h"

/* Values in a step's logs and in the aggregated state, in addition to ET_LOGGED_IDS, integers:
 * lists of equal length. */
#define STEP_INPUTS  "inputs"  /* source tokens, lists of integers, the end last */
#define STEP_OUTPUTS "outputs" /* target tokens, without the end; null: not searched */
#define STEP_SCORES  "scores"  /* of the best hypothesis; of logs alone */

/* Sentences that are decoded together. Results do not depend on it; memory of the decoder and
 * speed do. */
#define GROUP 32

/* ---- searching ---- */

int et_translation_check_beam(const et_translation_task *task, et_error *error)
{
    const int64_t beam = task->options.model.beam_size;
    const int32_t tokens = et_vocabulary_size(task->sides.target);
    if (2 * beam <= tokens)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.model.beam_size: %lld is more than half of the %d tokens in the "
                   "vocabulary; choose at most %d",
                   (long long)beam, (int)tokens, (int)tokens / 2);
}

/* Two positions: the decoder has its own table and does not use the transformer's. The decoder is
 * made at the first search and kept; it reads the store's weights again, because they change. */
static int make_decoder(et_translation_task *task, bool embedded, et_error *error)
{
    /* The search of a translator with the run's settings, so validation scores the translations
     * that users get. */
    const et_translation_model *model = &task->options.model;
    et_transformer transformer =
        et_translation_transformer(&task->options, et_vocabulary_size(task->sides.source),
                                   et_vocabulary_size(task->sides.target), 2);
    transformer.embedded = embedded;
    et_decoder_options options = {
        .beam = { .size = (int)model->beam_size,
                  .alpha = model->alpha,
                  .by_length = model->length_penalty == ET_LENGTH_PENALTY_LENGTH,
                  .shrinks = model->shrink_beam,
                  .force_end = model->force_end,
                  .eos = et_vocabulary_eos(task->sides.target) },
        .choice = { .never = task->suppressed, .never_count = (int)model->suppressed_tokens.count },
        .start = et_vocabulary_start(task->sides.target),
        .max_length = model->decode_max_length,
        .length_factor = model->decode_length_factor,
        .extra_length = model->extra_decode_length,
        .sentences = GROUP,
        .act = task->context.bfloat16 ? ET_BF16 : ET_F32,
    };
    int status = et_translation_check_beam(task, error);
    return status
               ? status
               : et_decoder_new(embedded ? &task->validation.embedded : &task->validation.decoder,
                                task->context.params, task->context.device, &transformer, &options,
                                error);
}

/* Asked between batches and by the decoder as it goes. */
static bool stops(void *task, int64_t done)
{
    (void)done;
    return et_flag_is_set(((const et_translation_task *)task)->context.stop);
}

/* A source without a word has no result, as in et_translator_translate, and a step's is there. */
static bool is_searched(const et_decoder_sentence *sentence)
{
    return !sentence->count && sentence->length > (sentence->rows ? 0 : 1);
}

/* All sentences have rows or none has. comm NULL: this process alone. */
static int translation_search(et_translation_task *task, et_decoder_sentence *sentences,
                              int64_t count, et_comm *comm, et_arena *arena, et_error *error)
{
    const bool embedded = count && sentences->rows;
    et_decoder **decoder = embedded ? &task->validation.embedded : &task->validation.decoder;
    int status = *decoder ? ET_OK : make_decoder(task, embedded, error);
    return status ? status
                  : et_decoder_run_wanted(*decoder, comm, sentences, count, is_searched, arena,
                                          stops, task, error);
}

/* The whole source of a pair, as a translator would cut it. In arena. */
static int translation_source(const et_encoded *encoded, int64_t pair,
                              et_decoder_sentence *sentence, et_arena *arena, et_error *error)
{
    const int64_t length =
        et_encoded_truncated_length(encoded, pair, false, ET_TRANSLATION_SOURCE_MAX);
    int32_t *ids = et_arena_array(arena, length, sizeof *ids);
    if (!ids)
        return et_alloc_failed(error, "a source");
    et_encoded_truncated_ids(encoded, pair, false, ET_TRANSLATION_SOURCE_MAX, ids);
    *sentence = (et_decoder_sentence){ .source = ids, .length = length };
    return ET_OK;
}

/* ---- a batch ---- */

/* Sources of a batch, by its fields: ids, or rows with positions. */
typedef struct sources {
    const int32_t *ids, *offsets, *positions;
    const float *rows;
    int64_t count, width;
} sources;

static const int32_t *field_of(const et_batch *batch, int field)
{
    const int at = et_layout_find(batch->layout, et_pair_fields[field].name);
    return at < 0 || batch->layout->field[at].dtype != ET_I32 ? NULL : batch->data[at];
}

static int find_sources(const et_translation_task *task, const et_batch *batch, sources *found,
                        et_error *error)
{
    const int rows = et_layout_find(batch->layout, ET_PAIR_NAME_SOURCE_EMBEDDED);
    const int64_t width = task->options.model.embedding_width;
    *found = (sources){ .ids = field_of(batch, ET_PAIR_SOURCE_IDS),
                        .offsets = field_of(batch, ET_PAIR_SOURCE_OFFSETS),
                        .positions = field_of(batch, ET_PAIR_SOURCE_POSITIONS),
                        .count = batch->filled[0],
                        .width = width };
    if (rows >= 0) {
        const et_layout_field *field = &batch->layout->field[rows];
        if (field->dtype != ET_F32 || et_shape_count(field->item) != width || !found->positions)
            return et_fail(error, ET_EUSAGE,
                           "the field " ET_PAIR_NAME_SOURCE_EMBEDDED
                           " needs float32 rows of %lld numbers, and the batch the field %s",
                           (long long)width, et_pair_fields[ET_PAIR_SOURCE_POSITIONS].name);
        found->rows = batch->data[rows];
    }
    return (found->ids || found->rows) && found->offsets
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "the batch has no sources: it needs the fields %s, "
                         "or " ET_PAIR_NAME_SOURCE_EMBEDDED ", and %s",
                         et_pair_fields[ET_PAIR_SOURCE_IDS].name,
                         et_pair_fields[ET_PAIR_SOURCE_OFFSETS].name);
}

static et_decoder_sentence source_at(const sources *s, int64_t i)
{
    const int32_t first = s->offsets[i];
    et_decoder_sentence one = { .length = s->offsets[i + 1] - first, .number = (uint64_t)i };
    if (!s->rows) {
        one.source = s->ids + first;
        return one;
    }
    one.rows = s->rows + first * s->width;
    one.positions = s->positions + first;
    for (int64_t k = 0; k < one.length; k++)
        if (one.positions[k] >= one.extent)
            one.extent = one.positions[k] + 1;
    return one;
}

/* Positions of a program's batch are rows of a table, which must have them. */
static int check_positions(const sources *s, et_error *error)
{
    for (int32_t i = s->offsets[0]; s->rows && i < s->offsets[s->count]; i++)
        if (s->positions[i] < 0 || s->positions[i] >= ET_TRANSLATION_LENGTH_MAX)
            return et_fail(error, ET_EDATA, "%s[%d] is %d: give 0 to %d",
                           et_pair_fields[ET_PAIR_SOURCE_POSITIONS].name, (int)i,
                           (int)s->positions[i], ET_TRANSLATION_LENGTH_MAX - 1);
    return ET_OK;
}

/* ---- logs ---- */

static void log_ids(et_value *list, const int32_t *ids, int64_t count)
{
    et_value *to = et_value_add_list(list);
    for (int64_t i = 0; i < count; i++)
        et_value_add_int(to, ids[i]);
}

/* Logs the results. A source without a word has no result. */
static int log_results(et_value *logs, const et_decoder_sentence *sentences, int64_t count,
                       et_error *error)
{
    et_value *outputs = et_value_set_list(logs, STEP_OUTPUTS);
    et_value *scores = et_value_set_list(logs, STEP_SCORES);
    for (int64_t i = 0; i < count; i++) {
        const et_decoder_result none = { .count = 0 };
        const et_decoder_result *best = sentences[i].count ? &sentences[i].results[0] : &none;
        log_ids(outputs, best->ids, best->count);
        et_value_add_float(scores, best->score);
    }
    return et_value_failed(logs) ? et_alloc_failed(error, "a step's logs") : ET_OK;
}

/* The text of a number, and the pair in it; NULL: no pair has it. */
static const et_scored *find_scored(const et_translation_task *task, int64_t number, int64_t *pair)
{
    const et_validation *v = &task->validation;
    const et_scored *found = NULL;
    for (int i = 0; i < v->count && !found; i++)
        if (number >= v->scored[i].first &&
            number - v->scored[i].first < v->scored[i].encoded->pairs)
            found = &v->scored[i];
    for (const et_other_inputs *o = task->others; o && !found; o = o->next)
        if (o->scored.encoded && number >= o->scored.first &&
            number - o->scored.first < o->scored.encoded->pairs)
            found = &o->scored;
    *pair = found ? number - found->first : -1;
    return found;
}

/* The whole source of a pair, because the batch may have shortened it. A batch that is not from
 * validation gives its own source. */
static int whole_source(const et_translation_task *task, int64_t number,
                        et_decoder_sentence *sentence, et_arena *arena, et_error *error)
{
    int64_t pair;
    const et_decoder_sentence own = *sentence;
    const et_scored *scored = find_scored(task, number, &pair);
    if (!scored || et_encoded_source_length(scored->encoded, pair) < own.length)
        return ET_OK;
    int status = translation_source(scored->encoded, pair, sentence, arena, error);
    if (!status &&
        (own.length > sentence->length ||
         memcmp(own.source, sentence->source, (size_t)(own.length - 1) * sizeof *own.source) != 0))
        *sentence = own;
    sentence->number = own.number;
    return status;
}

/* Translates the sources of a batch. step: of a validation, which also logs the sources. */
static int log_search(et_translation_task *task, const et_batch *batch, bool step, et_value *logs,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    sources s;
    int status = find_sources(task, batch, &s, error);
    if (!status && step && s.rows)
        status = et_fail(error, ET_EUSAGE,
                         "a validation step logs tokens of sources: the batch needs the field %s",
                         et_pair_fields[ET_PAIR_SOURCE_IDS].name);
    if (!status)
        status = check_positions(&s, error);
    et_decoder_sentence *sentences = et_arena_array(&arena, batch->filled[0], sizeof *sentences);
    if (!status && !sentences)
        status = et_alloc_failed(error, "sentences");
    for (int64_t i = 0; !status && i < s.count; i++) {
        sentences[i] = source_at(&s, i);
        if (step)
            status = whole_source(task, batch->sample[i], &sentences[i], &arena, error);
    }
    if (!status)
        status = translation_search(task, sentences, s.count, NULL, &arena, error);
    et_value *inputs = status || !step ? NULL : et_value_set_list(logs, STEP_INPUTS);
    for (int64_t i = 0; !status && step && i < s.count; i++)
        log_ids(inputs, sentences[i].source, sentences[i].length);
    if (!status)
        status = log_results(logs, sentences, s.count, error);
    et_arena_release(&arena);
    return status;
}

/* If the batch has targets, this is the default forward step; its outputs are the pass's. */
int et_translation_inference_step(et_task *self, const et_task_step *now, et_value *outputs,
                                  et_error *error)
{
    et_assert(now && now->inputs);
    const int at = et_layout_find(now->inputs->layout, et_pair_fields[ET_PAIR_TARGET_IDS].name);
    if (at >= 0 && now->inputs->filled[now->inputs->layout->field[at].kind] > 0)
        return et_task_defaults.inference_step(self, now, outputs, error);
    if (!outputs)
        return et_fail(
            error, ET_EUSAGE,
            "a batch without targets is only translated: give a dict for the translations");
    return log_search(et_translation_task_of(self), now->inputs, false, outputs, error);
}

int et_translation_validation_outputs(et_task *self, const et_task_step *now, et_value *logs,
                                      et_error *error)
{
    et_assert(now && logs);
    et_value *ids = et_value_set_list(logs, ET_LOGGED_IDS);
    for (int64_t i = 0; i < now->inputs->filled[0]; i++)
        et_value_add_int(ids, now->inputs->sample[i]);
    if (now->internals && now->internals->reduces)
        return et_value_failed(logs) ? et_alloc_failed(error, "a step's logs") : ET_OK;
    return log_search(et_translation_task_of(self), now->inputs, true, logs, error);
}

/* ---- the state ---- */

/* Each list must have as many items as there are numbers. The lists of a search may be missing. */
static int check_lists(const et_value *logs, const et_value *lists[3], et_error *error)
{
    static const char *const names[3] = { ET_LOGGED_IDS, STEP_INPUTS, STEP_OUTPUTS };
    for (int i = 0; i < 3; i++) {
        lists[i] = et_value_get(logs, names[i]);
        if (i && !lists[i])
            continue;
        if (!lists[i] || lists[i]->kind != ET_VALUE_LIST || lists[i]->count != lists[0]->count)
            return et_fail(
                error, ET_EFORMAT,
                "logs of a validation step: %s is not a list%s; give the logs of validation_step",
                names[i], i ? " of as many items as " ET_LOGGED_IDS : "");
    }
    return ET_OK;
}

static void add_copy(et_value *list, const et_value *ids)
{
    if (!ids || ids->kind != ET_VALUE_LIST) {
        et_value *none = list ? et_value_new(list->arena, ET_VALUE_NULL) : NULL;
        if (none)
            et_value_append(list, NULL, none);
        return;
    }
    et_value *to = et_value_add_list(list);
    for (const et_value *one = ids->first; one; one = one->next)
        et_value_add_int(to, one->kind == ET_VALUE_INT ? one->integer : -1);
}

static et_value *list_in(et_value *state, const char *name)
{
    et_value *list = et_value_get(state, name);
    return list ? list : et_value_set_list(state, name);
}

int et_translation_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                             et_error *error)
{
    const et_value *lists[3], *from[3];
    (void)self;
    int status = check_lists(step_outputs, lists, error);
    if (status)
        return status;
    et_value *ids = list_in(state, ET_LOGGED_IDS);
    et_value *inputs = list_in(state, STEP_INPUTS);
    et_value *outputs = list_in(state, STEP_OUTPUTS);
    for (int i = 0; i < 3; i++)
        from[i] = lists[i] ? lists[i]->first : NULL;
    for (; from[0]; from[0] = from[0]->next) {
        et_value_add_int(ids, from[0]->kind == ET_VALUE_INT ? from[0]->integer : -1);
        add_copy(inputs, from[1]);
        add_copy(outputs, from[2]);
        for (int i = 1; i < 3; i++)
            from[i] = from[i] ? from[i]->next : NULL;
    }
    return et_value_failed(state) ? et_alloc_failed(error, "the state of a validation") : ET_OK;
}

/* Translations in a log, which TensorBoard shows under "Text". */
#define LOGGED_MAX 20

/* Accepts any state of opening: missing members are NULL. */
void et_translation_close_validation(et_translation_task *task)
{
    et_validation *v = &task->validation;
    et_decoder_free(v->decoder);
    et_decoder_free(v->embedded);
    et_translation_input_close(&v->input);
}

/* exp of the plain negative log-likelihood, if the results have it: without label smoothing. */
static int log_perplexity(et_value *logs, et_error *error)
{
    double nll;
    if (!et_value_get(logs, ET_LOGGED_OF_VALIDATION "nll"))
        return ET_OK;
    int status;
    if ((status = et_value_read_float(logs, ET_LOGGED_OF_VALIDATION "nll", &nll, error)))
        return status;
    return et_value_set_float(logs, ET_LOGGED_OF_VALIDATION "perplexity", exp(nll))
               ? ET_OK
               : et_alloc_failed(error, "a log");
}

/* ---- pairs of a state ---- */

/* A pair and its translation. */
typedef struct translated {
    int64_t number, at; /* in the task's data; in the state */
    const et_scored *scored;
    int64_t pair;            /* in scored */
    const et_value *outputs; /* of the state; NULL: not searched */
    et_decoder_sentence sentence;
} translated;

/* All of a state, in the order of their numbers; in an arena that ends with the validation. */
typedef struct all_translated {
    translated *pairs; /* [count] */
    int64_t count;
} all_translated;

ET_SORT_BY(by_number, translated, ET_UP(number), ET_UP(at))

static const et_value *list_of(const et_value *state, const char *name, const et_value *ids)
{
    const et_value *list = et_value_get(state, name);
    return list && list->kind == ET_VALUE_LIST && (!ids || list->count == ids->count) ? list : NULL;
}

static int read_state(const et_value *state, all_translated *all, et_arena *arena, et_error *error)
{
    const et_value *ids = list_of(state, ET_LOGGED_IDS, NULL);
    const et_value *outputs = ids ? list_of(state, STEP_OUTPUTS, ids) : NULL;
    if (!outputs)
        return et_fail(error, ET_EFORMAT,
                       "the state of a validation needs lists " ET_LOGGED_IDS " and " STEP_OUTPUTS
                       " of equal length; make it with aggregate_logs");
    all->pairs = et_arena_array(arena, ids->count, sizeof *all->pairs);
    if (!all->pairs)
        return et_alloc_failed(error, "validation");
    const et_value *id = ids->first, *output = outputs->first;
    for (; id; id = id->next, output = output->next, all->count++)
        all->pairs[all->count] =
            (translated){ .number = id->kind == ET_VALUE_INT ? id->integer : -1,
                          .at = all->count,
                          .outputs = output->kind == ET_VALUE_LIST ? output : NULL };
    return ET_OK;
}

/* Ids up to the first end, if they have one. */
static int read_output(const et_translation_task *task, translated *one, et_arena *arena,
                       et_error *error)
{
    const int32_t eos = et_vocabulary_eos(task->sides.target);
    int32_t *ids = et_arena_array(arena, one->outputs->count, sizeof *ids);
    et_decoder_result *result = et_arena_array(arena, 1, sizeof *result);
    int count = 0;
    if (!ids || !result)
        return et_alloc_failed(error, "a translation");
    for (const et_value *id = one->outputs->first; id; id = id->next, count++) {
        if (id->kind != ET_VALUE_INT || id->integer < 0 ||
            id->integer >= et_vocabulary_size(task->sides.target))
            return et_fail(
                error, ET_EDATA,
                "the translation of pair %lld: token %d is not among the %d of the vocabulary",
                (long long)one->number, count + 1, (int)et_vocabulary_size(task->sides.target));
        ids[count] = (int32_t)id->integer;
        if (ids[count] == eos)
            break;
    }
    *result = (et_decoder_result){ .ids = ids, .count = count };
    one->sentence.results = result;
    one->sentence.count = 1;
    return ET_OK;
}

static int find_pairs(const et_translation_task *task, all_translated *all, et_arena *arena,
                      et_error *error)
{
    int status = ET_OK;
    for (int64_t i = 0; !status && i < all->count; i++) {
        translated *one = &all->pairs[i];
        one->scored = find_scored(task, one->number, &one->pair);
        if (!one->scored)
            return et_fail(error, ET_EDATA,
                           "pair %lld of a validation's state is not in the task's validation "
                           "data, whose numbers " ET_LOGGED_IDS " must hold",
                           (long long)one->number);
        status = translation_source(one->scored->encoded, one->pair, &one->sentence, arena, error);
        one->sentence.number = (uint64_t)one->pair;
        if (!status && one->outputs)
            status = read_output(task, one, arena, error);
    }
    return status;
}

/* Searches the pairs that no step has searched, together. The decoder itself sorts by length. */
static int search(et_translation_task *task, all_translated *all, et_arena *arena, et_error *error)
{
    et_decoder_sentence *sentences = et_arena_array(arena, all->count, sizeof *sentences);
    int64_t left = 0;
    if (!sentences)
        return et_alloc_failed(error, "validation");
    for (int64_t i = 0; i < all->count; i++) {
        sentences[i] = all->pairs[i].sentence;
        left += !all->pairs[i].outputs;
    }
    int status =
        left ? translation_search(task, sentences, all->count, task->context.comm, arena, error)
             : ET_OK;
    for (int64_t i = 0; !status && i < all->count; i++)
        all->pairs[i].sentence = sentences[i];
    return status;
}

/* The text that all pairs are of; NULL: of several. */
static const et_scored *text_of(const all_translated *all)
{
    for (int64_t i = 1; i < all->count; i++)
        if (all->pairs[i].scored != all->pairs[0].scored)
            return NULL;
    return all->count ? all->pairs[0].scored : NULL;
}

/* Reports the number of pairs in a validation, once and not at each validation. */
static void tell_share(et_translation_task *task, const et_scored *scored, int64_t count)
{
    for (int n = 0; n < task->validation.count; n++) {
        et_scored *own = &task->validation.scored[n];
        if (own == scored && own->reported == count)
            return;
        if (own == scored)
            own->reported = count;
    }
    et_task_tell(&task->context, "validation   %s of %s pairs", et_format_count(count).text,
                 et_format_count(scored->encoded->pairs).text);
}

static int translate(et_translation_task *task, const et_value *state, all_translated *all,
                     et_arena *arena, et_error *error)
{
    int status = read_state(state, all, arena, error);
    if (status)
        return status;
    /* If a pair occurs several times in the state, the last one counts. */
    int64_t count = 0;
    qsort(all->pairs, all->count, sizeof *all->pairs, by_number);
    for (int64_t i = 0; i < all->count; i++)
        if (i + 1 == all->count || all->pairs[i + 1].number != all->pairs[i].number)
            all->pairs[count++] = all->pairs[i];
    all->count = count;
    status = find_pairs(task, all, arena, error);
    const et_scored *scored = status ? NULL : text_of(all);
    if (scored && all->count < scored->encoded->pairs)
        tell_share(task, scored, all->count);
    return status ? status : search(task, all, arena, error);
}

/* ---- scores ---- */

/* The scores of one validation: sacrebleu's rules, Model Garden's own, chrF2. Each reads a pair
 * separately, because their tokens differ. */
enum { BLEU, MODEL_GARDEN, CHRF, SCORES };
static const char *const score_names[SCORES] = { ET_TRANSLATION_BLEU, ET_TRANSLATION_GARDEN_BLEU,
                                                 ET_TRANSLATION_CHRF };
typedef et_score *scores[SCORES];

/* The rules of Model Garden's score are fixed; settings change only the other two scores. */
static int open_scores(scores s, const et_translation_options *options, et_error *error)
{
    et_bleu_options bleu = ET_BLEU_OPTIONS_INIT;
    et_bleu_options garden = ET_BLEU_OPTIONS_MODEL_GARDEN;
    et_chrf_options chrf = ET_CHRF_OPTIONS_INIT;
    bleu.tokens = options->score_tokenize ? ET_BLEU_TOKENS_NONE : ET_BLEU_TOKENS_13A;
    bleu.lowercase = chrf.lowercase = options->score_lowercase;
    int status;
    if ((status = et_bleu_new(&s[BLEU], &bleu, error)) ||
        (status = et_bleu_new(&s[MODEL_GARDEN], &garden, error)))
        return status;
    return et_chrf_new(&s[CHRF], &chrf, error);
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

/* The first print_translations pairs, above the progress bar: the same at each validation, so that
 * progress can be seen in them. The first LOGGED_MAX go to table, for the log. */
static int show(const et_translation_task *task, int64_t shown, const translated *one,
                const char *hypothesis, et_strbuf *table, et_error *error)
{
    if (shown >= task->options.print_translations)
        return ET_OK;
    et_strbuf text = ET_STRBUF_INIT, source = ET_STRBUF_INIT;
    const char *name = one->scored->name;
    const char *reference = one->scored->references[one->pair];
    /* Decodes the source as the model has seen it. */
    int status = et_vocabulary_decode(task->sides.source, one->sentence.source,
                                      (size_t)one->sentence.length, &source, error);
    et_strbuf_printf(&text, "%s%s  Input      %s\n  Output     %s\n  Reference  %s",
                     name ? name : "", name ? "\n" : "", et_strbuf_text(&source), hypothesis,
                     reference);
    if (!status && task->context.tell)
        task->context.tell(task->context.listener, et_strbuf_text(&text));
    if (!status && shown < LOGGED_MAX) {
        if (!table->length)
            et_strbuf_append(table, "| input | output | reference |\n|---|---|---|\n");
        append_cell(table, et_strbuf_text(&source));
        append_cell(table, hypothesis);
        append_cell(table, reference);
        et_strbuf_append(table, "|\n");
    }
    et_strbuf_release(&source);
    et_strbuf_release(&text);
    return status;
}

/* Detokenises, scores and collects all lines into text. The text has one line for each pair that
 * was seen, in the order of the corpus, so other programs can score it against the references. */
static int score_all(et_translation_task *task, const all_translated *all, scores s,
                     et_strbuf *text, et_strbuf *table, et_error *error)
{
    /* The memory of one line, reused for all lines. */
    et_strbuf line = ET_STRBUF_INIT;
    int status = ET_OK;
    for (int64_t i = 0; i < all->count && !status; i++) {
        const translated *one = &all->pairs[i];
        et_strbuf_reset(&line);
        if (one->sentence.count) /* as et_translator_translate, no word is an empty line */
            status = et_vocabulary_decode(task->sides.target, one->sentence.results[0].ids,
                                          (size_t)one->sentence.results[0].count, &line, error);
        for (int k = 0; k < SCORES && !status; k++)
            status = et_score_add(s[k], et_strbuf_text(&line), one->scored->references[one->pair],
                                  error);
        if (!status)
            status = show(task, i, one, et_strbuf_text(&line), table, error);
        et_strbuf_append(text, et_strbuf_text(&line));
        et_strbuf_append_char(text, '\n');
    }
    et_strbuf_release(&line);
    return status;
}

/* <step>.txt, for a set <step>.<name>.txt. Written atomically; replaces a file of the same step. */
static int keep_translations(const et_translation_task *task, const et_scored *scored, int64_t step,
                             const et_strbuf *text, et_error *error)
{
    if (task->context.reader || !task->context.model_dir)
        return ET_OK;
    /* Made at the first validation, so that a run without validation has no empty folder. */
    const et_path directory = et_path_of(task->context.model_dir, ET_TRANSLATION_OUTPUT);
    const char *name = scored ? scored->name : NULL;
    if (text->failed)
        return et_alloc_failed(error, "translations");
    int status = et_directory_make(directory.text, error);
    return status ? status
                  : et_file_write(et_path_print("%s/%lld%s%s.txt", directory.text, (long long)step,
                                                name ? "." : "", name ? name : "")
                                      .text,
                                  et_strbuf_text(text), text->length, error);
}

/* Updates that even a small model needs. After them, few texts still have a lower BLEU than
 * this. */
#define STEPS_LEAST 1000
#define BLEU_LEAST  10

const char *et_translation_verdict(et_task *self, bool best)
{
    et_translation_task *task = et_translation_task_of(self);
    const double bleu = best ? task->best_bleu : task->bleu;
    if (!task->scored_step || !(bleu < BLEU_LEAST) || task->scored_step >= STEPS_LEAST)
        return "";
    snprintf(task->verdict, sizeof task->verdict,
             "BLEU is %.1f after %lld steps: the run was too short, and the translations are of "
             "little use; train at least %d steps (--steps, or a longer --time-limit)",
             bleu, (long long)task->scored_step, STEPS_LEAST);
    return task->verdict;
}

/* Sets the results first, because writing the file may fail. */
int et_translation_reduce(et_task *self, const et_value *aggregated_logs, int64_t step,
                          et_value *results, et_error *error)
{
    et_translation_task *task = et_translation_task_of(self);
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT, table = ET_STRBUF_INIT;
    all_translated all = { NULL, 0 };
    scores s = { NULL };
    et_score_result score;
    /* An interruption leaves results half filled; the run throws them away. */
    int status = log_perplexity(results, error);
    if (!status && !(status = translate(task, aggregated_logs, &all, &arena, error)) &&
        !(status = open_scores(s, &task->options, error)))
        status = score_all(task, &all, s, &text, &table, error);
    for (int k = 0; k < SCORES && !status; k++)
        if (!(status = et_score_value(s[k], &score, error)) &&
            !et_value_set_float(results, score_names[k], score.score))
            status = et_alloc_failed(error, "a log");
    if (!status) {
        task->bleu = et_value_get(results, ET_TRANSLATION_BLEU)->real;
        task->best_bleu = fmax(task->best_bleu, task->bleu);
        task->scored_step = step;
    }
    if (!status && table.length)
        et_value_set_string(results, ET_TRANSLATION_OUTPUT, et_strbuf_text(&table));
    if (!status)
        status = keep_translations(task, text_of(&all), step, &text, error);
    for (int k = 0; k < SCORES; k++)
        et_score_free(s[k]);
    et_strbuf_release(&table);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}
