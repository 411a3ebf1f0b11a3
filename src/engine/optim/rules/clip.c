/* Clipping by norm: Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent
 * neural networks". */
#include "engine/optim/rules/clip.h"

#include <stddef.h>

#include "base/assert.h"

static void clamp(float *gradient, int64_t count, float limit)
{
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i];
        g = g < -limit ? -limit : g;
        gradient[i] = g > limit ? limit : g;
    }
}

static double shorten(double norm, double limit)
{
    return norm > limit ? limit / norm : 1;
}

const et_clip_class et_clip_value = { "value", ET_CLIP_VALUES, clamp, NULL };
const et_clip_class et_clip_norm = { "norm", ET_CLIP_TENSORS, NULL, shorten };
const et_clip_class et_clip_global_norm = { "global norm", ET_CLIP_ALL, NULL, shorten };

int et_clip_add(et_clip clips[ET_CLIPS_MAX], int count, const et_clip_class *class, double limit)
{
    if (limit <= 0)
        return count;
    et_assert(count < ET_CLIPS_MAX);
    clips[count] = (et_clip){ class, limit };
    return count + 1;
}
