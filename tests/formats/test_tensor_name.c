#include <string.h>

#include "base/main.h"
#include "formats/safetensors/safetensors.h"

static void test_tensor_name__faults(void **state)
{
    (void)state;
    static const struct {
        const char *name, *fault, *escaped;
    } rows[] = {
        { "encoder/\"w\" \xc3\xa9", NULL, "encoder/\"w\" \xc3\xa9" },
        { "", NULL, "" },
        { "__metadata__/w", NULL, "__metadata__/w" },
        { "__metadata__", "is reserved by the file format", "__metadata__" },
        { "layer\n1", "has control characters", "layer\\n1" },
        { "\x1b[31m\x7f", "has control characters", "\\u001b[31m\\u007f" },
        { "\xc3\xa9 \xc2\x9b\xc2\xa0", "has control characters", "\xc3\xa9 \\u009b\xc2\xa0" },
        { "a\xff", "is not UTF-8", "a\\xff" },
        { "\xc3\xa9\xc2", "is not UTF-8", "\xc3\xa9\\xc2" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *fault = et_tensor_name_fault(rows[i].name);
        assert_true(!fault == !rows[i].fault);
        if (fault)
            assert_string_equal(fault, rows[i].fault);
        assert_string_equal(et_tensor_name_escaped(rows[i].name).text, rows[i].escaped);
    }
    assert_true(et_tensor_name_sound(ET_TENSOR_METADATA)); /* of text, which names no tensor */
    assert_false(et_tensor_name_sound("a\t"));
}

static void test_tensor_name__cut(void **state)
{
    (void)state;
    char name[1000];
    memset(name, '\033', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t plain = 0; plain < 5; plain++) {
        memset(name, 'a', plain);
        et_tensor_name escaped = et_tensor_name_escaped(name);
        size_t length = strlen(escaped.text);
        assert_in_range(length, sizeof escaped.text - 8, sizeof escaped.text - 1);
        assert_string_equal(escaped.text + length - 6, "\\u001b");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_name__faults),
        cmocka_unit_test(test_tensor_name__cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
