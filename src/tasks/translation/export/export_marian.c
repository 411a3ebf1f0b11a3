/* The model as a release of Marian, as OPUS-MT publishes it (interchange/marian_files.h), which
 * marian-decoder loads: model.npz, decoder.yml, vocabularies. Unsupported settings are refused by
 * name.
 *
 * Marian begins a target with zeros. So Etude's begin token must be the last token and have an
 * embedding of zeros; the files leave it out. */
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/yaml.h"
#include "formats/numpy/npz.h"
#include "formats/torch/transformers_files.h"
#include "tasks/translation/export/export_private.h"
#include "tasks/translation/interchange/marian_files.h"

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
    if (!et_table_row_is_zero(t->params, m->model.target.scope, start))
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
    const et_beam_options beam = et_translator_decoder_options(t).beam;
    et_export_warn_norms(&m->model, "Marian", (float)ET_MARIAN_NORM_EPSILON);
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

static int list_tensors(et_marian_export *export, et_error *error)
{
    const et_transformer *m = &export->model;
    et_exported_tensors *list = &export->list;
    const int64_t source = export->tokens[ET_SIDE_SOURCE], target = export->tokens[ET_SIDE_TARGET];
    const bool shared = et_export_shares(m);
    const et_exported_table tables[] = {
        { ET_MARIAN_SHARED, m->target.scope, target, !shared },
        { ET_MARIAN_OF_ENCODER, m->source.scope, source, shared },
        { ET_MARIAN_OF_DECODER, m->target.scope, target, shared },
        { ET_MARIAN_OUTPUT, m->output.scope, target, et_export_ties(m) },
    };
    int status = et_exported_tensors_add_layers(list, m, ET_NAMES_MARIAN, error);
    if (!status)
        status = et_exported_tensors_add_tables(list, tables, 4, error);
    return status
               ? status
               : et_exported_tensors_add_bias(list, ET_MARIAN_BIAS, m->output.scope, target, error);
}

int et_marian_export_print_settings(const et_marian_export *m, et_strbuf *text, et_error *error)
{
    et_assert(m->t && text);
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    const et_transformer *model = &m->model;
    const et_transformer_stack *encoder = &model->encoder, *decoder = &model->decoder;
    const bool shared = et_export_shares(model), tied = et_export_ties(model);
    const et_foreign_model foreign = { .settings =
                                           et_foreign_settings(m->t->experiment.task, &arena),
                                       .only_shared = shared && !tied,
                                       .only_tied = tied && !shared,
                                       .all_tied = shared && tied };
    et_foreign_write(et_foreign_marian.both, &foreign, dict);
    et_value *sizes = et_value_set_list(dict, "dim-vocabs");
    et_value_add_int(sizes, m->tokens[ET_SIDE_SOURCE]);
    et_value_add_int(sizes, m->tokens[ET_SIDE_TARGET]);
    if (encoder->intermediate_size != decoder->intermediate_size)
        et_value_set_int(dict, "transformer-decoder-dim-ffn", decoder->intermediate_size);
    if (decoder->ssru) {
        et_value_set_string(dict, "transformer-decoder-autoreg", "rnn");
        et_value_set_string(dict, "dec-cell", "ssru");
    }
    const bool failed = arena.failed;
    if (!failed)
        et_yaml_print(text, dict);
    et_arena_release(&arena);
    return failed || text->failed ? et_alloc_failed(error, "settings") : ET_OK;
}

/* ---- all ---- */

int et_marian_export_open(et_marian_export *m, const et_translator *t, bool release,
                          et_error *error)
{
    et_assert(m && t);
    *m = (et_marian_export){ .t = t,
                             .model = et_translator_transformer(t),
                             .list = { .params = t->params } };
    int status;
    if ((status = et_foreign_check(&et_foreign_marian, t->experiment.task, error)) ||
        (status = et_sides_check_symbols(t->sides, "Marian", error)) ||
        (status = check_start(m, release, error)))
        return status;
    return list_tensors(m, error);
}

void et_marian_export_close(et_marian_export *m)
{
    et_exported_tensors_release(&m->list);
}

/* ---- weights ---- */

typedef struct output {
    et_marian_export m;
    et_npz_item *items; /* [m.list.count + 1]; owned, as the next */
    float *room;
} output;

static int read_item(void *self, size_t item, const void **data, et_error *error)
{
    const output *o = self;
    (void)error;
    et_mapped_tensor_get(&o->m.list.tensors[item], o->m.list.params, o->room);
    *data = o->room;
    return ET_OK;
}

static int write_weights(output *o, const char *path, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    const et_exported_tensors *list = &o->m.list;
    const size_t count = list->count;
    o->items = et_alloc(count + 1, sizeof *o->items);
    o->room = et_alloc(list->most, sizeof *o->room);
    int status = o->items && o->room ? et_marian_export_print_settings(&o->m, &text, error)
                                     : et_alloc_failed(error, "a model to export");
    for (size_t i = 0; i < count && !status; i++)
        o->items[i] =
            (et_npz_item){ list->tensors[i].name, ET_NPZ_FLOAT32, list->tensors[i].shape, NULL };
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

/* ---- texts ---- */

int et_export_write_text(const char *path, et_strbuf *text, et_error *error)
{
    int status = text->failed ? et_alloc_failed(error, "a text")
                              : et_file_write(path, text->data, text->length, error);
    et_strbuf_release(text);
    return status;
}

/* Whether the model may generate unknown tokens. */
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

static int write_one(void *self, int which, const char *path, et_error *error)
{
    output *o = self;
    const et_sides *sides = &o->m.t->sides;
    size_t length;
    if (which == SOURCE_WORDS || which == TARGET_WORDS) {
        /* "token": number, in the order of numbers; all but the last token. */
        const et_vocabulary *v = which == SOURCE_WORDS ? sides->source : sides->target;
        et_strbuf text = ET_STRBUF_INIT;
        for (int32_t i = 0; i < et_vocabulary_size(v) - 1; i++) {
            et_json_print_string(&text, et_vocabulary_token(v, i));
            et_strbuf_printf(&text, ": %d\n", (int)i);
        }
        return et_export_write_text(path, &text, error);
    }
    if (which == WEIGHTS)
        return write_weights(o, path, error);
    if (which == DECODER) {
        const et_decoder_options options = et_translator_decoder_options(o->m.t);
        const et_beam_options beam = options.beam;
        et_strbuf text = ET_STRBUF_INIT;
        et_strbuf_printf(&text, "relative-paths: true\nmodels:\n  - %s\nvocabs:\n  - %s\n  - %s\n",
                         names[WEIGHTS], names[SOURCE_WORDS], names[TARGET_WORDS]);
        et_strbuf_printf(&text, "beam-size: %d\nnormalize: %.9g\nword-penalty: 0\n", beam.size,
                         beam.alpha);
        et_strbuf_printf(&text,
                         "allow-unk: %s\nmini-batch: 1\nmaxi-batch: 1\nmaxi-batch-sort: src\n",
                         allows_unknown(o->m.t) ? "true" : "false");
        if (options.length_factor > 0)
            et_strbuf_printf(&text, ET_MARIAN_LENGTH_FACTOR ": %.9g\n", options.length_factor);
        return et_export_write_text(path, &text, error);
    }
    const char *bytes =
        et_vocabulary_bytes(which == SOURCE ? sides->source : sides->target, &length);
    return et_file_write(path, bytes, length, error);
}

int et_translator_export_marian(const et_translator *t, const char *directory,
                                const et_export_options *options, et_error *error)
{
    et_assert(t && directory && options);
    output o = { .items = NULL };
    (void)options;
    int status = et_marian_export_open(&o.m, t, true, error);
    if (!status)
        status = et_directory_write(directory, names, FILES, write_one, &o, error);
    if (!status)
        et_marian_export_warn(&o.m);
    et_marian_export_close(&o.m);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
