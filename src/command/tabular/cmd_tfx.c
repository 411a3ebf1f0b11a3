/* tfx: TensorFX's three commands by their names, flags and defaults.
 *
 *   train      becomes the program that trains, with the flags that are not its own and --job-dir,
 *              so its exit status, its output and its signals are this command's, as a single node
 *              whatever the environment says; --distributed starts one as each task of a cluster,
 *              and ends as its master does
 *   predict    `predict` with --model for --model-dir, floats of five digits
 *   scaffold   `scaffold` */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/job_config.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "command/options/args.h"
#include "command/tabular/tabular_commands.h"
#include "command/tabular/tfx_distributed.h"

/* What TensorFX tells the program where it starts one alone. */
#define SINGLE_NODE "{\"task\": {\"type\": \"master\", \"index\": 0}, \"job\": {\"local\": true}}"

/* ---- train ---- */

typedef struct train_args {
    const char *module, *output;
    bool distributed, help;
    const char **passed; /* [count + 3]: argv of the program, in arena */
    int count;
} train_args;

static const et_arg *train_table(et_arg table[4], train_args *args)
{
    const et_arg rows[] = {
        ET_ARG_TEXT("module", "PROGRAM", &args->module,
                    "the program that trains: a path, or a name on PATH"),
        ET_ARG_TEXT("output", "DIR", &args->output, "where the job writes (default: output)"),
        ET_ARG_FLAG("distributed", &args->distributed,
                    "one as master, one as parameter server, one as worker"),
        ET_ARG_END,
    };
    memcpy(table, rows, sizeof rows);
    return table;
}

/* Whether a word is an option of the table, with its value behind "=" or in the next word. */
static bool is_own(const et_arg *table, const char *word, bool *takes_next)
{
    if (strncmp(word, "--", 2))
        return false;
    size_t length = strcspn(word + 2, "=");
    for (; table->field.name; table++)
        if (strlen(table->field.name) == length && !strncmp(word + 2, table->field.name, length)) {
            *takes_next = table->way != ET_ARG_WAY_FLAG && !word[2 + length];
            return true;
        }
    return false;
}

/* Own options are parsed as any command's; the rest is the program's, in its order. --help is ours
 * before --module, the program's behind it. */
static int parse_train(train_args *args, const et_call *call, et_arena *arena, et_error *error)
{
    et_arg rows[4];
    const et_arg *table = train_table(rows, args);
    et_call own = *call;
    char **words = et_arena_array(arena, (size_t)call->argc + 1, sizeof *words);
    args->passed = et_arena_array(arena, (size_t)call->argc + 4, sizeof *args->passed);
    if (!words || !args->passed)
        return et_alloc_failed(error, (size_t)call->argc * sizeof *words, "arguments");
    own.argv = words;
    own.argc = 0;
    args->count = 1; /* the program's name */
    bool named = false;
    for (int i = 0; i < call->argc; i++) {
        bool next = false, help = !strcmp(call->argv[i], "--help") || !strcmp(call->argv[i], "-h");
        if (!is_own(table, call->argv[i], &next) && (!help || named)) {
            args->passed[args->count++] = call->argv[i];
            continue;
        }
        named |= !strncmp(call->argv[i], "--module", 8);
        words[own.argc++] = call->argv[i];
        if (next && i + 1 < call->argc)
            words[own.argc++] = call->argv[++i];
    }
    int status = et_args_parse(table, &own, &args->help, error);
    if (!status && args->help)
        et_args_help(stdout, table, call,
                     "Runs a program that trains; what is not an option of this command is the "
                     "program's.",
                     "--module ./iris --output jobs/iris --max-steps 2000");
    return status;
}

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

static int train(const et_call *call, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    train_args args = { .output = "output" };
    int status = parse_train(&args, call, &arena, error);
    if (!status && !args.help && !args.module)
        status = et_fail(error, ET_EUSAGE, "tfx train: --module is missing: which program trains");
    if (!status && !args.help) {
        const char *output = absolute(&arena, args.output);
        args.passed[0] = args.module;
        args.passed[args.count++] = "--job-dir";
        args.passed[args.count++] = output;
        args.passed[args.count] = NULL;
        fflush(stdout);
        if (output && args.distributed) {
            status = et_tfx_distributed(args.passed, error);
        } else {
            if (output && !setenv(ET_JOB_CONFIG_VARIABLE, SINGLE_NODE, 1))
                execvp(args.module, (char *const *)args.passed);
            status = et_fail_errno(error, "%s", output ? args.module : "the current directory");
        }
    }
    et_arena_release(&arena);
    return status;
}

/* ---- the three ---- */

static const et_command commands[] = {
    ET_COMMAND("train", train, "run a program that trains", NULL),
    ET_COMMAND("predict", et_predict_as_tfx, "predict rows with a trained model", NULL),
    ET_COMMAND("scaffold", et_cmd_scaffold, "write a project that trains and predicts", NULL),
    ET_COMMAND_END,
};

static void print_help(const et_call *call, FILE *to)
{
    fprintf(to, "usage: %s tfx COMMAND [OPTION]...\n\nTensorFX's commands by their names.\n\n",
            call->program->name);
    for (const et_command *row = commands; row->name; row++)
        fprintf(to, "    %-10s %s\n", row->name, row->help);
}

/* All three are described, in place of their list. */
static int describe(const et_call *call, et_error *error)
{
    char option[] = "--help", *words[] = { option, NULL };
    int status = ET_OK;
    for (const et_command *row = commands; row->name && !status; row++) {
        char command[32];
        snprintf(command, sizeof command, "tfx %s", row->name);
        const et_call inner = { .program = call->program,
                                .command = command,
                                .argc = 1,
                                .argv = words,
                                .description = call->description };
        status = row->run(&inner, error);
    }
    return status;
}

int et_cmd_tfx(const et_call *call, et_error *error)
{
    const char *names[] = { "train", "predict", "scaffold", NULL };
    if (!call->argc) {
        print_help(call, stderr);
        return et_fail(error, ET_EUSAGE, "tfx: no command given: train, predict or scaffold");
    }
    const char *name = call->argv[0];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        if (call->description)
            return describe(call, error);
        print_help(call, stdout);
        return ET_OK;
    }
    for (const et_command *row = commands; row->name; row++)
        if (!strcmp(row->name, name)) {
            char command[32];
            snprintf(command, sizeof command, "tfx %s", name);
            const et_call inner = { .program = call->program,
                                    .command = command,
                                    .argc = call->argc - 1,
                                    .argv = call->argv + 1 };
            return row->run(&inner, error);
        }
    return et_fail(error, ET_EUSAGE, "tfx: no command %s%s", name,
                   et_nearest_hint(name, names, "").text);
}
