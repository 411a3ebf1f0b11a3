/* etude average: the mean of checkpoints' weights (train/checkpoint_weights.c) as a file that
 * commands that use a model take with --checkpoint.
 *
 * The result has the step of the latest of them and no state to train on from: it cannot be
 * taken for a checkpoint of a run. */
#include <stdio.h>

#include "base/assert.h"
#include "command/args.h"
#include "command/command.h"
#include "command/outputs.h"
#include "train/checkpoint.h"

/* At least one file; one alone gives its weights as they are. */
int et_cmd_average(const et_call *call, et_error *error)
{
    const char *output = NULL;
    et_arg_list paths = { .count = 0 };
    bool live_weights = false, averages;
    const et_arg table[] = {
        { "output", "FILE", "where the averaged weights go", ET_ARG_TEXT, &output, NULL },
        { "live-weights", NULL, "average the weights, not the averages that a run kept of them",
          ET_ARG_FLAG, &live_weights, NULL },
        { "CHECKPOINT...", NULL, NULL, ET_ARG_REST, &paths, NULL },
        ET_ARG_END
    };
    bool help;
    int status = et_args_parse(table, call, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, call,
                     "Writes the mean of the weights of checkpoints of one model, for commands "
                     "that\ntake --checkpoint.",
                     "--output runs/a/average.safetensors "
                     "runs/a/checkpoints/ckpt-*.safetensors");
        return ET_OK;
    }
    et_assert(paths.count >= 0);
    if (!output)
        return et_fail(error, ET_EUSAGE, "average: --output is missing: which file to write");
    if (!paths.count)
        return et_fail(error, ET_EUSAGE, "average: no checkpoint given: which ones to average");
    et_outputs outputs = { .program = call->program };
    for (int i = 0; i < paths.count; i++)
        et_outputs_read(&outputs, paths.items[i]);
    status = et_outputs_check(&outputs, "--output", output, error);
    et_outputs_release(&outputs);
    if (!status)
        status = et_checkpoint_average(paths.items, (size_t)paths.count, live_weights, output,
                                       &averages, error);
    if (!status)
        fprintf(stderr, "averaged %d checkpoint%s%s: %s\n", paths.count,
                paths.count == 1 ? "" : "s", averages ? ", their averaged weights" : "", output);
    return status;
}
