/* Decides which pairs of lines are useful for training.
 *
 * A rule looks at one pair and has no memory; the caller, who sees all pairs, finds duplicates.
 * Lengths are in words, separated by blanks, and in bytes of UTF-8. */
#ifndef ETUDE_DEMO_CLEAN_H
#define ETUDE_DEMO_CLEAN_H

typedef enum clean_verdict {
    CLEAN_KEEP,
    CLEAN_COPY,     /* not translated: most words of the shorter side stand in the other */
    CLEAN_FRAGMENT, /* fewer than three letters, or more signs than letters, on a side */
    CLEAN_LOPSIDED, /* one side says far more than the other */
    CLEAN_LONG,     /* more words than a small model learns to follow */
    CLEAN_VERDICTS,
} clean_verdict;

/* Most words of a side. */
#define CLEAN_WORDS_MAX 60

/* The first rule that a pair breaks. */
clean_verdict clean_check(const char *source, const char *target);

/* What a verdict means, for counts: "copies". Static. */
const char *clean_name(clean_verdict verdict);

#endif
