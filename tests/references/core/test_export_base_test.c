/* Model Garden, official/core/export_base_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include <etude/checkpoint.h>
#include <etude/layers.h>
#include <etude/model_export.h>
#include <etude/ops_loss.h>
#include <etude/ready_actions.h>

#include "formats/files.h"

/* A module with its parameters, and a batch for it. */
typedef struct server {
    et_export_module module;
    et_device *device;
    et_params *params;
    et_samples *samples;
    et_layout layout;
    et_batch *batch;
    et_pass *pass;
} server;

static void open_server(server *s, const float *inputs, int64_t rows, et_shape item)
{
    const et_array array = { .name = "inputs", .dtype = ET_F32, .data = inputs, .item = item };
    assert_ok(et_device_open(&s->device, error));
    assert_ok(et_params_new(&s->params, error));
    assert_ok(et_arrays_open(&s->samples, &array, 1, rows, error));
    s->layout = s->samples->layout;
    s->layout.capacity[0] = rows;
    s->module.layout = &s->layout;
    s->module.input = "inputs";
    uint32_t which[2] = { 0, 1 };
    assert_ok(et_batch_new(&s->batch, &s->layout, error));
    et_batch_clear(s->batch);
    assert_ok(s->samples->class->fill(s->samples, (et_pick){ which, rows, 0 }, s->batch, error));
    et_batch_finish(s->batch);
    assert_ok(et_pass_open(&s->pass, s->device, s->params, &s->layout, et_export_module_serve,
                           &s->module, NULL, error));
    assert_ok(et_params_materialize(s->params, false, error));
}

static const float *serve(server *s)
{
    assert_ok(et_pass_run(s->pass, s->batch, 1, 0, error));
    return et_pass_output(s->pass, "outputs").data;
}

static void close_server(server *s)
{
    et_pass_close(s->pass);
    et_batch_free(s->batch);
    et_samples_close(s->samples);
    et_params_free(s->params);
    et_device_close(s->device);
}

static const float ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

static et_node *dense(et_scope *scope, et_node *inputs, void *payload)
{
    (void)payload;
    return et_dense(et_in(scope, "dense"), inputs, 2);
}

/* The store's weights and the module, as a new export; a path that is valid until the next. */
static const char *export_now(const server *s, const char *base, bool timestamped)
{
    static char copy[900];
    et_exports *exports;
    et_export_action action;
    const char *path;
    const et_exports_options options = { .timestamped = timestamped };
    assert_ok(et_exports_open(&exports, base, 1, &options, error));
    et_export_action_init(&action, "export", exports, s->params, NULL);
    action.module = &s->module;
    assert_ok(et_export_now(&action, 1, &path, error));
    snprintf(copy, sizeof copy, "%s", path);
    et_exports_close(exports);
    return copy;
}

/* Trains nothing: exports initial weights, loads them into another store, and compares. */
static void assert_exported(const et_export_module *module, const char *base, bool timestamped)
{
    server original = { .module = *module }, imported = { .module = *module };
    float expected[4];
    open_server(&original, ones, 2, et_shape_1(4));
    et_init_draw(original.params, 7);
    memcpy(expected, serve(&original), sizeof expected);
    const char *path = export_now(&original, base, timestamped);
    close_server(&original);
    assert_true(file_is_there(below(path, "model.onnx")));
    assert_true(file_is_there(below(path, "weights.safetensors")));
    open_server(&imported, ones, 2, et_shape_1(4));
    assert_ok(et_checkpoint_load_weights(imported.params, below(path, "weights.safetensors"), true,
                                         NULL, error));
    assert_memory_equal(serve(&imported), expected, sizeof expected);
    assert_true(expected[0] != 0);
    close_server(&imported);
}

/* Differs: the files are weights.safetensors and model.onnx, not a SavedModel. A program of Etude
 * loads the weights and builds the served function; other programs run model.onnx. */
static void test_export_base_test__export_module(void **state)
{
    const et_export_module module = { .model = dense };
    assert_exported(&module, in(state, "model"), true);
}

static et_node *probabilities(et_scope *scope, et_node *inputs, const et_export_module *module)
{
    return et_softmax(module->model(scope, inputs, module->payload));
}

/* Differs: the reference loads the served function from the export. A program of Etude loads the
 * weights and builds the function; other programs run model.onnx. */
static void test_export_base_test__custom_inference_step(void **state)
{
    const et_export_module module = { .model = dense, .inference_step = probabilities };
    assert_exported(&module, in(state, "step"), false);
}

static et_node *add_one(et_scope *scope, et_node *inputs, const et_export_module *module)
{
    (void)scope, (void)module;
    return et_offset(inputs, 1);
}

static et_node *add_tenth(et_scope *scope, et_node *inputs, void *payload)
{
    (void)scope, (void)payload;
    return et_offset(inputs, 0.1f);
}

static et_node *add_hundredth(et_scope *scope, et_node *inputs, void *payload)
{
    (void)scope, (void)payload;
    return et_offset(inputs, 0.01f);
}

static void test_export_base_test__processors(void **state)
{
    (void)state;
    static const float zero = 0;
    for (int post = 0; post < 2; post++) {
        server s = { .module = { .inference_step = add_one,
                                 .preprocessor = add_tenth,
                                 .postprocessor = post ? add_hundredth : NULL } };
        open_server(&s, &zero, 1, et_shape_scalar());
        assert_true(fabsf(*serve(&s) - (post ? 1.11f : 1.1f)) < 1e-6f);
        close_server(&s);
    }
}

static void test_export_base_test__get_timestamped_export_dir(void **state)
{
    et_exports *exports;
    const char *base = in(state, "timed"), *name;
    assert_ok(
        et_exports_open(&exports, base, -1, &(et_exports_options){ .timestamped = true }, error));
    assert_ok(et_exports_next_name(exports, &name, error));
    assert_false(file_is_there(name));
    assert_non_null(strstr(name, base));
    et_exports_close(exports);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_base_test__export_module),
        cmocka_unit_test(test_export_base_test__custom_inference_step),
        cmocka_unit_test(test_export_base_test__processors),
        cmocka_unit_test(test_export_base_test__get_timestamped_export_dir),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
