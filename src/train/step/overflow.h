/* The reaction to a loss or gradient that is not finite: an object, chosen at set-up. Fail: the
 * step fails and names the first such value; nothing has changed. Scale: gradients are multiplied
 * by a factor (for types with few exponents). If a gradient is not finite, the update is skipped
 * and the factor halved; after a number of good updates the factor is doubled. After a hundred
 * skipped updates in a row the step fails.
 *
 * It is a part of the state if `part` is not NULL. */
#ifndef ETUDE_TRAIN_STEP_OVERFLOW_H
#define ETUDE_TRAIN_STEP_OVERFLOW_H

#include <etude/state.h>

struct et_step;

typedef struct et_overflow et_overflow;

typedef struct et_overflow_class {
    const char *name;
    /* A batch's or the update's gradient is not finite. ET_OK: the update is left out, the step
     * counts. shard: which batch of the step, the last one taken. */
    int (*not_finite)(et_overflow *self, struct et_step *step, int shard, et_error *error);
    void (*good)(et_overflow *self); /* after an update; NULL: nothing */
    const et_part_class *part;
} et_overflow_class;

struct et_overflow {
    const et_overflow_class *class;
    double scale; /* of gradients, from the next step on */
};

/* An update has been made. */
static inline void et_overflow_good(et_overflow *overflow)
{
    if (overflow->class->good)
        overflow->class->good(overflow);
}

/* Fails with ET_EDIVERGED: step, first bad value and the batch's samples are named. */
et_overflow et_overflow_fail(void);

/* The same with a factor that stays. */
et_overflow et_overflow_fixed(double scale);

typedef struct et_overflow_scale {
    et_overflow overflow; /* first member */
    int64_t every;        /* good updates until the factor is doubled; 0: it never is */
    int64_t in_a_row;     /* good updates since it last changed; below 0: left out ones */
} et_overflow_scale;

/* As Model Garden's loss_scale: dynamic. */
#define ET_OVERFLOW_SCALE 32768
#define ET_OVERFLOW_EVERY 2000

/* scale: the first factor, a power of two; it is never below 1. After a hundred
 * that were left out in a row the next is a divergence, and fails. */
et_overflow_scale et_overflow_scaled(double scale, int64_t every);

#endif
