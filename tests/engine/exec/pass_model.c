#include "engine/exec/pass_model.h"

float x[64 * WIDTH], y[64];
int32_t labels[64], pair[64][2];

static void fill(void)
{
    for (int i = 0; i < 64 * WIDTH; i++)
        x[i] = (float)((i * 37) % 19) / 19 - 0.5f;
    for (int i = 0; i < 64; i++) {
        labels[i] = i % CLASSES;
        y[i] = (float)(i % 7) / 7;
    }
}

et_source *source_of(int64_t count, int64_t rows)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(WIDTH) },
                                { "labels", ET_I32, labels, et_shape_scalar() },
                                { "y", ET_F32, y, et_shape_1(1) },
                                { "pair", ET_I32, pair, et_shape_1(2) } };
    et_samples *samples = NULL;
    et_source *source = NULL;
    et_batches_options options = { .capacity = { rows } };
    assert_int_equal(et_arrays_open(&samples, arrays, 4, count, NULL), ET_OK);
    assert_int_equal(et_batches_open(&source, samples, &options, NULL), ET_OK);
    return source;
}

int try_model(model *m, et_build_fn *build, const et_pass_options *options, int64_t count,
              int64_t rows, et_error *error)
{
    fill();
    *m = (model){ .source = source_of(count, rows) };
    assert_int_equal(et_device_open(&m->device, error), ET_OK);
    assert_int_equal(et_params_new(&m->params, error), ET_OK);
    assert_int_equal(et_batch_new(&m->batch, &m->source->layout, error), ET_OK);
    assert_int_equal(et_source_next(m->source, m->batch, error), ET_OK);
    int status = et_pass_open(&m->pass, m->device, m->params, &m->source->layout, build, NULL,
                              options, error);
    if (status)
        return status;
    assert_int_equal(et_params_materialize(m->params, false, error), ET_OK);
    et_init_draw(m->params, 3);
    return et_pass_run(m->pass, m->batch, 1, 0, error);
}

void open_model(model *m, et_build_fn *build, const et_pass_options *options, int64_t count,
                int64_t rows)
{
    et_error error = ET_ERROR_INIT;
    if (try_model(m, build, options, count, rows, &error))
        fail_msg("%s", error.text);
}

void close_model(model *m)
{
    et_pass_close(m->pass);
    et_batch_free(m->batch);
    et_source_close(m->source);
    et_params_free(m->params);
    et_device_close(m->device);
}

et_node *hidden(et_scope *s)
{
    return et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 4));
}

et_node *classes_loss(et_scope *s, et_node *h)
{
    et_node *logits = et_dense(et_in(s, "logits"), h, CLASSES);
    et_output(s, "logits", logits);
    return et_softmax_loss(logits, et_batch_input(s, "labels"), 0);
}

et_node *square_loss(et_scope *s, et_node *h)
{
    et_node *d = et_sub(et_dense(et_in(s, "value"), h, 1), et_batch_input(s, "y"));
    return et_mul(d, d);
}

void build_classes(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", classes_loss(s, hidden(s)), 1);
    et_output(s, "unused", square_loss(s, hidden(s)));
}
