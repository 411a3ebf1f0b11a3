/* Evaluation during another process's training: of one checkpoint, or of each new one. */
#include <etude/outer_loop.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "systems/orbit/outer_play.h"

static void follow_only(play *p, const char *directory)
{
    prepare(p, directory);
    p->options.trainer = NULL;
    p->outer.weights = p->params;
    p->outer.train_action_count = 0;
    assert_ok(et_controller_open(&p->controller, &p->options, error));
}

static bool done_at(void *last, int64_t step)
{
    say("?%d ", (int)step);
    return step >= *(int64_t *)last;
}

static void test_outer_loop_following__evaluate_only(void **state)
{
    const char *directory = in(state, "evaluate only");
    play p = { .options = { .steps_per_loop = 3, .checkpoint_interval = 3 } }, q = { .stop = 0 };
    play r = { .stop = 0 };
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 6, false, error));
    follow_only(&q, directory); /* takes no lock */
    words[0] = 0;
    assert_ok(et_controller_evaluate(q.controller, -1, NULL, error));
    assert_string_equal(words, "V6 e6 ");
    assert_true(et_params_values(q.params)[0] == et_params_values(p.params)[0]);
    follow_only(&r, in(state, "no such run"));
    assert_fails(et_controller_evaluate(r.controller, -1, NULL, error), ET_ENOTFOUND,
                 "no checkpoint here");
    assert_fails(et_controller_train_to(r.controller, 3, false, error), ET_EUSAGE,
                 "`trainer` is not set. Pass `trainer` to et_controller_open before calling "
                 "et_controller_train_to");
    finish(&p);
    finish(&q);
    finish(&r);
}

/* Evaluates every existing checkpoint, in order, and then waits as long as it was told. */
static void test_outer_loop_following__continuously(void **state)
{
    const char *directory = in(state, "continuously");
    play p = { .options = { .steps_per_loop = 2, .checkpoint_interval = 2 } };
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 6, false, error));
    finish(&p);
    static const struct {
        int64_t train_steps, last; /* last 0: no predicate */
        double timeout;
        const char *words;
    } cases[] = {
        { 0, 0, 0, "V2 e2 V4 e4 V6 e6 " },           { 4, 0, -1, "V2 e2 V4 e4 " },
        { 0, 6, -1, "V2 e2 ?2 V4 e4 ?4 V6 e6 ?6 " }, { 0, 4, 30, "V2 e2 ?2 V4 e4 ?4 " },
        { 6, 60, -1, "V2 e2 ?2 V4 e4 ?4 V6 e6 " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        play q = { .options = { .train_steps = cases[i].train_steps } };
        int64_t last = cases[i].last, steps;
        et_arena arena = ET_ARENA_INIT;
        et_value *logs = et_value_dict(&arena);
        follow_only(&q, directory);
        words[0] = 0;
        assert_ok(et_controller_evaluate_continuously(q.controller, -1, cases[i].timeout,
                                                      last ? done_at : NULL, &last, logs, error));
        assert_string_equal(words, cases[i].words);
        assert_ok(et_value_read_int(logs, "steps", &steps, error));
        finish(&q);
        et_arena_release(&arena);
    }
    /* The predicate is called at each timeout; an action or a request also ends the evaluation. */
    play q = { .eval_action.stops_at = 4 }, r = { .stop = 0 };
    follow_only(&q, directory);
    words[0] = 0;
    assert_ok(et_controller_evaluate_continuously(q.controller, 1, -1, NULL, NULL, NULL, error));
    assert_string_equal(words, "V2 e2 V4 e4 ");
    finish(&q);
    follow_only(&r, in(state, "nothing yet"));
    words[0] = 0;
    int64_t last = -1;
    assert_ok(
        et_controller_evaluate_continuously(r.controller, 1, 0.01, done_at, &last, NULL, error));
    assert_string_equal(words, "?-1 ");
    r.stop = 1;
    assert_fails(et_controller_evaluate_continuously(r.controller, 1, -1, NULL, NULL, NULL, error),
                 ET_EINTERRUPTED, "interrupted");
    finish(&r);
}

/* Of a program that start() started. */
static int child_main(const char *directory)
{
    play p = { .pause_us = 2000, .options = { .steps_per_loop = 2, .checkpoint_interval = 2 } };
    begin(&p, directory);
    int status = et_controller_train_to(p.controller, 30, false, NULL);
    finish(&p);
    return status;
}

/* While another process trains and deletes: the existing checkpoints are evaluated, in order, and
 * so is the last one. */
static void test_outer_loop_following__beside_training(void **state)
{
    const char *directory = in(state, "beside");
    pid_t child = start(directory);
    play q = { .options = { .train_steps = 30 } };
    follow_only(&q, directory);
    words[0] = 0;
    assert_ok(et_controller_evaluate_continuously(q.controller, 2, -1, NULL, NULL, NULL, error));
    char expected[1000] = "";
    for (int step = 2; step <= 30; step += 2)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "V%d e%d ", step,
                 step);
    assert_string_equal(words, expected);
    finish(&q);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return child_main(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outer_loop_following__evaluate_only),
        cmocka_unit_test(test_outer_loop_following__continuously),
        cmocka_unit_test(test_outer_loop_following__beside_training),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
