/* Output files of commands: one rule for every file that an option names (--output, --profile) and
 * for standard output. An output must not be an input, another output or a file of a run, and it
 * must be writable, which is tested by making and removing a file in its folder. All checks come
 * before any work. Two paths are the same file if device and inode are equal.
 *
 *     et_outputs outputs = { .program = call->program };
 *     et_outputs_read(&outputs, source);
 *     et_outputs_check_standard(&outputs, &error);
 *     et_outputs_check(&outputs, "--output", output, &error);
 *     return et_outputs_release(&outputs);           the first check that failed; others do nothing
 */
#ifndef ETUDE_COMMAND_OUTPUTS_H
#define ETUDE_COMMAND_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <etude/command.h>

#include "command/options/options.h"
#include "systems/training/profile.h"

/* An existing file. */
typedef struct et_output_file {
    char *name; /* as typed, or "standard input"; owned */
    dev_t device;
    ino_t inode;
} et_output_file;

typedef struct et_outputs {
    const et_program *program; /* the kinds whose runs have files */
    const char *run;           /* a directory that counts as a run even without files, or NULL */
    et_output_file *files;     /* owned: input files */
    size_t count, capacity;
    bool failed;         /* memory ran out while noting a file; check reports it */
    const char *written; /* the output that was checked before, or NULL */
    int status;          /* of the first check that failed */
} et_outputs;

/* Notes that the command reads a file. NULL or a missing file is not noted. */
void et_outputs_read(et_outputs *outputs, const char *path);
void et_outputs_read_all(et_outputs *outputs, const et_strings *paths);

/* Adds the files that a kind's settings name as inputs. */
void et_outputs_read_settings(et_outputs *outputs, const et_task_kind *kind, const void *options);

/* The command reads a trained model: --model-dir and --checkpoint, or NULL. */
void et_outputs_read_model(et_outputs *outputs, const char *model_dir, const char *checkpoint);

/* The command reads that file; NULL: standard input. */
void et_outputs_read_input(et_outputs *outputs, const char *path);

/* ET_EDENIED or the reason why it cannot be written; the message names option, path and cure. path
 * NULL: no output. At most two outputs of a command. */
int et_outputs_check(et_outputs *outputs, const char *option, const char *path, et_error *error);

/* Checks standard output, which may be appended to a file that the command reads. */
int et_outputs_check_standard(et_outputs *outputs, et_error *error);

/* Refuses a directory name of --output with the ending of a file, such as a.zip, because the user
 * expects a file of that format. An existing directory is accepted. ET_EUSAGE. path NULL: no
 * output. */
int et_outputs_check_directory(const char *path, et_error *error);

/* Rows of options, of an et_profiling. */
extern const et_option et_profiling_options[];

/* ET_EUSAGE: steps are not A:B. Other errors: those of et_outputs_check for the file. */
int et_profiling_check(et_profiling *profiling, et_outputs *outputs, et_error *error);

/* Returns the status of the checks. */
int et_outputs_release(et_outputs *outputs);

#endif
