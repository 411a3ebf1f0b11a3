/* etude inspect: what is in a checkpoint, and whether it is sound. Reads only, takes no lock,
 * and changes nothing in a directory that a run may be at work in. Of a file of another program
 * it shows the tensors; there are no checksums to compare then, and it says so.
 *
 * The verdict is the exit code too: 3 if a checksum differs, after all tensors were shown.
 *
 *   etude inspect FILE             a line for each tensor (name, type, shape, verdict), the state,
 *                                  the verdict of the whole
 *   etude inspect --model-dir RUN  the run's checkpoints, then the same for the newest, and
 *                                  whether the run's settings and files are those it was made
 *                                  with */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "command/args.h"
#include "command/command.h"
#include "command/outputs.h"
#include "io/manifest.h"
#include "io/safetensors.h"
#include "train/experiment.h"
#include "train/checkpoint.h"

/* Where a checkpoint was looked up. */
typedef struct place {
    const et_program *program;
    const char *model_dir; /* the run; NULL: a file that was named */
} place;

/* Prints each tensor with its verdict; how many are damaged. *first: the error of the first of
 * them. */
static size_t print_tensors(const et_safetensors *file, et_error *first)
{
    size_t damaged = 0;
    for (size_t i = 0; i < et_safetensors_count(file); i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(file, i);
        char shape[ET_SHAPE_TEXT_MAX];
        et_error error = ET_ERROR_INIT;
        /* Each is compared by itself, so that the damage can be seen to be in one tensor or in
         * all. */
        bool ok = !et_safetensors_verify_tensor(file, tensor, &error);
        printf("%-60s %-9s %-16s %s\n", tensor->name, et_dtype_name(tensor->dtype),
               et_shape_print(tensor->shape, shape), ok ? "ok" : "damaged");
        if (!ok && !damaged++)
            *first = error;
    }
    return damaged;
}

/* The state tree, indented, or what metadata there is. A file without one, or with one that is
 * no JSON, shows none: the tensors are what was asked for. */
static void print_state(const et_safetensors *file, const char *path)
{
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    et_arena arena = ET_ARENA_INIT;
    et_value *state;
    /* The text is the checkpoint's own; it is parsed to be indented, not to be checked. */
    if (text && !et_json_parse(&state, &arena, text, strlen(text), path, NULL)) {
        /* Printed as it is parsed, so that a person can read it. */
        et_strbuf out = ET_STRBUF_INIT;
        et_json_print(&out, state, 2);
        printf("state %s\n", et_strbuf_text(&out));
        et_strbuf_release(&out);
    }
    et_arena_release(&arena);
}

/* Whether settings and files of a run are those that its checkpoint was made with. */
static int check_run(const et_experiment *experiment, const et_identity *identity,
                     const char *model_dir, et_error *error)
{
    const et_task_kind *kind = experiment->kind;
    int status =
        et_experiment_check_same(experiment, experiment, identity, model_dir, false, error);
    return status || !kind->belongs ? status
                                    : kind->belongs(experiment->task, model_dir, identity, error);
}

/* "RUN/params.yaml, RUN/pieces.model": what is compared, each behind `before`. */
static void print_compared(const et_task_kind *kind, const char *before, const char *between)
{
    printf("%s" ET_EXPERIMENT_FILE, before);
    for (const et_run_file *file = kind ? kind->files : NULL; file && file->name; file++)
        if (file->what & ET_RUN_COMPARED)
            printf("%s%s%s", between, before, file->name);
}

static void print_belonging(const et_task_kind *kind, const char *model_dir, bool known)
{
    char before[4200];
    snprintf(before, sizeof before, "%s/", model_dir);
    printf(known ? "its own: " : "not compared: ");
    print_compared(kind, known ? before : "", known ? ", " : " and ");
    printf(known ? "\n" : ", of which this checkpoint holds no checksums\n");
}

/* What lies beside a run's checkpoint: its own or not, or not known. */
static int inspect_identity(const et_safetensors *file, const char *path, const place *where,
                            et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    et_identity identity = { path, NULL };
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    int status = et_identity_parse(&identity.values, text, path, &arena, error);
    bool known = !status && identity.values;
    /* Settings that cannot be read are of no matter where there is nothing to compare. */
    int opened = status ? status
                        : et_experiment_open_run(&experiment, where->program, where->model_dir,
                                                 &arena, known ? error : NULL);
    if (known)
        status = opened ? opened : check_run(&experiment, &identity, where->model_dir, error);
    if (!status)
        print_belonging(opened ? NULL : experiment.kind, where->model_dir, known);
    et_arena_release(&arena);
    return status;
}

/* One file, which is closed: tensors, state, sums, verdict. */
static int inspect(et_safetensors *file, const char *path, const place *where, et_error *error)
{
    int64_t elements = 0;
    int status = ET_OK;
    for (size_t i = 0; i < et_safetensors_count(file); i++)
        elements += et_shape_count(et_safetensors_at(file, i)->shape);
    /* Every tensor is shown before the verdict; the first error is the command's. */
    et_error first = ET_ERROR_INIT;
    size_t damaged = print_tensors(file, &first);
    print_state(file, path);
    printf("%zu tensors, %s elements%s\n", et_safetensors_count(file),
           et_format_count(elements).text,
           et_safetensors_sealed(file) ? "" : "; no checksums: written by another program");
    if (damaged)
        status = et_fail(error, ET_EFORMAT, "%s", first.text);
    else if (where->model_dir)
        status = inspect_identity(file, path, where, error);
    if (!status)
        printf("sound: %s\n", path);
    et_safetensors_close(file);
    return status;
}

static int inspect_file(const char *path, et_error *error)
{
    et_safetensors *file;
    int status = et_safetensors_open_foreign(&file, path, error);
    return status ? status : inspect(file, path, &(place){ NULL, NULL }, error);
}

/* The usual cause is a path one level too high or too low. */
static int no_checkpoint(const place *where, const char *directory, et_error *error)
{
    return et_fail(error, ET_ENOTFOUND,
                   "%s: no checkpoint there; name a checkpoint, or a directory that `%s train` "
                   "wrote to and saved in",
                   directory, where->program->name);
}

#define PREFIX "ckpt-" /* of checkpoints' names */

/* The checkpoints of a run, and the newest of them opened: by its step, sound or not, since that
 * is the question here. *path is the caller's, also on failure. A run at work may let go what was
 * just listed: then it has a newer one. */
static int open_newest(et_safetensors **file, char **path, et_manifest *manifest,
                       const place *where, const char *directory, et_error *error)
{
    int64_t last = -1;
    for (;;) {
        et_error reason = ET_ERROR_INIT;
        int status = et_manifest_rebuild(manifest, directory, PREFIX, error);
        if (status)
            return status;
        if (!manifest->count)
            return no_checkpoint(where, directory, error);
        const et_manifest_entry *newest = &manifest->entries[manifest->count - 1];
        et_free(*path);
        if (!(*path = et_path_join(directory, newest->file)))
            return et_alloc_failed(error, strlen(directory), "a path");
        status = et_safetensors_open_foreign(file, *path, &reason);
        if (!status)
            return ET_OK;
        if (status != ET_ENOTFOUND || newest->step == last)
            return et_fail(error, status, "%s", reason.text);
        last = newest->step;
        et_manifest_release(manifest);
    }
}

/* The checkpoints of a run, then the newest one. Found by their names: reading the manifest would
 * also clear away what a run, which may be at work, has left over. */
static int inspect_run(const et_program *program, const char *model_dir, et_error *error)
{
    const place where = { program, model_dir };
    char *directory = et_path_join(model_dir, ET_CHECKPOINT_FOLDER), *newest = NULL;
    et_manifest manifest = { 0 };
    et_safetensors *file;
    if (!directory)
        return et_alloc_failed(error, strlen(model_dir), "a path");
    int status = et_file_exists(directory)
                     ? open_newest(&file, &newest, &manifest, &where, directory, error)
                     : no_checkpoint(&where, model_dir, error);
    /* Oldest first; the newest is looked into below. */
    for (size_t i = 0; i < manifest.count; i++)
        printf("step %-12s %s/%s\n", et_format_count(manifest.entries[i].step).text, directory,
               manifest.entries[i].file);
    if (!status)
        status = inspect(file, newest, &where, error);
    et_free(newest);
    et_free(directory);
    et_manifest_release(&manifest);
    return status;
}

/* What is not there is none; opening it says what is wrong. */
static bool is_directory(const char *path)
{
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

/* Stops at the first that is not sound. */
int et_cmd_inspect(const et_call *call, et_error *error)
{
    et_arg_list paths = { .count = 0 };
    const char *model_dir = NULL;
    const et_arg table[] = { { "model-dir", "DIR",
                               "a run: its newest checkpoint, settings and "
                               "files",
                               ET_ARG_TEXT, &model_dir, NULL },
                             { "CHECKPOINT|RUN...", NULL, NULL, ET_ARG_REST, &paths, NULL },
                             ET_ARG_END };
    bool help;
    int status = et_args_parse(table, call, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, call,
                     "Shows a checkpoint's tensors and state, checks every checksum, and says "
                     "whether\nit is sound; of a run, the newest, and whether settings and "
                     "files are its own.",
                     "--model-dir runs/a");
        return ET_OK;
    }
    et_assert(paths.count <= ET_ARG_LIST_MAX);
    if (!paths.count && !model_dir)
        return et_fail(error, ET_EUSAGE, "inspect: name a checkpoint, or the directory of a run");
    et_outputs outputs = { .program = call->program };
    for (int i = 0; i < paths.count; i++)
        et_outputs_read(&outputs, paths.items[i]);
    status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    if (!status && model_dir)
        status = inspect_run(call->program, model_dir, error);
    for (int i = 0; i < paths.count && !status; i++)
        status = is_directory(paths.items[i]) ? inspect_run(call->program, paths.items[i], error)
                                              : inspect_file(paths.items[i], error);
    return status;
}
