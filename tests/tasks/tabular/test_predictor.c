#include "tasks/tabular/points.h"

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <sys/wait.h>

#include <etude/model_export.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/scarce.h"

static char job[64];

/* A model for all cases. */
static int train(void **state)
{
    et_error error = ET_ERROR_INIT;
    (void)state;
    strcpy(job, "job.XXXXXX");
    assert_non_null(mkdtemp(job));
    et_table_set *dataset =
        open_points(POINTS_FEATURES "  - {name: who, type: key, fields: side}\n", 2);
    et_arguments *args =
        parse_arguments(&et_feed_forward_arguments_class,
                        ARGS("--hidden-layers:1", "16", "--learning-rate", "0.2", "--max-steps",
                             "400", "--batch-size", "32", "--log-level", "ERROR"));
    const et_training_job given = { .output = job };
    et_model_builder builder;
    et_model_trainer *trainer;
    et_job_config *config;
    et_predictor *p;
    ok(et_job_config_local(&config, &error), &error);
    ok(et_model_trainer_new(&trainer, config, &error), &error);
    ok(et_model_builder_init(&builder, &et_feed_forward_builder, args, dataset, &error), &error);
    ok(et_model_trainer_train(trainer, &builder, &given, &p, &error), &error);
    et_predictor_close(p);
    et_model_trainer_free(trainer);
    et_job_config_free(config);
    et_model_builder_release(&builder);
    et_arguments_free(args);
    et_table_set_close(dataset);
    return 0;
}

static int remove_job(void **state)
{
    (void)state;
    remove_tree(job);
    return 0;
}

static et_predictor *open_model(const et_predictor_options *options)
{
    et_error error = ET_ERROR_INIT;
    et_predictor *p;
    char path[128];
    snprintf(path, sizeof path, "%s/model", job);
    ok(et_predictor_open(&p, path, options, &error), &error);
    return p;
}

static void test_predictor__facts(void **state)
{
    (void)state;
    et_predictor *p = open_model(NULL);
    assert_int_equal(et_predictor_facts(p)->outputs, 1);
    assert_string_equal(et_predictor_facts(p)->output[0].name, "scores");
    assert_int_equal(et_predictor_facts(p)->output[0].width, 2);
    assert_int_equal(et_predictor_facts(p)->labels, 2);
    assert_string_equal(et_predictor_facts(p)->label[1], "below");
    assert_int_equal(et_schema_count(et_predictor_facts(p)->schema), 3);
    assert_true(et_predictor_facts(p)->step > 0);
    assert_contains(et_predictor_facts(p)->checkpoint, "/model/model.safetensors");
    et_predictor_close(p);
    et_predictor_close(NULL);
}

static void test_predictor__rows(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_predictions *found;
    et_predictor *p = open_model(NULL);
    assert_true(right_points(p) >= 72);
    /* With the target and without it, in one call. */
    static const char *const rows[] = { "0.1,0.2", "0.1,0.2,above", "0.1,0.2,", "0.9,0.8,what",
                                        "\"0.9\",0.8" };
    static const char *const keys[] = { NULL, "above", NULL, "what", NULL };
    ok(et_predictor_predict(p, rows, COUNT(rows), &found, &error), &error);
    assert_int_equal(et_predictions_count(found), COUNT(rows));
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_prediction one = et_predictions_at(found, i);
        assert_string_equal(one.label, i < 3 ? "below" : "above");
        assert_int_equal(one.label_index, i < 3);
        assert_null(one.failure);
        if (keys[i])
            assert_string_equal(one.key, keys[i]);
        else
            assert_null(one.key);
        assert_memory_equal(one.output[0], et_predictions_at(found, i < 3 ? 0 : 3).output[0],
                            2 * sizeof(float));
        assert_float_equal(one.output[0][0] + one.output[0][1], 1, 1e-6);
    }
    assert_null(et_predictions_at(found, COUNT(rows)).label);
    et_predictions_free(found);
    ok(et_predictor_predict(p, NULL, 0, &found, &error), &error);
    assert_int_equal(et_predictions_count(found), 0);
    et_predictions_free(found);
    assert_int_equal(et_predictor_predict(NULL, rows, 1, &found, NULL), ET_EUSAGE);
    et_predictions_free(NULL);
    et_predictor_close(p);
}

static void test_predictor__bad_rows(void **state)
{
    (void)state;
    static const struct {
        const char *row, *says;
    } cases[] = {
        { "0.1", "row 2: the text:1: 1 column, but the schema has 3, or 2 without the target" },
        { "0.1,0.2,above,more", "4 columns" },
        { "0.1,wide", "row 2" },
        { "", "the row is empty" },
        { "0.1,\"0.2", "quote" },
        { "0.1,0.2\n0.3,0.4", "more than one row" },
        { "0.1,0.\xff", "UTF-8" },
        { "1e999,0.2", "row 2" },
        { "3e38,3e38",
          "row 2: the model's scores for this row are not numbers: a value in the row" },
        { NULL, "the row is NULL" },
    };
    et_predictor *p = open_model(NULL);
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_error error = ET_ERROR_INIT;
        et_predictions *found;
        const char *rows[] = { "0.1,0.2", cases[i].row, "0.9,0.8" };
        et_predictor_set_lenient(p, false);
        assert_int_equal(et_predictor_predict(p, rows, 3, &found, &error), ET_EDATA);
        assert_null(found);
        assert_contains(error.text, cases[i].says);
        et_predictor_set_lenient(p, true);
        ok(et_predictor_predict(p, rows, 3, &found, &error), &error);
        et_prediction bad = et_predictions_at(found, 1);
        assert_contains(bad.failure, cases[i].says);
        assert_true(!bad.label && !bad.output && bad.label_index == -1);
        assert_string_equal(et_predictions_at(found, 0).label, "below");
        assert_string_equal(et_predictions_at(found, 2).label, "above");
        et_predictions_free(found);
    }
    et_predictor_close(p);
}

static void test_predictor__cells(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_predictions *found;
    et_predictor *p = open_model(NULL);
    const et_named_cell cells[] = {
        { "y", "0.2" }, { "x", "0.1" }, { "y", "0.8" }, { "x", "0.9" }
    };
    ok(et_predictor_predict_cells(p, cells, 2, 2, &found, &error), &error);
    assert_string_equal(et_predictions_at(found, 0).label, "below");
    assert_string_equal(et_predictions_at(found, 1).label, "above");
    et_predictions_free(found);
    const et_named_cell missing[] = { { "x", NULL }, { "side", "above" } };
    ok(et_predictor_predict_cells(p, missing, 2, 1, &found, &error), &error);
    assert_non_null(et_predictions_at(found, 0).label);
    et_predictions_free(found);
    const et_named_cell unknown[] = { { "sid", "above" } };
    assert_int_equal(et_predictor_predict_cells(p, unknown, 1, 1, &found, &error), ET_ECONFIG);
    assert_contains(error.text, "the model has no column sid. Nearest: side");
    const et_named_cell mixed[] = { { "x", "1" }, { "y", "1" } };
    assert_int_equal(et_predictor_predict_cells(p, mixed, 1, 2, &found, &error), ET_ECONFIG);
    assert_contains(error.text, "row 2, cell 1 is column y, but in row 1 it is x");
    const et_named_cell twice[] = { { "x", "1" }, { "x", "2" } };
    assert_int_equal(et_predictor_predict_cells(p, twice, 2, 1, &found, &error), ET_ECONFIG);
    assert_contains(error.text, "two cells are of column x");
    assert_int_equal(et_predictor_predict_cells(p, NULL, 0, 1, &found, &error), ET_EDATA);
    et_predictor_close(p);
}

/* A row's bits depend on no other row, and on no size of batch. */
static void test_predictor__alone_and_together(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1, 3, 16, 100 };
    et_error error = ET_ERROR_INIT;
    et_predictions *all, *one;
    et_predictor *p = open_model(NULL);
    write_rows();
    ok(et_predictor_predict(p, points_rows, POINTS_EVAL, &all, &error), &error);
    for (size_t i = 0; i < POINTS_EVAL; i += 13) {
        ok(et_predictor_predict(p, points_rows + i, 1, &one, &error), &error);
        assert_memory_equal(et_predictions_at(one, 0).output[0],
                            et_predictions_at(all, i).output[0], 2 * sizeof(float));
        et_predictions_free(one);
    }
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const et_predictor_options options = { .batch_size = sizes[k], .shares = p };
        et_predictor *other;
        ok(et_predictor_open(&other, NULL, &options, &error), &error);
        ok(et_predictor_predict(other, points_rows, POINTS_EVAL, &one, &error), &error);
        for (size_t i = 0; i < POINTS_EVAL; i++)
            assert_float_equal(et_predictions_at(one, i).output[0][0],
                               et_predictions_at(all, i).output[0][0], 1e-6);
        et_predictions_free(one);
        et_predictor_close(other);
    }
    et_predictions_free(all);
    et_predictor_close(p);
}

typedef struct reader {
    et_predictor *p;
    float first[POINTS_EVAL];
    int status;
} reader;

static void *predict_often(void *payload)
{
    reader *r = payload;
    et_predictions *found;
    for (int round = 0; round < 20 && !r->status; round++) {
        r->status = et_predictor_predict(r->p, points_rows, POINTS_EVAL, &found, NULL);
        for (size_t i = 0; !r->status && i < POINTS_EVAL; i++)
            r->first[i] = et_predictions_at(found, i).output[0][0];
        if (!r->status)
            et_predictions_free(found);
    }
    return NULL;
}

/* Threads with a predictor each, which share weights. */
static void test_predictor__threads(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    static reader readers[3];
    pthread_t threads[3];
    write_rows();
    readers[0].p = open_model(NULL);
    for (int i = 1; i < 3; i++) {
        const et_predictor_options options = { .shares = readers[0].p };
        ok(et_predictor_open(&readers[i].p, NULL, &options, &error), &error);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, predict_often, &readers[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].status, ET_OK);
        assert_memory_equal(readers[i].first, readers[0].first, sizeof readers[0].first);
    }
    for (int i = 2; i >= 0; i--)
        et_predictor_close(readers[i].p);
}

/* With the parent's predictor, one of its own and one of a thread of its own. */
static int predict_in_child(reader *first, const float *wanted)
{
    reader own = { .p = NULL }, other = { .p = NULL };
    pthread_t thread;
    alarm(60);
    omp_set_num_threads(3); /* as a program may that does not know where it runs */
    predict_often(first);
    own.p = open_model(NULL);
    predict_often(&own);
    other.p = open_model(&(et_predictor_options){ .batch_size = 256 });
    if (pthread_create(&thread, NULL, predict_often, &other))
        return 3;
    pthread_join(thread, NULL);
    if (first->status || own.status || other.status)
        return 1;
    if (memcmp(first->first, wanted, sizeof first->first) ||
        memcmp(own.first, wanted, sizeof own.first) ||
        memcmp(other.first, wanted, sizeof other.first))
        return 2;
    et_predictor_close(own.p);
    et_predictor_close(other.p);
    et_predictor_close(first->p);
    return 0;
}

/* A process forks with a predictor that was opened, or used, by several threads. */
static void test_predictor__forked(void **state)
{
    (void)state;
    static reader alone, r;
    const int threads = omp_get_max_threads();
    write_rows();
    alone.p = open_model(NULL);
    predict_often(&alone);
    assert_int_equal(alone.status, ET_OK);
    et_predictor_close(alone.p);
    omp_set_num_threads(3);
    for (int used = 0; used < 2; used++) {
        int status;
        r.p = open_model(NULL);
        if (used)
            predict_often(&r);
        pid_t child = fork();
        if (!child)
            _exit(predict_in_child(&r, alone.first));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        predict_often(&r); /* the parent goes on as before */
        assert_int_equal(omp_get_max_threads(), 3);
        assert_memory_equal(r.first, alone.first, sizeof r.first);
        et_predictor_close(r.p);
    }
    omp_set_num_threads(threads);
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_predictor__export(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_predictor *p, *again;
    char path[128];
    ok(et_predictor_open(&p, job, NULL, &error), &error); /* the run itself */
    assert_contains(et_predictor_facts(p)->checkpoint, "/best/");
    snprintf(path, sizeof path, "%s/deep/export", job);
    ok(et_predictor_export(p, path, NULL, &error), &error);
    assert_int_equal(et_predictor_export(p, path, NULL, &error), ET_ECONFIG);
    assert_contains(error.text, "schema.yaml exists: choose another directory, or remove it");
    assert_int_equal(et_predictor_export(p, "", NULL, &error), ET_ECONFIG);
    const et_export_options measured = { .source_text = "a.en", .target_text = "a.de" };
    assert_int_equal(et_predictor_export(p, "m.safetensors", &measured, &error), ET_ECONFIG);
    assert_contains(error.text, "a.en is for the format bergamot");
    ok(et_predictor_open(&again, path, NULL, &error), &error);
    assert_int_equal(right_points(again), right_points(p));
    assert_int_equal(et_predictor_facts(again)->step, et_predictor_facts(p)->step);
    et_predictor_close(p);
    /* Files that were changed meanwhile are not taken for those that were opened: these are kept.
     */
    write_file(path, "features.yaml",
               "features: [{name: X, type: concat, features: [{name: x}, "
               "{name: y}]}, {name: Y, type: target, fields: side}]");
    snprintf(path, sizeof path, "%s/other", job);
    ok(et_predictor_export(again, path, NULL, &error), &error);
    ok(et_predictor_open(&p, path, NULL, &error), &error);
    assert_int_equal(right_points(p), right_points(again));
    et_predictor_close(p);
    et_predictor_close(again);
}

static void assert_same_scores(et_predictor *one, et_predictor *other, float within)
{
    et_error error = ET_ERROR_INIT;
    et_predictions *left, *right;
    write_rows();
    ok(et_predictor_predict(one, points_rows, 20, &left, &error), &error);
    ok(et_predictor_predict(other, points_rows, 20, &right, &error), &error);
    for (size_t i = 0; i < 20; i++) {
        const float *a = et_predictions_at(left, i).output[0];
        const float *b = et_predictions_at(right, i).output[0];
        for (int k = 0; k < et_predictor_facts(one)->output[0].width; k++)
            assert_true(fabsf(a[k] - b[k]) <= within);
    }
    et_predictions_free(left);
    et_predictions_free(right);
}

/* One file, and its bytes; stored narrower nearly the same. */
static void test_predictor__one_file(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_predictor *p = open_model(NULL), *file, *memory;
    char path[128];
    snprintf(path, sizeof path, "%s/one.safetensors", job);
    ok(et_predictor_export(p, path, NULL, &error), &error);
    ok(et_predictor_open(&file, path, NULL, &error), &error);
    assert_string_equal(et_predictor_facts(file)->checkpoint, path);
    assert_int_equal(et_predictor_facts(file)->step, et_predictor_facts(p)->step);
    assert_same_scores(p, file, 0);
    et_predictor_close(file);
    size_t length;
    char *bytes;
    ok(et_file_read(&bytes, &length, path, 1 << 20, &error), &error);
    ok(et_predictor_open_memory(&memory, bytes, length, NULL, &error), &error);
    assert_same_scores(p, memory, 0);
    et_predictor_close(memory);
    for (size_t i = 0; i < length; i += 1 + length / 97) {
        bytes[i] ^= 1;
        assert_int_not_equal(et_predictor_open_memory(&memory, bytes, length, NULL, NULL), ET_OK);
        assert_null(memory);
        bytes[i] ^= 1;
        assert_int_not_equal(et_predictor_open_memory(&memory, bytes, i, NULL, NULL), ET_OK);
    }
    et_free(bytes);
    const et_export_options small = { .precision = "int8" };
    ok(et_predictor_export(p, path, &small, &error), &error);
    ok(et_predictor_open(&file, path, NULL, &error), &error);
    assert_same_scores(p, file, 0.05f);
    et_predictor_close(file);
    const et_predictor_options named = { .checkpoint = "best" };
    assert_int_equal(et_predictor_open(&file, path, &named, &error), ET_ECONFIG);
    et_predictor_close(p);
}

/* Memory that ends anywhere on the way from a directory to predictions. */
static void test_predictor__out_of_memory(void **state)
{
    (void)state;
    char path[128];
    bool failed = true;
    snprintf(path, sizeof path, "%s/model", job);
    write_rows();
    for (long n = 0; failed; n += 1 + n / 25) {
        et_error error = ET_ERROR_INIT;
        et_predictor *p;
        et_predictions *found = NULL;
        const et_named_cell cells[] = { { "y", "0.2" }, { "x", "0.1" } };
        scarce_begin(n);
        int status =
            et_predictor_open(&p, path, &(et_predictor_options){ .batch_size = 8 }, &error);
        if (!status)
            status = et_predictor_predict(p, points_rows, 20, &found, &error);
        et_predictions_free(found);
        found = NULL;
        if (!status)
            status = et_predictor_predict_cells(p, cells, 2, 1, &found, &error);
        et_predictions_free(found);
        et_predictor_close(p);
        failed = scarce_failed;
        scarce_end();
        if (status != (failed ? ET_ENOMEM : ET_OK))
            fail_msg("allocation %ld: %d, %s", n, status, error.text);
    }
}

static void *predict_one(void *payload)
{
    static const char *const rows[] = { "1,2" };
    static const et_named_cell cell = { "x", "1" };
    et_predictions *found;
    et_predictor *p = ((void **)payload)[0];
    int *status = ((void **)payload)[1];
    status[0] = et_predictor_predict(p, rows, 1, &found, NULL);
    status[1] = et_predictor_predict_cells(p, &cell, 1, 1, &found, NULL);
    return NULL;
}

/* A thread that did not open it may have less than it needs. */
static void test_predictor__small_stack(void **state)
{
    (void)state;
    const size_t small = (size_t)128 << 10;
    int status[2] = { 0 };
    et_predictor *p = open_model(NULL);
    void *payload[] = { p, status };
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (!pthread_attr_setstacksize(&attributes, small)) {
        assert_int_equal(pthread_create(&thread, &attributes, predict_one, payload), 0);
        pthread_join(thread, NULL);
        assert_int_equal(status[0], ET_EUSAGE);
        assert_int_equal(status[1], ET_EUSAGE);
    }
    pthread_attr_destroy(&attributes);
    et_predictor_close(p);
}

static void test_predictor__refused(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_predictor *p = open_model(NULL), *other;
    const struct {
        const char *directory;
        et_predictor_options options;
        int status;
        const char *says;
    } cases[] = {
        { NULL, { 0 }, ET_ECONFIG, "the directory of the model is NULL" },
        { "nowhere", { 0 }, ET_ENOTFOUND, "nowhere: no such directory; name a run" },
        { ".",
          { 0 },
          ET_ENOTFOUND,
          "not a trained model of tables: it has neither params.yaml nor builder.yaml" },
        { "other/run",
          { 0 },
          ET_ECONFIG,
          "other/run: a run of translation/tiny, which is not a tabular task" },
        { job, { .batch_size = -1 }, ET_ECONFIG, "batch_size -1: give 1 to" },
        { job, { .batch_size = 1 << 30 }, ET_ECONFIG, "batch_size" },
        { job, { .shares = p }, ET_ECONFIG, "a predictor that shares" },
        { NULL, { .shares = p, .live_weights = true }, ET_ECONFIG, "a predictor that shares" },
        { job, { .checkpoint = "nothing" }, ET_ENOTFOUND, "nothing" },
    };
    static const char run[] = "experiment: translation/tiny\n";
    assert_int_equal(et_directory_make("other/run", &error), ET_OK);
    assert_int_equal(et_file_write("other/run/params.yaml", run, sizeof run - 1, &error), ET_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        int status = et_predictor_open(&other, cases[i].directory, &cases[i].options, &error);
        if (status != cases[i].status)
            fail_msg("%zu: %d, %s", i, status, error.text);
        assert_null(other);
        assert_contains(error.text, cases[i].says);
    }
    et_predictor_close(p);
}

/* Files beside the weights that are not theirs, or are none. */
static void test_predictor__damaged(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        { "metadata.json",
          "{\"x\": {\"min\": 0, \"max\": 2}, \"y\": {\"min\": 0, \"max\": 1},"
          " \"side\": {\"entries\": [\"above\", \"below\"]}}",
          "its schema, metadata or features have changed" },
        { "metadata.json", "{", "metadata.json" },
        { "schema.yaml", "fields: [{name: x, type: real}]", "y" },
        { "features.yaml", "features: [{name: x, type: no}]", "features.yaml" },
        { "builder.yaml", "builder: [", "builder.yaml" },
        { "builder.yaml", "builder: 7\n", "builder.yaml" },
        { "builder.yaml", "builder: feed_forward\narguments: {hidden_layer: [16]}\n",
          "hidden_layer: not an argument of feed_forward. Nearest: hidden_layers" },
        { "builder.yaml", "builder: feed_forward\narguments: {hidden_layers: [17]}\n", "17" },
        { "builder.yaml", "builder: feed_forward\narguments: {hidden_layers: [0]}\n", "0" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_error error = ET_ERROR_INIT;
        et_predictor *p = open_model(NULL), *other;
        char path[128];
        snprintf(path, sizeof path, "%s/damaged%zu", job, i);
        ok(et_predictor_export(p, path, NULL, &error), &error);
        et_predictor_close(p);
        write_file(path, cases[i].name, cases[i].text);
        int status = et_predictor_open(&other, path, NULL, &error);
        if (!status)
            fail_msg("%s of case %zu is taken", cases[i].name, i);
        assert_null(other);
        assert_contains(error.text, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predictor__facts),
        cmocka_unit_test(test_predictor__rows),
        cmocka_unit_test(test_predictor__bad_rows),
        cmocka_unit_test(test_predictor__cells),
        cmocka_unit_test(test_predictor__alone_and_together),
        cmocka_unit_test(test_predictor__threads),
        cmocka_unit_test(test_predictor__forked),
        cmocka_unit_test(test_predictor__export),
        cmocka_unit_test(test_predictor__one_file),
        cmocka_unit_test(test_predictor__out_of_memory),
        cmocka_unit_test(test_predictor__small_stack),
        cmocka_unit_test(test_predictor__refused),
        cmocka_unit_test(test_predictor__damaged),
    };
    return cmocka_run_group_tests(tests, train, remove_job);
}
