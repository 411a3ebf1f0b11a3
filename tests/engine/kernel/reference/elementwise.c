/* Element-wise programs, one element at a time: registers are doubles: the inputs first, then one
 * register for each step. elementwise.def has the formulas; this file has the functions that they
 * call. gelu is exact, x Phi(x) with the normal distribution function (Hendrycks and Gimpel 2016,
 * "Gaussian error linear units"), its slope Phi(x) + x phi(x). */
#include "base/assert.h"
#include "engine/kernel/reference/reference.h"

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

#define f_set(number)   ((double)(number))
#define f_exp           exp
#define f_log           log
#define f_sqrt          sqrt
#define f_tanh          tanh
#define f_sin(a)        (fabs(a) > 65536 ? NAN : sin(a))
#define f_cos(a)        (fabs(a) > 65536 ? NAN : cos(a))
#define f_abs           fabs
#define f_power         pow
#define f_gelu(a)       ((a)*phi(a))
#define f_gelu_slope(b) (phi(b) + (b)*phi_density(b))
#define f_dropout(a)    dropout(a, step, random, element)

/* 1 / (1 + e^-x) */
static double f_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double f_swish_grad(double dy, double x)
{
    return dy * f_sigmoid(x) * (1.0 + x * (1.0 - f_sigmoid(x)));
}

/* log(1 + e^x), in a form that cannot overflow. */
static double f_softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* Klambauer, Unterthiner, Mayr and Hochreiter 2017: l x, l m (e^x - 1). */
static double f_selu(double x)
{
    return x > 0 ? 1.0507009873554805 * x : 1.0507009873554805 * 1.6732632423543772 * expm1(x);
}

static double f_selu_grad(double dy, double y)
{
    return dy * 1.0507009873554805 * (y > 0 ? 1 : y / 1.0507009873554805 + 1.6732632423543772);
}

static double f_mish_grad(double dy, double x)
{
    const double t = tanh(f_softplus(x));
    return dy * (t + x * f_sigmoid(x) * (1 - t * t));
}

/* A NaN stays. */
static double f_at_least(double a, double bound)
{
    return a < bound ? bound : a;
}

static double f_at_most(double a, double bound)
{
    return a > bound ? bound : a;
}

/* A derivative of relu at 0 is 0. */
static double f_where_positive(double b, double a)
{
    return b > 0 ? a : 0.0;
}

/* The same numbers as every table of kernels: by (seed, step, site, element). */
static double dropout(double a, const et_ew_step *step, et_random random, int64_t element)
{
    random.site = step->site;
    bool keep = et_reference_keep(random, step->x, (uint64_t)element);
    return keep ? a * et_dropout_scale(step->x) : 0.0;
}

/* One step on one element, with registers a and b. */
static double apply(const et_ew_step *step, double a, double b, et_random random, int64_t element)
{
    const double x = step->x;
    switch (step->op) {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db)                                      \
    case ET_EW_##id:                                                                               \
        return formula;
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
    case ET_EW_OP_COUNT:
        break;
    }
    return NAN;
}

/* The index of an input's element for element e. */
static int64_t place_of(et_ew_broadcast broadcast, int64_t e, int64_t width)
{
    switch (broadcast) {
    case ET_EW_FULL:
        return e;
    case ET_EW_ROW:
        return e % width;
    case ET_EW_COLUMN:
        return e / width;
    case ET_EW_ONE:
        break;
    }
    return 0;
}

void et_reference_elementwise(const et_ew_program *program, void *const *out, const void *const *in,
                              int64_t rows, int64_t width, et_random random)
{
    et_assert(program->inputs <= ET_EW_INPUTS_MAX && program->steps <= ET_EW_STEPS_MAX);
    for (int64_t e = 0; e < rows * width; e++) {
        double reg[ET_EW_INPUTS_MAX + ET_EW_STEPS_MAX];
        for (int i = 0; i < program->inputs; i++) {
            int64_t at = place_of(program->broadcast[i], e, width);
            reg[i] = et_reference_load(in[i], at, program->input_dtype[i]);
        }
        for (int i = 0; i < program->steps; i++) {
            const et_ew_step *step = &program->step[i];
            reg[step->to] = apply(step, reg[step->a], reg[step->b], random, e);
        }
        for (int i = 0; i < program->outputs; i++)
            et_reference_store(out[i], e, reg[program->output[i]], program->output_dtype[i]);
    }
}
