/* X: translation, as a task, and its results. */
#include "members.h"

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
void test_members__translator(void **state)
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
    et_task_build_losses(p->task, scope, NULL, &p->outputs, &p->aux_losses);
    et_node *again =
        et_vocabulary_loss(et_nodes_get(&p->outputs, "decoded"), et_nodes_get(&p->outputs, "table"),
                           et_batch_input(scope, "target_labels"), 0);
    et_loss(scope, "plain", again, 0);
}

/* An update from the documented methods, assembled by the program. */
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

static void build_whole(et_scope *scope, void *payload)
{
    et_nodes outputs = { 0 }, aux_losses = { 0 };
    et_task_build_model(payload, scope, false, &outputs, &aux_losses);
    et_task_build_losses(payload, scope, NULL, &outputs, &aux_losses);
}

/* A validation, step by step: its state has the scored values. */
static void validate_by_hand(et_task *task, et_device *device, et_params *params)
{
    const et_pass_options options = { .training = false };
    et_arena *arena = et_arena_new();
    et_value *gathered = et_value_dict(arena), *results = et_value_dict(arena);
    et_metrics *compiled;
    et_source *source;
    et_batch *batch;
    et_pass *pass;
    ok(et_task_build_inputs(task, NULL, NULL, &source, error));
    ok(et_pass_open(&pass, device, params, &source->layout, build_whole, task, &options, error));
    ok(et_batch_new(&batch, &source->layout, error));
    ok(et_metrics_new(&compiled, error));
    ok(et_metrics_define(compiled, "nll", &et_metric_ratio, error));
    et_task_step now = { .inputs = batch, .model = pass, .compiled_metrics = compiled };
    while (!et_source_next(source, batch, error) && batch->filled[0]) {
        et_value *logs = et_value_dict(arena);
        ok(et_task_validation_step(task, &now, logs, error));
        ok(et_task_aggregate_logs(task, gathered, logs, error));
    }
    ok(et_task_reduce_aggregated_logs(task, gathered, 1, results, error));
    assert_int_equal(et_value_get(gathered, "unique_ids")->count, 40);
    assert_true(number(results, "sacrebleu_score") >= 0);
    assert_true(et_metrics_value(compiled, "nll") > 0);
    et_metrics_free(compiled);
    et_batch_free(batch);
    et_source_close(source);
    et_pass_close(pass);
    et_arena_free(arena);
}

void test_members__translation(void **state)
{
    (void)state;
    char settings[900];
    et_task_context context = { .model_dir = "task" };
    et_source *source;
    et_task *task;
    snprintf(settings, sizeof settings,
             "{task: %.*s, init_checkpoint: run}, runtime: {mixed_precision_dtype: float32}}",
             (int)sizeof task_settings - 2, task_settings);
    write_pairs();
    ok(et_device_open(&context.device, error));
    ok(et_params_new(&context.params, error));
    ok(et_task_open(&task, &et_translation_kind, "translation/tiny", settings, &context, error));
    assert_false(et_task_trainer_config(task)->bfloat16);
    assert_string_equal(et_task_loss(task), "loss");
    assert_string_equal(et_task_name(task), "translation");
    assert_string_equal(task->logging_dir, "task");
    assert_non_null(task->task_config);
    ok(et_task_build_inputs(task, &(et_data_config){ .training = true }, NULL, &source, error));
    update_by_hand(task, context.device, context.params, source);
    et_source_close(source);

    /* The same weights as initialize gave. */
    ok(et_checkpoint_initialize(context.params, "run", NULL, error));
    float first = et_params_values(context.params)[0];
    et_init_draw(context.params, 7);
    assert_true(et_params_values(context.params)[0] != first);
    ok(et_task_initialize(task, context.params, error));
    assert_true(et_params_values(context.params)[0] == first);
    validate_by_hand(task, context.device, context.params);
    et_task_close(task);
    et_params_free(context.params);
    et_device_close(context.device);
}
