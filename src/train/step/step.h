/* One step: from batches to one update. Variants are objects, chosen when the step is made: the
 * source of batches, the model, the sum of gradients (over ranks, or private), the optimizer's
 * rule, the reaction to a gradient that is not finite. The step itself has no options.
 *
 * The loss is a sum over rows or tokens; the update divides by the divisor of all batches of the
 * step, so accumulation gives the result of one large batch. */
#ifndef ETUDE_TRAIN_STEP_STEP_H
#define ETUDE_TRAIN_STEP_STEP_H

#include <signal.h>

#include <etude/metrics.h>
#include <etude/state.h>

#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"
#include "train/step/reducer.h"

/* The reaction to a loss or gradient that is not finite: an object, chosen at set-up. Fail: the
 * step fails and names the first such value; nothing has changed. Scale: gradients are multiplied
 * by a factor (for types with few exponents). If a gradient is not finite, the update is skipped
 * and the factor halved; after a number of good updates the factor is doubled. After a hundred
 * skipped updates in a row the step fails.
 *
 * It is a part of the state if `part` is not NULL. */

struct et_step;

typedef struct et_overflow et_overflow;

typedef struct et_overflow_class {
    const char *name;
    /* A batch's or the update's gradient is not finite. ET_OK: the update is left out, the step
     * counts. shard: which batch of the step, the last one taken. */
    int (*not_finite)(et_overflow *self, struct et_step *step, int shard, et_error *error);
    void (*good)(et_overflow *self); /* after an update; NULL: nothing */
    const et_part_class *part;
} et_overflow_class;

struct et_overflow {
    const et_overflow_class *class;
    double scale; /* of gradients, from the next step on */
};

/* An update has been made. */
static inline void et_overflow_good(et_overflow *overflow)
{
    if (overflow->class->good)
        overflow->class->good(overflow);
}

/* Fails with ET_EDIVERGED: step, first bad value and the batch's samples are named. */
et_overflow et_overflow_fail(void);

/* The same with a factor that stays. */
et_overflow et_overflow_fixed(double scale);

typedef struct et_overflow_scale {
    et_overflow overflow; /* first member */
    int64_t every;        /* good updates until the factor is doubled; 0: it never is */
    int64_t in_a_row;     /* good updates since it last changed; below 0: left out ones */
} et_overflow_scale;

/* As Model Garden's loss_scale: dynamic. */
#define ET_OVERFLOW_SCALE 32768
#define ET_OVERFLOW_EVERY 2000

/* scale: the first factor, a power of two; it is never below 1. After a hundred
 * that were left out in a row the next is a divergence, and fails. */
et_overflow_scale et_overflow_scaled(double scale, int64_t every);

/* A loss above `most`, from step `from` on, has diverged; most 0: none has. */
typedef struct et_loss_bound {
    double most;
    int64_t from;
} et_loss_bound;

/* ET_EDIVERGED: the loss of this step is above the bound. name: of the loss, for the message. */
int et_judge_loss(et_loss_bound bound, const char *name, double loss, int64_t step,
                  et_error *error);

/* Callbacks for the batches of a step; members NULL: none. */
typedef struct et_step_hooks {
    void *self;
    /* Fills the next batch, in place of et_source_next. */
    int (*next)(void *self, et_source *source, et_batch *batch, et_error *error);
    /* The pass has run on a batch of the step, and its results are finite. */
    int (*seen)(void *self, struct et_step *step, et_error *error);
} et_step_hooks;

/* The parts of a step. The pass is prepared for the source's layout. */
typedef struct et_step_parts {
    et_source *source; /* borrowed, as all */
    et_pass *pass;
    et_optimizer *optimizer;
    et_overflow *overflow;
    et_metrics *metrics; /* get the step's measures */
    const char *prefix;  /* of the metrics' names: "training_" makes "training_loss" */
    const char *skip;    /* a measure that is not added; NULL: none */
    const volatile sig_atomic_t *stop; /* not 0: an update is left between batches; NULL: never */
    uint64_t seed;                     /* of dropout and sampling */
    et_loss_bound bound;               /* of each step, not of a window's mean, which hides one */
    et_reducer *reducer;               /* of an update's batches; the step owns it from now on */
    et_step_hooks hooks;
} et_step_parts;

/* Parameters whose gradient is exactly zero in all of the first updates. Causes are initial values
 * of zero before a relu, or a part of the model without effect on the loss. A warning names these
 * parameters. Only parameters in the graph of the loss are examined, each until its gradient is not
 * zero. Not part of the state: a resumed run examines its own first updates. */
typedef struct et_unreached {
    int *param;  /* [count] indices in the store, those without a gradient so far; owned */
    int count;   /* 0: nothing to examine */
    int trained; /* parameters that were examined at first */
    int updates; /* examined */
} et_unreached;

typedef struct et_step {
    et_step_parts parts;
    et_batch *batch;     /* owned, as reducer and metric */
    int variant;         /* of the pass, for batch */
    et_track *track;     /* for the spans of steps; borrowed */
    et_reducer *reducer; /* of the parts */
    int *metric; /* [measures + 2]: places in metrics, as et_define_measures, the norm's last */
    et_cost update_cost; /* of an update, for traces */
    et_unreached unreached;
    /* The step under way, or the next one. */
    et_position begin; /* of the source, before the step's first batch; of several only */
    int drawn;         /* batches that the step under way has taken */
    bool taken;        /* the first batch of the next step was read */
    /* The last step. */
    bool updated; /* the step has made an update; sum is its reduced gradient */
    et_reduced sum;
    int64_t units;    /* units of the last step: tokens, rows */
    double loss;      /* mean of the last step; NAN: it was left out, or no row counts */
    et_update update; /* the result of the last update */
    int64_t count;    /* steps done: the global step */
} et_step;

/* Defines the step's metrics: the pass's measures, and gradient_norm (per step). The step is
 * released also after a failure. */
int et_step_open(et_step *step, const et_step_parts *parts, et_error *error);
void et_step_release(et_step *step);

/* Defines each measure of a pass in metrics, under prefix and its name. index[measures + 1]: their
 * indices; the last is the index of the minimized loss, or -1 if a measure has its name. The
 * measure `skip` (NULL: none) is left out: -1. */
int et_define_measures(et_metrics *metrics, const et_pass *pass, const char *prefix,
                       const char *skip, int *index, et_error *error);

/* Makes one step. ET_EDIVERGED: the loss or gradient is not finite, or the loss is above its bound;
 * nothing has changed. The message names the step and, if a value is not finite, the first bad
 * tensor and the batch's samples. ET_EINTERRUPTED: asked to stop between two batches; everything is
 * as before the step, also the position in the data. ET_EDATA: the source has no more batches. */
int et_step_run(et_step *step, et_error *error);

/* The parts of a step, for callers with work in between. take: reads the first batch, if it was not
 * read. update: the rest (step->updated: an update was made). add_norm: adds the gradient's norm to
 * the metrics; the caller adds measures. */
int et_step_take(et_step *step, et_error *error);
int et_step_update(et_step *step, et_error *error);
void et_step_add_norm(et_step *step);

/* The parts of an update. gather: computes step->sum from all batches (*left_out: the sum is not
 * finite, so the step counts without an update). updated: counts the step, after the optimizer and
 * moving means. et_step_add_measures: adds the measures of the sum to the metrics. */
int et_step_gather(et_step *step, bool *left_out, et_error *error);
/* Undoes the gathering of several batches: moves the source back to the position before them. */
int et_step_go_back(et_step *step, et_error *error);
void et_step_updated(et_step *step);
void et_step_add_measures(et_step *step);

/* The number for the random numbers of a batch of the next step. Batches are counted from the start
 * of the run, so no two batches have the same dropout, and a resumed run draws the same numbers as
 * an uninterrupted one. */
static inline int64_t et_step_number(const et_step *step, int shard)
{
    return step->count * step->reducer->shards + shard;
}

#endif
