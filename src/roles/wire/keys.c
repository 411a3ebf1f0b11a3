#include "roles/wire/keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "roles/wire/wire.h"

#define FILE_MAX 4096
#define PUBLIC   "cluster.pub"

int et_keys_make(et_keys *keys, et_error *error)
{
    int status = ET_OK;
    for (int role = 0; !status && role < ET_JOB_ROLES; role++)
        status = et_wire_keypair(keys[0].public[role], keys[role].secret, error);
    for (int role = 1; !status && role < ET_JOB_ROLES; role++)
        memcpy(keys[role].public, keys[0].public, sizeof keys[0].public);
    return status;
}

/* The name of the file of public keys is the longest in the folder. */
static int check_length(const char *directory, et_error *error)
{
    return strlen(et_path_of(directory, PUBLIC).text) < PATH_MAX
               ? ET_OK
               : et_fail(
                     error, ET_EUSAGE,
                     "%.60s...: the name of the folder of keys is too long; choose a shorter one",
                     directory);
}

/* New, with its mode from the first moment on. */
static int write_new(const char *path, mode_t mode, const char *text, et_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return et_fail_errno(error, "cannot make %s", path);
    int status = et_fd_write(fd, text, strlen(text), path, error);
    if (!status && fsync(fd))
        status = et_fail_errno(error, "cannot write %s", path);
    close(fd);
    if (status)
        unlink(path);
    return status;
}

static et_path secret_path(const char *directory, int role)
{
    return et_path_of(directory, et_path_print("%s.key", et_job_role_names[role]).text);
}

/* Removes the secrets of the first roles, which this call has made: they are useless without the
 * others.
 */
static void take_back(const char *directory, int roles)
{
    for (int role = 0; role < roles; role++)
        unlink(secret_path(directory, role).text);
}

int et_keys_write(const et_keys *keys, const char *directory, et_error *error)
{
    char text[512], secret[256];
    int length = snprintf(text, sizeof text, "# the public keys of a cluster: for all its hosts\n");
    for (int role = 0; role < ET_JOB_ROLES; role++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %s\n",
                           et_job_role_names[role], keys[0].public[role]);
    const bool anew = !mkdir(directory, 0700);
    if (!anew && errno != EEXIST)
        return et_fail_errno(error, "cannot make %s", directory);
    const et_path public = et_path_of(directory, PUBLIC);
    int made = 0, status = check_length(directory, error);
    if (!status && et_file_exists(public.text))
        return et_fail(error, ET_EUSAGE,
                       "%s exists, and tasks that use it would lose access: choose another folder, "
                       "or remove it",
                       public.text);
    while (!status && made < ET_JOB_ROLES) {
        const char *role = et_job_role_names[made];
        snprintf(secret, sizeof secret,
                 "# the secret key of a cluster's %s: only for its hosts\n%s %s\n", role, role,
                 keys[made].secret);
        status = write_new(secret_path(directory, made).text, 0600, secret, error);
        made += !status;
    }
    if (!status)
        status = write_new(public.text, 0644, text, error);
    if (status)
        take_back(directory, made);
    if (status && anew)
        rmdir(directory);
    return status;
}

/* The key after "role " at the beginning of a line. */
static int find_key(char *key, const char *text, int role, const char *path, et_error *error)
{
    static const char z85[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              ".-:+=^!/*?&<>()[]{}@%$#";
    const char *name = et_job_role_names[role];
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, name, length) != 0 || line[length] != ' ')
            continue;
        const char *value = line + length + 1;
        if (strspn(value, z85) != ET_KEY_TEXT || (value[ET_KEY_TEXT] && value[ET_KEY_TEXT] != '\n'))
            break;
        memcpy(key, value, ET_KEY_TEXT);
        key[ET_KEY_TEXT] = 0;
        return ET_OK;
    }
    return et_fail(error, ET_EFORMAT,
                   "%s: no line has a key of %s; make new keys with `etude keys DIR`", path, name);
}

int et_keys_read(et_keys *keys, const char *directory, et_job_role role, et_error *error)
{
    const et_path secret = secret_path(directory, role), public = et_path_of(directory, PUBLIC);
    char *text = NULL;
    size_t length;
    *keys = (et_keys){ 0 };
    int status = check_length(directory, error);
    if (!status)
        status = et_file_read_secret(&text, &length, secret.text, FILE_MAX, error);
    if (status == ET_ENOTFOUND)
        return et_fail(error, status, "%s is missing; make keys with `etude keys DIR`",
                       secret.text);
    if (!status)
        status = find_key(keys->secret, text, role, secret.text, error);
    et_free(text);
    if (status || (status = et_file_read(&text, &length, public.text, FILE_MAX, error)))
        return status;
    for (int i = 0; !status && i < ET_JOB_ROLES; i++)
        status = find_key(keys->public[i], text, i, public.text, error);
    et_free(text);
    return status;
}

/* ---- keys of this user ---- */

/* If several tasks start together, each makes its own folder and renames it. One rename succeeds,
 * and all tasks read these keys. */

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

static int folder_of(et_path *path, const char *ending, et_error *error)
{
    const char *parent = getenv("TMPDIR");
    *path = et_path_print("%s/etude-keys-%lu%s", parent && *parent ? parent : "/tmp",
                          (unsigned long)geteuid(), ending);
    return strlen(path->text) < PATH_MAX
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "TMPDIR: %.60s...: the name is too long; choose a shorter one", parent);
}

static int make_folder(const char *folder, et_error *error)
{
    et_path made;
    et_keys keys[ET_JOB_ROLES];
    int status = folder_of(&made, ".XXXXXX", error);
    if (status)
        return status;
    if (!mkdtemp(made.text))
        return et_fail_errno(error, "cannot make %s", made.text);
    status = et_keys_make(keys, error);
    if (!status)
        status = et_keys_write(keys, made.text, error);
    if (!status && !rename(made.text, folder))
        return ET_OK;
    const bool lost = !status && (errno == EEXIST || errno == ENOTEMPTY);
    if (!status && !lost)
        status = et_fail_errno(error, "cannot make %s", folder);
    /* The folder, if it is empty then, and the files that et_keys_write makes. */
    take_back(made.text, ET_JOB_ROLES);
    unlink(et_path_of(made.text, PUBLIC).text);
    rmdir(made.text);
    return status;
}

/* As in any TMPDIR, a user who may rename in the folder's parent could replace the folder after
 * this check. */
static int check_folder(const char *folder, et_error *error)
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
    et_path path;
    const char *folder = path.text;
    struct stat facts;
    int status;
    if ((status = folder_of(&path, "", error)) ||
        (lstat(folder, &facts) && (status = make_folder(folder, error))) ||
        (status = check_folder(folder, error)))
        return status;
    status = et_keys_read(keys, folder, role, error);
    return status ? et_fail_while(error, status,
                                  "the keys of this user's clusters on this host (remove %s if a "
                                  "file is damaged)",
                                  folder)
                  : ET_OK;
}
