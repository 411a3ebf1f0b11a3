/* Collectors of summaries: what reaches an event file, mistakes, and no memory. The cases of the
 * reference are in tests/references/tfsnippet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <etude/summary_collector.h>

#include "base/scarce.h"
#include "systems/tfsnippet/looped.h"

static float weights[] = { 0.5f, -1, 2, 8 };
static const et_tensor kernel = { weights, ET_F32, { 1, { 4 } } };

static et_summary_stack *open_stack(void)
{
    et_summary_stack *stack;
    assert_ok(et_summary_stack_new(&stack, error));
    return stack;
}

/* Merged summaries of two layers go to a loop's event file, each with its tag. */
static void test_summary_collector__into_event_files(void **state)
{
    char path[600];
    size_t length, size;
    et_summary_stack *stack = open_stack();
    et_summary_collector *top = et_summary_stack_top(stack);
    looped l;
    looped_init(&l);
    l.options.summary_dir = in(state, "summaries");
    l.options.max_step = 1;
    looped_begin(&l);
    assert_ok(et_summary_collector_add_histogram(top, "net/dense", kernel, true, NULL, error));
    assert_ok(et_summary_collector_add_histogram(top, "net/dense_1", kernel, false, NULL, error));
    const void *merged = et_summary_stack_collection(stack, ET_SUMMARIES, &length);
    assert_int_equal(et_loop_add_summary_bytes(l.loop, merged, length), ET_OK);
    looped_end(&l);
    snprintf(path, sizeof path, "%s/events.out.tfevents.0000000000.etude", in(state, "summaries"));
    char *file = get_file(path, &size);
    assert_non_null(memmem(file, size,
                           "\x0a\x05"
                           "dense",
                           7));
    assert_non_null(memmem(file, size, "\x0a\x0bnet/dense_1", 13));
    free(file);
    looped_free(&l);
    et_summary_stack_free(stack);
}

/* int32 and bfloat16 give the bytes of the same values in float32. */
static void test_summary_collector__types(void **state)
{
    (void)state;
    static float reals[] = { 1, -2, 4 };
    static int32_t integers[] = { 1, -2, 4 };
    static uint16_t halves[] = { 0x3f80, 0xc000, 0x4080 };
    const et_tensor tensors[] = { { reals, ET_F32, { 1, { 3 } } },
                                  { integers, ET_I32, { 1, { 3 } } },
                                  { halves, ET_BF16, { 1, { 3 } } } };
    et_summary_stack *stack = open_stack();
    et_summary_collector *top = et_summary_stack_top(stack);
    size_t length;
    for (int i = 0; i < 3; i++)
        assert_ok(et_summary_collector_add_histogram(top, "x", tensors[i], false, NULL, error));
    const char *merged = et_summary_collector_merge(top, &length);
    assert_int_equal(length % 3, 0);
    assert_memory_equal(merged, merged + length / 3, length / 3);
    assert_memory_equal(merged, merged + 2 * (length / 3), length / 3);
    et_summary_stack_free(stack);
}

static void test_summary_collector__mistakes(void **state)
{
    (void)state;
    static const char *const unnamed[] = { "a", "" };
    static float odd[] = { 1, NAN };
    const et_strings names = { unnamed, 2 };
    const et_summary_collector_options options = { .collections = names };
    const et_tensor none = { weights, ET_F32, { 1, { 0 } } }, bad = { odd, ET_F32, { 1, { 2 } } },
                    text = { odd, ET_U8, { 1, { 2 } } };
    et_summary_stack *stack = open_stack(), *other = open_stack();
    et_summary_collector *c, *top = et_summary_stack_top(stack);
    size_t length;
    assert_fails(et_summary_collector_new(&c, stack, &options, error), ET_EUSAGE,
                 "collection 1 of a collector has no name");
    assert_fails(et_summary_stack_push(other, top, ET_AUTO_HISTOGRAM_ON, error), ET_EUSAGE,
                 "belongs to another stack");
    assert_fails(et_summary_collector_add(top, NULL, 4, NULL, error), ET_EUSAGE, "has no bytes");
    assert_fails(et_summary_collector_add(top, "", 0, NULL, error), ET_EUSAGE, "has no bytes");
    assert_fails(et_summary_collector_add(top, "abc", 3, &names, error), ET_EUSAGE,
                 "collection 1 of a summary has no name");
    assert_fails(et_summary_collector_add_histogram(top, "x", none, false, NULL, error), ET_EDATA,
                 "the histogram x: the tensor has no element");
    assert_fails(et_summary_collector_add_histogram(top, "x", bad, false, NULL, error), ET_EDATA,
                 "");
    assert_fails(et_summary_collector_add_histogram(top, "x", text, false, NULL, error), ET_EDATA,
                 "float32, bfloat16 or int32");
    assert_fails(et_summary_collector_add_histogram(top, NULL, kernel, true, NULL, error),
                 ET_EUSAGE, "no tag");
    assert_fails(et_summary_collector_add_histogram(top, "x/", kernel, true, NULL, error),
                 ET_EUSAGE, "no tag");
    assert_fails(et_summary_collector_add_histogram(top, "\xff", kernel, false, NULL, error),
                 ET_EDATA, "\\xff of a summary is not UTF-8");
    assert_null(et_summary_collector_merge(top, &length));
    assert_null(et_summary_stack_collection(stack, "a", &length));
    assert_null(et_summary_stack_collection(stack, NULL, &length));
    et_summary_stack_free(stack);
    et_summary_stack_free(other);
    et_summary_stack_free(NULL);
    et_summary_collector_free(NULL);
}

/* A failure leaves the collector and all collections as they were. */
static void test_summary_collector__out_of_memory(void **state)
{
    (void)state;
    static const char *const items[] = { "a", "b", "c" };
    const et_strings names = { items, 3 };
    for (long calls = 0, failed = true; failed; calls++) {
        et_summary_stack *stack = NULL;
        size_t length;
        scarce_begin(calls);
        int status = et_summary_stack_new(&stack, NULL);
        if (!status)
            status = et_summary_collector_add_histogram(et_summary_stack_top(stack), "kernel",
                                                        kernel, false, &names, NULL);
        failed = scarce_failed;
        assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
        for (int i = 0; stack && i < 3; i++)
            assert_int_equal(et_summary_stack_collection(stack, items[i], &length) == NULL, failed);
        et_summary_stack_free(stack);
        scarce_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary_collector__into_event_files),
        cmocka_unit_test(test_summary_collector__types),
        cmocka_unit_test(test_summary_collector__mistakes),
        cmocka_unit_test(test_summary_collector__out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
