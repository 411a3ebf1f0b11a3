/* A program's own training by the roles of a cluster: one process a task, forked, each with the
 * same task trainer. With one worker the master ends with the weights of one process; its
 * coordinator counts the present tasks; servers and workers join until it is closed. */
#include <etude/coordinator.h>

#include <arpa/inet.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "engine/tensor/params.h"
#include "formats/files.h"
#include "roles/wire/keys.h"
#include "train/toy_run.h"

enum { SAMPLES = 44, FEATURES = 6, ROWS = 4, STEPS = 12, TASKS = 3, KEPT = 4096 };

static float x[SAMPLES * FEATURES], y[SAMPLES];
static int opened; /* sources, by distribute_dataset */

static void fill(void)
{
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < SAMPLES; i++)
        y[i] = x[i * FEATURES] - x[i * FEATURES + 1] / 2;
}

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *h = et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 8));
    et_node *value = et_dense(et_in(s, "value"), h, 1);
    et_node *d = et_sub(value, et_batch_input(s, "labels"));
    et_output(s, "outputs", value);
    et_loss(s, "loss", et_mul(d, d), 1);
}

static int data(et_task *self, bool training, et_source **out, et_error *failure)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(FEATURES) },
                                { "labels", ET_F32, y, et_shape_1(1) } };
    (void)self;
    return toy_source(out, arrays, 2, SAMPLES, ROWS, training, failure);
}

static int open_shard(void *payload, const et_input_context *context, et_source **out,
                      et_error *failure)
{
    assert_true(context->input_pipelines == 1 && context->input_pipeline == 0);
    opened++;
    return data(payload, true, out, failure);
}

static int metrics(et_task *self, bool training, et_metrics *set, et_error *failure)
{
    (void)self, (void)training;
    return et_metrics_define(set, "error", &et_metric_regression, failure);
}

static const et_task_class task_class = {
    .name = "toy", .build = build, .data = data, .build_metrics = metrics
};

/* ---- a cluster ---- */

typedef struct cluster {
    char keys[64]; /* "": none are named */
    int port[2];   /* master, ps */
    int workers;
    et_async_options options; /* the master's */
    pid_t others[TASKS];
    int count;
} cluster;

/* A port that is free now; no other process takes it before the task listens. */
static int a_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    assert_false(bind(fd, (struct sockaddr *)&at, size));
    assert_false(getsockname(fd, (struct sockaddr *)&at, &size));
    return ntohs(at.sin_port); /* the socket stays: it keeps the port */
}

static void open_cluster(cluster *c, int workers)
{
    et_keys keys[ET_JOB_ROLES];
    *c = (cluster){ .workers = workers, .options = { .peer_timeout = 30 } };
    strcpy(c->keys, "keys.XXXXXX");
    assert_non_null(mkdtemp(c->keys));
    assert_ok(et_keys_make(keys, error));
    assert_ok(et_keys_write(keys, c->keys, error));
    for (int i = 0; i < 2; i++)
        c->port[i] = a_port();
}

static et_job_config *config_of(const cluster *c, const char *type, int index)
{
    char text[1000];
    et_job_config *config;
    int length =
        snprintf(text, sizeof text,
                 "{\"task\": {\"type\": \"%s\", \"index\": %d}, \"cluster\": {"
                 "\"master\": [\"127.0.0.1:%d\"], \"ps\": [\"127.0.0.1:%d\"], "
                 "\"worker\": [\"127.0.0.1:1\"%s]}%s%s%s}",
                 type, index, c->port[0], c->port[1], c->workers > 1 ? ", \"127.0.0.1:2\"" : "",
                 *c->keys ? ", \"job\": {\"keys\": \"" : "", c->keys, *c->keys ? "\"}" : "");
    assert_ok(et_job_config_parse(&config, text, (size_t)length, "a test", error));
    return config;
}

/* Everything of one task. */
typedef struct bench {
    toy_run r;
    et_job_config *config;
    et_job_server *server;
    et_arena arena;
    et_value *logs;
} bench;

static void bench_open(bench *b, const cluster *c, const char *type, int index)
{
    *b = (bench){ .arena = ET_ARENA_INIT };
    toy_run_init(&b->r, &task_class);
    b->r.trainer_options.seed = 3;
    b->config = config_of(c, type, index);
    assert_ok(et_job_config_create_server(&b->server, b->config, error));
    assert_non_null(b->server);
    assert_ok(toy_run_start_trainer(&b->r, error));
    assert_ok(et_task_trainer_use_server(b->r.trainer, b->server, &c->options, error));
    b->logs = et_value_dict(&b->arena);
}

static void bench_close(bench *b)
{
    toy_run_close(&b->r);
    et_job_server_free(b->server);
    et_job_config_free(b->config);
    et_arena_release(&b->arena);
}

/* A worker or a server, until it is done: its exit code is 0 if all was well. */
static int be(const cluster *c, const char *type, int index)
{
    bench b;
    et_coordinator *none;
    et_error failure = ET_ERROR_INIT;
    bench_open(&b, c, type, index);
    int status = et_task_trainer_init_async(b.r.trainer, &failure);
    if (!status && et_task_trainer_coordinator_for_async(b.r.trainer, &none, NULL) != ET_EUSAGE)
        return 9;
    if (!status)
        status = et_task_trainer_join(b.r.trainer, &failure);
    if (status)
        fprintf(stderr, "%s %d: %s\n", type, index, failure.text);
    bench_close(&b);
    return status;
}

/* This program again: OpenMP does not outlive a fork. */
static void start(cluster *c, const char *type, int index)
{
    char words[4][16];
    const int numbers[] = { index, c->port[0], c->port[1], c->workers };
    for (int i = 0; i < 4; i++)
        snprintf(words[i], sizeof words[i], "%d", numbers[i]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) {
        c->others[c->count++] = pid;
        return;
    }
    alarm(300);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/proc/self/exe", "test_coordinator", c->keys, type, words[0], words[1], words[2],
          words[3], (char *)NULL);
    _exit(99);
}

static void close_cluster(cluster *c)
{
    for (int i = 0; i < c->count; i++) {
        int how;
        assert_int_equal(waitpid(c->others[i], &how, 0), c->others[i]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
}

/* ---- tests ---- */

static void weights_of(const toy_run *r, float *out)
{
    size_t size = (size_t)et_params_flat_size(r->params);
    assert_true(size <= KEPT);
    memcpy(out, et_params_values(r->params), size * sizeof *out);
}

/* Returns error/r2. */
static double train_alone(float *weights)
{
    toy_run r;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    double r2 = 0;
    toy_run_init(&r, &task_class);
    r.trainer_options.seed = 3;
    assert_ok(toy_run_start_trainer(&r, error));
    assert_ok(et_task_trainer_initialize(r.trainer, error));
    assert_ok(et_task_trainer_train(r.trainer, STEPS, logs, error));
    assert_ok(et_value_read_float(logs, "error/r2", &r2, error));
    weights_of(&r, weights);
    toy_run_close(&r);
    et_arena_release(&arena);
    return r2;
}

static double logged(const bench *b, const char *name)
{
    double value = -1;
    assert_ok(et_value_read_float(b->logs, name, &value, error));
    assert_false(isnan(value));
    return value;
}

/* One worker: the same bits as a process alone, also of the task's own metrics. join has fetched
 * the weights though no loop has ended. */
static void test_coordinator__as_alone(void **state)
{
    (void)state;
    static float alone[KEPT], together[KEPT];
    cluster c;
    bench b;
    et_coordinator *coordinator;
    et_batch *inputs;
    et_source *other;
    open_cluster(&c, 1);
    start(&c, "ps", 0);
    start(&c, "worker", 0);
    const double r2 = train_alone(alone);
    bench_open(&b, &c, "master", 0);
    et_task_trainer *t = b.r.trainer;
    assert_fails(et_task_trainer_use_server(t, b.server, NULL, error), ET_EUSAGE, "already");
    assert_fails(et_task_trainer_coordinator_for_async(t, &coordinator, error), ET_EUSAGE,
                 "init_async first");
    assert_fails(et_task_trainer_join(t, error), ET_EUSAGE, "init_async first");
    assert_ok(et_task_trainer_init_async(t, error));
    assert_ok(et_task_trainer_init_async(t, error));
    assert_ok(et_task_trainer_coordinator_for_async(t, &coordinator, error));
    assert_int_equal(et_coordinator_servers(coordinator), 1);
    assert_int_equal(et_coordinator_workers(coordinator), 0);
    assert_ok(et_task_trainer_initialize(t, error));
    assert_ok(et_task_trainer_distribute_dataset(t, open_shard, &b.r.task, &other, error));
    assert_int_equal(opened, 1);
    assert_fails(
        et_task_trainer_train_step(t, other, error), ET_EUSAGE,
        "workers take the batches of a step from the trainer's data; call without a source");
    assert_fails(
        et_task_trainer_next_train_inputs(t, NULL, &inputs, error), ET_EUSAGE,
        "workers take the batches of a step from the trainer's data; call without a source");
    et_source_close(other);
    for (int i = 0; i < STEPS; i++)
        assert_ok(et_task_trainer_train_step(t, NULL, error));
    assert_int_equal(et_task_trainer_trainer(t)->step, STEPS);
    assert_int_equal(et_coordinator_workers(coordinator), 1);
    weights_of(&b.r, together);
    assert_memory_not_equal(together, alone, sizeof alone);
    assert_ok(et_task_trainer_join(t, error));
    weights_of(&b.r, together);
    assert_memory_equal(together, alone, sizeof alone);
    assert_ok(et_task_trainer_train_loop_end(t, b.logs, error));
    assert_true(logged(&b, "error/r2") == r2);
    bench_close(&b);
    close_cluster(&c);
}

/* A TF_CONFIG as TensorFX has it, of the loopback, is all that the tasks of one host need. */
static void test_coordinator__keys_of_the_user(void **state)
{
    (void)state;
    static float alone[KEPT], together[KEPT];
    char folder[] = "tmpdir.XXXXXX";
    cluster c;
    bench b;
    open_cluster(&c, 1);
    c.keys[0] = 0;
    assert_non_null(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    start(&c, "ps", 0);
    start(&c, "worker", 0);
    train_alone(alone);
    bench_open(&b, &c, "master", 0);
    assert_ok(et_task_trainer_init_async(b.r.trainer, error));
    assert_ok(et_task_trainer_initialize(b.r.trainer, error));
    for (int i = 0; i < STEPS; i++)
        assert_ok(et_task_trainer_train_step(b.r.trainer, NULL, error));
    assert_ok(et_task_trainer_join(b.r.trainer, error));
    weights_of(&b.r, together);
    assert_memory_equal(together, alone, sizeof alone);
    bench_close(&b);
    close_cluster(&c);
    unsetenv("TMPDIR");
}

/* Two workers, by train: both take part, it learns, evaluation sees the last weights. */
static void test_coordinator__learns(void **state)
{
    (void)state;
    cluster c;
    bench b;
    double first, last;
    open_cluster(&c, 2);
    start(&c, "ps", 0);
    start(&c, "worker", 0);
    start(&c, "worker", 1);
    bench_open(&b, &c, "master", 0);
    et_task_trainer *t = b.r.trainer;
    assert_ok(et_task_trainer_init_async(t, error));
    assert_ok(et_task_trainer_initialize(t, error));
    assert_ok(et_task_trainer_evaluate(t, -1, b.logs, error));
    assert_ok(et_value_read_float(b.logs, "validation_loss", &first, error));
    assert_ok(et_task_trainer_train(t, 200, b.logs, error));
    /* The metric has seen the batches that the loss is of. */
    assert_float_equal(logged(&b, "error/mse") / logged(&b, "training_loss"), 1, 1e-4);
    assert_ok(et_task_trainer_evaluate(t, -1, b.logs, error));
    assert_float_equal(logged(&b, "error/mse") / logged(&b, "validation_loss"), 1, 1e-4);
    assert_ok(et_value_read_float(b.logs, "validation_loss", &last, error));
    if (!(last < first / 2))
        fail_msg("validation loss %g, and then %g", first, last);
    bench_close(&b);
    close_cluster(&c);
}

/* ---- a run ---- */

static volatile sig_atomic_t stop;

static void stop_in_the_middle(void *self, const et_showing *showing)
{
    (void)self;
    stop = showing->step == STEPS / 2;
}

static int control(bench *b, const char *directory)
{
    b->r.options = (et_controller_options){ .train_steps = STEPS, .summary_interval = STEPS };
    b->r.options.run.observer.show = stop_in_the_middle;
    b->r.options.run.stop = &stop;
    stop = 0;
    assert_ok(toy_run_control(&b->r, directory, error));
    return et_controller_train(b->r.controller, NULL);
}

static void bench_open_alone(bench *b)
{
    *b = (bench){ .arena = ET_ARENA_INIT };
    toy_run_init(&b->r, &task_class);
    b->r.trainer_options.seed = 3;
    assert_ok(toy_run_start_trainer(&b->r, error));
}

/* Stopped in a window of logs by roles, or alone, and resumed alone: the same bytes. The checkpoint
 * has the metrics of the window's first half. */
static void test_coordinator__resumes_alone(void **state)
{
    (void)state;
    char name[] = "runs.XXXXXX";
    char *bytes[2];
    size_t length[2];
    assert_non_null(mkdtemp(name));
    for (int roles = 0; roles < 2; roles++) {
        char directory[64], file[128];
        cluster c = { .count = 0 };
        bench b;
        snprintf(directory, sizeof directory, "%s/%d", name, roles);
        snprintf(file, sizeof file, "%s/checkpoints/ckpt-%d.safetensors", directory, STEPS);
        if (roles) {
            open_cluster(&c, 1);
            start(&c, "ps", 0);
            start(&c, "worker", 0);
            bench_open(&b, &c, "master", 0);
            assert_ok(et_task_trainer_init_async(b.r.trainer, error));
        } else
            bench_open_alone(&b);
        assert_int_equal(control(&b, directory), ET_EINTERRUPTED);
        bench_close(&b);
        close_cluster(&c);
        bench_open_alone(&b);
        assert_int_equal(control(&b, directory), ET_OK);
        bench_close(&b);
        bytes[roles] = get_file(file, &length[roles]);
    }
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
    free(bytes[0]);
    free(bytes[1]);
    assert_false(remove_directory(&(void *){ strdup(name) }));
}

/* A master that only evaluates ends its servers and workers. */
static void test_coordinator__only_evaluates(void **state)
{
    (void)state;
    cluster c;
    bench b;
    open_cluster(&c, 1);
    start(&c, "ps", 0);
    start(&c, "worker", 0);
    bench_open(&b, &c, "master", 0);
    assert_ok(et_task_trainer_init_async(b.r.trainer, error));
    assert_ok(et_task_trainer_initialize(b.r.trainer, error));
    assert_ok(et_task_trainer_evaluate(b.r.trainer, -1, b.logs, error));
    assert_true(logged(&b, "error/mse") > 0);
    bench_close(&b);
    close_cluster(&c);
}

/* A loop reports how late its gradients were: never late with one worker. With two that do not wait
 * for each other, most are late by the other's gradient. */
static void test_coordinator__staleness(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 2; workers++) {
        cluster c;
        bench b;
        et_coordinator *coordinator;
        open_cluster(&c, workers);
        c.options = (et_async_options){
            .peer_timeout = 30, .gradients_per_update = 1, .staleness_wait = -1, .max_staleness = 3
        };
        start(&c, "ps", 0);
        for (int i = 0; i < workers; i++)
            start(&c, "worker", i);
        bench_open(&b, &c, "master", 0);
        et_task_trainer *t = b.r.trainer;
        assert_ok(et_task_trainer_init_async(t, error));
        assert_ok(et_task_trainer_initialize(t, error));
        assert_ok(et_task_trainer_coordinator_for_async(t, &coordinator, error));
        do
            assert_ok(et_task_trainer_train(t, 10, b.logs, error));
        while (et_coordinator_workers(coordinator) < workers);
        assert_ok(et_task_trainer_train(t, 100, b.logs, error));
        double mean = logged(&b, "staleness/mean"), most = logged(&b, "staleness/max");
        assert_true(workers == 1 ? mean == 0 && most == 0 : mean > 0 && mean <= most && most <= 3);
        assert_ok(et_task_trainer_train(t, 1, b.logs, error));
        assert_true(logged(&b, "staleness/mean") == logged(&b, "staleness/max"));
        bench_close(&b);
        close_cluster(&c);
    }
}

/* A single node: nothing to do. Options that cannot be. */
static void test_coordinator__alone(void **state)
{
    (void)state;
    toy_run r;
    et_coordinator *none;
    cluster c;
    open_cluster(&c, 1);
    toy_run_init(&r, &task_class);
    assert_ok(toy_run_start_trainer(&r, error));
    assert_ok(et_task_trainer_use_server(r.trainer, NULL, NULL, error));
    assert_ok(et_task_trainer_init_async(r.trainer, error));
    assert_fails(et_task_trainer_coordinator_for_async(r.trainer, &none, error), ET_EUSAGE,
                 "no coordinator");
    assert_null(none);
    assert_ok(et_task_trainer_join(r.trainer, error));
    et_job_config *config = config_of(&c, "worker", 0);
    et_job_server *server;
    assert_ok(et_job_config_create_server(&server, config, error));
    et_async_options bad = { .max_staleness = -2 };
    assert_fails(et_task_trainer_use_server(r.trainer, server, &bad, error), ET_EUSAGE,
                 "max_staleness -2");
    et_async_options many = { .gradients_per_update = 65537 };
    assert_fails(et_task_trainer_use_server(r.trainer, server, &many, error), ET_EUSAGE,
                 "gradients_per_update 65537");
    et_async_options never = { .staleness_wait = -2 };
    assert_fails(et_task_trainer_use_server(r.trainer, server, &never, error), ET_EUSAGE,
                 "staleness_wait -2");
    toy_run_close(&r);
    et_job_server_free(server);
    et_job_config_free(config);
}

/* A loss scale is one process's: refused when the server is named. */
static void test_coordinator__refused(void **state)
{
    (void)state;
    toy_run r;
    cluster c;
    open_cluster(&c, 1);
    et_job_config *config = config_of(&c, "worker", 0);
    et_job_server *server;
    assert_ok(et_job_config_create_server(&server, config, error));
    toy_run_init(&r, &task_class);
    r.trainer_options.loss_scale = 8;
    assert_ok(toy_run_start_trainer(&r, error));
    assert_fails(et_task_trainer_use_server(r.trainer, server, NULL, error), ET_ECONFIG,
                 "loss_scale");
    toy_run_close(&r);
    et_job_server_free(server);
    et_job_config_free(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coordinator__as_alone),
        cmocka_unit_test(test_coordinator__keys_of_the_user),
        cmocka_unit_test(test_coordinator__learns),
        cmocka_unit_test(test_coordinator__resumes_alone),
        cmocka_unit_test(test_coordinator__only_evaluates),
        cmocka_unit_test(test_coordinator__staleness),
        cmocka_unit_test(test_coordinator__alone),
        cmocka_unit_test(test_coordinator__refused),
    };
    fill();
    if (argc == 7) {
        cluster c = { .port = { atoi(argv[4]), atoi(argv[5]) },
                      .workers = atoi(argv[6]),
                      .options = { .peer_timeout = 30 } };
        snprintf(c.keys, sizeof c.keys, "%s", argv[1]);
        return be(&c, argv[2], atoi(argv[3]));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
