/* The device of a translator, for programs outside the library. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_TRANSLATOR_DEVICE_H
#define ETUDE_TASKS_TRANSLATION_DECODING_TRANSLATOR_DEVICE_H

#include <etude/translator.h>

#include "engine/exec/device.h"

/* Borrowed; for recording the device's work (engine/exec/device.h), before the first
 * translation. */
et_device *et_translator_device(et_translator *translator);

/* et_translator_open for a second translator that shares weights, in the thread of the other. They
 * also share the other's device, so no device is made and equal products are made once. The other
 * must outlive it. */
int et_translator_open_beside(et_translator **out, const et_translator_options *options,
                              et_error *error);

#endif
