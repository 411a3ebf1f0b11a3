#include "tasks/tabular/jobs.h"

#include <etude/layers.h>
#include <etude/run_files.h>

#include "base/clock.h"
#include "engine/tensor/params.h"

static void test_model_trainer__config(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    et_model_trainer *trainer;
    et_job_config *config;
    assert_true(et_job_config_master(et_model_trainer_config(f->trainer)));
    ok(et_job_config_local(&config, &error), &error);
    ok(et_model_trainer_new(&trainer, config, &error), &error);
    assert_ptr_equal(et_model_trainer_config(trainer), config);
    et_model_trainer_free(trainer);
    et_model_trainer_free(NULL);
    et_job_config_free(config);
    setenv("TF_CONFIG", "[", 1);
    assert_int_equal(et_model_trainer_new(&trainer, NULL, &error), ET_EFORMAT);
    unsetenv("TF_CONFIG");
}

static void test_model_trainer__trains(void **state)
{
    fixture *f = *state;
    et_predictor *p = trained(f, ARGS(SETTINGS, "--max-steps", "400", "--seed", "2"));
    assert_true(right_points(p) >= 72);
    assert_string_equal(et_predictor_facts(p)->output[0].name, "scores");
    assert_int_equal(et_predictor_facts(p)->labels, 2);
    et_predictor_close(p);
    /* TensorFX's lines. */
    assert_contains(f->lines, "Run: ");
    assert_contains(f->lines, " sec; Steps: 1; Duration: 0 sec; Throughput: ");
    assert_contains(f->lines, "Global steps: 400; Duration: ");
    assert_contains(f->lines, " instances/sec; Loss: 0.");
    assert_contains(f->lines, "Global steps: 400; Evaluation metric: 0.");
    /* And its files. */
    static const char *const files[] = { "job.yaml",
                                         "schema.yaml",
                                         "metadata.json",
                                         "builder.yaml",
                                         "features.yaml",
                                         "checkpoints",
                                         "best",
                                         "summaries/train",
                                         "summaries/validation",
                                         "model",
                                         "model/model.safetensors",
                                         "model/builder.yaml" };
    for (size_t i = 0; i < COUNT(files); i++)
        if (!is_there(f, files[i]))
            fail_msg("%s is missing", files[i]);
    assert_false(is_there(f, "model.new") || is_there(f, "model.old"));
    const char *job = read_text(f, "job.yaml");
    assert_contains(job, "config: {}");
    assert_contains(job, "--hidden-layers:1 16");
    assert_contains(job, "--max-steps 400");
    const char *builder = read_text(f, "model/builder.yaml");
    assert_contains(builder, "builder: feed_forward");
    assert_contains(builder, "hidden_layers: [16]");
    assert_null(strstr(builder, "batch_size"));
}

/* Scores of all rows of the evaluation. */
static void read_scores(et_predictor *p, float scores[POINTS_EVAL][2])
{
    et_error error = ET_ERROR_INIT;
    et_predictions *found;
    write_rows();
    ok(et_predictor_predict(p, points_rows, POINTS_EVAL, &found, &error), &error);
    for (size_t i = 0; i < POINTS_EVAL; i++)
        memcpy(scores[i], et_predictions_at(found, i).output[0], sizeof scores[i]);
    et_predictions_free(found);
}

/* Two hundred steps and two hundred more are four hundred, bit for bit; and a job that is done
 * opens its model at once. */
static void test_model_trainer__goes_on(void **state)
{
    fixture *f = *state;
    static float whole[POINTS_EVAL][2], parts[POINTS_EVAL][2];
    et_predictor *p = trained(f, ARGS(SETTINGS, "--max-steps", "400"));
    read_scores(p, whole);
    et_predictor_close(p);
    p = trained(f, ARGS(SETTINGS, "--max-steps", "400"));
    assert_int_equal(et_predictor_facts(p)->step > 0, 1);
    assert_contains(f->lines, "Global steps: 400; resuming");
    assert_null(strstr(f->lines, "Loss"));
    read_scores(p, parts);
    assert_memory_equal(whole, parts, sizeof whole);
    et_predictor_close(p);

    char before[64];
    strcpy(before, f->output);
    strcpy(f->output, "job.XXXXXX");
    assert_non_null(mkdtemp(f->output));
    et_predictor_close(trained(f, ARGS(SETTINGS, "--max-steps", "200")));
    p = trained(f, ARGS(SETTINGS, "--max-steps", "400"));
    assert_contains(f->lines, "Global steps: 200; resuming");
    read_scores(p, parts);
    assert_memory_equal(whole, parts, sizeof whole);
    et_predictor_close(p);
    remove_tree(before);
}

/* Asked to stop, it saves and ends; the model of before stays, and the job goes on. */
static void test_model_trainer__stopped(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int status;
    int64_t step;
    f->stop_at = 100;
    et_predictor *p = train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class,
                            ARGS(SETTINGS, "--max-steps", "400"), &status, &error);
    assert_null(p);
    assert_int_equal(status, ET_EINTERRUPTED);
    assert_false(is_there(f, "model"));
    ok(et_run_files_step(f->output, &step, &error), &error);
    assert_true(step >= 100 && step < 400);
    f->stop_at = 0;
    p = trained(f, ARGS(SETTINGS, "--max-steps", "400"));
    assert_contains(f->lines, "resuming");
    assert_true(right_points(p) >= 70);
    et_predictor_close(p);
}

/* Passes over the data end it where they are fewer steps than max_steps. */
static void test_model_trainer__epochs(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int64_t step;
    et_predictor_close(trained(f, ARGS("--epochs", "2", "--batch-size", "100")));
    ok(et_run_files_step(f->output, &step, &error), &error);
    assert_int_equal(step, 2 * 4); /* 320 rows: each pass ends with a batch of 20 */
    et_predictor_close(
        trained(f, ARGS("--epochs", "9", "--batch-size", "100", "--max-steps", "10")));
    ok(et_run_files_step(f->output, &step, &error), &error);
    assert_int_equal(step, 10);
}

/* A loss that is no number ends it, where TensorFX goes on. */
static void test_model_trainer__diverges(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int status;
    train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class,
          ARGS("--hidden-layers:1", "16", "--learning-rate", "1e30"), &status, &error);
    assert_int_equal(status, ET_EDIVERGED);
    assert_false(is_there(f, "model"));
}

static void test_model_trainer__refused(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *config, *says;
    } cases[] = {
        { "{\"cluster\": {\"master\": [\"a:1\"], \"ps\": [\"b:1\"]}}",
          "a cluster on several hosts needs keys: make them with `etude keys DIR`, and name the "
          "folder in" },
        { "{\"task\": {\"type\": \"worker\", \"index\": 0}}", "task worker 0 has no cluster" },
    };
    et_error error = ET_ERROR_INIT;
    int status;
    et_model_trainer *before = f->trainer;
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_job_config *config;
        ok(et_job_config_parse(&config, cases[i].config, strlen(cases[i].config), "c", &error),
           &error);
        ok(et_model_trainer_new(&f->trainer, config, &error), &error);
        train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS(SETTINGS),
              &status, &error);
        assert_int_equal(status, ET_EUSAGE);
        assert_contains(error.text, cases[i].says);
        et_model_trainer_free(f->trainer);
        et_job_config_free(config);
    }
    f->trainer = before;
    char output[64];
    strcpy(output, f->output);
    f->output[0] = 0;
    train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS(SETTINGS), &status,
          &error);
    assert_int_equal(status, ET_EUSAGE);
    assert_contains(error.text, "the job has no output");
    strcpy(f->output, output);
}

/* ---- a builder of a program's own, with members, that has its word at the start and after a load
 * ---- */

typedef struct own_builder {
    et_model_builder builder;
    int64_t units;
} own_builder;

static int inits, local_inits;

static int fill_in(et_model_builder *self, et_error *error)
{
    (void)error;
    ((own_builder *)self)->units = 8;
    return ET_OK;
}

static int begin_job(et_model_builder *self, et_params *params, et_error *error)
{
    (void)error;
    assert_int_equal(((own_builder *)self)->units, 8);
    assert_true(et_params_ready(params));
    inits++;
    return ET_OK;
}

static int after_load(et_model_builder *self, et_params *params, et_error *error)
{
    (void)self, (void)params, (void)error;
    local_inits++;
    return ET_OK;
}

static void init(et_model_builder *self, et_builder_init *out)
{
    (void)self;
    *out = (et_builder_init){ begin_job, after_load };
}

static void infer(et_model_builder *self, et_scope *s, const et_nodes *inputs, bool training,
                  et_nodes *inferences)
{
    (void)training;
    et_node *h = et_tanh(
        et_dense(et_in(s, "hidden"), et_nodes_get(inputs, "X"), ((own_builder *)self)->units));
    et_nodes_put(inferences, "logits", et_dense(et_in(s, "logits"), h, 2));
}

static const et_model_builder_class own = { .name = "own",
                                            .base = &et_classification_builder,
                                            .size = sizeof(own_builder),
                                            .init = fill_in,
                                            .build_init = init,
                                            .build_inference = infer };

static void test_model_trainer__own_builder(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    char path[128];
    int status;
    inits = local_inits = 0;
    et_predictor *p =
        train(f, &own, NULL, ARGS("--max-steps", "600", "--batch-size", "32"), &status, &error);
    ok(status, &error);
    assert_true(right_points(p) >= 70);
    et_predictor_close(p);
    assert_int_equal(inits, 1);
    assert_int_equal(local_inits, 2); /* the run that is exported, the model that is opened */
    /* Nobody else has its graph. */
    snprintf(path, sizeof path, "%s/model", f->output);
    assert_int_equal(et_predictor_open(&p, path, NULL, &error), ET_ECONFIG);
    assert_contains(error.text, "a model of builder own; predict with the program");
    const et_predictor_options other = { .builder = &et_feed_forward_builder };
    assert_int_equal(et_predictor_open(&p, path, &other, &error), ET_ECONFIG);
    assert_contains(error.text, "a model of builder own, not of feed_forward");
    const et_predictor_options options = { .builder = &own };
    ok(et_predictor_open(&p, f->output, &options, &error), &error); /* the run itself */
    assert_true(right_points(p) >= 70);
    et_predictor_close(p);
    /* And the directory is no other builder's to go on in. */
    train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS(SETTINGS), &status,
          &error);
    assert_int_equal(status, ET_ECONFIG);
    assert_contains(error.text, "was made by another builder (own, not feed_forward)");
}

/* Other rows, or rows that are read otherwise. */
static void test_model_trainer__other_inputs(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int status;
    et_predictor_close(trained(f, ARGS(SETTINGS, "--max-steps", "20")));
    et_table_set_close(f->dataset);
    f->dataset = open_points("features: [{name: X, type: concat, features: [{name: x}, {name: y}]},"
                             "{name: Y, type: target, fields: side}]",
                             2);
    train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class, ARGS(SETTINGS), &status,
          &error);
    assert_int_equal(status, ET_ECONFIG);
    assert_contains(error.text, "was made by another encoder");
}

/* The job's inputs go before the builder's; without a source "eval" nothing is evaluated. */
static void test_model_trainer__inputs_of_the_job(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    et_table_set *one = open_points(POINTS_FEATURES, 1);
    et_arguments *args = parse_arguments(
        &et_feed_forward_arguments_class,
        ARGS(SETTINGS, "--max-steps", "60", "--job-dir", f->output, "--log-level", "WARN"));
    const et_training_job job = { .inputs = one, .listener = f, .tell = tell };
    et_model_builder builder;
    et_predictor *p;
    ok(et_model_builder_init(&builder, &et_feed_forward_builder, args, NULL, &error), &error);
    ok(et_model_trainer_train(f->trainer, &builder, &job, &p, &error), &error);
    assert_null(builder.dataset);
    assert_int_equal(et_predictor_facts(p)->step, 60);
    assert_string_equal(f->lines, ""); /* by --log-level */
    assert_false(is_there(f, "best") && is_there(f, "summaries/validation"));
    et_predictor_close(p);
    et_model_builder_release(&builder);
    et_arguments_free(args);
    et_table_set_close(one);
}

/* A builder that reads a source of another name, which may not know how many batches it has. */
static bool knows_batches;

static int read_rows(et_model_builder *self, et_table_set *dataset, const char *source,
                     int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                     et_error *error)
{
    static et_source_class silent;
    int status = et_model_builder_base.build_input(self, dataset, source ? "rows" : NULL, batch,
                                                   epochs, shuffle, out, error);
    if (!status && source && !knows_batches) {
        silent = *out->source->class;
        silent.batches = NULL;
        out->source->class = &silent;
    }
    return status;
}

static const et_model_builder_class own_input = { .name = "own_input",
                                                  .base = &et_feed_forward_builder,
                                                  .build_input = read_rows };

static void test_model_trainer__own_input(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int status;
    et_table_set_close(f->dataset);
    f->dataset = open_points_as("rows", POINTS_FEATURES, 1);
    knows_batches = false;
    train(f, &own_input, &et_feed_forward_arguments_class,
          ARGS("--epochs", "2", "--batch-size", "100"), &status, &error);
    assert_int_equal(status, ET_ECONFIG);
    assert_contains(error.text, "source batches of builder own_input does not know how many");
    et_predictor *p = train(f, &own_input, &et_feed_forward_arguments_class,
                            ARGS("--max-steps", "5", "--batch-size", "100"), &status, &error);
    ok(status, &error);
    et_predictor_close(p);
    knows_batches = true;
    p = train(f, &own_input, &et_feed_forward_arguments_class,
              ARGS("--epochs", "2", "--batch-size", "100"), &status, &error);
    ok(status, &error);
    assert_int_equal(et_predictor_facts(p)->step, 2 * 4); /* 320 rows */
    et_predictor_close(p);
}

/* Rows that were there, by the time of steps: each reads for 5 ms. Evaluations take 900 before the
 * last line, which are no time of steps, however slow the machine is. */
static const et_source_class *usual;

static int next_slow(et_source *self, et_batch *batch, et_error *error)
{
    usleep(5000);
    return usual->next(self, batch, error);
}

static int read_slowly(et_model_builder *self, et_table_set *dataset, const char *source,
                       int64_t batch, int64_t epochs, bool shuffle, et_builder_input *out,
                       et_error *error)
{
    static et_source_class slow;
    int status = et_model_builder_base.build_input(self, dataset, source, batch, epochs, shuffle,
                                                   out, error);
    if (!status && source && !strcmp(source, "train")) {
        usual = out->source->class;
        slow = *usual;
        slow.next = next_slow;
        out->source->class = &slow;
    }
    return status;
}

static void test_model_trainer__throughput(void **state)
{
    static const et_model_builder_class slow = { .name = "slow",
                                                 .base = &et_feed_forward_builder,
                                                 .build_input = read_slowly };
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int status;
    double throughput;
    f->sleeps = 300;
    const double began = et_clock_monotonic();
    et_predictor_close(
        train(f, &slow, &et_feed_forward_arguments_class,
              ARGS("--batch-size", "100000", "--max-steps", "40", "--eval-interval-steps", "10"),
              &status, &error));
    const double passed = et_clock_monotonic() - began;
    ok(status, &error);
    const char *last = strstr(f->lines, "Global steps: 40; Duration");
    assert_non_null(last);
    assert_int_equal(sscanf(strstr(last, "Throughput"), "Throughput: %lf", &throughput), 1);
    const double rows = 40 * 320;
    assert_true(rows / throughput < passed - 0.9);
    assert_true(throughput < rows / (30 * 0.005));
}

#define CASE(name) cmocka_unit_test_setup_teardown(test_model_trainer__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(config),       CASE(trains),
        CASE(goes_on),      CASE(stopped),
        CASE(epochs),       CASE(diverges),
        CASE(refused),      CASE(own_builder),
        CASE(other_inputs), CASE(inputs_of_the_job),
        CASE(own_input),    CASE(throughput),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
