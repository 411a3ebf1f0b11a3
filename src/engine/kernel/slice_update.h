/* Arguments of the optimizer's loops (et_kernels.adam, sgd, rmsprop, ...): flat slices of float32,
 * and the work that follows every update of any rule. */
#ifndef ETUDE_ENGINE_KERNEL_SLICE_UPDATE_H
#define ETUDE_ENGINE_KERNEL_SLICE_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/dtype.h>

typedef struct et_slice_update {
    float *weight; /* [count], as all arrays */
    const float *gradient;
    et_bf16 *shadow; /* becomes bfloat16(weight); NULL: no shadow */
    float *average;  /* moves towards weight; NULL: no average */
    float decay;     /* rate * weight decay; 0: none */
    float gradient_scale;
    float average_decay;
    int64_t count;
} et_slice_update;

typedef struct et_adam_moments {
    float *m, *v;
    float rate_t; /* with the bias correction */
    float beta_1, beta_2, epsilon;
} et_adam_moments;

typedef struct et_momentum {
    float *accumulator; /* NULL: no momentum */
    float rate, momentum;
    bool nesterov;
} et_momentum;

typedef struct et_mean_squares {
    float *squares;
    float *mean;        /* NULL: not centered */
    float *accumulator; /* NULL: no momentum */
    float rate, rho, momentum, epsilon;
} et_mean_squares;

typedef struct et_square_sums {
    float *squares;
    float rate, epsilon;
} et_square_sums;

/* Adam's direction, instead of a step. */
typedef struct et_adam_direction {
    float *gradient; /* [count], as all arrays; becomes the direction */
    const float *weight;
    float *m, *v;
    float gradient_scale, beta_1, beta_2, epsilon;
    float m_scale, v_scale; /* of the bias correction: 1 / (1 - beta^t) */
    float decay;            /* times the weight, added */
    int64_t count;
} et_adam_direction;

#endif
