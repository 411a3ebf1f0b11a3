#include "command/tabular/tfx_distributed.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "command/training/processes/local_cluster.h"

typedef struct program {
    const char **argv;
    const char *keys; /* folder */
} program;

/* The cluster's, and where its keys are. */
static int set_environment(const program *p, const et_roles *task, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_value *config = et_value_dict(&arena);
    char threads[16];
    int status = et_value_merge(config, et_job_config_env(task->config), error);
    if (!status) {
        et_value *job = et_value_set_dict(config, "job");
        et_value_set_bool(job, "local", true);
        et_value_set_string(job, "keys", p->keys);
    }
    if (!status && !et_value_failed(config))
        et_json_print(&text, config, 0);
    snprintf(threads, sizeof threads, "%d", task->threads);
    bool sound = !status && !text.failed && text.length > 0 &&
                 !setenv(ET_JOB_CONFIG_VARIABLE, et_strbuf_text(&text), 1) &&
                 (!task->threads || !setenv("OMP_NUM_THREADS", threads, 0));
    if (!status && !sound)
        status = et_alloc_failed(error, text.length, ET_JOB_CONFIG_VARIABLE);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

/* What all of them cannot is said once. */
static int be(void *self, et_roles *task, et_error *error)
{
    const program *p = self;
    int status = set_environment(p, task, error);
    if (!status) {
        execvp(p->argv[0], (char *const *)p->argv);
        status = et_fail_errno(error, "%s", p->argv[0]);
    }
    if (error && !et_job_config_master(task->config))
        error->text[0] = 0;
    return status;
}

static int make_keys(const char *folder, et_error *error)
{
    et_keys keys[ET_JOB_ROLES];
    int status = et_keys_make(keys, error);
    return status ? status : et_keys_write(keys, folder, error);
}

int et_tfx_distributed(const char **argv, et_error *error)
{
    const char *tmp = getenv("TMPDIR");
    char folder[512];
    int length =
        snprintf(folder, sizeof folder, "%s/etude-keys.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (length >= (int)sizeof folder)
        return et_fail(error, ET_EUSAGE,
                       "TMPDIR: %.60s...: the name is too long; choose a shorter one", tmp);
    if (!mkdtemp(folder))
        return et_fail_errno(error, "cannot make the folder %s for keys", folder);
    pid_t self = getpid();
    program p = { argv, folder };
    const et_local_cluster setup = { .own_ports = true, .self = &p, .be = be };
    int status = make_keys(folder, error);
    if (!status)
        status = et_local_cluster_run(&setup, error);
    if (getpid() == self)
        et_keys_remove(folder);
    return status;
}
