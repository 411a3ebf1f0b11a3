#include <etude/tensor.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/dtype.h"
#include "engine/tensor/tensor.h"

/* Elements, bytes as float32 and the text of shapes up to the largest numbers. */
static void test_tensor__shapes(void **state)
{
    (void)state;
    static const struct {
        et_shape shape;
        int64_t count;
        const char *text;
    } cases[] = {
        { { 0, { 0 } }, 1, "[]" },
        { { 0, { 9, 9 } }, 1, "[]" }, /* past the rank nobody looks */
        { { 1, { 5 } }, 5, "[5]" },
        { { 2, { 128, 384 } }, 49152, "[128, 384]" },
        { { 2, { 3, 0 } }, 0, "[3, 0]" },
        { { 4, { 2, 3, 5, 7 } }, 210, "[2, 3, 5, 7]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[ET_SHAPE_TEXT_MAX];
        et_tensor tensor = { NULL, ET_F32, cases[i].shape };
        assert_int_equal(et_shape_count(cases[i].shape), cases[i].count);
        assert_int_equal(et_tensor_bytes(tensor), 4 * cases[i].count);
        tensor.dtype = ET_BF16;
        assert_int_equal(et_tensor_bytes(tensor), 2 * cases[i].count);
        assert_string_equal(et_shape_print(cases[i].shape, text), cases[i].text);
    }
    char text[ET_SHAPE_TEXT_MAX];
    et_shape widest = { 4, { INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN } };
    assert_int_equal(strlen(et_shape_print(widest, text)), 4 * 20 + 3 * 2 + 2);
}

static void test_tensor__equal(void **state)
{
    (void)state;
    assert_true(et_shape_equal(et_shape_scalar(), (et_shape){ 0, { 3 } }));
    assert_true(et_shape_equal(et_shape_3(4, 5, 6), (et_shape){ 3, { 4, 5, 6, 7 } }));
    assert_true(et_shape_equal(et_shape_2(4, 5), (et_shape){ 2, { 4, 5, 6, 7 } }));
    assert_false(et_shape_equal(et_shape_1(4), et_shape_2(1, 4)));
    assert_false(et_shape_equal(et_shape_2(4, 5), et_shape_2(5, 4)));
    assert_false(et_shape_equal(et_shape_scalar(), et_shape_1(1)));
}

/* Invalid shapes, as a file or a setting may have them: nothing is read past them, and no product
 * overflows. */
static void test_tensor__not_valid(void **state)
{
    (void)state;
    static const et_shape shapes[] = {
        { -1, { 0 } },
        { 5, { 1, 1, 1, 1 } },
        { 1 << 30, { 1 } },
        { 1, { -1 } },
        { 2, { 3, INT64_MIN } },
        { 2, { 0, -3 } },
        { 2, { INT64_MAX, 2 } },
        { 4, { 1 << 16, 1 << 16, 1 << 16, 1 << 16 } },
        { 1, { (int64_t)1 << 62 } },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char text[ET_SHAPE_TEXT_MAX];
        et_tensor tensor = { NULL, ET_F32, shapes[i] };
        assert_false(et_shape_valid(shapes[i]));
        assert_int_equal(et_shape_count(shapes[i]), -1);
        assert_int_equal(et_tensor_bytes(tensor), 0);
        assert_true(strlen(et_shape_print(shapes[i], text)) < ET_SHAPE_TEXT_MAX);
        if (shapes[i].rank < 0 || shapes[i].rank > ET_RANK_MAX) {
            assert_memory_equal(text, "[rank ", 6);
            assert_false(et_shape_equal(shapes[i], shapes[i]));
        }
    }
    assert_true(et_shape_valid(et_shape_scalar()));
    assert_true(et_shape_valid(et_shape_2(0, 7)));
    assert_true(et_shape_valid(et_shape_2((int64_t)1 << 30, 1 << 20)));
    et_tensor untyped = { NULL, (et_dtype)77, et_shape_1(3) };
    assert_int_equal(et_tensor_bytes(untyped), 0);
    assert_string_equal(et_dtype_name((et_dtype)-1), "no type");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor__shapes),
        cmocka_unit_test(test_tensor__equal),
        cmocka_unit_test(test_tensor__not_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
