/* A file that grows at its end and is continued when a run resumes: the common part of record files
 * and JSON lines. A piece that cannot be written completely is cut off again. One thread per
 * value. */
#ifndef ETUDE_FORMATS_APPEND_H
#define ETUDE_FORMATS_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#define ET_APPEND_CONTINUE (-1) /* as an offset: after the last whole piece */

/* How many bytes of a file are whole pieces. */
typedef int et_append_whole_fn(uint64_t *out, const char *path, et_error *error);

typedef struct et_append {
    int fd;                    /* -1: closed */
    char *path;                /* owned */
    et_append_whole_fn *whole; /* as given when it was opened */
    uint64_t offset;           /* bytes of the file so far: position of the next piece */
    bool listed;               /* its entry in the directory is durable */
    bool torn;                 /* after offset, there may be a part of a piece */
} et_append;

/* Opens or makes the file and cuts it off at offset; 0 empties it. ET_APPEND_CONTINUE cuts it off
 * after the last complete piece. A file shorter than offset is cut off after its last complete
 * piece too, with a warning in the log. */
int et_append_open(et_append *file, const char *path, int64_t offset, et_append_whole_fn *whole,
                   et_error *error);

/* Call before a write: checks whether another program has removed, replaced or cut off the file
 * since. If so, the log gets a warning, *moved is true, and file is the one that has its name now,
 * made if necessary and opened as with ET_APPEND_CONTINUE. */
int et_append_follow(et_append *file, bool *moved, et_error *error);

int et_append_write(et_append *file, const void *bytes, size_t length, et_error *error);

/* Makes the written bytes durable; the first time, also the file's entry in its directory. */
int et_append_flush(et_append *file, et_error *error);

/* Flushes and closes; the file is closed on failure too. */
int et_append_close(et_append *file, et_error *error);

#endif
