/* A model like the trainer's, without files: the settings of an experiment, parameters, pass,
 * optimizer, and batches of generated sentence pairs. */
#ifndef ETUDE_BENCH_MODEL_H
#define ETUDE_BENCH_MODEL_H

#include "base/arena.h"
#include "data/text/encoded.h"
#include "data/text/pairs.h"
#include "systems/modelgarden/experiment.h"
#include "train/run/options.h"
#include "train/step/step.h"

#define BENCH_VOCABULARY 10000
#define BENCH_BUDGET     4096 /* tokens of a batch, on each side */

typedef struct bench_model {
    et_experiment experiment;
    et_arena arena; /* of the experiment's settings */
    int32_t vocabulary;
    et_dtype act;
    int recompute; /* an et_recompute or ET_RECOMPUTE_AUTO */
    et_params *params;
    et_device *device;
    et_pass *pass;
    et_plan *plan; /* the pass's */
    et_optimizer *optimizer;
    et_overflow overflow;
    et_metrics *metrics;
    et_encoded *encoded;
    et_source *source;
    et_step step;        /* its batch is the last one taken */
    double plan_seconds; /* that building graph and plan took */
} bench_model;

/* What model and which sentences. */
typedef struct bench_model_options {
    const char *name; /* "tiny" or "base", the experiments translation/tiny and translation/base */
    et_dtype act;
    int recompute; /* an et_recompute, or ET_RECOMPUTE_AUTO: as the trainer has it */
    int32_t vocabulary;
    int64_t length;              /* tokens of every sentence; 0: as in bench_pairs_new */
    const char *const *settings; /* [setting_count] "a.b.c=value" on top of the experiment's */
    int setting_count;
    int shards;    /* batches of an update; 0: one */
    et_comm *comm; /* the ranks that compute them; NULL: this process */
} bench_model_options;

#define BENCH_MODEL_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .name = "tiny", .recompute = ET_RECOMPUTE_AUTO, .vocabulary = BENCH_VOCABULARY             \
    }

void bench_model_open(bench_model *model, const bench_model_options *options);
void bench_model_close(bench_model *model);

/* Bytes planned: parameters with all that belongs to them, packed weights, arena. */
size_t bench_model_planned(const bench_model *model);

/* Does one training step. */
void bench_model_step(bench_model *model);

#endif
