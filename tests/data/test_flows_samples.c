#include "data/flows_fixture.h"

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
    assert_fails(et_sequence_open(&out, "i", 0, 5, 0, error), ET_ECONFIG, ": these are 0");
    assert_fails(et_sequence_open(&out, "i", 5, 5, 1, error), ET_ECONFIG, ": these are 0");
    assert_fails(et_sequence_open(&out, "i", 0, 5, -1, error), ET_ECONFIG, "in steps of -1");
    assert_fails(et_sequence_open(&out, "i", 0, (int64_t)1 << 40, 1, error), ET_ECONFIG, "int32");
    assert_fails(et_sequence_open(&out, NULL, 0, 5, 1, error), ET_ECONFIG, "no name");
    assert_fails(et_sequence_open(&out, "mask", 0, 5, 1, error), ET_ECONFIG,
                 "another field has this name");
}

/* Rows overlap in memory, and only batches copy them. */
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
                 "a has 10 samples, but b has 9");
    assert_fails(et_gather_open(&out, same, 2, error), ET_ECONFIG,
                 "part 1 and another part both have a field a");
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
    .name = "words",
    .sizes = words_sizes,
    .fill = words_fill,
    .describe = words_describe,
    .close = words_close,
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

/* The kinds of each part are separate: tokens of one do not shift those of another. */
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

/* Tokens and their offsets pass a selection unchanged. */
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
    assert_fails(et_filter_open(&samples, inner, is_none, NULL, error), ET_EDATA,
                 "none of the 200");
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
        { 1e-9, 0, 10, 1 }, { 0.3, 0, 100, 30 }, { 0.7, 0, 100, 70 }, { 0.5, -1, 10, 0 },
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
                                            { .portion = 1.1, .size = -1 } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t size;
        assert_fails(et_split_size(&size, 10, &bad[i], error), ET_ECONFIG, "portion");
    }
    int64_t size;
    assert_fails(et_split_size(&size, 10, NULL, error), ET_EUSAGE, "et_split_options: NULL");
}

/* Both parts are all samples, none twice. */
static void test_split__parts(void **state)
{
    (void)state;
    et_samples_close(open_named("n", MANY));
    const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };
    const et_split_options options = { .portion = 0.3, .seed = 4 };
    et_samples *first, *second;
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

static void test_split__nothing(void **state)
{
    (void)state;
    et_samples_close(open_named("n", MANY));
    const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };
    et_split_options options = { .size = 10 };
    et_samples *first, *second;
    assert_fails(et_split_open(&first, &second, &array, 1, 0, &options, error), ET_ECONFIG,
                 "0 samples");
    assert_ok(et_split_open(&first, &second, &array, 0, 10, &options, error));
    assert_null(first);
    assert_null(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequence__values), cmocka_unit_test(test_sequence__mistakes),
        cmocka_unit_test(test_windows__slide),   cmocka_unit_test(test_windows__mistakes),
        cmocka_unit_test(test_gather__samples),  cmocka_unit_test(test_gather__mistakes),
        cmocka_unit_test(test_gather__kinds),    cmocka_unit_test(test_gather__too_many_kinds),
        cmocka_unit_test(test_filter__keeps),    cmocka_unit_test(test_filter__kinds),
        cmocka_unit_test(test_select__kinds),    cmocka_unit_test(test_split__size),
        cmocka_unit_test(test_split__parts),     cmocka_unit_test(test_split__nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
