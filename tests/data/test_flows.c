#include "data/flows_fixture.h"

#include "base/alloc.h"
#include "base/numbers/philox.h"
#include "base/scarce.h"
#include "data/batches/source.h"

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

/* A new field is added, or replaces the field with its name, with its own type; other fields pass
 * unchanged. */
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

/* A failure inside a prefetch reaches the reader after the batches before it. */
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
    const char *chosen[] = { "c", "a" }, *bad[] = { "c", "d" };
    assert_ok(et_gather_open(&samples, parts, 3, error));
    et_source *out, *source = batches_of(samples, (et_batches_options){ .capacity = { 4 } });
    assert_fails(et_select_open(&out, source, bad, 2, error), ET_ECONFIG, "no field d");
    assert_fails(et_select_open(&out, source, bad, 0, error), ET_ECONFIG, "name at least one");
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

/* A source that ends earlier, in the middle of a batch or between two, is an error. So is one that
 * repeats while the other continues: rows of two passes are no pairs. */
static void test_gather_sources__lengths_differ(void **state)
{
    (void)state;
    static const struct {
        int64_t first, second;
        bool repeat;
        const char *says; /* of the third batch */
    } cases[] = {
        { 10, 11, false, "a has a batch of 2 samples where x has one of 3" },
        { 12, 8, false, "a has a batch of 4 samples where x has one of 0" },
        { 8, 12, false, "a has a batch of 0 samples where x has one of 4" },
        { 8, 12, true, "(pass 1 and 0)" },
        { 12, 8, true, "(pass 0 and 1)" },
        { 8, 16, true, "(pass 1 and 0)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_source *source = gathered(cases[i].first, cases[i].second, cases[i].repeat);
        et_batch *batch = batch_of(source);
        for (int k = 0; k < 2; k++)
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
                 "a has batches of 4, but b has batches of 5");
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

static int begin_nothing(void *payload, int64_t epoch, et_error *error)
{
    (void)payload, (void)epoch, (void)error;
    return ET_OK;
}

static int fill(void *payload, et_batch *batch, et_error *error)
{
    (void)error;
    batch->filled[0] = *(const int64_t *)payload;
    return ET_OK;
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
    assert_fails(et_source_seek(source, &bad, error), ET_EDATA, "ended before batch 9");
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
    const et_layout full = {
        .kinds = 1, .fields = 1, .kind = { "sample" }, .capacity = { 4 }, .field = &field
    };
    int64_t filled = 5;
    assert_ok(et_factory_open(
        &source, &full, &(et_factory){ .payload = &filled, .begin = begin_nothing, .next = fill },
        false, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    assert_fails(et_source_next(source, batch, error), ET_EDATA, "filled with 5 of 4 samples");
    filled = -1;
    assert_fails(et_source_next(source, batch, error), ET_EDATA, "filled with -1 of 4 samples");
    et_batch_free(batch);
    et_source_close(source);
}

/* ---- cache ---- */

/* Caches one pass of an endless source in memory, in its order; the source is then after that pass.
 */
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
    assert_fails(et_noise_open(&out, source, "v", -3e38f, 3e38f, 0, error), ET_ECONFIG,
                 "give finite limits, the lower first, at most 3.40282e+38");
    assert_fails(et_noise_open(&out, source, NULL, 0, 1, 0, error), ET_ECONFIG, "no field");
    et_source_close(source);
}

/* A sample's stretch of numbers begins with a block of four; runs of elements, in which they are
 * drawn, change none. */
static void test_samplers__numbers_by_definition(void **state)
{
    (void)state;
    static float v[7 * 517];
    static const int64_t widths[] = { 1, 3, 256, 517 };
    for (int i = 0; i < 7 * 517; i++)
        v[i] = (float)(i % 101) / 100;
    for (int k = 0; k < 8; k++) {
        const int64_t width = widths[k / 2], stretch = (width + 3) / 4 * 4;
        const bool noise = k % 2;
        const et_array array = { "v", ET_F32, v, et_shape_1(width) };
        const et_random random = { 9, 1, et_random_site(noise ? "noise" : "bernoulli") };
        et_batches_options options = { .shuffle = true, .repeat = true, .capacity = { 7 } };
        et_samples *samples = NULL;
        assert_ok(et_arrays_open(&samples, &array, 1, 7, error));
        et_source *source = batches_of(samples, options);
        assert_ok(noise ? et_noise_open(&source, source, "v", -1, 3, 9, error)
                        : et_bernoulli_open(&source, source, "v", ET_F32, 9, error));
        et_batch *batch = batch_of(source);
        next(source, batch);
        next(source, batch);
        assert_int_equal(batch->epoch, 1);
        for (int64_t i = 0; i < 7 * width; i++) {
            const int64_t sample = batch->sample[i / width], e = i % width;
            const float u = et_random_uniform(random, (uint64_t)(sample * stretch + e));
            const float p = v[sample * width + e];
            const float expected = noise ? p + (-1 + 4 * u) : u < p ? 1.0f : 0.0f;
            assert_true(((const float *)batch->data[0])[i] == expected);
        }
        et_batch_free(batch);
        et_source_close(source);
    }
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

/* A source opened within another is closed by it, or by hand if it was not adopted. */
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
        cmocka_unit_test(test_samplers__numbers_by_definition),
        cmocka_unit_test(test_flows__allocate_nothing),
        cmocka_unit_test(test_flows__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
