/* Moves results of earlier work aside before new work is written. Nothing is deleted: the files go
 * to a folder "earlier-N" in the same directory, and a warning in the log says where. Missing files
 * are skipped. */
#ifndef ETUDE_BASE_FILES_ASIDE_H
#define ETUDE_BASE_FILES_ASIDE_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#define ET_ASIDE_PREFIX "earlier-"

/* Links files of a directory, given by name, into a new folder in this directory. The caller
 * removes the old names when the files that replace them are durable. Called again after a kill,
 * the function uses the same folder. On a file system without hard links the files are moved. */
int et_aside_link(const char *directory, const char *const *names, size_t count, et_error *error);

/* Moves entries of a directory, files or folders, by name. */
int et_aside_move(const char *directory, const char *const *names, size_t count, et_error *error);

/* The same of one path. */
int et_aside_move_path(const char *path, et_error *error);

/* Cuts a regular file off at length bytes, once the whole file has a second name. A shorter file is
 * not changed. A missing or non-regular file is ignored. */
int et_aside_truncate(const char *path, uint64_t length, et_error *error);

#endif
