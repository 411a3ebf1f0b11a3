/* Reads and writes single files of a run's directory; checkpoint_find.c finds checkpoints. */
#include <etude/run_files.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_names.h"

int et_run_files_step(const char *model_dir, int64_t *step, et_error *error)
{
    et_safetensors *file = NULL;
    et_manifest manifest = { 0 };
    size_t taken_up;
    int64_t index = -1;
    int status = et_path_check(model_dir, error);
    if (status)
        return status;
    const et_path directory = et_path_of(model_dir, ET_CHECKPOINT_FOLDER);
    if (et_file_exists(directory.text)) {
        status = et_checkpoint_list(&manifest, &taken_up, directory.text, false, error);
        if (!status)
            status =
                et_checkpoint_open_newest(&file, step, &index, &manifest, directory.text, error);
        et_manifest_release(&manifest);
    }
    if (!status && index < 0)
        status = et_fail(error, ET_ENOTFOUND, "%s: no checkpoint here", model_dir);
    et_safetensors_close(file);
    return status;
}

/* Removes the files on the disk, oldest first, and the manifest last: after a kill, the next call
 * finds and removes the rest. */
static int remove_all(const char *directory, et_error *error)
{
    et_manifest manifest;
    int status = et_manifest_rebuild(&manifest, directory, ET_CHECKPOINT_PREFIX, error);
    for (size_t i = 0; !status && i <= manifest.count; i++) {
        const char *name = i < manifest.count ? manifest.entries[i].file : ET_MANIFEST_NAME;
        const et_path path = et_path_of(directory, name);
        if (et_file_exists(path.text) && remove(path.text))
            status = et_fail_errno(error, "cannot remove %s", path.text);
    }
    et_manifest_release(&manifest);
    return status ? status : et_directory_sync(directory, error);
}

int et_run_files_remove_checkpoints(const char *model_dir, et_error *error)
{
    int lock;
    int status = et_path_check(model_dir, error);
    if (status || !et_file_exists_in(model_dir, ET_CHECKPOINT_FOLDER) ||
        (status = et_checkpoints_lock(&lock, model_dir, error)))
        return status;
    status = remove_all(et_path_of(model_dir, ET_CHECKPOINT_FOLDER).text, error);
    et_lock_drop(lock);
    return status;
}

int et_run_files_write_metrics(const char *model_dir, int64_t step, const et_value *values,
                               et_error *error)
{
    int status = et_path_check(model_dir, error);
    if (status)
        return status;
    const et_path name = et_path_print("metrics-%" PRId64 ".json", step);
    return et_json_write(et_path_of(model_dir, name.text).text, values, 4, "\n", error);
}

int64_t et_run_files_count_params(const et_params *params, bool trained_only)
{
    int64_t count = 0;
    for (int i = 0; i < et_params_count(params); i++)
        if (!trained_only || et_params_is_trained(params, i))
            count += et_shape_count(et_params_shape(params, i));
    return count;
}

/* variables NULL: all of params, by index. */
static int write_list(const char *path, const et_params *params,
                      const et_module_variable *variables, size_t count, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    char shape[ET_SHAPE_TEXT_MAX];
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const et_params *of = variables ? variables[i].params : params;
        const int index = variables ? variables[i].index : (int)i;
        total += et_shape_count(et_params_shape(of, index));
        et_strbuf_printf(&text, "%s %s\n", et_params_name(of, index),
                         et_shape_print(et_params_shape(of, index), shape));
    }
    et_strbuf_printf(&text, "\nTotal params: %s\n", et_format_count(total).text);
    int status = text.failed ? et_alloc_failed(error, "a list of parameters")
                             : et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    return status;
}

int et_run_files_write_params(const char *path, const et_params *params, et_error *error)
{
    return write_list(path, params, NULL, (size_t)et_params_count(params), error);
}

int et_run_files_write_variables(const char *path, const et_module_variable *variables,
                                 size_t count, et_error *error)
{
    return variables || !count ? write_list(path, NULL, variables, count, error)
                               : et_fail(error, ET_EUSAGE, "the list of variables is NULL");
}
