/* A translator in the formats of other programs, as a directory. ET_ECONFIG: a file of it is there
 * already, or the model has no form there. */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_FORMATS_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_EXPORT_FORMATS_H

#include "tasks/translation/decoding/translator_private.h"

int et_translator_export_onnx(const et_translator *t, const char *directory, et_error *error);
int et_translator_export_ctranslate2(const et_translator *t, const char *directory,
                                     et_error *error);

#endif
