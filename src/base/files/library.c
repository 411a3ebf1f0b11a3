#include "base/files/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/assert.h"

enum { CALLS_MAX = 64 };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int find(void **found, const et_library *library, et_error *error)
{
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return et_fail(error, ET_ENOTFOUND, "cannot load %s; install its package: %s",
                       library->title, dlerror());
    for (size_t i = 0; i < library->count; i++) {
        found[i] = dlsym(handle, library->names[i]);
        if (!found[i])
            return et_fail(error, ET_ENOTFOUND, "%s has another version: %s has no %s",
                           library->title, library->file, library->names[i]);
    }
    return ET_OK;
}

int et_library_load(const et_library *library, void *calls, et_error *error)
{
    void *found[CALLS_MAX], *first;
    et_assert(library->count > 0 && library->count <= CALLS_MAX);
    pthread_mutex_lock(&one_at_a_time);
    memcpy(&first, calls, sizeof first);
    int status = first ? ET_OK : find(found, library, error);
    if (!first && !status)
        memcpy(calls, found, library->count * sizeof *found);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}
