/* Keys of this user. Each of several tasks that start together makes its own folder and renames it.
 * One of them wins, and all read its keys. */
#include "roles/wire/user_keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "roles/wire/address.h"

#define PATH_SPACE 4096

/* ---- where tasks are ---- */

static bool is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
    const struct sockaddr_in *in = (const void *)at;
    return at->sa_family == AF_INET &&
           ntohl(in->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

static bool is_local(const char *address)
{
    struct addrinfo *found;
    if (et_address_find(&found, address, NULL))
        return false;
    bool local = true;
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        local = local && is_loopback(at->ai_addr);
    freeaddrinfo(found);
    return local;
}

bool et_cluster_is_local(const et_job_cluster *cluster)
{
    for (int role = 0; role < ET_JOB_ROLES; role++)
        for (size_t i = 0; i < cluster->addresses[role].count; i++)
            if (!is_local(cluster->addresses[role].items[i]))
                return false;
    return true;
}

/* ---- the folder ---- */

static int path_of(char *path, const char *ending, et_error *error)
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(path, PATH_SPACE, "%s/etude-keys-%lu%s",
                          parent && *parent ? parent : "/tmp", (unsigned long)geteuid(), ending);
    return length > 0 && length < PATH_SPACE
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "TMPDIR: %.60s...: the name is too long; choose a shorter one", parent);
}

static int make(const char *folder, et_error *error)
{
    char made[PATH_SPACE];
    et_keys keys[ET_JOB_ROLES];
    int status = path_of(made, ".XXXXXX", error);
    if (!status && !mkdtemp(made))
        return et_fail_errno(error, "cannot make %s", made);
    if (!status)
        status = et_keys_make(keys, error);
    if (!status)
        status = et_keys_write(keys, made, error);
    if (!status && !rename(made, folder))
        return ET_OK;
    const bool lost = !status && (errno == EEXIST || errno == ENOTEMPTY);
    if (!status && !lost)
        status = et_fail_errno(error, "cannot make %s", folder);
    et_keys_remove(made);
    return status;
}

/* As in any TMPDIR, a user who may rename in the folder's parent could replace the folder after
 * this check. */
static int check(const char *folder, et_error *error)
{
    struct stat facts;
    if (lstat(folder, &facts))
        return et_fail_errno(error, "cannot read %s", folder);
    if (S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && !(facts.st_mode & 077))
        return ET_OK;
    return et_fail(error, ET_EDENIED,
                   "%s: other users can use this folder, so it cannot hold keys; remove it, set "
                   "TMPDIR, or name a folder of `etude keys DIR`: \"job\": {\"keys\": \"DIR\"}",
                   folder);
}

int et_user_keys_read(et_keys *keys, et_job_role role, et_error *error)
{
    char folder[PATH_SPACE];
    struct stat facts;
    int status = path_of(folder, "", error);
    if (!status && lstat(folder, &facts))
        status = make(folder, error);
    if (!status)
        status = check(folder, error);
    if (status)
        return status;
    status = et_keys_read(keys, folder, role, error);
    return status ? et_fail_while(error, status,
                                  "the keys of this user's clusters on this host (remove %s if a "
                                  "file is damaged)",
                                  folder)
                  : ET_OK;
}
