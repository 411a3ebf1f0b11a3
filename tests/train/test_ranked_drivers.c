/* All drivers: programs whose steps are made by several ranks end with the bytes of one process
 * with as many shards. */
#include <etude/loop_trainer.h>
#include <etude/multitask.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/tensor/params.h"
#include "train/ranked_drivers.h"

/* ---- a loop that the program owns ---- */

static volatile sig_atomic_t asked_to_stop;

static int run_loop(model *m, et_loop *loop, const work *w)
{
    et_error error = ET_ERROR_INIT;
    while (et_loop_next_epoch(loop)) {
        while (et_loop_next_step(loop, m->s.source)) {
            asked_to_stop |= w->stops && et_loop_step(loop) == 5 &&
                             et_comm_rank(w->comm) == et_comm_size(w->comm) - 1;
            if (et_loop_step(loop) == 3 && et_comm_rank(w->comm) == w->fails - 1)
                et_fail(&error, ET_EDATA, "the third line is wrong");
            else
                model_update(m, et_loop_step_data(loop), et_loop_step(loop), &error);
            et_loop_fail(loop, &error);
            et_loop_collect(loop, "loss", model_loss(m));
            if (et_loop_step(loop) == w->steps)
                et_loop_make_checkpoint(loop);
        }
        et_loop_print_logs(loop);
    }
    return ET_OK;
}

static int drive_loop(const work *w, const char *name, et_error *error)
{
    model m;
    int printed = 0;
    et_loop *loop = NULL;
    et_loop_options options = { .max_step = w->steps,
                                .checkpoint_dir = w->directory,
                                .print = be_quiet,
                                .print_payload = &printed,
                                .stop = &asked_to_stop,
                                .comm = w->comm };
    int status = model_open(&m, w, error);
    if (!status)
        status = et_loop_open(&loop, m.s.params, &options, error);
    if (!status)
        status = et_state_add_optimizer(et_loop_state(loop), "optimizer", m.optimizer, error);
    if (!status)
        status = et_loop_begin(loop, error);
    if (!status)
        status = run_loop(&m, loop, w);
    if (!status)
        status = et_loop_end(loop, error);
    if (!status && !printed != (et_comm_rank(w->comm) != 0))
        status =
            et_fail(error, ET_EFAIL, "rank %d printed %d lines", et_comm_rank(w->comm), printed);
    if (!status)
        status = write_down(name, m.s.params, model_loss(&m));
    et_loop_close(loop);
    model_close(&m);
    return status;
}

static int drive_loop_trainer(const work *w, const char *name, et_error *error)
{
    model m;
    int printed = 0;
    work plain = { .comm = w->comm, .sharded = w->sharded };
    et_loop *loop = NULL;
    et_loop_trainer *trainer = NULL;
    et_loop_options options = {
        .max_step = w->steps, .print = be_quiet, .print_payload = &printed, .comm = w->comm
    };
    int status = model_open(&m, &plain, error);
    if (!status)
        status = et_loop_open(&loop, m.s.params, &options, error);
    et_loop_measure measures[] = { { .name = "loss" }, { .name = "y", .measure = "y" } };
    et_loop_trainer_options how = { .source = m.s.source,
                                    .pass = m.s.pass,
                                    .optimizer = m.optimizer,
                                    .seed = 5,
                                    .metrics = measures,
                                    .metric_count = 2,
                                    .shards = w->shards };
    if (!status)
        status = et_loop_trainer_open(&trainer, loop, &how, error);
    if (!status)
        status = et_loop_begin(loop, error);
    if (!status)
        status = et_loop_trainer_run(trainer, error);
    if (!status)
        status = et_loop_end(loop, error);
    if (!status)
        status = write_down(name, m.s.params, 0);
    et_loop_trainer_close(trainer);
    et_loop_close(loop);
    model_close(&m);
    return status;
}

static int drive_orbit(const work *w, const char *name, et_error *error)
{
    stepper s = { .m = { .optimizer = NULL } };
    et_controller *controller = NULL;
    et_outer_loop_options outer = { 0 };
    int status = model_open(&s.m, w, error);
    et_source_tree data = { .source = s.m.s.source };
    if (!status)
        status = et_standard_trainer_init(&s.standard, &stepper_class, &data, NULL, error);
    et_controller_options options = { .trainer = &s.standard.trainer,
                                      .steps_per_loop = 5,
                                      .outer_loop = &outer,
                                      .run = { .model_dir = w->directory, .comm = w->comm } };
    if (!status)
        status = et_controller_open(&controller, &options, error);
    if (!status)
        status = et_controller_train_to(controller, w->steps, false, error);
    if (!status)
        status = et_controller_save(controller, error);
    if (!status)
        status = write_down(name, s.m.s.params, model_loss(&s.m));
    et_controller_close(controller, NULL);
    et_standard_trainer_release(&s.standard);
    model_close(&s.m);
    return status;
}

/* The same if each rank keeps a part of the optimizer. */
static work in_parts(const work *w)
{
    work parts = *w;
    parts.sharded = true;
    return parts;
}

static int drive_loop_in_parts(const work *w, const char *name, et_error *error)
{
    const work parts = in_parts(w);
    return drive_loop(&parts, name, error);
}

static int drive_whole_batches_in_parts(const work *w, const char *name, et_error *error)
{
    work parts = in_parts(w);
    parts.shards = 0;
    return drive_loop(&parts, name, error);
}

static int drive_loop_trainer_in_parts(const work *w, const char *name, et_error *error)
{
    const work parts = in_parts(w);
    return drive_loop_trainer(&parts, name, error);
}

static int drive_orbit_in_parts(const work *w, const char *name, et_error *error)
{
    const work parts = in_parts(w);
    return drive_orbit(&parts, name, error);
}

/* ---- tasks ---- */

typedef struct small_task {
    et_task task;
    const work *work;
    et_shards *shards;
    int number;
} small_task;

static void build_task(et_task *self, et_scope *s, bool training)
{
    (void)training;
    small_build(et_at(s, "task", ((small_task *)(void *)self)->number), 16);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, small_x, et_shape_1(FEATURES) },
                                { "y", ET_F32, small_y, et_shape_1(1) } };
    (void)self;
    return training ? small_source(out, ROWS, error)
                    : toy_source(out, arrays, 2, SAMPLES / 2, ROWS, false, error);
}

static const et_task_class small_class = { .name = "small", .build = build_task, .data = data };

/* Shards are opened when there is a pass. */
static int own_step(et_task *self, const et_task_step *now, et_value *logs, et_error *error)
{
    small_task *t = (small_task *)(void *)self;
    et_shards_options options = { .count = t->work->shards, .comm = t->work->comm };
    int status = ET_OK;
    if (!t->shards)
        status = et_shards_open(&t->shards, now->model, now->inputs->layout, &options, error);
    if (!status)
        status = et_shards_update(t->shards, now->optimizer, now->inputs, now->seed, now->number,
                                  NULL, error);
    if (status || !logs)
        return status;
    et_value_set_float(logs, "loss", et_shards_loss(t->shards) / et_shards_divisor(t->shards));
    return ET_OK;
}

static const et_task_class own_class = {
    .name = "own", .build = build_task, .data = data, .train_step = own_step
};

/* What steps have computed: epoch, sample, step. */
typedef struct noting {
    et_task task;
    FILE *ids;
} noting;

static int build_noted(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "noted", &et_metric_sum, error);
}

static void build_plain(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    small_build(s, 16);
}

static int note(et_task *self, const et_task_step *now, et_error *error)
{
    FILE *to = ((noting *)(void *)self)->ids;
    const et_batch *batch = now->inputs;
    (void)error;
    for (int64_t i = 0; now->optimizer && i < batch->filled[0]; i++) {
        fprintf(to, "%02lld %02lu %lld\n", (long long)batch->epoch, (unsigned long)batch->sample[i],
                (long long)now->step);
        et_metrics_add(now->metrics, "noted", 1, 1);
    }
    return ET_OK;
}

static const et_task_class noting_class = { .name = "noting",
                                            .build = build_plain,
                                            .data = data,
                                            .build_metrics = build_noted,
                                            .process_metrics = note };

static int control(et_trainer *trainer, et_evaluator *evaluator, const work *w, et_error *error)
{
    et_controller *controller;
    et_controller_options options = { .trainer = trainer,
                                      .evaluator = evaluator,
                                      .train_steps = w->steps,
                                      .steps_per_loop = 100,
                                      .validation_interval = 5,
                                      .checkpoint_interval = 50,
                                      .summary_interval = 5,
                                      .run = { .model_dir = w->directory, .comm = w->comm } };
    int status = et_controller_open(&controller, &options, error);
    if (status)
        return status;
    status = et_controller_train(controller, error);
    int closed = et_controller_close(controller, error);
    return status ? status : closed;
}

static int drive_own(const work *w, const char *name, et_error *error)
{
    small_task task = { .task = { .class = &own_class }, .work = w };
    toy_run r;
    toy_run_init(&r, &own_class);
    r.trainer_options.batches = 1;
    r.trainer_options.comm = w->comm;
    int status = toy_run_start_trainer_of(&r, &task.task, error);
    if (!status)
        status = control(et_task_trainer_trainer(r.trainer), et_task_trainer_evaluator(r.trainer),
                         w, error);
    if (!status)
        status = write_down(name, r.params, 0);
    et_shards_close(task.shards);
    toy_run_close(&r);
    return status;
}

static int drive_own_in_parts(const work *w, const char *name, et_error *error)
{
    w->comm->sharded_optimizer = et_comm_size(w->comm) > 1;
    return drive_own(w, name, error);
}

/* A resumed run appends to the log. */
static int drive_noting(const work *w, const char *name, et_error *error)
{
    char ids[160];
    snprintf(ids, sizeof ids, "%s.ids.%d", w->directory, et_comm_rank(w->comm));
    noting task = { .task = { .class = &noting_class }, .ids = fopen(ids, "a") };
    toy_run r;
    if (!task.ids)
        return ET_EIO;
    toy_run_init(&r, &noting_class);
    r.trainer_options.batches = SHARDS;
    r.trainer_options.comm = w->comm;
    int status = toy_run_start_trainer_of(&r, &task.task, error);
    if (!status)
        status = control(et_task_trainer_trainer(r.trainer), et_task_trainer_evaluator(r.trainer),
                         w, error);
    if (!status)
        status = write_down(name, r.params, 0);
    toy_run_close(&r);
    return fclose(task.ids) ? ET_EIO : status;
}

static int drive_tasks(const work *w, int order, const char *name, et_error *error)
{
    small_task tasks[2] = { { .task = { .class = &small_class, .name = "a" } },
                            { .task = { .class = &small_class, .name = "b" }, .number = 1 } };
    et_multitask_part parts[2] = { { .task = &tasks[0].task },
                                   { .task = &tasks[1].task, .weight = 0.5 } };
    et_task_trainer_options trainer = { .batches = SHARDS, .comm = w->comm };
    et_multitask_options options = { .trainer = &trainer, .order = order };
    et_device *device;
    et_params *params;
    et_multitask *multitask;
    int status = et_device_open(&device, error);
    if (!status)
        status = et_params_new(&params, error);
    if (!status)
        status = et_multitask_open(&multitask, parts, 2, device, params, &options, error);
    if (status)
        return status;
    status = control(et_multitask_trainer(multitask), et_multitask_evaluator(multitask), w, error);
    if (!status)
        status = write_down(name, params, (double)et_multitask_steps(multitask, 0));
    et_multitask_close(multitask);
    et_params_free(params);
    et_device_close(device);
    return status;
}

static int drive_joint(const work *w, const char *name, et_error *error)
{
    return drive_tasks(w, ET_MULTITASK_JOINT, name, error);
}

static int drive_interleaved(const work *w, const char *name, et_error *error)
{
    return drive_tasks(w, ET_MULTITASK_UNIFORM, name, error);
}

/* ---- in the ranks ---- */

static const driver drivers[] = { { "loop", drive_loop, true },
                                  { "loop trainer", drive_loop_trainer, false },
                                  { "orbit", drive_orbit, true },
                                  { "own step", drive_own, true },
                                  { "joint", drive_joint, true },
                                  { "interleaved", drive_interleaved, true },
                                  { "ids", drive_noting, true },
                                  { "loop in parts", drive_loop_in_parts, true },
                                  { "whole batches in parts", drive_whole_batches_in_parts, true },
                                  { "loop trainer in parts", drive_loop_trainer_in_parts, false },
                                  { "orbit in parts", drive_orbit_in_parts, true },
                                  { "own step in parts", drive_own_in_parts, true } };

const driver *const all_drivers = drivers;

enum { DRIVERS = sizeof drivers / sizeof *drivers, IN_PARTS = 7 };

/* A step of one rank fails before its update: no other makes one. */
static int rank_leaves(et_comm *comm, const char *word)
{
    char name[120];
    et_error error = ET_ERROR_INIT;
    work w = {
        .comm = comm, .shards = SHARDS, .steps = 7, .directory = word, .fails = et_comm_size(comm)
    };
    snprintf(name, sizeof name, "%s.%d", word, et_comm_rank(comm));
    rank_assert(drive_loop(&w, name, &error) == ET_EDATA);
    rank_assert(strstr(error.text, "the third line is wrong"));
    return 0;
}

/* One rank is asked to stop: all save together. */
static int rank_stops(et_comm *comm, const char *word)
{
    char name[120];
    et_error error = ET_ERROR_INIT;
    work w = { .comm = comm,
               .shards = SHARDS,
               .steps = STEPS,
               .directory = word,
               .sharded = true,
               .stops = true };
    snprintf(name, sizeof name, "%s.%d", word, et_comm_rank(comm));
    rank_assert(drive_loop(&w, name, &error) == ET_EINTERRUPTED);
    return 0;
}

/* A file in place of the folder of the best: saving the best fails. Waits for the save. */
static int hide_best(const char *directory)
{
    char best[200], kept[200], info[240];
    snprintf(best, sizeof best, "%s/best", directory);
    snprintf(kept, sizeof kept, "%s.kept", directory);
    snprintf(info, sizeof info, "%s/info.json", best);
    for (int i = 0; i < 3000 && access(info, F_OK); i++)
        usleep(10000);
    FILE *file = rename(best, kept) ? NULL : fopen(best, "w");
    return file ? fclose(file) : -1;
}

static int show_best(const char *directory)
{
    char best[200], kept[200];
    snprintf(best, sizeof best, "%s/best", directory);
    snprintf(kept, sizeof kept, "%s.kept", directory);
    return unlink(best) || rename(kept, best);
}

/* The best of step 2 cannot be saved, which only rank 0 notices: all ranks stop with its reason,
 * the others at the next call that they share. */
static int rank_loses_best(et_comm *comm, const char *word)
{
    const bool first = et_comm_rank(comm) == 0;
    model m;
    int printed = 0;
    const work w = { .comm = comm, .shards = SHARDS, .sharded = strstr(word, "parts") };
    et_error error = ET_ERROR_INIT;
    et_loop *loop;
    const et_loop_options options = { .max_step = 4,
                                      .checkpoint_dir = first ? word : "nowhere",
                                      .early_stopping = true,
                                      .print = be_quiet,
                                      .print_payload = &printed,
                                      .comm = comm };
    rank_assert(!model_open(&m, &w, &error));
    rank_assert(!et_loop_open(&loop, m.s.params, &options, &error));
    rank_assert(!et_state_add_optimizer(et_loop_state(loop), "optimizer", m.optimizer, &error));
    rank_assert(!et_loop_begin(loop, &error));
    rank_assert(et_loop_next_epoch(loop));
    for (int i = 0; i < 2; i++) {
        rank_assert(et_loop_next_step(loop, m.s.source));
        rank_assert(!model_update(&m, et_loop_step_data(loop), i + 1, &error));
        rank_assert(!first || !i || !hide_best(word));
        rank_assert(!et_loop_collect(loop, "valid_loss", 2.5 - i) || i);
    }
    for (int k = 0; k < 100; k++) /* its thread ends meanwhile */
        usleep(5000);
    const bool next = et_loop_next_step(loop, m.s.source);
    rank_assert(!next || (!first && model_update(&m, et_loop_step_data(loop), 3, &error)));
    rank_assert(next || et_loop_end(loop, &error));
    rank_assert(strstr(error.text, "saving the best checkpoint, step 2"));
    rank_assert(!first || !show_best(word));
    et_loop_close(loop);
    model_close(&m);
    return 0;
}

/* The values get worse after step 3: all end with rank 0's parameters of it. */
static int rank_keeps_best(et_comm *comm, const char *word)
{
    static const double values[] = { 2.5, 2.3, 2.2, 2.4 };
    const bool first = et_comm_rank(comm) == 0;
    char name[120];
    model m;
    int printed = 0;
    const work w = { .comm = comm, .shards = SHARDS, .sharded = strstr(word, "parts") };
    et_error error = ET_ERROR_INIT;
    et_loop *loop;
    const et_loop_options options = { .max_step = 4,
                                      .checkpoint_dir = first ? word : "nowhere",
                                      .early_stopping = true,
                                      .print = be_quiet,
                                      .print_payload = &printed,
                                      .comm = comm };
    snprintf(name, sizeof name, "%s.%d", word, et_comm_rank(comm));
    rank_assert(!model_open(&m, &w, &error));
    rank_assert(!et_loop_open(&loop, m.s.params, &options, &error));
    rank_assert(!et_state_add_optimizer(et_loop_state(loop), "optimizer", m.optimizer, &error));
    rank_assert(!et_loop_begin(loop, &error));
    rank_assert(et_loop_next_epoch(loop));
    for (int i = 0; i < 4; i++) {
        rank_assert(et_loop_next_step(loop, m.s.source));
        rank_assert(!model_update(&m, et_loop_step_data(loop), i + 1, &error));
        if (i == 2)
            rank_assert(!write_down(name, m.s.params, 0));
        rank_assert(!et_loop_collect(loop, "valid_loss", values[i]));
    }
    rank_assert(!et_loop_next_step(loop, m.s.source));
    rank_assert(!et_loop_next_epoch(loop));
    rank_assert(et_loop_best_valid_metric(loop) == 2.2);
    rank_assert(!et_loop_end(loop, &error));
    snprintf(name, sizeof name, "%s.end.%d", word, et_comm_rank(comm));
    rank_assert(!write_down(name, m.s.params, 0));
    et_loop_close(loop);
    model_close(&m);
    return 0;
}

/* All ranks report settings that do not fit together. */
static int rank_refuses(et_comm *comm, const char *word)
{
    model m;
    work w = { .comm = comm, .shards = SHARDS }, alone = { .shards = 1, .sharded = true };
    et_state *state;
    et_error error = ET_ERROR_INIT;
    (void)word;
    rank_assert(!model_open(&m, &w, &error) && !et_state_new(&state, &error));
    rank_assert(!et_state_add_optimizer(state, "optimizer", m.optimizer, &error));
    rank_assert(et_optimizer_shard(m.optimizer, comm, &error) == ET_EUSAGE);
    rank_assert(strstr(
        error.text,
        "split an optimizer among ranks before its first update and before you add it to a state"));
    et_state_free(state);
    model_close(&m);
    rank_assert(!model_open(&m, &alone, &error));
    rank_assert(!et_optimizer_shard(m.optimizer, comm, &error));
    rank_assert(!et_source_next(m.s.source, m.s.batch, &error));
    rank_assert(model_update(&m, m.s.batch, 0, &error) == ET_EUSAGE);
    rank_assert(strstr(error.text, "give both the same comm"));
    model_close(&m);
    return 0;
}

static int step_alone(et_trainer *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

/* Ranks whose programs set other steps all fail, and go on when they set the same. */
static int rank_steps(et_comm *comm, const char *word)
{
    static const et_trainer_class class = { .name = "alone", .step = step_alone };
    const int rank = et_comm_rank(comm);
    const et_outer_loop_options outer = { 0 };
    et_trainer t = { .class = &class, .step = 3 + rank };
    const et_controller_options options = {
        .trainer = &t, .outer_loop = &outer, .steps_per_loop = 2, .run.comm = comm
    };
    et_controller *c;
    et_error error = ET_ERROR_INIT;
    (void)word;
    rank_assert(et_controller_open(&c, &options, &error) == ET_ECONFIG);
    rank_assert(strstr(error.text, "is at step 3 on rank 0, but at step 4 on rank 1"));
    et_comm_resume(comm);
    t.step = 3;
    rank_assert(!et_controller_open(&c, &options, &error));
    rank_assert(!et_controller_train_to(c, 5, true, &error) && t.step == 5);
    t.step = rank ? -1 : 0;
    rank_assert(et_controller_train_to(c, 8, true, &error) == ET_ECONFIG);
    rank_assert(strstr(error.text, "is at step -1; set at least 0"));
    t.step = 0;
    rank_assert(!et_controller_train_to(c, 8, true, &error) && t.step == 8);
    return et_controller_close(c, &error);
}

/* One rank's batch is invalid: all fail, with its text. */
static int rank_fails(et_comm *comm, const char *word)
{
    model m;
    work w = { .comm = comm, .shards = SHARDS };
    et_error error = ET_ERROR_INIT;
    (void)word;
    rank_assert(!model_open(&m, &w, &error));
    rank_assert(!et_source_next(m.s.source, m.s.batch, &error));
    ((float *)m.s.batch->data[0])[(ROWS - 1) * FEATURES] = INFINITY; /* in the last shard */
    int64_t size = et_params_flat_size(m.s.params);
    float *before = malloc((size_t)size * sizeof *before);
    rank_assert(before);
    memcpy(before, et_params_values(m.s.params), (size_t)size * sizeof *before);
    rank_assert(model_update(&m, m.s.batch, 0, &error) == ET_EDIVERGED);
    rank_assert(strstr(error.text, "not finite, first in ") && !strstr(error.text, "norm"));
    rank_assert(!memcmp(before, et_params_values(m.s.params), (size_t)size * sizeof *before));
    rank_assert(!et_source_next(m.s.source, m.s.batch, &error));
    rank_assert(!model_update(&m, m.s.batch, 0, &error));
    m.s.batch->filled[0] = SHARDS - 1; /* with moving means */
    rank_assert(model_update(&m, m.s.batch, 0, &error) == ET_EDATA);
    rank_assert(strstr(error.text, "drop_remainder"));
    free(before);
    model_close(&m);
    return 0;
}

static const rank_case cases[] = { { "drives", rank_drives },
                                   { "fails", rank_fails },
                                   { "leaves", rank_leaves },
                                   { "stops", rank_stops },
                                   { "refuses", rank_refuses },
                                   { "loses best", rank_loses_best },
                                   { "keeps best", rank_keeps_best },
                                   { "steps", rank_steps },
                                   { NULL, NULL } };

/* ---- their parent ---- */

static void test_ranked_drivers__equal(void **state)
{
    (void)state;
    compare_drivers(0, IN_PARTS, 3);
    compare_drivers(IN_PARTS, DRIVERS, SHARDS);
}

/* Shards change bits, not the training; one shard gives the bits of a program without shards. */
static void test_ranked_drivers__shards(void **state)
{
    model m[3];
    double first[3];
    const int64_t shards[] = { 0, 1, SHARDS };
    (void)state;
    for (int i = 0; i < 3; i++) {
        work w = { .shards = shards[i] };
        assert_ok(model_open(&m[i], &w, error));
        for (int k = 0; k < STEPS; k++) {
            assert_ok(et_source_next(m[i].s.source, m[i].s.batch, error));
            assert_ok(model_update(&m[i], m[i].s.batch, k, error));
            first[i] = k ? first[i] : model_loss(&m[i]);
            if (m[i].shards)
                assert_true(et_shards_divisor(m[i].shards) == (double)m[i].s.batch->filled[0]);
        }
    }
    size_t size = (size_t)et_params_flat_size(m[0].s.params);
    const float *plain = et_params_values(m[0].s.params), *cut = et_params_values(m[2].s.params);
    assert_memory_equal(plain, et_params_values(m[1].s.params), size * sizeof(float));
    assert_true(model_loss(&m[0]) == model_loss(&m[1]));
    assert_true(fabs(first[2] / first[0] - 1) < 1e-6);
    int64_t trained = et_params_trained_size(m[0].s.params);
    for (int64_t i = 0; i < trained; i++)
        assert_true(fabsf(plain[i] - cut[i]) < 2e-3f); /* they have moved by ten times as much */
    for (int i = 0; i < 3; i++)
        model_close(&m[i]);
}

static void test_ranked_drivers__refused(void **state)
{
    model m;
    work w = { .comm = NULL };
    et_shards *shards;
    et_error wrong = ET_ERROR_INIT;
    (void)state;
    assert_ok(model_open(&m, &w, error));
    et_shards_options options = { .count = ROWS + 1 };
    assert_int_equal(et_shards_open(&shards, m.s.pass, &m.s.source->layout, &options, &wrong),
                     ET_ECONFIG);
    assert_non_null(strstr(wrong.text, "7 shards of a batch of 6"));
    et_layout layout = m.s.source->layout;
    layout.kinds = 2;
    layout.kind[1] = "token";
    options.count = 2;
    assert_int_equal(et_shards_open(&shards, m.s.pass, &layout, &options, &wrong), ET_ECONFIG);
    assert_non_null(strstr(wrong.text, "also count tokens"));
    options.count = -1;
    assert_int_equal(et_shards_open(&shards, m.s.pass, &m.s.source->layout, &options, &wrong),
                     ET_ECONFIG);
    assert_null(shards);
    model_close(&m);
}

static void test_ranked_drivers__fails(void **state)
{
    (void)state;
    assert_int_equal(run_ranks("fails", 2, ""), 0);
    assert_int_equal(run_ranks("fails", 3, ""), 0);
    assert_int_equal(run_ranks("steps", 3, ""), 0);
    char name[64];
    snprintf(name, sizeof name, "leaves.%d", (int)getpid());
    for (int ranks = 1; ranks <= 3; ranks++)
        assert_int_equal(run_ranks("leaves", ranks, name), 0);
    shell("rm -rf %s*", name);
}

/* Also if a run then resumes with another number of ranks. */
static void test_ranked_drivers__stops(void **state)
{
    char one[64], many[64];
    const int which = IN_PARTS;
    (void)state;
    snprintf(one, sizeof one, "stops.%d.one", (int)getpid());
    snprintf(many, sizeof many, "stops.%d.many", (int)getpid());
    drive(which, 1, STEPS, one);
    for (int ranks = 2; ranks <= SHARDS; ranks++) {
        shell("rm -rf %s", many);
        assert_int_equal(run_ranks("stops", ranks, many), 0);
        shell("[ -e %s/checkpoints/ckpt-5.safetensors ]", many);
        drive(which, SHARDS + 1 - ranks, STEPS, many);
        shell("cmp %s.0 %s.0", one, many);
        shell("cmp %s/checkpoints/ckpt-%d.safetensors %s/checkpoints/ckpt-%d.safetensors", one,
              STEPS, many, STEPS);
    }
    assert_int_equal(run_ranks("refuses", 2, ""), 0);
    shell("rm -rf %s* %s*", one, many);
}

static void test_ranked_drivers__keeps_best(void **state)
{
    static const char *const kinds[] = { "whole", "parts" };
    char name[64];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "loses.%d.%s", (int)getpid(), kinds[i]);
        assert_int_equal(run_ranks("loses best", 2, name), 0);
        shell("rm -rf %s*", name);
        snprintf(name, sizeof name, "keeps.%d.%s", (int)getpid(), kinds[i]);
        assert_int_equal(run_ranks("keeps best", 2, name), 0);
        shell("cmp %s.0 %s.1", name, name);
        shell("cmp %s.0 %s.end.0", name, name);
        shell("cmp %s.0 %s.end.1", name, name);
        shell("rm -rf %s*", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranked_drivers__equal),
        cmocka_unit_test(test_ranked_drivers__shards),
        cmocka_unit_test(test_ranked_drivers__refused),
        cmocka_unit_test(test_ranked_drivers__keeps_best),
        cmocka_unit_test(test_ranked_drivers__fails),
        cmocka_unit_test(test_ranked_drivers__stops),
    };
    return is_rank() ? run_rank(cases) : cmocka_run_group_tests(tests, NULL, NULL);
}
