/* Options that name a text in two languages: --data SOURCE TARGET, --data PAIRS.tsv, or --source
 * and --reference. A command may also take the two files as words. */
#ifndef ETUDE_COMMAND_TRANSLATION_PARALLEL_ARGS_H
#define ETUDE_COMMAND_TRANSLATION_PARALLEL_ARGS_H

#include "command/options/options.h"
#include "command/translation/lines.h"

typedef struct et_parallel_args {
    const char *source, *reference; /* files; NULL: not given */
    et_option_words data;           /* both, or one file of pairs, which becomes source */
    bool pairs;                     /* source is a file of pairs */
} et_parallel_args;

extern const et_option et_parallel_options[];

/* Takes the files of --data as if --source and --reference named them. command: for messages.
 * ET_EUSAGE: they are named twice. */
int et_parallel_take(et_parallel_args *args, const char *command, et_error *error);

/* ET_EUSAGE: one of the two files is missing. */
int et_parallel_check(const et_parallel_args *args, const char *command, et_error *error);

/* Reads both. comm: as a line reader's. ET_EDATA: they differ in the number of lines. */
int et_parallel_read(const et_parallel_args *args, et_lines *sources, et_lines *references,
                     struct et_comm *comm, et_error *error);

#endif
