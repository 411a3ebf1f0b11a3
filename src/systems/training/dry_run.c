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
#include "command/print.h"
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

typedef struct measured {
    int64_t done, left; /* steps: of the run that is there; still to do */
    et_pace pace;
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
        status = et_checkpoint_load(&path, facts->params, dry->run, NULL, false, &found, error);
        status = status == ET_ENOTFOUND ? ET_OK : status;
        et_free(path);
    }
    m->done = found.step;
    m->left = facts->train_steps > found.step ? facts->train_steps - found.step : 0;
    return status;
}

/* ---- telling ---- */

/* What all ranks have measured: m of rank 0 becomes that of the slowest and the largest. */
typedef struct found {
    measured m;
    measured *each; /* [ranks]: NULL: one alone */
    int ranks;
} found;

static int gather(found *f, et_comm *comm, et_error *error)
{
    void *each;
    int status = et_together_table(comm, ET_OK, &f->m, sizeof f->m, &each, error);
    f->ranks = et_comm_size(comm);
    f->each = each;
    for (int i = 0; !status && i < f->ranks; i++) {
        f->m.pace.seconds = fmax(f->m.pace.seconds, f->each[i].pace.seconds);
        f->m.memory = f->m.memory > f->each[i].memory ? f->m.memory : f->each[i].memory;
    }
    return status;
}

static int print_json(const found *f, const et_dry_run_share *share, et_error *error)
{
    const measured *m = &f->m;
    et_arena arena = ET_ARENA_INIT;
    et_value *results = et_value_dict(&arena);
    if (share) {
        et_value_set_string(results, "candidate", share->name);
        et_value_set_int(results, "trainings", share->times);
    }
    et_value_set_int(results, "steps", m->left);
    if (m->done)
        et_value_set_int(results, "steps_done", m->done);
    if (isfinite(m->pace.seconds)) {
        et_value_set_float(results, "seconds", m->pace.seconds * (double)m->left);
        et_value_set_float(results, "step_seconds", m->pace.seconds);
    }
    if (m->memory)
        et_value_set_int(results, "memory", (int64_t)m->memory);
    et_value *list = f->ranks > 1 ? et_value_set_list(results, "ranks") : NULL;
    for (int i = 0; list && i < f->ranks; i++) {
        et_value *one = et_value_add_dict(list);
        if (isfinite(f->each[i].pace.seconds))
            et_value_set_float(one, "step_seconds", f->each[i].pace.seconds);
        et_value_set_int(one, "memory", (int64_t)f->each[i].memory);
    }
    int status = et_print_json(results, error);
    et_arena_release(&arena);
    return status;
}

/* "mlp          would take 5 times 0:02, " */
static int print(const found *f, const et_dry_run_share *share, et_error *error)
{
    const measured *m = &f->m;
    if (share)
        et_print(stdout, "%-12s ", share->name);
    if (!m->left) {
        et_print(stdout, "nothing to do: the run is already at step %s\n",
                 et_format_count(m->done).text);
    } else {
        et_print(stdout, "would take ");
        if (share && share->times > 1)
            et_print(stdout, "%d times ", share->times);
        et_print(stdout, "%s, %s%s: %s of %s s",
                 et_format_duration(m->pace.seconds * (double)m->left).text,
                 et_format_bytes(m->memory).text, f->ranks > 1 ? " a rank" : "",
                 et_format_many(m->left, "step").text, et_format_value(m->pace.seconds).text);
        if (m->pace.unit && isfinite(m->pace.units))
            et_print(stdout, " (%s %ss/s)", et_format_rate(m->pace.units).text, m->pace.unit);
        puts(", without validation and saves");
        for (int i = 0; f->ranks > 1 && i < f->ranks; i++)
            et_print(stdout, "rank %-8d%s, a step in %s s\n", i,
                     et_format_bytes(f->each[i].memory).text,
                     et_format_value(f->each[i].pace.seconds).text);
    }
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}

int et_dry_run_tell_complete(bool json, et_error *error)
{
    const found f = { .m = { .pace.seconds = NAN } };
    if (json)
        return print_json(&f, NULL, error);
    puts("nothing to do: the run has its model");
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}

int et_dry_run_measure(const et_dry_run *dry, const et_dry_run_facts *facts, et_error *error)
{
    et_assert(facts->learner && facts->params && facts->train_steps >= 0);
    found f = { .m = { .pace.seconds = NAN } };
    struct rusage usage;
    int status = begin(dry, facts, &f.m, error);
    if (!status)
        status = et_pace_measure(&f.m.pace, et_learner_trainer(facts->learner), dry->comm, f.m.left,
                                 facts->stop, error);
    if (!status && !getrusage(RUSAGE_SELF, &usage))
        f.m.memory = (size_t)usage.ru_maxrss * 1024;
    if (!status)
        status = gather(&f, dry->comm, error);
    if (!status && facts->share)
        facts->share->seconds = f.m.pace.seconds * (double)(f.m.left * facts->share->times);
    if (!status && is_first(dry))
        status = facts->json ? print_json(&f, facts->share, error) : print(&f, facts->share, error);
    et_free(f.each);
    return status;
}
