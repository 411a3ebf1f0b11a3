/* Settings become JSON; every name of a field is transformers'. */
#include "tasks/translation/export/export_private.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/torch/transformers_files.h"
#include <etude/log.h>

/* Names of texts; the first only of a model whose sides have a table each. */
static const char *const texts[] = {
    ET_TRANSFORMERS_TARGET_VOCABULARY, ET_TRANSFORMERS_CONFIG,       ET_TRANSFORMERS_GENERATION,
    ET_TRANSFORMERS_SOURCE_MODEL,      ET_TRANSFORMERS_TARGET_MODEL, ET_TRANSFORMERS_VOCABULARY,
    ET_TRANSFORMERS_TOKENIZER,
};
enum { TARGET_VOCABULARY, CONFIG, GENERATION, SOURCE, TARGET, VOCABULARY, TOKENIZER, TEXTS };

/* "relu" and so on are called the same there. */
const char *et_transformers_activation(et_activation activation)
{
    static const char *const names_of[] = {
        [ET_ACTIVATION_LINEAR] = "linear",   [ET_ACTIVATION_RELU] = "relu",
        [ET_ACTIVATION_GELU] = "gelu",       [ET_ACTIVATION_TANH] = "tanh",
        [ET_ACTIVATION_SIGMOID] = "sigmoid", [ET_ACTIVATION_SWISH] = "swish",
        [ET_ACTIVATION_MISH] = "mish",
    };
    const size_t count = sizeof names_of / sizeof *names_of;
    return (size_t)activation < count ? names_of[activation] : NULL;
}

bool et_transformers_shares_table(const et_transformer *model)
{
    et_assert(model);
    return !strcmp(model->source.scope, model->target.scope);
}

/* Of every file: symbols of the target. */
static void set_symbols(et_value *dict, const et_translator *t)
{
    const et_vocabulary *v = t->sides.target;
    et_value_set_int(dict, "decoder_start_token_id", et_vocabulary_start(v));
    et_value_set_int(dict, "eos_token_id", et_vocabulary_eos(v));
    et_value_set_int(dict, "pad_token_id",
                     et_vocabulary_pad(v) < 0 ? et_vocabulary_eos(v) : et_vocabulary_pad(v));
    if (et_vocabulary_bos(v) >= 0)
        et_value_set_int(dict, "bos_token_id", et_vocabulary_bos(v));
    if (et_translator_decoder_options(t).beam.force_end)
        et_value_set_int(dict, "forced_eos_token_id", et_vocabulary_eos(v));
    else
        et_value_set_null(dict, "forced_eos_token_id"); /* a missing one is 0 there */
}

static int64_t positions_of(const et_transformers_folder *of)
{
    return of->positions ? of->positions : ET_TRANSFORMERS_POSITIONS;
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

static void set_config(et_value *dict, const et_transformers_folder *of, et_arena *arena)
{
    const et_translator *t = of->translator;
    const et_transformer model = et_translator_transformer(t);
    const et_translation_model *settings =
        &((const et_translation_options *)t->experiment.task)->model;
    const char *activation = et_transformers_activation(model.encoder.activation);
    et_value *kinds = et_value_set_list(dict, "architectures");
    if (kinds)
        et_value_add_string(kinds, "MarianMTModel");
    et_value_set_string(dict, "model_type", "marian");
    et_value_set_bool(dict, "is_encoder_decoder", true);
    et_value_set_bool(dict, "use_cache", true);
    et_value_set_int(dict, "vocab_size", of->vocab_size);
    et_value_set_int(dict, "decoder_vocab_size", model.target.count);
    et_value_set_int(dict, "d_model", model.width);
    set_stack(dict, "encoder", &model.encoder, arena);
    set_stack(dict, "decoder", &model.decoder, arena);
    et_value_set_string(dict, "activation_function", activation ? activation : "linear");
    et_value_set_float(dict, "dropout", settings->dropout_rate);
    et_value_set_float(dict, "attention_dropout", settings->encoder.attention_dropout_rate);
    et_value_set_float(dict, "activation_dropout", settings->encoder.intermediate_dropout);
    et_value_set_int(dict, "max_position_embeddings", positions_of(of));
    et_value_set_bool(dict, "scale_embedding", !model.plain_embeddings);
    et_value_set_bool(dict, "share_encoder_decoder_embeddings",
                      of->shares || et_transformers_shares_table(&model));
    et_value_set_bool(dict, "tie_word_embeddings", !strcmp(model.output.scope, model.target.scope));
    et_value_set_bool(dict, "static_position_embeddings", true);
    et_value_set_string(dict, "torch_dtype", of->precision ? of->precision : "float32");
    set_symbols(dict, t);
}

static void set_generation(et_value *dict, const et_transformers_folder *of)
{
    const et_translator *t = of->translator;
    const int64_t most = of->longest ? of->longest : positions_of(of);
    const et_decoder_options options = et_translator_decoder_options(t);
    set_symbols(dict, t);
    const bool own = options.max_length > 0 && options.max_length < most;
    et_value_set_int(dict, "max_length", own ? options.max_length : most);
    et_value_set_int(dict, "num_beams", options.beam.size);
    et_value_set_float(dict, "length_penalty", options.beam.alpha);
    et_value_set_bool(dict, "renormalize_logits", true);
    et_value *never = t->choice.never_count ? et_value_set_list(dict, "bad_words_ids") : NULL;
    for (int i = 0; never && i < t->choice.never_count; i++) {
        et_value *word = et_value_add_list(never);
        if (word)
            et_value_add_int(word, t->choice.never[i]);
    }
    et_value_set_bool(dict, "use_cache", true);
}

/* All tokens differ, so none needs a look-up before it is added. */
static void set_tokens(et_value *dict, const et_vocabulary *vocabulary)
{
    for (int32_t i = 0; i < et_vocabulary_size(vocabulary); i++) {
        const et_value id = { .kind = ET_VALUE_INT, .integer = i };
        et_value_append_copy(dict, et_vocabulary_token(vocabulary, i), &id);
    }
}

static bool shares_table(const et_translator *t)
{
    const et_transformer model = et_translator_transformer(t);
    return et_transformers_shares_table(&model);
}

/* MarianTokenizer.normalize normalizes punctuation by it. */
static void set_language(et_value *dict, const char *field, const char *language)
{
    if (language && *language)
        et_value_set_string(dict, field, language);
}

static void set_tokenizer(et_value *dict, const et_transformers_folder *of)
{
    const et_translator *t = of->translator;
    const et_vocabulary *v = t->sides.target;
    const int32_t pad = et_vocabulary_pad(v) < 0 ? et_vocabulary_eos(v) : et_vocabulary_pad(v);
    et_value_set_string(dict, "tokenizer_class", "MarianTokenizer");
    et_value_set_bool(dict, "separate_vocabs", !shares_table(t));
    et_value_set_string(dict, "eos_token", et_vocabulary_token(v, et_vocabulary_eos(v)));
    et_value_set_string(dict, "pad_token", et_vocabulary_token(v, pad));
    et_value_set_string(dict, "unk_token", et_vocabulary_token(v, et_vocabulary_unk(v)));
    et_value_set_int(dict, "model_max_length", positions_of(of));
    const et_translation_vocabulary *punctuation =
        &((const et_translation_options *)t->experiment.task)->vocabulary;
    set_language(dict, "source_lang", punctuation->source_punctuation);
    set_language(dict, "target_lang", punctuation->target_punctuation);
}

static int write_values(const et_transformers_folder *of, int which, const char *path,
                        et_error *error)
{
    const et_translator *t = of->translator;
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    if (dict && which == CONFIG)
        set_config(dict, of, &arena);
    if (dict && which == GENERATION)
        set_generation(dict, of);
    if (dict && which == VOCABULARY)
        set_tokens(dict, t->sides.source);
    if (dict && which == TARGET_VOCABULARY)
        set_tokens(dict, t->sides.target);
    if (dict && which == TOKENIZER)
        set_tokenizer(dict, of);
    int status = dict && !et_value_failed(dict) && !arena.failed
                     ? et_json_write(path, dict, 2, "\n", error)
                     : et_alloc_failed(error, 0, "a model to export");
    et_arena_release(&arena);
    return status;
}

/* ---- all ---- */

/* The files, and the first of the names of texts that this model has. */
typedef struct output {
    const et_transformers_folder *of;
    int first;
} output;

static int write_one(void *self, int number, const char *path, et_error *error)
{
    const output *o = self;
    const et_translator *t = o->of->translator;
    const int which = o->first + number;
    size_t length;
    if (which >= TEXTS)
        return o->of->write(o->of->self, which - TEXTS, path, error);
    if (which != SOURCE && which != TARGET)
        return write_values(o->of, which, path, error);
    const char *bytes =
        et_vocabulary_bytes(which == SOURCE ? t->sides.source : t->sides.target, &length);
    return et_file_write(path, bytes, length, error);
}

int et_transformers_write(const et_transformers_folder *folder, const char *directory,
                          et_error *error)
{
    const char *names[TEXTS + 4];
    const et_translator *t = folder->translator;
    output o = { folder, shares_table(t) ? CONFIG : TARGET_VOCABULARY };
    int count = 0;
    et_assert(folder->count <= 4);
    for (int i = o.first; i < TEXTS; i++)
        names[count++] = texts[i];
    for (int i = 0; i < folder->count; i++)
        names[count++] = folder->names[i];
    int status = et_sides_check_symbols(t->sides, "transformers", error);
    if (!status)
        status = et_directory_write(directory, names, count, write_one, &o, error);
    if (!status) {
        /* transformers divides by length^length_penalty, and its beam is always as wide. */
        const et_beam_options beam = et_translator_decoder_options(t).beam;
        if (beam.size > 1 && beam.alpha > 0 && !beam.by_length)
            et_log(ET_LOG_WARNING,
                   "the search of transformers has no task.model.length_penalty gnmt: beam search "
                   "there divides by length^%g, so some translations differ",
                   beam.alpha);
        if (beam.size > 1 && beam.shrinks)
            et_log(ET_LOG_WARNING,
                   "the search of transformers has no task.model.shrink_beam, so some "
                   "translations differ");
    }
    return status;
}
