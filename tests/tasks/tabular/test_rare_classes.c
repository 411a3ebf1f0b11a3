/* Classes with few rows: a class with a row is learned. A message before the first step names
 * classes that cannot be measured; they do not end a run, and a score that cannot be measured is
 * never the best. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/numbers/philox.h"
#include "command/bad_case.h"
#include "tasks/tabular/succeed.h"

enum { ROWS = 600 };

static int lacks(const char *text, const char *word)
{
    return strstr(text, word) == NULL;
}

/* x1, x2 and y: three clouds, and after them a row far away of the class once. */
static void write_once(const char *path)
{
    et_random random = { 3, 0, 1 };
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "x1,x2,y\n");
    for (int i = 0; i < ROWS; i++) {
        double x = (double)et_random_normal(random, (uint64_t)(2 * i)) + (i % 3 == 1 ? 6 : 0);
        double y = (double)et_random_normal(random, (uint64_t)(2 * i + 1)) + (i % 3 == 2 ? 6 : 0);
        fprintf(file, "%.3f,%.3f,c%d\n", x, y, i % 3);
    }
    fprintf(file, "50,50,once\n");
    assert_int_equal(fclose(file), 0);
}

/* Of two classes, of which the second has `rare` rows, the first ones. */
static void write_fraud(const char *path, const char *usual, const char *asked_for, int rare,
                        int rows)
{
    et_random random = { 5, 0, 1 };
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "x1,x2,y\n");
    for (int i = 0; i < rows; i++)
        fprintf(file, "%.3f,%d,%s\n", (double)et_random_normal(random, (uint64_t)i), i % 7,
                i < rare ? asked_for : usual);
    assert_int_equal(fclose(file), 0);
}

#define TRAIN_ON(data) "train %s --experiment tabular/mlp_small --data " data " --target y "

static void test_rare_classes__one_row_is_learned(void **state)
{
    (void)state;
    write_once("once.csv");
    bad_write_text("far.csv", "x1,x2\n50,50\n");
    for (int seed = 0; seed < 3; seed++) {
        char run[16], line[64];
        snprintf(run, sizeof run, "once%d", seed);
        bad_end end = succeed(TRAIN_ON("once.csv") "--epochs 30 --seed %d", run, seed);
        bad_assert_says("train", end.err, "validation   90 of these rows are held out");
        bad_assert_says("train", end.err,
                        "target y: no row of \"once\" is held out: the scores do not cover it");
        assert_true(lacks(end.err, "no training row"));
        bad_release(&end);
        snprintf(line, sizeof line, "predict %s --checkpoint newest", run);
        end = bad_start(line, "far.csv", NULL);
        bad_assert_says(line, end.out, "{\"label\": \"once\"");
        bad_release(&end);
    }
}

#define BEST_BY(metric)                                                                            \
    "--set trainer.validation_interval=10,trainer.early_stopping.patience=3,"                      \
    "trainer.best_checkpoint_eval_metric=" metric ",trainer.train_steps=100 "

/* The run went on to its end, and nothing was best. */
static void assert_not_measured(bad_end *end, const char *run, const char *metric)
{
    char says[128];
    snprintf(says, sizeof says,
             "validation_%s, which chooses the best checkpoint, is not a number at step 10",
             metric);
    bad_assert_says("train", end->err, says);
    bad_assert_says("train", end->err, "done         100 steps in");
    assert_true(lacks(end->err, "stopped early"));
    assert_true(lacks(end->err, "best validation_"));
    bad_release(end);
    char *files = bad_list(run);
    assert_true(lacks(files, "best-"));
    free(files);
}

/* A validation that gives NaN neither is the best nor counts for early stopping. */
static void test_rare_classes__not_measured(void **state)
{
    (void)state;
    static const struct {
        const char *usual, *asked_for, *metric, *said;
    } cases[] = {
        { "ok", "fraud", "auc",
          "no row of \"fraud\" is held out: precision, recall, F1 and AUC are meaningless" },
        { "no", "yes", "auc",
          "no row of \"yes\" is held out: precision, recall, F1 and AUC are meaningless" },
        { "no", "yes", "f1", "no row of \"yes\" is held out" },
        { "no", "yes", "recall", "no row of \"yes\" is held out" },
        { "yes", "no", "auc", "no row of \"no\" is held out: precision and AUC are meaningless" },
        { "yes", "no", "precision", "no row of \"no\" is held out" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char run[16];
        snprintf(run, sizeof run, "fraud%zu", i);
        write_fraud("fraud.csv", cases[i].usual, cases[i].asked_for, 1, 300);
        bad_end end = succeed(TRAIN_ON("fraud.csv") BEST_BY("validation_%s"), run, cases[i].metric);
        bad_assert_says("train", end.err, cases[i].said);
        assert_not_measured(&end, run, cases[i].metric);
    }
}

/* Named, the first of many, by the data or the set that has none. */
static void test_rare_classes__validation_data(void **state)
{
    (void)state;
    write_fraud("some.csv", "ok", "fraud", 30, 300);
    write_fraud("none.csv", "ok", "fraud", 0, 40);
    write_fraud("half.csv", "ok", "fraud", 20, 40);
    bad_end end = succeed(TRAIN_ON("some.csv") "--valid none.csv --set trainer.train_steps=5", "v");
    bad_assert_says("train", end.err, "target y: no row of \"fraud\" is in the validation data: ");
    bad_release(&end);
    end = succeed(TRAIN_ON("some.csv") "--set 'task.validation_data.sets=[{name: old, input_path: "
                                       "half.csv}, {name: "
                                       "new, input_path: none.csv}]' --set trainer.train_steps=5",
                  "sets");
    bad_assert_says("train", end.err,
                    "target y: no row of \"fraud\" is in the validation set new: ");
    assert_true(lacks(end.err, "set old"));
    bad_release(&end);
    end = succeed(TRAIN_ON("some.csv") "--set trainer.train_steps=5", "whole");
    assert_true(lacks(end.err, "target y: no row"));
    bad_release(&end);
    FILE *file = fopen("many.csv", "w");
    assert_non_null(file);
    fprintf(file, "x,y\n");
    for (int i = 0; i < 200; i++)
        fprintf(file, "%d,%c%d\n", i % 50, i < 12 ? 'r' : 'f', i < 12 ? i : i % 2);
    assert_int_equal(fclose(file), 0);
    end = succeed(TRAIN_ON("many.csv") "--set trainer.train_steps=5", "many");
    bad_assert_says("train", end.err,
                    " and 4 more classes is held out: the scores do not cover them");
    bad_release(&end);
}

/* Metadata and schema of more rows than those that are trained on. */
static void test_rare_classes__not_learned(void **state)
{
    (void)state;
    write_fraud("some.csv", "ok", "fraud", 30, 300);
    write_fraud("none.csv", "ok", "fraud", 0, 300);
    bad_end end = succeed(TRAIN_ON("some.csv") "--set trainer.train_steps=5", "of_some");
    bad_release(&end);
    end = succeed(
        TRAIN_ON(
            "none.csv") "--set task.schema_path=of_some/schema.yaml,task.metadata_path=of_some/"
                        "metadata.json,task.features_path=of_some/"
                        "features.yaml,trainer.train_steps=5",
        "of_none");
    bad_assert_says("train", end.err,
                    "target y: no training row has \"fraud\": the model cannot learn this class");
    bad_release(&end);
}

static void test_rare_classes__numbers_alike(void **state)
{
    (void)state;
    bad_write_text("n.csv", "x,y\n1,1.5\n2,3\n3,4.5\n4,6\n5,7.25\n6,9\n");
    bad_write_text("alike.csv", "x,y\n1,1.5\n2,1.5\n");
    bad_end end = succeed(TRAIN_ON("n.csv") "--valid alike.csv --set trainer.train_steps=5", "n");
    bad_assert_says("train", end.err,
                    "target y: all rows that are in the validation data have the same value: r2 is "
                    "meaningless");
    bad_release(&end);
    end = succeed(TRAIN_ON("n.csv") "--valid alike.csv " BEST_BY("auto"), "best");
    assert_not_measured(&end, "best", "r2");
    end = succeed("evaluate best");
    assert_true(isnan(value_of(end.out, "r2")));
    assert_true(value_of(end.out, "rmse") > 0);
    bad_release(&end);
    end = succeed(TRAIN_ON("n.csv") "--set task.held_out=0.5,trainer.train_steps=5", "n2");
    assert_true(lacks(end.err, "have the same value: r2 is meaningless"));
    bad_release(&end);
}

/* All accuracies are 1, and the loss falls: the last step is the best. An equal accuracy is no
 * improvement, so patience ends the run. */
static void test_rare_classes__equal_scores(void **state)
{
    (void)state;
    FILE *file = fopen("easy.csv", "w");
    assert_non_null(file);
    fprintf(file, "x,y\n");
    for (int i = 0; i < 200; i++)
        fprintf(file, "%d,%s\n", i % 2 ? 50 + i % 20 : -50 - i % 20, i % 2 ? "b" : "a");
    assert_int_equal(fclose(file), 0);
    bad_end end = succeed(
        TRAIN_ON(
            "easy.csv") "--set trainer.validation_interval=10,trainer.early_stopping.patience=4,"
                        "trainer.best_checkpoint_eval_metric=validation_accuracy,"
                        "trainer.train_steps=200",
        "easy");
    bad_assert_says("train", end.err, "steps, stopped early");
    const double steps = strtod(strstr(end.err, "done  ") + 4, NULL);
    assert_true(steps >= 50 && steps < 200);
    bad_release(&end);
    end = succeed("evaluate easy");
    const char *best = strstr(end.out, "best-");
    assert_non_null(best);
    assert_true(strtod(best + 5, NULL) == steps);
    assert_true(value_of(end.out, "accuracy") == 1);
    bad_release(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rare_classes__one_row_is_learned),
        cmocka_unit_test(test_rare_classes__not_measured),
        cmocka_unit_test(test_rare_classes__validation_data),
        cmocka_unit_test(test_rare_classes__not_learned),
        cmocka_unit_test(test_rare_classes__numbers_alike),
        cmocka_unit_test(test_rare_classes__equal_scores),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
