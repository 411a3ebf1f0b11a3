/* Exceptions that nobody can catch: a C++ library's own thread, or a function of it that promised
 * to throw nothing, has run out of memory. The process ends either way; with this it says so and
 * has the exit code of a failed allocation instead of SIGABRT. All other ends of C++ stay as they
 * are. */
#ifndef ETUDE_COMMAND_ETUDE_UNCAUGHT_H
#define ETUDE_COMMAND_ETUDE_UNCAUGHT_H

#ifdef __cplusplus
extern "C" {
#endif

/* code: of the process, if it ends so. end: called then, and by exit; takes no memory. NULL:
 * nothing is. */
void et_say_uncaught(int code, void (*end)(void));

#ifdef __cplusplus
}
#endif

#endif
