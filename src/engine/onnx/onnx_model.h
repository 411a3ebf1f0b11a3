/* An ONNX model being made: inputs, nodes, constants, outputs, then a file. A value is known by its
 * name, which lives as long as the model. Errors are sticky, as in a graph: without memory a call
 * returns NULL, every call accepts NULL, and et_onnx_write returns ET_ENOMEM.
 *
 *     et_onnx_new(&model, "encoder", &error);
 *     const et_onnx_dim dims[] = { { "batch", 0 }, { NULL, 784 } };
 *     const char *x = et_onnx_input(model, "pixels", ET_ONNX_F32, dims, 2);
 *     const char *y = et_onnx_call(model, "MatMul", x, et_onnx_floats(model, "w", w, shape));
 *     et_onnx_output(model, y, "scores", ET_ONNX_F32, dims, 2);
 *     et_onnx_write(model, "model.onnx", &error);
 *
 * Operators are those of operator set 17, and of ai.onnx.ml 3 (et_onnx_use_ml). Only onnx_model.c
 * knows the format. */
#ifndef ETUDE_ENGINE_ONNX_ONNX_MODEL_H
#define ETUDE_ENGINE_ONNX_ONNX_MODEL_H

#include <etude/error.h>
#include <etude/tensor.h>

typedef struct et_onnx et_onnx;

/* Element types, by the format's numbers. */
typedef enum et_onnx_type {
    ET_ONNX_F32 = 1,
    ET_ONNX_I64 = 7,
    ET_ONNX_TEXT = 8,
    ET_ONNX_BOOL = 9,
    ET_ONNX_F64 = 11
} et_onnx_type;

/* A size that is known only when the model runs has a name; others have NULL and the size. */
typedef struct et_onnx_dim {
    const char *name;
    int64_t size;
} et_onnx_dim;

int et_onnx_new(et_onnx **out, const char *name, et_error *error);
void et_onnx_free(et_onnx *model); /* NULL allowed */

/* Whether any call has failed for lack of memory. */
bool et_onnx_failed(const et_onnx *model);

/* Names are copied. Inputs and outputs are in the order of their making. */
const char *et_onnx_input(et_onnx *model, const char *name, et_onnx_type type,
                          const et_onnx_dim *dims, int count);
/* Adds a description to the last input. */
void et_onnx_describe(et_onnx *model, const char *text);
void et_onnx_output(et_onnx *model, const char *value, const char *name, et_onnx_type type,
                    const et_onnx_dim *dims, int count);

/* Constants: a named array of float32, borrowed until the file is written; one that is copied; a
 * scalar; doubles, int64 and texts [count], copied; one int64 as an array [1] and as a scalar. */
const char *et_onnx_floats(et_onnx *model, const char *name, const float *data, et_shape shape);
float *et_onnx_reserve_floats(et_onnx *model, int64_t count); /* for such data; NULL: no memory */
const char *et_onnx_array(et_onnx *model, const float *data, et_shape shape);
const char *et_onnx_float(et_onnx *model, float x);
const char *et_onnx_doubles(et_onnx *model, const double *values, int64_t count);
const char *et_onnx_ints(et_onnx *model, const int64_t *values, int count);
const char *et_onnx_one(et_onnx *model, int64_t value);
const char *et_onnx_int(et_onnx *model, int64_t value);
const char *et_onnx_texts(et_onnx *model, const char *const *texts, int count);

/* Adds a node with one result and returns it. NULL among inputs: nothing is added. */
const char *et_onnx_node(et_onnx *model, const char *op, const char *const *inputs, int count);

/* The same with the inputs as arguments: et_onnx_call(model, "Add", a, b). */
#define et_onnx_call(model, op, ...)                                                               \
    et_onnx_node(model, op, (const char *const[]){ __VA_ARGS__ },                                  \
                 (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)))

/* Marks the last node as an operator of ai.onnx.ml. */
void et_onnx_use_ml(et_onnx *model);
/* Attributes of the node that was made last. */
void et_onnx_set_int(et_onnx *model, const char *name, int64_t value);
void et_onnx_set_ints(et_onnx *model, const char *name, const int64_t *values, int count);
void et_onnx_set_float(et_onnx *model, const char *name, float value);
void et_onnx_set_text(et_onnx *model, const char *name, const char *value);
void et_onnx_set_texts(et_onnx *model, const char *name, const char *const *texts, int count);

/* Adds an entry to metadata_props of the file, for programs that run the model. */
void et_onnx_note(et_onnx *model, const char *key, const char *value);

/* Atomically. ET_ENOMEM: anything before failed. ET_EFAIL: the format ends at 2 GiB. */
int et_onnx_write(et_onnx *model, const char *path, et_error *error);

#endif
