/* A run that begins with another run's weights: all of them, or those with some names; from a file,
 * a run's newest checkpoint, or its best. */
#include <etude/checkpoint.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "formats/files.h"
#include "train/toy_run.h"

static float x[16], y[8];
static int width; /* of the hidden layer */

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *h = et_tanh(et_dense(et_in(s, "body"), et_batch_input(s, "x"), width));
    et_node *d = et_sub(et_dense(et_in(s, "head"), h, 1), et_batch_input(s, "y"));
    et_loss(s, "loss", et_mul(d, d), 1);
    et_variable(s, "kept", et_shape_scalar(), (et_init){ ET_INIT_ONES, 0 });
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "y", ET_F32, y, et_shape_1(1) } };
    (void)self;
    for (int i = 0; i < 8; i++)
        x[2 * i] = y[i] = (float)i / 8;
    return toy_source(out, arrays, 2, 8, 4, training, error);
}

static const et_task_class class = {
    .name = "toy", .build = build, .data = data, .best_metric = "validation_loss"
};

/* Trains four steps, of which the second is declared the best. */
static void train(const char *directory)
{
    toy_run r;
    et_optimizer_setup optimizer = { .settings = "ema: {enabled: true, average_decay: 0.5}" };
    width = 3;
    toy_run_init(&r, &class);
    r.trainer_options.optimizer = &optimizer;
    r.trainer_options.seed = 1;
    r.options.train_steps = 4;
    r.options.checkpoint_interval = 1;
    r.options.validation_interval = 2;
    r.options.run.best_metric = "validation_loss";
    r.options.run.best_comparison = ET_COMPARE_HIGHER; /* the earlier one */
    assert_ok(toy_run_start(&r, directory, error));
    assert_ok(et_controller_train(r.controller, error));
    assert_int_equal(toy_run_close(&r), 0);
}

static float first_of(et_params *params, const char *name)
{
    return et_params_values(params)[et_params_offset(params, et_params_find(params, name))];
}

/* Of a run that has begun with others' weights: first values. */
static int begin(const char *from, const char *pattern, int hidden, float *body, float *head,
                 et_error *error)
{
    toy_run r;
    width = hidden;
    toy_run_init(&r, &class);
    r.trainer_options.seed = 99;
    r.task.init_checkpoint = from;
    r.task.init_pattern = pattern;
    int status = toy_run_start_trainer(&r, error);
    if (!status)
        status = et_task_trainer_initialize(r.trainer, error);
    if (!status) {
        *body = first_of(r.params, "body/weight");
        *head = first_of(r.params, "head/weight");
    }
    toy_run_close(&r);
    return status;
}

/* The weights as a predictor reads them: the average. */
static void weights_of(const char *path, float *body, float *head)
{
    toy_run r;
    width = 3;
    toy_run_init(&r, &class);
    assert_ok(toy_run_start_trainer(&r, error));
    assert_ok(et_checkpoint_load_weights(r.params, path, true, NULL, error));
    *body = first_of(r.params, "body/weight");
    *head = first_of(r.params, "head/weight");
    toy_run_close(&r);
}

static void test_initialize__from(void **state)
{
    const char *directory = in(state, "from");
    float drawn[2], newest[2], best[2], got[2];
    char file[700], best_file[700];
    train(directory);
    snprintf(file, sizeof file, "%s/checkpoints/ckpt-4.safetensors", directory);
    snprintf(best_file, sizeof best_file, "%s/best", directory);
    assert_ok(begin(NULL, NULL, 3, &drawn[0], &drawn[1], error));
    assert_ok(begin("", NULL, 3, &got[0], &got[1], error));
    assert_memory_equal(got, drawn, sizeof got);
    weights_of(file, &newest[0], &newest[1]);
    assert_true(newest[0] != drawn[0] && newest[1] != drawn[1]);
    assert_ok(begin(file, NULL, 3, &got[0], &got[1], error));
    assert_memory_equal(got, newest, sizeof got);
    assert_ok(begin(directory, NULL, 3, &got[0], &got[1], error));
    assert_memory_equal(got, newest, sizeof got);
    snprintf(file, sizeof file, "%s/best/best-2.safetensors", directory);
    weights_of(file, &best[0], &best[1]);
    assert_true(best[0] != newest[0]);
    assert_ok(begin(best_file, NULL, 3, &got[0], &got[1], error));
    assert_memory_equal(got, best, sizeof got);
    strcat(best_file, "/"); /* as shells complete it */
    assert_ok(begin(best_file, NULL, 3, &got[0], &got[1], error));
    assert_memory_equal(got, best, sizeof got);
    /* Only a part of them, also into a model whose other part has another shape. */
    assert_ok(begin(directory, "^body/", 3, &got[0], &got[1], error));
    assert_true(got[0] == newest[0] && got[1] == drawn[1]);
    assert_ok(begin(directory, "^head/bias$", 5, &got[0], &got[1], error));

    static const struct {
        const char *pattern;
        int hidden, status;
        const char *text;
    } cases[] = {
        { NULL, 5, ET_ECONFIG, "body/weight is float32" },
        { "weight", 5, ET_ECONFIG, "body/weight is float32" },
        { "^tail/", 3, ET_ECONFIG, "matches no parameter; the first parameter is" },
        { "(", 3, ET_ECONFIG, "init_pattern" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(begin(directory, cases[i].pattern, cases[i].hidden, &got[0], &got[1], error),
                     cases[i].status, cases[i].text);
    assert_fails(begin("no/such/file", NULL, 3, &got[0], &got[1], error), ET_ENOTFOUND,
                 "initializing with the weights of no/such/file");
    assert_int_equal(mkdir(in(state, "empty"), 0700), 0);
    assert_fails(begin(in(state, "empty"), NULL, 3, &got[0], &got[1], error), ET_ENOTFOUND,
                 "empty: no checkpoint here; name a run's directory");
    put_file(in(state, "text"), "no weights", 10);
    assert_fails(begin(in(state, "text"), NULL, 3, &got[0], &got[1], error), ET_EFORMAT, "text");
    et_params *params;
    assert_ok(et_params_new(&params, error));
    assert_fails(et_checkpoint_initialize(params, directory, NULL, error), ET_EUSAGE,
                 "et_params_materialize before");
    et_params_free(params);
}

/* A resumed run does not begin again. */
static void test_initialize__not_where_restored(void **state)
{
    const char *directory = in(state, "source");
    char file[700];
    train(directory);
    for (int process = 0; process < 2; process++) {
        toy_run r;
        toy_run_init(&r, &class);
        r.options.train_steps = 2 + 2 * process;
        r.task.init_checkpoint = process ? "no/such/file" : directory;
        assert_ok(toy_run_start(&r, in(state, "tuned"), error));
        assert_ok(et_controller_train(r.controller, error));
        assert_int_equal(toy_run_close(&r), 0);
    }
    snprintf(file, sizeof file, "%s/checkpoints/ckpt-4.safetensors", in(state, "tuned"));
    assert_int_equal(access(file, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initialize__from),
        cmocka_unit_test(test_initialize__not_where_restored),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
