/* etude average: writes the mean of checkpoints' weights (train/checkpoint/checkpoint_weights.c) to
 * a file. Commands that use a model read the file with --checkpoint.
 *
 * The file has the step of the latest checkpoint, but no state from which a run could resume. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "systems/modelgarden/series.h"
#include "train/checkpoint/checkpoint.h"

#define LAST_MAX 256

typedef struct average_options {
    const char *output;
    et_strings paths;
    int64_t last; /* newest of a run; 0: paths are files */
    bool live_weights, quiet, json;
    char *found[LAST_MAX];          /* by --last; owned */
    const char *in_order[LAST_MAX]; /* the same checkpoints in order; then paths points here */
} average_options;

static const et_option options[] = {
    ET_OPTION_TEXT(average_options, output, "output", "FILE", "file for the averaged weights",
                   .missing = "the file to write"),
    ET_OPTION_COUNT(average_options, last, "last", "N", 1, LAST_MAX,
                    "average the N newest checkpoints of the run that is named"),
    ET_OPTION_FLAG(average_options, live_weights, "live-weights",
                   "average the trained weights, not their moving averages"),
    ET_OPTION_JSON(average_options, json),
    ET_OPTION_QUIET(average_options, quiet),
    ET_OPTION_REST(average_options, paths, "CHECKPOINT...|RUN"),
    ET_OPTION_END
};

const et_usage et_usage_average = {
    options, sizeof(average_options),
    "Averages the weights of several checkpoints of one model. Use the result with\n--checkpoint.",
    "--output average.safetensors --last 5 runs/a"
};

/* The run's newest in place of its directory. */
static int find_last(average_options *args, et_error *error)
{
    const char *model_dir = args->paths.items[0];
    int64_t step = -1;
    int found = 0, kept = (int)args->last;
    if (!et_directory_exists(model_dir))
        return et_fail(error, ET_ENOTFOUND, "--last: %s is not a directory; name a run", model_dir);
    int denied = et_directory_check(model_dir, error);
    if (denied)
        return denied;
    for (;;) {
        char *path;
        int status = et_checkpoint_next(&path, &step, model_dir, step, false, error);
        if (status)
            return status;
        if (!path)
            break;
        et_free(args->found[found % kept]);
        args->found[found++ % kept] = path;
    }
    if (!found && et_file_exists_in(model_dir, ET_SERIES_FOLDER))
        return et_fail(error, ET_ENOTFOUND,
                       "--last: %s is a run of several models and has no checkpoints; name one of "
                       "the runs in %s/" ET_SERIES_FOLDER,
                       model_dir, model_dir);
    if (found < kept)
        return et_fail(error, ET_ENOTFOUND,
                       "%s has %s, fewer than --last %d; trainer.max_to_keep sets how many "
                       "checkpoints a run keeps",
                       model_dir, et_format_many(found, "checkpoint").text, kept);
    for (int i = 0; i < kept; i++)
        args->in_order[i] = args->found[(found + i) % kept];
    args->paths = (et_strings){ args->in_order, (size_t)kept };
    return ET_OK;
}

static int check(average_options *args, et_error *error)
{
    if (!args->paths.count)
        return et_fail(error, ET_EUSAGE,
                       "average: no checkpoint is given; name the checkpoints to average");
    if (args->last && args->paths.count != 1)
        return et_fail(error, ET_EUSAGE, "--last: give one run, not %zu", args->paths.count);
    if (!args->last && args->paths.count == 1 && et_directory_exists(args->paths.items[0]))
        return et_fail(error, ET_EUSAGE,
                       "average: %s is a directory: add --last N to average the N newest "
                       "checkpoints of this run, or name files",
                       args->paths.items[0]);
    return args->last ? find_last(args, error) : ET_OK;
}

static int print_json(const average_options *args, bool averages, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *results = et_value_dict(&arena);
    et_value_set_string(results, "output", args->output);
    et_value *list = et_value_set_list(results, "checkpoints");
    for (size_t i = 0; i < args->paths.count; i++)
        et_value_add_string(list, args->paths.items[i]);
    et_value_set_bool(results, "averaged_weights", averages);
    int status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}

static int average(const average_options *args, const et_call *call, et_error *error)
{
    const et_strings *paths = &args->paths;
    bool averages;
    et_outputs outputs = { .program = call->program };
    et_outputs_read_all(&outputs, paths);
    et_outputs_check(&outputs, "--output", args->output, error);
    int status = et_outputs_release(&outputs);
    if (!status)
        status = et_checkpoint_average(paths->items, paths->count, args->live_weights, args->output,
                                       &averages, error);
    if (!status && args->json)
        return print_json(args, averages, error);
    if (!status && !args->quiet)
        et_print(stderr, "averaged %s%s: %s\n",
                 et_format_many((int64_t)paths->count, "checkpoint").text,
                 averages ? ", their moving averages" : "", args->output);
    return status;
}

/* Needs at least one file; a single file gives its weights unchanged. */
int et_cmd_average(const et_call *call, et_error *error)
{
    average_options *args = call->options;
    int status = check(args, error);
    if (!status)
        status = average(args, call, error);
    for (int i = 0; i < LAST_MAX; i++)
        et_free(args->found[i]);
    return status;
}
