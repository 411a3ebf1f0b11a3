/* C++ exceptions that nobody can catch: a thread of a C++ library, or one of its noexcept
 * functions, has run out of memory. The process ends in any case. With this handler it prints a
 * message and has the exit code of a failed allocation instead of SIGABRT. All other ends of C++
 * are unchanged. */
#ifndef ETUDE_COMMAND_ETUDE_UNCAUGHT_H
#define ETUDE_COMMAND_ETUDE_UNCAUGHT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Installs the handler. code: exit code of the process if an exception is not caught. end: called
 * then, and by exit; must not allocate. NULL: no call. */
void et_say_uncaught(int code, void (*end)(void));

#ifdef __cplusplus
}
#endif

#endif
