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

/* Adds made-up pairs for TER, equal for every run: sentences of 0 to 170 words with many equal
 * ones, and hypotheses that are those sentences with blocks moved and words changed. */
void score_pairs_move(score_pairs *pairs, size_t count);

void score_pairs_write(const score_pairs *pairs, const char *path);

/* Edits and reference words of TER, pair by pair, as score_lines.py --edits prints them. Free with
 * free(). */
char *score_edits(const score_pairs *pairs);

/* Three outputs for each pair's reference: the hypothesis, and two that differ a little from it; as
 * many lines as pairs. */
enum { SCORE_OUTPUTS = 3 };

typedef struct score_outputs {
    char **lines[SCORE_OUTPUTS];
} score_outputs;

void score_outputs_make(score_outputs *outputs, const score_pairs *pairs);
void score_outputs_write(const score_outputs *outputs, const score_pairs *pairs, const char *path);
void score_outputs_free(score_outputs *outputs, const score_pairs *pairs);

/* What score_lines.py --bootstrap prints of them. Free with free(). */
char *score_bootstrap(const score_outputs *outputs, const score_pairs *pairs);

void score_pairs_free(score_pairs *pairs);

/* All lines: scores of the corpus in every setting and width, then of the first sentences.
 * Free with free(). */
char *score_lines(const score_pairs *pairs, size_t sentences);

/* Fails at the first line that differs, naming it. */
void assert_lines_equal(const char *ours, const char *theirs);

#endif
