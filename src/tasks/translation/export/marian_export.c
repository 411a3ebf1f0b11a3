#include "tasks/translation/export/export_private.h"

#include <etude/log.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "tasks/translation/interchange/marian_files.h"

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

static int check_start(et_marian_export *m, bool release, et_error *error)
{
    const et_translator *t = m->t;
    const et_vocabulary *v = t->sides.target;
    const int32_t start = et_vocabulary_start(v), last = et_vocabulary_size(v) - 1;
    const char *token = et_vocabulary_token(v, start);
    if (release && start != last)
        return et_fail(error, ET_ECONFIG,
                       "targets begin with the token %s, number %d; Marian has no such token, so "
                       "only the last one can be left out",
                       token, (int)start);
    if (!is_zero(t, m->model.target.scope, start))
        return et_fail(error, ET_ECONFIG,
                       "targets begin with the token %s, whose embedding is not zeros; in Marian a "
                       "target begins with zeros, so it cannot be the same model; train with "
                       "task.model.zero_start=true",
                       token);
    m->tokens[ET_SIDE_SOURCE] = m->model.source.count - (start == last);
    m->tokens[ET_SIDE_TARGET] = m->model.target.count - (start == last);
    return ET_OK;
}

void et_marian_export_warn(const et_marian_export *m)
{
    const et_translator *t = m->t;
    const et_transformer *model = &m->model;
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

bool et_marian_export_shares_table(const et_marian_export *m)
{
    et_assert(m->t);
    return !strcmp(m->model.source.scope, m->model.target.scope);
}

static void set_model(et_value *dict, const et_marian_export *m)
{
    const et_transformer *model = &m->model;
    const bool shared = et_marian_export_shares_table(m);
    const bool tied = !strcmp(model->output.scope, model->target.scope);
    const et_transformer_stack *encoder = &model->encoder, *decoder = &model->decoder;
    const bool wide = encoder->intermediate_size != decoder->intermediate_size;
    et_value_set_string(dict, "type", "transformer");
    et_value_set_int(dict, "enc-depth", encoder->num_layers);
    et_value_set_int(dict, "dec-depth", decoder->num_layers);
    et_value_set_int(dict, "dim-emb", model->width);
    et_value *sizes = et_value_set_list(dict, "dim-vocabs");
    et_value_add_int(sizes, m->tokens[ET_SIDE_SOURCE]);
    et_value_add_int(sizes, m->tokens[ET_SIDE_TARGET]);
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
    et_value_set_string(dict, "transformer-decoder-autoreg",
                        decoder->ssru ? "rnn" : "self-attention");
    et_value_set_string(dict, "dec-cell", decoder->ssru ? "ssru" : "gru");
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
        "ulr-trainable-transformation",
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
    et_value_set_string(dict, "enc-cell", "gru");
    et_value_set_string(dict, "enc-type", "bidirectional");
    et_value_set_list(dict, "transformer-tied-layers");
    et_value_set_list(dict, "input-types");
    et_value_set_string(dict, "version", "v1.12.0");
}

/* ---- weights ---- */

static int list_tensors(et_marian_export *export, et_error *error)
{
    const et_transformer *m = &export->model;
    et_exported_tensors *list = &export->list;
    const int64_t source = export->tokens[ET_SIDE_SOURCE], target = export->tokens[ET_SIDE_TARGET];
    const bool shared = et_marian_export_shares_table(export);
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

int et_marian_export_print_settings(const et_marian_export *m, et_strbuf *text, et_error *error)
{
    et_assert(m->t && text);
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    set_model(dict, m);
    set_rest(dict);
    const bool failed = et_value_failed(dict);
    if (!failed)
        et_yaml_print(text, dict);
    et_arena_release(&arena);
    return failed || text->failed ? et_alloc_failed(error, 0, "settings") : ET_OK;
}

/* ---- all ---- */

int et_marian_export_open(et_marian_export *m, const et_translator *t, bool release,
                          et_error *error)
{
    et_assert(m && t);
    *m = (et_marian_export){ .t = t,
                             .model = et_translator_transformer(t),
                             .list = { .params = t->params } };
    int status = check_settings(&m->model, error);
    if (!status)
        status = et_sides_check_symbols(t->sides, "Marian", error);
    if (!status)
        status = check_start(m, release, error);
    return status ? status : list_tensors(m, error);
}

void et_marian_export_close(et_marian_export *m)
{
    et_exported_tensors_release(&m->list);
}
