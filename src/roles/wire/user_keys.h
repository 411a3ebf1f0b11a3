/* Keys of this user, TMPDIR/etude-keys-UID (TMPDIR or /tmp), mode 0700, for clusters whose tasks
 * all run on this host. The first task makes them; they stay for later clusters. */
#ifndef ETUDE_ROLES_WIRE_USER_KEYS_H
#define ETUDE_ROLES_WIRE_USER_KEYS_H

#include "roles/wire/keys.h"

/* Whether every address of the cluster is a loopback address. An unknown host is not. */
bool et_cluster_is_local(const et_job_cluster *cluster);

/* ET_EDENIED: the folder belongs to another user, or others may enter it. */
int et_user_keys_read(et_keys *keys, et_job_role role, et_error *error);

#endif
