/* etude export for runs of tables: writes a trained model in a form that `predict` and
 * et_predictor_open read. */
#include <etude/predictor.h>

#include "base/alloc.h"
#include "command/exporting.h"
#include "command/tabular/tabular_commands.h"

static const char *const formats[] = { "onnx", NULL };

static const char *const inputs[] = { "raw", "encoded", NULL };

static const et_option options[] = {
    ET_OPTION_TEXT(et_exporting_args, options.inputs, "inputs", NULL,
                   "inputs of an ONNX model; raw: the table's columns as texts and numbers (the "
                   "default); encoded: the values of the features",
                   .field.choices = inputs),
    ET_EXPORTING_OPTIONS(formats, "for other programs: a file whose inputs are the table's columns",
                         et_option_precisions)
};

const et_usage et_usage_export_table = { options, sizeof(et_exporting_args),
                                         ET_EXPORTING_ABOUT("predicting", "predict"),
                                         ET_EXPORTING_EXAMPLE };

static int write_export(const et_exporting_args *args, et_exported *exported, et_error *error)
{
    et_predictor *predictor;
    const et_predictor_options how = { .checkpoint = args->checkpoint,
                                       .live_weights = args->live_weights };
    int status = et_predictor_open(&predictor, args->model_dir, &how, error);
    if (status)
        return status;
    status = et_predictor_export(predictor, args->output, &args->options, error);
    exported->step = et_predictor_facts(predictor)->step;
    exported->checkpoint = et_strdup(et_predictor_facts(predictor)->checkpoint);
    et_predictor_close(predictor);
    return status || exported->checkpoint ? status : et_alloc_failed(error, 0, "a path");
}

int et_cmd_export_table(const et_call *call, et_error *error)
{
    static const et_exporting kind = { formats, true, write_export };
    return et_exporting_run(&kind, call, error);
}
