/* Columns side by side, and two encodings of numbers. The piecewise-linear encoding of numbers
 * (Gorishniy, Rubachev and Babenko 2022, "On Embeddings for Numerical Features in Tabular Deep
 * Learning"): with boundaries b_0 < ... < b_n of a column
 *
 *   e_i(x) = (x - b_i) / (b_(i+1) - b_i), clipped to [0, 1], i = 0 .. n - 1
 *
 * in addition to x itself, which also covers values outside the boundaries. The factors and offsets
 * of all columns are two variables, set from quantiles of the training rows before the first step.
 * Bins without boundaries have factor and offset 0, and are 0.
 *
 * The periodic encoding (PBLD of Holzmueller, Grinsztajn and Steinwart 2024) has for each column x
 * itself and, with learned f, p, w and b of the column,
 *
 *   e_k(x) = sum_j w_kj cos(2 pi f_j x + p_j) + b_k
 *
 * and the one by cosines alone (TabPack's, Gorishniy et al. 2026)
 *
 *   e_0(x) = w_0 x + b_0,  e_j(x) = w_j cos(2 pi f_j x + p_j) + b_j
 *
 * where w, b and p begin as zeros: columns come into play as far as they are of use. In models
 * whose relu passes no gradient from zeros, w is drawn. */
#include "tasks/tabular/networks/networks_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/pass.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/sort.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "tasks/tabular/samples.h"

#define SCOPE  "text"
#define WEIGHT "weight"

/* Added to the sum of squares, for texts without words. */
#define EPSILON 1e-6f

/* The weight of the prior of a word, in rows; and the factor of a text, which makes its vectors
 * learn more slowly than weights. */
#define PRIOR_ROWS 40
#define SCALE      0.3f

/* The field of text number k; NULL: no such text. */
static const et_encoded_field *field_of(const et_encoder *encoder, int k)
{
    for (int f = 0; f < et_encoder_fields(encoder); f++)
        if (et_encoder_field(encoder, f)->kind == ET_ENCODED_WORDS && k-- == 0)
            return et_encoder_field(encoder, f);
    return NULL;
}

/* How many texts a row has. */
static int count_texts(const et_encoder *encoder)
{
    int count = 0;
    while (field_of(encoder, count))
        count++;
    return count;
}

et_node *et_tabular_text_vector(et_scope *model, et_scope *learned, const et_encoder *encoder,
                                int k, int64_t width, et_init begin)
{
    const et_encoded_field *field = field_of(encoder, k);
    et_assert(field != NULL);
    et_scope *scope = et_at(model, SCOPE, k);
    const et_dtype act = et_graph_act(et_scope_graph(scope));
    const int64_t rows = et_scope_layout(scope)->capacity[0], words = field->width;
    const int64_t buckets = field->cardinality[0];
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_node *ids = et_reshape(et_batch_input(scope, field->name), et_shape_1(rows * words));
    et_node *weight = et_variable(scope, WEIGHT, et_shape_1(buckets), zeros);
    et_node *w = et_gather_rows(et_reshape(weight, et_shape_2(buckets, 1)), ids);
    et_node *table = et_param(et_at(learned, SCOPE, k), "table", et_shape_2(buckets, width), begin);
    et_node *t = et_embedding(ids, table, 1, NULL, NULL);
    et_node *all = et_copy(et_mul(et_copy(t, ET_F32, et_node_shape(t)), w), act, et_node_shape(t));
    et_node *mean = et_mean_pool(et_reshape(all, et_shape_4(rows, words, 1, width)), NULL);
    et_node *sum = et_scale(
        et_copy(et_reshape(mean, et_shape_2(rows, width)), ET_F32, et_shape_2(rows, width)),
        (float)words);
    et_node *squares = et_row_sum(et_reshape(et_square(w), et_shape_2(rows, words)));
    et_node *v = et_scale(et_div(sum, et_sqrt(et_offset(squares, EPSILON))), SCALE);
    return et_copy(v, act, et_shape_2(rows, width));
}

/* ---- weights ---- */

/* In how many rows an id is. */
typedef struct counting {
    int field; /* of the layout */
    int64_t words;
    float *rows;     /* [buckets] */
    int64_t *latest; /* [buckets]: the last row that has it, from 1 */
} counting;

static void count_rows(void *payload, const et_batch *batch, int64_t first)
{
    const counting *c = payload;
    const int32_t *ids = batch->data[c->field];
    for (int64_t i = 0; i < batch->filled[0]; i++)
        for (int64_t k = 0; k < c->words; k++) {
            const int32_t id = ids[i * c->words + k];
            if (id < 0 || c->latest[id] == first + i + 1)
                continue;
            c->latest[id] = first + i + 1;
            c->rows[id]++;
        }
}

/* rows: the number of rows with the word. */
static float weight_of(int weights, float rows, float all)
{
    const float share = rows / (rows + PRIOR_ROWS);
    if (rows < 2)
        return 0;
    return weights == ET_TABULAR_WORDS_TF_IDF ? 1 + logf((1 + all) / (1 + rows)) : share * share;
}

int et_tabular_fit_text_weights(et_params *params, int weights, const et_encoder *encoder,
                                et_samples *samples, et_error *error)
{
    const et_encoded_field *field;
    int status = ET_OK;
    if (weights == ET_TABULAR_WORDS_TF_IDF && !count_texts(encoder))
        return et_fail(error, ET_ECONFIG,
                       "task.model.word_weights: tf-idf has no effect, because no feature has the "
                       "words of a text; leave it out, or train tabular/linear in place of "
                       "tabular/tf_idf");
    for (int k = 0; !status && (field = field_of(encoder, k)); k++) {
        const size_t buckets = (size_t)field->cardinality[0];
        const int index = et_params_find_printf(params, SCOPE "_%d/" WEIGHT, k);
        if (index < 0)
            return et_fail(error, ET_ENOTFOUND, "the model has no parameter " SCOPE "_%d/" WEIGHT,
                           k);
        float *weight = et_params_values_of(params, index);
        counting c = { et_layout_find(&samples->layout, field->name), field->width, weight,
                       et_alloc_zero(buckets, sizeof *c.latest) };
        if (!c.latest)
            return et_alloc_failed(error, "words of a text");
        et_params_begin_change(params);
        memset(weight, 0, buckets * sizeof *weight);
        status = et_tabular_read(samples, samples->count, count_rows, &c, error);
        for (size_t i = 0; i < buckets; i++)
            weight[i] = weight_of(weights, weight[i], (float)samples->count);
        et_params_changed(params, true);
        et_free(c.latest);
    }
    return status;
}

/* C17 has no name for it. */
#define PI 3.14159265358979323846

/* Used if the settings do not set the number of bins: the most encoded columns of all numbers, the
 * fewest useful bins of a column, and the usual number of bins. */
#define ENCODED_MOST 4096
#define BINS_LEAST   4
#define BINS         48

/* The largest number of rows for the quantiles; of more rows, evenly spread ones are used. */
#define FITTED_MOST 65536

/* The smallest number of rows of a bin: fewer rows give only noise. */
#define BIN_ROWS 256

/* ---- nodes ---- */

/* Whether a model reads a field, which is of a kind. */
static bool is_read(const et_encoded_field *field, et_encoded_kind kind, const et_strings *ignored)
{
    bool read = field->kind == kind;
    for (size_t i = 0; i < ignored->count; i++)
        read &= strcmp(ignored->items[i], field->name) != 0;
    return read;
}

/* Refuses names of unknown features. */
static et_node *check_ignored(et_scope *scope, const et_encoder *encoder, const et_strings *ignored)
{
    for (size_t i = 0; i < ignored->count; i++) {
        int f = 0;
        while (f < et_encoder_fields(encoder) &&
               strcmp(et_encoder_field(encoder, f)->name, ignored->items[i]) != 0)
            f++;
        if (f == et_encoder_fields(encoder))
            return et_graph_poison(et_scope_graph(scope),
                                   "task.model.ignored_features: there is no feature %.60s",
                                   ignored->items[i]);
    }
    return NULL;
}

/* Fields of a kind side by side; NULL: no such fields. */
static et_node *side_by_side(et_scope *scope, const et_encoder *encoder, et_encoded_kind kind,
                             const et_strings *ignored, et_node **parts)
{
    int count = 0;
    for (int f = 0; f < et_encoder_fields(encoder); f++) {
        const et_encoded_field *field = et_encoder_field(encoder, f);
        if (is_read(field, kind, ignored))
            parts[count++] = et_batch_input(scope, field->name);
    }
    return count ? et_concatenate_columns(parts, count) : NULL;
}

/* Columns of a kind that a model reads. */
static int64_t count_columns(const et_encoder *encoder, et_encoded_kind kind,
                             const et_strings *ignored)
{
    int64_t count = 0;
    for (int f = 0; f < et_encoder_fields(encoder); f++)
        if (is_read(et_encoder_field(encoder, f), kind, ignored))
            count += et_encoder_field(encoder, f)->width;
    et_assert(count >= 0 && count < INT32_MAX);
    return count;
}

/* The inputs of a model: numbers of columns of each kind, and the ids of each column, in arena.
 * false: no memory, and no columns of ids. */
static bool open_columns(et_tabular_inputs *inputs, et_arena *arena, const et_encoder *encoder,
                         const et_strings *ignored)
{
    const int64_t ids = count_columns(encoder, ET_ENCODED_IDS, ignored);
    *inputs =
        (et_tabular_inputs){ .number_count = count_columns(encoder, ET_ENCODED_NUMBERS, ignored),
                             .text_count = count_texts(encoder),
                             .encoder = encoder,
                             .columns = et_arena_array(arena, ids, sizeof *inputs->columns) };
    for (int f = 0; inputs->columns && f < et_encoder_fields(encoder); f++) {
        const et_encoded_field *field = et_encoder_field(encoder, f);
        for (int64_t c = 0; is_read(field, ET_ENCODED_IDS, ignored) && c < field->width; c++)
            inputs->columns[inputs->id_count++].rows = field->cardinality[c];
    }
    return inputs->columns != NULL;
}

void et_tabular_inputs_open(et_tabular_inputs *inputs, et_scope *scope, const et_encoder *encoder,
                            const et_strings *ignored)
{
    et_graph *graph = et_scope_graph(scope);
    const int target = et_encoder_target(encoder);
    const bool whole = open_columns(inputs, &graph->arena, encoder, ignored);
    inputs->rows = et_scope_layout(scope)->capacity[0];
    inputs->values = target >= 0 && et_encoder_field(encoder, target)->kind == ET_ENCODED_VALUES;
    inputs->model = inputs->learned = scope;
    et_node **parts = et_arena_array(&graph->arena, et_encoder_fields(encoder), sizeof *parts);
    if (!parts || !whole) {
        inputs->numbers = et_graph_out_of_memory(graph);
        inputs->id_count = 0;
    } else {
        inputs->numbers = side_by_side(scope, encoder, ET_ENCODED_NUMBERS, ignored, parts);
        inputs->ids = side_by_side(scope, encoder, ET_ENCODED_IDS, ignored, parts);
    }
    et_node *unknown = check_ignored(scope, encoder, ignored);
    inputs->numbers = unknown ? unknown : inputs->numbers;
    if (!inputs->numbers && !inputs->ids && !inputs->text_count)
        inputs->numbers =
            et_graph_poison(graph, "all features are targets: there are no input columns");
    inputs->exact = inputs->numbers;
    if (inputs->numbers)
        inputs->numbers =
            et_copy(inputs->numbers, et_graph_act(graph), et_node_shape(inputs->numbers));
}

static int64_t bins_of(const et_tabular_columns *columns, int64_t number_count)
{
    if (columns->numbers != ET_TABULAR_NUMBERS_PIECEWISE || number_count < 1)
        return 0;
    if (columns->bins)
        return columns->bins;
    int64_t bins = ENCODED_MOST / number_count;
    return bins < BINS_LEAST ? 0 : bins > BINS ? BINS : bins;
}

static et_node *encode(et_scope *scope, const et_tabular_inputs *inputs, int64_t bins)
{
    const int64_t numbers = inputs->number_count, rows = inputs->rows, width = numbers * bins;
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_node *factor = et_variable(scope, "factor", et_shape_1(width), zeros);
    et_node *offset = et_variable(scope, "offset", et_shape_1(width), zeros);
    et_node *x = et_reshape(inputs->numbers, et_shape_2(rows * numbers, 1));
    x = et_copy(x, et_node_dtype(x), et_shape_2(rows * numbers, bins));
    x = et_reshape(x, et_shape_2(rows, width));
    return et_clamp(et_add(et_mul(x, factor), offset), 0, 1);
}

/* Values are clipped to this size: cosines of larger values carry no information or are NaN. */
#define PERIODIC_MOST 64

/* cos(2 pi f x + p), float32 [rows, numbers * frequencies]. In bfloat16, the phase would be wrong
 * by a large part of a period. */
static et_node *cosines(et_scope *scope, const et_tabular_inputs *inputs,
                        const et_tabular_columns *columns, et_init phase)
{
    const int64_t numbers = inputs->number_count, rows = inputs->rows;
    const int64_t each = columns->frequencies;
    const et_init drawn = { ET_INIT_NORMAL, (float)columns->frequency_scale };
    const et_shape all = et_shape_1(numbers * each);
    et_node *x = et_clamp(inputs->exact, -PERIODIC_MOST, PERIODIC_MOST);
    x = et_reshape(x, et_shape_2(rows * numbers, 1));
    x = et_copy(x, et_node_dtype(x), et_shape_2(rows * numbers, each));
    x = et_scale(et_reshape(x, et_shape_2(rows, numbers * each)), (float)(2 * PI));
    x = et_mul(x, et_param(scope, "frequency", all, drawn));
    return et_cos(et_add(x, et_param(scope, "phase", all, phase)));
}

/* Initial values of texts, and weights of cosines. */
static et_init begin_of(const et_tabular_inputs *inputs)
{
    return (et_init){ inputs->drawn > 0 ? ET_INIT_UNIFORM : ET_INIT_ZEROS, inputs->drawn };
}

/* [rows, numbers * (1 + frequencies)] */
static et_node *encode_cosine(et_scope *scope, const et_tabular_inputs *inputs,
                              const et_tabular_columns *columns)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    const et_shape all = et_shape_1(inputs->number_count * (1 + columns->frequencies));
    et_node *parts[2] = { inputs->exact, cosines(scope, inputs, columns, zeros) };
    et_node *weight = et_param(scope, "weight", all, begin_of(inputs));
    et_node *x = et_mul(et_concatenate_columns(parts, 2), weight);
    x = et_add(x, et_param(scope, "bias", all, zeros));
    return et_copy(x, et_node_dtype(inputs->numbers), et_node_shape(x));
}

/* [rows, numbers * (periodic_width - 1)] */
static et_node *encode_periodic(et_scope *scope, const et_tabular_inputs *inputs,
                                const et_tabular_columns *columns)
{
    const int64_t numbers = inputs->number_count, rows = inputs->rows;
    const int64_t each = columns->frequencies, width = columns->periodic_width - 1;
    const et_init fitting = { ET_INIT_UNIFORM, 1 / sqrtf((float)each) };
    const et_shape all = et_shape_1(numbers * each);
    const et_init turn = { ET_INIT_UNIFORM, (float)PI };
    et_node *parts[1024];
    et_assert(width >= 1 && width <= 1024);
    et_node *x = cosines(scope, inputs, columns, turn);
    for (int64_t k = 0; k < width; k++) {
        et_node *y = et_mul(x, et_param(et_at(scope, "output", (int)k), "weight", all, fitting));
        parts[k] = et_row_sum(et_reshape(y, et_shape_2(rows * numbers, each)));
    }
    et_node *y =
        et_reshape(et_concatenate_columns(parts, (int)width), et_shape_2(rows, numbers * width));
    y = et_bias(y, et_param(scope, "bias", et_shape_1(numbers * width), fitting));
    return et_copy(y, et_node_dtype(inputs->numbers), et_node_shape(y));
}

/* The width of embeddings grows about as the square root of the number of ids (as in fast.ai). */
static int64_t width_of(const et_tabular_columns *columns, int64_t ids)
{
    return columns->embedding_width ? columns->embedding_width
                                    : (int64_t)fmin(64, round(1.6 * pow((double)ids, 0.56)));
}

static et_node *embed(et_scope *scope, et_node *ids, et_column *columns, int count,
                      const et_tabular_columns *how)
{
    for (int c = 0; c < count; c++)
        columns[c].width = width_of(how, columns[c].rows);
    et_shape size = et_shape_1(et_columns_size(columns, count));
    et_node *table = et_param(scope, "table", size, (et_init){ ET_INIT_UNIFORM, 0.5f });
    et_node *y = et_embed_columns(ids, table, columns, count);
    if (how->embedding_shrinkage <= 0)
        return y;
    et_node *factor = et_variable(scope, "factor", size, (et_init){ ET_INIT_ONES, 0 });
    return et_mul(y, et_embed_columns(ids, factor, columns, count));
}

/* In addition to its values, a column has an id for unknown and an id for missing values. */
#define OTHER_IDS 2

static bool is_one_hot(const et_tabular_columns *how, int64_t ids)
{
    return how->one_hot_levels && ids <= how->one_hot_levels + OTHER_IDS;
}

/* One-hot columns for fields with few values, in order, then the embeddings of the other fields. */
static et_node *encode_ids(et_scope *scope, const et_tabular_inputs *inputs,
                           const et_tabular_columns *how)
{
    const int count = inputs->id_count;
    if (!how->one_hot_levels)
        return embed(et_in(scope, "embedding"), inputs->ids, inputs->columns, count, how);
    et_graph *graph = et_scope_graph(scope);
    et_node **parts = et_arena_array(&graph->arena, 2 * (size_t)count, sizeof *parts);
    et_column *embedded = et_arena_array(&graph->arena, count, sizeof *embedded);
    int hot = 0, others = 0;
    if (!parts || !embedded)
        return et_graph_out_of_memory(graph);
    et_node **rest = parts + count;
    for (int c = 0; c < count; c++) {
        const et_column column = inputs->columns[c];
        et_node *one = et_slice_columns(inputs->ids, c, 1);
        if (is_one_hot(how, column.rows)) {
            parts[hot++] = et_one_hot(et_reshape(one, et_shape_1(inputs->rows)), column.rows);
        } else {
            embedded[others] = column;
            rest[others++] = one;
        }
    }
    if (others)
        parts[hot++] = embed(et_in(scope, "embedding"), et_concatenate_columns(rest, others),
                             embedded, others, how);
    return et_concatenate_columns(parts, hot);
}

/* Columns of a text. */
#define TEXT_WIDTH 8

et_node *et_tabular_flatten(et_scope *scope, const et_tabular_inputs *inputs,
                            const et_tabular_columns *columns)
{
    const int64_t bins = bins_of(columns, inputs->number_count);
    et_graph *graph = et_scope_graph(scope);
    et_node **parts = et_arena_array(&graph->arena, inputs->text_count + 4, sizeof *parts);
    int count = 0;
    if (!parts)
        return et_graph_out_of_memory(graph);
    if (inputs->numbers && columns->numbers != ET_TABULAR_NUMBERS_COSINE)
        parts[count++] = inputs->numbers;
    if (bins)
        parts[count++] = encode(et_in(scope, "bins"), inputs, bins);
    if (inputs->numbers && columns->numbers == ET_TABULAR_NUMBERS_PERIODIC)
        parts[count++] = encode_periodic(et_in(scope, "periodic"), inputs, columns);
    if (inputs->numbers && columns->numbers == ET_TABULAR_NUMBERS_COSINE)
        parts[count++] = encode_cosine(et_in(scope, "cosine"), inputs, columns);
    if (inputs->ids)
        parts[count++] = encode_ids(scope, inputs, columns);
    for (int k = 0; k < inputs->text_count; k++)
        parts[count++] = et_tabular_text_vector(inputs->model, inputs->learned, inputs->encoder, k,
                                                TEXT_WIDTH, begin_of(inputs));
    return et_concatenate_columns(parts, count);
}

/* ---- the columns of a row ---- */

/* Factors of a row, column after column. */
typedef struct row_factors {
    int64_t *first; /* [columns]: index of a column's first factor; -1: none yet */
    float *factor;
    int64_t count;
} row_factors;

static void put(row_factors *row, int64_t column, int64_t width)
{
    if (width && row->first[column] < 0)
        row->first[column] = row->count;
    for (int64_t i = 0; i < width; i++)
        row->factor[row->count++] = row->factor[row->first[column]];
}

static void put_numbers(row_factors *row, int64_t numbers, int64_t width)
{
    for (int64_t k = 0; k < numbers; k++)
        put(row, k, width);
}

/* In the order of et_tabular_flatten. */
static void put_row(row_factors *row, const et_tabular_inputs *inputs,
                    const et_tabular_columns *how)
{
    const int64_t numbers = inputs->number_count;
    const bool cosine = how->numbers == ET_TABULAR_NUMBERS_COSINE;
    put_numbers(row, numbers, 1);
    put_numbers(row, numbers, bins_of(how, numbers));
    if (how->numbers == ET_TABULAR_NUMBERS_PERIODIC)
        put_numbers(row, numbers, how->periodic_width - 1);
    put_numbers(row, numbers, cosine ? how->frequencies : 0);
    for (int c = 0; c < inputs->id_count; c++)
        if (is_one_hot(how, inputs->columns[c].rows))
            put(row, numbers + c, inputs->columns[c].rows);
    for (int c = 0; c < inputs->id_count; c++)
        if (!is_one_hot(how, inputs->columns[c].rows))
            put(row, numbers + c, width_of(how, inputs->columns[c].rows));
    for (int k = 0; k < inputs->text_count; k++)
        put(row, numbers + inputs->id_count + k, TEXT_WIDTH);
}

int et_tabular_join_factors(float *factors, int64_t size, int64_t count,
                            const et_tabular_columns *columns, const et_encoder *encoder,
                            const et_strings *ignored, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_tabular_inputs inputs;
    const bool whole = open_columns(&inputs, &arena, encoder, ignored);
    const size_t all =
        (size_t)inputs.number_count + (size_t)inputs.id_count + (size_t)inputs.text_count + 1;
    row_factors row = { .first = et_arena_array(&arena, all, sizeof *row.first) };
    int status = whole && row.first ? ET_OK : et_alloc_failed(error, "columns");
    for (int64_t i = 0; !status && i < count; i++) {
        for (size_t k = 0; k < all; k++)
            row.first[k] = -1;
        row.factor = factors + i * (size / count);
        row.count = 0;
        put_row(&row, &inputs, columns);
        et_assert(row.count * count == size);
    }
    et_arena_release(&arena);
    return status;
}

/* ---- bins ---- */

ET_SORT_NUMBERS(by_value, float)

/* Quantiles of sorted values: at most bins + 1 different ones, ascending. A frequent value counts
 * at most as many times as a bin has rows. Otherwise a value of nearly all rows would leave no bins
 * for other values. */
static int64_t boundaries_of(const float *sorted, int64_t rows, int64_t bins, float *boundary)
{
    int64_t total = 0, at = 0, count = 0;
    if (bins > rows / BIN_ROWS)
        bins = rows / BIN_ROWS ? rows / BIN_ROWS : 1;
    const int64_t most = rows / bins;
    for (int64_t i = 0, same; i < rows; i += same) {
        for (same = 1; i + same < rows && sorted[i + same] == sorted[i];)
            same++;
        total += same < most ? same : most;
    }
    for (int64_t i = 0, same; i < rows; i += same) {
        for (same = 1; i + same < rows && sorted[i + same] == sorted[i];)
            same++;
        at += same < most ? same : most;
        /* The first value, the last value, and each value that reaches the next of `bins` equal
         * shares. */
        bool due = count == 0 || i + same == rows || at * bins >= count * total;
        if (due && count <= bins)
            boundary[count++] = sorted[i];
        else if (i + same == rows)
            boundary[count - 1] = sorted[i];
    }
    return count;
}

static void fit_column(const float *sorted, int64_t rows, int64_t bins, float *boundary,
                       float *factor, float *offset)
{
    int64_t count = boundaries_of(sorted, rows, bins, boundary);
    et_assert(rows >= 1 && count >= 1 && count <= bins + 1);
    for (int64_t b = 0; b < bins; b++) {
        float width = b + 1 < count ? boundary[b + 1] - boundary[b] : 0;
        bool some = width > 0 && isfinite(1 / width) && isfinite(boundary[b] / width);
        factor[b] = some ? 1 / width : 0;
        offset[b] = some ? -boundary[b] / width : 0;
    }
}

/* Copies the numbers of rows, column by column: to[column * rows + row]. */
typedef struct reading {
    const et_encoder *encoder;
    const et_strings *ignored;
    float *to;
    int64_t rows;
} reading;

static void read_columns(void *payload, const et_batch *batch, int64_t first)
{
    const reading *r = payload;
    float *to = r->to;
    for (int f = 0; f < et_encoder_fields(r->encoder); f++) {
        const et_encoded_field *field = et_encoder_field(r->encoder, f);
        const float *from = batch->data[et_layout_find(batch->layout, field->name)];
        const bool read = is_read(field, ET_ENCODED_NUMBERS, r->ignored);
        for (int64_t c = 0; read && c < field->width; c++) {
            for (int64_t i = 0; i < batch->filled[0]; i++)
                to[first + i] = from[i * field->width + c];
            to += r->rows;
        }
    }
}

static int fit_bins(et_params *params, const char *scope, const et_tabular_columns *columns,
                    const et_encoder *encoder, const et_strings *ignored, et_samples *samples,
                    et_error *error)
{
    const int64_t numbers = count_columns(encoder, ET_ENCODED_NUMBERS, ignored),
                  bins = bins_of(columns, numbers);
    const int factor = et_params_find_printf(params, "%sbins/factor", scope);
    const int offset = et_params_find_printf(params, "%sbins/offset", scope);
    if (!bins)
        return ET_OK;
    et_assert(factor >= 0 && offset >= 0);
    int64_t rows = samples->count < FITTED_MOST ? samples->count : FITTED_MOST;
    size_t count = (size_t)(numbers * rows + bins + 1);
    float *values = et_alloc(count, sizeof *values); /* [numbers, rows], then bins + 1 boundaries */
    if (!values)
        return et_alloc_failed(error, "bins of columns");
    reading r = { encoder, ignored, values, rows };
    int status = et_tabular_read(samples, rows, read_columns, &r, error);
    if (!status) {
        et_params_begin_change(params);
        for (int64_t c = 0; c < numbers; c++) {
            qsort(values + c * rows, rows, sizeof *values, by_value);
            fit_column(values + c * rows, rows, bins, values + numbers * rows,
                       et_params_values_of(params, factor) + c * bins,
                       et_params_values_of(params, offset) + c * bins);
        }
        et_params_changed(params, true);
    }
    et_free(values);
    return status;
}

/* ---- factors of embeddings ---- */

/* Number of rows for each id of each column, column after column. */
typedef struct id_counts {
    const et_encoder *encoder;
    const et_strings *ignored;
    int64_t *rows;
} id_counts;

static void count_ids(void *payload, const et_batch *batch, int64_t first)
{
    const id_counts *c = payload;
    int64_t *rows = c->rows;
    (void)first;
    for (int f = 0; f < et_encoder_fields(c->encoder); f++) {
        const et_encoded_field *field = et_encoder_field(c->encoder, f);
        const int32_t *from = batch->data[et_layout_find(batch->layout, field->name)];
        const bool read = is_read(field, ET_ENCODED_IDS, c->ignored);
        for (int64_t k = 0; read && k < field->width; rows += field->cardinality[k++])
            for (int64_t i = 0; i < batch->filled[0]; i++) {
                const int32_t id = from[i * field->width + k];
                et_assert(id >= 0 && id < field->cardinality[k]);
                rows[id]++;
            }
    }
}

/* share: of the rows that were counted. */
static void set_factors(et_params *params, int factor, const et_tabular_inputs *inputs,
                        const et_tabular_columns *how, const int64_t *rows, double share)
{
    float *to = et_params_values_of(params, factor);
    et_params_begin_change(params);
    for (int c = 0; c < inputs->id_count; c++) {
        const et_column column = inputs->columns[c];
        const int64_t width = width_of(how, column.rows);
        const bool embedded = !is_one_hot(how, column.rows);
        for (int64_t id = 0; id < column.rows; id++, rows++) {
            const double count = (double)*rows / share;
            for (int64_t i = 0; embedded && i < width; i++)
                *to++ = (float)(count / (count + how->embedding_shrinkage));
        }
    }
    et_params_changed(params, true);
}

static int fit_factors(et_params *params, const char *scope, const et_tabular_columns *columns,
                       const et_encoder *encoder, const et_strings *ignored, et_samples *samples,
                       et_error *error)
{
    const int factor = et_params_find_printf(params, "%sembedding/factor", scope);
    const int64_t rows = samples->count < FITTED_MOST ? samples->count : FITTED_MOST;
    et_arena arena = ET_ARENA_INIT;
    et_tabular_inputs inputs;
    size_t ids = 0;
    if (factor < 0)
        return ET_OK;
    if (!open_columns(&inputs, &arena, encoder, ignored))
        return et_alloc_failed(error, "columns");
    for (int c = 0; c < inputs.id_count; c++)
        ids += (size_t)inputs.columns[c].rows;
    id_counts counts = { encoder, ignored, et_arena_array(&arena, ids, sizeof *counts.rows) };
    int status = counts.rows ? et_tabular_read(samples, rows, count_ids, &counts, error)
                             : et_alloc_failed(error, "rows of values");
    if (!status)
        set_factors(params, factor, &inputs, columns, counts.rows,
                    (double)rows / (double)samples->count);
    et_arena_release(&arena);
    return status;
}

int et_tabular_fit_columns(et_params *params, const char *scope, const et_tabular_columns *columns,
                           const et_encoder *encoder, const et_strings *ignored,
                           et_samples *samples, et_error *error)
{
    int status = fit_bins(params, scope, columns, encoder, ignored, samples, error);
    return status ? status : fit_factors(params, scope, columns, encoder, ignored, samples, error);
}
