#include "systems/training/dry_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "engine/comm/together.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/checkpoint.h"
#include "train/ranks/broadcast.h"
#include "train/step/trainer.h"

/* ---- the duration of a step ---- */

#define MEASURED   3.0 /* seconds */
#define STEPS_MOST 100

/* Where there is time for more, the first step does not count. */
int et_pace_measure(et_pace *pace, et_trainer *trainer, et_comm *comm, int64_t most,
                    const volatile sig_atomic_t *stop, et_error *error)
{
    et_assert(pace && trainer && stop && most >= 0);
    et_trainer_view view = { .unit = NULL };
    int status = trainer->class->loop_begin(trainer, error);
    double start = et_clock_monotonic(), units = 0;
    int64_t timed = 0;
    bool more = true;
    for (int64_t i = 0; !status && more; i++) {
        double now = et_clock_monotonic();
        bool ends = i > STEPS_MOST || i >= most || (timed && now - start > MEASURED);
        /* All ranks agree how long that goes on and whether it was interrupted; rank 0 looks at the
         * clock. */
        status = et_flag_is_set(stop)
                     ? et_fail(error, ET_EINTERRUPTED, "interrupted before anything started")
                     : ET_OK;
        status = et_together_decide(comm, status, &ends, error);
        more = !status && !ends;
        if (!more)
            break;
        if (i == 1) {
            start = now;
            units = 0;
            timed = 0;
        }
        status = et_trainer_step(trainer, error);
        trainer->class->view(trainer, &view);
        units += (double)view.units;
        timed++;
    }
    double seconds = et_clock_monotonic() - start;
    *pace = (et_pace){ .seconds = timed ? seconds / (double)timed : NAN,
                       .units = timed && seconds > 0 ? units / seconds : NAN,
                       .unit = view.unit };
    return status;
}

#define FILE_MOST ((size_t)1 << 30)

/* ---- the directory ---- */

/* What the weights of the run belong to. */
static int copy_file(const et_dry_run *dry, const char *name, et_error *error)
{
    char *from = et_path_join(dry->run, name), *to = et_path_join(dry->directory, name), *bytes;
    size_t length;
    int status = from && to ? ET_OK : et_alloc_failed(error, strlen(name), "a path");
    if (!status && et_file_exists(from)) {
        status = et_file_read(&bytes, &length, from, FILE_MOST, error);
        if (!status) {
            status = et_parent_make(to, error);
            if (!status)
                status = et_file_write(to, bytes, length, error);
            et_free(bytes);
        }
    }
    et_free(from);
    et_free(to);
    return status;
}

static int make_directory(et_dry_run *dry, et_error *error)
{
    char name[ET_RUN_FILE_NAME];
    et_run_file file;
    int status = et_scratch_open(&dry->directory, "etude-dry-run", error);
    if (status)
        return et_fail_while(error, status, "--dry-run");
    for (int i = 0; dry->run && !status && (file = et_kind_file(dry->kind, i, name)).name; i++)
        if (file.what & ET_RUN_COMPARED)
            status = copy_file(dry, file.name, error);
    return status;
}

static bool is_first(const et_dry_run *dry)
{
    return et_comm_rank(dry->comm) == 0;
}

int et_dry_run_open(et_dry_run *dry, et_error *error)
{
    et_assert(!dry->directory);
    int status = is_first(dry) ? make_directory(dry, error) : ET_OK;
    status = et_text_broadcast(&dry->directory, dry->comm, status, error);
    if (!status && !et_file_exists(dry->directory))
        return et_fail(error, ET_ENOTFOUND,
                       "--dry-run: this rank cannot see %s, which rank 0 made; set TMPDIR to a "
                       "directory that all ranks share",
                       dry->directory);
    return status;
}

/* It is rank 0's. */
void et_dry_run_close(et_dry_run *dry)
{
    if (is_first(dry))
        et_scratch_close(dry->directory);
    else
        et_free(dry->directory);
    dry->directory = NULL;
}

/* ---- measuring ---- */

/* Weights as training would have them: drawn, another run's, or those of the run that goes on. */
static int begin(const et_dry_run *dry, et_trainer *trainer, et_params *params, int64_t steps,
                 et_dry_run_measured *m, et_error *error)
{
    et_checkpoint_facts found = { .step = 0 };
    char *path = NULL;
    int status = trainer->class->start(trainer, error);
    if (!status && dry->run) {
        status = et_checkpoint_load(&path, params, dry->run, NULL, false, &found, error);
        status = status == ET_ENOTFOUND ? ET_OK : status;
        et_free(path);
    }
    m->done = found.step;
    m->left = steps > found.step ? steps - found.step : 0;
    return status;
}

int et_dry_run_measure(const et_dry_run *dry, et_learner *learner, et_params *params, int64_t steps,
                       const volatile sig_atomic_t *stop, et_dry_run_results *out, et_error *error)
{
    et_assert(learner && params && steps >= 0);
    et_trainer *trainer = et_learner_trainer(learner);
    et_dry_run_measured *m = &out->all;
    struct rusage usage;
    void *each = NULL;
    *out = (et_dry_run_results){ .all.pace.seconds = NAN, .ranks = et_comm_size(dry->comm) };
    int status = begin(dry, trainer, params, steps, m, error);
    if (!status)
        status = et_pace_measure(&m->pace, trainer, dry->comm, m->left, stop, error);
    if (!status && !getrusage(RUSAGE_SELF, &usage))
        m->memory = (size_t)usage.ru_maxrss * 1024;
    if (!status)
        status = et_together_table(dry->comm, ET_OK, m, sizeof *m, &each, error);
    out->each = each;
    for (int i = 0; !status && i < out->ranks; i++) {
        m->pace.seconds = fmax(m->pace.seconds, out->each[i].pace.seconds);
        m->memory = m->memory > out->each[i].memory ? m->memory : out->each[i].memory;
    }
    return status;
}
