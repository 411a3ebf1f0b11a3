/* Model Garden, official/nlp/tasks/translation_test.py. */
#include "references/translation/translation_fixture.h"

static void build_training(et_scope *scope, void *payload)
{
    et_nodes outputs = { 0 }, aux_losses = { 0 };
    et_task_build_model(payload, scope, et_scope_training(scope), &outputs, &aux_losses);
    et_task_build_losses(payload, scope, NULL, &outputs, &aux_losses);
}

/* The pass and the drawn weights of an opened task. */
static et_pass *open_pass(opened *o, const et_source *source, bool training)
{
    const et_pass_options options = { .training = training };
    et_pass *pass;
    ok(et_pass_open(&pass, o->context.device, o->context.params, &source->layout, build_training,
                    o->task, &options, &error));
    ok(et_params_materialize(o->context.params, false, &error));
    et_init_draw(o->context.params, 1);
    return pass;
}

static double number(const et_value *dict, const char *key)
{
    double value;
    ok(et_value_read_float(dict, key, &value, &error));
    return value;
}

static void test_translation_test__task(void **state)
{
    (void)state;
    const et_optimizer_setup setup = { .rule = "sgd", .learning_rate = 0.1 };
    opened o;
    et_optimizer *optimizer;
    et_source *source;
    et_batch *batch;
    ok(open_task(&o, "task",
                 "{task: {model: {" ONE_LAYER "}, sentencepiece_model_path: v11/vocabulary.model, "
                 "train_data: {" RECORDS
                 ", static_batch: true, global_batch_size: 24, max_seq_length: 12}}, "
                 "runtime: {mixed_precision_dtype: float32}}"));
    ok(et_task_build_inputs(o.task, &(et_data_config){ .training = true }, NULL, &source, &error));
    et_pass *pass = open_pass(&o, source, true);
    const et_optimizer_request request = { .device = o.context.device,
                                           .params = o.context.params,
                                           .setup = &setup };
    ok(et_task_create_optimizer(o.task, &request, &optimizer, &error));
    et_optimizer_start(optimizer);
    ok(et_batch_new(&batch, &source->layout, &error));
    ok(et_source_next(source, batch, &error));
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    et_task_step now = { .inputs = batch, .model = pass, .optimizer = optimizer };
    ok(et_task_train_step(o.task, &now, logs, &error));
    assert_true(number(logs, et_task_loss(o.task)) > 0);
    et_arena_free(arena);
    et_batch_free(batch);
    et_optimizer_free(optimizer);
    et_pass_close(pass);
    et_source_close(source);
    close_task(&o);
}

/* 4 tokens, the case's limit, would leave out all pairs before a difference shows. */
/* Differs: a task without a SentencePiece model trains one on its training data. */
static void test_translation_test__no_sentencepiece_path(void **state)
{
    (void)state;
    opened o;
    ok(open_task(&o, "no_path",
                 "{task: {model: {" ONE_LAYER "}, vocabulary: {size: 11}, train_data: {" RECORDS
                 ", static_batch: true, global_batch_size: 24, max_seq_length: 12}}}"));
    assert_int_equal(access("no_path/vocabulary.model", R_OK), 0);
    close_task(&o);
}

/* The model that eos_id=-1 gives: token 1 is a normal one with another text, and the file ends with
 * a TrainerSpec (field 2) of eos_id (field 42) -1, which protobuf merges into the first. Source:
 * sentencepiece_model.proto. */
static void write_model_without_end(const char *path)
{
    static const unsigned char no_end[] = { 0x12, 12,   0xd0, 0x02, 0xff, 0xff, 0xff,
                                            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 };
    static unsigned char bytes[1 << 20];
    FILE *file = fopen("v20/vocabulary.model", "rb");
    assert_non_null(file);
    const size_t length = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    size_t at = 0;
    while (at + 11 < length && memcmp(bytes + at, "</s>", 4) != 0)
        at++;
    assert_true(at + 11 < length);
    assert_int_equal(bytes[at + 9], 0x18); /* behind the score: type, CONTROL */
    assert_int_equal(bytes[at + 10], 3);
    bytes[at + 10] = 1; /* NORMAL */
    memcpy(bytes + at, "zzzz", 4);
    file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fwrite(no_end, 1, sizeof no_end, file), sizeof no_end);
    assert_int_equal(fclose(file), 0);
}

static void test_translation_test__sentencepiece_no_eos(void **state)
{
    (void)state;
    opened o;
    write_model_without_end("no_eos.model");
    assert_int_equal(open_task(&o, "no_eos",
                               "{task: {model: {" ONE_LAYER
                               "}, sentencepiece_model_path: no_eos.model, "
                               "train_data: {" RECORDS
                               ", static_batch: true, global_batch_size: 4, max_seq_length: 4}}}"),
                     ET_EFORMAT);
    assert_non_null(strstr(error.text, "EOS token not in tokenizer vocab"));
    assert_non_null(strstr(error.text, "no_eos.model"));
    assert_non_null(strstr(error.text, "none of its 20 tokens is \"</s>\""));
    close_task(&o);
}

static void test_translation_test__evaluation(void **state)
{
    (void)state;
    opened o;
    et_source *source;
    et_batch *batch;
    ok(open_task(&o, "evaluation",
                 "{task: {model: {" ONE_LAYER ", padded_decode: false, decode_max_length: 64}, "
                 "sentencepiece_model_path: v11/vocabulary.model, train_data: {" RECORDS "}, "
                 "validation_data: {" RECORDS ", static_batch: true, global_batch_size: 4}}, "
                 "runtime: {mixed_precision_dtype: float32}}"));
    ok(et_task_build_inputs(o.task, NULL, NULL, &source, &error));
    et_pass *pass = open_pass(&o, source, false);
    et_arena *arena = et_arena_new();
    et_value *aggregated = et_value_dict(arena), *metrics = et_value_dict(arena);
    ok(et_batch_new(&batch, &source->layout, &error));
    et_task_step now = { .inputs = batch, .model = pass };
    while (!et_source_next(source, batch, &error) && batch->filled[0]) {
        et_value *logs = et_value_dict(arena);
        ok(et_task_validation_step(o.task, &now, logs, &error));
        ok(et_task_aggregate_logs(o.task, aggregated, logs, &error));
    }
    ok(et_task_reduce_aggregated_logs(o.task, aggregated, 0, metrics, &error));
    assert_true(number(metrics, "sacrebleu_score") >= 0);
    assert_true(number(metrics, "bleu_score") >= 0);
    et_arena_free(arena);
    et_batch_free(batch);
    et_pass_close(pass);
    et_source_close(source);
    close_task(&o);
}

static int set_up(void **state)
{
    const int status = enter_folder(state);
    if (!status) {
        train_vocabulary("v11", 11);
        train_vocabulary("v20", 20);
    }
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translation_test__task),
        cmocka_unit_test(test_translation_test__no_sentencepiece_path),
        cmocka_unit_test(test_translation_test__sentencepiece_no_eos),
        cmocka_unit_test(test_translation_test__evaluation),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
