#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "formats/records/record.h"

/* RFC 3720, appendix B.4, and the catalogue's check value. */
static void test_crc32c__known_values(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(et_crc32c("", 0), 0);
    assert_int_equal(et_crc32c("123456789", 9), 0xe3069283u);
    memset(bytes, 0, 32);
    assert_int_equal(et_crc32c(bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(et_crc32c(bytes, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(et_crc32c(bytes, 32), 0x46dd794eu);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(et_crc32c(bytes, 32), 0x113fdb5cu);
}

static void test_crc32c__instruction_equals_table(void **state)
{
    (void)state;
    unsigned char bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 + 17);
    for (size_t start = 0; start < 9; start++) {
        for (size_t length = 0; length + start <= sizeof bytes; length++)
            assert_int_equal(et_crc32c(bytes + start, length),
                             et_crc32c_table(bytes + start, length));
    }
}

/* The first 12 bytes of every TensorBoard file whose first event has 24 bytes. */
static void test_crc32c__mask(void **state)
{
    (void)state;
    assert_int_equal(et_crc32c_mask(0), 0xa282ead8u);
    assert_int_equal(et_crc32c_mask(et_crc32c("\x18\0\0\0\0\0\0\0", 8)), 0x224b7fa3u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c__known_values),
        cmocka_unit_test(test_crc32c__instruction_equals_table),
        cmocka_unit_test(test_crc32c__mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
