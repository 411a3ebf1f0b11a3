/* Several targets, and quantiles of one, with the command: what is learned of tables with known
 * rules and noise, scores against those of the printed predictions, runs that resume to the same
 * bytes, and what is refused. */
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
#include "tasks/tabular/succeed.h"

enum { LEARNED = 3000, OTHERS = 2000, COLUMNS = 8 };

/* ---- tables ---- */

/* The columns of a row: x, z, both drawn; p and q, numbers of two sizes; three answers, each by
 * another rule; n, whose noise is known. */
typedef struct known_row {
    double x, z, p, q, n;
    bool rain, wind, snow;
} known_row;

static known_row row_at(int i)
{
    et_random random = { 21, 0, 1 };
    double drawn[4];
    for (int k = 0; k < 4; k++)
        drawn[k] = (double)et_random_normal(random, (uint64_t)(4 * i + k));
    const double x = drawn[0], z = drawn[1];
    return (known_row){ .x = x,
                        .z = z,
                        .p = 5000 + 1000 * (x + z * z) + 50 * drawn[2],
                        .q = 0.01 * x * z + 0.0005 * drawn[3],
                        .n = 2 * x + (0.5 + fabs(x)) * drawn[2],
                        .rain = x + z > 0,
                        .wind = x * z > 0.2,
                        .snow = fabs(x) > 1 };
}

/* Columns by their numbers from 0: x z p q rain wind snow n. */
static void write_table(const char *path, int first, int rows, const char *columns)
{
    static const char *const names[COLUMNS] = { "x", "z", "p", "q", "rain", "wind", "snow", "n" };
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (const char *at = columns; *at; at++)
        fprintf(file, "%s%s", at == columns ? "" : ",", names[*at - '0']);
    for (int i = first; i < first + rows; i++) {
        const known_row r = row_at(i);
        const double numbers[COLUMNS] = { r.x, r.z, r.p, r.q, 0, r.wind, 0, r.n };
        for (const char *at = columns; *at; at++) {
            fputc(at == columns ? '\n' : ',', file);
            if (*at == '4')
                fputs(r.rain ? "yes" : "no", file);
            else if (*at == '6')
                fputs(r.snow ? "true" : "false", file);
            else
                fprintf(file, "%.9g", numbers[*at - '0']);
        }
    }
    fputc('\n', file);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    int status = bad_set_up(state);
    if (!status) {
        write_table("numbers.csv", 0, LEARNED, "0123");
        write_table("labels.csv", 0, LEARNED, "01456");
        write_table("noise.csv", 0, LEARNED, "017");
        write_table("mixed.csv", 0, 300, "0123456");
        write_table("others.csv", LEARNED, OTHERS, "01234567");
        write_table("rows.csv", LEARNED, OTHERS, "01");
        bad_write_text("calm.csv", "x,z,p,q,rain,wind,snow\n0.1,1,0,0,yes,1,false\n"
                                   "-0.1,-1,0,0,no,0,false\n0.2,0.3,0,0,yes,0,false\n");
    }
    return status;
}

static void train(const char *run, const char *experiment, const char *words)
{
    bad_end end = succeed("train %s --experiment tabular/%s -q %s", run, experiment, words);
    bad_release(&end);
}

/* What a command prints; to be freed. */
static char *printed(const char *line, const char *run, const char *words)
{
    bad_end end = succeed("%s %s %s", line, run, words);
    char *text = end.out;
    end.out = NULL;
    bad_release(&end);
    return text;
}

/* ---- predictions as CSV ---- */

/* The cells of the line that text begins with; *next: behind it. */
static int cells_of(const char *text, char cells[16][40], const char **next)
{
    for (int count = 0; count < 16; count++) {
        const size_t length = strcspn(text, ",\n");
        snprintf(cells[count], 40, "%.*s", (int)length, text);
        text += length;
        if (*text++ == ',')
            continue;
        *next = text;
        return count + 1;
    }
    fail_msg("a line has too many cells");
    return 0;
}

/* numbers [OTHERS, columns]: those of the named columns, which are side by side. */
static void numbers_of(const char *text, const char *const *names, int columns, double *numbers)
{
    char cells[16][40];
    int first = 0;
    const int count = cells_of(text, cells, &text);
    while (first < count && strcmp(cells[first], names[0]) != 0)
        first++;
    for (int k = 0; k < columns; k++)
        assert_string_equal(first + k < count ? cells[first + k] : "", names[k]);
    for (int row = 0; row < OTHERS; row++) {
        assert_int_equal(cells_of(text, cells, &text), count);
        for (int k = 0; k < columns; k++)
            numbers[row * columns + k] = strtod(cells[first + k], NULL);
    }
    assert_int_equal(*text, 0);
}

static void assert_near(const char *what, double found, double expected, double share)
{
    if (!(fabs(found - expected) <= share * fabs(expected)))
        fail_msg("%s is %.9g, not %.9g", what, found, expected);
}

/* ---- numbers ---- */

static double found[OTHERS * 6];

static void test_targets__numbers(void **state)
{
    (void)state;
    static const char *const names[] = { "values.p", "values.q" };
    train("numbers", "mlp", "--data numbers.csv --target p,q --epochs 8");
    char *scores = printed("evaluate", "numbers", "others.csv");
    char *lines = printed("predict", "numbers", "rows.csv --output-format csv --full");
    double squares[2] = { 0 };
    numbers_of(lines, names, 2, found);
    for (int i = 0; i < OTHERS; i++) {
        const known_row r = row_at(LEARNED + i);
        squares[0] += pow(found[2 * i] - r.p, 2) / OTHERS;
        squares[1] += pow(found[2 * i + 1] - r.q, 2) / OTHERS;
    }
    assert_near("p/rmse", value_of(scores, "p/rmse"), sqrt(squares[0]), 1e-4);
    assert_near("q/rmse", value_of(scores, "q/rmse"), sqrt(squares[1]), 1e-4);
    assert_near("rmse", value_of(scores, "rmse"), (sqrt(squares[0]) + sqrt(squares[1])) / 2, 1e-4);
    /* Each is learned in its own unit. */
    if (!(value_of(scores, "p/r2") > 0.95 && value_of(scores, "q/r2") > 0.9))
        fail_msg("%s", scores);
    free(scores);
    free(lines);
    lines = printed("predict", "numbers", "rows.csv");
    assert_true(!strncmp(lines, "{\"values\": {\"p\": ", 17) && strstr(lines, ", \"q\": "));
    free(lines);
}

/* Names are a row of CSV, and the last use of the option counts. */
static void test_targets__names(void **state)
{
    (void)state;
    bad_write_text("names.csv", "x,\"a, b\",c\n1,2,3.5\n2,3,1.5\n3,5,0.5\n4,4,2\n5,2,1\n6,1,4\n");
    train("names", "linear", "--data names.csv --epochs 1 --target x --target '\"a, b\",c'");
    char *lines = printed("predict", "names", "names.csv");
    assert_int_equal(strncmp(lines, "{\"values\": {\"a, b\": ", 20), 0);
    free(lines);
    lines = printed("predict", "names", "names.csv --output-format csv");
    assert_int_equal(strncmp(lines, "\"values.a, b\",values.c\n", 23), 0);
    free(lines);
    bad_end end = succeed("data analyze names.csv --json --dry-run --target '\"a, b\",c'");
    bad_assert_says("data analyze", end.out, "\"target\": [");
    bad_release(&end);
    end = succeed("data analyze names.csv --json --dry-run --target c");
    bad_assert_says("data analyze", end.out, "\"target\": \"c\"");
    bad_release(&end);
}

/* A row that lacks one target is not learned from, which is said. */
static void test_targets__missing(void **state)
{
    (void)state;
    bad_write_text("gaps.csv", "x,a,b\n1,2,3\n2,,4\n3,4,\n4,5,6.5\n5,6,1\n6,,\n7,8,9\n");
    bad_end end =
        succeed("train gaps --experiment tabular/linear --data gaps.csv --target a,b --epochs 1");
    bad_assert_says("train", end.err, "gaps.csv: 3 rows lack one of the targets and are left out");
    bad_release(&end);
    end =
        succeed("train one_gap --experiment tabular/linear --data gaps.csv --target b --epochs 1");
    bad_assert_says("train", end.err, "gaps.csv: 2 rows have no target and are left out");
    bad_release(&end);
}

/* ---- labels ---- */

static bool answer(const known_row *r, int k)
{
    return k == 0 ? r->rain : k == 1 ? r->wind : r->snow;
}

/* The share of pairs of a yes and a no whose scores are in order. */
static double auc_of(int k)
{
    static bool yes[OTHERS];
    double pairs = 0, right = 0;
    for (int i = 0; i < OTHERS; i++) {
        const known_row r = row_at(LEARNED + i);
        yes[i] = answer(&r, k);
    }
    for (int i = 0; i < OTHERS; i++)
        for (int j = 0; yes[i] && j < OTHERS; j++) {
            const double a = found[3 * i + k], b = found[3 * j + k];
            pairs += !yes[j];
            right += yes[j] ? 0 : a > b ? 1 : a == b ? 0.5 : 0;
        }
    return right / pairs;
}

typedef struct answers {
    double right[3], f1[3], micro, exact;
} answers;

static answers answers_of(void)
{
    answers a = { .exact = 0 };
    double yes[3] = { 0 }, wrong[3] = { 0 };
    for (int i = 0; i < OTHERS; i++) {
        const known_row r = row_at(LEARNED + i);
        bool exact = true;
        for (int k = 0; k < 3; k++) {
            const bool said = found[3 * i + k] > 0.5, is = answer(&r, k);
            exact &= said == is;
            a.right[k] += (said == is) / (double)OTHERS;
            yes[k] += said && is;
            wrong[k] += said != is;
        }
        a.exact += exact / (double)OTHERS;
    }
    double all = 0, off = 0;
    for (int k = 0; k < 3; k++) {
        a.f1[k] = 2 * yes[k] / (2 * yes[k] + wrong[k]);
        all += 2 * yes[k];
        off += wrong[k];
    }
    a.micro = all / (all + off);
    return a;
}

static void test_targets__labels(void **state)
{
    (void)state;
    static const char *const names[] = { "scores.rain", "scores.wind", "scores.snow" };
    train("labels", "mlp", "--data labels.csv --target rain,wind,snow --epochs 12");
    char *scores = printed("evaluate", "labels", "others.csv");
    char *lines = printed("predict", "labels", "rows.csv --output-format csv --full");
    char cells[16][40];
    numbers_of(lines, names, 3, found);
    const answers a = answers_of();
    assert_near("rain/accuracy", value_of(scores, "rain/accuracy"), a.right[0], 1e-5);
    assert_near("snow/f1", value_of(scores, "snow/f1"), a.f1[2], 1e-5);
    assert_near("wind/auc", value_of(scores, "wind/auc"), auc_of(1), 1e-5);
    assert_near("accuracy", value_of(scores, "accuracy"),
                (a.right[0] + a.right[1] + a.right[2]) / 3, 1e-5);
    assert_near("f1", value_of(scores, "f1"), (a.f1[0] + a.f1[1] + a.f1[2]) / 3, 1e-5);
    assert_near("micro_f1", value_of(scores, "micro_f1"), a.micro, 1e-5);
    assert_near("exact_match", value_of(scores, "exact_match"), a.exact, 1e-5);
    if (!(a.right[0] > 0.95 && a.right[1] > 0.95 && a.right[2] > 0.95))
        fail_msg("%s", scores);
    /* Labels by name: yes is the word for it, or the larger number. */
    const char *at = lines;
    assert_int_equal(cells_of(at, cells, &at), 6);
    assert_string_equal(cells[1], "label.wind");
    for (int i = 0; i < OTHERS; i++) {
        static const char *const words[3][2] = { { "no", "yes" },
                                                 { "0", "1" },
                                                 { "false", "true" } };
        (void)cells_of(at, cells, &at);
        for (int k = 0; k < 3; k++)
            assert_string_equal(cells[k], words[k][found[3 * i + k] > 0.5]);
    }
    free(lines);
    free(scores);
    lines = printed("predict", "labels", "rows.csv");
    assert_int_equal(strncmp(lines, "{\"label\": {\"rain\": \"", 20), 0);
    assert_non_null(strstr(lines, "\"}, \"scores\": {\"rain\": "));
    free(lines);
}

/* Answers that are all alike cannot be learned or scored, which is said. */
static void test_targets__all_alike(void **state)
{
    (void)state;
    bad_end end = succeed("train alike --experiment tabular/linear --data mixed.csv --epochs 1 "
                          "--valid calm.csv --target rain,wind,snow");
    bad_assert_says("train", end.err,
                    "target snow: all rows that are in the validation data have "
                    "the same label: F1 and AUC are meaningless");
    if (strstr(end.err, "all training rows"))
        fail_msg("%s", end.err);
    bad_release(&end);
    end = succeed("evaluate alike calm.csv --json");
    bad_assert_says("evaluate", end.out, "\"validation_auc\": null");
    bad_release(&end);
}

/* ---- quantiles ---- */

/* The share of targets that are not above quantile k, of rows with |x| from low to high. */
static double below(int k, double low, double high)
{
    double rows = 0, all = 0;
    for (int i = 0; i < OTHERS; i++) {
        const known_row r = row_at(LEARNED + i);
        if (fabs(r.x) < low || fabs(r.x) >= high)
            continue;
        rows++;
        all += r.n <= found[5 * i + 2 + k];
    }
    return all / rows;
}

/* interval.low, interval.high and three quantiles are in found. */
static void check_scores(const char *scores)
{
    static const double level[] = { 0.1, 0.5, 0.9 };
    double loss = 0, inside = 0, width = 0, squares = 0, absolute = 0;
    for (int i = 0; i < OTHERS; i++) {
        const known_row r = row_at(LEARNED + i);
        const double *q = &found[5 * i + 2];
        assert_true(q[0] <= q[1] && q[1] <= q[2]);
        assert_true(found[5 * i] == q[0] && found[5 * i + 1] == q[2]);
        for (int k = 0; k < 3; k++)
            loss += (r.n > q[k] ? level[k] * (r.n - q[k]) : (1 - level[k]) * (q[k] - r.n)) /
                    (3.0 * OTHERS);
        inside += (q[0] <= r.n && r.n <= q[2]) / (double)OTHERS;
        width += (q[2] - q[0]) / OTHERS;
        squares += pow(q[1] - r.n, 2) / OTHERS;
        absolute += fabs(q[1] - r.n) / OTHERS;
    }
    assert_near("pinball_loss", value_of(scores, "pinball_loss"), loss, 1e-5);
    assert_near("coverage", value_of(scores, "coverage"), inside, 1e-5);
    assert_near("interval_width", value_of(scores, "interval_width"), width, 1e-5);
    assert_near("rmse", value_of(scores, "rmse"), sqrt(squares), 1e-5);
    assert_near("mae", value_of(scores, "mae"), absolute, 1e-5);
    assert_near("q0.9/below", value_of(scores, "q0.9/below"), below(2, 0, 99), 1e-5);
}

/* The noise is 0.5 + |x|, so one width for all rows would cover too many of the small x and too few
 * of the large ones. */
static void test_targets__quantiles(void **state)
{
    (void)state;
    static const char *const names[] = { "interval.low", "interval.high", "quantiles.0.1",
                                         "quantiles.0.5", "quantiles.0.9" };
    static const double level[] = { 0.1, 0.5, 0.9 };
    train("noise", "mlp",
          "--data noise.csv --target n --quantiles .1,0.50,0.9 "
          "--epochs 30");
    char *scores = printed("evaluate", "noise", "others.csv");
    char *lines = printed("predict", "noise", "rows.csv --output-format csv --full");
    numbers_of(lines, names, 5, found);
    check_scores(scores);
    for (int k = 0; k < 3; k++)
        for (int part = 0; part < 3; part++) {
            const double share = part == 0   ? below(k, 0, 0.5)
                                 : part == 1 ? below(k, 0.5, 1.2)
                                             : below(k, 1.2, 99);
            if (!(fabs(share - level[k]) < 0.07))
                fail_msg("level %g, part %d: %g of the rows are not above", level[k], part, share);
        }
    /* Far from the noise's own quantiles: 1.2816 (0.5 + |x|) above 2 x. */
    double off = 0;
    for (int i = 0; i < OTHERS; i++) {
        const known_row r = row_at(LEARNED + i);
        off += fabs(found[5 * i + 4] - 2 * r.x - 1.2815516 * (0.5 + fabs(r.x))) / OTHERS;
    }
    if (!(off < 0.25))
        fail_msg("quantile 0.9 is off by %g", off);
    free(lines);
    free(scores);
}

/* ---- other models, folds, exports ---- */

static void test_targets__models(void **state)
{
    (void)state;
    static const char *const models[] = { "linear", "realmlp", "tabm", "resnet", "ft_transformer" };
    static const char *const words[] = {
        "--data mixed.csv --epochs 1 --target p,q",
        "--data mixed.csv --epochs 1 --target rain,snow",
        "--data mixed.csv --epochs 1 --target p --quantiles 0.2,0.7",
    };
    for (size_t m = 0; m < COUNT(models); m++)
        for (size_t k = 0; k < COUNT(words); k++) {
            char run[40], copy[80];
            snprintf(run, sizeof run, "%s%zu", models[m], k);
            train(run, models[m], words[k]);
            snprintf(copy, sizeof copy, "--output %s.safetensors", run);
            char *text = printed("export", run, copy);
            free(text);
            char *own = printed("predict", run, "others.csv --full");
            snprintf(copy, sizeof copy, "%s.safetensors", run);
            char *exported = printed("predict", copy, "others.csv --full");
            assert_string_equal(own, exported);
            free(own);
            free(exported);
        }
}

/* What folds of a linear model make of each target, by scores that only they have. */
static void test_targets__folds(void **state)
{
    (void)state;
    static const struct {
        const char *words, *metric, *score;
        double least, most;
    } cases[] = {
        { "--target rain,snow", "log_loss ", "rain/accuracy", 0.8, 1 },
        { "--target p --quantiles 0.2,0.7", "pinball_loss ", "coverage", 0.1, 1 },
        { "--target p,q", "rmse ", "p/r2", 0.1, 1 },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        bad_end end =
            succeed("train folds%zu --experiment tabular/linear --data mixed.csv --folds 2 "
                    "--epochs 40 %s",
                    k, cases[k].words);
        if (!strstr(end.err, cases[k].metric))
            fail_msg("%s", end.err);
        bad_release(&end);
        /* Other rows, and each row by the model that did not learn it. */
        for (int own = 0; own < 2; own++) {
            end = succeed("evaluate folds%zu %s", k, own ? "" : "others.csv");
            const double score = value_of(end.out, cases[k].score);
            if (!(score > cases[k].least && score <= cases[k].most))
                fail_msg("%s is %g", cases[k].score, score);
            bad_release(&end);
        }
    }
}

/* ---- resuming ---- */

static void assert_equal_files(const char *expected, const char *there)
{
    size_t lengths[2];
    char *bytes[] = { bad_read(expected, &lengths[0]), bad_read(there, &lengths[1]) };
    if (lengths[0] != lengths[1] || memcmp(bytes[0], bytes[1], lengths[0]) != 0)
        fail_msg("%s and %s differ", expected, there);
    free(bytes[0]);
    free(bytes[1]);
}

#define KEPT                                                                                       \
    " --set trainer.early_stopping.patience=0 --set trainer.max_to_keep=5000 "                     \
    "--set task.train_data.batch_size=51"

/* The last of epochs 1, 2, ... whose checkpoint a run has: of 300 rows, 255 in 5 steps. */
static int last_saved(const char *run)
{
    for (int epoch = 1;; epoch++) {
        char path[100];
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-%d.safetensors", run, 5 * epoch);
        if (access(path, F_OK))
            return epoch - 1;
    }
}

/* Killed once it has saved twice, then five epochs more: the bytes of a run that was not. */
static void check_killed(const char *run, const char *words)
{
    char line[600], unbroken[40], path[2][100];
    snprintf(unbroken, sizeof unbroken, "%s_whole", run);
    snprintf(line, sizeof line,
             "exec " ET_TEST_BUILD "/etude train %s --experiment tabular/mlp -q --data mixed.csv "
             "--epochs 3000 %s" KEPT,
             run, words);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        (void)!freopen("killed.log", "w", stderr);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; last_saved(run) < 2 && i < 6000; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status;
    assert_true(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    const int epochs = last_saved(run) + 5;
    assert_in_range(epochs, 7, 2999);
    snprintf(line, sizeof line, "--data mixed.csv --epochs %d %s" KEPT, epochs, words);
    train(run, "mlp", line);
    train(unbroken, "mlp", line);
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], "%s/checkpoints/ckpt-%d.safetensors", i ? unbroken : run,
                 5 * epochs);
    assert_equal_files(path[0], path[1]);
}

static void test_targets__killed(void **state)
{
    (void)state;
    check_killed("killed_labels", "--target rain,wind,snow");
    check_killed("killed_quantiles", "--target p --quantiles 0.1,0.5,0.9");
    check_killed("killed_numbers", "--target p,q");
}

/* ---- what is wrong ---- */

static void refuse(const char *line, int code, const char *words)
{
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code != code || !strstr(end.err, words))
        fail_msg("%s: %d, %s", line, end.code, end.err);
    bad_release(&end);
}

static void test_targets__refuses(void **state)
{
    (void)state;
#define BEGIN "train wrong --experiment tabular/mlp --data mixed.csv "
    bad_write_text("three.csv", "x,a,b\n1,u,yes\n2,v,no\n3,w,yes\n4,u,no\n5,v,yes\n6,w,no\n");
    static const struct {
        const char *line;
        int code;
        const char *words;
    } cases[] = {
        { BEGIN "--target p,p", 2, "--target: p is given twice" },
        { BEGIN "--target p,", 2, "--target: a name is empty" },
        { BEGIN "--set 'task.target=[p, q, p]'", 3, "task.target: p is named twice" },
        { BEGIN "--target p,qq", 3, "there is no column \"qq\"" },
        { BEGIN "--target p,rain", 3, "p is a number and rain has classes" },
        { BEGIN "--target p,wind", 3, "p is a number and wind has classes" },
        { BEGIN "--target rain,wind --id wind", 3, "wind is both the target and the ID" },
        { BEGIN "--target rain,wind --set task.loss=softmax", 3,
          "task.loss: softmax is for one target, and there are 2" },
        { BEGIN "--target rain,snow --set task.loss=huber", 3,
          "the target rain has classes; choose binary, or auto" },
        { BEGIN "--target rain,wind --set task.class_weights=balanced", 3,
          "task.class_weights: weights are of the classes of one target, and there are 2" },
        { BEGIN "--target rain,wind --set task.target_type=number", 3,
          "the target rain has texts" },
        { BEGIN "--target rain,wind "
                "--set trainer.best_checkpoint_eval_metric=validation_rmse",
          3, "validation has no value validation_rmse" },
        { BEGIN "--target rain,wind --metric rain/nll", 3, "validation has no value nll" },
        { BEGIN "--target p --metric log_loss", 3,
          "validation has no value validation_log_loss (it has: validation_loss" },
        { BEGIN "--target p --quantiles 0,0.5", 3, "\"0\" is no level" },
        { BEGIN "--target p --quantiles 0.5,1", 3, "\"1\" is no level" },
        { BEGIN "--target p --quantiles 0.5,0.5", 2, "--quantiles: 0.5 is given twice" },
        { BEGIN "--target p --quantiles 0.5,0.50", 3, "0.50 comes after 0.5" },
        { BEGIN "--target p --quantiles 0.9,0.1", 3, "0.1 comes after 0.9" },
        { BEGIN "--target p --quantiles half", 3, "\"half\" is no level" },
        { BEGIN "--target p,q --quantiles 0.5", 3, "quantiles need one target" },
        { BEGIN "--target rain --quantiles 0.5", 3, "quantile_levels need a number, but" },
        { BEGIN "--target wind --quantiles 0.5 --set task.target_type=class", 3,
          "only a number has quantiles, but task.target_type is class" },
        { BEGIN "--target p --quantiles 0.5 --set task.loss=absolute", 3,
          "not by task.loss=absolute" },
        { "train wrong --experiment tabular/mlp --data three.csv --target a,b", 3,
          "a has 3 classes, and several targets have two classes each" },
        { "train wrong --experiment tabular/pack --data mixed.csv --target p --quantiles 0.5", 3,
          "a pack (task.model.type: pack) cannot learn quantiles yet" },
        { "train wrong --experiment tabular/pack --data mixed.csv --target rain,wind", 3,
          "cannot learn several targets of two classes yet" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        refuse(cases[i].line, cases[i].code, cases[i].words);
        if (!access("wrong", F_OK))
            fail_msg("%s: left a directory", cases[i].line);
    }
    train("small", "linear", "--data mixed.csv --target rain,wind --epochs 1");
    refuse("evaluate small others.csv --threshold 0.3", 2, "the target rain is one of several");
    refuse("train small --experiment tabular/linear --data mixed.csv --target rain,snow", 3,
           "task.target: [rain, wind], but now it is [rain, snow]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets__numbers),   cmocka_unit_test(test_targets__names),
        cmocka_unit_test(test_targets__missing),   cmocka_unit_test(test_targets__labels),
        cmocka_unit_test(test_targets__all_alike), cmocka_unit_test(test_targets__quantiles),
        cmocka_unit_test(test_targets__models),    cmocka_unit_test(test_targets__folds),
        cmocka_unit_test(test_targets__killed),    cmocka_unit_test(test_targets__refuses),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
