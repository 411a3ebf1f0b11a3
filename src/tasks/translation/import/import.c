/* config -> vocabularies -> a model with these settings -> weights -> an export. */
#include "tasks/translation/import/import.h"

#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "formats/torch/transformers_files.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/interchange/tensor_map.h"
#include "tasks/translation/interchange/unused_tensors.h"
#include "tasks/translation/settings/translation_kind.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"

/* Settings of a trained model in addition to those of its experiment, the recipe and the folder. */
static const char data_settings[] =
    "{task: {train_data: {global_batch_size: 4096, max_seq_length: 128}, validation_data: "
    "{max_seq_length: 128}}, runtime: {mixed_precision_dtype: float32}}";

/* ---- relations of fields in config.json and generation_config.json ---- */

static int check_type(const et_foreign_file *c, et_error *error)
{
    const et_value *type = et_value_get(c->values, "model_type");
    const et_value *narrow = et_value_get(c->values, "quantization_config");
    if (!type || type->kind != ET_VALUE_STRING)
        return et_fail(error, ET_EFORMAT, "%s has no model_type", c->name);
    if (strcmp(type->string, "marian") != 0)
        return et_foreign_refuse(c, type, "but only models of type marian are supported", error);
    return narrow ? et_foreign_refuse(c, narrow,
                                      "but only float32, float16 and bfloat16 are supported", error)
                  : ET_OK;
}

static int read_model(const et_foreign_file *c, et_foreign_model *m, et_error *error)
{
    m->tokens[ET_SIDE_TARGET] = -1;
    int status = et_foreign_read(c, et_foreign_transformers.both, m, error);
    if (m->tokens[ET_SIDE_TARGET] < 0)
        m->tokens[ET_SIDE_TARGET] = m->tokens[ET_SIDE_SOURCE];
    et_value_set_bool(m->settings, "tied_embeddings", m->tied);
    if (!status)
        status = et_foreign_read(c, et_foreign_symbols, m, error);
    return status || m->start == m->pad
               ? status
               : et_foreign_refuse(c, et_value_get(c->values, "decoder_start_token_id"),
                                   "but targets must begin with pad_token_id", error);
}

/* The search must use the model's symbols. A list with one end symbol is this symbol. */
static int check_symbols(const et_foreign_model *m, const et_foreign_file *search, et_error *error)
{
    const struct {
        const char *field;
        int64_t is;
    } symbols[] = { { "eos_token_id", m->eos },
                    { "pad_token_id", m->pad },
                    { "decoder_start_token_id", m->pad } };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        const et_value *v = et_value_get(search->values, symbols[i].field), *one = v;
        if (v && v->kind == ET_VALUE_LIST && v->count == 1)
            one = v->first;
        if (one && one->kind != ET_VALUE_NULL &&
            (one->kind != ET_VALUE_INT || one->integer != symbols[i].is))
            return et_foreign_refuse(search, v, "but must be as in " ET_TRANSFORMERS_CONFIG, error);
    }
    return ET_OK;
}

/* Lists of one number each: texts of several tokens cannot be forbidden. Numbers become tokens when
 * the vocabulary is known. */
static int read_bad_words(const et_foreign_file *c, et_value *list, et_error *error)
{
    const et_value *words = et_foreign_find(&c, "bad_words_ids");
    if (!words || words->kind == ET_VALUE_NULL)
        return ET_OK;
    if (words->kind != ET_VALUE_LIST)
        return et_foreign_refuse(c, words, "but must be a list of lists", error);
    for (const et_value *w = words->first; w; w = w->next) {
        if (w->kind != ET_VALUE_LIST || w->count != 1 || w->first->kind != ET_VALUE_INT)
            return et_foreign_refuse(c, words, "but only single tokens can be forbidden", error);
        et_value_add_int(list, w->first->integer);
    }
    return ET_OK;
}

static int read_search(const et_foreign_file *search, et_foreign_model *m, et_error *error)
{
    et_value *never = et_value_set_list(m->settings, "suppressed_tokens");
    int status;
    if ((status = check_symbols(m, search, error)) ||
        (status = et_foreign_read(search, et_foreign_transformers.search, m, error)) ||
        (status = read_bad_words(search, never, error)))
        return status;
    /* A number, or null. Older versions of transformers allowed a list; none is published. */
    const et_value *end = et_foreign_find(&search, "forced_eos_token_id");
    const bool is = end && end->kind != ET_VALUE_NULL;
    if (is && (end->kind != ET_VALUE_INT || end->integer != m->eos))
        return et_foreign_refuse(search, end, "but must be eos_token_id", error);
    et_value_set_bool(m->settings, "force_end", is);
    return ET_OK;
}

static int read_config(et_import *from, et_error *error)
{
    et_value *values = NULL, *generation = NULL;
    int status;
    if ((status = et_import_read_json(from, ET_TRANSFORMERS_CONFIG, &values, error)) ||
        (et_import_has(from, ET_TRANSFORMERS_GENERATION) &&
         (status = et_import_read_json(from, ET_TRANSFORMERS_GENERATION, &generation, error))) ||
        (status = et_import_begin_settings(from, error)))
        return status;
    /* Fields of a search are in generation_config.json; of older models, in config.json. */
    const et_foreign_file c = { et_import_path(from, ET_TRANSFORMERS_CONFIG), values, NULL };
    const et_foreign_file search = { et_import_path(from, ET_TRANSFORMERS_GENERATION), generation,
                                     &c };
    if (!c.name || !search.name)
        return et_alloc_failed(error, "settings");
    if ((status = check_type(&c, error)) ||
        (status = et_foreign_read(&c, et_foreign_transformers.read, &from->facts, error)) ||
        (status = et_foreign_read(&c, et_foreign_transformers.search_read, &from->facts, error)) ||
        (generation && (status = et_foreign_read(&search, et_foreign_transformers.search_read,
                                                 &from->facts, error))) ||
        (status = read_model(&c, &from->facts, error)))
        return status;
    return read_search(generation ? &search : &c, &from->facts, error);
}

/* ---- opening ---- */

bool et_import_is_of(const et_import *from, const char *folder)
{
    et_assert(folder);
    const size_t length = et_path_length(folder);
    return strlen(from->folder) == length && !memcmp(from->folder, folder, length);
}

int et_import_check_folder(const char *folder, et_error *error)
{
    const char *slash = strchr(folder, '/');
    const bool hub = slash && slash > folder && slash[1] && !strchr(slash + 1, '/') &&
                     !strchr("./~", *folder) && !et_path_ends(folder, ".zip");
    const bool file = !et_directory_exists(folder) && !et_path_ends(folder, ".zip");
    if (et_file_exists(folder))
        return file ? et_fail(error, ET_EDATA,
                              "%s is a file; name the folder of a published model, or NAME.zip",
                              folder)
                    : et_directory_check(folder, error);
    if (!hub)
        return et_fail(error, ET_ENOTFOUND,
                       "there is no folder %s; name the folder of a published model", folder);
    return et_fail(error, ET_ENOTFOUND,
                   "there is no folder %s, and Etude downloads nothing; if this is a model of the "
                   "Hugging Face hub, run `git clone %s` and import the "
                   "folder %s",
                   folder,
                   et_shell_quote(et_path_print("https://huggingface.co/%s", folder).text).text,
                   slash + 1);
}

static int read_folder(et_import *from, const char *folder, et_error *error)
{
    const size_t length = et_path_length(folder);
    from->folder = et_arena_strndup(&from->arena, folder, length);
    if (!from->folder)
        return et_alloc_failed(error, "a path");
    int status = et_import_check_folder(from->folder, error);
    if (!status)
        status = et_import_open_files(from, error);
    from->models[ET_SIDE_SOURCE] = ET_TRANSFORMERS_SOURCE_MODEL;
    from->models[ET_SIDE_TARGET] = ET_TRANSFORMERS_TARGET_MODEL;
    const bool config = !status && et_import_has(from, ET_TRANSFORMERS_CONFIG);
    const char *binary = NULL;
    if (!status && !config && !et_import_has(from, ET_MARIAN_DECODER))
        status = et_import_find_file(from, ET_BERGAMOT_MODEL, ET_MARIAN_BINARY, &binary, error);
    const bool nothing = !status && !config && !binary && !et_import_has(from, ET_MARIAN_DECODER);
    if (nothing && et_file_exists_in(from->folder, ET_RUN_SETTINGS))
        status =
            et_fail(error, ET_EDATA, "%s is a run; use it without `etude import`", from->folder);
    else if (nothing)
        status = et_fail(error, ET_ENOTFOUND,
                         "%s has no " ET_TRANSFORMERS_CONFIG
                         " (models of transformers), no " ET_MARIAN_DECODER
                         " (Marian) and no model*.bin (Firefox); download the missing file, too",
                         from->folder);
    from->marian = !config || from->zip;
    if (!status)
        status = from->marian ? et_import_read_marian(from, error) : read_config(from, error);
    /* The next steps read settings. */
    if (!status && et_value_failed(from->settings))
        status = et_alloc_failed(error, "settings");
    if (!status && !from->marian)
        status = et_import_open_weights(from, error);
    return status ? status : et_import_read_vocabularies(from, error);
}

int et_import_open(et_import **out, const char *folder, et_error *error)
{
    et_assert(out && folder);
    *out = NULL;
    et_import *from;
    if (ET_ALLOC_ZERO(from, 1, "an import", error))
        return ET_ENOMEM;
    int status = read_folder(from, folder, error);
    if (!status && et_value_failed(from->settings))
        status = et_alloc_failed(error, "settings");
    if (status)
        et_import_close(from);
    else
        *out = from;
    return status;
}

void et_import_close(et_import *from)
{
    if (!from)
        return;
    for (int i = 0; i < ET_SIDES; i++)
        et_free(from->vocabulary[i]);
    et_lexicon_close(from->lexicon);
    et_weights_file_close(from->weights);
    et_zip_close(from->zip);
    et_arena_release(&from->arena);
    et_free(from);
}

int et_import_name_languages(et_import *from, const char *source, const char *target,
                             et_error *error)
{
    et_assert(source && target);
    et_value *vocabulary = et_value_get(from->settings, "vocabulary");
    if (et_import_normalizes(from)) {
        et_value_set_string(vocabulary, "source_punctuation", source);
        et_value_set_string(vocabulary, "target_punctuation", target);
    } else {
        et_import_set_pair(from->settings, source, target);
    }
    return et_value_failed(from->settings) ? et_alloc_failed(error, "settings") : ET_OK;
}

bool et_import_normalizes(const et_import *from)
{
    return !from->root;
}

const char *et_import_lexicon(const et_import *from, size_t *length)
{
    et_assert(length);
    *length = 0;
    return from->lexicon ? et_lexicon_bytes(from->lexicon, length) : NULL;
}

const et_value *et_import_settings(const et_import *from)
{
    return from->settings;
}

const char *et_import_vocabulary(const et_import *from, int side, size_t *length)
{
    et_assert(side >= 0 && side < ET_SIDES && length);
    *length = from->vocabulary_length[side];
    return from->vocabulary[side];
}

/* ---- writing ---- */

/* The contents of an export in the making. */
typedef struct made {
    et_arena arena;
    et_experiment experiment;
    et_vocabularies vocabularies;
    et_params *params;
    et_strbuf settings;
    char *unused; /* ET_UNUSED_TENSORS; owned; NULL: none */
    size_t unused_length;
    et_artifact_file texts[3 + ET_SIDES];
    et_artifact_content content; /* of all above */
} made;

#define MADE_INIT                                                                                  \
    {                                                                                              \
        .arena = ET_ARENA_INIT, .settings = ET_STRBUF_INIT                                         \
    }

static int open_vocabularies(made *m, const et_import *from, et_error *error)
{
    const et_translation_options *options = m->experiment.task;
    int status = ET_OK;
    et_vocabularies_init(&m->vocabularies, &options->vocabulary);
    et_assert(m->vocabularies.count == ET_SIDES);
    for (int i = 0; i < ET_SIDES && !status; i++)
        status = et_vocabulary_parse(&m->vocabularies.models[i], from->vocabulary[i],
                                     from->vocabulary_length[i], from->folder, error);
    return status ? status : et_vocabularies_check_model(&m->vocabularies, &options->model, error);
}

static int make(made *m, et_import *from, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "{\"task\": ");
    et_json_print(&text, from->settings, 0);
    et_strbuf_append_char(&text, '}');
    int status = et_experiment_begin(&m->experiment, &et_translation_program, ET_TRANSLATION_BASE,
                                     &m->arena, error);
    if (!status && text.failed)
        status = et_alloc_failed(error, "settings");
    if (!status)
        status =
            et_experiment_set(&m->experiment, et_translation_finetuning.settings, &m->arena, error);
    if (!status)
        status = et_experiment_set(&m->experiment, data_settings, &m->arena, error);
    if (!status)
        status = et_experiment_set(&m->experiment, et_strbuf_text(&text), &m->arena, error);
    et_strbuf_release(&text);
    if (!status)
        status = open_vocabularies(m, from, error);
    if (status)
        return status;
    const et_transformer model =
        et_translation_transformer(m->experiment.task, from->facts.tokens[ET_SIDE_SOURCE],
                                   from->facts.tokens[ET_SIDE_TARGET], 64);
    if ((status = et_transformer_declare(&m->params, &model, error)) ||
        (status = et_params_materialize(m->params, false, error)))
        return status;
    status = et_import_read_tensors(from, m->params, &model, error);
    /* A model of Marian begins a target with zeros. Export needs this fact again. */
    if (!status && et_table_row_is_zero(m->params, model.target.scope, from->facts.pad))
        status = et_experiment_set(&m->experiment, "task.model.zero_start=true", &m->arena, error);
    return status ? status : et_experiment_print(&m->experiment, &m->settings, error);
}

static void add_text(made *m, const char *name, const char *bytes, size_t length)
{
    m->texts[m->content.count++] = (et_artifact_file){ name, bytes, length };
}

static void release(made *m)
{
    et_vocabularies_close(&m->vocabularies);
    et_params_free(m->params);
    et_strbuf_release(&m->settings);
    et_free(m->unused);
    et_arena_release(&m->arena);
}

static int make_content(made *m, et_import *from, et_error *error)
{
    int status;
    if ((status = make(m, from, error)) ||
        (status = et_import_read_unused(from, &m->unused, &m->unused_length, error)))
        return status;
    size_t length;
    const char *lexicon = et_import_lexicon(from, &length);
    et_value *identity = et_value_dict(&m->arena);
    m->content =
        (et_artifact_content){ .texts = m->texts, .params = m->params, .identity = identity };
    add_text(m, ET_RUN_SETTINGS, et_strbuf_text(&m->settings), m->settings.length);
    for (int i = 0; i < ET_SIDES; i++)
        add_text(m, m->vocabularies.roles[i].file, from->vocabulary[i], from->vocabulary_length[i]);
    if (lexicon)
        add_text(m, ET_TRANSLATION_LEXICON, lexicon, length);
    if (m->unused)
        add_text(m, ET_UNUSED_TENSORS, m->unused, m->unused_length);
    et_vocabularies_identify(&m->vocabularies, identity);
    return et_value_failed(identity) ? et_alloc_failed(error, "an export") : ET_OK;
}

int et_import_write(et_import *from, const char *output, et_error *error)
{
    made m = MADE_INIT;
    int status = make_content(&m, from, error);
    if (!status)
        status = et_artifact_write(&m.content, output, error);
    release(&m);
    return status;
}

int et_import_print_settings(et_import *from, const char **text, et_error *error)
{
    et_assert(text);
    made m = MADE_INIT;
    *text = NULL;
    int status = make(&m, from, error);
    if (!status && !(*text = et_strbuf_keep(&m.settings, &from->arena)))
        status = et_alloc_failed(error, "settings");
    release(&m);
    return status;
}

/* ---- weights of a run ---- */

/* The place of parameter i of to in the model that was read. */
static int find_same(const et_params *to, int i, const et_params *from, const char *folder,
                     int *found, et_error *error)
{
    char was[ET_SHAPE_TEXT_MAX], is[ET_SHAPE_TEXT_MAX];
    const char *name = et_params_name(to, i);
    *found = et_params_find(from, name);
    if (*found < 0)
        return et_fail(error, ET_ECONFIG, "%s: belongs to another model: it has no %s", folder,
                       name);
    const et_shape there = et_params_shape(from, *found), here = et_params_shape(to, i);
    return et_shape_equal(there, here)
               ? ET_OK
               : et_fail(error, ET_ECONFIG,
                         "%s: belongs to another model: %s is %s in the folder, but %s here",
                         folder, name, et_shape_print(there, was), et_shape_print(here, is));
}

/* Refuses a folder with more weights than the run, because it is a larger model. */
static int check_all_taken(const et_params *to, const et_params *from, const char *folder,
                           et_error *error)
{
    for (int i = 0; i < et_params_count(from); i++)
        if (et_params_find(to, et_params_name(from, i)) < 0)
            return et_fail(error, ET_ECONFIG,
                           "%s: belongs to another model: this run has no %s; leave out settings "
                           "of the model's size, or set task.init_pattern to take a part",
                           folder, et_params_name(from, i));
    return ET_OK;
}

/* All are found before the first value changes. wanted NULL: all. */
static int copy_values(et_params *to, et_params *from, const et_patterns *wanted,
                       const char *folder, et_error *error)
{
    const int count = et_params_count(to);
    int *found = et_alloc(count, sizeof *found);
    int status = !found   ? et_alloc_failed(error, "a list of weights")
                 : wanted ? ET_OK
                          : check_all_taken(to, from, folder, error);
    bool any = false;
    for (int i = 0; i < count && !status; i++) {
        found[i] = -1;
        if (!wanted || et_patterns_match(wanted, et_params_name(to, i)))
            status = find_same(to, i, from, folder, &found[i], error);
        any |= found[i] >= 0;
    }
    if (!status && !any)
        status = et_fail(error, ET_ECONFIG, "init_pattern matches no parameter; the first is %s",
                         et_params_name(to, 0));
    if (!status)
        et_params_begin_change(to);
    for (int i = 0; i < count && !status; i++)
        if (found[i] >= 0)
            memcpy(et_params_values_of(to, i), et_params_values_of(from, found[i]),
                   et_shape_count(et_params_shape(to, i)) * sizeof(float));
    if (!status)
        et_params_changed(to, true);
    et_free(found);
    return status;
}

static int initialize(et_params *params, et_import *from, const et_patterns *wanted,
                      et_error *error)
{
    made m = MADE_INIT;
    int status = make(&m, from, error);
    if (!status)
        status = copy_values(params, m.params, wanted, from->folder, error);
    release(&m);
    return status;
}

int et_import_initialize(et_import *from, et_params *params, const char *pattern, et_error *error)
{
    et_assert(params);
    et_patterns *wanted = NULL;
    int status = pattern && *pattern
                     ? et_patterns_new(&wanted, (et_strings){ &pattern, 1 }, "init_pattern", error)
                     : ET_OK;
    et_import *again = NULL;
    if (!status && !from->weights)
        status = et_import_open(&again, from->folder, error);
    if (!status)
        status = initialize(params, again ? again : from, wanted, error);
    et_import_close(again);
    /* Mapped weights would count as memory of the whole training. */
    et_weights_file_close(from->weights);
    et_zip_close(from->zip);
    from->weights = NULL;
    from->zip = NULL;
    et_patterns_free(wanted);
    return status
               ? et_fail_while(error, status, "initializing with the weights of %s", from->folder)
               : ET_OK;
}

/* ---- as an export ---- */

/* The owner of an artifact's content. */
typedef struct import_owner {
    et_import *from;
    made made;
} import_owner;

static int load(void *self, et_params *params, et_error *error)
{
    const import_owner *owner = self;
    const et_value *vocabulary = et_value_get(owner->from->settings, "vocabulary");
    if (et_import_normalizes(owner->from) && !et_value_get(vocabulary, "source_punctuation"))
        et_log(ET_LOG_WARNING,
               "punctuation is not normalized, because %s does not name its languages; `etude "
               "import %s --languages en,de --output RUN` makes a run that names them",
               owner->from->folder, owner->from->folder);
    return copy_values(params, owner->made.params, NULL, owner->from->folder, error);
}

static void close_owner(void *self)
{
    import_owner *owner = self;
    release(&owner->made);
    et_import_close(owner->from);
    et_free(owner);
}

static const et_artifact_owner_class owner_class = { load, close_owner };

int et_import_open_artifact(et_artifact *out, const char *path, et_error *error)
{
    et_assert(out && path);
    *out = (et_artifact){ .name = NULL };
    if (!et_import_is_folder(path))
        return et_artifact_open(out, path, error);
    import_owner *owner;
    if (ET_ALLOC_ZERO(owner, 1, "an import", error))
        return ET_ENOMEM;
    owner->made = (made)MADE_INIT;
    int status = et_import_open(&owner->from, path, error);
    if (!status)
        status = make_content(&owner->made, owner->from, error);
    if (status)
        close_owner(owner);
    else
        et_artifact_open_content(out, path, &owner->made.content, &owner_class, owner);
    return status;
}
