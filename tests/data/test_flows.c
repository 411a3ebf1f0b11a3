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

#include "base/alloc.h"
#include "base/scarce.h"

enum { MANY = 1000 };

static int32_t numbers[MANY];
static float halves[MANY];

#define assert_fails(call, expected, part)                                                         \
    do {                                                                                           \
        et_error failure = ET_ERROR_INIT, *error = &failure;                                       \
        assert_int_equal(call, expected);                                                          \
        if (!strstr(failure.text, part))                                                           \
            fail_msg("\"%s\" is not in \"%s\"", part, failure.text);                               \
    } while (0)

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        et_error failure = ET_ERROR_INIT, *error = &failure;                                       \
        if (call)                                                                                  \
            fail_msg("%s", failure.text);                                                          \
    } while (0)

static et_samples *open_named(const char *name, int64_t count)
{
    for (int32_t i = 0; i < MANY; i++)
        numbers[i] = i;
    const et_array array = { name, ET_I32, numbers, et_shape_scalar() };
    et_samples *samples = NULL;
    assert_ok(et_arrays_open(&samples, &array, 1, count, error));
    return samples;
}

/* x is i / 2, of two columns. */
static et_samples *open_halves(const char *name, int64_t count)
{
    for (int i = 0; i < MANY; i++)
        halves[i] = (float)i / 2;
    const et_array array = { name, ET_F32, halves, et_shape_1(2) };
    et_samples *samples = NULL;
    assert_ok(et_arrays_open(&samples, &array, 1, count, error));
    return samples;
}

static et_source *batches_of(et_samples *samples, et_batches_options options)
{
    et_source *source = NULL;
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

static et_batch *batch_of(et_source *source)
{
    et_batch *batch = NULL;
    assert_ok(et_batch_new(&batch, &source->layout, error));
    return batch;
}

static const void *field_of(const et_batch *batch, const char *name)
{
    int i = et_layout_find(batch->layout, name);
    assert_true(i >= 0);
    return batch->data[i];
}

static void next(et_source *source, et_batch *batch)
{
    assert_ok(et_source_next(source, batch, error));
}

/* The first values of a field in all batches of one pass. */
static int64_t read_integers(et_source *source, const char *name, int32_t *out)
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

static void check_integers(et_samples *samples, const char *name, const int32_t *expected,
                           int64_t count)
{
    int32_t seen[MANY];
    et_source *source = batches_of(samples, (et_batches_options){ .capacity = { 3 } });
    assert_int_equal(read_integers(source, name, seen), count);
    assert_memory_equal(seen, expected, (size_t)count * sizeof *seen);
    et_source_close(source);
}

/* Every batch of `batches` with its position before it, then again from each position in turn. */
static void check_positions(et_source *source, int batches)
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

/* ---- samples ---- */

static void test_sequence__values(void **state)
{
    (void)state;
    static const struct {
        int64_t start, stop, step, count;
        int32_t values[8];
    } cases[] = {
        { 0, 5, 1, 5, { 0, 1, 2, 3, 4 } },
        { 1, 10, 3, 3, { 1, 4, 7 } },
        { 5, 0, -2, 3, { 5, 3, 1 } },
        { 0, 5, 2, 3, { 0, 2, 4 } },
        { -3, 1, 2, 2, { -3, -1 } },
        { INT32_MAX - 1, (int64_t)INT32_MAX + 1, 1, 2, { INT32_MAX - 1, INT32_MAX } },
        { INT32_MIN + 1, (int64_t)INT32_MIN - 1, -1, 2, { INT32_MIN + 1, INT32_MIN } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_samples *samples = NULL;
        assert_ok(
            et_sequence_open(&samples, "i", cases[i].start, cases[i].stop, cases[i].step, error));
        assert_int_equal(samples->count, cases[i].count);
        check_integers(samples, "i", cases[i].values, cases[i].count);
    }
}

static void test_sequence__mistakes(void **state)
{
    (void)state;
    et_samples *out;
    assert_fails(et_sequence_open(&out, "i", 0, 5, 0, error), ET_ECONFIG, "there are 0");
    assert_fails(et_sequence_open(&out, "i", 5, 5, 1, error), ET_ECONFIG, "there are 0");
    assert_fails(et_sequence_open(&out, "i", 0, 5, -1, error), ET_ECONFIG, "in steps of -1");
    assert_fails(et_sequence_open(&out, "i", 0, (int64_t)1 << 40, 1, error), ET_ECONFIG, "int32");
    assert_fails(et_sequence_open(&out, NULL, 0, 5, 1, error), ET_ECONFIG, "no name");
    assert_fails(et_sequence_open(&out, "mask", 0, 5, 1, error), ET_ECONFIG, "another one");
}

/* Rows overlap in memory, and nothing is copied but what a batch takes. */
static void test_windows__slide(void **state)
{
    (void)state;
    et_samples *samples = NULL;
    const et_array array = { "window", ET_F32, halves, et_shape_1(2) };
    et_samples_close(open_halves("x", 6));
    assert_ok(et_windows_open(&samples, &array, 6, 3, error));
    assert_int_equal(samples->count, 4);
    et_source *source = batches_of(samples, (et_batches_options){ .capacity = { 3 } });
    et_batch *batch = batch_of(source);
    et_shape shape = et_layout_shape(&source->layout, 0), expected = { 3, { 3, 3, 2 } };
    assert_true(et_shape_equal(shape, expected));
    next(source, batch);
    for (int i = 0; i < 3; i++)
        assert_memory_equal((const float *)batch->data[0] + 6 * i, halves + 2 * i,
                            6 * sizeof *halves);
    next(source, batch);
    assert_int_equal(batch->filled[0], 1);
    assert_memory_equal(batch->data[0], halves + 6, 6 * sizeof *halves);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_windows__mistakes(void **state)
{
    (void)state;
    et_samples *out;
    et_array array = { "w", ET_F32, halves, et_shape_1(2) };
    assert_fails(et_windows_open(&out, &array, 6, 7, error), ET_ECONFIG, "7 rows over 6");
    assert_fails(et_windows_open(&out, &array, 6, 0, error), ET_ECONFIG, "0 rows over 6");
    array.item = (et_shape){ 3, { 2, 2, 2 } };
    assert_fails(et_windows_open(&out, &array, 6, 2, error), ET_ECONFIG, "at most 2 dimensions");
}

/* Fields side by side, one mask; shuffled, the same sample of each. */
static void test_gather__samples(void **state)
{
    (void)state;
    et_samples *parts[] = { open_halves("x", 40), open_named("n", 40), NULL }, *samples = NULL;
    assert_ok(et_sequence_open(&parts[2], "i", 100, 140, 1, error));
    assert_ok(et_gather_open(&samples, parts, 3, error));
    assert_int_equal(samples->layout.fields, 4);
    et_source *source =
        batches_of(samples, (et_batches_options){ .shuffle = true, .capacity = { 16 } });
    et_batch *batch = batch_of(source);
    int64_t seen = 0;
    for (next(source, batch); batch->filled[0]; next(source, batch))
        for (int64_t i = 0; i < batch->filled[0]; i++, seen++) {
            int32_t n = ((const int32_t *)field_of(batch, "n"))[i];
            assert_int_equal(((const int32_t *)field_of(batch, "i"))[i], 100 + n);
            assert_true(((const float *)field_of(batch, "x"))[2 * i] == (float)n);
            assert_true(((const float *)field_of(batch, "mask"))[i] == 1);
        }
    assert_int_equal(seen, 40);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_gather__mistakes(void **state)
{
    (void)state;
    et_samples *out, *a = open_named("a", 10), *b = open_named("b", 9), *c = open_named("a", 10);
    et_samples *unequal[] = { a, b }, *same[] = { a, c };
    assert_fails(et_gather_open(&out, unequal, 2, error), ET_ECONFIG,
                 "a has 10 samples and b has 9");
    assert_fails(et_gather_open(&out, same, 2, error), ET_ECONFIG, "part 1 has a field a");
    assert_fails(et_gather_open(&out, same, 0, error), ET_ECONFIG, "0 parts");
    et_samples_close(a);
    et_samples_close(b);
    et_samples_close(c);
}

/* ---- samples that are made of tokens, base + i each ---- */

typedef struct words {
    et_samples samples;
    int32_t base;
} words;

/* How many sample i has. */
static int32_t words_of(int32_t base, uint32_t i)
{
    return (int32_t)((i + (uint32_t)base / 1000) % 3 + 1);
}

static void words_sizes(const et_samples *self, et_pick pick, int32_t *const *sizes)
{
    for (int64_t i = 0; i < pick.count; i++)
        sizes[1][i] = words_of(((const words *)self)->base, pick.which[i]);
}

static int words_fill(et_samples *self, et_pick pick, et_batch *batch, et_error *error)
{
    (void)error;
    int32_t *ids = batch->data[0], *offsets = batch->data[1];
    for (int64_t i = 0; i < pick.count; i++) {
        offsets[batch->filled[0]++] = (int32_t)batch->filled[1];
        int32_t base = ((words *)self)->base;
        for (int32_t k = 0; k < words_of(base, pick.which[i]); k++)
            ids[batch->filled[1]++] = base + (int32_t)pick.which[i];
        assert_true(batch->filled[1] <= batch->layout->capacity[1]);
    }
    return ET_OK;
}

static void words_describe(const et_samples *self, uint32_t which, int kind, char *text,
                           size_t size)
{
    snprintf(text, size, "%d:%u:%d", ((const words *)self)->base, which, kind);
}

static void words_close(et_samples *self)
{
    free(self);
}

static const et_samples_class words_class = {
    "words", words_sizes, words_fill, words_describe, words_close,
};

#define WORD_FIELDS(ids, offsets)                                                                  \
    {                                                                                              \
        { .name = ids, .dtype = ET_I32, .kind = 1, .empty = ET_EMPTY_NONE },                       \
        {                                                                                          \
            .name = offsets, .dtype = ET_I32, .empty = ET_EMPTY_OFFSETS, .offsets_of = 1           \
        }                                                                                          \
    }
static const et_layout_field word_fields[][2] = {
    WORD_FIELDS("ids", "offsets"),
    WORD_FIELDS("other", "starts"),
    WORD_FIELDS("third", "third_starts"),
    WORD_FIELDS("fourth", "fourth_starts"),
};

static et_samples *open_words(int which, int64_t count)
{
    words *self = calloc(1, sizeof *self);
    self->base = 1000 * which;
    self->samples = (et_samples){
        .class = &words_class,
        .layout = { .kinds = 2,
                    .fields = 2,
                    .kind = { "sample", which ? "other" : "token" },
                    .field = word_fields[which] },
        .count = count,
        .total = { count, 2 * count },
        .largest = { 1, 3 },
        .fingerprint = (uint64_t)which,
    };
    return &self->samples;
}

/* Kinds of each part stay apart: tokens of one do not move those of another. */
static void test_gather__kinds(void **state)
{
    (void)state;
    et_samples *parts[] = { open_words(0, 30), open_named("n", 30), open_words(1, 30) };
    et_samples *samples = NULL;
    assert_ok(et_gather_open(&samples, parts, 3, error));
    assert_int_equal(samples->layout.kinds, 3);
    assert_string_equal(samples->layout.kind[2], "other");
    et_source *source =
        batches_of(samples, (et_batches_options){ .shuffle = true, .capacity = { 8, 16, 20 } });
    et_batch *batch = batch_of(source);
    int64_t seen = 0;
    for (next(source, batch); batch->filled[0]; next(source, batch)) {
        const int32_t *at = field_of(batch, "offsets"), *start = field_of(batch, "starts");
        assert_int_equal(at[batch->filled[0]], batch->filled[1]);
        assert_int_equal(start[batch->filled[0]], batch->filled[2]);
        for (int64_t i = batch->filled[2]; i < 20; i++)
            assert_int_equal(((const int32_t *)field_of(batch, "other"))[i], -1);
        for (int64_t i = 0; i < batch->filled[0]; i++, seen++) {
            int32_t n = ((const int32_t *)field_of(batch, "n"))[i];
            assert_int_equal(at[i + 1] - at[i], words_of(0, (uint32_t)n));
            assert_int_equal(start[i + 1] - start[i], words_of(1000, (uint32_t)n));
            assert_int_equal(((const int32_t *)field_of(batch, "ids"))[at[i]], n);
            assert_int_equal(((const int32_t *)field_of(batch, "other"))[start[i + 1] - 1],
                             1000 + n);
        }
    }
    assert_int_equal(seen, 30);
    char text[64];
    samples->class->describe(samples, 4, 2, text, sizeof text);
    assert_string_equal(text, "1000:4:1");
    samples->class->describe(samples, 4, 1, text, sizeof text);
    assert_string_equal(text, "0:4:1");
    et_batch_free(batch);
    et_source_close(source);
}

static void test_gather__too_many_kinds(void **state)
{
    (void)state;
    et_samples *out, *parts[4];
    for (int i = 0; i < 4; i++)
        parts[i] = open_words(i, 5);
    assert_fails(et_gather_open(&out, parts, 4, error), ET_ECONFIG, "more than 4 kinds");
    for (int i = 0; i < 4; i++)
        et_samples_close(parts[i]);
}

static bool is_long(void *payload, const et_batch *batch, int64_t i)
{
    const int32_t *at = field_of(batch, "offsets");
    (void)payload;
    return at[i + 1] - at[i] == 3;
}

/* Tokens and their offsets pass a selection as they are. */
static void test_select__kinds(void **state)
{
    (void)state;
    const char *chosen[] = { "offsets", "ids" };
    et_source *plain = batches_of(open_words(0, 30), (et_batches_options){ .capacity = { 8, 16 } });
    et_source *source =
        batches_of(open_words(0, 30), (et_batches_options){ .capacity = { 8, 16 } });
    assert_ok(et_select_open(&source, source, chosen, 2, error));
    et_batch *left = batch_of(plain), *right = batch_of(source);
    do {
        next(plain, left);
        next(source, right);
        assert_memory_equal(left->filled, right->filled, sizeof left->filled);
        assert_memory_equal(left->data[0], right->data[1], 16 * sizeof(int32_t));
        assert_memory_equal(left->data[1], right->data[0], 9 * sizeof(int32_t));
    } while (left->filled[0]);
    et_batch_free(left);
    et_batch_free(right);
    et_source_close(plain);
    et_source_close(source);
}

static void test_filter__kinds(void **state)
{
    (void)state;
    et_samples *samples = NULL;
    assert_ok(et_filter_open(&samples, open_words(0, 300), is_long, NULL, error));
    assert_int_equal(samples->count, 100);
    assert_int_equal(samples->total[1], 300);
    et_samples_close(samples);
}

static bool is_third(void *payload, const et_batch *batch, int64_t i)
{
    int32_t n = ((const int32_t *)field_of(batch, "n"))[i];
    ++*(int *)payload;
    return n % 3 == 1;
}

static bool is_none(void *payload, const et_batch *batch, int64_t i)
{
    (void)payload, (void)batch, (void)i;
    return false;
}

static void test_filter__keeps(void **state)
{
    (void)state;
    int asked = 0;
    int32_t expected[67];
    et_samples *samples = NULL, *inner = open_named("n", 200);
    for (int i = 0; i < 67; i++)
        expected[i] = 3 * i + 1;
    assert_ok(et_filter_open(&samples, inner, is_third, &asked, error));
    assert_int_equal(asked, 200);
    check_integers(samples, "n", expected, 67);
    inner = open_named("n", 200);
    assert_fails(et_filter_open(&samples, inner, is_none, NULL, error), ET_EDATA, "none of 200");
    et_samples_close(inner);
}

/* As split_numpy_arrays has it: sizes of the second part. */
static void test_split__size(void **state)
{
    (void)state;
    static const struct {
        double portion;
        int64_t given, count, size;
    } cases[] = {
        { 0.2, 0, 10, 2 },  { 0.8, 0, 10, 8 },   { 0.5, 0, 11, 5 },   { 0.49, 0, 11, 6 },
        { 0.25, 0, 10, 3 }, { 0.75, 0, 10, 7 },  { 1, 0, 10, 10 },    { 0.1, 0, 7, 1 },
        { 0.9, 0, 7, 6 },   { 0.9, 3, 10, 3 },   { 0, 12, 10, 10 },   { 0, 10, 10, 10 },
        { 1e-9, 0, 10, 1 }, { 0.3, 0, 100, 30 }, { 0.7, 0, 100, 70 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_split_options options = { .portion = cases[i].portion, .size = cases[i].given };
        int64_t size;
        assert_ok(et_split_size(&size, cases[i].count, &options, error));
        assert_int_equal(size, cases[i].size);
    }
    static const et_split_options bad[] = { { .portion = 0 },
                                            { .portion = -0.1 },
                                            { .portion = 1.1 },
                                            { .portion = NAN },
                                            { .size = -1 } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t size;
        assert_fails(et_split_size(&size, 10, &bad[i], error), ET_ECONFIG, "portion");
    }
    et_split_options newer = { .portion = 0.5, .reserved = { 1 } };
    int64_t size;
    assert_int_equal(et_split_size(&size, 10, &newer, NULL), ET_EUSAGE);
}

/* Both parts are all samples, none twice; unshuffled the second is the last ones. */
static void test_split__parts(void **state)
{
    (void)state;
    const int32_t head[] = { 0, 1, 2, 3, 4, 5, 6 }, tail[] = { 7, 8, 9 };
    et_samples_close(open_named("n", MANY));
    const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };
    et_split_options options = { .size = 3, .no_shuffle = true };
    et_samples *first, *second;
    assert_ok(et_split_open(&first, &second, &array, 1, 10, &options, error));
    check_integers(first, "n", head, 7);
    check_integers(second, "n", tail, 3);
    options = (et_split_options){ .portion = 0.3, .seed = 4 };
    assert_ok(et_split_open(&first, &second, &array, 1, 100, &options, error));
    int32_t seen[100], times[100] = { 0 };
    et_source *sources[] = { batches_of(first, (et_batches_options){ .capacity = { 8 } }),
                             batches_of(second, (et_batches_options){ .capacity = { 8 } }) };
    assert_int_equal(read_integers(sources[0], "n", seen), 70);
    assert_int_equal(read_integers(sources[1], "n", seen + 70), 30);
    bool moved = false;
    for (int i = 0; i < 100; i++) {
        times[seen[i]]++;
        moved |= seen[i] != i;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(times[i], 1);
    assert_true(moved);
    et_source_close(sources[0]);
    et_source_close(sources[1]);
}

/* A part without samples is NULL. */
static void test_split__empty_part(void **state)
{
    (void)state;
    et_samples_close(open_named("n", MANY));
    const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };
    et_split_options options = { .size = 10 };
    et_samples *first, *second;
    assert_ok(et_split_open(&first, &second, &array, 1, 10, &options, error));
    assert_null(first);
    assert_int_equal(second->count, 10);
    et_samples_close(second);
    assert_fails(et_split_open(&first, &second, &array, 1, 0, &options, error), ET_ECONFIG,
                 "0 samples");
    assert_fails(et_split_open(&first, &second, &array, 0, 10, &options, error), ET_ECONFIG,
                 "0 arrays");
}

/* ---- sources ---- */

static int square(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    (void)error;
    const int32_t *n = field_of(from, "n");
    float *out = to->data[et_layout_find(to->layout, payload)];
    for (int64_t i = 0; i < from->filled[0]; i++)
        out[i] = (float)n[i] * (float)n[i];
    return ET_OK;
}

static int refuse(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    (void)payload, (void)to;
    return from->sample[0] < 8 ? ET_OK : et_fail(error, ET_EDATA, "row 8 is bad");
}

/* A field is added, or stands where one of its name was, with its own type; the rest passes. */
static void test_convert__makes_fields(void **state)
{
    (void)state;
    const char *names[] = { "square", "n" };
    for (int k = 0; k < 2; k++) {
        et_samples *parts[] = { open_named("n", 10), open_halves("x", 10) }, *samples = NULL;
        assert_ok(et_gather_open(&samples, parts, 2, error));
        et_source *source = batches_of(samples, (et_batches_options){ .capacity = { 4 } });
        const et_layout_field made = { .name = names[k], .dtype = ET_F32 };
        assert_ok(et_convert_open(&source, source, &made, 1, square, (void *)names[k], error));
        assert_int_equal(source->layout.fields, k ? 3 : 4);
        et_batch *batch = batch_of(source);
        next(source, batch);
        next(source, batch);
        next(source, batch);
        const float expected[] = { 64, 81, 0, 0 }, x[] = { 8, 8.5f, 9, 9.5f, 0, 0, 0, 0 };
        assert_int_equal(batch->filled[0], 2);
        assert_memory_equal(field_of(batch, names[k]), expected, sizeof expected);
        assert_memory_equal(field_of(batch, "x"), x, sizeof x);
        char text[64];
        et_source_describe(source, batch, text, sizeof text);
        assert_string_equal(text, "row 8, row 9");
        next(source, batch);
        assert_int_equal(batch->filled[0], 0);
        et_batch_free(batch);
        et_source_close(source);
    }
}

/* What fails behind a prefetch reaches the reader, behind the batches before it. */
static void test_convert__error_behind_prefetch(void **state)
{
    (void)state;
    et_source *source = batches_of(open_named("n", 20), (et_batches_options){ .capacity = { 4 } });
    const et_layout_field made = { .name = "y", .dtype = ET_F32 };
    assert_ok(et_convert_open(&source, source, &made, 1, refuse, NULL, error));
    assert_ok(et_prefetch_open(&source, source, 3, error));
    et_batch *batch = batch_of(source);
    next(source, batch);
    next(source, batch);
    assert_int_equal(batch->sample[0], 4);
    for (int again = 0; again < 2; again++)
        assert_fails(et_source_next(source, batch, error), ET_EDATA, "row 8 is bad");
    et_batch_free(batch);
    et_source_close(source);
}

static void test_convert__mistakes(void **state)
{
    (void)state;
    et_source *out,
        *source = batches_of(open_named("n", 20), (et_batches_options){ .capacity = { 4 } });
    static const struct {
        et_layout_field made;
        const char *says;
    } cases[] = {
        { { .dtype = ET_F32 }, "no name" },
        { { .name = "y", .dtype = ET_DTYPE_COUNT }, "type" },
        { { .name = "y", .item = { 1, { 0 } } }, "empty" },
        { { .name = "y", .kind = 1 }, "kind" },
        { { .name = "y", .dtype = ET_F32, .empty = ET_EMPTY_NONE }, "int32" },
        { { .name = "y", .dtype = ET_I32, .empty = ET_EMPTY_OFFSETS }, "points" },
        { { .name = "y", .dtype = ET_I32, .empty = ET_EMPTY_MASK }, "mask" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(et_convert_open(&out, source, &cases[i].made, 1, square, NULL, error),
                     ET_ECONFIG, cases[i].says);
    et_source_close(source);
}

/* In the order in which they are named; the mask comes along. */
static void test_select__fields(void **state)
{
    (void)state;
    et_samples *parts[] = { open_named("a", 10), open_named("b", 10), open_named("c", 10) };
    et_samples *samples = NULL;
    const char *chosen[] = { "c", "a" }, *bad[] = { "c", "d" }, *twice[] = { "a", "a" };
    assert_ok(et_gather_open(&samples, parts, 3, error));
    et_source *out, *source = batches_of(samples, (et_batches_options){ .capacity = { 4 } });
    assert_fails(et_select_open(&out, source, bad, 2, error), ET_ECONFIG, "no field d");
    assert_fails(et_select_open(&out, source, twice, 2, error), ET_ECONFIG, "another one");
    assert_fails(et_select_open(&out, source, bad, 0, error), ET_ECONFIG, "name one");
    assert_ok(et_select_open(&source, source, chosen, 2, error));
    assert_int_equal(source->layout.fields, 3);
    assert_string_equal(source->layout.field[0].name, "c");
    assert_string_equal(source->layout.field[1].name, "a");
    assert_string_equal(source->layout.field[2].name, "mask");
    int32_t seen[10];
    assert_int_equal(read_integers(source, "a", seen), 10);
    assert_memory_equal(seen, numbers, sizeof seen);
    et_source_close(source);
}

static et_source *gathered(int64_t first, int64_t second, bool repeat)
{
    et_batches_options options = {
        .seed = 3, .shuffle = repeat, .repeat = repeat, .capacity = { 4 }
    };
    et_source *parts[] = { batches_of(open_named("a", first), options),
                           batches_of(open_halves("x", second), options) };
    et_source *source = NULL;
    assert_ok(et_gather_sources_open(&source, parts, 2, error));
    return source;
}

static void test_gather_sources__side_by_side(void **state)
{
    (void)state;
    et_source *source = gathered(10, 10, false);
    et_batch *batch = batch_of(source);
    int64_t rows = 0;
    for (next(source, batch); batch->filled[0]; next(source, batch)) {
        const int32_t *a = field_of(batch, "a");
        const float *x = field_of(batch, "x");
        for (int64_t i = 0; i < batch->filled[0]; i++, rows++)
            assert_true(x[2 * i] == (float)a[i] && a[i] == (int32_t)batch->sample[i]);
    }
    assert_int_equal(rows, 10);
    et_source_close(source);
    source = gathered(10, 10, true);
    check_positions(source, 12);
    et_batch_free(batch);
    et_source_close(source);
}

/* One that ends sooner, in the middle of a batch or between two, is told of. */
static void test_gather_sources__lengths_differ(void **state)
{
    (void)state;
    static const struct {
        int64_t first, second;
        int good;
        const char *says;
    } cases[] = {
        { 10, 11, 2, "a has a batch of 2 samples where x has one of 3" },
        { 12, 8, 2, "a has a batch of 4 samples where x has one of 0" },
        { 8, 12, 2, "a has a batch of 0 samples where x has one of 4" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_source *source = gathered(cases[i].first, cases[i].second, false);
        et_batch *batch = batch_of(source);
        for (int k = 0; k < cases[i].good; k++)
            next(source, batch);
        assert_fails(et_source_next(source, batch, error), ET_EDATA, cases[i].says);
        et_batch_free(batch);
        et_source_close(source);
    }
}

static void test_gather_sources__mistakes(void **state)
{
    (void)state;
    et_source *out, *parts[6];
    for (int i = 0; i < 6; i++) {
        char name[2] = { (char)('a' + i), 0 };
        parts[i] = batches_of(open_named(name, 10),
                              (et_batches_options){ .capacity = { i == 1 ? 5 : 4 } });
    }
    assert_fails(et_gather_sources_open(&out, parts, 2, error), ET_ECONFIG,
                 "a comes in batches of 4 and b in batches of 5");
    et_source *five[] = { parts[0], parts[2], parts[3], parts[4], parts[5] };
    assert_fails(et_gather_sources_open(&out, five, 5, error), ET_ECONFIG, "more than 16 numbers");
    assert_ok(et_gather_sources_open(&out, five, 4, error));
    et_position position;
    et_source_position(out, &position);
    assert_int_equal(position.count, 16);
    position.value[7]++; /* of part 1: its fingerprint */
    assert_int_equal(et_source_seek(out, &position, NULL), ET_EDATA);
    et_source_close(out);
    et_source_close(parts[1]);
    et_source_close(parts[5]);
}

/* ---- factory ---- */

typedef struct counted {
    int64_t epoch, at;
    int begun, ended;
    int batches; /* of a pass */
    bool fails;
} counted;

static int counted_begin(void *payload, int64_t epoch, et_error *error)
{
    counted *self = payload;
    if (self->fails)
        return et_fail(error, ET_EIO, "cannot begin");
    self->epoch = epoch;
    self->at = 0;
    self->begun++;
    return ET_OK;
}

static int counted_next(void *payload, et_batch *batch, et_error *error)
{
    counted *self = payload;
    (void)error;
    if (self->at == self->batches)
        return ET_OK;
    batch->filled[0] = 1 + self->at % 3;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        ((int32_t *)batch->data[0])[i] = (int32_t)(100 * self->epoch + batch->sample[i]);
    self->at++;
    return ET_OK;
}

static int counted_skip(void *payload, int64_t batches, et_error *error)
{
    (void)error;
    ((counted *)payload)->at += batches;
    return ET_OK;
}

static void counted_end(void *payload)
{
    ((counted *)payload)->ended++;
}

static et_source *open_factory(counted *payload, bool repeat, bool skip)
{
    const et_layout_field field = { .name = "v", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    const et_layout layout = {
        .kinds = 1, .fields = 1, .kind = { "sample" }, .capacity = { 4 }, .field = &field
    };
    const et_factory factory = { .payload = payload,
                                 .begin = counted_begin,
                                 .next = counted_next,
                                 .skip = skip ? counted_skip : NULL,
                                 .end = counted_end,
                                 .fingerprint = 7 };
    et_source *source = NULL;
    assert_ok(et_factory_open(&source, &layout, &factory, repeat, error));
    return source;
}

/* Once for each pass, and each iterator ends. */
static void test_factory__passes(void **state)
{
    (void)state;
    counted made = { .batches = 3 };
    et_source *source = open_factory(&made, false, false);
    int32_t seen[16];
    const int32_t expected[] = { 0, 1, 2, 3, 4, 5 };
    assert_int_equal(read_integers(source, "v", seen), 6);
    assert_memory_equal(seen, expected, sizeof expected);
    assert_int_equal(made.begun, 1);
    assert_int_equal(made.ended, 1);
    et_source_close(source);
    source = open_factory(&made, true, false);
    et_batch *batch = batch_of(source);
    for (int i = 0; i < 8; i++)
        next(source, batch);
    const int32_t last[] = { 201, 202, -1, -1 };
    assert_int_equal(batch->epoch, 2);
    assert_memory_equal(batch->data[0], last, sizeof last);
    char text[64];
    et_source_describe(source, batch, text, sizeof text);
    assert_string_equal(text, "rows 1 to 2 of pass 2");
    et_source_close(source);
    assert_int_equal(made.begun, 4);
    assert_int_equal(made.ended, 4);
    et_batch_free(batch);
}

static void test_factory__positions(void **state)
{
    (void)state;
    for (int skip = 0; skip < 2; skip++) {
        counted made = { .batches = 4 };
        et_source *source = open_factory(&made, true, skip);
        check_positions(source, 14);
        assert_ok(et_prefetch_open(&source, source, 2, error));
        check_positions(source, 14);
        et_source_close(source);
        assert_int_equal(made.begun, made.ended);
    }
}

static void test_factory__mistakes(void **state)
{
    (void)state;
    counted made = { .batches = 2 };
    et_source *source = open_factory(&made, true, false);
    et_batch *batch = batch_of(source);
    et_position position, bad;
    et_source_position(source, &position);
    assert_int_equal(position.count, 4);
    bad = position;
    bad.value[3]++;
    assert_fails(et_source_seek(source, &bad, error), ET_EDATA, "other data");
    bad = position;
    bad.value[0] = -1;
    assert_fails(et_source_seek(source, &bad, error), ET_EDATA, "not in the data");
    bad = position;
    bad.value[1] = bad.value[2] = 9;
    assert_fails(et_source_seek(source, &bad, error), ET_EDATA, "has ended before batch 9");
    next(source, batch);
    assert_int_equal(((const int32_t *)batch->data[0])[0], 0);
    made.batches = 0;
    assert_ok(et_source_seek(source, &position, error));
    assert_fails(et_source_next(source, batch, error), ET_EDATA, "pass 0 has no batches");
    made.fails = true;
    assert_ok(et_source_seek(source, &position, error));
    assert_fails(et_source_next(source, batch, error), ET_EIO, "cannot begin");
    et_batch_free(batch);
    et_source_close(source);
    const et_layout_field field = { .name = "v" };
    const et_layout empty = { .kinds = 1, .fields = 1, .kind = { "sample" }, .field = &field };
    const et_factory factory = { .begin = counted_begin, .next = counted_next };
    assert_fails(et_factory_open(&source, &empty, &factory, true, error), ET_ECONFIG,
                 "batch of 0 samples");
}

/* ---- cache ---- */

/* One pass of an endless source in memory, in the order in which it came; the source stands behind
 * it. */
static void test_cache__one_pass(void **state)
{
    (void)state;
    et_batches_options options = { .seed = 1, .shuffle = true, .repeat = true, .capacity = { 8 } };
    et_samples *parts[] = { open_named("n", 50), open_halves("x", 50) }, *samples = NULL;
    assert_ok(et_gather_open(&samples, parts, 2, error));
    et_source *source = batches_of(samples, options);
    et_samples *cached = NULL;
    assert_ok(et_cache_open(&cached, source, error));
    et_batch *batch = batch_of(source);
    int64_t rows = 0;
    for (next(source, batch); batch->epoch == 1; next(source, batch))
        rows += batch->filled[0];
    assert_int_equal(rows, 50);
    et_tensor n = et_samples_array(cached, "n"), x = et_samples_array(cached, "x");
    assert_int_equal(cached->count, 50);
    assert_true(et_shape_equal(n.shape, et_shape_1(50)) && n.dtype == ET_I32);
    assert_true(et_shape_equal(x.shape, et_shape_2(50, 2)) && x.dtype == ET_F32);
    assert_null(et_samples_array(cached, "mask").data);
    assert_null(et_samples_array(cached, "y").data);
    assert_null(et_samples_array(samples, "n").data);
    int times[50] = { 0 };
    for (int i = 0; i < 50; i++) {
        times[((const int32_t *)n.data)[i]]++;
        assert_true(((const float *)x.data)[2 * i] == (float)((const int32_t *)n.data)[i]);
    }
    for (int i = 0; i < 50; i++)
        assert_int_equal(times[i], 1);
    check_integers(cached, "n", ((const int32_t *)n.data), 50);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_cache__mistakes(void **state)
{
    (void)state;
    counted none = { .batches = 0 };
    et_samples *cached;
    et_source *source = open_factory(&none, false, false);
    assert_fails(et_cache_open(&cached, source, error), ET_EDATA, "no samples");
    et_source_close(source);
    counted broken = { .fails = true };
    source = open_factory(&broken, false, false);
    assert_fails(et_cache_open(&cached, source, error), ET_EIO, "cannot begin");
    et_source_close(source);
}

/* ---- samplers ---- */

static float chances[3 * MANY];

static et_source *open_chances(bool shuffle, et_dtype dtype, uint64_t seed)
{
    const et_array array = { "p", ET_F32, chances, et_shape_1(3) };
    et_samples *samples = NULL;
    et_batches_options options = {
        .seed = 2, .shuffle = shuffle, .repeat = true, .capacity = { 100 }
    };
    for (int i = 0; i < 3 * MANY; i++)
        chances[i] = (float)(i % 11) / 10;
    assert_ok(et_arrays_open(&samples, &array, 1, MANY, error));
    et_source *source = batches_of(samples, options);
    assert_ok(et_bernoulli_open(&source, source, "p", dtype, seed, error));
    return source;
}

/* The draws of a pass, by sample. */
static void draw_pass(et_source *source, int32_t draws[3 * MANY])
{
    et_batch *batch = batch_of(source);
    for (int b = 0; b < MANY / 100; b++) {
        next(source, batch);
        for (int64_t i = 0; i < 100; i++)
            memcpy(draws + 3 * batch->sample[i], (const int32_t *)field_of(batch, "p") + 3 * i,
                   3 * sizeof *draws);
    }
    et_batch_free(batch);
}

/* As often as it should be; sure is sure; another pass or seed draws others, another order does
 * not. */
static void test_bernoulli__draws(void **state)
{
    (void)state;
    static int32_t one[3 * MANY], other[3 * MANY];
    et_source *plain = open_chances(false, ET_I32, 5), *shuffled = open_chances(true, ET_I32, 5);
    et_source *seeded = open_chances(false, ET_I32, 6);
    assert_int_equal(plain->layout.field[0].dtype, ET_I32);
    draw_pass(plain, one);
    int times[11] = { 0 }, of[11] = { 0 };
    for (int i = 0; i < 3 * MANY; i++) {
        assert_in_range(one[i], 0, 1);
        times[i % 11] += one[i];
        of[i % 11]++;
    }
    assert_int_equal(times[0], 0);
    assert_int_equal(times[10], of[10]);
    for (int k = 1; k < 10; k++)
        assert_true(fabs((double)times[k] / of[k] - k / 10.0) < 0.11);
    draw_pass(shuffled, other);
    assert_memory_equal(one, other, sizeof one);
    draw_pass(plain, other);
    assert_memory_not_equal(one, other, sizeof one);
    draw_pass(seeded, other);
    assert_memory_not_equal(one, other, sizeof one);
    et_source_close(plain);
    et_source_close(shuffled);
    et_source_close(seeded);
}

static void test_bernoulli__reals_and_positions(void **state)
{
    (void)state;
    et_source *reals = open_chances(true, ET_F32, 5), *integers = open_chances(true, ET_I32, 5);
    et_batch *r = batch_of(reals), *n = batch_of(integers);
    next(reals, r);
    next(integers, n);
    for (int i = 0; i < 300; i++)
        assert_true(((const float *)r->data[0])[i] == (float)((const int32_t *)n->data[0])[i]);
    check_positions(reals, 25);
    et_batch_free(r);
    et_batch_free(n);
    et_source_close(reals);
    et_source_close(integers);
}

static void test_bernoulli__mistakes(void **state)
{
    (void)state;
    et_source *out, *source = open_chances(false, ET_F32, 5);
    et_batch *batch = batch_of(source);
    assert_fails(et_bernoulli_open(&out, source, "q", ET_I32, 0, error), ET_ECONFIG, "no field q");
    assert_fails(et_bernoulli_open(&out, source, "mask", ET_I32, 0, error), ET_ECONFIG, "mask");
    assert_fails(et_bernoulli_open(&out, source, "p", ET_BF16, 0, error), ET_ECONFIG, "bfloat16");
    static const float bad[] = { 1.5f, -0.25f, NAN };
    for (int i = 0; i < 3; i++) {
        et_position begin;
        et_source_position(source, &begin);
        chances[7] = bad[i];
        assert_fails(et_source_next(source, batch, error), ET_EDATA, "p of sample 2");
        chances[7] = 0.7f;
        assert_ok(et_source_seek(source, &begin, error));
    }
    et_batch_free(batch);
    et_source_close(source);
    source = open_chances(false, ET_I32, 5);
    assert_fails(et_bernoulli_open(&out, source, "p", ET_I32, 0, error), ET_ECONFIG, "int32");
    et_source_close(source);
}

/* Added to reals and to integers; within its limits, and spread over them. */
static void test_noise__adds(void **state)
{
    (void)state;
    static const float limits[][2] = { { 0, 1 }, { -2, 2 } };
    for (int k = 0; k < 4; k++) {
        et_batches_options options = { .repeat = true, .capacity = { 500 } };
        et_samples *samples = k % 2 ? open_named("v", MANY) : open_halves("v", 500);
        et_source *source = batches_of(samples, options);
        const float low = limits[k / 2][0], high = limits[k / 2][1];
        assert_ok(et_noise_open(&source, source, "v", low, high, 9, error));
        et_batch *batch = batch_of(source);
        next(source, batch);
        assert_int_equal(source->layout.field[0].dtype, ET_F32);
        const float *v = batch->data[0];
        int64_t count = 500 * (k % 2 ? 1 : 2);
        double sum = 0;
        for (int64_t i = 0; i < count; i++) {
            float before = k % 2 ? (float)numbers[i] : halves[i], added = v[i] - before;
            assert_true(added >= low - 1e-4f && added <= high + 1e-4f);
            sum += added;
        }
        assert_true(fabs(sum / (double)count - (low + high) / 2) < 0.05 * (high - low));
        check_positions(source, 5);
        et_batch_free(batch);
        et_source_close(source);
    }
    et_source *out, *source = batches_of(open_named("v", 9), (et_batches_options){ .seed = 0 });
    assert_fails(et_noise_open(&out, source, "v", 1, 0, 0, error), ET_ECONFIG, "1 to 0");
    assert_fails(et_noise_open(&out, source, "v", 0, INFINITY, 0, error), ET_ECONFIG, "finite");
    assert_fails(et_noise_open(&out, source, NULL, 0, 1, 0, error), ET_ECONFIG, "no field");
    et_source_close(source);
}

static void test_flows__allocate_nothing(void **state)
{
    (void)state;
    counted made = { .batches = 3 };
    et_source *sources[] = { gathered(10, 10, true), open_chances(true, ET_I32, 5),
                             open_factory(&made, true, false) };
    for (int k = 0; k < 3; k++) {
        et_batch *batch = batch_of(sources[k]);
        next(sources[k], batch);
        size_t before = et_alloc_count();
        for (int i = 0; i < 20; i++)
            next(sources[k], batch);
        assert_int_equal(et_alloc_count(), before);
        et_batch_free(batch);
        et_source_close(sources[k]);
    }
}

/* ---- out of memory ---- */

/* What is opened within another is closed by it, or by hand where it was not taken over. */
static int open_samples(et_samples **out, et_error *error)
{
    const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };
    et_samples *parts[2] = { NULL, NULL }, *inner = NULL;
    int asked = 0;
    int status = et_windows_open(&parts[0], &(et_array){ "w", ET_F32, halves, et_shape_scalar() },
                                 22, 3, error);
    if (!status)
        status = et_arrays_open(&parts[1], &array, 1, 20, error);
    if (!status)
        status = et_gather_open(&inner, parts, 2, error);
    if (status) {
        et_samples_close(parts[0]);
        et_samples_close(parts[1]);
        return status;
    }
    status = et_filter_open(out, inner, is_third, &asked, error);
    if (status)
        et_samples_close(inner);
    return status;
}

static int open_source(et_source **out, et_error *error)
{
    const et_batches_options options = { .capacity = { 4 } };
    const char *chosen[] = { "n", "w" };
    et_samples *samples = NULL;
    et_source *source = NULL;
    int status = open_samples(&samples, error);
    if (!status && (status = et_batches_open(&source, samples, &options, error)))
        et_samples_close(samples);
    if (!status)
        status = et_noise_open(&source, source, "w", 0, 1, 1, error);
    if (!status)
        status = et_select_open(&source, source, chosen, 2, error);
    if (status)
        et_source_close(source);
    else
        *out = source;
    return status;
}

static int open_all(et_error *error)
{
    const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };
    const et_split_options split = { .portion = 0.5 };
    et_source *sources[2] = { NULL, NULL }, *both = NULL;
    et_samples *cached = NULL, *first = NULL, *second = NULL;
    counted made = { .batches = 2 };
    const et_layout_field field = { .name = "v", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    const et_layout layout = {
        .kinds = 1, .fields = 1, .kind = { "sample" }, .capacity = { 4 }, .field = &field
    };
    const et_factory factory = { .payload = &made, .begin = counted_begin, .next = counted_next };
    int status = open_source(&sources[0], error);
    if (!status)
        status = et_factory_open(&sources[1], &layout, &factory, true, error);
    if (!status)
        status = et_gather_sources_open(&both, sources, 2, error);
    if (!status)
        status = et_cache_open(&cached, sources[0], error);
    if (!status)
        status = et_split_open(&first, &second, &array, 1, 10, &split, error);
    et_samples_close(cached);
    et_samples_close(first);
    et_samples_close(second);
    if (both)
        et_source_close(both);
    for (int i = 0; !both && i < 2; i++)
        et_source_close(sources[i]);
    return status;
}

static void test_flows__out_of_memory(void **state)
{
    (void)state;
    et_samples_close(open_named("n", MANY));
    et_samples_close(open_halves("x", 400));
    long calls = 0;
    for (bool failed = true; failed; calls++) {
        scarce_begin(calls);
        int status = open_all(NULL);
        scarce_end();
        failed = scarce_failed;
        assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
    }
    assert_true(calls > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequence__values),
        cmocka_unit_test(test_sequence__mistakes),
        cmocka_unit_test(test_windows__slide),
        cmocka_unit_test(test_windows__mistakes),
        cmocka_unit_test(test_gather__samples),
        cmocka_unit_test(test_gather__mistakes),
        cmocka_unit_test(test_gather__kinds),
        cmocka_unit_test(test_gather__too_many_kinds),
        cmocka_unit_test(test_filter__keeps),
        cmocka_unit_test(test_filter__kinds),
        cmocka_unit_test(test_select__kinds),
        cmocka_unit_test(test_split__size),
        cmocka_unit_test(test_split__parts),
        cmocka_unit_test(test_split__empty_part),
        cmocka_unit_test(test_convert__makes_fields),
        cmocka_unit_test(test_convert__error_behind_prefetch),
        cmocka_unit_test(test_convert__mistakes),
        cmocka_unit_test(test_select__fields),
        cmocka_unit_test(test_gather_sources__side_by_side),
        cmocka_unit_test(test_gather_sources__lengths_differ),
        cmocka_unit_test(test_gather_sources__mistakes),
        cmocka_unit_test(test_factory__passes),
        cmocka_unit_test(test_factory__positions),
        cmocka_unit_test(test_factory__mistakes),
        cmocka_unit_test(test_cache__one_pass),
        cmocka_unit_test(test_cache__mistakes),
        cmocka_unit_test(test_bernoulli__draws),
        cmocka_unit_test(test_bernoulli__reals_and_positions),
        cmocka_unit_test(test_bernoulli__mistakes),
        cmocka_unit_test(test_noise__adds),
        cmocka_unit_test(test_flows__allocate_nothing),
        cmocka_unit_test(test_flows__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
