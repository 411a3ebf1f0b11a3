/* etude average: the mean of checkpoints' weights (train/checkpoint/checkpoint_weights.c) as a file
 * that commands that use a model take with --checkpoint.
 *
 * The result has the step of the latest of them and no state to train on from: it cannot be
 * taken for a checkpoint of a run. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "command/command.h"
#include "command/options/args.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/results.h"
#include "train/checkpoint/checkpoint.h"

typedef struct average_args {
    const char *output;
    et_arg_list paths;
    char *owned[ET_ARG_LIST_MAX]; /* those of paths that --last found */
    int64_t last;                 /* newest of a run; 0: paths are files */
    bool live_weights, quiet, json, help;
} average_args;

/* The run's newest in place of its directory. */
static int find_last(average_args *args, et_error *error)
{
    const char *model_dir = args->paths.items[0];
    int64_t step = -1;
    int found = 0, kept = (int)args->last;
    if (!et_directory_exists(model_dir))
        return et_fail(error, ET_ENOTFOUND, "--last: %s is no directory; name a run", model_dir);
    for (;;) {
        char *path;
        int status = et_checkpoint_next(&path, &step, model_dir, step, false, error);
        if (status)
            return status;
        if (!path)
            break;
        et_free(args->owned[found % kept]);
        args->owned[found++ % kept] = path;
    }
    if (found < kept)
        return et_fail(error, ET_ENOTFOUND,
                       "%s: keeps %s, fewer than --last %d; trainer.max_to_keep says how many a "
                       "run keeps",
                       model_dir, et_format_many(found, "checkpoint").text, kept);
    for (int i = 0; i < kept; i++)
        args->paths.items[i] = args->owned[(found + i) % kept];
    args->paths.count = kept;
    return ET_OK;
}

static int check(average_args *args, et_error *error)
{
    if (!args->output)
        return et_fail(error, ET_EUSAGE, "average: --output is missing: which file to write");
    if (!args->paths.count)
        return et_fail(error, ET_EUSAGE, "average: no checkpoint given: which ones to average");
    if (args->last && args->paths.count != 1)
        return et_fail(error, ET_EUSAGE, "--last: takes one run, found %d", args->paths.count);
    if (!args->last && args->paths.count == 1 && et_directory_exists(args->paths.items[0]))
        return et_fail(error, ET_EUSAGE,
                       "average: %s is a directory: say --last N for the N newest checkpoints of a "
                       "run, or name files",
                       args->paths.items[0]);
    return args->last ? find_last(args, error) : ET_OK;
}

static int print_json(const average_args *args, bool averages, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *results = et_value_dict(&arena);
    et_value_set_string(results, "output", args->output);
    et_value *list = et_value_set_list(results, "checkpoints");
    for (int i = 0; i < args->paths.count; i++)
        et_value_add_string(list, args->paths.items[i]);
    et_value_set_bool(results, "averaged_weights", averages);
    int status = et_results_print(results, error);
    et_arena_release(&arena);
    return status;
}

static int average(const average_args *args, const et_call *call, et_error *error)
{
    const et_arg_list *paths = &args->paths;
    bool averages;
    et_outputs outputs = { .program = call->program };
    for (int i = 0; i < paths->count; i++)
        et_outputs_read(&outputs, paths->items[i]);
    int status = et_outputs_check(&outputs, "--output", args->output, error);
    et_outputs_release(&outputs);
    if (!status)
        status = et_checkpoint_average(paths->items, (size_t)paths->count, args->live_weights,
                                       args->output, &averages, error);
    if (!status && args->json)
        return print_json(args, averages, error);
    if (!status && !args->quiet)
        et_print(stderr, "averaged %s%s: %s\n", et_format_many(paths->count, "checkpoint").text,
                 averages ? ", their averaged weights" : "", args->output);
    return status;
}

/* At least one file; one alone gives its weights as they are. */
int et_cmd_average(const et_call *call, et_error *error)
{
    average_args args = { .output = NULL };
    const et_arg table[] = {
        ET_ARG_TEXT("output", "FILE", &args.output, "where the averaged weights go"),
        ET_ARG_COUNT("last", "N", &args.last, 1, ET_ARG_LIST_MAX,
                     "the N newest of a run, which is named in place of checkpoints"),
        ET_ARG_FLAG("live-weights", &args.live_weights,
                    "average the weights, not the averages that a run kept of them"),
        ET_ARG_JSON(args.json),
        ET_ARG_QUIET(args.quiet),
        ET_ARG_REST("CHECKPOINT...|RUN", &args.paths),
        ET_ARG_END
    };
    int status = et_args_parse(table, call, &args.help, error);
    if (status)
        return status;
    if (args.help) {
        et_args_help(stdout, table, call,
                     "Writes the mean of the weights of checkpoints of one model, for commands "
                     "that\ntake --checkpoint.",
                     "--output average.safetensors --last 5 runs/a");
        return ET_OK;
    }
    status = check(&args, error);
    if (!status)
        status = average(&args, call, error);
    for (int i = 0; i < ET_ARG_LIST_MAX; i++)
        et_free(args.owned[i]);
    return status;
}
