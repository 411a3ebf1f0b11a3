/* A small model with a pass over batches of made samples, for tests of passes: fields "x",
 * "labels", "y" and "pair", in this order. */
#ifndef ETUDE_TESTS_EXEC_PASS_MODEL_H
#define ETUDE_TESTS_EXEC_PASS_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/layers.h>
#include <etude/pass.h>

enum { ROWS = 8, WIDTH = 5, CLASSES = 3 };

extern float x[64 * WIDTH], y[64];
extern int32_t labels[64], pair[64][2];

typedef struct model {
    et_device *device;
    et_params *params;
    et_source *source;
    et_batch *batch;
    et_pass *pass;
} model;

static const et_pass_options training = { .training = true };

et_source *source_of(int64_t count, int64_t rows);

/* The error of opening, or of the first batch's run. */
int try_model(model *m, et_build_fn *build, const et_pass_options *options, int64_t count,
              int64_t rows, et_error *error);
void open_model(model *m, et_build_fn *build, const et_pass_options *options, int64_t count,
                int64_t rows);
void close_model(model *m);

et_node *hidden(et_scope *s);
et_node *classes_loss(et_scope *s, et_node *h);
et_node *square_loss(et_scope *s, et_node *h);
void build_classes(et_scope *s, void *payload);

#endif
