/* Measures the time from exec to the start of the first training step.
 *
 *     bench_start ETUDE
 *
 * ETUDE is the command. The program writes a generated corpus into a new folder below the current
 * one and trains on it once, which makes the vocabulary and the encoded corpus. Then it starts
 * `etude train` several times, and ends each when it prints its line about steps, just before the
 * first step. The time begins before fork. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"
#include "words.h"

#define PAIRS 29000 /* as Multi30k */
#define RUNS  15

static void fail(const char *what)
{
    fprintf(stderr, "bench_start: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- a start ---- */

static pid_t start(const char *etude, int *from)
{
    pid_t child = bench_fork(from);
    if (child)
        return child;
    execl(etude, etude, "train", "--experiment", "translation/tiny", "--model-dir", "run", "--set",
          "task.train_data.source_path=train.source", "--set",
          "task.train_data.target_path=train.target", "--set", "trainer.train_steps=1000000",
          (char *)NULL);
    _exit(127);
}

/* Reads lines up to the one about steps; false: the child has ended before it. */
static bool wait_for_steps(int from)
{
    FILE *lines = fdopen(from, "r");
    char line[1024], last[1024] = "";
    bool found = false;
    if (!lines)
        fail("fdopen");
    while (!found && fgets(line, sizeof line, lines)) {
        found = !strncmp(line, "training     ", 13);
        memcpy(last, line, sizeof last);
    }
    fclose(lines);
    if (!found)
        fprintf(stderr, "bench_start: no step was reached; the last line: %s\n", last);
    return found;
}

/* Seconds until the first step; of the processor in *cpu, which other load hardly changes. */
static double time_start(const char *etude, double *cpu)
{
    struct rusage usage;
    int from;
    double begin = et_clock_monotonic();
    pid_t child = start(etude, &from);
    bool reached = wait_for_steps(from);
    double seconds = et_clock_monotonic() - begin;
    kill(child, SIGKILL);
    wait4(child, NULL, 0, &usage);
    *cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (!reached)
        exit(1);
    return seconds;
}

int main(int argc, char **argv)
{
    char folder[] = "bench_start.XXXXXX", command[64];
    char *etude = argc == 2 ? realpath(argv[1], NULL) : NULL;
    if (!etude) {
        fprintf(stderr, "usage: bench_start ETUDE\n");
        return 2;
    }
    if (!mkdtemp(folder) || chdir(folder))
        fail(folder);
    bench_print_machine();
    bench_write_text("train.source", "aeiou", 1, PAIRS);
    bench_write_text("train.target", "aouyi", 2, PAIRS);
    double seconds[RUNS], cpu[RUNS], first = time_start(etude, cpu);
    for (int i = 0; i < RUNS; i++)
        seconds[i] = time_start(etude, &cpu[i]);
    double median = bench_median(seconds, RUNS);
    printf("tiny: %.1f ms from exec to the first step (%.1f to %.1f), %.1f ms of processor time; "
           "with vocabulary and corpus to be made %.1f s\n",
           1e3 * median, 1e3 * seconds[0], 1e3 * seconds[RUNS - 1], 1e3 * bench_median(cpu, RUNS),
           first);
    bench_figure(1e3 * median, "ms", NAN, "start.tiny.ms");
    bench_figure(1e3 * bench_median(cpu, RUNS), "ms", NAN, "start.tiny.processor_ms");
    snprintf(command, sizeof command, "rm -rf ../%s", folder);
    free(etude);
    return system(command) == 0 ? 0 : 1;
}
