#include "roles/job_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "roles/wire/wire.h"

#define BACKLOG 1024

int et_job_keys_read(et_keys *keys, const et_job_config *config, const char *folder,
                     const char *how, et_error *error)
{
    const et_job_role role = et_job_config_task(config)->role;
    if (!et_job_config_cluster(config)->addresses[ET_JOB_MASTER].count)
        return et_fail(error, ET_ECONFIG,
                       "%s: the cluster has no addresses; list \"host:port\" of the master and of "
                       "the other tasks",
                       et_job_config_device(config));
    const et_value *named = et_value_get(et_job_config_job(config), "keys");
    if (!folder && named && (named->kind != ET_VALUE_STRING || !*named->string))
        return et_fail(error, ET_ECONFIG, "%s: job.keys must be the name of a folder",
                       et_job_config_device(config));
    if (!folder && named)
        folder = named->string;
    if (folder)
        return et_keys_read(keys, folder, role, error);
    if (et_cluster_is_local(et_job_config_cluster(config)))
        return et_user_keys_read(keys, role, error);
    return et_fail(error, ET_EUSAGE,
                   "%s: a cluster on several hosts needs keys: make them with `etude keys DIR`, "
                   "and name the folder in %s",
                   et_job_config_device(config), how);
}

/* A port may be used right after it was closed, but not while another socket listens there. */
static int listen_at(int *out, const char *address, et_error *error)
{
    struct addrinfo *at;
    int on = 1, status = et_address_find(&at, address, error);
    if (status)
        return status;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
        !bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, BACKLOG)) {
        *out = fd;
    } else {
        status = et_fail_errno(error, "%s: this task's address in the cluster", address);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(at);
    return status;
}

int et_job_config_create_server(et_job_server **out, const et_job_config *config, et_error *error)
{
    *out = NULL;
    if (!et_job_config_distributed(config))
        return ET_OK;
    et_job_server *server;
    if (ET_ALLOC_ZERO(server, 1, "a server", error))
        return ET_ENOMEM;
    server->config = config;
    const et_job_task *task = et_job_config_task(config);
    int status = et_wire_check(error);
    if (!status)
        status =
            et_job_keys_read(&server->keys, config, NULL, "\"job\": {\"keys\": \"DIR\"}", error);
    const et_strings *addresses = &et_job_config_cluster(config)->addresses[task->role];
    if (!status && task->role != ET_JOB_WORKER)
        status = listen_at(&server->listen, addresses->items[task->index], error);
    if (status)
        et_job_server_free(server);
    else
        *out = server;
    return status;
}

void et_job_server_free(et_job_server *server)
{
    if (!server)
        return;
    if (server->listen > 0)
        close(server->listen);
    et_free(server);
}
