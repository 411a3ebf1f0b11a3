/* A shared library that is loaded at its first call, and then stays. Each start of a program pays
 * for all libraries that it is linked with, and for theirs. So a library that few runs need is
 * loaded later, from a table next to its calls (command/web/server.c, roles/wire/zmq.c): a
 * macro CALLS(X) of rows X(MHD_, run). ET_LIBRARY_CALL makes members of a struct from the rows,
 * zero until the library is loaded, and ET_LIBRARY_NAME their names. MHD_run is then mhd.run. A
 * name that is a macro is replaced by its value in both. */
#ifndef ETUDE_BASE_FILES_LIBRARY_H
#define ETUDE_BASE_FILES_LIBRARY_H

#include <stddef.h>

#include <etude/error.h>

#define ET_LIBRARY_CALL(prefix, name) __typeof__(prefix##name) *(name);
#define ET_LIBRARY_NAME(prefix, name) ET_LIBRARY_VALUE(prefix##name)
#define ET_LIBRARY_VALUE(name)        ET_LIBRARY_TEXT(name)
#define ET_LIBRARY_TEXT(name)         #name,

/* Defines the struct `calls` of the rows, names and library. */
#define ET_LIBRARY(calls, rows, library_file, library_title)                                       \
    static struct {                                                                                \
        rows(ET_LIBRARY_CALL)                                                                      \
    }(calls);                                                                                      \
    static const char *const names[] = { rows(ET_LIBRARY_NAME) };                                  \
    static const et_library library = { library_file, library_title, names,                        \
                                        sizeof(calls) / sizeof(void *) }

typedef struct et_library {
    const char *file;         /* as the dynamic loader finds it: "libzmq.so.5" */
    const char *title;        /* for people */
    const char *const *names; /* [count] of its functions */
    size_t count;
} et_library;

/* Fills calls, a struct of count pointers to functions in the order of names. By any thread, any
 * number of times: filled pointers stay the same. ET_ENOTFOUND: the library is missing, or lacks a
 * function; calls does not change. */
int et_library_load(const et_library *library, void *calls, et_error *error);

#endif
