/* Tells whether the program is built with a sanitizer, which then controls memory, addresses and
 * signals. */
#ifndef ETUDE_TESTS_SANITIZED_H
#define ETUDE_TESTS_SANITIZED_H

#ifdef __has_feature /* clang */
#define SANITIZED_ADDRESSES __has_feature(address_sanitizer)
#define SANITIZED_THREADS   __has_feature(thread_sanitizer)
#else
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED_ADDRESSES 1
#else
#define SANITIZED_ADDRESSES 0
#endif
#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREADS 1
#else
#define SANITIZED_THREADS 0
#endif
#endif

#define SANITIZED (SANITIZED_ADDRESSES || SANITIZED_THREADS)

#endif
