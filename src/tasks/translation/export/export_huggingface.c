/* The model as a folder that MarianMTModel and MarianTokenizer of transformers load: settings and
 * tokenizer as JSON (interchange/foreign_settings.h), and model.safetensors. Refuses settings that
 * such a model cannot express; the error names the setting.
 *
 * transformers computes the sinusoids of the paper. For other sinusoids, the export has their table
 * among the weights, which transformers loads. Tensors that an import did not use are written
 * unchanged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/kernel/positions.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/transformers_files.h"
#include "tasks/translation/export/export_private.h"
#include "tasks/translation/interchange/unused_tensors.h"
#include "train/checkpoint/artifact/artifact.h"

/* ---- texts, also for the export to ONNX ---- */

/* Names of texts. The first is only for models with a table for each side. */
static const char *const texts[] = {
    ET_TRANSFORMERS_TARGET_VOCABULARY, ET_TRANSFORMERS_CONFIG,       ET_TRANSFORMERS_GENERATION,
    ET_TRANSFORMERS_SOURCE_MODEL,      ET_TRANSFORMERS_TARGET_MODEL, ET_TRANSFORMERS_VOCABULARY,
    ET_TRANSFORMERS_TOKENIZER,
};
enum { TARGET_VOCABULARY, CONFIG, GENERATION, SOURCE, TARGET, VOCABULARY, TOKENIZER, TEXTS };

/* For every file: symbols of the target. */
static void set_symbols(et_value *dict, const et_foreign_model *m, const et_translator *t)
{
    const et_vocabulary *v = t->sides.target;
    et_foreign_write(et_foreign_symbols, m, dict);
    if (et_vocabulary_bos(v) >= 0)
        et_value_set_int(dict, "bos_token_id", et_vocabulary_bos(v));
    if (et_translator_decoder_options(t).beam.force_end)
        et_value_set_int(dict, "forced_eos_token_id", m->eos);
    else
        et_value_set_null(dict, "forced_eos_token_id"); /* in transformers, a missing value is 0 */
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

/* MarianTokenizer.normalize normalizes punctuation by it. */
static void set_language(et_value *dict, const char *field, const char *language)
{
    if (language && *language)
        et_value_set_string(dict, field, language);
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
        .pad = et_vocabulary_start(v), /* also without a pad token */
        .start = et_vocabulary_start(v),
        .shared = of->shares || et_export_shares(&model),
        .tied = et_export_ties(&model),
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
    if (which == CONFIG) {
        et_value *kinds = et_value_set_list(dict, "architectures");
        et_value_add_string(kinds, "MarianMTModel");
        et_foreign_write(et_foreign_transformers.both, &m, dict);
        et_value_set_string(dict, "torch_dtype", of->precision ? of->precision : "float32");
        set_symbols(dict, &m, of->translator);
    } else if (which == GENERATION)
        set_generation(dict, &m, of);
    else if (which == TOKENIZER) {
        const et_vocabulary *v = t->sides.target;
        const et_transformer model = et_translator_transformer(t);
        et_value_set_string(dict, "tokenizer_class", "MarianTokenizer");
        et_value_set_bool(dict, "separate_vocabs", !et_export_shares(&model));
        et_value_set_string(dict, "eos_token", et_vocabulary_token(v, (int32_t)m.eos));
        et_value_set_string(dict, "pad_token", et_vocabulary_token(v, (int32_t)m.pad));
        et_value_set_string(dict, "unk_token", et_vocabulary_token(v, et_vocabulary_unk(v)));
        et_value_set_int(dict, "model_max_length", m.positions);
        const et_translation_vocabulary *punctuation =
            &((const et_translation_options *)t->experiment.task)->vocabulary;
        set_language(dict, "source_lang", punctuation->source_punctuation);
        set_language(dict, "target_lang", punctuation->target_punctuation);
    } else {
        /* All tokens differ, so none needs a look-up before it is added. */
        const et_vocabulary *vocabulary = which == VOCABULARY ? t->sides.source : t->sides.target;
        for (int32_t i = 0; i < et_vocabulary_size(vocabulary); i++) {
            const et_value id = { .kind = ET_VALUE_INT, .integer = i };
            et_value_append_copy(dict, et_vocabulary_token(vocabulary, i), &id);
        }
    }
    int status = arena.failed ? et_alloc_failed(error, "a model to export")
                              : et_json_write(path, dict, 2, "\n", error);
    et_arena_release(&arena);
    return status;
}

/* The files, and the first of the names of texts that this model has. */
typedef struct folder_files {
    const et_transformers_folder *of;
    int first;
} folder_files;

static int write_one(void *self, int number, const char *path, et_error *error)
{
    const folder_files *o = self;
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
    const et_transformer model = et_translator_transformer(t);
    folder_files o = { folder, et_export_shares(&model) ? CONFIG : TARGET_VOCABULARY };
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

/* Epsilon of the norms: PyTorch's default, which no field changes. */
#define NORM_EPSILON 1e-5f

/* ---- weights ---- */

#define SHARED     ET_UNUSED_TABLE
#define OF_ENCODER ET_UNUSED_OF_ENCODER
#define OF_DECODER ET_UNUSED_OF_DECODER
#define OF_OUTPUT  ET_UNUSED_OF_OUTPUT

/* A tied table has one name. If the output is not tied, transformers ties no table, so each name
 * has a copy. */
static int add_tables(et_exported_tensors *list, const et_transformer *model, et_error *error)
{
    const et_transformer_tokens *source = &model->source, *target = &model->target;
    const bool shares = et_export_shares(model), tied = et_export_ties(model);
    const et_exported_table tables[] = {
        { SHARED, target->scope, target->count, !shares },
        { OF_ENCODER, source->scope, source->count, shares && tied },
        { OF_DECODER, target->scope, target->count, shares && tied },
        { OF_OUTPUT, model->output.scope, model->output.count, tied },
    };
    return et_exported_tensors_add_tables(list, tables, 4, error);
}

/* Sources of tensors other than parameters: tables of positions, and tensors of the import. */
enum { POSITIONS = -2, UNUSED = -3 };

typedef struct output {
    et_transformer model;
    const char *precision; /* NULL: "float32" */
    bool as_imported;      /* the precision is the import's */
    et_exported_tensors list;
    et_safetensors *unused; /* owned; NULL: none */
    int64_t positions;      /* rows of the import's tables of positions; 0: no tables */
    int64_t longest;        /* longest target of a search; 0: unknown */
    float *room;            /* for the largest tensor; owned */
} output;

static const char *const position_names[] = { ET_UNUSED_ENCODER_POSITIONS,
                                              ET_UNUSED_DECODER_POSITIONS };

static int add_positions(et_exported_tensors *list, const output *o, et_error *error)
{
    const et_transformer *model = &o->model;
    const int64_t rows = o->positions ? o->positions : ET_TRANSFORMERS_POSITIONS;
    int status = ET_OK;
    for (int i = 0; i < 2 && !model->open_positions && !status; i++) {
        et_mapped_tensor mapped = { .shape = et_shape_2(rows, model->width), .param = POSITIONS };
        if (o->unused && et_safetensors_find(o->unused, position_names[i]))
            continue;
        strcpy(mapped.name, position_names[i]);
        status = et_exported_tensors_add(list, &mapped, error);
    }
    return status;
}

/* Whether a tensor fits the model. The file may belong to another model. */
static bool fits(const et_transformer *model, const et_safetensors_tensor *t)
{
    const bool table = !strcmp(t->name, SHARED);
    if (t->dtype != ET_F32 || t->shape.rank != 2 || t->shape.size[1] != model->width)
        return false;
    if (table)
        return t->shape.size[0] == model->source.count && !et_export_shares(model);
    return t->shape.size[0] <= ET_TRANSLATION_LENGTH_MAX &&
           (!strcmp(t->name, position_names[0]) || !strcmp(t->name, position_names[1]));
}

static int add_unused(et_exported_tensors *list, const output *o, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; !status && o->unused && i < et_safetensors_count(o->unused); i++) {
        const et_safetensors_tensor *t = et_safetensors_at(o->unused, i);
        et_mapped_tensor mapped = { .shape = t->shape, .param = UNUSED };
        if (!fits(&o->model, t))
            return et_fail(error, ET_EFORMAT, ET_UNUSED_TENSORS ": %s belongs to another model",
                           t->name);
        strcpy(mapped.name, t->name);
        status = et_exported_tensors_add(list, &mapped, error);
    }
    return status;
}

static bool is_listed(const et_exported_tensors *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->tensors[i].name, name))
            return true;
    return false;
}

/* Adds the other names of a table, as recorded by an import. */
static int add_copies(et_exported_tensors *list, const output *o, et_error *error)
{
    static const char *const known[] = { OF_ENCODER, OF_DECODER, OF_OUTPUT };
    const char *copies = o->unused ? et_safetensors_metadata(o->unused, ET_UNUSED_COPIES) : NULL;
    int status = ET_OK;
    for (const char *end; copies && (end = strchr(copies, ' ')) && !status; copies = end + 1) {
        const size_t length = (size_t)(end - copies);
        size_t i = 0;
        while (i < 3 && (strlen(known[i]) != length || memcmp(known[i], copies, length) != 0))
            i++;
        if (i == 3 || is_listed(list, known[i]))
            return et_fail(error, ET_EFORMAT, ET_UNUSED_TENSORS ": %.*s belongs to another model",
                           (int)(length < 200 ? length : 200), copies);
        const et_transformer_tokens *of = i ? &o->model.target : &o->model.source;
        status = et_exported_tensors_add_table(list, known[i], of->scope, of->count, error);
    }
    return status;
}

static int read_length(const output *o, const char *key, int64_t *length, et_error *error)
{
    const char *text = et_safetensors_metadata(o->unused, key);
    char *end;
    if (!text)
        return ET_OK;
    *length = strtoll(text, &end, 10);
    return !*end && *length > 0 && *length <= INT32_MAX
               ? ET_OK
               : et_fail(error, ET_EFORMAT, ET_UNUSED_TENSORS ": %s: not a length", key);
}

/* Without a given precision, an imported model is exported in the precision of the import. */
static int choose_precision(output *o, et_error *error)
{
    static const char *const halves[] = { "float16", "bfloat16", NULL };
    const char *own = et_safetensors_metadata(o->unused, ET_UNUSED_PRECISION);
    if (!own || o->precision)
        return ET_OK;
    if (!et_is_one_of(own, halves))
        return et_fail(
            error, ET_EFORMAT,
            ET_UNUSED_TENSORS ": " ET_UNUSED_PRECISION ": %.40s is not float16 or bfloat16", own);
    o->precision = own;
    o->as_imported = true;
    return ET_OK;
}

static int open_unused(output *o, const et_translator *t, et_error *error)
{
    if (!t->unused)
        return ET_OK;
    int status = et_safetensors_open_memory(&o->unused, t->unused, t->unused_length,
                                            ET_UNUSED_TENSORS, error);
    if (!status)
        status = et_safetensors_verify(o->unused, error);
    for (int i = 0; i < 2 && !status && !o->positions; i++) {
        const et_safetensors_tensor *table = et_safetensors_find(o->unused, position_names[i]);
        o->positions = table && table->shape.rank ? table->shape.size[0] : 0;
    }
    if (!status && !o->positions)
        status = read_length(o, ET_UNUSED_POSITIONS, &o->positions, error);
    if (!status)
        status = choose_precision(o, error);
    return status ? status : read_length(o, ET_UNUSED_LONGEST, &o->longest, error);
}

static int list_tensors(output *o, et_error *error)
{
    et_exported_tensors *list = &o->list;
    const et_transformer *model = &o->model;
    int status;
    if ((status = et_exported_tensors_add_bias(list, "final_logits_bias", model->output.scope,
                                               model->output.count, error)) ||
        (status = add_tables(list, model, error)) || (status = add_copies(list, o, error)) ||
        (status = add_positions(list, o, error)) || (status = add_unused(list, o, error)))
        return status;
    return et_exported_tensors_add_layers(list, model, ET_NAMES_TRANSFORMERS, error);
}

/* ---- the file ---- */

static et_dtype dtype_of(const char *precision)
{
    return !precision || !strcmp(precision, "float32") ? ET_F32
           : !strcmp(precision, "bfloat16")            ? ET_BF16
                                                       : ET_SAFETENSORS_F16;
}

static uint16_t half_of(float value, et_dtype dtype)
{
    return dtype == ET_BF16 ? et_bf16_from_float(value) : et_half_from_float(value);
}

/* Narrows values in place. */
static size_t narrow(float *values, size_t count, et_dtype dtype)
{
    if (dtype == ET_F32)
        return count * sizeof *values;
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = half_of(values[i], dtype);
        memcpy((char *)values + i * sizeof half, &half, sizeof half);
    }
    return count * sizeof(uint16_t);
}

/* Whether narrowing to the type changes no value. */
static bool is_exact(const char *values, size_t count, et_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, values + i * sizeof value, sizeof value);
        const uint16_t half = half_of(value, dtype);
        if (value != (dtype == ET_BF16 ? et_bf16_to_float(half) : et_half_to_float(half)))
            return false;
    }
    return true;
}

/* Tables of positions stay in float32 if they came in float32 with weights in half precision. */
static et_dtype dtype_at(const output *o, size_t item)
{
    const et_mapped_tensor *mapped = &o->list.tensors[item];
    const et_dtype dtype = dtype_of(o->precision);
    if (!o->as_imported || mapped->param != UNUSED || dtype == ET_F32)
        return dtype;
    const et_safetensors_tensor *t = et_safetensors_find(o->unused, mapped->name);
    return is_exact(t->data, (size_t)et_shape_count(t->shape), dtype) ? dtype : ET_F32;
}

static int read_item(void *self, size_t item, et_safetensors_take_fn *take, void *payload,
                     et_error *error)
{
    const output *o = self;
    const et_mapped_tensor *mapped = &o->list.tensors[item];
    const size_t count = (size_t)et_shape_count(mapped->shape);
    if (mapped->param == POSITIONS)
        et_positions_fill(o->room, mapped->shape.size[0], o->model.width, false);
    else if (mapped->param == UNUSED)
        memcpy(o->room, et_safetensors_find(o->unused, mapped->name)->data,
               count * sizeof *o->room);
    else
        et_mapped_tensor_get(mapped, o->list.params, o->room);
    return take(payload, o->room, narrow(o->room, count, dtype_at(o, item)), error);
}

static int write_tensors(output *o, const char *path, et_error *error)
{
    const et_safetensors_reader reader = { read_item, o };
    et_safetensors_item *items = et_alloc(o->list.count, sizeof *items);
    o->room = et_alloc(o->list.most, sizeof *o->room);
    for (size_t i = 0; items && i < o->list.count; i++)
        items[i] = (et_safetensors_item){ .name = o->list.tensors[i].name,
                                          .tensor = { .dtype = dtype_at(o, i),
                                                      .shape = o->list.tensors[i].shape } };
    int status = items && o->room ? et_safetensors_write_foreign(path, "pt", items, o->list.count,
                                                                 &reader, error)
                                  : et_alloc_failed(error, "a tensor");
    et_free(items);
    et_free(o->room);
    return status;
}

static int write_weights(void *self, int which, const char *path, et_error *error)
{
    output *o = self;
    (void)which;
    int status = list_tensors(o, error);
    if (!status)
        status = write_tensors(o, path, error);
    et_exported_tensors_release(&o->list);
    return status;
}

int et_translator_export_huggingface(const et_translator *t, const char *directory,
                                     const et_export_options *options, et_error *error)
{
    et_assert(t && directory && options);
    static const char *const names[] = { ET_ARTIFACT_WEIGHTS };
    output o = { .model = et_translator_transformer(t),
                 .precision = options->precision,
                 .list = { .params = t->params } };
    et_transformers_folder folder = { .translator = t,
                                      .names = names,
                                      .count = 1,
                                      .write = write_weights,
                                      .self = &o,
                                      .vocab_size = o.model.source.count };
    int status = et_foreign_check(&et_foreign_transformers, t->experiment.task, error);
    if (!status)
        status = open_unused(&o, t, error);
    folder.precision = o.precision;
    folder.positions = o.positions;
    folder.shares = o.unused && et_safetensors_find(o.unused, ET_UNUSED_TABLE);
    folder.longest = o.longest;
    if (!status)
        status = et_transformers_write(&folder, directory, error);
    if (!status)
        et_export_warn_norms(&o.model, "transformers", NORM_EPSILON);
    et_safetensors_close(o.unused);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
