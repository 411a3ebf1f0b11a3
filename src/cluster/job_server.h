/* What a task of a cluster needs beside its configuration: et_job_server of <etude/job_config.h>,
 * as the library's own parts see it. */
#ifndef ETUDE_CLUSTER_JOB_SERVER_H
#define ETUDE_CLUSTER_JOB_SERVER_H

#include "cluster/keys.h"

struct et_job_server {
    const et_job_config *config; /* borrowed */
    et_keys keys;                /* of this task's role */
    int listen;                  /* a socket at this task's address, owned; 0: a worker has none */
};

/* The folder of keys that the configuration names: "keys" of its job; NULL: none. */
const char *et_job_keys(const et_job_config *config);

#endif
