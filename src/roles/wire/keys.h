/* Keys of a cluster: a pair for each role (CURVE: Curve25519 by libsodium, as text of 40
 * characters, Z85). A task has the pair of its role and the public keys of all roles. A process
 * without such keys gets no answer. `etude keys DIR` makes the files:
 *
 *     DIR/cluster.pub                        the public keys of all roles
 *     DIR/master.key, ps.key, worker.key     mode 0600: the other file for a host of this role
 *
 *     if (et_keys_read(&keys, "keys", ET_JOB_WORKER, &error)) ...
 */
#ifndef ETUDE_ROLES_WIRE_KEYS_H
#define ETUDE_ROLES_WIRE_KEYS_H

#include <etude/job_config.h>

#define ET_KEY_TEXT 40

typedef struct et_keys {
    char secret[ET_KEY_TEXT + 1]; /* of the task's role */
    char public[ET_JOB_ROLES][ET_KEY_TEXT + 1];
} et_keys;

/* Pairs for all roles: keys[ET_JOB_ROLES]. ET_EUSAGE: built without ZeroMQ. */
int et_keys_make(et_keys *keys, et_error *error);

/* Writes keys into a folder without keys, which is made if missing. */
int et_keys_write(const et_keys *keys, const char *directory, et_error *error);

/* ET_EDENIED: other users may read a .key. ET_EFORMAT: a file has no valid key. */
int et_keys_read(et_keys *keys, const char *directory, et_job_role role, et_error *error);

/* ---- keys of this user ---- */

/* TMPDIR/etude-keys-UID (TMPDIR or /tmp), mode 0700, for clusters whose tasks all run on this host.
 * The first task makes them; they stay for later clusters. */

/* Whether every address of the cluster is a loopback address. An unknown host is not. */
bool et_cluster_is_local(const et_job_cluster *cluster);

/* ET_EDENIED: the folder belongs to another user, or others may enter it. */
int et_user_keys_read(et_keys *keys, et_job_role role, et_error *error);

#endif
