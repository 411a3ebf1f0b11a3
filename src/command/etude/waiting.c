/* libgomp reads GOMP_SPINCOUNT once, in its constructor, before anything of the program runs; it
 * asks by getenv. So the program has a getenv of its own, which the loader puts in front of the C
 * library's, and which knows this one variable better. A libgomp that looks at the environment
 * in another way (from GCC 13 on) does not ask: then main begins the program anew with the
 * variable set. All of the loading once more takes 34 ms, where a start takes 10.
 *
 * Why: threads of OpenMP that wait for work spin before they sleep. Beside other work each
 * spinning thread keeps a core from one that has something to do: 500 small steps with two threads
 * took 3 s with 2,000 turns and 56 s with the default of 300,000, on two cores that others used as
 * well. 2,000 turns are long enough to catch a loop that follows at once. */
#include "command/etude/waiting.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a user sets, by this variable or by OMP_WAIT_POLICY, is left alone. */
#define SPIN_VARIABLE "GOMP_SPINCOUNT"
#define SPIN_COUNT    "2000"

static bool answered; /* written before main alone */

/* The value of a variable, NULL if it is not set: getenv without calling it. */
static char *find(const char *name)
{
    size_t length = strlen(name);
    for (char **at = environ; at && *at; at++)
        if (!strncmp(*at, name, length) && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

/* Called before main, from libgomp's constructor: needs no library that is not initialised yet. */
static bool user_decides(void)
{
    return find(SPIN_VARIABLE) || find("OMP_WAIT_POLICY");
}

/* For everything in the process. Any other variable, and one that is set, is answered as always.
 * The text is not const, since getenv's is not; nobody writes to it. */
__attribute__((visibility("default"))) char *getenv(const char *name)
{
    static char count[] = SPIN_COUNT;
    char *value = find(name);
    if (value || strcmp(name, SPIN_VARIABLE) != 0 || user_decides())
        return value;
    answered = true;
    return count;
}

/* Only if nobody asked: then libgomp read the environment in its own way. The variable is set in
 * the new process, so it does not begin a third. */
void et_shorten_waiting(char **argv)
{
    /* The program as it runs, not as it was called: argv[0] may be a name in PATH. */
    char path[4096];
    if (answered || user_decides())
        return;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || setenv(SPIN_VARIABLE, SPIN_COUNT, 1))
        return;
    path[length] = 0;
    execv(path, argv); /* a failure leaves the default */
}
