#include "command/exporting.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "command/outputs.h"
#include "command/print.h"
#include "formats/safetensors/safetensors.h"
#include "systems/modelgarden/experiment.h"

void et_exporting_tell(const et_exporting_args *args, const char *checkpoint, int64_t step)
{
    et_print(stderr, "exported %s, step %lld: %s\n", checkpoint, (long long)step, args->output);
}

int et_exporting_run(const et_exporting *kind, const et_call *call, et_error *error)
{
    et_assert(kind && call->options);
    et_exporting_args *args = call->options;
    const et_task_kind *known;
    /* NAME.onnx selects the ONNX format, if the kind writes it as a file. */
    const bool is_onnx = !args->options.format && et_path_ends(args->output, ".onnx") &&
                         et_is_one_of("onnx", kind->formats);
    const bool is_file = is_onnx || args->options.format ? kind->format_is_file
                                                         : et_safetensors_is_name(args->output);
    /* The kind of a model that cannot be opened is unknown. */
    int status =
        is_file ? ET_OK : et_experiment_find_kind(&known, call->program, args->model_dir, error);
    if (status)
        return status;
    if (is_onnx && !is_file)
        return et_fail(
            error, ET_EUSAGE,
            "--output %s: this model gives several ONNX files; name a directory, such "
            "as --format onnx --output %s",
            args->output,
            et_shell_quote(
                et_path_print("%.*s", (int)(strlen(args->output) - strlen(".onnx")), args->output)
                    .text)
                .text);
    if (is_onnx)
        args->options.format = "onnx";
    /* A file replaces an existing file. A directory is made, or must contain none of the export's
     * files, so nothing is overwritten. */
    if (is_file) {
        et_outputs outputs = { .program = call->program };
        et_outputs_read_model(&outputs, args->model_dir, args->checkpoint);
        et_outputs_check(&outputs, "--output", args->output, error);
        status = et_outputs_release(&outputs);
    } else {
        status = et_outputs_check_directory(args->output, error);
    }
    return status ? status : kind->write(args, error);
}
