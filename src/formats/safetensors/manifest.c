/* checkpoint.json, as it is written (the checksum is over the text with zeros in its place):
 *
 *   {
 *     "format": "etude-checkpoints-1",
 *     "checksum": "5f0c...",
 *     "begun": 1.7e9,                                         only of a run
 *     "kept_time": 1.7e9,                                     only where hours are counted
 *     "checkpoints": [
 *       {"step": 1000, "file": "ckpt-1000.safetensors", "bytes": 812, "checksum": "ab..",
 *        "time": 1.7e9},
 *       {"step": 1500, ..., "kept": true},
 *       {"step": 2000, ..., "passing": true}
 *     ],
 *     "leaving": ["ckpt-500.safetensors"]
 *   }
 *
 * Deleting has two steps: a name moves from "checkpoints" to "leaving" and the manifest is
 * replaced; then the file is deleted. A kill between the two leaves a name under "leaving", whose
 * file the next load deletes. Names under "leaving" are dropped from memory when their files are
 * gone, and from the disk with the next commit.
 *
 * Invariants:
 *
 *   (1) steps ascend;
 *   (2) names are plain names in the directory: no manifest, however it was made, can delete a
 *       file elsewhere;
 *   (3) nothing is deleted unless the newest entry's file exists with its length;
 *   (4) a file that cannot be deleted is logged, kept under "leaving" and never an error.
 */
#include "formats/safetensors/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/sort.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "formats/safetensors/safetensors.h"

/* A different layout gets a different number; a reader that does not know the number reports damage
 * and rebuilds. */
#define FORMAT   "etude-checkpoints-1"
#define TEXT_MAX (64 << 20) /* bytes of a manifest; one of 100,000 entries has 20 MB */

/* A name in the directory: it must not lead out of it, and must be safe on a terminal. A leading
 * dot would mean "." or ".." or a hidden file. */
static bool name_is_sound(const char *name)
{
    const size_t length = strlen(name);
    if (length == 0 || length > ET_MANIFEST_FILE_MAX || name[0] == '.')
        return false;
    for (; *name; name++)
        if (*name == '/' || (unsigned char)*name < ' ' || *name == 0x7f)
            return false;
    return true;
}

/* Invariant (1); strictly, so that a step is one file. */
static bool steps_ascend(const et_manifest *manifest)
{
    for (size_t i = 1; i < manifest->count; i++)
        if (manifest->entries[i - 1].step >= manifest->entries[i].step)
            return false;
    return true;
}

/* ---- memory ---- */

/* Lists never shrink: they have tens of entries. */

/* The entry is copied. On failure the list is as before. */
static int append_entry(et_manifest *manifest, const et_manifest_entry *entry, et_error *error)
{
    if (!ET_VECTOR_APPEND(manifest->entries, manifest->count, manifest->capacity, *entry))
        return et_alloc_failed(error, "the list of checkpoints");
    return ET_OK;
}

/* file is a sound name, so it fits. */
static int append_leaving(et_manifest *manifest, const char *file, et_error *error)
{
    et_assert(name_is_sound(file));
    if (!ET_VECTOR_GROW(manifest->leaving, manifest->leaving_capacity, manifest->leaving_count + 1))
        return et_alloc_failed(error, "the list of checkpoints");
    strcpy(manifest->leaving[manifest->leaving_count++], file);
    return ET_OK;
}

void et_manifest_release(et_manifest *manifest)
{
    et_free(manifest->entries);
    et_free(manifest->leaving);
    *manifest = (et_manifest){ 0 };
}

/* ---- changing ---- */

/* Changes in memory. Every change keeps invariant (1) and notes files to delete; nothing is deleted
 * before the commit. */

bool et_manifest_lists(const et_manifest *manifest, const char *file)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (!strcmp(manifest->entries[i].file, file))
            return true;
    return false;
}

bool et_manifest_leaves(const et_manifest *manifest, const char *file)
{
    for (size_t i = 0; i < manifest->leaving_count; i++)
        if (!strcmp(manifest->leaving[i], file))
            return true;
    return false;
}

/* 1000 2000 3000 plus 2000 -> 1000 2000: a run that went back to 1000 has written 2000 again, so
 * 3000 belongs to the abandoned continuation. */
int et_manifest_add(et_manifest *manifest, const et_manifest_entry *entry, et_error *error)
{
    et_assert(entry->step >= 0);
    et_assert(name_is_sound(entry->file));
    int status = ET_OK;
    /* From the newest back: whatever is of this step or later. */
    while (manifest->count > 0 && !status &&
           manifest->entries[manifest->count - 1].step >= entry->step) {
        status = append_leaving(manifest, manifest->entries[manifest->count - 1].file, error);
        if (!status)
            manifest->count--;
    }
    if (!status)
        status = append_entry(manifest, entry, error);
    et_assert(steps_ascend(manifest));
    return status;
}

/* The name is noted first: without memory for it nothing has changed. */
int et_manifest_remove(et_manifest *manifest, size_t index, et_error *error)
{
    et_assert(index < manifest->count && manifest->count > 1);
    int status = append_leaving(manifest, manifest->entries[index].file, error);
    if (status)
        return status;
    manifest->count--;
    memmove(&manifest->entries[index], &manifest->entries[index + 1],
            (manifest->count - index) * sizeof *manifest->entries);
    return ET_OK;
}

int et_manifest_leave(et_manifest *manifest, const char *file, et_error *error)
{
    int status = append_leaving(manifest, file, error);
    size_t at = 0;
    while (at < manifest->count && strcmp(manifest->entries[at].file, file) != 0)
        at++;
    if (status || at == manifest->count)
        return status;
    manifest->count--;
    memmove(&manifest->entries[at], &manifest->entries[at + 1],
            (manifest->count - at) * sizeof *manifest->entries);
    return ET_OK;
}

/* ---- deleting ---- */

/* Only these functions remove files. They cannot fail: files that stay are tried again. */

/* A file that is not there has been removed. */
static bool remove_file(const char *directory, const char *file)
{
    const et_path path = et_path_of(directory, file);
    if (!unlink(path.text) || errno == ENOENT)
        return true;
    et_log(ET_LOG_WARNING, "cannot remove %s: %s", path.text, strerror(errno));
    return false;
}

/* Checks only the length: the checksum was computed while writing, and reading the whole file
 * before every deletion would double a save's work. */
static bool newest_is_there(const et_manifest *manifest, const char *directory)
{
    if (manifest->count == 0)
        return false;
    const et_manifest_entry *newest = &manifest->entries[manifest->count - 1];
    const et_path path = et_path_of(directory, newest->file);
    struct stat info;
    if (stat(path.text, &info) == 0 && S_ISREG(info.st_mode) &&
        (uint64_t)info.st_size == newest->bytes)
        return true;
    et_log(ET_LOG_WARNING, "%s: missing or truncated; Etude keeps older checkpoints", path.text);
    return false;
}

/* Deletes leaving files and forgets the deleted ones. Names that stay move to the front of the
 * list. */
static void delete_leaving(et_manifest *manifest, const char *directory)
{
    if (manifest->leaving_count == 0 || !newest_is_there(manifest, directory))
        return;
    size_t kept = 0;
    for (size_t i = 0; i < manifest->leaving_count; i++) {
        /* A step that was saved again has its old name back. */
        if (et_manifest_lists(manifest, manifest->leaving[i]))
            continue;
        /* A name whose file could not be deleted moves to the front of the list, in order. */
        if (!remove_file(directory, manifest->leaving[i]) && kept++ != i)
            memcpy(manifest->leaving[kept - 1], manifest->leaving[i], sizeof manifest->leaving[i]);
    }
    manifest->leaving_count = kept;
}

void et_manifest_sweep(const char *directory)
{
    DIR *stream = opendir(directory);
    if (!stream)
        return; /* nothing to delete; a caller that needs the directory reports it */
    for (const struct dirent *item; (item = readdir(stream));)
        if (et_file_is_left_over(item->d_name))
            remove_file(directory, item->d_name);
    closedir(stream);
}

/* ---- writing ---- */

/* Values, then text, then the checksum put into the text, then the file. Keys have a fixed
 * order, so that equal manifests are equal files. */

/* The manifest as values, with zeros for its checksum. Failures of memory show in
 * et_value_failed, once, when all is there. */
static et_value *to_values(const et_manifest *manifest, et_arena *arena)
{
    et_value *root = et_value_dict(arena);
    et_value_set_string(root, "format", FORMAT);
    /* Before any other checksum: save looks for the first zeros. */
    et_value_set_string(root, "checksum", et_checksum_print(0).digits);
    if (manifest->begun > 0)
        et_value_set_float(root, "begun", manifest->begun);
    if (manifest->kept_time > 0)
        et_value_set_float(root, "kept_time", manifest->kept_time);
    et_value *list = et_value_set_list(root, "checkpoints");
    for (size_t i = 0; i < manifest->count; i++) {
        /* Checksums in digits: 64 bits are more than a JSON reader's double holds. */
        const et_manifest_entry *entry = &manifest->entries[i];
        et_value *dict = et_value_add_dict(list);
        et_value_set_int(dict, "step", entry->step);
        et_value_set_string(dict, "file", entry->file);
        et_value_set_int(dict, "bytes", (int64_t)entry->bytes);
        et_value_set_string(dict, "checksum", et_checksum_print(entry->checksum).digits);
        et_value_set_float(dict, "time", entry->time);
        if (entry->transient)
            et_value_set_bool(dict, "passing", true);
        if (entry->kept)
            et_value_set_bool(dict, "kept", true);
    }
    et_value *leaving = et_value_set_list(root, "leaving");
    for (size_t i = 0; i < manifest->leaving_count; i++) {
        /* A step that was saved again is listed and stays. */
        if (!et_manifest_lists(manifest, manifest->leaving[i]))
            et_value_add_string(leaving, manifest->leaving[i]);
    }
    return root;
}

/* Replaced as a whole: et_file_write uses a temporary name and rename. */
static int save(const et_manifest *manifest, const char *directory, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    int status;
    const et_path path = et_path_of(directory, ET_MANIFEST_NAME);
    const et_value *root = to_values(manifest, &arena);
    if (root)
        et_json_print(&text, root, 2);
    et_strbuf_append_char(&text, '\n');
    if (et_value_failed(root) || text.failed) {
        status = et_alloc_failed(error, ET_MANIFEST_NAME);
    } else if (text.length > TEXT_MAX) {
        status = et_fail(error, ET_EDATA,
                         "%s: %zu checkpoints are too many for the list of checkpoints; keep fewer "
                         "(trainer.max_to_keep)",
                         path.text, manifest->count);
    } else {
        /* The checksum is over the text with zeros for its own digits; they come before any other
         * checksum, so their first place in the text is theirs. */
        char *digits = strstr(text.data, et_checksum_print(0).digits);
        et_assert(digits);
        const et_checksum_text sum = et_checksum_print(et_checksum(text.data, text.length));
        memcpy(digits, sum.digits, ET_CHECKSUM_DIGITS);
        status = et_file_write(path.text, text.data, text.length, error);
    }
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

/* Deletes only after the new manifest is durable. */
int et_manifest_commit(et_manifest *manifest, const char *directory, et_error *error)
{
    et_assert(steps_ascend(manifest));
    int status = save(manifest, directory, error);
    if (!status)
        delete_leaving(manifest, directory);
    return status;
}

/* ---- reading ---- */

/* A manifest is a file that may be cut, damaged or made by hand. The checks are: the checksum, then
 * every value, then the relations between values. Damage is ET_EFORMAT; the caller rebuilds. */

/* From a file, so an error and not an assert. */
static int read_name(char out[ET_MANIFEST_FILE_MAX + 1], const char *name, et_error *error)
{
    if (!name_is_sound(name))
        return et_fail(error, ET_EFORMAT, "a checkpoint's file must be a plain name");
    strcpy(out, name);
    return ET_OK;
}

/* "passing" and "kept" are optional: they are written for those entries only. */
static int read_entry(et_manifest_entry *out, const et_value *dict, et_error *error)
{
    int64_t bytes = 0;
    const char *file = NULL, *checksum = NULL;
    *out = (et_manifest_entry){ 0 };
    int status;
    if ((status = et_value_read_int(dict, "step", &out->step, error)) ||
        (status = et_value_read_string(dict, "file", &file, error)) ||
        (status = et_value_read_int(dict, "bytes", &bytes, error)) ||
        (status = et_value_read_string(dict, "checksum", &checksum, error)) ||
        (status = et_value_read_float(dict, "time", &out->time, error)) ||
        (et_value_get(dict, "passing") &&
         (status = et_value_read_bool(dict, "passing", &out->transient, error))) ||
        (et_value_get(dict, "kept") &&
         (status = et_value_read_bool(dict, "kept", &out->kept, error))))
        return status;
    out->bytes = (uint64_t)bytes;
    if (bytes < 0 || out->step < 0 || !et_checksum_parse(&out->checksum, checksum))
        return et_fail(error, ET_EFORMAT, "step, bytes or checksum of \"%s\" make no sense",
                       name_is_sound(file) ? file : "?");
    return read_name(out->file, file, error);
}

/* Checks each entry, then their order. */
static int read_entries(et_manifest *manifest, const et_value *list, et_error *error)
{
    if (!list || list->kind != ET_VALUE_LIST)
        return et_fail(error, ET_EFORMAT, "\"checkpoints\" is not a list");
    for (const et_value *v = list->first; v; v = v->next) {
        et_manifest_entry entry;
        int status;
        if ((status = read_entry(&entry, v, error)) ||
            (status = append_entry(manifest, &entry, error)))
            return status;
    }
    if (!steps_ascend(manifest))
        return et_fail(error, ET_EFORMAT, "the steps of \"checkpoints\" do not ascend");
    return ET_OK;
}

/* A missing list is an empty one. */
static int read_leaving(et_manifest *manifest, const et_value *list, et_error *error)
{
    for (const et_value *v = list ? list->first : NULL; v; v = v->next) {
        char file[ET_MANIFEST_FILE_MAX + 1];
        int status;
        if (v->kind != ET_VALUE_STRING)
            return et_fail(error, ET_EFORMAT, "\"leaving\" has entries that are not names");
        if ((status = read_name(file, v->string, error)) ||
            (status = append_leaving(manifest, file, error)))
            return status;
    }
    return ET_OK;
}

/* Sets the digits in text to zeros on the way. The first place in the text that has these digits
 * is the checksum's own, since it is printed before any other. */
static int check_checksum(const et_value *root, char *text, size_t length, et_error *error)
{
    const char *said;
    uint64_t number;
    int status = et_value_read_string(root, "checksum", &said, error);
    if (status)
        return status;
    char *digits = strstr(text, said);
    if (!digits || !et_checksum_parse(&number, said))
        return et_fail(error, ET_EFORMAT, "its checksum does not have 16 hexadecimal digits");
    /* As the text was when its checksum was made. */
    memcpy(digits, et_checksum_print(0).digits, ET_CHECKSUM_DIGITS);
    const uint64_t found = et_checksum(text, length);
    if (found != number)
        return et_fail(error, ET_EFORMAT, "checksum %s, file says %s",
                       et_checksum_print(found).digits, et_checksum_print(number).digits);
    return ET_OK;
}

/* The checksum is right by now: what fails here was written by another version, or made by hand. */
static int read_root(et_manifest *manifest, const et_value *root, et_error *error)
{
    const char *format;
    int status;
    if ((status = et_value_read_string(root, "format", &format, error)) ||
        (strcmp(format, FORMAT) != 0 &&
         (status = et_fail(error, ET_EFORMAT, "format is not \"" FORMAT "\""))) ||
        (status = read_entries(manifest, et_value_get(root, "checkpoints"), error)) ||
        (status = read_leaving(manifest, et_value_get(root, "leaving"), error)) ||
        (et_value_get(root, "begun") &&
         (status = et_value_read_float(root, "begun", &manifest->begun, error))))
        return status;
    return et_value_get(root, "kept_time")
               ? et_value_read_float(root, "kept_time", &manifest->kept_time, error)
               : ET_OK;
}

/* Parses the whole file before any of it is used. */
static int read_file(et_manifest *manifest, const char *path, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, TEXT_MAX, error);
    if (status)
        return status;
    et_arena arena = ET_ARENA_INIT;
    et_value *root;
    status = et_json_parse(&root, &arena, text, length, path, error);
    if (!status) {
        if ((status = check_checksum(root, text, length, error)) ||
            (status = read_root(manifest, root, error)))
            et_fail_while(error, status, status == ET_ENOMEM ? "%s" : "%s: damaged", path);
    }
    et_arena_release(&arena);
    et_free(text);
    return status;
}

/* On failure out is empty, as for a directory that has none. */
int et_manifest_read(et_manifest *out, const char *directory, et_error *error)
{
    *out = (et_manifest){ 0 };
    const et_path path = et_path_of(directory, ET_MANIFEST_NAME);
    int status = et_file_exists(path.text) ? read_file(out, path.text, error) : ET_OK;
    if (status)
        et_manifest_release(out);
    return status;
}

int et_manifest_load(et_manifest *out, const char *directory, et_error *error)
{
    et_manifest_sweep(directory);
    int status = et_manifest_read(out, directory, error);
    if (!status)
        delete_leaving(out, directory);
    return status;
}

/* ---- rebuilding ---- */

/* The last resort: rebuilding from the names of the files. Steps are in the names, times and
 * lengths in the directory; checksums are lost. */

/* The step in "<prefix><step>.safetensors"; -1: not such a name. "ckpt-0100.safetensors" is step
 * 100 as well; if both are there, rebuild complains. */
static int64_t step_of(const char *name, const char *prefix)
{
    const size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9')
        return -1;
    char *end;
    errno = 0;
    const long long step = strtoll(name + length, &end, 10);
    return errno || strcmp(end, ET_SAFETENSORS_SUFFIX) != 0 || !name_is_sound(name) ? -1 : step;
}

/* For qsort; equal steps are found after it. */
ET_SORT_BY(by_step, et_manifest_entry, ET_UP(step), 0)

/* Files are not opened: a restore finds out which are intact. */
int et_manifest_rebuild(et_manifest *out, const char *directory, const char *prefix,
                        et_error *error)
{
    *out = (et_manifest){ 0 };
    DIR *stream = opendir(directory);
    if (!stream)
        return et_fail_errno(error, "cannot read the directory %s", directory);
    int status = ET_OK;
    for (const struct dirent *item; !status && (errno = 0, item = readdir(stream));) {
        struct stat info;
        /* Other files in the directory are ignored. */
        const int64_t step = step_of(item->d_name, prefix);
        if (step < 0)
            continue;
        const et_path path = et_path_of(directory, item->d_name);
        if (stat(path.text, &info)) {
            if (errno != ENOENT && errno != ENOTDIR) /* else a run at work has let it go since */
                status = et_fail_errno(error, "cannot read %s", path.text);
            continue;
        }
        /* The time is the file's own. The checksum 0 says that it is not known. */
        et_manifest_entry entry = { .step = step,
                                    .time = (double)info.st_mtime,
                                    .bytes = (uint64_t)info.st_size };
        strcpy(entry.file, item->d_name);
        status = append_entry(out, &entry, error);
    }
    if (!status && errno)
        status = et_fail_errno(error, "cannot read the directory %s", directory);
    closedir(stream);
    if (out->count > 0)
        qsort(out->entries, out->count, sizeof *out->entries, by_step);
    if (!status && !steps_ascend(out))
        status = et_fail(error, ET_EFORMAT, "%s: two checkpoints have the same step; remove one",
                         directory);
    if (status)
        et_manifest_release(out);
    return status;
}
