/* A run of the outer loop that is interrupted, fails or is killed ends as an unbroken one; an
 * action may end it; checkpoints are restored. */
#include <etude/outer_loop.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "systems/orbit/outer_play.h"

enum { TO = 14, EVERY = 5 };

/* in(), for as long as the caller has it. */
static const char *place(char text[700], void **state, const char *name)
{
    snprintf(text, 700, "%s", in(state, name));
    return text;
}

/* A process of a program: opens, trains and evaluates, closes. */
static int process(play *p, const char *directory, et_error *error)
{
    p->options.steps_per_loop = 3;
    p->options.checkpoint_interval = 4;
    p->keep = true;
    prepare(p, directory);
    int status = et_controller_open(&p->controller, &p->options, error);
    if (!status)
        status = et_controller_train_and_evaluate(p->controller, TO, 2, EVERY, NULL, error);
    finish(p);
    return status;
}

static void assert_same_run(const char *one, const char *other)
{
    assert_string_equal(logged(one), logged(other));
    char saved[200], path[2][800];
    snprintf(saved, sizeof saved, "%s", checkpoints(one));
    assert_string_equal(checkpoints(other), saved);
    for (char *step = strtok(saved, " "); step; step = strtok(NULL, " ")) {
        size_t length[2];
        char *bytes[2];
        for (int i = 0; i < 2; i++) {
            snprintf(path[i], sizeof path[i], "%s/checkpoints/ckpt-%s.safetensors", i ? other : one,
                     step);
            bytes[i] = get_file(path[i], &length[i]);
        }
        assert_int_equal(length[0], length[1]);
        assert_memory_equal(bytes[0], bytes[1], length[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
}

#define ALL_WORDS "L3 t3 L5 t5 V5 e5 L8 t8 L10 t10 V10 e10 L13 t13 L14 t14 V14 e14 "

/* Asked to stop after each step, or interrupted in each hook and action: no word is missing or
 * comes twice. */
static void test_outer_loop_ends__interrupted(void **state)
{
    char text[700];
    const char *whole = place(text, state, "interrupted-whole");
    play unbroken = { .countdown = 0 };
    words[0] = 0;
    assert_ok(process(&unbroken, whole, error));
    assert_string_equal(words, ALL_WORDS);
    assert_string_equal(checkpoints(whole), "5 8 10 13 14 ");
    for (int n = 1; n <= 18 + TO; n++) {
        char directory[700];
        int status = ET_EINTERRUPTED, processes = 0;
        snprintf(directory, sizeof directory, "%s-%d", in(state, "interrupted"), n);
        words[0] = 0;
        for (; status == ET_EINTERRUPTED; processes++) {
            play p = { .breaks = ET_EINTERRUPTED };
            if (!processes && n <= 18)
                p.countdown = n;
            else if (!processes)
                p.stop_after = n - 18;
            status = process(&p, directory, NULL);
        }
        assert_int_equal(status, ET_OK);

        assert_int_equal(processes, 2);
        if (strcmp(words, ALL_WORDS) != 0)
            fail_msg("broken at %d: %s", n, words);
        assert_same_run(directory, whole);
    }
}

/* A failure leaves the last checkpoint, from which all is done again. */
static void test_outer_loop_ends__failed(void **state)
{
    char text[700];
    const char *whole = place(text, state, "failed-whole");
    play unbroken = { .countdown = 0 };
    assert_ok(process(&unbroken, whole, error));
    for (int n = 1; n <= 18; n++) {
        char directory[700];
        play p = { .breaks = ET_EIO, .countdown = n }, again = { .countdown = 0 };
        snprintf(directory, sizeof directory, "%s-%d", in(state, "failed"), n);
        assert_int_equal(process(&p, directory, NULL), ET_EIO);
        assert_ok(process(&again, directory, error));
        assert_same_run(directory, whole);
    }
}

/* Of a program that start() started. */
static int child_main(const char *directory)
{
    play p = { .pause_us = 2000 };
    return process(&p, directory, NULL);
}

/* Killed at random instants, again and again. */
static void test_outer_loop_ends__killed(void **state)
{
    char text[700];
    const char *whole = place(text, state, "killed-whole"), *directory = in(state, "killed");
    play unbroken = { .countdown = 0 };
    assert_ok(process(&unbroken, whole, error));
    unsigned pause = 12345;
    int ended = 0, kills = 0;
    for (int i = 0; !ended; i++) {
        pid_t child = start(directory);
        pause = pause * 1103515245u + 12345u;
        if (i < 20) {
            usleep(i ? pause / 65536 % 40000 : 0); /* the first one always lands */
            kill(child, SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        ended = WIFEXITED(status);
        kills += !ended;
        if (ended)
            assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_true(kills > 0);
    assert_same_run(directory, whole);
}

/* An action ends the run: the rest acts as at an end, and the run stays ended. */
static void test_outer_loop_ends__ended(void **state)
{
    for (int by_eval = 0; by_eval < 2; by_eval++) {
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%d", in(state, "ended"), by_eval);
        words[0] = 0;
        for (int i = 0; i < 2; i++) {
            play p = { .countdown = 0 };
            p.train_action.stops_at = by_eval ? 0 : 8;
            p.eval_action.stops_at = by_eval ? 5 : 0;
            assert_ok(process(&p, directory, error));
            assert_string_equal(words,
                                by_eval ? "L3 t3 L5 t5 V5 e5 " : "L3 t3 L5 t5 V5 e5 L8 t8 V8 e8 ");
        }
        assert_string_equal(checkpoints(directory), by_eval ? "5 " : "5 8 ");
    }
}

/* It ends one call, however often the run is resumed meanwhile, and not the following calls. */
static void test_outer_loop_ends__ended_call(void **state)
{
    const char *directory = in(state, "ended call");
    const struct {
        int64_t target, stops_at, after; /* the step that it ends at */
        bool anew;                       /* in another process */
    } calls[] = {
        { 12, 6, 6, true },   { 12, 0, 6, true }, /* that call again: it has ended */
        { 12, 0, 12, false }, { 21, 15, 15, false }, { 18, 0, 18, true },
        { 18, 0, 18, false }, { 24, 21, 21, false }, { 24, 0, 24, false },
        { 36, 30, 30, true }, { 36, 0, 36, false }, /* stopped by this process */
    };
    play p;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].anew) {
            if (i)
                finish(&p);
            p = (play){ .options = { .steps_per_loop = 3 } };
            begin(&p, directory);
        }
        p.train_action.stops_at = calls[i].stops_at;
        assert_ok(et_controller_train_to(p.controller, calls[i].target, false, error));
        assert_int_equal(et_controller_step(p.controller), calls[i].after);
    }
    finish(&p);
}

static void test_outer_loop_ends__restore(void **state)
{
    const char *directory = in(state, "restore");
    play p = { .options = { .steps_per_loop = 3, .checkpoint_interval = 3 } };
    char path[800];
    int64_t step;
    float at_3, at_6;
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 3, false, error));
    at_3 = et_params_values(p.params)[0];
    assert_ok(et_controller_train_to(p.controller, 6, false, error));
    at_6 = et_params_values(p.params)[0];
    snprintf(path, sizeof path, "%s/checkpoints/ckpt-3.safetensors", directory);
    assert_ok(et_controller_restore(p.controller, path, &step, error));
    assert_int_equal(step, 3);
    assert_int_equal(et_controller_step(p.controller), 3);
    assert_true(et_params_values(p.params)[0] == at_3);
    assert_ok(et_controller_train_to(p.controller, 6, false, error)); /* the same data again */
    assert_true(et_params_values(p.params)[0] == at_6);
    assert_ok(et_controller_restore(p.controller, NULL, &step, error));
    assert_int_equal(step, 6);
    snprintf(path, sizeof path, "%s/checkpoints/ckpt-4.safetensors", directory);
    assert_int_equal(et_controller_restore(p.controller, path, &step, NULL), ET_ENOTFOUND);
    finish(&p);

    play q = { .options = { .steps_per_loop = 3 } }; /* as in the constructor */
    begin(&q, directory);
    assert_int_equal(et_controller_step(q.controller), 6);
    assert_non_null(strstr(q.told, "restored from checkpoint: "));
    finish(&q);
    play r = { .options = { .steps_per_loop = 3 } };
    begin(&r, in(state, "nothing to restore"));
    assert_ok(et_controller_train_to(r.controller, 2, true, error));
    assert_ok(et_controller_restore(r.controller, NULL, &step, error));
    assert_int_equal(step, -1);
    assert_int_equal(et_controller_step(r.controller), 0);
    finish(&r);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return child_main(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outer_loop_ends__interrupted),
        cmocka_unit_test(test_outer_loop_ends__failed),
        cmocka_unit_test(test_outer_loop_ends__killed),
        cmocka_unit_test(test_outer_loop_ends__ended),
        cmocka_unit_test(test_outer_loop_ends__ended_call),
        cmocka_unit_test(test_outer_loop_ends__restore),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
