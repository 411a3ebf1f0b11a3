/* A CSV file end to end: opened, trained on, saved, predicted; the command reads what a model
 * wrote, and a model what the command trained. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <etude/predictor.h>
#include <etude/table.h>

#include "calls.h"
#include "formats/files.h"

#define ETUDE ET_TEST_BUILD "/etude"

static void run(const char *line)
{
    if (system(line))
        fail_msg("%s", line);
}

/* 400 people, whose income follows from age and job; a few ages are missing. */
static int make_table(void **state)
{
    static const char *const jobs[] = { "smith", "baker", "clerk" };
    if (make_directory(state) || chdir(*state))
        return 1;
    FILE *all = fopen("people.csv", "w"), *few = fopen("new.csv", "w");
    fprintf(all, "age,job,income\n");
    fprintf(few, "age,job\n");
    for (int i = 0; i < 400; i++) {
        const int age = 18 + i * 37 % 50, job = i * 7 % 3;
        fprintf(all, i % 41 ? "%d,%s,%s\n" : "%.0d,%s,%s\n", i % 41 ? age : 0, jobs[job],
                age + 10 * job > 52 ? "high" : "low");
        if (i < 50)
            fprintf(few, "%d,%s\n", age, jobs[job]);
    }
    return fclose(all) || fclose(few) || setenv("OMP_NUM_THREADS", "1", 1) ||
           mkdir("temporary", 0777) || setenv("TMPDIR", "temporary", 1);
}

static int leave_table(void **state)
{
    return chdir("..") || remove_directory(state);
}

static void open_people(et_table **table, et_model **model)
{
    assert_ok(et_table_open(table, "people.csv", "income", NULL, error));
    assert_ok(et_model_for_table(model, *table, "mlp", "task.model.mlp.width=16", error));
}

static void predict(et_model *model, const char *to)
{
    FILE *file = fopen(to, "w");
    assert_ok(et_model_predict_csv(model, "new.csv", file, error));
    fclose(file);
}

static void test_table_model__is_what_the_command_predicts_with(void **state)
{
    (void)state;
    et_table *table;
    et_model *model, *saved;
    double accuracy;
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    open_people(&table, &model);
    assert_ok(et_model_fit(model, et_table_source(table), &(et_fit){ .epochs = 12 }, error));
    assert_ok(et_model_evaluate_source(model, NULL, logs, error));
    assert_ok(et_value_read_float(logs, "validation_accuracy", &accuracy, error));
    assert_true(accuracy > 0.9);
    predict(model, "before.jsonl");
    assert_ok(et_model_save(model, "income.safetensors", error));
    et_model_close(model);
    et_table_close(table);
    assert_ok(et_model_open_saved(&saved, "income.safetensors", error));
    predict(saved, "after.jsonl");
    assert_ok(et_model_save(saved, "again.safetensors", error));
    et_model_close(saved);
    run("test $(wc -l <before.jsonl) = 50 && cmp before.jsonl after.jsonl");
    run(ETUDE
        " predict income.safetensors new.csv >command.jsonl && cmp before.jsonl command.jsonl");
    run(ETUDE " predict again.safetensors new.csv >again.jsonl && cmp before.jsonl again.jsonl");
    et_arena_free(arena);
}

static void test_table_model__run_is_a_run_of_the_command(void **state)
{
    (void)state;
    et_table *table;
    et_model *model, *other;
    const et_fit fit = { .epochs = 6, .run_dir = "made" };
    open_people(&table, &model);
    assert_ok(et_model_fit(model, et_table_source(table), &fit, error));
    predict(model, "made.jsonl");
    run(ETUDE " predict made new.csv >command.jsonl && cmp made.jsonl command.jsonl");
    assert_ok(et_model_open_saved(&other, "made", error));
    predict(other, "opened.jsonl");
    run("cmp made.jsonl opened.jsonl");
    et_model_close(other);
    assert_ok(et_model_for_table(&other, table, "mlp", "task.model.mlp.width=16", error));
    assert_ok(et_model_load(other, "made", error));
    predict(other, "loaded.jsonl");
    run("cmp made.jsonl loaded.jsonl");
    et_model_close(other);
    assert_ok(et_model_for_table(&other, table, "mlp", NULL, error));
    assert_fails(et_model_load(other, "made", error), ET_ECONFIG, "width");
    assert_fails(et_model_fit(other, et_table_source(table), &fit, error), ET_ECONFIG,
                 "another run_dir");
    et_model_close(other);
    et_model_close(model);
    et_table_close(table);
}

static void test_table_model__opens_what_the_command_trained(void **state)
{
    (void)state;
    et_model *model;
    run(ETUDE " train trained --experiment tabular/linear --data people.csv --target income "
              "--epochs 3 --quiet 2>&1");
    run(ETUDE " predict trained new.csv >command.jsonl");
    assert_ok(et_model_open_saved(&model, "trained", error));
    predict(model, "trained.jsonl");
    run("cmp command.jsonl trained.jsonl");
    et_model_close(model);
}

/* ---- a run that is killed ---- */

typedef struct end {
    int epochs, kill_at;
} end;

static int die(void *payload, int64_t epoch, const et_value *logs, bool *stop, et_error *error)
{
    end *e = payload;
    (void)epoch, (void)logs, (void)stop, (void)error;
    if (++e->epochs == e->kill_at)
        raise(SIGKILL);
    return 0;
}

typedef struct named {
    const char *name, *settings;
} named;

static int train(const char *directory, named model_of, int kill_at)
{
    int code = -1;
    const pid_t child = fork();
    if (!child) {
        et_table *table;
        et_model *model;
        et_error error = ET_ERROR_INIT;
        end e = { 0, kill_at };
        const et_fit fit = { .epochs = 5, .run_dir = directory, .callback = die, .payload = &e };
        int status = et_table_open(&table, "people.csv", "income", NULL, &error) ||
                     et_model_for_table(&model, table, model_of.name, model_of.settings, &error) ||
                     et_model_fit(model, et_table_source(table), &fit, &error);
        if (status)
            fprintf(stderr, "%s\n", error.text);
        _exit(status != 0);
    }
    assert_true(child > 0 && waitpid(child, &code, 0) == child);
    return WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code);
}

static void test_table_model__resumes_to_the_same_bytes(void **state)
{
    (void)state;
    /* realmlp: rate, decay and dropout depend on the length of the run. */
    static const named models[] = {
        { "mlp", NULL },
        { "realmlp", "task.model.realmlp.width=16" },
        { "tabm", "task.model.tabm.width=16,task.model.tabm.members=4" },
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        run("rm -rf whole killed");
        assert_int_equal(train("whole", models[i], 0), 0);
        assert_int_equal(train("killed", models[i], 2), SIGKILL);
        assert_int_equal(train("killed", models[i], 0), 0);
        run("for f in whole/checkpoints/*.safetensors; do cmp $f killed${f#whole} || exit 1; done");
        run("cmp whole/params.yaml killed/params.yaml");
    }
    assert_int_equal(rmdir("temporary"), 0); /* a process that was killed has left nothing */
    assert_int_equal(mkdir("temporary", 0777), 0);
}

/* ---- several targets, quantiles ---- */

static void write_several(void)
{
    FILE *file = fopen("several.csv", "w");
    fprintf(file, "a,b,up,low,n\n");
    for (int i = 0; i < 300; i++) {
        const int a = i * 37 % 101, b = i * 53 % 89;
        fprintf(file, "%d,%d,%s,%d,%d\n", a, b, a > b ? "yes" : "no", a + b < 80, 2 * a + i % 7);
    }
    fclose(file);
}

/* What a program reads of a saved model, by its names. */
static void test_table_model__several(void **state)
{
    (void)state;
    static const struct {
        const char *target, *settings, *output, *value, *choice;
        int width;
    } cases[] = {
        { NULL, "task.target=[up, low]", "scores", "low", "1", 2 },
        { NULL, "task.target=[n, b]", "values", "b", NULL, 2 },
        { "n", "task.quantile_levels=[0.10, 0.5, 0.9]", "quantiles", "0.5", NULL, 3 },
    };
    write_several();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_table *table;
        et_model *model;
        et_predictor *p;
        et_predictions *found;
        assert_ok(et_table_open(&table, "several.csv", cases[i].target, cases[i].settings, error));
        assert_ok(et_model_for_table(&model, table, "mlp", "task.model.mlp.width=16", error));
        assert_ok(et_model_fit(model, et_table_source(table), &(et_fit){ .epochs = 2 }, error));
        assert_ok(et_model_save(model, "several.safetensors", error));
        et_model_close(model);
        et_table_close(table);
        assert_ok(et_predictor_open(&p, "several.safetensors", NULL, error));
        const et_table_facts *facts = et_predictor_facts(p);
        assert_int_equal(facts->outputs, 1);
        assert_int_equal(facts->labels, 0);
        const et_table_output *output = &facts->output[0];
        assert_string_equal(output->name, cases[i].output);
        assert_int_equal(output->width, cases[i].width);
        assert_string_equal(output->value[1], cases[i].value);
        assert_true(!output->choice == !cases[i].choice);
        if (output->choice)
            assert_string_equal(output->choice[3], cases[i].choice);
        const et_named_cell cells[] = { { "a", "50" }, { "b", "20" } };
        const size_t given = i == 1 ? 1 : 2;
        assert_ok(et_predictor_predict_cells(p, cells, given, 1, &found, error));
        assert_null(et_predictions_at(found, 0).label);
        const double *values = et_predictions_values(found, 0, 0);
        for (int k = 1; i == 2 && k < 3; k++)
            assert_true(values[k] >= values[k - 1]);
        et_predictions_free(found);
        et_predictor_close(p);
    }
    et_table *table;
    assert_fails(et_table_open(&table, "several.csv", NULL, NULL, error), ET_ECONFIG,
                 "the column to predict");
    assert_fails(et_table_open(&table, "several.csv", NULL, "task.held_out=0.2", error), ET_ECONFIG,
                 "task.target is not set");
    assert_fails(
        et_table_open(&table, "several.csv", "n", "task.quantile_levels=[0.5, 0.5]", error),
        ET_ECONFIG, "0.5 comes after 0.5");
}

/* ---- misuse ---- */

static void test_table_model__misuse(void **state)
{
    (void)state;
    et_table *table = NULL;
    et_model *model, *saved;
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    float x = 0;
    assert_fails(et_table_open(&table, NULL, "income", NULL, error), ET_ECONFIG, "CSV");
    assert_fails(et_table_open(&table, "people.csv", "", NULL, error), ET_ECONFIG, "column");
    assert_fails(et_table_open(&table, "none.csv", "income", NULL, error), ET_ENOTFOUND,
                 "none.csv");
    assert_fails(et_table_open(&table, "people.csv", "incme", NULL, error), ET_EDATA, "incme");
    assert_fails(et_table_open(&table, "people.csv", "income", "task.held_ou=1", error), ET_ECONFIG,
                 "held_out");
    assert_null(table);
    assert_ok(et_table_open(&table, "people.csv", "income", NULL, error));
    assert_fails(et_model_for_table(&model, NULL, "mlp", NULL, error), ET_EUSAGE, "table");
    assert_fails(et_model_for_table(&model, table, NULL, NULL, error), ET_EUSAGE,
                 "name of a model");
    assert_fails(et_model_for_table(&model, table, "", NULL, error), ET_EUSAGE, "name of a model");
    assert_fails(et_model_for_table(&model, table, "mlq", NULL, error), ET_ECONFIG, "mlp");
    assert_fails(et_model_for_table(&model, table, "mlp", "task.model.mlp.width=-1", error),
                 ET_ECONFIG, "width");
    assert_fails(et_model_for_table(&model, table, "pack", NULL, error), ET_ECONFIG,
                 "cannot train a pack");
    static const char *const lost[] = {
        "trainer.train_steps=5", "runtime.data_shards=2", "trainer.early_stopping.patience=2",
        "task.differential_privacy_config={noise_multiplier: 1, clipping_norm: 1}"
    };
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        assert_fails(et_model_for_table(&model, table, "mlp", lost[i], error), ET_ECONFIG,
                     "no effect on a model object");
    static const char *const late[] = { "task.features.only=[age]", "task.target_type=number",
                                        "task.id=age", "task.schema_path=/nowhere" };
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        assert_fails(et_model_for_table(&model, table, "mlp", late[i], error), ET_ECONFIG,
                     "give it to et_table_open");
    assert_ok(et_model_for_table(&model, table, "mlp",
                                 "runtime.seed=3,trainer.optimizer_config.optimizer.adamw."
                                 "weight_decay_rate=0.2",
                                 error));
    et_model_close(model);
    assert_ok(et_model_for_table(&model, table, "linear", NULL, error));
    assert_fails(et_model_predict_csv(model, "new.csv", stdout, error), ET_EUSAGE, "trained");
    assert_fails(et_model_save(model, "x.safetensors", error), ET_EUSAGE, "trained");
    assert_fails(et_model_evaluate_source(model, NULL, logs, error), ET_EUSAGE, "trained");
    assert_fails(et_model_predict(model, &x, 1, &x, error), ET_EUSAGE, "et_model_predict_csv");
    assert_fails(et_model_fit_arrays(model, &x, &x, 1, NULL, error), ET_EUSAGE, "et_table_source");
    assert_ok(et_model_fit(model, et_table_source(table), &(et_fit){ .steps = 2 }, error));
    assert_fails(et_model_predict_csv(model, "none.csv", stdout, error), ET_ENOTFOUND, "none.csv");
    assert_fails(et_model_predict_csv(model, "new.csv", NULL, error), ET_EUSAGE, "stdout");
    assert_ok(et_model_save(model, "linear.safetensors", error));
    assert_ok(et_model_open_saved(&saved, "linear.safetensors", error));
    assert_fails(et_model_fit(saved, et_table_source(table), NULL, error), ET_EUSAGE,
                 "only predicts");
    assert_fails(et_freeze(saved, "x", error), ET_EUSAGE, "only predicts");
    assert_fails(et_model_summary(saved, stdout, error), ET_EUSAGE, "only predicts");
    et_model_close(saved);
    assert_fails(et_model_open_saved(&saved, "none", error), ET_ENOTFOUND, "none");
    assert_fails(et_model_open_saved(&saved, "", error), ET_ECONFIG, "et_model_open_saved: give");
    assert_fails(et_model_open_saved(&saved, NULL, error), ET_ECONFIG, "et_model_open_saved: give");
    assert_null(saved);
    et_model *tuned;
    assert_ok(et_model_for_table(&tuned, table, "linear",
                                 "trainer.optimizer_config.parameter_groups={pattern: nothing}",
                                 error));
    assert_fails(et_model_fit(tuned, et_table_source(table), NULL, error), ET_ECONFIG,
                 "parameter_groups[0].pattern: 'nothing' matches no parameter");
    et_model_close(tuned);
    et_model_close(model);
    et_table_close(table);
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_model__is_what_the_command_predicts_with),
        cmocka_unit_test(test_table_model__run_is_a_run_of_the_command),
        cmocka_unit_test(test_table_model__opens_what_the_command_trained),
        cmocka_unit_test(test_table_model__resumes_to_the_same_bytes),
        cmocka_unit_test(test_table_model__several),
        cmocka_unit_test(test_table_model__misuse),
    };
    return cmocka_run_group_tests(tests, make_table, leave_table);
}
