/* The device of a translator, for programs outside the library. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_TRANSLATOR_DEVICE_H
#define ETUDE_TASKS_TRANSLATION_DECODING_TRANSLATOR_DEVICE_H

#include <etude/translator.h>

#include "engine/exec/device.h"

/* Borrowed; to record what it does (engine/exec/device.h), before the first translation. */
et_device *et_translator_device(et_translator *translator);

/* et_translator_open of one that shares weights, for the thread of the other: they share its
 * device, too, so none is made and equal products are made once. The other must outlive it. */
int et_translator_open_beside(et_translator **out, const et_translator_options *options,
                              et_error *error);

#endif
