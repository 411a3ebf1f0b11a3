/* `export` of any kind of task: its words, where it may write, what it says; the kind opens its
 * model and writes it.
 *
 *     static const char *const formats[] = { "onnx", NULL };
 *     static const et_exporting kind = { "predicting", "predict", formats, "a file", true,
 *                                        write_export };
 *     return et_exporting_run(&kind, call, &error);
 */
#ifndef ETUDE_COMMAND_EXPORTING_H
#define ETUDE_COMMAND_EXPORTING_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/command.h>
#include <etude/model_export.h>

#include "command/options/args.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/artifact/model_export.h"

/* What was asked for; all borrowed. */
typedef struct et_exporting_args {
    const char *model_dir, *output, *checkpoint; /* checkpoint NULL: not given */
    et_arg_member task;
    bool live_weights;
    et_export_options options;
} et_exporting_args;

/* Rows of a table of options. */
#define ET_EXPORTING_OUTPUT(args)                                                                  \
    ET_ARG_TEXT("output", "PATH", &(args).output,                                                  \
                "the file, NAME" ET_SAFETENSORS_SUFFIX                                             \
                " or, of a table, NAME.onnx, or a directory "                                      \
                "to make")

#define ET_EXPORTING_PRECISION(args)                                                               \
    ET_ARG_TEXT("precision", NULL, &(args).options.precision,                                      \
                "how weights are stored: whole, half, a quarter",                                  \
                .field.choices = et_arg_precisions)

/* What must be given, and whether output may be written. is_file: it is a file, in place of one
 * that may be there. A directory is made, or has none of the files: nothing is written over. */
int et_exporting_check(const et_exporting_args *args, bool is_file, const et_call *call,
                       et_error *error);

/* What was written: free checkpoint with et_free. */
typedef struct et_exported {
    char *checkpoint;
    int64_t step;
} et_exported;

typedef struct et_exporting {
    const char *doing, *command; /* "predicting", "predict" */
    const char *const *formats;  /* that --format may be, ended by NULL */
    const char *formats_help;    /* what they give */
    bool format_is_file;         /* what --format makes: a file or a directory */
    int (*write)(const et_exporting_args *args, et_exported *exported, et_error *error);
} et_exporting;

int et_exporting_run(const et_exporting *kind, const et_call *call, et_error *error);

#endif
