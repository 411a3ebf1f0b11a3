/* A temporary directory of a command, below TMPDIR or else /tmp; closing deletes it with everything
 * in it.
 *
 *     et_scratch_open(&directory, "etude-dry-run", &error);      /tmp/etude-dry-run.8fK2aQ
 *     et_scratch_close(directory);
 */
#ifndef ETUDE_BASE_FILES_SCRATCH_H
#define ETUDE_BASE_FILES_SCRATCH_H

#include <etude/error.h>

int et_scratch_open(char **directory, const char *name, et_error *error);
void et_scratch_close(char *directory); /* frees it too; NULL allowed */

#endif
