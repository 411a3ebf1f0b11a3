#include "engine/kernel/harness.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

typedef struct setting {
    const char *name;
    int32_t queries[8], keys[8]; /* lengths of segments, -1 ends */
    int heads, head_dim;
    bool causal;
    float rate;
    et_dtype dtype;
    bool packed; /* q, k, v are column ranges of one matrix */
} setting;

/* A shape with offsets from lengths, and its buffers. */
typedef struct problem {
    et_attention_shape shape;
    int32_t query_offsets[9], key_offsets[9];
    int64_t query_rows, key_rows;
    size_t width;
    char *q, *k, *v, *dout, *out, *dq, *dk, *dv;
    char *matrix, *dmatrix; /* where packed */
    float *lse, *scratch;
} problem;

static void set_shape(problem *p, const setting *s)
{
    int longest_key = 0, segments = 0;
    for (; segments < 8 && s->queries[segments] >= 0; segments++) {
        p->query_offsets[segments + 1] = p->query_offsets[segments] + s->queries[segments];
        p->key_offsets[segments + 1] = p->key_offsets[segments] + s->keys[segments];
        longest_key = longest_key > s->keys[segments] ? longest_key : s->keys[segments];
    }
    p->query_rows = p->query_offsets[segments];
    p->key_rows = p->key_offsets[segments];
    p->width = (size_t)(s->heads * s->head_dim);
    const int64_t width = (int64_t)p->width, stride = s->packed ? 3 * width : width;
    p->shape = (et_attention_shape){
        .segments = segments,
        .query_offsets = p->query_offsets,
        .key_offsets = p->key_offsets,
        .heads = s->heads,
        .head_dim = s->head_dim,
        .query_stride = stride,
        .key_stride = stride,
        .value_stride = stride,
        .out_stride = width,
        .causal = s->causal,
        .scale = 1.0f / sqrtf((float)s->head_dim),
        .rate = s->rate,
        .random = { .seed = 3, .step = 4, .site = 5 },
        .dtype = s->dtype,
        .scratch_per_thread = et_attention_scratch(longest_key, s->head_dim),
    };
}

static void open_problem(problem *p, const setting *s)
{
    *p = (problem){ 0 };
    set_shape(p, s);
    const size_t size = et_dtype_size(s->dtype), width = p->width;
    const size_t query_count = (size_t)p->query_rows * width;
    const size_t key_count = (size_t)p->key_rows * width;
    if (s->packed) {
        p->matrix = make_act(3 * query_count, 1, 20, s->dtype);
        p->dmatrix = make(3 * query_count, size);
        p->q = p->matrix, p->k = p->q + width * size, p->v = p->k + width * size;
        p->dq = p->dmatrix, p->dk = p->dq + width * size, p->dv = p->dk + width * size;
    } else {
        p->q = make_act(query_count, 1, 21, s->dtype);
        p->k = make_act(key_count, 1, 22, s->dtype);
        p->v = make_act(key_count, 1, 23, s->dtype);
        p->dq = make(query_count, size);
        p->dk = make(key_count, size);
        p->dv = make(key_count, size);
    }
    p->dout = make_act(query_count, 1, 24, s->dtype);
    p->out = make(query_count, size);
    p->lse = make((size_t)p->query_rows * (size_t)s->heads, sizeof *p->lse);
    p->scratch = make(p->shape.scratch_per_thread * (size_t)omp_get_max_threads(), 4);
}

static void close_problem(problem *p)
{
    if (p->matrix) {
        free(p->matrix);
        free(p->dmatrix);
    } else {
        free(p->q), free(p->k), free(p->v);
        free(p->dq), free(p->dk), free(p->dv);
    }
    free(p->dout), free(p->out), free(p->lse), free(p->scratch);
}

static void run_forward(const et_kernels *table, const void *with, float *result)
{
    problem p;
    open_problem(&p, with);
    const size_t count = (size_t)p.query_rows * p.width;
    table->attention(p.out, p.lse, p.q, p.k, p.v, &p.shape, p.scratch);
    widen(result, p.out, count, p.shape.dtype);
    memcpy(result + count, p.lse, (size_t)p.query_rows * (size_t)p.shape.heads * sizeof(float));
    close_problem(&p);
}

/* A matrix's rows, without the columns between them. */
static float *gather(float *to, const char *from, int64_t rows, size_t width, int64_t stride,
                     et_dtype dtype)
{
    for (int64_t i = 0; i < rows; i++)
        widen(to + (size_t)i * width, from + (size_t)(i * stride) * et_dtype_size(dtype), width,
              dtype);
    return to + (size_t)rows * width;
}

static void run_backward(const et_kernels *table, const void *with, float *result)
{
    problem p;
    open_problem(&p, with);
    const et_attention_shape *shape = &p.shape;
    et_kernels_reference.attention(p.out, p.lse, p.q, p.k, p.v, shape, p.scratch);
    table->attention_grad(p.dq, p.dk, p.dv, p.dout, p.lse, p.q, p.k, p.v, shape, p.scratch);
    float *to = gather(result, p.dq, p.query_rows, p.width, shape->query_stride, shape->dtype);
    to = gather(to, p.dk, p.key_rows, p.width, shape->key_stride, shape->dtype);
    gather(to, p.dv, p.key_rows, p.width, shape->value_stride, shape->dtype);
    close_problem(&p);
}

/* Lengths: short, odd, empty, longer than a pass; head_dim smaller than a vector and odd. */
static const setting settings[] = {
    { "self", { 3, 14, 1, 17, -1 }, { 3, 14, 1, 17, -1 }, 4, 32, false, 0, ET_F32, true },
    { "causal", { 3, 14, 1, 40, -1 }, { 3, 14, 1, 40, -1 }, 2, 32, true, 0, ET_F32, true },
    { "cross", { 5, 16, 9, -1 }, { 33, 7, 15, -1 }, 3, 7, false, 0, ET_F32, false },
    { "dropout", { 5, 16, 70, -1 }, { 33, 7, 71, -1 }, 2, 16, false, 0.3f, ET_F32, false },
    { "all", { 4, 0, 50, 2, -1 }, { 4, 0, 50, 2, -1 }, 8, 64, true, 0.1f, ET_F32, true },
    { "no keys", { 4, 3, -1 }, { 0, 3, -1 }, 2, 8, false, 0.1f, ET_F32, false },
    { "no queries", { 0, 3, -1 }, { 5, 3, -1 }, 2, 8, false, 0.1f, ET_F32, false },
    { "long", { 200, -1 }, { 203, -1 }, 1, 33, true, 0.1f, ET_F32, false },
    { "thin", { 30, 2, -1 }, { 30, 2, -1 }, 5, 1, false, 0, ET_F32, true },
    { "many", { 200, 150, 4, 14, -1 }, { 200, 150, 4, 14, -1 }, 4, 64, true, 0.1f, ET_F32, true },
};

static void each_setting(run_fn *run, bool backward)
{
    char name[64];
    for (size_t i = 0; i < COUNT(settings); i++)
        for (int dtype = ET_F32; dtype <= ET_BF16; dtype++) {
            setting s = settings[i];
            problem p = { 0 };
            s.dtype = (et_dtype)dtype;
            set_shape(&p, &s);
            size_t queries = (size_t)p.query_rows * p.width;
            size_t size = backward ? queries + 2 * (size_t)p.key_rows * p.width
                                   : queries + (size_t)p.query_rows * (size_t)s.heads;
            snprintf(name, sizeof name, "%s %s", s.name, et_dtype_name(s.dtype));
            check_tables(name, run, &s, size, dtype == ET_BF16 ? 1e-4 : 2e-5, unit_of(s.dtype));
        }
}

static void test_attention__forward(void **state)
{
    (void)state;
    each_setting(run_forward, false);
}

static void test_attention__backward(void **state)
{
    (void)state;
    each_setting(run_backward, true);
}

/* With v the identity, the output is the weights: exactly those of the counter are dropped, in
 * every table, and in the gradient too (dv of dout = identity is the transposed weights). */
static void test_attention__dropout_mask(void **state)
{
    (void)state;
    enum { LENGTH = 40 };
    const setting s = { "mask", { LENGTH, -1 }, { LENGTH, -1 }, 1,    LENGTH,
                        false,  0.4f,           ET_F32,         false };
    problem p;
    omp_set_num_threads(1);
    open_problem(&p, &s);
    for (int i = 0; i < LENGTH * LENGTH; i++)
        ((float *)p.v)[i] = ((float *)p.dout)[i] = i / LENGTH == i % LENGTH;
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *table =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        if (!table)
            continue;
        table->attention(p.out, p.lse, p.q, p.k, p.v, &p.shape, p.scratch);
        table->attention_grad(p.dq, p.dk, p.dv, p.dout, p.lse, p.q, p.k, p.v, &p.shape, p.scratch);
        for (int i = 0; i < LENGTH; i++)
            for (int j = 0; j < LENGTH; j++) {
                uint64_t e = ((uint64_t)i << 16) + (uint64_t)j;
                uint32_t word = et_random_block(p.shape.random, e >> 3).word[(e >> 1) & 3];
                bool keep = ((word >> (16 * (e & 1))) & 0xffff) >= 26214; /* 0.4 * 65536 */
                assert_true((((float *)p.out)[i * LENGTH + j] != 0) == keep);
                assert_true((((float *)p.dv)[j * LENGTH + i] != 0) == keep);
            }
    }
    close_problem(&p);
}

/* One head, rows of width columns in each matrix; offsets of segments of `longest` rows at most. */
static et_attention_shape one_head(const int32_t *offsets, int segments, int width, int longest)
{
    return (et_attention_shape){ .segments = segments,
                                 .query_offsets = offsets,
                                 .key_offsets = offsets,
                                 .heads = 1,
                                 .head_dim = width,
                                 .query_stride = width,
                                 .key_stride = width,
                                 .value_stride = width,
                                 .out_stride = width,
                                 .scale = 1,
                                 .dtype = ET_F32,
                                 .scratch_per_thread = et_attention_scratch(longest, width) };
}

/* Rows outside every segment belong to others. */
static void test_attention__rows_outside(void **state)
{
    (void)state;
    const int32_t offsets[] = { 2, 4, 7 };
    float x[9 * 8], out[9 * 8], lse[9];
    for (int i = 0; i < 9 * 8; i++) {
        x[i] = (float)(i % 5);
        out[i] = -77.0f;
    }
    et_attention_shape shape = one_head(offsets, 2, 8, 3);
    omp_set_num_threads(1);
    float *scratch = make(shape.scratch_per_thread, sizeof *scratch);
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        table->attention(out, lse, x, x, x, &shape, scratch);
        for (int i = 0; i < 9 * 8; i++)
            assert_true((out[i] == -77.0f) == (i < 16 || i >= 56));
    }
    free(scratch);
}

/* Scores too large for exp without the largest taken away. */
static void test_attention__large_scores(void **state)
{
    (void)state;
    const int32_t offsets[] = { 0, 2 };
    float q[2] = { 300, -300 }, k[2] = { 1, -1 }, v[2] = { 5, 7 }, out[2], lse[2];
    et_attention_shape shape = one_head(offsets, 1, 1, 2);
    omp_set_num_threads(1);
    float *scratch = make(shape.scratch_per_thread, sizeof *scratch);
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        table->attention(out, lse, q, k, v, &shape, scratch);
        assert_true(fabsf(out[0] - 5) < 1e-5f && fabsf(out[1] - 7) < 1e-5f);
        assert_true(fabsf(lse[0] - 300) < 1e-4f && fabsf(lse[1] - 300) < 1e-4f);
    }
    free(scratch);
}

/* A number in q, k or v that is not finite reaches the output of its row: training must notice. */
static void test_attention__not_finite(void **state)
{
    (void)state;
    enum { ROWS = 5, WIDTH = 16, AT = 2 * WIDTH + 3 };
    static const float values[] = { NAN, INFINITY };
    const int32_t offsets[] = { 0, ROWS };
    float x[3 * ROWS * WIDTH], out[ROWS * WIDTH], lse[ROWS];
    const int size = ROWS * WIDTH;
    et_attention_shape shape = one_head(offsets, 1, WIDTH, ROWS);
    omp_set_num_threads(1);
    float *scratch = make(shape.scratch_per_thread, sizeof *scratch);
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *table =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        for (int which = 0; table && which < 6; which++) {
            for (int i = 0; i < 3 * size; i++)
                x[i] = 0.01f * (float)(i % 40 + 1);
            x[which / 2 * size + AT] = values[which % 2];
            table->attention(out, lse, x, x + size, x + 2 * size, &shape, scratch);
            assert_false(isfinite(out[AT]));
        }
    }
    free(scratch);
}

static double weighted_sum(problem *p, const float *w)
{
    double sum = 0;
    et_kernels_reference.attention(p->out, p->lse, p->q, p->k, p->v, &p->shape, p->scratch);
    for (size_t i = 0; i < (size_t)p->query_rows * p->width; i++)
        sum += (double)w[i] * ((float *)p->out)[i];
    return sum;
}

static void check_difference(problem *p, float *x, const float *grad, size_t count)
{
    const float h = 1.0f / 64;
    for (size_t i = 0; i < count; i++) {
        const float saved = x[i];
        x[i] = saved + h;
        double above = weighted_sum(p, (const float *)p->dout);
        x[i] = saved - h;
        double below = weighted_sum(p, (const float *)p->dout);
        x[i] = saved;
        if (fabs((above - below) / (2 * h) - grad[i]) > 1e-3)
            fail_msg("element %zu: %g by differences, %g", i, (above - below) / (2 * h), grad[i]);
    }
}

static void test_attention__finite_difference(void **state)
{
    (void)state;
    static const setting some[] = {
        { "self", { 3, 5, -1 }, { 3, 5, -1 }, 2, 3, false, 0, ET_F32, false },
        { "causal", { 4, 2, -1 }, { 4, 2, -1 }, 2, 3, true, 0.3f, ET_F32, false },
        { "cross", { 4, 2, -1 }, { 2, 6, -1 }, 1, 4, false, 0.3f, ET_F32, false },
    };
    for (size_t i = 0; i < COUNT(some); i++) {
        problem p;
        open_problem(&p, &some[i]);
        weighted_sum(&p, (const float *)p.dout);
        et_kernels_reference.attention_grad(p.dq, p.dk, p.dv, p.dout, p.lse, p.q, p.k, p.v,
                                            &p.shape, p.scratch);
        const size_t queries = (size_t)p.query_rows * p.width;
        const size_t keys = (size_t)p.key_rows * p.width;
        check_difference(&p, (float *)p.q, (const float *)p.dq, queries);
        check_difference(&p, (float *)p.k, (const float *)p.dk, keys);
        check_difference(&p, (float *)p.v, (const float *)p.dv, keys);
        close_problem(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention__forward),
        cmocka_unit_test(test_attention__backward),
        cmocka_unit_test(test_attention__dropout_mask),
        cmocka_unit_test(test_attention__rows_outside),
        cmocka_unit_test(test_attention__large_scores),
        cmocka_unit_test(test_attention__not_finite),
        cmocka_unit_test(test_attention__finite_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
