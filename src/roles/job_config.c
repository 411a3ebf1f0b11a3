/* The configuration of a job. TF_CONFIG may come from anyone who starts the process, so reading it
 * checks all of it. Values live in the configuration's arena. */
#include <etude/job_config.h>

#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/map.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"

#define SHOWN_MAX 8 /* addresses of a role that a description names */

struct et_job_config {
    et_arena arena;
    et_job_task task;
    et_job_cluster cluster;
    bool distributed;
    const et_value *job, *env;
    const char *device;
    const char *description;
};

/* ---- reading ---- */

static bool is_nothing(const et_value *value)
{
    return !value || value->kind == ET_VALUE_NULL ||
           (value->kind == ET_VALUE_DICT && !value->count);
}

static int check_dict(const et_value *value, const char *what, const char *name, et_error *error)
{
    if (!value || value->kind == ET_VALUE_NULL || value->kind == ET_VALUE_DICT)
        return ET_OK;
    return et_fail(error, ET_ECONFIG, "%s: %s must be an object, not %s", name, what,
                   et_value_kind_name(value->kind));
}

static int find_role(et_job_role *role, const char *word, const char *what, const char *name,
                     et_error *error)
{
    for (int i = 0; i < ET_JOB_ROLES; i++)
        if (!strcmp(word, et_job_role_names[i])) {
            *role = (et_job_role)i;
            return ET_OK;
        }
    if (!strcmp(word, "chief"))
        return et_fail(error, ET_ECONFIG,
                       "%s: %s \"chief\": Etude trains a chief with workers as ranks: use `etude "
                       "launch -n N -- train ...`, without TF_CONFIG",
                       name, what);
    return et_fail(error, ET_ECONFIG,
                   "%s: %s \"%.60s\": unknown role%s (known: master, ps, worker)", name, what, word,
                   et_nearest_hint(word, et_job_role_names, "").text);
}

/* "host:port", "[::1]:14000". */
static bool is_address(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    const char *port = strrchr(text, ':');
    size_t host = port ? (size_t)(port - text) : 0;
    if (!host || host > 255)
        return false;
    if (text[0] == '['
            ? text[host - 1] != ']' || strspn(text + 1, "0123456789abcdefABCDEF:.%") + 2 != host
            : strspn(text, letters) != host)
        return false;
    size_t digits = strspn(port + 1, "0123456789");
    long number = digits && digits <= 5 && !port[1 + digits] ? strtol(port + 1, NULL, 10) : 0;
    return number >= 1 && number <= 65535;
}

static int read_addresses(et_job_config *config, et_job_role role, const et_value *list,
                          et_map *seen, const char *name, et_error *error)
{
    const char *word = et_job_role_names[role];
    size_t count = 0;
    if (list->kind != ET_VALUE_LIST)
        return et_fail(error, ET_ECONFIG, "%s: cluster.%s must be a list of \"host:port\"", name,
                       word);
    if (list->count > ET_JOB_TASKS_MAX - seen->count)
        return et_fail(error, ET_ECONFIG, "%s: a cluster of more than %d tasks", name,
                       ET_JOB_TASKS_MAX);
    const char **items = et_arena_array(&config->arena, list->count, sizeof *items);
    if (!items)
        return et_alloc_failed(error, "a cluster");
    for (const et_value *v = list->first; v; v = v->next) {
        int64_t before;
        if (v->kind != ET_VALUE_STRING || !is_address(v->string))
            return et_fail(error, ET_ECONFIG, "%s: cluster.%s[%zu]: %.60s is not \"host:port\"",
                           name, word, count,
                           v->kind == ET_VALUE_STRING ? v->string : et_value_kind_name(v->kind));
        if (et_map_get(seen, v->string, &before))
            return et_fail(error, ET_ECONFIG, "%s: cluster.%s[%zu]: %.60s is used twice", name,
                           word, count, v->string);
        items[count] = et_arena_strdup(&config->arena, v->string);
        if (!items[count] || !et_map_put(seen, items[count], (int64_t)count))
            return et_alloc_failed(error, "a cluster");
        count++;
    }
    config->cluster.addresses[role] = (et_strings){ items, count };
    return ET_OK;
}

static int read_cluster(et_job_config *config, const et_value *cluster, const char *name,
                        et_error *error)
{
    int status = check_dict(cluster, "cluster", name, error);
    if (status || is_nothing(cluster))
        return status;
    et_map seen = ET_MAP_INIT;
    for (const et_value *v = cluster->first; v && !status; v = v->next) {
        et_job_role role = ET_JOB_MASTER;
        if (v->kind == ET_VALUE_LIST && !v->count) /* no task has this role, whatever its name */
            continue;
        status = find_role(&role, v->key, "cluster", name, error);
        if (!status)
            status = read_addresses(config, role, v, &seen, name, error);
    }
    const size_t tasks = seen.count;
    et_map_release(&seen);
    const et_strings *addresses = config->cluster.addresses;
    bool workers_alone = addresses[ET_JOB_WORKER].count && !addresses[ET_JOB_MASTER].count &&
                         !addresses[ET_JOB_PARAM_SERVER].count;
    if (!status && workers_alone)
        status = et_fail(error, ET_ECONFIG,
                         "%s: the cluster has only workers (TensorFlow's multi-worker strategy); "
                         "use ranks instead (etude launch)",
                         name);
    else if (!status && tasks && addresses[ET_JOB_MASTER].count != 1)
        status =
            et_fail(error, ET_ECONFIG,
                    "%s: the cluster has %zu masters; give exactly one, which saves and evaluates",
                    name, addresses[ET_JOB_MASTER].count);
    config->distributed = !status;
    return status;
}

static int read_index(et_job_config *config, const et_value *index, const char *name,
                      et_error *error)
{
    et_job_task *task = &config->task;
    const et_strings *addresses = config->cluster.addresses;
    size_t count = addresses[task->role].count;
    /* A cluster without addresses lists no task that could be the wrong one. */
    const bool listed = config->distributed && addresses[ET_JOB_MASTER].count;
    if (index && (index->kind != ET_VALUE_INT || index->integer < 0))
        return et_fail(
            error, ET_ECONFIG, "%s: task.index must be a whole number of at least 0, not %s", name,
            index->kind == ET_VALUE_INT ? "a negative one" : et_value_kind_name(index->kind));
    if (!index && count > 1)
        return et_fail(error, ET_ECONFIG,
                       "%s: task.index is missing; give the number of this task among %zu %s tasks",
                       name, count, task->type);
    task->index = index ? index->integer : 0;
    if (listed && (uint64_t)task->index >= count)
        return et_fail(error, ET_ECONFIG, "%s: the cluster has no task %s %lld, only %zu", name,
                       task->type, (long long)task->index, count);
    return ET_OK;
}

/* After the cluster, which lists the possible tasks. */
static int read_task(et_job_config *config, const et_value *task, const char *name, et_error *error)
{
    int status = check_dict(task, "task", name, error);
    config->task = (et_job_task){ ET_JOB_MASTER, et_job_role_names[ET_JOB_MASTER], 0 };
    if (status || is_nothing(task))
        return status;
    const et_value *type = et_value_get(task, "type");
    if (!type || type->kind != ET_VALUE_STRING)
        return et_fail(error, ET_ECONFIG, "%s: task.type must be \"master\", \"ps\" or \"worker\"",
                       name);
    if ((status = find_role(&config->task.role, type->string, "task.type", name, error)))
        return status;
    config->task.type = et_job_role_names[config->task.role];
    return read_index(config, et_value_get(task, "index"), name, error);
}

/* ---- showing ---- */

static int describe(et_job_config *config, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    size_t tasks = 0;
    for (int i = 0; i < ET_JOB_ROLES; i++)
        tasks += config->cluster.addresses[i].count;
    if (!config->distributed)
        et_strbuf_append(&text, "a single node");
    else if (!tasks)
        et_strbuf_printf(&text, "a cluster without addresses, of which this is %s %lld",
                         config->task.type, (long long)config->task.index);
    else
        et_strbuf_printf(&text, "a cluster of %zu, of which this is %s %lld", tasks,
                         config->task.type, (long long)config->task.index);
    for (int i = 0; i < ET_JOB_ROLES; i++) {
        const et_strings *addresses = &config->cluster.addresses[i];
        if (!addresses->count)
            continue;
        et_strbuf_printf(&text, "\n%-7s", et_job_role_names[i]);
        for (size_t k = 0; k < addresses->count && k < SHOWN_MAX; k++)
            et_strbuf_printf(&text, " %s", addresses->items[k]);
        if (addresses->count > SHOWN_MAX)
            et_strbuf_printf(&text, " and %zu more", addresses->count - SHOWN_MAX);
    }
    config->device = et_arena_printf(&config->arena, "/job:%s/task:%lld", config->task.type,
                                     (long long)config->task.index);
    config->description = et_strbuf_keep(&text, &config->arena);
    return config->device && config->description ? ET_OK
                                                 : et_alloc_failed(error, "a configuration");
}

/* ---- making ---- */

/* job and env live in the configuration's arena already. */
static int fill(et_job_config *config, const et_value *task, const et_value *cluster,
                const et_value *job, const et_value *env, const char *name, et_error *error)
{
    int status;
    if ((status = check_dict(job, "job", name, error)) ||
        (status = check_dict(env, "env", name, error)) ||
        (status = read_cluster(config, cluster, name, error)) ||
        (status = read_task(config, task, name, error)))
        return status;
    config->job = job;
    config->env = env && env->kind == ET_VALUE_DICT ? env : et_value_dict(&config->arena);
    if (!job || job->kind != ET_VALUE_DICT) {
        et_value *local = et_value_dict(&config->arena);
        et_value_set_bool(local, "local", true);
        config->job = local;
    }
    if (config->arena.failed)
        return et_alloc_failed(error, "a configuration");
    return describe(config, error);
}

static int end(et_job_config **out, int status)
{
    if (status) {
        et_job_config_free(*out);
        *out = NULL;
    }
    return status;
}

static int copy(et_arena *arena, const et_value **to, const et_value *from, et_error *error)
{
    *to = from;
    if (!from || from->kind != ET_VALUE_DICT)
        return ET_OK;
    et_value *dict = et_value_dict(arena);
    *to = dict;
    return dict ? et_value_merge(dict, from, error) : et_alloc_failed(error, "a configuration");
}

int et_job_config_new(et_job_config **out, const et_value *task, const et_value *cluster,
                      const et_value *job, const et_value *env, et_error *error)
{
    if (ET_ALLOC_ZERO(*out, 1, "a configuration", error))
        return ET_ENOMEM;
    int status = copy(&(*out)->arena, &job, job, error);
    if (!status && !(status = copy(&(*out)->arena, &env, env, error)))
        status = fill(*out, task, cluster, job, env, "configuration", error);
    return end(out, status);
}

int et_job_config_parse(et_job_config **out, const char *text, size_t length, const char *name,
                        et_error *error)
{
    et_value *root = NULL;
    if (ET_ALLOC_ZERO(*out, 1, "a configuration", error))
        return ET_ENOMEM;
    int status =
        length > ET_JOB_CONFIG_MAX
            ? et_fail(error, ET_EFORMAT, "%s: longer than %zu bytes", name, ET_JOB_CONFIG_MAX)
            : et_json_parse(&root, &(*out)->arena, text, length, name, error);
    if (!status && root->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s: must be an object, {...}, not %s", name,
                         et_value_kind_name(root->kind));
    if (!status)
        status = fill(*out, et_value_get(root, "task"), et_value_get(root, "cluster"),
                      et_value_get(root, "job"), root, name, error);
    return end(out, status);
}

int et_job_config_environment(et_job_config **out, et_error *error)
{
    const char *text = getenv(ET_JOB_CONFIG_VARIABLE);
    if (!text || !*text)
        return et_job_config_local(out, error);
    return et_job_config_parse(out, text, strlen(text), ET_JOB_CONFIG_VARIABLE, error);
}

int et_job_config_local(et_job_config **out, et_error *error)
{
    return et_job_config_new(out, NULL, NULL, NULL, NULL, error);
}

void et_job_config_free(et_job_config *config)
{
    if (!config)
        return;
    et_arena_release(&config->arena);
    et_free(config);
}

/* ---- facts ---- */

const et_job_task *et_job_config_task(const et_job_config *config)
{
    return &config->task;
}

const et_job_cluster *et_job_config_cluster(const et_job_config *config)
{
    return config->distributed ? &config->cluster : NULL;
}

const et_value *et_job_config_job(const et_job_config *config)
{
    return config->job;
}

const et_value *et_job_config_env(const et_job_config *config)
{
    return config->env;
}

bool et_job_config_distributed(const et_job_config *config)
{
    return config->distributed;
}

bool et_job_config_master(const et_job_config *config)
{
    return config->task.role == ET_JOB_MASTER;
}

bool et_job_config_param_server(const et_job_config *config)
{
    return config->task.role == ET_JOB_PARAM_SERVER;
}

bool et_job_config_worker(const et_job_config *config)
{
    return config->task.role == ET_JOB_WORKER;
}

const char *et_job_config_device(const et_job_config *config)
{
    return config->device;
}

const char *et_job_config_describe(const et_job_config *config)
{
    return config->description;
}

/* ---- devices ---- */

struct et_device_setter {
    const et_job_config *config;
    et_arena arena;       /* of names */
    et_map indices;       /* variable to its turn */
    const char **devices; /* [servers], of parameter servers; in arena */
    size_t servers;
    bool tells;
};

int et_job_config_create_device_setter(et_device_setter **out, const et_job_config *config,
                                       const et_arguments *args, et_error *error)
{
    *out = NULL;
    et_device_setter *setter;
    if (ET_ALLOC_ZERO(setter, 1, "a device setter", error))
        return ET_ENOMEM;
    setter->config = config;
    setter->servers = config->cluster.addresses[ET_JOB_PARAM_SERVER].count;
    setter->tells = args && args->log_device_placement;
    setter->devices = et_arena_array(&setter->arena, setter->servers, sizeof *setter->devices);
    for (size_t i = 0; setter->devices && i < setter->servers; i++)
        setter->devices[i] = et_arena_printf(&setter->arena, "/job:ps/task:%zu", i);
    if (setter->arena.failed) {
        et_device_setter_free(setter);
        return et_alloc_failed(error, "a device setter");
    }
    *out = setter;
    return ET_OK;
}

const char *et_device_setter_variable(et_device_setter *setter, const char *name)
{
    int64_t turn;
    if (!name)
        return NULL;
    if (!et_map_get(&setter->indices, name, &turn)) {
        const char *key = et_arena_strdup(&setter->arena, name);
        turn = (int64_t)setter->indices.count;
        if (!key || !et_map_put(&setter->indices, key, turn))
            return NULL;
        if (setter->tells)
            et_log(ET_LOG_INFO, "%s: %s", name, et_device_setter_variable(setter, name));
    }
    return setter->servers ? setter->devices[(size_t)turn % setter->servers]
                           : et_device_setter_op(setter);
}

const char *et_device_setter_op(const et_device_setter *setter)
{
    return setter->config->device;
}

void et_device_setter_free(et_device_setter *setter)
{
    if (!setter)
        return;
    et_map_release(&setter->indices);
    et_arena_release(&setter->arena);
    et_free(setter);
}
