#include <etude/state.h>

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/main.h"
#include "base/values/json.h"

static et_error failure, *error = &failure;

static uint64_t bits_of(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

/* Written, printed, parsed and read: the same bits, a NaN's payload too. */
static void test_part__reals_bit_for_bit(void **state)
{
    (void)state;
    static const uint64_t payload = 0xfff8000000abcdef;
    double reals[] = { 0.1, -0.0, 1e308, 5e-324, INFINITY, -INFINITY, NAN, 12345678901234567.0, 0 };
    memcpy(&reals[COUNT(reals) - 1], &payload, sizeof payload);
    for (size_t i = 0; i < COUNT(reals); i++) {
        et_arena arena = ET_ARENA_INIT;
        et_strbuf text = ET_STRBUF_INIT;
        et_value *dict = et_value_dict(&arena), *parsed;
        double back;
        assert_non_null(et_part_set_real(dict, "real", reals[i]));
        et_json_print(&text, dict, 0);
        assert_int_equal(et_json_parse(&parsed, &arena, text.data, text.length, "t", error), 0);
        assert_int_equal(et_part_read_real(parsed, "real", &back, error), ET_OK);
        assert_int_equal(bits_of(back), bits_of(reals[i]));
        et_strbuf_release(&text);
        et_arena_release(&arena);
    }
}

static void test_part__texts_that_are_no_reals(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "1.5",
                                         "bits:",
                                         "bits:12x",
                                         "bits:7ff800000000000",
                                         "bits:7ff80000000000000",
                                         "bits:7FF8000000000000" };
    for (size_t i = 0; i < COUNT(texts); i++) {
        et_arena arena = ET_ARENA_INIT;
        et_value *dict = et_value_dict(&arena);
        double back;
        assert_non_null(et_value_set_string(dict, "real", texts[i]));
        assert_int_equal(et_part_read_real(dict, "real", &back, error), ET_EFORMAT);
        assert_contains(error->text, "is not a number");
        et_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_part__reals_bit_for_bit),
        cmocka_unit_test(test_part__texts_that_are_no_reals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
