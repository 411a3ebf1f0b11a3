/* A thread that fills batches ahead of the step that uses them. Batches, order and positions
 * are those of the source within; an error of it comes out of next where its batch would have
 * been, and again on every later call. The position is that of what was handed out, not of
 * what was read ahead. */
#ifndef ETUDE_DATA_PREFETCH_H
#define ETUDE_DATA_PREFETCH_H

#include "data/pair_source.h"

/* Wraps inner, which it owns from then on (on failure the caller still does). depth: batches
 * ahead, at least 1; their memory is taken here and then recycled. */
int et_pair_prefetch_open(et_pair_source **out, et_pair_source *inner, int depth, et_error *error);

#endif
