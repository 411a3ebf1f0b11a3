/* The table of sinusoidal positions [rows, dim], as at et_sinusoid (<etude/ops.h>). */
#ifndef ETUDE_ENGINE_KERNEL_POSITIONS_H
#define ETUDE_ENGINE_KERNEL_POSITIONS_H

#include <stdbool.h>
#include <stdint.h>

/* dim is even and 4 at least. open: as at et_sinusoid_open (engine/graph/build.h). */
void et_positions_fill(float *table, int64_t rows, int64_t dim, bool open);

#endif
