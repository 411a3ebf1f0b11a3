#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"

#include "formats/torch/pickle.h"
#include "torch_samples.h"

static int read_tensors(const bytes *from, size_t *count, et_arena *arena, et_error *error)
{
    et_pickle pickle = { .bytes = from->data, .length = from->length, .name = "a.bin" };
    et_pickle_tensor *tensors;
    return et_pickle_read_tensors(&pickle, &tensors, count, arena, error);
}

/* A pickle of these bytes fails with these words. */
#define assert_refused(literal, words)                                                             \
    do {                                                                                           \
        static bytes from;                                                                         \
        et_arena arena = ET_ARENA_INIT;                                                            \
        size_t count;                                                                              \
        from.length = 0;                                                                           \
        ADD(&from, literal);                                                                       \
        assert_fails(read_tensors(&from, &count, &arena, error), ET_EFORMAT, words);               \
        et_arena_release(&arena);                                                                  \
    } while (0)

static void test_pickle__tensors_of_a_dict(void **state)
{
    static bytes from;
    (void)state;
    const sample_tensor tensors[] = {
        { "a.weight", "FloatStorage", "0", 2, 3, 1, 7, NULL, 0 },
        { "a.bias", "HalfStorage", "1", 0, 5, 0, 5, NULL, 0 },
        { "b", "DoubleStorage", "2", 0, 1, 0, 1, NULL, 0 },
    };
    add_dict(&from, tensors, 3);
    ADD(&from, "the rest");
    et_pickle pickle = { .bytes = from.data, .length = from.length, .name = "a.bin" };
    et_pickle_tensor *read;
    et_arena arena = ET_ARENA_INIT;
    size_t count;
    assert_ok(et_pickle_read_tensors(&pickle, &read, &count, &arena, error));
    assert_int_equal(count, 3);
    assert_int_equal(pickle.at, from.length - strlen("the rest"));
    assert_string_equal(read[0].name, "a.weight");
    assert_int_equal(read[0].shape.rank, 2);
    assert_int_equal(read[0].shape.size[1], 3);
    assert_int_equal(read[0].offset, 1);
    assert_string_equal(read[0].storage->key, "0");
    assert_int_equal(read[0].storage->kind, ET_PICKLE_FLOAT32);
    assert_int_equal(read[0].storage->count, 7);
    assert_int_equal(read[1].storage->kind, ET_PICKLE_FLOAT16);
    assert_int_equal(read[2].storage->kind, ET_PICKLE_OTHER);
    assert_int_equal(read[2].storage->width, 8);
    et_arena_release(&arena);
}

/* What a pickle takes is bounded by its length: values without names and numbers are refused. */
static void test_pickle__many_values(void **state)
{
    enum { LENGTH = 1 << 20 };
    static char many[LENGTH];
    static const char codes[] = "N](})";
    (void)state;
    for (const char *code = codes; *code; code++) {
        et_arena arena = ET_ARENA_INIT;
        et_pickle pickle = { .bytes = many, .length = LENGTH, .name = "a.bin" };
        et_pickle_tensor *read;
        size_t count;
        memset(many, *code, LENGTH);
        assert_fails(et_pickle_read_tensors(&pickle, &read, &count, &arena, error), ET_EFORMAT,
                     *code == '(' ? "it ends early" : "more values than its length allows");
        assert_true(pickle.at == LENGTH || pickle.at <= LENGTH / 2 + 100);
        et_arena_release(&arena);
    }
}

/* No function but those of a state dict: the name of any other is in the message. */
static void test_pickle__code_is_refused(void **state)
{
    (void)state;
    assert_refused("\x80\x02"
                   "cos\nsystem\nX\2\0\0\0id\x85R.",
                   "asks for os.system");
    assert_refused("\x80\x02"
                   "cbuiltins\neval\n)R.",
                   "asks for builtins.eval");
    assert_refused("\x80\x02"
                   "ctorch\nload\n)R.",
                   "asks for torch.load");
    assert_refused("\x80\x04\x8c\2os\x8c\6system\x93.", "protocol 4");
    assert_refused("\x80\x02\x8c\2os.", "0x8c");
    assert_refused("(S'id'\nios\nsystem\n.", "0x53");
    assert_refused("\x80\x02"
                   "ccollections\nOrderedDict\nX\1\0\0\0a\x85R.",
                   "a dict with arguments");
    assert_refused("\x80\x02"
                   "ctorch\nFloatStorage\n)R.",
                   "a call of a storage");
}

static void test_pickle__damage_is_named(void **state)
{
    (void)state;
    assert_refused("", "ends early");
    assert_refused("\x80\x02}", "ends early");
    assert_refused(".", "more than one value");
    assert_refused("}N.", "more than one value");
    assert_refused("(.", "a mark, not a value");
    assert_refused("N.", "its pickle is None, not a dict");
    assert_refused("}X\1\0\0\0aNs.", "a is None, not a tensor");
    assert_refused("}K\1Ns.", "a name in its dict is a number, not a text");
    assert_refused("}X\377\377\377\377a", "ends early");
    assert_refused("h\0.", "before it is there");
    assert_refused("}q\5.", "with gaps");
    assert_refused("t.", "a mark is missing");
    assert_refused("(u.", "a mark is missing");
    assert_refused("(\x86.", "a value is missing");
    assert_refused("N(NNu.", "items for another value");
    assert_refused("}(NNNu.", "items for another value");
    assert_refused("NQ.", "no storage");
    assert_refused("NR.", "not a function");
    assert_refused("NNb.", "not a dict");
    assert_refused("}X\2\0\0\0a\0Ns.", "a zero in it");
}

static void test_pickle__tensors_stay_in_their_storage(void **state)
{
    static bytes from;
    et_arena arena = ET_ARENA_INIT;
    size_t count;
    (void)state;
    const struct {
        sample_tensor tensor;
        const char *words;
    } rows[] = {
        { { "a", "FloatStorage", "0", 2, 3, 2, 7, NULL, 0 }, "larger than its storage" },
        { { "a", "FloatStorage", "0", 2, 3, -1, 7, NULL, 0 }, "larger than its storage" },
        { { "a", "FloatStorage", "0", -2, 3, 0, 7, NULL, 0 }, "no list of counts" },
        { { "a", "FloatStorage", "0", 0, 3, 0, -1, NULL, 0 }, "no storage" },
        { { "a", "OrderedDict", "0", 0, 3, 0, 3, NULL, 0 }, "asks for torch.OrderedDict" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        from.length = 0;
        add_dict(&from, &rows[i].tensor, 1);
        assert_fails(read_tensors(&from, &count, &arena, error), ET_EFORMAT, rows[i].words);
    }
    et_arena_release(&arena);
}

/* A view with strides is no damage, and downloading it again is no cure. */
static void test_pickle__strides(void **state)
{
    static bytes from;
    et_arena arena = ET_ARENA_INIT;
    et_error why = ET_ERROR_INIT;
    size_t count;
    (void)state;
    const sample_tensor dense = { "a", "FloatStorage", "0", 2, 3, 0, 12, NULL, 0 };
    from.length = 0;
    add_dict(&from, &dense, 1);
    char *stride = memmem(from.data, from.length, "J\1\0\0\0\x86\x89", 7);
    assert_non_null(stride);
    stride[1] = 2;
    assert_int_equal(read_tensors(&from, &count, &arena, &why), ET_EFORMAT);
    assert_non_null(strstr(why.text, "is not contiguous; save tensors after"));
    assert_null(strstr(why.text, "download"));
    et_arena_release(&arena);
}

/* A value that contains itself is not followed. */
static void test_pickle__circles(void **state)
{
    (void)state;
    assert_refused("]q\0h\0a.", "a list, not a dict");
    assert_refused("}q\0X\1\0\0\0ah\0s.", "a is a dict, not a tensor");
}

static void test_pickle__every_byte_may_be_damaged(void **state)
{
    static bytes whole, from;
    (void)state;
    const sample_tensor tensors[] = {
        { "a.weight", "FloatStorage", "0", 2, 3, 1, 7, NULL, 0 },
        { "a.bias", "HalfStorage", "1", 0, 5, 0, 5, NULL, 0 },
    };
    add_dict(&whole, tensors, 2);
    for (size_t i = 0; i < whole.length; i++)
        for (int bit = 0; bit < 9; bit++) {
            et_arena arena = ET_ARENA_INIT;
            et_error error = ET_ERROR_INIT;
            size_t count;
            memcpy(from.data, whole.data, whole.length);
            from.length = bit < 8 ? whole.length : i;
            from.data[i] = (char)(from.data[i] ^ (bit < 8 ? 1 << bit : 0));
            if (read_tensors(&from, &count, &arena, &error))
                assert_non_null(strstr(error.text, "a.bin: "));
            et_arena_release(&arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickle__tensors_of_a_dict),
        cmocka_unit_test(test_pickle__many_values),
        cmocka_unit_test(test_pickle__code_is_refused),
        cmocka_unit_test(test_pickle__damage_is_named),
        cmocka_unit_test(test_pickle__tensors_stay_in_their_storage),
        cmocka_unit_test(test_pickle__strides),
        cmocka_unit_test(test_pickle__circles),
        cmocka_unit_test(test_pickle__every_byte_may_be_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
