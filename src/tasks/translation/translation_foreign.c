/* A model of another program that the task's files come from: it is opened once for all of them. */
#include "tasks/translation/translation_task_private.h"

int et_translation_foreign(et_translation_task *task, const char *folder, et_import **out,
                           et_error *error)
{
    *out = task->context.foreign;
    if (*out && et_import_is_of(*out, folder))
        return ET_OK;
    *out = task->foreign;
    if (*out && et_import_is_of(*out, folder))
        return ET_OK;
    et_import_close(task->foreign);
    task->foreign = NULL;
    int status = et_import_open(out, folder, error);
    task->foreign = status ? NULL : *out;
    return status;
}
