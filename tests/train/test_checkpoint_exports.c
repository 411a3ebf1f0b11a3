/* Exports that come and go with a run's checkpoints, and waiting for them. */
#include <etude/checkpoint.h>
#include <etude/ready_actions.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/values/value.h"
#include "formats/files.h"
#include "train/toy_run.h"

static float x[8], y[8];

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *d =
        et_sub(et_dense(et_in(s, "line"), et_batch_input(s, "x"), 1), et_batch_input(s, "y"));
    et_loss(s, "loss", et_mul(d, d), 1);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(1) },
                                { "y", ET_F32, y, et_shape_1(1) } };
    (void)self;
    for (int i = 0; i < 8; i++)
        x[i] = y[i] = (float)i / 8;
    return toy_source(out, arrays, 2, 8, 4, training, error);
}

static const et_task_class class = { .name = "toy", .build = build, .data = data };

/* Trains up to a step; the last two checkpoints are kept. */
static void train(const char *directory, int64_t steps)
{
    toy_run r;
    et_optimizer_setup optimizer = { .settings = "ema: {enabled: true, average_decay: 0.5}" };
    toy_run_init(&r, &class);
    r.trainer_options.optimizer = &optimizer;
    r.options.train_steps = steps;
    r.options.checkpoint_interval = 1;
    r.options.run.max_to_keep = 2;
    assert_ok(toy_run_start(&r, directory, error));
    assert_ok(et_controller_train(r.controller, error));
    assert_int_equal(toy_run_close(&r), 0);
}

/* The average, as a predictor reads it. */
static float weight_of(const char *path, int64_t step)
{
    toy_run r;
    et_checkpoint_facts facts = { 0 };
    toy_run_init(&r, &class);
    assert_ok(toy_run_start_trainer(&r, error));
    assert_ok(et_checkpoint_load_weights(r.params, path, true, &facts, error));
    float weight = et_params_values(r.params)[0];
    assert_int_equal(facts.step, step);
    toy_run_close(&r);
    return weight;
}

static const char *names_of(const et_exports *e)
{
    static char names[400];
    et_arena arena = ET_ARENA_INIT;
    et_value *list = et_value_list(&arena);
    assert_ok(et_exports_managed(e, list, error));
    names[0] = '\0';
    for (const et_value *v = list->first; v; v = v->next) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s ", strstr(v->string, "out-") + 4);
    }
    et_arena_release(&arena);
    return names;
}

/* Also below a folder of the export's own, which is removed by itself. */
static void test_checkpoint_exports__follow(void **state)
{
    for (int below = 0; below < 2; below++) {
        et_arena arena = ET_ARENA_INIT;
        et_exports *e;
        et_checkpoint_export action;
        et_exports_options options = { .subdirectory = below ? "sub" : NULL };
        et_value *settings = et_value_dict(&arena);
        char run[700], base[700], file[900], checkpoint[900];
        et_value_set_int(settings, "width", 3);
        snprintf(run, sizeof run, "%s-%d", in(state, "run"), below);
        snprintf(base, sizeof base, "%s-%d/out", in(state, "exports"), below);
        assert_ok(et_exports_open(&e, base, 1, &options, error));
        et_checkpoint_export_init(&action, "export", e, run, settings);
        const et_action_context now = { .step = 2 };
        assert_ok(action.action.class->act(&action.action, &now, error)); /* no run yet */
        assert_string_equal(names_of(e), "");
        train(run, 2);
        assert_ok(action.action.class->act(&action.action, &now, error));
        assert_string_equal(names_of(e), below ? "1/sub 2/sub " : "1 2 ");
        train(run, 3);
        snprintf(file, sizeof file, "%s-2%s/settings.json", base, below ? "/sub" : "");
        assert_int_equal(unlink(file), 0); /* an existing export is not made again */
        assert_ok(et_exports_follow(e, run, settings, error));
        assert_string_equal(names_of(e), below ? "2/sub 3/sub " : "2 3 ");
        assert_false(file_is_there(file));
        snprintf(file, sizeof file, "%s-3%s/settings.json", base, below ? "/sub" : "");
        assert_true(file_is_there(file));
        snprintf(file, sizeof file, "%s-3%s/weights.safetensors", base, below ? "/sub" : "");
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/ckpt-3.safetensors", run);
        assert_true(weight_of(file, 3) == weight_of(checkpoint, 3));
        assert_ok(et_exports_follow(e, "no/such/run", settings, error)); /* nothing was swept */
        assert_fails(et_exports_follow(e, NULL, settings, error), ET_ENOTFOUND, "a run");
        assert_string_equal(names_of(e), below ? "2/sub 3/sub " : "2 3 ");
        et_exports_close(e);
        et_arena_release(&arena);
    }
}

static void make_old(const char *path, int hours)
{
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= (time_t)hours * 3600;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Leftovers of a killed process are removed after an hour; not those of a living process, which has
 * process number 1 here. */
static void test_checkpoint_exports__left_over(void **state)
{
    static const struct {
        const char *name;
        int hours;
        bool stays;
    } cases[] = { { ".out.tmp.2147483646", 2, false },
                  { ".out.tmp.2147483645", 0, true },
                  { ".out.tmp.1", 2, true },
                  { ".out.tmp.", 2, true },
                  { ".other.tmp.2147483646", 2, true } };
    et_exports *e;
    char base[700], path[900];
    const char *run = in(state, "left");
    snprintf(base, sizeof base, "%s/exports/out", run);
    train(run, 1);
    snprintf(path, sizeof path, "%s/exports", run);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(path, sizeof path, "%s/exports/%s", run, cases[i].name);
        assert_int_equal(mkdir(path, 0700), 0);
        make_old(path, cases[i].hours);
    }
    /* Of a process that had our number, as in containers: its leftovers are in no export. */
    snprintf(path, sizeof path, "%s/exports/.out.tmp.%ld", run, (long)getpid());
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/exports/.out.tmp.%ld/settings.json", run, (long)getpid());
    put_file(path, "{}", 2);
    assert_ok(et_exports_open(&e, base, 1, NULL, error));
    assert_ok(et_exports_follow(e, run, NULL, error));
    assert_string_equal(names_of(e), "1 ");
    snprintf(path, sizeof path, "%s/exports/out-1/settings.json", run);
    assert_int_not_equal(access(path, F_OK), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(path, sizeof path, "%s/exports/%s", run, cases[i].name);
        assert_int_equal(access(path, F_OK) == 0, cases[i].stays);
    }
    et_exports_close(e);
}

/* The message names a damaged checkpoint, and existing exports stay. */
static void test_checkpoint_exports__damaged(void **state)
{
    et_exports *e;
    char base[700], file[900];
    const char *run = in(state, "damaged");
    snprintf(base, sizeof base, "%s/exports/out", run);
    train(run, 2);
    snprintf(file, sizeof file, "%s/checkpoints/ckpt-2.safetensors", run);
    put_file(file, "no weights", 10);
    assert_ok(et_exports_open(&e, base, 1, NULL, error));
    assert_fails(et_exports_follow(e, run, NULL, error), ET_EFORMAT, "ckpt-2.safetensors");
    assert_string_equal(names_of(e), "1 ");
    et_exports_close(e);
}

/* Each new export is returned, in order; an awaited one comes from another process. */
static void test_checkpoint_exports__wait(void **state)
{
    et_exports *e;
    char base[700];
    const char *path, *run = in(state, "waits");
    int64_t id;
    int how;
    snprintf(base, sizeof base, "%s/exports/out", run);
    assert_ok(et_exports_open(&e, base, 1, NULL, error));
    assert_ok(et_exports_wait(e, -1, 0, &id, &path, error));
    assert_int_equal(id, -1);
    assert_null(path);
    train(run, 2);
    pid_t child = fork();
    if (!child) {
        et_clock_sleep(0.1);
        _exit(et_exports_follow(e, run, NULL, NULL) ? 1 : 0);
    }
    assert_ok(et_exports_wait(e, -1, 60, &id, &path, error));
    assert_int_equal(id, 1);
    assert_string_equal(strrchr(path, '/'), "/out-1");
    assert_ok(et_exports_wait(e, id, 60, &id, NULL, error));
    assert_int_equal(id, 2);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_ok(et_exports_wait(e, 2, 0.05, &id, &path, error));
    assert_int_equal(id, -1);
    assert_null(path);
    et_exports_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_exports__follow),
        cmocka_unit_test(test_checkpoint_exports__left_over),
        cmocka_unit_test(test_checkpoint_exports__damaged),
        cmocka_unit_test(test_checkpoint_exports__wait),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
