/* Loaded into a program by LD_PRELOAD, together with engine/kernel/malloc_count.c. At its end, the
 * process writes its number of calls of malloc into the file MALLOC_REPORT.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/kernel/malloc_count.h"

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("MALLOC_REPORT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%zu\n", malloc_count_so_far().calls);
    fclose(file);
}
