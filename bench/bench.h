/* Shared code of this folder's programs: medians, figures as lines of JSON, the machine's name.
 *
 * A program prints its figures. If the environment has a file name in BENCH_JSON, each figure is
 * also appended there as one line {"name", "value", "unit", "roof", "peer"}: name is a dotted path
 * such as step.tiny.bf16.ms; roof is the best possible value on this machine, in the same unit;
 * peer is another system's value, filled in by bench/run. For programs with one thread that stop at
 * the first error. */
#ifndef ETUDE_BENCH_BENCH_H
#define ETUDE_BENCH_BENCH_H

#include <stddef.h>
#include <sys/types.h>

#include <etude/dtype.h>
#include <etude/error.h>

/* Prints the error and exits, if status is not 0. */
void bench_check(int status, const et_error *error);

/* Memory that a vector may read beyond its end, from a cache line on, or exits; et_free. */
void *bench_zeros(size_t bytes);

/* "AMD EPYC ... (family 26, model 2), AVX-512 BF16, 1 MiB of L2 a core, 2 threads", to standard
 * output. */
void bench_print_machine(void);

/* The value in the middle; sorts values. */
double bench_median(double *values, int count);

/* Seconds since *since, which becomes now. */
double bench_lap(double *since);

/* Processor seconds since the process began, which other load hardly changes. */
double bench_processor_seconds(void);

/* The clock of work: with one thread its processor time, else the time that passes. */
double bench_work_clock(void);

/* The most memory that the process has had, in bytes. */
size_t bench_peak_memory(void);

/* As fork: 0 in the child, which ends with this process. *from: the child's standard error (close
 * it). Exits if there can be no child. */
pid_t bench_fork(int *from);

/* "float32" or "bfloat16"; else exits with status 2. */
et_dtype bench_dtype(const char *name);

/* "f32" or "bf16", as names of figures have it. */
const char *bench_dtype_short(et_dtype dtype);

/* Prints one figure. The name is a printf format; blanks and + in the name become dots. peak is NAN
 * if the figure has no peak. */
void bench_figure(double value, const char *unit, double peak, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

#endif
