#include "tasks/translation/command/profile.h"

#include "command/command.h"
#include "tasks/translation/decoder.h"
#include "tasks/translation/translator_device.h"

int et_profiling_open_translator(et_profiling *p, et_translator *translator, et_progress *progress,
                                 et_error *error)
{
    if (!p->path)
        return ET_OK;
    p->progress = progress;
    et_watch_signals_and_input();
    int status =
        et_profiling_open(p, et_translator_device(translator), ET_DECODER_STEP_SPAN, error);
    return status ? status : et_profiling_begin(p, 0, error);
}
