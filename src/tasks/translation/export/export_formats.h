/* Translators in the formats of other programs, as a directory. options were checked: export.c.
 * ET_ECONFIG: one of the files exists, or the format cannot express the model. */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_FORMATS_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_FORMATS_H

#include <etude/model_export.h>

#include "tasks/translation/decoding/translator_private.h"

int et_translator_export_onnx(const et_translator *t, const char *directory,
                              const et_export_options *options, et_error *error);
int et_translator_export_ctranslate2(const et_translator *t, const char *directory,
                                     const et_export_options *options, et_error *error);
int et_translator_export_huggingface(const et_translator *t, const char *directory,
                                     const et_export_options *options, et_error *error);

int et_translator_export_marian(const et_translator *t, const char *directory,
                                const et_export_options *options, et_error *error);
int et_translator_export_bergamot(const et_translator *t, const char *directory,
                                  const et_export_options *options, et_error *error);

#endif
