/* Put in front of a program by LD_PRELOAD, together with base/malloc_fails.c: of the main thread's
 * calls of malloc the one that MALLOC_FAILS numbers fails. Where it did, the file that
 * MALLOC_REPORT names is made. */
#include <stdio.h>
#include <stdlib.h>

#include "base/malloc_fails.h"

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("MALLOC_FAILS");
    malloc_fails_begin(number ? strtol(number, NULL, 10) : 0);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = malloc_fails_end() ? getenv("MALLOC_REPORT") : NULL;
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file)
        fclose(file);
}
