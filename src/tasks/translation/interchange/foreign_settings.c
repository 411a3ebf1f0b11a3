#include "tasks/translation/interchange/foreign_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "tasks/translation/interchange/marian_files.h"

/* Rows by their kinds. */
#define FACT(name, what, value, member)                                                            \
    {                                                                                              \
        name, NULL, ET_FOREIGN_##what, value, .fact = offsetof(et_foreign_model, member)           \
    }
#define IS(name, what, value, end)                                                                 \
    {                                                                                              \
        name, .kind = ET_FOREIGN_IS_##what, .number = (value), .why = (end)                        \
    }
#define MAP(name, to, what, value)                                                                 \
    {                                                                                              \
        name, to, .kind = ET_FOREIGN_##what, .number = (value)                                     \
    }
#define SIZE(name, to, most, end)                                                                  \
    {                                                                                              \
        name, to, .kind = ET_FOREIGN_SIZE, .number = (most), .why = (end)                          \
    }
#define WORDS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define IS_WORD(name, to, end, ...)                                                                \
    {                                                                                              \
        name, to, .kind = ET_FOREIGN_IS_WORD, .why = (end), .words = WORDS(__VA_ARGS__)            \
    }

/* ---- transformers ---- */

#define REMOVE "which is not supported; remove it"
#define WHOLE  "but no layers are dropped in training; set it to 0"
#define HEADS  "but must divide d_model"

static const et_foreign_row config[] = {
    IS_WORD("model_type", NULL, NULL, "marian"),
    IS("is_encoder_decoder", FLAG, 1, "but a translator has an encoder and a decoder"),
    IS("use_cache", FLAG, 1, NULL),
    FACT("vocab_size", COUNT, 0, tokens[ET_SIDE_SOURCE]),
    FACT("decoder_vocab_size", OPTIONAL, 0, tokens[ET_SIDE_TARGET]),
    MAP("d_model", "embedding_width", WIDTH, 0),
    SIZE("encoder_layers", "encoder.num_layers", ET_TRANSLATION_LAYERS_MAX, NULL),
    SIZE("encoder_attention_heads", "encoder.num_attention_heads", ET_TRANSLATION_HEADS_MAX, HEADS),
    SIZE("encoder_ffn_dim", "encoder.intermediate_size", ET_TRANSLATION_INNER_MAX, NULL),
    SIZE("decoder_layers", "decoder.num_layers", ET_TRANSLATION_LAYERS_MAX, NULL),
    SIZE("decoder_attention_heads", "decoder.num_attention_heads", ET_TRANSLATION_HEADS_MAX, HEADS),
    SIZE("decoder_ffn_dim", "decoder.intermediate_size", ET_TRANSLATION_INNER_MAX, NULL),
    { "activation_function", "*.activation", ET_FOREIGN_WORD, 1,
      "but must be swish, silu, relu, gelu or tanh",
      .words = WORDS("swish", "silu", "relu", "gelu", "tanh"),
      .written = WORDS("linear", "relu", "gelu", "tanh", "sigmoid", "swish", "mish"),
      .needs = "linear, relu, gelu, tanh, sigmoid, swish or mish" },
    MAP("dropout", "*.dropout_rate", RATE, 0),
    MAP("dropout", "dropout_rate", RATE, 0),
    MAP("attention_dropout", "*.attention_dropout_rate", RATE, 0),
    MAP("activation_dropout", "*.intermediate_dropout", RATE, 0),
    FACT("max_position_embeddings", OPTIONAL, 0, positions),
    MAP("scale_embedding", "scale_embeddings", FLAG, 0),
    FACT("share_encoder_decoder_embeddings", FLAG, 1, shared),
    FACT("tie_word_embeddings", FLAG, 1, tied),
    IS("static_position_embeddings", FLAG, 1, "but only sinusoidal positions are supported"),
    MAP(NULL, "*.use_bias", IS_FLAG, 1),
    MAP(NULL, "*.norm_epsilon", IS_REAL, 1e-5),
    IS_WORD(NULL, "sinusoids", NULL, "paper"), /* if no tensor has others */
    MAP(NULL, "output_bias", IS_FLAG, 1),
    { 0 },
};
static const et_foreign_row config_read[] = {
    { "normalize_before", "*.norm_first", ET_FOREIGN_IS_FLAG,
      .why = "but only layers with the norm after them are supported" },
    IS("normalize_embedding", FLAG, 0, "but a norm of embeddings is not supported"),
    { "add_final_layer_norm", "*.final_norm", ET_FOREIGN_IS_FLAG,
      .why = "but a norm after the last layer is not supported" },
    IS("encoder_layerdrop decoder_layerdrop", REAL, 0, WHOLE),
    { 0 },
};
const et_foreign_row et_foreign_symbols[] = {
    FACT("decoder_start_token_id", COUNT, 0, start),
    FACT("eos_token_id", COUNT, 0, eos),
    FACT("pad_token_id", COUNT, 0, pad),
    { 0 },
};
static const et_foreign_row generation[] = {
    FACT("max_length", OPTIONAL, 0, longest),        MAP("num_beams", "beam_size", BEAMS, 0),
    MAP("length_penalty", "alpha", POWER, 1),        IS("renormalize_logits", FLAG, 1, NULL),
    IS_WORD(NULL, "length_penalty", NULL, "length"), { 0 },
};
static const et_foreign_row generation_read[] = {
    IS("do_sample", FLAG, 0, "but translations are searched for; use translate --sampling instead"),
    IS("no_repeat_ngram_size encoder_no_repeat_ngram_size min_length min_new_tokens "
       "diversity_penalty penalty_alpha",
       REAL, 0, REMOVE),
    IS("repetition_penalty encoder_repetition_penalty guidance_scale num_beam_groups", REAL, 1,
       REMOVE),
    IS("early_stopping", FLAG, 0, "which is not supported; set it to false"),
    IS("forced_bos_token_id forced_decoder_ids suppress_tokens sequence_bias begin_suppress_tokens "
       "exponential_decay_length_penalty force_words_ids constraints stop_strings",
       LIST, 0, REMOVE),
    { 0 },
};
const et_foreign_program et_foreign_transformers = {
    "MarianMT of transformers", true, config, config_read, generation, generation_read,
};

/* ---- Marian ---- */

#define POSITIONS "but only sinusoidal positions are supported"
#define FACTORS   "but vocabularies of factors are not supported"
#define NOT       "which is not supported"

/* export_marian.c writes the lists, the fields that depend on several settings, and the
 * recurrence. */
static const et_foreign_row model_yml[] = {
    IS_WORD("type", NULL, "but only models of type transformer are supported", "transformer"),
    SIZE("enc-depth", "encoder.num_layers", ET_TRANSLATION_LAYERS_MAX, NULL),
    SIZE("dec-depth", "decoder.num_layers", ET_TRANSLATION_LAYERS_MAX, NULL),
    MAP("dim-emb", "embedding_width", WIDTH, 0),
    IS("dim-vocabs", LIST, 0, NULL),
    FACT("tied-embeddings", FLAG, 0, only_tied),
    FACT("tied-embeddings-src", FLAG, 0, only_shared),
    FACT("tied-embeddings-all", FLAG, 0, all_tied),
    SIZE("transformer-heads", "*.num_attention_heads", ET_TRANSLATION_HEADS_MAX,
         "but must divide dim-emb"),
    MAP("transformer-dim-ffn", "encoder.intermediate_size", IS_COUNT, 0),
    IS("transformer-decoder-dim-ffn", COUNT, 0, NULL),
    IS("transformer-ffn-depth", COUNT, 2,
       "but only feed-forward layers of two products are supported"),
    IS("transformer-decoder-ffn-depth", COUNT, 0, NULL),
    /* Marian's gelu is x sigmoid(1.702 x), which is another function. */
    { "transformer-ffn-activation", "*.activation", ET_FOREIGN_WORD,
      .why = "but must be swish or relu", .words = WORDS("swish", "relu"),
      .written = WORDS("swish", "relu"), .needs = "swish or relu" },
    IS_WORD("transformer-preprocess", NULL, "but only norms after a layer are supported (\"\")", "",
            "d"),
    IS_WORD("transformer-postprocess", NULL,
            "but only dropout, sum and norm are supported (\"dan\")", "dan", "an"),
    IS_WORD("transformer-postprocess-emb", NULL, "but only dropout is supported (\"d\")", "d", ""),
    IS_WORD("transformer-postprocess-top", NULL, "but a norm after the last layer is not supported",
            "", "d"),
    IS_WORD("transformer-decoder-autoreg", NULL,
            "but only self-attention and rnn are supported in the decoder", "self-attention",
            "rnn"),
    IS_WORD("dec-cell", NULL, NULL, "gru"),
    IS_WORD("transformer-guided-alignment-layer", NULL, NULL, "last"),
    IS("layer-normalization", FLAG, 0, "but only the norms of a Transformer are supported"),
    IS("right-left", FLAG, 0, "but only targets from left to right are supported"),
    IS("transformer-depth-scaling", FLAG, 0, NULL),
    IS("transformer-no-projection", FLAG, 0, "but attention needs its projection"),
    IS("transformer-pool", FLAG, 0, NOT),
    IS("transformer-train-position-embeddings", FLAG, 0, POSITIONS),
    IS("ulr", FLAG, 0, NOT),
    IS("ulr-trainable-transformation", FLAG, 0, NULL),
    IS("skip", FLAG, 0, NULL),
    IS("output-omit-bias", FLAG, 0, "but the output needs its bias"),
    IS("dec-cell-base-depth", COUNT, 2, NULL),
    IS("dec-cell-high-depth", COUNT, 1, NULL),
    IS("enc-cell-depth", COUNT, 1, NULL),
    IS("dim-rnn", COUNT, 1024, NULL),
    IS("lemma-dim-emb", COUNT, 0, FACTORS),
    IS("transformer-dim-aan", COUNT, 2048, NULL),
    IS("transformer-aan-depth", COUNT, 2, NULL),
    IS("ulr-dim-emb", COUNT, 0, NULL),
    IS("transformer-aan-nogate", FLAG, 0, NULL),
    IS_WORD("transformer-aan-activation", NULL, NULL, "swish"),
    IS_WORD("enc-cell", NULL, NULL, "gru"),
    IS_WORD("enc-type", NULL, NULL, "bidirectional"),
    IS("transformer-tied-layers", LIST, 0, "but layers are not shared"),
    { "input-types", NULL, ET_FOREIGN_IS_LIST, 0, "but only sequences are supported",
      .words = WORDS("sequence") },
    IS_WORD("version", NULL, NULL, "v1.12.0"),
    MAP(NULL, "*.use_bias", IS_FLAG, 1),
    MAP(NULL, "*.norm_epsilon", IS_REAL, ET_MARIAN_NORM_EPSILON),
    MAP(NULL, "dropout_rate", IS_REAL, 0.1),
    MAP(NULL, "output_bias", IS_FLAG, 1),
    MAP(NULL, "shrink_beam", IS_FLAG, 1),
    { 0 },
};
static const et_foreign_row model_yml_read[] = {
    MAP(NULL, "*.norm_first", IS_FLAG, 0),
    MAP(NULL, "*.final_norm", IS_FLAG, 0),
    IS_WORD(NULL, "sinusoids", NULL, "tensor2tensor"),
    MAP(NULL, "scale_embeddings", IS_FLAG, 1),
    IS("transformer-no-bias", FLAG, 0, "but all projections need a bias"),
    IS("transformer-no-affine", FLAG, 0, "but norms need a scale and an offset"),
    IS("transformer-train-positions transformer-disable-position-embeddings", FLAG, 0, POSITIONS),
    IS("factors-dim-emb", COUNT, 0, FACTORS),
    MAP("transformer-dropout", "*.dropout_rate", RATE, 0.1),
    MAP("transformer-dropout-attention", "*.attention_dropout_rate", RATE, 0),
    MAP("transformer-dropout-ffn", "*.intermediate_dropout", RATE, 0),
    { 0 },
};
static const et_foreign_row decoder_yml[] = {
    MAP("beam-size", "beam_size", BEAMS, 0),
    MAP("normalize", "alpha", POWER, 0),
    IS_WORD(NULL, "length_penalty", NULL, "length"),
    { 0 },
};
static const et_foreign_row decoder_yml_read[] = {
    IS("word-penalty", COUNT, 0, "which is not supported; set it to 0"),
    IS("int8shift int8shiftAll int8shiftAlpha int8shiftAlphaAll", FLAG, 0,
       "but only float32 is supported"),
    IS("output-approx-knn", LIST, 0, REMOVE),
    { 0 },
};
const et_foreign_program et_foreign_marian = {
    "Marian", false, model_yml, model_yml_read, decoder_yml, decoder_yml_read,
};

/* ---- rows ---- */

enum { STACKS = 2 };
static const char *const stacks[STACKS] = { "encoder", "decoder" };

static et_value fixed_value(const et_foreign_row *r)
{
    switch (r->kind) {
    case ET_FOREIGN_IS_FLAG:
        return (et_value){ .kind = ET_VALUE_BOOL, .boolean = r->number != 0 };
    case ET_FOREIGN_IS_REAL:
        return (et_value){ .kind = ET_VALUE_FLOAT, .real = r->number };
    case ET_FOREIGN_IS_WORD:
        return (et_value){ .kind = ET_VALUE_STRING, .string = *r->words };
    case ET_FOREIGN_IS_LIST:
        return (et_value){ .kind = ET_VALUE_LIST };
    default:
        return (et_value){ .kind = ET_VALUE_INT, .integer = (int64_t)r->number };
    }
}

/* stack: which one "*." names. */
static const et_value *find_setting(const et_value *settings, const char *setting, int stack)
{
    return *setting == '*' ? et_value_get(et_value_get(settings, stacks[stack]), setting + 2)
                           : et_value_path(settings, setting);
}

/* A number or truth value, 0 or 1; anything else: -1. */
static double number_of(const et_value *v)
{
    return v->kind == ET_VALUE_BOOL    ? v->boolean
           : v->kind == ET_VALUE_INT   ? (double)v->integer
           : v->kind == ET_VALUE_FLOAT ? v->real
                                       : -1;
}

static bool is_word(const et_value *v, const char *const *words)
{
    return v->kind == ET_VALUE_STRING && et_is_one_of(v->string, words);
}

/* Whether a value is the fixed value of a row. */
static bool is_fixed(const et_value *v, const et_foreign_row *r)
{
    if (r->kind != ET_FOREIGN_IS_LIST)
        return r->words ? is_word(v, r->words) : number_of(v) == r->number;
    bool is = v->kind == ET_VALUE_LIST;
    for (const et_value *one = is ? v->first : NULL; one && is; one = one->next)
        is = r->words && is_word(one, r->words);
    return is;
}

/* ---- reading ---- */

const et_value *et_foreign_find(const et_foreign_file **file, const char *field)
{
    et_assert(field);
    const et_value *v = et_value_get((*file)->values, field);
    if (v || !(*file)->older)
        return v;
    *file = (*file)->older;
    return et_value_get((*file)->values, field);
}

int et_foreign_refuse(const et_foreign_file *file, const et_value *value, const char *why,
                      et_error *error)
{
    et_assert(value);
    et_strbuf text = ET_STRBUF_INIT;
    et_json_print(&text, value, 0);
    int status = et_fail(error, ET_ECONFIG, "%s: %s is %.100s, %s", file->name, value->key,
                         et_strbuf_text(&text), why);
    et_strbuf_release(&text);
    return status;
}

static int read_int(const et_foreign_file *file, const et_foreign_row *r, const et_foreign_model *m,
                    et_value *got, et_error *error)
{
    char most[64];
    int status = et_value_read_int(file->values, r->field, &got->integer, error);
    if (status)
        return et_fail_while(error, status, "%s", file->name);
    const int64_t is = got->integer;
    const char *why = NULL;
    if (is < 0 || is > INT32_MAX) {
        why = "but must be a count";
    } else if (r->kind == ET_FOREIGN_SIZE && (is < 1 || is > (int64_t)r->number)) {
        snprintf(most, sizeof most, "but must be 1 to %lld", (long long)r->number);
        why = most;
    } else if (r->kind == ET_FOREIGN_SIZE && r->why) {
        const et_value *width = et_value_get(m->settings, "embedding_width");
        why = width && width->integer % is ? r->why : NULL;
    } else if (r->kind == ET_FOREIGN_WIDTH && (is < 4 || is % 2)) {
        why = "but must be even, and at least 4";
    }
    return why ? et_foreign_refuse(file, et_value_get(file->values, r->field), why, error) : ET_OK;
}

/* got: ET_VALUE_NULL if the field is not given. */
static int read_row(const et_foreign_file *file, const et_foreign_row *r, const char *field,
                    const et_foreign_model *m, et_value *got, et_error *error)
{
    const et_value *v = et_foreign_find(&file, field);
    const bool given = v && v->kind != ET_VALUE_NULL;
    const char *why = r->why;
    bool fits = true;
    int status = ET_OK;
    switch (r->kind) {
    case ET_FOREIGN_OPTIONAL:
        if (!given)
            return ET_OK;
        /* fall through */
    case ET_FOREIGN_COUNT:
    case ET_FOREIGN_SIZE:
    case ET_FOREIGN_WIDTH:
        got->kind = ET_VALUE_INT;
        return read_int(file, r, m, got, error);
    case ET_FOREIGN_BEAMS:
        *got = (et_value){ .kind = ET_VALUE_INT, .integer = given ? v->integer : 1 };
        fits = !given || (v->kind == ET_VALUE_INT && v->integer >= 1 && v->integer <= 64);
        why = "but must be from 1 to 64";
        break;
    case ET_FOREIGN_POWER:
        *got = (et_value){ .kind = ET_VALUE_FLOAT, .real = given ? number_of(v) : r->number };
        fits = got->real >= 0 && got->real <= ET_TRANSLATION_ALPHA_MAX;
        why = "but must be from 0 to 10";
        break;
    case ET_FOREIGN_RATE:
        *got = (et_value){ .kind = ET_VALUE_FLOAT, .real = r->number };
        status = given ? et_value_read_float(file->values, field, &got->real, error) : ET_OK;
        fits = got->real >= 0 && got->real <= 1;
        why = "but must be from 0 to 1";
        break;
    case ET_FOREIGN_FLAG:
        fits = !given || v->kind == ET_VALUE_BOOL;
        *got = (et_value){ .kind = ET_VALUE_BOOL,
                           .boolean = given && fits ? v->boolean : r->number != 0 };
        why = "but must be true or false";
        break;
    case ET_FOREIGN_WORD:
        *got = (et_value){ .kind = ET_VALUE_STRING, .string = *r->words };
        if (r->number != 0)
            status = et_value_read_string(file->values, field, &got->string, error);
        fits = !v || is_word(v, r->words);
        if (v && fits) /* transformers has two names of swish */
            got->string = strcmp(v->string, "silu") != 0 ? v->string : "swish";
        break;
    default:
        *got = fixed_value(r);
        fits = !given || is_fixed(v, r);
        break;
    }
    if (status)
        return et_fail_while(error, status, "%s", file->name);
    return fits ? ET_OK : et_foreign_refuse(file, v, why, error);
}

static int64_t *fact_of(const et_foreign_model *m, const et_foreign_row *r)
{
    return (int64_t *)(void *)((char *)m + r->fact);
}

int et_foreign_read(const et_foreign_file *file, const et_foreign_row *rows, et_foreign_model *m,
                    et_error *error)
{
    et_assert(rows && m);
    for (const et_foreign_row *r = rows; r->kind; r++) {
        et_value got = fixed_value(r);
        if (r->field && r->kind >= ET_FOREIGN_IS_FLAG && !r->why)
            continue;
        for (const char *at = r->field; at && *at;) {
            char field[96];
            const int length = (int)strcspn(at, " ");
            snprintf(field, sizeof field, "%.*s", length, at);
            got.kind = ET_VALUE_NULL;
            int status = read_row(file, r, field, m, &got, error);
            if (status)
                return status;
            at += length + (at[length] == ' ');
        }
        if (r->fact && got.kind != ET_VALUE_NULL)
            *fact_of(m, r) = got.kind == ET_VALUE_BOOL ? got.boolean : got.integer;
        const char *dot = r->setting ? strchr(r->setting, '.') : NULL;
        if (r->setting && !dot)
            et_value_set_copy(m->settings, r->setting, &got);
        for (int i = 0; i < STACKS && dot; i++)
            if (*r->setting == '*' || *r->setting == *stacks[i])
                et_value_set_copy(et_value_get(m->settings, stacks[i]), dot + 1, &got);
    }
    return ET_OK;
}

/* ---- writing ---- */

et_value *et_foreign_settings(const et_translation_options *options, et_arena *arena)
{
    return et_value_get(et_fields_echo(&et_translation_fields, options, arena), "model");
}

void et_foreign_write(const et_foreign_row *rows, const et_foreign_model *m, et_value *dict)
{
    et_assert(rows && m);
    for (const et_foreign_row *r = rows; r->kind; r++) {
        et_value value = fixed_value(r);
        const et_value *setting = r->setting ? find_setting(m->settings, r->setting, 0) : NULL;
        if (!r->field)
            continue;
        if (r->fact && r->kind == ET_FOREIGN_FLAG)
            value = (et_value){ .kind = ET_VALUE_BOOL, .boolean = *fact_of(m, r) != 0 };
        else if (r->fact)
            value.integer = *fact_of(m, r);
        else if (setting)
            value = *setting;
        if (r->written && setting && !et_is_one_of(value.string, r->written))
            value.string = *r->written;
        et_value_set_copy(dict, r->field, &value);
    }
}

/* The value of a setting in a message; number: for its digits. */
static const char *text_of(const et_value *value, char number[32])
{
    if (value->kind == ET_VALUE_STRING)
        return value->string;
    if (value->kind == ET_VALUE_BOOL)
        return value->boolean ? "true" : "false";
    if (value->kind != ET_VALUE_INT)
        return "another";
    snprintf(number, 32, "%lld", (long long)value->integer);
    return number;
}

static int refuse_setting(const et_foreign_program *p, const char *setting, int stack,
                          const et_value *value, const char *needed, et_error *error)
{
    char name[64], number[32], cure[256] = "";
    snprintf(name, sizeof name, "%s%s", *setting == '*' ? stacks[stack] : "",
             *setting == '*' ? setting + 1 : setting);
    if (p->retrains)
        snprintf(cure, sizeof cure, ", or train another run with task.model.%s=%s", name, needed);
    return et_fail(error, ET_ECONFIG,
                   "task.model.%s is %s, but %s needs %s; use --format onnx or ctranslate2%s", name,
                   text_of(value, number), p->name, needed, cure);
}

/* Checks the settings of a stack (0, 1), or all others (-1). A size or a word may be one field for
 * both stacks. */
static int check_settings(const et_foreign_program *p, const et_value *settings, int stack,
                          et_error *error)
{
    for (const et_foreign_row *r = p->read; r->kind; r++) {
        if (!r->setting || r->kind < ET_FOREIGN_IS_FLAG || (*r->setting == '*') != (stack >= 0))
            continue;
        const et_value *v = find_setting(settings, r->setting, stack);
        if (!is_fixed(v, r))
            return refuse_setting(p, r->setting, stack, v,
                                  r->words         ? *r->words
                                  : r->number != 0 ? "true"
                                                   : "false",
                                  error);
    }
    for (const et_foreign_row *r = p->both; r->kind && stack >= 0; r++) {
        if (!r->written && !(r->kind == ET_FOREIGN_SIZE && *r->setting == '*'))
            continue;
        const et_value *v = find_setting(settings, r->setting, stack);
        const et_value *other = find_setting(settings, r->setting, 0);
        if (r->written && !is_word(v, r->written))
            return refuse_setting(p, r->setting, stack, v, r->needs, error);
        if (r->written ? strcmp(v->string, other->string) != 0 : v->integer != other->integer) {
            char needed[80], number[32];
            snprintf(needed, sizeof needed, "%s, as in the encoder", text_of(other, number));
            return refuse_setting(p, r->setting, stack, v, needed, error);
        }
    }
    return ET_OK;
}

int et_foreign_check(const et_foreign_program *program, const et_translation_options *options,
                     et_error *error)
{
    et_assert(program && options);
    et_arena arena = ET_ARENA_INIT;
    const et_value *settings = et_foreign_settings(options, &arena);
    int status = et_value_failed(settings) ? et_alloc_failed(error, "settings") : ET_OK;
    for (int stack = 0; stack <= STACKS && !status; stack++)
        status = check_settings(program, settings, stack < STACKS ? stack : -1, error);
    et_arena_release(&arena);
    return status;
}
