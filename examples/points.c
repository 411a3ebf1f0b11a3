/* More features of the model object of hello.c: a table of layers, validation and early stopping, a
 * run that resumes, evaluation, frozen weights, and the objects that the model consists of.
 *
 *     cc points.c -o points $(pkg-config --cflags --libs etude)
 *     ./points RUN
 *
 * prints the layers, a line for every tenth epoch, and the accuracy on the test set. Started again,
 * the program resumes the run in the directory RUN. */
#include <stdio.h>

#include <etude/etude.h>

enum { ROWS = 4000, WIDTH = 8, CLASSES = 4, TRAINED = 3200 };

static float x[ROWS][WIDTH];
static int y[ROWS];

static void build(et_scope *s, void *payload)
{
    et_node *h = et_batch_input(s, ET_MODEL_X);
    for (int i = 0; i < 2; i++) {
        h = et_relu(et_dense(et_at(s, "hidden", i), h, 64));
        h = et_dropout(et_at(s, "kept", i), h, 0.1f);
    }
    h = et_dense(et_in(s, "logits"), h, CLASSES);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
    et_output(s, "scores", et_softmax(h));
    (void)payload;
}

/* Which pair of coordinates has the largest sum? */
static void draw_points(void)
{
    unsigned long long number = 1;
    for (int i = 0; i < ROWS; i++) {
        float most = -9;
        for (int k = 0; k < WIDTH; k++) {
            number = number * 6364136223846793005ull + 1442695040888963407ull;
            x[i][k] = (float)(number >> 40) / (1 << 23) - 1;
        }
        for (int k = 0; k < CLASSES; k++)
            if (x[i][2 * k] + x[i][2 * k + 1] > most) {
                most = x[i][2 * k] + x[i][2 * k + 1];
                y[i] = k;
            }
    }
}

static int show_epoch(void *payload, int64_t epoch, const et_value *logs, bool *stop,
                      et_error *error)
{
    const et_model *model = payload;
    double accuracy;
    int status = et_value_read_float(logs, "validation_accuracy", &accuracy, error);
    if (!status && epoch % 10 == 0)
        printf("epoch %2d, step %5d, accuracy %.3f\n", (int)epoch,
               (int)et_controller_step(et_model_controller(model)), accuracy);
    *stop = !status && accuracy > 0.99;
    return status;
}

/* An update by the program's own hand, on the parts of the model. */
static int step_by_hand(et_model *model, et_source *source, et_error *error)
{
    const et_pass_options training = { .training = true };
    et_params *params = et_model_params(model);
    et_device *device = et_model_device(model);
    et_pass *pass = NULL;
    et_optimizer *sgd = NULL;
    et_batch *batch = NULL;
    const et_optimizer_setup setup = { .sgd = &(et_sgd){ .momentum = 0.9 } };
    int status =
        et_pass_open(&pass, device, params, &source->layout, build, NULL, &training, error);
    if (!status)
        status = et_optimizer_open(&sgd, device, params, "logits/", &setup, error);
    if (!status)
        status = et_batch_new(&batch, &source->layout, error);
    if (!status)
        status = et_source_next(source, batch, error);
    if (!status)
        status = et_pass_run(pass, batch, 1, 0, error);
    if (!status)
        status = et_optimizer_update(sgd, pass, NULL, error);
    if (!status)
        printf("by hand: loss %.3f of %s\n", et_pass_loss(pass) / et_pass_divisor(pass),
               et_pass_measured(et_model_pass(model), 0).name);
    et_batch_free(batch);
    et_optimizer_free(sgd);
    et_pass_close(pass);
    return status;
}

static int open_points(et_source **source, et_error *error)
{
    const et_array arrays[] = { { ET_MODEL_X, ET_F32, x, et_shape_1(WIDTH) },
                                { ET_MODEL_Y, ET_I32, y, et_shape_scalar() } };
    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, 2, TRAINED, error);
    return status ? status : et_batches_open(source, samples, NULL, error);
}

/* Trains a second model's last layer alone. */
static int tune(const et_model_options *options, const char *run, et_error *error)
{
    et_model *model;
    int status = et_model_open(&model, build, NULL, options, error);
    if (status)
        return status;
    et_params *params = et_model_params(model);
    const int logits = et_params_find(params, "logits/weight");
    status = et_model_load(model, run, error);
    if (!status)
        status = et_freeze(model, "hidden*", error);
    if (!status)
        status = et_model_fit_arrays(model, x, y, TRAINED, &(et_fit){ .epochs = 2 }, error);
    if (!status)
        printf("tuned: %d updates at a rate of %g, step %d; a weight of %s is %.3f\n",
               (int)et_optimizer_iterations(et_model_optimizer(model)),
               et_optimizer_learning_rate(et_model_optimizer(model)),
               (int)et_task_trainer_trainer(et_model_task_trainer(model))->step,
               et_params_name(params, logits),
               et_params_values(params)[et_params_offset(params, logits)]);
    et_source *source = NULL;
    if (!status)
        status = open_points(&source, error);
    if (!status)
        status = step_by_hand(model, source, error);
    et_source_close(source);
    et_model_close(model);
    return status;
}

static int evaluate(et_model *model, et_value *logs, et_error *error)
{
    float scores[CLASSES];
    double accuracy;
    const int rest = ROWS - TRAINED;
    int status = et_model_evaluate(model, x[TRAINED], y + TRAINED, rest, logs, error);
    if (!status)
        status = et_value_read_float(logs, "validation_accuracy", &accuracy, error);
    if (!status)
        status = et_model_predict(model, x[TRAINED], 1, scores, error);
    if (!status)
        printf("test accuracy %.3f; score of class %d of %d: %.3f\n", accuracy, y[TRAINED],
               (int)et_model_width(model), scores[y[TRAINED]]);
    return status;
}

int main(int argc, char **argv)
{
    et_adamw adamw = { .weight_decay_rate = 0.01 };
    et_schedule_cosine cosine = { .initial_learning_rate = 3e-3 };
    et_model_options options = { .x = et_shape_1(WIDTH),
                                 .y_type = ET_I32,
                                 .optimizer = { .adamw = &adamw, .cosine = &cosine } };
    et_error error = ET_ERROR_INIT;
    et_model *model = NULL;
    et_arena *arena = et_arena_new();

    if (argc != 2) {
        fprintf(stderr, "usage: %s RUN\n", argv[0]);
        return 2;
    }
    et_log_to_stderr();
    draw_points();
    int status = et_model_open(&model, build, NULL, &options, &error);
    et_fit fit = { .epochs = 40,
                   .batch_size = 64,
                   .validation_part = 0.2,
                   .patience = 10,
                   .run_dir = argv[1],
                   .callback = show_epoch,
                   .payload = model };
    if (!status)
        status = et_model_summary(model, stdout, &error);
    if (!status)
        status = et_model_fit_arrays(model, x, y, TRAINED, &fit, &error);
    if (!status)
        status = evaluate(model, et_value_dict(arena), &error);
    if (!status)
        status = tune(&options, argv[1], &error);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    et_model_close(model);
    et_arena_free(arena);
    return status != 0;
}
