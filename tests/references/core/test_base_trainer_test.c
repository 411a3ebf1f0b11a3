/* Model Garden, official/core/base_trainer_test.py, with the mock task of mock.h: SGD with the
 * constant learning rate 0.1. Tasks of a cluster are processes: this program again. */
#include <arpa/inet.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <etude/modelgarden.h>

#include "references/core/mock.h"
#include "skip.h"

enum { WORKERS = 3, SERVERS = 2 };

/* ---- a trainer ---- */

typedef struct bench {
    et_task task;
    et_task_trainer_options options;
    et_device *device;
    et_params *params;
    et_task_trainer *trainer;
    et_arena *arena;
    et_value *logs;
} bench;

static const et_sgd sgd;
static const et_optimizer_setup optimizer = { .sgd = &sgd, .learning_rate = 0.1 };

static void bench_init(bench *b)
{
    *b = (bench){ .task = { .class = &mock_class },
                  .options = { .optimizer = &optimizer },
                  .arena = et_arena_new() };
    b->logs = et_value_dict(b->arena);
}

static void bench_open(bench *b)
{
    assert_ok(et_device_open(&b->device, error));
    assert_ok(et_params_new(&b->params, error));
    assert_ok(
        et_task_trainer_open(&b->trainer, &b->task, b->device, b->params, &b->options, error));
}

static void bench_close(bench *b)
{
    et_task_trainer_close(b->trainer);
    et_params_free(b->params);
    et_device_close(b->device);
    et_arena_free(b->arena);
}

static double logged(const bench *b, const char *name)
{
    double value = NAN;
    if (et_value_read_float(b->logs, name, &value, NULL) || isnan(value))
        fail_msg("%s: %g", name, value);
    return value;
}

/* The loss is the bias, which each step lowers by 0.1: 1, 0.9, ... */
static void test_base_trainer_test__trainer_train(void **state)
{
    (void)state;
    bench b;
    bench_init(&b);
    bench_open(&b);
    assert_ok(et_task_trainer_initialize(b.trainer, error));
    assert_ok(et_task_trainer_train(b.trainer, 5, b.logs, error));
    assert_float_equal(logged(&b, "training_loss"), 0.8, 1e-6);
    assert_float_equal(logged(&b, "learning_rate"), 0.1, 0);
    bench_close(&b);
}

static void test_base_trainer_test__trainer_passing_datasets(void **state)
{
    (void)state;
    et_task_class without = mock_class;
    et_task_trainer_given given = { .self = NULL };
    bench b;
    without.data = NULL;
    bench_init(&b);
    assert_ok(et_task_build_inputs(&b.task, &(et_data_config){ .training = true }, NULL,
                                   &given.train_dataset, error));
    assert_ok(et_task_build_inputs(&b.task, NULL, NULL, &given.validation_dataset, error));
    b.task.class = &without;
    b.options.given = &given;
    bench_open(&b);
    assert_ok(et_task_trainer_initialize(b.trainer, error));
    assert_ok(et_task_trainer_train(b.trainer, 5, b.logs, error));
    assert_float_equal(logged(&b, "training_loss"), 0.8, 1e-6);
    assert_float_equal(logged(&b, "learning_rate"), 0.1, 0);
    assert_ok(et_task_trainer_evaluate(b.trainer, 5, b.logs, error));
    assert_float_equal(logged(&b, "validation_loss"), 0.5, 1e-6);
    bench_close(&b);
}

static void test_base_trainer_test__trainer_validate(void **state)
{
    (void)state;
    bench b;
    bench_init(&b);
    bench_open(&b);
    assert_ok(et_task_trainer_initialize(b.trainer, error));
    assert_ok(et_task_trainer_evaluate(b.trainer, 5, b.logs, error));
    assert_float_equal(logged(&b, "counter"), 5, 0);
    assert_float_equal(logged(&b, "validation_loss"), 1, 0);
    assert_float_equal(logged(&b, "acc"), 0, 0);
    bench_close(&b);
}

static int step_without_loss(et_task *self, const et_task_step *now, et_value *logs,
                             et_error *error)
{
    int status = et_task_defaults.validation_step(self, now, NULL, error);
    if (!status && logs && !et_value_set_float(logs, "counter", 1))
        status = et_fail(error, ET_ENOMEM, "logs");
    return status;
}

static void test_base_trainer_test__trainer_validate_without_loss(void **state)
{
    (void)state;
    et_task_class silent = mock_class;
    bench b;
    silent.validation_step = step_without_loss;
    bench_init(&b);
    b.task.class = &silent;
    bench_open(&b);
    assert_ok(et_task_trainer_initialize(b.trainer, error));
    assert_ok(et_task_trainer_evaluate(b.trainer, 5, b.logs, error));
    assert_float_equal(logged(&b, "counter"), 5, 0);
    assert_null(et_value_get(b.logs, "validation_loss"));
    bench_close(&b);
}

/* ---- precision and loss scale ---- */

static et_optimizer_request requested;

static int note_request(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                        et_error *error)
{
    requested = *request;
    return et_task_defaults.create_optimizer(self, request, out, error);
}

/* Differs: float16, which CPUs do not compute with, is refused. A loss scale works with float32 and
 * bfloat16, where the reference ignores it; null, which is dynamic with float16, is none. */
static void test_base_trainer_test__configure_optimizer(void **state)
{
    static const double scales[] = { 0, ET_LOSS_SCALE_DYNAMIC, 128, 256 };
    static const char float16[] =
        "{runtime: {mixed_precision_dtype: float16}, trainer: {train_steps: 1, optimizer_config: "
        "{optimizer: {type: sgd}, learning_rate: {type: constant}}}}";
    et_task_context context = { .model_dir = in(state, "float16") };
    et_task *task;
    et_task_class noting = mock_class;
    noting.create_optimizer = note_request;
    assert_ok(et_device_open(&context.device, error));
    assert_ok(et_params_new(&context.params, error));
    assert_fails(et_task_open(&task, &mock_kind, "mock", float16, &context, error), ET_ECONFIG,
                 "float16");
    et_params_free(context.params);
    et_device_close(context.device);
    for (int row = 0; row < 8; row++) {
        bench b;
        bench_init(&b);
        b.task.class = &noting;
        b.options.bfloat16 = row >= 4;
        b.options.loss_scale = scales[row % 4];
        bench_open(&b);
        assert_true(requested.bfloat16 == (row >= 4));
        assert_float_equal(requested.loss_scale, scales[row % 4], 0);
        assert_ok(et_task_trainer_initialize(b.trainer, error));
        assert_ok(et_task_trainer_train(b.trainer, 5, b.logs, error));
        assert_float_equal(logged(&b, "training_loss"), 0.8, row < 4 ? 1e-6 : 2e-3);
        assert_float_equal(logged(&b, "acc"), 0, 0);
        bench_close(&b);
    }
}

static void test_base_trainer_test__export_best_ckpt(void **state)
{
    static const char config[] =
        "{trainer: {best_checkpoint_export_subdir: best_ckpt, best_checkpoint_eval_metric: acc, "
        "train_steps: 1, optimizer_config: {optimizer: {type: sgd}, "
        "learning_rate: {type: constant}}}}";
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    runner r;
    runner_open(&r, config, "train_and_eval", in(state, "run"));
    assert_ok(et_controller_train_to(r.controller, 1, false, error));
    assert_ok(et_controller_evaluate(r.controller, 1, logs, error));
    runner_close(&r);
    assert_true(file_is_there(in(state, "run/best_ckpt/info.json")));
    et_arena_free(arena);
}

/* ---- a cluster: a master here, and others ---- */

typedef struct cluster {
    int port[1 + SERVERS]; /* master, ps */
    pid_t others[WORKERS + SERVERS];
    int count;
    et_job_config *config;
    et_job_server *server;
} cluster;

/* A free port. The socket stays, so that no other process takes the port before the task listens.
 */
static int free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    assert_false(bind(fd, (struct sockaddr *)&at, size));
    assert_false(getsockname(fd, (struct sockaddr *)&at, &size));
    return ntohs(at.sin_port);
}

static void configure(et_job_config **out, const int *port, const char *type, int index)
{
    char text[1000];
    const int length =
        snprintf(text, sizeof text,
                 "{\"task\": {\"type\": \"%s\", \"index\": %d}, \"cluster\": {"
                 "\"master\": [\"127.0.0.1:%d\"], \"ps\": [\"127.0.0.1:%d\", \"127.0.0.1:%d\"], "
                 "\"worker\": [\"127.0.0.1:1\", \"127.0.0.1:2\", \"127.0.0.1:3\"]}}",
                 type, index, port[0], port[1], port[2]);
    assert_ok(et_job_config_parse(out, text, (size_t)length, "the cluster", error));
}

static void start(cluster *c, const char *type, int index)
{
    char words[4][16];
    const int numbers[] = { index, c->port[0], c->port[1], c->port[2] };
    for (int i = 0; i < 4; i++)
        snprintf(words[i], sizeof words[i], "%d", numbers[i]);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) {
        c->others[c->count++] = pid;
        return;
    }
    alarm(300);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/proc/self/exe", "test_base_trainer_test", type, words[0], words[1], words[2], words[3],
          (char *)NULL);
    _exit(99);
}

/* Starts the other tasks. Skips the case without ZeroMQ. */
static void open_cluster(cluster *c, void **state)
{
    et_error failure = ET_ERROR_INIT;
    *c = (cluster){ .count = 0 };
    setenv("TMPDIR", *state, 1); /* the keys of this cluster */
    for (int i = 0; i < 1 + SERVERS; i++)
        c->port[i] = free_port();
    configure(&c->config, c->port, "master", 0);
    if (et_job_config_create_server(&c->server, c->config, &failure) == ET_EUSAGE)
        test_skip(failure.text);
    assert_non_null(c->server);
    for (int i = 0; i < SERVERS; i++)
        start(c, "ps", i);
    for (int i = 0; i < WORKERS; i++)
        start(c, "worker", i);
}

/* The trainer of b drives the cluster from now on. */
static void use_cluster(bench *b, const cluster *c)
{
    assert_ok(et_task_trainer_use_server(b->trainer, c->server, NULL, error));
    assert_ok(et_task_trainer_init_async(b->trainer, error));
    assert_ok(et_task_trainer_initialize(b->trainer, error));
}

/* Trains until all workers take part, so that none is left without a master. */
static void await_workers(bench *b)
{
    et_coordinator *coordinator;
    assert_ok(et_task_trainer_coordinator_for_async(b->trainer, &coordinator, error));
    assert_int_equal(et_coordinator_servers(coordinator), SERVERS);
    while (et_coordinator_workers(coordinator) < WORKERS)
        assert_ok(et_task_trainer_train_step(b->trainer, NULL, error));
}

static void close_cluster(cluster *c)
{
    for (int i = 0; i < c->count; i++) {
        int how;
        assert_int_equal(waitpid(c->others[i], &how, 0), c->others[i]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
    et_job_server_free(c->server);
    et_job_config_free(c->config);
    unsetenv("TMPDIR");
}

/* A worker or a parameter server, until the master is done. Returns its exit code. */
static int be(char **words)
{
    const int port[] = { atoi(words[2]), atoi(words[3]), atoi(words[4]) };
    et_job_config *config;
    et_job_server *server;
    et_error failure = ET_ERROR_INIT;
    bench b;
    configure(&config, port, words[0], atoi(words[1]));
    assert_ok(et_job_config_create_server(&server, config, error));
    bench_init(&b);
    bench_open(&b);
    int status = et_task_trainer_use_server(b.trainer, server, NULL, &failure);
    if (!status)
        status = et_task_trainer_init_async(b.trainer, &failure);
    if (!status)
        status = et_task_trainer_join(b.trainer, &failure);
    if (status)
        fprintf(stderr, "%s %s: %s\n", words[0], words[1], failure.text);
    bench_close(&b);
    et_job_server_free(server);
    et_job_config_free(config);
    return status;
}

/* Counts steps: the results of its loops. */
typedef struct counter {
    int64_t train_begin, evaluated;
} counter;

static int begin_train(void *self, et_task_trainer *trainer, et_error *error)
{
    (void)error;
    ((counter *)self)->train_begin = et_task_trainer_trainer(trainer)->step;
    return ET_OK;
}

static int end_train(void *self, et_task_trainer *trainer, et_value *logs, et_error *error)
{
    const counter *c = self;
    int status = et_task_trainer_join(trainer, error);
    et_value_set_int(logs, "global_step", et_task_trainer_trainer(trainer)->step - c->train_begin);
    return status;
}

static int begin_eval(void *self, et_task_trainer *trainer, et_error *error)
{
    ((counter *)self)->evaluated = 0;
    return et_task_trainer_eval_begin(trainer, error);
}

static int count_eval(void *self, et_source *iterator, et_batch *batch, et_value *extra,
                      et_error *error)
{
    (void)extra;
    ((counter *)self)->evaluated++;
    return et_source_next(iterator, batch, error);
}

static int end_eval(void *self, et_task_trainer *trainer, const et_value *aggregated_logs,
                    et_value *logs, et_error *error)
{
    (void)aggregated_logs;
    et_value_set_int(logs, "eval_global_step", ((counter *)self)->evaluated);
    return et_task_trainer_join(trainer, error);
}

static void test_base_trainer_test__base_async_trainer(void **state)
{
    counter counted = { 0, 0 };
    const et_task_trainer_given given = { .self = &counted,
                                          .train_loop_begin = begin_train,
                                          .train_loop_end = end_train,
                                          .next_eval_inputs = count_eval,
                                          .eval_begin = begin_eval,
                                          .eval_end = end_eval };
    cluster c;
    bench b;
    open_cluster(&c, state);
    bench_init(&b);
    b.options.given = &given;
    bench_open(&b);
    use_cluster(&b, &c);
    assert_ok(et_task_trainer_train(b.trainer, 10, b.logs, error));
    assert_float_equal(logged(&b, "global_step"), 10, 0);
    assert_ok(et_task_trainer_evaluate(b.trainer, 11, b.logs, error));
    assert_float_equal(logged(&b, "eval_global_step"), 11, 0);
    await_workers(&b);
    bench_close(&b);
    close_cluster(&c);
}

/* The gradient is always the same, so each of the five updates lowers the loss by 0.1. */
static void test_base_trainer_test__async_trainer_train(void **state)
{
    cluster c;
    bench b;
    open_cluster(&c, state);
    bench_init(&b);
    bench_open(&b);
    use_cluster(&b, &c);
    assert_ok(et_task_trainer_train(b.trainer, 5, b.logs, error));
    assert_true(logged(&b, "training_loss") <= 1 && logged(&b, "training_loss") > 0.5);
    assert_float_equal(logged(&b, "learning_rate"), 0.1, 0);
    assert_float_equal(logged(&b, "acc"), 0, 0);
    assert_ok(et_task_trainer_evaluate(b.trainer, 5, b.logs, error));
    assert_float_equal(logged(&b, "validation_loss"), 0.5, 1e-6);
    await_workers(&b);
    bench_close(&b);
    close_cluster(&c);
}

static void test_base_trainer_test__async_trainer_validate(void **state)
{
    cluster c;
    bench b;
    open_cluster(&c, state);
    bench_init(&b);
    bench_open(&b);
    use_cluster(&b, &c);
    assert_ok(et_task_trainer_evaluate(b.trainer, 5, b.logs, error));
    assert_float_equal(logged(&b, "acc"), 0, 0);
    assert_float_equal(logged(&b, "validation_loss"), 1, 0);
    assert_float_equal(logged(&b, "counter"), 5, 0);
    await_workers(&b);
    bench_close(&b);
    close_cluster(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_trainer_test__trainer_train),
        cmocka_unit_test(test_base_trainer_test__trainer_passing_datasets),
        cmocka_unit_test(test_base_trainer_test__base_async_trainer),
        cmocka_unit_test(test_base_trainer_test__async_trainer_train),
        cmocka_unit_test(test_base_trainer_test__async_trainer_validate),
        cmocka_unit_test(test_base_trainer_test__trainer_validate),
        cmocka_unit_test(test_base_trainer_test__trainer_validate_without_loss),
        cmocka_unit_test(test_base_trainer_test__configure_optimizer),
        cmocka_unit_test(test_base_trainer_test__export_best_ckpt),
    };
    return argc == 6 ? be(argv + 1)
                     : cmocka_run_group_tests(tests, make_directory, remove_directory);
}
