/* Batches whose samples have other numbers than those of the samples within: what is kept of a
 * step says by them which samples it was of, whichever of several data they are in, or whichever
 * part of the data a process reads. Model Garden gives each line of a text an id. */
#ifndef ETUDE_DATA_BATCHES_NUMBERED_H
#define ETUDE_DATA_BATCHES_NUMBERED_H

#include <etude/data.h>

/* Sample i of inner becomes first + i stride. Owns inner from then on. */
int et_numbered_open(et_source **out, et_source *inner, uint32_t first, uint32_t stride,
                     et_error *error);

#endif
