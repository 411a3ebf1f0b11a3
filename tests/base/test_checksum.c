#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files/checksum.h"

/* The value of the empty string, from xxHash's specification of XXH3 (seed 0); "abc" from its
 * command line tool, `xxhsum -H3`. */
static void test_checksum__known_values(void **state)
{
    (void)state;
    assert_int_equal(et_checksum("", 0), 0x2d06800538d394c2u);
    assert_int_equal(et_checksum("abc", 3), 0x78af5f94892f3950u);
}

static void test_checksum__pieces_equal_whole(void **state)
{
    (void)state;
    unsigned char bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t cut = 0; cut <= sizeof bytes; cut += 250) {
        et_checksum_stream *stream;
        assert_int_equal(et_checksum_stream_open(&stream, NULL), 0);
        et_checksum_stream_add(stream, bytes, cut);
        et_checksum_stream_add(stream, bytes + cut, sizeof bytes - cut);
        assert_int_equal(et_checksum_stream_value(stream), et_checksum(bytes, sizeof bytes));
        et_checksum_stream_close(stream);
    }
}

static void test_checksum__print_and_parse(void **state)
{
    (void)state;
    uint64_t value;
    assert_string_equal(et_checksum_print(0x0123456789abcdefu).digits, "0123456789abcdef");
    assert_true(et_checksum_parse(&value, "0123456789abcdef"));
    assert_int_equal(value, 0x0123456789abcdefu);
    static const char *const bad[] = { "",
                                       "0123456789abcde",
                                       "0123456789abcdef0",
                                       "0123456789ABCDEF",
                                       "0x23456789abcdef",
                                       "0123456789abcde " };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(et_checksum_parse(&value, bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksum__known_values),
        cmocka_unit_test(test_checksum__pieces_equal_whole),
        cmocka_unit_test(test_checksum__print_and_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
