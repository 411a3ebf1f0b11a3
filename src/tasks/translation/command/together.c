#include "tasks/translation/command/together.h"

#include "command/training/ranks.h"
#include "tasks/translation/translator_device.h"

int et_translator_open_together(et_translator **out, const char *model_dir,
                                const et_translator_options *options, et_error *error)
{
    int status = et_translator_open(out, model_dir, options, error);
    const char *path = status ? NULL : et_translator_checkpoint(*out);
    status = et_ranks_compare_loaded(options->comm, status, model_dir, path,
                                     status ? 0 : et_translator_step(*out), error);
    return status ? status
                  : et_ranks_compare(options->comm, NULL, et_translator_device(*out), error);
}
