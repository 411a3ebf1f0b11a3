#include "bench.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <omp.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "engine/kernel/gemm/gemm.h"

void bench_check(int status, const et_error *error)
{
    if (!status)
        return;
    fprintf(stderr, "bench: %s\n", error->text);
    exit(1);
}

void *bench_zeros(size_t bytes)
{
    et_error error = ET_ERROR_INIT;
    void *memory = et_alloc_aligned(bytes + 64, 64);
    if (!memory)
        bench_check(et_alloc_failed(&error, "a matrix"), &error);
    memset(memory, 0, bytes + 64);
    return memory;
}

/* Prints the first processor's lines, up to the first empty one. Virtual machines give many
 * processors the same name: family and model, if present, distinguish them. */
void bench_print_machine(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* print figures as soon as they are known */
    char line[8192], processor[256] = "unknown processor";
    int family = -1, model = -1;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file) && *line != '\n') {
        sscanf(line, "model name : %255[^\n]", processor);
        sscanf(line, "cpu family : %d", &family);
        sscanf(line, "model : %d", &model);
    }
    if (file)
        fclose(file);
    printf("%s", processor);
    if (family >= 0 && model >= 0)
        printf(" (family %d, model %d)", family, model);
    printf(", %s, %.3g MiB of L2 a core, %d threads\n", et_gemm_isa(),
           (double)et_cpu_l2() / (1 << 20), omp_get_max_threads());
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_lap(double *since)
{
    double now = et_clock_monotonic(), seconds = now - *since;
    *since = now;
    return seconds;
}

double bench_processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double bench_work_clock(void)
{
    return omp_get_max_threads() > 1 ? et_clock_monotonic() : bench_processor_seconds();
}

size_t bench_peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024; /* Linux counts in KiB */
}

pid_t bench_fork(int *from)
{
    int ends[2];
    pid_t child = pipe(ends) ? -1 : fork();
    if (child < 0) {
        perror("bench: a process");
        exit(1);
    }
    if (child) {
        close(ends[1]);
        *from = ends[0];
        return child;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it might train on for days */
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

et_dtype bench_dtype(const char *name)
{
    if (!strcmp(name, "float32"))
        return ET_F32;
    if (!strcmp(name, "bfloat16"))
        return ET_BF16;
    fprintf(stderr, "bench: %s is neither float32 nor bfloat16\n", name);
    exit(2);
}

const char *bench_dtype_short(et_dtype dtype)
{
    return dtype == ET_BF16 ? "bf16" : "f32";
}

static void print_number(FILE *file, double value)
{
    if (isfinite(value))
        fprintf(file, "%.6g", value);
    else
        fputs("null", file);
}

void bench_figure(double value, const char *unit, double peak, const char *name, ...)
{
    const char *path = getenv("BENCH_JSON");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (path && !file) {
        perror(path);
        exit(1);
    }
    if (!file)
        return;
    char line[128];
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(line, sizeof line, name, arguments);
    va_end(arguments);
    for (char *at = line; *at; at++)
        *at = *at == ' ' || *at == '+' ? '.' : *at;
    fprintf(file, "{\"name\": \"%s\", \"value\": ", line);
    print_number(file, value);
    fprintf(file, ", \"unit\": \"%s\", \"roof\": ", unit);
    print_number(file, peak);
    fputs(", \"peer\": null}\n", file);
    if (fclose(file)) {
        perror(path);
        exit(1);
    }
}
