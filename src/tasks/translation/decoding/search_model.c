/* The plans and caches of one model. Weights are kept packed, as a plan's options begin with: steps
 * are many and weights do not change between them. */
#include "tasks/translation/decoding/search_model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/kernel/kernels.h"
#include "engine/nn/pair_names.h"

/* Rows of a tile, for products in bfloat16 (oneDNN), whose rows must have the same bits at any
 * position. The last tile of a product costs as much as a full one, so a small tile suits few rows.
 * Float32 and int8 products go row by row and do not need it. */
#define ROW_TILE 32

/* Of the decoder; the outputs of the encoding plan are listed on the stack. */
#define LAYERS_MAX 256

/* Of a self cache. One for each position of each place and each hypothesis; of a state two for each
 * hypothesis, which take turns. */
static int64_t slots_of(const et_search_model *model)
{
    if (model->transformer.decoder.ssru)
        return 2 * model->rows;
    return model->rows / model->size.seats * model->size.positions;
}

/* Plans are freed before the graphs that they use. */
void et_search_model_release(et_search_model *model)
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
    const size_t state = (size_t)model->transformer.width * sizeof(float);
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
    return ok ? ET_OK : et_alloc_failed(error, layers * (self + cross), "the caches of decoding");
}

static int make_inputs(et_search_model *model, et_error *error)
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
        return et_alloc_failed(error, source * sizeof(int32_t) + rows_bytes, "decoding");
    model->source_positions = model->source_ids + tokens;
    model->source_offsets = model->source_positions + tokens;
    model->cross_length = model->cross_begin + rows;
    return ET_OK;
}

/* Output i is the source input of decoder layer i, [tokens, 2 width]. Inputs are bound once: their
 * addresses stay, only their contents change. Segments are sentences; at most `places` of them
 * enter together, because no more have room. */
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

/* All but the slot table, which is bound at every step because two take turns. A plan has only some
 * of these inputs: those of attention or those of a recurrence. */
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

/* The sinusoids cover the longest source or target. */
int et_search_model_init(et_search_model *model, const et_decoder_model *of, et_device *device,
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
    if (!status)
        status = make_inputs(model, error);
    if (!status)
        status = make_encoder(model, of->params, device, &encode, error);
    if (!status)
        status = make_decoder(model, of->params, device, best, &decode, error);
    if (!status)
        bind_decoder(model, rows);
    if (!status && best < 0) {
        /* A step that gives rows does not read them, but the store has them. */
        char name[128];
        snprintf(name, sizeof name, "%s/table", model->transformer.output.scope);
        model->table = et_params_find(model->params, name);
        snprintf(name, sizeof name, "%s/bias", model->transformer.output.scope);
        model->bias = model->transformer.output_bias ? et_params_find(model->params, name) : -1;
        et_assert(model->table >= 0);
    }
    return status;
}

/* If the model reads another search's packed weights, this only updates the parameters' addresses.
 */
void et_search_model_refresh(et_search_model *model)
{
    et_plan_refresh(model->encode);
    et_plan_refresh(model->decode);
}

void et_search_model_begin(et_search_model *model)
{
    model->source_offsets[0] = 0;
}

/* The segments after it are empty: offsets are complete after every source, and the encoder's
 * attention skips empty segments. */
void et_search_model_pack(et_search_model *model, const et_decoder_source *source, int segment)
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

/* The plan is for `tokens` rows and runs over the present rows. Random numbers are not used,
 * because nothing is trained. */
void et_search_model_encode(et_search_model *model, int count)
{
    et_assert(count > 0);
    et_plan_set_rows(model->encode, model->size.tokens, model->source_offsets[count]);
    et_plan_run(model->encode, (et_random){ 0 });
}

/* Outputs of the encoding plan are valid only until its next run. Rows of a source are adjacent in
 * both, so a layer is one copy. */
void et_search_model_keep(et_search_model *model, int segment, int64_t begin)
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

void et_search_model_step(et_search_model *model, int32_t *slot, int64_t rows)
{
    et_assert(slot && rows > 0);
    et_plan_bind(model->decode, ET_DECODE_SLOT, slot);
    et_plan_set_rows(model->decode, model->rows, rows);
    et_plan_run(model->decode, (et_random){ 0 });
}

void et_search_model_list(const et_search_model *model, int64_t row, int64_t rows,
                          const int32_t *words, int64_t count, float *logits)
{
    et_assert(row >= 0 && words && logits);
    const float *values = et_params_values(model->params);
    const size_t width = (size_t)model->transformer.width * et_dtype_size(model->act);
    const et_listed_product product = {
        .rows = rows,
        .count = count,
        .width = model->transformer.width,
        .h = (const char *)et_plan_output(model->decode, 0).data + (size_t)row * width,
        .dtype = model->act,
        .words = words,
        .table = values + et_params_offset(model->params, model->table),
        .bias = model->bias < 0 ? NULL : values + et_params_offset(model->params, model->bias),
    };
    et_kernels_best()->listed_product(logits, &product);
}
