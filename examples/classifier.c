/* A classifier of two arrays: a task, trained, evaluated and saved by Etude's trainer and
 * controller. doc/your-model.md explains the program.
 *
 *     cc classifier.c -o classifier $(pkg-config --cflags --libs etude)
 *     ./classifier RUN STEPS
 *
 * prints nothing; loss and accuracy are in RUN/metrics.jsonl. Started again, the program resumes.
 */
#include <etude/etude.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 32768, HELD_OUT = 2048, WIDTH = 784, CLASSES = 10 };
static float rows[ROWS][WIDTH]; /* noise, and more of it at the label's place */
static int32_t labels[ROWS];    /* counted */

static void build(et_task *self, et_scope *s, bool training)
{
    const et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    et_node *h = et_batch_input(s, "rows");
    for (int i = 0; i < 2; i++)
        h = et_dense_with(et_at(s, "hidden", i), h, 512, &relu);
    h = et_dense(et_in(s, "logits"), h, CLASSES);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "labels"), 0), 1);
    (void)self, (void)training; /* the same model in both */
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    int from = training ? HELD_OUT : 0, to = training ? ROWS : HELD_OUT;
    et_array arrays[] = { { "rows", ET_F32, rows[from], et_shape_1(WIDTH) },
                          { "labels", ET_I32, labels + from, et_shape_scalar() } };
    et_batches_options options = { .shuffle = training, .repeat = training, .capacity = { 128 } };
    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, 2, to - from, error);
    (void)self;
    return status ? status : et_batches_open(out, samples, &options, error);
}

int main(int argc, char **argv)
{
    static const et_task_class class = { .name = "classifier", .build = build, .data = data };
    et_error error = ET_ERROR_INIT;
    et_task task = { .class = &class };
    et_device *device = NULL;
    et_params *params = NULL;
    et_task_trainer *trainer = NULL;
    et_controller *controller = NULL;
    et_controller_options options = { .summary_interval = 500, .validation_interval = 500 };

    if (argc != 3) {
        fprintf(stderr, "usage: %s RUN STEPS\n", argv[0]);
        return 2;
    }

    et_log_to_stderr();
    options.run.model_dir = argv[1];
    options.run.best_metric = "validation_accuracy";
    options.train_steps = atoi(argv[2]);

    for (int i = 0; i < ROWS * WIDTH; i++) {
        labels[i / WIDTH] = i / WIDTH % CLASSES;
        rows[i / WIDTH][i % WIDTH] = (float)rand() / 2e9f + (i % WIDTH == labels[i / WIDTH]);
    }

    if (!et_device_open(&device, &error) && !et_params_new(&params, &error) &&
        !et_task_trainer_open(&trainer, &task, device, params, NULL, &error)) {
        options.trainer = et_task_trainer_trainer(trainer);
        options.evaluator = et_task_trainer_evaluator(trainer);
        if (!et_controller_open(&controller, &options, &error))
            et_controller_train(controller, &error);
    }

    et_controller_close(controller, error.status ? NULL : &error);
    et_task_trainer_close(trainer);
    et_params_free(params);
    et_device_close(device);
    if (error.status)
        fprintf(stderr, "%s\n", error.text);
    return error.status != 0;
}
