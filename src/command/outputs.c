/* Checks of output files. A file is written under a temporary name and renamed, so writing through
 * a link would not change the link's target. Such an output is refused anyway, because the user did
 * not mean to replace an input with two names.
 *
 * Files of a run are recognized by name, even if they do not exist: a new file with a checkpoint's
 * name would count as the newest checkpoint. */
#include "command/outputs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "formats/marian/marian_model.h"
#include "formats/safetensors/safetensors.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/run_names.h"

static void sane(const et_outputs *outputs)
{
    et_assert(outputs->count <= outputs->capacity);
    et_assert(!outputs->count || outputs->files);
    for (size_t i = 0; i < outputs->count; i++)
        et_assert(outputs->files[i].name || outputs->failed);
}

static void note(et_outputs *outputs, const char *name, const struct stat *file)
{
    sane(outputs);
    et_assert(name && *name);
    const bool grown = ET_VECTOR_GROW(outputs->files, outputs->capacity, outputs->count + 1);
    char *copy = grown ? et_strdup(name) : NULL;
    if (copy)
        outputs->files[outputs->count++] = (et_output_file){ copy, file->st_dev, file->st_ino };
    outputs->failed |= !copy;
}

void et_outputs_read(et_outputs *outputs, const char *path)
{
    struct stat file;
    if (path && !stat(path, &file))
        note(outputs, path, &file);
}

void et_outputs_read_all(et_outputs *outputs, const et_strings *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        et_outputs_read(outputs, paths->items[i]);
}

static void note_read(void *outputs, const char *path)
{
    et_outputs_read(outputs, path);
}

void et_outputs_read_settings(et_outputs *outputs, const et_task_kind *kind, const void *options)
{
    if (kind->reads)
        kind->reads(options, note_read, outputs);
}

void et_outputs_read_model(et_outputs *outputs, const char *model_dir, const char *checkpoint)
{
    et_outputs_read(outputs, model_dir);
    et_outputs_read(outputs, checkpoint);
}

void et_outputs_read_input(et_outputs *outputs, const char *path)
{
    if (path)
        et_outputs_read(outputs, path);
    else {
        struct stat file;
        if (!fstat(STDIN_FILENO, &file) && S_ISREG(file.st_mode))
            note(outputs, "standard input", &file);
    }
}

int et_outputs_release(et_outputs *outputs)
{
    const int status = outputs->status;
    for (size_t i = 0; i < outputs->count; i++)
        et_free(outputs->files[i].name);
    et_free(outputs->files);
    *outputs = (et_outputs){ .program = outputs->program };
    return status;
}

/* ---- files that are read ---- */

static int check_read(const et_outputs *outputs, const char *path, const struct stat *file,
                      et_error *error)
{
    sane(outputs);
    for (size_t i = 0; i < outputs->count; i++) {
        const et_output_file *read = &outputs->files[i];
        if (read->device == file->st_dev && read->inode == file->st_ino)
            return et_fail(error, ET_EDENIED, "%s and %s are the same file: write to another file",
                           path, read->name);
    }
    return ET_OK;
}

int et_outputs_check_standard(et_outputs *outputs, et_error *error)
{
    struct stat file;
    if (!outputs->status && outputs->failed)
        outputs->status = et_alloc_failed(error, "names of files");
    else if (!outputs->status && !fstat(STDOUT_FILENO, &file) && S_ISREG(file.st_mode))
        outputs->status = check_read(outputs, "standard output", &file, error);
    return outputs->status;
}

int et_outputs_check_directory(const char *path, et_error *error)
{
    static const char *const endings[] = {
        ".zip",           ".gz",   ".tgz", ".tar",    ".pt",   ".pth",
        ET_MARIAN_BINARY, ".h5",   ".pb",  ".tflite", ".gguf", ".json",
        ".jsonl",         ".yaml", ".csv", ".tsv",    ".html", ".txt",
        ".pdf",           ".pkl",  ".xz",  ".ckpt",   ".onnx", ET_SAFETENSORS_SUFFIX
    };
    if (path && !strcmp(path, "-"))
        return et_fail(error, ET_EUSAGE,
                       "--output: - does not mean standard output; name a directory (./- is a "
                       "directory of this name)");
    for (size_t i = 0; path && i < sizeof endings / sizeof *endings; i++)
        if (et_path_ends(path, endings[i]) && !et_directory_exists(path))
            return et_fail(
                error, ET_EUSAGE,
                "--output %s: this would be a directory, not a file %s; name a directory", path,
                endings[i]);
    return ET_OK;
}

/* ---- files of runs ---- */

static bool is_run(const et_outputs *outputs, const char *directory)
{
    struct stat one, other;
    if (outputs->run && !stat(outputs->run, &one) && !stat(directory, &other) &&
        one.st_dev == other.st_dev && one.st_ino == other.st_ino)
        return true;
    return et_file_exists_in(directory, ET_RUN_SETTINGS) &&
           et_file_exists_in(directory, ET_CHECKPOINT_FOLDER);
}

/* Cuts the last name off and returns it; NULL: none. "/a/b" -> "/a" and "b". */
static const char *cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || !slash[1])
        return NULL;
    *slash = 0;
    return slash + 1;
}

/* Whether a kind of task keeps a file of this name in a run, or (folder) a folder, which may be
 * made later. */
static bool is_of_kind(const et_program *program, const char *name, bool folder)
{
    char buffer[ET_RUN_FILE_NAME];
    et_run_file file;
    for (int k = 0; k < program->count; k++)
        for (int i = 0; (file = et_kind_file(program->kinds[k], i, buffer)).name; i++)
            if (!strcmp(file.name, name) && ((file.what & ET_RUN_FOLDER) != 0) == folder)
                return true;
    return false;
}

/* path is absolute and without links, and is cut. */
static bool is_of_run(const et_outputs *outputs, char *path)
{
    static const char *const files[] = { ET_RUN_SETTINGS, ET_RUN_LOG, ET_RUN_MESSAGES,
                                         ET_RUN_SESSIONS, NULL };
    static const char *const folders[] = { ET_CHECKPOINT_FOLDER, ET_CHECKPOINT_BEST, NULL };
    const char *name = cut(path);
    if (!name)
        return false;
    bool events = strstr(name, "tfevents") || !strcmp(name, ET_RUN_LOG);
    if ((events || et_is_one_of(name, files) || is_of_kind(outputs->program, name, false)) &&
        is_run(outputs, path))
        return true;
    const char *folder = cut(path);
    return folder &&
           (events || et_is_one_of(folder, folders) ||
            is_of_kind(outputs->program, folder, true)) &&
           is_run(outputs, path);
}

/* The folder without links and the name after it: the target of a rename. false: the folder does
 * not exist; writing will report that. */
static bool resolve(char to[PATH_MAX], const char *path)
{
    const char *name = et_path_base(path);
    size_t length = (size_t)(name - path);
    char *folder = length ? et_strndup(path, length) : et_strdup(".");
    bool found = folder && realpath(folder, to) && strlen(to) + strlen(name) + 2 <= PATH_MAX;
    et_free(folder);
    if (found && *name)
        strcat(strcmp(to, "/") ? strcat(to, "/") : to, name);
    return found;
}

static int check_run(const et_outputs *outputs, const char *path, et_error *error)
{
    char named[PATH_MAX], behind[PATH_MAX];
    if ((resolve(named, path) && is_of_run(outputs, named)) ||
        (realpath(path, behind) && is_of_run(outputs, behind)))
        return et_fail(error, ET_EDENIED, "%s is a file that a run writes: choose another name",
                       path);
    return ET_OK;
}

/* ---- all together ---- */

/* Compares two outputs; neither need exist. */
static int check_written(const et_outputs *outputs, const char *path, et_error *error)
{
    char one[PATH_MAX], other[PATH_MAX];
    struct stat left, right;
    if (!outputs->written)
        return ET_OK;
    bool same = resolve(one, path) && resolve(other, outputs->written) && !strcmp(one, other);
    if (!same && !stat(path, &left) && !stat(outputs->written, &right))
        same = left.st_dev == right.st_dev && left.st_ino == right.st_ino;
    return same ? et_fail(error, ET_EDENIED,
                          "another option writes %s, too: name two different files", path)
                : ET_OK;
}

int et_outputs_check(et_outputs *outputs, const char *option, const char *path, et_error *error)
{
    struct stat file;
    et_assert(option);
    if (!path || outputs->status)
        return outputs->status;
    int status = outputs->failed ? et_alloc_failed(error, "names of files") : ET_OK;
    if (!status && !strcmp(path, "-"))
        status =
            et_fail(error, ET_EUSAGE,
                    "- does not mean standard output; name a file (./- is a file of this name)");
    if (!status && !stat(path, &file))
        status = check_read(outputs, path, &file, error);
    if (!status && !(status = check_run(outputs, path, error)) &&
        !(status = check_written(outputs, path, error))) {
        et_file_writer writer;
        status = et_file_writer_open(&writer, path, error);
        if (!status)
            et_file_writer_abandon(&writer);
    }
    outputs->written = path;
    outputs->status = status ? et_fail_while(error, status, "%s", option) : ET_OK;
    return outputs->status;
}

/* ---- --profile ---- */

const et_option et_profiling_options[] = {
    ET_OPTION_TEXT(et_profiling, path, "profile", "FILE",
                   "file for a trace of the computation, for ui.perfetto.dev"),
    ET_OPTION_TEXT(et_profiling, steps, "profile-steps", "A:B",
                   "steps to trace, counted from this start"),
    ET_OPTION_END,
};

/* Reads digits; 0 if they are not a number from 1 on. "10:20" -> 10, *end at ":". A number that is
 * larger than any step gives 0, without overflow. */
static int64_t step_number(const char *text, const char **end)
{
    int64_t number = 0;
    for (*end = text; **end >= '0' && **end <= '9' && number <= ET_OPTION_COUNT_MAX; ++*end)
        number = 10 * number + (**end - '0');
    return number <= ET_OPTION_COUNT_MAX ? number : 0;
}

/* Reads A:B with 1 <= A <= B and nothing after them. */
static int parse_steps(et_profiling *p, et_error *error)
{
    et_assert(p->steps);
    const char *end;
    p->first = step_number(p->steps, &end);
    p->last = p->first && *end == ':' ? step_number(end + 1, &end) : 0;
    if (p->last >= p->first && p->last > 0 && !*end)
        return ET_OK;
    return et_fail(error, ET_EUSAGE,
                   "--profile-steps %s: not of the form A:B, with 1 <= A <= B; for example 10:20",
                   p->steps);
}

/* Before anything is done: a run of hours should not end at a file that cannot be written. */
int et_profiling_check(et_profiling *p, et_outputs *outputs, et_error *error)
{
    if (!outputs->status && p->steps)
        outputs->status =
            p->path ? parse_steps(p, error)
                    : et_fail(error, ET_EUSAGE, "--profile-steps: only with --profile FILE");
    return et_outputs_check(outputs, "--profile", p->path, error);
}
