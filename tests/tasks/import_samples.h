/* Imports and exports of the folder of marian_folder.h: what two tests share. Include after
 * cmocka.h. */
#ifndef ETUDE_TESTS_TASKS_IMPORT_SAMPLES_H
#define ETUDE_TESTS_TASKS_IMPORT_SAMPLES_H

#include <math.h>

#include "formats/files.h"

#include "tasks/marian_folder.h"
#include "tasks/translation/import/import.h"

enum { LONGEST = 9, SENTENCES = 4 };

static const char *const sources[SENTENCES] = { "d h", "k b p g v", "j", "f f s c l e r i" };
static const char *const targets[SENTENCES] = { "c n", "u k", "b m h o t", "q a d d" };

/* The first `find` in a file becomes `put`. */
static inline void replace_in(const char *path, const char *find, const char *put)
{
    size_t length;
    char *text = get_file(path, &length), *made;
    char *at = strstr(text, find);
    assert_non_null(at);
    assert_true(asprintf(&made, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find)) > 0);
    put_file(path, made, strlen(made));
    free(made);
    free(text);
}

static inline int import(void **state, et_error *error)
{
    et_import *from;
    char path[800];
    snprintf(path, sizeof path, "%s/hf/", (const char *)*state); /* a slash, as a shell gives it */
    remove(in(state, "model.safetensors"));
    int status = et_import_open(&from, path, error);
    if (!status)
        status = et_import_write(from, in(state, "model.safetensors"), error);
    et_import_close(from);
    return status;
}

#endif
