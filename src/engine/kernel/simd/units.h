/* Lanes of two bfloat16, loaded and stored through memory, for instruction sets without masked
 * loads and stores of 16-bit numbers. Their headers include this file after vf, V_LANES and v_set
 * are defined. Operands of bfloat16 products are staged once for many uses, so this costs little
 * time. */
#ifndef ETUDE_ENGINE_KERNEL_SIMD_UNITS_H
#define ETUDE_ENGINE_KERNEL_SIMD_UNITS_H

/* Copies bits only. Elements beyond n read as zero: an odd n leaves half of one lane zero. */
ET_INLINE vf v_load_units_n(const et_bf16 *x, int64_t n)
{
    vf units = v_set(0.0f);
    memcpy(&units, x, (size_t)(n < 2 * V_LANES ? n : 2 * V_LANES) * sizeof *x);
    return units;
}

/* Copies bits only: nothing is rounded. */
ET_INLINE void v_store_units_n(et_bf16 *y, vf units, int64_t n)
{
    memcpy(y, &units, (size_t)(n < 2 * V_LANES ? n : 2 * V_LANES) * sizeof *y);
}

/* A lane holds x[i] in its lower half and next[i] in its upper one, on a little-endian machine. */
ET_INLINE vf v_load_pairs_n(const et_bf16 *x, const et_bf16 *next, int64_t n)
{
    et_bf16 pair[2 * V_LANES] = { 0 };
    for (int64_t i = 0; i < n && i < V_LANES; i++) {
        pair[2 * i] = x[i];
        pair[2 * i + 1] = next[i];
    }
    return v_load_units_n(pair, 2 * V_LANES);
}

ET_INLINE vf v_load_units(const et_bf16 *x)
{
    return v_load_units_n(x, 2 * V_LANES);
}

ET_INLINE void v_store_units(et_bf16 *y, vf units)
{
    v_store_units_n(y, units, 2 * V_LANES);
}

ET_INLINE vf v_load_pairs(const et_bf16 *x, const et_bf16 *next)
{
    return v_load_pairs_n(x, next, V_LANES);
}

#endif
