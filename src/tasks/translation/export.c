/* A model for use alone: weights, vocabulary, settings. The weights come last, so a directory that
 * has them is whole. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tasks/translation/task.h"
#include "tasks/translation/translator_private.h"
#include "train/checkpoint.h"

/* What must not be there before, and what is written, in this order. */
static const char *const names[] = { ET_EXPERIMENT_FILE, ET_TRANSLATION_VOCABULARY,
                                     ET_TRANSLATOR_WEIGHTS };
enum { SETTINGS, VOCABULARY, WEIGHTS, NAMES };

/* The file the vocabulary was read from, if it is that still. */
static int copy_vocabulary(const et_translator *t, const char *path, et_error *error)
{
    char *bytes;
    size_t length;
    et_vocabulary *there = NULL;
    int status = et_file_read(&bytes, &length, t->vocabulary_path, ET_VOCABULARY_BYTES_MAX, error);
    if (status)
        return status;
    status = et_vocabulary_parse(&there, bytes, length, t->vocabulary_path, error);
    if (!status && et_vocabulary_checksum(there) != et_vocabulary_checksum(t->vocabulary))
        status = et_fail(error, ET_EDATA,
                         "%s: another vocabulary than the one that was opened; open the run again",
                         t->vocabulary_path);
    if (!status)
        status = et_file_write(path, bytes, length, error);
    et_vocabulary_close(there);
    et_free(bytes);
    return status;
}

static int write_file(const et_translator *t, int which, const char *path, et_error *error)
{
    const char *checkpoint = t->checkpoint;
    bool averages;
    if (which == SETTINGS)
        return et_experiment_write(&t->experiment, path, error);
    if (which == VOCABULARY)
        return copy_vocabulary(t, path, error);
    return et_checkpoint_average(&checkpoint, 1, t->live_weights, path, &averages, error);
}

static int check_empty(et_arena *arena, const char *directory, const char *paths[NAMES],
                       et_error *error)
{
    for (int i = 0; i < NAMES; i++) {
        paths[i] = et_arena_printf(arena, "%s/%s", directory, names[i]);
        if (!paths[i])
            return et_alloc_failed(error, strlen(directory), "a path");
        if (et_file_exists(paths[i]))
            return et_fail(error, ET_ECONFIG,
                           "%s is there already: choose another directory, or remove it", paths[i]);
    }
    return ET_OK;
}

int et_translator_export(const et_translator *t, const char *directory, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const char *paths[NAMES];
    if (!directory || !*directory)
        return et_fail(error, ET_ECONFIG, "the directory of an export has no name");
    int status = check_empty(&arena, directory, paths, error);
    if (!status)
        status = et_directory_make(directory, error);
    for (int i = 0; i < NAMES && !status; i++)
        status = write_file(t, i, paths[i], error);
    et_arena_release(&arena);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
