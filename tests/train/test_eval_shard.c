/* An evaluation shared among ranks: one rank evaluates each sample, and all ranks have the values
 * of one process, bit for bit, for any number of batches and ranks. */
#include "train/ranks/eval_shard.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/comm/ranks.h"
#include "train/ranks/broadcast.h"
#include "train/toy_run.h"

enum { SAMPLES = 44, PART = 18, FEATURES = 6, ROWS = 4 }; /* sets of 5 and of 11 batches */

typedef struct shared {
    et_task task;
    FILE *log;    /* evaluated samples */
    int set;      /* that is on */
    int64_t rows; /* of it */
    float keeps[SAMPLES][2];
    int32_t fails_at; /* sample of the second set; -1: none */
} shared;

static float x[SAMPLES * FEATURES], y[SAMPLES];
static int32_t numbers[SAMPLES];

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *target = et_batch_input(s, "y");
    et_node *h = et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 8));
    et_node *out = et_dense(et_in(s, "out"), h, 1);
    et_node *d = et_sub(out, target);
    et_output(s, "outputs", out);
    et_loss(s, "loss", et_mul(d, d), 1);
    et_measure(s, "target", et_sum(target), et_sum(et_batch_input(s, "mask")));
}

static int validation_set(et_task *self, int number, const char **name, et_source **out,
                          et_error *error)
{
    static const char *const names[] = { "part", "all" };
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(FEATURES) },
                                { "y", ET_F32, y, et_shape_1(1) },
                                { "labels", ET_I32, numbers, et_shape_scalar() } };
    (void)self;
    *out = NULL;
    if (number == 2)
        return ET_OK;
    *name = names[number];
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < SAMPLES; i++)
        y[i] = (float)(i * 13 % 17) / 9 - 1;
    return toy_source(out, arrays, 3, number ? SAMPLES : PART, ROWS, false, error);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    (void)self, (void)training, (void)error;
    *out = NULL;
    return ET_OK;
}

static void use_set(et_task *self, int number)
{
    ((shared *)(void *)self)->set = number;
    ((shared *)(void *)self)->rows = number ? SAMPLES : PART;
}

static int build_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)self, (void)training;
    return et_metrics_define(metrics, "spread", &et_metric_statistics, error);
}

static int process(et_task *self, const et_task_step *now, et_error *error)
{
    shared *t = (shared *)(void *)self;
    const float *out = et_pass_output(now->model, "outputs").data;
    for (int64_t i = 0; i < now->inputs->filled[0]; i++) {
        uint32_t sample = now->inputs->sample[i];
        fprintf(t->log, "%d %lu\n", t->set, (unsigned long)sample);
        t->keeps[sample][0] = out[i];
        t->keeps[sample][1]++;
        et_metrics_add(now->metrics, "spread", (double)out[i], 1);
        if (t->set && (int32_t)sample == t->fails_at)
            return et_fail(error, ET_EDATA, "sample %lu", (unsigned long)sample);
    }
    return ET_OK;
}

/* Depends on the order of steps, and sees numbers that JSON has not. */
static int aggregate(et_task *self, et_value *state, const et_value *outputs, et_error *error)
{
    double so_far = 0, loss;
    (void)self;
    et_value_read_float(state, "fold", &so_far, NULL);
    int status = et_value_read_float(outputs, "loss", &loss, error);
    et_value_set_float(state, "fold", fmod(so_far * 7 + loss, 1000));
    return status;
}

static int reduce(et_task *self, const et_value *state, int64_t step, et_value *results,
                  et_error *error)
{
    (void)self, (void)step;
    return et_value_merge(results, state, error);
}

/* In the order of samples; each of the set was kept once, if all were evaluated. */
static int validate(et_task *self, int64_t step, et_value *logs, et_error *error)
{
    const shared *t = (const shared *)(const void *)self;
    double sum = 0, times = 0;
    (void)step, (void)error;
    for (int64_t i = 0; i < t->rows; i++) {
        sum = sum * 1.25 + (double)t->keeps[i][0];
        times += (double)t->keeps[i][1];
    }
    et_value_set_float(logs, "kept", sum);
    et_value_set_float(logs, "times", times);
    return ET_OK;
}

static bool kept(et_task *self, int number, et_kept_rows *rows)
{
    shared *t = (shared *)(void *)self;
    *rows = (et_kept_rows){ t->keeps, t->rows, sizeof t->keeps[0] };
    return number == 0;
}

static const et_task_class shared_class = { .name = "shared",
                                            .build = build,
                                            .data = data,
                                            .validation_set = validation_set,
                                            .use_validation_set = use_set,
                                            .build_metrics = build_metrics,
                                            .process_metrics = process,
                                            .aggregate_logs = aggregate,
                                            .reduce_aggregated_logs = reduce,
                                            .validate = validate,
                                            .kept = kept };

/* Also by a program's own evaluator, which ranks cannot share. */
static const et_task_class alone_class = { .name = "alone",
                                           .build = build,
                                           .data = data,
                                           .validation_set = validation_set,
                                           .use_validation_set = use_set,
                                           .build_metrics = build_metrics,
                                           .process_metrics = process };

static void print_values(FILE *to, const et_value *values, const char *path)
{
    for (const et_value *v = values->first; v; v = v->next) {
        char name[100];
        snprintf(name, sizeof name, "%s/%s", path, v->key);
        if (v->kind == ET_VALUE_DICT)
            print_values(to, v, name);
        else
            fprintf(to, "%s %a\n", name, v->real);
    }
}

/* Two evaluations, the second after the first was limited: it must not depend on the first. */
static int evaluate(et_comm *comm, const et_task_class *class, int32_t fails_at, const char *name,
                    et_error *error)
{
    char ids[64], values[64];
    static shared t;
    toy_run r;
    et_arena arena = ET_ARENA_INIT;
    snprintf(ids, sizeof ids, "%s.ids", name);
    snprintf(values, sizeof values, "%s.values", name);
    t = (shared){ .task = { .class = class }, .log = fopen(ids, "w"), .fails_at = fails_at };
    FILE *to = fopen(values, "w");
    if (!t.log || !to)
        return ET_EIO;
    toy_run_init(&r, class);
    r.trainer_options.use = ET_EVALUATE_ONLY;
    r.trainer_options.given = NULL;
    r.trainer_options.comm = comm;
    int status = toy_run_start_trainer_of(&r, &t.task, error);
    if (!status)
        et_init_draw(r.params, 3);
    for (int64_t limit = 3; !status && limit >= 0; limit -= 3) {
        et_value *logs = et_value_dict(&arena);
        fprintf(t.log, "# %d\n", (int)limit);
        status = et_evaluate_on_ranks(et_task_trainer_evaluator(r.trainer), comm, 0, limit, NULL,
                                      NULL, logs, error);
        if (!status)
            print_values(to, logs, "");
    }
    toy_run_close(&r);
    fclose(t.log);
    fclose(to);
    et_arena_release(&arena);
    return status;
}

/* ---- in the ranks ---- */

static int rank_evaluates(et_comm *comm, const char *word)
{
    char name[50];
    et_error error = ET_ERROR_INIT;
    snprintf(name, sizeof name, "%s.%d", word, et_comm_rank(comm));
    rank_assert(!evaluate(comm, &shared_class, -1, name, &error));
    return 0;
}

/* The class does not declare the rows that it keeps, so rank 0 evaluates, and all ranks get its
 * results. */
static int rank_looks_on(et_comm *comm, const char *word)
{
    char name[50];
    et_error error = ET_ERROR_INIT;
    snprintf(name, sizeof name, "%s.%d", word, et_comm_rank(comm));
    rank_assert(!evaluate(comm, &alone_class, -1, name, &error));
    return 0;
}

/* In the middle of the second set, on whichever rank. */
static int rank_fails(et_comm *comm, const char *word)
{
    char name[50];
    snprintf(name, sizeof name, "%s.%d", word, et_comm_rank(comm));
    for (int32_t sample = 15; sample < 15 + 2 * ROWS; sample += ROWS) {
        et_error error = ET_ERROR_INIT;
        char text[32];
        snprintf(text, sizeof text, "sample %d", (int)sample);
        rank_assert(evaluate(comm, &shared_class, sample, name, &error) == ET_EDATA);
        rank_assert(strstr(error.text, text));
        et_comm_resume(comm);
        rank_assert(!evaluate(comm, &shared_class, -1, name, &error));
    }
    return 0;
}

static const rank_case cases[] = {
    { "evaluates", rank_evaluates },
    { "looks_on", rank_looks_on },
    { "fails", rank_fails },
    { NULL, NULL },
};

/* ---- their parent ---- */

/* The ranks' logs together are that of one process: no sample is missing or comes twice. */
static void test_eval_shard__equals_one_process(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 7; ranks += ranks < 4 ? 1 : 3) {
        char name[32];
        et_error error = ET_ERROR_INIT;
        snprintf(name, sizeof name, "share.%d.%d", (int)getpid(), ranks);
        assert_int_equal(evaluate(NULL, &shared_class, -1, name, &error), ET_OK);
        assert_int_equal(run_ranks("evaluates", ranks, name), 0);
        for (int r = 0; r < ranks; r++)
            shell("cmp %s.values %s.%d.values", name, name, r);
        shell("sed '1,/# 0/d' %s.ids >%s.all && [ $(wc -l <%s.all) = %d ]", name, name, name,
              PART + SAMPLES);
        shell("for f in %s.?.ids; do sed '1,/# 0/d' $f; done | sort -k1,1n -k2,2n | cmp - %s.all",
              name, name);
        shell("grep -q '^/all/times %a' %s.values", (double)SAMPLES, name);
        shell("grep -q '^/part/fold 0x' %s.values && rm %s.*", name, name);
    }
}

static void test_eval_shard__by_rank_0_alone(void **state)
{
    char name[32];
    et_error error = ET_ERROR_INIT;
    (void)state;
    snprintf(name, sizeof name, "alone.%d", (int)getpid());
    assert_int_equal(evaluate(NULL, &alone_class, -1, name, &error), ET_OK);
    assert_int_equal(run_ranks("looks_on", 3, name), 0);
    for (int r = 0; r < 3; r++)
        shell("cmp %s.values %s.%d.values", name, name, r);
    shell("cmp %s.ids %s.0.ids && ! grep -q '^[01]' %s.1.ids && rm %s.*", name, name, name, name);
}

static void test_eval_shard__fails(void **state)
{
    char name[32];
    (void)state;
    snprintf(name, sizeof name, "fails.%d", (int)getpid());
    assert_int_equal(run_ranks("fails", 1, name), 0);
    assert_int_equal(run_ranks("fails", 3, name), 0);
    shell("rm %s.*", name);
}

/* ---- values as bytes ---- */

static void test_eval_shard__value_bytes(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *tree = et_value_dict(&arena), *copy;
    et_strbuf bytes = ET_STRBUF_INIT;
    et_error wrong = ET_ERROR_INIT;
    (void)state;
    et_value_set_float(tree, "nan", NAN);
    et_value_set_float(tree, "low", -INFINITY);
    et_value_set_int(tree, "most", INT64_MAX);
    et_value_set_bool(et_value_set_dict(tree, "in"), "yes", true);
    et_value *list = et_value_set_list(tree, "list");
    et_value_add_string(list, "");
    et_value_add_float(list, -0.0);
    et_value_set_null(tree, "nothing");
    et_value_write_bytes(&bytes, tree);
    assert_false(bytes.failed);
    assert_ok(et_value_read_bytes(&copy, &arena, bytes.data, bytes.length, error));
    assert_true(isnan(et_value_get(copy, "nan")->real));
    assert_true(et_value_get(copy, "low")->real == -INFINITY);
    assert_true(et_value_get(copy, "most")->integer == INT64_MAX);
    assert_true(et_value_path(copy, "in.yes")->boolean);
    assert_string_equal(et_value_get(copy, "list")->first->string, "");
    assert_true(signbit(et_value_get(copy, "list")->last->real));
    assert_int_equal(et_value_get(copy, "nothing")->kind, ET_VALUE_NULL);
    assert_int_equal(copy->count, tree->count);
    for (size_t size = 0; size < bytes.length; size++)
        assert_int_equal(et_value_read_bytes(&copy, &arena, bytes.data, size, &wrong), ET_EFORMAT);
    for (size_t at = 0; at < bytes.length; at++) { /* whatever the result, nothing else is read */
        char was = bytes.data[at];
        bytes.data[at] = (char)0xff;
        et_value_read_bytes(&copy, &arena, bytes.data, bytes.length, &wrong);
        bytes.data[at] = was;
    }
    et_strbuf_release(&bytes);
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eval_shard__equals_one_process),
        cmocka_unit_test(test_eval_shard__by_rank_0_alone),
        cmocka_unit_test(test_eval_shard__fails),
        cmocka_unit_test(test_eval_shard__value_bytes),
    };
    return is_rank() ? run_rank(cases) : cmocka_run_group_tests(tests, NULL, NULL);
}
