/* Element-wise programs: blocks of EW_BLOCK elements, every register a block of float32 in
 * cache. A block begins at a multiple of EW_BLOCK in the whole buffer, so that dropout's bits
 * begin at a byte.
 *
 * A chain of operations goes over a block of 512 elements before the next block is begun: its
 * registers, at most ET_EW_INPUTS_MAX + ET_EW_STEPS_MAX of 2 KiB, stay in the first- and
 * second-level cache, and memory is read and written once however long the chain is.
 *
 * Blocks end where the array ends, in a part of a vector: registers are whole vectors, whatever
 * stands behind the end, and only stores look at it. */

#define EW_BLOCK     512
#define EW_REGISTERS (ET_EW_INPUTS_MAX + ET_EW_STEPS_MAX)

/* n is a multiple of V_LANES. A unary operation ignores b. */
typedef void ew_fn(float *to, const float *a, const float *b, float x, int64_t n);

/* A loop over a block for one operation. a, b and x are vectors in the expression: the operands and
 * the step's number. EW_OP(add, a + b) is the function ew_add: to[i] = a_at[i] + b_at[i], a vector
 * at a time. */
#define EW_OP(name, expression)                                                                    \
    static void ew_##name(float *to, const float *a_at, const float *b_at, float x_value,          \
                          int64_t n)                                                               \
    {                                                                                              \
        for (int64_t i = 0; i < n; i += V_LANES) {                                                 \
            const vf a = v_load(a_at + i), b = v_load(b_at + i), x = v_set(x_value);               \
            (void)b, (void)x;                                                                      \
            v_store(to + i, expression);                                                           \
        }                                                                                          \
    }

/* dy (Phi(x) + x phi(x)), with 0.3989 = 1 / sqrt(2 pi). */
static inline vf gelu_grad(vf a, vf b)
{
    vf exponential, phi = v_phi(b, &exponential);
    return a * v_fma(b * v_set(0.39894228f), exponential, phi);
}

/* x Phi(x); v_phi also gives the density's exponential, which only the derivative needs. */
static inline vf gelu(vf a)
{
    vf exponential;
    return a * v_phi(a, &exponential);
}

/* dy s (1 + x (1 - s)), s the logistic function of x. */
static inline vf swish_grad(vf a, vf b)
{
    vf s = v_sigmoid(b);
    return a * s * v_fma(b, v_set(1.0f) - s, v_set(1.0f));
}

EW_OP(add, a + b)
EW_OP(sub, a - b)
EW_OP(mul, (a)*b)
EW_OP(scale, (a)*x)
EW_OP(relu, v_max(v_set(0.0f), a))
EW_OP(gelu, gelu(a))
EW_OP(tanh, v_tanh(a))
EW_OP(sigmoid, v_sigmoid(a))
EW_OP(swish, (a)*v_sigmoid(a))
EW_OP(relu_grad, v_select(v_gt(b, v_set(0.0f)), a, v_set(0.0f)))
EW_OP(gelu_grad, gelu_grad(a, b))
EW_OP(tanh_grad, (a) * (v_set(1.0f) - b * b))
EW_OP(sigmoid_grad, (a)*b *(v_set(1.0f) - b))
EW_OP(swish_grad, swish_grad(a, b))

/* ORDER et_ew_op. Dropout is no row: it needs the element's number. */
static ew_fn *const ew_table[ET_EW_OP_COUNT] = {
    [ET_EW_ADD] = ew_add,
    [ET_EW_SUB] = ew_sub,
    [ET_EW_MUL] = ew_mul,
    [ET_EW_SCALE] = ew_scale,
    [ET_EW_RELU] = ew_relu,
    [ET_EW_GELU] = ew_gelu,
    [ET_EW_TANH] = ew_tanh,
    [ET_EW_SIGMOID] = ew_sigmoid,
    [ET_EW_SWISH] = ew_swish,
    [ET_EW_RELU_GRAD] = ew_relu_grad,
    [ET_EW_GELU_GRAD] = ew_gelu_grad,
    [ET_EW_TANH_GRAD] = ew_tanh_grad,
    [ET_EW_SIGMOID_GRAD] = ew_sigmoid_grad,
    [ET_EW_SWISH_GRAD] = ew_swish_grad,
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

/* An input as float32, zeros behind its end. */
ET_INLINE void ew_load(float *to, const void *from, int64_t first, int64_t n, et_dtype dtype)
{
    for (int64_t i = 0; i < n; i += V_LANES)
        v_store(to + i, v_read_n(from, first + i, n - i, dtype));
}

/* Rounded to nearest even where an output is bfloat16: once, at the end of the chain. */
ET_INLINE void ew_store(void *to, const float *from, int64_t first, int64_t n, et_dtype dtype)
{
    for (int64_t i = 0; i < n; i += V_LANES)
        v_write_n(to, first + i, v_load(from + i), n - i, dtype);
}

/* A row repeated: elements first .. first + n of the whole buffer. The row begins anew every
 * `width` elements: a block may begin in the middle of one and hold several. Of a width of 5,
 * elements 512 .. begin at column 2. */
static void ew_load_row(float *to, const void *row, int64_t first, int64_t n, int64_t width,
                        et_dtype dtype)
{
    for (int64_t done = 0, column = first % width; done < n; column = 0) {
        int64_t run = width - column < n - done ? width - column : n - done;
        for (int64_t i = 0; i < run; i += V_LANES) {
            vf value = v_read_n(row, column + i, run - i, dtype);
            v_write_n(to, done + i, value, run - i, ET_F32);
        }
        done += run;
    }
}

/* Register contents: whole float32 blocks are read where they are, others become float32 in
 * the register's own buffer. */
static const float *ew_input(const et_ew_program *program, int input, const void *in, float *buffer,
                             int64_t first, int64_t n, int64_t width)
{
    et_dtype dtype = program->input_dtype[input];
    if (program->broadcast[input] == ET_EW_ROW)
        ew_load_row(buffer, in, first, n, width, dtype);
    else if (dtype == ET_F32 && n % V_LANES == 0)
        return (const float *)in + first;
    else
        ET_BY_DTYPE(dtype, ew_load, buffer, in, first, n);
    return buffer;
}

/* One block through the whole program. Inputs that are float32 and whole are read where they lie;
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
        bool binary =
            step->op <= ET_EW_MUL || (step->op >= ET_EW_RELU_GRAD && step->op <= ET_EW_SWISH_GRAD);
        const float *a = reg[step->a], *b = binary ? reg[step->b] : a;
        if (step->op == ET_EW_DROPOUT)
            ew_dropout(buffer[step->to], a, step, random, first, padded);
        else
            ew_table[step->op](buffer[step->to], a, b, step->x, padded);
        reg[step->to] = buffer[step->to];
    }
    for (int i = 0; i < program->outputs; i++)
        ET_BY_DTYPE(program->output_dtype[i], ew_store, out[i], reg[program->output[i]], first, n);
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
    ET_SHARE(count >= ET_GRAIN, count, EW_BLOCK, elementwise_part, program, out, in, width, random);
}
