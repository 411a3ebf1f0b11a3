/* A file that grows at its end and is continued when a run resumes: the common part of record files
 * and JSON lines. A piece that cannot be written completely is cut off again. One thread per
 * value. */
#ifndef ETUDE_FORMATS_EVENTS_APPEND_H
#define ETUDE_FORMATS_EVENTS_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#define ET_APPEND_CONTINUE (-1) /* as an offset: behind the last whole piece */

/* How many bytes of a file are whole pieces. */
typedef int et_append_whole_fn(uint64_t *out, const char *path, et_error *error);

typedef struct et_append {
    int fd;                    /* -1: closed */
    char *path;                /* owned */
    et_append_whole_fn *whole; /* as given when it was opened */
    uint64_t offset;           /* bytes of the file so far: where the next piece goes */
    bool listed;               /* its entry in the directory is durable */
    bool torn;                 /* behind offset there may be a part of a piece */
} et_append;

/* Opens or makes the file and cuts it off at offset: 0 starts anew. With ET_APPEND_CONTINUE,
 * and with a warning in the log if the file has become shorter than offset, it is cut off
 * behind what is whole. */
int et_append_open(et_append *file, const char *path, int64_t offset, et_append_whole_fn *whole,
                   et_error *error);

/* Before a write: whether someone else has removed, replaced or cut off the file since. Then, with
 * a warning in the log, *moved is true and file the one that has its name now, made if need be and
 * opened as with ET_APPEND_CONTINUE. */
int et_append_follow(et_append *file, bool *moved, et_error *error);

int et_append_write(et_append *file, const void *bytes, size_t length, et_error *error);

/* Makes durable what was written; the first time, the file's entry in its directory too. */
int et_append_flush(et_append *file, et_error *error);

/* Flushes and closes; the file is closed on failure too. */
int et_append_close(et_append *file, et_error *error);

#endif
