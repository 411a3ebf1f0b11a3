/* One thread's part of decoding: the seats and their sentences. It runs one model, or the models
 * of an ensemble, which all take the same steps.
 *
 * Caches. A seat owns a run of rows of the cross caches, one for each source token, and a run of
 * positions of the self caches, with a slot for each hypothesis:
 *
 *     slot of position t, hypothesis i = (first + t) * beam size + i
 *
 * A slot is written once per sentence. A hypothesis finds its past through its row of the slot
 * table, [rows, target]: the slots of its parent, then its own newest. So reordering a beam copies
 * 4 bytes for each position, while keys and values have 2 width elements in each layer.
 *
 * A recurrent decoder has a state in place of this cache: two slots for each hypothesis of a place.
 *
 *     beam size 2, first 0; at t = 2 hypothesis 0 follows from 1, and 1 from 0:
 *     t = 0: [0]      t = 1: [0 2] [0 3]      t = 2: [0 3 4] [0 2 5]
 *
 * Invariants:
 *
 *   1. The rows of a step belong to seats in use and are contiguous; no other rows are computed.
 *   2. A row's place in the batch does not change its bits: products go row by row, or by tiles
 *      of a fixed number of rows.
 *   3. Steps allocate no memory: caches, tables and beams have the sizes of et_search_size. */
#include "tasks/translation/decoding/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "engine/exec/plan.h"
#include "engine/kernel/kernels.h"
#include "engine/nn/transformer.h"
#include "engine/tensor/params.h"

/* One model of a search: its two plans, with the caches that they read. `encode` runs the encoder
 * on the entering sources, packed one after another. It computes the keys and values that every
 * decoder layer reads from the sources; they are copied to the cross caches. `decode` runs one
 * position of the decoder for all hypotheses, reads both caches and writes to the cache of the
 * targets.
 *
 * The models of an ensemble take the same steps: they read the same tokens and slots of targets.
 * Their caches have the same seats, but the sources of one model may be shorter than another's. */

/* Inputs of a decoder step that all models read, [rows]; borrowed. */
typedef struct et_search_rows {
    int32_t *ids, *positions, *self_length;
    int32_t *state_slots; /* [rows, 2] */
} et_search_rows;

typedef struct et_search_model {
    et_transformer transformer; /* its pointers are borrowed */
    et_dtype act;
    bool int8;
    et_search_size size;
    int64_t rows; /* most rows of a step: all seats with full beams */
    et_graph *encode_graph, *decode_graph;
    et_plan *encode, *decode;
    void **self_cache;  /* [layers] of [positions, beam][2 width] act; with ssru the states,
                           [2][rows][width] float32 */
    void **cross_cache; /* [layers] of [tokens][2 width] act */
    /* Inputs of the encoder, [tokens], [tokens] and [seats + 1]; one block, which the model owns.
     */
    int32_t *source_ids, *source_positions, *source_offsets;
    float *source_rows; /* [tokens, width] in place of source_ids; NULL: ids are read. Owned */
    int32_t *cross_begin, *cross_length; /* [rows] inputs of a decoder step; one block, its own */
    et_params *params;                   /* borrowed */
    int table, bias; /* indices of the logits' parameters, for products with listed rows; bias -1:
                        no bias */
} et_search_model;

/* The plans and caches of one model. Weights are kept packed, as a plan's options begin with: steps
 * are many and weights do not change between them. */

/* Rows of a tile, for products in bfloat16 (oneDNN), whose rows must have the same bits at any
 * position. The last tile of a product costs as much as a full one, so a small tile suits few rows.
 * Float32 and int8 products go row by row and do not need it. */
#define ROW_TILE 32

/* Most layers of the decoder; the outputs of the encoding plan are listed on the stack. */
#define LAYERS_MAX 256

/* Slots of a self cache: one for each position of each seat and each hypothesis. A state has two
 * for each hypothesis, which take turns. */
static int64_t slots_of(const et_search_model *model)
{
    if (model->transformer.decoder.ssru)
        return 2 * model->rows;
    return model->rows / model->size.seats * model->size.positions;
}

/* Plans are freed before the graphs that they use. */
static void search_model_release(et_search_model *model)
{
    et_plan_free(model->encode);
    et_plan_free(model->decode);
    et_graph_free(model->encode_graph);
    et_graph_free(model->decode_graph);
    for (int i = 0; i < model->transformer.decoder.num_layers; i++) {
        if (model->self_cache)
            et_free_array(model->self_cache[i]);
        if (model->cross_cache)
            et_free_array(model->cross_cache[i]);
    }
    et_free(model->self_cache);
    et_free(model->cross_cache);
    et_free(model->source_ids);
    et_free_array(model->source_rows);
    et_free(model->cross_begin);
    *model = (et_search_model){ 0 };
}

/* New caches need no clearing: lengths ensure that no slot is read before it is written. A row is
 * keys, then values, 2 width elements. Total bytes: layers * 2 width * element * (positions * beam
 * size + tokens). Example: 6 layers of width 512 in float32 have 24 KiB for each source token, and
 * with a beam of 4 96 KiB for each position. */
static int make_caches(et_search_model *model, et_error *error)
{
    size_t layers = (size_t)model->transformer.decoder.num_layers;
    size_t row = (size_t)(2 * model->transformer.width) * et_dtype_size(model->act);
    const size_t state = model->transformer.width * sizeof(float);
    size_t self = (size_t)slots_of(model) * (model->transformer.decoder.ssru ? state : row);
    size_t cross = (size_t)model->size.tokens * row;
    model->self_cache = et_alloc_zero(layers, sizeof(void *));
    model->cross_cache = et_alloc_zero(layers, sizeof(void *));
    bool ok = model->self_cache && model->cross_cache;
    for (size_t i = 0; i < layers && ok; i++) {
        model->self_cache[i] = et_alloc_array(self);
        model->cross_cache[i] = et_alloc_array(cross);
        ok = model->self_cache[i] && model->cross_cache[i];
    }
    return ok ? ET_OK : et_alloc_failed(error, "the caches of decoding");
}

static int make_model_inputs(et_search_model *model, et_error *error)
{
    size_t tokens = (size_t)model->size.tokens, rows = (size_t)model->rows;
    size_t source = 2 * tokens + (size_t)model->size.seats + 1;
    model->source_ids = et_alloc(source, sizeof(int32_t));
    model->cross_begin = et_alloc_zero(2 * rows, sizeof(int32_t));
    const size_t rows_bytes = tokens * (size_t)model->transformer.width * sizeof(float);
    if (model->transformer.embedded)
        model->source_rows = et_alloc_array(rows_bytes);
    if (!model->source_ids || !model->cross_begin ||
        (model->transformer.embedded && !model->source_rows))
        return et_alloc_failed(error, "decoding");
    model->source_positions = model->source_ids + tokens;
    model->source_offsets = model->source_positions + tokens;
    model->cross_length = model->cross_begin + rows;
    return ET_OK;
}

/* Output i is the source input of decoder layer i, [tokens, 2 width]. Inputs are bound once: their
 * addresses stay, only their contents change. Segments are sentences; at most `seats` sentences
 * enter together. */
static int make_encoder(et_search_model *model, et_params *params, et_device *device,
                        const et_plan_options *plan, et_error *error)
{
    et_node *outputs[LAYERS_MAX];
    const et_transformer *transformer = &model->transformer;
    int layers = transformer->decoder.num_layers;
    et_assert(layers <= LAYERS_MAX);
    et_graph_options options = { .training = false, .act = model->act };
    int status = et_graph_new(&model->encode_graph, params, &options, error);
    if (status)
        return status;
    et_scope *root = et_graph_scope(model->encode_graph);
    et_node *encoded =
        et_transformer_encode(root, transformer, model->size.tokens, model->size.seats, ROW_TILE);
    for (int i = 0; i < layers; i++)
        outputs[i] = et_transformer_cross_cache(root, transformer, i, encoded, ROW_TILE);
    status = et_plan_new(&model->encode, model->encode_graph, device, outputs, layers, plan, error);
    if (status)
        return status;
    if (transformer->embedded)
        et_plan_bind(model->encode, ET_PAIR_NAME_SOURCE_EMBEDDED, model->source_rows);
    else
        et_plan_bind(model->encode, ET_PAIR_NAME_SOURCE_IDS, model->source_ids);
    et_plan_bind(model->encode, ET_PAIR_NAME_SOURCE_POSITIONS, model->source_positions);
    et_plan_bind(model->encode, ET_PAIR_NAME_SOURCE_OFFSETS, model->source_offsets);
    return ET_OK;
}

/* Binds all inputs except the slot table, which is bound at every step because two tables take
 * turns. A plan has only the inputs of attention, or only the inputs of a recurrence. */
static void bind_decoder(et_search_model *model, const et_search_rows *rows)
{
    et_plan *plan = model->decode;
    et_plan_bind(plan, ET_DECODE_IDS, rows->ids);
    et_plan_bind(plan, ET_DECODE_POSITIONS, rows->positions);
    et_plan_bind(plan, ET_DECODE_SELF_LENGTH, rows->self_length);
    et_plan_bind(plan, ET_DECODE_STATE_SLOTS, rows->state_slots);
    et_plan_bind(plan, ET_DECODE_CROSS_BEGIN, model->cross_begin);
    et_plan_bind(plan, ET_DECODE_CROSS_LENGTH, model->cross_length);
    for (int i = 0; i < model->transformer.decoder.num_layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "%s%d",
                 model->transformer.decoder.ssru ? ET_DECODE_STATE : ET_DECODE_SELF_CACHE, i);
        et_plan_bind(plan, name, model->self_cache[i]);
        snprintf(name, sizeof name, ET_DECODE_CROSS_CACHE "%d", i);
        et_plan_bind(plan, name, model->cross_cache[i]);
    }
}

/* Outputs: log p and numbers of the best tokens of each row, best first, as et_beam_advance reads
 * them; or only the logits. */
static int make_decoder(et_search_model *model, et_params *params, et_device *device, int best,
                        const et_plan_options *plan, et_error *error)
{
    et_graph_options options = { .training = false, .act = model->act };
    et_transformer_step step = { .rows = model->rows,
                                 .longest = model->size.target,
                                 .slots = slots_of(model),
                                 .source_rows = model->size.tokens,
                                 .row_tile = ROW_TILE,
                                 .best = best > 0 ? best : 0,
                                 .hidden = best < 0 };
    int status = et_graph_new(&model->decode_graph, params, &options, error);
    if (status)
        return status;
    et_node *outputs[2];
    outputs[0] = et_transformer_decode(et_graph_scope(model->decode_graph), &model->transformer,
                                       &step, &outputs[1]);
    return et_plan_new(&model->decode, model->decode_graph, device, outputs, best > 0 ? 2 : 1, plan,
                       error);
}

/* The sinusoids cover the longest source or target. span: the name of a step in a trace; static.
 * best: number of tokens per row for which a step gives log p, best first; 0: all logits; negative:
 * the rows before the product that makes logits. packed_by: as in et_search_new. On failure the
 * model can be released. */
static int search_model_init(et_search_model *model, const et_decoder_model *of, et_device *device,
                             const et_search_size *size, const char *span, int beam, int best,
                             const et_search_rows *rows, const et_search_model *packed_by,
                             et_error *error)
{
    et_assert(of && size && rows && beam > 0);
    et_plan_options encode = ET_PLAN_OPTIONS_INIT, decode = ET_PLAN_OPTIONS_INIT;
    *model = (et_search_model){ .transformer = *of->transformer,
                                .act = of->act,
                                .int8 = of->int8,
                                .size = *size,
                                .params = of->params,
                                .rows = (int64_t)size->seats * beam };
    model->transformer.max_positions = size->target > size->source ? size->target : size->source;
    encode.name = "encode";
    decode.name = span;
    encode.int8 = decode.int8 = of->int8;
    encode.packed_by = packed_by ? packed_by->encode : NULL;
    decode.packed_by = packed_by ? packed_by->decode : NULL;
    int status = make_caches(model, error);
    if (!status && !(status = make_model_inputs(model, error)) &&
        !(status = make_encoder(model, of->params, device, &encode, error)))
        status = make_decoder(model, of->params, device, best, &decode, error);
    if (!status)
        bind_decoder(model, rows);
    if (!status && best < 0) {
        /* A step that gives rows does not read them, but the store has them. */
        const char *scope = model->transformer.output.scope;
        model->table = et_params_find_printf(model->params, "%s/table", scope);
        model->bias = model->transformer.output_bias
                          ? et_params_find_printf(model->params, "%s/bias", scope)
                          : -1;
        et_assert(model->table >= 0);
    }
    return status;
}

/* The segments after it are empty: offsets are complete after every source, and the encoder's
 * attention skips empty segments. */
static void search_model_pack(et_search_model *model, const et_decoder_source *source, int segment)
{
    const int64_t width = model->transformer.width;
    int32_t at = model->source_offsets[segment];
    et_assert(at + source->length <= model->size.tokens);
    et_assert(!source->rows == !model->source_rows);
    if (source->rows)
        memcpy(model->source_rows + at * width, source->rows,
               (size_t)(source->length * width) * sizeof(float));
    for (int64_t i = 0; i < source->length; i++, at++) {
        if (source->ids)
            model->source_ids[at] = source->ids[i];
        model->source_positions[at] = source->positions ? source->positions[i] : (int32_t)i;
    }
    for (int s = segment + 1; s <= model->size.seats; s++)
        model->source_offsets[s] = at;
}

/* The plan is made for `tokens` rows and runs over the filled rows. Random numbers are not used
 * outside of training. */
static void search_model_encode(et_search_model *model, int count)
{
    et_assert(count > 0);
    et_plan_set_rows(model->encode, model->size.tokens, model->source_offsets[count]);
    et_plan_run(model->encode, (et_random){ 0 });
}

/* Outputs of the encoding plan are valid only until its next run. Rows of a source are adjacent in
 * both, so a layer is one copy. */
static void search_model_keep(et_search_model *model, int segment, int64_t begin)
{
    et_assert(segment >= 0 && begin >= 0);
    const size_t row = (size_t)(2 * model->transformer.width) * et_dtype_size(model->act);
    const size_t from = (size_t)model->source_offsets[segment];
    const size_t length = (size_t)model->source_offsets[segment + 1] - from;
    for (int i = 0; i < model->transformer.decoder.num_layers; i++) {
        const char *encoded = et_plan_output(model->encode, i).data;
        memcpy((char *)model->cross_cache[i] + (size_t)begin * row, encoded + from * row,
               length * row);
    }
}

/* slot: [rows, target]. Afterwards the outputs of `decode` have log p or logits of each row. */
static void search_model_step(et_search_model *model, int32_t *slot, int64_t rows)
{
    et_assert(slot && rows > 0);
    et_plan_bind(model->decode, ET_DECODE_SLOT, slot);
    et_plan_set_rows(model->decode, model->rows, rows);
    et_plan_run(model->decode, (et_random){ 0 });
}

/* Logits of the listed words for rows `row` on, [rows, count], after a step that gave rows. */
static void search_model_list(const et_search_model *model, int64_t row, int64_t rows,
                              const int32_t *words, int64_t count, float *logits)
{
    et_assert(row >= 0 && words && logits);
    const size_t width = (size_t)model->transformer.width * et_dtype_size(model->act);
    const et_listed_product product = {
        .rows = rows,
        .count = count,
        .width = model->transformer.width,
        .h = (const char *)et_plan_output(model->decode, 0).data + (size_t)row * width,
        .dtype = model->act,
        .words = words,
        .table = et_params_values_of(model->params, model->table),
        .bias = model->bias < 0 ? NULL : et_params_values_of(model->params, model->bias),
    };
    et_kernels_best()->listed_product(logits, &product);
}

/* The seat of a sentence in decoding. Its hypotheses are rows row .. row + rows - 1 of the last
 * step; parent (among these) and next define the rows of the next step. rows is 1 at the first
 * step, then the beam's size. segment: the sentence's number among the sentences that enter
 * together. */
typedef struct seat {
    et_decoder_sentence *sentence; /* NULL: free */
    et_beam beam;
    int64_t begin, capacity; /* its rows of the cross caches; 0: no rows yet */
    int64_t first, most;     /* its positions of the self caches, a slot for each hypothesis */
    int segment;             /* of the encoder's batch while it enters; -1: inside */
    int row, rows;
    int32_t *words; /* [word_count] its sentence's shortlist, in room for the vocabulary */
    int64_t word_count;
    int parent[ET_BEAM_SIZE_MAX];
    int32_t next[ET_BEAM_SIZE_MAX];
} seat;

/* Owns models and seats. The members of rows point into one block. */
struct et_search {
    et_arena arena; /* of models, seats and all tables */
    et_decoder_options options;
    et_search_size size;
    et_search_model *models; /* [count] the first decides about vocabulary and search */
    int count;
    et_search_rows rows;
    int32_t *slot, *other_slot; /* [rows, target]; they take turns */
    seat *seats;
    /* If logits are read: their reader, and the best tokens of a seat's rows, [size, 2 size]. */
    et_sampling choice;
    float *best;
    int32_t *best_token;
    uint64_t *listable; /* [vocabulary / 64] bits of one sentence's shortlist, as it enters */
    float *listed;      /* [size, vocabulary] logits of a seat's rows; NULL: no shortlists */
    int in_use;
    int64_t cross_used, self_used; /* by all seats together */
};

/* The most rows of a step: all seats in use with full beams. */
static int64_t rows_of(const et_search *search)
{
    return (int64_t)search->size.seats * search->options.beam.size;
}

/* ---- making ---- */

/* Also frees a search that was only made in part: missing members are NULL. */
void et_search_free(et_search *search)
{
    if (!search)
        return;
    for (int i = 0; search->models && i < search->count; i++)
        search_model_release(&search->models[i]);
    for (int i = 0; search->seats && i < search->size.seats; i++)
        et_beam_release(&search->seats[i].beam);
    et_sampling_release(&search->choice);
    et_arena_release(&search->arena);
    et_free(search);
}

/* There are two slot tables, because a row is filled from its parent's row, which another row might
 * have overwritten in a single table. Each beam can hold the longest target, whichever sentence
 * takes the seat. */
static int make_inputs(et_search *search, et_error *error)
{
    const et_search_size *size = &search->size;
    size_t rows = (size_t)rows_of(search), slots = rows * (size_t)size->target;
    search->rows.ids = et_arena_array(&search->arena, 5 * rows, sizeof(int32_t));
    search->slot = et_arena_array(&search->arena, 2 * slots, sizeof(int32_t));
    search->seats = et_arena_array(&search->arena, size->seats, sizeof *search->seats);
    if (search->arena.failed)
        return et_alloc_failed(error, "decoding");
    search->rows.positions = search->rows.ids + rows;
    search->rows.self_length = search->rows.positions + rows;
    search->rows.state_slots = search->rows.self_length + rows;
    search->other_slot = search->slot + slots;
    int status = ET_OK;
    for (int i = 0; i < size->seats && !status; i++)
        status =
            et_beam_init(&search->seats[i].beam, &search->options.beam, (int)size->target, error);
    return status;
}

static int64_t vocabulary_of(const et_search *search)
{
    return search->models[0].transformer.target.count;
}

/* Whether a step gives all logits, not only the likeliest tokens. */
static bool reads_logits(const et_search *search)
{
    return search->options.lexicon || search->options.forced || search->options.beam.phrases ||
           search->count > 1 || search->models[0].transformer.output_bias ||
           et_sampling_reads_logits(&search->options.choice);
}

static int make_models(et_search *search, const et_decoder_model *models, et_device *device,
                       const et_search *packed_by, et_error *error)
{
    int status = ET_OK;
    search->models[0].transformer = *models[0].transformer;
    const int beam = search->options.beam.size;
    const int best = search->options.lexicon ? -1 : reads_logits(search) ? 0 : 2 * beam;
    for (int i = 0; i < search->count && !status; i++)
        status = search_model_init(&search->models[i], &models[i], device, &search->size,
                                   i ? ET_DECODER_OTHER_SPAN : ET_DECODER_STEP_SPAN, beam, best,
                                   &search->rows, packed_by ? &packed_by->models[i] : NULL, error);
    if (!status && best <= 0) {
        const size_t wide = (size_t)search->options.beam.size, found = 2 * wide * wide;
        search->best = et_arena_array(&search->arena, found, sizeof *search->best);
        search->best_token = et_arena_array(&search->arena, found, sizeof *search->best_token);
        status = !search->arena.failed ? et_sampling_init(&search->choice, &search->options.choice,
                                                          vocabulary_of(search), error)
                                       : et_alloc_failed(error, "decoding");
    }
    if (status)
        return status;
    /* Rows of logits of the listed tokens, and a list for each seat. */
    const size_t vocabulary = (size_t)vocabulary_of(search);
    const size_t size = (size_t)search->options.beam.size * vocabulary;
    if (!search->options.lexicon)
        return ET_OK;
    search->listed = et_arena_array_raw(&search->arena, size, sizeof *search->listed);
    search->listable =
        et_arena_array(&search->arena, (vocabulary + 63) / 64, sizeof *search->listable);
    for (int i = 0; i < search->size.seats; i++)
        search->seats[i].words = et_arena_array_raw(&search->arena, vocabulary, sizeof(int32_t));
    return !search->arena.failed ? ET_OK : et_alloc_failed(error, "shortlists");
}

int et_search_new(et_search **out, const et_decoder_model *models, et_device *device,
                  const et_decoder_options *options, const et_search_size *size,
                  const et_search *packed_by, et_error *error)
{
    et_assert(size->seats >= 1 && size->source >= 1 && size->target >= 1);
    et_assert(size->tokens >= size->source && size->positions >= size->target);
    et_search *search;
    *out = NULL;
    if (ET_ALLOC_ZERO(search, 1, "decoding", error))
        return ET_ENOMEM;
    search->options = *options;
    search->size = *size;
    search->count = 1 + options->other_count;
    search->models = et_arena_array(&search->arena, search->count, sizeof *search->models);
    int status = search->models ? ET_OK : et_alloc_failed(error, "decoding");
    if (!status && !(status = make_inputs(search, error)))
        status = make_models(search, models, device, packed_by, error);
    if (status)
        et_search_free(search);
    else
        *out = search;
    return status;
}

void et_search_refresh(et_search *search)
{
    for (int i = 0; i < search->count; i++) {
        /* If the model reads another search's packed weights, this only updates the parameters'
         * addresses. */
        et_search_model *model = &search->models[i];
        et_plan_refresh(model->encode);
        et_plan_refresh(model->decode);
    }
}

/* ---- shortlists ---- */

static void add(et_search *search, int64_t token)
{
    search->listable[token / 64] |= (uint64_t)1 << token % 64;
}

static void add_all(et_search *search, const int32_t *tokens, int count)
{
    for (int i = 0; i < count; i++)
        add(search, tokens[i]);
}

/* The allowed tokens of a translation, ascending: tokens of the lexicon, end tokens, allowed first
 * tokens and tokens of phrases, without tokens that are never generated. */
static void make_list(et_search *search, seat *at, const et_decoder_sentence *sentence)
{
    const et_decoder_options *options = &search->options;
    const et_sampling_options *choice = &options->choice;
    const et_phrases *phrases = sentence->phrases;
    const int64_t parts = (vocabulary_of(search) + 63) / 64;
    at->word_count = 0;
    memset(search->listable, 0, parts * sizeof *search->listable);
    /* As Marian makes it: up to a multiple of eight the next tokens after the first ones belong to
     * it. */
    const int64_t first = et_lexicon_first(search->options.lexicon);
    int64_t count = 0;
    for (int64_t token = 0; token < first; token++)
        add(search, token);
    for (int64_t i = 0; i < sentence->length; i++) {
        size_t of;
        const uint32_t *tokens = et_lexicon_of(search->options.lexicon, sentence->source[i], &of);
        for (size_t k = 0; k < of; k++)
            add(search, tokens[k]);
    }
    for (int64_t part = 0; part < (vocabulary_of(search) + 63) / 64; part++)
        count += __builtin_popcountll(search->listable[part]);
    for (int64_t token = first; token < vocabulary_of(search) && count % 8; token++)
        if (!(search->listable[token / 64] >> token % 64 & 1)) {
            add(search, token);
            count++;
        }
    add(search, options->beam.eos);
    add_all(search, options->beam.ends, options->beam.end_count);
    add_all(search, choice->first, choice->first_count);
    for (int i = 0; phrases && i < phrases->count; i++)
        add_all(search, phrases->items[i].ids, phrases->items[i].count);
    for (int i = 0; i < choice->never_count; i++)
        search->listable[choice->never[i] / 64] &= ~((uint64_t)1 << choice->never[i] % 64);
    for (int64_t part = 0; part < parts; part++)
        for (uint64_t bits = search->listable[part]; bits; bits &= bits - 1)
            at->words[at->word_count++] = (int32_t)(part * 64 + __builtin_ctzll(bits));
    if (!at->word_count) /* all of them are never generated */
        at->words[at->word_count++] = options->beam.eos;
}

/* ---- sentences ---- */

/* With capacity 0 each seat takes a new part of the caches for its next sentence. */
void et_search_clear(et_search *search)
{
    for (int i = 0; i < search->size.seats; i++) {
        search->seats[i].sentence = NULL;
        search->seats[i].capacity = 0;
    }
    search->in_use = 0;
    search->cross_used = 0;
    search->self_used = 0;
}

/* Finished sentences count until they leave. */
int et_search_in_use(const et_search *search)
{
    return search->in_use;
}

int et_search_capacity(const et_search *search)
{
    et_assert(search->size.seats > 0);
    return search->size.seats;
}

/* Most tokens of a target, EOS included. The order of entering requires that longer sources never
 * have shorter targets. Computed in float32 as by Marian, whose beam_search.cpp ends after step t
 * if t >= factor * source length. */
int64_t et_search_target(const et_decoder_options *options, const et_decoder_sentence *sentence)
{
    et_assert(options && sentence);
    const int64_t length = et_decoder_sentence_length(sentence);
    if (options->max_length)
        return options->max_length;
    if (options->length_factor == 0)
        return length + options->extra_length;
    return (int64_t)fmaxf(1, ceilf((float)options->length_factor * (float)length));
}

/* A seat's part of the caches has the size that its first sentence needs, its longest one. Later
 * sentences of the seat are not longer, so they fit. The first step has one row, the start symbol,
 * without a parent: its length is 0, so nothing is copied. */
static void take_seat(et_search *search, seat *at, et_decoder_sentence *sentence, int segment)
{
    int64_t target = et_search_target(&search->options, sentence);
    int64_t length = et_decoder_sentence_length(sentence);
    if (!at->capacity) {
        at->begin = search->cross_used;
        at->capacity = length;
        at->first = search->self_used;
        at->most = target;
        search->cross_used += at->capacity;
        search->self_used += at->most;
    }
    et_assert(length <= at->capacity && search->cross_used <= search->size.tokens);
    et_assert(target <= at->most && search->self_used <= search->size.positions);
    at->sentence = sentence;
    at->segment = segment;
    at->row = 0;
    at->rows = 1;
    at->parent[0] = 0;
    at->next[0] = search->options.start;
    et_assert(!search->options.forced || (sentence->forced && sentence->forced_length <= target));
    if (search->options.lexicon)
        make_list(search, at, sentence);
    if (search->options.beam.phrases)
        et_beam_begin_phrases(&at->beam, (int)target, sentence->phrases);
    else
        et_beam_begin(&at->beam, search->options.forced ? sentence->forced_length : (int)target);
    search->in_use++;
}

/* The source as model i reads it. */
static et_decoder_source source_of(const et_decoder_sentence *sentence, int i)
{
    if (i && sentence->other_count)
        return sentence->others[i - 1];
    return (et_decoder_source){ sentence->source, sentence->length, sentence->rows,
                                sentence->positions };
}

/* Takes free seats in order. */
void et_search_enter(et_search *search, et_decoder_sentence *const *sentences, int count)
{
    et_assert(count >= 1 && count <= search->size.seats - search->in_use);
    int entered = 0;
    for (int i = 0; i < search->count; i++)
        search->models[i].source_offsets[0] = 0;
    for (seat *at = search->seats; entered < count; at++) {
        if (at->sentence)
            continue;
        take_seat(search, at, sentences[entered], entered);
        for (int i = 0; i < search->count; i++) {
            const et_decoder_source source = source_of(sentences[entered], i);
            search_model_pack(&search->models[i], &source, entered);
        }
        entered++;
    }
    for (int i = 0; i < search->count; i++)
        search_model_encode(&search->models[i], count);
    /* segment marks new seats: it is -1 for seats whose keys and values are stored. */
    for (int p = 0; p < search->size.seats; p++) {
        seat *at = &search->seats[p];
        for (int i = 0; at->sentence && at->segment >= 0 && i < search->count; i++)
            search_model_keep(&search->models[i], at->segment, at->begin);
        at->segment = -1;
    }
}

/* ---- a step ---- */

/* The slot of a recurrence's state after position t of hypothesis i; -1: no state before the first
 * position. Two slots take turns, so that all rows can read their parents' states while they write
 * their own. */
static int32_t state_slot(const et_search *search, const seat *at, int64_t t, int i)
{
    const int64_t pair = (at - search->seats) * search->options.beam.size + i;
    return t < 0 ? -1 : (int32_t)(t % 2 * rows_of(search) + pair);
}

/* Makes a row of the step for hypothesis i of a seat: copies the parent's slots and adds a slot
 * for the new token. at->row is the row of the last step, whose slots are in other_slot.
 * cross_begin and cross_length give the source's keys; self_length counts the new token, whose key
 * is read too.
 */
static void fill_row(et_search *search, const seat *at, int i, int row)
{
    int64_t target = search->size.target, length = at->beam.length;
    int32_t *slots = search->slot + row * target;
    const int32_t *parents = search->other_slot + (at->row + at->parent[i]) * target;
    memcpy(slots, parents, length * sizeof *slots);
    slots[length] = (int32_t)((at->first + length) * search->options.beam.size + i);
    search->rows.ids[row] = at->next[i];
    search->rows.positions[row] = (int32_t)length;
    search->rows.self_length[row] = (int32_t)length + 1;
    search->rows.state_slots[2 * row] = state_slot(search, at, length - 1, at->parent[i]);
    search->rows.state_slots[2 * row + 1] = state_slot(search, at, length, i);
    for (int m = 0; m < search->count; m++) {
        search->models[m].cross_begin[row] = (int32_t)at->begin;
        search->models[m].cross_length[row] = (int32_t)source_of(at->sentence, m).length;
    }
}

/* The position of the token that follows hypothesis i. */
static et_sampling_position choice_of(const seat *at, int i)
{
    return (et_sampling_position){ at->sentence->number, at->beam.length, i };
}

/* Reads the logits of row i of a seat, of all models; of a shortlist's tokens they were computed
 * for all its rows. */
static bool read_row(et_search *search, const seat *at, int i, et_sampling_position which)
{
    const float *logits[ET_DECODER_MODELS_MAX];
    const int row = at->row + i;
    if (search->listed) {
        logits[0] = search->listed + i * at->word_count;
        return et_sampling_read(&search->choice, logits, which);
    }
    for (int m = 0; m < search->count; m++) {
        const float *all = et_plan_output(search->models[m].decode, 0).data;
        logits[m] = all + row * vocabulary_of(search);
    }
    return et_sampling_read(&search->choice, logits, which);
}

/* Proposes the likeliest tokens of the last row read, and the tokens that hypothesis i needs. */
static void propose(et_search *search, seat *at, int i)
{
    const int wide = 2 * search->options.beam.size;
    int32_t needed[ET_PHRASES_MAX];
    et_sampling_best(&search->choice, wide, search->best, search->best_token);
    for (int k = 0; k < wide; k++)
        et_beam_propose(&at->beam, i, search->best[k], search->best_token[k]);
    const int count = et_beam_needs(&at->beam, i, needed);
    for (int n = 0; n < count; n++) {
        int known = 0;
        while (known < wide && search->best_token[known] != needed[n])
            known++;
        if (known == wide)
            et_beam_propose(&at->beam, i, et_sampling_log_p(&search->choice, needed[n]), needed[n]);
    }
}

/* Beam search over logits. Each row gets the tokens that et_vocabulary_best would give, or with
 * phrases the tokens that these need. */
static void advance_rows(et_search *search, seat *at)
{
    const bool phrases = search->options.beam.phrases;
    const int wide = 2 * search->options.beam.size;
    for (int i = 0; i < at->rows; i++) {
        if (!read_row(search, at, i, choice_of(at, i))) {
            et_beam_abandon(&at->beam);
            return;
        }
        if (phrases)
            propose(search, at, i);
        else
            et_sampling_best(&search->choice, wide, search->best + i * wide,
                             search->best_token + i * wide);
    }
    if (phrases)
        et_beam_choose(&at->beam, at->parent, at->next);
    else
        et_beam_advance(&at->beam, search->best, search->best_token, at->parent, at->next);
}

/* Samples, or a target that is given. At the first step all samples begin from one row, which is
 * read once. */
static void extend(et_search *search, seat *at)
{
    float log_p[ET_BEAM_SIZE_MAX];
    int32_t token[ET_BEAM_SIZE_MAX];
    const bool first = at->beam.length == 0;
    const int count = first ? search->options.beam.size : at->rows;
    for (int i = 0; i < count; i++) {
        et_sampling_position here = choice_of(at, first ? i : at->beam.sample[i]);
        bool reads = !first || i == 0 || search->options.choice.noise > 0;
        if (reads && !read_row(search, at, first ? 0 : i, here)) {
            et_beam_abandon(&at->beam);
            return;
        }
        token[i] = search->options.forced ? at->sentence->forced[at->beam.length]
                                          : et_sampling_draw(&search->choice, here);
        log_p[i] = et_sampling_log_p(&search->choice, token[i]);
    }
    et_beam_extend(&at->beam, log_p, token, at->parent, at->next);
}

/* Beam search over the likeliest tokens of each row. If one logit is not finite, all log p of the
 * row are not finite. */
static void advance_likeliest(et_search *search, seat *at, const float *log_p, const int32_t *token)
{
    for (int i = 0; i < at->rows; i++)
        if (isnan(log_p[i * 2 * search->options.beam.size])) {
            et_beam_abandon(&at->beam);
            return;
        }
    et_beam_advance(&at->beam, log_p, token, at->parent, at->next);
}

/* Takes the next tokens of one seat from its rows of the outputs. */
static void advance_seat(et_search *search, seat *at)
{
    const et_plan *decode = search->models[0].decode;
    const bool alone = search->options.forced || search->options.choice.sampling;
    if (search->listed) {
        search_model_list(&search->models[0], at->row, at->rows, at->words, at->word_count,
                          search->listed);
        et_sampling_set_words(&search->choice, at->words, at->word_count);
    }
    if (!reads_logits(search)) {
        const ptrdiff_t from = (ptrdiff_t)at->row * 2 * search->options.beam.size;
        const float *log_p = et_plan_output(decode, 0).data;
        const int32_t *token = et_plan_output(decode, 1).data;
        advance_likeliest(search, at, log_p + from, token + from);
    } else if (alone) {
        extend(search, at);
    } else {
        advance_rows(search, at);
    }
    at->rows = at->beam.living;
}

/* Swaps, fills, runs, chooses. The tables are swapped first, so that other_slot has the last step's
 * slots. */
int et_search_step(et_search *search, int *over)
{
    et_assert(search->in_use > 0);
    int32_t *slot = search->slot;
    search->slot = search->other_slot;
    search->other_slot = slot;
    /* The rows of all used seats, one after another. A seat's row only changes when all its rows
     * are filled, because they find their parents by it. */
    int rows = 0;
    for (int p = 0; p < search->size.seats; p++) {
        seat *at = &search->seats[p];
        if (!at->sentence)
            continue;
        for (int i = 0; i < at->rows; i++)
            fill_row(search, at, i, rows + i);
        at->row = rows;
        rows += at->rows;
    }
    et_assert(rows <= rows_of(search));
    for (int i = 0; i < search->count; i++)
        search_model_step(&search->models[i], search->slot, rows);
    int count = 0;
    for (int p = 0; p < search->size.seats; p++) {
        seat *at = &search->seats[p];
        if (!at->sentence)
            continue;
        advance_seat(search, at);
        if (at->beam.over)
            over[count++] = p;
    }
    return count;
}

/* The seat keeps its part of the caches for the next sentence. */
et_decoder_sentence *et_search_leave(et_search *search, int p, const et_beam **beam)
{
    seat *at = &search->seats[p];
    et_assert(at->sentence && at->beam.over);
    et_decoder_sentence *sentence = at->sentence;
    *beam = &at->beam;
    at->sentence = NULL;
    search->in_use--;
    return sentence;
}

int et_search_drop_ended(et_search *search)
{
    int count = 0;
    for (int p = 0; p < search->size.seats; p++) {
        seat *at = &search->seats[p];
        if (!at->sentence || !et_search_is_ended(at->sentence))
            continue;
        at->sentence = NULL;
        search->in_use--;
        count++;
    }
    return count;
}
