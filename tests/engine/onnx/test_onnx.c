/* Model functions as ONNX. Every op that ONNX can express is in one of them. The test reads each
 * written file and checks that names are defined before they are used, and that sizes are those of
 * the data. With the argument `runtime`, ONNX Runtime, a Python package, computes the same models
 * (run_onnx.py), if it is installed (ET_PEERS, or build/peers/venv: bench/peers/setup
 * build/peers/venv onnx). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/etude.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/scarce.h"
#include "engine/exec/pass.h"
#include "engine/graph/build.h"
#include "engine/onnx/onnx.pb-c.h"
#include "engine/onnx/onnx_graph.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { ROWS = 5, WIDTH = 6, HEIGHT = 7, BREADTH = 8, CHANNELS = 3 };

static const et_init drawn = { ET_INIT_NORMAL, 0.5f };

/* ---- models ---- */

static void elementwise(et_scope *s, void *payload)
{
    (void)payload;
    et_node *x = et_batch_input(s, "x"), *one = et_offset(et_square(x), 1);
    et_node *bias = et_param(s, "bias", et_shape_1(WIDTH), drawn);
    et_output(s, "add", et_bias(et_add(x, one), bias));
    et_output(s, "sub", et_sub(x, one));
    et_output(s, "mul", et_mul(x, one));
    et_output(s, "div", et_div(x, one));
    et_output(s, "scale", et_scale(x, -2.5f));
    et_output(s, "relu", et_relu(x));
    et_output(s, "gelu", et_gelu(x));
    et_output(s, "tanh", et_tanh(x));
    et_output(s, "sigmoid", et_sigmoid(x));
    et_output(s, "swish", et_swish(x));
    et_output(s, "softplus", et_softplus(x));
    et_output(s, "exp", et_exp(x));
    et_output(s, "ln", et_ln(one));
    et_output(s, "power", et_power(one, -1.5f));
    et_output(s, "clamp", et_clamp(x, -0.5f, 0.25f));
    et_output(s, "rest", et_sqrt(et_reciprocal(et_offset(et_abs(x), 2))));
}

static void table_activations(et_scope *s, void *payload)
{
    et_node *x = et_batch_input(s, "x");
    (void)payload;
    et_output(s, "selu", et_selu(x));
    et_output(s, "mish", et_mish(x));
    et_output(s, "sin", et_sin(et_scale(x, 7)));
    et_output(s, "cos", et_cos(et_scale(x, 7)));
}

static void rows(et_scope *s, void *payload)
{
    (void)payload;
    et_node *x = et_batch_input(s, "x");
    et_node *w = et_param(s, "weight", et_shape_2(WIDTH, 4), drawn);
    et_node *turned = et_param(s, "turned", et_shape_2(4, WIDTH), drawn);
    et_node *bias = et_param(s, "bias", et_shape_1(4), drawn);
    et_node *gamma = et_param(s, "gamma", et_shape_1(WIDTH), drawn);
    et_node *beta = et_param(s, "beta", et_shape_1(WIDTH), drawn);
    et_node *mean = et_variable(s, "mean", et_shape_1(WIDTH), drawn);
    et_node *variance = et_square(et_variable(s, "deviation", et_shape_1(WIDTH), drawn));
    et_output(s, "softmax", et_softmax(x));
    et_output(s, "log_softmax", et_log_softmax(x));
    et_output(s, "row_sum", et_row_sum(x));
    et_output(s, "column_sum", et_column_sum(x));
    et_output(s, "sum", et_reshape(et_sum(x), et_shape_1(1)));
    et_output(s, "product", et_matmul(x, w, bias, &(et_matmul_options){ .relu = true }));
    et_output(s, "turned_product",
              et_matmul(x, turned, NULL, &(et_matmul_options){ .transpose_b = true }));
    et_node *beside = et_param(s, "beside", et_shape_2(WIDTH / 2, 2 * 4), drawn);
    et_node *below = et_param(s, "below", et_shape_2(4, WIDTH), drawn);
    et_node *both = et_param(s, "both", et_shape_1(2 * 4), drawn);
    et_output(s, "grouped", et_matmul(x, beside, both, &(et_matmul_options){ .groups = 2 }));
    et_output(s, "grouped_turned",
              et_matmul(x, below, both,
                        &(et_matmul_options){ .groups = 2, .transpose_b = true, .relu = true }));
    et_output(s, "gram", et_matmul(x, x, NULL, &(et_matmul_options){ .transpose_a = true }));
    et_output(s, "layer_norm", et_layer_norm(x, gamma, beta, 1e-3f));
    et_output(s, "rms_norm", et_rms_norm(x, gamma, 1e-3f));
    et_output(s, "batch_norm", et_batch_norm_given(x, gamma, beta, mean, variance, 1e-3f));
    et_output(s, "fill", et_mul(x, et_copy(et_sum(gamma), ET_F32, et_node_shape(x))));
}

static void layout(et_scope *s, void *payload)
{
    (void)payload;
    static const et_column columns[] = { { 4, 3 }, { 5, 2 } };
    et_node *x = et_batch_input(s, "x"), *ids = et_batch_input(s, "ids");
    const int64_t count = et_node_shape(x).size[0];
    et_node *first = et_reshape(et_slice_columns(ids, 0, 1), et_shape_1(count));
    et_node *table = et_param(s, "table", et_shape_2(4, WIDTH), drawn);
    et_node *tables = et_param(s, "tables", et_shape_1(et_columns_size(columns, 2)), drawn);
    et_node *parts[] = { et_slice_columns(x, 1, 2), et_one_hot(first, 4), x, et_cast(ids, ET_F32) };
    et_node *twice[] = { x, x };
    et_node *each = et_reshape(x, et_shape_2(count * WIDTH, 1));
    et_node *one = et_copy(et_param(s, "one", et_shape_1(2), drawn), ET_F32, et_shape_2(count, 2));
    et_node *with[] = { one, x };
    et_output(s, "embedding", et_embedding(first, table, 3, NULL, NULL));
    et_output(
        s, "placed",
        et_embedding(first, table, 3, et_integers(s, 0, count, 1), et_sinusoid(s, 64, WIDTH)));
    et_output(s, "columns", et_embed_columns(ids, tables, columns, 2));
    et_output(s, "gather", et_gather_rows(table, first));
    et_output(s, "side_by_side", et_concatenate_columns(parts, 4));
    et_output(s, "one_below_other", et_concatenate_rows(twice, 2));
    et_output(s, "repeated",
              et_reshape(et_copy(each, ET_F32, et_shape_2(count * WIDTH, 2)),
                         et_shape_2(count, 2 * WIDTH)));
    et_output(s, "constant_beside", et_concatenate_columns(with, 2));
}

/* Rows of WIDTH / 2 tokens of 8. */
static void attention(et_scope *s, void *payload)
{
    (void)payload;
    enum { TOKENS = WIDTH / 2, DIM = 8 };
    et_node *x = et_batch_input(s, "x");
    const int64_t count = et_node_shape(x).size[0];
    et_node *tokens = et_reshape(x, et_shape_2(count * TOKENS, 2));
    et_node *qkv = et_matmul(tokens, et_param(s, "qkv", et_shape_2(2, 3 * DIM), drawn), NULL, NULL);
    et_node *kv = et_matmul(tokens, et_param(s, "kv", et_shape_2(2, 2 * DIM), drawn), NULL, NULL);
    et_node *q = et_matmul(x, et_param(s, "q", et_shape_2(WIDTH, DIM), drawn), NULL, NULL);
    et_node *offsets = et_integers(s, 0, count + 1, TOKENS),
            *each = et_integers(s, 0, count + 1, 1);
    et_attention_options options = { .heads = 2, .longest_key = TOKENS };
    et_output(s, "self", et_attention(et_in(s, "a"), qkv, qkv, offsets, offsets, &options));
    et_output(s, "cross", et_attention(et_in(s, "b"), q, kv, each, offsets, &options));
    options.causal = true;
    et_output(s, "causal", et_attention(et_in(s, "c"), qkv, qkv, offsets, offsets, &options));
}

static void images(et_scope *s, void *payload)
{
    (void)payload;
    et_node *x = et_batch_input(s, "image");
    et_node *w = et_param(s, "weight", et_shape_4(3, 2, CHANNELS, 4), drawn);
    et_node *bias = et_param(s, "bias", et_shape_1(4), drawn);
    et_convolution_options same = { .same = true, .stride = { 2, 1 }, .relu = true };
    et_convolution_options apart = { .dilation = { 2, 3 } };
    et_pool_options window = { .window = { 3, 2 }, .same = true },
                    step = { { 2, 2 }, { 1, 3 }, false };
    et_output(s, "plain", et_convolution(x, w, NULL, NULL));
    et_output(s, "same", et_convolution(x, w, bias, &same));
    et_output(s, "apart", et_convolution(x, w, bias, &apart));
    et_output(s, "largest", et_max_pool(x, &window));
    et_output(s, "largest_step", et_max_pool(x, &step));
    et_output(s, "mean", et_mean_pool(x, &window));
    et_output(s, "mean_of_all", et_mean_pool(x, NULL));
}

static const struct {
    const char *name;
    et_build_fn *build;
} models[] = { { "elementwise", elementwise },
               { "table_activations", table_activations },
               { "rows", rows },
               { "layout", layout },
               { "attention", attention },
               { "images", images } };

/* ---- inputs ---- */

static const et_layout_field fields[] = {
    { .name = "x", .dtype = ET_F32, .item = { 1, { WIDTH } } },
    { .name = "ids", .dtype = ET_I32, .item = { 1, { 2 } }, .empty = ET_EMPTY_NONE },
    { .name = "image", .dtype = ET_F32, .item = { 3, { HEIGHT, BREADTH, CHANNELS } } },
};
static const et_layout batches = {
    .kinds = 1, .fields = COUNT(fields), .kind = { "row" }, .capacity = { ROWS }, .field = fields
};

static void write_bytes(const char *model, const char *name, const void *bytes, size_t length)
{
    char path[128];
    snprintf(path, sizeof path, "%s.%s.raw", model, name);
    assert_int_equal(et_file_write(path, bytes, length, NULL), ET_OK);
}

static void fill(et_batch *batch)
{
    float *x = batch->data[0], *image = batch->data[2];
    int32_t *ids = batch->data[1];
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = sinf((float)(3 * i + 1)) * 1.5f;
    for (int i = 0; i < ROWS * HEIGHT * BREADTH * CHANNELS; i++)
        image[i] = sinf((float)(i * i % 977));
    for (int i = 0; i < ROWS; i++) {
        ids[2 * i] = i == 2 ? -1 : i % 4;
        ids[2 * i + 1] = i == 4 ? -1 : (3 * i) % 5;
    }
    batch->filled[0] = ROWS;
    et_batch_finish(batch);
}

/* A pass's results and its inputs as raw arrays, "MODEL.NAME.raw", and the model. */
static void compute(const char *name, et_build_fn *build)
{
    et_error error = ET_ERROR_INIT;
    et_device *device = NULL;
    et_params *params = NULL;
    et_pass *pass = NULL;
    et_batch *batch = NULL;
    char path[64];
    const char *output;
    int status = et_device_open(&device, &error);
    if (!status)
        status = et_params_new(&params, &error);
    if (!status)
        status = et_pass_open(&pass, device, params, &batches, build, NULL, NULL, &error);
    if (!status)
        status = et_params_materialize(params, false, &error);
    if (!status)
        status = et_batch_new(&batch, &batches, &error);
    if (status)
        fail_msg("%s: %s", name, error.text);
    et_init_draw(params, 7);
    fill(batch);
    snprintf(path, sizeof path, "%s.onnx", name);
    if (et_pass_run(pass, batch, 0, 0, &error) ||
        et_export_onnx(path, params, &batches, build, NULL, &error))
        fail_msg("%s: %s", name, error.text);
    for (int i = 0; i < batches.fields; i++)
        write_bytes(name, fields[i].name, batch->data[i],
                    et_tensor_bytes((et_tensor){ .dtype = fields[i].dtype,
                                                 .shape = et_layout_shape(&batches, i) }));
    for (int i = 0; (output = et_pass_output_name(pass, i)) != NULL; i++) {
        et_tensor values = et_pass_output(pass, output);
        write_bytes(name, output, values.data, et_tensor_bytes(values));
    }
    et_batch_free(batch);
    et_pass_close(pass);
    et_params_free(params);
    et_device_close(device);
}

/* ---- written models ---- */

typedef struct known {
    const char *names[4096];
    size_t count;
} known;

static bool knows(const known *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->names[i], name))
            return true;
    return false;
}

static void learn(known *all, const char *name)
{
    if (knows(all, name))
        fail_msg("%s is there twice", name);
    assert_true(all->count < COUNT(all->names));
    all->names[all->count++] = name;
}

static void check_constant(const Etude__Onnx__Tensor *tensor)
{
    size_t bytes = tensor->data_type == 7 ? 8 : 4;
    for (size_t i = 0; i < tensor->n_dims; i++)
        bytes *= (size_t)tensor->dims[i];
    assert_int_equal(tensor->raw_data.len, bytes);
}

/* Nodes in an order in which they can be computed, outputs among their results. */
static void check_structure(const char *name)
{
    char path[64], *bytes;
    size_t length;
    known all = { .count = 0 };
    snprintf(path, sizeof path, "%s.onnx", name);
    assert_int_equal(et_file_read(&bytes, &length, path, 1 << 22, NULL), ET_OK);
    Etude__Onnx__Model *model = etude__onnx__model__unpack(NULL, length, (uint8_t *)bytes);
    assert_non_null(model);
    assert_int_equal(model->ir_version, 8);
    assert_int_equal(model->n_opset_import, 1);
    assert_int_equal(model->opset_import[0]->version, 17);
    const Etude__Onnx__Graph *graph = model->graph;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        check_constant(graph->initializer[i]);
        learn(&all, graph->initializer[i]->name);
    }
    assert_true(graph->n_input >= 1);
    for (size_t i = 0; i < graph->n_input; i++) {
        const Etude__Onnx__Shape *shape = graph->input[i]->type->tensor_type->shape;
        assert_string_equal(shape->dim[0]->dim_param, "batch");
        learn(&all, graph->input[i]->name);
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        const Etude__Onnx__Node *node = graph->node[i];
        for (size_t k = 0; k < node->n_input; k++)
            if (!knows(&all, node->input[k]))
                fail_msg("%s: %s reads %s, which is not there yet", name, node->name,
                         node->input[k]);
        assert_int_equal(node->n_output, 1);
        learn(&all, node->output[0]);
    }
    assert_true(graph->n_output >= 1);
    for (size_t i = 0; i < graph->n_output; i++)
        assert_true(knows(&all, graph->output[i]->name));
    etude__onnx__model__free_unpacked(model, NULL);
    et_free(bytes);
}

static void test_onnx__structure(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++) {
        compute(models[i].name, models[i].build);
        check_structure(models[i].name);
    }
}

static void trains(et_scope *s, void *payload)
{
    (void)payload;
    et_node *x = et_batch_input(s, "x");
    et_output(s, "noise", et_add(x, et_noise(s, "z", et_node_shape(x))));
}

static void nothing(et_scope *s, void *payload)
{
    (void)payload;
    et_softmax(et_batch_input(s, "x"));
}

/* The number of rows is unknown: a value computed from the stand-in number would be wrong for all
 * others.
 */
static void mean(et_scope *s, void *payload)
{
    (void)payload;
    et_output(s, "mean", et_column_mean(et_batch_input(s, "x")));
}

static void one_more(et_scope *s, void *payload)
{
    (void)payload;
    et_node *x = et_batch_input(s, "x");
    et_node *parts[] = { et_slice_rows(x, 0, 1), x };
    et_output(s, "more", et_concatenate_rows(parts, 2));
}

static void clash(et_scope *s, void *payload)
{
    (void)payload;
    et_output(s, "x", et_tanh(et_batch_input(s, "x")));
}

static void test_onnx__refused(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_params *params, *empty;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_params_new(&empty, &error), ET_OK);
    assert_int_equal(et_params_materialize(params, false, &error), ET_OK);
    et_layout packed = batches;
    packed.kinds = 2;
    const struct {
        const char *path;
        et_params *params;
        const et_layout *layout;
        et_build_fn *build;
        int status;
        const char *says;
    } cases[] = {
        { "a.onnx", params, &batches, trains, ET_ECONFIG, "(noise): ONNX export does not support" },
        { "a.onnx", params, &batches, nothing, ET_ECONFIG, "the model has no output" },
        { "a.onnx", params, &batches, mean, ET_ECONFIG, "is a mean over all rows" },
        { "a.onnx", params, &batches, one_more, ET_ECONFIG, "depends on the number of rows" },
        { "a.onnx", params, &batches, clash, ET_ECONFIG,
          "the output x has the name of an input, a parameter or another output: rename one of "
          "them" },
        { "a.onnx", params, &packed, rows, ET_ECONFIG, "can only export batches of samples" },
        { "a.onnx", params, &batches, rows, ET_EGRAPH, "weight" },
        { "a.onnx", empty, &batches, rows, ET_EUSAGE, "no values yet" },
        { "", params, &batches, rows, ET_EUSAGE, "needs a path" },
        { "none/a.onnx", params, &batches, NULL, ET_EUSAGE, "a model function" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int status = et_export_onnx(cases[i].path, cases[i].params, cases[i].layout, cases[i].build,
                                    NULL, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].says))
            fail_msg("case %zu: %d: %s", i, status, error.text);
        assert_false(et_file_exists("a.onnx"));
    }
    et_params_free(empty);
    et_params_free(params);
}

/* Without memory a binding has no value, which is not the graph's fault. */
static void test_onnx__memory(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_graph *graph;
    et_onnx *model;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, params, NULL, &error), ET_OK);
    assert_int_equal(et_onnx_new(&model, "m", &error), ET_OK);
    et_scope *scope = et_graph_scope(graph);
    et_node *qkv = et_input(scope, "qkv", ET_F32, et_shape_2(4, 24));
    et_node *offsets = et_input(scope, "offsets", ET_I32, et_shape_1(3));
    const et_attention_options options = { .heads = 2, .longest_key = 4 };
    et_node *y = et_attention(scope, qkv, qkv, offsets, offsets, &options);
    scarce_begin(0);
    while (et_onnx_int(model, 1))
        continue;
    scarce_end();
    const et_onnx_binding bindings[] = { { .name = "qkv", .value = "x" },
                                         { .name = "offsets", .count = et_onnx_int(model, 2) } };
    const et_onnx_graph from = { .graph = graph, .bindings = bindings, .binding_count = 2 };
    const char *value;
    assert_int_equal(et_onnx_add_graph(model, &from, &y, &value, 1, &error), ET_ENOMEM);
    et_onnx_free(model);
    et_graph_free(graph);
    et_params_free(params);
}

/* ---- ONNX Runtime ---- */

static char python[512];

static void test_onnx__runtime(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++) {
        char line[2048];
        compute(models[i].name, models[i].build);
        snprintf(line, sizeof line, "'%s' '%s/tests/engine/onnx/run_onnx.py' %s", python,
                 ET_TEST_SOURCE, models[i].name);
        if (system(line))
            fail_msg("%s: ONNX Runtime computes something else, or nothing", models[i].name);
    }
}

static char folder[] = "onnx.XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char line[64];
    snprintf(line, sizeof line, "rm -r %s", folder);
    return chdir("..") || system(line);
}

static bool find_python(void)
{
    const char *peers = getenv("ET_PEERS");
    char line[1024];
    snprintf(python, sizeof python, "%s/bin/python", peers ? peers : ET_TEST_BUILD "/peers/venv");
    snprintf(line, sizeof line, "'%s' -c 'import onnxruntime' 2>/dev/null", python);
    return !access(python, X_OK) && !system(line);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx__structure),
        cmocka_unit_test(test_onnx__refused),
        cmocka_unit_test(test_onnx__memory),
    };
    const struct CMUnitTest runtime[] = { cmocka_unit_test(test_onnx__runtime) };
    if (argc < 2 || strcmp(argv[1], "runtime") != 0)
        return cmocka_run_group_tests(tests, set_up, tear_down);
    if (!find_python()) {
        fprintf(stderr, "SKIPPED: %s has no onnxruntime; bench/peers/setup build/peers/venv onnx\n",
                python);
        return 77;
    }
    return cmocka_run_group_tests(runtime, set_up, tear_down);
}
