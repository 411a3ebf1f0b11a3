/* O: a program's own trainer, and its module. T and X: a task with every documented method, each
 * doing what its default does, and a trainer that is driven by hand. */
#include "members.h"

typedef struct counter {
    et_trainer trainer;
    const et_module *module;
} counter;

static int count(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error_)
{
    (void)error_;
    self->step += num_steps;
    et_value_set_int(et_value_set_dict(logs, "nested"), "steps", num_steps);
    return ET_OK;
}

static void declare(et_scope *scope, void *payload)
{
    const counter *c = payload;
    const et_init ones = { ET_INIT_ONES, 0 };
    et_node *w = et_param(scope, "w", et_shape_1(2), ones);
    et_variable(et_module_name_scope(c->module, scope), "mean", et_shape_1(2), ones); /* the same */
    et_node *squares = et_mul(w, w);
    assert_non_null(strstr(et_node_name(squares), et_module_scope_name(c->module)));
    et_scope *entered = et_scope_enter(scope);
    assert_ptr_equal(et_scope_enter(entered), scope);
    et_loss(scope, "loss", et_sum(squares), 1);
}

static void build_in_module(et_scope *scope, void *payload)
{
    et_module_with_name_scope(((counter *)payload)->module, scope, declare, payload);
}

static void assert_names(const et_module_variable *variables, size_t count_, const char *expected)
{
    char text[200] = "";
    for (size_t i = 0; i < count_; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
                 et_params_name(variables[i].params, variables[i].index));
    assert_string_equal(text, expected);
}

void test_members__trainer(void **state)
{
    (void)state;
    static const et_trainer_class class = { .name = "Counter", .train = count };
    et_module *outer, *module, *const *found;
    const et_module_variable *variables;
    const et_pass_options options = { .training = true };
    et_device *device;
    et_params *params;
    et_source *source;
    et_pass *pass;
    size_t many;
    ok(et_module_new(&outer, "MyTrainer", NULL, NULL, error));
    ok(et_module_new(&module, "MyModule", "inner", outer, error));
    counter c = { .trainer = { .class = &class, .module = outer }, .module = module };
    assert_string_equal(et_module_name(c.trainer.module), "my_trainer");
    ok(et_device_open(&device, error));
    ok(et_params_new(&params, error));
    ok(open_rows(&source, true));
    ok(et_pass_open(&pass, device, params, &source->layout, build_in_module, &c, &options, error));
    ok(et_module_add_module(outer, "inner", module, error));
    ok(et_module_add_params(module, "all", params, "my_trainer/inner/", error));
    ok(et_module_add_param(outer, "one", params, 0, error));
    ok(et_module_submodules(outer, &found, &many, error));
    assert_int_equal(many, 1);
    assert_ptr_equal(found[0], module);
    ok(et_module_variables(outer, &variables, &many, error));
    assert_names(variables, many, "my_trainer/inner/w my_trainer/inner/mean ");
    ok(et_module_trainable_variables(outer, &variables, &many, error));
    assert_names(variables, many, "my_trainer/inner/w ");
    ok(et_module_non_trainable_variables(outer, &variables, &many, error));
    assert_names(variables, many, "my_trainer/inner/mean ");

    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    ok(et_trainer_train(&c.trainer, 7, logs, error));
    assert_int_equal(c.trainer.step, 7);
    assert_float_equal(number(et_value_get(logs, "nested"), "steps"), 7, 0);
    assert_int_equal(et_trainer_train(&c.trainer, -1, logs, error), ET_ECONFIG);
    et_arena_free(arena);
    et_pass_close(pass);
    et_source_close(source);
    et_params_free(params);
    et_device_close(device);
    et_module_free(module);
    et_module_free(outer);
}

/* ---- a task ---- */

static int steps, batches_looked_at, processed, compiled;

static int own_data(et_task *self, bool training, et_source **out, et_error *error_)
{
    (void)self, (void)error_;
    return open_rows(out, training);
}

static void own_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                      et_nodes *aux_losses)
{
    (void)self, (void)training;
    et_node *logits = et_dense(et_in(s, "logits"), et_batch_input(s, "x"), CLASSES);
    et_node *weight = et_param(s, "weight", et_shape_scalar(), (et_init){ ET_INIT_ONES, 0 });
    et_output(s, "outputs", logits);
    et_nodes_put(outputs, "logits", logits);
    et_nodes_put(aux_losses, "penalty", et_mul(weight, weight));
}

static void own_losses(et_task *self, et_scope *s, const et_nodes *own, const et_nodes *outputs,
                       const et_nodes *aux_losses)
{
    (void)self, (void)own;
    et_loss(s, "loss",
            et_softmax_loss(et_nodes_get(outputs, "logits"), et_batch_input(s, "labels"), 0), 1);
    et_loss(s, "penalty", et_nodes_get(aux_losses, "penalty"), 1);
}

static int own_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error_)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "hits", &et_metric_accuracy, error_);
}

static int own_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                         et_error *error_)
{
    (void)self;
    return et_optimizer_open(out, request->device, request->params, NULL, request->setup, error_);
}

/* The same task with only the defaults. */
static et_task plain(const et_task *self)
{
    static const et_task_class class = { .name = "plain" };
    et_task task = *self;
    task.class = &class;
    return task;
}

static int own_train_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error_)
{
    et_task task = plain(self);
    steps++;
    return et_task_train_step(&task, now, logs, error_);
}

static int own_inference(et_task *self, const et_task_step *now, et_value *outputs,
                         et_error *error_)
{
    et_task task = plain(self);
    batches_looked_at++;
    return et_task_inference_step(&task, now, outputs, error_);
}

static int own_process(et_task *self, const et_task_step *now, et_error *error_)
{
    et_task task = plain(self);
    processed++;
    return et_task_process_metrics(&task, now, error_);
}

static int own_compiled(et_task *self, const et_task_step *now, et_error *error_)
{
    et_task task = plain(self);
    compiled++;
    return et_task_process_compiled_metrics(&task, now, error_);
}

static const et_task_class own_class;

/* The default, with the methods above. */
static int own_validation_step(et_task *self, const et_task_step *now, et_value *logs,
                               et_error *error_)
{
    et_task_class class = own_class;
    et_task task = *self;
    class.validation_step = NULL;
    task.class = &class;
    int status = et_task_validation_step(&task, now, logs, error_);
    double loss = number(logs, "loss");
    assert_int_equal(et_pass_output(now->model, "outputs").shape.size[1], CLASSES);
    assert_string_equal(et_pass_measured(now->model, 0).name, "loss");
    et_value_set_float(logs, "rows", (double)now->inputs->filled[0]);
    et_value *each = et_value_set_list(logs, "labels"); /* a value of each sample */
    for (int64_t i = 0; i < now->inputs->filled[0]; i++)
        et_value_add_int(each, ((const int32_t *)now->inputs->data[1])[i]);
    assert_true(loss == et_pass_loss(now->model) / et_pass_divisor(now->model));
    return status;
}

static int own_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                         et_error *error_)
{
    double before = 0;
    (void)self, (void)error_;
    if (et_value_get(state, "rows"))
        before = number(state, "rows");
    et_value_set_float(state, "rows", before + number(step_outputs, "rows"));
    et_value *all = et_value_get(state, "labels"), *each = et_value_get(step_outputs, "labels");
    all = all ? all : et_value_set_list(state, "labels");
    for (const et_value *one = each ? each->first : NULL; one; one = one->next)
        et_value_add_int(all, one->integer);
    return ET_OK;
}

static int own_reduce(et_task *self, const et_value *aggregated_logs, int64_t global_step,
                      et_value *results, et_error *error_)
{
    (void)self, (void)error_;
    et_value_set_float(results, "rows", number(aggregated_logs, "rows"));
    et_value_set_int(results, "at", global_step);
    et_value_set_int(results, "seen", (int64_t)et_value_get(aggregated_logs, "labels")->count);
    return ET_OK;
}

static const et_task_class own_class = {
    .name = "own",
    .data = own_data,
    .build_model = own_model,
    .build_losses = own_losses,
    .build_metrics = own_metrics,
    .create_optimizer = own_optimizer,
    .process_metrics = own_process,
    .process_compiled_metrics = own_compiled,
    .inference_step = own_inference,
    .train_step = own_train_step,
    .validation_step = own_validation_step,
    .aggregate_logs = own_aggregate,
    .reduce_aggregated_logs = own_reduce,
};

static int open_shard(void *payload, const et_input_context *context, et_source **out,
                      et_error *error_)
{
    (void)payload, (void)error_;
    assert_int_equal(context->input_pipelines, 1);
    return open_rows(out, true);
}

static void train_by_hand(et_task_trainer *t, et_value *logs)
{
    et_trainer *trainer = et_task_trainer_trainer(t);
    et_coordinator *coordinator;
    et_batch *inputs;
    et_source *other;
    ok(et_task_trainer_use_server(t, NULL, NULL, error));
    ok(et_task_trainer_init_async(t, error));
    assert_int_equal(et_task_trainer_coordinator_for_async(t, &coordinator, error), ET_EUSAGE);
    ok(et_task_trainer_initialize(t, error));
    ok(et_task_trainer_train_loop_begin(t, error));
    ok(et_task_trainer_next_train_inputs(t, NULL, &inputs, error));
    assert_int_equal(inputs->filled[0], BATCH);
    ok(et_task_trainer_train_step(t, NULL, error));
    et_source *opened;
    ok(et_task_trainer_distribute_dataset(t, open_shard, NULL, &opened, error));
    ok(et_task_trainer_distribute_source(t, opened, &other, error));
    assert_ptr_equal(other, opened);
    ok(et_task_trainer_create_train_loop_fn(t)(t, other, 3, error));
    ok(et_task_trainer_train_loop_end(t, logs, error));
    assert_int_equal(trainer->step, 4);
    assert_int_equal(steps, 4);
    double before = number(logs, "training_loss");
    ok(et_task_trainer_train(t, 40, logs, error));
    ok(et_task_trainer_join(t, error));
    assert_int_equal(trainer->step, 44);
    assert_true(number(logs, "training_loss") < before);
    assert_float_equal(number(logs, "learning_rate"), 0.1, 1e-7);
    et_source_close(other);
}

static void evaluate_by_hand(et_task_trainer *t, et_value *logs)
{
    et_arena *arena = et_arena_new();
    et_value *kept = et_value_dict(arena), *parts = et_value_dict(arena);
    et_batch *inputs;
    bool more = true;
    batches_looked_at = processed = compiled = 0;
    ok(et_task_trainer_evaluate(t, -1, logs, error));
    assert_int_equal(batches_looked_at, ROWS / BATCH);
    assert_int_equal(processed, ROWS / BATCH);
    assert_int_equal(compiled, ROWS / BATCH);
    assert_float_equal(number(logs, "rows"), ROWS, 0);
    assert_float_equal(number(logs, "at"), 44, 0);
    assert_float_equal(number(logs, "seen"), ROWS, 0);
    assert_true(number(logs, "hits") > 0.9);
    ok(et_task_trainer_eval_begin(t, error));
    ok(et_task_trainer_next_eval_inputs(t, NULL, &inputs, NULL, error));
    assert_int_equal(inputs->filled[0], BATCH);
    for (;;) {
        et_value *outputs = et_value_dict(arena);
        ok(et_task_trainer_eval_step(t, NULL, outputs, &more, error));
        if (!more)
            break;
        ok(et_task_trainer_eval_reduce(t, kept, outputs, error));
    }
    ok(et_task_trainer_eval_end(t, kept, parts, error));
    assert_float_equal(number(parts, "rows"), ROWS, 0);
    assert_true(number(parts, "validation_loss") == number(logs, "validation_loss"));
    ok(et_task_trainer_eval_begin(t, error));
    ok(et_task_trainer_create_eval_loop_fn(t, true)(t, NULL, 2, error));
    ok(et_task_trainer_eval_end(t, NULL, parts, error));
    assert_float_equal(number(parts, "rows"), 2 * BATCH, 0);
    et_arena_free(arena);
}

void test_members__task_by_hand(void **state)
{
    (void)state;
    const et_optimizer_setup setup = { .rule = "adam", .learning_rate = 0.1 };
    const et_task_trainer_options options = { .optimizer = &setup, .seed = 3 };
    et_task task = { .class = &own_class };
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    et_device *device;
    et_params *params;
    et_task_trainer *t;
    ok(et_device_open(&device, error));
    ok(et_params_new(&params, error));
    ok(et_task_trainer_open(&t, &task, device, params, &options, error));
    train_by_hand(t, logs);
    evaluate_by_hand(t, logs);
    /* Outside of a step: what aggregates and reduces. */
    et_value *results = et_value_dict(arena), *sum = et_value_dict(arena);
    ok(et_task_aggregate_logs(&task, sum, logs, error));
    ok(et_task_aggregate_logs(&task, sum, logs, error));
    ok(et_task_reduce_aggregated_logs(&task, sum, 5, results, error));
    assert_float_equal(number(results, "rows"), 2 * ROWS, 0);
    assert_float_equal(number(results, "at"), 5, 0);
    et_task_trainer_close(t);
    et_params_free(params);
    et_device_close(device);
    et_arena_free(arena);
}
