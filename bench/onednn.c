#include "onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench.h"

static void check(dnnl_status_t status)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench: oneDNN failed with status %d\n", (int)status);
    exit(1);
}

static dnnl_data_type_t type_of(et_dtype dtype)
{
    return dtype == ET_BF16 ? dnnl_bf16 : dnnl_f32;
}

bench_problem bench_problem_of(const et_gemm_shape *s, int64_t batch,
                               const dnnl_format_tag_t layout[3])
{
    const int64_t size[3][2] = { { s->m, s->k }, { s->k, s->n }, { s->m, s->n } };
    const et_dtype type[3] = { s->a, s->b, s->c };
    bench_problem p = { .rank = batch ? 3 : 2 };
    for (int i = 0; i < 3; i++) {
        p.size[i][0] = batch;
        memcpy(p.size[i] + p.rank - 2, size[i], sizeof size[i]);
        p.type[i] = type_of(type[i]);
        p.layout[i] = layout[i];
    }
    return p;
}

/* Versions 2 and 3 have different memory descriptors. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t layout;
typedef dnnl_memory_desc_t own_layout;

static layout lent(const own_layout *from)
{
    return *from;
}

static dnnl_status_t tagged(own_layout *out, const bench_problem *of, int operand,
                            dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(out, of->rank, of->size[operand], of->type[operand],
                                            tag);
}

static void release(own_layout *of)
{
    dnnl_memory_desc_destroy(*of);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t describe(bench_primitive *p, const own_layout part[4], bool bias,
                              const_dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(&p->description, p->engine, part[0], part[1],
                                             bias ? part[3] : NULL, part[2], attributes);
}
#else
typedef const dnnl_memory_desc_t *layout;
typedef dnnl_memory_desc_t own_layout;

static layout lent(const own_layout *from)
{
    return from;
}

static dnnl_status_t tagged(own_layout *out, const bench_problem *of, int operand,
                            dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(out, of->rank, of->size[operand], of->type[operand], tag);
}

static void release(own_layout *of)
{
    (void)of;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t describe(bench_primitive *p, const own_layout part[4], bool bias,
                              const_dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t product;
    check(dnnl_matmul_desc_init(&product, &part[0], &part[1], bias ? &part[3] : NULL, &part[2]));
    return dnnl_primitive_desc_create(&p->description, &product, attributes, p->engine, NULL);
}
#endif

/* As describe, with the problem's additions to a bare product. */
static dnnl_status_t describe_all(bench_primitive *p, const bench_problem *of)
{
    own_layout part[4];
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t ops;
    const dnnl_dims_t row = { 1, of->size[2][of->rank - 1] };
    const bench_problem bias = { .rank = 2, .size = { { row[0], row[1] } }, .type = { dnnl_f32 } };
    for (int i = 0; i < 3; i++)
        check(tagged(&part[i], of, i, of->layout[i]));
    check(tagged(&part[3], &bias, 0, dnnl_ab));
    check(dnnl_primitive_attr_create(&attributes));
    check(dnnl_post_ops_create(&ops));
    if (of->accumulate)
        check(append_sum(ops));
    check(dnnl_primitive_attr_set_post_ops(attributes, ops));
    dnnl_status_t status = describe(p, part, of->bias, attributes);
    dnnl_post_ops_destroy(ops);
    dnnl_primitive_attr_destroy(attributes);
    for (int i = 0; i < 4; i++)
        release(&part[i]);
    return status;
}

static const struct {
    dnnl_query_t what;
    int name;
    int index;
} parts[4] = { { dnnl_query_src_md, DNNL_ARG_SRC, 0 },
               { dnnl_query_weights_md, DNNL_ARG_WEIGHTS, 0 },
               { dnnl_query_dst_md, DNNL_ARG_DST, 0 },
               { dnnl_query_weights_md, DNNL_ARG_BIAS, 1 } };

static layout found(const bench_primitive *p, int operand)
{
    return dnnl_primitive_desc_query_md(p->description, parts[operand].what, parts[operand].index);
}

bool bench_primitive_open(bench_primitive *p, const bench_problem *of)
{
    *p = (bench_primitive){ .argument_count = of->bias ? 4 : 3 };
    check(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    dnnl_status_t status = describe_all(p, of);
    if (status == dnnl_unimplemented) {
        dnnl_stream_destroy(p->stream);
        dnnl_engine_destroy(p->engine);
        return false;
    }
    check(status);
    check(dnnl_primitive_create(&p->product, p->description));
    for (int i = 0; i < p->argument_count; i++) {
        p->memory[i] = bench_zeros(dnnl_memory_desc_get_size(found(p, i)));
        p->arguments[i].arg = parts[i].name;
        check(dnnl_memory_create(&p->arguments[i].memory, found(p, i), p->engine, p->memory[i]));
    }
    return true;
}

void bench_primitive_store(bench_primitive *p, const bench_problem *of, int operand,
                           dnnl_format_tag_t stored)
{
    own_layout from;
    dnnl_primitive_desc_t description;
    check(tagged(&from, of, operand, stored));
    if (!dnnl_memory_desc_equal(lent(&from), found(p, operand))) {
        check(dnnl_reorder_primitive_desc_create(&description, lent(&from), p->engine,
                                                 found(p, operand), p->engine, NULL));
        check(dnnl_primitive_create(&p->reorder[operand], description));
        dnnl_primitive_desc_destroy(description);
        p->stored[operand] = bench_zeros(dnnl_memory_desc_get_size(lent(&from)));
        dnnl_exec_arg_t *moved = p->moved[operand];
        moved[0].arg = DNNL_ARG_FROM;
        moved[1].arg = DNNL_ARG_TO;
        check(dnnl_memory_create(&moved[0].memory, lent(&from), p->engine, p->stored[operand]));
        moved[1].memory = p->arguments[operand].memory;
    }
    release(&from);
}

void bench_primitive_close(bench_primitive *p)
{
    for (int i = 0; i < 2; i++)
        if (p->reorder[i]) {
            dnnl_primitive_destroy(p->reorder[i]);
            dnnl_memory_destroy(p->moved[i][0].memory);
            et_free(p->stored[i]);
        }
    for (int i = 0; i < p->argument_count; i++) {
        dnnl_memory_destroy(p->arguments[i].memory);
        et_free(p->memory[i]);
    }
    dnnl_primitive_destroy(p->product);
    dnnl_primitive_desc_destroy(p->description);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

void bench_primitive_run(bench_primitive *p)
{
    check(dnnl_primitive_execute(p->product, p->stream, p->argument_count, p->arguments));
    check(dnnl_stream_wait(p->stream));
}

void bench_primitive_reorder(bench_primitive *p, int operand)
{
    if (!p->reorder[operand])
        return;
    check(dnnl_primitive_execute(p->reorder[operand], p->stream, 2, p->moved[operand]));
    check(dnnl_stream_wait(p->stream));
}
