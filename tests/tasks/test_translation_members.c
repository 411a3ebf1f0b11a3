/* The task's methods, each called by a program itself: a whole validation assembled by hand gives
 * the scores of `etude evaluate`; labels, outputs, data and states may be any that the program
 * gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/checkpoint.h>
#include <etude/ops.h>
#include <etude/task_trainer.h>

#include "base/arena.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/bad_case.h"
#include "data/text/pairs.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/settings/translation_kind.h"
#include "train/task/task_private.h"

enum { PAIRS = 60 };

#define TRAINING                                                                                   \
    "train --config tiny.yaml --model-dir run --set trainer.train_steps=400 "                      \
    "--set trainer.validation_interval=400 --set task.model.embedding_width=32 "                   \
    "--set task.train_data.global_batch_size=256 "                                                 \
    "--set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=100 "                  \
    "--set task.validation_data.source_path=a.en,task.validation_data.target_path=a.de "           \
    "--set task.validation_data.max_seq_length=11 "

typedef struct fixture {
    et_arena arena;
    et_experiment experiment;
    et_params *params;
    et_device *device;
    et_task *task;
    et_source *source;
    et_pass *pass;
    et_batch *batch;
} fixture;

static et_error error = ET_ERROR_INIT;

static void ok(int status)
{
    if (status)
        fail_msg("%s", error.text);
}

static void fails(int status, int code, const char *words)
{
    assert_int_equal(status, code);
    bad_assert_says("the error", error.text, words);
}

static bad_end succeed(const char *line)
{
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s: %s%s", line, end.out, end.err);
    return end;
}

static double number_in(const char *text, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text, key);
    if (!at)
        fail_msg("no %s in: %s", name, text);
    return strtod(at + strlen(key), NULL);
}

static int set_up(void **state)
{
    int status = bad_set_up(state);
    bad_end end = status ? (bad_end){ 0 } : succeed(TRAINING);
    bad_release(&end);
    return status;
}

static void build(et_scope *scope, void *payload)
{
    et_task_build(payload, scope, false);
}

/* The run's task and its best weights, with the pass and a batch of its validation. */
static void open_run(fixture *f, et_build_fn *model, bool training)
{
    *f = (fixture){ .arena = ET_ARENA_INIT };
    const et_pass_options options = { .training = training };
    ok(et_experiment_open_run(&f->experiment, &et_translation_program, "run", &f->arena, &error));
    ok(et_params_new(&f->params, &error));
    ok(et_device_open(&f->device, &error));
    et_task_context context = { .model_dir = "hand", .params = f->params, .device = f->device };
    ok(et_directory_make("hand", &error));
    ok(et_translation_kind.open(&f->task, f->experiment.task, &context, &error));
    f->task->init_checkpoint = "run/best";
    ok(et_task_build_inputs(f->task, NULL, NULL, &f->source, &error));
    ok(et_pass_open(&f->pass, f->device, f->params, &f->source->layout, model, f->task, &options,
                    &error));
    ok(et_params_materialize(f->params, false, &error));
    ok(et_task_initialize(f->task, f->params, &error));
    ok(et_batch_new(&f->batch, &f->source->layout, &error));
}

static void close_run(fixture *f)
{
    et_batch_free(f->batch);
    et_source_close(f->source);
    et_pass_close(f->pass);
    et_translation_kind.close(f->task);
    et_params_free(f->params);
    et_device_close(f->device);
    et_arena_release(&f->arena);
}

static const et_value *list(const et_value *dict, const char *name, int64_t count)
{
    const et_value *found = et_value_get(dict, name);
    assert_true(found && found->kind == ET_VALUE_LIST);
    assert_int_equal(found->count, count);
    return found;
}

static double value(const et_value *dict, const char *name)
{
    double number;
    ok(et_value_read_float(dict, name, &number, &error));
    return number;
}

static void add_batches(fixture *f, et_source *source, et_value *state)
{
    et_task_step now = { .inputs = f->batch, .model = f->pass };
    while (!et_source_next(source, f->batch, &error) && f->batch->filled[0]) {
        et_value *logs = et_value_dict(&f->arena);
        ok(et_task_validation_step(f->task, &now, logs, &error));
        assert_float_equal(value(logs, "loss"), et_pass_loss(f->pass) / et_pass_divisor(f->pass),
                           1e-12);
        const et_value *ids = list(logs, "unique_ids", f->batch->filled[0]);
        assert_int_equal(ids->first->integer, f->batch->sample[0]);
        list(logs, "inputs", f->batch->filled[0]);
        list(logs, "outputs", f->batch->filled[0]);
        list(logs, "scores", f->batch->filled[0]);
        ok(et_task_aggregate_logs(f->task, state, logs, &error));
    }
}

static et_value *reduced(fixture *f, const et_value *state)
{
    et_value *results = et_value_dict(&f->arena);
    ok(et_task_reduce_aggregated_logs(f->task, state, 7, results, &error));
    return results;
}

static const char *const scores[] = { "sacrebleu_score", "bleu_score", "chrf_score" };

/* All pairs, whole, though the batches have some of them shortened. */
static void test_translation_members__validation_by_hand(void **state)
{
    (void)state;
    fixture f;
    open_run(&f, build, false);
    et_value *gathered = et_value_dict(&f.arena);
    add_batches(&f, f.source, gathered);
    list(gathered, "unique_ids", PAIRS);
    const et_value *results = reduced(&f, gathered);
    bad_end end = succeed("evaluate --model-dir run --json");
    assert_true(value(results, "sacrebleu_score") > 0);
    for (size_t i = 0; i < COUNT(scores); i++)
        assert_float_equal(value(results, scores[i]), number_in(end.out, scores[i]), 1e-9);
    bad_release(&end);
    size_t lengths[2];
    char *mine = bad_read("hand/translations/7.txt", &lengths[0]);
    char *runs = bad_read("run/translations/400.txt", &lengths[1]);
    assert_string_equal(mine, runs);
    free(mine);
    free(runs);
    close_run(&f);
}

/* If a pair comes twice, the last counts; a state of other data is refused. */
static void test_translation_members__states(void **state)
{
    (void)state;
    fixture f;
    open_run(&f, build, false);
    et_value *gathered = et_value_dict(&f.arena), *results = et_value_dict(&f.arena);
    add_batches(&f, f.source, gathered);
    const double whole = value(reduced(&f, gathered), "sacrebleu_score");
    for (int round = 0; round < 2; round++) {
        et_value *logs = et_value_dict(&f.arena);
        et_value_add_int(et_value_set_list(logs, "unique_ids"), 5);
        et_value *ids = et_value_add_list(et_value_set_list(logs, "outputs"));
        const et_value *were = list(gathered, "unique_ids", PAIRS + round)->first;
        const et_value *out = list(gathered, "outputs", PAIRS + round)->first;
        for (; were->integer != 5; were = were->next)
            out = out->next;
        for (const et_value *id = out->first; round && id; id = id->next)
            et_value_add_int(ids, id->integer);
        ok(et_task_aggregate_logs(f.task, gathered, logs, &error));
        const double now = value(reduced(&f, gathered), "sacrebleu_score");
        assert_true(round ? fabs(now - whole) < 1e-9 : now < whole);
    }
    static const struct {
        const char *state;
        int code;
        const char *words;
    } cases[] = {
        { "{}", ET_EFORMAT, "needs lists unique_ids and outputs" },
        { "{unique_ids: [1], outputs: []}", ET_EFORMAT,
          "the state of a validation needs lists unique_ids and outputs of equal length; make it "
          "with aggregate_logs" },
        { "{unique_ids: [60], outputs: [[3]]}", ET_EDATA,
          "pair 60 of a validation's state is not in" },
        { "{unique_ids: [-1], outputs: [[3]]}", ET_EDATA, "pair -1" },
        { "{unique_ids: [x], outputs: [[3]]}", ET_EDATA, "pair -1" },
        { "{unique_ids: [2], outputs: [[3, 30]]}", ET_EDATA,
          "the translation of pair 2: token 2 is not among the" },
        { "{unique_ids: [2], outputs: [[-4]]}", ET_EDATA,
          "the translation of pair 2: token 1 is not among the" },
        { "{unique_ids: [2], outputs: [[1.5]]}", ET_EDATA,
          "the translation of pair 2: token 1 is not among the" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_value *one;
        ok(et_yaml_parse_value(&one, &f.arena, cases[i].state, "state", &error));
        fails(et_task_reduce_aggregated_logs(f.task, one, 1, results, &error), cases[i].code,
              cases[i].words);
    }
    et_value *logs = et_value_dict(&f.arena);
    fails(et_task_aggregate_logs(f.task, gathered, logs, &error), ET_EFORMAT, "unique_ids");
    et_value_set_list(logs, "unique_ids");
    et_value_add_int(et_value_set_list(logs, "outputs"), 1);
    fails(et_task_aggregate_logs(f.task, gathered, logs, &error), ET_EFORMAT,
          "outputs is not a list");
    close_run(&f);
}

/* A batch without targets is translated, as in a step of validation if nothing is shortened. */
static void test_translation_members__inference(void **state)
{
    (void)state;
    fixture f;
    et_source *source;
    et_pass *pass;
    const et_data_config whole = { .settings = "max_seq_length=64" };
    const et_pass_options options = { .training = false };
    open_run(&f, build, false);
    ok(et_task_build_inputs(f.task, &whole, NULL, &source, &error));
    ok(et_pass_open(&pass, f.device, f.params, &source->layout, build, f.task, &options, &error));
    et_task_step now = { .inputs = f.batch, .model = pass };
    et_value *logs = et_value_dict(&f.arena), *found = et_value_dict(&f.arena);
    ok(et_source_next(source, f.batch, &error));
    ok(et_task_validation_step(f.task, &now, logs, &error));
    ok(et_task_inference_step(f.task, &now, found, &error));
    assert_null(et_value_get(found, "outputs")); /* the model ran, on its targets */
    f.batch->filled[ET_PAIR_TARGET] = 0;
    fails(et_task_inference_step(f.task, &now, NULL, &error), ET_EUSAGE, "without targets");
    ok(et_task_inference_step(f.task, &now, found, &error));
    const et_value *left = list(found, "outputs", f.batch->filled[0])->first;
    const et_value *right = list(logs, "outputs", f.batch->filled[0])->first;
    for (; left; left = left->next, right = right->next) {
        assert_int_equal(left->count, right->count);
        for (const et_value *l = left->first, *r = right->first; l; l = l->next, r = r->next)
            assert_int_equal(l->integer, r->integer);
    }
    assert_float_equal(list(found, "scores", f.batch->filled[0])->first->real,
                       list(logs, "scores", f.batch->filled[0])->first->real, 0);
    et_pass_close(pass);
    et_source_close(source);
    close_run(&f);
}

/* ---- embedded sources ---- */

/* The batch of a layout with rows in place of the sources' ids: what the table gives for them. */
static et_batch *embedded_batch(const fixture *f, const et_layout *layout)
{
    et_batch *batch;
    const int ids = et_layout_find(f->batch->layout, "source_ids");
    const int table = et_params_find(f->params, "embedding/table");
    assert_true(ids >= 0 && table >= 0);
    const int64_t width = et_params_shape(f->params, table).size[1];
    const float *values = et_params_values(f->params) + et_params_offset(f->params, table);
    const int32_t *id = f->batch->data[ids];
    ok(et_batch_new(&batch, layout, &error));
    for (int i = 0; i < layout->fields; i++)
        if (i != ids)
            memcpy(batch->data[i], f->batch->data[i],
                   (size_t)et_shape_count(et_layout_shape(layout, i)) * 4);
    float *rows = batch->data[ids];
    for (int64_t t = 0; t < f->batch->filled[ET_PAIR_SOURCE]; t++)
        for (int64_t d = 0; d < width; d++)
            rows[t * width + d] = values[id[t] * width + d] * sqrtf((float)width);
    memcpy(batch->filled, f->batch->filled, sizeof batch->filled);
    return batch;
}

/* Rows of the model's own table give the loss and the translations of the ids. */
static void test_translation_members__embedded(void **state)
{
    (void)state;
    fixture f;
    et_pass *pass;
    const et_pass_options options = { .training = false };
    open_run(&f, build, false);
    ok(et_source_next(f.source, f.batch, &error));
    ok(et_pass_run(f.pass, f.batch, 1, 0, &error));
    et_layout layout = f.source->layout;
    et_layout_field fields[ET_PAIR_FIELDS];
    memcpy(fields, layout.field, sizeof fields);
    const int ids = et_layout_find(&layout, "source_ids");
    fields[ids].name = "source_embedded";
    fields[ids].dtype = ET_F32;
    fields[ids].item =
        et_shape_1(et_params_shape(f.params, et_params_find(f.params, "embedding/table")).size[1]);
    fields[ids].empty = ET_EMPTY_ZERO;
    layout.field = fields;
    et_batch *batch = embedded_batch(&f, &layout);
    ok(et_pass_open(&pass, f.device, f.params, &layout, build, f.task, &options, &error));
    ok(et_pass_run(pass, batch, 1, 0, &error));
    assert_float_equal(et_pass_loss(pass), et_pass_loss(f.pass), 0);
    et_task_step now = { .inputs = f.batch };
    et_value *found[2] = { et_value_dict(&f.arena), et_value_dict(&f.arena) };
    f.batch->filled[ET_PAIR_TARGET] = batch->filled[ET_PAIR_TARGET] = 0;
    ok(et_task_inference_step(f.task, &now, found[0], &error));
    now.inputs = batch;
    ok(et_task_inference_step(f.task, &now, found[1], &error));
    et_strbuf texts[2] = { ET_STRBUF_INIT, ET_STRBUF_INIT };
    for (int i = 0; i < 2; i++)
        et_json_print(&texts[i], found[i], 0);
    assert_string_equal(et_strbuf_text(&texts[0]), et_strbuf_text(&texts[1]));
    list(found[1], "outputs", batch->filled[0]);
    et_strbuf_release(&texts[0]);
    et_strbuf_release(&texts[1]);
    int32_t *position = batch->data[et_layout_find(&layout, "source_positions")];
    position[1] = -1;
    fails(et_task_inference_step(f.task, &now, found[1], &error), ET_EDATA,
          "source_positions[1] is -1: give 0 to 65534");
    fields[ids].item = et_shape_1(4);
    fails(et_task_inference_step(f.task, &now, found[1], &error), ET_EUSAGE,
          "the field source_embedded needs float32 rows of 32 numbers");
    fields[ids].name = "other";
    fails(et_task_inference_step(f.task, &now, found[1], &error), ET_EUSAGE,
          "the batch has no sources: it needs the fields source_ids, or source_embedded");
    et_pass_close(pass);
    et_batch_free(batch);
    close_run(&f);
}

/* ---- a program's own losses ---- */

enum { ROWS = 3, PIECES = 30 };

/* Logits and labels that are no model's and no batch's of the task. */
static void build_own_losses(et_scope *scope, void *payload)
{
    et_nodes labels = { 0 }, outputs = { 0 };
    et_nodes_put(&labels, "mine", et_batch_input(scope, "mine"));
    et_nodes_put(&outputs, "logits", et_batch_input(scope, "z"));
    et_task_build_losses(payload, scope, &labels, &outputs, NULL);
}

/* The cross-entropy of the smoothed target t minus its entropy: 0 if the prediction is t. */
static double smoothed_loss(const float *z, int label, double e)
{
    double sum = 0, loss = 0;
    for (int i = 0; i < PIECES; i++)
        sum += exp((double)z[i]);
    for (int i = 0; i < PIECES; i++) {
        const double t = i == label ? 1 - e : e / (PIECES - 1);
        loss -= t * ((double)z[i] - log(sum) - log(t));
    }
    return loss;
}

static void test_translation_members__losses(void **state)
{
    (void)state;
    fixture f;
    et_samples *samples;
    et_source *source;
    et_batch *batch;
    et_pass *pass;
    const et_pass_options options = { .training = false };
    static float z[ROWS][PIECES];
    static int32_t y[ROWS] = { 4, -1, 9 };
    const et_array arrays[] = { { "z", ET_F32, z, et_shape_1(PIECES) },
                                { "mine", ET_I32, y, et_shape_scalar() } };
    for (int i = 0; i < PIECES; i++) {
        z[0][i] = (float)(i == y[0] ? log(0.9) : log(0.1 / (PIECES - 1)));
        z[2][i] = (float)(i % 7) / 3;
    }
    open_run(&f, build, false);
    ok(et_arrays_open(&samples, arrays, 2, ROWS, &error));
    ok(et_batches_open(&source, samples, NULL, &error));
    ok(et_batch_new(&batch, &source->layout, &error));
    ok(et_pass_open(&pass, f.device, f.params, &source->layout, build_own_losses, f.task, &options,
                    &error));
    ok(et_source_next(source, batch, &error));
    ok(et_pass_run(pass, batch, 1, 0, &error));
    assert_float_equal(smoothed_loss(z[0], y[0], 0.1), 0, 1e-6);
    assert_float_equal(et_pass_loss(pass), smoothed_loss(z[2], y[2], 0.1), 1e-5);
    assert_float_equal(et_pass_divisor(pass), 2, 0);
    et_pass_close(pass);
    et_batch_free(batch);
    et_source_close(source);
    close_run(&f);
}

/* ---- data ---- */

static int64_t count_pairs(fixture *f, const et_data_config *params, const et_input_context *part,
                           bool seen[PAIRS], int64_t first)
{
    et_source *source;
    int64_t count = 0;
    ok(et_task_build_inputs(f->task, params, part, &source, &error));
    et_batch *batch;
    ok(et_batch_new(&batch, &source->layout, &error));
    while (!et_source_next(source, batch, &error) && batch->filled[0])
        for (int64_t i = 0; i < batch->filled[0]; i++, count++) {
            assert_in_range(batch->sample[i] - first, 0, PAIRS - 1);
            assert_false(seen[batch->sample[i] - first]);
            seen[batch->sample[i] - first] = true;
        }
    et_batch_free(batch);
    et_source_close(source);
    return count;
}

/* Pipelines have the pairs among them, each its own; a replica has its part of a batch. */
static void test_translation_members__parts_of_inputs(void **state)
{
    (void)state;
    fixture f;
    bool seen[PAIRS] = { false };
    int64_t counts[3];
    open_run(&f, build, false);
    for (int64_t i = 0; i < 3; i++) {
        const et_input_context part = { 3, i, 1 };
        counts[i] = count_pairs(&f, NULL, &part, seen, 0);
        assert_int_equal(counts[i], PAIRS / 3);
    }
    et_source *source;
    const et_input_context half = { 1, 0, 2 }, odd = { 1, 0, 3 }, none = { 2, 2, 1 };
    ok(et_task_build_inputs(f.task, NULL, &half, &source, &error));
    assert_int_equal(source->layout.capacity[ET_PAIR_TARGET],
                     f.source->layout.capacity[ET_PAIR_TARGET] / 2);
    et_source_close(source);
    fails(et_task_build_inputs(f.task, NULL, &odd, &source, &error), ET_ECONFIG,
          "task.validation_data.global_batch_size: 4096 cannot be split into 3 equal parts");
    fails(et_task_build_inputs(f.task, NULL, &none, &source, &error), ET_EUSAGE,
          "input pipeline 2 of 2");
    close_run(&f);
}

/* Other texts than the task's, also of training; their pairs have their own references. */
static void test_translation_members__other_inputs(void **state)
{
    (void)state;
    fixture f;
    et_source *source;
    const et_data_config two = { .settings = "{source_path: two.en, target_path: two.de}" };
    const et_data_config back = { .settings = "{source_path: a.de, target_path: a.en}" };
    open_run(&f, build, false);
    ok(et_task_build_inputs(f.task, &two, NULL, &source, &error));
    et_value *gathered = et_value_dict(&f.arena);
    add_batches(&f, source, gathered);
    et_source_close(source);
    assert_int_equal(list(gathered, "unique_ids", 2)->first->integer >= PAIRS, 1);
    const et_value *results = reduced(&f, gathered);
    bad_end end = succeed("evaluate --model-dir run --json --set "
                          "task.validation_data.source_path=two.en,"
                          "task.validation_data.target_path=two.de");
    for (size_t i = 0; i < COUNT(scores); i++)
        assert_float_equal(value(results, scores[i]), number_in(end.out, scores[i]), 1e-9);
    bad_release(&end);
    bool seen[PAIRS] = { false };
    assert_int_equal(count_pairs(&f, &back, NULL, seen, PAIRS + 2), PAIRS);
    const et_data_config training = { .settings = "source_path=two.en, target_path=two.de",
                                      .training = true };
    ok(et_task_build_inputs(f.task, &training, NULL, &source, &error));
    et_batch *batch;
    ok(et_batch_new(&batch, &source->layout, &error));
    for (int i = 0; i < 3; i++) /* without end */
        ok(et_source_next(source, batch, &error));
    assert_int_equal(batch->filled[0], 2);
    et_batch_free(batch);
    et_source_close(source);
    static const struct {
        const char *settings;
        int code;
        const char *words;
    } cases[] = {
        { "{source_path: none.en, target_path: a.de}", ET_ENOTFOUND, "none.en" },
        { "{source_path: a.en}", ET_ECONFIG, "target_path" },
        { "{tsv_path: a.en, no_such: 1}", ET_ECONFIG, "no_such" },
        { "{sets: [{name: a, source_path: a.en, target_path: a.de}]}", ET_ECONFIG,
          ".sets: inputs need one text; name its files" },
        { "is_training=true", ET_ECONFIG, "is_training" },
        { "source_path=two.en, target_path=a.de", ET_EDATA, "two.en" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const et_data_config wrong = { .settings = cases[i].settings };
        fails(et_task_build_inputs(f.task, &wrong, NULL, &source, &error), cases[i].code,
              cases[i].words);
        assert_null(source);
    }
    close_run(&f);
}

/* ---- metrics ---- */

/* Labels and outputs of the program's; the model's measures by their names. */
static void test_translation_members__metrics(void **state)
{
    (void)state;
    fixture f;
    et_metrics *own, *compiled;
    static float z[3][2] = { { 1, 2 }, { 3, 1 }, { 0, 5 } };
    static int32_t y[3] = { 1, 1, -1 }, taken[3] = { 1, 1, 0 };
    const et_tensor labels = { y, ET_I32, et_shape_1(3) };
    const et_tensor logits = { z, ET_F32, et_shape_2(3, 2) },
                    ids = { taken, ET_I32, et_shape_1(3) };
    open_run(&f, build, false);
    ok(et_metrics_new(&own, &error));
    ok(et_metrics_new(&compiled, &error));
    ok(et_task_build_metrics(f.task, false, own, &error));
    ok(et_metrics_define(own, "right", &et_metric_accuracy, &error));
    ok(et_metrics_define(compiled, "nll", &et_metric_ratio, &error));
    et_task_step now = { .metrics = own, .labels = &labels, .outputs = &logits };
    ok(et_task_process_metrics(f.task, &now, &error));
    assert_float_equal(et_metrics_value(own, "right"), 0.5, 0);
    now.outputs = &ids;
    ok(et_task_process_metrics(f.task, &now, &error));
    assert_float_equal(et_metrics_value(own, "right"), 0.75, 0);
    now.outputs = NULL;
    fails(et_task_process_metrics(f.task, &now, &error), ET_ECONFIG, "outputs");
    now = (et_task_step){ .inputs = f.batch, .model = f.pass, .compiled_metrics = compiled };
    ok(et_source_next(f.source, f.batch, &error));
    ok(et_task_validation_step(f.task, &now, NULL, &error));
    assert_float_equal(et_metrics_value(compiled, "nll"),
                       et_pass_measured(f.pass, 1).total / et_pass_measured(f.pass, 1).weight,
                       1e-12);
    assert_string_equal(et_pass_measured(f.pass, 1).name, "nll");
    now = (et_task_step){ .compiled_metrics = own, .labels = &labels, .outputs = &logits };
    et_metrics_reset(own);
    ok(et_task_process_compiled_metrics(f.task, &now, &error));
    assert_float_equal(et_metrics_value(own, "right"), 0.5, 0);
    et_metrics_free(own);
    et_metrics_free(compiled);
    close_run(&f);
}

/* A class of a program that only adds build_metrics: training and validation feed it the likeliest
 * tokens, so its accuracy is that of the loss. */
static int build_own_metrics(et_task *self, bool training, et_metrics *metrics, et_error *failure)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "right", &et_metric_accuracy, failure);
}

static void test_translation_members__build_metrics_alone(void **state)
{
    (void)state;
    const et_task_trainer_options options[] = { { .seed = 1, .batches = 2 },
                                                { .seed = 1, .bfloat16 = true } };
    for (size_t i = 0; i < COUNT(options); i++) {
        fixture f = { .arena = ET_ARENA_INIT };
        et_task_trainer *trainer;
        et_value *logs = et_value_dict(&f.arena);
        ok(et_experiment_open_run(&f.experiment, &et_translation_program, "run", &f.arena, &error));
        ok(et_params_new(&f.params, &error));
        ok(et_device_open(&f.device, &error));
        et_task_context context = { .model_dir = "own",
                                    .params = f.params,
                                    .device = f.device,
                                    .bfloat16 = options[i].bfloat16 };
        ok(et_directory_make("own", &error));
        ok(et_translation_kind.open(&f.task, f.experiment.task, &context, &error));
        et_task_class own = *f.task->class;
        own.build_metrics = build_own_metrics;
        f.task->class = &own;
        ok(et_task_trainer_open(&trainer, f.task, f.device, f.params, &options[i], &error));
        f.task->init_checkpoint = "run/best";
        ok(et_task_trainer_initialize(trainer, &error));
        ok(et_task_trainer_train(trainer, 3, logs, &error));
        assert_true(value(logs, "right") > 0);
        /* The loss may round products in bfloat16 otherwise: near ties. */
        const double near = options[i].bfloat16 ? 0.02 : 1e-9;
        assert_float_equal(value(logs, "right"), value(logs, "training_accuracy"), near);
        ok(et_task_trainer_evaluate(trainer, -1, logs, &error));
        assert_float_equal(value(logs, "right"), value(logs, "validation_accuracy"), near);
        et_task_trainer_close(trainer);
        et_translation_kind.close(f.task);
        et_params_free(f.params);
        et_device_close(f.device);
        et_arena_release(&f.arena);
    }
}

/* ---- training ---- */

static void build_training(et_scope *scope, void *payload)
{
    et_task_build(payload, scope, true);
}

static void test_translation_members__train_step(void **state)
{
    (void)state;
    fixture f;
    et_optimizer *optimizer;
    et_source *source;
    et_batch *batch;
    double losses[40];
    open_run(&f, build_training, true);
    const et_optimizer_setup setup = { .rule = "adam", .learning_rate = 0.001 };
    const et_optimizer_request request = { .device = f.device,
                                           .params = f.params,
                                           .setup = &setup };
    const et_data_config two = { .settings = "{source_path: two.en, target_path: two.de}" };
    ok(et_task_create_optimizer(f.task, &request, &optimizer, &error));
    et_optimizer_start(optimizer);
    ok(et_batch_new(&batch, &f.source->layout, &error));
    et_value *logs = et_value_dict(&f.arena);
    et_task_step now = { .inputs = batch, .model = f.pass };
    fails(et_task_train_step(f.task, &now, logs, &error), ET_EUSAGE, "needs an optimizer");
    now.optimizer = optimizer;
    for (int i = 0; i < 40; i++) {
        ok(et_task_build_inputs(f.task, &two, NULL, &source, &error));
        ok(et_source_next(source, batch, &error));
        now.number = (uint64_t)i;
        ok(et_task_train_step(f.task, &now, logs, &error));
        losses[i] = value(logs, "loss");
        et_source_close(source);
    }
    assert_true(losses[39] < losses[0]);
    et_batch_free(batch);
    et_optimizer_free(optimizer);
    close_run(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translation_members__validation_by_hand),
        cmocka_unit_test(test_translation_members__states),
        cmocka_unit_test(test_translation_members__inference),
        cmocka_unit_test(test_translation_members__embedded),
        cmocka_unit_test(test_translation_members__losses),
        cmocka_unit_test(test_translation_members__parts_of_inputs),
        cmocka_unit_test(test_translation_members__other_inputs),
        cmocka_unit_test(test_translation_members__metrics),
        cmocka_unit_test(test_translation_members__build_metrics_alone),
        cmocka_unit_test(test_translation_members__train_step),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
