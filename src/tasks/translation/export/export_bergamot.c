/* The model as a folder of Bergamot, which Firefox and translateLocally load (marian_files.h):
 * weights as bytes, multipliers of the rows that they are multiplied with, the vocabulary, a
 * shortlist, and settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "data/text/vocabulary/vocabulary_check.h"
#include "formats/marian/marian_model.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/translation/export/calibration.h"
#include "tasks/translation/export/export_formats.h"
#include "tasks/translation/export/marian_export.h"
#include "tasks/translation/interchange/marian_files.h"

/* What Marian calls the table of the output once a shortlist has chosen rows of it. */
#define OUTPUT_NAME "none"

/* ORDER of the files; the shortlist comes last. */
enum { WEIGHTS, SETTINGS, VOCABULARIES };

/* An item of the file: a tensor, or the multiplier of its rows, or the settings. */
typedef struct item {
    char name[ET_MAPPED_NAME_MAX];
    const et_mapped_tensor *tensor; /* NULL: a multiplier or the settings */
    float multiplier;
} item;

enum { FILES_MAX = 5 };

typedef struct output {
    et_marian_export m;
    et_calibration *calibration; /* NULL: multipliers and shortlist are the import's */
    et_safetensors *kept;        /* with the import's multipliers; NULL: none */
    et_strbuf settings;
    item *items;                /* [count] owned, as all below */
    et_marian_written *written; /* [count] */
    size_t count;
    float *room;
    char *lexicon; /* [lexicon_length]; NULL: the model has no shortlist */
    size_t lexicon_length;
    bool shared;                  /* one vocabulary */
    char text[FILES_MAX][64];     /* of names */
    const char *names[FILES_MAX]; /* [files] of the files */
    int files;
} output;

/* ---- weights ---- */

/* Weights of products, and tables of embeddings. */
static bool is_matrix(const et_mapped_tensor *tensor)
{
    return tensor->shape.rank == 2 && tensor->shape.size[0] > 1;
}

static bool is_table(const et_mapped_tensor *tensor)
{
    return strstr(tensor->name, ET_MARIAN_SHARED) != NULL;
}

static void add(output *o, const char *name, const char *after, const et_mapped_tensor *tensor,
                float multiplier)
{
    item *i = &o->items[o->count++];
    *i = (item){ .tensor = tensor, .multiplier = multiplier };
    snprintf(i->name, sizeof i->name, "%.*s%s", (int)(sizeof i->name - sizeof ET_MARIAN_MULTIPLIER),
             name, after);
}

/* Of the rows that a tensor is multiplied with, by its name; 0: not known. */
static float find_multiplier(const output *o, const et_mapped_tensor *tensor, const char *name)
{
    char full[ET_MAPPED_NAME_MAX + sizeof ET_MARIAN_MULTIPLIER];
    float value = 0;
    if (o->calibration)
        return et_calibration_multiplier(o->calibration, tensor->param);
    snprintf(full, sizeof full, "%s" ET_MARIAN_MULTIPLIER, name);
    const et_safetensors_tensor *kept = o->kept ? et_safetensors_find(o->kept, full) : NULL;
    if (kept && kept->dtype == ET_F32 && et_shape_count(kept->shape) == 1)
        memcpy(&value, kept->data, sizeof value);
    return value;
}

/* The table of the output has a multiplier under two names: Marian looks for the first if there is
 * a shortlist. */
static int add_multiplier(output *o, const et_mapped_tensor *tensor, bool output_table,
                          et_error *error)
{
    const char *name = output_table ? OUTPUT_NAME : tensor->name;
    float multiplier = find_multiplier(o, tensor, name);
    if (output_table && !(multiplier > 0))
        multiplier = find_multiplier(o, tensor, tensor->name);
    if (!(multiplier > 0))
        return et_fail(error, ET_EUSAGE,
                       "the bytes of %s need the range of their rows, which is measured on text: "
                       "give --data SOURCE TARGET, two files of the languages of the model",
                       tensor->name);
    add(o, name, ET_MARIAN_MULTIPLIER, NULL, multiplier);
    if (output_table)
        add(o, tensor->name, ET_MARIAN_MULTIPLIER, NULL, multiplier);
    return ET_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

static int list_items(output *o, et_error *error)
{
    const et_exported_tensors *list = &o->m.list;
    char table[ET_MAPPED_NAME_MAX];
    int status = ET_OK;
    o->items = et_alloc(3 * list->count + 1, sizeof *o->items);
    if (!o->items)
        return et_alloc_failed(error, list->count * sizeof *o->items, "a model to export");
    snprintf(table, sizeof table, "%s/table", o->m.model.output.scope);
    const int output_table = et_params_find(o->m.t->params, table);
    for (size_t i = 0; i < list->count && !status; i++) {
        const et_mapped_tensor *tensor = &list->tensors[i];
        const bool of_output = is_matrix(tensor) && tensor->param == output_table;
        add(o, tensor->name, "", tensor, 0);
        if (is_matrix(tensor) && (of_output || !is_table(tensor)))
            status = add_multiplier(o, tensor, of_output, error);
    }
    add(o, ET_MARIAN_SETTINGS, "", NULL, 0);
    qsort(o->items, o->count, sizeof *o->items, by_name);
    return status;
}

/* Marian keeps the multiplier of a table as bytes, too. */
static et_marian_type type_of(const item *i)
{
    if (!strcmp(i->name, ET_MARIAN_SETTINGS))
        return ET_MARIAN_TYPE_BYTE;
    return (i->tensor ? is_matrix(i->tensor) : strstr(i->name, ET_MARIAN_SHARED) != NULL)
               ? ET_MARIAN_TYPE_INTGEMM8
               : ET_MARIAN_TYPE_FLOAT32;
}

static int read_item(void *self, size_t index, const void **data, et_error *error)
{
    const output *o = self;
    const item *i = &o->items[index];
    (void)error;
    *data = o->room;
    if (o->written[index].type == ET_MARIAN_TYPE_BYTE)
        *data = et_strbuf_text(&o->settings);
    else if (i->tensor)
        et_mapped_tensor_get(i->tensor, o->m.list.params, o->room);
    else
        o->room[0] = i->multiplier;
    return ET_OK;
}

static int write_weights(output *o, const char *path, et_error *error)
{
    int status = et_marian_export_print_settings(&o->m, &o->settings, error);
    if (!status)
        status = list_items(o, error);
    if (status)
        return status;
    o->written = et_alloc(o->count, sizeof *o->written);
    o->room = et_alloc((size_t)o->m.list.most + 1, sizeof *o->room);
    if (!o->written || !o->room)
        return et_alloc_failed(error, (size_t)o->m.list.most, "a model to export");
    for (size_t k = 0; k < o->count; k++) {
        const item *i = &o->items[k];
        const et_marian_type type = type_of(i);
        o->written[k] = (et_marian_written){
            .name = i->name,
            .type = type,
            .shape = type == ET_MARIAN_TYPE_BYTE ? et_shape_1((int64_t)o->settings.length + 1)
                     : i->tensor                 ? i->tensor->shape
                                                 : et_shape_2(1, 1),
        };
    }
    return et_marian_model_write(path, o->written, o->count, read_item, o, error);
}

/* ---- the other files ---- */

static int write_text(const char *path, et_strbuf *text, et_error *error)
{
    int status = text->failed ? et_alloc_failed(error, text->length, "a text")
                              : et_file_write(path, text->data, text->length, error);
    et_strbuf_release(text);
    return status;
}

/* The SentencePiece model with the tokens of the file alone, and without the fields that are
 * Etude's (vocabulary_check.h). */
static int write_vocabulary(const output *o, int side, const char *path, et_error *error)
{
    enum { FIELD_PIECE = 1 };
    const et_vocabulary *v = side == ET_SIDE_SOURCE ? o->m.t->sides.source : o->m.t->sides.target;
    et_strbuf text = ET_STRBUF_INIT;
    et_vocabulary_part part;
    size_t length, at = 0;
    int64_t pieces = 0;
    const char *bytes = et_vocabulary_bytes(v, &length);
    while (et_vocabulary_next_part(bytes, length, &at, &part)) {
        pieces += part.number == FIELD_PIECE;
        if ((part.number == FIELD_PIECE && pieces > o->m.tokens[side]) ||
            part.number == ET_VOCABULARY_FIELD_TOKENS || part.number == ET_VOCABULARY_FIELD_TAGS)
            continue;
        et_strbuf_append_bytes(&text, part.whole, part.whole_length);
    }
    return write_text(path, &text, error);
}

/* As translateLocally reads them. int8shiftAlphaAll: bytes with the multipliers of the file. */
static int write_config(const output *o, const char *path, et_error *error)
{
    const et_decoder_options options = et_translator_decoder_options(o->m.t);
    const et_beam_options beam = options.beam;
    const double factor = options.length_factor;
    const char *const *vocabularies = o->names + VOCABULARIES;
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_printf(&text, "relative-paths: true\nmodels:\n  - %s\nvocabs:\n  - %s\n  - %s\n",
                     o->names[WEIGHTS], vocabularies[0], vocabularies[!o->shared]);
    if (o->lexicon)
        et_strbuf_printf(&text, "shortlist:\n  - %s\n  - false\n", o->names[o->files - 1]);
    et_strbuf_printf(&text, "beam-size: %d\nnormalize: %.9g\nword-penalty: 0\n", beam.size,
                     beam.alpha);
    et_strbuf_printf(&text,
                     "mini-batch: 64\nmaxi-batch: 1000\nmaxi-batch-sort: src\nworkspace: "
                     "2000\n" ET_MARIAN_LENGTH_FACTOR ": %.9g\ngemm-precision: int8shiftAlphaAll\n",
                     factor > 0 ? factor : 2.5);
    return write_text(path, &text, error);
}

static int write_one(void *self, int which, const char *path, et_error *error)
{
    output *o = self;
    if (which == WEIGHTS)
        return write_weights(o, path, error);
    if (which == SETTINGS)
        return write_config(o, path, error);
    if (o->lexicon && which == o->files - 1)
        return et_file_write(path, o->lexicon, o->lexicon_length, error);
    return write_vocabulary(o, which - VOCABULARIES, path, error);
}

static void name_file(output *o, const char *begin, const char *pair, const char *ending)
{
    char *text = o->text[o->files];
    snprintf(text, sizeof o->text[0], "%s%s%s", begin, pair, ending);
    o->names[o->files++] = text;
}

/* Firefox's names have the languages, ".enpt", if their codes have two letters. */
static void name_files(output *o)
{
    const et_translation_options *settings = o->m.t->experiment.task;
    const char *source = settings->train_data.src_lang, *target = settings->train_data.tgt_lang;
    char pair[8] = "";
    if (source && target && strlen(source) == 2 && strlen(target) == 2)
        snprintf(pair, sizeof pair, ".%s%s", source, target);
    name_file(o, ET_BERGAMOT_MODEL, pair, ".intgemm.alphas" ET_MARIAN_BINARY);
    name_file(o, ET_BERGAMOT_USUAL_CONFIG, "", "");
    name_file(o, o->shared ? ET_BERGAMOT_VOCABULARY : "src" ET_BERGAMOT_VOCABULARY, pair,
              ET_MARIAN_PIECES);
    if (!o->shared)
        name_file(o, "trg" ET_BERGAMOT_VOCABULARY, pair, ET_MARIAN_PIECES);
    if (o->lexicon)
        name_file(o, ET_BERGAMOT_LEXICON ".50.50", pair, ".s2t" ET_MARIAN_BINARY);
}

/* ---- multipliers and shortlist ---- */

static int keep_lexicon(output *o, et_error *error)
{
    size_t length;
    const char *bytes = et_lexicon_bytes(o->m.t->lexicon, &length);
    o->lexicon = et_alloc(1, length);
    if (!o->lexicon)
        return et_alloc_failed(error, length, "a shortlist");
    memcpy(o->lexicon, bytes, length);
    o->lexicon_length = length;
    return ET_OK;
}

/* From the text, or else those that the model was imported with. */
static int measure(output *o, const et_export_options *options, et_error *error)
{
    const et_translator *t = o->m.t;
    int status = ET_OK;
    if (options->source_text) {
        status = et_calibration_run(&o->calibration, t, options->source_text, options->target_text,
                                    error);
        return status ? status
                      : et_calibration_shortlist(o->calibration, t->lexicon, &o->lexicon,
                                                 &o->lexicon_length, error);
    }
    if (t->unused)
        status = et_safetensors_open_memory(&o->kept, t->unused, t->unused_length,
                                            et_translator_checkpoint(t), error);
    if (!status && o->kept)
        status = et_safetensors_verify(o->kept, error);
    return status || !t->lexicon ? status : keep_lexicon(o, error);
}

int et_translator_export_bergamot(const et_translator *t, const char *directory,
                                  const et_export_options *options, et_error *error)
{
    output o = { .settings = ET_STRBUF_INIT };
    o.shared = et_vocabulary_checksum(t->sides.source) == et_vocabulary_checksum(t->sides.target);
    int status = et_marian_export_open(&o.m, t, false, error);
    if (!status)
        status = measure(&o, options, error);
    if (!status) {
        name_files(&o);
        status = et_directory_write(directory, o.names, o.files, write_one, &o, error);
    }
    if (!status)
        et_marian_export_warn(&o.m);
    et_marian_export_close(&o.m);
    et_calibration_free(o.calibration);
    et_safetensors_close(o.kept);
    et_strbuf_release(&o.settings);
    et_free(o.items);
    et_free(o.written);
    et_free(o.room);
    et_free(o.lexicon);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
