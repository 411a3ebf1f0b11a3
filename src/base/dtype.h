/* Element types, and float32 to bfloat16 and back. */
#ifndef ETUDE_BASE_DTYPE_H
#define ETUDE_BASE_DTYPE_H

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

#endif
