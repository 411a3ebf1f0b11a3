#include <stdio.h>

#include "cli/args.h"
#include "cli/command.h"
#include "train/checkpoint.h"

int et_cmd_average(int argc, char **argv, et_error *error)
{
    const char *output = NULL;
    static et_arg_list paths;
    const et_arg table[] = { { "output", "FILE", "where the averaged weights go", ET_ARG_TEXT,
                               &output, NULL },
                             { "CHECKPOINT...", NULL, NULL, ET_ARG_REST, &paths, NULL },
                             ET_ARG_END };
    bool help;
    int status = et_args_parse(table, "average", argc, argv, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, "average",
                     "Writes the mean of the weights of checkpoints of one model, for translate "
                     "and\nevaluate with --checkpoint.",
                     "etude average --output runs/a/average.safetensors "
                     "runs/a/checkpoints/ckpt-*.safetensors");
        return ET_OK;
    }
    if (!output)
        return et_fail(error, ET_EUSAGE, "average: --output is missing: which file to write");
    if (!paths.count)
        return et_fail(error, ET_EUSAGE, "average: no checkpoint given: which ones to average");
    status = et_checkpoint_average(paths.items, (size_t)paths.count, output, error);
    if (!status)
        fprintf(stderr, "averaged %d checkpoint%s: %s\n", paths.count, paths.count == 1 ? "" : "s",
                output);
    return status;
}
