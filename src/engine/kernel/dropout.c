/* The elements that dropout keeps, and their scale: see elementwise.h. */
#include "engine/kernel/elementwise.h"

#include <math.h>

#include "base/assert.h"

/* An element is kept if its 16-bit number is at least this: rate in units of 2^-16, to the
 * nearest. Never 65536, which would keep nothing. */
uint32_t et_dropout_threshold(float rate)
{
    et_assert(rate >= 0 && rate < 1);
    float threshold = roundf(rate * 65536.0f);
    return threshold < 65536.0f ? (uint32_t)threshold : 65535u;
}

/* Computed from the rounded rate, so that the mean is kept. A rate of 0.1 is 6554 / 65536 =
 * 0.100006: the scale is 1.111119, not 1.111111. */
float et_dropout_scale(float rate)
{
    return 65536.0f / (float)(65536u - et_dropout_threshold(rate));
}
