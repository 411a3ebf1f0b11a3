/* Shared code of the kernel tests. A case is a function that runs one kernel of a table into an
 * array of float. check_tables() runs it with the reference and with every table for this CPU,
 * compares, and requires equal bits with 1, 2 and 3 threads from each table. */
#ifndef ETUDE_TESTS_KERNEL_HARNESS_H
#define ETUDE_TESTS_KERNEL_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/kernel/kernels.h"
#include "engine/kernel/reference/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

extern const char *const table_names[5]; /* all but the reference */

/* The sizes that every kernel is tried on. */
extern const int64_t some_rows[4], some_widths[6];

/* malloc that fails the test; exact size, so that ASan sees one element too many. */
void *make(size_t count, size_t size);

/* count numbers of mean 0 and standard deviation scale, uniform, as float32 or act type; use names
 * them. */
float *make_floats(size_t count, float scale, uint32_t use);
void *make_act(size_t count, float scale, uint32_t use, et_dtype dtype);

/* A copy of an array of act type. */
void *copy_act(const void *from, size_t count, et_dtype dtype);

/* to[i] = from[i] as float. */
void widen(float *to, const void *from, size_t count, et_dtype dtype);

/* Runs one kernel, setting says how; result [size] gets all that it computes. */
typedef void run_fn(const et_kernels *table, const void *setting, float *result);

/* |fast - reference| <= absolute + relative * |reference|, and equal bits for 1, 2, 3 threads.
 * name is for the message. Infinities and NaNs must agree. */
void check_tables(const char *name, run_fn *run, const void *setting, size_t size, double absolute,
                  double relative);

/* Relative rounding of an element type: the allowed error of a stored result. */
double unit_of(et_dtype dtype);

/* The number of elements where two arrays differ in being 0. */
size_t zero_mismatches(const float *a, const float *b, size_t count);

#endif
