/* The task's methods, each called by a program alone: a validation that is put together by hand has
 * the scores that `etude evaluate` prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/checkpoint.h>
#include <etude/task_trainer.h>

#include "base/arena.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/yaml.h"
#include "command/bad_case.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/tabular/tabular_kind.h"
#include "train/task/task_private.h"

enum { ROWS = 200, VALID = 50, RUNS = 5 };

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

static void write_table(const char *path, int first, int rows)
{
    FILE *file = fopen(path, "w");
    fprintf(file, "x,y,level,price,up,odd\n");
    for (int i = first; i < first + rows; i++) {
        const int x = i * 37 % 101, y = i * 53 % 89;
        fprintf(file, "%d,%d,%s,%d,%d,%s\n", x, y,
                x + y + i % 30 > 120  ? "high"
                : x + y + i % 30 > 80 ? "mid"
                                      : "low",
                3 * x - y + i % 20, x > y + i % 9, (x + y) % 2 ? "yes" : "no");
    }
    fclose(file);
}

static int set_up(void **state)
{
    int status = bad_set_up(state);
    if (status)
        return status;
    write_table("t.csv", 0, ROWS);
    write_table("v.csv", ROWS, VALID);
    write_table("w.csv", ROWS + VALID, 30);
    static const char *const runs[RUNS][2] = { { "class", "level" },
                                               { "value", "price" },
                                               { "values", "price,x" },
                                               { "labels", "up,odd" },
                                               { "quantiles", "price --quantiles 0.1,0.5,0.9" } };
    for (int i = 0; i < RUNS; i++) {
        char line[400];
        snprintf(
            line, sizeof line,
            "train --experiment tabular/mlp --model-dir %s --data t.csv --valid v.csv --target "
            "%s --set task.model.mlp.width=16,trainer.train_steps=60,runtime.seed=1,"
            "task.validation_data.batch_size=16,runtime.mixed_precision_dtype=float32",
            runs[i][0], runs[i][1]);
        bad_end end = succeed(line);
        bad_release(&end);
    }
    return 0;
}

static void build(et_scope *scope, void *payload)
{
    et_task_build(payload, scope, false);
}

static void open_run(fixture *f, const char *run)
{
    char best[64];
    *f = (fixture){ .arena = ET_ARENA_INIT };
    const et_pass_options options = { .training = false };
    ok(et_experiment_open_run(&f->experiment, &et_tabular_program, run, &f->arena, &error));
    ok(et_params_new(&f->params, &error));
    ok(et_device_open(&f->device, &error));
    et_task_context context = {
        .model_dir = run, .params = f->params, .device = f->device, .reader = true
    };
    ok(et_tabular_kind.open(&f->task, f->experiment.task, &context, &error));
    snprintf(best, sizeof best, "%s/best", run);
    f->task->init_checkpoint = best;
    ok(et_task_build_inputs(f->task, NULL, NULL, &f->source, &error));
    ok(et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build, f->task, &options,
                    &error));
    ok(et_params_materialize(f->params, false, &error));
    ok(et_checkpoint_initialize(f->params, best, NULL, &error));
    ok(et_batch_new(&f->batch, &f->source->layout, &error));
}

static void close_run(fixture *f)
{
    et_batch_free(f->batch);
    et_source_close(f->source);
    et_pass_close(f->pass);
    et_tabular_kind.close(f->task);
    et_params_free(f->params);
    et_device_close(f->device);
    et_arena_release(&f->arena);
}

static int64_t add_batches(fixture *f, et_source *source, et_value *state)
{
    et_batch *batch;
    int64_t rows = 0;
    ok(et_batch_new(&batch, &source->layout, &error));
    et_task_step now = { .inputs = batch, .model = f->pass };
    while (!et_source_next(source, batch, &error) && batch->filled[0]) {
        et_value *logs = et_value_dict(&f->arena);
        ok(et_task_validation_step(f->task, &now, logs, &error));
        ok(et_task_aggregate_logs(f->task, state, logs, &error));
        rows += batch->filled[0];
    }
    et_batch_free(batch);
    return rows;
}

/* How many scores; printed has them all, the same. */
static int compare(const et_value *scores, const et_value *printed)
{
    int count = 0;
    for (const et_value *one = scores->first; one; one = one->next, count++) {
        const et_value *there = et_value_get(printed, one->key);
        if (!there || there->kind != one->kind)
            fail_msg("no %s is printed", one->key);
        if (one->kind == ET_VALUE_DICT)
            count += compare(one, there);
        else if (one->kind == ET_VALUE_FLOAT)
            assert_float_equal(there->real, one->real, 1e-9);
    }
    return count;
}

/* Every score of the state is printed by evaluate, the same. */
static void same_scores(fixture *f, const et_value *state, const char *line)
{
    et_value *results = et_value_dict(&f->arena), *printed;
    ok(et_task_reduce_aggregated_logs(f->task, state, 1, results, &error));
    bad_end end = succeed(line);
    ok(et_json_parse(&printed, &f->arena, end.out, strlen(end.out), "evaluate", &error));
    assert_true(compare(results, et_value_get(printed, "values")) > 2);
    bad_release(&end);
}

static void test_tabular_members__validation_by_hand(void **state)
{
    (void)state;
    static const char *const runs[RUNS] = { "class", "value", "values", "labels", "quantiles" };
    for (int i = 0; i < RUNS; i++) {
        fixture f;
        char line[100];
        open_run(&f, runs[i]);
        et_value *whole = et_value_dict(&f.arena), *parts = et_value_dict(&f.arena);
        snprintf(line, sizeof line, "evaluate --model-dir %s --json", runs[i]);
        assert_int_equal(add_batches(&f, f.source, whole), VALID);
        same_scores(&f, whole, line);
        for (int64_t n = 2; n >= 0; n--) { /* in any order */
            et_source *source;
            const et_input_context part = { 3, n, 1 };
            ok(et_task_build_inputs(f.task, NULL, &part, &source, &error));
            add_batches(&f, source, parts);
            et_source_close(source);
        }
        same_scores(&f, parts, line);
        close_run(&f);
    }
}

static void test_tabular_members__other_inputs(void **state)
{
    (void)state;
    fixture f;
    et_source *source;
    const et_data_config other = { .settings = "{input_path: w.csv, batch_size: 16}" };
    open_run(&f, "class");
    et_value *gathered = et_value_dict(&f.arena);
    ok(et_task_build_inputs(f.task, &other, NULL, &source, &error));
    assert_int_equal(add_batches(&f, source, gathered), 30);
    et_source_close(source);
    same_scores(&f, gathered,
                "evaluate --model-dir class --json --set task.validation_data.input_path=w.csv");
    static const struct {
        const char *settings;
        int code;
        const char *words;
    } cases[] = {
        { "{input_path: none.csv}", ET_ENOTFOUND, "none.csv" },
        { "{no_such: 1}", ET_ECONFIG, "no_such" },
        { "{limit: 3}", ET_ECONFIG, "limit" },
        { "{sets: [{name: a, input_path: w.csv}]}", ET_ECONFIG,
          "inputs need one table: name its files, not mix or sets" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const et_data_config wrong = { .settings = cases[i].settings };
        fails(et_task_build_inputs(f.task, &wrong, NULL, &source, &error), cases[i].code,
              cases[i].words);
    }
    const et_input_context odd = { 1, 0, 3 };
    fails(et_task_build_inputs(f.task, NULL, &odd, &source, &error), ET_ECONFIG,
          "16 rows cannot be split into 3 equal parts");
    close_run(&f);
}

static void test_tabular_members__states_and_metrics(void **state)
{
    (void)state;
    fixture f;
    et_metrics *metrics;
    open_run(&f, "class");
    et_value *results = et_value_dict(&f.arena);
    static const struct {
        const char *state;
        int code;
        const char *words;
    } cases[] = {
        { "{}", ET_EFORMAT, "unique_ids" },
        { "{unique_ids: [1], labels: [1], outputs: []}", ET_EFORMAT, "outputs must be a list" },
        { "{unique_ids: [1], labels: [1], outputs: [[0.5]]}", ET_EDATA, "row 1 of" },
        { "{unique_ids: [x], labels: [1], outputs: [[0.5, 0.2, 0.3]]}", ET_EDATA, "row -1 of" },
        { "{unique_ids: [4], labels: [7], outputs: [[0.5, 0.2, 0.3]]}", ET_EDATA, "row 4 of" },
        { "{unique_ids: [4], labels: [0], outputs: [[0.5, a, 0.3]]}", ET_EDATA, "row 4 of" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_value *one;
        ok(et_yaml_parse_value(&one, &f.arena, cases[i].state, "state", &error));
        fails(et_task_reduce_aggregated_logs(f.task, one, 1, results, &error), cases[i].code,
              cases[i].words);
    }
    /* Labels and outputs of the step, without any being named. */
    ok(et_metrics_new(&metrics, &error));
    ok(et_metrics_define(metrics, "right", &et_metric_accuracy, &error));
    et_task_step now = { .inputs = f.batch, .model = f.pass, .metrics = metrics };
    et_value *gathered = et_value_dict(&f.arena);
    while (!et_source_next(f.source, f.batch, &error) && f.batch->filled[0]) {
        et_value *logs = et_value_dict(&f.arena);
        ok(et_task_validation_step(f.task, &now, logs, &error));
        ok(et_task_aggregate_logs(f.task, gathered, logs, &error));
    }
    double accuracy;
    ok(et_task_reduce_aggregated_logs(f.task, gathered, 1, results, &error));
    ok(et_value_read_float(results, "validation_accuracy", &accuracy, &error));
    assert_float_equal(et_metrics_value(metrics, "right"), accuracy, 1e-12);
    et_metrics_free(metrics);
    close_run(&f);
}

/* A class of a program that only adds build_metrics: training and validation feed it. */
static int build_own_metrics(et_task *self, bool training, et_metrics *metrics, et_error *failure)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "right", &et_metric_accuracy, failure);
}

static void test_tabular_members__build_metrics_alone(void **state)
{
    (void)state;
    const et_task_trainer_options options = { .seed = 1 };
    fixture f = { .arena = ET_ARENA_INIT };
    et_task_trainer *trainer;
    et_value *logs = et_value_dict(&f.arena);
    double right, accuracy;
    ok(et_experiment_open_run(&f.experiment, &et_tabular_program, "class", &f.arena, &error));
    ok(et_params_new(&f.params, &error));
    ok(et_device_open(&f.device, &error));
    et_task_context context = { .model_dir = "own", .params = f.params, .device = f.device };
    ok(et_directory_make("own", &error));
    ok(et_tabular_kind.open(&f.task, f.experiment.task, &context, &error));
    et_task_class own = *f.task->class;
    own.build_metrics = build_own_metrics;
    f.task->class = &own;
    ok(et_task_trainer_open(&trainer, f.task, f.device, f.params, &options, &error));
    ok(et_task_trainer_initialize(trainer, &error));
    ok(et_task_trainer_train(trainer, 3, logs, &error));
    ok(et_value_read_float(logs, "right", &right, &error));
    ok(et_value_read_float(logs, "training_accuracy", &accuracy, &error));
    assert_float_equal(right, accuracy, 1e-9);
    ok(et_task_trainer_evaluate(trainer, -1, logs, &error));
    ok(et_value_read_float(logs, "right", &right, &error));
    ok(et_value_read_float(logs, "validation_accuracy", &accuracy, &error));
    assert_float_equal(right, accuracy, 1e-9);
    et_task_trainer_close(trainer);
    et_tabular_kind.close(f.task);
    et_params_free(f.params);
    et_device_close(f.device);
    et_arena_release(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tabular_members__validation_by_hand),
        cmocka_unit_test(test_tabular_members__other_inputs),
        cmocka_unit_test(test_tabular_members__states_and_metrics),
        cmocka_unit_test(test_tabular_members__build_metrics_alone),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
