/* The formulas of conv.h, with one sum for each element. */
#include "engine/kernel/reference/reference.h"

/* Element (row, column, channel) of a sample of x, or of y; of w. */
static int64_t in_x(const et_conv_shape *s, int64_t n, int64_t i, int64_t j, int64_t c)
{
    return ((n * s->down.in + i) * s->across.in + j) * s->channels + c;
}

static int64_t in_y(const et_conv_shape *s, int64_t n, int64_t i, int64_t j, int64_t f)
{
    return ((n * s->down.out + i) * s->across.out + j) * s->filters + f;
}

static int64_t in_w(const et_conv_shape *s, int64_t k, int64_t l, int64_t c, int64_t f)
{
    return ((k * s->across.kernel + l) * s->channels + c) * s->filters + f;
}

/* The input that output o meets with element k of the window; -1: it is outside. */
static int64_t met(const et_window *w, int64_t o, int64_t k)
{
    int64_t i = o * w->stride - w->before + k * w->dilation;
    return i >= 0 && i < w->in ? i : -1;
}

static double forward_one(const et_conv_shape *s, const void *x, const float *w, int64_t n,
                          int64_t i, int64_t j, int64_t f)
{
    double sum = 0;
    for (int64_t k = 0; k < s->down.kernel; k++)
        for (int64_t l = 0; l < s->across.kernel; l++) {
            int64_t row = met(&s->down, i, k), column = met(&s->across, j, l);
            for (int64_t c = 0; c < s->channels && row >= 0 && column >= 0; c++)
                sum += et_reference_load(x, in_x(s, n, row, column, c), s->dtype) *
                       (double)w[in_w(s, k, l, c, f)];
        }
    return sum;
}

static void forward(const et_conv_shape *s, void *y, const void *x, const float *w,
                    const float *bias)
{
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t i = 0; i < s->down.out; i++)
            for (int64_t j = 0; j < s->across.out; j++)
                for (int64_t f = 0; f < s->filters; f++) {
                    double sum = forward_one(s, x, w, n, i, j, f) + (bias ? (double)bias[f] : 0);
                    et_reference_store(y, in_y(s, n, i, j, f),
                                       s->relu ? et_reference_relu(sum) : sum, s->dtype);
                }
}

/* Of all outputs those whose window meets the element. */
static double data_one(const et_conv_shape *s, const void *dy, const float *w, int64_t n,
                       int64_t row, int64_t column, int64_t c)
{
    double sum = 0;
    for (int64_t i = 0; i < s->down.out; i++)
        for (int64_t j = 0; j < s->across.out; j++)
            for (int64_t k = 0; k < s->down.kernel; k++)
                for (int64_t l = 0; l < s->across.kernel; l++)
                    for (int64_t f = 0; f < s->filters && met(&s->down, i, k) == row &&
                                        met(&s->across, j, l) == column;
                         f++)
                        sum += et_reference_load(dy, in_y(s, n, i, j, f), s->dtype) *
                               (double)w[in_w(s, k, l, c, f)];
    return sum;
}

static void data(const et_conv_shape *s, void *dx, const void *dy, const float *w)
{
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t i = 0; i < s->down.in; i++)
            for (int64_t j = 0; j < s->across.in; j++)
                for (int64_t c = 0; c < s->channels; c++)
                    et_reference_store(dx, in_x(s, n, i, j, c), data_one(s, dy, w, n, i, j, c),
                                       s->dtype);
}

static double weight_one(const et_conv_shape *s, const void *x, const void *dy, int64_t k,
                         int64_t l, int64_t c, int64_t f)
{
    double sum = 0;
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t i = 0; i < s->down.out; i++)
            for (int64_t j = 0; j < s->across.out; j++) {
                int64_t row = met(&s->down, i, k), column = met(&s->across, j, l);
                if (row >= 0 && column >= 0)
                    sum += et_reference_load(x, in_x(s, n, row, column, c), s->dtype) *
                           et_reference_load(dy, in_y(s, n, i, j, f), s->dtype);
            }
    return sum;
}

static void weight(const et_conv_shape *s, float *dw, const void *x, const void *dy)
{
    for (int64_t k = 0; k < s->down.kernel; k++)
        for (int64_t l = 0; l < s->across.kernel; l++)
            for (int64_t c = 0; c < s->channels; c++)
                for (int64_t f = 0; f < s->filters; f++)
                    dw[in_w(s, k, l, c, f)] = (float)weight_one(s, x, dy, k, l, c, f);
}

void et_conv_reference(et_conv_kind kind, const et_conv_shape *shape, void *out, const void *a,
                       const void *b, const float *bias)
{
    if (kind == ET_CONV_FORWARD)
        forward(shape, out, a, b, bias);
    else if (kind == ET_CONV_DATA)
        data(shape, out, a, b);
    else
        weight(shape, out, a, b);
}
