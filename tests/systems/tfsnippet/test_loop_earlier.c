/* Files of earlier loops in a loop's directory: none is deleted. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

#include "base/arena.h"

static int64_t size_of(const char *path)
{
    size_t length;
    free(get_file(path, &length));
    return (int64_t)length;
}

/* Three epochs of one step, saved and logged each. */
static void run_three(looped *l)
{
    looped_begin(l);
    while (et_loop_next_epoch(l->loop))
        while (et_loop_next_step(l->loop, NULL)) {
            et_loop_collect(l->loop, "x", 1);
            et_loop_leave_steps(l->loop);
            break;
        }
    looped_end(l);
}

#define EVENTS "events.out.tfevents.0000000000.etude"

/* A loop that begins anew in another's directory deletes none of its files. */
static void test_loop_earlier__begun_anew_beside_earlier_work(void **state)
{
    looped l;
    char directory[512], logs[512];
    snprintf(directory, sizeof directory, "%s", in(state, "twice"));
    snprintf(logs, sizeof logs, "%s", in(state, "twice/logs"));
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.summary_dir = logs;
    l.options.checkpoint_epoch_freq = 1;
    l.options.max_epoch = 3;
    l.options.max_step = 100;
    run_three(&l);
    const int64_t events = size_of(below(logs, EVENTS));
    l.options.restore_checkpoint = ET_LOOP_RESTORE_NONE;
    l.options.max_epoch = 2;
    run_three(&l);
    assert_true(file_is_there(below(directory, "checkpoints/earlier-1/ckpt-1.safetensors")));
    assert_true(file_is_there(below(directory, "checkpoints/earlier-1/ckpt-3.safetensors")));
    assert_false(file_is_there(below(directory, "checkpoints/ckpt-3.safetensors")));
    assert_int_equal(size_of(below(logs, "earlier-1/" EVENTS)), events);
    assert_true(size_of(below(logs, EVENTS)) < events);

    /* Resumed from the first of three: what came after it is kept, the logs with it. */
    const int64_t second = size_of(below(logs, EVENTS));
    char first[512];
    snprintf(first, sizeof first, "%s", below(directory, "checkpoints/ckpt-1.safetensors"));
    l.options.restore_checkpoint = first;
    l.options.max_epoch = 3;
    run_three(&l);
    assert_true(file_is_there(below(directory, "checkpoints/earlier-2/ckpt-2.safetensors")));
    assert_int_equal(size_of(below(logs, "earlier-2/" EVENTS)), second);
    assert_int_equal(size_of(below(logs, EVENTS)), events);

    /* Resumed where it ended, no file is set aside. */
    l.options.restore_checkpoint = NULL;
    l.options.max_epoch = 4;
    run_three(&l);
    assert_false(file_is_there(below(directory, "checkpoints/earlier-3")));
    assert_false(file_is_there(below(logs, "earlier-3")));
    looped_free(&l);
}

/* Only summary_dir, without checkpoints. */
static void test_loop_earlier__summary_dir_twice(void **state)
{
    looped l;
    looped_init(&l);
    char logs[512];
    snprintf(logs, sizeof logs, "%s", in(state, "summaries"));
    l.options.summary_dir = logs;
    l.options.max_epoch = 3;
    l.options.max_step = 100;
    run_three(&l);
    const int64_t events = size_of(below(logs, EVENTS));
    run_three(&l);
    assert_int_equal(size_of(below(logs, EVENTS)), events);
    assert_int_equal(size_of(below(logs, "earlier-1/" EVENTS)), events);
    looped_free(&l);
}

/* A loop that was killed before its first save begins again: its logs are the loop's own. Logs of a
 * loop that ended without a save are kept for good. */
static void test_loop_earlier__ended_without_a_save(void **state)
{
    for (int killed = 0; killed < 2; killed++) {
        looped l;
        char directory[512], logs[512];
        snprintf(directory, sizeof directory, "%s", in(state, killed ? "killed" : "ended"));
        snprintf(logs, sizeof logs, "%s/logs", directory);
        looped_init(&l);
        l.options.checkpoint_dir = directory;
        l.options.summary_dir = logs;
        l.options.max_epoch = 3;
        l.options.max_step = 100;
        pid_t child = killed ? fork() : 0;
        if (!child) {
            looped_begin(&l);
            assert_true(et_loop_next_epoch(l.loop));
            assert_true(et_loop_next_step(l.loop, NULL));
            assert_int_equal(et_loop_collect(l.loop, "x", 1), 0);
            if (killed)
                _exit(0);
            looped_end(&l);
        } else {
            assert_int_equal(waitpid(child, NULL, 0), child);
        }
        assert_int_equal(file_is_there(below(directory, "checkpoints/checkpoint.json")), killed);
        run_three(&l);
        assert_int_equal(file_is_there(below(logs, "earlier-1")), !killed);
        looped_free(&l);
    }
}

/* A file that gets its first value only after a run was resumed may be of work before the run. */
static void test_loop_earlier__logs_before_the_run(void **state)
{
    looped l;
    char directory[512], logs[512], earlier[600];
    size_t length;
    snprintf(directory, sizeof directory, "%s", in(state, "before"));
    snprintf(logs, sizeof logs, "%s/logs", directory);
    snprintf(earlier, sizeof earlier, "%s/validation/" EVENTS, logs);
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.checkpoint_epoch_freq = 1;
    l.options.summary_dir = logs;
    l.options.max_epoch = 3;
    l.options.max_step = 100;
    assert_int_equal(mkdir(directory, 0777), 0);
    assert_int_equal(mkdir(logs, 0777), 0);
    assert_int_equal(mkdir(below(logs, "validation"), 0777), 0);
    put_file(earlier, "earlier work", 12);
    const struct timespec times[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    assert_int_equal(utimensat(AT_FDCWD, earlier, times, 0), 0);
    run_three(&l);
    l.options.max_epoch = 4;
    looped_begin(&l);
    assert_int_equal(et_loop_epoch(l.loop), 3);
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_value_set_float(et_value_set_dict(values, "validation"), "loss", 1);
    assert_int_equal(et_loop_add_summary(l.loop, values), 0);
    looped_end(&l);
    et_arena_release(&arena);
    char *bytes = get_file(below(logs, "validation/earlier-1/" EVENTS), &length);
    assert_int_equal(length, 12);
    free(bytes);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_earlier__begun_anew_beside_earlier_work),
        cmocka_unit_test(test_loop_earlier__summary_dir_twice),
        cmocka_unit_test(test_loop_earlier__ended_without_a_save),
        cmocka_unit_test(test_loop_earlier__logs_before_the_run),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
