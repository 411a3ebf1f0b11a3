/* Element types, and float32 to bfloat16 and back. */
#ifndef ETUDE_BASE_DTYPE_H
#define ETUDE_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <etude/dtype.h>

/* Rounds to nearest even; a NaN stays a NaN. */
static inline et_bf16 et_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (et_bf16)((bits >> 16) | 0x40u);
    return (et_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float et_bf16_to_float(et_bf16 value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

#endif
