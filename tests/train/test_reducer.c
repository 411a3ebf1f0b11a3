/* The tree of shards: compared with a tree by the definition, and with one large batch. */
#include "train/step/reducer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include <etude/allocator.h>

#include "base/alloc.h"
#include "engine/tensor/params.h"
#include "train/small_pass.h"

enum { ROWS = 3, HIDDEN = 256, SHARDS = 9, MEANS = 1 + FEATURES, MEASURES = 2 };

static void build(et_scope *s, void *payload)
{
    (void)payload;
    small_build(s, HIDDEN);
}

static const et_pass_options training = { .training = true };

/* The sum of one shard, or of several. */
typedef struct sum {
    float *gradient; /* [trained] */
    float means[MEANS];
    double loss, divisor;
    et_measured measured[MEASURES];
} sum;

static sum take(const small_pass *s)
{
    size_t bytes = (size_t)et_params_trained_size(s->params) * sizeof(float);
    sum made = { malloc(bytes), { 0 }, et_pass_loss(s->pass), et_pass_divisor(s->pass), { { 0 } } };
    assert_non_null(made.gradient);
    memcpy(made.gradient, et_params_gradients(s->params), bytes);
    assert_int_equal(et_pass_tracks(s->pass), 2);
    assert_int_equal(et_pass_measures(s->pass), MEASURES);
    made.means[0] = *et_pass_tracked(s->pass, 0).value;
    memcpy(made.means + 1, et_pass_tracked(s->pass, 1).value, FEATURES * sizeof(float));
    for (int i = 0; i < MEASURES; i++)
        made.measured[i] = et_pass_measured(s->pass, i);
    return made;
}

static void add(sum *to, const sum *from, int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        to->gradient[i] += from->gradient[i];
    for (int i = 0; i < MEANS; i++)
        to->means[i] += from->means[i];
    to->loss += from->loss;
    to->divisor += from->divisor;
    for (int i = 0; i < MEASURES; i++) {
        to->measured[i].total += from->measured[i].total;
        to->measured[i].weight += from->measured[i].weight;
    }
}

/* Adds into the first shard: on the left the largest power of two below their number, on the right
 * the rest. */
static void add_tree(sum *shards, int count, int64_t size)
{
    int left = 1;
    if (count == 1)
        return;
    while (2 * left < count)
        left *= 2;
    add_tree(shards, left, size);
    add_tree(shards + left, count - left, size);
    add(shards, shards + left, size);
}

/* Adds one after another, which is not the tree's order. */
static void add_row(sum *shards, int count, int64_t size)
{
    for (int i = 1; i < count; i++)
        add(shards, shards + i, size);
}

typedef void add_fn(sum *shards, int count, int64_t size);

/* The sum of the first `count` batches in this order; free its gradient. */
static sum expected(int count, add_fn *add_all)
{
    small_pass s;
    sum shards[SHARDS];
    small_open(&s, build, ROWS, &training);
    for (int i = 0; i < count; i++) {
        small_run(&s);
        shards[i] = take(&s);
    }
    add_all(shards, count, et_params_trained_size(s.params));
    for (int i = 0; i < MEANS; i++)
        shards[0].means[i] /= (float)count;
    for (int i = 1; i < count; i++)
        free(shards[i].gradient);
    small_close(&s);
    return shards[0];
}

/* A reducer over the next `shards` batches. */
static et_reduced reduce(small_pass *s, et_reducer *reducer, int shards)
{
    et_reduced out;
    et_reducer_begin(reducer);
    for (int i = 0; i < shards; i++) {
        small_run(s);
        assert_ok(et_reducer_add(reducer, i, s->pass, error));
    }
    assert_ok(et_reducer_end(reducer, &out, error));
    return out;
}

/* The bits are the tree's, twice: earlier sums do not matter. */
static void test_reducer__is_the_tree(void **state)
{
    int seen = 0;
    (void)state;
    for (int shards = 1; shards <= SHARDS; shards++) {
        small_pass s;
        et_reducer *reducer;
        et_position begin;
        sum tree = expected(shards, add_tree), row = expected(shards, add_row);
        small_open(&s, build, ROWS, &training);
        size_t bytes = (size_t)et_params_trained_size(s.params) * sizeof(float);
        assert_ok(et_tree_open(&reducer, s.pass, shards, error));
        et_source_position(s.source, &begin);
        size_t allocations = et_alloc_count();
        for (int time = 0; time < 2; time++) {
            assert_ok(et_source_seek(s.source, &begin, error));
            et_reduced found = reduce(&s, reducer, shards);
            assert_memory_equal(found.gradient, tree.gradient, bytes);
            assert_memory_equal(found.means, tree.means, sizeof tree.means);
            assert_true(found.loss == tree.loss && found.divisor == tree.divisor);
            assert_int_equal(found.divisor, ROWS * shards);
            assert_int_equal(found.measures, MEASURES);
            for (int i = 0; i < MEASURES; i++) {
                assert_string_equal(found.measured[i].name, i ? "y" : "loss");
                assert_true(found.measured[i].total == tree.measured[i].total);
                assert_true(found.measured[i].weight == tree.measured[i].weight);
            }
            seen += memcmp(tree.gradient, row.gradient, bytes) != 0;
        }
        assert_int_equal(et_alloc_count(), allocations);
        et_reducer_close(reducer);
        small_close(&s);
        free(tree.gradient);
        free(row.gradient);
    }
    assert_true(seen > 0); /* another order does give other bits here */
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 2e-5 * (1 + fabs(expected))))
        fail_msg("%.9g is not %.9g", value, expected);
}

/* One of the two variables sums over rows of a batch: its mean over shards is a fraction of that of
 * all rows. */
static void test_reducer__is_one_large_batch(void **state)
{
    (void)state;
    for (int shards = 1; shards <= SHARDS; shards++) {
        small_pass parts, whole;
        et_reducer *several, *one;
        small_open(&parts, build, ROWS, &training);
        small_open(&whole, build, (int64_t)ROWS * shards, &training);
        assert_ok(et_tree_open(&several, parts.pass, shards, error));
        assert_ok(et_tree_open(&one, whole.pass, 1, error));
        et_reduced found = reduce(&parts, several, shards), all = reduce(&whole, one, 1);
        assert_ptr_equal(all.gradient, et_params_gradients(whole.params));
        for (int64_t i = 0; i < et_params_trained_size(parts.params); i++)
            assert_near(found.gradient[i], all.gradient[i]);
        for (int i = 0; i < MEANS; i++)
            assert_near(found.means[i] * shards, all.means[i]);
        assert_near(found.loss, all.loss);
        assert_int_equal(found.divisor, all.divisor);
        for (int i = 0; i < MEASURES; i++) {
            assert_near(found.measured[i].total, all.measured[i].total);
            assert_int_equal(found.measured[i].weight, all.measured[i].weight);
        }
        et_reducer_close(several);
        et_reducer_close(one);
        small_close(&parts);
        small_close(&whole);
    }
}

/* ---- memory ---- */

static size_t large; /* bytes that count as large */
static int arrays;

static void *allocate(void *payload, size_t size, size_t alignment)
{
    void *memory = NULL;
    (void)payload;
    arrays += size >= large;
    return posix_memalign(&memory, alignment < 16 ? 16 : alignment, size ? size : 1) ? NULL
                                                                                     : memory;
}

static void *reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    return realloc(memory, size);
}

static void release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

/* As many arrays as sums ever wait at once, and none of one shard, whose gradient is the store's.
 */
static void test_reducer__arrays(void **state)
{
    static const et_allocator counting = { NULL, allocate, reallocate, release };
    static const struct {
        int shards, arrays;
    } cases[] = { { 1, 0 }, { 2, 1 }, { 3, 2 },  { 4, 2 },  { 6, 2 },    { 7, 3 },
                  { 8, 3 }, { 9, 3 }, { 14, 3 }, { 15, 4 }, { 1024, 10 } };
    (void)state;
    et_allocator_set(&counting);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        small_pass s;
        et_reducer *reducer;
        small_open(&s, build, ROWS, &training);
        large = (size_t)et_params_trained_size(s.params) * sizeof(float);
        arrays = 0;
        assert_ok(et_tree_open(&reducer, s.pass, cases[i].shards, error));
        assert_int_equal(arrays, cases[i].arrays);
        assert_int_equal(reducer->bytes, (size_t)cases[i].arrays * (large + MEANS * sizeof(float)));
        reduce(&s, reducer, cases[i].shards);
        assert_int_equal(arrays, cases[i].arrays);
        et_reducer_close(reducer);
        small_close(&s);
    }
    et_allocator_set(NULL);
}

/* ---- values that are not finite ---- */

/* The error names the shard; afterwards a new sum begins. */
static void test_reducer__not_finite(void **state)
{
    (void)state;
    for (int shards = 1; shards <= 3; shards++)
        for (int bad = 0; bad < shards; bad++) {
            small_pass s;
            et_reducer *reducer;
            small_open(&s, build, ROWS, &training);
            assert_ok(et_tree_open(&reducer, s.pass, shards, error));
            et_reducer_begin(reducer);
            for (int i = 0; i <= bad; i++) {
                assert_ok(et_source_next(s.source, s.batch, error));
                if (i == bad)
                    ((float *)s.batch->data[1])[0] = INFINITY;
                assert_ok(et_pass_run(s.pass, s.batch, 1, 0, error));
                assert_int_equal(et_reducer_add(reducer, i, s.pass, NULL),
                                 i == bad ? ET_EDIVERGED : ET_OK);
            }
            assert_true(isfinite(reduce(&s, reducer, shards).loss));
            et_reducer_close(reducer);
            small_close(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reducer__is_the_tree),
        cmocka_unit_test(test_reducer__is_one_large_batch),
        cmocka_unit_test(test_reducer__arrays),
        cmocka_unit_test(test_reducer__not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
