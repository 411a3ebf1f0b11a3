/* --profile of commands that translate (command/training/profile.h). */
#ifndef ETUDE_TASKS_TRANSLATION_COMMAND_PROFILE_H
#define ETUDE_TASKS_TRANSLATION_COMMAND_PROFILE_H

#include <etude/translator.h>

#include "command/training/profile.h"

/* Both for a translator that has translated nothing yet; its steps are those of decoding. From now
 * on SIGINT and SIGTERM are watched (et_stop_requested), and end a read that waits for input: there
 * is something to write. */
int et_profiling_open_translator(et_profiling *profiling, et_translator *translator,
                                 et_progress *progress, et_error *error);

#endif
