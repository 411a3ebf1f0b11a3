/* Element-wise programs: blocks of EW_BLOCK elements, every register a block of float32 in cache. A
 * block begins at a multiple of EW_BLOCK in the whole buffer, so dropout's bits begin at a byte.
 *
 * A chain of operations runs over a block of 512 elements before the next block: its registers, at
 * most ET_EW_INPUTS_MAX + ET_EW_STEPS_MAX of 2 KiB, stay in the first- and second-level cache, and
 * memory is read and written once for any length of chain.
 *
 * The last block ends with the array, within a vector: registers are whole vectors, and only stores
 * check the end. */
#ifndef ETUDE_KERNEL_ELEMENTWISE_INC_C
#define ETUDE_KERNEL_ELEMENTWISE_INC_C

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/numbers/philox.h"
#include "engine/kernel/elementwise.h"
#include "engine/kernel/parallel.h"
#include "engine/kernel/simd/math.h"
#include "engine/kernel/simd/random.h"
#include "engine/kernel/simd/simd.h"

#define EW_BLOCK     512
#define EW_REGISTERS (ET_EW_INPUTS_MAX + ET_EW_STEPS_MAX)

/* n is a multiple of V_LANES. */
typedef void ew_fn(float *to, const float *a, const float *b, float x, int64_t n);

/* ---- the functions of elementwise.def ---- */

#define f_set(number) v_set(number)
#define f_exp         v_exp
#define f_tanh        v_tanh
#define f_sigmoid     v_sigmoid
#define f_sqrt        v_sqrt
#define f_sin         v_sin
#define f_cos         v_cos
/* Never run: ew_dropout replaces it. */
#define f_dropout(a) (a)

/* The order of operands lets a NaN of a through. */
#define f_at_least(a, bound) v_max(bound, a)
#define f_at_most(a, bound)  v_min(bound, a)

/* a where b > 0, else 0 */
ET_INLINE vf f_where_positive(vf b, vf a)
{
    return v_select(v_gt(b, v_set(0.0f)), a, v_set(0.0f));
}

ET_INLINE vf f_abs(vf a)
{
    return v_max(a, v_set(0.0f) - a);
}

/* x Phi(x); v_phi also gives the density's exponential, which only the derivative needs. */
ET_INLINE vf f_gelu(vf a)
{
    vf exponential;
    return a * v_phi(a, &exponential);
}

/* Phi(x) + x phi(x), with 0.3989 = 1 / sqrt(2 pi). */
ET_INLINE vf f_gelu_slope(vf b)
{
    vf exponential, phi = v_phi(b, &exponential);
    return v_fma(b * v_set(0.39894228f), exponential, phi);
}

/* dy s (1 + x (1 - s)), s the logistic function of x. */
ET_INLINE vf f_swish_grad(vf a, vf b)
{
    vf s = v_sigmoid(b);
    return a * s * v_fma(b, v_set(1.0f) - s, v_set(1.0f));
}

/* v_log for any argument: scales a denormal by 2^25 first. 0 gives -infinity, a negative number
 * NaN. */
ET_INLINE vf f_log(vf a)
{
    const vm tiny = v_gt(v_set(FLT_MIN), a);
    vf y = v_log(v_select(tiny, a * v_set(0x1p25f), a));
    y = y - v_select(tiny, v_set(17.3286795f), v_set(0.0f));
    y = v_select(v_gt(a, v_set(FLT_MAX)), a, y);
    const vf none = v_select(v_gt(v_set(0.0f), a), v_set(NAN), v_set(-INFINITY) + a);
    return v_select(v_gt(a, v_set(0.0f)), y, none);
}

/* Within 2e-7: max(a, 0) + log(1 + e^-|a|), whose exponential is at most 1. */
ET_INLINE vf f_softplus(vf a)
{
    const vf e = v_exp(v_set(0.0f) - f_abs(a));
    return v_max(v_set(0.0f), a) + v_log(v_set(1.0f) + e);
}

/* Its scale l and the product l m. */
#define SELU_SCALE 1.05070099f
#define SELU_BELOW 1.75809934f

ET_INLINE vf f_selu(vf a)
{
    const vf below = v_fma(v_set(SELU_BELOW), v_exp(f_at_most(a, v_set(0.0f))), v_set(-SELU_BELOW));
    return v_select(v_gt(a, v_set(0.0f)), v_set(SELU_SCALE) * a, below);
}

/* dy l where y is above 0, elsewhere dy (y + l m). */
ET_INLINE vf f_selu_grad(vf a, vf b)
{
    return a * v_select(v_gt(b, v_set(0.0f)), v_set(SELU_SCALE), b + v_set(SELU_BELOW));
}

/* dy (t + x s (1 - t^2)), t = tanh(softplus x), s the logistic function of x. */
ET_INLINE vf f_mish_grad(vf a, vf b)
{
    const vf t = v_tanh(f_softplus(b));
    return a * v_fma(b * v_sigmoid(b), v_set(1.0f) - t * t, t);
}

/* How far from the nearest whole number. */
ET_INLINE vf f_fraction(vf x)
{
    return f_abs(x - v_round(x));
}

/* e^(x log |a|), negative if a is negative and x odd; NaN if a is negative and x not whole. */
ET_INLINE vf f_power(vf a, vf x)
{
    const vf size = v_exp(x * f_log(f_abs(a)));
    const vm broken = v_gt(f_fraction(x), v_set(0.0f));
    const vm odd = v_gt(f_fraction(x * v_set(0.5f)), v_set(0.25f));
    const vf mirrored = v_select(odd, v_set(0.0f) - size, size);
    return v_select(v_gt(v_set(0.0f), a), v_select(broken, v_set(NAN), mirrored), size);
}

/* ---- loops ---- */

/* A loop over a block for one row of the table. a, b and x are vectors in the formula: the operands
 * and the step's number. */
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db)                                      \
    static void ew_##id(float *to, const float *a_at, const float *b_at, float x_value, int64_t n) \
    {                                                                                              \
        for (int64_t i = 0; i < n; i += V_LANES) {                                                 \
            const vf a = v_load(a_at + i), b = v_load(b_at + i), x = v_set(x_value);               \
            (void)b, (void)x;                                                                      \
            v_store(to + i, formula);                                                              \
        }                                                                                          \
    }
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE

static ew_fn *const ew_table[ET_EW_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_EW_##id] = ew_##id,
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
};

/* first is a multiple of EW_BLOCK, so of 8: decisions begin at a byte. */
static void ew_dropout(float *to, const float *a, const et_ew_step *step, et_random random,
                       int64_t first, int64_t n)
{
    uint8_t keep[EW_BLOCK / 8 + 1] = { 0 };
    const keep_stream stream = keep_stream_of(random, step->site, step->x);
    const vf scale = v_set(et_dropout_scale(step->x)), zero = v_set(0.0f);
    keep_run(keep, &stream, (uint64_t)first / 8, (int)((n + 7) / 8));
    for (int64_t i = 0; i < n; i += V_LANES)
        v_store(to + i, v_select(v_bits(keep, i), v_load(a + i) * scale, zero));
}

/* An input as float32, with zeros after its end. */
ET_INLINE void ew_load(float *to, const void *from, int64_t first, int64_t n, et_dtype dtype)
{
    for (int64_t i = 0; i < n; i += V_LANES)
        v_store(to + i, v_read_n(from, first + i, n - i, dtype));
}

/* Rounds to nearest even if an output is bfloat16: once, at the end of the chain. */
ET_INLINE void ew_store(void *to, const float *from, int64_t first, int64_t n, et_dtype dtype)
{
    for (int64_t i = 0; i < n; i += V_LANES)
        v_write_n(to, first + i, v_load(from + i), n - i, dtype);
}

/* Repeats a row: elements first .. first + n of the whole buffer. The row starts again every
 * `width` elements: a block may begin in the middle of a row and hold several. With a width of 5,
 * elements 512 .. begin at column 2. */
static void ew_load_row(float *to, const void *row, int64_t first, int64_t n, int64_t width,
                        et_dtype dtype)
{
    for (int64_t done = 0, column = first % width; done < n; column = 0) {
        int64_t run = width - column < n - done ? width - column : n - done;
        for (int64_t i = 0; i < run; i += V_LANES) {
            vf value = v_read_n(row, column + i, run - i, dtype);
            v_put_n(to, done + i, value, run - i);
        }
        done += run;
    }
}

/* One element repeated. */
ET_INLINE void ew_fill(float *to, const void *from, int64_t at, int64_t n, et_dtype dtype)
{
    const vf value = v_set(row_value(from, at, dtype));
    for (int64_t i = 0; i < n; i += V_LANES)
        v_put_n(to, i, value, n - i);
}

/* A number for each row: elements first .. first + n of the whole buffer. */
ET_INLINE void ew_load_column(float *to, const void *column, int64_t first, int64_t n,
                              int64_t width, et_dtype dtype)
{
    for (int64_t done = 0; done < n;) {
        const int64_t row = (first + done) / width, end = (row + 1) * width - first;
        const int64_t run = end < n ? end - done : n - done;
        ew_fill(to + done, column, row, run, dtype);
        done += run;
    }
}

/* Contents of a register: whole float32 blocks are read in place, others become float32 in the
 * register's own buffer. */
static const float *ew_input(const et_ew_program *program, int input, const void *in, float *buffer,
                             int64_t first, int64_t n, int64_t width)
{
    et_dtype dtype = program->input_dtype[input];
    switch (program->broadcast[input]) {
    case ET_EW_FULL:
        if (dtype == ET_F32 && n % V_LANES == 0)
            return (const float *)in + first;
        ET_BY_DTYPE(dtype, ew_load, buffer, in, first, n);
        break;
    case ET_EW_ROW:
        ew_load_row(buffer, in, first, n, width, dtype);
        break;
    case ET_EW_COLUMN:
        ET_BY_DTYPE(dtype, ew_load_column, buffer, in, first, n, width);
        break;
    case ET_EW_ONE:
        ew_fill(buffer, in, 0, n, dtype);
        break;
    }
    return buffer;
}

/* The output of the last step: its final place if that takes whole vectors of float32, else
 * `buffer`. Earlier steps must not write there: an output may share memory with an input that is
 * read after them. */
ET_INLINE float *ew_last(const et_ew_program *program, void *const *out, float *buffer,
                         int64_t first, int64_t n)
{
    const int last = program->step[program->steps - 1].to;
    for (int i = 0; i < program->outputs; i++)
        if (program->output[i] == last && program->output_dtype[i] == ET_F32 && n % V_LANES == 0)
            return (float *)out[i] + first;
    return buffer;
}

/* Runs one block through the whole program. Inputs that are float32 and whole are read in place;
 * everything else has a buffer. A step may write the register that it reads: operations go through
 * a block in order, element by element. */
static void ew_block(const et_ew_program *program, void *const *out, const void *const *in,
                     int64_t first, int64_t n, int64_t width, et_random random)
{
    _Alignas(64) float buffer[EW_REGISTERS][EW_BLOCK];
    const float *reg[EW_REGISTERS];
    int64_t padded = (n + V_LANES - 1) / V_LANES * V_LANES;
    for (int i = 0; i < program->inputs; i++) {
        if (n < padded)
            memset(buffer[i] + padded - V_LANES, 0, V_LANES * sizeof(float));
        reg[i] = ew_input(program, i, in[i], buffer[i], first, n, width);
    }
    for (int i = 0; i < program->steps; i++) {
        const et_ew_step *step = &program->step[i];
        const float *a = reg[step->a], *b = reg[step->b];
        float *to = buffer[step->to];
        if (i == program->steps - 1)
            to = ew_last(program, out, to, first, n);
        if (step->op == ET_EW_DROPOUT)
            ew_dropout(to, a, step, random, first, padded);
        else
            ew_table[step->op](to, a, b, step->x, padded);
        reg[step->to] = to;
    }
    for (int i = 0; i < program->outputs; i++)
        if (reg[program->output[i]] != (const float *)out[i] + first)
            ET_BY_DTYPE(program->output_dtype[i], ew_store, out[i], reg[program->output[i]], first,
                        n);
}

/* begin is a multiple of EW_BLOCK. */
static void elementwise_part(const et_ew_program *program, void *const *out, const void *const *in,
                             int64_t width, et_random random, int64_t begin, int64_t end)
{
    for (int64_t first = begin; first < end; first += EW_BLOCK) {
        int64_t n = end - first < EW_BLOCK ? end - first : EW_BLOCK;
        ew_block(program, out, in, first, n, width, random);
    }
}

/* Shared out by blocks: elements are independent, so cuts change no bit. */
static void elementwise(const et_ew_program *program, void *const *out, const void *const *in,
                        int64_t rows, int64_t width, et_random random)
{
    const int64_t count = rows * width;
    et_assert(program->inputs <= ET_EW_INPUTS_MAX && program->steps <= ET_EW_STEPS_MAX);
    ET_PARALLEL(count >= ET_GRAIN, count, EW_BLOCK, elementwise_part, program, out, in, width,
                random);
}

#endif
