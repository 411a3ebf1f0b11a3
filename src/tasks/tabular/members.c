#include "tasks/tabular/members.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/philox.h"

/* Elements of a member's draws, in this order. */
enum { LAYERS, HAS_DROPOUT, DROPOUT, WIDTH, SCALE, MATRIX_RATE, RATE, DECAY };

#define LAYERS_MOST  3
#define DROPOUT_MOST 0.5

/* Columns of a number: itself, and cosines. */
#define WIDTH_LEAST 8
#define WIDTH_STEP  4
#define WIDTH_STEPS 7 /* up to 32 */

int64_t et_pack_count(const et_tabular_pack *pack)
{
    return pack->only.count ? (int64_t)pack->only.count : pack->members;
}

/* -1: it is none. */
static int64_t number_of(const char *text)
{
    char *end;
    const long number = *text ? strtol(text, &end, 10) : -1;
    return number >= 0 && number < ET_PACK_MEMBERS_MAX && !*end ? number : -1;
}

int et_pack_check(const et_tabular_pack *pack, et_error *error)
{
    for (size_t i = 0; i < pack->only.count; i++) {
        const int64_t number = number_of(pack->only.items[i]);
        if (number < 0)
            return et_fail(error, ET_ECONFIG,
                           "task.model.pack.only: \"%s\" is not the number of a member; give 0 to "
                           "%d",
                           pack->only.items[i], ET_PACK_MEMBERS_MAX - 1);
        for (size_t k = 0; k < i; k++)
            if (number_of(pack->only.items[k]) == number)
                return et_fail(error, ET_ECONFIG,
                               "task.model.pack.only names member %lld twice; name it once",
                               (long long)number);
    }
    return ET_OK;
}

static double between(double u, double least, double most)
{
    return least + u * (most - least);
}

static double log_between(double u, double least, double most)
{
    return exp(between(u, log(least), log(most)));
}

et_pack_member et_pack_member_at(const et_tabular_pack *pack, int64_t i)
{
    const int64_t number = pack->only.count ? number_of(pack->only.items[i]) : i;
    const et_random random = { (uint64_t)pack->settings_seed, (uint64_t)number,
                               et_random_site("pack") };
    double u[DECAY + 1];
    et_assert(number >= 0 && i < et_pack_count(pack));
    for (int k = 0; k <= DECAY; k++)
        u[k] = (double)et_random_uniform(random, (uint64_t)k);
    return (et_pack_member){
        .number = number,
        .num_layers = 1 + (int64_t)(u[LAYERS] * LAYERS_MOST),
        .dropout = u[HAS_DROPOUT] < 0.5 ? 0 : between(u[DROPOUT], 0, DROPOUT_MOST),
        .columns = { .numbers = ET_TABULAR_NUMBERS_COSINE,
                     .frequencies =
                         WIDTH_LEAST + WIDTH_STEP * (int64_t)(u[WIDTH] * WIDTH_STEPS) - 1,
                     .frequency_scale = log_between(u[SCALE], 0.01, 10),
                     .one_hot_levels = pack->one_hot_levels },
        .matrix_rate = log_between(u[MATRIX_RATE], 1e-3, 0.1),
        .rate = log_between(u[RATE], 1e-4, 5e-3),
        .weight_decay = log_between(u[DECAY], 1e-3, 1),
    };
}

/* ---- the optimizer ---- */

#define MATRICES ET_PACK_LAYER "_[0-9]+/weight$"

int et_pack_optimization(et_optimization_options *out, const et_optimization_options *from,
                         const et_tabular_pack *pack, et_arena *arena, et_error *error)
{
    et_assert(out && from && pack && arena);
    const et_structs *own = &from->parameter_groups;
    const size_t count = own->count + 2 * (size_t)et_pack_count(pack);
    /* Muon has a factor (adam_rate) on the rate of parameters that are not matrices. */
    const bool muon = from->optimizer.type == ET_OPTIMIZER_MUON;
    const double rest = muon ? from->optimizer.muon.adam_rate : 1;
    et_parameter_group_options *groups = et_arena_array(arena, count, sizeof *groups);
    if (!groups)
        return et_alloc_failed(error, "parameter groups");
    if (own->count)
        memcpy(groups, own->items, own->count * sizeof *groups);
    for (size_t i = own->count; i < count; i += 2) {
        const et_pack_member m = et_pack_member_at(pack, (int64_t)(i - own->count) / 2);
        const long long number = (long long)m.number;
        groups[i] = (et_parameter_group_options){
            .pattern = et_arena_printf(arena, "^" ET_PACK_MEMBER "_%lld/" MATRICES, number),
            .learning_rate_multiplier = muon ? m.matrix_rate : m.rate,
            .weight_decay_rate = m.weight_decay
        };
        groups[i + 1] = (et_parameter_group_options){
            .pattern = et_arena_printf(arena, "^" ET_PACK_MEMBER "_%lld/(?!" MATRICES ")", number),
            .learning_rate_multiplier = rest > 0 ? m.rate / rest : 0,
            .weight_decay_rate = m.weight_decay
        };
    }
    *out = *from;
    out->parameter_groups.items = groups;
    out->parameter_groups.count = count;
    return arena->failed ? et_alloc_failed(error, "parameter groups") : ET_OK;
}
