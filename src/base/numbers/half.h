/* IEEE 754's half, the float16 of files: a sign, 5 bits of exponent, 10 of fraction. */
#ifndef ETUDE_BASE_NUMBERS_HALF_H
#define ETUDE_BASE_NUMBERS_HALF_H

#include <math.h>
#include <stdint.h>

/* Exact: every half is a float32. */
static inline float et_half_to_float(uint16_t half)
{
    const int exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    const float sign = half & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 0x1f)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(fraction + 0x400), exponent - 25)
                            : ldexpf((float)fraction, -24));
}

#endif
