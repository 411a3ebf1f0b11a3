/* Loaded into a program by LD_PRELOAD, together with base/malloc_fails.c: the main thread's call of
 * malloc with number MALLOC_FAILS fails. If it did, the file MALLOC_REPORT is made. */
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
