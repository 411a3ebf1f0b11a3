/* config.json and generation_config.json. There are four kinds of fields: a number or a word that
 * becomes a setting; a fact about the files; a field that must have a certain value; a field that
 * changes neither the model nor its use, and is ignored. */
#include "base/assert.h"
#include "formats/torch/transformers_files.h"
#include "tasks/translation/import/import_private.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/values/value.h"

static const et_import_fixed model_fields[] = {
    { "is_encoder_decoder", 1, "but a translator has an encoder and a decoder" },
    { "static_position_embeddings", 1, "but only sinusoidal positions are supported" },
    { "normalize_before", 0, "but only layers with the norm after them are supported" },
    { "normalize_embedding", 0, "but a norm of embeddings is not supported" },
    { "add_final_layer_norm", 0, "but a norm after the last layer is not supported" },
    { "encoder_layerdrop", 0, "but no layers are dropped in training; set it to 0" },
    { "decoder_layerdrop", 0, "but no layers are dropped in training; set it to 0" },
};
static const et_import_fixed search_fields[] = {
    { "do_sample", 0, "but translations are searched for; use translate --sampling instead" },
    { "no_repeat_ngram_size", 0, "which is not supported; remove it" },
    { "encoder_no_repeat_ngram_size", 0, "which is not supported; remove it" },
    { "repetition_penalty", 1, "which is not supported; remove it" },
    { "encoder_repetition_penalty", 1, "which is not supported; remove it" },
    { "min_length", 0, "which is not supported; remove it" },
    { "min_new_tokens", 0, "which is not supported; remove it" },
    { "diversity_penalty", 0, "which is not supported; remove it" },
    { "guidance_scale", 1, "which is not supported; remove it" },
    { "penalty_alpha", 0, "which is not supported; remove it" },
    { "early_stopping", 0, "which is not supported; set it to false" },
    { "num_beam_groups", 1, "which is not supported; remove it" },
};

/* Fields that must be null, or an empty list. */
static const char *const search_lists[] = {
    "forced_bos_token_id", "forced_decoder_ids",    "suppress_tokens",
    "sequence_bias",       "begin_suppress_tokens", "exponential_decay_length_penalty",
    "force_words_ids",     "constraints",           "stop_strings",
};

/* Words of transformers for our activations. */
static int read_activation(const et_import_config *c, const char **name, et_error *error)
{
    static const char *const words[][2] = {
        { "swish", "swish" }, { "silu", "swish" }, { "relu", "relu" },
        { "gelu", "gelu" },   { "tanh", "tanh" },
    };
    const char *word;
    int status = et_value_read_string(c->values, "activation_function", &word, error);
    if (status)
        return et_fail_while(error, status, "%s", c->name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], word)) {
            *name = words[i][1];
            return ET_OK;
        }
    return et_import_refuse(c, et_value_get(c->values, "activation_function"),
                            "but must be swish, silu, relu, gelu or tanh", error);
}

/* ---- the model ---- */

static int read_stack(et_import *from, const et_import_config *c, const char *name, et_value *model,
                      et_error *error)
{
    static const struct {
        const char *field, *setting;
        int64_t most;
    } fields[] = {
        { "layers", "num_layers", ET_TRANSLATION_LAYERS_MAX },
        { "attention_heads", "num_attention_heads", ET_TRANSLATION_HEADS_MAX },
        { "ffn_dim", "intermediate_size", ET_TRANSLATION_INNER_MAX },
    };
    static const char *const rates[][2] = {
        { "dropout", "dropout_rate" },
        { "attention_dropout", "attention_dropout_rate" },
        { "activation_dropout", "intermediate_dropout" },
    };
    et_value *stack = et_value_set_dict(model, name);
    const char *activation = NULL;
    int status = read_activation(c, &activation, error);
    for (size_t i = 0; i < 3 && !status; i++) {
        int64_t count = 0;
        double rate = 0;
        const char *field = et_arena_printf(&from->arena, "%s_%s", name, fields[i].field);
        status = field ? et_import_read_size(c, field, fields[i].most, &count, error)
                       : et_alloc_failed(error, 0, "a name");
        if (!status)
            status = et_import_read_rate(c, rates[i][0], 0, &rate, error);
        et_value_set_int(stack, fields[i].setting, count);
        et_value_set_float(stack, rates[i][1], rate);
    }
    et_value_set_string(stack, "activation", activation);
    et_value_set_bool(stack, "use_bias", true);
    et_value_set_bool(stack, "norm_first", false);
    et_value_set_bool(stack, "final_norm", false);
    et_value_set_float(stack, "norm_epsilon", 1e-5);
    return status;
}

static int read_width(const et_import_config *c, et_value *model, et_error *error)
{
    static const char why[] = "but must divide d_model";
    int64_t width = 0;
    int status = et_import_read_count(c, "d_model", &width, error);
    if (!status)
        status = et_import_check_width(c, "d_model", width, error);
    if (!status)
        status = et_import_check_heads(c, "encoder_attention_heads", width, why, error);
    if (!status)
        status = et_import_check_heads(c, "decoder_attention_heads", width, why, error);
    et_value_set_int(model, "embedding_width", width);
    return status;
}

static int read_optional(const et_import_config *c, const char *field, int64_t *out,
                         et_error *error)
{
    const et_value *v = et_value_get(c->values, field);
    return v && v->kind != ET_VALUE_NULL ? et_import_read_count(c, field, out, error) : ET_OK;
}

/* What the tables and symbols are. */
static int read_facts(et_import *from, const et_import_config *c, et_error *error)
{
    et_import_facts *facts = &from->facts;
    int64_t start = 0;
    int status = et_import_read_count(c, "vocab_size", &facts->tokens[ET_SIDE_SOURCE], error);
    facts->tokens[ET_SIDE_TARGET] = facts->tokens[ET_SIDE_SOURCE];
    const et_value *own = et_value_get(c->values, "decoder_vocab_size");
    if (!status && own && own->kind != ET_VALUE_NULL)
        status =
            et_import_read_count(c, "decoder_vocab_size", &facts->tokens[ET_SIDE_TARGET], error);
    if (!status)
        status = et_import_read_count(c, "eos_token_id", &facts->eos, error);
    if (!status)
        status = et_import_read_count(c, "pad_token_id", &facts->pad, error);
    if (!status)
        status = et_import_read_count(c, "decoder_start_token_id", &start, error);
    if (!status && start != facts->pad)
        status = et_import_refuse(c, et_value_get(c->values, "decoder_start_token_id"),
                                  "but targets must begin with pad_token_id", error);
    if (!status)
        status = read_optional(c, "max_position_embeddings", &facts->positions, error);
    if (!status)
        status =
            et_import_read_bool(c, "share_encoder_decoder_embeddings", true, &facts->shared, error);
    if (!status)
        status = et_import_read_bool(c, "tie_word_embeddings", true, &facts->tied, error);
    return status;
}

static int read_model(et_import *from, const et_import_config *c, et_value *model, et_error *error)
{
    double dropout = 0;
    bool scaled = false;
    int status = read_stack(from, c, "encoder", model, error);
    if (!status)
        status = read_stack(from, c, "decoder", model, error);
    if (!status)
        status = read_width(c, model, error);
    if (!status)
        status = read_facts(from, c, error);
    if (!status)
        status = et_import_read_rate(c, "dropout", 0, &dropout, error);
    if (!status)
        status = et_import_read_bool(c, "scale_embedding", false, &scaled, error);
    et_value_set_float(model, "dropout_rate", dropout);
    et_value_set_bool(model, "tied_embeddings", from->facts.tied);
    et_value_set_bool(model, "shared_embeddings", from->facts.shared);
    et_value_set_bool(model, "scale_embeddings", scaled);
    et_value_set_string(model, "sinusoids", "paper");
    et_value_set_bool(model, "output_bias", true);
    return status;
}

/* ---- the search ---- */

/* Fields of a search are in generation_config.json; of older models, in config.json. */
static et_import_field find_search(const et_import_config *search, const et_import_config *c,
                                   const char *field)
{
    const et_value *v = et_value_get(search->values, field);
    return v ? (et_import_field){ search, v }
             : (et_import_field){ c, et_value_get(c->values, field) };
}

static int check_search(const et_import_config *c, et_error *error)
{
    int status = et_import_check_fixed(c, search_fields,
                                       sizeof search_fields / sizeof *search_fields, error);
    for (size_t i = 0; i < sizeof search_lists / sizeof *search_lists && !status; i++) {
        const et_value *v = et_value_get(c->values, search_lists[i]);
        if (v && v->kind != ET_VALUE_NULL && (v->kind != ET_VALUE_LIST || v->count))
            status = et_import_refuse(c, v, "which is not supported; remove it", error);
    }
    return status;
}

/* The search must use the model's symbols. A list with one end symbol is this symbol. */
static int check_symbols(const et_import *from, const et_import_config *search, et_error *error)
{
    const et_import_facts *facts = &from->facts;
    const struct {
        const char *field;
        int64_t is;
    } symbols[] = { { "eos_token_id", facts->eos },
                    { "pad_token_id", facts->pad },
                    { "decoder_start_token_id", facts->pad } };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        const et_value *v = et_value_get(search->values, symbols[i].field), *one = v;
        if (v && v->kind == ET_VALUE_LIST && v->count == 1)
            one = v->first;
        if (one && one->kind != ET_VALUE_NULL &&
            (one->kind != ET_VALUE_INT || one->integer != symbols[i].is))
            return et_import_refuse(search, v, "but must be as in " ET_TRANSFORMERS_CONFIG, error);
    }
    return ET_OK;
}

/* Lists of one number each: texts of several tokens cannot be forbidden. Numbers become tokens when
 * the vocabulary is known. */
static int read_bad_words(const et_import_config *c, const et_value *words, et_value *list,
                          et_error *error)
{
    if (words->kind != ET_VALUE_LIST)
        return et_import_refuse(c, words, "but must be a list of lists", error);
    for (const et_value *w = words->first; w; w = w->next) {
        if (w->kind != ET_VALUE_LIST || w->count != 1 || w->first->kind != ET_VALUE_INT)
            return et_import_refuse(c, words, "but only single tokens can be forbidden", error);
        et_value_add_int(list, w->first->integer);
    }
    return ET_OK;
}

static int read_search(et_import *from, const et_import_config *c, const et_import_config *search,
                       et_value *model, et_error *error)
{
    const et_import_field words = find_search(search, c, "bad_words_ids");
    et_value *never = et_value_set_list(model, "suppressed_tokens");
    const et_import_field longest = find_search(search, c, "max_length");
    int status = check_symbols(from, search, error);
    if (!status && longest.value)
        status = read_optional(longest.of, "max_length", &from->facts.longest, error);
    if (!status)
        status = et_import_read_search(find_search(search, c, "num_beams"),
                                       find_search(search, c, "length_penalty"), 1, model, error);
    if (!status && words.value && words.value->kind != ET_VALUE_NULL)
        status = read_bad_words(words.of, words.value, never, error);
    if (status)
        return status;
    /* A number, or null. Older versions of transformers allowed a list; none is published. */
    et_import_field end = find_search(search, c, "forced_eos_token_id");
    const bool is = end.value && end.value->kind != ET_VALUE_NULL;
    if (is && (end.value->kind != ET_VALUE_INT || end.value->integer != from->facts.eos))
        return et_import_refuse(end.of, end.value, "but must be eos_token_id", error);
    et_value_set_bool(model, "force_end", is);
    return ET_OK;
}

/* ---- both files ---- */

static int check_type(const et_import_config *c, et_error *error)
{
    const et_value *type = et_value_get(c->values, "model_type");
    const et_value *narrow = et_value_get(c->values, "quantization_config");
    if (!type || type->kind != ET_VALUE_STRING)
        return et_fail(error, ET_EFORMAT, "%s has no model_type", c->name);
    if (strcmp(type->string, "marian") != 0)
        return et_import_refuse(c, type, "but only models of type marian are supported", error);
    return narrow ? et_import_refuse(c, narrow,
                                     "but only float32, float16 and bfloat16 are supported", error)
                  : ET_OK;
}

int et_import_read_config(et_import *from, et_error *error)
{
    et_assert(!from->marian);
    et_value *values = NULL, *generation = NULL;
    int status = et_import_read_json(from, ET_TRANSFORMERS_CONFIG, &values, error);
    if (!status && et_import_has(from, ET_TRANSFORMERS_GENERATION))
        status = et_import_read_json(from, ET_TRANSFORMERS_GENERATION, &generation, error);
    if (status)
        return status;
    const et_import_config c = { et_import_path(from, ET_TRANSFORMERS_CONFIG), values };
    const et_import_config search = { et_import_path(from, ET_TRANSFORMERS_GENERATION),
                                      generation };
    from->settings = et_value_dict(&from->arena);
    et_value *model = et_value_set_dict(from->settings, "model");
    if (!c.name || !search.name || !model)
        return et_alloc_failed(error, 0, "settings");
    status = check_type(&c, error);
    if (!status)
        status = et_import_check_fixed(&c, model_fields, sizeof model_fields / sizeof *model_fields,
                                       error);
    for (int i = 0; i < 2 && !status; i++)
        status = check_search(i ? &search : &c, error);
    if (!status)
        status = read_model(from, &c, model, error);
    return status ? status : read_search(from, &c, generation ? &search : &c, model, error);
}
