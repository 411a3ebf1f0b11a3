/* tfx: TensorFX's three commands with their names, flags and defaults.
 *
 *   train      becomes the training program, with --job-dir and all flags that are not tfx's. So
 *              exit status, output and signals are the program's. TF_CONFIG is set to a single
 *              node. --distributed starts one program for each task of a cluster, and ends as its
 *              master
 *   predict    `predict` with --model for --model-dir, scores as lists
 *   scaffold   `scaffold`
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/error.h>
#include <etude/job_config.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "command/print.h"
#include "command/tabular/tabular_commands.h"
#include "command/training/processes/local_cluster.h"

/* TensorFX's TF_CONFIG for a single program. */
#define SINGLE_NODE "{\"task\": {\"type\": \"master\", \"index\": 0}, \"job\": {\"local\": true}}"

/* Becomes the program; returns only if that fails. */
static int become(const char **argv, et_error *error)
{
    execvp(argv[0], (char *const *)argv);
    return errno == EACCES ? et_fail(error, ET_EDENIED,
                                     "%s: not a program, or no permission to run it; make it "
                                     "executable (chmod +x), or name another --module",
                                     argv[0])
                           : et_fail_errno(error, "%s", argv[0]);
}

/* ---- train --distributed ---- */

typedef struct program {
    const char **argv;
    const char *keys; /* folder */
} program;

/* All tasks would fail in the same way, so only the master's failure has a text. */
static int be(void *self, et_roles *task, et_error *error)
{
    const program *p = self;
    /* The cluster of the task, and the folder of its keys. */
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_value *config = et_value_dict(&arena);
    char threads[16];
    int status = et_value_merge(config, et_job_config_env(task->config), error);
    if (!status) {
        et_value *job = et_value_set_dict(config, "job");
        et_value_set_bool(job, "local", true);
        et_value_set_string(job, "keys", p->keys);
    }
    if (!status && !et_value_failed(config))
        et_json_print(&text, config, 0);
    snprintf(threads, sizeof threads, "%d", task->threads);
    bool sound = !status && !text.failed && text.length > 0 &&
                 !setenv(ET_JOB_CONFIG_VARIABLE, et_strbuf_text(&text), 1) &&
                 (!task->threads || !setenv("OMP_NUM_THREADS", threads, 0));
    if (!status && !sound)
        status = et_alloc_failed(error, ET_JOB_CONFIG_VARIABLE);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    if (!status)
        status = become(p->argv, error);
    if (error && !et_job_config_master(task->config))
        error->text[0] = 0;
    return status;
}

/* Runs argv, ended by NULL, as three processes on this machine: a master, a parameter server and a
 * worker. Each has its own TF_CONFIG, which names a temporary folder of keys, removed at the end.
 * Returns as the master has ended. */
static int run_distributed(const char **argv, et_error *error)
{
    char *folder;
    int status = et_scratch_open(&folder, "etude-keys", error);
    if (status)
        return status;
    pid_t self = getpid();
    program p = { argv, folder };
    int code = 0;
    const et_local_cluster setup = { .own_ports = true, .code = &code, .self = &p, .be = be };
    et_keys keys[ET_JOB_ROLES];
    if (!(status = et_keys_make(keys, error)) && !(status = et_keys_write(keys, folder, error)))
        status = et_local_cluster_run(&setup, error);
    if (getpid() == self)
        et_scratch_close(folder);
    else
        et_free(folder);
    if (code)
        exit(code); /* the program has said why */
    return status;
}

/* ---- train ---- */

typedef struct train_options {
    const char *module, *output;
    bool distributed;
    et_strings passed; /* to the program */
} train_options;

static const et_option options[] = {
    ET_OPTION_TEXT(train_options, module, "module", "PROGRAM",
                   "the training program: a path, or a name on PATH",
                   .missing = "the training program"),
    ET_OPTION_TEXT(train_options, output, "output", "DIR",
                   "directory for the output of the job (default: output)",
                   .field.default_string = "output"),
    ET_OPTION_FLAG(train_options, distributed, "distributed",
                   "start a master, a parameter server and a worker"),
    ET_OPTION_ROW(train_options, passed, et_strings, STRINGS, PASSED, "", NULL, ""),
    ET_OPTION_END,
};

static const et_usage usage = {
    options, sizeof(train_options),
    "Runs a training program. Options of other names are passed to the program.",
    "--module ./iris --output jobs/iris --max-steps 2000"
};

/* Absolute, as TensorFX hands it on: the program may change its directory. */
static const char *absolute(et_arena *arena, const char *path)
{
    char here[4096];
    if (path[0] == '/')
        return path;
    if (!getcwd(here, sizeof here))
        return NULL;
    return et_arena_printf(arena, "%s/%s", here, path);
}

/* argv of the program, in arena. */
static const char **command_line(const train_options *o, const char *output, et_arena *arena)
{
    const char **argv = et_arena_array(arena, o->passed.count + 4, sizeof *argv);
    if (!argv || !output)
        return NULL;
    argv[0] = o->module;
    for (size_t i = 0; i < o->passed.count; i++)
        argv[i + 1] = o->passed.items[i];
    argv[o->passed.count + 1] = "--job-dir";
    argv[o->passed.count + 2] = output;
    argv[o->passed.count + 3] = NULL;
    return argv;
}

static int train(const et_call *call, et_error *error)
{
    const train_options *o = call->options;
    et_arena arena = ET_ARENA_INIT;
    const char *output = absolute(&arena, o->output);
    const char **argv = command_line(o, output, &arena);
    int status = argv           ? ET_OK
                 : arena.failed ? et_alloc_failed(error, "arguments")
                                : et_fail_errno(error, "the current directory");
    fflush(stdout);
    if (!status && o->distributed) {
        status = run_distributed(argv, error);
    } else if (!status) {
        status = setenv(ET_JOB_CONFIG_VARIABLE, SINGLE_NODE, 1)
                     ? et_fail_errno(error, ET_JOB_CONFIG_VARIABLE)
                     : become(argv, error);
    }
    et_arena_release(&arena);
    return status;
}

const et_command et_tfx_commands[] = {
    ET_COMMAND("train", train, "run a training program", &usage),
    ET_COMMAND("predict", et_cmd_tfx_predict, "predict rows with a trained model",
               &et_usage_tfx_predict),
    ET_COMMAND("scaffold", et_cmd_scaffold, "write a project that trains and predicts",
               &et_usage_scaffold),
    ET_COMMAND_END,
};

/* ---- scaffold: a project of one C file that trains and predicts ---- */

#define NAME_MAX_LENGTH 64

typedef struct scaffold_options {
    const char *name, *directory, *model;
    bool help;
} scaffold_options;

static const char *const models[] = { "custom", "feed_forward", NULL };

static const et_option options_of_scaffold[] = {
    ET_OPTION_TEXT(scaffold_options, name, "name", "NAME",
                   "name of the project: letters, digits and _", .missing = "the project"),
    ET_OPTION_TEXT(scaffold_options, directory, "dir", "DIR",
                   "parent directory of the project (default: the current one)",
                   .field.default_string = "."),
    ET_OPTION_TEXT(scaffold_options, model, "model", NULL,
                   "custom (default): a model with your own layers", .field.choices = models,
                   .field.default_string = "custom"),
    ET_OPTION_END
};

const et_usage et_usage_scaffold = {
    options_of_scaffold, sizeof(scaffold_options),
    "Writes a C project that trains and predicts with the installed library.", "--name iris"
};

/* The name must be valid in C, in CMake and as a directory. */
static bool is_name(const char *name)
{
    size_t length = strlen(name);
    if (!length || length > NAME_MAX_LENGTH || !isalpha((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    return true;
}

/* A project that somebody has worked on is not written over. */
static int check_empty(const char *directory, et_error *error)
{
    DIR *open = opendir(directory);
    int entries = 0;
    if (!open)
        return ET_OK; /* making the directory reports the error */
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;)
        entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open);
    return entries
               ? et_fail(error, ET_EDENIED,
                         "%s is not empty: choose another --name or --dir, or remove it", directory)
               : ET_OK;
}

static void fill_in(et_strbuf *out, const char *text, const char *name)
{
    static const char mark[] = "@NAME@";
    for (const char *at; (at = strstr(text, mark)) != NULL; text = at + sizeof mark - 1) {
        et_strbuf_append_bytes(out, text, (size_t)(at - text));
        et_strbuf_append(out, name);
    }
    et_strbuf_append(out, text);
}

/* The contents of a project. */
typedef struct project {
    const char *name;                         /* of the project */
    const char *names[ET_SCAFFOLD_FILES_MAX]; /* of its files */
    const et_scaffold_file *file[ET_SCAFFOLD_FILES_MAX];
    int count;
} project;

static int write_file(void *self, int which, const char *path, et_error *error)
{
    const project *p = self;
    et_strbuf text = ET_STRBUF_INIT;
    fill_in(&text, p->file[which]->text, p->name);
    int status = text.failed ? et_alloc_failed(error, p->names[which])
                             : et_file_write(path, text.data, text.length, error);
    et_strbuf_release(&text);
    return status;
}

static project project_of(const scaffold_options *args)
{
    project p = { .name = args->name };
    for (const et_scaffold_file *file = et_scaffold_files; file->name; file++) {
        if (file->model && strcmp(file->model, args->model) != 0)
            continue;
        et_assert(p.count < ET_SCAFFOLD_FILES_MAX);
        p.names[p.count] = file->name;
        p.file[p.count++] = file;
    }
    return p;
}

int et_cmd_scaffold(const et_call *call, et_error *error)
{
    const scaffold_options *args = call->options;
    if (!is_name(args->name))
        return et_fail(error, ET_EUSAGE,
                       "--name %s: give up to %d letters, digits and _, starting with a letter",
                       args->name, NAME_MAX_LENGTH);
    project p = project_of(args);
    const et_path directory = et_path_of(args->directory, args->name);
    int status;
    if (!(status = check_empty(directory.text, error)) &&
        !(status = et_directory_write(directory.text, p.names, p.count, write_file, &p, error))) {
        const et_shell_word build = et_shell_quote(et_path_of(directory.text, "build").text);
        et_print(stdout,
                 "%s: CMakeLists.txt, README.md, main.c\n"
                 "    cmake -S %s -B %s && cmake --build %s\n",
                 directory.text, et_shell_quote(directory.text).text, build.text, build.text);
    }
    return status;
}
