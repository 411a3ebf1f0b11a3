#include "tasks/translation/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "exec/plan.h"

/* Rows in a tile of every product of decoding: fixed, so that a row's bits depend on nothing
 * but the row. */
#define ROW_TILE 32

/* What a group's sizes are rounded up to, so that few plans are made. */
#define LENGTH_STEP 32
#define BUDGET_STEP 128

/* Plans, caches and inputs for groups up to some size. */
typedef struct engine {
    int64_t longest; /* pieces of a target */
    int64_t budget;  /* source tokens of a group */
    et_graph *encode_graph, *decode_graph;
    et_plan *encode, *decode;
    void **self_cache; /* [layers] of [rows * longest, 2 width] act */
    /* inputs of the encoder */
    int32_t *source_ids, *source_positions, *source_offsets;
    /* inputs of a decoder step, [rows] and slot [rows, longest] */
    int32_t *ids, *positions, *self_length, *cross_begin, *cross_length;
    int32_t *slots; /* owns the next two, which take turns */
    int32_t *slot, *other_slot;
} engine;

struct et_decoder {
    et_params *params;
    et_device *device;
    et_transformer model;
    et_decoder_options options;
    engine engine;
    et_beam *beams; /* [sentences], of capacity engine.longest */
};

static int64_t round_up(int64_t size, int64_t step)
{
    return (size + step - 1) / step * step;
}

static int64_t rows_of(const et_decoder *decoder)
{
    return (int64_t)decoder->options.sentences * decoder->options.beam.size;
}

static void release_engine(et_decoder *decoder)
{
    engine *e = &decoder->engine;
    et_plan_free(e->encode);
    et_plan_free(e->decode);
    et_graph_free(e->encode_graph);
    et_graph_free(e->decode_graph);
    for (int i = 0; e->self_cache && i < decoder->model.decoder.num_layers; i++)
        et_free(e->self_cache[i]);
    for (int i = 0; decoder->beams && i < decoder->options.sentences; i++)
        et_beam_release(&decoder->beams[i]);
    et_free(e->self_cache);
    et_free(e->source_ids);
    et_free(e->ids);
    et_free(e->slots);
    *e = (engine){ 0 };
}

static int make_buffers(et_decoder *decoder, et_error *error)
{
    engine *e = &decoder->engine;
    int64_t rows = rows_of(decoder);
    int64_t segments = decoder->options.sentences;
    size_t source = (size_t)(2 * e->budget + segments + 1);
    size_t cache = (size_t)(rows * e->longest * 2 * decoder->model.width) *
                   et_dtype_size(decoder->options.act);
    e->source_ids = et_alloc(source, sizeof(int32_t));
    e->ids = et_alloc_zero((size_t)(5 * rows), sizeof(int32_t));
    e->slots = et_alloc_zero((size_t)(2 * rows * e->longest), sizeof(int32_t));
    e->self_cache = et_alloc_zero((size_t)decoder->model.decoder.num_layers, sizeof(void *));
    if (!e->source_ids || !e->ids || !e->slots || !e->self_cache)
        return et_alloc_failed(error, source * sizeof(int32_t), "decoding");
    e->source_positions = e->source_ids + e->budget;
    e->source_offsets = e->source_positions + e->budget;
    e->positions = e->ids + rows;
    e->self_length = e->positions + rows;
    e->cross_begin = e->self_length + rows;
    e->cross_length = e->cross_begin + rows;
    e->slot = e->slots;
    e->other_slot = e->slots + rows * e->longest;
    for (int i = 0; i < decoder->model.decoder.num_layers; i++) {
        e->self_cache[i] = et_alloc_aligned(cache, 64);
        if (!e->self_cache[i])
            return et_alloc_failed(error, cache, "the cache of decoding");
    }
    for (int i = 0; i < decoder->options.sentences; i++) {
        int status =
            et_beam_init(&decoder->beams[i], &decoder->options.beam, (int)e->longest, error);
        if (status)
            return status;
    }
    return ET_OK;
}

static int make_encoder(et_decoder *decoder, et_error *error)
{
    engine *e = &decoder->engine;
    et_node *outputs[256];
    int layers = decoder->model.decoder.num_layers;
    et_assert(layers <= 256);
    et_graph_options options = { .training = false, .act = decoder->options.act };
    int status = et_graph_new(&e->encode_graph, decoder->params, &options, error);
    if (status)
        return status;
    et_scope *root = et_graph_scope(e->encode_graph);
    et_node *encoded = et_transformer_encode(root, &decoder->model, e->budget,
                                             decoder->options.sentences, ROW_TILE);
    for (int i = 0; i < layers; i++)
        outputs[i] = et_transformer_cross_cache(root, &decoder->model, i, encoded, ROW_TILE);
    status =
        et_plan_new(&e->encode, e->encode_graph, decoder->device, outputs, layers, NULL, error);
    if (status)
        return status;
    et_plan_bind(e->encode, "source_ids", e->source_ids);
    et_plan_bind(e->encode, "source_positions", e->source_positions);
    et_plan_bind(e->encode, "source_offsets", e->source_offsets);
    return ET_OK;
}

static void bind_decoder(et_decoder *decoder)
{
    engine *e = &decoder->engine;
    et_plan_bind(e->decode, "ids", e->ids);
    et_plan_bind(e->decode, "positions", e->positions);
    et_plan_bind(e->decode, "self_length", e->self_length);
    et_plan_bind(e->decode, "cross_begin", e->cross_begin);
    et_plan_bind(e->decode, "cross_length", e->cross_length);
    for (int i = 0; i < decoder->model.decoder.num_layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "self_cache_%d", i);
        et_plan_bind(e->decode, name, e->self_cache[i]);
        snprintf(name, sizeof name, "cross_cache_%d", i);
        et_plan_bind(e->decode, name, et_plan_output(e->encode, i).data);
    }
}

static int make_decoder(et_decoder *decoder, et_error *error)
{
    engine *e = &decoder->engine;
    et_graph_options options = { .training = false, .act = decoder->options.act };
    et_transformer_step step = { .rows = rows_of(decoder),
                                 .longest = e->longest,
                                 .slots = rows_of(decoder) * e->longest,
                                 .source_rows = e->budget,
                                 .row_tile = ROW_TILE,
                                 .best = 2 * decoder->options.beam.size };
    int status = et_graph_new(&e->decode_graph, decoder->params, &options, error);
    if (status)
        return status;
    et_node *best[2];
    best[0] =
        et_transformer_decode(et_graph_scope(e->decode_graph), &decoder->model, &step, &best[1]);
    status = et_plan_new(&e->decode, e->decode_graph, decoder->device, best, 2, NULL, error);
    if (!status)
        bind_decoder(decoder);
    return status;
}

/* Makes the engine large enough. */
static int reserve(et_decoder *decoder, int64_t longest, int64_t budget, et_error *error)
{
    engine *e = &decoder->engine;
    if (longest <= e->longest && budget <= e->budget)
        return ET_OK;
    longest = round_up(longest > e->longest ? longest : e->longest, LENGTH_STEP);
    budget = round_up(budget > e->budget ? budget : e->budget, BUDGET_STEP);
    release_engine(decoder);
    e->longest = longest;
    e->budget = budget;
    int64_t positions = longest > budget ? longest : budget;
    decoder->model.max_positions = round_up(positions, LENGTH_STEP);
    int status = make_buffers(decoder, error);
    if (!status)
        status = make_encoder(decoder, error);
    if (!status)
        status = make_decoder(decoder, error);
    return status;
}

int et_decoder_new(et_decoder **out, et_params *params, et_device *device,
                   const et_transformer *model, const et_decoder_options *options, et_error *error)
{
    et_decoder *decoder = et_alloc_zero(1, sizeof *decoder);
    *out = decoder;
    if (!decoder)
        return et_alloc_failed(error, sizeof *decoder, "a decoder");
    decoder->params = params;
    decoder->device = device;
    decoder->model = *model;
    decoder->options = *options;
    decoder->beams = et_alloc_zero((size_t)options->sentences, sizeof *decoder->beams);
    if (!decoder->beams) {
        et_decoder_free(decoder);
        *out = NULL;
        return et_alloc_failed(error, sizeof *decoder->beams, "a decoder");
    }
    return ET_OK;
}

void et_decoder_free(et_decoder *decoder)
{
    if (!decoder)
        return;
    release_engine(decoder);
    et_free(decoder->beams);
    et_free(decoder);
}

/* ---- one group -------------------------------------------------------------------------- */

static int64_t longest_target(const et_decoder *decoder, const et_decoder_sentence *sentence)
{
    int64_t most = decoder->options.max_length;
    return most ? most : sentence->length + decoder->options.extra_length;
}

/* Packs the sources; what the group leaves of the budget stays empty. */
static void fill_sources(et_decoder *decoder, et_decoder_sentence *const *group, int count)
{
    engine *e = &decoder->engine;
    int32_t at = 0;
    for (int s = 0; s < decoder->options.sentences; s++) {
        e->source_offsets[s] = at;
        for (int64_t i = 0; s < count && i < group[s]->length; i++, at++) {
            e->source_ids[at] = group[s]->source[i];
            e->source_positions[at] = (int32_t)i;
        }
    }
    e->source_offsets[decoder->options.sentences] = at;
    for (int64_t i = at; i < e->budget; i++) {
        e->source_ids[i] = -1;
        e->source_positions[i] = 0;
    }
}

static void begin_group(et_decoder *decoder, et_decoder_sentence *const *group, int count)
{
    engine *e = &decoder->engine;
    int beam = decoder->options.beam.size;
    fill_sources(decoder, group, count);
    et_plan_run(e->encode, (et_random){ 0 });
    for (int64_t row = 0; row < rows_of(decoder); row++) {
        int s = (int)(row / beam);
        e->ids[row] = s < count ? decoder->options.start : -1;
        e->positions[row] = 0;
        e->cross_begin[row] = s < count ? e->source_offsets[s] : 0;
        e->cross_length[row] = s < count ? (int32_t)group[s]->length : 0;
        e->self_length[row] = s < count;
        e->slot[row * e->longest] = (int32_t)row;
    }
    for (int s = 0; s < count; s++)
        et_beam_begin(&decoder->beams[s], (int)longest_target(decoder, group[s]));
}

/* A sentence that is over costs nothing but its rows of the products. */
static void rest(et_decoder *decoder, int s)
{
    engine *e = &decoder->engine;
    int beam = decoder->options.beam.size;
    for (int row = s * beam; row < (s + 1) * beam; row++) {
        e->ids[row] = -1;
        e->self_length[row] = 0;
        e->cross_length[row] = 0;
    }
}

/* Each row takes over its parent's slots and gets a new one for the piece to come. */
static void follow(et_decoder *decoder, int s, const int *parent, const int32_t *next, int length)
{
    engine *e = &decoder->engine;
    int beam = decoder->options.beam.size;
    for (int i = 0; i < beam; i++) {
        int64_t row = (int64_t)s * beam + i, from = (int64_t)s * beam + parent[i];
        int32_t *slots = e->other_slot + row * e->longest;
        memcpy(slots, e->slot + from * e->longest, (size_t)length * sizeof *slots);
        if (length < e->longest)
            slots[length] = (int32_t)(length * rows_of(decoder) + row);
        e->ids[row] = next[i];
        e->positions[row] = length;
        e->self_length[row] = length + 1;
    }
}

/* One decoder step for all sentences; how many go on. */
static int advance_group(et_decoder *decoder, int count, int length)
{
    engine *e = &decoder->engine;
    int beam = decoder->options.beam.size, wide = 2 * beam, alive = 0;
    et_plan_bind(e->decode, "slot", e->slot);
    et_plan_run(e->decode, (et_random){ 0 });
    const float *log_p = et_plan_output(e->decode, 0).data;
    const int32_t *piece = et_plan_output(e->decode, 1).data;
    for (int s = 0; s < count; s++) {
        int parent[ET_BEAM_SIZE_MAX];
        int32_t next[ET_BEAM_SIZE_MAX];
        if (decoder->beams[s].over)
            continue;
        size_t first = (size_t)s * (size_t)beam * (size_t)wide;
        et_beam_advance(&decoder->beams[s], log_p + first, piece + first, parent, next);
        if (decoder->beams[s].over) {
            rest(decoder, s);
        } else {
            follow(decoder, s, parent, next, length + 1);
            alive++;
        }
    }
    int32_t *slot = e->slot;
    e->slot = e->other_slot;
    e->other_slot = slot;
    return alive;
}

static int take_results(et_decoder *decoder, et_decoder_sentence *const *group, int count,
                        et_arena *arena, et_error *error)
{
    for (int s = 0; s < count; s++) {
        int pieces;
        const int32_t *ids = et_beam_result(&decoder->beams[s], &pieces, &group[s]->score);
        int32_t *copy = et_arena_array(arena, (size_t)pieces, sizeof *copy);
        if (!copy)
            return et_alloc_failed(error, (size_t)pieces * sizeof *copy, "a translation");
        memcpy(copy, ids, (size_t)pieces * sizeof *copy);
        group[s]->result = copy;
        group[s]->count = pieces;
    }
    return ET_OK;
}

static int run_group(et_decoder *decoder, et_decoder_sentence *const *group, int count,
                     et_arena *arena, et_error *error)
{
    int64_t longest = 0, budget = 0;
    for (int s = 0; s < count; s++) {
        int64_t target = longest_target(decoder, group[s]);
        longest = target > longest ? target : longest;
        budget += group[s]->length;
    }
    int status = reserve(decoder, longest, budget, error);
    if (status)
        return status;
    begin_group(decoder, group, count);
    for (int length = 0; advance_group(decoder, count, length) > 0; length++)
        ;
    return take_results(decoder, group, count, arena, error);
}

/* Longest first: the first group needs the largest engine. Ties keep the callers' order. */
static int longer_first(const void *left, const void *right)
{
    const et_decoder_sentence *a = *(et_decoder_sentence *const *)left;
    const et_decoder_sentence *b = *(et_decoder_sentence *const *)right;
    if (a->length != b->length)
        return a->length < b->length ? 1 : -1;
    return a < b ? -1 : a > b;
}

int et_decoder_run(et_decoder *decoder, et_decoder_sentence *sentences, int64_t count,
                   et_arena *arena, et_decoder_progress_fn *progress, void *payload,
                   et_error *error)
{
    et_decoder_sentence **order = et_alloc((size_t)count, sizeof *order);
    if (!order)
        return et_alloc_failed(error, (size_t)count * sizeof *order, "decoding");
    for (int64_t i = 0; i < count; i++)
        order[i] = &sentences[i];
    qsort(order, (size_t)count, sizeof *order, longer_first);
    int status = ET_OK;
    for (int64_t at = 0; at < count && !status; at += decoder->options.sentences) {
        int64_t left = count - at;
        int take = left < decoder->options.sentences ? (int)left : decoder->options.sentences;
        status = run_group(decoder, order + at, take, arena, error);
        if (!status && progress && progress(payload, at + take))
            status = et_fail(error, ET_EINTERRUPTED, "interrupted after %lld of %lld sentences",
                             (long long)(at + take), (long long)count);
    }
    et_free(order);
    return status;
}
