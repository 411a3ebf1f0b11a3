/* Clipping: limits of a gradient before a rule sees it. A list of clips acts in its order, each on
 * the result of the earlier ones: values one by one, the norm of each tensor, the norm of all.
 * Norms become factors of the scale that rules multiply gradients with, so they cost no pass;
 * clipped values are written. To add one: a class here, and its users (rule.h). Private to this
 * folder. */
#ifndef ETUDE_ENGINE_OPTIM_RULES_CLIP_H
#define ETUDE_ENGINE_OPTIM_RULES_CLIP_H

#include <stdint.h>

#define ET_CLIPS_MAX 4

typedef enum et_clip_scope { ET_CLIP_VALUES, ET_CLIP_TENSORS, ET_CLIP_ALL } et_clip_scope;

typedef struct et_clip_class {
    const char *name;
    et_clip_scope scope;
    /* Of scope VALUES: changes each value of gradient. */
    void (*values)(float *gradient, int64_t count, float limit);
    /* For the other kinds: the factor for a gradient of that L2 norm; 1 if it is small enough. */
    double (*factor)(double norm, double limit);
} et_clip_class;

typedef struct et_clip {
    const et_clip_class *class;
    double limit; /* above 0 */
} et_clip;

extern const et_clip_class et_clip_value;       /* min(max(g, -limit), limit) */
extern const et_clip_class et_clip_norm;        /* each tensor: g limit / max(norm, limit) */
extern const et_clip_class et_clip_global_norm; /* the same by the norm of all */

/* Appends class with limit to a list of count clips unless limit is 0; returns the new count. */
int et_clip_add(et_clip clips[ET_CLIPS_MAX], int count, const et_clip_class *class, double limit);

#endif
