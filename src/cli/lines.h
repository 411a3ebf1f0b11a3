/* Lines of text for commands: all of standard input, or of files as the library reads them. */
#ifndef ETUDE_CLI_LINES_H
#define ETUDE_CLI_LINES_H

#include <stddef.h>
#include <stdio.h>

#include <etude/error.h>

#include "base/arena.h"

/* Owned by whoever read them; valid until the next clear or release. */
typedef struct et_lines {
    et_arena arena;         /* holds the lines */
    char **items;           /* terminated, without line ends */
    size_t count, capacity; /* of items: lines, and room for them */
} et_lines;

#define ET_LINES_INIT                                                                              \
    {                                                                                              \
        ET_ARENA_INIT, NULL, 0, 0                                                                  \
    }

/* Reads up to most lines (0: all). An empty count afterwards is the end. UTF-8 checked, CR LF
 * and a byte order mark accepted; NUL bytes and lines of more than 1 MiB are ET_EDATA naming
 * the line. name is for messages; first: number of the first line. */
int et_lines_read(et_lines *lines, FILE *from, const char *name, size_t first, size_t most,
                  et_error *error);

/* Reads a file, plain or gzip. */
int et_lines_read_file(et_lines *lines, const char *path, et_error *error);

/* ET_EDATA unless both have the same number of lines, and at least one; names both counts. */
int et_lines_check_pairs(const et_lines *source, const char *source_name, const et_lines *target,
                         const char *target_name, et_error *error);

void et_lines_clear(et_lines *lines); /* keeps the list's memory */
void et_lines_release(et_lines *lines);

#endif
