/* A window that moves along one direction of an image: output o covers the inputs o * stride -
 * before + i * dilation, i < kernel, that are in 0 .. in - 1. "Same" gives an output for each
 * stride, with the missing inputs divided between both ends, an odd one at the end (as in
 * TensorFlow). Otherwise the window stays inside. */
#ifndef ETUDE_ENGINE_KERNEL_WINDOW_H
#define ETUDE_ENGINE_KERNEL_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct et_window {
    int64_t in, out; /* out below 1: the window does not fit */
    int64_t kernel, stride, dilation;
    int64_t before, after; /* missing elements at the two ends */
} et_window;

static inline et_window et_window_of(int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                                     bool same)
{
    et_window w = { .in = in, .kernel = kernel, .stride = stride, .dilation = dilation };
    const int64_t span = (kernel - 1) * dilation + 1;
    if (!same) {
        w.out = in < span ? 0 : (in - span) / stride + 1;
        return w;
    }
    w.out = (in + stride - 1) / stride;
    const int64_t missing = (w.out - 1) * stride + span - in;
    w.before = missing > 0 ? missing / 2 : 0;
    w.after = missing > 0 ? missing - w.before : 0;
    return w;
}

/* Inputs of output o, for a window without dilation: first .. last - 1. */
static inline int64_t et_window_first(const et_window *w, int64_t o)
{
    const int64_t first = o * w->stride - w->before;
    return first > 0 ? first : 0;
}

static inline int64_t et_window_last(const et_window *w, int64_t o)
{
    const int64_t last = o * w->stride - w->before + w->kernel;
    return last < w->in ? last : w->in;
}

/* The outputs whose windows hold input i: first .. last - 1. */
static inline int64_t et_window_first_over(const et_window *w, int64_t i)
{
    const int64_t at = i + w->before - w->kernel + 1;
    return at > 0 ? (at + w->stride - 1) / w->stride : 0;
}

static inline int64_t et_window_last_over(const et_window *w, int64_t i)
{
    const int64_t last = (i + w->before) / w->stride + 1;
    return last < w->out ? last : w->out;
}

#endif
