/* A block is 32 x 32 sums in four tiles, each [16, 16] float32. A step of k, 32 of them, loads two
 * tiles of A, [16, 32] bfloat16, and two of B, [16 pairs, 16, 2], for four products. A panel of B,
 * up to some hundred k, and the 32 rows of A stay in the first-level cache.
 *
 * Tiles are configured at the beginning of a call and released at its end, so oneDNN's products,
 * which configure them in their own way, never meet ours, and a thread that waits has no tiles to
 * save. */
#include "engine/kernel/gemm/tile_product.h"

#include <string.h>

#include "base/assert.h"
#include "engine/kernel/gemm/gemm.h"

#if defined(__x86_64__) && defined(__linux__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define HAS_TILES 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define HAS_TILES 0
#endif

#define TILE 16

#if HAS_TILES

/* Linux lets a process use tiles after it has asked (arch/x86/include/uapi/asm/prctl.h). */
#define ASK_FOR_STATE  0x1023
#define STATE_OF_TILES 18L

/* gemm.h asks the CPU, and honours the variables that limit oneDNN's instructions. */
bool et_tile_product_works(void)
{
    return et_gemm_has_amx() && syscall(SYS_arch_prctl, ASK_FOR_STATE, STATE_OF_TILES) == 0;
}

typedef struct tile_shapes {
    uint8_t palette, start_row, unused[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} tile_shapes;

/* Tiles 0 to 3 are sums, 4 and 5 are of A, 6 and 7 of B. */
static tile_shapes all_tiles(void)
{
    tile_shapes shapes = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        shapes.bytes[i] = 64;
        shapes.rows[i] = TILE;
    }
    return shapes;
}

__attribute__((target("amx-tile,amx-bf16"))) static void
block(float *c, int64_t ldc, const et_bf16 *a, int64_t lda, const et_bf16 *panel, int64_t k)
{
    const int64_t row = lda * (int64_t)sizeof *a, panel_row = ET_TILE_UNIT * 4;
    const int64_t c_row = ldc * (int64_t)sizeof *c;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t l = 0; l < k; l += ET_TILE_UNIT) {
        const et_bf16 *b = panel + l * ET_TILE_UNIT;
        _tile_loadd(4, a + l, row);
        _tile_loadd(6, b, panel_row);
        _tile_loadd(7, b + (size_t)TILE * 2, panel_row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + TILE * lda + l, row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_row);
    _tile_stored(1, c + TILE, c_row);
    _tile_stored(2, c + TILE * ldc, c_row);
    _tile_stored(3, c + TILE * ldc + TILE, c_row);
}

__attribute__((target("amx-tile,amx-bf16"))) void et_tile_product(float *c, int64_t ldc,
                                                                  const et_bf16 *a, int64_t lda,
                                                                  const et_bf16 *panels, int64_t n,
                                                                  int64_t k)
{
    const tile_shapes shapes = all_tiles();
    et_assert(n % ET_TILE_UNIT == 0 && k % ET_TILE_UNIT == 0 && ldc >= n && lda >= k);
    _tile_loadconfig(&shapes);
    for (int64_t j = 0; j < n; j += ET_TILE_UNIT)
        block(c + j, ldc, a, lda, panels + j * k, k);
    _tile_release();
}

#else

bool et_tile_product_works(void)
{
    return false;
}

void et_tile_product(float *c, int64_t ldc, const et_bf16 *a, int64_t lda, const et_bf16 *panels,
                     int64_t n, int64_t k)
{
    (void)c, (void)ldc, (void)a, (void)lda, (void)panels, (void)n, (void)k;
    et_assert(!"no tiles: ask et_tile_product_works");
}

#endif

bool et_tile_product_for(const et_kernels *kernels)
{
    return strcmp(kernels->name, "avx512bf16") == 0 && et_tile_product_works();
}
