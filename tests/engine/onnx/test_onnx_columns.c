/* Models of tables as ONNX, with the table's columns as inputs: every transform that ONNX can
 * express, on 1,000 rows with missing and unknown values, gives what predicting gives. The files
 * are computed by evaluate.c and, if it is installed, by ONNX Runtime. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include <etude/metadata.h>
#include <etude/model_export.h>
#include <etude/schema.h>

#include "base/alloc.h"
#include "base/numbers/philox.h"
#include "command/bad_case.h"
#include "data/table/schema/date_text.h"
#include "engine/onnx/evaluate.h"
#include "skip.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/succeed.h"

enum { TRAINED = 600, ROWS = 1000, COLUMNS = 9, BYTES = 32 };

static const char *const columns[COLUMNS] = { "num",  "money", "sc",   "qu", "ro",
                                              "buck", "count", "city", "day" };

static const char *const features =
    "features:\n"
    "- {name: X, type: concat, features: [{name: num, type: standardize}, {name: money, type: "
    "log}, {name: sc, type: scale}, {name: again, type: identity, fields: sc}, {name: qu, type: "
    "quantile}, {name: flat, type: quantile, fields: num}, {name: ro, type: robust}, {name: wide, "
    "type: robust, fields: qu}, {name: near, type: clip, fields: ro}, {name: all, type: clip, "
    "fields: "
    "qu}, {name: buck, type: bucketize, transform: {boundaries: [2, 5]}}, "
    "{name: gone, type: missing, fields: num}, {name: nowhere, type: missing, fields: city}, "
    "{name: hot, type: one-hot, fields: city}, {name: counts, type: one-hot, fields: count}, "
    "{name: day, type: date}]}\n"
    "- {name: ids, type: concat, features: [{name: city, type: embed}, {name: count, type: "
    "embed}]}\n"
    "- {name: Y, type: target, fields: ";

typedef enum target {
    VALUES,
    CLASSES,
    LABELS,
} target;

typedef struct row {
    char cell[COLUMNS][BYTES];
    double y;
} row;

/* unseen: some cells are missing in several ways, and some have values that training had not. */
static row make_row(int i, bool unseen)
{
    static const char *const cities[] = { "Rome", "Oslo", "K\xc3\xb6ln", "a \"b\"", "Nowhere" };
    static const char *const missing[] = { "", "NA", "?", "-999.5" };
    const et_random random = { unseen ? 5 : 4, 0, 1 };
    double u[12], x = (double)et_random_normal(random, (uint64_t)(20 * i));
    row r;
    for (int k = 0; k < 12; k++)
        u[k] = (double)et_random_uniform(random, (uint64_t)(20 * i + 1 + k));
    const int city = (int)(u[0] * (unseen ? 5 : 4)), count = (int)(u[1] * (unseen ? 6 : 4));
    snprintf(r.cell[0], BYTES, "%.3f", x);
    snprintf(r.cell[1], BYTES, "%.4f", unseen && u[2] < 0.1 ? 1e-7 : exp(6 * u[2]) - 1.5);
    snprintf(r.cell[2], BYTES, "%.2f", unseen && u[3] < 0.1 ? 1e3 : 9 * u[3] - 4);
    snprintf(r.cell[3], BYTES, "%.2f", floor(40 * u[4] * u[4]) / 8);
    snprintf(r.cell[4], BYTES, "%.6g", unseen && u[5] < 0.05 ? 1e300 * u[6] : 1e6 + 9 * u[5]);
    snprintf(r.cell[5], BYTES, "%.1f", floor(70 * u[6]) / 10);
    snprintf(r.cell[6], BYTES, "%d", count * 3 - 3);
    snprintf(r.cell[7], BYTES, "%s", cities[city]);
    snprintf(r.cell[8], BYTES, "%04d-%02d-%02dT%02d:%02d",
             (int)(u[7] * (unseen ? 9999 : 60)) + (unseen ? 0 : 1960), 1 + (int)(u[8] * 12),
             1 + (int)(u[9] * 28), (int)(u[10] * 24), (int)(u[11] * 60));
    r.y = x + (city == 0) - (count == 2) + sin(u[7] * 9);
    for (int k = 0; k < COLUMNS; k++)
        if (et_random_uniform(random, (uint64_t)(20 * i + 13)) < 0.4f && (i + k) % 9 == i % 7)
            snprintf(r.cell[k], BYTES, "%s", missing[(i / 9) % 4]);
    return r;
}

/* Cells as the file has them, without targets. */
static void print_row(char *to, size_t room, const row *r)
{
    size_t at = 0;
    for (int k = 0; k < COLUMNS; k++) {
        const bool quoted = strchr(r->cell[k], '"');
        at += (size_t)snprintf(to + at, room - at, "%s%s", k ? "," : "",
                               quoted ? "\"a \"\"b\"\"\"" : r->cell[k]);
    }
}

static void write_table(const char *path, target targets)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int k = 0; k < COLUMNS; k++)
        fprintf(file, "%s,", columns[k]);
    fputs(targets == LABELS ? "y,second\n" : "y\n", file);
    for (int i = 0; i < TRAINED; i++) {
        char cells[400];
        const row r = make_row(i, false);
        print_row(cells, sizeof cells, &r);
        if (targets == VALUES)
            fprintf(file, "%s,%.3f\n", cells, 1e6 + 100 * r.y);
        else
            fprintf(file, "%s,%s%s\n", cells,
                    r.y < -0.5                       ? "low"
                    : targets == LABELS || r.y > 0.8 ? "high"
                                                     : "middle",
                    targets == CLASSES ? ""
                    : r.y < 0.3        ? ",no"
                                       : ",yes");
    }
    assert_int_equal(fclose(file), 0);
}

/* Makes count, which is a number, a column of known values. */
static void add_entries(void)
{
    static const char *const entries[] = { "3", "-3", "0", "6" };
    et_column_metadata all[COLUMNS + 2];
    et_metadata *found, *made;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_metadata_load(&found, "metadata.json", &error), ET_OK);
    const int count = et_metadata_count(found);
    assert_in_range(count, COLUMNS + 1, COLUMNS + 2);
    for (int i = 0; i < count; i++) {
        all[i] = *et_metadata_at(found, i);
        if (!strcmp(all[i].name, "count")) {
            all[i].entries = entries;
            all[i].entry_count = COUNT(entries);
        }
    }
    if (et_metadata_create(&made, all, count, &error) ||
        et_metadata_save(made, "metadata.json", &error))
        fail_msg("%s", error.text);
    et_metadata_free(made);
    et_metadata_free(found);
}

/* Makes a fraction in count an error. */
static void refuse_fractions(void)
{
    et_schema_field all[COLUMNS + 2];
    et_schema *found, *made;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_schema_load(&found, "schema.yaml", &error), ET_OK);
    const int count = et_schema_count(found);
    assert_in_range(count, COLUMNS + 1, COLUMNS + 2);
    for (int i = 0; i < count; i++) {
        all[i] = *et_schema_at(found, i);
        all[i].fractions = false;
    }
    if (et_schema_create(&made, all, count, &error) || et_schema_save(made, "schema.yaml", &error))
        fail_msg("%s", error.text);
    et_schema_free(made);
    et_schema_free(found);
}

/* Trains a run of its name. more: further options. */
static void train(const char *run, target kind, const char *more)
{
    static const char *const names[] = { "y", "y", "[y, second]" };
    char text[2000];
    snprintf(text, sizeof text, "%s%s}\n", features, names[kind]);
    bad_write_text("features.yaml", text);
    write_table("train.csv", kind);
    bad_end end = succeed("data analyze train.csv --missing -999.5 --output . --force -q");
    bad_release(&end);
    add_entries();
    refuse_fractions();
    end = succeed("train %s --data train.csv --target %s --epochs 3 --seed 3 -q --set "
                  "task.features_path=features.yaml,task.schema_path=schema.yaml,"
                  "task.metadata_path=metadata.json,task.missing=[-999.5] %s",
                  run, kind == LABELS ? "y,second" : "y", more);
    bad_release(&end);
}

/* ---- one model ---- */

typedef struct table {
    row rows[ROWS];
    double numbers[COLUMNS][ROWS];
    const char *texts[ROWS];
} table;

static bool is_missing(const char *cell)
{
    return !*cell || !strcmp(cell, "NA") || !strcmp(cell, "?");
}

/* A program has NaN for no value, and computes times itself; -999.5 stays as it is. */
static double number_of(int column, const char *cell)
{
    int year, month, day, hour, minute;
    if (is_missing(cell))
        return (double)NAN;
    if (column != 8 || !strcmp(cell, "-999.5"))
        return strtod(cell, NULL);
    assert_int_equal(sscanf(cell, "%d-%d-%dT%d:%d", &year, &month, &day, &hour, &minute), 5);
    const int shifted = year - (month < 3);
    const double before =
        365.0 * shifted + floor(shifted / 4.0) - floor(shifted / 100.0) + floor(shifted / 400.0);
    const double days = before + (153 * ((month + 9) % 12) + 2) / 5 + day - 1 - 719468;
    return ((days * 24) + hour) * 3600 + minute * 60;
}

static table *make_table(void)
{
    table *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < ROWS; i++) {
        t->rows[i] = make_row(i, true);
        t->texts[i] = t->rows[i].cell[7];
        for (int k = 0; k < COLUMNS; k++)
            t->numbers[k][i] = k == 7 ? 0 : number_of(k, t->rows[i].cell[k]);
    }
    return t;
}

static void write_raw(const char *model, const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s.%s.raw", model, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Texts of a raw array are lines. */
static void write_lines(const char *model, const char *name, const char *const *texts, int count)
{
    char path[128];
    snprintf(path, sizeof path, "%s.%s.raw", model, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < count; i++)
        fprintf(file, "%s\n", texts[i]);
    assert_int_equal(fclose(file), 0);
}

static evaluated_model *run(const char *model, table *t)
{
    evaluated inputs[COLUMNS];
    char path[64];
    for (int k = 0; k < COLUMNS; k++) {
        inputs[k] = (evaluated){
            columns[k], 2, { ROWS, 1 }, t->numbers[k], k == 7 ? t->texts : NULL, NULL
        };
        if (k == 7)
            write_lines(model, columns[k], t->texts, ROWS);
        else
            write_raw(model, columns[k], t->numbers[k], sizeof t->numbers[k]);
    }
    snprintf(path, sizeof path, "%s.onnx", model);
    return evaluated_open(path, inputs, COLUMNS);
}

static et_predictions *predict(et_predictor *p, const table *t)
{
    static char cells[ROWS][400];
    const char *texts[ROWS];
    et_error error = ET_ERROR_INIT;
    et_predictions *found;
    for (int i = 0; i < ROWS; i++) {
        print_row(cells[i], sizeof cells[i], &t->rows[i]);
        texts[i] = cells[i];
    }
    if (et_predictor_predict(p, texts, ROWS, &found, &error))
        fail_msg("%s", error.text);
    return found;
}

/* scale: of the numbers of output. */
static void compare_numbers(const char *model, const evaluated *found, const et_predictions *wanted,
                            const char *name, double scale)
{
    const int64_t width = found->size[1];
    double *all = calloc((size_t)(ROWS * width), sizeof *all), spread = 0;
    float *narrow = calloc((size_t)(ROWS * width), sizeof *narrow);
    assert_non_null(all);
    assert_non_null(narrow);
    for (int64_t i = 0; i < ROWS * width; i++) {
        all[i] = et_predictions_values(wanted, (size_t)(i / width), 0)[i % width];
        narrow[i] = (float)all[i];
        spread = fmax(spread, fabs(all[i] - all[i % width]));
        if (!(fabs(found->data[i] - all[i]) <= 1e-5 * scale))
            fail_msg("%s: row %d: %.9g and not %.9g", model, (int)(i / width), found->data[i],
                     all[i]);
    }
    assert_true(spread > 0.1 * scale);
    if (scale > 1)
        write_raw(model, name, all, (size_t)(ROWS * width) * sizeof *all);
    else
        write_raw(model, name, narrow, (size_t)(ROWS * width) * sizeof *narrow);
    free(all);
    free(narrow);
}

/* Of classes the label that is predicted; of several targets those that the scores have. */
static void compare_labels(const char *model, const et_predictor *p, const evaluated *found,
                           const et_predictions *wanted)
{
    const int64_t width = found->rank > 1 ? found->size[1] : 1;
    for (int64_t i = 0; i < ROWS * width; i++) {
        const size_t at = (size_t)(i / width);
        const double score = et_predictions_values(wanted, at, 0)[i % width];
        const char *label = p->kind != &et_target_labels
                                ? et_predictions_at(wanted, at).label
                                : p->output[p->target].choice[2 * (i % width) + (score > 0.5)];
        if (strcmp(found->text[i], label) != 0)
            fail_msg("%s: row %zu: %s and not %s", model, at, found->text[i], label);
    }
    write_lines(model, "label", found->text, (int)(ROWS * width));
}

static void check_run(const char *name, const char *output, double scale)
{
    const et_export_options options = { .format = "onnx" };
    et_error error = ET_ERROR_INIT;
    et_predictor *p;
    char path[64];
    table *t = make_table();
    snprintf(path, sizeof path, "%s.onnx", name);
    if (et_predictor_open(&p, name, NULL, &error) || et_predictor_export(p, path, &options, &error))
        fail_msg("%s", error.text);
    evaluated_model *model = run(name, t);
    et_predictions *wanted = predict(p, t);
    compare_numbers(name, evaluated_output(model, output), wanted, output, scale);
    if (!strcmp(output, "probabilities"))
        compare_labels(name, p, evaluated_output(model, "label"), wanted);
    assert_non_null(evaluated_note(model, "targets"));
    et_predictions_free(wanted);
    evaluated_close(model);
    et_predictor_close(p);
    free(t);
}

static void test_onnx_columns__of_classes(void **state)
{
    (void)state;
    train("classes", CLASSES, "--experiment tabular/mlp_small");
    check_run("classes", "probabilities", 1);
}

static void test_onnx_columns__of_values(void **state)
{
    (void)state;
    train("values", VALUES, "--experiment tabular/mlp_small");
    check_run("values", "values", 150);
}

static void test_onnx_columns__of_quantiles(void **state)
{
    (void)state;
    train("quantiles", VALUES, "--experiment tabular/mlp_small --quantiles 0.1,0.5,0.9");
    check_run("quantiles", "quantiles", 150);
}

static void test_onnx_columns__of_labels(void **state)
{
    (void)state;
    train("labels", LABELS, "--experiment tabular/mlp_small");
    check_run("labels", "probabilities", 1);
}

/* Several models are one graph, with the inputs of one. */
static void test_onnx_columns__of_several_models(void **state)
{
    (void)state;
    train("folds", CLASSES, "--experiment tabular/tabm --folds 2");
    check_run("folds", "probabilities", 1);
}

/* Rows that predicting refuses have no label, and numbers that are NaN. */
static void test_onnx_columns__refused_rows(void **state)
{
    (void)state;
    static const struct {
        int column;
        double value;
    } bad[] = { { 0, INFINITY }, { 1, -1 },  { 1, -2.5 }, { 2, 1e300 }, { 3, -INFINITY },
                { 4, INFINITY }, { 6, 1.5 }, { 8, 1e18 }, { 8, -1e12 } };
    table *t = make_table();
    for (size_t i = 0; i < COUNT(bad); i++)
        t->numbers[bad[i].column][3 * i] = bad[i].value;
    evaluated_model *model = run("classes", t);
    const evaluated *label = evaluated_output(model, "label");
    const evaluated *scores = evaluated_output(model, "probabilities");
    for (size_t i = 0; i < 3 * COUNT(bad); i++) {
        if ((i % 3 == 0) != !*label->text[i])
            fail_msg("row %zu: \"%s\"", i, label->text[i]);
        assert_true((i % 3 == 0) == isnan(scores->data[i * (size_t)scores->size[1]]));
    }
    assert_string_equal(evaluated_note(model, "targets"), "[\"y\"]");
    assert_non_null(strstr(evaluated_note(model, "classes"), "\"middle\""));
    evaluated_close(model);
    free(t);
}

/* What ONNX cannot express is refused, with the column and the cure. */
static void test_onnx_columns__refused_transforms(void **state)
{
    (void)state;
    static const struct {
        const char *feature, *column, *why;
    } cases[] = {
        { "{name: f, type: hash, fields: city, transform: {buckets: 7}}",
          "column city: ", "the hash of a value" },
        { "{name: f, type: cross, fields: [count, city], transform: {buckets: 7}}",
          "column count: ", "the hash of a value" },
        { "{name: f, type: words, fields: city, transform: {buckets: 64, words: 4}}",
          "column city: ", "the words of a text" },
        { "{name: f, type: hash, fields: day, transform: {buckets: 7}}\n- {name: g, type: date, "
          "fields: day}",
          "column day: ", "as a date and another as a text" },
    };
    const et_export_options raw = { .format = "onnx" };
    const et_export_options encoded = { .format = "onnx", .inputs = "encoded" };
    write_table("train.csv", CLASSES);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[500], name[16];
        et_error error = ET_ERROR_INIT;
        et_predictor *p;
        snprintf(name, sizeof name, "no%zu", i);
        snprintf(text, sizeof text,
                 "features:\n- %s\n- {name: num, type: standardize}\n- {name: Y, type: target, "
                 "fields: y}\n",
                 cases[i].feature);
        bad_write_text("features.yaml", text);
        bad_end end = succeed("train %s --experiment tabular/linear --data train.csv --target y "
                              "--steps 2 -q --set task.features_path=features.yaml,"
                              "task.missing=[-999.5]",
                              name);
        bad_release(&end);
        assert_int_equal(et_predictor_open(&p, name, NULL, &error), ET_OK);
        assert_int_equal(et_predictor_export(p, "no.onnx", &raw, &error), ET_ECONFIG);
        assert_non_null(strstr(error.text, cases[i].column));
        assert_non_null(strstr(error.text, cases[i].why));
        assert_non_null(strstr(error.text, "--inputs encoded"));
        assert_int_equal(access("no.onnx", F_OK), -1);
        const int status = et_predictor_export(p, "yes.onnx", &encoded, &error);
        assert_true(status == ET_OK || strstr(cases[i].feature, "words"));
        et_predictor_close(p);
    }
}

/* A column with the name of an output. */
static void test_onnx_columns__names(void **state)
{
    (void)state;
    bad_write_text("names.csv",
                   "values,size,y\n1,2,3\n2,5,4\n3,1,5\n4,2,7\n5,2,8\n6,1,9\n7,4,3\n8,1,4\n");
    bad_end end = succeed("train names --experiment tabular/linear --data names.csv --target y "
                          "--steps 2 -q --set task.held_out=0.25");
    bad_release(&end);
    static const struct {
        const char *line;
        int code;
        const char *words;
    } cases[] = {
        { "export names --output names.onnx", 3,
          "column values: another input or output of the model has this name" },
        { "export names --output names.safetensors --inputs raw", 3,
          "inputs raw is for the format onnx" },
        { "export names --output names.onnx --inputs cooked", 2, "cooked" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        end = bad_start(cases[i].line, NULL, NULL);
        assert_int_equal(end.code, cases[i].code);
        assert_non_null(strstr(end.err, cases[i].words));
        bad_release(&end);
        assert_int_equal(access("names.onnx", F_OK), -1);
    }
    end = succeed("export names --output names.onnx --inputs encoded");
    bad_release(&end);
}

/* Runs the files of the cases before. */
static void test_onnx_columns__runtime(void **state)
{
    (void)state;
    static const char *const models[] = { "classes", "values", "quantiles", "labels", "folds" };
    const char *peers = getenv("ET_PEERS");
    char python[512], line[1200];
    snprintf(python, sizeof python, "%s/bin/python", peers ? peers : ET_TEST_BUILD "/peers/venv");
    snprintf(line, sizeof line, "'%s' -c 'import onnxruntime' 2>/dev/null", python);
    if (access(python, X_OK) || system(line))
        test_skip("no onnxruntime; bench/peers/setup build/peers/venv onnx");
    for (size_t i = 0; i < COUNT(models); i++) {
        snprintf(line, sizeof line, "'%s' '%s/tests/engine/onnx/run_onnx.py' %s int64 1e-5", python,
                 ET_TEST_SOURCE, models[i]);
        if (system(line))
            fail_msg("%s: ONNX Runtime computes something else, or nothing", models[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_columns__of_classes),
        cmocka_unit_test(test_onnx_columns__of_values),
        cmocka_unit_test(test_onnx_columns__of_quantiles),
        cmocka_unit_test(test_onnx_columns__of_labels),
        cmocka_unit_test(test_onnx_columns__of_several_models),
        cmocka_unit_test(test_onnx_columns__runtime),
        cmocka_unit_test(test_onnx_columns__refused_rows),
        cmocka_unit_test(test_onnx_columns__refused_transforms),
        cmocka_unit_test(test_onnx_columns__names),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
