/* The command `export` for any kind of task: its options, checks of the output, and messages. The
 * kind opens its model and writes the export.
 *
 *     static const char *const formats[] = { "onnx", NULL };
 *     static const et_option options[] = { ET_EXPORTING_OPTIONS(formats, "a file", precisions) };
 *     static const et_exporting kind = { formats, true, write_export };
 *     return et_exporting_run(&kind, call, &error);
 */
#ifndef ETUDE_COMMAND_EXPORTING_H
#define ETUDE_COMMAND_EXPORTING_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/command.h>
#include <etude/model_export.h>

#include "command/options/options.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/artifact/artifact.h"

/* The parsed options; all borrowed. */
typedef struct et_exporting_args {
    const char *model_dir, *output, *checkpoint; /* checkpoint NULL: not given */
    et_option_task task;
    bool live_weights;
    et_option_uses text; /* two files to measure the model on, of kinds that have the option */
    et_export_options options;
} et_exporting_args;

/* The options that all kinds share. formats: values of --format, ended by NULL; help: the files of
 * each format; precisions: values of --precision, ended by NULL. */
#define ET_EXPORTING_OPTIONS(formats, help, precisions)                                            \
    ET_OPTION_MODEL_DIR(et_exporting_args, model_dir), ET_OPTION_TASK(et_exporting_args, task),    \
        ET_OPTION_TEXT(et_exporting_args, output, "output", "PATH",                                \
                       "file to write, NAME" ET_SAFETENSORS_SUFFIX                                 \
                       " (of a table also NAME.onnx), or directory to make",                       \
                       .missing = "the file or directory to write"),                               \
        ET_OPTION_CHECKPOINT(et_exporting_args, checkpoint),                                       \
        ET_OPTION_TEXT(et_exporting_args, options.format, "format", NULL, help,                    \
                       .field.choices = (formats)),                                                \
        ET_OPTION_TEXT(et_exporting_args, options.precision, "precision", NULL,                    \
                       "how weights are stored: bfloat16 halves the file, int8 quarters it",       \
                       .field.choices = (precisions)),                                             \
        ET_OPTION_LIVE_WEIGHTS(et_exporting_args, live_weights),                                   \
        ET_OPTION_RUN(et_exporting_args, model_dir), ET_OPTION_END

/* The command's description for help. doing: "predicting"; command: "`predict`". */
#define ET_EXPORTING_ABOUT(doing, command)                                                         \
    "Writes a model for " doing ": to one file if --output ends in " ET_SAFETENSORS_SUFFIX         \
    ", else\nto a directory. " command " accepts both as RUN."
#define ET_EXPORTING_EXAMPLE "runs/a --output a" ET_SAFETENSORS_SUFFIX

typedef struct et_exporting {
    const char *const *formats; /* that --format may be, ended by NULL */
    bool format_is_file;        /* true: --format makes a file; false: a directory */
    /* Writes the export, and prints its facts (et_exporting_tell). */
    int (*write)(const et_exporting_args *args, et_error *error);
} et_exporting;

void et_exporting_tell(const et_exporting_args *args, const char *checkpoint, int64_t step);

int et_exporting_run(const et_exporting *kind, const et_call *call, et_error *error);

#endif
