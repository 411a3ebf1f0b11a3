/* Every test in this folder includes this: cmocka with its prerequisites. */
#ifndef ETUDE_TESTS_BASE_MAIN_H
#define ETUDE_TESTS_BASE_MAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Fails naming both texts unless text holds part. */
#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" does not hold \"%s\"", (text), (part));                               \
    } while (0)

#endif
