/* The files of a setting: paths, patterns with * or ? (and then [...] and \ as in a shell), and
 * lists of both with commas between; spaces around parts are ignored. Files come in the given
 * order, those of a pattern in the order of their bytes, on every machine. A file that is named
 * twice is read twice. A path that exists literally is one file, even if its name has such
 * characters.
 *
 *     if (et_paths_match(&files, &given, "task.train_data.source_path", &arena, &error)) ...
 *
 * Like Model Garden's match_files, which checks paths without a pattern only when they are read;
 * Etude checks them here. */
#ifndef ETUDE_DATA_TEXT_PATHS_H
#define ETUDE_DATA_TEXT_PATHS_H

#include <etude/error.h>

#include "base/arena.h"
#include "base/fields/fields.h"

/* The files, in arena; empty if given is empty. ET_EDATA: a pattern without files, an empty path;
 * ET_ENOTFOUND and others: a missing path. setting: for messages; NULL: none. */
int et_paths_match(et_strings *out, const et_strings *given, const char *setting, et_arena *arena,
                   et_error *error);

/* The number of named files; -1: one is a pattern, so the number depends on the disk. */
int64_t et_paths_count(const et_strings *given);

#endif
