/* Hooks, data and their positions: the order of calls, and the numbers that are read. Events are
 * recorded as words. */
#include <etude/standard.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/log.h>
#include <etude/module.h>
#include <etude/outer_loop.h>

#include "base/arena.h"
#include "formats/files.h"
#include "train/checkpoint/state.h"
#include "train/said.h"

/* ---- data: numbers, one a batch ---- */

static int32_t numbers[30];

/* count of them from first on. */
static et_source *range(int first, int count, bool repeat)
{
    et_samples *samples;
    et_source *source;
    for (int i = 0; i < 30; i++)
        numbers[i] = i;
    et_array arrays[] = { { "n", ET_I32, numbers + first, et_shape_scalar() } };
    et_batches_options options = { .repeat = repeat, .capacity = { 1 } };
    assert_ok(et_arrays_open(&samples, arrays, 1, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

static int number_of(const et_batch *batch)
{
    return *(const int32_t *)batch->data[0];
}

/* ---- a trainer and an evaluator that add ---- */

typedef struct adder {
    et_standard_trainer standard; /* the first member */
    const char *path;
    int64_t sum;
} adder;

static int begin_loop(et_standard_trainer *self, et_error *error)
{
    (void)self, (void)error;
    say("( ");
    return ET_OK;
}

static int step(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, ((adder *)self)->path, &batch, error);
    if (status)
        return status;
    say("%d ", number_of(batch));
    ((adder *)self)->sum += number_of(batch);
    return ET_OK;
}

static int end_loop(et_standard_trainer *self, et_value *logs, et_error *error)
{
    (void)error;
    say(") ");
    et_value_set_int(logs, "sum", ((adder *)self)->sum);
    return ET_OK;
}

static const et_standard_trainer_class adder_class = { .name = "MyAdder",
                                                       .train_loop_begin = begin_loop,
                                                       .train_step = step,
                                                       .train_loop_end = end_loop };

typedef struct summer {
    et_standard_evaluator standard;
    int64_t sum;
    int stateless; /* eval_begin gives none */
    int cut;       /* ended without logs */
} summer;

static int begin_sum(et_standard_evaluator *self, void **state, et_error *error)
{
    summer *s = (summer *)self;
    (void)error;
    s->sum = 0;
    *state = s->stateless ? NULL : &s->sum;
    say("[ ");
    return ET_OK;
}

static int read_number(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **outputs,
                       et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    (void)self;
    if (!status)
        *outputs = batch->data[0];
    return status;
}

static int add_number(et_standard_evaluator *self, void **state, void *outputs, et_error *error)
{
    (void)error;
    assert_true((*state == NULL) == (((summer *)self)->stateless != 0));
    ((summer *)self)->sum += *(int32_t *)outputs;
    return ET_OK;
}

static int end_sum(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    summer *s = (summer *)self;
    (void)error;
    s->cut += !logs;
    if (!logs)
        return ET_OK;
    say("%d ] ", (int)s->sum);
    assert_true(s->stateless || state == &s->sum);
    et_value_set_int(logs, "sum", s->sum);
    return ET_OK;
}

static const et_standard_evaluator_class summer_class = { .name = "validation",
                                                          .eval_begin = begin_sum,
                                                          .eval_step = read_number,
                                                          .eval_reduce = add_number,
                                                          .eval_end = end_sum };

static int64_t evaluate(et_standard_evaluator *e, int64_t limit)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int64_t sum = -1;
    assert_ok(et_evaluate(&e->evaluator, 0, limit, NULL, NULL, logs, error));
    assert_ok(et_value_read_int(logs, "sum", &sum, error));
    et_arena_release(&arena);
    return sum;
}

static int64_t train(adder *a, int64_t steps)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int64_t sum = -1;
    assert_ok(et_trainer_train(&a->standard.trainer, steps, logs, error));
    assert_ok(et_value_read_int(logs, "sum", &sum, error));
    et_arena_release(&arena);
    return sum;
}

/* ---- training ---- */

/* Hooks in their order. The data continue from call to call; replaced data begin at their start,
 * also if the same data come again. */
static void test_standard__train(void **state)
{
    (void)state;
    et_source *source = range(0, 10, true), *other = range(20, 5, true);
    et_source_tree data = { .source = source }, another = { .source = other };
    adder a = { .path = NULL };
    words[0] = 0;
    assert_ok(et_standard_trainer_init(&a.standard, &adder_class, &data, NULL, error));
    assert_string_equal(et_module_name(a.standard.trainer.module), "my_adder");
    assert_int_equal(train(&a, 3), 3);
    assert_int_equal(train(&a, 2), 10);
    assert_int_equal(train(&a, 0), 10);
    assert_int_equal(a.standard.trainer.step, 5);
    assert_ok(et_standard_trainer_set_dataset(&a.standard, &another, error));
    train(&a, 2);
    assert_ok(et_standard_trainer_set_dataset(&a.standard, &data, error));
    train(&a, 2);
    assert_ok(et_standard_trainer_set_dataset(&a.standard, &data, error)); /* the rest of the data
                                                                            * is dropped */
    train(&a, 2);
    assert_string_equal(words, "( 0 1 2 ) ( 3 4 ) ( ) ( 20 21 ) ( 0 1 ) ( 0 1 ) ");
    et_standard_trainer_release(&a.standard);
    et_source_close(source);
    et_source_close(other);
}

static void test_standard__nested_data(void **state)
{
    (void)state;
    et_source *one = range(0, 3, true), *two = range(10, 3, true), *three = range(20, 3, true);
    et_source_tree inner[] = { { .name = "b", .source = two }, { .name = "c", .source = three } };
    et_source_tree parts[] = { { .name = "a", .source = one },
                               { .name = "pair", .parts = inner, .count = 2 } };
    et_source_tree data = { .parts = parts, .count = 2 };
    adder a = { .path = "a" };
    words[0] = 0;
    assert_ok(et_standard_trainer_init(&a.standard, &adder_class, &data, NULL, error));
    static const char *const paths[] = { "a", "pair/b", "pair/c", "a", "pair/c" };
    for (int i = 0; i < 5; i++) {
        a.path = paths[i];
        train(&a, 1);
    }
    assert_string_equal(words, "( 0 ) ( 10 ) ( 20 ) ( 1 ) ( 21 ) ");
    static const char *const wrong[] = { "b", "pair", "pair/", NULL };
    for (int i = 0; i < 4; i++) {
        et_arena arena = ET_ARENA_INIT;
        a.path = wrong[i];
        assert_fails(et_trainer_train(&a.standard.trainer, 1, et_value_dict(&arena), error),
                     ET_EUSAGE, "the data set has no source");
        et_arena_release(&arena);
    }
    et_standard_trainer_release(&a.standard);
    et_source_close(one);
    et_source_close(two);
    et_source_close(three);
}

static void test_standard__refused(void **state)
{
    (void)state;
    et_source *source = range(0, 3, false);
    et_source_tree data = { .source = source }, nothing = { .name = "nothing" };
    et_source_tree same[] = { { .name = "a", .source = source },
                              { .name = "b", .source = source } };
    et_source_tree unnamed[] = { { .source = source } },
                   path[] = { { .name = "a/b", .source = source } };
    const et_source_tree twice = { .parts = same, .count = 2 },
                         bare = { .parts = unnamed, .count = 1 },
                         slash = { .parts = path, .count = 1 };
    static const et_standard_trainer_class no_step = { .name = "A" },
                                           no_name = { .train_step = step },
                                           bad_name = { .name = "a b", .train_step = step };
    const struct {
        const et_standard_trainer_class *class;
        const et_source_tree *data;
        et_standard_trainer_options options;
        int status;
        const char *words;
    } cases[] = {
        { &no_step, &data, { 0 }, ET_EUSAGE, "a train_step" },
        { &no_name, &data, { 0 }, ET_EUSAGE, "needs a name" },
        { &bad_name, &data, { 0 }, ET_ECONFIG, "not a valid module name" },
        { &adder_class, NULL, { 0 }, ET_EUSAGE, "has no source" },
        { &adder_class, &nothing, { 0 }, ET_EUSAGE, "has no source" },
        { &adder_class, &twice, { 0 }, ET_EUSAGE, "same source twice: a and b" },
        { &adder_class, &bare, { 0 }, ET_EUSAGE, "needs a name" },
        { &adder_class, &slash, { 0 }, ET_EUSAGE, "without '/'" },
        { &adder_class,
          &data,
          { .no_tf_function = true },
          ET_ECONFIG,
          "`use_tf_while_loop=True` and `use_tf_function=False` is not supported" },
        { &adder_class,
          &data,
          { .no_tf_while_loop = true, .tpu_summary_optimization = true },
          ET_ECONFIG,
          "`use_tpu_summary_optimization=True` and `use_tf_while_loop=False`" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        adder a;
        assert_fails(et_standard_trainer_init(&a.standard, cases[i].class, cases[i].data,
                                              &cases[i].options, error),
                     cases[i].status, cases[i].words);
        et_standard_trainer_release(&a.standard);
    }
    const et_standard_trainer_options both = { .no_tf_function = true, .no_tf_while_loop = true };
    et_arena arena = ET_ARENA_INIT;
    adder a = { .path = NULL };
    assert_ok(et_standard_trainer_init(&a.standard, &adder_class, &data, &both, error));
    assert_fails(et_trainer_train(&a.standard.trainer, 4, et_value_dict(&arena), error), ET_EDATA,
                 "the data ended at step 4");
    words[0] = 0; /* a loop that failed has ended */
    assert_fails(et_trainer_train(&a.standard.trainer, 1, et_value_dict(&arena), error), ET_EDATA,
                 "the data ended at step 4");
    assert_string_equal(words, "( ");
    assert_fails(et_trainer_train(&a.standard.trainer, -1, NULL, error), ET_ECONFIG, "at least 0");
    assert_fails(et_standard_trainer_set_dataset(&a.standard, &nothing, error), ET_EUSAGE,
                 "has no source");
    assert_fails(et_trainer_train(&a.standard.trainer, 1, et_value_dict(&arena), error), ET_EDATA,
                 "the data ended at step 4"); /* the last log stays */
    et_arena_release(&arena);
    et_standard_trainer_release(&a.standard);
    et_source_close(source);
}

/* A trainer that reports another step than it was given. */
static int train_too_far(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error)
{
    (void)logs, (void)error;
    self->step += num_steps + 1;
    return ET_OK;
}

static int step_by_itself(et_trainer *self, et_error *error)
{
    (void)error;
    self->step++;
    return ET_OK;
}

static void test_standard__step_mismatch(void **state)
{
    (void)state;
    static const et_trainer_class far = { .name = "far", .train = train_too_far };
    static const et_trainer_class counts = { .name = "counts", .step = step_by_itself };
    et_trainer t = { .class = &far, .step = 3 };
    assert_fails(et_trainer_train(&t, 5, NULL, error), ET_EFAIL, "from step 3 to 8, but is at 9");
    t = (et_trainer){ .class = &counts };
    assert_fails(et_trainer_train(&t, 2, NULL, error), ET_EFAIL, "from step 0 to 1, but is at 2");
}

/* ---- evaluation ---- */

/* All data, parts of them, and more than there are. */
static void test_standard__recreate(void **state)
{
    static const struct {
        bool keep;
        int64_t limit, sums[3];
    } cases[] = {
        { false, 0, { 45, 45, 45 } },
        { true, 4, { 6, 22, 17 } },
        { false, 12, { 45, 45, 45 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_standard_evaluator_options options = { .keep_iterator = cases[i].keep };
        for (int stateless = 0; stateless < 2; stateless++) {
            et_source *source = range(0, 10, false);
            et_source_tree data = { .source = source };
            summer s = { .stateless = stateless };
            assert_ok(
                et_standard_evaluator_init(&s.standard, &summer_class, &data, &options, error));
            assert_string_equal(et_module_name(s.standard.evaluator.module), "validation");
            for (int k = 0; k < 3; k++)
                assert_int_equal(evaluate(&s.standard, cases[i].limit), cases[i].sums[k]);
            assert_ok(et_standard_evaluator_set_dataset(&s.standard, &data, error));
            assert_int_equal(evaluate(&s.standard, cases[i].limit), cases[i].sums[0]);
            et_standard_evaluator_release(&s.standard);
            et_source_close(source);
        }
    }
}

/* A trainer and two evaluators of one source, in turn: each continues after its own last batch. */
static void test_standard__one_source(void **state)
{
    (void)state;
    const et_standard_evaluator_options keeps = { .keep_iterator = true };
    et_source *source = range(0, 10, true);
    et_source_tree data = { .source = source };
    adder a = { .path = NULL };
    summer fresh = { .stateless = 0 }, kept = { .stateless = 0 };
    assert_ok(et_standard_trainer_init(&a.standard, &adder_class, &data, NULL, error));
    assert_ok(et_standard_evaluator_init(&fresh.standard, &summer_class, &data, NULL, error));
    assert_ok(et_standard_evaluator_init(&kept.standard, &summer_class, &data, &keeps, error));
    assert_int_equal(train(&a, 3), 3);
    assert_int_equal(evaluate(&fresh.standard, 5), 10);
    assert_int_equal(evaluate(&kept.standard, 5), 10);
    assert_int_equal(train(&a, 2), 10);
    assert_int_equal(evaluate(&kept.standard, 5), 35);
    assert_int_equal(evaluate(&fresh.standard, 5), 10);
    assert_int_equal(train(&a, 5), 45);
    et_standard_trainer_release(&a.standard);
    et_standard_evaluator_release(&fresh.standard);
    et_standard_evaluator_release(&kept.standard);
    et_source_close(source);
}

static void keep_warning(void *payload, et_log_level level, const char *text)
{
    (void)level;
    snprintf(payload, 200, "%s", text);
}

/* Fewer steps than requested are an error. */
static void test_standard__ends_early(void **state)
{
    (void)state;
    char told[200] = "";
    et_source *source = range(0, 3, false);
    et_source_tree data = { .source = source };
    summer s = { 0 };
    et_log_set(keep_warning, told);
    assert_ok(et_standard_evaluator_init(&s.standard, &summer_class, &data, NULL, error));
    evaluate(&s.standard, 3);
    assert_string_equal(told, "");
    evaluate(&s.standard, 0);
    assert_string_equal(told, "");
    evaluate(&s.standard, 5);
    assert_non_null(strstr(told, "validation: the data ended after 3 of 5 steps"));
    et_log_set(NULL, NULL);
    et_standard_evaluator_release(&s.standard);
    et_source_close(source);
}

static bool stop_at_third(void *payload)
{
    return ++*(int *)payload == 3;
}

/* A loop that is cut short begins again at its begin, kept or not; a failure ends in the same way.
 */
static void test_standard__cut_short(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        et_source *source = range(0, 10, false);
        et_source_tree data = { .source = source };
        et_standard_evaluator_options options = { .keep_iterator = keep };
        summer s = { 0 };
        int asked = 0;
        assert_ok(et_standard_evaluator_init(&s.standard, &summer_class, &data, &options, error));
        assert_int_equal(evaluate(&s.standard, 4), 6);
        assert_fails(et_evaluate(&s.standard.evaluator, 0, 4, stop_at_third, &asked, NULL, error),
                     ET_EINTERRUPTED, "validation was interrupted");
        assert_int_equal(s.cut, 1);
        assert_int_equal(evaluate(&s.standard, 4), keep ? 22 : 6);
        et_standard_evaluator_release(&s.standard);
        et_source_close(source);
    }
}

static void test_standard__evaluator_refused(void **state)
{
    (void)state;
    et_source *source = range(0, 3, false);
    et_source_tree data = { .source = source };
    static const et_standard_evaluator_class no_step = { .name = "validation" };
    et_standard_evaluator_options options = { .tf_while_loop = true, .no_tf_function = true };
    summer s = { 0 };
    assert_fails(et_standard_evaluator_init(&s.standard, &no_step, &data, NULL, error), ET_EUSAGE,
                 "an eval_step");
    assert_fails(et_standard_evaluator_init(&s.standard, &summer_class, &data, &options, error),
                 ET_ECONFIG, "`use_tf_function=False` is not supported");
    options.no_tf_function = false;
    assert_ok(et_standard_evaluator_init(&s.standard, &summer_class, &data, &options, error));
    assert_fails(et_evaluate(&s.standard.evaluator, 0, 0, NULL, NULL, NULL, error), ET_ECONFIG,
                 "Looping until exhausted is not supported if `options.use_tf_while_loop` is");
    assert_int_equal(s.cut, 0); /* eval_end has nothing to end */
    assert_int_equal(evaluate(&s.standard, 2), 1);
    et_standard_evaluator_release(&s.standard);
    et_source_close(source);
}

/* ---- what resumes ---- */

static int trainer_attach(adder *a, et_state *tree, et_error *error)
{
    et_trainer *trainer = &a->standard.trainer;
    return trainer->class->attach(trainer, tree, error);
}

/* Step number i of loops of two steps, each followed by a pause: 0 1 | 0 1 | */
static void part_of_loops(adder *a, int i)
{
    et_arena arena = ET_ARENA_INIT;
    et_trainer *trainer = &a->standard.trainer;
    if (i % 3 < 2)
        assert_ok(trainer->class->step(trainer, error));
    else
        assert_ok(trainer->class->loop_end(trainer, et_value_dict(&arena), error));
    et_arena_release(&arena);
}

/* Saved in the middle of a loop, between loops, and before any data are read. */
static void test_standard__resumes(void **state)
{
    (void)state;
    for (int at = 0; at < 8; at++) {
        et_arena arena = ET_ARENA_INIT;
        et_source *sources[2];
        et_state *tree[2];
        et_value *saved;
        adder a[2];
        et_source_tree data[2];
        char rest[2][200];
        for (int i = 0; i < 2; i++) {
            sources[i] = range(0, 10, true);
            data[i] = (et_source_tree){ .source = sources[i] };
            a[i] = (adder){ .path = NULL };
            assert_ok(
                et_standard_trainer_init(&a[i].standard, &adder_class, &data[i], NULL, error));
            assert_ok(et_state_new(&tree[i], error));
            assert_ok(trainer_attach(&a[i], tree[i], error));
        }
        for (int i = 0; i < at; i++)
            part_of_loops(&a[0], i);
        assert_ok(et_state_save(tree[0], &saved, &arena, error));
        assert_ok(et_state_restore(tree[1], saved, error));
        for (int i = 0; i < 2; i++) {
            words[0] = 0;
            for (int k = at; k < 12; k++)
                part_of_loops(&a[i], k);
            snprintf(rest[i], sizeof rest[i], "%s", words);
        }
        assert_string_equal(rest[0], rest[1]);
        for (int i = 0; i < 2; i++) {
            et_state_free(tree[i]);
            et_standard_trainer_release(&a[i].standard);
            et_source_close(sources[i]);
        }
        et_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard__train),
        cmocka_unit_test(test_standard__nested_data),
        cmocka_unit_test(test_standard__refused),
        cmocka_unit_test(test_standard__step_mismatch),
        cmocka_unit_test(test_standard__recreate),
        cmocka_unit_test(test_standard__one_source),
        cmocka_unit_test(test_standard__ends_early),
        cmocka_unit_test(test_standard__cut_short),
        cmocka_unit_test(test_standard__evaluator_refused),
        cmocka_unit_test(test_standard__resumes),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
