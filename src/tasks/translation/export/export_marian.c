/* The model as a release of Marian, as OPUS-MT publishes it (interchange/marian_files.h), which
 * marian-decoder loads: model.npz, decoder.yml, vocabularies. What such a model cannot be is
 * refused by the setting.
 *
 * Marian begins a target with zeros. So the token that begins it here must be the last one and have
 * an embedding of zeros; the files do not have it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "formats/numpy/npz.h"
#include "formats/torch/transformers_files.h"
#include "tasks/translation/export/export_formats.h"
#include "tasks/translation/export/exported_tensors.h"
#include "tasks/translation/interchange/marian_files.h"
#include <etude/log.h>

/* ---- what does not fit ---- */

static int refuse(const char *setting, const char *value, const char *needed, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "task.model.%s is %s, but Marian needs %s; use --format onnx or ctranslate2",
                   setting, value, needed);
}

static int check_stack(const et_transformer_stack *stack, bool decoder, et_error *error)
{
    if (stack->norm_first)
        return refuse(decoder ? "decoder.norm_first" : "encoder.norm_first", "true", "false",
                      error);
    if (stack->final_norm)
        return refuse(decoder ? "decoder.final_norm" : "encoder.final_norm", "true", "false",
                      error);
    if (stack->activation != ET_ACTIVATION_SWISH && stack->activation != ET_ACTIVATION_RELU)
        return refuse(decoder ? "decoder.activation" : "encoder.activation",
                      et_activation_names[stack->activation], "swish or relu", error);
    return ET_OK;
}

static int check_settings(const et_transformer *model, et_error *error)
{
    const et_transformer_stack *encoder = &model->encoder, *decoder = &model->decoder;
    int status = check_stack(encoder, false, error);
    if (!status)
        status = check_stack(decoder, true, error);
    if (status)
        return status;
    if (encoder->activation != decoder->activation)
        return refuse("decoder.activation", et_activation_names[decoder->activation],
                      "that of the encoder", error);
    if (encoder->num_attention_heads != decoder->num_attention_heads)
        return refuse("decoder.num_attention_heads", "another", "that of the encoder", error);
    if (model->open_positions)
        return refuse("sinusoids", "paper", "tensor2tensor", error);
    if (model->plain_embeddings)
        return refuse("scale_embeddings", "false", "true", error);
    return ET_OK;
}

/* The last row of a table. */
static bool is_zero(const et_translator *t, const char *scope, int64_t row)
{
    char name[ET_MAPPED_NAME_MAX];
    snprintf(name, sizeof name, "%s/table", scope);
    const int i = et_params_find(t->params, name);
    et_assert(i >= 0);
    const int64_t width = et_params_shape(t->params, i).size[1];
    const float *values =
        et_params_values(t->params) + et_params_offset(t->params, i) + row * width;
    for (int64_t k = 0; k < width; k++)
        if (values[k] != 0)
            return false;
    return true;
}

static int check_start(const et_translator *t, const et_transformer *model, et_error *error)
{
    const et_vocabulary *v = t->sides.target;
    const int32_t start = et_vocabulary_start(v);
    const char *token = et_vocabulary_token(v, start);
    if (start != et_vocabulary_size(v) - 1)
        return et_fail(error, ET_ECONFIG,
                       "targets begin with the token %s, number %d; Marian has no such token, so "
                       "only the last one can be left out",
                       token, (int)start);
    if (!is_zero(t, model->target.scope, start))
        return et_fail(error, ET_ECONFIG,
                       "targets begin with the token %s, whose embedding is not zeros; in Marian a "
                       "target begins with zeros, so it cannot be the same model",
                       token);
    return ET_OK;
}

static int check_model(const et_translator *t, const et_transformer *model, et_error *error)
{
    int status = check_settings(model, error);
    if (!status)
        status = et_sides_check_symbols(t->sides, "Marian", error);
    if (!status)
        status = check_start(t, model, error);
    return status;
}

static void warn(const et_translator *t, const et_transformer *model)
{
    const et_beam_options beam = et_translator_decoder_options(t).beam;
    const float encoder = model->encoder.norm_epsilon, decoder = model->decoder.norm_epsilon;
    const float there = (float)ET_MARIAN_NORM_EPSILON;
    if (encoder != there || decoder != there)
        et_log(ET_LOG_WARNING,
               "task.model.%s.norm_epsilon is %g, but norms of Marian add %g, so results there "
               "differ in the last digits",
               encoder != there ? "encoder" : "decoder",
               (double)(encoder != there ? encoder : decoder), (double)there);
    if (beam.size > 1 && beam.alpha > 0 && !beam.by_length)
        et_log(ET_LOG_WARNING,
               "the search of Marian has no task.model.length_penalty gnmt: beam search there "
               "divides by length^%g, so some translations differ",
               beam.alpha);
    if (beam.size > 1 && !beam.shrinks)
        et_log(ET_LOG_WARNING, "the beam of Marian shrinks (task.model.shrink_beam is false), so "
                               "some translations differ");
}

/* ---- settings ---- */

static bool shares_table(const et_transformer *model)
{
    return !strcmp(model->source.scope, model->target.scope);
}

static void set_model(et_value *dict, const et_transformer *model)
{
    const bool shared = shares_table(model);
    const bool tied = !strcmp(model->output.scope, model->target.scope);
    const et_transformer_stack *encoder = &model->encoder, *decoder = &model->decoder;
    const bool wide = encoder->intermediate_size != decoder->intermediate_size;
    et_value_set_string(dict, "type", "transformer");
    et_value_set_int(dict, "enc-depth", encoder->num_layers);
    et_value_set_int(dict, "dec-depth", decoder->num_layers);
    et_value_set_int(dict, "dim-emb", model->width);
    et_value *sizes = et_value_set_list(dict, "dim-vocabs");
    et_value_add_int(sizes, model->source.count - 1);
    et_value_add_int(sizes, model->target.count - 1);
    et_value_set_bool(dict, "tied-embeddings", tied && !shared);
    et_value_set_bool(dict, "tied-embeddings-src", shared && !tied);
    et_value_set_bool(dict, "tied-embeddings-all", shared && tied);
    et_value_set_int(dict, "transformer-heads", encoder->num_attention_heads);
    et_value_set_int(dict, "transformer-dim-ffn", encoder->intermediate_size);
    et_value_set_int(dict, "transformer-decoder-dim-ffn", wide ? decoder->intermediate_size : 0);
    et_value_set_int(dict, "transformer-ffn-depth", 2);
    et_value_set_int(dict, "transformer-decoder-ffn-depth", 0);
    et_value_set_string(dict, "transformer-ffn-activation",
                        et_activation_names[encoder->activation]);
    et_value_set_string(dict, "transformer-preprocess", "");
    et_value_set_string(dict, "transformer-postprocess", "dan");
    et_value_set_string(dict, "transformer-postprocess-emb", "d");
    et_value_set_string(dict, "transformer-postprocess-top", "");
    et_value_set_string(dict, "transformer-decoder-autoreg", "self-attention");
    et_value_set_string(dict, "transformer-guided-alignment-layer", "last");
}

/* What Marian asks every model for. */
static void set_rest(et_value *dict)
{
    static const char *const off[] = {
        "layer-normalization",
        "right-left",
        "transformer-depth-scaling",
        "transformer-no-projection",
        "transformer-pool",
        "transformer-train-position-embeddings",
        "ulr",
        "skip",
        "output-omit-bias",
    };
    static const struct {
        const char *field;
        int64_t value;
    } counts[] = {
        { "dec-cell-base-depth", 2 },   { "dec-cell-high-depth", 1 },
        { "enc-cell-depth", 1 },        { "dim-rnn", 1024 },
        { "lemma-dim-emb", 0 },         { "transformer-dim-aan", 2048 },
        { "transformer-aan-depth", 2 }, { "ulr-dim-emb", 0 },
    };
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        et_value_set_bool(dict, off[i], false);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        et_value_set_int(dict, counts[i].field, counts[i].value);
    et_value_set_bool(dict, "transformer-aan-nogate", false);
    et_value_set_string(dict, "transformer-aan-activation", "swish");
    et_value_set_string(dict, "dec-cell", "gru");
    et_value_set_string(dict, "enc-cell", "gru");
    et_value_set_string(dict, "enc-type", "bidirectional");
    et_value_set_list(dict, "transformer-tied-layers");
    et_value_set_list(dict, "input-types");
    et_value_set_string(dict, "version", "v1.12.0");
}

/* ---- weights ---- */

typedef struct output {
    const et_translator *t;
    et_transformer model;
    et_exported_tensors list;
    et_npz_item *items; /* [list.count + 1]; owned, as the next */
    float *room;
} output;

static int read_item(void *self, size_t item, const void **data, et_error *error)
{
    const output *o = self;
    (void)error;
    et_mapped_tensor_get(&o->list.tensors[item], o->list.params, o->room);
    *data = o->room;
    return ET_OK;
}

static int list_tensors(output *o, et_error *error)
{
    const et_transformer *m = &o->model;
    et_exported_tensors *list = &o->list;
    const int64_t source = m->source.count - 1, target = m->target.count - 1;
    const bool shared = shares_table(m);
    int status = et_exported_tensors_add_layers(list, m, ET_NAMES_MARIAN, error);
    if (!status)
        status = shared ? et_exported_tensors_add_table(list, ET_MARIAN_SHARED, m->target.scope,
                                                        target, error)
                        : et_exported_tensors_add_table(list, ET_MARIAN_OF_ENCODER, m->source.scope,
                                                        source, error);
    if (!status && !shared)
        status = et_exported_tensors_add_table(list, ET_MARIAN_OF_DECODER, m->target.scope, target,
                                               error);
    if (!status && strcmp(m->output.scope, m->target.scope) != 0)
        status =
            et_exported_tensors_add_table(list, ET_MARIAN_OUTPUT, m->output.scope, target, error);
    return status
               ? status
               : et_exported_tensors_add_bias(list, ET_MARIAN_BIAS, m->output.scope, target, error);
}

static int print_settings(const output *o, et_strbuf *text, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    set_model(dict, &o->model);
    set_rest(dict);
    const bool failed = et_value_failed(dict);
    if (!failed)
        et_yaml_print(text, dict);
    et_arena_release(&arena);
    return failed || text->failed ? et_alloc_failed(error, 0, "settings") : ET_OK;
}

static int write_tensors(output *o, const char *path, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    const size_t count = o->list.count;
    o->items = et_alloc(count + 1, sizeof *o->items);
    o->room = et_alloc((size_t)o->list.most, sizeof *o->room);
    int status = o->items && o->room ? print_settings(o, &text, error)
                                     : et_alloc_failed(error, count, "a model to export");
    for (size_t i = 0; i < count && !status; i++)
        o->items[i] = (et_npz_item){ o->list.tensors[i].name, ET_NPZ_FLOAT32,
                                     o->list.tensors[i].shape, NULL };
    if (!status) {
        o->items[count] =
            (et_npz_item){ ET_MARIAN_SETTINGS, ET_NPZ_BYTE, et_shape_1((int64_t)text.length + 1),
                           et_strbuf_text(&text) };
        status = et_npz_write(path, o->items, count + 1, read_item, o, error);
    }
    et_free(o->items);
    et_free(o->room);
    et_strbuf_release(&text);
    return status;
}

static int write_weights(output *o, const char *path, et_error *error)
{
    int status = list_tensors(o, error);
    if (!status)
        status = write_tensors(o, path, error);
    et_exported_tensors_release(&o->list);
    return status;
}

/* ---- texts ---- */

static int write_text(const char *path, et_strbuf *text, et_error *error)
{
    int status = text->failed ? et_alloc_failed(error, text->length, "a text")
                              : et_file_write(path, text->data, text->length, error);
    et_strbuf_release(text);
    return status;
}

/* "token": number, in the order of numbers; all but the last token. */
static int write_vocabulary(const et_vocabulary *v, const char *path, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (int32_t i = 0; i < et_vocabulary_size(v) - 1; i++) {
        et_json_print_string(&text, et_vocabulary_token(v, i));
        et_strbuf_printf(&text, ": %d\n", (int)i);
    }
    return write_text(path, &text, error);
}

/* Unknown tokens are generated only if they are here. */
static bool allows_unknown(const et_translator *t)
{
    const int32_t unk = et_vocabulary_unk(t->sides.target);
    for (int i = 0; i < t->choice.never_count; i++)
        if (t->choice.never[i] == unk)
            return false;
    return true;
}

enum { SOURCE_WORDS, TARGET_WORDS, SOURCE, TARGET, WEIGHTS, DECODER, FILES };
static const char *const names[FILES] = {
    "source" ET_MARIAN_VOCABULARY_NAME,
    "target" ET_MARIAN_VOCABULARY_NAME,
    ET_TRANSFORMERS_SOURCE_MODEL,
    ET_TRANSFORMERS_TARGET_MODEL,
    "model" ET_MARIAN_NPZ,
    ET_MARIAN_DECODER,
};

static int write_decoder(const et_translator *t, const char *path, et_error *error)
{
    const et_beam_options beam = et_translator_decoder_options(t).beam;
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_printf(&text, "relative-paths: true\nmodels:\n  - %s\nvocabs:\n  - %s\n  - %s\n",
                     names[WEIGHTS], names[SOURCE_WORDS], names[TARGET_WORDS]);
    et_strbuf_printf(&text, "beam-size: %d\nnormalize: %.9g\nword-penalty: 0\n", beam.size,
                     beam.alpha);
    et_strbuf_printf(&text, "allow-unk: %s\nmini-batch: 1\nmaxi-batch: 1\nmaxi-batch-sort: src\n",
                     allows_unknown(t) ? "true" : "false");
    return write_text(path, &text, error);
}

static int write_one(void *self, int which, const char *path, et_error *error)
{
    output *o = self;
    const et_sides *sides = &o->t->sides;
    size_t length;
    if (which == SOURCE_WORDS || which == TARGET_WORDS)
        return write_vocabulary(which == SOURCE_WORDS ? sides->source : sides->target, path, error);
    if (which == WEIGHTS)
        return write_weights(o, path, error);
    if (which == DECODER)
        return write_decoder(o->t, path, error);
    const char *bytes =
        et_vocabulary_bytes(which == SOURCE ? sides->source : sides->target, &length);
    return et_file_write(path, bytes, length, error);
}

int et_translator_export_marian(const et_translator *t, const char *directory,
                                const char *precision, et_error *error)
{
    output o = { .t = t, .model = et_translator_transformer(t), .list = { .params = t->params } };
    (void)precision;
    int status = check_model(t, &o.model, error);
    if (!status)
        status = et_directory_write(directory, names, FILES, write_one, &o, error);
    if (!status)
        warn(t, &o.model);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
