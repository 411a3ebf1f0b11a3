/* Failed assertions: runs a function in a child and checks the message. Include after cmocka.h. */
#ifndef ETUDE_TESTS_BASE_ABORTS_H
#define ETUDE_TESTS_BASE_ABORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls fn(payload) in a child, whose standard error goes to text, ended by 0. Whether it did not
 * end well. */
static inline bool aborts(void (*fn)(void *payload), void *payload, char *text, size_t size)
{
    int ends[2], status;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        fn(payload);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* Fails unless fn(payload) ends at an assertion of that condition. Without assertions it is not
 * called. */
static inline void assert_asserts(void (*fn)(void *payload), void *payload, const char *condition)
{
#ifdef NDEBUG
    (void)fn, (void)payload, (void)condition;
#else
    char text[4096];
    if (!aborts(fn, payload, text, sizeof text) || !strstr(text, condition))
        fail_msg("no assertion of %s: %s", condition, text);
#endif
}

#endif
