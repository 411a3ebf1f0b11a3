/* Makes a fault of each kind that a sanitizer must find, to prove that the sanitizer works. fault
 * race | leak | bound | shift */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long shared_sum;

static void race(void)
{
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 100000; i++)
        shared_sum += i;
}

static void leak(void)
{
    char *volatile lost = malloc(100);
    lost = NULL;
    (void)lost;
}

static void bound(void)
{
    volatile int at = 8;
    char *volatile bytes = calloc(1, 8);
    printf("%d\n", bytes[at]);
    free(bytes);
}

static void shift(void)
{
    volatile int by = 40;
    printf("%d\n", 1 << by);
}

int main(int count, char **words)
{
    const char *fault = count > 1 ? words[1] : "";
    if (!strcmp(fault, "race"))
        race();
    else if (!strcmp(fault, "leak"))
        leak();
    else if (!strcmp(fault, "bound"))
        bound();
    else if (!strcmp(fault, "shift"))
        shift();
    puts("not found");
    return 0;
}
