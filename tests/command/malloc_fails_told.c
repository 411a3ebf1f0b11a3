/* Loaded into a program by LD_PRELOAD, together with base/malloc_fails.c: the file MALLOC_TOLD
 * holds an atomic_long with which tests make calls of all threads fail. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/malloc_fails.h"

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("MALLOC_TOLD");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *left = fd < 0
                     ? MAP_FAILED
                     : mmap(NULL, sizeof(atomic_long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (left != MAP_FAILED)
        malloc_fails_share(left);
}
