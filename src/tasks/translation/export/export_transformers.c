/* Settings become JSON (interchange/foreign_settings.h). */
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

bool et_transformers_shares_table(const et_transformer *model)
{
    et_assert(model);
    return !strcmp(model->source.scope, model->target.scope);
}

/* Of every file: symbols of the target. */
static void set_symbols(et_value *dict, const et_foreign_model *m, const et_translator *t)
{
    const et_vocabulary *v = t->sides.target;
    et_foreign_write(et_foreign_symbols, m, dict);
    if (et_vocabulary_bos(v) >= 0)
        et_value_set_int(dict, "bos_token_id", et_vocabulary_bos(v));
    if (et_translator_decoder_options(t).beam.force_end)
        et_value_set_int(dict, "forced_eos_token_id", m->eos);
    else
        et_value_set_null(dict, "forced_eos_token_id"); /* a missing one is 0 there */
}

static void set_config(et_value *dict, const et_foreign_model *m, const et_transformers_folder *of)
{
    et_value *kinds = et_value_set_list(dict, "architectures");
    et_value_add_string(kinds, "MarianMTModel");
    et_foreign_write(et_foreign_transformers.both, m, dict);
    et_value_set_string(dict, "torch_dtype", of->precision ? of->precision : "float32");
    set_symbols(dict, m, of->translator);
}

static void set_generation(et_value *dict, et_foreign_model *m, const et_transformers_folder *of)
{
    const et_translator *t = of->translator;
    const int64_t most = of->longest ? of->longest : m->positions;
    const et_decoder_options options = et_translator_decoder_options(t);
    const bool own = options.max_length > 0 && options.max_length < most;
    m->longest = own ? options.max_length : most;
    et_value_set_int(m->settings, "beam_size", options.beam.size);
    et_value_set_float(m->settings, "alpha", options.beam.alpha);
    set_symbols(dict, m, t);
    et_foreign_write(et_foreign_transformers.search, m, dict);
    et_value *never = t->choice.never_count ? et_value_set_list(dict, "bad_words_ids") : NULL;
    for (int i = 0; i < t->choice.never_count; i++)
        et_value_add_int(et_value_add_list(never), t->choice.never[i]);
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

static void set_tokenizer(et_value *dict, const et_foreign_model *m, const et_translator *t)
{
    const et_vocabulary *v = t->sides.target;
    et_value_set_string(dict, "tokenizer_class", "MarianTokenizer");
    et_value_set_bool(dict, "separate_vocabs", !shares_table(t));
    et_value_set_string(dict, "eos_token", et_vocabulary_token(v, (int32_t)m->eos));
    et_value_set_string(dict, "pad_token", et_vocabulary_token(v, (int32_t)m->pad));
    et_value_set_string(dict, "unk_token", et_vocabulary_token(v, et_vocabulary_unk(v)));
    et_value_set_int(dict, "model_max_length", m->positions);
    const et_translation_vocabulary *punctuation =
        &((const et_translation_options *)t->experiment.task)->vocabulary;
    set_language(dict, "source_lang", punctuation->source_punctuation);
    set_language(dict, "target_lang", punctuation->target_punctuation);
}

static et_foreign_model model_of(const et_transformers_folder *of, et_arena *arena)
{
    const et_translator *t = of->translator;
    const et_vocabulary *v = t->sides.target;
    const et_transformer model = et_translator_transformer(t);
    return (et_foreign_model){
        .settings = et_foreign_settings(t->experiment.task, arena),
        .tokens = { of->vocab_size, model.target.count },
        .eos = et_vocabulary_eos(v),
        .pad = et_vocabulary_pad(v) < 0 ? et_vocabulary_eos(v) : et_vocabulary_pad(v),
        .start = et_vocabulary_start(v),
        .shared = of->shares || et_transformers_shares_table(&model),
        .tied = !strcmp(model.output.scope, model.target.scope),
        .positions = of->positions ? of->positions : ET_TRANSFORMERS_POSITIONS,
    };
}

static int write_values(const et_transformers_folder *of, int which, const char *path,
                        et_error *error)
{
    const et_translator *t = of->translator;
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    et_foreign_model m = model_of(of, &arena);
    if (which == CONFIG)
        set_config(dict, &m, of);
    else if (which == GENERATION)
        set_generation(dict, &m, of);
    else if (which == TOKENIZER)
        set_tokenizer(dict, &m, t);
    else
        set_tokens(dict, which == VOCABULARY ? t->sides.source : t->sides.target);
    int status = arena.failed ? et_alloc_failed(error, 0, "a model to export")
                              : et_json_write(path, dict, 2, "\n", error);
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
