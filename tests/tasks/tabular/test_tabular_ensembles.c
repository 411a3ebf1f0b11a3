/* Models of tables that are several networks, TabM and packs: each network is compared with a plain
 * computation in double from the weights by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/exec/pass.h"
#include "engine/graph/graph.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/models_fixture.h"
#include "tasks/tabular/target/target.h"

/* ---- TabM ---- */

enum { MEMBERS = 3, BINS_OF_TABM = 4 };

/* Logits of a member, from the row's columns. */
static void tabm_member(const fixture *f, int member, const double *columns, int count, double *y)
{
    const et_tabular_tabm *m = &f->options.model.tabm;
    const float *scale = weights(f, "input/scale", MEMBERS * count) + member * count;
    double x[WIDTH_MAX];
    for (int i = 0; i < count; i++)
        x[i] = columns[i] * (double)scale[i];
    for (int l = 0; l < m->num_layers; l++, count = WIDTH) {
        char scope[20];
        double h[WIDTH];
        snprintf(scope, sizeof scope, "layer_%d/", l);
        if (!m->mini && l > 0)
            for (int i = 0; i < count; i++)
                x[i] *= (double)part(f, scope, "input_scale", MEMBERS * count)[member * count + i];
        const float *w = part(f, scope, "weight", count * WIDTH);
        for (int o = 0; o < WIDTH; o++) {
            double sum = 0;
            for (int i = 0; i < count; i++)
                sum += x[i] * (double)w[i * WIDTH + o];
            if (!m->mini)
                sum *= (double)part(f, scope, "output_scale", MEMBERS * WIDTH)[member * WIDTH + o];
            sum += m->mini ? (double)part(f, scope, "bias", WIDTH)[o]
                           : (double)part(f, scope, "bias", MEMBERS * WIDTH)[member * WIDTH + o];
            h[o] = fmax(sum, 0);
        }
        memcpy(x, h, sizeof h);
    }
    for (int c = 0; c < OUTPUTS; c++) {
        char name[40];
        snprintf(name, sizeof name, "logits/output_%d/weight", c);
        y[c] = (double)weights(f, "logits/bias", MEMBERS * OUTPUTS)[member * OUTPUTS + c];
        for (int i = 0; i < WIDTH; i++)
            y[c] += x[i] * (double)weights(f, name, MEMBERS * WIDTH)[member * WIDTH + i];
    }
}

/* Probabilities, and the cross entropy of the label. */
static double softmax_of(const double *y, int label, double *p)
{
    double sum = 0;
    for (int c = 0; c < OUTPUTS; c++)
        sum += exp(y[c]);
    for (int c = 0; c < OUTPUTS; c++)
        p[c] = exp(y[c]) / sum;
    return -log(p[label]);
}

static void build_with_loss(et_scope *scope, void *payload)
{
    fixture *f = payload;
    et_tabular_target target;
    assert_ok(et_tabular_target_of(&target, &f->options, f->encoder, error));
    et_node *z = et_tabular_build_outputs(scope, &f->options, f->encoder, &target, NULL);
    et_tabular_build_loss(scope, &f->options, &target, et_batch_input(scope, "Y"), z);
}

static double measured(const et_pass *pass, const char *name)
{
    for (int i = 0; i < et_pass_measures(pass); i++)
        if (!strcmp(et_pass_measured(pass, i).name, name))
            return et_pass_measured(pass, i).total / et_pass_measured(pass, i).weight;
    fail_msg("no measure %s", name);
    return 0;
}

/* Scores are the mean of the members' probabilities, the loss is the mean of their losses. */
static void test_ensembles__tabm(void **state)
{
    (void)state;
    for (int mini = 0; mini < 2; mini++) {
        fixture f = { .encoder = NULL };
        double loss = 0, right = 0;
        open_model(&f, ET_TABULAR_TABM);
        et_tabular_tabm *m = &f.options.model.tabm;
        *m = (et_tabular_tabm){ .columns = m->columns,
                                .members = MEMBERS,
                                .num_layers = 2,
                                .width = WIDTH,
                                .mini = mini,
                                .shared_batches = true,
                                .activation = ET_ACTIVATION_RELU,
                                .dropout = 0.1 };
        m->columns.bins = BINS_OF_TABM;
        assert_ok(et_device_open(&f.device, error));
        assert_ok(et_params_new(&f.params, error));
        assert_ok(et_pass_open(&f.pass, f.device, f.params, &f.source->layout, build_with_loss, &f,
                               NULL, error));
        assert_ok(et_params_materialize(f.params, false, error));
        draw(f.params);
        assert_ok(et_tabular_model_fit(f.params, &f.options.model, f.encoder, f.samples, error));
        assert_ok(et_pass_run(f.pass, f.batch, 1, 0, error));
        const float *scores = et_pass_output(f.pass, ET_TABULAR_SCORES).data;
        for (int row = 0; row < ROWS; row++) {
            double x[WIDTH_MAX], y[OUTPUTS], p[OUTPUTS], mean[OUTPUTS] = { 0 };
            int count = flatten(&f, row, BINS_OF_TABM, usual, x);
            for (int i = 0; i < MEMBERS; i++) {
                int best = 0;
                tabm_member(&f, i, x, count, y);
                loss += softmax_of(y, f.rows.y[row], p) / MEMBERS;
                for (int c = 0; c < OUTPUTS; c++) {
                    mean[c] += p[c] / MEMBERS;
                    best = y[c] > y[best] ? c : best;
                }
                right += best == f.rows.y[row];
            }
            for (int c = 0; c < OUTPUTS; c++)
                if (!(fabs((double)scores[row * OUTPUTS + c] - mean[c]) < 1e-5))
                    fail_msg("row %d, class %d: %g is not %g", row, c,
                             (double)scores[row * OUTPUTS + c], mean[c]);
        }
        assert_true(fabs(et_pass_loss(f.pass) - loss) < 1e-4);
        assert_true(fabs(measured(f.pass, "nll") - loss / ROWS) < 1e-5);
        assert_true(fabs(measured(f.pass, "accuracy") - right / (ROWS * MEMBERS)) < 1e-5);
        close_model(&f);
    }
}

/* A batch with all rows for each member, shuffled independently. */
static et_source *open_orders(fixture *f, et_batch **batch)
{
    const et_batches_options options = { .capacity = { MEMBERS * ROWS } };
    et_samples *samples;
    et_source *source;
    assert_ok(et_tabular_borrow(&samples, f->samples, error));
    assert_ok(et_tabular_order_for_members(&samples, samples, MEMBERS, 5, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    assert_ok(et_batch_new(batch, &source->layout, error));
    assert_ok(et_source_next(source, *batch, error));
    return source;
}

/* A training pass of batches next to one of inference, over the same weights. */
static et_pass *open_training(fixture *f, const et_batch *batch, int64_t width, bool mini,
                              int64_t layers)
{
    const et_pass_options options = { .training = true };
    et_pass *training;
    et_tabular_tabm *m = &f->options.model.tabm;
    *m = (et_tabular_tabm){ .columns = m->columns,
                            .members = MEMBERS,
                            .num_layers = layers,
                            .width = width,
                            .mini = mini,
                            .shared_batches = batch == f->batch,
                            .activation = ET_ACTIVATION_TANH };
    m->columns.bins = BINS_OF_TABM;
    assert_ok(et_device_open(&f->device, error));
    assert_ok(et_params_new(&f->params, error));
    assert_ok(et_pass_open(&training, f->device, f->params, batch->layout, build_with_loss, f,
                           &options, error));
    assert_ok(et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build_with_loss, f,
                           NULL, error));
    assert_ok(et_params_materialize(f->params, false, error));
    draw(f->params);
    assert_ok(et_tabular_model_fit(f->params, &f->options.model, f->encoder, f->samples, error));
    return training;
}

/* Of the weights moved by so many times a direction of one parameter. */
static double loss_beside(fixture *f, int param, float times)
{
    float *at = et_params_values(f->params) + et_params_offset(f->params, param);
    const int64_t size = et_shape_count(et_params_shape(f->params, param));
    et_params_begin_change(f->params);
    for (int64_t i = 0; i < size; i++)
        at[i] += times * sinf(1.0f + (float)i);
    et_params_changed(f->params, true);
    assert_ok(et_pass_run(f->pass, f->batch, 1, 0, error));
    for (int64_t i = 0; i < size; i++)
        at[i] -= times * sinf(1.0f + (float)i);
    return et_pass_loss(f->pass);
}

/* times: factor of the training loss on the loss of f->pass. */
static void check_direction(fixture *f, int param, double times)
{
    const float step = 1e-2f, *gradient = et_params_gradients(f->params);
    const int64_t size = et_shape_count(et_params_shape(f->params, param));
    double derivative = 0;
    for (int64_t i = 0; i < size; i++)
        derivative +=
            (double)gradient[et_params_offset(f->params, param) + i] / times * sin(1.0 + (double)i);
    double numeric =
        (loss_beside(f, param, step) - loss_beside(f, param, -step)) / (2 * (double)step);
    if (!(fabs(numeric - derivative) < 5e-3 + 1e-2 * fabs(numeric)))
        fail_msg("%s: derivative %g, finite difference %g", et_params_name(f->params, param),
                 derivative, numeric);
}

static bool copies_weights(const et_pass *training)
{
    const et_graph *graph = et_pass_graph(training);
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i]->op == ET_OP_SCALED_COPIES)
            return true;
    return false;
}

/* own: each member trains on its own batch, which has all rows. */
static void check_training(int64_t width, bool mini, int64_t layers, bool own, bool copies)
{
    fixture f = { .encoder = NULL };
    et_batch *batch = NULL;
    open_model(&f, ET_TABULAR_TABM);
    et_source *orders = own ? open_orders(&f, &batch) : NULL;
    const double times = own ? MEMBERS : 1;
    et_pass *training = open_training(&f, own ? batch : f.batch, width, mini, layers);
    assert_ok(et_pass_run(training, own ? batch : f.batch, 1, 0, error));
    assert_ok(et_pass_run(f.pass, f.batch, 1, 0, error));
    assert_true(fabs(et_pass_loss(training) / times - et_pass_loss(f.pass)) < 1e-4);
    if (copies_weights(training) != copies)
        fail_msg("width %lld, mini %d, own %d", (long long)width, mini, own);
    assert_false(copies_weights(f.pass));
    int checked = 0;
    for (int i = 0; i < et_params_count(f.params); i++)
        if (et_params_is_trained(f.params, i)) {
            check_direction(&f, i, times);
            checked++;
        }
    assert_true(checked >= 6);
    et_pass_close(training);
    et_source_close(orders);
    et_batch_free(batch);
    close_model(&f);
}

/* Training computes the same as prediction, whether scales are applied to copies of the weights,
 * as in narrow layers, or to rows, and derivatives are those of it. */
static void test_ensembles__tabm_in_training(void **state)
{
    (void)state;
    static const struct {
        int64_t width, layers;
        bool mini, copies;
    } cases[] = { { WIDTH, 2, false, true },
                  { WIDTH, 2, true, true },
                  { 40, 2, false, false },
                  { 40, 2, true, false },
                  { WIDTH, 0, false, false } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int own = 0; own < 2; own++)
            check_training(cases[c].width, cases[c].mini, cases[c].layers, own, cases[c].copies);
}

/* The first scales of a member are one number for all that a column became: in order three
 * numbers, their bins, and the embeddings of two columns. */
static void test_ensembles__tabm_begins(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    double seen[MEMBERS * (NUMBERS + IDS)];
    open_model(&f, ET_TABULAR_TABM);
    et_pass_close(open_training(&f, f.batch, WIDTH, false, 1));
    assert_ok(et_tabular_model_begin(f.params, &f.options.model, f.encoder, error));
    const int table = (int)et_shape_count(
        et_params_shape(f.params, et_params_find(f.params, "columns/embedding/table")));
    const int each[IDS] = { 3, 4 }, numbers = NUMBERS * (1 + BINS_OF_TABM);
    assert_int_equal(ids_of[0] * each[0] + ids_of[1] * each[1], table);
    const int count = numbers + each[0] + each[1];
    const float *scale = weights(&f, "input/scale", MEMBERS * count);
    int columns = 0;
    for (int i = 0; i < MEMBERS; i++) {
        const float *of = scale + i * count;
        for (int k = 0; k < NUMBERS; k++)
            for (int b = 0; b < BINS_OF_TABM; b++)
                assert_true(of[k] == of[NUMBERS + k * BINS_OF_TABM + b]);
        for (int k = 0; k < NUMBERS; k++)
            seen[columns++] = (double)of[k];
        for (int c = 0, at = numbers; c < IDS; at += each[c++]) {
            for (int b = 0; b < each[c]; b++)
                assert_true(of[at] == of[at + b]);
            seen[columns++] = (double)of[at];
        }
    }
    for (int i = 0; i < columns; i++)
        for (int k = 0; k < i; k++)
            assert_true(fabs(seen[i] - seen[k]) > 0);
    close_model(&f);
}

/* ---- packs ---- */

/* Numbers of two members that drop nothing, and have not as many layers. */
static void choose_members(et_tabular_pack *pack, char text[2][8], const char *only[2])
{
    int64_t layers = 0;
    size_t count = 0;
    for (int i = 0; count < 2; i++) {
        const et_pack_member m = et_pack_member_at(pack, i);
        if (m.dropout > 0 || m.num_layers == layers)
            continue;
        layers = m.num_layers;
        snprintf(text[count], sizeof text[count], "%d", i);
        only[count] = text[count];
        count++;
    }
    pack->only = (et_strings){ .items = only, .count = 2 };
}

/* Logits of a member from its weights below "member_3/" or "best/member_3/": numbers and their
 * cosines, each with a factor and an offset, a column of few values one-hot, the other one
 * embedded. */
static void pack_member(const fixture *f, const char *below, int member, int row, double *y)
{
    const et_pack_member m = et_pack_member_at(&f->options.model.pack, member);
    const int each = (int)m.columns.frequencies, all = NUMBERS * each;
    double x[WIDTH_MAX] = { 0 }, h[WIDTH];
    char scope[60], columns[90], layer[90];
    int count = NUMBERS;
    snprintf(scope, sizeof scope, "%smember_%d/", below, (int)m.number);
    snprintf(columns, sizeof columns, "%scolumns/", scope);
    numbers_of(&f->rows, row, x);
    for (int i = 0; i < all; i++) {
        const double turns = x[i / each] * (double)part(f, columns, "cosine/frequency", all)[i];
        const double phase = (double)part(f, columns, "cosine/phase", all)[i];
        x[count++] = cos(2 * 3.14159265358979323846 * turns + phase);
    }
    for (int i = 0; i < count; i++)
        x[i] = x[i] * (double)part(f, columns, "cosine/weight", count)[i] +
               (double)part(f, columns, "cosine/bias", count)[i];
    x[count + f->rows.s[row][0]] = 1;
    count += ids_of[0];
    for (int i = 0; i < usual[1]; i++)
        x[count++] = (double)part(f, columns, "embedding/table",
                                  ids_of[1] * usual[1])[f->rows.t[row][0] * usual[1] + i];
    for (int l = 0; l < m.num_layers; l++, count = WIDTH) {
        snprintf(layer, sizeof layer, "%slayer_%d/", scope, l);
        dense(f, layer, x, count, h, WIDTH);
        relu(h, WIDTH);
        memcpy(x, h, sizeof h);
    }
    snprintf(layer, sizeof layer, "%slogits/", scope);
    dense(f, layer, x, WIDTH, y, OUTPUTS);
}

static void open_pack(fixture *f, char text[2][8], const char *only[2])
{
    open_model(f, ET_TABULAR_PACK);
    f->options.model.pack.width = WIDTH;
    f->options.model.pack.one_hot_levels = 2;
    choose_members(&f->options.model.pack, text, only);
    assert_ok(et_device_open(&f->device, error));
    assert_ok(et_params_new(&f->params, error));
}

static void run_pack_with(fixture *f, const et_pass_options *options)
{
    assert_ok(et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build_with_loss, f,
                           options, error));
    assert_ok(et_params_materialize(f->params, options->bfloat16, error));
    draw(f->params);
    assert_ok(et_pass_run(f->pass, f->batch, 1, 0, error));
}

static void run_pack(fixture *f, bool training)
{
    const et_pass_options options = { .training = training };
    run_pack_with(f, &options);
}

/* Scores are the mean of the best members' probabilities by their shares; the loss of validation is
 * the mean of the members' own. */
static void test_ensembles__pack(void **state)
{
    (void)state;
    fixture f = { .encoder = NULL };
    char text[2][8];
    const char *only[2];
    double loss = 0;
    open_pack(&f, text, only);
    run_pack(&f, false);
    const float *share = weights(&f, "ensemble/share", 2);
    const float *scores = et_pass_output(f.pass, ET_TABULAR_SCORES).data;
    const float *members = et_pass_output(f.pass, "members").data;
    for (int row = 0; row < ROWS; row++) {
        double y[OUTPUTS], p[OUTPUTS], mean[OUTPUTS] = { 0 };
        for (int i = 0; i < 2; i++) {
            pack_member(&f, "", i, row, y);
            loss += softmax_of(y, f.rows.y[row], p) / 2;
            for (int c = 0; c < OUTPUTS; c++)
                assert_true(fabs(p[c] - (double)*members++) < 1e-5);
        }
        for (int i = 0; i < 2; i++) {
            pack_member(&f, "best/", i, row, y);
            softmax_of(y, 0, p);
            for (int c = 0; c < OUTPUTS; c++) {
                assert_true(fabs(p[c] - (double)*members++) < 1e-5);
                mean[c] += (double)share[i] * p[c];
            }
        }
        for (int c = 0; c < OUTPUTS; c++)
            assert_true(fabs(mean[c] - (double)scores[row * OUTPUTS + c]) < 1e-5);
    }
    assert_true(fabs(et_pass_loss(f.pass) - loss) < 1e-4);
    close_model(&f);
}

static void make_frequencies_high(et_params *params)
{
    et_params_begin_change(params);
    for (int i = 0; i < et_params_count(params); i++)
        if (strstr(et_params_name(params, i), "frequency"))
            for (int64_t k = 0; k < et_shape_count(et_params_shape(params, i)); k++)
                et_params_values(params)[et_params_offset(params, i) + k] *= 100;
    et_params_changed(params, true);
}

/* Cosines of many turns are those of the numbers, not of numbers rounded to bfloat16. */
static void test_ensembles__pack_in_bfloat16(void **state)
{
    (void)state;
    const et_pass_options options = { .bfloat16 = true };
    fixture f = { .encoder = NULL };
    char text[2][8];
    const char *only[2];
    double off = 0;
    open_pack(&f, text, only);
    run_pack_with(&f, &options);
    make_frequencies_high(f.params);
    assert_ok(et_pass_run(f.pass, f.batch, 1, 0, error));
    const float *members = et_pass_output(f.pass, "members").data;
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 4; i++) {
            double y[OUTPUTS], p[OUTPUTS];
            pack_member(&f, i < 2 ? "" : "best/", i % 2, row, y);
            softmax_of(y, 0, p);
            for (int c = 0; c < OUTPUTS; c++)
                off = fmax(off, fabs(p[c] - (double)*members++));
        }
    if (!(off < 0.02))
        fail_msg("%g off", off);
    close_model(&f);
}

/* The loss of training is the sum of the members'; gradients are those of a member alone, bit for
 * bit. */
static void test_ensembles__pack_members_are_independent(void **state)
{
    (void)state;
    fixture both = { .encoder = NULL }, one = { .encoder = NULL };
    char text[2][8];
    const char *only[2];
    double loss = 0, y[OUTPUTS], p[OUTPUTS];
    int compared = 0;
    open_pack(&both, text, only);
    run_pack(&both, true);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < 2; i++) {
            pack_member(&both, "", i, row, y);
            loss += softmax_of(y, both.rows.y[row], p);
        }
    assert_true(fabs(et_pass_loss(both.pass) - loss) < 1e-4);
    open_pack(&one, text, only);
    one.options.model.pack.only = (et_strings){ .items = &only[1], .count = 1 };
    run_pack(&one, true);
    for (int i = 0; i < et_params_count(one.params); i++, compared++) {
        const int64_t size = et_shape_count(et_params_shape(one.params, i));
        const int other = et_params_find(both.params, et_params_name(one.params, i));
        assert_memory_equal(et_params_gradients(one.params) + et_params_offset(one.params, i),
                            et_params_gradients(both.params) + et_params_offset(both.params, other),
                            (size_t)size * sizeof(float));
    }
    assert_true(compared > 6);
    close_model(&one);
    close_model(&both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ensembles__tabm),
        cmocka_unit_test(test_ensembles__tabm_in_training),
        cmocka_unit_test(test_ensembles__tabm_begins),
        cmocka_unit_test(test_ensembles__pack),
        cmocka_unit_test(test_ensembles__pack_in_bfloat16),
        cmocka_unit_test(test_ensembles__pack_members_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
