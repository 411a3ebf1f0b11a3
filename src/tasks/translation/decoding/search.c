/* One thread's part of decoding, with two plans. `encode` runs the encoder on the entering sources,
 * packed one after another, and computes the keys and values that every decoder layer reads from
 * them; they are copied to the caches. `decode` runs one position of the decoder for all
 * hypotheses, reads both caches and adds to that of the targets.
 *
 * Caches. A place owns a run of rows of the cross caches, one for each source token, and a run of
 * positions of the self caches, with a slot for each hypothesis:
 *
 *     slot of position t, hypothesis i = (first + t) * beam size + i
 *
 * A slot is written once per sentence. A hypothesis finds its past through its row of the slot
 * table, [rows, target]: the slots of its parent, then its own newest. So reordering a beam copies
 * 4 bytes for each position, while keys and values have 2 width elements in each layer.
 *
 *     beam size 2, first 0; at t = 2 hypothesis 0 follows from 1, and 1 from 0:
 *     t = 0: [0]      t = 1: [0 2] [0 3]      t = 2: [0 3 4] [0 2 5]
 *
 * Invariants:
 *
 *   1. The rows of a step belong to places in use and are contiguous; no other rows are computed.
 *   2. A row's place in the batch does not change its bits: products go row by row, or by tiles
 *      of a fixed number of rows.
 *   3. Steps allocate no memory: caches, tables and beams have the sizes of et_search_size. */
#include "tasks/translation/decoding/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/exec/plan.h"
#include "engine/nn/pair_names.h"
#include "engine/nn/transformer.h"

/* Rows of a tile, for products in bfloat16 (oneDNN), whose rows must have the same bits at any
 * position. The last tile of a product costs as much as a full one, so a small tile suits few rows.
 * Float32 and int8 products go row by row and do not need it. */
#define ROW_TILE 32

/* Of the decoder; the outputs of the encoding plan are listed on the stack. */
#define LAYERS_MAX 256

/* The place of a sentence in decoding. Its hypotheses are rows row .. row + rows of the last step;
 * parent (among them) and next define the rows of the next step. row is the first hypothesis; rows
 * is 1 at the first step and the beam's size from then on. segment is the sentence's number among
 * those that enter together. */
typedef struct seat {
    et_decoder_sentence *sentence; /* NULL: free */
    et_beam beam;
    int64_t begin, capacity; /* its rows of the cross caches; 0: none yet */
    int64_t first, most;     /* its positions of the self caches, a slot for each hypothesis */
    int segment;             /* of the encoder's batch while it enters; -1: inside */
    int row, rows;
    int parent[ET_BEAM_SIZE_MAX];
    int32_t next[ET_BEAM_SIZE_MAX];
} seat;

/* Owns plans, graphs, caches, tables and places. source_ids owns the encoder's inputs, ids the
 * decoder's: each is one block that the other members point into. source_ids and source_positions
 * are [tokens], source_offsets [places + 1]. */
struct et_search {
    et_decoder_options options;
    et_transformer model;
    et_search_size size;
    et_graph *encode_graph, *decode_graph;
    et_plan *encode, *decode;
    void **self_cache;  /* [layers] of [positions, beam][2 width] act */
    void **cross_cache; /* [layers] of [tokens][2 width] act */
    /* inputs of the encoder */
    int32_t *source_ids, *source_positions, *source_offsets;
    /* inputs of a decoder step, [rows] and slot [rows, target] */
    int32_t *ids, *positions, *self_length, *cross_begin, *cross_length;
    int32_t *slots; /* owns the next two, which take turns */
    int32_t *slot, *other_slot;
    seat *seats;
    /* Where logits are read: what reads them, and the best of a place's rows, [size, 2 size]. */
    et_choice choice;
    float *best;
    int32_t *best_token;
    int in_use;
    int64_t cross_used, self_used; /* by all places together */
};

/* The most rows of a step: all places in use with full beams. */
static int64_t rows_of(const et_search *search)
{
    return (int64_t)search->size.seats * search->options.beam.size;
}

/* Of a self cache. One for each position of each place and each hypothesis. */
static int64_t slots_of(const et_search *search)
{
    return search->size.positions * search->options.beam.size;
}

/* ---- making ---- */

/* Frees plans before the graphs that they use. Also frees a search that was only made in part:
 * missing members are NULL. */
void et_search_free(et_search *search)
{
    if (!search)
        return;
    et_plan_free(search->encode);
    et_plan_free(search->decode);
    et_graph_free(search->encode_graph);
    et_graph_free(search->decode_graph);
    for (int i = 0; i < search->model.decoder.num_layers; i++) {
        if (search->self_cache)
            et_free_array(search->self_cache[i]);
        if (search->cross_cache)
            et_free_array(search->cross_cache[i]);
    }
    for (int i = 0; search->seats && i < search->size.seats; i++)
        et_beam_release(&search->seats[i].beam);
    et_choice_release(&search->choice);
    et_free(search->best);
    et_free(search->best_token);
    et_free(search->seats);
    et_free(search->self_cache);
    et_free(search->cross_cache);
    et_free(search->source_ids);
    et_free(search->ids);
    et_free(search->slots);
    et_free(search);
}

/* New caches need no clearing: lengths ensure that no slot is read before it is written. A row is
 * keys, then values, 2 width elements. Total bytes: layers * 2 width * element * (positions * beam
 * size + tokens). Example: 6 layers of width 512 in float32 have 24 KiB for each source token, and
 * with a beam of 4 96 KiB for each position. */
static int make_caches(et_search *search, et_error *error)
{
    size_t layers = (size_t)search->model.decoder.num_layers;
    size_t row = (size_t)(2 * search->model.width) * et_dtype_size(search->options.act);
    size_t self = (size_t)slots_of(search) * row;
    size_t cross = (size_t)search->size.tokens * row;
    search->self_cache = et_alloc_zero(layers, sizeof(void *));
    search->cross_cache = et_alloc_zero(layers, sizeof(void *));
    bool ok = search->self_cache && search->cross_cache;
    for (size_t i = 0; i < layers && ok; i++) {
        search->self_cache[i] = et_alloc_array(self);
        search->cross_cache[i] = et_alloc_array(cross);
        ok = search->self_cache[i] && search->cross_cache[i];
    }
    return ok ? ET_OK : et_alloc_failed(error, layers * (self + cross), "the caches of decoding");
}

/* There are two slot tables, because a row is filled from its parent's row, which another row might
 * have overwritten in a single table. Each beam can hold the longest target, whichever sentence
 * takes the place. */
static int make_inputs(et_search *search, et_error *error)
{
    const et_search_size *size = &search->size;
    size_t rows = (size_t)rows_of(search), tokens = (size_t)size->tokens;
    size_t source = 2 * tokens + (size_t)size->seats + 1;
    search->source_ids = et_alloc(source, sizeof(int32_t));
    search->ids = et_alloc_zero(5 * rows, sizeof(int32_t));
    search->slots = et_alloc_zero(2 * rows * (size_t)size->target, sizeof(int32_t));
    search->seats = et_alloc_zero((size_t)size->seats, sizeof *search->seats);
    if (!search->source_ids || !search->ids || !search->slots || !search->seats)
        return et_alloc_failed(error, source * sizeof(int32_t), "decoding");
    search->source_positions = search->source_ids + tokens;
    search->source_offsets = search->source_positions + tokens;
    search->positions = search->ids + rows;
    search->self_length = search->positions + rows;
    search->cross_begin = search->self_length + rows;
    search->cross_length = search->cross_begin + rows;
    search->slot = search->slots;
    search->other_slot = search->slots + rows * (size_t)size->target;
    int status = ET_OK;
    for (int i = 0; i < size->seats && !status; i++)
        status =
            et_beam_init(&search->seats[i].beam, &search->options.beam, (int)size->target, error);
    return status;
}

/* Output i is the source input of decoder layer i, [tokens, 2 width]. Inputs are bound once: their
 * addresses stay, only their contents change. Segments are sentences; at most `places` of them
 * enter together, because no more have room. */
static int make_encoder(et_search *search, et_params *params, et_device *device,
                        const et_plan_options *plan, et_error *error)
{
    et_node *outputs[LAYERS_MAX];
    int layers = search->model.decoder.num_layers;
    et_assert(layers <= LAYERS_MAX);
    et_graph_options options = { .training = false, .act = search->options.act };
    int status = et_graph_new(&search->encode_graph, params, &options, error);
    if (status)
        return status;
    et_scope *root = et_graph_scope(search->encode_graph);
    et_node *encoded = et_transformer_encode(root, &search->model, search->size.tokens,
                                             search->size.seats, ROW_TILE);
    for (int i = 0; i < layers; i++)
        outputs[i] = et_transformer_cross_cache(root, &search->model, i, encoded, ROW_TILE);
    status =
        et_plan_new(&search->encode, search->encode_graph, device, outputs, layers, plan, error);
    if (status)
        return status;
    et_plan_bind(search->encode, ET_PAIR_NAME_SOURCE_IDS, search->source_ids);
    et_plan_bind(search->encode, ET_PAIR_NAME_SOURCE_POSITIONS, search->source_positions);
    et_plan_bind(search->encode, ET_PAIR_NAME_SOURCE_OFFSETS, search->source_offsets);
    return ET_OK;
}

/* All but the slot table, which is bound at every step because two take turns. */
static void bind_decoder(et_search *search)
{
    et_plan *plan = search->decode;
    et_plan_bind(plan, ET_DECODE_IDS, search->ids);
    et_plan_bind(plan, ET_DECODE_POSITIONS, search->positions);
    et_plan_bind(plan, ET_DECODE_SELF_LENGTH, search->self_length);
    et_plan_bind(plan, ET_DECODE_CROSS_BEGIN, search->cross_begin);
    et_plan_bind(plan, ET_DECODE_CROSS_LENGTH, search->cross_length);
    for (int i = 0; i < search->model.decoder.num_layers; i++) {
        char name[48];
        snprintf(name, sizeof name, ET_DECODE_SELF_CACHE "%d", i);
        et_plan_bind(plan, name, search->self_cache[i]);
        snprintf(name, sizeof name, ET_DECODE_CROSS_CACHE "%d", i);
        et_plan_bind(plan, name, search->cross_cache[i]);
    }
}

/* Whether a step gives all logits, not only the likeliest tokens. */
static bool reads_logits(const et_search *search)
{
    return search->options.forced || search->model.output_bias ||
           et_choice_reads_logits(&search->options.choice);
}

static int make_choice(et_search *search, et_error *error)
{
    size_t size = (size_t)search->options.beam.size, count = 2 * size * size;
    search->best = et_alloc(count, sizeof *search->best);
    search->best_token = et_alloc(count, sizeof *search->best_token);
    if (!search->best || !search->best_token)
        return et_alloc_failed(error, count * sizeof *search->best, "decoding");
    return et_choice_init(&search->choice, &search->options.choice, search->model.target.count,
                          error);
}

/* Outputs: log p and numbers of the best 2 size tokens of each row, best first, as et_beam_advance
 * reads them; or only the logits. */
static int make_decoder(et_search *search, et_params *params, et_device *device,
                        const et_plan_options *plan, et_error *error)
{
    et_graph_options options = { .training = false, .act = search->options.act };
    et_transformer_step step = { .rows = rows_of(search),
                                 .longest = search->size.target,
                                 .slots = slots_of(search),
                                 .source_rows = search->size.tokens,
                                 .row_tile = ROW_TILE,
                                 .best = 2 * search->options.beam.size };
    int status = et_graph_new(&search->decode_graph, params, &options, error);
    if (status)
        return status;
    if (reads_logits(search))
        step.best = 0;
    et_node *best[2];
    best[0] = et_transformer_decode(et_graph_scope(search->decode_graph), &search->model, &step,
                                    &best[1]);
    status = et_plan_new(&search->decode, search->decode_graph, device, best, step.best ? 2 : 1,
                         plan, error);
    if (!status)
        bind_decoder(search);
    if (!status && !step.best)
        status = make_choice(search, error);
    return status;
}

/* Weights are kept packed, as a plan's options begin with: steps are many and weights do not
 * change between them. */
static int make(et_search *search, et_params *params, et_device *device, const et_search *packed_by,
                et_error *error)
{
    et_plan_options encode = ET_PLAN_OPTIONS_INIT, decode = ET_PLAN_OPTIONS_INIT;
    encode.name = "encode";
    decode.name = ET_DECODER_STEP_SPAN;
    encode.int8 = decode.int8 = search->options.int8;
    encode.packed_by = packed_by ? packed_by->encode : NULL;
    decode.packed_by = packed_by ? packed_by->decode : NULL;
    int status = make_caches(search, error);
    if (!status)
        status = make_inputs(search, error);
    if (!status)
        status = make_encoder(search, params, device, &encode, error);
    if (!status)
        status = make_decoder(search, params, device, &decode, error);
    return status;
}

/* The sinusoids cover the longest source or target. */
int et_search_new(et_search **out, et_params *params, et_device *device,
                  const et_transformer *model, const et_decoder_options *options,
                  const et_search_size *size, const et_search *packed_by, et_error *error)
{
    et_assert(size->seats >= 1 && size->source >= 1 && size->target >= 1);
    et_assert(size->tokens >= size->source && size->positions >= size->target);
    et_search *search = et_alloc_zero(1, sizeof *search);
    *out = NULL;
    if (!search)
        return et_alloc_failed(error, sizeof *search, "decoding");
    search->options = *options;
    search->model = *model;
    search->size = *size;
    search->model.max_positions = size->target > size->source ? size->target : size->source;
    int status = make(search, params, device, packed_by, error);
    if (status)
        et_search_free(search);
    else
        *out = search;
    return status;
}

/* If the search reads another search's packed weights, this only updates the parameters' addresses.
 */
void et_search_refresh(et_search *search)
{
    et_plan_refresh(search->encode);
    et_plan_refresh(search->decode);
}

/* ---- sentences ---- */

/* With capacity 0 each place takes a new part of the caches for its next sentence. */
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
    return search->size.seats;
}

/* EOS counted; longer sources never have shorter targets, which the order of entering relies on. */
int64_t et_search_target(const et_decoder_options *options, const et_decoder_sentence *sentence)
{
    return options->max_length ? options->max_length : sentence->length + options->extra_length;
}

/* A place's part of the caches has the size that its first sentence needs, its longest one. Later
 * sentences of the place are not longer, so they fit. The first step has one row, the start symbol,
 * without a parent: its length is 0, so nothing is copied. */
static void take_seat(et_search *search, seat *at, et_decoder_sentence *sentence, int segment)
{
    int64_t target = et_search_target(&search->options, sentence);
    if (!at->capacity) {
        at->begin = search->cross_used;
        at->capacity = sentence->length;
        at->first = search->self_used;
        at->most = target;
        search->cross_used += at->capacity;
        search->self_used += at->most;
    }
    et_assert(sentence->length <= at->capacity && search->cross_used <= search->size.tokens);
    et_assert(target <= at->most && search->self_used <= search->size.positions);
    at->sentence = sentence;
    at->segment = segment;
    at->row = 0;
    at->rows = 1;
    at->parent[0] = 0;
    at->next[0] = search->options.start;
    et_assert(!search->options.forced || (sentence->forced && sentence->forced_length <= target));
    et_beam_begin(&at->beam, search->options.forced ? sentence->forced_length : (int)target);
    search->in_use++;
}

/* Packs a source after the others, as segment number `segment`; the segments after it are empty.
 * Offsets are complete after every source; the encoder's attention skips empty segments. */
static void pack_source(et_search *search, const et_decoder_sentence *sentence, int segment)
{
    int32_t at = search->source_offsets[segment];
    for (int64_t i = 0; i < sentence->length; i++, at++) {
        search->source_ids[at] = sentence->source[i];
        search->source_positions[at] = (int32_t)i;
    }
    for (int s = segment + 1; s <= search->size.seats; s++)
        search->source_offsets[s] = at;
}

/* Copies keys and values of a source from the encoder's output to its place. Outputs of the
 * encoding plan are valid only until its next run. Rows of a source are adjacent in both, so a
 * layer is one copy. */
static void keep_encoded(et_search *search, const seat *at)
{
    size_t row = (size_t)(2 * search->model.width) * et_dtype_size(search->options.act);
    size_t from = (size_t)search->source_offsets[at->segment];
    for (int i = 0; i < search->model.decoder.num_layers; i++) {
        const char *encoded = et_plan_output(search->encode, i).data;
        memcpy((char *)search->cross_cache[i] + (size_t)at->begin * row, encoded + from * row,
               (size_t)at->sentence->length * row);
    }
}

/* Takes free places in order. The plan is for `tokens` rows and runs over the present rows. Random
 * numbers are not used, because nothing is trained. segment marks new places: it is -1 for places
 * whose keys and values are stored. */
void et_search_enter(et_search *search, et_decoder_sentence *const *sentences, int count)
{
    et_assert(count >= 1 && count <= search->size.seats - search->in_use);
    int entered = 0;
    search->source_offsets[0] = 0;
    for (seat *at = search->seats; entered < count; at++) {
        if (at->sentence)
            continue;
        take_seat(search, at, sentences[entered], entered);
        pack_source(search, sentences[entered], entered);
        entered++;
    }
    et_plan_set_rows(search->encode, search->size.tokens, search->source_offsets[count]);
    et_plan_run(search->encode, (et_random){ 0 });
    for (int i = 0; i < search->size.seats; i++) {
        seat *at = &search->seats[i];
        if (at->sentence && at->segment >= 0)
            keep_encoded(search, at);
        at->segment = -1;
    }
}

/* ---- a step ---- */

/* Makes hypothesis i of a place a row of the step: it copies its parent's slots and gets a slot for
 * its new token. at->row is the row of the last step, whose slots are in other_slot. cross_begin
 * and cross_length give the source's keys; self_length counts the new token, whose key is read too.
 */
static void fill_row(et_search *search, const seat *at, int i, int row)
{
    int64_t target = search->size.target, length = at->beam.length;
    int32_t *slots = search->slot + row * target;
    const int32_t *parents = search->other_slot + (at->row + at->parent[i]) * target;
    memcpy(slots, parents, (size_t)length * sizeof *slots);
    slots[length] = (int32_t)((at->first + length) * search->options.beam.size + i);
    search->ids[row] = at->next[i];
    search->positions[row] = (int32_t)length;
    search->self_length[row] = (int32_t)length + 1;
    search->cross_begin[row] = (int32_t)at->begin;
    search->cross_length[row] = (int32_t)at->sentence->length;
}

/* Fills the rows of all used places, one after another; returns their number. A place's row only
 * changes when all its rows are filled, because they find their parents by it. */
static int fill_rows(et_search *search)
{
    int row = 0;
    for (int p = 0; p < search->size.seats; p++) {
        seat *at = &search->seats[p];
        if (!at->sentence)
            continue;
        for (int i = 0; i < at->rows; i++)
            fill_row(search, at, i, row + i);
        at->row = row;
        row += at->rows;
    }
    return row;
}

/* The position of the token that follows hypothesis i. */
static et_choice_position choice_of(const seat *at, int i)
{
    return (et_choice_position){ at->sentence->number, at->beam.length, i };
}

/* Beam search over logits: of each row what et_vocabulary_best would give. */
static void advance_beam(et_search *search, seat *at, const float *logits)
{
    const int wide = 2 * search->options.beam.size;
    for (int i = 0; i < at->rows; i++) {
        if (!et_choice_read(&search->choice, logits + i * search->model.target.count,
                            choice_of(at, i))) {
            et_beam_abandon(&at->beam);
            return;
        }
        et_choice_best(&search->choice, wide, search->best + i * wide,
                       search->best_token + i * wide);
    }
    et_beam_advance(&at->beam, search->best, search->best_token, at->parent, at->next);
}

/* Samples, or a target that is given. At the first step all samples begin from one row, which is
 * read once. */
static void extend(et_search *search, seat *at, const float *logits)
{
    float log_p[ET_BEAM_SIZE_MAX];
    int32_t token[ET_BEAM_SIZE_MAX];
    const bool first = at->beam.length == 0;
    const int count = first ? search->options.beam.size : at->rows;
    for (int i = 0; i < count; i++) {
        et_choice_position here = choice_of(at, first ? i : at->beam.sample[i]);
        bool reads = !first || i == 0 || search->options.choice.noise > 0;
        const float *row = logits + (first ? 0 : i * search->model.target.count);
        if (reads && !et_choice_read(&search->choice, row, here)) {
            et_beam_abandon(&at->beam);
            return;
        }
        token[i] = search->options.forced ? at->sentence->forced[at->beam.length]
                                          : et_choice_draw(&search->choice, here);
        log_p[i] = search->choice.log_p[token[i]];
    }
    et_beam_extend(&at->beam, log_p, token, at->parent, at->next);
}

/* Beam search over the likeliest tokens of each row. One logit that is not finite makes all log p
 * of its row so. */
static void advance_likeliest(et_search *search, seat *at, const float *log_p, const int32_t *token)
{
    for (int i = 0; i < at->rows; i++)
        if (isnan(log_p[i * 2 * search->options.beam.size])) {
            et_beam_abandon(&at->beam);
            return;
        }
    et_beam_advance(&at->beam, log_p, token, at->parent, at->next);
}

/* One place takes its next tokens from its rows of the outputs. */
static void advance_seat(et_search *search, seat *at)
{
    const float *output = et_plan_output(search->decode, 0).data;
    const bool alone = search->options.forced || search->options.choice.sampling;
    if (!reads_logits(search)) {
        const ptrdiff_t from = (ptrdiff_t)at->row * 2 * search->options.beam.size;
        const int32_t *token = et_plan_output(search->decode, 1).data;
        advance_likeliest(search, at, output + from, token + from);
    } else if (alone) {
        extend(search, at, output + at->row * search->model.target.count);
    } else {
        advance_beam(search, at, output + at->row * search->model.target.count);
    }
    at->rows = at->beam.living;
}

/* How many places are over when all have taken theirs. Places read their rows of the outputs in
 * the order in which fill_rows laid them. */
static int advance(et_search *search, int *over)
{
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

/* Swaps, fills, runs, chooses. The tables are swapped first, so that other_slot has the last step's
 * slots. */
int et_search_step(et_search *search, int *over)
{
    et_assert(search->in_use > 0);
    int32_t *slot = search->slot;
    search->slot = search->other_slot;
    search->other_slot = slot;
    int rows = fill_rows(search);
    et_assert(rows <= rows_of(search));
    et_plan_bind(search->decode, ET_DECODE_SLOT, search->slot);
    et_plan_set_rows(search->decode, rows_of(search), rows);
    et_plan_run(search->decode, (et_random){ 0 });
    return advance(search, over);
}

/* The place keeps its part of the caches for the next sentence. */
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
