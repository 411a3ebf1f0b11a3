/* The task with its command: it makes a run from a table. The run resumes to the same bytes,
 * accepts only its own files and rows, and reports what is wrong with others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/numbers/philox.h"
#include "command/bad_case.h"
#include "formats/safetensors/safetensors.h"
#include "sanitized.h"
#include "tasks/tabular/succeed.h"

enum { ROWS = 400 };

/* Small, and with all that has a position or a state: dropout, shuffling, an average. */
#define FEW   " --set task.train_data.batch_size=32 --set runtime.seed=5"
#define SMALL " --set task.model.mlp.width=16" FEW

/* ---- tables ---- */

/* Two numbers, one of them at times missing, a text; a class by both, a value by both. */
static void write_row(FILE *file, int i, bool all)
{
    static const char *const shapes[] = { "round", "\"flat, thin\"", "square" };
    et_random random = { 11, 0, 1 };
    float x = et_random_normal(random, (uint64_t)(4 * i));
    float y = et_random_normal(random, (uint64_t)(4 * i + 1));
    int shape = (int)(et_random_uniform(random, (uint64_t)(4 * i + 2)) * 3);
    float z = x * y + (float)(shape - 1) + 0.2f * et_random_normal(random, (uint64_t)(4 * i + 3));
    fprintf(file, "%.3f,", (double)x);
    if (i % 17)
        fprintf(file, "%.3f", (double)y);
    fprintf(file, ",%s", shapes[shape]);
    if (all)
        fprintf(file, ",%s,%.3f",
                z > 0.6f    ? "high"
                : z > -0.6f ? "mid"
                            : "low",
                (double)(1000 + 50 * z));
    fprintf(file, ",%d\n", z > 0);
}

/* all: with level and price, which say what flag is. */
static void write_table(const char *path, int first, int rows, bool all)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "x,y,shape,%sflag\n", all ? "level,price," : "");
    for (int i = first; i < first + rows; i++)
        write_row(file, i, all);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    int status = bad_set_up(state);
    if (!status) {
        write_table("t.csv", 0, ROWS, true);
        write_table("v.csv", ROWS, 100, true);
        write_table("flag.csv", 0, ROWS, false);
    }
    return status;
}

/* ---- the command ---- */

static void assert_equal_files(const char *expected, const char *found)
{
    size_t lengths[2];
    char *bytes[] = { bad_read(expected, &lengths[0]), bad_read(found, &lengths[1]) };
    if (lengths[0] != lengths[1] || memcmp(bytes[0], bytes[1], lengths[0]))
        fail_msg("%s and %s differ", expected, found);
    free(bytes[0]);
    free(bytes[1]);
}

/* ---- one line ---- */

/* The number behind a key of JSON. */
static double json_value(const char *text, const char *key)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(text, quoted);
    assert_non_null(at);
    return strtod(at + strlen(quoted), NULL);
}

static void test_tabular_task__one_line(void **state)
{
    (void)state;
    bad_end end = succeed("train --experiment tabular/mlp --data t.csv --target level "
                          "--model-dir one --epochs 12" SMALL);
    static const char *const said[] = { "data         400 rows, 6 columns",
                                        "validation   60 of these rows are held out (15 %)",
                                        "target       level: 3 classes: ",
                                        "features     ",
                                        "model        mlp, ",
                                        NULL };
    for (int i = 0; said[i]; i++)
        bad_assert_says("train", end.err, said[i]);
    bad_release(&end);
    char *files = bad_list("one");
    bad_assert_says("train", files, "features.yaml");
    bad_assert_says("train", files, "metadata.json");
    bad_assert_says("train", files, "schema.yaml");
    free(files);
    end = succeed("evaluate --model-dir one");
    assert_true(value_of(end.out, "accuracy") > 0.5);
    assert_true(value_of(end.out, "auc") > 0.7);
    const double log_loss = value_of(end.out, "log_loss");
    assert_null(strstr(end.out, "\nloss"));
    bad_release(&end);
    /* A list has the loss once; programs have its doubles. */
    end = succeed("evaluate --model-dir one --json");
    assert_true(fabs(json_value(end.out, "validation_log_loss") - log_loss) < 1e-5);
    assert_true(fabs(json_value(end.out, "validation_loss") - log_loss) < 1e-5);
    assert_null(strstr(end.out, "likelihood"));
    bad_release(&end);
}

static void test_tabular_task__numbers(void **state)
{
    (void)state;
    static const char *const losses[] = { "squared", "absolute", "huber" };
    for (size_t i = 0; i < COUNT(losses); i++) {
        bad_end end = succeed("train --experiment tabular/mlp --data t.csv --target price "
                              "--model-dir numbers%zu --epochs 20 --set task.loss=%s" SMALL,
                              i, losses[i]);
        bad_assert_says("train", end.err, "target       price: a number");
        bad_release(&end);
        end = succeed("evaluate --model-dir numbers%zu", i);
        /* In the target's unit, whose deviation is 70 or so, around 1,000. */
        assert_true(value_of(end.out, "rmse") < 60);
        assert_true(value_of(end.out, "rmse") > 5);
        assert_true(value_of(end.out, "r2") > 0.2);
        bad_release(&end);
    }
}

/* Of two classes with one logit or two: about the same. */
static void test_tabular_task__binary(void **state)
{
    (void)state;
    static const char *const losses[] = { "softmax", "binary" };
    for (size_t i = 0; i < COUNT(losses); i++) {
        bad_end end = succeed("train --experiment tabular/mlp --data flag.csv --target flag "
                              "--model-dir binary%zu --epochs 12 --set task.loss=%s "
                              "--set task.label_smoothing=0.02" SMALL,
                              i, losses[i]);
        bad_assert_says("train", end.err, "target       flag: 2 classes: ");
        bad_release(&end);
        end = succeed("evaluate --model-dir binary%zu", i);
        assert_true(value_of(end.out, "accuracy") > 0.7);
        assert_true(value_of(end.out, "auc") > 0.8);
        bad_release(&end);
    }
}

/* Every experiment learns something of it. */
static void test_tabular_task__experiments(void **state)
{
    (void)state;
    static const struct {
        const char *name, *set;
    } cases[] = {
        { "linear", "" },
        { "feed_forward", "task.model.feed_forward.hidden_layers=[16]," },
        { "mlp_small", "task.model.mlp.width=16," },
        { "resnet", "task.model.resnet.width=16," },
        { "realmlp", "task.model.realmlp.width=16," },
        { "tabm", "task.model.tabm.width=16,task.model.tabm.members=4," },
        { "pack", "task.model.pack.width=16,task.model.pack.members=4,"
                  "trainer.optimizer_config.learning_rate=1," },
        { "ft_transformer",
          "task.model.ft_transformer.width=16,task.model.ft_transformer.num_blocks=2," },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bad_end end =
            succeed("train --experiment tabular/%s --data t.csv --target level --model-dir %s "
                    "--epochs 8 --lr 0.01 --set %strainer.steps_per_loop=100" FEW,
                    cases[i].name, cases[i].name, cases[i].set);
        bad_release(&end);
        end = succeed("evaluate --model-dir %s", cases[i].name);
        if (!(value_of(end.out, "accuracy") > 0.4))
            fail_msg("%s: %s", cases[i].name, end.out);
        bad_release(&end);
    }
}

static void refuse(const char *line, int code, const char *words)
{
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code != code)
        fail_msg("%s: %d is not %d: %s", line, end.code, code, end.err);
    bad_assert_says(line, end.err, words);
    bad_release(&end);
}

static et_safetensors *open_tensors(const char *path)
{
    et_safetensors *file;
    et_error error = ET_ERROR_INIT;
    if (et_safetensors_open(&file, path, &error))
        fail_msg("%s", error.text);
    return file;
}

/* All tensors of one whose name has this part are in the other. */
static int compare_tensors(const char *one, const char *other, const char *part)
{
    et_safetensors *a = open_tensors(one), *b = open_tensors(other);
    int count = 0;
    for (size_t i = 0; i < et_safetensors_count(a); i++) {
        const et_safetensors_tensor *x = et_safetensors_at(a, i);
        if (!strstr(x->name, part))
            continue;
        const et_safetensors_tensor *y = et_safetensors_find(b, x->name);
        if (!y || x->bytes != y->bytes || memcmp(x->data, y->data, x->bytes) != 0)
            fail_msg("%s: %s is another than in %s", one, x->name, other);
        count++;
    }
    et_safetensors_close(a);
    et_safetensors_close(b);
    return count;
}

/* A member of a pack is trained as if it were alone. What predicts is the ensemble, which is all
 * that an export has; before the first validation there is none. */
static void test_tabular_task__pack(void **state)
{
    (void)state;
#define PACK_OF(run) "train --experiment tabular/pack --data t.csv --target level --model-dir " run
#define SMALL_PACK   " --epochs 3 --set task.model.pack.width=16" FEW
    bad_end end = succeed(PACK_OF("all") SMALL_PACK " --set task.model.pack.members=4");
    bad_release(&end);
    end = succeed(PACK_OF("alone") SMALL_PACK " --set task.model.pack.only=[2]");
    bad_release(&end);
    /* Values, two moments or a momentum, and the best ones. */
    assert_true(compare_tensors("alone/checkpoints/ckpt-33.safetensors",
                                "all/checkpoints/ckpt-33.safetensors", "member_2/") > 20);
    end = succeed("predict --model-dir all --input t.csv --output all.jsonl");
    bad_release(&end);
    end = succeed("export all --output all.safetensors");
    bad_release(&end);
    et_safetensors *file = open_tensors("all.safetensors");
    for (size_t i = 0; i < et_safetensors_count(file); i++)
        assert_int_not_equal(strncmp(et_safetensors_at(file, i)->name, "member_", 7), 0);
    et_safetensors_close(file);
    end = succeed("predict --model-dir all.safetensors --input t.csv --output export.jsonl");
    bad_release(&end);
    assert_equal_files("all.jsonl", "export.jsonl");
    end = succeed(PACK_OF("early") SMALL_PACK
                  " --set task.model.pack.members=4 --set trainer.checkpoint_interval=5 "
                  "--set trainer.max_to_keep=9 --init all");
    bad_release(&end);
    refuse("predict --model-dir early --checkpoint 5 --input t.csv", 3, "has no ensemble yet");
}

/* ---- going on ---- */

static const struct {
    const char *name, *model, *target, *set;
} runs[] = {
    { "mlp", "mlp", "level", "" },
    { "values", "mlp", "price", "" },
    { "resnet", "resnet", "level", "" },
    { "pack", "pack", "price", "task.model.pack.members=3,task.model.pack.patience=2," },
};

static void train(size_t run, const char *part, int epochs)
{
    const char *model = runs[run].model;
    bad_end end =
        succeed("train --experiment tabular/%s --data t.csv --target %s --model-dir %s-%s "
                "--epochs %d --set %stask.model.%s.width=16" FEW,
                model, runs[run].target, runs[run].name, part, epochs, runs[run].set, model);
    bad_release(&end);
}

static void compare(size_t run, int step)
{
    char whole[100], parts[100];
    snprintf(whole, sizeof whole, "%s-whole/checkpoints/ckpt-%d.safetensors", runs[run].name, step);
    snprintf(parts, sizeof parts, "%s-parts/checkpoints/ckpt-%d.safetensors", runs[run].name, step);
    assert_equal_files(whole, parts);
}

/* 340 rows in batches of 32: 11 steps a pass, 10 where the rest is dropped. */
static int steps_of(size_t run, int epochs)
{
    return epochs * (strcmp(runs[run].name, "resnet") ? 11 : 10);
}

static void test_tabular_task__resumes(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(runs); r++) {
        train(r, "whole", 6);
        train(r, "parts", 2);
        train(r, "parts", 3);
        train(r, "parts", 6);
        compare(r, steps_of(r, 6));
    }
}

/* The last of epochs 1, 2, ... whose checkpoint a run has. */
static int last_saved(const char *run)
{
    for (int epoch = 1;; epoch++) {
        char path[100];
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-%d.safetensors", run, steps_of(0, epoch));
        if (access(path, F_OK))
            return epoch - 1;
    }
}

/* Killed after some epochs, and as many as it had then and five more: how fast it is decides how
 * many these are, not whether there is something left to go on to. */
static void test_tabular_task__killed(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        (void)!freopen("killed.log", "w", stderr);
        execl(ET_TEST_BUILD "/etude", "etude", "train", "--experiment", "tabular/mlp", "--data",
              "t.csv", "--target", "level", "--model-dir", "killed", "--epochs", "3000", "--set",
              "task.model.mlp.width=16,task.train_data.batch_size=32,runtime.seed=5,"
              "trainer.early_stopping.patience=0,trainer.max_to_keep=5000",
              (char *)NULL);
        _exit(127);
    }
    for (int i = 0; last_saved("killed") < 2 && i < 6000; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status;
    assert_true(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    int epochs = last_saved("killed") + 5;
    assert_in_range(epochs, 2 + 5, 2999);
    char path[2][100];
    for (int i = 0; i < 2; i++) {
        const char *run = i ? "killed" : "unbroken";
        bad_end end = succeed("train --experiment tabular/mlp --data t.csv --target level "
                              "--model-dir %s --epochs %d "
                              "--set trainer.early_stopping.patience=0 "
                              "--set trainer.max_to_keep=5000" SMALL,
                              run, epochs);
        bad_release(&end);
        snprintf(path[i], sizeof path[i], "%s/checkpoints/ckpt-%d.safetensors", run,
                 steps_of(0, epochs));
    }
    assert_equal_files(path[0], path[1]);
}

/* ---- what belongs to a run ---- */

static void replace(const char *path, const char *old, const char *new)
{
    size_t length;
    char *text = bad_read(path, &length), *at = strstr(text, old);
    assert_non_null(at);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_int_equal(fclose(file), 0);
    free(text);
}

#define TRAIN_KEPT "train --experiment tabular/mlp --data t.csv --target level --model-dir kept "

static void test_tabular_task__belongs(void **state)
{
    (void)state;
    bad_end end = succeed(TRAIN_KEPT "--epochs 2" SMALL);
    bad_release(&end);
    /* Written anew, with the same meaning and other bytes. */
    replace("kept/features.yaml", "features:", "features: # mine");
    refuse(TRAIN_KEPT "--epochs 3" SMALL, 3, "kept/features.yaml changed since");
    refuse("evaluate --model-dir kept", 3, "kept/features.yaml changed since");
    replace("kept/features.yaml", "features: # mine", "features:");
    /* Other rows of the same table, by their number. */
    write_table("u.csv", 0, ROWS + 1, true);
    refuse("train --experiment tabular/mlp --data u.csv --target level --model-dir kept "
           "--epochs 3" SMALL,
           3, "kept was trained on other rows than u.csv");
    refuse(TRAIN_KEPT "--epochs 3 --set task.schema_path=v.csv" SMALL, 3,
           "task.schema_path: v.csv is not the file that this run started with");
    end = succeed(TRAIN_KEPT "--epochs 3" SMALL);
    bad_release(&end);
}

/* Files of one run begin another one, byte for byte, comments and all. */
static void test_tabular_task__given_files(void **state)
{
    (void)state;
    bad_end end = succeed("train --experiment tabular/mlp --data t.csv --target level "
                          "--model-dir first --epochs 1" SMALL);
    bad_release(&end);
    replace("first/features.yaml", "features:", "# chosen\nfeatures:");
    end = succeed("train --experiment tabular/mlp --data t.csv --target level --model-dir second "
                  "--epochs 1 --set task.schema_path=first/schema.yaml "
                  "--set task.metadata_path=first/metadata.json "
                  "--set task.features_path=first/features.yaml" SMALL);
    bad_release(&end);
    assert_equal_files("first/schema.yaml", "second/schema.yaml");
    assert_equal_files("first/metadata.json", "second/metadata.json");
    assert_equal_files("first/features.yaml", "second/features.yaml");
}

/* Rows of their own need none of those that were learnt from. */
static void test_tabular_task__evaluates_other_rows(void **state)
{
    (void)state;
    write_table("gone.csv", 0, ROWS, true);
    bad_end end = succeed("train --experiment tabular/mlp --data gone.csv --target level "
                          "--model-dir other --epochs 4 --valid v.csv" SMALL);
    bad_assert_says("train", end.err, "validation   100 rows");
    bad_release(&end);
    bad_remove("gone.csv");
    end = succeed("evaluate --model-dir other");
    double all = value_of(end.out, "log_loss");
    bad_release(&end);
    end = succeed("evaluate --model-dir other --set task.validation_data.batch_size=7");
    assert_true(fabs(value_of(end.out, "log_loss") - all) < 1e-6);
    bad_release(&end);
}

/* A class that weighs more is chosen more often. */
static void test_tabular_task__class_weights(void **state)
{
    (void)state;
    static const char *const weights[] = { "[]", "balanced", "[\"1: 50\"]", "[\"0: 50\"]" };
    double recall[COUNT(weights)];
    for (size_t i = 0; i < COUNT(weights); i++) {
        bad_end end = succeed("train --experiment tabular/linear --data flag.csv --target flag "
                              "--model-dir weights%zu --epochs 5 "
                              "--set 'task.class_weights=%s'" FEW,
                              i, weights[i]);
        bad_release(&end);
        end = succeed("evaluate --model-dir weights%zu --checkpoint newest", i);
        recall[i] = value_of(end.out, "recall");
        bad_release(&end);
    }
    if (!(recall[2] >= recall[0] && recall[2] > recall[3] + 0.2))
        fail_msg("%g %g %g %g", recall[0], recall[1], recall[2], recall[3]);
    refuse("train --experiment tabular/linear --data flag.csv --target flag --model-dir w "
           "--set 'task.class_weights=[\"2: 20\"]'",
           3, "--class-weights: 2 is not a class of flag (");
}

/* ---- what is wrong ---- */

static void test_tabular_task__refuses(void **state)
{
    (void)state;
#define BEGIN "train --experiment tabular/mlp --model-dir wrong "
#define PACK                                                                                       \
    "train --experiment tabular/pack --model-dir wrong --data t.csv --target level "               \
    "--set task.model.pack.members=2 --set task.model.pack.width=8 "
    bad_write_text("same.csv", "a,b\n1,x\n2,x\n3,x\n");
    bad_write_text("label.csv", "x,y,shape,level,price,flag\n1,2,round,mid,3,0\n"
                                "1,2,round,middle,3,0\n");
    bad_write_text("one.csv", "a,b\n1,x\n");
    bad_write_text("tiny.csv", "a,b\n1,1e-200\n2,2e-200\n3,4e-200\n");
    static const struct {
        const char *line;
        int code;
        const char *words;
    } cases[] = {
        { BEGIN "--target level", 3, "task.train_data.input_path names no file" },
        { BEGIN "--data t.csv", 3, "task.target is not set; name the column" },
        { BEGIN "--data t.csv --target levle", 3, "levle" },
        { BEGIN "--data none.csv --target level", 3, "none.csv" },
        { BEGIN "--data same.csv --target b", 3, "b has only one class" },
        { BEGIN "--data tiny.csv --target b", 3,
          "the target b has values from 1e-200 to 4e-200, whose squared errors are too small" },
        { BEGIN "--data t.csv --target level --valid label.csv", 3,
          "label.csv:3: column level: the label \"middle\" is not one" },
        { BEGIN "--data t.csv --target price --set task.loss=softmax", 3, "price" },
        { BEGIN "--data t.csv --target level --set task.loss=huber", 3,
          "the target level has classes; choose softmax" },
        { BEGIN "--data t.csv --target level --set task.loss=binary", 3,
          "task.loss: binary needs two classes, but" },
        { BEGIN "--data t.csv --target price --set task.label_smoothing=0.1", 3,
          "task.label_smoothing: the target price is a number" },
        { BEGIN "--data t.csv --target level --set task.delimiter=;;", 3, "more than one" },
        { "train --experiment tabular/tabm --model-dir wrong --data t.csv --target level "
          "--batch-size 1 "
          "--set task.differential_privacy_config.per_example=true",
          3, "with task.model.tabm.shared_batches=false it reads one for each network" },
        { BEGIN "--data t.csv --target level --set task.model.type=ft_transformer "
                "--set task.model.ft_transformer.num_attention_heads=7",
          3, "7 heads do not divide the width, 192" },
        { BEGIN "--data t.csv --target level "
                "--set trainer.best_checkpoint_eval_metric=validation_acuracy",
          3,
          "trainer.best_checkpoint_eval_metric (--metric): validation has no value "
          "validation_acuracy. Nearest: accuracy (it has: validation_loss" },
        { BEGIN "--data t.csv --target level --set task.held_out=0 "
                "--set trainer.best_checkpoint_eval_metric=validation_auc",
          3, "needs validation" },
        { PACK "--set task.held_out=0", 3, "validation chooses the ensemble of a pack" },
        { PACK "--set trainer.early_stopping.patience=0 --set trainer.validation_interval=0", 3,
          "set trainer.validation_interval=1ep" },
        { PACK "--set task.model.pack.only=[1,x]", 3, "\"x\" is not the number of a member" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        refuse(cases[i].line, cases[i].code, cases[i].words);
        /* A start that fails leaves nothing. */
        if (!access("wrong", F_OK))
            fail_msg("%s: left a directory", cases[i].line);
    }
}

/* Every value another one, so that whatever is kept of values would grow. */
static void write_numbers(const char *path, int rows)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,a,b,c,d\n", file);
    for (int i = 0; i < rows; i++)
        fprintf(file, "%d,%d.%03d,%d,-%d.5,word%d\n", i, i % 977, i % 1000, i * 7, i * 3, i);
    assert_int_equal(fclose(file), 0);
}

/* A table of eight times the size needs no more memory, from a file or from a pipe. */
static void test_tabular_task__analyzes_in_bounded_memory(void **state)
{
    (void)state;
    long most[2];
    write_numbers("few.csv", 200000);
    write_numbers("many.csv", 1600000);
    for (int many = 0; many < 2; many++) {
        bad_end end = succeed("data analyze %s.csv --dry-run -q", many ? "many" : "few");
        most[many] = end.kilobytes;
        bad_release(&end);
    }
    bad_end end = bad_start("data analyze - --dry-run -q", "many.csv", NULL);
    assert_int_equal(end.code, 0);
    if (!SANITIZED && (most[1] > most[0] + 4096 || end.kilobytes > most[0] + 4096))
        fail_msg("%ld kB of 200,000 rows, %ld of 1,600,000, %ld of these as input", most[0],
                 most[1], end.kilobytes);
    bad_release(&end);
    bad_remove("few.csv");
    bad_remove("many.csv");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tabular_task__one_line),
        cmocka_unit_test(test_tabular_task__numbers),
        cmocka_unit_test(test_tabular_task__binary),
        cmocka_unit_test(test_tabular_task__experiments),
        cmocka_unit_test(test_tabular_task__pack),
        cmocka_unit_test(test_tabular_task__resumes),
        cmocka_unit_test(test_tabular_task__killed),
        cmocka_unit_test(test_tabular_task__belongs),
        cmocka_unit_test(test_tabular_task__given_files),
        cmocka_unit_test(test_tabular_task__evaluates_other_rows),
        cmocka_unit_test(test_tabular_task__class_weights),
        cmocka_unit_test(test_tabular_task__analyzes_in_bounded_memory),
        cmocka_unit_test(test_tabular_task__refuses),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
