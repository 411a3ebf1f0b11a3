#include "tasks/tabular/points.h"

#include <math.h>

#include "base/scarce.h"

#include <etude/layers.h>

typedef struct built {
    et_table_set *dataset;
    et_arguments *args;
    et_model_builder builder;
} built;

static void begin(built *b, const et_model_builder_class *kind, const et_arguments_class *arguments,
                  const char *const *args)
{
    et_error error = ET_ERROR_INIT;
    b->dataset = open_points(POINTS_FEATURES, 2);
    b->args = parse_arguments(arguments, args);
    ok(et_model_builder_init(&b->builder, kind, b->args, b->dataset, &error), &error);
}

static void end(built *b)
{
    et_model_builder_release(&b->builder);
    et_arguments_free(b->args);
    et_table_set_close(b->dataset);
}

static void test_model_builder__arguments(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_model_builder builder;
    built b;
    begin(&b, &et_feed_forward_builder, &et_feed_forward_arguments_class,
          ARGS("--hidden-layers:1", "20"));
    assert_ptr_equal(et_model_builder_args(&b.builder), b.args);
    assert_ptr_equal(et_model_builder_dataset(&b.builder), b.dataset);
    assert_string_equal(et_model_builder_target(&b.builder), "Y");
    assert_int_equal(et_model_builder_labels(&b.builder), 2);
    assert_string_equal(et_model_builder_label(&b.builder, 0), "above");
    assert_null(et_model_builder_label(&b.builder, 2));
    assert_null(et_model_builder_label(&b.builder, -1));

    assert_int_equal(
        et_model_builder_init(&builder, &et_feed_forward_builder, NULL, b.dataset, &error),
        ET_EUSAGE);
    assert_contains(error.text, "feed_forward: expected the arguments of feed_forward");
    assert_contains(error.text, "not given");
    et_arguments *plain = parse_arguments(NULL, ARGS(NULL));
    assert_int_equal(
        et_model_builder_init(&builder, &et_feed_forward_builder, plain, b.dataset, &error),
        ET_EUSAGE);
    assert_contains(error.text, "of another class");
    const et_model_builder_class nameless = { .base = &et_classification_builder };
    assert_int_equal(et_model_builder_init(&builder, &nameless, plain, b.dataset, &error),
                     ET_EUSAGE);
    et_arguments_free(plain);
    end(&b);
    et_model_builder_release(&b.builder); /* once more does no harm */
}

static void check_fields(const et_layout *layout, const char *const *names)
{
    for (int i = 0; i < layout->fields || names[i]; i++) {
        bool mask = i < layout->fields && !strcmp(layout->field[i].name, "mask");
        if (!names[i] && mask)
            return;
        assert_true(i < layout->fields && names[i]);
        assert_string_equal(layout->field[i].name, names[i]);
    }
}

/* Three graphs, each with what is referred to in it. */
static void test_model_builder__graphs(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_graph_interfaces graphs;
    et_job_config *config;
    built b;
    begin(&b, &et_feed_forward_builder, &et_feed_forward_arguments_class,
          ARGS("--batch-size", "16", "--eval-batch-size", "40", "--learning-rate", "0.5"));
    ok(et_job_config_local(&config, &error), &error);
    ok(et_model_builder_build_graph_interfaces(&b.builder, config, &graphs, &error), &error);
    const et_graph_interface *t = graphs.training, *e = graphs.evaluation, *p = graphs.prediction;
    assert_string_equal(t->name, "training");
    assert_string_equal(e->name, "evaluation");
    assert_string_equal(p->name, "prediction");
    assert_true(t->graph && e->graph && p->graph && t->graph != e->graph);
    assert_ptr_equal(t->builder, &b.builder);
    check_fields(t->input.layout, ARGS("X", "Y"));
    check_fields(e->input.layout, ARGS("X", "Y"));
    check_fields(p->input.layout, ARGS("X"));
    assert_int_equal(t->input.layout->capacity[0], 16);
    assert_int_equal(e->input.layout->capacity[0], 40);
    assert_ptr_equal(t->input.layout, &t->input.source->layout);
    assert_non_null(e->input.source);
    assert_null(p->input.source);
    assert_int_equal(*t->global_steps, 0);
    assert_string_equal(t->loss, "loss");
    assert_string_equal(e->loss, "loss");
    assert_string_equal(t->train_op.rule, "sgd");
    assert_float_equal(t->train_op.learning_rate, 0.5, 0);
    assert_string_equal(e->metric, "accuracy");
    assert_false(e->lower_is_better);
    assert_int_equal(p->output_count, 1);
    assert_string_equal(p->output[0], "scores");
    assert_int_equal(t->output_count, 0);
    assert_true(!t->init.init && !t->init.local_init);
    et_graph_interface_close(graphs.training);
    et_graph_interface_close(graphs.evaluation);
    et_graph_interface_close(NULL); /* the builder closes the third */
    et_job_config_free(config);
    end(&b);
}

/* Without a source "eval" there is nothing to evaluate on. */
static void test_model_builder__no_evaluation(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_graph_interfaces graphs;
    et_graph_interface *graph;
    built b;
    begin(&b, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS(NULL));
    et_table_set *one = open_points(POINTS_FEATURES, 1);
    b.builder.dataset = one;
    ok(et_model_builder_build_graph_interfaces(&b.builder, NULL, &graphs, &error), &error);
    assert_true(graphs.training && graphs.prediction && !graphs.evaluation);
    assert_int_equal(et_model_builder_build_evaluation_graph(&b.builder, NULL, &graph, &error),
                     ET_ECONFIG);
    assert_contains(error.text,
                    "evaluation graph: the dataset has no source \"eval\"; it has train");
    assert_null(graph);
    et_table_set_close(one);
    end(&b);
}

/* A batch through training and prediction: the loss of a model that knows nothing, scores that are
 * probabilities. */
static void test_model_builder__graphs_run(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_graph_interface *training, *prediction;
    et_batch *batch, *rows;
    built b;
    begin(&b, &et_feed_forward_builder, &et_feed_forward_arguments_class,
          ARGS("--hidden-layers:1", "8", "--batch-size", "32", "--eval-batch-size", "4"));
    ok(et_model_builder_build_training_graph(&b.builder, NULL, &training, &error), &error);
    ok(et_model_builder_build_prediction_graph(&b.builder, NULL, &prediction, &error), &error);
    et_params *params = et_model_builder_params(&b.builder);
    assert_int_equal(et_params_count(params), 4);
    ok(et_params_materialize(params, false, &error), &error);
    et_init_draw(params, 1);
    ok(et_batch_new(&batch, training->input.layout, &error), &error);
    ok(et_source_next(training->input.source, batch, &error), &error);
    assert_int_equal(batch->filled[0], 32);
    ok(et_pass_run(training->graph, batch, 1, 0, &error), &error);
    assert_float_equal(et_pass_divisor(training->graph), 32, 0);
    assert_float_equal(et_pass_loss(training->graph) / 32, log(2), 0.5);

    ok(et_batch_new(&rows, prediction->input.layout, &error), &error);
    rows->filled[0] = 4;
    for (int i = 0; i < 8; i++)
        ((float *)rows->data[0])[i] = (float)i / 8;
    ok(et_pass_run(prediction->graph, rows, 0, 0, &error), &error);
    et_tensor scores = et_pass_output(prediction->graph, "scores");
    assert_true(scores.shape.size[0] == 4 && scores.shape.size[1] == 2);
    for (int i = 0; i < 4; i++)
        assert_float_equal(((float *)scores.data)[2 * i] + ((float *)scores.data)[2 * i + 1], 1,
                           1e-6);
    et_batch_free(batch);
    et_batch_free(rows);
    end(&b);
}

/* ---- a class that overrides everything, each by doing what its base does ---- */

enum {
    GRAPHS,
    TRAINING,
    EVALUATION,
    PREDICTION,
    INIT,
    INPUT,
    INFERENCE,
    LOSS,
    OUTPUT,
    METRIC,
    ALL
};
static int called[ALL];
static const et_model_builder_class *const base = &et_model_builder_base;

static int own_graphs(et_model_builder *self, const et_job_config *config, et_graph_interfaces *out,
                      et_error *error)
{
    called[GRAPHS]++;
    return base->build_graph_interfaces(self, config, out, error);
}

static int own_training(et_model_builder *self, et_table_set *dataset, et_graph_interface **out,
                        et_error *error)
{
    called[TRAINING]++;
    return base->build_training_graph(self, dataset, out, error);
}

static int own_evaluation(et_model_builder *self, et_table_set *dataset, et_graph_interface **out,
                          et_error *error)
{
    called[EVALUATION]++;
    return base->build_evaluation_graph(self, dataset, out, error);
}

static int own_prediction(et_model_builder *self, et_table_set *dataset, et_graph_interface **out,
                          et_error *error)
{
    called[PREDICTION]++;
    return base->build_prediction_graph(self, dataset, out, error);
}

static int set_up(et_model_builder *self, et_params *params, et_error *error)
{
    (void)self, (void)params, (void)error;
    return ET_OK;
}

static void own_init(et_model_builder *self, et_builder_init *out)
{
    called[INIT]++;
    base->build_init(self, out);
    out->init = set_up;
}

static int own_input(et_model_builder *self, et_table_set *dataset, const char *source,
                     int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                     et_error *error)
{
    called[INPUT]++;
    /* Training without end and shuffled, the rest one pass in order, as documented. */
    assert_true(source ? !strcmp(source, "train")
                             ? epochs == 0 && shuffle
                             : !strcmp(source, "eval") && epochs == 1 && !shuffle
                       : true);
    return base->build_input(self, dataset, source, batch, epochs, shuffle, out, error);
}

static int trained; /* how often inference was for training */

static void own_inference(et_model_builder *self, et_scope *s, const et_nodes *inputs,
                          bool training, et_nodes *inferences)
{
    called[INFERENCE]++;
    trained += training;
    assert_int_equal(et_scope_training(s), training);
    et_nodes_put(
        inferences, "logits",
        et_dense(et_in(s, "logits"), et_nodes_get(inputs, "X"), et_model_builder_labels(self)));
}

static void own_loss(et_model_builder *self, et_scope *s, const int64_t *global_steps,
                     const et_nodes *inputs, const et_nodes *inferences, et_builder_training *out)
{
    called[LOSS]++;
    assert_true(*global_steps == 0 && et_nodes_get(inputs, "Y"));
    et_classification_builder.build_training(self, s, global_steps, inputs, inferences, out);
    out->optimizer.rule = "adamw";
}

static void own_output(et_model_builder *self, et_scope *s, const et_nodes *inputs,
                       const et_nodes *inferences, et_nodes *outputs)
{
    called[OUTPUT]++;
    et_classification_builder.build_output(self, s, inputs, inferences, outputs);
    et_nodes_put(outputs, "logits", et_nodes_get(inferences, "logits"));
}

static void own_metric(et_model_builder *self, et_scope *s, const et_nodes *inputs,
                       const et_nodes *outputs, et_builder_evaluation *out)
{
    called[METRIC]++;
    et_classification_builder.build_evaluation(self, s, inputs, outputs, out);
    out->metric = "share";
}

static const et_model_builder_class own = { .name = "own",
                                            .build_graph_interfaces = own_graphs,
                                            .build_training_graph = own_training,
                                            .build_evaluation_graph = own_evaluation,
                                            .build_prediction_graph = own_prediction,
                                            .build_init = own_init,
                                            .build_input = own_input,
                                            .build_inference = own_inference,
                                            .build_training = own_loss,
                                            .build_output = own_output,
                                            .build_evaluation = own_metric };

static void test_model_builder__every_method_overridden(void **state)
{
    (void)state;
    static const int expected[ALL] = { 1, 1, 1, 1, 3, 3, 3, 2, 2, 1 };
    et_error error = ET_ERROR_INIT;
    et_graph_interfaces graphs;
    built b;
    memset(called, 0, sizeof called);
    trained = 0;
    begin(&b, &own, NULL, ARGS(NULL));
    ok(et_model_builder_build_graph_interfaces(&b.builder, NULL, &graphs, &error), &error);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(called[i], expected[i]);
    assert_int_equal(trained, 1);
    assert_ptr_equal(graphs.training->init.init, set_up);
    assert_string_equal(graphs.training->train_op.rule, "adamw");
    assert_string_equal(graphs.evaluation->metric, "share");
    assert_int_equal(graphs.prediction->output_count, 2);
    assert_string_equal(graphs.prediction->output[1], "logits");
    end(&b);
}

/* One method of a class of its own, all others of the base. */
static void test_model_builder__one_overridden(void **state)
{
    (void)state;
    static const et_model_builder_class only = { .name = "only",
                                                 .base = &et_classification_builder,
                                                 .build_inference = own_inference };
    et_error error = ET_ERROR_INIT;
    et_graph_interface *graph;
    built b;
    memset(called, 0, sizeof called);
    begin(&b, &only, NULL, ARGS(NULL));
    ok(et_model_builder_build_evaluation_graph(&b.builder, NULL, &graph, &error), &error);
    assert_int_equal(called[INFERENCE], 1);
    assert_int_equal(called[METRIC], 0);
    assert_string_equal(graph->metric, "accuracy");
    end(&b);
}

static void test_model_builder__abstract(void **state)
{
    (void)state;
    static const et_model_builder_class nothing = { .name = "nothing" };
    static const et_model_builder_class half = { .name = "half",
                                                 .build_inference = own_inference,
                                                 .build_training = own_loss };
    et_error error = ET_ERROR_INIT;
    et_graph_interface *graph;
    built b;
    begin(&b, &nothing, NULL, ARGS(NULL));
    assert_int_equal(et_model_builder_build_training_graph(&b.builder, NULL, &graph, &error),
                     ET_EUSAGE);
    assert_contains(error.text, "builder nothing has no build_inference");
    end(&b);
    begin(&b, &half, NULL, ARGS(NULL));
    assert_int_equal(et_model_builder_build_prediction_graph(&b.builder, NULL, &graph, &error),
                     ET_EUSAGE);
    assert_contains(error.text, "builder half has no build_output");
    end(&b);
}

/* Both generations: a dataset of the builder, or of each graph. */
static void test_model_builder__dataset_of_a_graph(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_graph_interface *graph;
    built b;
    begin(&b, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS(NULL));
    b.builder.dataset = NULL;
    assert_null(et_model_builder_target(&b.builder));
    assert_int_equal(et_model_builder_labels(&b.builder), 0);
    assert_int_equal(et_model_builder_build_training_graph(&b.builder, NULL, &graph, &error),
                     ET_EUSAGE);
    assert_contains(error.text, "has no dataset");
    ok(et_model_builder_build_training_graph(&b.builder, b.dataset, &graph, &error), &error);
    assert_int_equal(graph->input.layout->capacity[0], 128);
    assert_null(b.builder.dataset);
    end(&b);
}

static int64_t count_rows(et_source *source, float *first)
{
    et_error error = ET_ERROR_INIT;
    et_batch *batch;
    int64_t rows = 0;
    ok(et_batch_new(&batch, &source->layout, &error), &error);
    for (;;) {
        ok(et_source_next(source, batch, &error), &error);
        if (!batch->filled[0])
            break;
        if (!rows)
            *first = ((float *)batch->data[0])[2];
        rows += batch->filled[0];
    }
    et_batch_free(batch);
    return rows;
}

static void test_model_builder__input(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_builder_input input;
    float first, other;
    built b;
    begin(&b, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS("--seed", "3"));
    ok(et_model_builder_build_input(&b.builder, NULL, "train", 7, 2, false, &input, &error),
       &error);
    assert_int_equal(input.layout->capacity[0], 7);
    assert_int_equal(count_rows(input.source, &first), 2 * (POINTS - POINTS_EVAL));
    assert_float_equal(first, points_x[1], 1e-6);
    et_source_close(input.source);
    ok(et_model_builder_build_input(&b.builder, b.dataset, "eval", 100, 1, true, &input, &error),
       &error);
    assert_int_equal(count_rows(input.source, &other), POINTS_EVAL);
    assert_true(fabsf(other - points_x[POINTS - POINTS_EVAL + 1]) > 1e-6);
    et_source_close(input.source);
    ok(et_model_builder_build_input(&b.builder, NULL, NULL, 5, 1, false, &input, &error), &error);
    assert_null(input.source);
    assert_int_equal(input.layout->capacity[0], 5);
    check_fields(input.layout, ARGS("X"));
    assert_int_equal(
        et_model_builder_build_input(&b.builder, NULL, "test", 5, 1, false, &input, &error),
        ET_ECONFIG);
    assert_contains(error.text, "no source \"test\"; it has train, eval");
    assert_int_equal(
        et_model_builder_build_input(&b.builder, NULL, "train", 0, 1, false, &input, &error),
        ET_EUSAGE);
    end(&b);
}

static void test_model_builder__feed_forward_arguments(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_arguments *args = parse_arguments(&et_feed_forward_arguments_class, ARGS(NULL));
    const et_feed_forward_arguments *ff = (const et_feed_forward_arguments *)args;
    assert_float_equal(ff->learning_rate, 0.01, 0);
    assert_int_equal(ff->hidden_layers.count, 0);
    et_arguments_free(args);
    args = parse_arguments(&et_feed_forward_arguments_class,
                           ARGS("--hidden-layers:1", "20", "--hidden-layers:2", "10"));
    ff = (const et_feed_forward_arguments *)args;
    assert_int_equal(ff->layers.count, 2);
    assert_string_equal(ff->layers.items[0], "20");
    assert_string_equal(ff->layers.items[1], "10");
    et_arguments_free(args);
    assert_int_equal(et_arguments_parse(&args, &et_feed_forward_arguments_class,
                                        ARGS("--hidden-layers:3", "20"), true, &error),
                     ET_EUSAGE);
    assert_contains(error.text, "--hidden-layers:1 is missing, but layer 3 is given");
    assert_int_equal(et_arguments_parse(&args, &et_feed_forward_arguments_class,
                                        ARGS("--hidden-layers:65", "20"), true, &error),
                     ET_EUSAGE);
    assert_contains(error.text, "at most 64 layers");
}

/* What classification needs of the features. */
static void test_model_builder__targets(void **state)
{
    (void)state;
    static const struct {
        const char *features, *says;
    } cases[] = {
        { "features: [{name: x}]", "the features have no target" },
        { "features: [{name: x}, {name: Y, type: target, fields: y}]",
          "target Y is numeric: classification needs labels" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_error error = ET_ERROR_INIT;
        et_graph_interface *graph;
        built b;
        begin(&b, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS(NULL));
        et_table_set *other = open_points(cases[i].features, 2);
        b.builder.dataset = other;
        assert_int_equal(et_model_builder_build_training_graph(&b.builder, NULL, &graph, &error),
                         ET_EGRAPH);
        assert_contains(error.text, cases[i].says);
        et_table_set_close(other);
        end(&b);
    }
}

/* Parts that give nothing are told by name. */
static void no_loss(et_model_builder *self, et_scope *s, const int64_t *global_steps,
                    const et_nodes *inputs, const et_nodes *inferences, et_builder_training *out)
{
    (void)self, (void)s, (void)global_steps, (void)inputs, (void)inferences, (void)out;
}

static void no_output(et_model_builder *self, et_scope *s, const et_nodes *inputs,
                      const et_nodes *inferences, et_nodes *outputs)
{
    (void)self, (void)s, (void)inputs, (void)inferences, (void)outputs;
}

static void no_logits(et_model_builder *self, et_scope *s, const et_nodes *inputs, bool training,
                      et_nodes *inferences)
{
    (void)self, (void)s, (void)inputs, (void)training, (void)inferences;
}

static void test_model_builder__empty_parts(void **state)
{
    (void)state;
    static const struct {
        et_model_builder_class kind;
        const char *says;
    } cases[] = {
        { { .name = "a", .base = &own, .build_training = no_loss }, "a: build_training gives no" },
        { { .name = "b", .base = &own, .build_output = no_output }, "b: build_output gives no" },
        { { .name = "c", .base = &et_classification_builder, .build_inference = no_logits },
          "c: build_inference gives no \"logits\"" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_error error = ET_ERROR_INIT;
        et_graph_interface *graph;
        built b;
        begin(&b, &cases[i].kind, NULL, ARGS(NULL));
        assert_int_equal(et_model_builder_build_evaluation_graph(&b.builder, NULL, &graph, &error),
                         ET_EGRAPH);
        assert_contains(error.text, cases[i].says);
        end(&b);
    }
}

static void test_model_builder__out_of_memory(void **state)
{
    (void)state;
    bool failed = true;
    built b;
    et_job_config *config;
    begin(&b, &own, NULL, ARGS(NULL));
    et_model_builder_release(&b.builder);
    assert_int_equal(et_job_config_local(&config, NULL), ET_OK);
    for (long n = 0; failed; n++) {
        et_error error = ET_ERROR_INIT;
        et_graph_interfaces graphs;
        scarce_begin(n);
        int status = et_model_builder_init(&b.builder, &own, b.args, b.dataset, &error);
        if (!status)
            status = et_model_builder_build_graph_interfaces(&b.builder, config, &graphs, &error);
        et_model_builder_release(&b.builder);
        failed = scarce_failed;
        scarce_end();
        if (status != (failed ? ET_ENOMEM : ET_OK))
            fail_msg("allocation %ld: %d, %s", n, status, error.text);
    }
    et_job_config_free(config);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_builder__arguments),
        cmocka_unit_test(test_model_builder__graphs),
        cmocka_unit_test(test_model_builder__no_evaluation),
        cmocka_unit_test(test_model_builder__graphs_run),
        cmocka_unit_test(test_model_builder__every_method_overridden),
        cmocka_unit_test(test_model_builder__one_overridden),
        cmocka_unit_test(test_model_builder__abstract),
        cmocka_unit_test(test_model_builder__dataset_of_a_graph),
        cmocka_unit_test(test_model_builder__input),
        cmocka_unit_test(test_model_builder__feed_forward_arguments),
        cmocka_unit_test(test_model_builder__targets),
        cmocka_unit_test(test_model_builder__empty_parts),
        cmocka_unit_test(test_model_builder__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
