/* The model that a job leaves: OUTPUT/model, from what is in OUTPUT. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "tasks/tabular/table_names.h"
#include "tasks/tabular/tensorfx/builder_files.h"
#include "tasks/tabular/tensorfx/predictor_private.h"
#include "train/run/run_names.h"

static const char *const model_files[] = { ET_TABLE_SCHEMA,       ET_TABLE_METADATA,
                                           ET_TABLE_FEATURES,     ET_RUN_BUILDER,
                                           (ET_ARTIFACT_WEIGHTS), NULL };

static bool is_of_model(const char *name)
{
    for (const char *const *file = model_files; *file; file++)
        if (!strcmp(*file, name))
            return true;
    return et_file_is_left_over(name);
}

typedef void visit_fn(int folder, const char *name);

static void pass_over(int folder, const char *name)
{
    (void)folder, (void)name;
}

static void remove_file(int folder, const char *name)
{
    unlinkat(folder, name, 0);
}

/* Visits what an export has written or had begun to. ET_ECONFIG: something else is there. */
static int visit(DIR *folder, const char *directory, visit_fn *file, et_error *error)
{
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (is_of_model(entry->d_name))
            file(dirfd(folder), entry->d_name);
        else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return et_fail(error, ET_ECONFIG,
                           "%s/%s is not a file of a model, but the job replaces this folder: "
                           "choose another output, or move the file",
                           directory, entry->d_name);
    return ET_OK;
}

/* removes: the folder too, once nothing but a model's files is known to be in it. */
static int clear_folder(const char *directory, bool removes, et_error *error)
{
    DIR *folder = opendir(directory);
    if (!folder)
        return errno == ENOENT ? ET_OK : et_fail_errno(error, "%s", directory);
    int status = visit(folder, directory, pass_over, error);
    rewinddir(folder);
    if (!status && removes)
        status = visit(folder, directory, remove_file, error);
    closedir(folder);
    if (!status && removes && rmdir(directory))
        status = et_fail_errno(error, "%s", directory);
    return status;
}

static int remove_model(const char *directory, et_error *error)
{
    return clear_folder(directory, true, error);
}

int et_builder_check_place(const char *output, et_error *error)
{
    static const char *const folders[] = { "model", "model.new", "model.old" };
    int status = ET_OK;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !status; i++) {
        char *path = et_path_join(output, folders[i]);
        status = path ? clear_folder(path, false, error)
                      : et_alloc_failed(error, strlen(output), "a path");
        et_free(path);
    }
    return status;
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
