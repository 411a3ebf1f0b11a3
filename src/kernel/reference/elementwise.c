/* Element-wise programs, one element at a time: registers are doubles, inputs first, then a
 * register for each step. Formulas of the operations with a the operand, and for derivatives a =
 * dy and b the input (tanh, sigmoid: the output), stand in apply below; gelu is the exact one, x
 * Phi(x) with the normal distribution function (Hendrycks and Gimpel 2016, "Gaussian error
 * linear units"), and its derivative Phi(x) + x phi(x). */
#include "base/assert.h"
#include "kernel/reference/reference.h"

#include <math.h>

static double phi(double x) /* the normal distribution function */
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

/* exp(-x^2 / 2) / sqrt(2 pi) */
static double phi_density(double x)
{
    return exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
}

/* 1 / (1 + e^-x) */
static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* The same numbers as every table of kernels: by (seed, step, site, element). */
static double dropout(double a, const et_ew_step *step, et_random random, int64_t element)
{
    random.site = step->site;
    bool keep = et_reference_keep(random, step->x, (uint64_t)element);
    return keep ? a * et_dropout_scale(step->x) : 0.0;
}

/* One step on one element, with registers a and b. A derivative of relu at 0 is 0. */
static double apply(const et_ew_step *step, double a, double b, et_random random, int64_t element)
{
    switch (step->op) {
    case ET_EW_ADD:
        return a + b;
    case ET_EW_SUB:
        return a - b;
    case ET_EW_MUL:
        return a * b;
    case ET_EW_SCALE:
        return a * step->x;
    case ET_EW_RELU:
        return et_reference_relu(a);
    case ET_EW_GELU:
        return a * phi(a);
    case ET_EW_TANH:
        return tanh(a);
    case ET_EW_SIGMOID:
        return sigmoid(a);
    case ET_EW_SWISH:
        return a * sigmoid(a);
    case ET_EW_RELU_GRAD:
        return b > 0 ? a : 0.0;
    case ET_EW_GELU_GRAD:
        return a * (phi(b) + b * phi_density(b));
    case ET_EW_TANH_GRAD:
        return a * (1.0 - b * b);
    case ET_EW_SIGMOID_GRAD:
        return a * b * (1.0 - b);
    case ET_EW_SWISH_GRAD:
        return a * sigmoid(b) * (1.0 + b * (1.0 - sigmoid(b)));
    case ET_EW_DROPOUT:
        return dropout(a, step, random, element);
    case ET_EW_OP_COUNT:
        break;
    }
    return NAN;
}

/* A row that is repeated is read at its column; ops of one operand get 0 as the second. */
void et_reference_elementwise(const et_ew_program *program, void *const *out, const void *const *in,
                              int64_t rows, int64_t width, et_random random)
{
    et_assert(program->inputs <= ET_EW_INPUTS_MAX && program->steps <= ET_EW_STEPS_MAX);
    for (int64_t e = 0; e < rows * width; e++) {
        double reg[ET_EW_INPUTS_MAX + ET_EW_STEPS_MAX];
        for (int i = 0; i < program->inputs; i++) {
            bool full = program->broadcast[i] == ET_EW_FULL;
            reg[i] = et_reference_load(in[i], full ? e : e % width, program->input_dtype[i]);
        }
        for (int i = 0; i < program->steps; i++) {
            const et_ew_step *step = &program->step[i];
            /* ADD to MUL and the derivatives have two operands. */
            bool binary = step->op <= ET_EW_MUL ||
                          (step->op >= ET_EW_RELU_GRAD && step->op <= ET_EW_SWISH_GRAD);
            reg[step->to] = apply(step, reg[step->a], binary ? reg[step->b] : 0, random, e);
        }
        for (int i = 0; i < program->outputs; i++)
            et_reference_store(out[i], e, reg[program->output[i]], program->output_dtype[i]);
    }
}
