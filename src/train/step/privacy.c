/* Private updates: their accountant and their reducer. The Renyi accountant of <etude/privacy.h>:
 * for a whole order a, rate q and noise s,
 *
 *   A(a) = sum over k of binomial(a, k) (1 - q)^(a - k) q^k exp((k^2 - k) / (2 s^2))
 *   rdp(a) = steps log(A(a)) / (a - 1)
 *   epsilon(a) = rdp(a) + log(1 - 1 / a) - log(delta a) / (a - 1)
 *
 * and epsilon is the smallest of them. Terms are summed as logarithms, from the largest. */
#include <etude/privacy.h>

#include <math.h>

#include "base/alloc.h"
#include "base/numbers/philox.h"
#include "engine/tensor/params.h"
#include "train/step/reducer.h"

enum { ORDER_MAX = 256 };

static double log_moment(double q, double s, int a)
{
    double terms[ORDER_MAX + 1], largest = -INFINITY, sum = 0;
    if (q == 1)
        return ((double)a * a - a) / (2 * s * s);
    for (int k = 0; k <= a; k++) {
        double binomial = lgamma(a + 1.0) - lgamma(k + 1.0) - lgamma(a - k + 1.0);
        double rest = k < a ? (a - k) * log1p(-q) : 0;
        terms[k] = binomial + rest + k * log(q) + ((double)k * k - k) / (2 * s * s);
        largest = fmax(largest, terms[k]);
    }
    for (int k = 0; k <= a; k++)
        sum += exp(terms[k] - largest);
    return largest + log(sum);
}

int et_privacy_spent(double sampling_rate, double noise_multiplier, int64_t steps, double delta,
                     double *epsilon, int *order, et_error *error)
{
    bool rates = sampling_rate >= 0 && sampling_rate <= 1 && delta > 0 && delta < 1;
    int best = 0;
    if (!rates || !(noise_multiplier >= 0) || steps < 0)
        return et_fail(error, ET_ECONFIG,
                       "sampling rate %g, noise %g, %lld steps, delta %g: give a rate from 0 to 1, "
                       "a delta between 0 and 1, and no negative number",
                       sampling_rate, noise_multiplier, (long long)steps, delta);
    *epsilon = sampling_rate == 0 || steps == 0 ? 0 : INFINITY;
    for (int a = 2; *epsilon > 0 && noise_multiplier > 0 && a <= ORDER_MAX; a++) {
        double rdp = (double)steps * log_moment(sampling_rate, noise_multiplier, a) / (a - 1);
        double found = rdp + log1p(-1.0 / a) - log(delta * a) / (a - 1);
        if (found < *epsilon) {
            *epsilon = fmax(found, 0);
            best = a;
        }
    }
    if (order)
        *order = best;
    return ET_OK;
}

/* ---- the reducer ---- */

/* Gradients are clipped in place, in the store, before the tree reads them. */

typedef struct private_reducer {
    et_reducer reducer;
    et_reducer *tree;
    et_params *params; /* borrowed, as kernels */
    const et_kernels *kernels;
    double norm, noise;
    bool per_example;
} private_reducer;

int et_privacy_check(const et_privacy_options *o, et_error *error)
{
    bool good = !o || (isfinite(o->clipping_norm) && o->clipping_norm >= 0 &&
                       isfinite(o->noise_multiplier) && o->noise_multiplier >= 0);
    if (good)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "clipping_norm %g, noise_multiplier %g: give numbers of at least 0",
                   o->clipping_norm, o->noise_multiplier);
}

static void scale(float *values, int64_t count, double factor)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(values[i] * factor);
}

/* times: divisor that the gradient still needs. A later check handles a norm that is not finite. */
static void clip(const private_reducer *self, float *gradient, double times)
{
    int64_t count = et_params_trained_size(self->params);
    double norm = sqrt(self->kernels->sum_of_squares(gradient, count)) / times;
    if (isfinite(norm) && norm > self->norm)
        scale(gradient, count, self->norm / norm);
}

/* Parameters only, not what pads them. */
static void add_noise(const private_reducer *self, float *gradient, double deviation)
{
    et_random random = { self->reducer.seed, (uint64_t)self->reducer.step,
                         et_random_site("privacy") };
    for (int i = 0; deviation > 0 && i < et_params_count(self->params); i++) {
        if (!et_params_is_trained(self->params, i))
            continue;
        int64_t begin = et_params_offset(self->params, i);
        int64_t end = begin + et_shape_count(et_params_shape(self->params, i));
        for (int64_t k = begin; k < end; k++)
            gradient[k] += (float)(deviation * et_random_normal(random, (uint64_t)k));
    }
}

static void private_begin(et_reducer *reducer)
{
    et_reducer_begin(((private_reducer *)reducer)->tree);
}

/* A clipped gradient is final only after the pass. */
static void private_expect(et_reducer *reducer, int shard)
{
    private_reducer *self = (private_reducer *)reducer;
    if (!self->per_example)
        et_reducer_expect(self->tree, shard);
}

static int private_add(et_reducer *reducer, int shard, const et_pass *pass, et_error *error)
{
    private_reducer *self = (private_reducer *)reducer;
    if (self->per_example)
        clip(self, et_params_gradients(self->params), 1);
    return et_reducer_add(self->tree, shard, pass, error);
}

static int private_end(et_reducer *reducer, et_reduced *out, et_error *error)
{
    private_reducer *self = (private_reducer *)reducer;
    int status = et_reducer_end(self->tree, out, error);
    if (status)
        return status;
    if (!self->per_example) {
        clip(self, out->gradient, out->divisor);
        add_noise(self, out->gradient, self->norm * self->noise * out->divisor);
        return ET_OK;
    }
    add_noise(self, out->gradient, self->norm * self->noise);
    scale(out->gradient, et_params_trained_size(self->params), out->divisor / reducer->shards);
    return ET_OK;
}

static int private_meet(et_reducer *reducer, int status, et_error *error)
{
    et_reducer *tree = ((private_reducer *)reducer)->tree;
    status = et_reducer_meet(tree, status, error);
    reducer->bad = tree->bad;
    return status;
}

static int private_failed(et_reducer *reducer, int shard, int status, et_error *error)
{
    return et_reducer_failed(((private_reducer *)reducer)->tree, shard, status, error);
}

static void private_close(et_reducer *reducer)
{
    et_reducer_close(((private_reducer *)reducer)->tree);
    et_free(reducer);
}

static const et_reducer_class private_class = { .name = "private",
                                                .begin = private_begin,
                                                .expect = private_expect,
                                                .add = private_add,
                                                .end = private_end,
                                                .close = private_close,
                                                .meet = private_meet,
                                                .failed = private_failed };

int et_private_open(et_reducer **reducer, const et_pass *pass, const et_privacy_options *options,
                    et_error *error)
{
    et_reducer *tree = *reducer;
    private_reducer *self = et_alloc_zero(1, sizeof *self);
    if (!self) {
        et_reducer_close(tree);
        *reducer = NULL;
        return et_alloc_failed(error, "a reducer");
    }
    *self = (private_reducer){ .reducer = { .class = &private_class,
                                            .shards = tree->shards,
                                            .first = tree->first,
                                            .end = tree->end,
                                            .whole = tree->whole,
                                            .bytes = tree->bytes },
                               .tree = tree,
                               .params = et_pass_params(pass),
                               .kernels = et_pass_device(pass)->kernels,
                               .norm = options->clipping_norm > 0 ? options->clipping_norm : 1e8,
                               .noise = options->noise_multiplier,
                               .per_example = options->per_example };
    *reducer = &self->reducer;
    return ET_OK;
}
