/* Handwritten digits by a convolutional network: 3 x 3 filters and pooling twice, 128 units,
 * dropout. Images are shifted by up to two pixels. Shows the model object with images, a source of
 * the program's own, a schedule, and a run that resumes.
 *
 *     cc mnist_cnn.c -o mnist_cnn $(pkg-config --cflags --libs etude)
 *     ./mnist_cnn RUN DATA [EPOCHS]
 *
 * DATA has the four files of MNIST, as they are (*-ubyte.gz; gzip reads them). 5,000 images of the
 * training set are held out for validation. Prints a line for each epoch, then the accuracy on the
 * test set: at least 99.25 % after 12 epochs. Killed and started again, it resumes. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/etude.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, TRAIN = 55000, IMAGES = 60000, TEST = 10000, BATCH = 128 };

static float pixels[IMAGES + TEST][PIXELS]; /* the training set, then the test set */
static int32_t digits[IMAGES + TEST];

/* ---- files ---- */

/* A part of an IDX file: after a head, a byte for each pixel or digit. */
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

/* ---- batches ---- */

/* Where each image goes is counted by epoch and sample: a run that resumes sees the same. */
static int move(void *unused, et_batch *batch, et_error *error)
{
    (void)unused, (void)error;
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
    return ET_OK;
}

static int open_source(et_source **out, int first, int count, bool train, et_error *error)
{
    et_array arrays[] = { { ET_MODEL_X, ET_F32, pixels[first], et_shape_3(SIDE, SIDE, 1) },
                          { ET_MODEL_Y, ET_I32, digits + first, et_shape_scalar() } };
    et_batches_options options = { .shuffle = train, .repeat = train, .capacity = { BATCH } };
    et_samples *samples;
    return et_arrays_open(&samples, arrays, 2, count, error) ||
           et_batches_open(out, samples, &options, error) ||
           (train && et_map_open(out, *out, move, NULL, error));
}

/* ---- the network ---- */

static void build(et_scope *s, void *unused)
{
    et_conv2d_options same = { .window.same = true, .activation = ET_ACTIVATION_RELU };
    et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    et_pool_options two = { .window = { 2, 2 } };
    (void)unused;

    et_node *h = et_batch_input(s, ET_MODEL_X);
    h = et_max_pool(et_conv2d(et_in(s, "conv0"), h, 32, 3, 3, &same), &two);
    h = et_max_pool(et_conv2d(et_in(s, "conv1"), h, 64, 3, 3, &same), &two);
    h = et_reshape(h, et_shape_2(et_node_shape(h).size[0], PIXELS / 16 * 64));

    h = et_dropout(et_in(s, "kept0"), h, 0.25f);
    h = et_dropout(et_in(s, "kept1"), et_dense_with(et_in(s, "hidden"), h, 128, &relu), 0.5f);
    h = et_dense(et_in(s, "logits"), h, 10);

    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
    et_output(s, "scores", et_softmax(h));
}

/* ---- training ---- */

static int test(et_model *model, et_error *error)
{
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    double accuracy;
    int status = et_model_evaluate(model, pixels[IMAGES], digits + IMAGES, TEST, logs, error) ||
                 et_value_read_float(logs, "validation_accuracy", &accuracy, error);
    if (!status)
        printf("test accuracy: %.2f %%\n", 100 * accuracy);
    et_arena_free(arena);
    return status;
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    et_model *model = NULL;
    et_source *train = NULL, *valid = NULL;
    et_schedule_cosine cosine = { .initial_learning_rate = 0.001 }; /* to 0 with the last step */
    et_model_options options = {
        .x = et_shape_3(SIDE, SIDE, 1), .y_type = ET_I32, .optimizer.cosine = &cosine, .seed = 1
    };

    if (argc < 3) {
        fprintf(stderr, "usage: %s RUN DATA [EPOCHS]\n", argv[0]);
        return 2;
    }
    et_log_to_stderr();

    et_fit fit = { .epochs = argc > 3 ? atoi(argv[3]) : 12,
                   .run_dir = argv[1],
                   .verbose = ET_FIT_LINES };
    if (read_set(argv[2], "train", 0, IMAGES, &error) ||
        read_set(argv[2], "t10k", IMAGES, TEST, &error) ||
        open_source(&train, 0, TRAIN, true, &error) ||
        open_source(&valid, TRAIN, IMAGES - TRAIN, false, &error) ||
        et_model_open(&model, build, NULL, &options, &error) ||
        et_model_summary(model, stdout, &error))
        fprintf(stderr, "%s\n", error.text);

    fit.validation = valid;
    if (!error.status && (et_model_fit(model, train, &fit, &error) || test(model, &error)))
        fprintf(stderr, "%s\n", error.text);

    et_model_close(model);
    et_source_close(train);
    et_source_close(valid);
    return error.status != 0;
}
