#include "command/exporting.h"

#include <stdio.h>

#include "base/alloc.h"
#include "command/args.h"
#include "command/outputs.h"
#include "train/model_export.h"

static void print_help(const et_arg *table, const et_exporting *kind, const et_call *call)
{
    char about[512];
    snprintf(about, sizeof about,
             "Writes what %s needs, and no more: to one file, or to a directory where --output "
             "does\nnot end in " ET_MODEL_SUFFIX ". Either is a RUN for %s.",
             kind->doing, kind->command);
    et_args_help(stdout, table, call, about, "runs/a --output a" ET_MODEL_SUFFIX);
}

static int check(const et_exporting *kind, const et_exporting_args *args, const et_call *call,
                 et_error *error)
{
    et_outputs outputs = { .program = call->program };
    if (!args->model_dir || !args->output)
        return et_fail(error, ET_EUSAGE, "export: --%s is missing: %s",
                       args->model_dir ? "output" : "model-dir",
                       args->model_dir ? "which file, or directory, to make" : "which run");
    int status = et_model_export_check_precision(args->options.precision, NULL);
    if (status)
        return et_fail(error, ET_EUSAGE, "--precision %s: choose float32, bfloat16 or int8",
                       args->options.precision);
    /* A directory is made, or has none of the files: nothing there is written over. */
    if (!et_model_export_is_file(args->output) && !(args->options.format && kind->format_is_file))
        return ET_OK;
    et_outputs_read(&outputs, args->model_dir);
    et_outputs_read(&outputs, args->checkpoint);
    status = et_outputs_check(&outputs, "--output", args->output, error);
    et_outputs_release(&outputs);
    return status;
}

int et_exporting_run(const et_exporting *kind, const et_call *call, et_error *error)
{
    et_exporting_args args = { .model_dir = NULL };
    et_exported exported = { .checkpoint = NULL };
    const et_arg table[] = {
        { "model-dir", "DIR", "the run that trained the model", ET_ARG_TEXT, &args.model_dir,
          NULL },
        { "output", "PATH", "the file, NAME" ET_MODEL_SUFFIX ", or a directory to make",
          ET_ARG_TEXT, &args.output, NULL },
        { "checkpoint", "NAME", "best, newest, a step or a file; else the best, or the newest",
          ET_ARG_TEXT, &args.checkpoint, NULL },
        { "format", kind->formats, kind->formats_help, ET_ARG_TEXT, &args.options.format, NULL },
        { "precision", "float32|bfloat16|int8", "how weights are stored: whole, half, a quarter",
          ET_ARG_TEXT, &args.options.precision, NULL },
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
    status = check(kind, &args, call, error);
    if (!status)
        status = kind->write(&args, &exported, error);
    if (!status)
        fprintf(stderr, "exported %s, step %lld: %s\n", exported.checkpoint,
                (long long)exported.step, args.output);
    et_free(exported.checkpoint);
    return status;
}
