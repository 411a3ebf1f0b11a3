/* Element types, and float32 to bfloat16 and half and back. */
#ifndef ETUDE_BASE_DTYPE_H
#define ETUDE_BASE_DTYPE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <etude/dtype.h>

/* Rounds to nearest even; a NaN stays a NaN. Adding 0x7fff to the bits carries into the upper half
 * if the lower half is above a half. If it is exactly a half, the upper half's last bit is added,
 * so odd ones are rounded up. The largest floats round to infinity, as they should. A NaN needs
 * another way, since its payload may carry it to infinity or zero: it keeps its upper half, with
 * the quiet bit set. */
static inline et_bf16 et_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (et_bf16)((bits >> 16) | 0x40u);
    return (et_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Exact: every bfloat16 is a float32. */
static inline float et_bf16_to_float(et_bf16 value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* "float32", "bfloat16", "int32", "uint8", "int8"; "no type". Static. */
const char *et_dtype_name(et_dtype dtype);

/* IEEE 754's half, the float16 of files: a sign, 5 bits of exponent, 10 of fraction. Exact: every
 * half is a float32. */
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
