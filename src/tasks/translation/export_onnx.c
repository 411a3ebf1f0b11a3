/* The model as ONNX, as Optimum's ORTModelForSeq2SeqLM takes it (the names of files, inputs and
 * outputs are those of its exporter):
 *
 *   encoder_model.onnx    input_ids, attention_mask [batch, encoder_sequence_length]
 *                         -> last_hidden_state [batch, encoder_sequence_length, width]
 *   decoder_model.onnx    encoder_attention_mask, input_ids [batch, decoder_sequence_length],
 *                         encoder_hidden_states
 *                         -> logits [batch, decoder_sequence_length, vocabulary], of all positions
 *   config.json           sizes and symbols, as of a Marian model, which generates the same way
 *   source.spm, target.spm, vocab.json, tokenizer_config.json      the vocabulary, twice a file
 *
 * Shorter sentences of a batch are followed by padding that the masks leave out. */
#include "tasks/translation/export_formats.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/graph.h"
#include "onnx/graph.h"
#include "tasks/translation/options.h"
#include "train/model_export.h"

/* Rows of the table of positions: the longest source, and target, that a model takes. */
#define POSITIONS SOURCE_MAX

static const char *const names[] = { "config.json",        "generation_config.json",
                                     "source.spm",         "target.spm",
                                     "vocab.json",         "tokenizer_config.json",
                                     "encoder_model.onnx", "decoder_model.onnx" };
enum { CONFIG, GENERATION, SOURCE, TARGET, VOCABULARY, TOKENIZER, ENCODER, DECODER, NAMES };

/* ---- graphs --------------------------------------------------------------------------------- */

/* ids [batch, longest] as rows, and what rows are read by. */
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

/* [batch, longest] to one behind another. */
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

/* A position is the column, whatever the mask says. */
static side side_of(et_onnx *m, const char *ids)
{
    const int64_t none = 0;
    const char *shape = et_onnx_call(m, "Shape", ids);
    const char *longest = part(m, shape, 1);
    const char *each = et_onnx_call(m, "Range", et_onnx_int(m, 0),
                                    et_onnx_call(m, "Squeeze", longest, et_onnx_ints(m, &none, 1)),
                                    et_onnx_int(m, 1));
    side s = { .shape = shape, .count = part(m, shape, 0) };
    s.rows = et_onnx_call(m, "Mul", s.count, longest);
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
    side s = side_of(m, et_onnx_input(m, "input_ids", ET_ONNX_I64, ids, 2));
    s.mask = mask_of(m, et_onnx_input(m, "attention_mask", ET_ONNX_I64, ids, 2));
    et_node *y =
        et_transformer_encode(et_graph_scope(graph), model, ET_ONNX_PRIME_A, ET_ONNX_PRIME_B, 0);
    const et_onnx_symbol symbols[] = { { ET_ONNX_PRIME_A, s.rows } };
    const et_onnx_binding bindings[] = {
        { .name = "source_ids", .value = s.ids },
        { .name = "source_positions", .value = s.positions },
        { .name = "source_offsets", .count = s.count, .mask = s.mask },
    };
    const et_onnx_graph from = { graph, symbols, 1, bindings, 3 };
    const char *rows = NULL;
    int status = et_graph_finish(graph, error);
    if (!status)
        status = et_onnx_add_graph(m, &from, &y, &rows, 1, error);
    if (!status)
        et_onnx_output(m, batches(m, rows, &s, model->width), "last_hidden_state", ET_ONNX_F32,
                       states, 3);
    return status;
}

static int add_decoder(et_onnx *m, et_graph *graph, const et_transformer *model, et_error *error)
{
    const et_onnx_dim masks[] = { batch, encoder_length }, ids[] = { batch, decoder_length };
    const et_onnx_dim states[] = { batch, encoder_length, { NULL, model->width } };
    const et_onnx_dim all[] = { batch, decoder_length, { NULL, model->vocabulary } };
    et_scope *root = et_graph_scope(graph);
    const char *mask =
        mask_of(m, et_onnx_input(m, "encoder_attention_mask", ET_ONNX_I64, masks, 2));
    side s = side_of(m, et_onnx_input(m, "input_ids", ET_ONNX_I64, ids, 2));
    const char *encoded = et_onnx_input(m, "encoder_hidden_states", ET_ONNX_F32, states, 3);
    const int64_t shape[] = { -1, model->width };
    encoded = et_onnx_call(m, "Reshape", encoded, et_onnx_ints(m, shape, 2));
    et_node *source = et_input(root, "encoded", ET_F32, et_shape_2(ET_ONNX_PRIME_C, model->width));
    et_node *h = et_transformer_decode_whole(root, model, source, ET_ONNX_PRIME_A, ET_ONNX_PRIME_B);
    et_node *y = et_matmul(h, et_transformer_table(root, model), NULL,
                           &(et_matmul_options){ .transpose_b = true, .f32 = true });
    const et_onnx_symbol symbols[] = { { ET_ONNX_PRIME_A, s.rows } };
    const et_onnx_binding bindings[] = {
        { .name = "target_ids", .value = s.ids },
        { .name = "target_positions", .value = s.positions },
        { .name = "target_offsets", .count = s.count },
        { .name = "source_offsets", .count = s.count, .mask = mask },
        { .name = "encoded", .value = encoded },
    };
    const et_onnx_graph from = { graph, symbols, 1, bindings, 5 };
    const char *rows = NULL;
    int status = et_graph_finish(graph, error);
    if (!status)
        status = et_onnx_add_graph(m, &from, &y, &rows, 1, error);
    if (!status)
        et_onnx_output(m, batches(m, rows, &s, model->vocabulary), "logits", ET_ONNX_F32, all, 3);
    return status;
}

static int write_graph(const et_translator *t, int which, const char *path, et_error *error)
{
    et_transformer model = et_translator_transformer(t);
    et_graph *graph = NULL;
    et_onnx *m = NULL;
    model.max_positions = POSITIONS;
    int status = et_graph_new(&graph, t->params, NULL, error);
    if (!status)
        status = et_onnx_new(&m, which == ENCODER ? "encoder" : "decoder", error);
    if (!status)
        status = which == ENCODER ? add_encoder(m, graph, &model, error)
                                  : add_decoder(m, graph, &model, error);
    if (!status)
        status = et_onnx_write(m, path, error);
    et_onnx_free(m);
    et_graph_free(graph);
    return status;
}

/* ---- what lies beside them ------------------------------------------------------------------ */

/* "relu" and so on are called the same there, but for one. */
static const char *activation_name(et_activation activation)
{
    static const char *const names_of[] = { [ET_ACTIVATION_RELU] = "relu",
                                            [ET_ACTIVATION_GELU] = "gelu",
                                            [ET_ACTIVATION_TANH] = "tanh",
                                            [ET_ACTIVATION_SIGMOID] = "sigmoid",
                                            [ET_ACTIVATION_SWISH] = "swish" };
    const size_t count = sizeof names_of / sizeof *names_of;
    return (size_t)activation < count && names_of[activation] ? names_of[activation] : "linear";
}

static void set_symbols(et_value *dict, const et_translator *t)
{
    const et_vocabulary *v = t->vocabulary;
    et_value_set_int(dict, "decoder_start_token_id", et_vocabulary_start(v));
    et_value_set_int(dict, "eos_token_id", et_vocabulary_eos(v));
    et_value_set_int(dict, "pad_token_id",
                     et_vocabulary_pad(v) < 0 ? et_vocabulary_eos(v) : et_vocabulary_pad(v));
    if (et_vocabulary_bos(v) >= 0)
        et_value_set_int(dict, "bos_token_id", et_vocabulary_bos(v));
}

static void set_stack(et_value *dict, const char *name, const et_transformer_stack *stack,
                      et_arena *arena)
{
    const char *layers = et_arena_printf(arena, "%s_layers", name);
    const char *heads = et_arena_printf(arena, "%s_attention_heads", name);
    const char *inner = et_arena_printf(arena, "%s_ffn_dim", name);
    if (!layers || !heads || !inner)
        return;
    et_value_set_int(dict, layers, stack->num_layers);
    et_value_set_int(dict, heads, stack->num_attention_heads);
    et_value_set_int(dict, inner, stack->intermediate_size);
}

static void set_config(et_value *dict, const et_translator *t, et_arena *arena)
{
    const et_transformer model = et_translator_transformer(t);
    et_value *kinds = et_value_set_list(dict, "architectures");
    if (kinds)
        et_value_add_string(kinds, "MarianMTModel");
    et_value_set_string(dict, "model_type", "marian");
    et_value_set_bool(dict, "is_encoder_decoder", true);
    et_value_set_bool(dict, "use_cache", false);
    et_value_set_int(dict, "vocab_size", model.vocabulary);
    et_value_set_int(dict, "decoder_vocab_size", model.vocabulary);
    et_value_set_int(dict, "d_model", model.width);
    set_stack(dict, "encoder", &model.encoder, arena);
    set_stack(dict, "decoder", &model.decoder, arena);
    et_value_set_string(dict, "activation_function", activation_name(model.encoder.activation));
    et_value_set_int(dict, "max_position_embeddings", POSITIONS);
    et_value_set_bool(dict, "scale_embedding", true);
    et_value_set_bool(dict, "share_encoder_decoder_embeddings", true);
    et_value_set_bool(dict, "static_position_embeddings", true);
    set_symbols(dict, t);
}

static void set_generation(et_value *dict, const et_translator *t)
{
    const et_decoder_options options = et_translator_decoder_options(t);
    set_symbols(dict, t);
    et_value_set_int(dict, "max_length", options.max_length ? options.max_length : POSITIONS);
    et_value_set_int(dict, "num_beams", options.beam.size);
    et_value_set_bool(dict, "use_cache", false);
}

/* Pieces are different from each other, so none is looked up before it is added. */
static void set_pieces(et_value *dict, const et_translator *t)
{
    for (int32_t i = 0; i < et_vocabulary_size(t->vocabulary); i++) {
        const et_value id = { .kind = ET_VALUE_INT, .integer = i };
        et_value_append_copy(dict, et_vocabulary_piece(t->vocabulary, i), &id);
    }
}

static void set_tokenizer(et_value *dict, const et_translator *t)
{
    const et_vocabulary *v = t->vocabulary;
    const int32_t pad = et_vocabulary_pad(v) < 0 ? et_vocabulary_eos(v) : et_vocabulary_pad(v);
    et_value_set_string(dict, "tokenizer_class", "MarianTokenizer");
    et_value_set_string(dict, "eos_token", et_vocabulary_piece(v, et_vocabulary_eos(v)));
    et_value_set_string(dict, "pad_token", et_vocabulary_piece(v, pad));
    et_value_set_string(dict, "unk_token", et_vocabulary_piece(v, et_vocabulary_unk(v)));
    et_value_set_int(dict, "model_max_length", POSITIONS);
}

static int write_values(const et_translator *t, int which, const char *path, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    if (dict && which == CONFIG)
        set_config(dict, t, &arena);
    if (dict && which == GENERATION)
        set_generation(dict, t);
    if (dict && which == VOCABULARY)
        set_pieces(dict, t);
    if (dict && which == TOKENIZER)
        set_tokenizer(dict, t);
    int status = dict && !et_value_failed(dict) && !arena.failed
                     ? et_json_write(path, dict, 2, "", error)
                     : et_alloc_failed(error, 0, "a model to export");
    et_arena_release(&arena);
    return status;
}

static int write_one(const et_translator *t, int which, const char *path, et_error *error)
{
    size_t length;
    const char *bytes = et_vocabulary_bytes(t->vocabulary, &length);
    if (which >= ENCODER)
        return write_graph(t, which, path, error);
    if (which == SOURCE || which == TARGET)
        return et_file_write(path, bytes, length, error);
    return write_values(t, which, path, error);
}

int et_translator_export_onnx(const et_translator *t, const char *directory, et_error *error)
{
    int status = et_model_export_begin_directory(directory, names, NAMES, error);
    for (int i = 0; i < NAMES && !status; i++) {
        char *path = et_path_join(directory, names[i]);
        status = path ? write_one(t, i, path, error)
                      : et_alloc_failed(error, strlen(directory), "a path");
        et_free(path);
    }
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
