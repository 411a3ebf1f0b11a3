/* Every function that doc/members.md names, called as a program would: on public headers alone,
 * with the shared library. What each of them does in every case is tested where it lives; here the
 * documented call is there, and does what is documented. */
#include <etude/etude.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static et_error failure = ET_ERROR_INIT;
static et_error *const error = &failure;

static void ok(int status)
{
    if (status)
        fail_msg("%d: %s", status, failure.text);
}

static double number(const et_value *dict, const char *key)
{
    double value;
    ok(et_value_read_float(dict, key, &value, error));
    return value;
}

/* ---- data: rows x with their labels ---- */

enum { ROWS = 12, BATCH = 4, CLASSES = 3 };

static float x[ROWS * 2];
static int32_t labels[ROWS];

static int open_rows(et_source **out, bool training)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    const et_batches_options options = { .repeat = training, .capacity = { BATCH } };
    et_samples *samples;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        x[2 * i] = (float)(labels[i] - 1);
        x[2 * i + 1] = (float)i / ROWS;
    }
    int status = et_arrays_open(&samples, arrays, 2, ROWS, error);
    return status ? status : et_batches_open(out, samples, &options, error);
}

/* ---- O: a trainer of the program's own, and its module ---- */

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
    et_loss(scope, "loss", et_sum(et_mul(w, w)), 1);
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

static void test_members__trainer(void **state)
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

/* ---- T and X: a task with every method that the documents have, each doing what its default does,
 * and a trainer that is driven by hand ---- */

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

static void own_losses(et_task *self, et_scope *s, const et_nodes *outputs,
                       const et_nodes *aux_losses)
{
    (void)self;
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

/* The same task with defaults alone. */
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

static int own_inference(et_task *self, const et_task_step *now, et_error *error_)
{
    et_task task = plain(self);
    batches_looked_at++;
    return et_task_inference_step(&task, now, error_);
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
    ok(et_task_trainer_distribute_dataset(t, open_shard, NULL, &other, error));
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

static void test_members__task_by_hand(void **state)
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

/* ---- X: translation, as a task and as what comes of it ---- */

static const char task_settings[] =
    "{model: {encoder: {num_layers: 1, num_attention_heads: 2, intermediate_size: 16,"
    " use_bias: false, norm_first: true, final_norm: true},"
    " decoder: {num_layers: 1, num_attention_heads: 2, intermediate_size: 16,"
    " use_bias: false, norm_first: true, final_norm: true},"
    " embedding_width: 16}, vocabulary: {size: 20},"
    " train_data: {source_path: a.en, target_path: a.de, global_batch_size: 64,"
    " max_seq_length: 32},"
    " validation_data: {source_path: a.en, target_path: a.de, global_batch_size: 64}}";

static void write_pairs(void)
{
    static const char *const words[2][4] = { { "red", "dog", "house", "runs" },
                                             { "rot", "hund", "haus", "rennt" } };
    static const char *const paths[2] = { "a.en", "a.de" };
    for (int side = 0; side < 2; side++) {
        FILE *file = fopen(paths[side], "w");
        assert_non_null(file);
        for (int i = 0; i < 40; i++)
            fprintf(file, "%s %s %s\n", words[side][i % 4], words[side][(i / 4 + i) % 4],
                    words[side][(i / 7 + 1) % 4]);
        assert_int_equal(fclose(file), 0);
    }
}

/* A run that the command makes, which is then used. */
static void test_members__translator(void **state)
{
    (void)state;
    static const char *const lines[] = { "red dog runs", "house" };
    static const et_task_kind *const kinds[] = { &et_translation_kind };
    char task[800], *arguments[16];
    char command[] = "members train --experiment translation/tiny --model-dir run --set";
    int count_ = 0;
    et_decoding_options decoding = { .results = 2 };
    et_translator_options options = { .beam_size = 2, .decoding = &decoding };
    et_translator *translator;
    et_hypotheses *found;
    snprintf(task, sizeof task,
             "{task: %s, trainer: {train_steps: 2, validation_interval: 0}, "
             "runtime: {seed: 1, mixed_precision_dtype: float32}}",
             task_settings);
    write_pairs();
    for (char *word = strtok(command, " "); word; word = strtok(NULL, " "))
        arguments[count_++] = word;
    arguments[count_++] = task;
    arguments[count_] = NULL;
    assert_int_equal(et_command_main(count_, arguments, kinds, 1), 0);
    ok(et_translator_open(&translator, "run", &options, error));
    assert_int_equal(et_translator_step(translator), 2);
    ok(et_translator_search(translator, lines, 2, &found, error));
    assert_int_equal(et_hypotheses_count(found, 0), 2);
    assert_true(et_hypotheses_at(found, 0, 0)->score >= et_hypotheses_at(found, 0, 1)->score);
    et_hypotheses_free(found);
    et_translator_close(translator);
}

typedef struct parts {
    et_task *task;
    et_nodes outputs, aux_losses;
} parts;

static void build_by_parts(et_scope *scope, void *payload)
{
    parts *p = payload;
    p->outputs = p->aux_losses = (et_nodes){ 0 };
    et_task_build_model(p->task, scope, true, &p->outputs, &p->aux_losses);
    et_task_build_losses(p->task, scope, &p->outputs, &p->aux_losses);
    et_node *again =
        et_vocabulary_loss(et_nodes_get(&p->outputs, "decoded"), et_nodes_get(&p->outputs, "table"),
                           et_batch_input(scope, "target_labels"), 0);
    et_loss(scope, "plain", again, 0);
}

/* What the documented methods give, put together by the program. */
static void update_by_hand(et_task *task, et_device *device, et_params *params, et_source *source)
{
    const et_pass_options options = { .training = true };
    et_optimizer_request request = { .device = device, .params = params };
    et_metrics *metrics;
    et_optimizer *optimizer;
    et_batch *batch;
    et_pass *pass;
    et_update update;
    parts p = { .task = task };
    ok(et_pass_open(&pass, device, params, &source->layout, build_by_parts, &p, &options, error));
    assert_int_equal(p.outputs.count, 2);
    assert_int_equal(p.aux_losses.count, 0);
    ok(et_params_materialize(params, false, error));
    ok(et_metrics_new(&metrics, error));
    ok(et_task_build_metrics(task, true, metrics, error));
    ok(et_task_create_optimizer(task, &request, &optimizer, error));
    et_init_draw(params, 7);
    ok(et_task_initialize(task, params, error));
    et_optimizer_start(optimizer);
    ok(et_batch_new(&batch, &source->layout, error));
    ok(et_source_next(source, batch, error));
    ok(et_pass_run(pass, batch, 1, 0, error));
    assert_true(et_pass_loss(pass) > 0 && et_pass_divisor(pass) > 3);
    ok(et_optimizer_update(optimizer, pass, &update, error));
    assert_true(update.gradient_norm > 0);
    et_batch_free(batch);
    et_optimizer_free(optimizer);
    et_metrics_free(metrics);
    et_pass_close(pass);
}

static void test_members__translation(void **state)
{
    (void)state;
    const et_task_kind *kind = &et_translation_kind;
    void *options = calloc(1, kind->size);
    et_arena *arena = et_arena_new();
    et_settings settings = { .table = kind->fields, .options = options, .arena = arena };
    et_task_context context = { .model_dir = "task" };
    et_source *source;
    et_task *task;
    write_pairs();
    assert_int_equal(mkdir("task", 0700), 0);
    ok(et_device_open(&context.device, error));
    ok(et_params_new(&context.params, error));
    et_fields_defaults(settings.table, options);
    ok(et_settings_override(&settings, task_settings, error));
    ok(et_settings_override(&settings, "init_checkpoint=run", error));
    ok(kind->open(&task, options, &context, error));
    assert_string_equal(et_task_loss(task), "loss");
    assert_string_equal(et_task_name(task), "translation");
    assert_string_equal(task->logging_dir, "task");
    assert_non_null(task->task_config);
    ok(et_task_build_inputs(task, true, &source, error));
    update_by_hand(task, context.device, context.params, source);
    et_source_close(source);

    /* The same weights as initialize gave. */
    ok(et_checkpoint_initialize(context.params, "run", NULL, error));
    float first = et_params_values(context.params)[0];
    et_init_draw(context.params, 7);
    assert_true(et_params_values(context.params)[0] != first);
    ok(et_task_initialize(task, context.params, error));
    assert_true(et_params_values(context.params)[0] == first);
    kind->close(task);
    et_params_free(context.params);
    et_device_close(context.device);
    et_arena_free(arena);
    free(options);
}

/* ---- L: a loop ---- */

typedef struct notes {
    int fired[16];
    char lines[4096];
} notes;

static const char *const events[] = {
    ET_EVENT_ENTER_LOOP,           ET_EVENT_EXIT_LOOP,
    ET_EVENT_BEFORE_EPOCH,         ET_EVENT_AFTER_EPOCH,
    ET_EVENT_BEFORE_STEP,          ET_EVENT_AFTER_STEP,
    ET_EVENT_METRICS_COLLECTED,    ET_EVENT_SUMMARY_ADDED,
    ET_EVENT_METRIC_STATS_PRINTED, ET_EVENT_TIME_METRIC_STATS_PRINTED,
};

static int note(void *payload, const char *event, const void *what, et_error *error_)
{
    const et_loop_event *told = what;
    (void)error_;
    assert_non_null(told->loop);
    for (size_t i = 0; i < COUNT(events); i++)
        ((notes *)payload)->fired[i] += !strcmp(events[i], event);
    return ET_OK;
}

static void print(void *payload, const char *text)
{
    char *lines = ((notes *)payload)->lines;
    size_t used = strlen(lines);
    snprintf(lines + used, 4096 - used, "%s\n", text);
}

static int save_laps(const void *self, et_value *dict, et_error *error_)
{
    (void)error_;
    return et_value_set_int(dict, "laps", *(const int64_t *)self) ? ET_OK : ET_ENOMEM;
}

static int restore_laps(void *self, const et_value *dict, et_error *error_)
{
    return et_value_read_int(dict, "laps", self, error_);
}

static const et_part_class laps_part = { "laps", save_laps, restore_laps };

/* Two epochs of three steps; the second stops at max_step. */
static void run_loop(et_loop *loop, et_source *source, const et_value *summary)
{
    const double both[] = { 1, 3 };
    const et_loop_metric metrics[] = { { .name = "both", .values = both, .count = 2 } };
    et_statistics *collector;
    while (et_loop_next_epoch(loop)) {
        assert_true(et_loop_within_epoch(loop) && !et_loop_within_step(loop));
        while (et_loop_next_step(loop, source)) {
            assert_true(et_loop_within_step(loop));
            assert_int_equal(et_loop_step_data(loop)->filled[0], BATCH);
            et_loop_collect(loop, "loss", (double)et_loop_step(loop));
        }
        et_loop_collect_metrics(loop, metrics, 1);
        et_loop_collector_begin(loop, "collected", &collector);
        et_statistics_collect(collector, 4, 1);
        et_loop_collector_end(loop, "collected");
        et_loop_time_begin(loop, "test_time");
        et_loop_time_end(loop, "test_time");
        et_loop_collect(loop, "valid_acc", 1. / (double)et_loop_epoch(loop));
        assert_true(et_loop_eta(loop) >= 0);
        et_loop_add_summary(loop, summary);
        et_loop_println(loop, "hello", true);
        et_loop_print_logs(loop);
        et_loop_make_checkpoint(loop);
    }
}

static const char *const var_groups[] = { "layer/" };

static void check_loop(et_loop *loop)
{
    const char *const *groups;
    assert_int_equal(et_loop_var_groups(loop, &groups), 1);
    assert_string_equal(groups[0], "layer/");
    assert_int_equal(et_group_count(et_loop_param_vars(loop)), 1);
    assert_string_equal(et_loop_valid_metric_name(loop), "valid_acc");
    assert_false(et_loop_valid_metric_smaller_is_better(loop));
    assert_true(et_loop_use_early_stopping(loop));
    assert_int_equal(et_loop_max_epoch(loop), 2);
    assert_int_equal(et_loop_max_step(loop), 5);
}

static void open_loop(et_loop **loop, et_params *params, notes *n, int64_t *laps)
{
    const et_loop_options options = { .var_groups = var_groups,
                                      .var_group_count = 1,
                                      .print = print,
                                      .print_payload = n,
                                      .checkpoint_dir = "loop",
                                      .summary_dir = "loop/logs",
                                      .valid_metric_name = "valid_acc",
                                      .early_stopping = true };
    ok(et_loop_open(loop, params, &options, error));
    ok(et_loop_add_object(*loop, "laps", &laps_part, laps, error));
    for (size_t i = 0; i < COUNT(events); i++)
        ok(et_event_source_on(et_loop_events(*loop), events[i], note, n, error));
    assert_int_equal(et_loop_set_max_epoch(*loop, 2), 0);
    assert_int_equal(et_loop_set_max_step(*loop, 5), 0);
    ok(et_loop_begin(*loop, error));
}

static void test_members__loop(void **state)
{
    (void)state;
    static const int fired[] = { 1, 1, 2, 2, 5, 5, 11, 2, 2, 2 };
    const et_init ones = { ET_INIT_ONES, 0 };
    et_arena *arena = et_arena_new();
    et_value *summary = et_value_dict(arena);
    notes *n = calloc(1, sizeof *n);
    int64_t laps = 3, kept = 0;
    int index;
    et_params *params;
    et_source *source;
    et_loop *loop;
    et_value_set_float(summary, "weight", 1);
    ok(et_params_new(&params, error));
    ok(et_params_declare(params, "layer/w", et_shape_1(2), ones, &index, error));
    ok(et_params_materialize(params, false, error));
    ok(open_rows(&source, true));
    open_loop(&loop, params, n, &laps);
    assert_non_null(et_loop_summary_writer(loop));
    assert_true(isnan(et_loop_best_valid_metric(loop)));
    assert_int_equal(et_loop_print_training_summary(loop), 0);
    run_loop(loop, source, summary);
    check_loop(loop);
    assert_int_equal(et_loop_epoch(loop), 2);
    assert_int_equal(et_loop_step(loop), 5);
    assert_float_equal(et_loop_progress(loop), 1, 0);
    assert_float_equal(et_loop_best_valid_metric(loop), 1, 0);
    assert_int_equal(et_loop_leave(loop), 0);
    ok(et_loop_end(loop, error));
    et_loop_close(loop);
    for (size_t i = 0; i < COUNT(events); i++)
        if (n->fired[i] != fired[i])
            fail_msg("%s was fired %d times", events[i], n->fired[i]);
    assert_non_null(strstr(n->lines, "[Epoch 1/2, Step 3/5, ETA "));
    assert_non_null(strstr(n->lines, "both: 2 (±1); collected: 4; loss: 2 (±0.816497)"));
    /* And goes on from there. */
    open_loop(&loop, params, n, &kept);
    assert_int_equal(et_loop_step(loop), 5);
    assert_int_equal(kept, 3);
    ok(et_loop_end(loop, error));
    et_loop_close(loop);
    et_source_close(source);
    et_params_free(params);
    et_arena_free(arena);
    free(n);
}

/* ---- F: a builder of a program's own over a table, from arguments to predictions ---- */

typedef struct own_arguments {
    et_arguments base;
    int64_t units, doubled;
} own_arguments;

static const et_flag own_flags[] = {
    { .field = ET_FIELD_INT(own_arguments, units, 4, 1, 64, "of the hidden layer") },
    ET_FLAG_END,
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

static et_data_set *open_table(void)
{
    static const char features[] = "features: [{name: X, type: concat, features: [{name: a}, "
                                   "{name: b}]}, {name: Y, type: target, fields: kind}]";
    enum { MANY = 120 };
    static float a[MANY], b[MANY];
    static const char *kind[MANY];
    et_feature_set *set;
    et_data_set *dataset;
    for (int i = 0; i < MANY; i++) {
        a[i] = (float)(i % 11) - 5;
        b[i] = (float)(i % 7) - 3;
        kind[i] = a[i] > 0 ? "right" : "left";
    }
    static const et_frame_column columns[] = { { "a", ET_COLUMN_FLOAT32, a },
                                               { "b", ET_COLUMN_FLOAT32, b },
                                               { "kind", ET_COLUMN_CATEGORY, kind } };
    static const et_data_set_frame frames[] = { { "train", { columns, 3, MANY } },
                                                { "eval", { columns, 3, 40 } } };
    ok(et_feature_set_parse(&set, features, strlen(features), "features", error));
    const et_data_set_options options = { .features = set };
    ok(et_frame_data_set_open(&dataset, frames, 2, &options, error));
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
    assert_non_null(et_argument_parser_flag(parser, 0));
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

static void test_members__tables(void **state)
{
    (void)state;
    static const char *const line[] = { "--units",     "4",     "--max-steps", "300",
                                        "--log-level", "ERROR", NULL };
    static const char *const rows[] = { "4,1", "-4,1" };
    const et_training_job job = { .output = "table" };
    et_data_set *dataset = open_table();
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
    et_data_set_close(dataset);
}

/* ---- a directory for all of them ---- */

static char home[4096];

static int set_up(void **state)
{
    char directory[] = "members.XXXXXX";
    (void)state;
    return !getcwd(home, sizeof home) || !mkdtemp(directory) || chdir(directory);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static int tear_down(void **state)
{
    char here[4096];
    (void)state;
    return !getcwd(here, sizeof here) || chdir(home) ||
           nftw(here, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members__trainer),    cmocka_unit_test(test_members__task_by_hand),
        cmocka_unit_test(test_members__translator), cmocka_unit_test(test_members__translation),
        cmocka_unit_test(test_members__loop),       cmocka_unit_test(test_members__tables),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
