/* Layers: functions that declare parameters and add nodes. One equation is one line; what a
 * layer learns is named by its scope. Initial values as in Keras unless said otherwise. */
#ifndef ETUDE_NN_H
#define ETUDE_NN_H

#include <etude/ops.h>

typedef enum et_activation {
    ET_ACTIVATION_LINEAR,
    ET_ACTIVATION_RELU,
    ET_ACTIVATION_GELU,
    ET_ACTIVATION_TANH,
    ET_ACTIVATION_SIGMOID,
    ET_ACTIVATION_SWISH,
} et_activation;

/* Names of the activations in the enum's order, ended by NULL. */
ET_DATA const char *const et_activation_names[];

ET_API et_node *et_activate(et_node *x, et_activation activation);

typedef struct et_dense_options {
    bool no_bias;
    et_activation activation;
    float init_limit;  /* weights uniform in [-limit, limit); 0: Glorot's limit */
    int64_t row_tile;  /* see et_matmul_options */
    bool recomputable; /* what it adds is marked: see et_recomputable */
    ET_RESERVED(8);
} et_dense_options;

/* act(x W + b): scope/weight [in, units] and scope/bias [units]. options NULL: all zero. */
ET_API et_node *et_dense(et_scope *scope, et_node *x, int64_t units);
ET_API et_node *et_dense_with(et_scope *scope, et_node *x, int64_t units,
                              const et_dense_options *options);

/* Layer norm with scope/scale (ones) and scope/offset (zeros). */
ET_API et_node *et_norm(et_scope *scope, et_node *x, float epsilon);

/* Draws every parameter's start value, as its declaration says, and tells the store. The
 * numbers are counted (seed, the parameter's name, element): they depend neither on what else
 * the model has nor on machine or threads. The store is materialized. */
ET_API void et_init_draw(et_params *params, uint64_t seed);

#endif
