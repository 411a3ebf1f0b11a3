#include "train/checkpoint/artifact/model_place.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "engine/tensor/params.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/stored_weight.h"
#include "train/run/run_names.h"

/* ---- opening ---- */

/* A checkpoint is a file of the same format, and what people name by mistake. */
static int check_export(et_model_place *place, et_error *error)
{
    const char *version = et_safetensors_metadata(place->file, ET_MODEL_KEY_EXPORT);
    const char *precision = et_safetensors_metadata(place->file, ET_MODEL_KEY_PRECISION);
    if (!version)
        return et_fail(error, ET_EFORMAT,
                       "%s has only weights, not a whole model; name the run's directory (and this "
                       "file with --checkpoint), or a file that `etude export` wrote",
                       place->name);
    if (strcmp(version, ET_MODEL_VERSION) != 0)
        return et_fail(error, ET_EFORMAT,
                       "%s: an export of another version; this program reads " ET_MODEL_VERSION,
                       place->name);
    return precision
               ? ET_OK
               : et_fail(error, ET_EFORMAT, "%s: damaged: no " ET_MODEL_KEY_PRECISION, place->name);
}

static int finish(et_model_place *place, int status, et_error *error)
{
    if (!status)
        status = check_export(place, error);
    if (status)
        et_model_place_close(place);
    return status;
}

int et_model_place_open(et_model_place *place, const char *path, et_error *error)
{
    struct stat info;
    *place = (et_model_place){ .name = path };
    if (stat(path, &info) || !S_ISREG(info.st_mode))
        return et_model_member_open(&place->member, path, error);
    int status = et_safetensors_open(&place->file, path, error);
    if (status == ET_EFORMAT)
        status = et_fail_while(
            error, status,
            "neither a run's directory nor a whole model (the model is named first, then files)");
    return finish(place, status, error);
}

int et_model_place_open_memory(et_model_place *place, const void *bytes, size_t length,
                               et_error *error)
{
    *place = (et_model_place){ .name = "the model in memory" };
    if (!bytes)
        return et_fail(error, ET_ECONFIG, "the bytes of a model are NULL");
    return finish(
        place, et_safetensors_open_memory(&place->file, bytes, length, place->name, error), error);
}

void et_model_place_close(et_model_place *place)
{
    et_safetensors_close(place->file);
    et_model_member_close(place->member);
    *place = (et_model_place){ .name = NULL };
}

bool et_model_place_is_file(const et_model_place *place)
{
    return place->file != NULL;
}

const char *et_model_place_run(const et_model_place *place)
{
    return place->member ? place->member->run : place->name;
}

const char *et_model_place_prefix(const et_model_place *place)
{
    return place->member ? place->member->prefix : NULL;
}

int et_model_place_identify(const et_model_place *place, const et_value **identity, et_arena *arena,
                            et_error *error)
{
    return place->member ? et_model_member_identify(place->member, identity, arena, error) : ET_OK;
}

const char *et_model_place_precision(const et_model_place *place)
{
    return place->file ? et_safetensors_metadata(place->file, ET_MODEL_KEY_PRECISION) : "float32";
}

/* ---- texts ---- */

/* A member's settings are made of its run's. */
static bool is_made(const et_model_place *place, const char *name)
{
    return place->member && !strcmp(name, ET_RUN_SETTINGS);
}

const char *et_model_place_path(const et_model_place *place, const char *name, et_arena *arena)
{
    if (is_made(place, name))
        return et_arena_printf(arena, "%s/%s", place->member->run, name);
    return et_arena_printf(arena, place->file ? "%s: %s" : "%s/%s", place->name, name);
}

static const et_safetensors_tensor *find_text(const et_model_place *place, const char *name)
{
    const et_safetensors_tensor *text = et_stored_find(place->file, ET_MODEL_TEXT, name);
    return text && text->dtype == ET_U8 && text->shape.rank == 1 ? text : NULL;
}

bool et_model_place_has(const et_model_place *place, const char *name)
{
    if (place->file)
        return find_text(place, name) != NULL;
    return et_file_exists_in(is_made(place, name) ? place->member->run : place->name, name);
}

static int read_directory(const et_model_place *place, const char *name, size_t most, char **bytes,
                          size_t *length, et_error *error)
{
    char *path = et_path_join(place->name, name);
    int status = path ? et_file_read(bytes, length, path, most, error)
                      : et_alloc_failed(error, strlen(place->name), "a path");
    et_free(path);
    return status;
}

int et_model_place_read(const et_model_place *place, const char *name, size_t most, char **bytes,
                        size_t *length, et_error *error)
{
    *bytes = NULL;
    *length = 0;
    if (is_made(place, name))
        return et_model_member_print(place->member, bytes, length, error);
    if (!place->file)
        return read_directory(place, name, most, bytes, length, error);
    const et_safetensors_tensor *text = find_text(place, name);
    if (!text)
        return et_fail(error, ET_ENOTFOUND, "%s: %s is missing", place->name, name);
    if (text->bytes > most)
        return et_fail(error, ET_EFORMAT, "%s: %s is larger than %zu bytes", place->name, name,
                       most);
    int status = et_safetensors_verify_tensor(place->file, text, error);
    if (!status && !(*bytes = et_alloc(text->bytes + 1, 1)))
        status = et_alloc_failed(error, text->bytes, name);
    if (status)
        return status;
    if (text->bytes)
        memcpy(*bytes, text->data, text->bytes);
    (*bytes)[text->bytes] = 0;
    *length = text->bytes;
    return ET_OK;
}

int et_model_place_read_named(const char *path, const char *name, size_t most, char **bytes,
                              size_t *length, et_error *error)
{
    et_model_place place;
    if (!et_safetensors_is_name(path))
        return et_file_read(bytes, length, path, most, error);
    *bytes = NULL;
    *length = 0;
    int status = et_model_place_open(&place, path, error);
    if (!status)
        status = et_model_place_read(&place, name, most, bytes, length, error);
    et_model_place_close(&place);
    return status;
}

/* Whoever made the file chose the name. */
static int unpack(const et_model_place *place, const et_safetensors_tensor *text,
                  const char *directory, et_error *error)
{
    const char *name = text->name + strlen(ET_MODEL_TEXT);
    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return et_fail(error, ET_EFORMAT, "%s: damaged: %s is not a file name", place->name, name);
    int status = et_safetensors_verify_tensor(place->file, text, error);
    char *path = status ? NULL : et_path_join(directory, name);
    if (path)
        status = et_file_write(path, text->data, text->bytes, error);
    else if (!status)
        status = et_alloc_failed(error, strlen(name), "a path");
    et_free(path);
    return status;
}

int et_model_place_unpack(const et_model_place *place, const char *directory, et_error *error)
{
    int status = ET_OK;
    et_assert(place->file);
    for (size_t i = 0; i < et_safetensors_count(place->file) && !status; i++) {
        const et_safetensors_tensor *text = et_safetensors_at(place->file, i);
        if (!strncmp(text->name, ET_MODEL_TEXT, strlen(ET_MODEL_TEXT)))
            status = unpack(place, text, directory, error);
    }
    return status;
}

/* ---- weights ---- */

int et_model_place_load(const et_model_place *place, et_params *params, et_checkpoint_facts *facts,
                        et_error *error)
{
    int64_t step;
    et_assert(place->file && et_params_ready(params));
    int status = et_checkpoint_file_check(place->file, place->name, &step, error);
    if (!status)
        status = et_checkpoint_file_load(params, place->file, place->name, (et_weights_choice){ 0 },
                                         facts, error);
    if (!status && facts)
        facts->step = step;
    return status;
}

bool et_model_place_below(const char *directory, char *run, size_t size)
{
    char path[PATH_MAX];
    bool found = false;
    DIR *stream = opendir(directory);
    for (const struct dirent *item; stream && (item = readdir(stream)) != NULL;) {
        const int length =
            snprintf(path, sizeof path, "%s/%s/" ET_RUN_SETTINGS, directory, item->d_name);
        if (*item->d_name == '.' || length >= (int)sizeof path || !et_file_exists(path))
            continue;
        const size_t bytes = (size_t)length - sizeof ET_RUN_SETTINGS;
        path[bytes] = 0;
        if (bytes < size && (!found || strcmp(path, run) < 0))
            memcpy(run, path, bytes + 1);
        found |= bytes < size;
    }
    if (stream)
        closedir(stream);
    return found;
}
