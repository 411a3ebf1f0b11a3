/* Initial values: one loop over pieces of the flat array, which threads share, so many small
 * parameters and one large one take equally long.
 *
 * Every number is counted (base/numbers/philox.h): a function of the seed, the parameter's name and
 * the element's place in the parameter, at step 0. Pieces and threads change no number, and a new
 * layer does not change the initial values of others. Padding between parameters stays zero. */
#include <etude/layers.h>

#include <math.h>

#include "base/assert.h"
#include "base/numbers/philox.h"
#include "base/threads/team.h"
#include "engine/kernel/kernels.h"
#include "engine/tensor/params.h"

/* Elements that a thread takes at once: 32 KiB of values. This is below ET_GRAIN, so that kernels
 * start no threads of their own in a piece, and gives some hundreds of pieces for a model of a few
 * million weights, so that threads finish together. */
#define PIECE 8192

/* Draws again any number that is too far out, from the next step's numbers; that is one in twenty.
 */
static void truncate(float *to, int64_t first, int64_t count, float scale, et_random random)
{
    for (int64_t i = 0; i < count; i++)
        for (random.step = 1; fabsf(to[i]) > 2 * scale; random.step++)
            to[i] = scale * et_random_normal(random, (uint64_t)(first + i));
}

/* Draws elements first .. first + count of parameter index; to: the address of element `first`. The
 * kernel needs `first` as well: it counts from the parameter's own beginning. */
static void draw(const et_kernels *kernels, const et_params *params, int index, float *to,
                 int64_t first, int64_t count, uint64_t seed)
{
    et_init init = et_params_init(params, index);
    et_random random = { seed, 0, et_random_site(et_params_name(params, index)) };
    switch (init.kind) {
    case ET_INIT_UNIFORM:
        kernels->draw_uniform(to, first, count, init.scale, random);
        break;
    case ET_INIT_NORMAL:
    case ET_INIT_TRUNCATED_NORMAL:
        kernels->draw_normal(to, first, count, init.scale, random);
        if (init.kind == ET_INIT_TRUNCATED_NORMAL)
            truncate(to, first, count, init.scale, random);
        break;
    default:
        et_assert(init.kind == ET_INIT_ZEROS || init.kind == ET_INIT_ONES);
        for (int64_t i = 0; i < count; i++)
            to[i] = init.kind == ET_INIT_ONES ? 1 : 0;
    }
}

/* The last one, by place, that begins at or before an element of the flat arrays. */
static int nth_of(const et_params *params, int64_t at)
{
    /* Invariant: the parameter at low begins at or before `at`, the one at high after it (or does
     * not exist). Offset 0 belongs to place 0, so low = 0 holds at first. */
    int low = 0, high = et_params_count(params);
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (et_params_offset(params, et_params_in_order(params, middle)) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Draws the part of every parameter in [begin, end). The first may have begun in an earlier piece,
 * the last may end in a later one; those between are whole. */
static void draw_piece(const et_kernels *kernels, et_params *params, int64_t begin, int64_t end,
                       uint64_t seed)
{
    float *values = et_params_values(params);
    for (int nth = nth_of(params, begin); nth < et_params_count(params); nth++) {
        int i = et_params_in_order(params, nth);
        int64_t offset = et_params_offset(params, i);
        int64_t from = offset > begin ? offset : begin;
        int64_t to = offset + et_shape_count(et_params_shape(params, i));
        if (offset >= end)
            break;
        if (to > end)
            to = end;
        /* Empty for a parameter of which only padding reaches into this piece. */
        if (to > from)
            draw(kernels, params, i, values + from, from - offset, to - from, seed);
    }
    /* The shadow while the piece is in cache. */
    if (et_params_shadow(params))
        kernels->to_bf16(et_params_shadow(params) + begin, values + begin, end - begin);
}

/* Pieces differ in cost (zeros are cheap, normal numbers are not), so threads take them one
 * by one. */
void et_init_draw(et_params *params, uint64_t seed)
{
    et_assert(et_params_ready(params));
    const et_kernels *kernels = et_kernels_best();
    int64_t size = et_params_flat_size(params);
    et_params_begin_change(params);
#pragma omp parallel for num_threads(et_team_now()) schedule(dynamic, 1) if (size > PIECE)
    for (int64_t begin = 0; begin < size; begin += PIECE)
        draw_piece(kernels, params, begin, begin + PIECE < size ? begin + PIECE : size, seed);
    et_params_changed(params, false);
}
