/* The configuration of a job (TensorFX's Configuration). It has a task (this process), a cluster
 * (all processes; none on a single node) and a job (other facts from the environment). It comes
 * from the environment variable TF_CONFIG or from the program:
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
 * A cluster is one master, parameter servers and workers. They train by their roles: in `etude
 * train`, in a model trainer (model_trainer.h) and in a program's own trainer (coordinator.h). A
 * configuration does not change after it is made; any number of threads may read it. Getters return
 * borrowed values. */
#ifndef ETUDE_JOB_CONFIG_H
#define ETUDE_JOB_CONFIG_H

#include <etude/arguments.h>

typedef struct et_job_config et_job_config;

#define ET_JOB_CONFIG_VARIABLE "TF_CONFIG"
#define ET_JOB_CONFIG_MAX      ((size_t)1 << 20) /* most bytes of its text */
#define ET_JOB_TASKS_MAX       4096              /* most addresses of a cluster */

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
    const char *type; /* name of the role */
    int64_t index;    /* among the tasks of its role */
} et_job_task;

typedef struct et_job_cluster {
    et_strings addresses[ET_JOB_ROLES]; /* "host:port" of each task, by role */
} et_job_cluster;

/* Makes a configuration from dicts in the form of TF_CONFIG, and copies them. task NULL or empty:
 * {"type": "master", "index": 0}. cluster NULL or empty: a single node. job NULL: {"local": true}.
 * env: everything in the environment's value; NULL: an empty dict. ET_ECONFIG: an invalid type,
 * index, address or role, or a task that the cluster does not have. Roles with an empty list are
 * ignored. A cluster of only such roles is distributed, but has no server. */
ET_API int et_job_config_new(et_job_config **out, const et_value *task, const et_value *cluster,
                             const et_value *job, const et_value *env, et_error *error);
/* Reads TF_CONFIG. If TF_CONFIG is unset or empty: a single node. ET_EFORMAT: not JSON. ET_ECONFIG
 * as above. */
ET_API int et_job_config_environment(et_job_config **out, et_error *error);
/* The same from a text. name: of the text, for messages. */
ET_API int et_job_config_parse(et_job_config **out, const char *text, size_t length,
                               const char *name, et_error *error);
/* A single node in this process. */
ET_API int et_job_config_local(et_job_config **out, et_error *error);
ET_API void et_job_config_free(et_job_config *config); /* NULL allowed */

ET_API const et_job_task *et_job_config_task(const et_job_config *config);
ET_API const et_job_cluster *et_job_config_cluster(const et_job_config *config); /* or NULL */
ET_API const et_value *et_job_config_job(const et_job_config *config);           /* a dict */
ET_API const et_value *et_job_config_env(const et_job_config *config);           /* a dict */
ET_API bool et_job_config_distributed(const et_job_config *config); /* whether there is a cluster */
ET_API bool et_job_config_master(const et_job_config *config);
ET_API bool et_job_config_param_server(const et_job_config *config);
ET_API bool et_job_config_worker(const et_job_config *config);
ET_API const char *et_job_config_device(const et_job_config *config); /* "/job:worker/task:1" */

/* "a single node", or one line for each role with its processes, without the last line end. */
ET_API const char *et_job_config_describe(const et_job_config *config);

/* Assigns variables and ops to devices. Variables go to parameter servers in turn, in the order of
 * their first request. Ops go to the task's own device. On a single node everything goes there. */
typedef struct et_device_setter et_device_setter;

/* args: of the job; with log_device_placement each new variable is logged. NULL allowed. config
 * outlives the setter. */
ET_API int et_job_config_create_device_setter(et_device_setter **out, const et_job_config *config,
                                              const et_arguments *args, et_error *error);
/* A variable always gets the same device. NULL: no memory, or name is NULL. One thread. */
ET_API const char *et_device_setter_variable(et_device_setter *setter, const char *name);
ET_API const char *et_device_setter_op(const et_device_setter *setter);
ET_API void et_device_setter_free(et_device_setter *setter); /* NULL allowed */

/* The connection data of a task of a cluster: the keys of its role and, for the master and
 * parameter servers, a socket that listens at the task's address from now on. Connections are
 * authenticated and encrypted. If all addresses are loopback, the first task makes keys of this
 * user in TMPDIR (or /tmp)/etude-keys-UID. Several hosts need a folder of keys ("job": {"keys":
 * "DIR"}, made by `etude keys DIR`); one host may have it. *out NULL: a single node needs no
 * server. config outlives the server. ET_EUSAGE: several hosts without a folder, or Etude was built
 * without ZeroMQ. ET_EDENIED: other users may read a key. */
typedef struct et_job_server et_job_server;
ET_API int et_job_config_create_server(et_job_server **out, const et_job_config *config,
                                       et_error *error);
ET_API void et_job_server_free(et_job_server *server); /* NULL allowed */

#endif
