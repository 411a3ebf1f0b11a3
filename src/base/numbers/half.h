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

/* The nearest half; of two, the one with an even last bit. Beyond the range: infinity. */
static inline uint16_t et_half_from_float(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;
    const float size = fabsf(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    if (size < 0x1p-14f)
        return sign | (uint16_t)lrintf(ldexpf(size, 24));
    frexpf(size, &exponent); /* in [0.5, 1) times 2^exponent */
    /* 1024 .. 2048, and 2048 is 1024 of the next exponent: the sum carries. */
    return sign | (uint16_t)((exponent + 13) * 1024 + (int)lrintf(ldexpf(size, 11 - exponent)));
}

#endif
