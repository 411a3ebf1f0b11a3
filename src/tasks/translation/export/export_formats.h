/* Translators in the formats of other programs, as a directory. precision: how weights are stored;
 * NULL: "float32". ET_ECONFIG: one of the files exists, or the format cannot express the model. */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_FORMATS_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_FORMATS_H

#include "tasks/translation/decoding/translator_private.h"

int et_translator_export_onnx(const et_translator *t, const char *directory, const char *precision,
                              et_error *error);
int et_translator_export_ctranslate2(const et_translator *t, const char *directory,
                                     const char *precision, et_error *error);
int et_translator_export_huggingface(const et_translator *t, const char *directory,
                                     const char *precision, et_error *error);

int et_translator_export_marian(const et_translator *t, const char *directory,
                                const char *precision, et_error *error);

#endif
