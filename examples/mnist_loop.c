/* Handwritten digits by a loop that the program owns: 784-512-512-10 with dropout, stopped early.
 * doc/your-loop.md explains the program.
 *
 *     cc mnist_loop.c -o mnist_loop $(pkg-config --cflags --libs etude)
 *     ./mnist_loop RUN DATA [EPOCHS]
 *
 * DATA has the four files of MNIST, as they are (*-ubyte.gz; gzip reads them). "-": noise with a
 * brighter part for each digit, to try the program. 5,000 images of the training set are held out
 * to choose the best epoch. Prints a line for each epoch, then the accuracy on the test set: more
 * than 98.4 % after 20 epochs. Killed and started again, the program resumes. */
#define _POSIX_C_SOURCE 200809L
#include <etude/etude.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 784, TRAIN = 55000, VALID = 5000, TEST = 10000, IMAGES = 60000, BATCH = 128 };

typedef struct program {
    et_device *device;
    et_params *params;
    et_source *train, *valid, *test;
    et_batch *batch; /* of what is not trained on */
    et_pass *learn, *judge;
    et_optimizer *optimizer;
} program;

static float pixels[IMAGES + TEST][PIXELS]; /* the training set, then the test set */
static int32_t digits[IMAGES + TEST];
/* A part of an IDX file: behind a head a byte for each pixel or digit. */
static int read_bytes(const char *folder, const char *set, const char *part, size_t head,
                      unsigned char *bytes, size_t count, et_error *error)
{
    char command[4096];
    snprintf(command, sizeof command, "gzip -dc '%s/%s-%s-ubyte.gz'", folder, set, part);
    FILE *pipe = popen(command, "r");
    size_t got = pipe && fread(bytes, 1, head, pipe) == head ? fread(bytes, 1, count, pipe) : 0;
    if (pipe && pclose(pipe) != -1 && got == count)
        return ET_OK;
    return et_fail(error, ET_EDATA, "%s/%s-%s-ubyte.gz: not there, or not MNIST", folder, set,
                   part);
}

static int read_set(const char *folder, const char *set, int first, int count, et_error *error)
{
    static unsigned char bytes[(size_t)IMAGES * PIXELS];
    if (read_bytes(folder, set, "images-idx3", 16, bytes, (size_t)count * PIXELS, error))
        return error->status;
    for (int i = 0; i < count * PIXELS; i++)
        pixels[first + i / PIXELS][i % PIXELS] = (float)bytes[i] / 255;
    int status = read_bytes(folder, set, "labels-idx1", 8, bytes, (size_t)count, error);
    for (int i = 0; i < count && !status; i++)
        digits[first + i] = bytes[i];
    return status;
}

static int make_noise(void)
{
    for (int i = 0, k; i < (IMAGES + TEST) * PIXELS; i++) {
        k = digits[i / PIXELS] = i / PIXELS % 10;
        pixels[i / PIXELS][i % PIXELS] = (float)rand() / 2.2e9f * (i % PIXELS / 79 == k ? 1 : 0.8f);
    }
    return ET_OK;
}

static int open_source(et_source **out, int first, int count, bool shuffle, et_error *error)
{
    et_array arrays[] = { { "pixels", ET_F32, pixels[first], et_shape_1(PIXELS) },
                          { "digits", ET_I32, digits + first, et_shape_scalar() } };
    et_batches_options options = { .shuffle = shuffle, .repeat = true, .capacity = { BATCH } };
    et_samples *samples;
    return et_arrays_open(&samples, arrays, 2, count, error) ||
           et_batches_open(out, samples, &options, error);
}

static void build(et_scope *s, void *unused)
{
    et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    et_node *h = et_dropout(et_in(s, "seen"), et_batch_input(s, "pixels"), 0.2f);
    h = et_dropout(et_in(s, "kept0"), et_dense_with(et_in(s, "hidden0"), h, 512, &relu), 0.4f);
    h = et_dropout(et_in(s, "kept1"), et_dense_with(et_in(s, "hidden1"), h, 512, &relu), 0.4f);
    h = et_dense(et_in(s, "logits"), h, 10);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "digits"), 0), 1);
    (void)unused;
}

static int open_all(program *p, const char *data, et_error *error)
{
    et_schedule_cosine rate = { .initial_learning_rate = 0.001,
                                .decay_steps = 8600 }; /* 20 epochs */
    et_optimizer_setup adam = { .cosine = &rate };
    et_pass_options training = { .training = true };
    if ((!strcmp(data, "-") ? make_noise()
                            : read_set(data, "train", 0, IMAGES, error) ||
                                  read_set(data, "t10k", IMAGES, TEST, error)) ||
        et_device_open(&p->device, error) || et_params_new(&p->params, error) ||
        open_source(&p->train, 0, TRAIN, true, error) ||
        open_source(&p->valid, TRAIN, VALID, false, error) ||
        open_source(&p->test, IMAGES, TEST, false, error) ||
        et_batch_new(&p->batch, &p->valid->layout, error) ||
        et_pass_open(&p->learn, p->device, p->params, &p->train->layout, build, NULL, &training,
                     error) ||
        et_pass_open(&p->judge, p->device, p->params, &p->valid->layout, build, NULL, NULL,
                     error) ||
        et_params_materialize(p->params, false, error) ||
        et_optimizer_open(&p->optimizer, p->device, p->params, NULL, &adam, error))
        return error->status;
    et_init_draw(p->params, 1);
    return ET_OK;
}

/* The share of a source's images that are told right. */
static double accuracy(program *p, et_source *source, int count, et_error *error)
{
    double right = 0;
    for (int i = 0; i < count; i += BATCH) {
        if (et_source_next(source, p->batch, error) || et_pass_run(p->judge, p->batch, 0, 0, error))
            return 0;
        for (int m = 0; m < et_pass_measures(p->judge); m++)
            if (!strcmp(et_pass_measured(p->judge, m).name, "accuracy"))
                right += et_pass_measured(p->judge, m).total;
    }
    return right / count;
}

static int run(program *p, et_loop *loop, et_error *error)
{
    et_loop_print_training_summary(loop);
    while (et_loop_next_epoch(loop)) {
        while (et_loop_next_step(loop, p->train)) {
            uint64_t step = (uint64_t)et_loop_step(loop);
            if (et_pass_run(p->learn, et_loop_step_data(loop), 1, step, error) ||
                et_optimizer_update(p->optimizer, p->learn, NULL, error))
                et_loop_fail(loop, error);
            et_loop_collect(loop, "loss", et_pass_loss(p->learn) / et_pass_divisor(p->learn));
        }
        et_loop_collect(loop, "valid_acc", accuracy(p, p->valid, VALID, error));
        et_loop_print_logs(loop);
    }
    return et_loop_end(loop, error); /* the best epoch's parameters are back */
}

int main(int argc, char **argv)
{
    static program p;
    et_error error = ET_ERROR_INIT;
    et_loop *loop = NULL;
    et_loop_options options = { .checkpoint_epoch_freq = 1, .early_stopping = true };

    et_log_to_stderr();

    if (argc < 3) {
        fprintf(stderr, "usage: %s RUN DATA [EPOCHS]\n", argv[0]);
        return 2;
    }

    options.valid_metric_name = "valid_acc";
    options.checkpoint_dir = options.summary_dir = argv[1];
    options.max_epoch = argc > 3 ? atoi(argv[3]) : 20;

    if (!open_all(&p, argv[2], &error) && !et_loop_open(&loop, p.params, &options, &error) &&
        !et_state_add_optimizer(et_loop_state(loop), "optimizer", p.optimizer, &error) &&
        !et_loop_begin(loop, &error) && !run(&p, loop, &error))
        printf("test accuracy: %.2f %%\n", 100 * accuracy(&p, p.test, TEST, &error));

    et_loop_close(loop);
    et_optimizer_free(p.optimizer);
    et_pass_close(p.learn);
    et_pass_close(p.judge);
    et_batch_free(p.batch);
    et_source_close(p.train);
    et_source_close(p.valid);
    et_source_close(p.test);
    et_params_free(p.params);
    et_device_close(p.device);
    if (error.status)
        fprintf(stderr, "%s\n", error.text);
    return error.status != 0;
}
