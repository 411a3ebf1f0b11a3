/* Programs that are run by one process and by several ranks, and must end with the same bytes: the
 * model that their drivers train, and how they are compared. Include after cmocka.h.
 *
 *     static const driver drivers[] = { { "loop", drive_loop, true } };
 *     const driver *const all_drivers = drivers;
 *     compare_drivers(0, 1, 3);                              in the parent
 *     { "drives", rank_drives }                              in the table of what ranks run
 */
#ifndef ETUDE_TESTS_TRAIN_RANKED_DRIVERS_H
#define ETUDE_TESTS_TRAIN_RANKED_DRIVERS_H

#include <etude/outer_loop.h>
#include <etude/shards.h>
#include <etude/standard.h>

#include <inttypes.h>

#include "engine/comm/ranks.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"
#include "train/small_pass.h"

enum { ROWS = 6, SHARDS = 4, STEPS = 19, HALF = 10 }; /* ROWS: a pass's last batch has 4 samples */

/* The input of a driver: the number of shards (0: updates without shards), its end, its own
 * directory. */
typedef struct work {
    et_comm *comm;
    int64_t shards, steps;
    const char *directory;
    int fails;    /* a rank that finds its third step's data wrong, from 1; 0: none */
    bool sharded; /* the optimizer is shared out */
    bool stops;   /* the last rank is asked to stop in step 5 */
} work;

static inline void build(et_scope *s, void *payload)
{
    (void)payload;
    small_build(s, 16);
}

/* A model with its optimizer and shards. */
typedef struct model {
    small_pass s;
    et_optimizer *optimizer;
    et_shards *shards;
} model;

/* Each rank has less than all, then. */
static inline int share_out(et_optimizer *optimizer, et_comm *comm, et_error *error)
{
    size_t whole = et_optimizer_bytes(optimizer);
    int status = et_optimizer_shard(optimizer, comm, error);
    if (!status && et_comm_size(comm) > 1 && et_optimizer_bytes(optimizer) >= whole)
        status = et_fail(error, ET_EFAIL, "a rank has %zu bytes of slots", whole);
    return status;
}

static inline int model_open(model *m, const work *w, et_error *error)
{
    static const et_pass_options training = { .training = true };
    et_shards_options options = { .count = w->shards, .comm = w->comm };
    *m = (model){ .optimizer = NULL };
    small_open(&m->s, build, ROWS, &training);
    int status = et_optimizer_open(&m->optimizer, m->s.device, m->s.params, "", NULL, error);
    if (!status && w->sharded)
        status = share_out(m->optimizer, w->comm, error);
    return status || !w->shards
               ? status
               : et_shards_open(&m->shards, m->s.pass, &m->s.source->layout, &options, error);
}

static inline void model_close(model *m)
{
    et_shards_close(m->shards);
    et_optimizer_free(m->optimizer);
    small_close(&m->s);
}

static inline int model_update(model *m, const et_batch *batch, int64_t step, et_error *error)
{
    if (m->shards)
        return et_shards_update(m->shards, m->optimizer, batch, 5, (uint64_t)step, NULL, error);
    int status = et_pass_run(m->s.pass, batch, 5, (uint64_t)step, error);
    return status ? status : et_optimizer_update(m->optimizer, m->s.pass, NULL, error);
}

static inline double model_loss(const model *m)
{
    return m->shards ? et_shards_loss(m->shards) / et_shards_divisor(m->shards)
                     : et_pass_loss(m->s.pass) / et_pass_divisor(m->s.pass);
}

/* Weights to the end of the file, and a number. */
static inline int write_down(const char *name, et_params *params, double number)
{
    FILE *file = fopen(name, "a");
    size_t count = (size_t)et_params_flat_size(params);
    if (!file)
        return ET_EIO;
    bool whole = fwrite(et_params_values(params), sizeof(float), count, file) == count;
    fprintf(file, "%a\n", number);
    return fclose(file) || !whole ? ET_EIO : ET_OK;
}

static inline void be_quiet(void *payload, const char *text)
{
    (void)text;
    ++*(int *)payload;
}

/* ---- Orbit's StandardTrainer, called by its controller ---- */

typedef struct stepper {
    et_standard_trainer standard;
    model m;
} stepper;

static inline int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    model *m = &((stepper *)(void *)self)->m;
    int status = et_state_add_params(state, m->s.params, error);
    return status ? status : et_state_add_optimizer(state, "optimizer", m->optimizer, error);
}

static inline int step(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
{
    model *m = &((stepper *)(void *)self)->m;
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    return status ? status : model_update(m, batch, self->trainer.step, error);
}

static const et_standard_trainer_class stepper_class = { .name = "Stepper",
                                                         .attach = attach,
                                                         .train_step = step };

/* ---- drivers ---- */

/* name: of files of this rank. */
typedef int drive_fn(const work *w, const char *name, et_error *error);

typedef struct driver {
    const char *name;
    drive_fn *drive;
    bool resumes;
} driver;

extern const driver *const all_drivers; /* of the program */

/* In the ranks. word: which driver, how many steps, the directory. */
static inline int rank_drives(et_comm *comm, const char *word)
{
    char directory[100], name[120];
    int which = 0;
    et_error error = ET_ERROR_INIT;
    work w = { .comm = comm, .shards = SHARDS, .directory = directory };
    rank_assert(sscanf(word, "%d %" SCNd64 " %99s", &which, &w.steps, directory) == 3);
    snprintf(name, sizeof name, "%s.%d", directory, et_comm_rank(comm));
    if (all_drivers[which].drive(&w, name, &error)) {
        fprintf(stderr, "rank %d, %s: %s\n", et_comm_rank(comm), all_drivers[which].name,
                error.text);
        return 1;
    }
    return 0;
}

/* In their parent, as all below. */
static inline void drive(int which, int ranks, int64_t steps, const char *directory)
{
    char word[160];
    snprintf(word, sizeof word, "%d %lld %s", which, (long long)steps, directory);
    shell("rm -f %s.?", directory);
    if (run_ranks("drives", ranks, word))
        fail_msg("%s, %d ranks, %lld steps", all_drivers[which].name, ranks, (long long)steps);
}

/* With 2 ranks up to `most`, also if it resumes with another number of ranks. */
static inline void compare_drivers(int from, int to, int most)
{
    for (int which = from; which < to; which++) {
        char one[64], many[64];
        snprintf(one, sizeof one, "drive.%d.%d.one", (int)getpid(), which);
        snprintf(many, sizeof many, "drive.%d.%d.many", (int)getpid(), which);
        drive(which, 1, STEPS, one);
        for (int ranks = 2; ranks <= most; ranks++) {
            shell("rm -rf %s %s.ids.?", many, many);
            if (all_drivers[which].resumes)
                drive(which, 5 - ranks, HALF, many);
            drive(which, ranks, STEPS, many);
            for (int r = 0; r < ranks; r++)
                shell("cmp %s.0 %s.%d", one, many, r);
            /* Exactly its samples at its steps, in the order of the data: none lost, none twice. */
            shell("[ ! -e %s.ids.0 ] || { [ -s %s.ids.0 ] && sort %s.ids.? | cmp - %s.ids.0; }",
                  one, one, many, one);
            shell("[ ! -e %s/metrics.jsonl ] || { for f in %s %s; do sed 's/,*\"time\":{[^}]*}//g' "
                  "$f/metrics.jsonl >$f.logs; done && head -n 4 %s.logs >%s.first && head -n 4 "
                  "%s.logs | cmp - %s.first; }",
                  one, one, many, one, one, many, one);
        }
        shell("rm -rf %s* %s*", one, many);
    }
}

#endif
