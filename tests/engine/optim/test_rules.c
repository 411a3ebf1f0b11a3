/* Requirements for every rule of rules.def, by its name in settings: equal bits for any number of
 * threads, and after a resume; no update allocates. Also tests the rules without golden values. */
#include "engine/optim/optimizer.h"
#include "engine/optim/rules/rule.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "engine/kernel/reference/reference.h"
#include "engine/optim/all_shapes.h"
#include "engine/optim/optim.h"
#include "engine/tensor/params.h"

enum { STEPS = 3 };

static double gradient_of(int p, int64_t i, int step)
{
    return (float)sin((double)(i + 100 * p) * 0.37 + step * 1.3 + (double)i * (double)i * 0.011);
}

/* Gradients from parameter `first` on; what others have stays. */
static void step_from(et_optimizer *optimizer, et_params *params, int step, int first)
{
    for (int p = first; p < COUNT; p++) {
        float *gradient = et_params_gradients(params) + et_params_offset(params, p);
        for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++)
            gradient[i] = (float)gradient_of(p, i, step);
    }
    size_t allocations = et_alloc_count();
    assert_true(et_optimizer_apply(optimizer, et_params_gradients(params), 0.5).finite);
    et_optimizer_average_variables(optimizer);
    assert_int_equal(et_alloc_count(), allocations);
}

static void step_once(et_optimizer *optimizer, et_params *params, int step)
{
    step_from(optimizer, params, step, 0);
}

/* Every rule, with options that give it all of its slots. The last row has the lists, for rules
 * that have them. */
#define WITH_ALL                                                                                   \
    "sgd: {momentum: 0.9, nesterov: true}, sgd_experimental: {momentum: 0.9}, rmsprop: "           \
    "{momentum: "                                                                                  \
    "0.9, centered: true}, adam: {amsgrad: true}, adam_experimental: {amsgrad: true}, adamw: "     \
    "{amsgrad: true, weight_decay_rate: 0.1, exclude_from_weight_decay: bias}, "                   \
    "adamw_experimental: {amsgrad: true, weight_decay: 0.1}, lamb: {weight_decay_rate: 0.1, "      \
    "exclude_from_weight_decay: [bias, norm]}, lars: {classic_momentum: false, nesterov: true, "   \
    "weight_decay_rate: 0.1, exclude_from_weight_decay: [bias, norm]}, muon: {weight_decay_rate: " \
    "0.1, exclude_from_orthogonalization: embedding, orthogonalization_dtype: bfloat16}"
static const char *const settings[] = { "", "sgd: {momentum: 0}", WITH_ALL,
                                        "muon: {orthogonalization_dtype: auto}" };
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static et_optimizer *make_by(const et_kernels *kernels, et_params *params, int type,
                             const char *more, double rate)
{
    et_optimization_options o = default_options();
    et_arena arena = ET_ARENA_INIT;
    et_optimizer *optimizer;
    char text[1024];
    snprintf(text, sizeof text,
             "{optimizer: {%s}, ema: {enabled: true, trainable_weights_only: "
             "false}}",
             more);
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.learning_rate.constant.learning_rate = rate;
    o.optimizer.type = type;
    assert_ok(read_options(&o, text, &arena, error));
    assert_ok(et_optimizer_new(&optimizer, params, NULL, kernels, &o, error));
    et_arena_release(&arena);
    return optimizer;
}

static et_optimizer *make_at(et_params *params, int type, const char *more, double rate)
{
    return make_by(et_kernels_best(), params, type, more, rate);
}

static et_optimizer *make(et_params *params, int type, const char *more)
{
    return make_at(params, type, more, 0.05);
}

static void assert_same(et_params *a, et_optimizer *x, et_params *b, et_optimizer *y, int type)
{
    const et_slot_part *parts, *others;
    int count = et_optimizer_parts(x, &parts);
    size_t bytes = (size_t)et_params_flat_size(a) * sizeof(float);
    assert_int_equal(et_optimizer_parts(y, &others), count);
    if (memcmp(et_params_values(a), et_params_values(b), bytes) != 0)
        fail_msg("rule %d: weights differ", type);
    assert_memory_equal(et_params_shadow(a), et_params_shadow(b), bytes / 2);
    for (int i = 0; i < count; i++)
        if (memcmp(parts[i].data, others[i].data,
                   (size_t)et_shape_count(parts[i].shape) * sizeof(float)) != 0)
            fail_msg("rule %d: %s of %s differs", type, parts[i].slot,
                     et_params_name(a, parts[i].param));
}

static void test_rules__same_bits_for_any_threads(void **state)
{
    (void)state;
    int threads = omp_get_max_threads();
    for (int type = ET_OPTIMIZER_NONE + 1; type <= OWN_RULE; type++)
        for (int s = 0; s < SETTINGS; s++) {
            et_params *one = make_params(), *many = make_params(), *start = make_params();
            omp_set_num_threads(1);
            et_optimizer *x = make(one, type, settings[s]);
            omp_set_num_threads(3);
            et_optimizer *y = make(many, type, settings[s]);
            for (int step = 0; step < STEPS; step++) {
                omp_set_num_threads(1);
                step_once(x, one, step);
                omp_set_num_threads(2 + step);
                step_once(y, many, step);
            }
            assert_same(one, x, many, y, type);
            for (int p = 0; p < COUNT; p++)
                assert_true(et_params_values(one)[et_params_offset(one, p)] !=
                            et_params_values(start)[et_params_offset(one, p)]);
            et_optimizer_free(x), et_optimizer_free(y);
            et_params_free(one), et_params_free(many), et_params_free(start);
        }
    omp_set_num_threads(threads);
}

/* Copies the contents of a checkpoint: weights, parts, iterations. */
static void hand_over(et_params *from, et_optimizer *old, et_params *to, et_optimizer *new)
{
    const et_slot_part *parts, *others;
    int count = et_optimizer_parts(old, &parts);
    assert_int_equal(et_optimizer_parts(new, &others), count);
    et_params_begin_change(to);
    for (int i = 0; i < et_params_count(from); i++) {
        int64_t at = et_params_offset(from, i);
        memcpy(et_params_values(to) + at, et_params_values(from) + at,
               (size_t)et_shape_count(et_params_shape(from, i)) * sizeof(float));
    }
    et_params_changed(to, true);
    for (int i = 0; i < count; i++)
        memcpy(others[i].data, parts[i].data,
               (size_t)et_shape_count(parts[i].shape) * sizeof(float));
    et_optimizer_set_progress(new, et_optimizer_iterations(old), 0);
}

static void test_rules__resume(void **state)
{
    (void)state;
    for (int type = ET_OPTIMIZER_NONE + 1; type <= OWN_RULE; type++)
        for (int s = 0; s < SETTINGS; s++) {
            et_params *one = make_params(), *two = make_params(), *again = make_params();
            et_optimizer *x = make(one, type, settings[s]), *y = make(two, type, settings[s]);
            et_optimizer *z = make(again, type, settings[s]);
            for (int step = 0; step < 2 * STEPS; step++)
                step_once(x, one, step);
            for (int step = 0; step < STEPS; step++)
                step_once(y, two, step);
            hand_over(two, y, again, z);
            for (int step = STEPS; step < 2 * STEPS; step++)
                step_once(z, again, step);
            assert_same(one, x, again, z, type);
            et_optimizer_free(x), et_optimizer_free(y), et_optimizer_free(z);
            et_params_free(one), et_params_free(two), et_params_free(again);
        }
}

/* A pass does not write the gradient of parameters that its loss does not reach, which is zero from
 * the start. A rule must not write it either. */
static void test_rules__unreached(void **state)
{
    (void)state;
    enum { FIRST = 3 }; /* reached by the loss: a matrix and vectors come first */
    for (int type = ET_OPTIMIZER_NONE + 1; type <= OWN_RULE; type++) {
        et_params *one = make_params(), *two = make_params();
        et_optimizer *x = make(one, type, settings[2]), *y = make(two, type, settings[2]);
        for (int step = 0; step < STEPS; step++) {
            for (int p = 0; p < FIRST; p++)
                memset(et_params_gradients(two) + et_params_offset(two, p), 0,
                       (size_t)et_shape_count(parameters[p].shape) * sizeof(float));
            step_from(x, one, step, FIRST);
            step_from(y, two, step, FIRST);
        }
        assert_same(one, x, two, y, type);
        for (int p = 0; p < FIRST; p++)
            for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++)
                assert_true(et_params_gradients(one)[et_params_offset(one, p) + i] == 0);
        et_optimizer_free(x), et_optimizer_free(y);
        et_params_free(one), et_params_free(two);
    }
}

/* Tensors with one element, of any rank, and a row and a column: with no gradient, huge and tiny
 * ones and a rate of 0 weights stay finite; a gradient that is not finite changes nothing. */
static void test_rules__edges(void **state)
{
    (void)state;
    static const et_shape shapes[] = { { 0, { 0 } },         { 1, { 1 } },    { 2, { 1, 1 } },
                                       { 3, { 1, 1, 1 } },   { 2, { 1, 3 } }, { 2, { 3, 1 } },
                                       { 4, { 1, 1, 2, 2 } } };
    static const float gradients[] = { 0, 1, -1e18f, 1e-38f, 0, 3e-20f, 1e18f, 0, NAN, INFINITY };
    enum { SHAPES = sizeof shapes / sizeof *shapes, CASES = sizeof gradients / sizeof *gradients };
    for (int type = ET_OPTIMIZER_NONE + 1; type <= OWN_RULE; type++)
        for (int s = 0; s < SETTINGS * 2 * (SHAPES + 1); s++) {
            const char *setting = settings[s % SETTINGS];
            double rate = s / SETTINGS % 2 ? 0 : 0.05;
            int only = s / SETTINGS / 2; /* SHAPES: all */
            et_params *params;
            int index;
            assert_ok(et_params_new(&params, error));
            for (int p = 0; p < SHAPES; p++) {
                char name[16];
                snprintf(name, sizeof name, "p%d/weight", p);
                if (only == SHAPES || p == only)
                    assert_ok(et_params_declare(params, name, shapes[p],
                                                (et_init){ ET_INIT_ONES, 0 }, &index, error));
            }
            assert_ok(et_params_materialize(params, true, error));
            et_optimizer *optimizer = make_at(params, type, setting, rate);
            int64_t size = et_params_flat_size(params);
            for (int c = 0; c < CASES; c++) {
                float *gradient = et_params_gradients(params), kept[256];
                assert_true(size <= 256);
                memcpy(kept, et_params_values(params), (size_t)size * sizeof(float));
                for (int p = 0; p < et_params_count(params); p++)
                    for (int64_t i = 0; i < et_shape_count(et_params_shape(params, p)); i++)
                        gradient[et_params_offset(params, p) + i] = gradients[c];
                bool finite = et_optimizer_apply(optimizer, gradient, 1).finite;
                if (finite != (isfinite(gradients[c]) != 0))
                    fail_msg("rule %d, gradient %g: finite %d", type, gradients[c], finite);
                if (!finite)
                    assert_memory_equal(kept, et_params_values(params),
                                        (size_t)size * sizeof(float));
                for (int64_t i = 0; i < size; i++)
                    if (!isfinite(et_params_values(params)[i]))
                        fail_msg("rule %d, setting %d, shape %d, gradient %g, rate %g: %g", type,
                                 s % SETTINGS, only, gradients[c], rate,
                                 et_params_values(params)[i]);
            }
            et_optimizer_free(optimizer);
            et_params_free(params);
        }
}

/* Slots that are reset equal those of a new optimizer. */
static void test_rules__restart(void **state)
{
    (void)state;
    for (int type = ET_OPTIMIZER_NONE + 1; type <= OWN_RULE; type++) {
        et_params *params = make_params(), *other = make_params();
        et_optimizer *x = make(params, type, settings[2]), *fresh = make(other, type, settings[2]);
        const et_slot_part *parts, *begin;
        step_once(x, params, 0);
        et_optimizer_restart(x);
        int count = et_optimizer_parts(x, &parts);
        assert_int_equal(et_optimizer_parts(fresh, &begin), count);
        for (int i = 0; i < count; i++)
            if (strcmp(parts[i].slot, "average") != 0)
                assert_memory_equal(parts[i].data, begin[i].data,
                                    (size_t)et_shape_count(parts[i].shape) * sizeof(float));
        et_optimizer_free(x), et_optimizer_free(fresh);
        et_params_free(params), et_params_free(other);
    }
}

static const et_slot_part *part_of(et_optimizer *optimizer, const char *slot, int param)
{
    const et_slot_part *parts;
    for (int i = 0, n = et_optimizer_parts(optimizer, &parts); i < n; i++)
        if (parts[i].param == param && !strcmp(parts[i].slot, slot))
            return &parts[i];
    return NULL;
}

static void test_rules__slots(void **state)
{
    (void)state;
    et_params *params = make_params();
    et_optimizer *optimizer = make(params, ET_OPTIMIZER_ADAFACTOR_KERAS, "");
    for (int p = 0; p < COUNT; p++) {
        et_shape shape = parameters[p].shape;
        assert_int_equal(part_of(optimizer, "r", p) != NULL, shape.rank > 1);
        assert_int_equal(part_of(optimizer, "c", p) != NULL, shape.rank > 1);
        assert_int_equal(part_of(optimizer, "v", p) != NULL, shape.rank == 1);
    }
    assert_true(et_shape_equal(part_of(optimizer, "r", 3)->shape, et_shape_1(301)));
    assert_true(et_shape_equal(part_of(optimizer, "c", 3)->shape, et_shape_1(131)));
    assert_true(et_shape_equal(part_of(optimizer, "r", 4)->shape, et_shape_2(3, 150)));
    assert_true(et_shape_equal(part_of(optimizer, "c", 4)->shape, et_shape_2(3, 7)));
    et_optimizer_free(optimizer);
    optimizer =
        make(params, ET_OPTIMIZER_MUON, "muon: {exclude_from_orthogonalization: embedding}");
    for (int p = 0; p < COUNT; p++) {
        assert_non_null(part_of(optimizer, "m", p));
        assert_int_equal(part_of(optimizer, "v", p) != NULL, p != 1 && p != 3);
    }
    et_optimizer_free(optimizer);
    et_params_free(params);
}

/* ---- Adafactor over several blocks of rows ---- */

/* One update of a tensor of matrices, in double: at first keep is 0, so that r, c and v come from
 * this gradient only. Returns the largest difference from `after`. */
static double adafactor_off(const float *before, const float *after, int p, double rate)
{
    et_shape shape = parameters[p].shape;
    int64_t rows = shape.size[shape.rank - 2], columns = shape.size[shape.rank - 1];
    int64_t count = et_shape_count(shape), matrices = count / (rows * columns);
    double *u = calloc((size_t)count, sizeof *u), size = 0, length = 0, off = 0;
    assert_non_null(u);
    for (int64_t i = 0; i < count; i++) {
        int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
        double r = 0, c = 0, all = 0;
        for (int64_t j = 0; j < rows * columns; j++) {
            double q = pow(0.5 * gradient_of(p, matrix * rows * columns + j, 0), 2) + 1e-30;
            r += j / columns == row ? q / (double)columns : 0;
            c += j % columns == column ? q / (double)rows : 0;
            all += q / (double)(rows * columns);
        }
        u[i] = 0.5 * gradient_of(p, i, 0) / sqrt(r * c / all);
        size += before[i] * (double)before[i] / (double)count;
        length += u[i] * u[i] / (double)count;
    }
    assert_true(matrices * rows * columns == count);
    for (int64_t i = 0; i < count; i++) {
        double w = before[i] - rate * fmax(1e-3, sqrt(size)) * u[i] / fmax(1, sqrt(length));
        off = fmax(off, fabs(after[i] - w));
    }
    free(u);
    return off;
}

static void test_rules__adafactor(void **state)
{
    (void)state;
    et_params *params = make_params(), *start = make_params();
    et_optimizer *optimizer = make(params, ET_OPTIMIZER_ADAFACTOR_KERAS, "");
    step_once(optimizer, params, 0);
    static const int checked[] = { 0, 4 };
    for (size_t k = 0; k < 2; k++) {
        int64_t at = et_params_offset(params, checked[k]);
        double off = adafactor_off(et_params_values(start) + at, et_params_values(params) + at,
                                   checked[k], 0.05);
        if (!(off < 1e-6))
            fail_msg("%s: %g off", parameters[checked[k]].name, off);
    }
    et_optimizer_free(optimizer);
    et_params_free(params), et_params_free(start);
}

/* A row and a column without gradients stay. */
static void test_rules__adafactor_of_zeros(void **state)
{
    (void)state;
    enum { P = 3, ROW = 7, COLUMN = 11, ROWS = 301, COLUMNS = 131 };
    et_params *params = make_params(), *start = make_params();
    et_optimizer *optimizer = make(params, ET_OPTIMIZER_ADAFACTOR_KERAS, "");
    float *g = et_params_gradients(params) + et_params_offset(params, P);
    const float *w = et_params_values(params) + et_params_offset(params, P);
    const float *before = et_params_values(start) + et_params_offset(start, P);
    for (int step = 0; step < STEPS; step++) {
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            g[i] = i / COLUMNS == ROW || i % COLUMNS == COLUMN ? 0 : (float)gradient_of(P, i, step);
        assert_true(et_optimizer_apply(optimizer, et_params_gradients(params), 100).finite);
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            assert_int_equal(w[i] == before[i], i / COLUMNS == ROW || i % COLUMNS == COLUMN);
    }
    et_optimizer_free(optimizer);
    et_params_free(params), et_params_free(start);
}

/* ---- Muon ---- */

/* Applies the iterations to x [m, n]: plain products, always x by x^T. */
static void orthogonalize(double *x, int64_t m, int64_t n)
{
    double norm = 1e-14, *a = calloc((size_t)(m * m), sizeof *a),
           *p = calloc((size_t)(m * m), sizeof *p), *y = calloc((size_t)(m * n), sizeof *y);
    assert_true(a && p && y);
    for (int64_t i = 0; i < m * n; i++)
        norm += x[i] * x[i];
    for (int64_t i = 0; i < m * n; i++)
        x[i] /= sqrt(norm);
    for (int round = 0; round < 5; round++) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < m; j++) {
                a[i * m + j] = 0;
                for (int64_t k = 0; k < n; k++)
                    a[i * m + j] += x[i * n + k] * x[j * n + k];
            }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < m; j++) {
                p[i * m + j] = (i == j ? 3.4445 : 0) - 4.7750 * a[i * m + j];
                for (int64_t k = 0; k < m; k++)
                    p[i * m + j] += 2.0315 * a[i * m + k] * a[k * m + j];
            }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                y[i * n + j] = 0;
                for (int64_t k = 0; k < m; k++)
                    y[i * n + j] += p[i * m + k] * x[k * n + j];
            }
        memcpy(x, y, (size_t)(m * n) * sizeof *x);
    }
    free(a), free(p), free(y);
}

typedef struct muon_case {
    const char *settings;
    bool nesterov, rms;
} muon_case;

/* Steps of matrix p, from w [rows, columns]; a tall one is transposed. */
static void naive_muon(double *w, int p, const muon_case *how)
{
    int64_t rows = parameters[p].shape.size[0], columns = parameters[p].shape.size[1];
    bool tall = rows > columns;
    int64_t m = tall ? columns : rows, n = tall ? rows : columns, count = rows * columns;
    double *moment = calloc((size_t)count, sizeof *moment), *x = calloc((size_t)count, sizeof *x);
    double length = how->rms ? 0.2 * sqrt((double)n)
                    : tall   ? 1
                             : sqrt((double)columns / (double)rows);
    assert_true(moment && x);
    for (int step = 0; step < STEPS; step++) {
        for (int64_t i = 0; i < count; i++) {
            double g = 0.5 * gradient_of(p, i, step);
            moment[i] = 0.95 * moment[i] + 0.05 * g;
            int64_t to = tall ? i % columns * rows + i / columns : i;
            x[to] = how->nesterov ? 0.95 * moment[i] + 0.05 * g : moment[i];
        }
        orthogonalize(x, m, n);
        for (int64_t i = 0; i < count; i++) {
            int64_t from = tall ? i % columns * rows + i / columns : i;
            w[i] -= 0.05 * 0.1 * w[i] + 0.05 * length * x[from];
        }
    }
    free(moment), free(x);
}

/* Adam's update, for parameters that are not matrices or are excluded: betas 0.9 and 0.95. */
static void naive_adam(double *w, int p, double rate)
{
    for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++) {
        double m = 0, v = 0;
        for (int step = 0; step < STEPS; step++) {
            double g = 0.5 * gradient_of(p, i, step), t = step + 1;
            m = 0.9 * m + 0.1 * g;
            v = 0.95 * v + 0.05 * g * g;
            w[i] -= rate * 0.1 * w[i];
            w[i] -= rate * sqrt(1 - pow(0.95, t)) / (1 - pow(0.9, t)) * m / (sqrt(v) + 1e-10);
        }
    }
}

/* Small singular values grow by 3.4445 in each of the iterations, and rounding with them. */
static void test_rules__muon(void **state)
{
    (void)state;
#define USUAL "exclude_from_orthogonalization: embedding, weight_decay_rate: 0.1, adam_rate: 0.5"
    static const muon_case cases[] = {
        { "muon: {" USUAL "}", true, true },
        { "muon: {nesterov: false, " USUAL "}", false, true },
        { "muon: {scale: shape, " USUAL "}", true, false },
    };
#undef USUAL
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        et_params *params = make_params(), *start = make_params();
        et_optimizer *optimizer = make(params, ET_OPTIMIZER_MUON, cases[c].settings);
        for (int step = 0; step < STEPS; step++)
            step_once(optimizer, params, step);
        for (int p = 0; p < COUNT; p++) {
            int64_t count = et_shape_count(parameters[p].shape), at = et_params_offset(params, p);
            bool matrix = p == 1 || p == 3;
            double *w = calloc((size_t)count, sizeof *w);
            assert_non_null(w);
            for (int64_t i = 0; i < count; i++)
                w[i] = et_params_values(start)[at + i];
            if (matrix)
                naive_muon(w, p, &cases[c]);
            else
                naive_adam(w, p, 0.025);
            for (int64_t i = 0; i < count; i++) {
                double off = fabs(et_params_values(params)[at + i] - w[i]);
                if (!(off < (matrix ? 2e-4 : 2e-5)))
                    fail_msg("case %zu: %s: element %lld: %g off", c, parameters[p].name,
                             (long long)i, off);
            }
            free(w);
        }
        et_optimizer_free(optimizer);
        et_params_free(params), et_params_free(start);
    }
}

/* The orthogonalized weight p, which is random, so that none of its singular values is very small.
 * Its rows are along the longer side: [m, n]. */
static double *orthogonal(const et_kernels *kernels, int p, const char *more, int64_t *m,
                          int64_t *n)
{
    et_params *params = make_params(), *start = make_params();
    et_optimizer *optimizer = make_by(kernels, params, ET_OPTIMIZER_MUON, more, 1);
    const int64_t rows = parameters[p].shape.size[0], columns = parameters[p].shape.size[1];
    const int64_t count = rows * columns, at = et_params_offset(params, p);
    const bool tall = rows > columns;
    const float *before = et_params_values(start) + at, *after = et_params_values(params) + at;
    double *x = calloc((size_t)count, sizeof *x);
    assert_non_null(x);
    memcpy(et_params_gradients(params) + at, before, (size_t)count * sizeof *before);
    assert_true(et_optimizer_apply(optimizer, et_params_gradients(params), 1).finite);
    for (int64_t i = 0; i < count; i++)
        x[tall ? i % columns * rows + i / columns : i] =
            (before[i] - after[i]) / (tall ? 1 : sqrt((double)columns / (double)rows));
    *m = tall ? columns : rows;
    *n = tall ? rows : columns;
    et_optimizer_free(optimizer);
    et_params_free(params), et_params_free(start);
    return x;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The least and the largest singular value of x [m, n], used up: rows are turned in pairs until all
 * are orthogonal (Jacobi's method from one side). */
static void singular_values(double *x, int64_t m, int64_t n, double *least, double *largest)
{
    for (int sweep = 0; sweep < 8; sweep++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = i + 1; j < m; j++) {
                double *a = x + i * n, *b = x + j * n;
                const double angle = atan2(2 * dot(a, b, n), dot(a, a, n) - dot(b, b, n)) / 2;
                for (int64_t k = 0; k < n; k++) {
                    const double left = a[k], right = b[k];
                    a[k] = cos(angle) * left + sin(angle) * right;
                    b[k] = cos(angle) * right - sin(angle) * left;
                }
            }
    *least = HUGE_VAL, *largest = 0;
    for (int64_t i = 0; i < m; i++) {
        const double length = sqrt(dot(x + i * n, x + i * n, n));
        *least = fmin(*least, length), *largest = fmax(*largest, length);
    }
}

/* In bfloat16 singular values come as near 1 as Newton and Schulz brings them with Jordan's
 * coefficients, about 0.68 to 1.13, and the matrix is near that of float32. Every table of kernels
 * does it, with instructions for it or without. */
static void check_bfloat16(const et_kernels *kernels, int p)
{
    int64_t m, n;
    double least, largest, off = 0;
    double *full = orthogonal(kernels, p, "muon: {scale: shape}", &m, &n);
    double *half =
        orthogonal(kernels, p, "muon: {scale: shape, orthogonalization_dtype: bfloat16}", &m, &n);
    for (int64_t i = 0; i < m * n; i++)
        off += (full[i] - half[i]) * (full[i] - half[i]);
    off = sqrt(off / dot(full, full, m * n));
    if (!(off > 0 && off < 0.04))
        fail_msg("%s, %s: %g off", kernels->name, parameters[p].name, off);
    singular_values(half, m, n, &least, &largest);
    if (!(least > 0.66 && largest < 1.17))
        fail_msg("%s, %s: singular values from %g to %g", kernels->name, parameters[p].name, least,
                 largest);
    free(full), free(half);
}

static void test_rules__muon_bfloat16(void **state)
{
    (void)state;
    for (int i = 0; et_kernels_names[i]; i++) {
        const et_kernels *kernels = et_kernels_named(et_kernels_names[i]);
        for (int p = 1; kernels && p <= 3; p += 2)
            check_bfloat16(kernels, p);
    }
    for (int p = 1; p <= 3; p += 2)
        check_bfloat16(&et_kernels_reference, p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules__same_bits_for_any_threads),
        cmocka_unit_test(test_rules__resume),
        cmocka_unit_test(test_rules__unreached),
        cmocka_unit_test(test_rules__edges),
        cmocka_unit_test(test_rules__restart),
        cmocka_unit_test(test_rules__slots),
        cmocka_unit_test(test_rules__adafactor),
        cmocka_unit_test(test_rules__adafactor_of_zeros),
        cmocka_unit_test(test_rules__muon),
        cmocka_unit_test(test_rules__muon_bfloat16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
