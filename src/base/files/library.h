/* A shared library that is loaded when it is first called, and then stays. Each start of a program
 * pays for all that the program is linked with, and for what that stands on in turn: what few runs
 * need is named in a table beside its calls instead (command/web/server.c,
 * roles/wire/zmq_private.h): a macro CALLS(X) of rows X(MHD_, run), of which ET_LIBRARY_CALL makes
 * members of a struct, zeros until it is loaded, and ET_LIBRARY_NAME their names. MHD_run is
 * mhd.run then. */
#ifndef ETUDE_BASE_FILES_LIBRARY_H
#define ETUDE_BASE_FILES_LIBRARY_H

#include <stddef.h>

#include <etude/error.h>

#define ET_LIBRARY_CALL(prefix, name) __typeof__(prefix##name) *(name);
#define ET_LIBRARY_NAME(prefix, name) #prefix #name,

typedef struct et_library {
    const char *file;         /* as the dynamic loader finds it: "libzmq.so.5" */
    const char *title;        /* for people */
    const char *const *names; /* [count] of its functions */
    size_t count;
} et_library;

/* Fills calls, a struct of count pointers to functions in the order of names. By any thread, any
 * number of times: what is filled stays as it is. ET_ENOTFOUND: it is not there, or has not all of
 * them; calls is as it was then. */
int et_library_load(const et_library *library, void *calls, et_error *error);

#endif
