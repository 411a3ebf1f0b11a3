/* Several batches of a step are one batch; a loss that is no number changes nothing; and steps
 * beside a save: what is written is the state of the step that was saved, whole, although the
 * next steps follow at once and writing it takes longer than they do. */
#include "train/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "exec/model.h"
#include "io/safetensors.h"
#include "train/train.h"

enum { ROWS = 2, WIDTH = 64, WORDS = 20000, STEPS = 6 };

static int32_t labels[ROWS];

/* A large table of which every step moves all: with momentum and the average 15 MB are saved. */
static et_node *build(et_scope *scope)
{
    et_init init = et_init_glorot_uniform(WIDTH, WORDS);
    et_node *h = et_param(scope, "h", et_shape_2(ROWS, WIDTH), init);
    et_node *table = et_param(scope, "table", et_shape_2(WORDS, WIDTH), init);
    return et_vocabulary_loss(h, table, et_input(scope, "labels", ET_I32, et_shape_1(ROWS)), 0.1f);
}

static int next(et_task *self, et_plan *plan, et_error *error)
{
    (void)self, (void)error;
    labels[0] = (labels[0] + 7) % WORDS;
    et_plan_bind(plan, "labels", labels);
    return ET_OK;
}

static const et_task_class class = { .name = "toy", .next = next };

typedef struct steps {
    test_model model;
    et_task task;
    et_optimizer *optimizer;
    et_metrics *metrics;
    et_state *state;
    et_step step;
    et_checkpoints *checkpoints;
} steps;

static void steps_open(steps *s, const char *directory)
{
    et_optimization_options options;
    et_checkpoint_options checkpoints = { .max_to_keep = STEPS };
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = ET_OPTIMIZER_SGD;
    options.optimizer.sgd.momentum = 0.9;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.ema.enabled = true;
    *s = (steps){ .task = { &class } };
    test_model_open(&s->model, build);
    const et_kernels *kernels = s->model.device->kernels;
    assert_ok(et_optimizer_new(&s->optimizer, s->model.params, NULL, kernels, &options, error));
    assert_ok(et_metrics_new(&s->metrics, error));
    assert_ok(et_state_new(&s->state, error));
    assert_ok(et_state_add_params(s->state, s->model.params, error));
    assert_ok(et_state_add_optimizer(s->state, s->optimizer, s->model.params, error));
    s->step = (et_step){ .task = &s->task, .plan = s->model.plan, .optimizer = s->optimizer };
    assert_ok(et_step_define_metrics(&s->step, s->metrics, error));
    assert_ok(et_accumulator_init(&s->step.accumulator, s->model.params, kernels, 1, error));
    assert_ok(et_checkpoints_open(&s->checkpoints, directory, s->state, &checkpoints, error));
}

static void steps_close(steps *s)
{
    assert_ok(et_checkpoints_close(s->checkpoints, error));
    et_accumulator_release(&s->step.accumulator);
    et_state_free(s->state);
    et_metrics_free(s->metrics);
    et_optimizer_free(s->optimizer);
    test_model_close(&s->model);
}

/* A saved step equals that of a run which does nothing else meanwhile. */
static void check(const steps *alone, const char *directory, int step)
{
    char name[64];
    et_safetensors *file;
    snprintf(name, sizeof name, "checkpoints/ckpt-%d.safetensors", step);
    assert_ok(et_safetensors_open(&file, below(directory, name), error));
    assert_ok(et_safetensors_verify(file, error));
    assert_int_equal(et_safetensors_count(file), et_state_tensor_count(alone->state));
    for (size_t i = 0; i < et_state_tensor_count(alone->state); i++) {
        const et_state_tensor *expected = et_state_tensor_at(alone->state, i);
        const et_safetensors_tensor *found = et_safetensors_find(file, expected->name);
        if (memcmp(expected->data, found->data, found->bytes))
            fail_msg("step %d: %s is not what was saved", step, expected->name);
    }
    et_safetensors_close(file);
}

static void test_step__beside_saves(void **state)
{
    static steps saving, alone;
    const char *directory = in(state, "saving");
    steps_open(&saving, directory);
    for (int i = 1; i <= STEPS; i++) {
        assert_ok(et_step_run(&saving.step, error));
        assert_ok(et_checkpoints_save(saving.checkpoints, i, error));
    }
    assert_ok(et_step_run(&saving.step, error));
    assert_ok(et_checkpoints_wait(saving.checkpoints, error));

    steps_open(&alone, in(state, "alone"));
    labels[0] = 0;
    for (int i = 1; i <= STEPS; i++) {
        assert_ok(et_step_run(&alone.step, error));
        check(&alone, directory, i);
    }
    steps_close(&saving);
    steps_close(&alone);
}

/* ---- accumulation ----------------------------------------------------------------------- */

/* Seven words of text, dealt out to batches in unequal parts: a part's other rows are empty. */
enum { PLACES = 8, TEXT = 7, LEXICON = 20, SPLITS_MAX = 4 };

static const int32_t text_ids[TEXT] = { 3, 11, 0, 3, 19, 7, 8 };
static const int32_t text_labels[TEXT] = { 11, 0, 3, 19, 7, 8, 1 };

static et_node *build_reader(et_scope *scope)
{
    et_init init = { ET_INIT_NORMAL, 0.5f };
    et_node *table = et_param(scope, "table", et_shape_2(LEXICON, 16), init);
    et_node *ids = et_input(scope, "ids", ET_I32, et_shape_1(PLACES));
    et_node *h = et_dense(et_in(scope, "h"), et_embedding(ids, table, 1, NULL, NULL), 16);
    return et_vocabulary_loss(et_tanh(h), table,
                              et_input(scope, "labels", ET_I32, et_shape_1(PLACES)), 0.1f);
}

typedef struct reader {
    et_task task;
    const int *parts; /* words of batch i */
    int batches, at;
    int first; /* word of the batch to come */
    int32_t ids[PLACES], labels[PLACES];
    float *poison; /* becomes NaN before the last batch of a step; NULL: nothing does */
    int begin;     /* first word of the batch last dealt out */
} reader;

static int read_next(et_task *self, et_plan *plan, et_error *error)
{
    reader *r = (reader *)(void *)self;
    int count = r->parts[r->at++];
    (void)error;
    r->begin = r->first;
    for (int i = 0; i < PLACES; i++) {
        r->ids[i] = i < count ? text_ids[r->first + i] : -1;
        r->labels[i] = i < count ? text_labels[r->first + i] : -1;
    }
    r->first += count;
    if (r->at == r->batches) {
        r->at = r->first = 0;
        if (r->poison)
            *r->poison = NAN;
    }
    et_plan_bind(plan, "ids", r->ids);
    et_plan_bind(plan, "labels", r->labels);
    return ET_OK;
}

static void describe(const et_task *self, et_strbuf *out)
{
    const reader *r = (const reader *)(const void *)self;
    et_strbuf_printf(out, "text:%d", r->begin + 1);
}

static const et_task_class reader_class = { .name = "reader",
                                            .next = read_next,
                                            .describe_batch = describe };

static void reader_open(steps *s, reader *r, const int *parts, int batches)
{
    et_optimization_options options;
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = ET_OPTIMIZER_SGD;
    options.optimizer.sgd.momentum = 0.9;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.learning_rate.constant.learning_rate = 0.5;
    *s = (steps){ .task = { NULL } };
    *r = (reader){ .task = { &reader_class }, .parts = parts, .batches = batches };
    test_model_open(&s->model, build_reader);
    const et_kernels *kernels = s->model.device->kernels;
    assert_ok(et_optimizer_new(&s->optimizer, s->model.params, NULL, kernels, &options, error));
    assert_ok(et_metrics_new(&s->metrics, error));
    s->step = (et_step){ .task = &r->task, .plan = s->model.plan, .optimizer = s->optimizer };
    assert_ok(et_step_define_metrics(&s->step, s->metrics, error));
    assert_ok(et_accumulator_init(&s->step.accumulator, s->model.params, kernels, batches, error));
}

static void reader_close(steps *s)
{
    et_accumulator_release(&s->step.accumulator);
    et_metrics_free(s->metrics);
    et_optimizer_free(s->optimizer);
    test_model_close(&s->model);
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 2e-6 * (1 + fabs(expected))))
        fail_msg("%.9g is not %.9g", value, expected);
}

/* Every word weighs the same, however few its batch holds: a mean of batches' means would give
 * the single word of { 1, 6 } half of all weight. An empty batch weighs nothing. */
static void test_step__batches_are_one(void **state)
{
    (void)state;
    static const int whole[] = { TEXT };
    static const struct {
        int batches, parts[SPLITS_MAX];
    } cases[] = { { 2, { 1, 6 } }, { 2, { 4, 3 } }, { 3, { 2, 4, 1 } }, { 4, { 1, 0, 5, 1 } } };
    static steps one, several;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        reader r, q;
        reader_open(&one, &r, whole, 1);
        reader_open(&several, &q, cases[c].parts, cases[c].batches);
        int64_t size = et_params_flat_size(one.model.params);
        for (int i = 0; i < STEPS; i++) {
            assert_ok(et_step_run(&one.step, error));
            assert_ok(et_step_run(&several.step, error));
            assert_int_equal(several.step.tokens, TEXT);
            assert_near(several.step.loss, one.step.loss);
            assert_near(several.step.update.gradient_norm, one.step.update.gradient_norm);
        }
        assert_true(one.step.loss < 2.5); /* it did learn: log 20 is 3 */
        const float *expected = et_params_values(one.model.params);
        const float *found = et_params_values(several.model.params);
        for (int64_t i = 0; i < size; i++)
            assert_near(found[i], expected[i]);
        reader_close(&several);
        reader_close(&one);
    }
}

/* A step fails and says so with these words; the last is NULL. */
static void assert_diverges(et_step *step, const char *const words[])
{
    et_error why = ET_ERROR_INIT;
    assert_int_equal(et_step_run(step, &why), ET_EDIVERGED);
    for (; *words; words++)
        if (!strstr(why.text, *words))
            fail_msg("no \"%s\" in: %s", *words, why.text);
}

/* Step, place and batch are named, and no weight moves: that of the batches before included. */
static void test_step__not_finite(void **state)
{
    (void)state;
    static const int parts[] = { 4, 3 };
    static steps s;
    static float kept[4096];
    reader r;
    reader_open(&s, &r, parts, 2);
    size_t bytes = (size_t)et_params_flat_size(s.model.params) * sizeof(float);
    assert_true(bytes <= sizeof kept);
    assert_ok(et_step_run(&s.step, error));
    int bias = et_params_find(s.model.params, "h/bias");
    r.poison = et_params_values(s.model.params) + et_params_offset(s.model.params, bias);
    float before = *r.poison;
    memcpy(kept, et_params_values(s.model.params), bytes);
    static const char *const words[] = { "step 2: ", "first in h/", "batch: text:5.", NULL };
    assert_diverges(&s.step, words);
    *r.poison = before;
    assert_memory_equal(kept, et_params_values(s.model.params), bytes);
    assert_int_equal(s.step.count, 1);
    reader_close(&s);
}

/* Weights of zero under a table whose rows differ by 1e20: every logit is 0 and the loss log 20,
 * but the derivative of the weights is about 1e40. It is the first batch's, and that is named. */
static void test_step__gradient_not_finite(void **state)
{
    (void)state;
    static const int parts[] = { 4, 3 };
    static steps s;
    reader r;
    reader_open(&s, &r, parts, 2);
    float *values = et_params_values(s.model.params);
    int table = et_params_find(s.model.params, "table");
    memset(values, 0, (size_t)et_params_flat_size(s.model.params) * sizeof *values);
    for (int64_t i = 0; i < LEXICON * 16; i++)
        values[et_params_offset(s.model.params, table) + i] = 1e20f * (float)(i / 16);
    et_plan_refresh(s.model.plan);
    static const char *const words[] = { "first in matmul_", "; batch: text:1. ", NULL };
    assert_diverges(&s.step, words);
    assert_int_equal(s.step.count, 0);
    reader_close(&s);
}

/* What was added up is not finite though every batch's gradient is: that is said. */
static void test_step__sum_not_finite(void **state)
{
    (void)state;
    static const int parts[] = { 4, 3 };
    static steps s;
    reader r;
    reader_open(&s, &r, parts, 2);
    r.poison = s.step.accumulator.sum;
    static const char *const words[] = {
        "first in the gradient's norm; batch: text:5, the last of the sum. ", NULL
    };
    assert_diverges(&s.step, words);
    assert_int_equal(s.step.count, 0);
    reader_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step__batches_are_one),
        cmocka_unit_test(test_step__not_finite),
        cmocka_unit_test(test_step__gradient_not_finite),
        cmocka_unit_test(test_step__sum_not_finite),
        cmocka_unit_test(test_step__beside_saves),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
