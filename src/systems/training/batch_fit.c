#include "systems/training/batch_fit.h"

#include "base/assert.h"

#define TRIES_MOST 16
#define GROWTH     8.0  /* at most, from one that fits to the next */
#define CLOSE      0.02 /* of the answer: no better one is sought */

et_batch_fit et_batch_fit_begin(uint64_t budget, int64_t batch, int64_t most)
{
    et_assert(batch > 0 && most >= ET_BATCH_LEAST && most <= ET_BATCH_MOST);
    return (et_batch_fit){ .budget = budget,
                           .most = most,
                           .batch = batch < ET_BATCH_LEAST ? ET_BATCH_LEAST
                                    : batch > most         ? most
                                                           : batch };
}

/* A 32nd of it, as a power of two: batches are round numbers. */
static int64_t grain_of(int64_t batch)
{
    int64_t grain = ET_BATCH_LEAST;
    while (2 * grain <= batch / 32)
        grain *= 2;
    return grain;
}

static double bounded(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* Between the two on the line through both, but not at either end. */
static double between(const et_batch_fit *f)
{
    double gap = (double)(f->fails - f->fits);
    double rise = (double)(f->fails_bytes - f->fits_bytes);
    double guess = (double)f->fits + (double)(f->budget - f->fits_bytes) * gap / rise;
    return bounded(guess, (double)f->fits + gap / 16, (double)f->fails - gap / 16);
}

static double guess(const et_batch_fit *f, uint64_t bytes)
{
    double share = (double)f->budget / (double)(bytes ? bytes : 1);
    if (f->fits && f->fails)
        return between(f);
    if (f->fits)
        return (double)f->batch * bounded(share, 1.25, GROWTH);
    return (double)f->batch * bounded(0.9 * share, 0.1, 0.75);
}

/* The largest that fits is below the smallest that does not; 0: there was none of that yet. */
static void sane(const et_batch_fit *f)
{
    et_assert(f->batch > 0 && f->budget > 0);
    et_assert(f->fits >= 0 && f->fails >= 0);
    et_assert(!f->fits || !f->fails || f->fits < f->fails);
    et_assert(!f->fits || f->fits_bytes <= f->budget);
    et_assert(!f->fails || f->fails_bytes > f->budget);
}

bool et_batch_fit_note(et_batch_fit *f, uint64_t bytes, bool whole)
{
    sane(f);
    const bool fits = bytes <= f->budget;
    if (fits) {
        f->fits = f->batch;
        f->fits_bytes = bytes;
    } else {
        f->fails = f->batch;
        f->fails_bytes = bytes;
    }
    if (++f->tries >= TRIES_MOST || (fits && (whole || f->batch >= f->most)) ||
        (!fits && f->batch <= ET_BATCH_LEAST))
        return false;
    int64_t next = (int64_t)bounded(guess(f, bytes), ET_BATCH_LEAST, (double)f->most);
    const int64_t grain = grain_of(next);
    next = next / grain * grain;
    if (f->fits && next < f->fits + grain)
        next = f->fits + grain;
    if (next > f->most)
        next = f->most;
    bool close = f->fits && f->fails && (double)(f->fails - f->fits) <= CLOSE * (double)f->fits;
    if (close || next <= f->fits || (f->fails && next >= f->fails))
        return false;
    f->batch = next;
    return true;
}
