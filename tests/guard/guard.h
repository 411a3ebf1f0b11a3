/* Small fixed workloads whose cost is counted: one thread, generated data, always the same. main
 * (guard.c) prepares a workload, runs it once without counting unless it is cold, then runs it
 * between callgrind's marks and prints the counts:
 *
 *     guard step          counts of one workload, "step.allocations 0" and so on
 *     guard               the names of all
 *
 * tools/guard runs them under valgrind, adds instructions, and compares with `counts`. */
#ifndef ETUDE_TESTS_GUARD_GUARD_H
#define ETUDE_TESTS_GUARD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>
#include <etude/error.h>

typedef struct guard_workload {
    const char *name;
    void *(*open)(void);     /* makes what run works on; not counted */
    void (*run)(void *work); /* the workload */
    void (*close)(void *work);
    bool cold; /* measure the first run */
} guard_workload;

/* All workloads. Each group has its own file: workload_*.c. */
extern const guard_workload guard_kernels[5], guard_models[6], guard_data[4];

/* Ends the program with the error's text if status is not 0. */
void guard_check(int status, const et_error *error);

/* Memory that is never NULL; free with et_free. */
void *guard_memory(size_t bytes);

/* count numbers in [-1, 1), a function of use and place. */
void *guard_numbers(size_t count, et_dtype dtype, uint32_t use);

/* A new directory below the current one, its name in name; and its end. */
void guard_make_directory(char *name, size_t size);
void guard_remove(const char *directory);

/* What the library did between two moments. */
typedef struct guard_counts {
    size_t allocations; /* by et_alloc and its kin */
    size_t plans;
    size_t planned;    /* bytes that these plans need: values, scratch, packed weights, tables */
    size_t primitives; /* oneDNN products made ... */
    size_t products;   /* ... and run */
} guard_counts;

guard_counts guard_count_so_far(void);

#endif
