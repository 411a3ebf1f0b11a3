/* C++ exceptions that cannot be caught, because a thread or a noexcept function of a C++ library
 * has run out of memory. Such an exception ends the process. With this handler, the process prints
 * a message and has the exit code of a failed allocation instead of SIGABRT. Other uncaught
 * exceptions are unchanged. */
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
