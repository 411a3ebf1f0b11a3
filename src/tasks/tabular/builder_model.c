/* The model that a job leaves: OUTPUT/model, from what is in OUTPUT. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tasks/tabular/builder_files.h"
#include "tasks/tabular/predictor_private.h"
#include "tasks/tabular/table_names.h"

static const char *const model_files[] = { ET_TABLE_SCHEMA,  ET_TABLE_METADATA,  ET_TABLE_FEATURES,
                                           ET_TABLE_BUILDER, (ET_MODEL_WEIGHTS), NULL };

/* What an export has written; what else lies there is left, with its directory. */
static int remove_model(const char *directory, et_error *error)
{
    for (const char *const *name = model_files; *name; name++) {
        char *path = et_path_join(directory, *name);
        if (!path)
            return et_alloc_failed(error, strlen(directory), "a path");
        unlink(path);
        et_free(path);
    }
    if (rmdir(directory) && errno != ENOENT)
        return et_fail_errno(error, "%s: files that are none of a model's are in it", directory);
    return ET_OK;
}

/* The new one is whole before the old one goes; the name is missing for an instant at most, and a
 * job that was killed there makes it again. */
static int put_in_place(const char *made, const char *place, const char *old, et_error *error)
{
    int status = remove_model(old, error);
    if (status)
        return status;
    if (rename(place, old) && errno != ENOENT)
        return et_fail_errno(error, "%s", place);
    if (rename(made, place))
        return et_fail_errno(error, "%s", place);
    et_error reason = ET_ERROR_INIT;
    if (remove_model(old, &reason))
        et_log(ET_LOG_WARNING, "%s", reason.text);
    return ET_OK;
}

int et_builder_export(et_model_builder *builder, const char *output, const char *checkpoint,
                      et_error *error)
{
    const et_predictor_options options = { .builder = builder->ET_CLASS, .checkpoint = checkpoint };
    et_predictor *predictor = NULL;
    char *place = et_path_join(output, "model"), *made = et_path_join(output, "model.new");
    char *old = et_path_join(output, "model.old");
    int status = place && made && old ? ET_OK : et_alloc_failed(error, strlen(output), "a path");
    if (!status)
        status = remove_model(made, error);
    if (!status)
        status = et_predictor_open(&predictor, output, &options, error);
    if (!status)
        status = et_predictor_export(predictor, made, error);
    if (!status)
        status = put_in_place(made, place, old, error);
    if (!status)
        status = et_directory_sync(output, error);
    et_predictor_close(predictor);
    et_free(place);
    et_free(made);
    et_free(old);
    return status;
}

int et_builder_open_model(et_predictor **out, const et_model_builder *builder, const char *output,
                          et_error *error)
{
    const et_predictor_options options = { .builder = builder->ET_CLASS };
    char *place = et_path_join(output, "model");
    int status = place ? et_predictor_open(out, place, &options, error)
                       : et_alloc_failed(error, strlen(output), "a path");
    et_free(place);
    return status;
}
