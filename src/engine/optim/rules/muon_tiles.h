/* Muon's iterations (muon.c) in bfloat16 with AMX's tiles (kernel/tile_product.h). */
#ifndef ETUDE_ENGINE_OPTIM_RULES_MUON_TILES_H
#define ETUDE_ENGINE_OPTIM_RULES_MUON_TILES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/kernel/kernels.h"

/* Floats of scratch for a matrix [side, length], side the smaller. */
size_t et_muon_tiles_scratch(int64_t side, int64_t length);

/* g [rows, columns], of norm 1, becomes nearly orthogonal. The table is one that tiles are for. */
void et_muon_tiles(const et_kernels *kernels, float *g, float *scratch, int64_t rows,
                   int64_t columns, int64_t iterations);

#endif
