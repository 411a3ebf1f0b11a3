/* Arguments of the recurrence of the simpler simple recurrent unit, SSRU (Kim et al. 2019, "From
 * Research to Production and Back: Ludicrously Fast Neural Machine Translation"), over the rows of
 * segments, each column by itself:
 *
 *   c[t] = f[t] c[t - 1] + (1 - f[t]) x[t],   f = 1 / (1 + e^-gate)
 *
 * Before the first row of a segment c is 0. Decoding has one new row for each hypothesis, whose
 * c[t - 1] is a row of `state`.
 *
 * Sums are float32. The state is float32 too, so c has the same bits whether the rows of a segment
 * come together or one by one. */
#ifndef ETUDE_ENGINE_KERNEL_RECURRENCE_H
#define ETUDE_ENGINE_KERNEL_RECURRENCE_H

#include <stdint.h>

#include <etude/dtype.h>

/* Pointers are borrowed for the call. */
typedef struct et_recurrence {
    const void *x, *gate; /* [rows, width] */
    int64_t segments, width;
    const int32_t *offsets; /* [segments + 1], ascending; NULL: each row is a segment */
    /* Without offsets: row t reads c[t - 1] from state[where[t][0]], zeros if that is -1, and
     * writes c[t] to state[where[t][1]]. No row reads what another one writes. */
    const int32_t *where; /* [segments, 2] */
    float *state;         /* [slots, width] */
    et_dtype dtype;       /* of x, gate, c and their derivatives */
} et_recurrence;

#endif
