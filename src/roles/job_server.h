/* et_job_server of <etude/job_config.h>, for the library: keys and listening socket of a task of a
 * cluster. */
#ifndef ETUDE_ROLES_JOB_SERVER_H
#define ETUDE_ROLES_JOB_SERVER_H

#include "roles/wire/keys.h"

struct et_job_server {
    const et_job_config *config; /* borrowed */
    et_keys keys;                /* of this task's role */
    int listen;                  /* a socket that listens at this task's address, owned; 0: none, as
                                    for a worker */
};

/* Reads the keys of the configuration's own task. folder: the folder of keys; NULL: "keys" of the
 * job; without both, for a cluster on this host, the user's keys (keys.h). ET_EUSAGE: no
 * folder is given; how: the way to give one, for the message. */
int et_job_keys_read(et_keys *keys, const et_job_config *config, const char *folder,
                     const char *how, et_error *error);

#endif
