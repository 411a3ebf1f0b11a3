/* The placement of parameters on servers. Trained parameters go to servers in turn, in order of
 * declaration (TensorFX's device setter). If the optimizer works element by element, a large tensor
 * is cut along its first dimension, one piece per server. Every task computes the same placement
 * for the same model.
 *
 * Messages contain a server's values, gradients or slots as its pieces one after another, in this
 * order, without padding. */
#ifndef ETUDE_ROLES_PLACEMENT_H
#define ETUDE_ROLES_PLACEMENT_H

#include <etude/params.h>

#define ET_PLACEMENT_LARGE ((int64_t)1 << 18) /* elements: larger or equal tensors are cut */

typedef struct et_placement_shard {
    int param;            /* in the store */
    int64_t begin, count; /* elements of the tensor */
    et_shape shape;
} et_placement_shard;

typedef struct et_placement {
    int servers;
    et_placement_shard *shards; /* by server, owned */
    int *first;                 /* [servers + 1]: of the pieces, owned */
    int64_t *floats;            /* [servers]: elements, owned */
} et_placement;

/* ET_ECONFIG: a server would have nothing. */
int et_placement_make(et_placement *placement, const et_params *params, int servers, bool cuts,
                      et_error *error);
void et_placement_release(et_placement *placement);

/* A hash of names, shapes, pieces and seed. Tasks that fit together have the same hash. */
uint64_t et_placement_fingerprint(const et_placement *placement, const et_params *params,
                                  uint64_t seed);

/* Between a server's values and a flat array of the store (its values or gradients). */
void et_placement_gather(const et_placement *placement, const et_params *params, int server,
                         const float *flat, float *values);
/* values: aligned to nothing. */
void et_placement_scatter(const et_placement *placement, const et_params *params, int server,
                          const void *values, float *flat);

#endif
