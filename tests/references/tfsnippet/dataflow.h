/* Arrays of int32 numbers as flows, and what their batches hold. Include after cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_TFSNIPPET_DATAFLOW_H
#define ETUDE_TESTS_REFERENCES_TFSNIPPET_DATAFLOW_H

#include <string.h>

#include <etude/flows.h>

#include "calls.h"

enum { NUMBERS = 64 };

static int32_t numbers[NUMBERS];

/* The numbers begin, begin + 1, ... to NUMBERS - 1. */
static inline int32_t *arange(int begin)
{
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i;
    return numbers + begin;
}

/* Fields "a", "b", ...: array i is begins[i], begins[i] + 1, ... of count rows. */
static inline et_samples *open_ranges(const int *begins, int fields, int64_t count)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    et_array arrays[4];
    et_samples *samples;
    for (int i = 0; i < fields; i++)
        arrays[i] = (et_array){ names[i], ET_I32, arange(begins[i]), et_shape_scalar() };
    assert_ok(et_arrays_open(&samples, arrays, fields, count, error));
    return samples;
}

static inline et_source *open_flow(et_samples *samples, et_batches_options options)
{
    et_source *source;
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

/* One array from begin on, in batches of size. */
static inline et_source *range_flow(int begin, int64_t count, int64_t size)
{
    return open_flow(open_ranges(&begin, 1, count), (et_batches_options){ .capacity = { size } });
}

static inline et_batch *batch_of(const et_source *source)
{
    et_batch *batch;
    assert_ok(et_batch_new(&batch, &source->layout, error));
    return batch;
}

/* The next batch has so many rows. */
static inline void take(et_source *source, et_batch *batch, int64_t rows)
{
    assert_ok(et_source_next(source, batch, error));
    assert_int_equal(batch->filled[0], rows);
}

/* Field number f of the batch begins with these values. */
static inline void assert_field(const et_batch *batch, int f, const int32_t *expected, int count)
{
    assert_memory_equal(batch->data[f], expected, (size_t)count * sizeof *expected);
}

/* The next batch has these rows in its field number f. */
static inline void assert_next(et_source *source, et_batch *batch, int f, const int32_t *expected,
                               int count)
{
    take(source, batch, count);
    assert_field(batch, f, expected, count);
}

/* All numbers from begin on, each once, in the rest of the pass. */
static inline void assert_shuffled(et_source *source, int begin, int step, int count, int batches)
{
    int seen[NUMBERS] = { 0 };
    et_batch *batch = batch_of(source);
    for (int b = 0; b < batches; b++) {
        assert_ok(et_source_next(source, batch, error));
        for (int64_t i = 0; i < batch->filled[0]; i++)
            seen[((const int32_t *)batch->data[0])[i]]++;
    }
    take(source, batch, 0);
    for (int i = 0; i < NUMBERS; i++)
        assert_int_equal(seen[i],
                         i >= begin && i < begin + step * count && (i - begin) % step == 0);
    et_batch_free(batch);
}

#endif
