/* A matrix product of oneDNN, for comparison: one primitive in given layouts, with all threads.
 * Operands are zeros, because time does not depend on values unless some are subnormal. */
#ifndef ETUDE_BENCH_ONEDNN_H
#define ETUDE_BENCH_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "engine/kernel/gemm/gemm.h"

/* A, B and C in this order, matrices or runs of them. */
typedef struct bench_problem {
    int rank; /* 2, or 3 with the number of products in front */
    dnnl_dims_t size[3];
    dnnl_data_type_t type[3];
    dnnl_format_tag_t layout[3];
    bool bias;       /* + a row of float32 on every row of C */
    bool accumulate; /* onto what C holds */
} bench_problem;

/* batch 0: matrices, without a leading dimension. Bare: neither bias nor accumulate. */
bench_problem bench_problem_of(const et_gemm_shape *shape, int64_t batch,
                               const dnnl_format_tag_t layout[3]);

typedef struct bench_primitive {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t product;
    dnnl_exec_arg_t arguments[4]; /* A, B, C and, if there is one, the bias */
    int argument_count;
    void *memory[4];
    /* NULL if the product reads the operand in place, else the reorder that converts it. */
    dnnl_primitive_t reorder[2];
    dnnl_exec_arg_t moved[2][2];
    void *stored[2];
} bench_primitive;

/* False: this oneDNN has no product in those layouts, and nothing stays open. */
bool bench_primitive_open(bench_primitive *p, const bench_problem *of);
void bench_primitive_close(bench_primitive *p);

/* Operand 0 (A) or 1 (B) is stored in that layout: oneDNN's own reorder converts it to the
 * product's. Does nothing if both are equal. */
void bench_primitive_store(bench_primitive *p, const bench_problem *of, int operand,
                           dnnl_format_tag_t stored);

void bench_primitive_run(bench_primitive *p);
void bench_primitive_reorder(bench_primitive *p, int operand);

#endif
