/* et_job_server of <etude/job_config.h>, for the library: keys and listening socket of a task of a
 * cluster. */
#ifndef ETUDE_ROLES_JOB_SERVER_H
#define ETUDE_ROLES_JOB_SERVER_H

#include "roles/wire/keys.h"

struct et_job_server {
    const et_job_config *config; /* borrowed */
    et_keys keys;                /* of this task's role */
    int listen;                  /* a socket at this task's address, owned; 0: a worker has none */
};

/* The keys of the configuration's own task: of folder; NULL: of the one that it names, "keys" of
 * its job; of a cluster on this host without either, of this user (user_keys.h). ET_EUSAGE: none is
 * named; how: what names it, for the message. */
int et_job_keys_read(et_keys *keys, const et_job_config *config, const char *folder,
                     const char *how, et_error *error);

#endif
