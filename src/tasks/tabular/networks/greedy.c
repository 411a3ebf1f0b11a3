#include "tasks/tabular/networks/networks_private.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/assert.h"

/* A probability of 0 counts as the smallest normal float. */
static double loss_of(double prediction, const double *target, int64_t i)
{
    if (!target)
        return -log(fmax(prediction, (double)FLT_MIN));
    return (prediction - target[i]) * (prediction - target[i]);
}

double et_greedy_loss(const float *prediction, const double *target, int64_t items)
{
    double sum = 0;
    for (int64_t i = 0; i < items; i++)
        sum += loss_of((double)prediction[i], target, i);
    return sum / (double)items;
}

/* The loss with candidate c as the n-th choice. sum: of the predictions of the choices before. */
static double loss_with(const et_greedy *g, const double *sum, int64_t c, int64_t n)
{
    const float *own = g->prediction + c * g->items;
    double loss = 0;
    for (int64_t i = 0; i < g->items; i++)
        loss += loss_of((sum[i] + (double)own[i]) / (double)n, g->target, i);
    return loss / (double)g->items;
}

/* Makes the n-th choice, and adds its predictions to sum. */
static int64_t choose(const et_greedy *g, double *sum, int64_t n, double *loss)
{
    int64_t best = 0;
    *loss = loss_with(g, sum, 0, n);
    for (int64_t c = 1; c < g->candidates; c++) {
        const double with = loss_with(g, sum, c, n);
        if (with < *loss) {
            *loss = with;
            best = c;
        }
    }
    for (int64_t i = 0; i < g->items; i++)
        sum[i] += (double)g->prediction[best * g->items + i];
    return best;
}

int et_greedy_choose(const et_greedy *g, float *share, double *loss, et_error *error)
{
    et_assert(g->candidates >= 1 && g->items >= 1 && g->most >= 1);
    double *sum = et_alloc_zero((size_t)g->items, sizeof *sum);
    int64_t *chosen = et_alloc((size_t)g->most, sizeof *chosen);
    int64_t length = 0;
    *loss = INFINITY;
    for (int64_t n = 0; sum && chosen && n < g->most; n++) {
        double now;
        chosen[n] = choose(g, sum, n + 1, &now);
        if (now < *loss) {
            *loss = now;
            length = n + 1;
        }
    }
    for (int64_t c = 0; c < g->candidates; c++)
        share[c] = 0;
    for (int64_t n = 0; n < length; n++)
        share[chosen[n]] += 1;
    for (int64_t c = 0; c < g->candidates && length; c++)
        share[c] /= (float)length;
    const bool made = sum && chosen;
    et_free(sum);
    et_free(chosen);
    return made ? ET_OK : et_alloc_failed(error, (size_t)g->items * sizeof *sum, "an ensemble");
}
