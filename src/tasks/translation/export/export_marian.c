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
#include "formats/numpy/npz.h"
#include "formats/torch/transformers_files.h"
#include "tasks/translation/export/export_private.h"
#include "tasks/translation/interchange/marian_files.h"

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
    o->room = et_alloc((size_t)list->most, sizeof *o->room);
    int status = o->items && o->room ? et_marian_export_print_settings(&o->m, &text, error)
                                     : et_alloc_failed(error, count, "a model to export");
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

static int write_text(const char *path, et_strbuf *text, et_error *error)
{
    int status = text->failed ? et_alloc_failed(error, text->length, "a text")
                              : et_file_write(path, text->data, text->length, error);
    et_strbuf_release(text);
    return status;
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
        return write_text(path, &text, error);
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
        return write_text(path, &text, error);
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
