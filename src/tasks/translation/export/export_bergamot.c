/* The model as a folder of Bergamot, which Firefox and translateLocally load (marian_files.h):
 * weights as bytes, multipliers for the rows of each product, the vocabulary, a shortlist, and
 * settings. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/vector.h"
#include "data/text/punctuation.h"
#include "data/text/text.h"
#include "data/text/vocabulary/vocabulary_check.h"
#include "engine/exec/plan.h"
#include "engine/graph/graph.h"
#include "engine/nn/transformer.h"
#include "formats/marian/lexicon.h"
#include "formats/marian/marian_model.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/translation/decoding/alignment.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/export/export_private.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/interchange/tensor_map.h"

/* Calibrates a translator with parallel text, for an engine that multiplies bytes and has a
 * shortlist. The model predicts the text's targets. For each product of rows with weights, the
 * largest absolute value of the rows in each batch is kept. The cross-attention of the last layer
 * aligns the tokens of each pair. */

/* Pairs that are read; the rest of a longer text is left out, with a line that says so. */
#define CALIBRATION_PAIRS_MAX 200000

/* Tokens of the target that come always, and most of a source token, as the shortlists of Bergamot.
 */
#define CALIBRATION_FIRST 50
#define CALIBRATION_BEST  50

/* Pairs go through the whole model in batches, in the plan of a graph whose outputs are the rows of
 * all products. Rows of a batch that no pair fills have no tokens; their values are not counted. */

/* Most tokens of a side, and most pairs, in a batch. A longer pair is left out. */
enum { TOKENS = 1024, PAIRS = 64, SIDES = 2 };

#define DEVIATIONS 1.1

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

typedef struct calibration {
    const et_translator *t;
    et_transformer model;
    et_graph *graph; /* owned, as the next */
    et_plan *plan;
    et_node **outputs; /* [output_count] in the graph's arena, as the next */
    int output_count, query, keys;
    product *products; /* [product_count] */
    int product_count;
    int64_t batches, pairs, left_out;
    batch sides[SIDES];
    int segments;
    uint64_t *found; /* [found_count] pairs of tokens, owned */
    size_t found_count, found_capacity;
    aligned *counts; /* [count] sorted; owned; of all values found */
    size_t count;
} calibration;

/* ---- the plan ---- */

static int add_output(calibration *c, et_node *node)
{
    for (int i = 0; i < c->output_count; i++)
        if (c->outputs[i] == node)
            return i;
    c->outputs[c->output_count] = node;
    return c->output_count++;
}

/* Lists all products with a parameter, and the queries and keys of the last layer's alignment. */
static int list_products(calibration *c, et_node *decoded, et_error *error)
{
    const et_graph *graph = c->graph;
    const int count = graph->count;
    char query[ET_MAPPED_NAME_MAX], keys[ET_MAPPED_NAME_MAX];
    const int last = c->model.decoder.num_layers - 1;
    snprintf(query, sizeof query, "decoder/layer_%d/cross_attention/query/weight", last);
    snprintf(keys, sizeof keys, "decoder/layer_%d/cross_attention/key_value/weight", last);
    c->outputs = et_arena_array(&c->graph->arena, count + 3, sizeof(et_node *));
    c->products = et_arena_array(&c->graph->arena, count, sizeof *c->products);
    if (!c->outputs || !c->products)
        return et_alloc_failed(error, "a calibration");
    for (int i = 0; i < count; i++) {
        et_node *node = graph->nodes[i];
        if (node->op != ET_OP_MATMUL || node->input[1]->op != ET_OP_PARAM)
            continue;
        const int param = node->input[1]->attributes.param;
        const char *name = et_params_name(c->t->params, param);
        /* The scopes of the encoder's products begin so, and so do keys and values, which are
         * products of the encoder's output. */
        c->products[c->product_count++] = (product){
            .param = param,
            .rows = add_output(c, node->input[0]),
            .side = strncmp(name, "encoder/", 8) && !strstr(name, "/cross_attention/key_value/"),
        };
        if (!strcmp(name, query))
            c->query = add_output(c, node);
        if (!strcmp(name, keys))
            c->keys = add_output(c, node);
    }
    et_assert(c->query && c->keys);
    c->products[c->product_count++] =
        (product){ .param = et_params_find_printf(c->t->params, "%s/table", c->model.output.scope),
                   .rows = add_output(c, decoded),
                   .side = 1 };
    return ET_OK;
}

static int open_plan(calibration *c, et_error *error)
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
    if (!status && !(status = list_products(c, decoded, error)))
        status = et_plan_new(&c->plan, c->graph, c->t->device, c->outputs, c->output_count,
                             &options, error);
    for (int side = 0; side < SIDES && !status; side++) {
        batch *b = &c->sides[side];
        et_aligner_bind(c->plan, side, b->ids, b->positions, b->offsets);
    }
    return status;
}

/* ---- a batch ---- */

static int32_t tokens_of(const calibration *c, int side)
{
    return c->sides[side].offsets[c->segments];
}

static void measure(calibration *c)
{
    for (int i = 0; i < c->product_count; i++) {
        product *p = &c->products[i];
        const et_tensor rows = et_plan_output(c->plan, p->rows);
        const int64_t count = tokens_of(c, p->side) * rows.shape.size[1];
        float most = 0;
        for (int64_t k = 0; k < count; k++)
            most = fmaxf(most, fabsf(((const float *)rows.data)[k]));
        p->sum += (double)most;
        p->squares += (double)most * (double)most;
    }
    c->batches++;
}

/* The source token that a row of the target looks at most, by the mean weight of the heads;
 * negative: the end of the source. */
static int32_t look(const calibration *c, int32_t row, int32_t first, int32_t count)
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
static int align(calibration *c, et_error *error)
{
    const batch *source = &c->sides[0], *target = &c->sides[1];
    if (!ET_VECTOR_GROW(c->found, c->found_capacity, c->found_count + (size_t)tokens_of(c, 1)))
        return et_alloc_failed(error, "aligned tokens");
    for (int i = 0; i < c->segments; i++)
        for (int32_t row = target->offsets[i]; row + 1 < target->offsets[i + 1]; row++) {
            const int32_t from =
                look(c, row, source->offsets[i], source->offsets[i + 1] - source->offsets[i]);
            if (from >= 0)
                c->found[c->found_count++] = (uint64_t)from << 32 | (uint64_t)target->ids[row + 1];
        }
    return ET_OK;
}

static int run_batch(calibration *c, et_error *error)
{
    if (!c->segments)
        return ET_OK;
    for (int side = 0; side < SIDES; side++) {
        batch *b = &c->sides[side];
        const int32_t end = tokens_of(c, side);
        for (int32_t i = end; i < TOKENS; i++) {
            b->ids[i] = -1;
            b->positions[i] = 0;
        }
        for (int i = c->segments; i <= PAIRS; i++)
            b->offsets[i] = end;
    }
    et_plan_run(c->plan, (et_random){ 0, 0, 0 });
    measure(c);
    int status = align(c, error);
    c->segments = 0;
    return status;
}

/* before, after: tokens around the tokens of the line; negative: none. */
static void add_side(calibration *c, int side, int32_t before, const et_tokens *tokens,
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

static int add_pair(calibration *c, const et_tokens *source, const et_tokens *target,
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

static int read_pairs(calibration *c, et_text *const texts[SIDES], const char *const paths[SIDES],
                      et_error *error)
{
    et_tokens tokens[SIDES] = { ET_TOKENS_INIT, ET_TOKENS_INIT };
    et_text_line lines[SIDES] = { { 0 } };
    bool more = true;
    int status = ET_OK;
    while (!status && more) {
        for (int side = 0; side < SIDES && !status; side++)
            status = et_text_next(texts[side], &lines[side], error);
        more = !status && lines[0].text && lines[1].text &&
               et_text_count(texts[0]) <= CALIBRATION_PAIRS_MAX;
        for (int side = 0; side < SIDES && more && !status; side++) {
            const et_text_line *line = &lines[side];
            status =
                et_sides_encode(&c->t->sides, side, line->text, line->length, &tokens[side], error);
            if (status)
                status =
                    et_fail_while(error, status, "%s:%lld", line->path, (long long)line->number);
        }
        if (more && !status)
            status = add_pair(c, &tokens[0], &tokens[1], error);
    }
    for (int side = 0; side < SIDES; side++)
        et_tokens_release(&tokens[side]);
    if (!status && !lines[0].text != !lines[1].text)
        return et_fail(error, ET_EDATA,
                       "%s ends after %lld lines, but %s has more: line N of one file must "
                       "translate line N of the other",
                       paths[lines[0].text ? 1 : 0],
                       (long long)et_text_count(texts[lines[0].text ? 1 : 0]),
                       paths[lines[0].text ? 0 : 1]);
    if (!status && lines[0].text)
        et_log(ET_LOG_WARNING, "only the first %s pairs are used for multipliers and shortlist",
               et_format_count(CALIBRATION_PAIRS_MAX).text);
    return status ? status : run_batch(c, error);
}

static int read_text(calibration *c, const char *source, const char *target, et_error *error)
{
    const char *const paths[SIDES] = { source, target };
    et_text *texts[SIDES] = { NULL, NULL };
    int status = ET_OK;
    for (int side = 0; side < SIDES && !status; side++) {
        const et_strings list = { &paths[side], 1 };
        status = et_text_open(&texts[side], &list, error);
        if (!status && side == SIDES - 1)
            status = read_pairs(c, texts, paths, error);
    }
    for (int side = 0; side < SIDES; side++)
        et_text_close(texts[side]);
    if (!status && !c->pairs)
        return et_fail(error, ET_EDATA, "%s and %s have no pair to measure the model on", source,
                       target);
    if (!status && c->left_out)
        et_log(ET_LOG_WARNING, "%s left out: a side is empty or has %d tokens or more",
               et_format_many(c->left_out, "pair").text, TOKENS);
    return status;
}

static void calibration_free(calibration *c)
{
    if (!c)
        return;
    et_plan_free(c->plan);
    et_graph_free(c->graph);
    et_free(c->found);
    et_free(c->counts);
    et_free(c);
}

/* source, target: files of parallel lines. ET_EDATA: other numbers of lines, or no pair. */
static int calibration_run(calibration **out, const et_translator *t, const char *source,
                           const char *target, et_error *error)
{
    calibration *c;
    *out = NULL;
    if (ET_ALLOC_ZERO(c, 1, "a calibration", error))
        return ET_ENOMEM;
    c->t = t;
    int status = open_plan(c, error);
    if (!status)
        status = read_text(c, source, target, error);
    if (status)
        calibration_free(c);
    else
        *out = c;
    return status;
}

/* ---- the shortlist ---- */

ET_SORT_NUMBERS(by_pair, uint64_t)

/* The most often first, then by number. */
ET_SORT_BY(by_count, aligned, ET_DOWN(count), ET_UP(pair))

ET_SORT_NUMBERS(by_token, uint32_t)

static int count_pairs(calibration *c, et_error *error)
{
    if (c->found_count)
        qsort(c->found, c->found_count, sizeof *c->found, by_pair);
    if (ET_ALLOC(c->counts, c->found_count, "aligned tokens", error))
        return ET_ENOMEM;
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
    return ET_VECTOR_APPEND(l->list, l->count, l->capacity, token);
}

/* counts: [count] of one source token. */
static bool add_list(calibration *c, lists *l, int32_t source, aligned *counts, size_t count,
                     const et_lexicon *before, int64_t tokens)
{
    size_t known = 0;
    const size_t first = l->count;
    const uint32_t *old = before ? et_lexicon_of(before, source, &known) : NULL;
    bool fine = true;
    if (count)
        qsort(counts, count, sizeof *counts, by_count);
    for (size_t i = 0; i < count && i < CALIBRATION_BEST && fine; i++)
        fine = add_token(l, (uint32_t)counts[i].pair, tokens);
    for (size_t i = 0; i < known && fine; i++)
        fine = add_token(l, old[i], tokens);
    if (fine &&
        et_vocabulary_checksum(c->t->sides.source) == et_vocabulary_checksum(c->t->sides.target))
        fine = add_token(l, (uint32_t)source, tokens);
    /* Sorted, each once. */
    size_t kept = first;
    if (l->count > first)
        qsort(l->list + first, l->count - first, sizeof *l->list, by_token);
    for (size_t i = first; i < l->count; i++)
        if (i == first || l->list[i] != l->list[kept - 1])
            l->list[kept++] = l->list[i];
    l->count = kept;
    return fine;
}

/* A shortlist (et_free): the target tokens most often aligned with each source token, and the
 * tokens of `before`, the model's existing shortlist (NULL: none). A token of both sides may
 * translate to itself. */
static int calibration_shortlist(calibration *c, const et_lexicon *before, char **bytes,
                                 size_t *length, et_error *error)
{
    const int32_t sources = et_vocabulary_size(c->t->sides.source) - 1;
    const int64_t tokens = et_vocabulary_size(c->t->sides.target) - 1;
    lists l = { .offsets = et_alloc_zero((size_t)sources + 1, sizeof *l.offsets) };
    bool fine = l.offsets != NULL;
    int status = fine ? count_pairs(c, error) : et_alloc_failed(error, "a shortlist");
    size_t at = 0;
    for (int32_t source = 0; source < sources && fine && !status; source++) {
        const size_t begin = at;
        while (at < c->count && c->counts[at].pair >> 32 == (uint64_t)source)
            at++;
        fine = add_list(c, &l, source, c->counts + begin, at - begin, before, tokens);
        l.offsets[source + 1] = l.count;
    }
    if (!status && !fine)
        status = et_alloc_failed(error, "a shortlist");
    if (!status)
        status = et_lexicon_make(l.offsets, sources, l.list, CALIBRATION_FIRST, CALIBRATION_BEST,
                                 bytes, length, error);
    et_free(l.offsets);
    et_free(l.list);
    return status;
}

/* Marian's name of the output table after a shortlist has chosen its rows. */
#define OUTPUT_NAME "none"

/* ORDER of the files; the shortlist comes last. */
enum { WEIGHTS, SETTINGS, VOCABULARIES };

/* An item of the file: a tensor, or the multiplier of its rows, or the settings. */
typedef struct item {
    char name[ET_MAPPED_NAME_MAX];
    const et_mapped_tensor *tensor; /* NULL: a multiplier or the settings */
    float multiplier;
} item;

enum { FILES_MAX = 5 };

typedef struct output {
    et_marian_export m;
    calibration *calibration; /* NULL: multipliers and shortlist are the import's */
    et_safetensors *kept;     /* with the import's multipliers; NULL: none */
    et_strbuf settings;
    item *items;                /* [count] owned, as all below */
    et_marian_written *written; /* [count] */
    size_t count;
    float *room;
    char *lexicon; /* [lexicon_length]; NULL: the model has no shortlist */
    size_t lexicon_length;
    bool shared;                  /* one vocabulary */
    char text[FILES_MAX][64];     /* of names */
    const char *names[FILES_MAX]; /* [files] of the files */
    int files;
} output;

/* ---- weights ---- */

/* Weights of products, and tables of embeddings. */
static bool is_matrix(const et_mapped_tensor *tensor)
{
    return tensor->shape.rank == 2 && tensor->shape.size[0] > 1;
}

static void add(output *o, const char *name, const char *after, const et_mapped_tensor *tensor,
                float multiplier)
{
    item *i = &o->items[o->count++];
    *i = (item){ .tensor = tensor, .multiplier = multiplier };
    snprintf(i->name, sizeof i->name, "%.*s%s", (int)(sizeof i->name - sizeof ET_MARIAN_MULTIPLIER),
             name, after);
}

/* The multiplier of the rows that are multiplied with a tensor, by the tensor's name; 0: not
 * known. */
static float find_multiplier(const output *o, const et_mapped_tensor *tensor, const char *name)
{
    char full[ET_MAPPED_NAME_MAX + sizeof ET_MARIAN_MULTIPLIER];
    float value = 0;
    if (o->calibration) {
        /* The rows that weights `param` are multiplied with become bytes by this factor: 127 /
         * (mean + 1.1 standard deviations of the largest values of batches). Source:
         * browsermt/students, extract_stats.py. */
        for (int i = 0; i < o->calibration->product_count; i++) {
            const product *p = &o->calibration->products[i];
            const double n = (double)o->calibration->batches, mean = p->sum / n;
            const double deviation = sqrt(fmax(p->squares / n - mean * mean, 0));
            if (p->param == tensor->param)
                return (float)(127 / fmax(mean + DEVIATIONS * deviation, 1e-6));
        }
        return 0;
    }
    snprintf(full, sizeof full, "%s" ET_MARIAN_MULTIPLIER, name);
    const et_safetensors_tensor *kept = o->kept ? et_safetensors_find(o->kept, full) : NULL;
    if (kept && kept->dtype == ET_F32 && et_shape_count(kept->shape) == 1)
        memcpy(&value, kept->data, sizeof value);
    return value;
}

/* The table of the output has a multiplier under two names: Marian looks for the first if there is
 * a shortlist. */
static int add_multiplier(output *o, const et_mapped_tensor *tensor, bool output_table,
                          et_error *error)
{
    const char *name = output_table ? OUTPUT_NAME : tensor->name;
    float multiplier = find_multiplier(o, tensor, name);
    if (output_table && !(multiplier > 0))
        multiplier = find_multiplier(o, tensor, tensor->name);
    if (!(multiplier > 0))
        return et_fail(error, ET_EUSAGE,
                       "the bytes of %s need the range of their rows, which Etude measures on "
                       "text: give --data SOURCE TARGET, two files in the languages of the model",
                       tensor->name);
    add(o, name, ET_MARIAN_MULTIPLIER, NULL, multiplier);
    if (output_table)
        add(o, tensor->name, ET_MARIAN_MULTIPLIER, NULL, multiplier);
    return ET_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

static int list_items(output *o, et_error *error)
{
    const et_exported_tensors *list = &o->m.list;
    int status = ET_OK;
    if (ET_ALLOC(o->items, 3 * list->count + 1, "a model to export", error))
        return ET_ENOMEM;
    const int output_table =
        et_params_find_printf(o->m.t->params, "%s/table", o->m.model.output.scope);
    for (size_t i = 0; i < list->count && !status; i++) {
        const et_mapped_tensor *tensor = &list->tensors[i];
        const bool of_output = is_matrix(tensor) && tensor->param == output_table;
        add(o, tensor->name, "", tensor, 0);
        if (is_matrix(tensor) && (of_output || !strstr(tensor->name, ET_MARIAN_SHARED)))
            status = add_multiplier(o, tensor, of_output, error);
    }
    add(o, ET_MARIAN_SETTINGS, "", NULL, 0);
    qsort(o->items, o->count, sizeof *o->items, by_name);
    return status;
}

/* Marian also stores the multiplier of a table as bytes. */
static et_marian_type type_of(const item *i)
{
    if (!strcmp(i->name, ET_MARIAN_SETTINGS))
        return ET_MARIAN_TYPE_BYTE;
    return (i->tensor ? is_matrix(i->tensor) : strstr(i->name, ET_MARIAN_SHARED) != NULL)
               ? ET_MARIAN_TYPE_INTGEMM8
               : ET_MARIAN_TYPE_FLOAT32;
}

static int read_item(void *self, size_t index, const void **data, et_error *error)
{
    const output *o = self;
    const item *i = &o->items[index];
    (void)error;
    *data = o->room;
    if (o->written[index].type == ET_MARIAN_TYPE_BYTE)
        *data = et_strbuf_text(&o->settings);
    else if (i->tensor)
        et_mapped_tensor_get(i->tensor, o->m.list.params, o->room);
    else
        o->room[0] = i->multiplier;
    return ET_OK;
}

static int write_weights(output *o, const char *path, et_error *error)
{
    int status;
    if ((status = et_marian_export_print_settings(&o->m, &o->settings, error)) ||
        (status = list_items(o, error)))
        return status;
    o->written = et_alloc(o->count, sizeof *o->written);
    o->room = et_alloc((size_t)o->m.list.most + 1, sizeof *o->room);
    if (!o->written || !o->room)
        return et_alloc_failed(error, "a model to export");
    for (size_t k = 0; k < o->count; k++) {
        const item *i = &o->items[k];
        const et_marian_type type = type_of(i);
        o->written[k] = (et_marian_written){
            .name = i->name,
            .type = type,
            .shape = type == ET_MARIAN_TYPE_BYTE ? et_shape_1((int64_t)o->settings.length + 1)
                     : i->tensor                 ? i->tensor->shape
                                                 : et_shape_2(1, 1),
        };
    }
    return et_marian_model_write(path, o->written, o->count, read_item, o, error);
}

/* ---- the other files ---- */

/* As translateLocally reads them. int8shiftAlphaAll: bytes with the multipliers of the file. */
static int write_config(const output *o, const char *path, et_error *error)
{
    const et_decoder_options options = et_translator_decoder_options(o->m.t);
    const et_beam_options beam = options.beam;
    const double factor = options.length_factor;
    const char *const *vocabularies = o->names + VOCABULARIES;
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_printf(&text, "relative-paths: true\nmodels:\n  - %s\nvocabs:\n  - %s\n  - %s\n",
                     o->names[WEIGHTS], vocabularies[0], vocabularies[!o->shared]);
    if (o->lexicon)
        et_strbuf_printf(&text, "shortlist:\n  - %s\n  - false\n", o->names[o->files - 1]);
    et_strbuf_printf(&text, "beam-size: %d\nnormalize: %.9g\nword-penalty: 0\n", beam.size,
                     beam.alpha);
    et_strbuf_printf(&text,
                     "mini-batch: 64\nmaxi-batch: 1000\nmaxi-batch-sort: src\nworkspace: "
                     "2000\n" ET_MARIAN_LENGTH_FACTOR ": %.9g\ngemm-precision: int8shiftAlphaAll\n",
                     factor > 0 ? factor : 2.5);
    return et_export_write_text(path, &text, error);
}

static int write_one(void *self, int which, const char *path, et_error *error)
{
    output *o = self;
    if (which == WEIGHTS)
        return write_weights(o, path, error);
    if (which == SETTINGS)
        return write_config(o, path, error);
    if (o->lexicon && which == o->files - 1)
        return et_file_write(path, o->lexicon, o->lexicon_length, error);
    /* The SentencePiece model with the tokens of the file alone, and without the fields that are
     * Etude's (vocabulary_check.h). */
    int side = which - VOCABULARIES;
    enum { FIELD_PIECE = 1 };
    const et_vocabulary *v = side == ET_SIDE_SOURCE ? o->m.t->sides.source : o->m.t->sides.target;
    et_strbuf text = ET_STRBUF_INIT;
    et_vocabulary_part part;
    size_t length, at = 0;
    int64_t pieces = 0;
    const char *bytes = et_vocabulary_bytes(v, &length);
    while (et_vocabulary_next_part(bytes, length, &at, &part)) {
        pieces += part.number == FIELD_PIECE;
        if ((part.number == FIELD_PIECE && pieces > o->m.tokens[side]) ||
            part.number == ET_VOCABULARY_FIELD_TOKENS || part.number == ET_VOCABULARY_FIELD_TAGS)
            continue;
        et_strbuf_append_bytes(&text, part.whole, part.whole_length);
    }
    return et_export_write_text(path, &text, error);
}

static void name_file(output *o, const char *begin, const char *pair, const char *ending)
{
    char *text = o->text[o->files];
    snprintf(text, sizeof o->text[0], "%s%s%s", begin, pair, ending);
    o->names[o->files++] = text;
}

/* ---- multipliers and shortlist ---- */

/* From the text, or else the values with which the model was imported. */
static int measure_output(output *o, const et_export_options *options, et_error *error)
{
    const et_translator *t = o->m.t;
    int status = ET_OK;
    if (options->source_text) {
        status =
            calibration_run(&o->calibration, t, options->source_text, options->target_text, error);
        return status ? status
                      : calibration_shortlist(o->calibration, t->lexicon, &o->lexicon,
                                              &o->lexicon_length, error);
    }
    if (t->unused)
        status = et_safetensors_open_memory(&o->kept, t->unused, t->unused_length,
                                            et_translator_checkpoint(t), error);
    if (!status && o->kept)
        status = et_safetensors_verify(o->kept, error);
    if (status || !t->lexicon)
        return status;
    size_t length;
    const char *bytes = et_lexicon_bytes(o->m.t->lexicon, &length);
    o->lexicon = et_strndup(bytes, length);
    o->lexicon_length = length;
    return o->lexicon ? ET_OK : et_alloc_failed(error, "a shortlist");
}

int et_translator_export_bergamot(const et_translator *t, const char *directory,
                                  const et_export_options *options, et_error *error)
{
    et_assert(t && directory && options);
    output o = { .settings = ET_STRBUF_INIT };
    o.shared = et_vocabulary_checksum(t->sides.source) == et_vocabulary_checksum(t->sides.target);
    int status = et_marian_export_open(&o.m, t, false, error);
    if (!status)
        status = measure_output(&o, options, error);
    if (!status) {
        /* Firefox's names have the languages, ".enpt", if their codes have two letters. */
        const et_translation_options *settings = o.m.t->experiment.task;
        const char *source = settings->train_data.src_lang, *target = settings->train_data.tgt_lang;
        char pair[8] = "";
        if (source && target && strlen(source) == 2 && strlen(target) == 2)
            snprintf(pair, sizeof pair, ".%s%s", source, target);
        name_file(&o, ET_BERGAMOT_MODEL, pair, ".intgemm.alphas" ET_MARIAN_BINARY);
        name_file(&o, ET_BERGAMOT_USUAL_CONFIG, "", "");
        name_file(&o, o.shared ? ET_BERGAMOT_VOCABULARY : "src" ET_BERGAMOT_VOCABULARY, pair,
                  ET_MARIAN_PIECES);
        if (!o.shared)
            name_file(&o, "trg" ET_BERGAMOT_VOCABULARY, pair, ET_MARIAN_PIECES);
        if (o.lexicon)
            name_file(&o, ET_BERGAMOT_LEXICON ".50.50", pair, ".s2t" ET_MARIAN_BINARY);
        status = et_directory_write(directory, o.names, o.files, write_one, &o, error);
    }
    if (!status)
        et_marian_export_warn(&o.m);
    et_marian_export_close(&o.m);
    calibration_free(o.calibration);
    et_safetensors_close(o.kept);
    et_strbuf_release(&o.settings);
    et_free(o.items);
    et_free(o.written);
    et_free(o.room);
    et_free(o.lexicon);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
