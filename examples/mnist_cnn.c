/* Handwritten digits by a convolutional network under a trainer of the loop: 3 x 3 filters and
 * pooling twice, 128 units, dropout; images are moved by up to two pixels as they come.
 *     build/examples/mnist_cnn RUN DATA [EPOCHS]     at least 99.25 % after 12 epochs
 * DATA as for mnist_loop.c. 5,000 images of the training set are kept out to watch it learn.
 * Killed and started again, it resumes. */
#define _POSIX_C_SOURCE 200809L
#include <etude/etude.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, TRAIN = 55000, IMAGES = 60000, TEST = 10000, BATCH = 128 };
typedef struct program {
    et_device *device;
    et_params *params;
    et_source *train, *valid, *test;
    et_pass *learn, *judge;
    et_optimizer *optimizer;
    et_loop *loop;
    et_loop_trainer *trainer;
    et_loop_evaluator *evaluator;
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
/* Where each image goes is counted by epoch and sample: a run that resumes sees the same. */
static int move(void *unused, et_batch *batch, et_error *error)
{
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        float *image = (float *)batch->data[0] + i * PIXELS, moved[PIXELS] = { 0 };
        uint64_t n = ((uint64_t)batch->epoch << 32 | batch->sample[i]) * 0x9e3779b97f4a7c15u;
        n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u; /* splitmix64 */
        int down = (int)(n >> 40) % 5 - 2, right = (int)(n >> 52) % 5 - 2;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0, v = y + down, u = right; x < SIDE; x++, u++)
                if (v >= 0 && v < SIDE && u >= 0 && u < SIDE)
                    moved[y * SIDE + x] = image[v * SIDE + u];
        memcpy(image, moved, sizeof moved);
    }
    return (void)unused, (void)error, ET_OK;
}
static int open_source(et_source **out, int first, int count, bool train, et_error *error)
{
    et_array arrays[] = { { "pixels", ET_F32, pixels[first], et_shape_3(SIDE, SIDE, 1) },
                          { "digits", ET_I32, digits + first, et_shape_scalar() } };
    et_batches_options options = { .shuffle = train, .repeat = true, .capacity = { BATCH } };
    et_samples *samples;
    return et_arrays_open(&samples, arrays, 2, count, error) ||
           et_batches_open(out, samples, &options, error) ||
           (train && et_map_open(out, *out, move, NULL, error));
}
static void build(et_scope *s, void *unused)
{
    et_conv2d_options same = { .window.same = true, .activation = ET_ACTIVATION_RELU };
    et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    et_pool_options two = { .window = { 2, 2 } };
    et_node *h = et_batch_input(s, "pixels"), *labels = et_batch_input(s, "digits"), *right;
    h = et_max_pool(et_conv2d(et_in(s, "conv0"), h, 32, 3, 3, &same), &two);
    h = et_max_pool(et_conv2d(et_in(s, "conv1"), h, 64, 3, 3, &same), &two);
    h = et_reshape(h, et_shape_2(et_node_shape(h).size[0], PIXELS / 16 * 64));
    h = et_dropout(et_in(s, "kept0"), h, 0.25f);
    h = et_dropout(et_in(s, "kept1"), et_dense_with(et_in(s, "hidden"), h, 128, &relu), 0.5f);
    h = et_dense(et_in(s, "logits"), h, 10);
    et_loss(s, "loss", et_cross_entropy(h, labels, 0, NULL, &right), 1);
    et_node *count = et_sum(et_labelled(labels));
    et_measure(s, "accuracy", et_sum(right), count);
    et_output(s, "accuracy", et_div(et_sum(right), count));
    (void)unused;
}
static int open_all(program *p, const char *data, const et_loop_options *options, et_error *error)
{
    static const char rate[] = "{learning_rate: {type: cosine, cosine: {initial_learning_rate: "
                               "0.001, decay_steps: 5160}}}"; /* 12 epochs */
    static const et_loop_measure loss = { .name = "loss" };
    static const et_loop_measure accuracy = { .name = "valid_acc", .measure = "accuracy" };
    et_optimizer_setup adam = { .settings = rate };
    et_pass_options training = { .training = true };
    if (read_set(data, "train", 0, IMAGES, error) || read_set(data, "t10k", IMAGES, TEST, error) ||
        et_device_open(&p->device, error) || et_params_new(&p->params, error) ||
        open_source(&p->train, 0, TRAIN, true, error) ||
        open_source(&p->valid, TRAIN, IMAGES - TRAIN, false, error) ||
        open_source(&p->test, IMAGES, TEST, false, error) ||
        et_pass_open(&p->learn, p->device, p->params, &p->train->layout, build, NULL, &training,
                     error) ||
        et_pass_open(&p->judge, p->device, p->params, &p->valid->layout, build, NULL, NULL,
                     error) ||
        et_params_materialize(p->params, false, error) ||
        et_optimizer_open(&p->optimizer, p->device, p->params, NULL, &adam, error))
        return error->status;
    et_init_draw(p->params, 1);
    et_loop_evaluator_options judge = { .source = p->valid, .pass = p->judge };
    judge.metrics = &accuracy, judge.metric_count = 1;
    et_loop_trainer_options learn = { .source = p->train, .pass = p->learn, .seed = 1 };
    learn.optimizer = p->optimizer, learn.metrics = &loss, learn.metric_count = 1;
    return et_loop_open(&p->loop, p->params, options, error) ||
           et_state_add_optimizer(et_loop_state(p->loop), "optimizer", p->optimizer, error) ||
           et_loop_evaluator_open(&p->evaluator, p->loop, &judge, error) ||
           et_loop_trainer_open(&p->trainer, p->loop, &learn, error) ||
           et_loop_trainer_evaluate_after(p->trainer, p->evaluator, ET_EVERY_EPOCHS(1), error) ||
           et_loop_trainer_log_after(p->trainer, ET_EVERY_EPOCHS(1), error);
}
int main(int argc, char **argv)
{
    static program p;
    static const char *const name = "accuracy";
    et_error error = ET_ERROR_INIT;
    double accuracy;
    et_loop_options options = { .checkpoint_epoch_freq = 1, .checkpoint_max_to_keep = 2 };
    et_log_to_stderr();
    if (argc < 3)
        return fprintf(stderr, "usage: %s RUN DATA [EPOCHS]\n", argv[0]), 2;
    options.valid_metric_name = "valid_acc";
    options.checkpoint_dir = options.summary_dir = argv[1];
    options.max_epoch = argc > 3 ? atoi(argv[3]) : 12;
    if (!open_all(&p, argv[2], &options, &error) && !et_loop_begin(p.loop, &error) &&
        !et_loop_trainer_run(p.trainer, &error) && !et_loop_end(p.loop, &error) &&
        !et_outputs_average(&accuracy, NULL, p.judge, p.test, &name, 1, 0, &error))
        printf("test accuracy: %.2f %%\n", 100 * accuracy);
    et_loop_trainer_close(p.trainer), et_loop_evaluator_close(p.evaluator), et_loop_close(p.loop);
    et_optimizer_free(p.optimizer), et_pass_close(p.learn), et_pass_close(p.judge);
    et_source_close(p.train), et_source_close(p.valid), et_source_close(p.test);
    et_params_free(p.params), et_device_close(p.device);
    return error.status ? fprintf(stderr, "%s\n", error.text), 1 : 0;
}
