/* Exports of translators: settings and vocabulary, with the weights
 * (train/checkpoint/artifact/artifact.h). */
#include <etude/model_export.h>

#include <string.h>

#include "base/fields/fields.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/export/export_private.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/interchange/unused_tensors.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"

static int write_model(const et_translator *t, const char *path, const char *precision,
                       et_strbuf *settings, et_error *error)
{
    const et_vocabularies *v = t->vocabularies;
    int status = et_experiment_print(&t->experiment, settings, error);
    et_artifact_file texts[3 + ET_SIDES] = {
        { ET_RUN_SETTINGS, et_strbuf_text(settings), settings->length },
    };
    int count = 1;
    for (int i = 0; i < v->count; i++) {
        et_artifact_file *text = &texts[count++];
        text->name = v->roles[i].file;
        text->bytes = et_vocabulary_bytes(v->models[i], &text->length);
    }
    if (t->lexicon) {
        et_artifact_file *text = &texts[count++];
        text->name = ET_TRANSLATION_LEXICON;
        text->bytes = et_lexicon_bytes(t->lexicon, &text->length);
    }
    if (t->unused)
        texts[count++] = (et_artifact_file){ ET_UNUSED_TENSORS, t->unused, t->unused_length };
    const et_artifact_content model = { .texts = texts,
                                        .count = count,
                                        .params = t->params,
                                        .step = t->step,
                                        .identity = t->identity,
                                        .precision = precision };
    return status ? status : et_artifact_write(&model, path, error);
}

/* precisions: precisions that the format supports, ended by NULL. */
typedef struct format {
    const char *name;
    int (*write)(const et_translator *t, const char *directory, const et_export_options *options,
                 et_error *error);
    const char *const *precisions;
    bool of_marian; /* has recurrent decoders */
    bool measures;  /* a text: options->source_text and target_text */
} format;

static const char *const wide[] = { "float32", NULL };
static const char *const bytes[] = { "int8", NULL };
static const char *const wide_or_half[] = { "float32", "bfloat16", "float16", NULL };

static const format formats[] = {
    { "onnx", et_translator_export_onnx, wide, false, false },
    { "ctranslate2", et_translator_export_ctranslate2, wide, false, false },
    { "huggingface", et_translator_export_huggingface, wide_or_half, false, false },
    { "marian", et_translator_export_marian, wide, true, false },
    { "bergamot", et_translator_export_bergamot, bytes, true, true },
};

/* f NULL: Etude's own format. */
static int check_text(const format *f, const et_export_options *o, et_error *error)
{
    if (!o->source_text != !o->target_text)
        return et_fail(error, ET_ECONFIG,
                       "the text to measure on is one file: name the files of "
                       "both languages");
    if (o->source_text && !(f && f->measures))
        return et_fail(error, ET_ECONFIG, "%s is for the format bergamot: leave it out",
                       o->source_text);
    return ET_OK;
}

static int write_foreign(const et_translator *t, const char *path, const format *f,
                         const et_export_options *o, et_error *error)
{
    if (o->precision && !et_is_one_of(o->precision, f->precisions))
        return et_fail(error, ET_ECONFIG, "precision %s: the format %s is only written in %s",
                       o->precision, f->name,
                       f->precisions[1] ? "float32, bfloat16 and float16" : f->precisions[0]);
    const et_translation_options *options = t->experiment.task;
    if (options->model.decoder.recurrence != ET_RECURRENCE_NONE && !f->of_marian)
        return et_fail(error, ET_ECONFIG,
                       "task.model.decoder.recurrence is ssru, which the format %s does not have; "
                       "choose bergamot or marian, or no format",
                       f->name);
    int status = check_text(f, o, error);
    return status ? status : f->write(t, path, o, error);
}

int et_translator_export(const et_translator *t, const char *path, const et_export_options *options,
                         et_error *error)
{
    static const et_export_options defaults = { 0 };
    const et_export_options *o = options ? options : &defaults;
    if (o->inputs)
        return et_fail(error, ET_ECONFIG, "inputs %s is for models of tables: leave inputs out",
                       o->inputs);
    if (t->other_count)
        return et_fail(error, ET_ECONFIG,
                       "an ensemble of %d models cannot be exported: export each model",
                       1 + t->other_count);
    if (!o->format) {
        et_strbuf settings = ET_STRBUF_INIT;
        int status = check_text(NULL, o, error);
        if (!status)
            status = write_model(t, path, o->precision, &settings, error);
        et_strbuf_release(&settings);
        return status;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, o->format))
            return write_foreign(t, path, &formats[i], o, error);
    return et_fail(
        error, ET_ECONFIG,
        "format %s: choose onnx, ctranslate2, huggingface, marian or bergamot, or no format",
        o->format);
}
