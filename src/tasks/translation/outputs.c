/* Results of beam search in a step, as logs.
 *
 *   a batch without targets  -> inference_step      -> outputs, scores
 *   a validation's batch     -> validation_outputs  -> unique_ids, inputs, outputs, scores
 *   logs, step by step       -> aggregate           -> unique_ids, inputs, outputs of all
 *
 * If the trainer itself aggregates and reduces, a step logs only the numbers of its pairs, and
 * reduce (translation_validate.c) searches all sentences at once, which keeps all threads and ranks
 * busy. A translation does not depend on the other sentences. */
#include <string.h>

#include "base/alloc.h"
#include "base/flag.h"
#include "base/values/value.h"
#include "engine/nn/pair_names.h"
#include "formats/events/log_names.h"
#include "tasks/translation/decoding/decode_share.h"
#include "tasks/translation/translation_task_private.h"
#include "train/task/task_private.h"

/* Sentences that are decoded together. Results do not depend on it; memory of the decoder and
 * speed do. */
#define GROUP 32

static et_translation_task *downcast(et_task *self)
{
    return (et_translation_task *)(void *)self;
}

/* ---- searching ---- */

/* Two positions: the decoder has its own table and does not use the transformer's. The decoder is
 * made at the first search and kept; it reads the store's weights again, because they change. */
static int make_decoder(et_translation_task *task, bool embedded, et_error *error)
{
    /* The same search as a translator's with the run's settings, so validation scores the
     * translations that users get. */
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

static int run(et_translation_task *task, et_decoder_sentence *sentences, int64_t count,
               bool shared, et_arena *arena, et_error *error)
{
    et_decoder *decoder = sentences->rows ? task->validation.embedded : task->validation.decoder;
    return shared ? et_decoder_run_on_ranks(decoder, task->context.comm, sentences, count, arena,
                                            stops, task, error)
                  : et_decoder_run(decoder, sentences, count, arena, stops, task, error);
}

/* A source without a word has no result, as in et_translator_translate. */
static bool is_searched(const et_decoder_sentence *sentence)
{
    return sentence->length > (sentence->rows ? 0 : 1);
}

/* The sentences that are searched are moved together for the decoder, and then put back from the
 * end. All have rows or none has. */
int et_translation_search(et_translation_task *task, et_decoder_sentence *sentences, int64_t count,
                          bool shared, et_arena *arena, et_error *error)
{
    et_decoder_sentence *some = et_arena_array(arena, (size_t)count + 1, sizeof *some);
    int64_t words = 0;
    int status = some ? ET_OK : et_alloc_failed(error, (size_t)count * sizeof *some, "sentences");
    for (int64_t i = 0; !status && i < count; i++)
        if (is_searched(&sentences[i]))
            some[words++] = sentences[i];
    const bool embedded = words && some->rows;
    if (!status && !(embedded ? task->validation.embedded : task->validation.decoder))
        status = make_decoder(task, embedded, error);
    if (!status && words)
        status = run(task, some, words, shared, arena, error);
    for (int64_t i = count; !status && i-- > 0;)
        if (is_searched(&sentences[i]))
            sentences[i] = some[--words];
    return status;
}

int et_translation_source(const et_encoded *encoded, int64_t pair, et_decoder_sentence *sentence,
                          et_arena *arena, et_error *error)
{
    const int64_t length =
        et_encoded_truncated_length(encoded, pair, false, ET_TRANSLATION_SOURCE_MAX);
    int32_t *ids = et_arena_array(arena, (size_t)length, sizeof *ids);
    if (!ids)
        return et_alloc_failed(error, (size_t)length * sizeof *ids, "a source");
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

static bool has_targets(const et_batch *batch)
{
    const int at = et_layout_find(batch->layout, et_pair_fields[ET_PAIR_TARGET_IDS].name);
    return at >= 0 && batch->filled[batch->layout->field[at].kind] > 0;
}

/* ---- logs ---- */

static void log_ids(et_value *list, const int32_t *ids, int64_t count)
{
    et_value *to = et_value_add_list(list);
    for (int64_t i = 0; i < count; i++)
        et_value_add_int(to, ids[i]);
}

/* Logs the results; a source without a word has none. */
static int log_results(et_value *logs, const et_decoder_sentence *sentences, int64_t count,
                       et_error *error)
{
    et_value *outputs = et_value_set_list(logs, ET_STEP_OUTPUTS);
    et_value *scores = et_value_set_list(logs, ET_STEP_SCORES);
    for (int64_t i = 0; i < count; i++) {
        const et_decoder_result none = { .count = 0 };
        const et_decoder_result *best = sentences[i].count ? &sentences[i].results[0] : &none;
        log_ids(outputs, best->ids, best->count);
        et_value_add_float(scores, best->score);
    }
    return et_value_failed(logs) ? et_alloc_failed(error, 0, "a step's logs") : ET_OK;
}

/* If the batch has targets, this is the default forward step; its outputs are the pass's. */
int et_translation_inference_step(et_task *self, const et_task_step *now, et_value *outputs,
                                  et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    sources s;
    if (has_targets(now->inputs))
        return et_task_defaults.inference_step(self, now, outputs, error);
    if (!outputs)
        return et_fail(
            error, ET_EUSAGE,
            "a batch without targets is only translated: give a dict for the translations");
    int status = find_sources(downcast(self), now->inputs, &s, error);
    if (!status)
        status = check_positions(&s, error);
    et_decoder_sentence *sentences =
        et_arena_array(&arena, (size_t)now->inputs->filled[0] + 1, sizeof *sentences);
    if (!status && !sentences)
        status = et_alloc_failed(error, 0, "sentences");
    for (int64_t i = 0; !status && i < s.count; i++)
        sentences[i] = source_at(&s, i);
    if (!status)
        status = et_translation_search(downcast(self), sentences, s.count, false, &arena, error);
    if (!status)
        status = log_results(outputs, sentences, s.count, error);
    et_arena_release(&arena);
    return status;
}

/* The whole source of a pair, which the batch may have shortened. If the batch is not from
 * validation, the source stays as the batch has it. */
static int whole_source(const et_translation_task *task, int64_t number,
                        et_decoder_sentence *sentence, et_arena *arena, et_error *error)
{
    int64_t pair;
    const et_decoder_sentence own = *sentence;
    const et_scored *scored = et_translation_scored(task, number, &pair);
    if (!scored || et_encoded_source_length(scored->encoded, pair) < own.length)
        return ET_OK;
    int status = et_translation_source(scored->encoded, pair, sentence, arena, error);
    if (!status &&
        (own.length > sentence->length ||
         memcmp(own.source, sentence->source, (size_t)(own.length - 1) * sizeof *own.source) != 0))
        *sentence = own;
    sentence->number = own.number;
    return status;
}

static void log_numbers(et_value *logs, const et_batch *batch)
{
    et_value *ids = et_value_set_list(logs, ET_LOGGED_IDS);
    for (int64_t i = 0; i < batch->filled[0]; i++)
        et_value_add_int(ids, batch->sample[i]);
}

static int log_search(et_translation_task *task, const et_batch *batch, et_value *logs,
                      et_arena *arena, et_error *error)
{
    sources s;
    int status = find_sources(task, batch, &s, error);
    if (!status && s.rows)
        status = et_fail(error, ET_EUSAGE,
                         "a validation step logs tokens of sources: the batch needs the field %s",
                         et_pair_fields[ET_PAIR_SOURCE_IDS].name);
    et_decoder_sentence *sentences =
        et_arena_array(arena, (size_t)batch->filled[0] + 1, sizeof *sentences);
    if (!status && !sentences)
        status = et_alloc_failed(error, 0, "sentences");
    for (int64_t i = 0; !status && i < s.count; i++) {
        sentences[i] = source_at(&s, i);
        status = whole_source(task, batch->sample[i], &sentences[i], arena, error);
    }
    if (!status)
        status = et_translation_search(task, sentences, s.count, false, arena, error);
    et_value *inputs = status ? NULL : et_value_set_list(logs, ET_STEP_INPUTS);
    for (int64_t i = 0; !status && i < s.count; i++)
        log_ids(inputs, sentences[i].source, sentences[i].length);
    return status ? status : log_results(logs, sentences, s.count, error);
}

int et_translation_validation_outputs(et_task *self, const et_task_step *now, et_value *logs,
                                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    log_numbers(logs, now->inputs);
    if (now->inside && now->inside->reduces)
        return et_value_failed(logs) ? et_alloc_failed(error, 0, "a step's logs") : ET_OK;
    int status = log_search(downcast(self), now->inputs, logs, &arena, error);
    et_arena_release(&arena);
    return status;
}

/* ---- the state ---- */

/* Each list must have as many sentences as there are numbers; the lists of a search may be missing.
 */
static int check_lists(const et_value *logs, const et_value *lists[3], et_error *error)
{
    static const char *const names[3] = { ET_LOGGED_IDS, ET_STEP_INPUTS, ET_STEP_OUTPUTS };
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
    et_value *inputs = list_in(state, ET_STEP_INPUTS);
    et_value *outputs = list_in(state, ET_STEP_OUTPUTS);
    for (int i = 0; i < 3; i++)
        from[i] = lists[i] ? lists[i]->first : NULL;
    for (; from[0]; from[0] = from[0]->next) {
        et_value_add_int(ids, from[0]->kind == ET_VALUE_INT ? from[0]->integer : -1);
        add_copy(inputs, from[1]);
        add_copy(outputs, from[2]);
        for (int i = 1; i < 3; i++)
            from[i] = from[i] ? from[i]->next : NULL;
    }
    return et_value_failed(state) ? et_alloc_failed(error, 0, "the state of a validation") : ET_OK;
}
