/* A training by a loop is killed at random instants and resumed from its newest checkpoint until it
 * is done: its files are, to the byte, those of an uninterrupted one. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/pass.h>

#include "systems/tfsnippet/looped.h"
#include "train/train.h"

enum { SAMPLES = 40, FEATURES = 5, ROWS = 8, EPOCHS = 6, KILLS_MAX = 400 };

static float features[SAMPLES][FEATURES], targets[SAMPLES];

static void build(et_scope *s, void *payload)
{
    (void)payload;
    et_dense_options tanh_layer = { .activation = ET_ACTIVATION_TANH };
    et_node *h = et_dense_with(et_in(s, "hidden"), et_batch_input(s, "x"), 16, &tanh_layer);
    et_node *d = et_sub(et_dense(et_in(s, "out"), et_dropout(et_in(s, "drop"), h, 0.1f), 1),
                        et_batch_input(s, "y"));
    et_loss(s, "loss", et_mul(d, d), 1);
}

static et_source *open_source(void)
{
    const et_array arrays[] = { { "x", ET_F32, features, et_shape_1(FEATURES) },
                                { "y", ET_F32, targets, et_shape_1(1) } };
    et_batches_options options = { .shuffle = true, .repeat = true, .capacity = { ROWS } };
    et_samples *samples;
    et_source *source;
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        features[i / FEATURES][i % FEATURES] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < SAMPLES; i++)
        targets[i] = (float)(i * 13 % 17) / 9 - 1;
    if (et_arrays_open(&samples, arrays, 2, SAMPLES, NULL) ||
        et_batches_open(&source, samples, &options, NULL) ||
        et_prefetch_open(&source, source, 2, NULL))
        _exit(3);
    return source;
}

static void drop(void *payload, const char *text)
{
    (void)payload, (void)text;
}

/* The whole program: it does not know whether it begins or resumes. */
static int program(const char *directory)
{
    et_error error = ET_ERROR_INIT;
    et_device *device;
    et_params *params;
    et_pass *pass;
    et_optimizer *optimizer;
    et_loop *loop;
    const et_loop_frequency freq = { "loss", 2 };
    const et_pass_options training = { .training = true };
    const et_loop_options options = { .max_epoch = EPOCHS,
                                      .checkpoint_dir = directory,
                                      .checkpoint_epoch_freq = 1,
                                      .checkpoint_max_to_keep = 3,
                                      .summary_dir = directory,
                                      .summary_commit_freqs = &freq,
                                      .summary_commit_freq_count = 1,
                                      .early_stopping = true,
                                      .print = drop };
    et_source *source = open_source();
    if (et_device_open(&device, &error) || et_params_new(&params, &error) ||
        et_pass_open(&pass, device, params, &source->layout, build, NULL, &training, &error) ||
        et_params_materialize(params, false, &error) ||
        et_optimizer_open(&optimizer, device, params, NULL, NULL, &error))
        return fprintf(stderr, "%s\n", error.text), 1;
    et_init_draw(params, 3);
    if (et_loop_open(&loop, params, &options, &error) ||
        et_state_add_optimizer(et_loop_state(loop), "optimizer", optimizer, &error) ||
        et_loop_begin(loop, &error))
        return fprintf(stderr, "%s\n", error.text), 1;
    while (et_loop_next_epoch(loop)) {
        while (et_loop_next_step(loop, source)) {
            if (et_pass_run(pass, et_loop_step_data(loop), 1, (uint64_t)et_loop_step(loop),
                            &error) ||
                et_optimizer_update(optimizer, pass, NULL, &error))
                et_loop_fail(loop, &error);
            et_loop_collect(loop, "loss", et_pass_loss(pass) / et_pass_divisor(pass));
            if (et_loop_step(loop) % 3 == 0)
                et_loop_make_checkpoint(loop);
        }
        et_loop_collect(loop, "valid_loss",
                        fabs(et_params_values(params)[0] - 0.05 * (double)et_loop_epoch(loop)));
        if (et_loop_epoch(loop) % 2 == 0)
            et_loop_print_logs(loop);
    }
    int status = et_loop_end(loop, &error);
    et_loop_close(loop);
    et_optimizer_free(optimizer);
    et_pass_close(pass);
    et_params_free(params);
    et_source_close(source);
    et_device_close(device);
    return status ? fprintf(stderr, "%s\n", error.text), 1 : 0;
}

static void wait_microseconds(long microseconds)
{
    struct timespec time = { microseconds / 1000000, microseconds % 1000000 * 1000 };
    nanosleep(&time, NULL);
}

/* Runs this program again, since a child that was only forked has no threads of OpenMP. Below 0: it
 * is not killed. Returns whether it came to its end. */
static bool run_and_kill(const char *directory, long microseconds)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_loop_kill", directory, (char *)NULL);
        _exit(127);
    }
    if (microseconds >= 0) {
        wait_microseconds(microseconds);
        kill(pid, SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static void assert_same(const char *a, const char *b, const char *name)
{
    size_t a_length, b_length;
    char *a_bytes = get_file(below(a, name), &a_length);
    char *b_bytes = get_file(below(b, name), &b_length);
    if (a_length != b_length || memcmp(a_bytes, b_bytes, a_length) != 0)
        fail_msg("%s: not the same after kills", name);
    free(a_bytes);
    free(b_bytes);
}

/* Time grows with every kill, to seconds, so that it gets through in the end on any machine. */
static void test_loop_kill__same_bytes(void **state)
{
    static const char *const files[] = { "checkpoints/ckpt-30.safetensors",
                                         "checkpoints/ckpt-27.safetensors", "best/info.json" };
    char whole[64], killed[64];
    snprintf(whole, sizeof whole, "%s", in(state, "whole"));
    assert_true(run_and_kill(whole, -1));
    unsigned random = 4711;
    for (int round = 0; round < 4; round++) {
        char name[16];
        int kills = 0;
        snprintf(name, sizeof name, "killed%d", round);
        snprintf(killed, sizeof killed, "%s", in(state, name));
        for (bool done = false; !done; kills++) {
            assert_true(kills < KILLS_MAX);
            random = random * 1103515245u + 12345u;
            const long most = 20000 + 2000L * kills + 30L * kills * kills;
            done = run_and_kill(killed, 1000 + (long)(random >> 8) % most);
        }
        print_message("%d kills\n", kills - 1);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            assert_same(whole, killed, files[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return program(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_kill__same_bytes),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
