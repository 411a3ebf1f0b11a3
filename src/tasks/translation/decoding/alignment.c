/* Alignments, one sentence at a time, in a plan for the longest pair so far, which grows by half.
 * The rest is empty: ids are -1, and offsets end at the end of the sentence. */
#include "tasks/translation/decoding/alignment.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "engine/graph/graph.h"
#include "engine/nn/transformer.h"
#include "train/ranks/collected.h"

#define SPACE "\xe2\x96\x81" /* U+2581 */

enum { SOURCE, TARGET, SIDES };

struct et_aligner {
    et_params *params;
    et_device *device;
    et_transformer model;
    et_sides sides;
    int layer;
    et_graph *graph; /* owned, as all below; NULL: not yet made */
    et_plan *plan;
    int64_t room[SIDES];                    /* rows planned */
    int32_t *ids[SIDES], *positions[SIDES]; /* [room] */
    int32_t offsets[SIDES][2];
};

int et_aligner_new(et_aligner **out, et_params *params, et_device *device,
                   const et_transformer *model, et_sides sides, int layer, et_error *error)
{
    et_assert(out && params && device && model);
    et_aligner *a = et_alloc_zero(1, sizeof *a);
    *out = a;
    if (!a)
        return et_alloc_failed(error, "alignments");
    a->params = params;
    a->device = device;
    a->model = *model;
    a->sides = sides;
    a->layer = layer;
    return ET_OK;
}

static void release(et_aligner *a)
{
    et_plan_free(a->plan);
    et_graph_free(a->graph);
    for (int side = 0; side < SIDES; side++) {
        et_free(a->ids[side]);
        et_free(a->positions[side]);
        a->ids[side] = a->positions[side] = NULL;
    }
    a->plan = NULL;
    a->graph = NULL;
}

void et_aligner_free(et_aligner *a)
{
    if (a)
        release(a);
    et_free(a);
}

/* ---- the pass ---- */

void et_aligner_bind(et_plan *plan, int side, int32_t *ids, int32_t *positions, int32_t *offsets)
{
    static const char *const names[SIDES][3] = {
        { ET_PAIR_NAME_SOURCE_IDS, ET_PAIR_NAME_SOURCE_POSITIONS, ET_PAIR_NAME_SOURCE_OFFSETS },
        { ET_PAIR_NAME_TARGET_IDS, ET_PAIR_NAME_TARGET_POSITIONS, ET_PAIR_NAME_TARGET_OFFSETS },
    };
    et_assert(side == SOURCE || side == TARGET);
    et_plan_bind(plan, names[side][0], ids);
    et_plan_bind(plan, names[side][1], positions);
    et_plan_bind(plan, names[side][2], offsets);
}

static int make_plan(et_aligner *a, et_error *error)
{
    et_node *outputs[2] = { NULL, NULL };
    et_plan_options options = ET_PLAN_OPTIONS_INIT;
    options.name = "alignment";
    a->model.max_positions = a->room[SOURCE] > a->room[TARGET] ? a->room[SOURCE] : a->room[TARGET];
    int status = et_graph_new(&a->graph, a->params, NULL, error);
    if (status)
        return status;
    et_transformer_cross(et_graph_scope(a->graph), &a->model, a->room[SOURCE], a->room[TARGET],
                         a->layer, &outputs[0], &outputs[1]);
    status = et_graph_finish(a->graph, error);
    if (!status)
        status = et_plan_new(&a->plan, a->graph, a->device, outputs, 2, &options, error);
    for (int side = 0; side < SIDES && !status; side++)
        et_aligner_bind(a->plan, side, a->ids[side], a->positions[side], a->offsets[side]);
    return status;
}

static void grow(et_aligner *a, int64_t source, int64_t target)
{
    const int64_t need[SIDES] = { source, target };
    if (source <= a->room[SOURCE] && target <= a->room[TARGET])
        return;
    release(a);
    for (int side = 0; side < SIDES; side++)
        if (need[side] > a->room[side])
            a->room[side] = need[side] + need[side] / 2 + 16;
}

static int make_room(et_aligner *a, et_error *error)
{
    if (a->plan)
        return ET_OK;
    int status = ET_OK;
    for (int side = 0; side < SIDES && !status; side++) {
        size_t rows = (size_t)a->room[side];
        a->ids[side] = et_alloc(rows, sizeof(int32_t));
        a->positions[side] = et_alloc(rows, sizeof(int32_t));
        if (!a->ids[side] || !a->positions[side])
            status = et_alloc_failed(error, "alignments");
    }
    if (!status)
        status = make_plan(a, error);
    if (status)
        release(a);
    return status;
}

/* before: a token put in front of ids; negative: none. */
static void fill(et_aligner *a, int side, int32_t before, const int32_t *ids, int64_t count)
{
    const int64_t shift = before >= 0, rows = count + shift;
    et_assert(rows <= a->room[side]);
    if (shift)
        a->ids[side][0] = before;
    if (count)
        memcpy(a->ids[side] + shift, ids, count * sizeof *ids);
    for (int64_t i = 0; i < a->room[side]; i++) {
        a->positions[side][i] = i < rows ? (int32_t)i : 0;
        if (i >= rows)
            a->ids[side][i] = -1;
    }
    a->offsets[side][0] = 0;
    a->offsets[side][1] = (int32_t)rows;
}

/* ---- weights ---- */

void et_aligner_add_weights(const float *query, const float *keys, int64_t width, int heads,
                            int64_t length, double *weight, double *scratch)
{
    et_assert(heads > 0 && width % heads == 0);
    const int64_t columns = width / heads;
    for (int h = 0; h < heads; h++) {
        double most = -INFINITY, sum = 0;
        for (int64_t s = 0; s < length; s++) {
            const float *key = keys + s * 2 * width + h * columns;
            scratch[s] = 0;
            for (int64_t c = 0; c < columns; c++)
                scratch[s] += (double)query[h * columns + c] * (double)key[c];
            scratch[s] /= sqrt((double)columns);
            most = fmax(most, scratch[s]);
        }
        for (int64_t s = 0; s < length; s++)
            sum += scratch[s] = exp(scratch[s] - most);
        for (int64_t s = 0; s < length; s++)
            weight[s] += scratch[s] / sum / heads;
    }
}

/* ---- words ---- */

/* Sets word[i] to the number of token i's word, from 0; -1: no word, as for a final space. Returns
 * the number of words. */
static int number_words(const et_vocabulary *vocabulary, const int32_t *ids, int64_t count,
                        int *word)
{
    int words = 0;
    bool open = false;
    for (int64_t i = 0; i < count; i++) {
        const char *token = et_vocabulary_token(vocabulary, ids[i]);
        const bool begins = !strncmp(token, SPACE, strlen(SPACE));
        const bool alone = begins && !token[strlen(SPACE)];
        if (begins)
            open = false;
        word[i] = -1;
        if (alone)
            continue;
        words += !open;
        open = true;
        word[i] = words - 1;
    }
    return words;
}

/* Finds the source word with the largest weight for a target word, whose tokens are rows first to
 * last; sum: [words], the weight of each. */
static et_alignment align_word(const et_aligner *a, int64_t first, int64_t last, const int *word,
                               int words, int64_t length, double *memory, double *sum)
{
    double *weight = memory, *scratch = memory + length;
    const float *query = et_plan_output(a->plan, 0).data;
    const float *keys = et_plan_output(a->plan, 1).data;
    const int64_t width = a->model.width;
    et_alignment found = { .source = 0, .weight = -1, .weights = sum };
    memset(weight, 0, length * sizeof *weight);
    memset(sum, 0, words * sizeof *sum);
    for (int64_t row = first; row <= last; row++)
        et_aligner_add_weights(query + row * width, keys, width,
                               a->model.decoder.num_attention_heads, length, weight, scratch);
    for (int64_t s = 0; s < length; s++)
        if (word[s] >= 0)
            sum[word[s]] += weight[s] / (double)(last - first + 1);
    for (int i = 0; i < words; i++)
        if (sum[i] > found.weight)
            found = (et_alignment){ .source = i, .weight = sum[i], .weights = sum };
    return found;
}

int et_aligner_run(et_aligner *a, const int32_t *source, int64_t length, const int32_t *target,
                   int count, et_arena *arena, et_aligned *out, et_error *error)
{
    et_assert(length > 0 && count >= 0);
    if (out)
        *out = (et_aligned){ .items = NULL };
    int *from = et_arena_array(arena, length, sizeof *from);
    int *to = et_arena_array(arena, count, sizeof *to);
    double *memory = et_arena_array(arena, 2 * (size_t)length, sizeof *memory);
    et_alignment *items = et_arena_array(arena, count, sizeof *items);
    if (!from || !to || !memory || !items)
        return et_alloc_failed(error, "alignments");
    int words = number_words(a->sides.source, source, length - 1, from);
    from[length - 1] = -1;
    if (!words || !number_words(a->sides.target, target, count, to))
        return ET_OK;
    grow(a, length, count + 1);
    int status = out ? make_room(a, error) : ET_OK;
    if (status || !out)
        return status;
    fill(a, SOURCE, -1, source, length);
    fill(a, TARGET, et_vocabulary_start(a->sides.target), target, count);
    et_plan_run(a->plan, (et_random){ 0, 0, 0 });
    for (int i = 0, last; i < count; i = last + 1) {
        last = i;
        if (to[i] < 0)
            continue;
        while (last + 1 < count && to[last + 1] == to[i])
            last++;
        double *sum = et_arena_array(arena, words, sizeof *sum);
        if (!sum)
            return et_alloc_failed(error, "alignments");
        et_alignment found = align_word(a, i, last, from, words, length, memory, sum);
        found.target = to[i];
        items[out->count++] = found;
    }
    out->items = items;
    out->source_words = words;
    return ET_OK;
}

/* Alignments by ranks: pair i of the list belongs to rank i % ranks. A rank sends its results as
 * bytes, pair after pair: the numbers of words of both sides, then the numbers and weights of each
 * target word. */
typedef struct words {
    int32_t target, source;
} words;

typedef struct word {
    double weight;
    int32_t target, source;
} word;

static void write_found(et_strbuf *to, const et_aligned *found)
{
    const words all = { found->count, found->source_words };
    et_strbuf_append_bytes(to, &all, sizeof all);
    for (int i = 0; i < found->count; i++) {
        const et_alignment *a = &found->items[i];
        const word one = { a->weight, a->target, a->source };
        et_strbuf_append_bytes(to, &one, sizeof one);
        et_strbuf_append_bytes(to, a->weights, all.source * sizeof *a->weights);
    }
}

typedef struct reading {
    et_align_pair *pairs;
    et_arena *arena;
} reading;

/* False: not whole, or no memory. */
static bool read_pair(void *payload, int64_t item, et_collected *from, int rank)
{
    const reading *r = payload;
    et_arena *arena = r->arena;
    const words *all = et_collected_copy(from, rank, sizeof *all, arena);
    if (!all || all->target < 0 || all->source < 0 ||
        (size_t)all->target > from->size[rank] / sizeof(word))
        return false;
    et_alignment *items = et_arena_array(arena, all->target, sizeof *items);
    r->pairs[item].found = (et_aligned){ items, all->target, all->source };
    for (int i = 0; items && i < all->target; i++) {
        const word *one = et_collected_copy(from, rank, sizeof *one, arena);
        const double *weights =
            one ? et_collected_copy(from, rank, all->source * sizeof *weights, arena) : NULL;
        if (!weights)
            return false;
        items[i] = (et_alignment){ one->source, one->target, one->weight, weights };
    }
    return items != NULL;
}

int et_aligner_run_on_ranks(et_aligner *aligner, et_comm *comm, et_align_pair *pairs, int64_t count,
                            et_arena *arena, et_error *error)
{
    et_assert(pairs || !count);
    const int ranks = et_comm_size(comm), rank = et_comm_rank(comm);
    et_strbuf mine = ET_STRBUF_INIT;
    int status = ET_OK;
    for (int64_t i = 0; !status && i < count; i++) {
        et_align_pair *p = &pairs[i];
        const bool own = i % ranks == rank;
        status = et_aligner_run(aligner, p->source, p->length, p->target, p->count, arena,
                                own ? &p->found : NULL, error);
        if (own && !status && ranks > 1)
            write_found(&mine, &p->found);
    }
    if (ranks > 1)
        status = et_collected_items(comm, "alignments", count, status, &mine, read_pair,
                                    &(reading){ pairs, arena }, error);
    et_strbuf_release(&mine);
    return status;
}
