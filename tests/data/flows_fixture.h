/* Shared code of the tests of flows: samples of numbers, and the contents of their batches. */
#ifndef ETUDE_TESTS_DATA_FLOWS_FIXTURE_H
#define ETUDE_TESTS_DATA_FLOWS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/flows.h>

#include "calls.h"

enum { MANY = 1000 };

static int32_t numbers[MANY];
static float halves[MANY];

static inline et_samples *open_named(const char *name, int64_t count)
{
    for (int32_t i = 0; i < MANY; i++)
        numbers[i] = i;
    const et_array array = { name, ET_I32, numbers, et_shape_scalar() };
    et_samples *samples = NULL;
    assert_ok(et_arrays_open(&samples, &array, 1, count, error));
    return samples;
}

/* x is i / 2, of two columns. */
static inline et_samples *open_halves(const char *name, int64_t count)
{
    for (int i = 0; i < MANY; i++)
        halves[i] = (float)i / 2;
    const et_array array = { name, ET_F32, halves, et_shape_1(2) };
    et_samples *samples = NULL;
    assert_ok(et_arrays_open(&samples, &array, 1, count, error));
    return samples;
}

static inline et_source *batches_of(et_samples *samples, et_batches_options options)
{
    et_source *source = NULL;
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

static inline et_batch *batch_of(et_source *source)
{
    et_batch *batch = NULL;
    assert_ok(et_batch_new(&batch, &source->layout, error));
    return batch;
}

static inline const void *field_of(const et_batch *batch, const char *name)
{
    int i = et_layout_find(batch->layout, name);
    assert_true(i >= 0);
    return batch->data[i];
}

static inline void next(et_source *source, et_batch *batch)
{
    assert_ok(et_source_next(source, batch, error));
}

/* The first values of a field in all batches of one pass. */
static inline int64_t read_integers(et_source *source, const char *name, int32_t *out)
{
    et_batch *batch = batch_of(source);
    int64_t count = 0;
    for (next(source, batch); batch->filled[0]; next(source, batch)) {
        memcpy(out + count, field_of(batch, name), (size_t)batch->filled[0] * sizeof *out);
        count += batch->filled[0];
    }
    et_batch_free(batch);
    return count;
}

static inline void check_integers(et_samples *samples, const char *name, const int32_t *expected,
                                  int64_t count)
{
    int32_t seen[MANY];
    et_source *source = batches_of(samples, (et_batches_options){ .capacity = { 3 } });
    assert_int_equal(read_integers(source, name, seen), count);
    assert_memory_equal(seen, expected, (size_t)count * sizeof *seen);
    et_source_close(source);
}

/* Every batch of `batches` with its position before it, then again from each position in turn. */
static inline void check_positions(et_source *source, int batches)
{
    et_position *at = calloc((size_t)batches, sizeof *at);
    et_batch *batch = batch_of(source), *again = batch_of(source);
    char **kept = calloc((size_t)batches, sizeof *kept);
    size_t bytes = 0;
    for (int i = 0; i < source->layout.fields; i++)
        bytes = (size_t)((char *)batch->sample - (char *)batch->data[0]);
    for (int i = 0; i < batches; i++) {
        et_source_position(source, &at[i]);
        next(source, batch);
        kept[i] = malloc(bytes);
        memcpy(kept[i], batch->data[0], bytes);
    }
    for (int i = 0; i < batches; i++) {
        int k = (i * 7 + 3) % batches;
        assert_ok(et_source_seek(source, &at[k], error));
        next(source, again);
        assert_memory_equal(again->data[0], kept[k], bytes);
        if (k + 1 < batches) {
            next(source, again);
            assert_memory_equal(again->data[0], kept[k + 1], bytes);
        }
    }
    for (int i = 0; i < batches; i++)
        free(kept[i]);
    free(kept);
    free(at);
    et_batch_free(batch);
    et_batch_free(again);
}

static inline bool is_third(void *payload, const et_batch *batch, int64_t i)
{
    int32_t n = ((const int32_t *)field_of(batch, "n"))[i];
    ++*(int *)payload;
    return n % 3 == 1;
}

#endif
