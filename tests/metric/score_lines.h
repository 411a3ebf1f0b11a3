/* Pairs to score, and Etude's scores of them in the lines that tests/metric/score_lines.py prints.
 * Include after cmocka.h; calls fail the test that makes them. */
#ifndef ETUDE_TESTS_METRIC_SCORE_LINES_H
#define ETUDE_TESTS_METRIC_SCORE_LINES_H

#include <stddef.h>

typedef struct score_pairs {
    char **hypotheses, **references;
    size_t count;
} score_pairs;

/* Adds a pair, copied. */
void score_pairs_add(score_pairs *pairs, const char *hypothesis, const char *reference);

/* Adds what FILE has: HYPOTHESIS TAB REFERENCE on each line. */
void score_pairs_read(score_pairs *pairs, const char *path);

void score_pairs_free(score_pairs *pairs);

/* All lines: scores of the corpus in every setting and width, then of the first sentences.
 * Free with free(). */
char *score_lines(const score_pairs *pairs, size_t sentences);

/* Fails at the first line that differs, naming it. */
void assert_lines_equal(const char *ours, const char *theirs);

#endif
