/* Tasks of a cluster, for their own files: cluster.c (slices and sizes, reports of gradients),
 * worker.c, param_server.c, cluster_trainer.c (the master). */
#ifndef ETUDE_ROLES_CLUSTER_PRIVATE_H
#define ETUDE_ROLES_CLUSTER_PRIVATE_H

#include "roles/cluster.h"
#include "roles/wire/wire.h"
#include "systems/modelgarden/task_trainer_private.h"

/* A position in the data, as sent: 1 for a worker's own position, the count of numbers, the
 * numbers. */
typedef struct et_cluster_position {
    int64_t own, count, value[ET_POSITION_MAX];
} et_cluster_position;

/* The first part of a worker's report of a gradient. After it come measures (totals, then weights),
 * moving means, states of the task's own metrics, and the position in the data. */
typedef struct et_cluster_facts {
    double divisor; /* 0: loss or gradient is not finite */
    double loss, units, epoch;
} et_cluster_facts;

#define ET_CLUSTER_DIVISOR_MIN 1e-12

/* The divisor in a report; 0: none, or impossible values. */
double et_cluster_divisor(const unsigned char *report);

/* The tasks of the cluster, and the placement of the model. */
typedef struct et_cluster_plan {
    int servers, workers;
    et_placement placement;
    int64_t *state; /* [servers]: floats of the state of each; in placement's arena */
    int measures;
    int64_t means;         /* elements of moving means */
    size_t metrics_size;   /* bytes of the states of the task's own metrics */
    size_t metrics_at;     /* their offset in a report */
    size_t report_size;    /* bytes */
    size_t variables_size; /* bytes of untrained variables; a worker gets them when it joins */
    size_t largest;        /* bytes of the largest message */
    size_t asked;          /* bytes of the largest message to this task */
    uint64_t fingerprint;
} et_cluster_plan;

int et_cluster_plan_make(et_cluster_plan *plan, const et_task_trainer *trainer,
                         const et_cluster_options *options, et_error *error);
void et_cluster_plan_release(et_cluster_plan *plan);

/* The part of a slot that an optimizer keeps for a parameter; NULL: none. */
const et_slot_part *et_cluster_slot(const et_optimizer *optimizer, const char *slot, int param);

/* A server's weights and slots, from and to a whole store and its optimizer. */
void et_cluster_gather_state(const et_cluster_plan *plan, const et_params *params,
                             const float *values, const et_optimizer *optimizer, int server,
                             float *state);
void et_cluster_scatter_state(const et_cluster_plan *plan, const et_params *params, float *values,
                              const et_optimizer *optimizer, int server, const void *state);

/* Connections of this process by its role. */
int et_cluster_connect(et_wire **out, const et_cluster_options *options,
                       const et_cluster_plan *plan, et_error *error);

et_cluster_position et_cluster_position_of(const et_source *source, bool own);
/* ET_EDATA: not a position of this source's data. Count 0: the position does not change. */
int et_cluster_seek(et_source *source, const et_cluster_position *at, et_error *error);

#endif
