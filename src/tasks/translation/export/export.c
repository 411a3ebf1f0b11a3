/* Exports of translators: settings and vocabulary, with the weights
 * (train/checkpoint/artifact/artifact.h). */
#include <etude/model_export.h>

#include <string.h>

#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/export/export_formats.h"
#include "tasks/translation/translation_task.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/run/run_names.h"

static int write_model(const et_translator *t, const char *path, const char *precision,
                       et_strbuf *settings, et_error *error)
{
    const et_vocabularies *v = t->vocabularies;
    int status = et_experiment_print(&t->experiment, settings, error);
    et_artifact_text texts[1 + ET_SIDES] = {
        { ET_RUN_SETTINGS, et_strbuf_text(settings), settings->length },
    };
    for (int i = 0; i < v->count; i++) {
        et_artifact_text *text = &texts[1 + i];
        text->name = v->roles[i].file;
        text->bytes = et_vocabulary_bytes(v->models[i], &text->length);
    }
    const et_artifact_content model = { .texts = texts,
                                        .count = 1 + v->count,
                                        .params = t->params,
                                        .step = t->step,
                                        .identity = t->identity,
                                        .precision = precision };
    return status ? status : et_artifact_write(&model, path, error);
}

static int write_own(const et_translator *t, const char *path, const char *precision,
                     et_error *error)
{
    et_strbuf settings = ET_STRBUF_INIT;
    int status = write_model(t, path, precision, &settings, error);
    et_strbuf_release(&settings);
    return status;
}

static const struct {
    const char *name;
    int (*write)(const et_translator *t, const char *directory, et_error *error);
} formats[] = {
    { "onnx", et_translator_export_onnx },
    { "ctranslate2", et_translator_export_ctranslate2 },
};

int et_translator_export(const et_translator *t, const char *path, const et_export_options *options,
                         et_error *error)
{
    static const et_export_options defaults = { 0 };
    const et_export_options *o = options ? options : &defaults;
    if (!o->format)
        return write_own(t, path, o->precision, error);
    if (o->precision && strcmp(o->precision, "float32") != 0)
        return et_fail(error, ET_ECONFIG, "precision %s: the format %s is only written in float32",
                       o->precision, o->format);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, o->format))
            return formats[i].write(t, path, error);
    return et_fail(error, ET_ECONFIG, "format %s: choose onnx or ctranslate2, or no format",
                   o->format);
}
