/* Assertions: a caller's mistake stops the program in debug builds and in tests.
 * et_assert names the condition; et_assert_equal names both values. */
#ifndef ETUDE_BASE_ASSERT_H
#define ETUDE_BASE_ASSERT_H

/* Without assertions, a condition is compiled but not evaluated. So it stays valid code, and its
 * variables count as used. With assertions, values are compared with their own types and shown as
 * long long; both sides are evaluated a second time for the message. */
#ifdef NDEBUG
#define et_assert(condition)         ((void)sizeof(condition))
#define et_assert_equal(left, right) ((void)sizeof((left) == (right)))
#else
#define et_assert(condition)                                                                       \
    ((condition) ? (void)0 : et_assert_failed(__FILE__, __LINE__, #condition))
#define et_assert_equal(left, right)                                                               \
    ((left) == (right) ? (void)0                                                                   \
                       : et_assert_failed_values(__FILE__, __LINE__, #left " == " #right,          \
                                                 (long long)(left), (long long)(right)))
#endif

/* Print and abort. */
_Noreturn void et_assert_failed(const char *file, int line, const char *condition);
_Noreturn void et_assert_failed_values(const char *file, int line, const char *condition,
                                       long long left, long long right);

#endif
