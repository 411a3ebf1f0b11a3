#include "train/checkpoint/artifact/artifact_private.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "engine/tensor/params.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"
#include "train/checkpoint/stored_weight.h"

/* ---- opening ---- */

/* A checkpoint is a file of the same format, and what people name by mistake. */
static int check_export(et_artifact *artifact, et_error *error)
{
    const char *version = et_safetensors_metadata(artifact->file, ET_ARTIFACT_KEY_EXPORT);
    const char *precision = et_safetensors_metadata(artifact->file, ET_ARTIFACT_KEY_PRECISION);
    if (!version)
        return et_fail(error, ET_EFORMAT,
                       "%s has only weights, not a whole model; name the run's directory (and this "
                       "file with --checkpoint), or a file that `etude export` wrote",
                       artifact->name);
    if (strcmp(version, ET_ARTIFACT_VERSION) != 0)
        return et_fail(error, ET_EFORMAT,
                       "%s: an export of another version; this program reads " ET_ARTIFACT_VERSION,
                       artifact->name);
    return precision ? ET_OK
                     : et_fail(error, ET_EFORMAT, "%s: damaged: no " ET_ARTIFACT_KEY_PRECISION,
                               artifact->name);
}

static int finish(et_artifact *artifact, int status, et_error *error)
{
    if (!status)
        status = check_export(artifact, error);
    if (status)
        et_artifact_close(artifact);
    return status;
}

int et_artifact_open(et_artifact *artifact, const char *path, et_error *error)
{
    struct stat info;
    *artifact = (et_artifact){ .name = path, .arena = ET_ARENA_INIT };
    if (stat(path, &info) || !S_ISREG(info.st_mode))
        return et_artifact_member_read(&artifact->member, path, &artifact->arena, error);
    int status = et_safetensors_open(&artifact->file, path, error);
    if (status == ET_EFORMAT && !et_safetensors_is_name(path))
        status = et_fail(error, status,
                         "%s is neither the directory of a run nor an exported model "
                         "(NAME" ET_SAFETENSORS_SUFFIX "); name the model first, then files",
                         path);
    else if (status == ET_EFORMAT)
        status = et_fail_while(
            error, status,
            "not a run's directory, nor a complete model (name the model first, then files)");
    return finish(artifact, status, error);
}

int et_artifact_open_memory(et_artifact *artifact, const void *bytes, size_t length,
                            et_error *error)
{
    *artifact = (et_artifact){ .name = "the model in memory", .arena = ET_ARENA_INIT };
    if (!bytes)
        return et_fail(error, ET_ECONFIG, "the bytes of a model are NULL");
    return finish(artifact,
                  et_safetensors_open_memory(&artifact->file, bytes, length, artifact->name, error),
                  error);
}

void et_artifact_open_content(et_artifact *artifact, const char *name,
                              const et_artifact_content *content,
                              const et_artifact_owner_class *class, void *owner)
{
    et_assert(name && content && class && owner);
    *artifact = (et_artifact){
        .name = name, .content = content, .class = class, .owner = owner, .arena = ET_ARENA_INIT
    };
}

void et_artifact_close(et_artifact *artifact)
{
    if (artifact->owner)
        artifact->class->close(artifact->owner);
    et_safetensors_close(artifact->file);
    et_arena_release(&artifact->arena);
    *artifact = (et_artifact){ .name = NULL };
}

bool et_artifact_is_file(const et_artifact *artifact)
{
    return artifact->file || artifact->content;
}

bool et_artifact_is_export(const et_artifact *artifact)
{
    return et_artifact_is_file(artifact) || et_file_exists_in(artifact->name, ET_ARTIFACT_WEIGHTS);
}

const char *et_artifact_run(const et_artifact *artifact)
{
    return artifact->member ? artifact->member->run : artifact->name;
}

const char *et_artifact_precision(const et_artifact *artifact)
{
    return artifact->file ? et_safetensors_metadata(artifact->file, ET_ARTIFACT_KEY_PRECISION)
                          : "float32";
}

/* ---- texts ---- */

/* A member's settings are made of its run's. */
static bool is_made(const et_artifact *artifact, const char *name)
{
    return artifact->member && !strcmp(name, ET_RUN_SETTINGS);
}

const char *et_artifact_setting(const et_artifact *artifact, const char *name, et_arena *arena)
{
    return et_artifact_is_file(artifact) ? et_arena_strdup(arena, artifact->name)
                                         : et_artifact_path(artifact, name, arena);
}

const char *et_artifact_path(const et_artifact *artifact, const char *name, et_arena *arena)
{
    if (is_made(artifact, name))
        return et_arena_printf(arena, "%s/%s", artifact->member->run, name);
    return et_arena_printf(arena, et_artifact_is_file(artifact) ? "%s: %s" : "%s/%s",
                           artifact->name, name);
}

static const et_safetensors_tensor *find_in_file(const et_artifact *artifact, const char *name)
{
    const et_safetensors_tensor *text = et_stored_find(artifact->file, ET_ARTIFACT_TEXT, name);
    return text && text->dtype == ET_U8 && text->shape.rank == 1 ? text : NULL;
}

/* The text in a file or a content; not verified. */
static bool find_text(const et_artifact *artifact, const char *name, et_artifact_text *out)
{
    const et_artifact_content *content = artifact->content;
    for (int i = 0; content && i < content->count; i++) {
        *out = content->texts[i];
        if (!strcmp(out->name, name))
            return true;
    }
    const et_safetensors_tensor *text = artifact->file ? find_in_file(artifact, name) : NULL;
    if (text)
        *out = (et_artifact_text){ name, text->data, text->bytes };
    return text != NULL;
}

bool et_artifact_has(const et_artifact *artifact, const char *name)
{
    et_artifact_text text;
    if (et_artifact_is_file(artifact))
        return find_text(artifact, name, &text);
    return et_file_exists_in(is_made(artifact, name) ? artifact->member->run : artifact->name,
                             name);
}

static int read_directory(const et_artifact *artifact, const char *name, size_t most, char **bytes,
                          size_t *length, et_error *error)
{
    char *path = et_path_join(artifact->name, name);
    int status = path ? et_file_read(bytes, length, path, most, error)
                      : et_alloc_failed(error, strlen(artifact->name), "a path");
    et_free(path);
    return status;
}

int et_artifact_read(const et_artifact *artifact, const char *name, size_t most, char **bytes,
                     size_t *length, et_error *error)
{
    *bytes = NULL;
    *length = 0;
    if (is_made(artifact, name))
        return et_artifact_member_print(artifact->member, bytes, length, error);
    if (!et_artifact_is_file(artifact))
        return read_directory(artifact, name, most, bytes, length, error);
    et_artifact_text text;
    if (!find_text(artifact, name, &text))
        return et_fail(error, ET_ENOTFOUND, "%s: %s is missing", artifact->name, name);
    if (text.length > most)
        return et_fail(error, ET_EFORMAT, "%s: %s is larger than %zu bytes", artifact->name, name,
                       most);
    int status = artifact->file ? et_safetensors_verify_tensor(artifact->file,
                                                               find_in_file(artifact, name), error)
                                : ET_OK;
    if (!status && !(*bytes = et_alloc(text.length + 1, 1)))
        status = et_alloc_failed(error, text.length, name);
    if (status)
        return status;
    if (text.length)
        memcpy(*bytes, text.bytes, text.length);
    (*bytes)[text.length] = 0;
    *length = text.length;
    return ET_OK;
}

int et_artifact_checksum(const et_artifact *artifact, const char *name, size_t most,
                         uint64_t *checksum, et_error *error)
{
    char *bytes;
    size_t length;
    int status = et_artifact_read(artifact, name, most, &bytes, &length, error);
    if (!status)
        *checksum = et_checksum(bytes, length);
    et_free(bytes);
    return status;
}

int et_artifact_read_named(const char *path, const char *name, size_t most, char **bytes,
                           size_t *length, et_error *error)
{
    et_artifact artifact;
    if (!et_safetensors_is_name(path))
        return et_file_read(bytes, length, path, most, error);
    *bytes = NULL;
    *length = 0;
    int status = et_artifact_open(&artifact, path, error);
    if (!status)
        status = et_artifact_read(&artifact, name, most, bytes, length, error);
    et_artifact_close(&artifact);
    return status;
}

/* The name comes from the file, so it may be anything. */
static int unpack(const et_artifact *artifact, const char *name, const char *directory,
                  et_error *error)
{
    char *bytes = NULL;
    size_t length;
    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return et_fail(error, ET_EFORMAT, "%s: damaged: %s is not a file name", artifact->name,
                       name);
    int status = et_artifact_read(artifact, name, SIZE_MAX, &bytes, &length, error);
    char *path = status ? NULL : et_path_join(directory, name);
    if (path)
        status = et_file_write(path, bytes, length, error);
    else if (!status)
        status = et_alloc_failed(error, strlen(name), "a path");
    et_free(bytes);
    et_free(path);
    return status;
}

int et_artifact_unpack(const et_artifact *artifact, const char *directory, et_error *error)
{
    const et_artifact_content *content = artifact->content;
    const size_t prefix = strlen(ET_ARTIFACT_TEXT);
    int status = ET_OK;
    et_assert(et_artifact_is_file(artifact));
    for (int i = 0; content && i < content->count && !status; i++)
        status = unpack(artifact, content->texts[i].name, directory, error);
    for (size_t i = 0; !content && i < et_safetensors_count(artifact->file) && !status; i++) {
        const char *name = et_safetensors_at(artifact->file, i)->name;
        if (!strncmp(name, ET_ARTIFACT_TEXT, prefix))
            status = unpack(artifact, name + prefix, directory, error);
    }
    return status;
}

/* The first run by name directly in a directory, "runs/a". False: none, or no room. */
static bool find_below(const char *directory, char *run, size_t size)
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

int et_artifact_check_folder(const et_artifact *artifact, et_error *error)
{
    char below[600];
    return find_below(artifact->name, below, sizeof below)
               ? et_fail(error, ET_ENOTFOUND, "%s: a folder of runs; name one of them, such as %s",
                         artifact->name, below)
               : ET_OK;
}

/* ---- what they belong to ---- */

/* Turns the identity in a run's checkpoint into that of this model. */
static int identify(const et_artifact *artifact, const et_value **identity, et_arena *arena,
                    et_error *error)
{
    return artifact->member ? et_artifact_member_identify(artifact->member, identity, arena, error)
                            : ET_OK;
}

int et_artifact_identity(const et_artifact *artifact, et_identity *out, et_arena *arena,
                         et_error *error)
{
    if (artifact->content) {
        *out = (et_identity){ artifact->name, artifact->content->identity };
        return ET_OK;
    }
    if (!et_artifact_is_export(artifact)) {
        int status = et_identity_of_newest(out, et_artifact_run(artifact), arena, error);
        return status ? status : identify(artifact, &out->values, arena, error);
    }
    const char *path =
        et_arena_printf(arena, artifact->file ? "%s" : "%s/" ET_ARTIFACT_WEIGHTS, artifact->name);
    if (!path)
        return et_alloc_failed(error, strlen(artifact->name), "a path");
    if (!et_identity_of_file(out, path, arena))
        *out = (et_identity){ NULL, NULL };
    return ET_OK;
}

/* ---- weights ---- */

static et_weights_choice choice_of(const et_artifact_weights *load)
{
    const et_artifact_member *member = load->artifact->member;
    return (et_weights_choice){ !load->live_weights, member ? member->prefix : NULL, load->mapped };
}

static int check_texts(const et_artifact_weights *load, et_error *error)
{
    return load->check ? load->check(load->payload, load, error) : ET_OK;
}

/* Weights of other shapes may belong to other texts, and which text it is says more than a shape.
 */
static int check(et_artifact_weights *load, int status, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts *facts = &load->facts;
    if (facts->arena && facts->identity &&
        identify(load->artifact, &facts->identity, facts->arena, &reason))
        return et_fail(error, reason.status, "%s", reason.text);
    if (!status)
        return check_texts(load, error);
    if (status != ET_ECONFIG || !facts->identity || !check_texts(load, &reason))
        return status;
    return et_fail(error, status, "%s", reason.text);
}

static int load_content(et_artifact_weights *load, et_error *error)
{
    const et_artifact *artifact = load->artifact;
    const et_artifact_content *content = artifact->content;
    et_checkpoint_facts *facts = &load->facts;
    facts->step = content->step;
    et_value *identity = facts->arena && content->identity ? et_value_dict(facts->arena) : NULL;
    facts->identity = identity;
    int status = identity ? et_value_merge(identity, content->identity, error) : ET_OK;
    if (!status && !et_params_ready(load->params))
        status = et_params_materialize(load->params, false, error);
    return status ? status : artifact->class->load(artifact->owner, load->params, error);
}

/* The file of a path is opened again: its mapping outlives the artifact. */
static int load_file(et_artifact_weights *load, et_error *error)
{
    const et_artifact *artifact = load->artifact;
    const et_weights_choice choice = { .mapped = load->mapped };
    et_safetensors *file = artifact->file;
    int64_t step;
    if (load->named)
        return et_fail(
            error, ET_ECONFIG, "%s is a %s with one set of weights: leave out checkpoint %s",
            artifact->name, artifact->content ? "published model" : "single file", load->named);
    load->checkpoint = et_strdup(artifact->name);
    if (!load->checkpoint)
        return et_alloc_failed(error, strlen(artifact->name), "a path");
    if (artifact->content)
        return load_content(load, error);
    if (load->mapped && !et_safetensors_in_memory(file))
        return et_checkpoint_take_file(load->params, artifact->name, choice, &load->facts, error);
    int status = et_checkpoint_file_check(file, artifact->name, &step, error);
    if (!status)
        status = et_checkpoint_file_load(load->params, &file, artifact->name, choice, &load->facts,
                                         error);
    if (!status)
        load->facts.step = step;
    return status;
}

static int load_named(et_artifact_weights *load, et_error *error)
{
    return et_checkpoint_take_named(&load->checkpoint, load->params,
                                    et_artifact_run(load->artifact), load->named, choice_of(load),
                                    &load->facts, error);
}

static int load_export(et_artifact_weights *load, et_error *error)
{
    load->checkpoint = et_path_join(load->artifact->name, ET_ARTIFACT_WEIGHTS);
    return load->checkpoint ? et_checkpoint_take_file(load->params, load->checkpoint,
                                                      (et_weights_choice){ .mapped = load->mapped },
                                                      &load->facts, error)
                            : et_alloc_failed(error, strlen(load->artifact->name), "a path");
}

/* ET_ENOTFOUND without a warning: the run keeps none. Any other trouble with the best one is a
 * warning, since the newest is there as well. */
static int load_best(et_artifact_weights *load)
{
    et_error reason = ET_ERROR_INIT;
    int status =
        et_checkpoint_take_best(&load->checkpoint, load->params, et_artifact_run(load->artifact),
                                choice_of(load), &load->facts, &reason);
    if (status == ET_ENOTFOUND && !load->checkpoint)
        return status;
    status = check(load, status, &reason);
    if (status)
        et_log(ET_LOG_WARNING, "%s; using the newest checkpoint instead of the best", reason.text);
    return status;
}

/* The message of "none" is about the run, not about a folder in it. */
static int load_newest(et_artifact_weights *load, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    et_free(load->checkpoint);
    load->checkpoint = NULL;
    load->facts.identity = NULL;
    int status =
        et_checkpoint_take_newest(&load->checkpoint, load->params, et_artifact_run(load->artifact),
                                  choice_of(load), &load->facts, &reason);
    if (status == ET_ENOTFOUND)
        return et_fail(error, status,
                       "%s: no checkpoint yet; train this run first, or wait until it saves",
                       et_artifact_run(load->artifact));
    status = check(load, status, &reason);
    return status ? et_fail(error, status, "%s", reason.text) : ET_OK;
}

int et_artifact_load(et_artifact_weights *load, et_error *error)
{
    const et_artifact *artifact = load->artifact;
    const bool export = et_artifact_is_export(artifact);
    if (load->live_weights && artifact->content)
        et_log(ET_LOG_WARNING,
               "%s is a published model with one set of weights; live weights are ignored",
               artifact->name);
    else if (load->live_weights && export)
        et_log(ET_LOG_WARNING,
               "%s is an export with one set of weights; to get the trained weights, export the "
               "run with --live-weights",
               artifact->name);
    if (!export && !load->named)
        return load_best(load) ? load_newest(load, error) : ET_OK;
    if (!export && !strcmp(load->named, ET_CHECKPOINT_NEWEST))
        return load_newest(load, error);
    int status = et_artifact_is_file(artifact) ? load_file(load, error)
                 : load->named                 ? load_named(load, error)
                                               : load_export(load, error);
    return check(load, status, error);
}
