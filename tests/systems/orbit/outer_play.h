/* A trainer with an evaluator under an outer loop, both with hooks. Events are recorded as words:
 *
 *     L4     an inner loop ended after step 4     t4   the train action
 *     V5     an evaluation                        e5   the evaluation action
 *
 * Include after cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_OUTER_PLAY_H
#define ETUDE_TESTS_TRAIN_OUTER_PLAY_H

#include <etude/outer_loop.h>

#include <math.h>
#include <sys/wait.h>

#include <etude/optimizer.h>
#include <etude/standard.h>

#include "base/arena.h"
#include "formats/files.h"
#include "train/kept.h"
#include "train/logged.h"
#include "train/said.h"

enum { NUMBERS = 12, BATCH = 2, VALIDATION = 5 };

typedef struct play play;

typedef struct acting {
    et_action action;
    play *play;
    int64_t stops_at; /* asks to end the run at this step; 0: never */
} acting;

/* The state of one process. A weight follows the numbers that are read. */
struct play {
    et_standard_trainer trainer;
    et_standard_evaluator evaluator;
    et_params *params;
    et_source *training, *validation;
    et_source_tree training_data, validation_data;
    acting train_action, eval_action;
    et_outer_loop_options outer;
    et_controller_options options;
    et_controller *controller;
    volatile sig_atomic_t stop;
    bool nested, silent; /* values of the evaluator: in groups; none */
    int64_t loop_sum, stop_after;
    int steps_read, countdown, breaks;
    bool keep;    /* the evaluator's place in its data */
    int pause_us; /* of a step */
    char told[4096];
};

static int32_t numbers[NUMBERS];

static inline play *of_trainer(et_standard_trainer *self)
{
    return (play *)(void *)((char *)self - offsetof(play, trainer));
}

static inline play *of_evaluator(et_standard_evaluator *self)
{
    return (play *)(void *)((char *)self - offsetof(play, evaluator));
}

static inline int broken(play *p, et_error *error)
{
    if (!p->countdown || --p->countdown)
        return ET_OK;
    return p->breaks == ET_EINTERRUPTED ? ET_EINTERRUPTED : et_fail(error, p->breaks, "broken");
}

static inline int save_play(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    return !et_value_set_int(dict, "loop_sum", ((const play *)self)->loop_sum);
}

static inline int restore_play(void *self, const et_value *dict, et_error *error)
{
    return et_value_read_int(dict, "loop_sum", &((play *)self)->loop_sum, error);
}

static const et_part_class play_part = { "play", save_play, restore_play };

static inline int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    play *p = of_trainer(self);
    int status = et_state_add_params(state, p->params, error);
    return status ? status : et_state_add(state, "play", &play_part, p, error);
}

static inline int begin_loop(et_standard_trainer *self, et_error *error)
{
    (void)error;
    of_trainer(self)->loop_sum = 0;
    return ET_OK;
}

static inline int step(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
{
    play *p = of_trainer(self);
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (status)
        return status;
    const int32_t *read = batch->data[0];
    usleep((useconds_t)p->pause_us);
    et_params_begin_change(p->params);
    for (int i = 0; i < BATCH; i++) {
        et_params_values(p->params)[i] = et_params_values(p->params)[i] * 0.75f + (float)read[i];
        p->loop_sum += read[i];
    }
    et_params_changed(p->params, true);
    p->stop = self->trainer.step + 1 == p->stop_after;
    return ET_OK;
}

static inline int end_loop(et_standard_trainer *self, et_value *logs, et_error *error)
{
    play *p = of_trainer(self);
    int status = broken(p, error);
    if (status)
        return status;
    say("L%d ", (int)self->trainer.step);
    et_value_set_int(logs, "sum", p->loop_sum);
    et_value_set_float(et_value_set_dict(logs, "weight"), "first", et_params_values(p->params)[0]);
    return ET_OK;
}

static const et_standard_trainer_class trainer_class = { .name = "Play",
                                                         .attach = attach,
                                                         .train_loop_begin = begin_loop,
                                                         .train_step = step,
                                                         .train_loop_end = end_loop };

static inline int begin_evaluation(et_standard_evaluator *self, void **state, et_error *error)
{
    (void)error, (void)state;
    of_evaluator(self)->steps_read = 0;
    return ET_OK;
}

static inline int evaluate_step(et_standard_evaluator *self, et_source_tree_cursor *cursor,
                                void **outputs, et_error *error)
{
    const et_batch *batch;
    (void)outputs;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    of_evaluator(self)->steps_read += !status;
    return status;
}

static inline int end_evaluation(et_standard_evaluator *self, void *state, et_value *logs,
                                 et_error *error)
{
    play *p = of_evaluator(self);
    int status = logs ? broken(p, error) : ET_OK;
    (void)state;
    if (status || !logs)
        return status;
    say("V%d ", p->controller ? (int)et_controller_step(p->controller) : 0);
    if (p->silent)
        return ET_OK;
    et_value *to = p->nested ? et_value_set_dict(et_value_set_dict(logs, "sets"), "one") : logs;
    et_value_set_int(to, "steps", p->steps_read);
    et_value_set_float(to, "first", et_params_values(p->params)[0]);
    et_value_set_float(to, "unknown", NAN);
    return ET_OK;
}

static const et_standard_evaluator_class evaluator_class = { .name = "validation",
                                                             .eval_begin = begin_evaluation,
                                                             .eval_step = evaluate_step,
                                                             .eval_end = end_evaluation };

/* It gets the values at its step. */
static inline int act(et_action *self, const et_action_context *now, et_error *error)
{
    acting *a = (acting *)self;
    int status = broken(a->play, error);
    if (status)
        return status;
    bool train = self == &a->play->train_action.action;
    assert_non_null(now->logs);
    if (!a->play->silent && !a->play->nested)
        assert_non_null(et_value_get(now->logs, train ? "sum" : "steps"));
    assert_null(et_value_get(now->logs, "time"));
    say("%s%d ", self->class->name, (int)now->step);
    *now->stop = *now->stop || now->step == a->stops_at;
    return ET_OK;
}

static const et_action_class class_t = { .name = "t", .act = act };
static const et_action_class class_e = { .name = "e", .act = act };

static inline void tell(void *self, const char *text)
{
    play *p = self;
    size_t length = strlen(p->told);
    snprintf(p->told + length, sizeof p->told - length, "%s\n", text);
}

static inline et_source *open_numbers(int count, bool training)
{
    et_samples *samples;
    et_source *source;
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i + 1;
    et_array arrays[] = { { "n", ET_I32, numbers, et_shape_scalar() } };
    et_batches_options options = {
        .seed = 3, .shuffle = training, .repeat = training, .capacity = { training ? BATCH : 1 }
    };
    assert_ok(et_arrays_open(&samples, arrays, 1, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

/* All but the controller. */
static inline void prepare(play *p, const char *directory)
{
    static et_action *train_actions[1], *eval_actions[1];
    et_init zeros = { ET_INIT_ZEROS, 0 };
    et_standard_evaluator_options evaluator = { .keep_iterator = p->keep };
    int index;
    assert_ok(et_params_new(&p->params, error));
    assert_ok(et_params_declare(p->params, "w", et_shape_1(BATCH), zeros, &index, error));
    assert_ok(et_params_materialize(p->params, false, error));
    p->training = open_numbers(NUMBERS, true);
    p->validation = open_numbers(VALIDATION, false);
    p->training_data = (et_source_tree){ .source = p->training };
    p->validation_data = (et_source_tree){ .source = p->validation };
    assert_ok(
        et_standard_trainer_init(&p->trainer, &trainer_class, &p->training_data, NULL, error));
    assert_ok(et_standard_evaluator_init(&p->evaluator, &evaluator_class, &p->validation_data,
                                         &evaluator, error));
    p->train_action.action.class = &class_t;
    p->eval_action.action.class = &class_e;
    p->train_action.play = p->eval_action.play = p;
    train_actions[0] = &p->train_action.action;
    eval_actions[0] = &p->eval_action.action;
    p->outer.train_actions = train_actions;
    p->outer.eval_actions = eval_actions;
    p->outer.train_action_count = p->outer.eval_action_count = 1;
    p->options.outer_loop = &p->outer;
    p->options.trainer = &p->trainer.trainer;
    p->options.evaluator = &p->evaluator.evaluator;
    p->options.run.model_dir = directory;
    p->options.run.max_to_keep = -1; /* all */
    p->options.run.stop = &p->stop;
    p->options.run.observer.self = p;
    p->options.run.observer.tell = tell;
}

static inline void finish(play *p)
{
    assert_ok(et_controller_close(p->controller, error));
    et_standard_trainer_release(&p->trainer);
    et_standard_evaluator_release(&p->evaluator);
    et_source_close(p->training);
    et_source_close(p->validation);
    et_params_free(p->params);
}

static inline void begin(play *p, const char *directory)
{
    prepare(p, directory);
    assert_ok(et_controller_open(&p->controller, &p->options, error));
}

/* Runs this program again, with that word: a child that was only forked has no threads of OpenMP.
 */
static inline pid_t start(const char *directory)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        execl("/proc/self/exe", "test", directory, (char *)NULL);
        _exit(127);
    }
    return child;
}

#endif
