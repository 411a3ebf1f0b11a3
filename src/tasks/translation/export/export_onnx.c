/* The model as ONNX, for Optimum's ORTModelForSeq2SeqLM (names of files, inputs and outputs are
 * those of its exporter):
 *
 *   encoder_model.onnx    input_ids, attention_mask [batch, encoder_sequence_length]
 *                         -> last_hidden_state [batch, encoder_sequence_length, width]
 *   decoder_model.onnx    encoder_attention_mask, input_ids [batch, decoder_sequence_length],
 *                         encoder_hidden_states
 *                         -> logits [batch, decoder_sequence_length, vocabulary], of all positions;
 *                         present.I.decoder.key, .value [batch, heads, decoder_sequence_length,
 *                         width / heads] of each layer I; present.I.encoder.key, .value
 *   decoder_with_past_model.onnx     the same for the following tokens:
 *                         encoder_attention_mask, input_ids, and past_key_values.I.decoder.key ...
 *                         for present.I.decoder.key ... of the earlier run
 *                         -> logits of input_ids; present.I.decoder.key, .value of all positions
 *   config.json, ...      the other files of a MarianMT model (export_huggingface.c), which
 *                         generates the same way
 *
 * Padding follows the shorter sentences of a batch; the masks leave it out. */
#include "base/assert.h"
#include "tasks/translation/export/export_private.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/nn/transformer.h"
#include "engine/onnx/onnx_graph.h"

enum { ENCODER, DECODER, DECODER_WITH_PAST, GRAPHS };

/* ---- graphs ---- */

/* ids [batch, longest] as rows, and the offsets and positions by which rows are read. */
typedef struct side {
    const char *shape, *count; /* int64 [2], [1] */
    const char *rows;          /* int64 [1] */
    const char *ids, *positions, *mask;
} side;

static const char *part(et_onnx *m, const char *of, int64_t at)
{
    const int64_t end = at + 1;
    return et_onnx_call(m, "Slice", of, et_onnx_ints(m, &at, 1), et_onnx_ints(m, &end, 1));
}

/* Flattens [batch, longest]. */
static const char *flat(et_onnx *m, const char *x)
{
    const int64_t open = -1;
    return et_onnx_call(m, "Reshape", x, et_onnx_ints(m, &open, 1));
}

static const char *mask_of(et_onnx *m, const char *mask)
{
    const int64_t axes[] = { 1, 2 };
    mask = et_onnx_call(m, "Cast", mask);
    et_onnx_set_int(m, "to", ET_ONNX_BOOL);
    return et_onnx_call(m, "Unsqueeze", mask, et_onnx_ints(m, axes, 2));
}

/* A position is the column, for any mask, after the past ones: an int64. */
static side side_of(et_onnx *m, const char *ids, const char *past)
{
    const char *shape = et_onnx_call(m, "Shape", ids);
    const char *end =
        et_onnx_call(m, "Add", past, et_onnx_call(m, "Gather", shape, et_onnx_int(m, 1)));
    const char *each = et_onnx_call(m, "Range", past, end, et_onnx_int(m, 1));
    side s = { .shape = shape, .count = part(m, shape, 0) };
    s.rows = et_onnx_call(m, "Mul", s.count, part(m, shape, 1));
    s.ids = flat(m, ids);
    s.positions = flat(m, et_onnx_call(m, "Expand", each, shape));
    return s;
}

/* Rows back to [batch, longest, width]. */
static const char *batches(et_onnx *m, const char *rows, const side *of, int64_t width)
{
    const char *shape = et_onnx_call(m, "Concat", of->shape, et_onnx_ints(m, &width, 1));
    et_onnx_set_int(m, "axis", 0);
    return et_onnx_call(m, "Reshape", rows, shape);
}

static const et_onnx_dim batch = { "batch_size", 0 };
static const et_onnx_dim encoder_length = { "encoder_sequence_length", 0 };
static const et_onnx_dim decoder_length = { "decoder_sequence_length", 0 };

static int add_encoder(et_onnx *m, et_graph *graph, const et_transformer *model, et_error *error)
{
    const et_onnx_dim ids[] = { batch, encoder_length };
    const et_onnx_dim states[] = { batch, encoder_length, { NULL, model->width } };
    side s = side_of(m, et_onnx_input(m, "input_ids", ET_ONNX_I64, ids, 2), et_onnx_int(m, 0));
    s.mask = mask_of(m, et_onnx_input(m, "attention_mask", ET_ONNX_I64, ids, 2));
    et_node *y =
        et_transformer_encode(et_graph_scope(graph), model, ET_ONNX_PRIME_A, ET_ONNX_PRIME_B, 0);
    const et_onnx_symbol symbols[] = { { ET_ONNX_PRIME_A, s.rows } };
    const et_onnx_binding bindings[] = {
        { .name = ET_PAIR_NAME_SOURCE_IDS, .value = s.ids },
        { .name = ET_PAIR_NAME_SOURCE_POSITIONS, .value = s.positions },
        { .name = ET_PAIR_NAME_SOURCE_OFFSETS, .count = s.count, .mask = s.mask },
    };
    const et_onnx_graph from = { .graph = graph,
                                 .symbols = symbols,
                                 .symbol_count = 1,
                                 .bindings = bindings,
                                 .binding_count = 3 };
    const char *rows = NULL;
    int status = et_graph_finish(graph, error);
    if (!status)
        status = et_onnx_add_graph(m, &from, &y, &rows, 1, error);
    if (!status)
        et_onnx_output(m, batches(m, rows, &s, model->width), "last_hidden_state", ET_ONNX_F32,
                       states, 3);
    return status;
}

/* ---- the decoder ---- */

/* The side whose positions a cache has. A layer has two attentions, in this order. */
enum { OF_DECODER, OF_ENCODER, CACHES };
enum { KEY, VALUE };
static const char *const cache_of[CACHES] = { "decoder", "encoder" };
static const char *const cache_part[] = { "key", "value" };

/* A decoder graph in the making, with or without past keys and values. */
typedef struct decoder {
    et_onnx *m;
    const et_transformer *model;
    bool past;
    et_arena arena;
    side target;
    const char *mask, *encoded; /* of the source; encoded: NULL with a past */
    et_onnx_cache *caches;      /* [layers, CACHES] */
    int cache_count;
    et_onnx_binding *bindings;
    int binding_count;
} decoder;

static void cache_dims(const decoder *d, et_onnx_dim dims[4], const char *length)
{
    const int64_t heads = d->model->decoder.num_attention_heads;
    dims[0] = batch;
    dims[1] = (et_onnx_dim){ NULL, heads };
    dims[2] = (et_onnx_dim){ length, 0 };
    dims[3] = (et_onnx_dim){ NULL, d->model->width / heads };
}

static const char *past_input(decoder *d, int cache, int which)
{
    et_onnx_dim dims[4];
    const int of = cache % CACHES;
    const char *name = et_arena_printf(&d->arena, "past_key_values.%d.%s.%s", cache / CACHES,
                                       cache_of[of], cache_part[which]);
    cache_dims(d, dims, of == OF_DECODER ? "past_decoder_sequence_length" : encoder_length.name);
    return name ? et_onnx_input(d->m, name, ET_ONNX_F32, dims, 4) : NULL;
}

static void present_output(decoder *d, int cache, int which)
{
    et_onnx_dim dims[4];
    const int of = cache % CACHES;
    const et_onnx_cache *kept = &d->caches[cache];
    const char *name = et_arena_printf(&d->arena, "present.%d.%s.%s", cache / CACHES, cache_of[of],
                                       cache_part[which]);
    cache_dims(d, dims,
               of == OF_ENCODER ? encoder_length.name
               : d->past        ? "past_decoder_sequence_length + decoder_sequence_length"
                                : decoder_length.name);
    if (name)
        et_onnx_output(d->m, which == KEY ? kept->key : kept->value, name, ET_ONNX_F32, dims, 4);
}

static void bind(decoder *d, et_onnx_binding binding)
{
    d->bindings[d->binding_count++] = binding;
}

/* Inputs in the order in which Optimum makes them. */
static int add_decoder_inputs(decoder *d, et_error *error)
{
    const et_onnx_dim masks[] = { batch, encoder_length }, ids[] = { batch, decoder_length };
    const et_onnx_dim states[] = { batch, encoder_length, { NULL, d->model->width } };
    const int64_t rows[] = { -1, d->model->width };
    et_onnx *m = d->m;
    d->cache_count = CACHES * d->model->decoder.num_layers;
    d->caches = et_arena_alloc(&d->arena, d->cache_count * sizeof *d->caches);
    d->bindings = et_arena_alloc(&d->arena, ((size_t)d->cache_count + 5) * sizeof *d->bindings);
    if (!d->caches || !d->bindings)
        return et_alloc_failed(error, "a decoder");
    d->mask = mask_of(m, et_onnx_input(m, "encoder_attention_mask", ET_ONNX_I64, masks, 2));
    const char *tokens = et_onnx_input(m, "input_ids", ET_ONNX_I64, ids, 2);
    if (!d->past) {
        d->encoded = et_onnx_input(m, "encoder_hidden_states", ET_ONNX_F32, states, 3);
        d->encoded = et_onnx_call(m, "Reshape", d->encoded, et_onnx_ints(m, rows, 2));
    }
    for (int i = 0; i < d->cache_count; i++) {
        d->caches[i] = (et_onnx_cache){ .key = NULL };
        if (d->past) {
            d->caches[i].past_key = past_input(d, i, KEY);
            d->caches[i].past_value = past_input(d, i, VALUE);
        }
    }
    const char *before =
        d->past ? et_onnx_call(m, "Gather", et_onnx_call(m, "Shape", d->caches[0].past_key),
                               et_onnx_int(m, 2))
                : et_onnx_int(m, 0);
    d->target = side_of(m, tokens, before);
    return ET_OK;
}

/* The decoder as a graph: its logits. */
static et_node *build_decoder(const decoder *d, et_graph *graph)
{
    et_scope *root = et_graph_scope(graph);
    et_node *h;
    if (d->past) {
        h = et_transformer_decode_cached(root, d->model, ET_ONNX_PRIME_C, ET_ONNX_PRIME_A,
                                         ET_ONNX_PRIME_B);
    } else {
        const et_shape states = et_shape_2(ET_ONNX_PRIME_C, d->model->width);
        h = et_transformer_decode_whole(root, d->model, et_input(root, "encoded", ET_F32, states),
                                        ET_ONNX_PRIME_A, ET_ONNX_PRIME_B);
    }
    return et_matmul(h, et_transformer_table(root, d->model),
                     et_transformer_output_bias(root, d->model),
                     &(et_matmul_options){ .transpose_b = true, .f32 = true });
}

static int fill_decoder(decoder *d, et_graph *graph, et_error *error)
{
    const char *rows = NULL;
    int status = add_decoder_inputs(d, error);
    if (status)
        return status;
    const side *t = &d->target;
    bind(d, (et_onnx_binding){ .name = ET_PAIR_NAME_TARGET_IDS, .value = t->ids });
    bind(d, (et_onnx_binding){ .name = ET_PAIR_NAME_TARGET_POSITIONS, .value = t->positions });
    bind(d, (et_onnx_binding){ .name = ET_PAIR_NAME_TARGET_OFFSETS, .count = t->count });
    bind(d, (et_onnx_binding){
                .name = ET_PAIR_NAME_SOURCE_OFFSETS, .count = t->count, .mask = d->mask });
    if (!d->past)
        bind(d, (et_onnx_binding){ .name = "encoded", .value = d->encoded });
    for (int i = 0; i < d->model->decoder.num_layers && d->past; i++) {
        const char *name = et_arena_printf(&d->arena, ET_DECODE_CROSS_CACHE "%d", i);
        if (name)
            bind(d, (et_onnx_binding){ .name = name });
    }
    et_node *logits = build_decoder(d, graph);
    const et_onnx_symbol symbols[] = { { ET_ONNX_PRIME_A, d->target.rows } };
    const et_onnx_graph from = { .graph = graph,
                                 .symbols = symbols,
                                 .symbol_count = 1,
                                 .bindings = d->bindings,
                                 .binding_count = d->binding_count,
                                 .caches = d->caches,
                                 .cache_count = d->cache_count };
    status = et_graph_finish(graph, error);
    if (!status)
        status = et_onnx_add_graph(d->m, &from, &logits, &rows, 1, error);
    if (!status) {
        /* The encoder's keys and values do not change, so only the first decoder model outputs
         * them. */
        int64_t vocabulary = et_node_shape(logits).size[1];
        const et_onnx_dim all[] = { batch, decoder_length, { NULL, vocabulary } };
        et_onnx_output(d->m, batches(d->m, rows, &d->target, vocabulary), "logits", ET_ONNX_F32,
                       all, 3);
        for (int i = 0; i < d->cache_count; i++) {
            if (d->past && i % CACHES == OF_ENCODER)
                continue;
            present_output(d, i, KEY);
            present_output(d, i, VALUE);
        }
    }
    return !status && d->arena.failed ? et_alloc_failed(error, "a decoder") : status;
}

static int add_decoder(et_onnx *m, et_graph *graph, const et_transformer *model, bool past,
                       et_error *error)
{
    decoder d = { .m = m, .model = model, .past = past, .arena = ET_ARENA_INIT };
    const int status = fill_decoder(&d, graph, error);
    et_arena_release(&d.arena);
    return status;
}

static int write_graph(const et_translator *t, int which, const char *path, et_error *error)
{
    et_transformer model = et_translator_transformer(t);
    et_graph *graph = NULL;
    et_onnx *m = NULL;
    model.max_positions = ET_TRANSFORMERS_POSITIONS;
    int status = et_graph_new(&graph, t->params, NULL, error);
    if (!status)
        status = et_onnx_new(&m, which == ENCODER ? "encoder" : "decoder", error);
    if (!status)
        status = which == ENCODER
                     ? add_encoder(m, graph, &model, error)
                     : add_decoder(m, graph, &model, which == DECODER_WITH_PAST, error);
    if (!status)
        status = et_onnx_write(m, path, error);
    et_onnx_free(m);
    et_graph_free(graph);
    return status;
}

/* ---- files ---- */

static int write_one(void *self, int which, const char *path, et_error *error)
{
    return write_graph(self, which, path, error);
}

int et_translator_export_onnx(const et_translator *t, const char *directory,
                              const et_export_options *options, et_error *error)
{
    et_assert(t && directory && options);
    static const char *const names[] = { "encoder_model.onnx", "decoder_model.onnx",
                                         "decoder_with_past_model.onnx" };
    const et_transformers_folder folder = { .translator = t,
                                            .precision = options->precision,
                                            .names = names,
                                            .count = GRAPHS,
                                            .write = write_one,
                                            .self = (void *)t,
                                            .vocab_size = et_vocabulary_size(t->sides.target) };
    int status = et_transformers_write(&folder, directory, error);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
