#include "base/main.h"

#include <etude/job_config.h>
#include <etude/log.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scarce.h"
#include "roles/job_server.h"
#include "roles/wire/keys.h"

#define CLUSTER                                                                                    \
    "\"cluster\": {\"ps\": [\"a:14000\", \"b:14000\"], \"master\": [\"c:14001\"], "                \
    "\"worker\": [\"d:14002\", \"e:14002\", \"[::1]:14002\"]}"

static et_job_config *parsed(const char *text)
{
    et_job_config *config;
    et_error error = ET_ERROR_INIT;
    if (et_job_config_parse(&config, text, strlen(text), "TF_CONFIG", &error))
        fail_msg("%s", error.text);
    return config;
}

static void check_local(const et_job_config *config)
{
    bool local = false;
    const et_job_task *task = et_job_config_task(config);
    assert_int_equal(task->role, ET_JOB_MASTER);
    assert_string_equal(task->type, "master");
    assert_int_equal(task->index, 0);
    assert_null(et_job_config_cluster(config));
    assert_false(et_job_config_distributed(config));
    assert_int_equal(et_value_read_bool(et_job_config_job(config), "local", &local, NULL), ET_OK);
    assert_true(local);
    assert_int_equal(et_job_config_env(config)->count, 0);
    assert_true(et_job_config_master(config));
    assert_false(et_job_config_param_server(config) || et_job_config_worker(config));
    assert_string_equal(et_job_config_device(config), "/job:master/task:0");
    assert_string_equal(et_job_config_describe(config), "a single node");
}

static void test_job_config__local(void **state)
{
    (void)state;
    et_job_config *config;
    assert_int_equal(et_job_config_local(&config, NULL), ET_OK);
    check_local(config);
    et_job_config_free(config);
    et_job_config_free(NULL);
}

static void test_job_config__environment(void **state)
{
    (void)state;
    et_job_config *config;
    et_error error = ET_ERROR_INIT;
    unsetenv("TF_CONFIG");
    assert_int_equal(et_job_config_environment(&config, NULL), ET_OK);
    check_local(config);
    et_job_config_free(config);
    setenv("TF_CONFIG", "", 1);
    assert_int_equal(et_job_config_environment(&config, NULL), ET_OK);
    check_local(config);
    et_job_config_free(config);
    setenv("TF_CONFIG", "{\"task\": {\"type\": \"ps\", \"index\": 1}, " CLUSTER "}", 1);
    assert_int_equal(et_job_config_environment(&config, NULL), ET_OK);
    assert_true(et_job_config_param_server(config));
    assert_int_equal(et_job_config_task(config)->index, 1);
    et_job_config_free(config);
    setenv("TF_CONFIG", "{", 1);
    assert_int_equal(et_job_config_environment(&config, &error), ET_EFORMAT);
    assert_null(config);
    assert_contains(error.text, "TF_CONFIG");
    unsetenv("TF_CONFIG");
}

static void test_job_config__cluster(void **state)
{
    (void)state;
    et_job_config *config =
        parsed("{\"task\": {\"type\": \"worker\", \"index\": 2, \"trial\": 7}, " CLUSTER
               ", \"job\": {\"name\": \"census\"}, \"environment\": \"cloud\"}");
    const et_job_cluster *cluster = et_job_config_cluster(config);
    const char *name;
    assert_true(et_job_config_distributed(config) && et_job_config_worker(config));
    assert_false(et_job_config_master(config) || et_job_config_param_server(config));
    assert_int_equal(cluster->addresses[ET_JOB_PARAM_SERVER].count, 2);
    assert_int_equal(cluster->addresses[ET_JOB_MASTER].count, 1);
    assert_int_equal(cluster->addresses[ET_JOB_WORKER].count, 3);
    assert_string_equal(cluster->addresses[ET_JOB_WORKER].items[2], "[::1]:14002");
    assert_string_equal(et_job_config_device(config), "/job:worker/task:2");
    assert_int_equal(et_value_read_string(et_job_config_job(config), "name", &name, NULL), ET_OK);
    assert_string_equal(name, "census");
    assert_int_equal(et_value_read_string(et_job_config_env(config), "environment", &name, NULL),
                     ET_OK);
    assert_string_equal(name, "cloud");
    assert_string_equal(et_job_config_describe(config),
                        "a cluster of 6, of which this is worker 2\n"
                        "master  c:14001\n"
                        "ps      a:14000 b:14000\n"
                        "worker  d:14002 e:14002 [::1]:14002");
    et_job_config_free(config);
}

/* A role with an empty list is treated as a role that is not listed; a cluster of such roles has no
 * server. */
static void test_job_config__nobody(void **state)
{
    (void)state;
    et_job_server *server;
    et_error error = ET_ERROR_INIT;
    et_job_config *config = parsed("{\"task\": {\"type\": \"worker\", \"index\": 3}, "
                                   "\"cluster\": {\"hosts\": [], \"master\": []}}");
    assert_true(et_job_config_distributed(config) && et_job_config_worker(config));
    assert_string_equal(et_job_config_describe(config),
                        "a cluster without addresses, of which this is worker 3");
    const int status = et_job_config_create_server(&server, config, &error);
    if (!strstr(error.text, "no ZeroMQ")) {
        assert_int_equal(status, ET_ECONFIG);
        assert_contains(error.text, "/job:worker/task:3: the cluster has no addresses");
    }
    assert_null(server);
    et_job_config_free(config);
    config = parsed("{\"cluster\": {\"ps\": [], \"worker\": [], \"master\": [\"m:1\"]}}");
    assert_true(et_job_config_distributed(config) && et_job_config_master(config));
    assert_int_equal(et_job_config_cluster(config)->addresses[ET_JOB_WORKER].count, 0);
    assert_string_equal(et_job_config_describe(config),
                        "a cluster of 1, of which this is master 0\nmaster  m:1");
    et_job_config_free(config);
}

/* The configuration of a program, in place of the environment. */
static void test_job_config__new(void **state)
{
    (void)state;
    et_arena *arena = et_arena_new();
    et_value *task = et_value_dict(arena), *cluster = et_value_dict(arena);
    et_value *job = et_value_dict(arena), *env = et_value_dict(arena);
    et_job_config *config;
    et_error error = ET_ERROR_INIT;
    et_value_set_string(task, "type", "worker");
    et_value_set_int(task, "index", 0);
    et_value_add_string(et_value_set_list(cluster, "worker"), "w:1");
    et_value_add_string(et_value_set_list(cluster, "master"), "m:65535");
    et_value_set_string(job, "name", "x");
    et_value_set_string(env, "zone", "z");
    assert_int_equal(et_job_config_new(&config, task, cluster, job, env, NULL), ET_OK);
    et_arena_free(arena); /* all is copied */
    assert_string_equal(et_job_config_cluster(config)->addresses[ET_JOB_WORKER].items[0], "w:1");
    assert_string_equal(et_value_get(et_job_config_job(config), "name")->string, "x");
    assert_string_equal(et_value_get(et_job_config_env(config), "zone")->string, "z");
    et_job_config_free(config);

    arena = et_arena_new();
    task = et_value_dict(arena);
    et_value_set_string(task, "type", "chef");
    assert_int_equal(et_job_config_new(&config, task, NULL, NULL, NULL, &error), ET_ECONFIG);
    assert_null(config);
    assert_contains(error.text, "configuration: task.type \"chef\": unknown role");
    /* An empty task is the master. */
    assert_int_equal(
        et_job_config_new(&config, et_value_dict(arena), et_value_dict(arena), NULL, NULL, NULL),
        ET_OK);
    check_local(config);
    et_job_config_free(config);
    et_arena_free(arena);
}

static void test_job_config__refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *says;
    } cases[] = {
        { "", ET_EFORMAT, "TF_CONFIG" },
        { "[]", ET_EFORMAT, "must be an object" },
        { "{\"task\": {\"type\": \"master\"}, \"task\": {}}", ET_EFORMAT, "TF_CONFIG" },
        { "{\"task\": 3}", ET_ECONFIG, "task must be an object, not an integer" },
        { "{\"task\": {\"index\": 0}}", ET_ECONFIG, "task.type must be \"master\"" },
        { "{\"task\": {\"type\": 1}}", ET_ECONFIG, "task.type must be" },
        { "{\"task\": {\"type\": \"workers\"}}", ET_ECONFIG, "Nearest: worker" },
        { "{\"task\": {\"type\": \"ps\", \"index\": -1}}", ET_ECONFIG, "not a negative one" },
        { "{\"task\": {\"type\": \"ps\", \"index\": 1.5}}", ET_ECONFIG, "not a number" },
        { "{\"task\": {\"type\": \"ps\", \"index\": \"0\"}}", ET_ECONFIG, "not text" },
        { "{\"task\": {\"type\": \"worker\"}, " CLUSTER "}", ET_ECONFIG,
          "task.index is missing; give the number of this task among 3 worker tasks" },
        { "{\"task\": {\"type\": \"worker\", \"index\": 3}, " CLUSTER "}", ET_ECONFIG,
          "the cluster has no task worker 3, only 3" },
        { "{\"task\": {\"type\": \"worker\", \"index\": 9223372036854775807}, " CLUSTER "}",
          ET_ECONFIG, "only" },
        { "{\"cluster\": []}", ET_ECONFIG, "cluster must be an object, not a list" },
        { "{\"cluster\": {\"chief\": [\"a:1\"]}}", ET_ECONFIG, "etude launch -n N" },
        { "{\"cluster\": {\"master\": \"a:1\"}}", ET_ECONFIG, "cluster.master must be a list" },
        { "{\"cluster\": {\"master\": {}}}", ET_ECONFIG, "cluster.master must be a list" },
        { "{\"cluster\": {\"hosts\": [\"a:1\"]}}", ET_ECONFIG, "cluster \"hosts\": unknown role" },
        { "{\"cluster\": {\"hosts\": 3}}", ET_ECONFIG, "cluster \"hosts\": unknown role" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}}", ET_ECONFIG,
          "the cluster has only workers (TensorFlow's multi-worker strategy); use ranks instead "
          "(etude launch)" },
        { "{\"cluster\": {\"worker\": [\"a:1\"], \"ps\": [\"b:1\"]}}", ET_ECONFIG,
          "cluster has 0 masters" },
        { "{\"cluster\": {\"master\": [\"a:1\", \"b:1\"]}}", ET_ECONFIG, "cluster has 2 masters" },
        { "{\"cluster\": {\"master\": [\"a:1\"], \"ps\": [\"a:1\"]}}", ET_ECONFIG,
          "cluster.ps[0]: a:1 is used twice" },
        { "{\"cluster\": {\"master\": [7]}}", ET_ECONFIG, "cluster.master[0]: an integer is no" },
        { "{\"cluster\": {\"master\": [\"a\"]}}", ET_ECONFIG, "a is not \"host:port\"" },
        { "{\"cluster\": {\"master\": [\":1\"]}}", ET_ECONFIG, "is not \"host:port\"" },
        { "{\"cluster\": {\"master\": [\"a:0\"]}}", ET_ECONFIG, "is not \"host:port\"" },
        { "{\"cluster\": {\"master\": [\"a:65536\"]}}", ET_ECONFIG, "is not \"host:port\"" },
        { "{\"cluster\": {\"master\": [\"a:1x\"]}}", ET_ECONFIG, "is not \"host:port\"" },
        { "{\"cluster\": {\"master\": [\"a b:1\"]}}", ET_ECONFIG, "is not \"host:port\"" },
        { "{\"cluster\": {\"master\": [\"[::1:1\"]}}", ET_ECONFIG, "is not \"host:port\"" },
        { "{\"job\": 1}", ET_ECONFIG, "job must be an object" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_job_config *config;
        et_error error = ET_ERROR_INIT;
        int status =
            et_job_config_parse(&config, cases[i].text, strlen(cases[i].text), "TF_CONFIG", &error);
        if (status != cases[i].status)
            fail_msg("%s: %d, %s", cases[i].text, status, error.text);
        assert_null(config);
        assert_contains(error.text, cases[i].says);
    }
}

/* Sizes of somebody else's choice. */
static void test_job_config__too_large(void **state)
{
    (void)state;
    enum { ADDRESSES = ET_JOB_TASKS_MAX + 1 };
    et_job_config *config;
    et_error error = ET_ERROR_INIT;
    char *text = malloc(ET_JOB_CONFIG_MAX + 1);
    memset(text, ' ', ET_JOB_CONFIG_MAX + 1);
    assert_int_equal(et_job_config_parse(&config, text, ET_JOB_CONFIG_MAX + 1, "TF_CONFIG", &error),
                     ET_EFORMAT);
    assert_contains(error.text, "longer than");
    size_t length = (size_t)sprintf(text, "{\"cluster\": {\"master\": [\"m:1\"], \"worker\": [");
    for (int i = 0; i < ADDRESSES; i++)
        length += (size_t)sprintf(text + length, "%s\"w%d:1\"", i ? "," : "", i);
    length += (size_t)sprintf(text + length, "]}}");
    assert_int_equal(et_job_config_parse(&config, text, length, "TF_CONFIG", &error), ET_ECONFIG);
    assert_contains(error.text, "more than 4096 tasks");
    memset(text, '[', 100000);
    assert_int_equal(et_job_config_parse(&config, text, 100000, "TF_CONFIG", &error), ET_EFORMAT);
    free(text);
}

static void test_job_config__device_setter(void **state)
{
    (void)state;
    static const char *const names[] = { "a/weight", "a/bias", "b/weight", "a/bias", "b/bias" };
    static const int places[] = { 0, 1, 0, 1, 1 };
    et_job_config *config = parsed("{\"task\": {\"type\": \"worker\", \"index\": 1}, " CLUSTER "}");
    et_device_setter *setter;
    assert_int_equal(et_job_config_create_device_setter(&setter, config, NULL, NULL), ET_OK);
    for (size_t i = 0; i < COUNT(names); i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "/job:ps/task:%d", places[i]);
        assert_string_equal(et_device_setter_variable(setter, names[i]), expected);
    }
    assert_string_equal(et_device_setter_op(setter), "/job:worker/task:1");
    et_device_setter_free(setter);
    et_job_config_free(config);
    /* Without parameter servers all variables are on the task's own device. */
    config = parsed("{}");
    assert_int_equal(et_job_config_create_device_setter(&setter, config, NULL, NULL), ET_OK);
    assert_string_equal(et_device_setter_variable(setter, "a"), "/job:master/task:0");
    et_device_setter_free(setter);
    et_device_setter_free(NULL);
    et_job_config_free(config);
}

static char told[1000];

static void hear(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    assert_int_equal(level, ET_LOG_INFO);
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", text);
}

/* log_device_placement: logs each variable's device once, in the order of the requests. */
static void test_job_config__device_placement(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "b", "a", "c" };
    et_job_config *config = parsed("{\"task\": {\"type\": \"master\", \"index\": 0}, " CLUSTER "}");
    et_log_set(hear, NULL);
    for (int tells = 0; tells < 3; tells++) {
        et_device_setter *setter;
        const et_arguments args = { .log_device_placement = tells == 2 };
        assert_int_equal(
            et_job_config_create_device_setter(&setter, config, tells ? &args : NULL, NULL), ET_OK);
        told[0] = 0;
        for (size_t i = 0; i < COUNT(names); i++)
            assert_non_null(et_device_setter_variable(setter, names[i]));
        assert_string_equal(et_device_setter_op(setter), "/job:master/task:0");
        assert_null(et_device_setter_variable(setter, NULL));
        assert_string_equal(told, tells < 2 ? ""
                                            : "a: /job:ps/task:0\nb: /job:ps/task:1\n"
                                              "c: /job:ps/task:0\n");
        et_device_setter_free(setter);
    }
    et_log_set(NULL, NULL);
    et_job_config_free(config);
}

static void test_job_config__server(void **state)
{
    (void)state;
    et_job_server *server;
    et_error error = ET_ERROR_INIT;
    et_job_config *config = parsed("{}");
    assert_int_equal(et_job_config_create_server(&server, config, NULL), ET_OK);
    assert_null(server);
    et_job_config_free(config);
    config = parsed("{" CLUSTER "}");
    int status = et_job_config_create_server(&server, config, &error);
    assert_int_equal(status, ET_EUSAGE);
    assert_null(server);
    et_job_config_free(config);
    et_job_server_free(NULL);
    if (strstr(error.text, "no ZeroMQ"))
        return;
    assert_contains(error.text, "/job:master/task:0: a cluster on several hosts needs keys: make "
                                "them with `etude keys DIR`, and name the folder in");
    config = parsed("{" CLUSTER ", \"job\": {\"keys\": \"nowhere\"}}");
    assert_int_equal(et_job_config_create_server(&server, config, &error), ET_ENOTFOUND);
    assert_contains(error.text, "nowhere/master.key");
    et_job_config_free(config);
    config = parsed("{" CLUSTER ", \"job\": {\"keys\": 3}}");
    assert_int_equal(et_job_config_create_server(&server, config, &error), ET_ECONFIG);
    assert_contains(error.text, "job.keys must be the name of a folder");
    et_job_config_free(config);
}

/* ---- one host ---- */

static int serve(const char *text, et_keys *keys, et_error *error)
{
    et_job_config *config = parsed(text);
    et_job_server *server;
    int status = et_job_config_create_server(&server, config, error);
    if (server)
        *keys = server->keys;
    et_job_server_free(server);
    et_job_config_free(config);
    return status;
}

/* A temporary folder for this test, as TMPDIR, and the name of the keys in it. */
static void own_tmpdir(char *folder, size_t space)
{
    static char parent[] = "tmpdir.XXXXXX";
    static bool made;
    if (!made)
        assert_non_null(mkdtemp(parent));
    made = true;
    setenv("TMPDIR", parent, 1);
    snprintf(folder, space, "%s/etude-keys-%lu", parent, (unsigned long)geteuid());
}

#define ON_LOOPBACK                                                                                \
    "\"cluster\": {\"master\": [\"localhost:1\"], \"ps\": [\"127.3.2.1:2\"], "                     \
    "\"worker\": [\"[::1]:3\", \"127.0.0.1:4\"]}"
#define TASK_OF(type) "{\"task\": {\"type\": \"" type "\", \"index\": 0}, "

/* TensorFX's TF_CONFIG, which names no keys: all tasks find the same ones, which the first makes.
 */
static void test_job_config__server_of_one_host(void **state)
{
    (void)state;
    char folder[200], path[300];
    struct stat facts;
    et_keys first, keys[ET_JOB_ROLES], worker;
    et_error error = ET_ERROR_INIT;
    if (et_keys_make(keys, &error))
        skip(); /* built without ZeroMQ */
    own_tmpdir(folder, sizeof folder);
    assert_int_equal(serve(TASK_OF("worker") ON_LOOPBACK "}", &first, &error), ET_OK);
    assert_int_equal(serve(TASK_OF("worker") ON_LOOPBACK "}", &worker, &error), ET_OK);
    assert_memory_equal(&first, &worker, sizeof first);
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    /* Ports of servers are below 1024 or taken by other processes: only the keys matter. */
    for (int role = 0; role < ET_JOB_ROLES; role++) {
        assert_int_equal(et_user_keys_read(&keys[role], (et_job_role)role, &error), ET_OK);
        assert_memory_equal(keys[role].public, first.public, sizeof first.public);
    }
    assert_string_not_equal(keys[ET_JOB_MASTER].secret, first.secret);
    assert_string_equal(keys[ET_JOB_WORKER].secret, first.secret);
    /* Outside the loopback, or in a folder that others may enter, no keys are made or read. */
    static const char *const cases[][2] = {
        { TASK_OF("worker") "\"cluster\": {\"master\": [\"localhost:1\"], \"worker\": "
                            "[\"localhost:2\", \"192.0.2.1:3\"]}}",
          "/job:worker/task:0: a cluster on several hosts needs keys: make them with `etude keys "
          "DIR`, and name the folder in" },
        { TASK_OF("worker") "\"cluster\": {\"master\": [\"nowhere.invalid:1\"], \"worker\": "
                            "[\"localhost:2\"]}}",
          "a cluster on several hosts needs keys: make them with `etude keys DIR`, and name the "
          "folder in" },
    };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(serve(cases[i][0], &worker, &error), ET_EUSAGE);
        assert_contains(error.text, cases[i][1]);
    }
    assert_int_equal(chmod(folder, 0750), 0);
    assert_int_equal(serve(TASK_OF("worker") ON_LOOPBACK "}", &worker, &error), ET_EDENIED);
    assert_contains(error.text,
                    "other users can use this folder, so it cannot hold keys; remove it, set "
                    "TMPDIR, or name a folder of `etude keys DIR`: \"job\": {\"keys\": \"DIR\"}");
    assert_int_equal(chmod(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/worker.key", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(serve(TASK_OF("worker") ON_LOOPBACK "}", &worker, &error), ET_ENOTFOUND);
    assert_contains(error.text, "if a file is damaged");
    /* A link of somebody else is not followed. */
    snprintf(path, sizeof path, "%s.aside", folder);
    assert_int_equal(rename(folder, path), 0);
    assert_int_equal(symlink(strrchr(path, '/') + 1, folder), 0);
    assert_int_equal(serve(TASK_OF("worker") ON_LOOPBACK "}", &worker, &error), ET_EDENIED);
    unlink(folder);
    unsetenv("TMPDIR");
}

/* Tasks that start at once have the keys of one of them. */
static void test_job_config__keys_are_made_once(void **state)
{
    enum { TASKS = 12 };
    (void)state;
    char folder[200];
    int ends[2];
    et_keys keys[ET_JOB_ROLES], got;
    if (et_keys_make(keys, NULL))
        skip();
    own_tmpdir(folder, sizeof folder);
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < TASKS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            et_error error = ET_ERROR_INIT;
            int status = et_user_keys_read(&got, ET_JOB_PARAM_SERVER, &error);
            _exit(status || write(ends[1], &got, sizeof got) != (ssize_t)sizeof got);
        }
    }
    close(ends[1]);
    for (int i = 0, how; i < TASKS; i++) {
        assert_true(wait(&how) > 0);
        assert_true(WIFEXITED(how) && !WEXITSTATUS(how));
        assert_int_equal(read(ends[0], i ? &got : &keys[0], sizeof got), sizeof got);
        if (i)
            assert_memory_equal(&got, &keys[0], sizeof got);
    }
    close(ends[0]);
    unsetenv("TMPDIR");
}

/* Its own address, once; a worker listens to nobody. */
static void test_job_config__server_listens(void **state)
{
    (void)state;
    char folder[] = "keys.XXXXXX", text[600];
    et_keys keys[ET_JOB_ROLES];
    et_error error = ET_ERROR_INIT;
    if (et_keys_make(keys, &error))
        skip(); /* built without ZeroMQ */
    assert_non_null(mkdtemp(folder));
    assert_int_equal(et_keys_write(keys, folder, &error), ET_OK);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_false(bind(fd, (struct sockaddr *)&at, size));
    assert_false(getsockname(fd, (struct sockaddr *)&at, &size));
    close(fd);
    for (int worker = 0; worker < 2; worker++) {
        et_job_server *server, *second;
        snprintf(text, sizeof text,
                 "{\"task\": {\"type\": \"%s\", \"index\": 0}, \"cluster\": {\"master\": "
                 "[\"127.0.0.1:%d\"], \"worker\": [\"127.0.0.1:1\"], \"ps\": [\"127.0.0.1:2\"]}, "
                 "\"job\": {\"keys\": \"%s\"}}",
                 worker ? "worker" : "master", ntohs(at.sin_port), folder);
        et_job_config *config = parsed(text);
        assert_int_equal(et_job_config_create_server(&server, config, &error), ET_OK);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        bool reached = !connect(fd, (struct sockaddr *)&at, size);
        close(fd);
        assert_int_equal(reached, !worker);
        int status = et_job_config_create_server(&second, config, &error);
        assert_int_equal(status, worker ? ET_OK : ET_EIO);
        if (!worker)
            assert_contains(error.text, "this task's address in the cluster");
        et_job_server_free(second);
        et_job_server_free(server);
        et_job_config_free(config);
    }
}

static void test_job_config__out_of_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"task\": {\"type\": \"ps\", \"index\": 1}, " CLUSTER "}";
    bool failed = true;
    for (long n = 0; failed; n++) {
        et_job_config *config;
        et_device_setter *setter = NULL;
        scarce_begin(n);
        int status = et_job_config_parse(&config, text, sizeof text - 1, "TF_CONFIG", NULL);
        if (!status)
            status = et_job_config_create_device_setter(&setter, config, NULL, NULL);
        if (!status && !et_device_setter_variable(setter, "a"))
            status = ET_ENOMEM;
        et_device_setter_free(setter);
        et_job_config_free(config);
        failed = scarce_failed;
        scarce_end();
        assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_config__local),
        cmocka_unit_test(test_job_config__environment),
        cmocka_unit_test(test_job_config__cluster),
        cmocka_unit_test(test_job_config__nobody),
        cmocka_unit_test(test_job_config__new),
        cmocka_unit_test(test_job_config__refused),
        cmocka_unit_test(test_job_config__too_large),
        cmocka_unit_test(test_job_config__device_setter),
        cmocka_unit_test(test_job_config__device_placement),
        cmocka_unit_test(test_job_config__server),
        cmocka_unit_test(test_job_config__server_of_one_host),
        cmocka_unit_test(test_job_config__keys_are_made_once),
        cmocka_unit_test(test_job_config__server_listens),
        cmocka_unit_test(test_job_config__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
