/* What a program beside the library may want of a translator: the device that it works on, to
 * record what that does (exec/device.h). Before the first translation. */
#ifndef ETUDE_TASKS_TRANSLATION_TRANSLATOR_DEVICE_H
#define ETUDE_TASKS_TRANSLATION_TRANSLATOR_DEVICE_H

#include <etude/translator.h>

#include "exec/device.h"

/* Borrowed. */
et_device *et_translator_device(et_translator *translator);

#endif
