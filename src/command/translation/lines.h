/* Lines of text for commands: all lines of standard input, or of files as the library reads
 * them. */
#ifndef ETUDE_COMMAND_TRANSLATION_LINES_H
#define ETUDE_COMMAND_TRANSLATION_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/fields.h>

#include "base/arena.h"
#include "command/options/options.h"

struct et_comm;
struct et_progress;
struct et_text;

/* Owned by the reader's caller; valid until the next clear or release. */
typedef struct et_lines {
    et_arena arena;         /* holds the lines */
    char **items;           /* terminated, without line ends */
    size_t count, capacity; /* of items: lines, and room for them */
} et_lines;

#define ET_LINES_INIT                                                                              \
    {                                                                                              \
        ET_ARENA_INIT, NULL, 0, 0                                                                  \
    }

/* Reads lines of a file descriptor, which may be a pipe or a terminal. Must not move while it is
 * open. UTF-8 is checked, CR LF and a byte order mark are accepted; NUL bytes and lines of more
 * than 1 MiB are ET_EDATA with the line. Nothing else may read from the descriptor. */
typedef struct et_line_reader {
    int fd;               /* borrowed, or of the file that was opened */
    bool opened;          /* opened from a file; close closes it */
    struct et_text *text; /* a compressed file, or files, in place of fd; owned */
    et_strings paths;     /* its list: name */
    bool replace;         /* invalid UTF-8, and NUL, become U+FFFD */
    bool keeps_ends;      /* keep the ends of lines, and the byte order mark of the first line, so
                             that all lines together are the text. Set after open, not for a
                             compressed file */
    size_t replaced;      /* lines with replacements; a warning names the first */
    const char *name;     /* for messages; borrowed */
    size_t number;        /* of the next line, from 1 */
    char *buffer;         /* owned; bytes that were read but not returned are begin .. end */
    size_t begin, end;    /* in buffer */
    bool over;            /* the end of input was seen */
    et_error error;       /* an error after the returned lines; status 0: none */
    struct et_comm *comm; /* ranks that all call the reader: rank 0 reads, and all get its lines.
                             Set after open, which the other ranks skip. NULL: this process alone */
} et_line_reader;

int et_line_reader_open(et_line_reader *reader, int fd, const char *name, et_error *error);
/* Reads a file, plain, or compressed if its name ends in .gz. Invalid UTF-8 in a compressed file is
 * not replaced. */
int et_line_reader_open_file(et_line_reader *reader, const char *path, bool replace,
                             et_error *error);
/* Reads files, plain or compressed, one after the other. paths must outlive the reader. */
int et_line_reader_open_texts(et_line_reader *reader, const et_strings *paths, const char *name,
                              et_error *error);
void et_line_reader_close(et_line_reader *reader);

/* Adds the available lines, up to most (0: all up to the end). Waits only for the first line. So a
 * program that writes a line gets its answer before it writes the next line. If no line was added,
 * the input is at its end. With most, the next call returns an error that comes after some
 * lines. */
int et_line_reader_read(et_line_reader *reader, et_lines *lines, size_t most, et_error *error);

/* Reads a file, plain or gzip. comm: as a reader's. */
int et_lines_read_file(et_lines *lines, const char *path, struct et_comm *comm, et_error *error);

/* ET_EDATA unless both have the same number of lines, and at least one; names both counts. */
int et_lines_check_pairs(const et_lines *source, const char *source_name, const et_lines *target,
                         const char *target_name, et_error *error);

void et_lines_clear(et_lines *lines); /* keeps the list's memory */
void et_lines_release(et_lines *lines);

/* "lines  1,840/6,000 ...  52 lines/s": done of count (0: not known) since the time start
 * (et_clock_monotonic). */
void et_lines_show(struct et_progress *progress, size_t done, size_t count, double start);

/* ---- parallel files ---- */

/* Options that name a text in two languages: --data SOURCE TARGET, --data PAIRS.tsv, or --source
 * and --reference. A command may also take the two files as words. */
typedef struct et_parallel_args {
    const char *source, *reference; /* files; NULL: not given */
    et_option_uses data;            /* both, or one file of pairs, which becomes source */
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
