/* One of several models of a run. Its files are in a folder of the run:
 *
 *   RUN/params.yaml         task: {list: [..., {config: {...}}]}, trainer: {...}
 *   RUN/task_2/member.yaml  name: red, experiment: rings/small, settings: task.list[1].config
 *   RUN/checkpoints/...     red/logits/weight, layer_0/weight */
#include "train/checkpoint/artifact/artifact_private.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "base/vector.h"
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
    char *path = et_path_join(folder, ET_RUN_MEMBER);
    et_value_set_string(dict, "name", member->name);
    et_value_set_string(dict, "experiment", member->experiment);
    et_value_set_string(dict, "settings", member->settings);
    if (dict)
        et_yaml_print(&text, dict);
    int status = !path || et_value_failed(dict) || text.failed
                     ? et_alloc_failed(error, strlen(folder), "a member")
                     : et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    et_free(path);
    et_arena_release(&arena);
    return status;
}

static int parse_file(et_value **dict, const char *path, size_t most, et_arena *arena,
                      et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, most, error);
    if (!status)
        status = et_yaml_parse(dict, arena, text, length, path, error);
    et_free(text);
    return status;
}

/* "runs/a" for "runs/a/task_1"; for a path that does not end in a name, its "..". */
static const char *run_of(const char *folder, et_arena *arena)
{
    char *text = et_arena_printf(arena, "%.*s", (int)et_path_length(folder), folder);
    const char *base = text ? et_path_base(text) : "";
    if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
        return text ? et_arena_printf(arena, "%s/..", text) : NULL;
    if (base == text)
        return ".";
    size_t length = (size_t)(base - text);
    return et_arena_printf(arena, "%.*s", (int)(length > 1 ? length - 1 : 1), text);
}

static int parse_member(et_artifact_member *member, const char *path, const char *folder,
                        et_arena *arena, et_error *error)
{
    et_value *dict;
    int status = parse_file(&dict, path, FILE_MAX, arena, error);
    if (status)
        return status;
    status = et_value_read_string(dict, "name", &member->name, error);
    if (!status)
        status = et_value_read_string(dict, "experiment", &member->experiment, error);
    if (!status)
        status = et_value_read_string(dict, "settings", &member->settings, error);
    if (status)
        return et_fail_while(error, status, "%s", path);
    member->run = run_of(folder, arena);
    member->prefix = et_arena_printf(arena, "%s/", member->name);
    return member->run && member->prefix ? ET_OK : et_alloc_failed(error, 0, "a member");
}

int et_artifact_member_read(const et_artifact_member **out, const char *folder, et_arena *arena,
                            et_error *error)
{
    char *path = et_path_join(folder, ET_RUN_MEMBER);
    *out = NULL;
    if (!path)
        return et_alloc_failed(error, strlen(folder), "a path");
    const bool there = et_file_exists(path);
    et_artifact_member *member = there ? et_arena_alloc(arena, sizeof *member) : NULL;
    int status = there && !member ? et_alloc_failed(error, sizeof *member, "a member") : ET_OK;
    if (member)
        status = parse_member(member, path, folder, arena, error);
    et_free(path);
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

/* Shares the children with the run's tree. */
static void copy_group(et_value *out, const et_value *group)
{
    et_value *copy = et_value_set_dict(out, group->key);
    for (const et_value *child = group->first; copy && child; child = child->next)
        if (is_kept(group, child))
            et_value_append_copy(copy, child->key, child);
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
    int status = task ? et_value_merge(task, own, error) : et_alloc_failed(error, 0, "settings");
    for (const et_value *group = run->first; group && !status; group = group->next)
        if (group->kind == ET_VALUE_DICT && strcmp(group->key, "task") != 0)
            copy_group(out, group);
    return !status && et_value_failed(out) ? et_alloc_failed(error, 0, "settings") : status;
}

static int give_text(const et_value *tree, char **text, size_t *length, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_yaml_print(&out, tree);
    *text = out.failed ? NULL : et_strndup(et_strbuf_text(&out), out.length);
    *length = out.length;
    et_strbuf_release(&out);
    return *text ? ET_OK : et_alloc_failed(error, *length, "settings");
}

int et_artifact_member_print(const et_artifact_member *member, char **text, size_t *length,
                             et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *run, *own = et_value_dict(&arena);
    char *path = et_path_join(member->run, ET_RUN_SETTINGS);
    *text = NULL;
    *length = 0;
    int status = own && path ? parse_file(&run, path, SETTINGS_MAX, &arena, error)
                             : et_alloc_failed(error, 0, "settings");
    if (!status)
        status = make_settings(member, run, path, own, error);
    if (!status)
        status = give_text(own, text, length, error);
    et_free(path);
    et_arena_release(&arena);
    return status;
}

/* A tree of settings in an identity: what is below the member's, as `task`, and the others. */
static int keep_tree(const et_artifact_member *member, const et_value *whole, const char *name,
                     et_value *out, et_error *error)
{
    const et_value *run = et_value_get(whole, name), *own = et_value_path(run, member->settings);
    et_value *tree = et_value_set_dict(out, name);
    int status = tree ? ET_OK : et_alloc_failed(error, 0, "settings");
    for (const et_value *group = run ? run->first : NULL; group && !status; group = group->next) {
        const et_value *from = strcmp(group->key, "task") != 0 ? group : own;
        et_value *to = from ? et_value_set_dict(tree, group->key) : NULL;
        if (to && from->kind == ET_VALUE_DICT)
            status = et_value_merge(to, from, error);
    }
    return status;
}

int et_artifact_member_identify(const et_artifact_member *member, const et_value **identity,
                                et_arena *arena, et_error *error)
{
    const et_value *own = et_value_get(et_value_get(*identity, ET_ARTIFACT_MEMBERS), member->name);
    et_value *out = *identity ? et_value_dict(arena) : NULL;
    if (!*identity)
        return ET_OK;
    int status = out ? ET_OK : et_alloc_failed(error, 0, "settings");
    if (!status && own && own->kind == ET_VALUE_DICT)
        status = et_value_merge(out, own, error);
    if (!status)
        status = keep_tree(member, *identity, ET_IDENTITY_MODEL, out, error);
    if (!status)
        status = keep_tree(member, *identity, ET_IDENTITY_TRAINING, out, error);
    if (!status && et_value_failed(out))
        status = et_alloc_failed(error, 0, "settings");
    if (!status)
        *identity = out;
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
    one *grown =
        et_vector_grow(members->items, &members->capacity, members->count + 1, sizeof *grown, 8);
    char *path = et_path_join(run, name);
    const char *folder = path ? et_arena_strdup(&members->arena, path) : NULL;
    const et_artifact_member *member = NULL;
    et_free(path);
    if (grown)
        members->items = grown;
    int status = grown && folder ? et_artifact_member_read(&member, folder, &members->arena, error)
                                 : et_alloc_failed(error, strlen(name), "a path");
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
        status = et_alloc_failed(error, strlen(found), "a path");
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
