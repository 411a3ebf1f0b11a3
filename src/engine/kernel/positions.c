/* Sinusoids, in the layout of et_sinusoid. Column i < dim / 2 is sin(p rate), column dim / 2 + i is
 * cos(p rate), rate = 10000^(-i / (dim / 2 - 1)): wavelengths from 2 pi to 10000 times that
 * (Vaswani et al. 2017, section 3.5, with sines and cosines in halves instead of alternating). With
 * open, rate = 10000^(-i / (dim / 2)), as that paper writes it: 10000 times is not reached. In
 * double, because p rate grows large. Example, dim 4: columns sin p, sin(p / 10000), cos p, cos(p /
 * 10000).
 *
 * A sine costs as much as a hundred additions, so it is computed only for every 32nd row and for
 * the first 32 rows. The other rows follow by rotation, p = far + near:
 *
 *     sin(a + b) = sin a cos b + cos a sin b        cos(a + b) = cos a cos b - sin a sin b
 *
 * p rate is rounded, and differs from a + b by an error in its last bits, which the derivative
 * corrects: sin(x + slip) = sin x + slip cos x. The remaining error is far below the rounding to
 * float32: the results equal those without rotation. */
#include <math.h>

#include "base/assert.h"
#include "engine/kernel/positions.h"

/* Rows that are turned from one, and columns done together: a line of cache. */
enum { NEAR = 32, COLUMNS = 16 };

/* The angles of a row, with their sines and cosines. */
typedef struct turn {
    double angle[COLUMNS], sine[COLUMNS], cosine[COLUMNS];
} turn;

static void point(turn *t, int64_t row, const double *rate, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        t->angle[j] = (double)row * rate[j];
        t->sine[j] = sin(t->angle[j]);
        t->cosine[j] = cos(t->angle[j]);
    }
}

/* Some columns of sines and the same of cosines; rows are dim elements apart. */
static void fill_columns(float *sines, float *cosines, int64_t rows, int64_t dim,
                         const double *rate, int64_t columns)
{
    turn near[NEAR], far = { { 0 }, { 0 }, { 0 } };
    for (int64_t p = 0; p < NEAR && p < rows; p++)
        point(&near[p], p, rate, columns);
    for (int64_t p = 0; p < rows; p++, sines += dim, cosines += dim) {
        const turn *by = &near[p % NEAR];
        if (p % NEAR == 0)
            point(&far, p, rate, columns);
        for (int64_t j = 0; j < columns; j++) {
            double sine = far.sine[j] * by->cosine[j] + far.cosine[j] * by->sine[j];
            double cosine = far.cosine[j] * by->cosine[j] - far.sine[j] * by->sine[j];
            double slip = (double)p * rate[j] - far.angle[j] - by->angle[j];
            sines[j] = (float)(sine + slip * cosine);
            cosines[j] = (float)(cosine - slip * sine);
        }
    }
}

void et_positions_fill(float *table, int64_t rows, int64_t dim, bool open)
{
    int64_t half = dim / 2, steps = open ? half : half - 1;
    et_assert(dim % 2 == 0 && half > 1);
    for (int64_t i = 0; i < half; i += COLUMNS) {
        int64_t columns = half - i < COLUMNS ? half - i : COLUMNS;
        double rate[COLUMNS];
        for (int64_t j = 0; j < columns; j++)
            rate[j] = exp(-(double)(i + j) * log(1e4) / (double)steps);
        fill_columns(table + i, table + half + i, rows, dim, rate, columns);
    }
}
