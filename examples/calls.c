/* Training by calls, as with Orbit's Controller: the program decides when to train, evaluate, save
 * and restore. It exports the weights of each new best evaluation, and the average of all weights.
 * Then it evaluates every checkpoint again, as another process could do.
 *
 *     cc calls.c -o calls $(pkg-config --cflags --libs etude)
 *     ./calls RUN STEPS
 *
 * prints losses, exports and the best loss. If started again, the program resumes the run in the
 * directory RUN. */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 512, WIDTH = 4, BATCH = 32, LOOP = 25 };

typedef struct line {
    et_standard_trainer trainer;
    et_standard_evaluator evaluator;
    float x[ROWS][WIDTH], y[ROWS];
    et_device *device;
    et_params *params;
    et_source_tree data[2]; /* to train, to evaluate */
    et_pass *pass[2];
    et_optimizer *optimizer;
    double loss, rows; /* of an evaluation */
} line;

static line l;

/* ---- model and data: y is a weighted sum of x ---- */

static int open_data(int i, et_error *error)
{
    et_array arrays[] = { { "x", ET_F32, l.x, et_shape_1(WIDTH) },
                          { "y", ET_F32, l.y, et_shape_1(1) } };
    et_batches_options options = { .shuffle = !i, .repeat = !i, .capacity = { BATCH } };
    for (int n = 0; n < ROWS; n++) {
        l.y[n] = 0;
        for (int k = 0; k < WIDTH; k++) {
            l.x[n][k] = (float)((n * 7 + k * 13 + n * n * k) % 17) / 17;
            l.y[n] += (float)(k + 1) * l.x[n][k];
        }
    }

    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, 2, ROWS, error);
    return status ? status : et_batches_open(&l.data[i].source, samples, &options, error);
}

static void build(et_scope *s, void *payload)
{
    et_node *guess = et_dense(et_in(s, "line"), et_batch_input(s, "x"), 1);
    et_loss(s, "loss", et_squared_error(guess, et_batch_input(s, "y")), 1);
    (void)payload;
}

static int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    (void)self;
    int status = et_state_add_params(state, l.params, error);
    return status ? status : et_state_add_optimizer(state, "optimizer", l.optimizer, error);
}

static int train_step(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        status = et_pass_run(l.pass[0], batch, 1, (uint64_t)self->trainer.step, error);
    if (!status)
        status = et_optimizer_update(l.optimizer, l.pass[0], NULL, error);
    if (!status && et_trainer_records(&self->trainer))
        printf("step %d: loss %.4f\n", (int)self->trainer.step + 1,
               et_pass_loss(l.pass[0]) / et_pass_divisor(l.pass[0]));
    return status;
}

static int eval_step(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **outputs,
                     et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        status = et_pass_run(l.pass[1], batch, 0, 0, error);
    if (!status) {
        l.loss += et_pass_loss(l.pass[1]);
        l.rows += et_pass_divisor(l.pass[1]);
    }
    (void)self;
    (void)outputs;
    return status;
}

static int eval_end(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    if (logs)
        et_value_set_float(logs, "loss", l.loss / l.rows);
    l.loss = l.rows = 0;
    (void)self;
    (void)state;
    (void)error;
    return ET_OK;
}

static int open_model(et_error *error)
{
    static const et_standard_trainer_class trains = { .name = "LineTrainer",
                                                      .attach = attach,
                                                      .train_step = train_step };
    static const et_standard_evaluator_class judges = { .name = "validation",
                                                        .eval_step = eval_step,
                                                        .eval_end = eval_end };
    const et_optimizer_setup setup = { .learning_rate = 0.05,
                                       .settings = "{ema: {enabled: true}}" };

    int status = et_device_open(&l.device, error);
    if (!status)
        status = et_params_new(&l.params, error);
    for (int i = 0; i < 2 && !status; i++) {
        const et_pass_options pass = { .training = !i };
        status = open_data(i, error);
        if (!status)
            status = et_pass_open(&l.pass[i], l.device, l.params, &l.data[i].source->layout, build,
                                  NULL, &pass, error);
    }
    if (!status)
        status = et_params_materialize(l.params, false, error);
    if (!status)
        status = et_optimizer_open(&l.optimizer, l.device, l.params, NULL, &setup, error);
    if (status)
        return status;

    et_init_draw(l.params, 1);
    et_optimizer_start(l.optimizer); /* the average begins with these weights */
    status = et_standard_trainer_init(&l.trainer, &trains, &l.data[0], NULL, error);
    return status ? status
                  : et_standard_evaluator_init(&l.evaluator, &judges, &l.data[1], NULL, error);
}

static void close_model(void)
{
    et_standard_trainer_release(&l.trainer);
    et_standard_evaluator_release(&l.evaluator);
    et_optimizer_free(l.optimizer);
    for (int i = 0; i < 2; i++) {
        et_pass_close(l.pass[i]);
        et_source_close(l.data[i].source);
    }
    et_params_free(l.params);
    et_device_close(l.device);
}

/* ---- what happens after an evaluation ---- */

typedef struct after {
    et_new_best *best;
    et_exports *exports, *averages;
    et_export_action export, average;
    et_conditional when_best;
    et_action *export_alone[1], *actions[2];
} after;

static int open_after(after *a, const char *run, et_error *error)
{
    char best[512], exports[512], averages[512];
    snprintf(best, sizeof best, "%s/best_loss.json", run);
    snprintf(exports, sizeof exports, "%s/export", run);
    snprintf(averages, sizeof averages, "%s/average", run);
    const et_new_best_options lowest = { .metric = "loss",
                                         .lower_is_better = true,
                                         .filename = best };
    const et_exports_options by_update = { .next_id = et_exports_by_iterations,
                                           .payload = l.optimizer };

    int status = et_new_best_open(&a->best, &lowest, error);
    if (!status)
        status = et_exports_open(&a->exports, exports, 2, NULL, error);
    if (!status)
        status = et_exports_open(&a->averages, averages, 1, &by_update, error);
    if (!status)
        status = et_average_export_init(&a->average, "average", a->averages, l.optimizer, l.params,
                                        NULL, error);
    if (status)
        return status;

    et_export_action_init(&a->export, "export", a->exports, l.params, NULL);
    a->export_alone[0] = &a->export.action;
    et_conditional_init(&a->when_best, "export_best", et_new_best_holds, a->best, a->export_alone,
                        1);
    a->actions[0] = &a->when_best.action;
    a->actions[1] = &a->average.action;
    return ET_OK;
}

static void close_after(after *a)
{
    et_new_best_close(a->best);
    et_exports_close(a->exports);
    et_exports_close(a->averages);
}

/* What there is by now, and whether logs would be a new best. */
static int show_after(const after *a, const et_value *logs, et_arena *arena, et_error *error)
{
    double loss;
    bool is_new;
    et_value *all = et_value_dict(arena), *paths = et_value_set_list(all, "exports");
    int status = et_exports_managed(a->exports, paths, error);
    if (!status)
        status = et_new_best_metric(a->best, logs, &loss, error);
    if (!status)
        status = et_new_best_test(a->best, logs, &is_new, error);
    if (status)
        return status;
    for (const et_value *path = paths->first; path; path = path->next)
        printf("exported: %s\n", path->string);
    printf("loss %.6f, best %.6f%s\n", loss, et_new_best_value(a->best), is_new ? ", new" : "");
    return ET_OK;
}

/* ---- training ---- */

static int train(et_controller *controller, int64_t steps, et_value *logs, et_error *error)
{
    int64_t step;
    int status = et_controller_restore(controller, NULL, &step, error);
    if (status)
        return status;
    printf("%s %d, loops of %d steps\n", step < 0 ? "starts at" : "resumes from",
           (int)et_controller_step(controller), (int)et_controller_steps_per_loop(controller));

    status = et_controller_train_to(controller, steps / 2, true, error);
    if (!status)
        status = et_controller_save(controller, error);
    if (!status)
        status = et_controller_train_and_evaluate(controller, steps, -1, 2 * LOOP, logs, error);
    return status ? status : et_controller_evaluate(controller, -1, logs, error);
}

static int train_by_calls(const char *run, int64_t steps, et_arena *arena, et_error *error)
{
    after a = { 0 };
    et_controller *controller = NULL;
    et_value *logs = et_value_dict(arena);
    et_outer_loop_options outer = { .eval_actions = a.actions, .eval_action_count = 2 };
    et_controller_options options = { .trainer = &l.trainer.trainer,
                                      .evaluator = &l.evaluator.evaluator,
                                      .outer_loop = &outer,
                                      .steps_per_loop = LOOP,
                                      .summary_interval = 2 * LOOP,
                                      .checkpoint_interval = 2 * LOOP,
                                      .run.model_dir = run };
    int status = open_after(&a, run, error);
    if (!status)
        status = et_controller_open(&controller, &options, error);
    if (!status)
        status = train(controller, steps, logs, error);
    int closed = et_controller_close(controller, status ? NULL : error);
    if (!status)
        status = closed;
    if (!status)
        status = show_after(&a, logs, arena, error);
    close_after(&a);
    return status;
}

/* ---- another process, which only evaluates ---- */

static int evaluate_all(const char *run, et_arena *arena, et_error *error)
{
    et_controller *controller = NULL;
    et_value *logs = et_value_dict(arena);
    et_outer_loop_options outer = { .weights = l.params };
    et_controller_options options = { .evaluator = &l.evaluator.evaluator,
                                      .outer_loop = &outer,
                                      .run.model_dir = run };
    int status = et_controller_open(&controller, &options, error);
    if (!status) /* ends as soon as there is no newer checkpoint */
        status = et_controller_evaluate_continuously(controller, -1, 0, NULL, NULL, logs, error);
    double loss = 0;
    if (!status)
        status = et_value_read_float(logs, "loss", &loss, error);
    if (!status)
        printf("evaluated up to step %d: loss %.6f\n", (int)et_controller_step(controller), loss);
    int closed = et_controller_close(controller, status ? NULL : error);
    return status ? status : closed;
}

/* An export of each checkpoint that the run keeps. */
static int export_all(const char *run, et_error *error)
{
    char base[512];
    snprintf(base, sizeof base, "%s/step", run);
    et_exports *exports;
    int64_t id = 0;
    int status = et_exports_open(&exports, base, -1, NULL, error);
    if (status)
        return status;
    status = et_exports_follow(exports, run, NULL, error);
    for (int64_t last = -1; !status && id >= 0; last = id) {
        const char *path;
        status = et_exports_wait(exports, last, 0, &id, &path, error);
        if (!status && id >= 0)
            printf("checkpoint %d: %s\n", (int)id, path);
    }
    et_exports_close(exports);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s RUN STEPS\n", argv[0]);
        return 2;
    }

    et_error error = ET_ERROR_INIT;
    et_arena *arena = et_arena_new();
    et_log_to_stderr();
    int status = open_model(&error);
    if (!status)
        status = train_by_calls(argv[1], atoi(argv[2]), arena, &error);
    if (!status)
        status = evaluate_all(argv[1], arena, &error);
    if (!status)
        status = export_all(argv[1], &error);
    if (status)
        fprintf(stderr, "%s\n", error.text);

    close_model();
    et_arena_free(arena);
    return status ? 1 : 0;
}
