/* `export` of any kind of task: its words, where it may write, what it says; the kind opens its
 * model and writes it.
 *
 *     static const et_exporting kind = { "predicting", "predict", "onnx", "a file", true,
 *                                        write_export };
 *     return et_exporting_run(&kind, call, &error);
 */
#ifndef ETUDE_COMMAND_EXPORTING_H
#define ETUDE_COMMAND_EXPORTING_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/command.h>
#include <etude/model_export.h>

/* What was asked for; all borrowed. */
typedef struct et_exporting_args {
    const char *model_dir, *output, *checkpoint; /* checkpoint NULL: not given */
    bool live_weights;
    et_export_options options;
} et_exporting_args;

/* What was written: free checkpoint with et_free. */
typedef struct et_exported {
    char *checkpoint;
    int64_t step;
} et_exported;

typedef struct et_exporting {
    const char *doing, *command;        /* "predicting", "predict" */
    const char *formats, *formats_help; /* what --format may be, and what that gives */
    bool format_is_file;                /* what --format makes: a file or a directory */
    int (*write)(const et_exporting_args *args, et_exported *exported, et_error *error);
} et_exporting;

int et_exporting_run(const et_exporting *kind, const et_call *call, et_error *error);

#endif
