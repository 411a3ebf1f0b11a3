/* Models of tables as ONNX: missing and unknown values must be written as doc/reference/formats.md
 * says, for every kind of feature, and give the values of predicting. The files are computed by
 * evaluate.c and, if it is installed, by ONNX Runtime. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include <etude/metadata.h>
#include <etude/model_export.h>

#include "base/alloc.h"
#include "base/numbers/philox.h"
#include "command/bad_case.h"
#include "engine/onnx/evaluate.h"
#include "skip.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/succeed.h"

enum { ROWS = 200, CELLS = 12, COLUMNS = 40, IDS = 3 };

static const char *const columns[CELLS] = { "num", "lg",     "sc",   "qu",   "buck", "hot",
                                            "emb", "hashed", "cone", "ctwo", "day",  "y" };
static const char *const features =
    "features:\n"
    "- {name: X, type: concat, features: [{name: num, type: standardize}, {name: lg, type: log}, "
    "{name: sc, type: scale}, {name: qu, type: quantile}, {name: buck, type: bucketize, transform: "
    "{boundaries: [2, 5]}}, {name: hot, type: one-hot}, {name: day, type: date}, {name: gone, "
    "type: "
    "missing, fields: num}, {name: raw, type: identity, fields: sc}]}\n"
    "- {name: ids, type: concat, features: [{name: emb, type: embed}, {name: hashed, type: hash, "
    "transform: {buckets: 7}}, {name: crossed, type: cross, fields: [cone, ctwo], transform: "
    "{buckets: 11}}]}\n"
    "- {name: Y, type: target, fields: ";

/* What the targets are: 1e9 +- 100, three classes, or two of two classes. */
typedef enum target {
    VALUES,
    CLASSES,
    LABELS,
} target;

/* Letters of a, b, c and targets. */
static void write_table(const char *path, target targets)
{
    et_random random = { 9, 0, 1 };
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < CELLS; i++)
        fprintf(file, "%s%s", i ? "," : "", columns[i]);
    fputs(targets == LABELS ? ",second" : "", file);
    for (int i = 0; i < ROWS; i++) {
        double x = (double)et_random_normal(random, (uint64_t)(2 * i));
        int k = (int)(et_random_uniform(random, (uint64_t)(2 * i + 1)) * 81);
        fprintf(file, "\n%.3f,%.3f,%.2f,%.3f,%.2f,%c,%c,%c,%c,%c,2024-0%d-1%d,", x, fabs(x) + i % 3,
                k / 9.0, x * x, k % 7 + 0.5, 'u' + k % 3, 'a' + k / 3 % 3, 'x' + k / 9 % 3,
                'm' + k % 2, 'o' + i % 2, 1 + i % 9, i % 8);
        if (targets == LABELS)
            fprintf(file, "%c,%s", "pq"[x > 0.5], k % 2 ? "yes" : "no");
        else if (targets == CLASSES)
            fprintf(file, "%c", "pqr"[x > 0.5 ? 0 : x > -0.5 ? k % 2 + 1 : 2]);
        else
            fprintf(file, "%.3f", 1e9 + 100 * x + 30 * (k / 3 % 3));
    }
    fputc('\n', file);
    assert_int_equal(fclose(file), 0);
}

/* ---- a row, as text and encoded ---- */

static const char *const usual[CELLS - 1] = { "0.5", "1.5", "3", "0.2", "3",         "v",
                                              "b",   "y",   "m", "o",   "2024-03-12" };

typedef struct row {
    char text[400];    /* for predicting */
    double x[COLUMNS]; /* [width of X] */
    double ids[IDS];
} row;

typedef struct table {
    et_predictor *predictor;
    const et_encoded_field *x, *ids;
    row rows[64];
    int count;
} table;

static const et_encoder *encoder_of(const table *t)
{
    return t->predictor->model->encoder;
}

/* The usual row except for one cell, whose text may be NULL. The caller then applies the document's
 * rule for it. */
static row *add(table *t, int column, const char *text)
{
    et_cell cells[CELLS + 1] = { { NULL, 0 } };
    float x[COLUMNS];
    int32_t ids[IDS];
    void *const to[] = { x, ids, NULL, NULL };
    et_error error = ET_ERROR_INIT;
    assert_true(t->count < (int)COUNT(t->rows));
    row *r = &t->rows[t->count++];
    r->text[0] = 0;
    for (int i = 0; i < CELLS - 1; i++) {
        const char *cell = i == column ? text : usual[i];
        cells[i] = (et_cell){ cell, cell ? strlen(cell) : 0 };
        strcat(strcat(r->text, cell ? cell : ""), i < CELLS - 2 ? "," : "");
    }
    if (et_encoder_row(encoder_of(t), cells, to, NULL, &error))
        fail_msg("%s", error.text);
    for (int64_t k = 0; k < t->x->width; k++)
        r->x[k] = (double)x[k];
    for (int64_t k = 0; k < t->ids->width; k++)
        r->ids[k] = ids[k];
    return r;
}

static void put_nan(const table *t, row *r, const char *column)
{
    bool any = false;
    for (int64_t k = 0; k < t->x->width; k++)
        if (strstr(t->x->column[k], column)) {
            r->x[k] = (double)NAN;
            any = true;
        }
    assert_true(any);
}

static int place_of(const char *column)
{
    int place = 0;
    while (strcmp(columns[place], column) != 0)
        place++;
    return place;
}

static int entries_of(const table *t, const char *column)
{
    return et_metadata_find(t->predictor->model->texts.metadata, column)->entry_count;
}

/* A missing number is NaN, in all of its columns. */
static void add_numbers(table *t)
{
    static const char *const all[] = { "num", "lg", "sc", "qu", "buck", "hot", "day" };
    for (size_t i = 0; i < COUNT(all); i++)
        put_nan(t, add(t, place_of(all[i]), NULL), all[i]);
    /* Beyond what training had, and a text that it had not: the last of the columns. */
    for (int i = 0; i < 5; i++)
        add(t, i, "70");
    row *r = add(t, place_of("hot"), "never");
    int64_t first = 0, count = entries_of(t, "hot") + 1;
    while (!strstr(t->x->column[first], "hot"))
        first++;
    for (int64_t k = first; k < first + count; k++)
        assert_true(r->x[k] == (k == first + count - 1));
}

/* An id is the place among the entries, their number if the value is unknown, -1 if it is missing;
 * for other kinds, a missing value counts as unknown. */
static void add_ids(table *t)
{
    static const double beyond[] = { 1e6, 2147483647, -2, -9e15, 9e15 };
    const int emb = place_of("emb"), count = entries_of(t, "emb");
    assert_int_equal(count, 3);
    for (int i = 0; i < count; i++) {
        row *r =
            add(t, emb, et_metadata_find(t->predictor->model->texts.metadata, "emb")->entries[i]);
        assert_true(r->ids[0] == i);
    }
    add(t, emb, NULL)->ids[0] = -1;
    row *unknown = add(t, emb, "never");
    assert_true(unknown->ids[0] == count);
    add(t, emb, "never")->ids[0] = count + 1;
    for (size_t i = 0; i < COUNT(beyond); i++)
        add(t, emb, "never")->ids[0] = beyond[i];
    /* Hashes accept any value; only missing ones have a special id. */
    add(t, place_of("hashed"), "never");
    add(t, place_of("hashed"), NULL)->ids[1] = -1;
    for (size_t i = 0; i < COUNT(beyond); i++)
        add(t, place_of("hashed"), NULL)->ids[1] = beyond[i];
    add(t, place_of("cone"), NULL);
    row *r = add(t, place_of("cone"), "m");
    r->ids[2] = -1;
    /* "m,o" of the text to ",": both are missing */
    char *crossed = strstr(r->text, ",m,o,");
    assert_non_null(crossed);
    memmove(crossed, ",,,", 3);
    memmove(crossed + 3, crossed + 5, strlen(crossed + 5) + 1);
}

/* ---- both ---- */

static void write_raw(const char *model, const char *name, const double *data, size_t count,
                      char kind)
{
    char path[128];
    snprintf(path, sizeof path, "%s.%s.raw", model, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++) {
        const float narrow = (float)data[i];
        const int64_t whole = kind == 'i' ? (int64_t)data[i] : 0;
        size_t done = kind == 'f'   ? fwrite(&narrow, sizeof narrow, 1, file)
                      : kind == 'i' ? fwrite(&whole, sizeof whole, 1, file)
                                    : fwrite(&data[i], sizeof *data, 1, file);
        assert_int_equal(done, 1);
    }
    assert_int_equal(fclose(file), 0);
}

static void predict(const table *t, double *to, int64_t width)
{
    const char *texts[COUNT(t->rows)];
    et_error error = ET_ERROR_INIT;
    et_predictions *found;
    for (int i = 0; i < t->count; i++)
        texts[i] = t->rows[i].text;
    if (et_predictor_predict(t->predictor, texts, (size_t)t->count, &found, &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < t->count; i++)
        memcpy(to + i * width, et_predictions_values(found, (size_t)i, 0),
               (size_t)width * sizeof *to);
    et_predictions_free(found);
}

static void compare(const table *t, const char *model)
{
    const et_table_output *output = &t->predictor->output[0];
    const int64_t width = output->width, wide = t->x->width;
    double x[COUNT(t->rows) * COLUMNS], ids[COUNT(t->rows) * IDS], wanted[COUNT(t->rows) * 4];
    char path[64];
    for (int i = 0; i < t->count; i++) {
        memcpy(x + i * wide, t->rows[i].x, (size_t)wide * sizeof *x);
        memcpy(ids + i * IDS, t->rows[i].ids, IDS * sizeof *ids);
    }
    const evaluated inputs[] = {
        { .name = "X", .rank = 2, .size = { t->count, wide }, .data = x },
        { .name = "ids", .rank = 2, .size = { t->count, IDS }, .data = ids }
    };
    snprintf(path, sizeof path, "%s.onnx", model);
    evaluated found = evaluate(path, inputs, 2);
    assert_int_equal(found.rank, 2);
    assert_true(found.size[0] == t->count && found.size[1] == width);
    predict(t, wanted, width);
    const double scale = t->predictor->model->unit_count ? 200 : 1;
    double spread = 0;
    for (int64_t i = 0; i < t->count * width; i++) {
        spread = fmax(spread, fabs(wanted[i] - wanted[i % width]));
        if (!(fabs(found.data[i] - wanted[i]) <= 1e-4 * scale))
            fail_msg("%s: \"%s\": %.9g and not %.9g", model, t->rows[i / width].text, found.data[i],
                     wanted[i]);
    }
    assert_true(spread > 0.01 * scale); /* the values matter */
    write_raw(model, "X", x, (size_t)(t->count * wide), 'f');
    write_raw(model, "ids", ids, (size_t)t->count * IDS, 'i');
    write_raw(model, output->name, wanted, (size_t)(t->count * width), scale > 1 ? 'd' : 'f');
    free(found.data);
}

static void check_run(const char *run)
{
    static table t;
    char path[64];
    et_error error = ET_ERROR_INIT;
    const et_export_options options = { .format = "onnx", .inputs = "encoded" };
    t = (table){ .count = 0 };
    if (et_predictor_open(&t.predictor, run, NULL, &error))
        fail_msg("%s", error.text);
    t.x = et_encoder_field(encoder_of(&t), 0);
    t.ids = et_encoder_field(encoder_of(&t), 1);
    assert_true(t.x->width <= COLUMNS && t.ids->width == IDS);
    add(&t, -1, NULL);
    add_numbers(&t);
    add_ids(&t);
    snprintf(path, sizeof path, "%s.onnx", run);
    if (et_predictor_export(t.predictor, path, &options, &error))
        fail_msg("%s", error.text);
    compare(&t, run);
    et_predictor_close(t.predictor);
}

#define TRAIN_ON(data)                                                                             \
    "train %s --experiment tabular/mlp_small --data " data " --target y --epochs 8 --seed 3 -q "   \
    "--set task.features_path=features.yaml"

static void write_features(const char *targets)
{
    char text[1200];
    snprintf(text, sizeof text, "%s%s}\n", features, targets);
    bad_write_text("features.yaml", text);
}

static void test_onnx_tables__as_predict(void **state)
{
    (void)state;
    write_features("y");
    write_table("values.csv", VALUES);
    write_table("classes.csv", CLASSES);
    bad_end end = succeed(TRAIN_ON("values.csv"), "values");
    bad_release(&end);
    check_run("values");
    end = succeed(TRAIN_ON("classes.csv"), "classes");
    bad_release(&end);
    check_run("classes");
}

#define SEVERAL(experiment, data, more)                                                            \
    "train %s --experiment " experiment " --data " data " --target y --epochs 2 --seed 3 -q "      \
    "--set task.features_path=features.yaml " more

/* A weighted mean of several models is one graph. */
static void test_onnx_tables__of_several_models(void **state)
{
    (void)state;
    bad_end end = succeed(SEVERAL("tabular/mlp", "values.csv", "--folds 2"), "folds");
    bad_release(&end);
    check_run("folds");
    end = succeed(SEVERAL("tabular/tabm", "classes.csv", "--folds 2"), "classfolds");
    bad_release(&end);
    check_run("classfolds");
    end = succeed(SEVERAL("tabular/auto", "values.csv", "--set task.held_out=0.2"), "search");
    bad_release(&end);
    check_run("search");
}

/* Quantiles, of one model and of members, and targets of two classes each. */
static void test_onnx_tables__of_several_numbers(void **state)
{
    (void)state;
    bad_end end =
        succeed(SEVERAL("tabular/mlp", "values.csv", "--quantiles 0.1,0.5,0.9"), "quantiles");
    bad_release(&end);
    check_run("quantiles");
    end = succeed(SEVERAL("tabular/tabm", "values.csv", "--quantiles 0.3,0.4"), "members");
    bad_release(&end);
    check_run("members");
    write_features("[y, second]");
    write_table("labels.csv", LABELS);
    end = succeed("train labels --experiment tabular/mlp --data labels.csv --target second,y "
                  "--epochs 8 --seed 3 -q --set task.features_path=features.yaml");
    bad_release(&end);
    check_run("labels");
    write_features("y");
}

/* The schema has a replacement for a missing value, and a required value. */
static void test_onnx_tables__defaults(void **state)
{
    (void)state;
    write_features("y");
    bad_write_text("schema.yaml", "fields:\n"
                                  "- {name: num, type: real, default: 2.5}\n"
                                  "- {name: lg, type: real}\n- {name: sc, type: real}\n"
                                  "- {name: qu, type: real}\n- {name: buck, type: real}\n"
                                  "- {name: hot, type: discrete, default: w}\n"
                                  "- {name: emb, type: discrete, default: c}\n"
                                  "- {name: hashed, type: discrete, default: z}\n"
                                  "- {name: cone, type: discrete}\n"
                                  "- {name: ctwo, type: discrete}\n"
                                  "- {name: day, type: discrete}\n- {name: y, type: real}\n");
    write_table("values.csv", VALUES);
    bad_end end = succeed(TRAIN_ON("values.csv") ",task.schema_path=schema.yaml", "defaults");
    bad_release(&end);
    static table t;
    et_error error = ET_ERROR_INIT;
    const et_export_options options = { .format = "onnx", .inputs = "encoded" };
    t = (table){ .count = 0 };
    assert_int_equal(et_predictor_open(&t.predictor, "defaults", NULL, &error), ET_OK);
    t.x = et_encoder_field(encoder_of(&t), 0);
    t.ids = et_encoder_field(encoder_of(&t), 1);
    add(&t, -1, NULL);
    put_nan(&t, add(&t, place_of("num"), NULL), "num");
    put_nan(&t, add(&t, place_of("hot"), NULL), "hot");
    add(&t, place_of("emb"), NULL)->ids[0] = -1;
    add(&t, place_of("emb"), "c")->ids[0] = -1; /* the same */
    add(&t, place_of("hashed"), NULL)->ids[1] = -1;
    assert_int_equal(et_predictor_export(t.predictor, "defaults.onnx", &options, &error), ET_OK);
    compare(&t, "defaults");
    et_predictor_close(t.predictor);
}

/* Runs the files of the cases before. */
static void test_onnx_tables__runtime(void **state)
{
    (void)state;
    static const char *const models[] = { "values",     "classes",   "defaults", "folds", "search",
                                          "classfolds", "quantiles", "members",  "labels" };
    const char *peers = getenv("ET_PEERS");
    char python[512], line[1200];
    snprintf(python, sizeof python, "%s/bin/python", peers ? peers : ET_TEST_BUILD "/peers/venv");
    snprintf(line, sizeof line, "'%s' -c 'import onnxruntime' 2>/dev/null", python);
    if (access(python, X_OK) || system(line))
        test_skip("no onnxruntime; bench/peers/setup build/peers/venv onnx");
    for (size_t i = 0; i < COUNT(models); i++) {
        snprintf(line, sizeof line, "'%s' '%s/tests/engine/onnx/run_onnx.py' %s int64", python,
                 ET_TEST_SOURCE, models[i]);
        if (system(line))
            fail_msg("%s: ONNX Runtime computes something else, or nothing", models[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_tables__as_predict),
        cmocka_unit_test(test_onnx_tables__of_several_models),
        cmocka_unit_test(test_onnx_tables__of_several_numbers),
        cmocka_unit_test(test_onnx_tables__defaults),
        cmocka_unit_test(test_onnx_tables__runtime),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
