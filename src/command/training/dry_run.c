/* Steps are measured until MEASURED seconds or STEPS_MOST of them are over, after a first one,
 * which also pays for memory that is touched for the first time. Their mean is what all are taken
 * to last: batches differ, and so do a few of them from the mean of all. */
#include "command/training/dry_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/flag.h"
#include "base/format.h"
#include "command/results.h"
#include "command/training/scratch.h"
#include "train/checkpoint.h"

#define MEASURED   3.0 /* seconds */
#define STEPS_MOST 100
#define FILE_MOST  ((size_t)1 << 30)

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
            status = et_file_write(to, bytes, length, error);
            et_free(bytes);
        }
    }
    et_free(from);
    et_free(to);
    return status;
}

int et_dry_run_open(et_dry_run *dry, et_error *error)
{
    int status = et_scratch_open(&dry->directory, "etude-dry-run", error);
    if (status)
        return et_fail_while(error, status, "--dry-run");
    for (const et_run_file *file = dry->kind->files; dry->run && file && file->name && !status;
         file++)
        if (file->what & ET_RUN_COMPARED)
            status = copy_file(dry, file->name, error);
    return status;
}

void et_dry_run_close(et_dry_run *dry)
{
    et_scratch_close(dry->directory);
    dry->directory = NULL;
}

/* ---- measuring ---- */

typedef struct measured {
    int64_t done, left; /* steps: of the run that is there; still to do */
    double seconds;     /* of a step; NaN: there is none to do */
    double units;       /* a second */
    const char *unit;
    size_t memory; /* the most that the process had, bytes */
} measured;

/* Weights as training would have them: drawn, another run's, or those of the run that goes on. */
static int begin(const et_dry_run *dry, const et_dry_run_facts *facts, measured *m, et_error *error)
{
    et_trainer *trainer = et_learner_trainer(facts->learner);
    et_checkpoint_facts found = { .step = 0 };
    char *path = NULL;
    int status = trainer->class->start(trainer, error);
    if (!status && dry->run) {
        status = et_checkpoint_load_newest(&path, facts->params, dry->run, false, &found, error);
        status = status == ET_ENOTFOUND ? ET_OK : status;
        et_free(path);
    }
    m->done = found.step;
    m->left = facts->train_steps > found.step ? facts->train_steps - found.step : 0;
    return status ? status : trainer->class->loop_begin(trainer, error);
}

/* Where there is time for more, the first step does not count. */
static int run_steps(const et_dry_run_facts *facts, measured *m, et_error *error)
{
    et_trainer *trainer = et_learner_trainer(facts->learner);
    et_trainer_view view = { .unit = NULL };
    double start = et_clock_monotonic(), units = 0;
    int64_t timed = 0;
    int status = ET_OK;
    for (int64_t i = 0; !status && i <= STEPS_MOST && i < m->left; i++) {
        double now = et_clock_monotonic();
        if (et_flag_is_set(facts->stop))
            return et_fail(error, ET_EINTERRUPTED, "interrupted: nothing was begun");
        if (timed && now - start > MEASURED)
            break;
        if (i == 1) {
            start = now;
            units = 0;
            timed = 0;
        }
        status = trainer->class->step(trainer, error);
        trainer->step += !status;
        trainer->class->view(trainer, &view);
        units += (double)view.units;
        timed++;
    }
    double seconds = et_clock_monotonic() - start;
    m->seconds = timed ? seconds / (double)timed : NAN;
    m->units = timed && seconds > 0 ? units / seconds : NAN;
    m->unit = view.unit;
    return status;
}

/* ---- telling ---- */

static int print_json(const measured *m, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *results = et_value_dict(&arena);
    et_value_set_int(results, "steps", m->left);
    if (m->done)
        et_value_set_int(results, "steps_done", m->done);
    if (isfinite(m->seconds)) {
        et_value_set_float(results, "seconds", m->seconds * (double)m->left);
        et_value_set_float(results, "step_seconds", m->seconds);
    }
    et_value_set_int(results, "memory", (int64_t)m->memory);
    int status = et_results_print(results, error);
    et_arena_release(&arena);
    return status;
}

static int print(const measured *m, et_error *error)
{
    if (!m->left) {
        printf("nothing to do: the run is at step %s\n", et_format_count(m->done).text);
    } else {
        printf("would take %s, %s: %s of %s s",
               et_format_duration(m->seconds * (double)m->left).text,
               et_format_bytes(m->memory).text, et_format_many(m->left, "step").text,
               et_format_value(m->seconds).text);
        if (m->unit && isfinite(m->units))
            printf(" (%s %ss/s)", et_format_rate(m->units).text, m->unit);
        puts("; validation and saves come on top");
    }
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}

int et_dry_run_measure(const et_dry_run *dry, const et_dry_run_facts *facts, et_error *error)
{
    measured m = { .seconds = NAN };
    struct rusage usage;
    int status = begin(dry, facts, &m, error);
    if (!status)
        status = run_steps(facts, &m, error);
    if (status)
        return status;
    if (!getrusage(RUSAGE_SELF, &usage))
        m.memory = (size_t)usage.ru_maxrss * 1024;
    return facts->json ? print_json(&m, error) : print(&m, error);
}
