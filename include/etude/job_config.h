/* Where a job runs: TensorFX's Configuration. A task (what this process is), a cluster (who is
 * there; none on a single node) and a job (what the environment says of it), from the environment
 * variable TF_CONFIG or from a program:
 *
 *   {"task": {"type": "worker", "index": 1},
 *    "cluster": {"ps": ["10.0.0.1:14000"], "master": ["10.0.0.2:14001"],
 *    "worker": ["10.0.0.3:14002", "10.0.0.4:14002"]},
 *    "job": {"name": "census"}}
 *
 *     if (et_job_config_environment(&config, &error)) ...
 *     if (et_job_config_parse(&config, text, length, "cluster.json", &error)) ...   or of a text
 *     if (et_job_config_master(config)) ...
 *     puts(et_job_config_describe(config));
 *     et_job_config_create_server(&server, config, &error);
 *     et_job_config_create_device_setter(&setter, config, NULL, &error);
 *     et_device_setter_free(setter);
 *     et_job_server_free(server);
 *     et_job_config_free(config);
 *
 * A cluster is one master, parameter servers and workers, which train by their roles: `etude
 * train`, a model trainer (model_trainer.h) and a program's own trainer (coordinator.h). A
 * configuration does not change once it is made; any number of threads may read. What getters give
 * is borrowed. */
#ifndef ETUDE_JOB_CONFIG_H
#define ETUDE_JOB_CONFIG_H

#include <etude/arguments.h>

typedef struct et_job_config et_job_config;

#define ET_JOB_CONFIG_VARIABLE "TF_CONFIG"
#define ET_JOB_CONFIG_MAX      ((size_t)1 << 20) /* bytes of its text */
#define ET_JOB_TASKS_MAX       4096              /* addresses of a cluster */

/* TensorFX's three roles. */
typedef enum et_job_role {
    ET_JOB_MASTER,
    ET_JOB_PARAM_SERVER, /* "ps" */
    ET_JOB_WORKER,
    ET_JOB_ROLES,
} et_job_role;
ET_DATA const char *const et_job_role_names[]; /* "master", "ps", "worker"; ended by NULL */

typedef struct et_job_task {
    et_job_role role;
    const char *type; /* the role's name */
    int64_t index;    /* among those of its role */
} et_job_task;

typedef struct et_job_cluster {
    et_strings addresses[ET_JOB_ROLES]; /* "host:port" of each task, by role */
} et_job_cluster;

/* From dicts as TF_CONFIG has them. task NULL or empty: {"type": "master", "index": 0}; cluster
 * NULL or empty: a single node; job NULL: {"local": true}; env: all that the environment said,
 * NULL: an empty dict. All is copied. ET_ECONFIG: a type, index, address or role that cannot be, a
 * task that the cluster has not. */
ET_API int et_job_config_new(et_job_config **out, const et_value *task, const et_value *cluster,
                             const et_value *job, const et_value *env, et_error *error);
/* From TF_CONFIG; where it is not set or empty, a single node. ET_EFORMAT: it is no JSON;
 * ET_ECONFIG as above. */
ET_API int et_job_config_environment(et_job_config **out, et_error *error);
/* The same of a text; name: in messages. */
ET_API int et_job_config_parse(et_job_config **out, const char *text, size_t length,
                               const char *name, et_error *error);
/* A single node in this process. */
ET_API int et_job_config_local(et_job_config **out, et_error *error);
ET_API void et_job_config_free(et_job_config *config); /* NULL allowed */

ET_API const et_job_task *et_job_config_task(const et_job_config *config);
ET_API const et_job_cluster *et_job_config_cluster(const et_job_config *config); /* or NULL */
ET_API const et_value *et_job_config_job(const et_job_config *config);           /* a dict */
ET_API const et_value *et_job_config_env(const et_job_config *config);           /* a dict */
ET_API bool et_job_config_distributed(const et_job_config *config); /* there is a cluster */
ET_API bool et_job_config_master(const et_job_config *config);
ET_API bool et_job_config_param_server(const et_job_config *config);
ET_API bool et_job_config_worker(const et_job_config *config);
ET_API const char *et_job_config_device(const et_job_config *config); /* "/job:worker/task:1" */

/* "a single node", or who is there, a line for each role, without the last line end. */
ET_API const char *et_job_config_describe(const et_job_config *config);

/* Which device variables and ops go to: variables to parameter servers in turn, by order of first
 * asking, ops to the task's own device; on a single node all go there. */
typedef struct et_device_setter et_device_setter;

/* args: of the job; with log_device_placement each new variable is told in the log. NULL allowed.
 * The config outlives it. */
ET_API int et_job_config_create_device_setter(et_device_setter **out, const et_job_config *config,
                                              const et_arguments *args, et_error *error);
/* The same variable has the same device always. NULL: no memory is left, or no name. One
 * thread. */
ET_API const char *et_device_setter_variable(et_device_setter *setter, const char *name);
ET_API const char *et_device_setter_op(const et_device_setter *setter);
ET_API void et_device_setter_free(et_device_setter *setter); /* NULL allowed */

/* What this task of a cluster needs to talk to the others: the keys of its role, and, of the master
 * and of parameter servers, a socket that listens at its address from now on. Every connection is
 * authenticated and encrypted. Where all addresses are of the loopback the keys are this user's,
 * made by the first task in TMPDIR (or /tmp)/etude-keys-UID. A cluster of several hosts names a
 * folder of keys ("job": {"keys": "DIR"}, made by `etude keys DIR`); one host may. *out NULL: a
 * single node needs none. ET_EUSAGE: several hosts and no folder, or built without ZeroMQ;
 * ET_EDENIED: others may read a key. The config outlives it. */
typedef struct et_job_server et_job_server;
ET_API int et_job_config_create_server(et_job_server **out, const et_job_config *config,
                                       et_error *error);
ET_API void et_job_server_free(et_job_server *server); /* NULL allowed */

#endif
