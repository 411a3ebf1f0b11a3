/* F: a program's own builder over a table, from arguments to predictions. */
#include "members.h"

typedef struct own_arguments {
    et_arguments base;
    int64_t units, doubled;
} own_arguments;

static const et_option own_flags[] = {
    { .field = ET_FIELD_INT(own_arguments, units, 4, 1, 64, "of the hidden layer") },
    ET_OPTION_END,
};

static int double_units(et_arguments *self, et_error *error_)
{
    (void)error_;
    ((own_arguments *)self)->doubled = 2 * ((own_arguments *)self)->units;
    return ET_OK;
}

static const et_arguments_class own_arguments_class = {
    .name = "own", .size = sizeof(own_arguments), .flags = own_flags, .process = double_units
};

static void infer(et_model_builder *self, et_scope *s, const et_nodes *inputs, bool training,
                  et_nodes *inferences)
{
    const own_arguments *args = (const own_arguments *)et_model_builder_args(self);
    et_node *h = et_tanh(et_dense(et_in(s, "h"), et_nodes_get(inputs, "X"), args->doubled));
    (void)training;
    et_nodes_put(inferences, "logits",
                 et_dense(et_in(s, "logits"), h, et_model_builder_labels(self)));
}

static const et_model_builder_class own_builder = { .name = "own",
                                                    .base = &et_classification_builder,
                                                    .arguments = &own_arguments_class,
                                                    .build_inference = infer };

static et_table_set *open_table(void)
{
    static const char features[] = "features: [{name: X, type: concat, features: [{name: a}, "
                                   "{name: b}]}, {name: Y, type: target, fields: kind}]";
    enum { MANY = 120 };
    static float a[MANY], b[MANY];
    static const char *kind[MANY];
    et_feature_set *set;
    et_table_set *dataset;
    for (int i = 0; i < MANY; i++) {
        a[i] = (float)(i % 11) - 5;
        b[i] = (float)(i % 7) - 3;
        kind[i] = a[i] > 0 ? "right" : "left";
    }
    static const et_frame_column columns[] = { { "a", ET_COLUMN_FLOAT32, a },
                                               { "b", ET_COLUMN_FLOAT32, b },
                                               { "kind", ET_COLUMN_CATEGORY, kind } };
    static const et_table_set_frame frames[] = { { "train", { columns, 3, MANY } },
                                                 { "eval", { columns, 3, 40 } } };
    ok(et_feature_set_parse(&set, features, strlen(features), "features", error));
    const et_table_set_options options = { .features = set };
    ok(et_frame_table_set_open(&dataset, frames, 2, &options, error));
    et_feature_set_free(set);
    return dataset;
}

static void check_arguments(void)
{
    et_arena *arena = et_arena_new();
    et_value *kwargs = et_value_dict(arena);
    et_argument_parser *parser;
    et_arguments *args;
    et_value_set_int(kwargs, "units", 3);
    ok(et_arguments_create(&args, &own_arguments_class, kwargs, error));
    ok(et_arguments_process(args, error));
    assert_int_equal(((own_arguments *)args)->doubled, 6);
    et_arguments_free(args);
    ok(et_arguments_default(&args, &et_model_arguments, error));
    assert_int_equal(args->batch_size, 128);
    et_arguments_free(args);
    ok(et_arguments_build_parser(&parser, &own_arguments_class, error));
    char *help;
    ok(et_argument_parser_help(parser, &help, error));
    assert_non_null(strstr(help, "--output"));
    et_arguments_free_text(help);
    et_argument_parser_free(parser);
    ok(et_argument_parser_new(&parser, "mine", error));
    ok(et_arguments_init_parser(NULL, parser, error));
    et_argument_parser_free(parser);
    static const char *const line[] = { "--output", "job", NULL };
    assert_int_equal(et_arguments_parse(&args, NULL, line, false, error), ET_EUSAGE);
    ok(et_arguments_parse(&args, NULL, line, true, error));
    assert_string_equal(args->output, "job");
    et_arguments_free(args);
    et_arena_free(arena);
}

static void check_configurations(void)
{
    static const char text[] = "{\"task\": {\"type\": \"worker\", \"index\": 0}, \"cluster\": "
                               "{\"master\": [\"m:1\"], \"ps\": [\"p:1\", \"q:1\"], "
                               "\"worker\": [\"w:1\"]}, \"job\": {\"name\": \"j\"}}";
    et_arena *arena = et_arena_new();
    et_value *task = et_value_dict(arena), *env = et_value_dict(arena);
    et_job_config *config;
    et_device_setter *setter;
    et_job_server *server;
    setenv("TF_CONFIG", text, 1);
    ok(et_job_config_environment(&config, error));
    unsetenv("TF_CONFIG");
    assert_true(et_job_config_distributed(config) && et_job_config_worker(config));
    assert_false(et_job_config_master(config) || et_job_config_param_server(config));
    assert_int_equal(et_job_config_cluster(config)->addresses[ET_JOB_PARAM_SERVER].count, 2);
    assert_int_equal(et_job_config_task(config)->index, 0);
    assert_string_equal(et_value_get(et_job_config_job(config), "name")->string, "j");
    assert_string_equal(et_job_config_device(config), "/job:worker/task:0");
    ok(et_job_config_create_device_setter(&setter, config, NULL, error));
    assert_string_equal(et_device_setter_variable(setter, "w"), "/job:ps/task:0");
    assert_string_equal(et_device_setter_variable(setter, "b"), "/job:ps/task:1");
    assert_string_equal(et_device_setter_op(setter), "/job:worker/task:0");
    et_device_setter_free(setter);
    assert_int_equal(et_job_config_create_server(&server, config, error), ET_EUSAGE);
    et_job_config_free(config);
    et_value_set_string(task, "type", "master");
    et_value_set_string(env, "zone", "a");
    ok(et_job_config_new(&config, task, NULL, NULL, env, error));
    assert_string_equal(et_value_get(et_job_config_env(config), "zone")->string, "a");
    ok(et_job_config_create_server(&server, config, error));
    assert_null(server);
    et_job_config_free(config);
    et_arena_free(arena);
}

/* The parts, called one by one where a pass is built. */
static void build_part_by_part(et_scope *s, void *payload)
{
    static const int64_t done = 0;
    et_model_builder *builder = payload;
    et_nodes inputs = { 0 }, inferences = { 0 }, outputs = { 0 };
    et_builder_training training = { .loss = NULL };
    et_builder_evaluation evaluation = { .metric = NULL };
    et_nodes_put(&inputs, "X", et_batch_input(s, "X"));
    et_nodes_put(&inputs, "Y", et_batch_input(s, "Y"));
    et_model_builder_build_inference(builder, s, &inputs, true, &inferences);
    et_model_builder_build_training(builder, s, &done, &inputs, &inferences, &training);
    et_loss(s, "loss", training.loss, 1);
    et_model_builder_build_output(builder, s, &inputs, &inferences, &outputs);
    assert_string_equal(outputs.name[0], "scores");
    et_model_builder_build_evaluation(builder, s, &inputs, &outputs, &evaluation);
    et_measure(s, evaluation.metric, evaluation.total, evaluation.weight);
}

static void check_builder(et_model_builder *builder)
{
    et_job_config *config;
    et_graph_interfaces graphs;
    et_graph_interface *graph;
    et_builder_input input;
    et_builder_init init;
    et_device *device;
    et_params *params;
    et_batch *batch;
    et_pass *pass;
    ok(et_job_config_local(&config, error));
    ok(et_model_builder_build_graph_interfaces(builder, config, &graphs, error));
    assert_true(graphs.training->graph && graphs.evaluation->graph && graphs.prediction->graph);
    et_graph_interface_close(graphs.training);
    et_graph_interface_close(graphs.evaluation);
    et_graph_interface_close(graphs.prediction);
    et_job_config_free(config);
    ok(et_model_builder_build_training_graph(builder, NULL, &graph, error));
    assert_int_equal(*graph->global_steps, 0);
    et_graph_interface_close(graph);
    ok(et_model_builder_build_evaluation_graph(builder, NULL, &graph, error));
    assert_string_equal(graph->metric, "accuracy");
    et_graph_interface_close(graph);
    ok(et_model_builder_build_prediction_graph(builder, NULL, &graph, error));
    assert_string_equal(graph->output[0], "scores");
    et_graph_interface_close(graph);
    et_model_builder_build_init(builder, &init);
    assert_null(init.init);

    ok(et_model_builder_build_input(builder, NULL, "train", 8, 1, true, &input, error));
    ok(et_device_open(&device, error));
    ok(et_params_new(&params, error));
    ok(et_pass_open(&pass, device, params, input.layout, build_part_by_part, builder, NULL, error));
    ok(et_params_materialize(params, false, error));
    ok(et_batch_new(&batch, input.layout, error));
    ok(et_source_next(input.source, batch, error));
    ok(et_pass_run(pass, batch, 1, 0, error));
    assert_string_equal(et_pass_measured(pass, 1).name, "accuracy");
    et_pass_close(pass);
    et_batch_free(batch);
    et_source_close(input.source);
    et_params_free(params);
    et_device_close(device);
}

void test_members__tables(void **state)
{
    (void)state;
    static const char *const line[] = { "--units",     "4",     "--max-steps", "300",
                                        "--log-level", "ERROR", NULL };
    static const char *const rows[] = { "4,1", "-4,1" };
    const et_training_job job = { .output = "table" };
    et_table_set *dataset = open_table();
    et_model_builder builder;
    et_model_trainer *trainer;
    et_predictions *found;
    et_predictor *model;
    et_arguments *args;
    check_arguments();
    check_configurations();
    ok(et_arguments_parse(&args, &own_arguments_class, line, true, error));
    ok(et_model_builder_init(&builder, &own_builder, args, dataset, error));
    assert_ptr_equal(et_model_builder_args(&builder), args);
    assert_ptr_equal(et_model_builder_dataset(&builder), dataset);
    assert_string_equal(et_model_builder_base.name, "model");
    check_builder(&builder);
    ok(et_model_trainer_new(&trainer, NULL, error));
    assert_true(et_job_config_master(et_model_trainer_config(trainer)));
    ok(et_model_trainer_train(trainer, &builder, &job, &model, error));
    ok(et_predictor_predict(model, rows, 2, &found, error));
    assert_string_equal(et_predictions_at(found, 0).label, "right");
    assert_string_equal(et_predictions_at(found, 1).label, "left");
    et_predictions_free(found);
    et_predictor_close(model);
    et_model_trainer_free(trainer);
    et_model_builder_release(&builder);
    et_arguments_free(args);
    et_table_set_close(dataset);
}
