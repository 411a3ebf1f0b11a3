/* etude export of a table's run: a model as a directory that `predict` and et_predictor_open take
 * alone. */
#include <stdio.h>

#include <etude/predictor.h>

#include "command/args.h"
#include "tasks/tabular/command/commands.h"

static int write_export(const char *model_dir, const char *output,
                        const et_predictor_options *options, et_error *error)
{
    et_predictor *predictor;
    int status = et_predictor_open(&predictor, model_dir, options, error);
    if (status)
        return status;
    status = et_predictor_export(predictor, output, error);
    if (!status)
        fprintf(stderr, "exported %s, step %lld: %s\n", et_predictor_checkpoint(predictor),
                (long long)et_predictor_step(predictor), output);
    et_predictor_close(predictor);
    return status;
}

int et_cmd_export_table(const et_call *call, et_error *error)
{
    const char *model_dir = NULL, *output = NULL;
    et_predictor_options options = { 0 };
    const et_arg table[] = {
        { "model-dir", "DIR", "the run that trained the model", ET_ARG_TEXT, &model_dir, NULL },
        { "output", "DIR", "where the model goes", ET_ARG_TEXT, &output, NULL },
        { "checkpoint", "best|newest|STEP|FILE", "which one; else the best, or the newest",
          ET_ARG_TEXT, &options.checkpoint, NULL },
        { "live-weights", NULL, "not the averaged ones", ET_ARG_FLAG, &options.live_weights, NULL },
        ET_ARG_RUN(model_dir),
        ET_ARG_END,
    };
    bool help;
    int status = et_args_parse(table, call, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, call,
                     "Writes what predicting needs, and no more, to a directory: --model-dir of "
                     "predict.",
                     "--model-dir runs/a --output models/a");
        return ET_OK;
    }
    if (!model_dir || !output)
        return et_fail(error, ET_EUSAGE, "export: --%s is missing: %s",
                       model_dir ? "output" : "model-dir",
                       model_dir ? "which directory to make" : "which run");
    return write_export(model_dir, output, &options, error);
}
