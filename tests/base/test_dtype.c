#include "base/dtype.h"

#include <math.h>

#include "base/main.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void test_dtype__table(void **state)
{
    (void)state;
    assert_int_equal(et_dtype_size(ET_F32), 4);
    assert_int_equal(et_dtype_size(ET_BF16), 2);
    assert_int_equal(et_dtype_size(ET_I32), 4);
    assert_string_equal(et_dtype_name(ET_BF16), "bfloat16");
}

static void test_dtype__bf16_rounding(void **state)
{
    (void)state;
    static const struct {
        uint32_t from;
        et_bf16 expected;
    } rows[] = {
        { 0x00000000, 0x0000 }, { 0x80000000, 0x8000 },
        { 0x3f800000, 0x3f80 }, { 0x3f808000, 0x3f80 }, /* halfway: down to even */
        { 0x3f818000, 0x3f82 },                         /* halfway: up to even */
        { 0x3f808001, 0x3f81 }, { 0x3f807fff, 0x3f80 },
        { 0x7f7fffff, 0x7f80 }, /* the largest float rounds to infinity */
        { 0x7f800000, 0x7f80 }, { 0xff800000, 0xff80 },
        { 0x00000001, 0x0000 }, { 0x00018000, 0x0002 }, /* denormals */
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(et_bf16_from_float(float_of(rows[i].from)), rows[i].expected);
    assert_true(isnan(et_bf16_to_float(et_bf16_from_float(float_of(0x7f800001)))));
    assert_true(isnan(et_bf16_to_float(et_bf16_from_float(float_of(0xffffffff)))));
}

static void test_dtype__bf16_round_trip(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x10000; i++) {
        float value = et_bf16_to_float((et_bf16)i);
        assert_int_equal(bits_of(value), i << 16);
        if (!isnan(value))
            assert_int_equal(et_bf16_from_float(value), i);
    }
}

static void test_dtype__half_rounding(void **state)
{
    (void)state;
    static const struct {
        float from;
        uint16_t expected;
    } rows[] = {
        { 1, 0x3c00 },
        { 1 + 0x1p-11f, 0x3c00 }, /* halfway: down to even */
        { 1 + 0x3p-11f, 0x3c02 }, /* halfway: up to even */
        { 2 - 0x1p-12f, 0x4000 }, /* into the next exponent */
        { 65504, 0x7bff },
        { 65519, 0x7bff },
        { 65520, 0x7c00 },
        { -INFINITY, 0xfc00 },
        { 0x1p-14f, 0x0400 },
        { 0x1p-24f, 0x0001 },
        { 0x1p-25f, 0x0000 },
        { 0x1.8p-24f, 0x0002 }, /* denormals */
        { 0x1p-14f - 0x1p-26f, 0x0400 },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(et_half_from_float(rows[i].from), rows[i].expected);
    assert_true(isnan(et_half_to_float(et_half_from_float(NAN))));
}

static void test_dtype__half_round_trip(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x10000; i++) {
        const float value = et_half_to_float((uint16_t)i);
        if (!isnan(value))
            assert_int_equal(et_half_from_float(value), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype__table),           cmocka_unit_test(test_dtype__bf16_rounding),
        cmocka_unit_test(test_dtype__bf16_round_trip), cmocka_unit_test(test_dtype__half_rounding),
        cmocka_unit_test(test_dtype__half_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
