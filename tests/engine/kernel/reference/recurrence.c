/* The recurrence of the SSRU as its formulas have it, in double (engine/kernel/arguments.h).
 */
#include <math.h>

#include "engine/kernel/reference/reference.h"

static double forget(const et_recurrence *r, int64_t at)
{
    return 1 / (1 + exp(-et_reference_load(r->gate, at, r->dtype)));
}

void et_reference_recurrence(void *c, const et_recurrence *r)
{
    for (int64_t s = 0; s < r->segments; s++)
        for (int64_t d = 0; d < r->width; d++) {
            const int64_t begin = r->offsets ? r->offsets[s] : s;
            const int64_t end = r->offsets ? r->offsets[s + 1] : s + 1;
            double sum = 0;
            if (r->where && r->where[2 * s] >= 0)
                sum = (double)r->state[r->where[2 * s] * r->width + d];
            for (int64_t t = begin; t < end; t++) {
                const int64_t at = t * r->width + d;
                const double f = forget(r, at);
                sum = f * sum + (1 - f) * et_reference_load(r->x, at, r->dtype);
                et_reference_store(c, at, sum, r->dtype);
            }
            if (r->where)
                r->state[r->where[2 * s + 1] * r->width + d] = (float)sum;
        }
}

void et_reference_recurrence_grad(void *dx, void *dgate, const void *dc, const void *c,
                                  const et_recurrence *r)
{
    for (int64_t s = 0; s < r->segments; s++)
        for (int64_t d = 0; d < r->width; d++) {
            double later = 0;
            for (int64_t t = r->offsets[s + 1]; t-- > r->offsets[s];) {
                const int64_t at = t * r->width + d;
                const double f = forget(r, at), e = et_reference_load(dc, at, r->dtype) + later;
                const double before =
                    t > r->offsets[s] ? et_reference_load(c, at - r->width, r->dtype) : 0;
                const double x = et_reference_load(r->x, at, r->dtype);
                if (dx)
                    et_reference_store(dx, at, e * (1 - f), r->dtype);
                if (dgate)
                    et_reference_store(dgate, at, e * (before - x) * f * (1 - f), r->dtype);
                later = f * e;
            }
        }
}
