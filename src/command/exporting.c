#include "command/exporting.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "command/outputs.h"
#include "command/print.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/artifact/model_export.h"

static void print_help(const et_arg *table, const et_exporting *kind, const et_call *call)
{
    char about[512];
    snprintf(about, sizeof about,
             "Writes what %s needs, and no more: to one file, or to a directory where --output "
             "does\nnot end in " ET_SAFETENSORS_SUFFIX ". Either is a RUN for %s.",
             kind->doing, kind->command);
    et_args_help(stdout, table, call, about, "runs/a --output a" ET_SAFETENSORS_SUFFIX);
}

int et_exporting_check(const et_exporting_args *args, bool is_file, const et_call *call,
                       et_error *error)
{
    et_outputs outputs = { .program = call->program };
    if (!args->model_dir || !args->output)
        return et_fail(error, ET_EUSAGE, "export: --%s is missing: %s",
                       args->model_dir ? "output" : "model-dir",
                       args->model_dir ? "which file, or directory, to make" : "which run");
    if (!is_file && !et_safetensors_is_name(args->output))
        return ET_OK;
    et_outputs_read_model(&outputs, args->model_dir, args->checkpoint);
    int status = et_outputs_check(&outputs, "--output", args->output, error);
    et_outputs_release(&outputs);
    return status;
}

/* NAME.onnx is of that format, where that is a file. */
static int choose_format(et_exporting_args *args, const et_exporting *kind, et_error *error)
{
    const bool is_onnx = args->output && et_path_ends(args->output, ".onnx");
    if (!is_onnx || args->options.format || !et_is_one_of("onnx", kind->formats))
        return ET_OK;
    if (!kind->format_is_file)
        return et_fail(error, ET_EUSAGE,
                       "--output %s: ONNX of this model is several files; name a directory, such "
                       "as --format onnx --output %.*s",
                       args->output, (int)(strlen(args->output) - strlen(".onnx")), args->output);
    args->options.format = "onnx";
    return ET_OK;
}

int et_exporting_run(const et_exporting *kind, const et_call *call, et_error *error)
{
    et_exporting_args args = { .model_dir = NULL };
    et_exported exported = { .checkpoint = NULL };
    const et_arg table[] = {
        ET_ARG_MODEL_DIR(args.model_dir),
        ET_ARG_TASK(args.task),
        ET_EXPORTING_OUTPUT(args),
        ET_ARG_CHECKPOINT(args.checkpoint),
        ET_ARG_TEXT("format", NULL, &args.options.format, kind->formats_help,
                    .field.choices = kind->formats),
        ET_EXPORTING_PRECISION(args),
        ET_ARG_LIVE_WEIGHTS(args.live_weights),
        ET_ARG_RUN(args.model_dir),
        ET_ARG_END,
    };
    bool help;
    int status = et_args_parse(table, call, &help, error);
    if (!status && help)
        print_help(table, kind, call);
    if (status || help)
        return status;
    status = choose_format(&args, kind, error);
    if (status)
        return status;
    status = et_exporting_check(&args, args.options.format && kind->format_is_file, call, error);
    if (!status)
        status = kind->write(&args, &exported, error);
    if (!status)
        et_print(stderr, "exported %s, step %lld: %s\n", exported.checkpoint,
                 (long long)exported.step, args.output);
    et_free(exported.checkpoint);
    return status;
}
