/* Evaluation by ranks: hooks in a controller that trains or follows another process's run, and
 * evaluators of a loop. Values that ranks measure together have the bits of one process, and each
 * batch is evaluated by one rank.
 */
#include <etude/eval_shard.h>
#include <etude/loop_evaluator.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/tensor/params.h"
#include "train/ranked_drivers.h"

enum { HELD = 27, HELD_ROWS = 4 }; /* 7 batches, the last not full */

/* Orbit's StandardEvaluator over its own model, which takes weights from elsewhere. It writes to
 * files of this rank: the values of each evaluation, and the evaluated samples.
 */
typedef struct judge {
    et_standard_evaluator standard;
    small_pass s;
    et_params *from; /* NULL: the model's own weights */
    et_source *held;
    et_metrics *metrics;
    et_eval_shard *share;
    double fold; /* depends on the order of batches */
    double kept[SAMPLES];
    const char *values;
    FILE *ids;
    int evaluations, fails; /* fails: a rank whose third evaluation does, from 1 */
} judge;

static bool judge_keeps(void *self, int number, et_kept_rows *rows)
{
    judge *j = self;
    *rows = (et_kept_rows){ j->kept, HELD, sizeof j->kept[0] };
    return number == 0;
}

static int judge_output(void *self, const et_value *outputs, et_error *error)
{
    double loss;
    int status = et_value_read_float(outputs, "loss", &loss, error);
    ((judge *)self)->fold = fmod(((judge *)self)->fold * 7 + loss, 1000);
    return status;
}

static int judge_begin(et_standard_evaluator *self, void **state, et_error *error)
{
    judge *j = (judge *)(void *)self;
    (void)state, (void)error;
    et_params_begin_change(j->s.params);
    if (j->from)
        memcpy(et_params_values(j->s.params), et_params_values(j->from),
               (size_t)et_params_flat_size(j->from) * sizeof(float));
    et_params_changed(j->s.params, true);
    et_metrics_reset(j->metrics);
    et_eval_shard_begin(j->share);
    j->fold = 0;
    j->evaluations++;
    return ET_OK;
}

static int judge_batch(judge *j, const et_batch *batch, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *outputs = et_value_dict(&arena);
    int status = et_pass_run(j->s.pass, batch, 1, (uint64_t)batch->sample[0], error);
    et_measured y = et_pass_measured(j->s.pass, 0);
    double loss = et_pass_loss(j->s.pass) / et_pass_divisor(j->s.pass);
    et_metrics_add(j->metrics, "y", y.total / y.weight, y.weight);
    et_value_set_float(outputs, "loss", loss);
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        fprintf(j->ids, "%02d %02lu\n", j->evaluations, (unsigned long)batch->sample[i]);
        j->kept[batch->sample[i]] += loss + (double)i;
    }
    if (!status && j->evaluations == 3 && j->fails)
        status = et_fail(error, ET_EDATA, "the third evaluation is wrong");
    if (!status)
        status = et_eval_shard_keep(j->share, outputs, error);
    et_arena_release(&arena);
    return status;
}

static int judge_step(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **outputs,
                      et_error *error)
{
    judge *j = (judge *)(void *)self;
    const et_batch *batch;
    bool mine = false;
    (void)outputs;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        status = et_eval_shard_next(j->share, batch, &mine, error);
    return status || !mine ? status : judge_batch(j, batch, error);
}

static int judge_end(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    judge *j = (judge *)(void *)self;
    double sum = 0;
    (void)state;
    if (!logs)
        return ET_OK;
    int status = et_eval_shard_join(j->share, ET_OK, error);
    if (!status)
        status = et_metrics_results(j->metrics, logs, error);
    for (int i = 0; i < HELD; i++)
        sum = sum * 1.25 + j->kept[i];
    et_value_set_float(logs, "fold", j->fold);
    et_value_set_float(logs, "kept", sum);
    FILE *to = fopen(j->values, "a");
    double y = 0;
    if (!status && to)
        status = et_value_read_float(logs, "y", &y, error);
    if (!to)
        return ET_EIO;
    fprintf(to, "%a %a %a\n", y, j->fold, sum);
    return fclose(to) ? ET_EIO : status;
}

static const et_standard_evaluator_class judge_class = {
    .name = "Judge", .eval_begin = judge_begin, .eval_step = judge_step, .eval_end = judge_end
};

static int held_source(et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, small_x, et_shape_1(FEATURES) },
                                { "y", ET_F32, small_y, et_shape_1(1) } };
    return toy_source(out, arrays, 2, HELD, HELD_ROWS, false, error);
}

static int judge_open(judge *j, et_params *from, const work *w, const char *values, et_error *error)
{
    static const et_pass_options training = { .training = true };
    char ids[160];
    snprintf(ids, sizeof ids, "%s.ids.%d", w->directory, et_comm_rank(w->comm));
    *j = (judge){ .from = from, .values = values, .ids = fopen(ids, "w"), .fails = w->fails };
    small_open(&j->s, build, HELD_ROWS, &training);
    int status = j->ids ? held_source(&j->held, error) : ET_EIO;
    et_source_tree data = { .source = j->held };
    if (!status)
        status = et_metrics_new(&j->metrics, error);
    if (!status)
        status = et_metrics_define(j->metrics, "y", &et_metric_mean, error);
    et_eval_shard_options options = { .comm = w->comm,
                                      .metrics = &j->metrics,
                                      .sets = 1,
                                      .kept = judge_keeps,
                                      .output = judge_output,
                                      .self = j };
    if (!status)
        status = et_eval_shard_open(&j->share, &options, error);
    if (!status)
        status = et_standard_evaluator_init(&j->standard, &judge_class, &data, NULL, error);
    j->standard.evaluator.comm = w->comm;
    return status;
}

static void judge_close(judge *j)
{
    et_standard_evaluator_release(&j->standard);
    et_eval_shard_close(j->share);
    et_metrics_free(j->metrics);
    et_source_close(j->held);
    small_close(&j->s);
    if (j->ids)
        fclose(j->ids);
}

static int drive_hooks(const work *w, const char *name, et_error *error)
{
    stepper s = { .m = { .optimizer = NULL } };
    judge j;
    et_controller *controller = NULL;
    et_outer_loop_options outer = { 0 };
    int status = model_open(&s.m, w, error);
    et_source_tree data = { .source = s.m.s.source };
    if (!status)
        status = judge_open(&j, s.m.s.params, w, name, error);
    if (!status)
        status = et_standard_trainer_init(&s.standard, &stepper_class, &data, NULL, error);
    et_controller_options options = { .trainer = &s.standard.trainer,
                                      .evaluator = &j.standard.evaluator,
                                      .steps_per_loop = 5,
                                      .outer_loop = &outer,
                                      .run = { .model_dir = w->directory, .comm = w->comm } };
    if (!status)
        status = et_controller_open(&controller, &options, error);
    if (!status)
        status = et_controller_train_and_evaluate(controller, w->steps, -1, 5, NULL, error);
    if (!status)
        status = write_down(name, s.m.s.params, model_loss(&s.m));
    et_controller_close(controller, NULL);
    et_standard_trainer_release(&s.standard);
    judge_close(&j);
    model_close(&s.m);
    return status;
}

/* Checkpoints of a run that drive_hooks of one process has left in a directory of that name. */
static bool is_asked(void *payload, int64_t step)
{
    ++*(int *)payload;
    return step >= STEPS;
}

static int drive_follow(const work *w, const char *name, et_error *error)
{
    judge j;
    char run[120];
    int asked = 0;
    et_controller *controller = NULL;
    snprintf(run, sizeof run, "%.*s.run", (int)strcspn(w->directory, "/"), w->directory);
    int status = judge_open(&j, NULL, w, name, error);
    et_outer_loop_options outer = { .weights = j.s.params };
    et_controller_options options = { .evaluator = &j.standard.evaluator,
                                      .outer_loop = &outer,
                                      .run = { .model_dir = run, .comm = w->comm } };
    if (!status)
        status = et_controller_open(&controller, &options, error);
    if (!status)
        status =
            et_controller_evaluate_continuously(controller, -1, 30, is_asked, &asked, NULL, error);
    if (!status && !asked != (et_comm_rank(w->comm) != 0))
        status =
            et_fail(error, ET_EFAIL, "rank %d was asked %d times", et_comm_rank(w->comm), asked);
    et_controller_close(controller, NULL);
    judge_close(&j);
    return status;
}

/* Three evaluators of one loop: of a pass; of a function that all ranks call for all batches; of
 * one whose batches are shared. */
typedef struct counted {
    FILE *ids; /* NULL: none are written */
    et_loop **loop;
    int batches;
} counted;

static int count_batch(void *payload, const et_batch *batch, double *values, et_error *error)
{
    counted *c = payload;
    (void)error;
    c->batches++;
    for (int64_t i = 0; c->ids && i < batch->filled[0]; i++)
        fprintf(c->ids, "%d %02lu\n", (int)et_loop_epoch(*c->loop),
                (unsigned long)batch->sample[i]);
    values[0] = sin((double)batch->sample[0]);
    values[1] = batch->sample[0] == HELD_ROWS ? (double)NAN : cos((double)batch->sample[0]);
    return ET_OK;
}

static double uneven(void *payload, const et_batch *batch)
{
    (void)payload;
    return 1 / (1 + (double)batch->sample[0]);
}

static int evaluate_in_loop(et_loop *loop, et_loop_evaluator *const *e, const char *name,
                            et_error *error)
{
    int status = ET_OK;
    while (!status && et_loop_next_epoch(loop)) {
        FILE *to = fopen(name, "a");
        for (int i = 0; !status && to && i < 3; i++) {
            const et_loop_metric *metrics;
            status = et_loop_evaluator_run(e[i], NULL, 0, error);
            int count = et_loop_evaluator_last_metrics(e[i], &metrics);
            for (int k = 0; k < count; k++)
                fprintf(to, "%s %a\n", metrics[k].name, metrics[k].value);
        }
        status = to && !fclose(to) ? status : ET_EIO;
        et_loop_print_logs(loop);
    }
    return status;
}

static int drive_loop_evaluators(const work *w, const char *name, et_error *error)
{
    model m;
    work plain = { .comm = NULL };
    char ids[160];
    int printed = 0, opened = 0;
    snprintf(ids, sizeof ids, "%s.ids.%d", w->directory, et_comm_rank(w->comm));
    et_loop *loop = NULL;
    counted all = { .ids = NULL }, shared = { .ids = fopen(ids, "w"), .loop = &loop };
    et_source *held[3] = { NULL };
    et_loop_evaluator *e[3] = { NULL };
    et_loop_options options = {
        .max_epoch = 2, .print = be_quiet, .print_payload = &printed, .comm = w->comm
    };
    const et_loop_measure measures[] = { { .name = "loss" }, { .name = "y", .measure = "y" } };
    const et_loop_measure own[] = { { .name = "a" }, { .name = "b" } };
    int status = model_open(&m, &plain, error);
    if (!status)
        status = et_loop_open(&loop, m.s.params, &options, error);
    for (int i = 0; i < 3 && !status; i++)
        status = held_source(&held[i], error);
    const et_loop_evaluator_options how[3] = {
        { .source = held[0], .pass = m.s.pass, .metrics = measures, .metric_count = 2, .seed = 3 },
        { .source = held[1],
          .run_batch = count_batch,
          .metrics = own,
          .metric_count = 2,
          .weight = uneven,
          .payload = &all,
          .time_metric = "" },
        { .source = held[2],
          .run_batch = count_batch,
          .run_batch_by_ranks = true,
          .metrics = own,
          .metric_count = 2,
          .weight = uneven,
          .payload = &shared }
    };
    for (; opened < 3 && !status; opened++)
        status = et_loop_evaluator_open(&e[opened], loop, &how[opened], error);
    if (!status)
        status = et_loop_begin(loop, error);
    if (!status)
        status = evaluate_in_loop(loop, e, name, error);
    if (!status)
        status = et_loop_end(loop, error);
    if (!status && all.batches != 2 * 7)
        status = et_fail(error, ET_EFAIL, "%d batches of an evaluation by all", all.batches);
    for (int i = 0; i < 3; i++) {
        et_loop_evaluator_close(e[i]);
        et_source_close(held[i]);
    }
    et_loop_close(loop);
    model_close(&m);
    return !shared.ids || fclose(shared.ids) ? ET_EIO : status;
}

/* Outputs of a pass over data: rows of a batch along either dimension, and one number. */
static void build_outputs(et_scope *s, void *payload)
{
    (void)payload;
    et_node *x = et_batch_input(s, "x"), *y = et_batch_input(s, "y");
    const et_init normal = { ET_INIT_NORMAL, 1 };
    const et_matmul_options transposed = { .transpose_b = true };
    et_node *basis = et_variable(s, "basis", et_shape_2(2, FEATURES), normal);
    et_output(s, "rows", et_dense(et_in(s, "dense"), x, 3));
    et_output(s, "columns", et_matmul(basis, x, NULL, &transposed));
    et_output(s, "sum", et_sum(y));
}

static int write_outputs(const et_outputs *outputs, const char *output, FILE *to)
{
    et_tensor tensor = et_outputs_tensor(outputs, output);
    size_t count = (size_t)et_shape_count(tensor.shape);
    fprintf(to, "%s %d %d\n", output, (int)tensor.shape.size[0], (int)tensor.shape.size[1]);
    return fwrite(tensor.data, sizeof(float), count, to) == count ? ET_OK : ET_EIO;
}

static int collect_outputs(const work *w, small_pass *s, FILE *to, et_error *error)
{
    static const char *const names[] = { "rows", "columns", "sum" };
    int status = ET_OK;
    for (int axis = 0; axis < 2 && !status; axis++) {
        et_outputs *outputs;
        et_source *held;
        status = held_source(&held, error);
        if (!status)
            status = et_outputs_collect(&outputs, w->comm, s->pass, held, &names[axis], 1, axis, 7,
                                        error);
        if (!status)
            status = write_outputs(outputs, names[axis], to);
        et_outputs_free(status ? NULL : outputs);
        et_source_close(held);
    }
    /* Fewer batches than ranks, of a source that repeats. */
    for (int pass = 0; pass < 2 && !status; pass++) {
        double sum;
        et_source *few = NULL;
        status = pass ? small_source(&few, SAMPLES, error) : held_source(&few, error);
        if (!status)
            status = et_outputs_average(&sum, w->comm, s->pass, few, &names[2], 1, 7, error);
        if (!status)
            fprintf(to, "%a\n", sum);
        et_source_close(few);
    }
    return status;
}

static int drive_outputs(const work *w, const char *name, et_error *error)
{
    static const et_pass_options predicting = { .training = false };
    FILE *to = fopen(name, "w");
    small_pass s;
    small_open(&s, build_outputs, HELD_ROWS, &predicting);
    int status = to ? collect_outputs(w, &s, to, error) : ET_EIO;
    small_close(&s);
    return !to || fclose(to) ? ET_EIO : status;
}

/* ---- in the ranks ---- */

static const driver drivers[] = { { "hooks", drive_hooks, false },
                                  { "loop evaluators", drive_loop_evaluators, false },
                                  { "outputs", drive_outputs, false },
                                  { "watch", drive_follow, false } };

const driver *const all_drivers = drivers;

enum { FOLLOW = 3 };

/* An evaluation of hooks fails on one rank: on all, and not before. */
static int rank_misjudges(et_comm *comm, const char *word)
{
    char name[120];
    et_error error = ET_ERROR_INIT;
    work w = { .comm = comm, .shards = SHARDS, .steps = STEPS, .directory = word };
    snprintf(name, sizeof name, "%s.%d", word, et_comm_rank(comm));
    w.fails = et_comm_rank(comm) == et_comm_size(comm) - 1;
    rank_assert(drive_hooks(&w, name, &error) == ET_EDATA);
    rank_assert(strstr(error.text, "the third evaluation is wrong"));
    return 0;
}

/* The first failure is that of all ranks; without one, all continue. */
static int rank_shares(et_comm *comm, const char *word)
{
    et_eval_shard *share;
    et_error error = ET_ERROR_INIT;
    et_eval_shard_options options = { .comm = comm };
    (void)word;
    rank_assert(!et_eval_shard_open(&share, &options, &error));
    et_eval_shard_begin(share);
    int status = et_comm_rank(comm) == 1 ? et_fail(&error, ET_EDATA, "this one") : ET_OK;
    rank_assert(et_eval_shard_join(share, status, &error) == ET_EDATA);
    rank_assert(strstr(error.text, "this one"));
    et_comm_resume(comm);
    et_eval_shard_begin(share);
    rank_assert(!et_eval_shard_join(share, ET_OK, &error));
    et_eval_shard_close(share);
    return 0;
}

/* A missing output, and one rank's source that fails: all ranks get the error. */
static int rank_outputs(et_comm *comm, const char *word)
{
    static const et_pass_options predicting = { .training = false };
    const char *names[] = { "rows", "none" };
    et_error error = ET_ERROR_INIT;
    et_outputs *outputs;
    small_pass s;
    (void)word;
    small_open(&s, build_outputs, HELD_ROWS, &predicting);
    rank_assert(et_outputs_collect(&outputs, comm, s.pass, s.source, names, 2, 0, 1, &error) ==
                ET_ECONFIG);
    rank_assert(strstr(error.text, "no output none") && !outputs);
    et_comm_resume(comm);
    bool last = et_comm_rank(comm) == et_comm_size(comm) - 1;
    rank_assert(et_outputs_collect(&outputs, comm, s.pass, s.source, &names[last], 1, 0, 1,
                                   &error) == ET_ECONFIG);
    rank_assert(strstr(error.text, "no output none"));
    small_close(&s);
    return 0;
}

static const rank_case cases[] = { { "drives", rank_drives },
                                   { "outputs", rank_outputs },
                                   { "misjudges", rank_misjudges },
                                   { "shares", rank_shares },
                                   { NULL, NULL } };

/* ---- their parent ---- */

static void test_ranked_evaluators__equal(void **state)
{
    (void)state;
    compare_drivers(0, FOLLOW, 3);
}

/* During a run of another process, by one process and by ranks: every checkpoint once. */
static void test_ranked_evaluators__follow(void **state)
{
    char one[64], many[64], run[80];
    et_error error = ET_ERROR_INIT;
    (void)state;
    snprintf(one, sizeof one, "watch.%d", (int)getpid());
    snprintf(many, sizeof many, "watch.%d/many", (int)getpid());
    snprintf(run, sizeof run, "%s.run", one);
    work w = { .shards = SHARDS, .steps = STEPS, .directory = run };
    shell("mkdir -p %s", one);
    assert_int_equal(drive_hooks(&w, "watch.training", &error), ET_OK);
    shell("rm -f watch.training");
    drive(FOLLOW, 1, STEPS, one);
    shell("[ $(wc -l <%s.0) = 4 ]", one);
    for (int ranks = 2; ranks <= 3; ranks++) {
        drive(FOLLOW, ranks, STEPS, many);
        for (int r = 0; r < ranks; r++)
            shell("cmp %s.0 %s.%d", one, many, r);
        shell("sort %s.ids.? | cmp - %s.ids.0", many, one);
    }
    shell("rm -rf %s*", one);
}

static void test_ranked_evaluators__fails(void **state)
{
    char name[64];
    (void)state;
    snprintf(name, sizeof name, "misjudges.%d", (int)getpid());
    for (int ranks = 1; ranks <= 3; ranks++) {
        assert_int_equal(run_ranks("misjudges", ranks, name), 0);
        shell("rm -rf %s*", name);
    }
    assert_int_equal(run_ranks("shares", 2, ""), 0);
    assert_int_equal(run_ranks("shares", 3, ""), 0);
    assert_int_equal(run_ranks("outputs", 3, ""), 0);
}

static void test_ranked_evaluators__refused(void **state)
{
    et_eval_shard *share;
    et_eval_shard_options options = { .sets = 1 };
    et_error wrong = ET_ERROR_INIT;
    (void)state;
    assert_int_equal(et_eval_shard_open(&share, &options, &wrong), ET_ECONFIG);
    assert_non_null(strstr(wrong.text, "sets of metrics to join, but the array is NULL"));
    assert_null(share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranked_evaluators__equal),
        cmocka_unit_test(test_ranked_evaluators__follow),
        cmocka_unit_test(test_ranked_evaluators__fails),
        cmocka_unit_test(test_ranked_evaluators__refused),
    };
    return is_rank() ? run_rank(cases) : cmocka_run_group_tests(tests, NULL, NULL);
}
