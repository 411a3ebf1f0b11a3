#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/records.h>

#include "base/scarce.h"
#include "calls.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int32_t numbers[100];

static et_samples *open_numbers(int32_t first, int64_t count)
{
    for (int32_t i = 0; i < 100; i++)
        numbers[i] = i;
    const et_array array = { "n", ET_I32, numbers + first, et_shape_scalar() };
    et_samples *samples = NULL;
    assert_ok(et_arrays_open(&samples, &array, 1, count, error));
    return samples;
}

/* The numbers in order; closes the samples. */
static int64_t read_all(et_samples *samples, int32_t *out)
{
    const et_batches_options options = { .capacity = { 7 } };
    et_source *source = NULL;
    et_batch *batch;
    int64_t count = 0;
    assert_ok(et_batches_open(&source, samples, &options, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    for (;;) {
        assert_ok(et_source_next(source, batch, error));
        if (!batch->filled[0])
            break;
        memcpy(out + count, batch->data[0], (size_t)batch->filled[0] * sizeof *out);
        count += batch->filled[0];
    }
    et_batch_free(batch);
    et_source_close(source);
    return count;
}

static int open_parts(et_samples **out, const int *sizes, int parts, int cycle, int block,
                      et_error *error)
{
    et_samples *part[8] = { NULL };
    int32_t first = 0;
    for (int i = 0; i < parts; i++) {
        part[i] = open_numbers(first, sizes[i]);
        first += sizes[i];
    }
    int status = et_interleave_open(out, part, parts, cycle, block, error);
    for (int i = 0; status && i < parts; i++)
        et_samples_close(part[i]);
    return status;
}

/* Orders of tf.data.Dataset.interleave, printed by tools/golden-records. */
static void test_interleave__tensorflow(void **state)
{
    (void)state;
    static const struct {
        int sizes[5], parts, cycle, block;
        int32_t expected[30];
        int count;
    } cases[] = {
        { { 6, 6, 6, 6, 6 },
          5,
          2,
          4,
          { 0,  1,  2,  3,  6,  7,  8,  9,  4,  5,  10, 11, 12, 13, 14,
            15, 18, 19, 20, 21, 16, 17, 22, 23, 24, 25, 26, 27, 28, 29 },
          30 },
        { { 3, 1, 4, 2, 5 }, 5, 2, 2, { 0, 1, 3, 2, 4, 5, 8, 9, 6, 7, 10, 11, 12, 13, 14 }, 15 },
        { { 3, 1, 4, 2, 5 }, 5, 3, 1, { 0, 3, 4, 1, 5, 2, 8, 6, 9, 7, 10, 11, 12, 13, 14 }, 15 },
        { { 2, 4, 1, 7 }, 4, 3, 3, { 0, 1, 2, 3, 4, 6, 7, 8, 9, 5, 10, 11, 12, 13 }, 14 },
        /* all at once, one by one; one part */
        { { 2, 3, 1 }, 3, 0, 0, { 0, 2, 5, 1, 3, 4 }, 6 },
        { { 4 }, 1, 0, 0, { 0, 1, 2, 3 }, 4 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_samples *samples = NULL;
        int32_t order[30];
        assert_ok(open_parts(&samples, cases[i].sizes, cases[i].parts, cases[i].cycle,
                             cases[i].block, error));
        assert_int_equal(read_all(samples, order), cases[i].count);
        assert_memory_equal(order, cases[i].expected, (size_t)cases[i].count * sizeof *order);
    }
}

static void test_interleave__describe(void **state)
{
    (void)state;
    et_samples *samples = NULL;
    char text[40];
    assert_ok(open_parts(&samples, (const int[]){ 2, 3 }, 2, 0, 1, error));
    samples->class->describe(samples, 3, 0, text, sizeof text); /* 0 2 1 3 4: row 1 of the second */
    assert_string_equal(text, "row 1");
    et_samples_close(samples);
}

static void test_interleave__errors(void **state)
{
    (void)state;
    const float real[] = { 1, 2 };
    const et_array other = { "n", ET_F32, real, et_shape_scalar() };
    et_samples *samples = NULL, *parts[2] = { open_numbers(0, 3), NULL };
    assert_ok(et_arrays_open(&parts[1], &other, 1, 2, error));
    assert_fails(et_interleave_open(&samples, parts, 2, 0, 0, error), ET_ECONFIG,
                 "part 1 to interleave has other fields than part 0");
    assert_fails(et_interleave_open(&samples, parts, 0, 0, 0, error), ET_ECONFIG,
                 "interleaving 0 parts");
    assert_fails(et_interleave_open(&samples, parts, 1, -1, 0, error), ET_ECONFIG,
                 "-1 at a time, in blocks of");
    assert_fails(et_interleave_open(&samples, parts, 1, 1, -2, error), ET_ECONFIG,
                 "at a time, in blocks of -2");
    et_samples *same[3] = { parts[0], open_numbers(0, 2), parts[0] };
    assert_fails(et_interleave_open(&samples, same, 3, 0, 0, error), ET_EUSAGE,
                 "parts 0 and 2 to interleave are the same object");
    et_samples_close(same[1]);
    et_samples_close(parts[0]);
    et_samples_close(parts[1]);
}

static int open_scarcely(et_samples *const *parts)
{
    et_samples *samples = NULL;
    int status = et_interleave_open(&samples, parts, 2, 0, 0, NULL);
    if (status) {
        et_samples_close(parts[0]);
        et_samples_close(parts[1]);
        return status;
    }
    et_samples_close(samples);
    return ET_OK;
}

static void test_interleave__out_of_memory(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };
        et_samples *parts[2] = { NULL, NULL };
        /* Sources that are opened before scarce_begin are closed after scarce_end; counted, they
         * would give a negative number. */
        scarce_begin(1000);
        assert_ok(et_arrays_open(&parts[0], &array, 1, 3, error));
        assert_ok(et_arrays_open(&parts[1], &array, 1, 2, error));
        scarce_left = calls;
        status = open_scarcely(parts);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleave__tensorflow),
        cmocka_unit_test(test_interleave__describe),
        cmocka_unit_test(test_interleave__errors),
        cmocka_unit_test(test_interleave__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
