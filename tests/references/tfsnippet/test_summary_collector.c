/* TFSnippet, tests/utils/test_summary_collector.py. A stack has the collections of a graph, and
 * bytes of a summary are the tensor of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/summary_collector.h>
#include <etude/summary_message.h>

#include "calls.h"

static et_summary_stack *open_stack(void)
{
    et_summary_stack *stack;
    assert_ok(et_summary_stack_new(&stack, error));
    return stack;
}

/* Of one collection, or of none: NULL. */
static et_summary_collector *open_collector(et_summary_stack *stack, const char *collection,
                                            bool no_add)
{
    const et_summary_collector_options options = {
        .collections = { &collection, collection != NULL }, .no_add_to_collections = no_add
    };
    et_summary_collector *c;
    size_t length;
    assert_ok(et_summary_collector_new(&c, stack, &options, error));
    assert_null(et_summary_collector_merge(c, &length));
    return c;
}

/* The scalars v1 = 123, v2 = 456, v3 = 789, of equally many bytes. */
typedef struct scalars {
    et_summary *all;
    const char *bytes; /* one after another */
    size_t length;     /* of each */
} scalars;

static void open_scalars(scalars *s)
{
    static const char *const tags[] = { "v1", "v2", "v3" };
    assert_ok(et_summary_new(&s->all, error));
    for (int i = 0; i < 3; i++)
        assert_ok(et_summary_add_scalar(s->all, tags[i], 123 + 333 * i, error));
    s->bytes = et_summary_bytes(s->all, &s->length);
    s->length /= 3;
}

static void add(et_summary_collector *c, const scalars *s, int i, const et_strings *collections)
{
    assert_ok(et_summary_collector_add(c, s->bytes + (size_t)i * s->length, s->length, collections,
                                       error));
}

/* The merged summaries are those of the scalars from first on, count of them; 0: none. */
static void assert_bytes(const void *merged, size_t length, const scalars *s, int first, int count)
{
    assert_int_equal(length, (size_t)count * s->length);
    if (!count)
        assert_null(merged);
    else
        assert_memory_equal(merged, s->bytes + (size_t)first * s->length, length);
}

static void assert_collection(const et_summary_stack *stack, const char *name, const scalars *s,
                              int first, int count)
{
    size_t length;
    const void *merged = et_summary_stack_collection(stack, name, &length);
    assert_bytes(merged, length, s, first, count);
}

static void assert_collected(const et_summary_collector *c, const scalars *s, int count)
{
    size_t length;
    const void *merged = et_summary_collector_merge(c, &length);
    assert_bytes(merged, length, s, 0, count);
}

static void test_summary_collector__props(void **state)
{
    (void)state;
    et_summary_stack *stack = open_stack();
    scalars s;
    open_scalars(&s);
    et_summary_collector *plain = open_collector(stack, NULL, false);
    et_summary_collector *without = open_collector(stack, ET_SUMMARIES, true);
    add(plain, &s, 0, NULL);
    add(without, &s, 0, NULL);
    assert_collection(stack, ET_SUMMARIES, &s, 0, 0);
    et_summary_collector *with = open_collector(stack, ET_SUMMARIES, false);
    add(with, &s, 0, NULL);
    assert_collection(stack, ET_SUMMARIES, &s, 0, 1);
    et_summary_collector_free(with);
    et_summary_free(s.all);
    et_summary_stack_free(stack); /* and what is left of its collectors */
}

static void test_summary_collector__context_stack(void **state)
{
    (void)state;
    static const struct {
        bool before;
        et_auto_histogram pushed;
        bool within;
    } cases[] = {
        { false, ET_AUTO_HISTOGRAM_KEEP, false },
        { false, ET_AUTO_HISTOGRAM_ON, true },
        { true, ET_AUTO_HISTOGRAM_KEEP, true },
        { true, ET_AUTO_HISTOGRAM_OFF, false },
    };
    et_summary_stack *stack = open_stack();
    et_summary_collector *bottom = et_summary_stack_top(stack);
    et_summary_collector *c = open_collector(stack, NULL, false);
    assert_non_null(bottom);
    assert_ptr_not_equal(c, bottom);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool before = cases[i].before;
        assert_ok(et_summary_stack_push(
            stack, bottom, before ? ET_AUTO_HISTOGRAM_ON : ET_AUTO_HISTOGRAM_OFF, error));
        assert_ok(et_summary_stack_push(stack, c, cases[i].pushed, error));
        assert_ptr_equal(et_summary_stack_top(stack), c);
        assert_int_equal(et_summary_stack_auto_histogram(stack), cases[i].within);
        assert_ok(et_summary_stack_pop(stack, error));
        assert_int_equal(et_summary_stack_auto_histogram(stack), before);
        assert_ok(et_summary_stack_pop(stack, error));
    }
    assert_ptr_equal(et_summary_stack_top(stack), bottom);
    assert_fails(et_summary_stack_pop(stack, error), ET_EUSAGE, "only its own collector");
    et_summary_collector_free(c);
    et_summary_stack_free(stack);
}

static void test_summary_collector__add_summary(void **state)
{
    (void)state;
    static const char *const keys[] = { "my_summaries", "my_summaries_2" };
    const et_strings second = { keys + 1, 1 }, none = { keys, 0 };
    scalars s;
    open_scalars(&s);
    for (int no_add = 0; no_add < 2; no_add++) {
        et_summary_stack *stack = open_stack();
        et_summary_collector *c = open_collector(stack, keys[0], no_add);
        add(c, &s, 0, NULL);
        assert_collected(c, &s, 1);
        assert_collection(stack, keys[0], &s, 0, !no_add);
        add(c, &s, 1, &second);
        assert_collected(c, &s, 2);
        assert_collection(stack, keys[0], &s, 0, !no_add);
        assert_collection(stack, keys[1], &s, 1, !no_add);
        add(c, &s, 2, &none);
        assert_collected(c, &s, 3);
        assert_collection(stack, keys[0], &s, 0, !no_add);
        assert_collection(stack, keys[1], &s, 1, !no_add);
        et_summary_stack_clear(stack);
        assert_collected(c, &s, 0);
        assert_collection(stack, keys[1], &s, 0, 0);
        et_summary_stack_free(stack);
    }
    et_summary_free(s.all);
}

static void test_summary_collector__global_add_summary(void **state)
{
    (void)state;
    static const char *const key = "my_summaries";
    const et_strings collections = { &key, 1 };
    et_summary_stack *stack = open_stack();
    et_summary_collector *c = open_collector(stack, NULL, false);
    scalars s;
    open_scalars(&s);
    assert_ok(et_summary_stack_push(stack, c, ET_AUTO_HISTOGRAM_KEEP, error));
    add(et_summary_stack_top(stack), &s, 0, &collections);
    assert_ok(et_summary_stack_pop(stack, error));
    assert_collected(c, &s, 1);
    assert_collection(stack, key, &s, 0, 1);
    assert_collection(stack, ET_SUMMARIES, &s, 0, 0);
    et_summary_free(s.all);
    et_summary_stack_free(stack);
}

/* Of zeros [2, 3] as "var". The operation's name, "ns", has no counterpart. */
static void test_summary_collector__global_add_histogram(void **state)
{
    (void)state;
    static const char *const key = "my_summaries";
    static float zeros[2][3];
    const et_strings collections = { &key, 1 };
    const et_tensor v = { zeros, ET_F32, et_shape_2(2, 3) };
    const double values[6] = { 0 };
    et_summary_stack *stack = open_stack();
    et_summary_collector *c = open_collector(stack, NULL, false);
    scalars expected;
    assert_ok(et_summary_new(&expected.all, error));
    assert_ok(et_summary_add_histogram(expected.all, "var", values, 6, error));
    expected.bytes = et_summary_bytes(expected.all, &expected.length);
    assert_ok(et_summary_stack_push(stack, c, ET_AUTO_HISTOGRAM_KEEP, error));
    assert_ok(et_summary_collector_add_histogram(et_summary_stack_top(stack), "var", v, true,
                                                 &collections, error));
    assert_ok(et_summary_stack_pop(stack, error));
    assert_collected(c, &expected, 1);
    assert_collection(stack, key, &expected, 0, 1);
    et_summary_free(expected.all);
    et_summary_stack_free(stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary_collector__props),
        cmocka_unit_test(test_summary_collector__context_stack),
        cmocka_unit_test(test_summary_collector__add_summary),
        cmocka_unit_test(test_summary_collector__global_add_summary),
        cmocka_unit_test(test_summary_collector__global_add_histogram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
