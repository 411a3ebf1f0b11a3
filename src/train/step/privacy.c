/* The Renyi accountant of <etude/privacy.h>. For a whole order a, rate q and noise s,
 *
 *   A(a) = sum over k of binomial(a, k) (1 - q)^(a - k) q^k exp((k^2 - k) / (2 s^2))
 *   rdp(a) = steps log(A(a)) / (a - 1)
 *   epsilon(a) = rdp(a) + log(1 - 1 / a) - log(delta a) / (a - 1)
 *
 * and epsilon is the smallest of them. Terms are summed as logarithms, from the largest. */
#include <etude/privacy.h>

#include <math.h>

enum { ORDER_MAX = 256 };

static double log_term(double q, double s, int a, int k)
{
    double binomial = lgamma(a + 1.0) - lgamma(k + 1.0) - lgamma(a - k + 1.0);
    double rest = k < a ? (a - k) * log1p(-q) : 0;
    return binomial + rest + k * log(q) + ((double)k * k - k) / (2 * s * s);
}

static double log_moment(double q, double s, int a)
{
    double terms[ORDER_MAX + 1], largest = -INFINITY, sum = 0;
    if (q == 1)
        return ((double)a * a - a) / (2 * s * s);
    for (int k = 0; k <= a; k++) {
        terms[k] = log_term(q, s, a, k);
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
