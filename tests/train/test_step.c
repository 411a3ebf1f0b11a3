/* Several batches of a step equal one batch; a loss that is not a number changes nothing; and steps
 * during a save: the written state is that of the saved step, complete, although the next steps
 * follow at once and are faster than the write. */
#include "train/step/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "engine/exec/device.h"
#include "engine/tensor/params.h"
#include "formats/safetensors/safetensors.h"
#include "train/train.h"

enum { ROWS = 2, WIDTH = 64, WORDS = 20000, STEPS = 6 };

/* A large table that every step changes completely: with momentum and the average 15 MB are saved.
 */
static void build(et_scope *scope, void *payload)
{
    (void)payload;
    et_init init = et_init_glorot_uniform(WIDTH, WORDS);
    et_node *h = et_param(scope, "h", et_shape_2(ROWS, WIDTH), init);
    et_node *table = et_param(scope, "table", et_shape_2(WORDS, WIDTH), init);
    et_loss(scope, "loss", et_vocabulary_loss(h, table, et_batch_input(scope, "labels"), 0.1f), 1);
}

/* Labels that change from batch to batch. */
typedef struct counter {
    et_source source;
    int32_t label;
} counter;

static int count_next(et_source *self, et_batch *batch, et_error *error)
{
    counter *c = (counter *)self;
    int32_t *labels = batch->data[0];
    (void)error;
    c->label = (c->label + 7) % WORDS;
    labels[0] = c->label;
    labels[1] = 0;
    batch->filled[0] = ROWS;
    return ET_OK;
}

static const et_source_class counter_class = { .name = "counter", .next = count_next };
static const et_layout_field counter_field = { "labels", ET_I32, { 0 }, 0, ET_EMPTY_NONE, 0 };

typedef struct steps {
    et_device *device;
    et_params *params;
    et_pass *pass;
    et_optimizer *optimizer;
    et_overflow overflow;
    et_metrics *metrics;
    et_state *state;
    et_step step;
    et_checkpoints *checkpoints;
} steps;

/* SGD with momentum over a model; s keeps its address. */
static void make_step(steps *s, et_source *source, et_build_fn *model, int shards, bool average,
                      double rate)
{
    et_optimization_options options;
    et_pass_options training = { .training = true };
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = ET_OPTIMIZER_SGD;
    options.optimizer.sgd.momentum = 0.9;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.learning_rate.constant.learning_rate = rate;
    options.ema.enabled = average;
    *s = (steps){ .overflow = et_overflow_fail() };
    assert_ok(et_device_open(&s->device, error));
    assert_ok(et_params_new(&s->params, error));
    assert_ok(et_pass_open(&s->pass, s->device, s->params, &source->layout, model, NULL, &training,
                           error));
    assert_ok(et_params_materialize(s->params, false, error));
    et_init_draw(s->params, 7);
    assert_ok(et_pass_prepare(s->pass, &source->layout, error));
    assert_ok(
        et_optimizer_new(&s->optimizer, s->params, NULL, s->device->kernels, &options, error));
    assert_ok(et_metrics_new(&s->metrics, error));
    et_reducer *reducer;
    assert_ok(et_tree_open(&reducer, s->pass, shards, error));
    et_step_parts parts = { .source = source,
                            .pass = s->pass,
                            .optimizer = s->optimizer,
                            .overflow = &s->overflow,
                            .metrics = s->metrics,
                            .prefix = "training_",
                            .reducer = reducer };
    assert_ok(et_step_open(&s->step, &parts, error));
}

static void free_step(steps *s)
{
    et_step_release(&s->step);
    et_metrics_free(s->metrics);
    et_optimizer_free(s->optimizer);
    et_pass_close(s->pass);
    et_params_free(s->params);
    et_device_close(s->device);
}

static void steps_open(steps *s, counter *c, const char *directory)
{
    et_checkpoint_options checkpoints = { .max_to_keep = STEPS };
    *c = (counter){ .source = { .class = &counter_class,
                                .layout = { .kinds = 1,
                                            .fields = 1,
                                            .kind = { "row" },
                                            .capacity = { ROWS },
                                            .field = &counter_field } } };
    make_step(s, &c->source, build, 1, true, 0.001);
    assert_ok(et_state_new(&s->state, error));
    assert_ok(et_state_add_params(s->state, s->params, error));
    assert_ok(et_state_add_optimizer(s->state, "optimizer", s->optimizer, error));
    assert_ok(et_checkpoints_open(&s->checkpoints, directory, s->state, &checkpoints, error));
}

static void steps_close(steps *s)
{
    assert_ok(et_checkpoints_close(s->checkpoints, error));
    et_state_free(s->state);
    free_step(s);
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
    counter c, d;
    const char *directory = in(state, "saving");
    steps_open(&saving, &c, directory);
    for (int i = 1; i <= STEPS; i++) {
        assert_ok(et_step_run(&saving.step, error));
        assert_ok(et_checkpoints_save(saving.checkpoints, i, error));
    }
    assert_ok(et_step_run(&saving.step, error));
    assert_ok(et_checkpoints_wait(saving.checkpoints, error));

    steps_open(&alone, &d, in(state, "alone"));
    for (int i = 1; i <= STEPS; i++) {
        assert_ok(et_step_run(&alone.step, error));
        check(&alone, directory, i);
    }
    steps_close(&saving);
    steps_close(&alone);
}

/* ---- accumulation ---- */

/* Seven words of text, dealt out to batches in unequal parts: a part's other rows are empty. */
enum { PLACES = 8, TEXT = 7, LEXICON = 20, SPLITS_MAX = 4 };

static const int32_t text_ids[TEXT] = { 3, 11, 0, 3, 19, 7, 8 };
static const int32_t text_labels[TEXT] = { 11, 0, 3, 19, 7, 8, 1 };

static void build_reader(et_scope *scope, void *payload)
{
    (void)payload;
    et_init init = { ET_INIT_NORMAL, 0.5f };
    et_node *table = et_param(scope, "table", et_shape_2(LEXICON, 16), init);
    et_node *ids = et_batch_input(scope, "ids");
    et_node *h = et_dense(et_in(scope, "h"), et_embedding(ids, table, 1, NULL, NULL), 16);
    et_loss(scope, "loss",
            et_vocabulary_loss(et_tanh(h), table, et_batch_input(scope, "labels"), 0.1f), 1);
}

typedef struct reader {
    et_source source;
    const int *parts; /* words of batch i */
    int batches, at;
    int first;     /* word of the batch to come */
    float *poison; /* becomes NaN before the last batch of a step; NULL: nothing does */
    int end;       /* batches until the data end; 0: never */
    volatile sig_atomic_t *stop; /* set with the batch stop_at of a step; NULL: never */
    int stop_at;
} reader;

static int read_next(et_source *self, et_batch *batch, et_error *error)
{
    reader *r = (reader *)self;
    et_batch_clear(batch);
    if (r->end && --r->end == 0)
        return ET_OK;
    if (r->stop && r->at == r->stop_at)
        *r->stop = 1;
    int count = r->parts[r->at++];
    int32_t *ids = batch->data[0], *labels = batch->data[1];
    (void)error;
    for (int i = 0; i < count; i++) {
        ids[i] = text_ids[r->first + i];
        labels[i] = text_labels[r->first + i];
    }
    batch->sample[0] = (uint32_t)r->first;
    batch->filled[0] = 1; /* a run of words, which may have none */
    batch->filled[1] = count;
    et_batch_finish(batch);
    r->first += count;
    if (r->at == r->batches) {
        r->at = r->first = 0;
        if (r->poison)
            *r->poison = NAN;
    }
    return ET_OK;
}

static void read_position(const et_source *self, et_position *position)
{
    const reader *r = (const reader *)self;
    et_position_put(position, "at", r->at);
    et_position_put(position, "first", r->first);
}

static int read_seek(et_source *self, const et_position *position, et_error *error)
{
    reader *r = (reader *)self;
    int64_t at = 0, first = 0;
    int status = et_position_get(position, "at", &at, error);
    if (!status)
        status = et_position_get(position, "first", &first, error);
    r->at = (int)at;
    r->first = (int)first;
    return status;
}

static void describe(const et_source *self, const et_batch *batch, char *text, size_t size)
{
    (void)self;
    snprintf(text, size, "text:%d", (int)batch->sample[0] + 1);
}

static const et_source_class reader_class = { .name = "reader",
                                              .next = read_next,
                                              .position = read_position,
                                              .seek = read_seek,
                                              .describe = describe };

static const et_layout_field reader_fields[] = {
    { "ids", ET_I32, { 0 }, 1, ET_EMPTY_NONE, 0 },
    { "labels", ET_I32, { 0 }, 1, ET_EMPTY_NONE, 0 },
};

static void reader_open(steps *s, reader *r, const int *parts, int batches)
{
    static const et_layout layout = { .kinds = 2,
                                      .fields = 2,
                                      .kind = { "text", "word" },
                                      .capacity = { PLACES, PLACES },
                                      .unit = 1,
                                      .field = reader_fields };
    *r = (reader){ .source = { .class = &reader_class, .layout = layout },
                   .parts = parts,
                   .batches = batches };
    make_step(s, &r->source, build_reader, batches, false, 0.5);
}

static void reader_close(steps *s)
{
    free_step(s);
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 2e-6 * (1 + fabs(expected))))
        fail_msg("%.9g is not %.9g", value, expected);
}

/* Every word has the same weight, however few its batch has: a mean of batches' means would give
 * the single word of { 1, 6 } half of all weight. An empty batch has no weight. */
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
        int64_t size = et_params_flat_size(one.params);
        for (int i = 0; i < STEPS; i++) {
            assert_ok(et_step_run(&one.step, error));
            assert_ok(et_step_run(&several.step, error));
            assert_int_equal(several.step.units, TEXT);
            assert_near(several.step.loss, one.step.loss);
            assert_near(several.step.update.gradient_norm, one.step.update.gradient_norm);
        }
        assert_true(one.step.loss < 2.5); /* it did learn: log 20 is 3 */
        const float *expected = et_params_values(one.params);
        const float *found = et_params_values(several.params);
        for (int64_t i = 0; i < size; i++)
            assert_near(found[i], expected[i]);
        reader_close(&several);
        reader_close(&one);
    }
}

/* A batch without a label has a zero gradient, and the momentum moves weights. */
static void test_step__no_labels(void **state)
{
    (void)state;
    static const int parts[] = { TEXT, 0 };
    static steps s;
    reader r;
    reader_open(&s, &r, parts, 1);
    r.batches = 2; /* one after another, each a step */
    assert_true(isnan(s.step.loss));
    for (int i = 1; i <= 4; i++) {
        bool none = i % 2 == 0;
        float before = et_params_values(s.params)[0];
        assert_ok(et_step_run(&s.step, error));
        assert_true(s.step.updated && s.step.update.finite);
        assert_true(isnan(s.step.loss) == none);
        assert_true((s.step.update.gradient_norm == 0) == none);
        assert_int_equal(et_optimizer_iterations(s.optimizer), i);
        assert_true(et_params_values(s.params)[0] != before);
    }
    reader_close(&s);
}

/* A step fails with these words in its message; the last is NULL. */
static void assert_diverges(et_step *step, const char *const words[])
{
    et_error why = ET_ERROR_INIT;
    assert_int_equal(et_step_run(step, &why), ET_EDIVERGED);
    for (; *words; words++)
        if (!strstr(why.text, *words))
            fail_msg("no \"%s\" in: %s", *words, why.text);
}

/* The message names step, place and batch, and no weight moves, also not by earlier batches. */
static void test_step__not_finite(void **state)
{
    (void)state;
    static const int parts[] = { 4, 3 };
    static steps s;
    static float kept[4096];
    reader r;
    reader_open(&s, &r, parts, 2);
    size_t bytes = (size_t)et_params_flat_size(s.params) * sizeof(float);
    assert_true(bytes <= sizeof kept);
    assert_ok(et_step_run(&s.step, error));
    int bias = et_params_find(s.params, "h/bias");
    r.poison = et_params_values(s.params) + et_params_offset(s.params, bias);
    float before = *r.poison;
    memcpy(kept, et_params_values(s.params), bytes);
    static const char *const words[] = { "step 2: ", "first in h/", "batch: text:5.", NULL };
    assert_diverges(&s.step, words);
    *r.poison = before;
    assert_memory_equal(kept, et_params_values(s.params), bytes);
    assert_int_equal(s.step.count, 1);
    reader_close(&s);
}

/* Weights of zero under a table whose rows differ by 1e20: every logit is 0 and the loss log 20,
 * but the derivative of the weights is about 1e40. It is the first batch's, which the message
 * names. */
static void test_step__gradient_not_finite(void **state)
{
    (void)state;
    static const int parts[] = { 4, 3 };
    static steps s;
    reader r;
    reader_open(&s, &r, parts, 2);
    float *values = et_params_values(s.params);
    int table = et_params_find(s.params, "table");
    et_params_begin_change(s.params);
    memset(values, 0, (size_t)et_params_flat_size(s.params) * sizeof *values);
    for (int64_t i = 0; i < LEXICON * 16; i++)
        values[et_params_offset(s.params, table) + i] = 1e20f * (float)(i / 16);
    et_params_changed(s.params, true);
    static const char *const words[] = { "first in matmul_", "; batch: text:1. ", NULL };
    assert_diverges(&s.step, words);
    assert_int_equal(s.step.count, 0);
    reader_close(&s);
}

/* A reducer whose sum is not finite at the end, whatever was added. */
typedef struct poisoned {
    et_reducer reducer;
    et_reducer *inner;
} poisoned;

static void poisoned_begin(et_reducer *self)
{
    et_reducer_begin(((poisoned *)self)->inner);
}

static int poisoned_add(et_reducer *self, int shard, const et_pass *pass, et_error *error)
{
    return et_reducer_add(((poisoned *)self)->inner, shard, pass, error);
}

static int poisoned_end(et_reducer *self, et_reduced *out, et_error *error)
{
    int status = et_reducer_end(((poisoned *)self)->inner, out, error);
    out->gradient[3] = INFINITY;
    return status;
}

static void poisoned_close(et_reducer *self)
{
    et_reducer_close(((poisoned *)self)->inner);
}

static const et_reducer_class poisoned_class = { .name = "poisoned",
                                                 .begin = poisoned_begin,
                                                 .add = poisoned_add,
                                                 .end = poisoned_end,
                                                 .close = poisoned_close };

/* The sum is not finite although every batch's gradient is: the message says so. */
static void test_step__sum_not_finite(void **state)
{
    (void)state;
    static const int parts[] = { 4, 3 };
    static steps s;
    reader r;
    reader_open(&s, &r, parts, 2);
    static float kept[4096];
    size_t bytes = (size_t)et_params_flat_size(s.params) * sizeof(float);
    assert_true(bytes <= sizeof kept);
    memcpy(kept, et_params_values(s.params), bytes);
    poisoned sum = { { .class = &poisoned_class, .shards = 2, .end = 2 }, s.step.reducer };
    s.step.reducer = &sum.reducer;
    static const char *const words[] = { ": the loss or gradient is not finite, first in the "
                                         "gradient's norm; batch: text:5, the last of the sum.",
                                         NULL };
    assert_diverges(&s.step, words);
    assert_int_equal(s.step.count, 0);
    assert_memory_equal(kept, et_params_values(s.params), bytes);
    reader_close(&s);
}

/* If the data end where a step needs more, the error names the step and the cure. */
static void test_step__data_end(void **state)
{
    (void)state;
    static const int parts[] = { 4, 3 };
    static steps s;
    reader r;
    reader_open(&s, &r, parts, 2);
    r.end = 4;
    assert_ok(et_step_run(&s.step, error));
    assert_fails(et_step_run(&s.step, error), ET_EDATA,
                 "the data ended at step 2: make it repeat, or train fewer steps");
    assert_int_equal(s.step.count, 1);
    reader_close(&s);
}

/* Asked to stop within a step of three batches: the step is abandoned, and repeating it gives the
 * result of an uninterrupted one. Within its last batch the step is finished. */
static void test_step__left_between_batches(void **state)
{
    (void)state;
    static const int parts[] = { 2, 4, 1 };
    static steps unbroken, left;
    for (int at = 0; at < 3; at++) {
        reader r, q;
        volatile sig_atomic_t stop = 0;
        reader_open(&unbroken, &r, parts, 3);
        reader_open(&left, &q, parts, 3);
        left.step.parts.stop = &stop;
        size_t bytes = (size_t)et_params_flat_size(left.params) * sizeof(float);
        assert_ok(et_step_run(&unbroken.step, error));
        assert_ok(et_step_run(&left.step, error));
        q.stop = &stop;
        q.stop_at = at;
        if (at < 2) {
            assert_fails(et_step_run(&left.step, error), ET_EINTERRUPTED,
                         "asked to stop in step 2");
            assert_memory_equal(et_params_values(left.params), et_params_values(unbroken.params),
                                bytes);
            assert_int_equal(left.step.count, 1);
            assert_int_equal(q.at, 0);
            q.stop = NULL;
            stop = 0;
        }
        assert_ok(et_step_run(&left.step, error));
        assert_ok(et_step_run(&unbroken.step, error));
        assert_int_equal(left.step.count, 2);
        assert_memory_equal(et_params_values(left.params), et_params_values(unbroken.params),
                            bytes);
        reader_close(&unbroken);
        reader_close(&left);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step__batches_are_one),
        cmocka_unit_test(test_step__no_labels),
        cmocka_unit_test(test_step__not_finite),
        cmocka_unit_test(test_step__gradient_not_finite),
        cmocka_unit_test(test_step__sum_not_finite),
        cmocka_unit_test(test_step__data_end),
        cmocka_unit_test(test_step__left_between_batches),
        cmocka_unit_test(test_step__beside_saves),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
