/* Optimizers that ranks share (ZeRO stage 1): the bits of one process, for every rule; slots in
 * less memory; saves by all ranks, also if they fail. */
#include "engine/optim/optimizer.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/log.h>

#include <sys/resource.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "engine/comm/ranks.h"
#include "engine/optim/all_shapes.h"
#include "engine/optim/optim.h"
#include "engine/tensor/params.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state.h"
#include "train/small_pass.h"

/* ---- updates ---- */

enum { STEPS = 4 };

/* All that options ask for: clips of values, of tensors and of all, averages, decay by name, rates
 * by name. */
static const char *const settings[] = {
    "{ema: {enabled: false}}",
    "{parameter_groups: [{pattern: bias|norm, learning_rate_multiplier: 0.3}, {pattern: tall, "
    "learning_rate_multiplier: 5}], ema: {enabled: true}}",
    "{ema: {enabled: true, trainable_weights_only: false, start_step: 2}, optimizer: {sgd: "
    "{momentum: 0.9, nesterov: true, clipvalue: 0.2}, adam: {amsgrad: true, clipnorm: 0.7}, adamw: "
    "{gradient_clip_norm: 0.7, weight_decay_rate: 0.1, exclude_from_weight_decay: bias}, rmsprop: "
    "{momentum: 0.9, centered: true, global_clipnorm: 0.5}, lamb: {weight_decay_rate: 0.1, "
    "exclude_from_weight_decay: [bias, norm]}, lars: {weight_decay_rate: 0.1, "
    "exclude_from_weight_decay: [bias, norm]}, muon: {weight_decay_rate: 0.1, "
    "exclude_from_orthogonalization: embedding}}}",
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

typedef struct model {
    et_params *params;
    et_optimizer *optimizer;
} model;

static void model_open(model *m, int type, const char *text)
{
    et_optimization_options o = default_options();
    et_arena arena = ET_ARENA_INIT;
    m->params = make_params();
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.learning_rate.constant.learning_rate = 0.05;
    o.optimizer.type = type;
    assert_ok(read_options(&o, text, &arena, error));
    assert_ok(et_optimizer_new(&m->optimizer, m->params, NULL, et_kernels_best(), &o, error));
    et_arena_release(&arena);
}

static void model_close(model *m)
{
    et_optimizer_free(m->optimizer);
    et_params_free(m->params);
}

/* The last update is not finite. */
static et_update update(const model *m, int step)
{
    float *gradients = et_params_gradients(m->params);
    for (int p = 0; p < COUNT; p++)
        for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++)
            gradients[et_params_offset(m->params, p) + i] =
                (float)sin((double)(i + 100 * p) * 0.37 + step * 1.3 + (double)(i * i) * 0.011);
    if (step == STEPS)
        gradients[0] = INFINITY;
    return et_optimizer_apply(m->optimizer, gradients, 0.5);
}

/* A rank's part of a slot equals that part in one process. */
static int same_slots(const model *one, const model *mine, int rank, size_t *elements)
{
    const et_slot_part *all, *parts;
    int count = et_optimizer_parts(one->optimizer, &all);
    *elements = 0;
    rank_assert(et_optimizer_parts(mine->optimizer, &parts) == count);
    for (int i = 0; i < count; i++) {
        int64_t size = et_shape_count(all[i].shape);
        int64_t begin = parts[i].cut ? parts[i].cut[rank] : 0;
        int64_t end = parts[i].cut ? parts[i].cut[rank + 1] : size;
        rank_assert(!all[i].cut && et_shape_equal(all[i].shape, parts[i].shape));
        rank_assert(!strcmp(all[i].slot, parts[i].slot) && all[i].param == parts[i].param);
        rank_assert(!parts[i].cut == !strcmp(parts[i].slot, "average"));
        rank_assert(begin <= end && end <= size && begin >= 0);
        rank_assert(
            !memcmp(all[i].data + begin, parts[i].data, (size_t)(end - begin) * sizeof(float)));
        *elements += parts[i].cut ? (size_t)(end - begin) : 0;
    }
    return 0;
}

/* Every element belongs to one rank, and no rank has much more than its share of tensors that may
 * be cut. */
static int shared_out(et_comm *comm, const model *one, const model *mine, size_t elements)
{
    const et_slot *slots;
    size_t all[ET_RANKS_MAX], sum = 0, average = 0, ranks = (size_t)et_comm_size(comm);
    et_error error = ET_ERROR_INIT;
    const et_slot_part *parts;
    int count = et_optimizer_parts(one->optimizer, &parts);
    for (int i = 0; i < count; i++)
        if (strcmp(parts[i].slot, "average") != 0)
            sum += (size_t)et_shape_count(parts[i].shape);
    for (int i = 0, n = et_optimizer_slots(one->optimizer, &slots); i < n; i++)
        average += strcmp(slots[i].name, "average") ? 0 : (size_t)slots[i].size * sizeof(float);
    rank_assert(!et_comm_gather(comm, &elements, sizeof elements, all, &error));
    for (size_t r = 0; r < ranks; r++)
        sum -= all[r];
    rank_assert(sum == 0);
    size_t whole = et_optimizer_bytes(one->optimizer) - average;
    size_t part = et_optimizer_bytes(mine->optimizer) - average;
    if (et_optimizer_by_elements(one->optimizer))
        rank_assert(part <= whole / ranks + 4 * 64);
    rank_assert(whole == 0 || part < whole);
    return 0;
}

static int same_weights(const model *one, const model *mine)
{
    size_t bytes = (size_t)et_params_flat_size(one->params) * sizeof(float);
    rank_assert(!memcmp(et_params_values(one->params), et_params_values(mine->params), bytes));
    rank_assert(!memcmp(et_params_shadow(one->params), et_params_shadow(mine->params), bytes / 2));
    return 0;
}

static int same_updates(et_comm *comm, int type, const char *text)
{
    model one, mine;
    et_error error = ET_ERROR_INIT;
    size_t elements;
    int line = 0;
    model_open(&one, type, text);
    model_open(&mine, type, text);
    rank_assert(!et_optimizer_shard(mine.optimizer, comm, &error));
    rank_assert(et_optimizer_ranks(mine.optimizer) == comm && !et_optimizer_ranks(one.optimizer));
    for (int step = 0; step <= STEPS && !line; step++) {
        omp_set_num_threads(1 + step % 2);
        if (step == STEPS - 1) {
            et_optimizer_restart(one.optimizer);
            et_optimizer_restart(mine.optimizer);
        }
        et_update expected = update(&one, step);
        size_t allocations = et_alloc_count();
        et_update found = update(&mine, step);
        rank_assert(et_alloc_count() == allocations);
        rank_assert(expected.finite == found.finite && found.finite == (step < STEPS));
        rank_assert(!found.finite || expected.gradient_norm == found.gradient_norm);
        rank_assert(!et_optimizer_settled(mine.optimizer, &error));
        line = same_weights(&one, &mine);
    }
    if (!line)
        line = same_slots(&one, &mine, et_comm_rank(comm), &elements);
    if (!line)
        line = shared_out(comm, &one, &mine, elements);
    model_close(&one);
    model_close(&mine);
    return line;
}

static int rank_updates(et_comm *comm, const char *word)
{
    (void)word;
    for (int type = ET_OPTIMIZER_NONE + 1; type <= OWN_RULE; type++)
        for (int s = 0; s < SETTINGS; s++)
            if (same_updates(comm, type, settings[s])) {
                fprintf(stderr, "rule %d, settings %d, rank %d\n", type, s, et_comm_rank(comm));
                return 1;
            }
    return 0;
}

/* ---- runs ---- */

enum { ROWS = 6, SHARDS = 4, UPDATES = 12, EVERY = 5 };

/* During rank 0's save of step EVERY no file can be written: until it is reported, or for good. */
typedef enum course { NO_FAULT, ONCE, ENDS, GOES_ON } course;

static void hold_files(bool limited)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limited ? 1000 : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void hear(void *payload, et_log_level level, const char *text)
{
    (void)level;
    if (*(course *)payload == ONCE && strstr(text, "trying once more"))
        hold_files(false);
    if (*(course *)payload == GOES_ON && strstr(text, "not saved"))
        hold_files(false);
}

typedef struct noting {
    et_task task;
    et_comm *comm;
    course fault;
} noting;

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    small_build(s, 16);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, small_x, et_shape_1(FEATURES) },
                                { "y", ET_F32, small_y, et_shape_1(1) } };
    (void)self;
    return training ? small_source(out, ROWS, error)
                    : toy_source(out, arrays, 2, SAMPLES / 2, ROWS, false, error);
}

static int build_noted(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "noted", &et_metric_sum, error);
}

static int note(et_task *self, const et_task_step *now, et_error *error)
{
    const noting *n = (const noting *)(const void *)self;
    (void)error;
    if (n->fault && now->optimizer && now->step == EVERY - 1 && !et_comm_rank(n->comm))
        hold_files(true);
    return ET_OK;
}

static const et_task_class noting_class = { .name = "noting",
                                            .build = build,
                                            .data = data,
                                            .build_metrics = build_noted,
                                            .process_metrics = note };

static int run_task(et_comm *comm, const char *directory, course fault, et_error *error)
{
    noting task = { .task = { .class = &noting_class }, .comm = comm, .fault = fault };
    const et_privacy_options noise = { .clipping_norm = 1, .noise_multiplier = 0.1 };
    toy_run r;
    toy_run_init(&r, &noting_class);
    r.trainer_options.batches = SHARDS;
    r.trainer_options.dp_config = &noise;
    r.trainer_options.comm = comm;
    r.options.train_steps = UPDATES;
    r.options.validation_interval = EVERY;
    r.options.checkpoint_interval = EVERY;
    r.options.run.comm = comm;
    r.options.run.no_logs = true;
    r.options.run.best_metric = "validation_loss";
    r.options.run.best_comparison = ET_COMPARE_LOWER;
    r.options.run.best_unsaved = fault != NO_FAULT;
    r.options.run.on_failed_save = fault == GOES_ON ? ET_FAILED_SAVE_GO_ON : ET_FAILED_SAVE_STOP;
    int status = toy_run_start_trainer_of(&r, &task.task, error);
    if (!status)
        status = toy_run_control(&r, directory, error);
    if (!status)
        status = et_controller_train(r.controller, error);
    int closed = toy_run_close(&r);
    return status ? status : closed;
}

/* word: whether it is sharded, the fault, the directory. */
static int rank_runs(et_comm *comm, const char *word)
{
    int sharded, which;
    char directory[100];
    et_error error = ET_ERROR_INIT;
    rank_assert(sscanf(word, "%d %d %99s", &sharded, &which, directory) == 3);
    course fault = which;
    comm->sharded_optimizer = sharded && et_comm_size(comm) > 1;
    signal(SIGXFSZ, SIG_IGN);
    et_log_set(hear, &fault);
    int status = run_task(comm, directory, fault, &error);
    hold_files(false);
    if (status && fault != ENDS)
        fprintf(stderr, "rank %d: %s\n", et_comm_rank(comm), error.text);
    rank_assert(!status == (fault != ENDS));
    rank_assert(!status || strstr(error.text, "saving step 5"));
    return 0;
}

static int rank_refused(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    et_checkpoints *checkpoints;
    et_state *state;
    et_optimizer *optimizer;
    /* A rank that saves must know that other ranks take part. */
    model m;
    model_open(&m, ET_OPTIMIZER_ADAM, settings[0]);
    optimizer = m.optimizer;
    rank_assert(!et_optimizer_shard(optimizer, comm, &error) && !et_state_new(&state, &error));
    rank_assert(!et_state_add_params(state, m.params, &error));
    rank_assert(!et_state_add_optimizer(state, "optimizer", optimizer, &error));
    rank_assert(et_checkpoints_open(&checkpoints, word, state, NULL, &error) == ET_EUSAGE);
    rank_assert(strstr(error.text, "sharded_optimizer"));
    et_state_free(state);
    model_close(&m);
    return 0;
}

static const rank_case cases[] = {
    { "updates", rank_updates }, { "runs", rank_runs }, { "refused", rank_refused }, { NULL, NULL }
};

/* ---- their parent ---- */

static void test_sharded__equal_updates(void **state)
{
    (void)state;
    assert_int_equal(run_ranks("updates", 2, ""), 0);
    assert_int_equal(run_ranks("updates", 3, ""), 0);
    assert_int_equal(run_ranks("updates", 6, ""), 0);
}

static void run_in(const char *directory, int ranks, bool sharded, course fault)
{
    char word[160];
    snprintf(word, sizeof word, "%d %d %s", sharded, (int)fault, directory);
    if (run_ranks("runs", ranks, word))
        fail_msg("%s: %d ranks, sharded: %d, fault %d", directory, ranks, sharded, fault);
}

static void assert_alike(const char *one, const char *other, const char *file)
{
    char command[400];
    snprintf(command, sizeof command, "cmp %s/%s %s/%s", one, file, other, file);
    if (system(command))
        fail_msg("%s", command);
}

static void test_sharded__saves(void **state)
{
    (void)state;
    static const char last[] = "checkpoints/ckpt-12.safetensors";
    char one[64], many[64], command[200];
    snprintf(one, sizeof one, "sharded.%d.one", (int)getpid());
    snprintf(many, sizeof many, "sharded.%d.many", (int)getpid());
    snprintf(command, sizeof command, "rm -rf %s %s", one, many);
    run_in(one, 1, false, NO_FAULT);
    for (int ranks = 2; ranks <= 4; ranks++) {
        run_in(many, ranks, true, NO_FAULT);
        assert_alike(one, many, last);
        assert_alike(one, many, "best/info.json");
        assert_alike(one, many, "checkpoints/ckpt-5.safetensors");
        assert_int_equal(system("rm -rf sharded.*.many"), 0);
    }
    run_in(many, 3, true, ENDS);
    run_in(many, 2, true, GOES_ON);
    assert_alike(one, many, last);
    assert_int_equal(system("rm -rf sharded.*.many"), 0);
    run_in(many, 2, true, ONCE);
    assert_alike(one, many, "checkpoints/ckpt-5.safetensors");
    assert_alike(one, many, last);
    assert_int_equal(system(command), 0);
}

static void test_sharded__refused(void **state)
{
    (void)state;
    assert_int_equal(run_ranks("refused", 2, "sharded.refused"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharded__equal_updates),
        cmocka_unit_test(test_sharded__saves),
        cmocka_unit_test(test_sharded__refused),
    };
    if (is_rank())
        return run_rank(cases);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
