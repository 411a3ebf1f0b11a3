/* Skips a case and prints the reason on a separate line, which `make test` lists at its end.
 * Include after cmocka.h.
 *
 *     if (access(path, R_OK))
 *         test_skip("no ../shared/data/multi30k");
 */
#ifndef ETUDE_TESTS_SKIP_H
#define ETUDE_TESTS_SKIP_H

#define test_skip(reason)                                                                          \
    do {                                                                                           \
        print_message("SKIPPED: %s: %s\n", __func__, (reason));                                    \
        skip();                                                                                    \
    } while (0)

#endif
