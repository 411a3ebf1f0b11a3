/* Computes an ONNX model operator by operator as the format defines them, in double, for the
 * operators in models of tables. Anything that a model must not do (an index beyond its table,
 * shapes that do not fit) fails the test, as does a missing operator. Include after cmocka.h. */
#ifndef ETUDE_TESTS_ONNX_EVALUATE_H
#define ETUDE_TESTS_ONNX_EVALUATE_H

#include <stddef.h>
#include <stdint.h>

enum { EVALUATED_RANK = 4 };

/* Of any element type; integers up to 2^53 are exact. Of texts the data are their lengths. */
typedef struct evaluated {
    const char *name; /* borrowed */
    int rank;
    int64_t size[EVALUATED_RANK];
    double *data;
    const char **text; /* NULL: numbers; texts are borrowed, terminated */
    char *bytes;       /* of a constant's texts */
} evaluated;

/* The model's only output, whose data is to be freed. The inputs' data stay the caller's. */
evaluated evaluate(const char *path, const evaluated *inputs, size_t count);

/* A model whose values are kept: evaluated_open computes it, inputs are found by name and must be
 * all that it has. Outputs are borrowed until evaluated_close. */
typedef struct evaluated_model evaluated_model;
evaluated_model *evaluated_open(const char *path, const evaluated *inputs, size_t count);
const evaluated *evaluated_output(const evaluated_model *model, const char *name);
const char *evaluated_note(const evaluated_model *model, const char *key); /* NULL: none */
void evaluated_close(evaluated_model *model);

#endif
