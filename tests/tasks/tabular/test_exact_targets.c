/* Targets that a float32 cannot tell apart: dates, ids, money. They are learned, scored and printed
 * as doubles, and scores are computed with the numbers of the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>

#include <etude/predictor.h>

#include "base/numbers/philox.h"
#include "command/bad_case.h"
#include "data/table/features/encoder.h"
#include "tasks/tabular/succeed.h"
#include "tasks/tabular/target/target.h"

enum { ROWS = 300 };

#define SMALL                                                                                      \
    " --set task.model.mlp.width=32 --set task.train_data.batch_size=32 --set runtime.seed=5 -q"

/* ---- tables ---- */

static double target_of(double base, double spread, double x, double y)
{
    return base + spread * (x + 0.5 * y * y);
}

/* a and b, and a number of both: base + spread times what has a deviation of about 1. */
static void write_table(const char *path, double base, double spread)
{
    et_random random = { 7, 0, 1 };
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "a,b,t\n");
    for (uint64_t i = 0; i < ROWS; i++) {
        double x = round(1e3 * (double)et_random_normal(random, 2 * i)) / 1e3;
        double y = round(1e3 * (double)et_random_normal(random, 2 * i + 1)) / 1e3;
        fprintf(file, "%.3f,%.3f,%.17g\n", x, y, target_of(base, spread, x, y));
    }
    assert_int_equal(fclose(file), 0);
}

typedef struct table {
    double target[ROWS];
    char row[ROWS][96]; /* without the target */
} table;

static void read_table(table *t, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[160], *comma;
    assert_non_null(fgets(line, sizeof line, file));
    for (int i = 0; i < ROWS; i++) {
        assert_non_null(fgets(line, sizeof line, file));
        comma = strrchr(line, ',');
        t->target[i] = strtod(comma + 1, NULL);
        *comma = 0;
        snprintf(t->row[i], sizeof t->row[i], "%s", line);
    }
    fclose(file);
}

/* The only number of each line {"values": {"t": 1.0}}. */
static void read_predictions(double value[ROWS], const char *text)
{
    for (int i = 0; i < ROWS; i++) {
        const char *from = strstr(text, "\": ");
        from = from ? strstr(from + 1, "\": ") : NULL;
        assert_non_null(from);
        value[i] = strtod(from + 3, NULL);
        text = strchr(from, '\n') + 1;
    }
    assert_int_equal(*text, 0);
}

static void write_rows(const table *t, const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "a,b\n");
    for (int i = 0; i < ROWS; i++)
        fprintf(file, "%s\n", t->row[i]);
    assert_int_equal(fclose(file), 0);
}

static void predict(double value[ROWS], const char *run, const char *options)
{
    char line[200];
    snprintf(line, sizeof line, "predict %s %s", run, options);
    bad_end end = bad_start(line, "rows.csv", NULL);
    if (end.code)
        fail_msg("%s: %s", line, end.err);
    read_predictions(value, end.out);
    bad_release(&end);
}

static int count_distinct(const double value[ROWS])
{
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++)
            seen |= value[i] == value[k];
        count += !seen;
    }
    return count;
}

/* ---- learned and scored ---- */

typedef struct scores {
    double rmse, mae, r2;
} scores;

static scores score(const double value[ROWS], const double target[ROWS])
{
    double mean = 0, squared = 0, absolute = 0, spread = 0;
    for (int i = 0; i < ROWS; i++)
        mean += (target[i] - target[0]) / ROWS;
    for (int i = 0; i < ROWS; i++) {
        double d = value[i] - target[i], off = target[i] - target[0] - mean;
        squared += d * d;
        absolute += fabs(d);
        spread += off * off;
    }
    return (scores){ sqrt(squared / ROWS), absolute / ROWS, 1 - squared / spread };
}

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 2e-5 * fabs(expected)))
        fail_msg("%.17g is not %.17g", found, expected);
}

static void check_learned(const char *run, double base, double spread)
{
    table t;
    double full[ROWS], few[ROWS];
    write_table("t.csv", base, spread);
    read_table(&t, "t.csv");
    write_rows(&t, "rows.csv");
    bad_end end =
        succeed("train %s --experiment tabular/mlp --data t.csv --target t --epochs 60" SMALL, run);
    bad_release(&end);
    predict(full, run, "--full");
    predict(few, run, "");
    const scores truth = score(full, t.target);
    if (!(truth.r2 > 0.9))
        fail_msg("%g +- %g: r2 is %g", base, spread, truth.r2);
    assert_true(count_distinct(full) > ROWS / 2);
    assert_true(count_distinct(few) > ROWS / 2);
    for (int i = 0; i < ROWS; i++)
        assert_true(fabs(few[i] - full[i]) <= fmax(1.01e-5 * fmin(spread, 1), 1e-15 * fabs(base)));
    end = succeed("evaluate %s --set task.validation_data.input_path=t.csv", run);
    assert_near(value_of(end.out, "rmse"), truth.rmse);
    assert_near(value_of(end.out, "mae"), truth.mae);
    assert_near(value_of(end.out, "r2"), truth.r2);
    bad_release(&end);
}

static void test_exact_targets__are_learned(void **state)
{
    (void)state;
    static const double cases[][2] = {
        { 1e12, 3000 }, { 1.7e9, 60 }, { -4e15, 500 }, { 1, 1e-9 }, { 0.05, 1e-11 }, { 1e40, 1e35 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char run[16];
        snprintf(run, sizeof run, "learned%zu", i);
        check_learned(run, cases[i][0], cases[i][1]);
    }
}

/* ---- for programs ---- */

/* What the command prints in full is what programs get as doubles, and rounded is the float. */
static void test_exact_targets__for_programs(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_predictor *p;
    et_predictions *found;
    const char *rows[ROWS];
    double printed[ROWS];
    table t;
    write_table("t.csv", 1e12, 3000);
    read_table(&t, "t.csv");
    write_rows(&t, "rows.csv");
    bad_end end = succeed("train program --experiment tabular/mlp --data t.csv --target t "
                          "--epochs 5" SMALL);
    bad_release(&end);
    predict(printed, "program", "--full");
    for (int i = 0; i < ROWS; i++)
        rows[i] = t.row[i];
    end = succeed("export program --output program.safetensors");
    bad_release(&end);
    static const char *const places[] = { "program", "program.safetensors" };
    for (size_t k = 0; k < COUNT(places); k++) {
        assert_int_equal(et_predictor_open(&p, places[k], NULL, &error), ET_OK);
        assert_int_equal(et_predictor_predict(p, rows, ROWS, &found, &error), ET_OK);
        for (size_t i = 0; i < ROWS; i++) {
            const double *value = et_predictions_values(found, i, 0);
            assert_true(value[0] == printed[i]);
            assert_true(et_predictions_at(found, i).output[0][0] == (float)value[0]);
        }
        assert_null(et_predictions_values(found, ROWS, 0));
        assert_null(et_predictions_values(found, 0, 1));
        assert_null(et_predictions_values(found, 0, -1));
        et_predictions_free(found);
        et_predictor_close(p);
    }
}

/* ---- weights of another run ---- */

/* A copy of a run's metadata, in which the target has other moments: of so many rows more. */
static void write_metadata(const char *from, const char *to, double mean, double std)
{
    size_t length;
    char *text = bad_read(from, &length);
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    char *target = strstr(text, "\"t\":"), *at = target ? strstr(target, "\"mean\":") : NULL;
    assert_non_null(at);
    fprintf(file, "%.*s\"mean\": %.17g", (int)(at - text), text, mean);
    at += strcspn(at, ",}");
    char *deviation = strstr(at, "\"std\":");
    assert_non_null(deviation);
    fprintf(file, "%.*s\"std\": %.17g", (int)(deviation - at), at, std);
    deviation += strcspn(deviation, ",}");
    fputs(deviation, file);
    assert_int_equal(fclose(file), 0);
    free(text);
}

#define FILES_OF_A                                                                                 \
    "--set task.schema_path=a/schema.yaml,task.features_path=a/features.yaml,"                     \
    "task.metadata_path=other.json "

/* Its predictions are kept, whatever the unit of the new run's targets. */
static void test_exact_targets__weights_of_another_run(void **state)
{
    (void)state;
    double was[ROWS], is[ROWS];
    table t;
    write_table("t.csv", 1e12, 3000);
    read_table(&t, "t.csv");
    write_rows(&t, "rows.csv");
    bad_end end =
        succeed("train a --experiment tabular/mlp --data t.csv --target t --epochs 5" SMALL);
    bad_release(&end);
    write_metadata("a/metadata.json", "other.json", 1e12 + 20000, 1000);
    end = succeed("train b --experiment tabular/mlp --data t.csv --target t " FILES_OF_A
                  "--set task.init_checkpoint=a,trainer.train_steps=1 --set "
                  "trainer.optimizer_config.learning_rate.type=constant,"
                  "trainer.optimizer_config.learning_rate.constant.learning_rate=1e-12" SMALL);
    bad_release(&end);
    predict(was, "a", "--full --checkpoint newest");
    predict(is, "b", "--full --checkpoint newest");
    for (int i = 0; i < ROWS; i++)
        assert_true(fabs(was[i] - is[i]) < 0.1);
}

/* In such units float32 has steps of thousands: the targets would be equal. */
static void test_exact_targets__metadata_of_other_rows(void **state)
{
    (void)state;
    write_table("t.csv", 1e12, 3000);
    bad_end end =
        succeed("train a2 --experiment tabular/mlp --data t.csv --target t --epochs 1" SMALL);
    bad_release(&end);
    rename("a2", "a");
    write_metadata("a/metadata.json", "other.json", 10, 3);
    end = bad_start("train c --experiment tabular/mlp --data t.csv --target t " FILES_OF_A
                    "--epochs 1" SMALL,
                    NULL, NULL);
    assert_int_not_equal(end.code, 0);
    bad_assert_says(
        "train", end.err,
        "in the metadata, too different for float32; make the metadata again from these rows");
    bad_release(&end);
}

/* ---- the unit in a checkpoint ---- */

static void check_unit(const char *text, int64_t targets, int status, bool found)
{
    et_error error = ET_ERROR_INIT;
    et_target_unit units[2];
    bool is;
    et_arena *arena = et_arena_new();
    et_value *dict = et_value_dict(arena);
    et_value *list = text ? et_value_set_list(dict, ET_TARGET_UNIT) : NULL;
    for (; text && *text; text++)
        if (*text == '?')
            et_value_add_string(list, "text");
        else if (*text == 'i')
            et_value_add_float(list, (double)INFINITY);
        else
            et_value_add_int(list, *text - '0');
    assert_int_equal(et_target_unit_read(units, targets, &is, dict, &error), status);
    assert_int_equal(is, found);
    if (!found)
        assert_true(units[0].offset == 0 && units[0].scale == 1);
    et_arena_free(arena);
}

/* A file may hold anything. */
static void test_exact_targets__unit(void **state)
{
    (void)state;
    check_unit(NULL, 2, ET_OK, false);
    check_unit("2345", 2, ET_OK, true);
    check_unit("23", 2, ET_EFORMAT, true);
    check_unit("2345", 1, ET_EFORMAT, true);
    check_unit("", 1, ET_EFORMAT, true);
    check_unit("20", 1, ET_EFORMAT, true);
    check_unit("2?", 1, ET_EFORMAT, true);
    check_unit("i1", 1, ET_EFORMAT, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_targets__are_learned),
        cmocka_unit_test(test_exact_targets__for_programs),
        cmocka_unit_test(test_exact_targets__weights_of_another_run),
        cmocka_unit_test(test_exact_targets__metadata_of_other_rows),
        cmocka_unit_test(test_exact_targets__unit),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
