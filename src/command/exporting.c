#include "command/exporting.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "command/outputs.h"
#include "command/print.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/artifact/artifact.h"

/* Whether the output may be written. is_file: the output is a file and replaces an existing one. A
 * directory is made, or must contain none of the files, so nothing is overwritten. */
static int check(const et_exporting_args *args, bool is_file, const et_call *call, et_error *error)
{
    et_outputs outputs = { .program = call->program };
    if (!is_file && !et_safetensors_is_name(args->output))
        return et_outputs_check_directory("--output", args->output, error);
    et_outputs_read_model(&outputs, args->model_dir, args->checkpoint);
    et_outputs_check(&outputs, "--output", args->output, error);
    return et_outputs_release(&outputs);
}

/* NAME.onnx selects the ONNX format, if the kind writes it as a file. */
static int choose_format(et_exporting_args *args, const et_exporting *kind, et_error *error)
{
    const bool is_onnx = et_path_ends(args->output, ".onnx");
    if (!is_onnx || args->options.format || !et_is_one_of("onnx", kind->formats))
        return ET_OK;
    if (!kind->format_is_file)
        return et_fail(error, ET_EUSAGE,
                       "--output %s: this model gives several ONNX files; name a directory, such "
                       "as --format onnx --output %.*s",
                       args->output, (int)(strlen(args->output) - strlen(".onnx")), args->output);
    args->options.format = "onnx";
    return ET_OK;
}

void et_exporting_tell(const et_exporting_args *args, const char *checkpoint, int64_t step)
{
    et_print(stderr, "exported %s, step %lld: %s\n", checkpoint, (long long)step, args->output);
}

int et_exporting_run(const et_exporting *kind, const et_call *call, et_error *error)
{
    et_assert(kind && call->options);
    et_exporting_args *args = call->options;
    int status = choose_format(args, kind, error);
    if (!status)
        status = check(args, args->options.format && kind->format_is_file, call, error);
    return status ? status : kind->write(args, error);
}
