#include "train/checkpoint/artifact/artifact.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "base/vector.h"
#include "engine/tensor/params.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"

#define FILE_MAX     ((size_t)1 << 16) /* bytes of member.yaml */
#define SETTINGS_MAX ((size_t)1 << 20)

/* ---- the file ---- */

int et_artifact_write_member(const char *folder, const et_artifact_member *member, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_value *dict = et_value_dict(&arena);
    et_value_set_string(dict, "name", member->name);
    et_value_set_string(dict, "experiment", member->experiment);
    et_value_set_string(dict, "settings", member->settings);
    if (dict)
        et_yaml_print(&text, dict);
    int status = et_value_failed(dict) || text.failed
                     ? et_alloc_failed(error, "a member")
                     : et_file_write(et_path_of(folder, ET_RUN_MEMBER).text, et_strbuf_text(&text),
                                     text.length, error);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

/* "runs/a" for "runs/a/task_1"; for a path that does not end in a name, its "..". */
static const char *run_of(const char *folder, et_arena *arena)
{
    char *text = et_arena_strndup(arena, folder, et_path_length(folder));
    const char *base = text ? et_path_base(text) : "";
    if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
        return text ? et_arena_printf(arena, "%s/..", text) : NULL;
    if (base == text)
        return ".";
    size_t length = (size_t)(base - text);
    return et_arena_strndup(arena, text, length > 1 ? length - 1 : 1);
}

static int parse_member(et_artifact_member *member, const char *path, const char *folder,
                        et_arena *arena, et_error *error)
{
    et_value *dict;
    int status = et_value_read_file(&dict, arena, path, FILE_MAX, et_yaml_parse, error);
    if (status)
        return status;
    if ((status = et_value_read_string(dict, "name", &member->name, error)) ||
        (status = et_value_read_string(dict, "experiment", &member->experiment, error)) ||
        (status = et_value_read_string(dict, "settings", &member->settings, error)))
        return et_fail_while(error, status, "%s", path);
    member->run = run_of(folder, arena);
    member->prefix = et_arena_printf(arena, "%s/", member->name);
    return member->run && member->prefix ? ET_OK : et_alloc_failed(error, "a member");
}

static int read_member(const et_artifact_member **out, const char *folder, et_arena *arena,
                       et_error *error)
{
    const et_path path = et_path_of(folder, ET_RUN_MEMBER);
    *out = NULL;
    if (!et_file_exists(path.text))
        return ET_OK;
    et_artifact_member *member = et_arena_alloc(arena, sizeof *member);
    int status = member ? parse_member(member, path.text, folder, arena, error)
                        : et_alloc_failed(error, "a member");
    *out = status ? NULL : member;
    return status;
}

/* ---- as a model alone ---- */

/* A run's best value has its task's name in front; the task alone has its kind's name. */
static bool is_kept(const et_value *group, const et_value *setting)
{
    return strcmp(group->key, "trainer") != 0 ||
           (strcmp(setting->key, "best_checkpoint_eval_metric") != 0 &&
            strcmp(setting->key, "best_checkpoint_metric_comp") != 0);
}

/* The run's settings with the member's own below `task`; both trees are in one arena. */
static int make_settings(const et_artifact_member *member, const et_value *run, const char *path,
                         et_value *out, et_error *error)
{
    const et_value *own = et_value_path(run, member->settings);
    if (!own || own->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EFORMAT,
                       "%s: %s is missing, which has the settings of task %s; restore the file "
                       "that the run was trained with",
                       path, member->settings, member->name);
    et_value_set_string(out, "experiment", member->experiment);
    et_value *task = et_value_set_dict(out, "task");
    int status = task ? et_value_merge(task, own, error) : et_alloc_failed(error, "settings");
    for (const et_value *group = run->first; group && !status; group = group->next)
        if (group->kind == ET_VALUE_DICT && strcmp(group->key, "task") != 0) {
            /* Shares the children with the run's tree. */
            et_value *copy = et_value_set_dict(out, group->key);
            for (const et_value *child = group->first; copy && child; child = child->next)
                if (is_kept(group, child))
                    et_value_append_copy(copy, child->key, child);
        }
    return !status && et_value_failed(out) ? et_alloc_failed(error, "settings") : status;
}

static int print_member(const et_artifact_member *member, char **text, size_t *length,
                        et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *run, *own = et_value_dict(&arena);
    const et_path path = et_path_of(member->run, ET_RUN_SETTINGS);
    *text = NULL;
    *length = 0;
    int status =
        own ? et_value_read_file(&run, &arena, path.text, SETTINGS_MAX, et_yaml_parse, error)
            : et_alloc_failed(error, "settings");
    if (!status)
        status = make_settings(member, run, path.text, own, error);
    if (!status) {
        et_strbuf out = ET_STRBUF_INIT;
        et_yaml_print(&out, own);
        *length = out.length;
        *text = et_strbuf_detach(&out);
        status = *text ? ET_OK : et_alloc_failed(error, "settings");
    }
    et_arena_release(&arena);
    return status;
}

/* A tree of settings in an identity: the member's subtree as `task`, and the other settings. */
static int keep_tree(const et_artifact_member *member, const et_value *whole, const char *name,
                     et_value *out, et_error *error)
{
    const et_value *run = et_value_get(whole, name), *own = et_value_path(run, member->settings);
    et_value *tree = et_value_set_dict(out, name);
    int status = tree ? ET_OK : et_alloc_failed(error, "settings");
    for (const et_value *group = run ? run->first : NULL; group && !status; group = group->next) {
        const et_value *from = strcmp(group->key, "task") != 0 ? group : own;
        et_value *to = from ? et_value_set_dict(tree, group->key) : NULL;
        if (to && from->kind == ET_VALUE_DICT)
            status = et_value_merge(to, from, error);
    }
    return status;
}

/* ---- those of a run ---- */

typedef struct one {
    const char *folder;
    const et_artifact_member *member;
} one;

typedef struct all {
    one *items; /* [count], owned; their pointers are in the arena */
    size_t count, capacity;
    et_arena arena;
} all;

static int by_folder(const void *a, const void *b)
{
    const char *x = ((const one *)a)->folder, *y = ((const one *)b)->folder;
    const size_t m = strlen(x), n = strlen(y);
    return m != n ? (m < n ? -1 : 1) : strcmp(x, y);
}

static int add(all *members, const char *run, const char *name, et_error *error)
{
    const bool grown = ET_VECTOR_GROW(members->items, members->capacity, members->count + 1);
    const char *folder = et_arena_strdup(&members->arena, et_path_of(run, name).text);
    const et_artifact_member *member = NULL;
    int status = grown && folder ? read_member(&member, folder, &members->arena, error)
                                 : et_alloc_failed(error, "a path");
    if (member)
        members->items[members->count++] = (one){ folder, member };
    return status;
}

/* In the order of their folders: task_2 before task_10. */
static int list(all *members, const char *run, et_error *error)
{
    DIR *stream = opendir(run);
    int status = ET_OK;
    *members = (all){ .arena = ET_ARENA_INIT };
    for (struct dirent *entry; stream && !status && (entry = readdir(stream)) != NULL;)
        if (entry->d_name[0] != '.')
            status = add(members, run, entry->d_name, error);
    if (stream)
        closedir(stream);
    if (members->count)
        qsort(members->items, members->count, sizeof *members->items, by_folder);
    return status;
}

static void release(all *members)
{
    et_free(members->items);
    et_arena_release(&members->arena);
}

static const char *names_of(all *members)
{
    const char *names = "";
    for (size_t i = 0; i < members->count && names; i++)
        names = et_arena_printf(&members->arena, "%s%s%s", names, i ? ", " : "",
                                members->items[i].member->name);
    return names;
}

int et_artifact_find_member(char **folder, const char *run, const char *name, et_error *error)
{
    all members;
    *folder = NULL;
    if (!et_file_exists(run))
        return et_fail(error, ET_ENOTFOUND, "%s: no such file or directory; check the path", run);
    int status = list(&members, run, error);
    const char *found = NULL, *names = names_of(&members);
    for (size_t i = 0; i < members.count && !status && !found; i++)
        if (!strcmp(members.items[i].member->name, name))
            found = members.items[i].folder;
    if (found && !(*folder = et_strdup(found)))
        status = et_alloc_failed(error, "a path");
    else if (!status && !found && members.count)
        status = et_fail(error, ET_ECONFIG, "%s: no task is called %s: name one of %s", run, name,
                         names ? names : "its tasks");
    else if (!status && !found)
        status = et_fail(error, ET_ECONFIG, "%s: the run has only one task; leave out --task %s",
                         run, name);
    release(&members);
    return status;
}

int et_artifact_check_single(const char *run, et_error *error)
{
    all members;
    const char *names = list(&members, run, NULL) ? "" : names_of(&members);
    int status = ET_OK;
    if (names && *names)
        status = et_fail(error, ET_ECONFIG, "%s has several tasks: add --task NAME, one of %s", run,
                         names);
    release(&members);
    return status;
}

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
        return read_member(&artifact->member, path, &artifact->arena, error);
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
    const et_safetensors_tensor *text = et_stored_find(artifact->file, ET_STORED_TEXT, name);
    return text && text->dtype == ET_U8 && text->shape.rank == 1 ? text : NULL;
}

/* The text in a file or a content; not verified. */
static bool find_text(const et_artifact *artifact, const char *name, et_artifact_file *out)
{
    const et_artifact_content *content = artifact->content;
    for (int i = 0; content && i < content->count; i++) {
        *out = content->texts[i];
        if (!strcmp(out->name, name))
            return true;
    }
    const et_safetensors_tensor *text = artifact->file ? find_in_file(artifact, name) : NULL;
    if (text)
        *out = (et_artifact_file){ name, text->data, text->bytes };
    return text != NULL;
}

bool et_artifact_has(const et_artifact *artifact, const char *name)
{
    et_artifact_file text;
    if (et_artifact_is_file(artifact))
        return find_text(artifact, name, &text);
    return et_file_exists_in(is_made(artifact, name) ? artifact->member->run : artifact->name,
                             name);
}

int et_artifact_read(const et_artifact *artifact, const char *name, size_t most, char **bytes,
                     size_t *length, et_error *error)
{
    *bytes = NULL;
    *length = 0;
    if (is_made(artifact, name))
        return print_member(artifact->member, bytes, length, error);
    if (!et_artifact_is_file(artifact))
        return et_file_read(bytes, length, et_path_of(artifact->name, name).text, most, error);
    et_artifact_file text;
    if (!find_text(artifact, name, &text))
        return et_fail(error, ET_ENOTFOUND, "%s: %s is missing", artifact->name, name);
    if (text.length > most)
        return et_fail(error, ET_EFORMAT, "%s: %s is larger than %zu bytes", artifact->name, name,
                       most);
    int status = artifact->file ? et_safetensors_verify_tensor(artifact->file,
                                                               find_in_file(artifact, name), error)
                                : ET_OK;
    if (!status && !(*bytes = et_alloc(text.length + 1, 1)))
        status = et_alloc_failed(error, name);
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
    if (!status)
        status = et_file_write(et_path_of(directory, name).text, bytes, length, error);
    et_free(bytes);
    return status;
}

int et_artifact_unpack(const et_artifact *artifact, const char *directory, et_error *error)
{
    const et_artifact_content *content = artifact->content;
    const size_t prefix = strlen(ET_STORED_TEXT);
    int status = ET_OK;
    et_assert(et_artifact_is_file(artifact));
    for (int i = 0; content && i < content->count && !status; i++)
        status = unpack(artifact, content->texts[i].name, directory, error);
    for (size_t i = 0; !content && i < et_safetensors_count(artifact->file) && !status; i++) {
        const char *name = et_safetensors_at(artifact->file, i)->name;
        if (!strncmp(name, ET_STORED_TEXT, prefix))
            status = unpack(artifact, name + prefix, directory, error);
    }
    return status;
}

int et_artifact_check_folder(const et_artifact *artifact, et_error *error)
{
    char below[600], path[PATH_MAX]; /* below: the first run by name, "runs/a" */
    bool found = false;
    int status = et_directory_check(artifact->name, error);
    if (status)
        return status;
    DIR *stream = opendir(artifact->name);
    for (const struct dirent *item; stream && (item = readdir(stream)) != NULL;) {
        const int length =
            snprintf(path, sizeof path, "%s/%s/" ET_RUN_SETTINGS, artifact->name, item->d_name);
        if (*item->d_name == '.' || length >= (int)sizeof path || !et_file_exists(path))
            continue;
        const size_t bytes = (size_t)length - sizeof ET_RUN_SETTINGS;
        path[bytes] = 0;
        if (bytes < sizeof below && (!found || strcmp(path, below) < 0))
            memcpy(below, path, bytes + 1);
        found |= bytes < sizeof below;
    }
    if (stream)
        closedir(stream);
    return found
               ? et_fail(error, ET_ENOTFOUND, "%s: a folder of runs; name one of them, such as %s",
                         artifact->name, below)
               : ET_OK;
}

/* ---- the identity of a model ---- */

/* Turns the identity in a run's checkpoint into that of this model. */
static int identify(const et_artifact *artifact, const et_value **identity, et_arena *arena,
                    et_error *error)
{
    const et_artifact_member *member = artifact->member;
    if (!member || !*identity)
        return ET_OK;
    const et_value *own = et_value_get(et_value_get(*identity, ET_ARTIFACT_MEMBERS), member->name);
    et_value *out = et_value_dict(arena);
    int status;
    if (!out)
        return et_alloc_failed(error, "settings");
    if ((own && own->kind == ET_VALUE_DICT && (status = et_value_merge(out, own, error))) ||
        (status = keep_tree(member, *identity, ET_IDENTITY_MODEL, out, error)) ||
        (status = keep_tree(member, *identity, ET_IDENTITY_TRAINING, out, error)))
        return status;
    if (et_value_failed(out))
        return et_alloc_failed(error, "settings");
    *identity = out;
    return ET_OK;
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
    return path ? et_identity_of_file(out, path, arena, error) : et_alloc_failed(error, "a path");
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
        return et_alloc_failed(error, "a path");
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

/* The newest checkpoint is used if the run keeps no best one and, with a warning, if the best one
 * cannot be read. A lack of memory fails. */
static int load_best_or_newest(et_artifact_weights *load, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    int status =
        et_checkpoint_take_best(&load->checkpoint, load->params, et_artifact_run(load->artifact),
                                choice_of(load), &load->facts, &reason);
    if (status == ET_ENOTFOUND && !load->checkpoint)
        return load_newest(load, error);
    if (!(status = check(load, status, &reason)))
        return ET_OK;
    if (status == ET_ENOMEM)
        return et_fail(error, status, "%s", reason.text);
    et_log(ET_LOG_WARNING, "%s; using the newest checkpoint instead of the best", reason.text);
    return load_newest(load, error);
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
        et_log(
            ET_LOG_WARNING,
            "%s has one set of weights; live weights are ignored. To get the trained weights of an "
            "export, export its run with --live-weights",
            artifact->name);
    if (!export && !load->named)
        return load_best_or_newest(load, error);
    if (!export && !strcmp(load->named, ET_CHECKPOINT_NEWEST))
        return load_newest(load, error);
    int status;
    if (et_artifact_is_file(artifact)) {
        status = load_file(load, error);
    } else if (load->named) {
        status =
            et_checkpoint_take_named(&load->checkpoint, load->params, et_artifact_run(artifact),
                                     load->named, choice_of(load), &load->facts, error);
    } else {
        load->checkpoint = et_path_join(artifact->name, ET_ARTIFACT_WEIGHTS);
        status = load->checkpoint
                     ? et_checkpoint_take_file(load->params, load->checkpoint,
                                               (et_weights_choice){ .mapped = load->mapped },
                                               &load->facts, error)
                     : et_alloc_failed(error, "a path");
    }
    return check(load, status, error);
}
