/* Element-wise programs: a chain of operations over one [T, D] shape, run as one pass over blocks
 * that stay in cache; and dropout's decisions, which attention uses too. This header describes
 * programs; et_kernels.elementwise runs them.
 *
 * Example, relu(x + bias), with x in register 0 and the bias, broadcast by ET_EW_ROW, in 1:
 *
 *   step[0] = { .op = ET_EW_ADD, .a = 0, .b = 1, .to = 2 }
 *   step[1] = { .op = ET_EW_RELU, .a = 2, .to = 2 },  output[0] = 2 */
#ifndef ETUDE_ENGINE_KERNEL_ELEMENTWISE_H
#define ETUDE_ENGINE_KERNEL_ELEMENTWISE_H

#include <stdint.h>

#include <etude/dtype.h>

/* The operations of a step on registers a and b: the formulas of elementwise.def. Operations with
 * one input ignore b, which is the number of any register. */
typedef enum et_ew_op {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) ET_EW_##id,
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
    ET_EW_OP_COUNT,
} et_ew_op;

typedef enum et_ew_broadcast {
    ET_EW_FULL,   /* [T, D] of act type */
    ET_EW_ROW,    /* [D], the same for every row (a bias) */
    ET_EW_COLUMN, /* [T, 1], the same for every column (a statistic of rows) */
    ET_EW_ONE,    /* a scalar */
} et_ew_broadcast;

/* A longer chain is two programs. Registers are numbered below ET_EW_INPUTS_MAX + ET_EW_STEPS_MAX.
 */
#define ET_EW_INPUTS_MAX  8
#define ET_EW_STEPS_MAX   16
#define ET_EW_OUTPUTS_MAX 4

typedef struct et_ew_step {
    et_ew_op op;
    int a, b;      /* registers read */
    int to;        /* register written; may be a or b */
    float x;       /* the constant of the formula; DROPOUT: the rate */
    uint32_t site; /* DROPOUT: names the use */
} et_ew_step;

/* Registers hold a block each as float32; 0 .. inputs - 1 are loaded. */
typedef struct et_ew_program {
    /* How many of each array are used. */
    int inputs, steps, outputs;
    et_ew_broadcast broadcast[ET_EW_INPUTS_MAX];
    et_dtype input_dtype[ET_EW_INPUTS_MAX]; /* ET_F32 or ET_BF16 */
    et_ew_step step[ET_EW_STEPS_MAX];
    int output[ET_EW_OUTPUTS_MAX]; /* registers stored */
    et_dtype output_dtype[ET_EW_OUTPUTS_MAX];
} et_ew_program;

/* Dropout by counter. Element e (index in the whole [T, D] buffer; for attention weights see there)
 * is kept if its 16-bit number is >= round(rate * 65536). Eight elements share one Philox block:
 * element e takes 16-bit half (e & 1: 0 low, 1 high) of word (e >> 1) & 3 of et_random_block({seed,
 * step, site}, e >> 3). Kept elements are multiplied by 65536 / (65536 - round(rate * 65536)),
 * which preserves the mean exactly. */
uint32_t et_dropout_threshold(float rate);
float et_dropout_scale(float rate);

#endif
