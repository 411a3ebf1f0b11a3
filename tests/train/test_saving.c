/* Saves that fail during a run: reported at the next step, tried once more, and then handled as the
 * setting says. This test receives the library's calls of fsync, and makes some of those for
 * checkpoints fail.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/log.h>

#include "formats/files.h"
#include "systems/orbit/controller_private.h"
#include "train/run/run_private.h"
#include "train/toy_run.h"

enum { ROWS = 4, WIDTH = 4, STEPS = 8, INTERVAL = 4, BATCHES = 2 };

/* Of the calls of fsync for checkpoints, from 1 on, the first and the last that fail; a save that
 * does not fail makes two. */
static int first_bad, last_bad;
static atomic_int calls, failures;

static bool is_checkpoint(int fd)
{
    char link[64], name[600];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = 0;
    return strstr(name, "/ckpt-") != NULL;
}

int fsync(int fd)
{
    if (is_checkpoint(fd)) {
        int call = ++calls;
        if (call >= first_bad && call <= last_bad) {
            failures++;
            errno = ENOSPC;
            return -1;
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

static char said[4096]; /* warnings so far, a line each */

static void hear(void *payload, et_log_level level, const char *text)
{
    size_t length = strlen(said);
    (void)payload, (void)level;
    snprintf(said + length, sizeof said - length, "%s\n", text);
}

static int count(const char *text)
{
    int found = 0;
    for (const char *at = said; (at = strstr(at, text)) != NULL; at++)
        found++;
    return found;
}

static float x[ROWS * WIDTH];
static int32_t labels[ROWS];
static int batches;            /* given so far */
static et_controller *running; /* the case's */

static void build(et_task *self, et_scope *scope, bool training)
{
    (void)self, (void)training;
    et_node *h = et_dense(et_in(scope, "h"), et_batch_input(scope, "x"), WIDTH);
    et_init init = et_init_glorot_uniform(8, WIDTH);
    et_node *table = et_param(scope, "table", et_shape_2(8, WIDTH), init);
    et_loss(scope, "loss", et_vocabulary_loss(h, table, et_batch_input(scope, "labels"), 0.1f), 1);
}

/* The fifth step waits until a failing save has ended; the sixth checks that it was reported. If it
 * failed before the fifth step began, the second try may have been reported as well. */
static int watch(void *payload, et_batch *batch, et_error *error)
{
    (void)payload, (void)batch, (void)error;
    struct timespec moment = { 0, 1000000 };
    if (batches == BATCHES * INTERVAL && first_bad == 1 && last_bad >= 1) {
        while (!failures || !et_checkpoints_ended(running->run->checkpoints))
            nanosleep(&moment, NULL);
    }
    if (batches == BATCHES * (INTERVAL + 1) && failures)
        assert_true(count("saving step 4: ") >= 1 && count("trying once more") == 1);
    batches++;
    return ET_OK;
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(WIDTH) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    (void)self;
    if (!training)
        return ET_OK;
    et_source *source;
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i * 7 % 5) - 2;
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % 8;
    int status = toy_source(&source, arrays, 2, ROWS, ROWS, true, error);
    return status ? status : et_map_open(out, source, watch, NULL, error);
}

static const et_task_class task_class = { .name = "toy", .build = build, .data = data };

static bool is_saved(const char *directory, int step)
{
    char path[700];
    snprintf(path, sizeof path, "%s/checkpoints/ckpt-%d.safetensors", directory, step);
    return access(path, R_OK) == 0;
}

static void test_saving__failures(void **state)
{
    static const struct {
        int first, last; /* bad calls of fsync */
        int setting;     /* of on_failed_save */
        int status;
        int told, gone_on; /* failures that were tried again, failures after which training
                            * continued */
        /* Whether steps 4 and 8 are saved, + or -; ?: by when the failure is seen. The second try
         * is of the step that training is at then, which may be the same. */
        const char *saved;
    } cases[] = {
        { 0, -1, ET_FAILED_SAVE_STOP, ET_OK, 0, 0, "++" },
        { 1, 1, ET_FAILED_SAVE_STOP, ET_OK, 1, 0, "?+" },
        { 1, 2, ET_FAILED_SAVE_STOP, ET_ENOSPACE, 1, 0, "--" },
        { 1, 2, ET_FAILED_SAVE_GO_ON, ET_OK, 1, 1, "-+" },
        { 1, 99, ET_FAILED_SAVE_GO_ON, ET_ENOSPACE, 1, 2, "--" },
        { 3, 3, ET_FAILED_SAVE_STOP, ET_OK, 1, 0, "++" },
        { 3, 4, ET_FAILED_SAVE_GO_ON, ET_ENOSPACE, 1, 1, "+-" },
    };
    et_log_set(hear, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy_run r;
        char directory[600];
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "run"), i);
        toy_run_init(&r, &task_class);
        r.options.train_steps = STEPS;
        r.options.checkpoint_interval = INTERVAL;
        r.options.run.on_failed_save = cases[i].setting;
        first_bad = cases[i].first;
        last_bad = cases[i].last;
        calls = failures = batches = 0;
        said[0] = 0;
        assert_ok(toy_run_start(&r, directory, error));
        et_error failure = ET_ERROR_INIT;
        running = r.controller;
        int status = et_controller_train(r.controller, &failure);
        toy_run_close(&r);
        if (status != cases[i].status || count("; trying once more") != cases[i].told ||
            count("; training continues") != cases[i].gone_on)
            fail_msg("case %zu: status %d (%s), said: %s", i, status, failure.text, said);
        if (status)
            assert_non_null(strstr(failure.text, "saving step "));
        for (int n = 0; n < STEPS / INTERVAL; n++) {
            int step = (n + 1) * INTERVAL;
            char wanted = cases[i].saved[n];
            if (wanted != '?' && is_saved(directory, step) != (wanted == '+'))
                fail_msg("case %zu: step %d is%s saved", i, step, wanted == '+' ? " not" : "");
        }
    }
    et_log_set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saving__failures),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
