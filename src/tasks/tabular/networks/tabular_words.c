#include "tasks/tabular/networks/networks_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/pass.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "tasks/tabular/samples.h"

#define SCOPE  "text"
#define WEIGHT "weight"

/* Of the sum of squares, for texts without a word. */
#define EPSILON 1e-6f

/* Rows that weigh as much as what is known of a word without any row; and the factor of a text, by
 * which its vectors learn more slowly than weights do. */
#define PRIOR_ROWS 40
#define SCALE      0.3f

/* The field of text number k; NULL: there are fewer. */
static const et_encoded_field *field_of(const et_encoder *encoder, int k)
{
    for (int f = 0; f < et_encoder_fields(encoder); f++)
        if (et_encoder_field(encoder, f)->kind == ET_ENCODED_WORDS && k-- == 0)
            return et_encoder_field(encoder, f);
    return NULL;
}

int et_tabular_words_count(const et_encoder *encoder)
{
    int count = 0;
    while (field_of(encoder, count))
        count++;
    return count;
}

et_node *et_tabular_words(et_scope *model, et_scope *learned, const et_encoder *encoder, int k,
                          int64_t width, et_init begin)
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

/* rows: those that have the word. */
static float weight_of(int weights, float rows, float all)
{
    const float share = rows / (rows + PRIOR_ROWS);
    if (rows < 2)
        return 0;
    return weights == ET_TABULAR_WORDS_TF_IDF ? 1 + logf((1 + all) / (1 + rows)) : share * share;
}

static int fit(float *weight, int weights, const et_encoded_field *field, et_samples *samples,
               et_error *error)
{
    const size_t buckets = (size_t)field->cardinality[0];
    counting c = { et_layout_find(&samples->layout, field->name), field->width, weight,
                   et_alloc_zero(buckets, sizeof *c.latest) };
    if (!c.latest)
        return et_alloc_failed(error, buckets * sizeof *c.latest, "words of a text");
    memset(weight, 0, buckets * sizeof *weight);
    int status = et_tabular_read(samples, samples->count, count_rows, &c, error);
    for (size_t i = 0; i < buckets; i++)
        weight[i] = weight_of(weights, weight[i], (float)samples->count);
    et_free(c.latest);
    return status;
}

int et_tabular_words_fit(et_params *params, int weights, const et_encoder *encoder,
                         et_samples *samples, et_error *error)
{
    const et_encoded_field *field;
    int status = ET_OK;
    if (weights == ET_TABULAR_WORDS_TF_IDF && !et_tabular_words_count(encoder))
        return et_fail(error, ET_ECONFIG,
                       "task.model.word_weights: tf-idf has no effect, because no feature has the "
                       "words of a text; leave it out, or train tabular/linear in place of "
                       "tabular/tf_idf");
    for (int k = 0; !status && (field = field_of(encoder, k)); k++) {
        char path[64];
        snprintf(path, sizeof path, SCOPE "_%d/" WEIGHT, k);
        const int index = et_params_find(params, path);
        if (index < 0)
            return et_fail(error, ET_ENOTFOUND, "the model has no parameter %s", path);
        et_params_begin_change(params);
        status = fit(et_params_values(params) + et_params_offset(params, index), weights, field,
                     samples, error);
        et_params_changed(params, true);
    }
    return status;
}
