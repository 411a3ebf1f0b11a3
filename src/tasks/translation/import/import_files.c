/* Files of the folder, by name. */
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "formats/torch/transformers_files.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/import/import_private.h"
#include "train/run/run_names.h"

/* JSON files of a folder: a vocabulary of a million tokens is far below. */
#define JSON_MAX ((size_t)256 << 20)

static const char pointer[] = "version https://git-lfs.github.com/spec/";

bool et_import_is_folder(const char *path)
{
    return et_file_exists_in(path, ET_TRANSFORMERS_CONFIG) &&
           !et_file_exists_in(path, ET_RUN_SETTINGS);
}

const char *et_import_path(et_import *from, const char *name)
{
    return et_arena_printf(&from->arena, "%s/%s", from->folder, name);
}

bool et_import_has(et_import *from, const char *name)
{
    const char *path = et_import_path(from, name);
    return path && et_file_exists(path);
}

int et_import_check_file(et_import *from, const char *name, et_error *error)
{
    const char *path = et_import_path(from, name);
    et_mapping mapping;
    if (!path)
        return et_alloc_failed(error, strlen(name), "a path");
    int status = et_mapping_open(&mapping, path, error);
    if (status)
        return status;
    const size_t length = mapping.length;
    const bool points =
        length >= sizeof pointer - 1 && !memcmp(mapping.data, pointer, sizeof pointer - 1);
    et_mapping_close(&mapping);
    return points ? et_fail(error, ET_EFORMAT,
                            "%s: this is a pointer of %zu bytes in place of the file: run git lfs "
                            "pull, or download the file",
                            path, length)
                  : ET_OK;
}

int et_import_read_json(et_import *from, const char *name, et_value **out, et_error *error)
{
    const char *path = et_import_path(from, name);
    int status = et_import_check_file(from, name, error);
    if (!status)
        status = et_json_read(out, &from->arena, path, JSON_MAX, error);
    if (!status && (*out)->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s: not a JSON object, but %s", path,
                         et_json_kind_name((*out)->kind));
    return status;
}
