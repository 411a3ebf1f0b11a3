/* Pairs go through the whole model in batches, in the plan of a graph whose outputs are the rows of
 * all products. Rows of a batch that no pair fills have no tokens; their values are not counted. */
#include "tasks/translation/export/calibration.h"

#include <etude/log.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/vector.h"
#include "data/text/punctuation.h"
#include "data/text/text.h"
#include "engine/exec/plan.h"
#include "engine/graph/graph.h"
#include "engine/nn/pair_names.h"
#include "tasks/translation/decoding/alignment.h"
#include "tasks/translation/interchange/tensor_map.h"

/* Of a batch: tokens of a side, and pairs. A longer pair is left out. */
enum { TOKENS = 1024, PAIRS = 64, SIDES = 2 };

#define DEVIATIONS 1.1

static const char *const input_names[SIDES][3] = {
    { ET_PAIR_NAME_SOURCE_IDS, ET_PAIR_NAME_SOURCE_POSITIONS, ET_PAIR_NAME_SOURCE_OFFSETS },
    { ET_PAIR_NAME_TARGET_IDS, ET_PAIR_NAME_TARGET_POSITIONS, ET_PAIR_NAME_TARGET_OFFSETS },
};

/* A product of rows with weights; row values are output `rows` of the plan. */
typedef struct product {
    int param, rows, side;
    double sum, squares; /* of the largest values of batches */
} product;

typedef struct batch {
    int32_t ids[TOKENS], positions[TOKENS], offsets[PAIRS + 1];
} batch;

/* Source token and target token, and how often they were aligned. */
typedef struct aligned {
    uint64_t pair; /* source << 32 | target */
    uint64_t count;
} aligned;

struct et_calibration {
    const et_translator *t;
    et_transformer model;
    et_graph *graph; /* owned, as the next */
    et_plan *plan;
    et_node **outputs; /* [output_count] owned */
    int output_count, query, keys;
    product *products; /* [product_count] owned */
    int product_count;
    int64_t batches, pairs, left_out;
    batch sides[SIDES];
    int segments;
    uint64_t *found; /* [found_count] pairs of tokens, owned */
    size_t found_count, found_capacity;
    aligned *counts; /* [count] sorted; owned; of all that were found */
    size_t count;
};

/* ---- the plan ---- */

static int add_output(et_calibration *c, et_node *node)
{
    for (int i = 0; i < c->output_count; i++)
        if (c->outputs[i] == node)
            return i;
    c->outputs[c->output_count] = node;
    return c->output_count++;
}

/* The scopes of the encoder's products begin so, and so do keys and values, which are products of
 * the encoder's output. */
static int side_of(const char *name)
{
    return !strncmp(name, "encoder/", 8) || strstr(name, "/cross_attention/key_value/") ? 0 : 1;
}

/* All products with a parameter, and what the last layer aligns by. */
static int list_products(et_calibration *c, et_node *decoded, et_error *error)
{
    const et_graph *graph = c->graph;
    const int count = graph->count;
    char query[ET_MAPPED_NAME_MAX], keys[ET_MAPPED_NAME_MAX];
    const int last = c->model.decoder.num_layers - 1;
    snprintf(query, sizeof query, "decoder/layer_%d/cross_attention/query/weight", last);
    snprintf(keys, sizeof keys, "decoder/layer_%d/cross_attention/key_value/weight", last);
    c->outputs = et_alloc((size_t)count + 3, sizeof(et_node *));
    c->products = et_alloc((size_t)count + 1, sizeof *c->products);
    if (!c->outputs || !c->products)
        return et_alloc_failed(error, (size_t)count * sizeof *c->products, "a calibration");
    for (int i = 0; i < count; i++) {
        et_node *node = graph->nodes[i];
        if (node->op != ET_OP_MATMUL || node->input[1]->op != ET_OP_PARAM)
            continue;
        const int param = node->input[1]->attributes.param;
        const char *name = et_params_name(c->t->params, param);
        c->products[c->product_count++] = (product){ .param = param,
                                                     .rows = add_output(c, node->input[0]),
                                                     .side = side_of(name) };
        if (!strcmp(name, query))
            c->query = add_output(c, node);
        if (!strcmp(name, keys))
            c->keys = add_output(c, node);
    }
    et_assert(c->query && c->keys);
    char table[ET_MAPPED_NAME_MAX];
    snprintf(table, sizeof table, "%s/table", c->model.output.scope);
    c->products[c->product_count++] = (product){ .param = et_params_find(c->t->params, table),
                                                 .rows = add_output(c, decoded),
                                                 .side = 1 };
    return ET_OK;
}

static int open_plan(et_calibration *c, et_error *error)
{
    et_plan_options options = ET_PLAN_OPTIONS_INIT;
    options.name = "calibration";
    c->model = et_translator_transformer(c->t);
    c->model.max_positions = TOKENS;
    int status = et_graph_new(&c->graph, c->t->params, NULL, error);
    if (status)
        return status;
    et_node *decoded =
        et_transformer_train(et_graph_scope(c->graph), &c->model, TOKENS, TOKENS, PAIRS);
    status = et_graph_finish(c->graph, error);
    if (!status)
        status = list_products(c, decoded, error);
    if (!status)
        status = et_plan_new(&c->plan, c->graph, c->t->device, c->outputs, c->output_count,
                             &options, error);
    for (int side = 0; side < SIDES && !status; side++) {
        et_plan_bind(c->plan, input_names[side][0], c->sides[side].ids);
        et_plan_bind(c->plan, input_names[side][1], c->sides[side].positions);
        et_plan_bind(c->plan, input_names[side][2], c->sides[side].offsets);
    }
    return status;
}

/* ---- a batch ---- */

static int32_t tokens_of(const et_calibration *c, int side)
{
    return c->sides[side].offsets[c->segments];
}

static void finish_side(et_calibration *c, int side)
{
    batch *b = &c->sides[side];
    const int32_t end = tokens_of(c, side);
    for (int32_t i = end; i < TOKENS; i++) {
        b->ids[i] = -1;
        b->positions[i] = 0;
    }
    for (int i = c->segments; i <= PAIRS; i++)
        b->offsets[i] = end;
}

static float largest(const et_tensor *rows, int64_t count)
{
    const float *values = rows->data;
    float most = 0;
    for (int64_t i = 0; i < count * rows->shape.size[1]; i++)
        most = fmaxf(most, fabsf(values[i]));
    return most;
}

static void measure(et_calibration *c)
{
    for (int i = 0; i < c->product_count; i++) {
        product *p = &c->products[i];
        const et_tensor rows = et_plan_output(c->plan, p->rows);
        const double most = (double)largest(&rows, tokens_of(c, p->side));
        p->sum += most;
        p->squares += most * most;
    }
    c->batches++;
}

/* The source token that a row of the target looks at most, by the mean weight of the heads;
 * negative: the end of the source. */
static int32_t look(const et_calibration *c, int32_t row, int32_t first, int32_t count)
{
    const int64_t width = c->model.width;
    const float *query = (const float *)et_plan_output(c->plan, c->query).data + row * width;
    const float *keys = (const float *)et_plan_output(c->plan, c->keys).data + first * 2 * width;
    double weights[TOKENS] = { 0 }, scratch[TOKENS];
    et_aligner_add_weights(query, keys, width, c->model.decoder.num_attention_heads, count, weights,
                           scratch);
    int32_t best = 0;
    for (int32_t s = 1; s < count; s++)
        best = weights[s] > weights[best] ? s : best;
    return best == count - 1 ? -1 : c->sides[0].ids[first + best];
}

/* Row r of a target predicts token r + 1 of it; the last row predicts the end. */
static int align(et_calibration *c, et_error *error)
{
    const batch *source = &c->sides[0], *target = &c->sides[1];
    uint64_t *found =
        et_vector_grow(c->found, &c->found_capacity, c->found_count + (size_t)tokens_of(c, 1),
                       sizeof *found, TOKENS);
    if (!found)
        return et_alloc_failed(error, c->found_count * sizeof *found, "aligned tokens");
    c->found = found;
    for (int i = 0; i < c->segments; i++)
        for (int32_t row = target->offsets[i]; row + 1 < target->offsets[i + 1]; row++) {
            const int32_t from =
                look(c, row, source->offsets[i], source->offsets[i + 1] - source->offsets[i]);
            if (from >= 0)
                found[c->found_count++] = (uint64_t)from << 32 | (uint64_t)target->ids[row + 1];
        }
    return ET_OK;
}

static int run_batch(et_calibration *c, et_error *error)
{
    if (!c->segments)
        return ET_OK;
    for (int side = 0; side < SIDES; side++)
        finish_side(c, side);
    et_plan_run(c->plan, (et_random){ 0, 0, 0 });
    measure(c);
    int status = align(c, error);
    c->segments = 0;
    return status;
}

/* before, after: a token around the line's; negative: none. */
static void add_side(et_calibration *c, int side, int32_t before, const et_tokens *tokens,
                     int32_t after)
{
    batch *b = &c->sides[side];
    int32_t at = b->offsets[c->segments], first = at;
    if (before >= 0)
        b->ids[at++] = before;
    for (size_t i = 0; i < tokens->count; i++)
        b->ids[at++] = tokens->ids[i];
    if (after >= 0)
        b->ids[at++] = after;
    for (int32_t i = first; i < at; i++)
        b->positions[i] = i - first;
    b->offsets[c->segments + 1] = at;
}

static int add_pair(et_calibration *c, const et_tokens *source, const et_tokens *target,
                    et_error *error)
{
    int status = ET_OK;
    if (!source->count || !target->count || source->count >= TOKENS || target->count >= TOKENS) {
        c->left_out++;
        return ET_OK;
    }
    if (c->segments == PAIRS || (size_t)tokens_of(c, 0) + source->count >= TOKENS ||
        (size_t)tokens_of(c, 1) + target->count >= TOKENS)
        status = run_batch(c, error);
    if (status)
        return status;
    add_side(c, 0, -1, source, et_vocabulary_eos(c->t->sides.source));
    add_side(c, 1, et_vocabulary_start(c->t->sides.target), target, -1);
    c->segments++;
    c->pairs++;
    return ET_OK;
}

/* ---- the text ---- */

static int encode(const et_calibration *c, int side, const et_text_line *line, et_tokens *tokens,
                  et_error *error)
{
    int status = et_sides_encode(&c->t->sides, side, line->text, line->length, tokens, error);
    return status ? et_fail_while(error, status, "%s:%lld", line->path, (long long)line->number)
                  : ET_OK;
}

static int read_pairs(et_calibration *c, et_text *const texts[SIDES], et_error *error)
{
    et_tokens tokens[SIDES] = { ET_TOKENS_INIT, ET_TOKENS_INIT };
    et_text_line lines[SIDES] = { { 0 } };
    bool more = true;
    int status = ET_OK;
    while (!status && more) {
        for (int side = 0; side < SIDES && !status; side++)
            status = et_text_next(texts[side], &lines[side], error);
        more = !status && lines[0].text && lines[1].text &&
               et_text_count(texts[0]) <= ET_CALIBRATION_PAIRS_MAX;
        for (int side = 0; side < SIDES && more && !status; side++)
            status = encode(c, side, &lines[side], &tokens[side], error);
        if (more && !status)
            status = add_pair(c, &tokens[0], &tokens[1], error);
    }
    for (int side = 0; side < SIDES; side++)
        et_tokens_release(&tokens[side]);
    if (!status && !lines[0].text != !lines[1].text)
        return et_fail(error, ET_EDATA, "%s ends after %lld lines, but the other file has more",
                       lines[0].text ? "the target's file" : "the source's file",
                       (long long)et_text_count(texts[lines[0].text ? 1 : 0]));
    if (!status && lines[0].text)
        et_log(ET_LOG_WARNING, "only the first %s pairs are used for multipliers and shortlist",
               et_format_count(ET_CALIBRATION_PAIRS_MAX).text);
    return status ? status : run_batch(c, error);
}

static int read_text(et_calibration *c, const char *source, const char *target, et_error *error)
{
    const char *const paths[SIDES] = { source, target };
    et_text *texts[SIDES] = { NULL, NULL };
    int status = ET_OK;
    for (int side = 0; side < SIDES && !status; side++) {
        const et_strings list = { &paths[side], 1 };
        status = et_text_open(&texts[side], &list, error);
        if (!status && side == SIDES - 1)
            status = read_pairs(c, texts, error);
    }
    for (int side = 0; side < SIDES; side++)
        et_text_close(texts[side]);
    if (!status && !c->pairs)
        return et_fail(error, ET_EDATA, "%s and %s have no pair to measure the model on", source,
                       target);
    if (!status && c->left_out)
        et_log(ET_LOG_INFO, "%s left out: a side is empty or has %d tokens or more",
               et_format_many(c->left_out, "pair").text, TOKENS);
    return status;
}

int et_calibration_run(et_calibration **out, const et_translator *t, const char *source,
                       const char *target, et_error *error)
{
    et_calibration *c = et_alloc_zero(1, sizeof *c);
    *out = NULL;
    if (!c)
        return et_alloc_failed(error, sizeof *c, "a calibration");
    c->t = t;
    int status = open_plan(c, error);
    if (!status)
        status = read_text(c, source, target, error);
    if (status)
        et_calibration_free(c);
    else
        *out = c;
    return status;
}

void et_calibration_free(et_calibration *c)
{
    if (!c)
        return;
    et_plan_free(c->plan);
    et_graph_free(c->graph);
    et_free(c->outputs);
    et_free(c->products);
    et_free(c->found);
    et_free(c->counts);
    et_free(c);
}

float et_calibration_multiplier(const et_calibration *c, int param)
{
    for (int i = 0; i < c->product_count; i++) {
        const product *p = &c->products[i];
        const double n = (double)c->batches, mean = p->sum / n;
        const double deviation = sqrt(fmax(p->squares / n - mean * mean, 0));
        if (p->param == param)
            return (float)(127 / fmax(mean + DEVIATIONS * deviation, 1e-6));
    }
    return 0;
}

/* ---- the shortlist ---- */

ET_SORT_NUMBERS(by_pair, uint64_t)

/* The most often first, then by number. */
ET_SORT_BY(by_count, aligned, ET_DOWN(count), ET_UP(pair))

ET_SORT_NUMBERS(by_token, uint32_t)

static int count_pairs(et_calibration *c, et_error *error)
{
    if (c->found_count)
        qsort(c->found, c->found_count, sizeof *c->found, by_pair);
    c->counts = et_alloc(c->found_count + 1, sizeof *c->counts);
    if (!c->counts)
        return et_alloc_failed(error, c->found_count * sizeof *c->counts, "aligned tokens");
    c->count = 0;
    for (size_t i = 0; i < c->found_count; i++) {
        if (!c->count || c->counts[c->count - 1].pair != c->found[i])
            c->counts[c->count++] = (aligned){ .pair = c->found[i] };
        c->counts[c->count - 1].count++;
    }
    return ET_OK;
}

typedef struct lists {
    uint64_t *offsets; /* owned */
    uint32_t *list;    /* [count] owned */
    size_t count, capacity;
} lists;

static bool add_token(lists *l, uint32_t token, int64_t tokens)
{
    if (token >= (uint64_t)tokens)
        return true;
    uint32_t *list = et_vector_grow(l->list, &l->capacity, l->count + 1, sizeof *list, 1024);
    if (!list)
        return false;
    l->list = list;
    list[l->count++] = token;
    return true;
}

/* Sorted, each once. */
static void sort_list(lists *l, size_t first)
{
    size_t kept = first;
    if (l->count > first)
        qsort(l->list + first, l->count - first, sizeof *l->list, by_token);
    for (size_t i = first; i < l->count; i++)
        if (i == first || l->list[i] != l->list[kept - 1])
            l->list[kept++] = l->list[i];
    l->count = kept;
}

/* counts: [count] of one source token. */
static bool add_list(et_calibration *c, lists *l, int32_t source, aligned *counts, size_t count,
                     const et_lexicon *before, int64_t tokens)
{
    size_t known = 0;
    const size_t first = l->count;
    const uint32_t *old = before ? et_lexicon_of(before, source, &known) : NULL;
    bool fine = true;
    if (count)
        qsort(counts, count, sizeof *counts, by_count);
    for (size_t i = 0; i < count && i < ET_CALIBRATION_BEST && fine; i++)
        fine = add_token(l, (uint32_t)counts[i].pair, tokens);
    for (size_t i = 0; i < known && fine; i++)
        fine = add_token(l, old[i], tokens);
    if (fine &&
        et_vocabulary_checksum(c->t->sides.source) == et_vocabulary_checksum(c->t->sides.target))
        fine = add_token(l, (uint32_t)source, tokens);
    sort_list(l, first);
    return fine;
}

int et_calibration_shortlist(et_calibration *c, const et_lexicon *before, char **bytes,
                             size_t *length, et_error *error)
{
    const int32_t sources = et_vocabulary_size(c->t->sides.source) - 1;
    const int64_t tokens = et_vocabulary_size(c->t->sides.target) - 1;
    lists l = { .offsets = et_alloc_zero((size_t)sources + 1, sizeof *l.offsets) };
    bool fine = l.offsets != NULL;
    int status = fine ? count_pairs(c, error) : et_alloc_failed(error, 0, "a shortlist");
    size_t at = 0;
    for (int32_t source = 0; source < sources && fine && !status; source++) {
        const size_t begin = at;
        while (at < c->count && c->counts[at].pair >> 32 == (uint64_t)source)
            at++;
        fine = add_list(c, &l, source, c->counts + begin, at - begin, before, tokens);
        l.offsets[source + 1] = l.count;
    }
    if (!status && !fine)
        status = et_alloc_failed(error, l.count * sizeof *l.list, "a shortlist");
    if (!status)
        status = et_lexicon_make(l.offsets, sources, l.list, ET_CALIBRATION_FIRST,
                                 ET_CALIBRATION_BEST, bytes, length, error);
    et_free(l.offsets);
    et_free(l.list);
    return status;
}
