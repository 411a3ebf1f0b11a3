/* MNIST in the open division: the fastest way that was found to reach an accuracy on the test set.
 *
 *     quality_digits DATA EPOCHS WIDTH MOVES [SEED]
 *
 * DATA as for examples/mnist_loop.c. The model has three convolutions with batch norm, of WIDTH, 2
 * WIDTH and 4 WIDTH channels: 5 x 5 with a stride of two, 3 x 3, pooling, 3 x 3. Then follow the
 * logits. EPOCHS may be a fraction; images are shifted by up to MOVES pixels. Adam, batches of 64;
 * the rate rises for a tenth of the steps and falls to 0 along half a cosine. The last 5,000 images
 * of the training set are held out; EPOCHS, WIDTH and MOVES were chosen on them. The last line is
 * the test accuracy. */
#define _POSIX_C_SOURCE 200809L
#include <etude/etude.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 28,
    PIXELS = SIDE * SIDE,
    TRAIN = 55000,
    VALID = 5000,
    IMAGES = TRAIN + VALID,
    TEST = 10000,
    BATCH = 64,
    JUDGED = 250 /* images of a batch that is not trained on */
};
#define RATE 0.005

typedef struct program {
    const char *data;
    double epochs;
    int width, moves;
    uint64_t seed;
    et_device *device;
    et_params *params;
    et_source *train, *valid, *test;
    et_batch *batch, *judged;
    et_pass *learn, *judge;
    et_optimizer *optimizer;
} program;

static float pixels[IMAGES + TEST][PIXELS]; /* the training set, then the test set */
static int32_t digits[IMAGES + TEST];

/* ---- data ---- */

/* Reads a part of an IDX file: after a head, a byte for each pixel or digit. */
static int read_bytes(const char *folder, const char *part, size_t head, unsigned char *bytes,
                      size_t count, et_error *error)
{
    char command[4096];
    snprintf(command, sizeof command, "gzip -dc '%s/%s-ubyte.gz'", folder, part);
    FILE *pipe = popen(command, "r");
    size_t got = pipe && fread(bytes, 1, head, pipe) == head ? fread(bytes, 1, count, pipe) : 0;
    if (pipe && pclose(pipe) != -1 && got == count)
        return ET_OK;
    return et_fail(error, ET_EDATA, "%s/%s-ubyte.gz: not there, or not MNIST", folder, part);
}

static int read_set(const char *folder, const char *images, const char *labels, int first,
                    int count, et_error *error)
{
    static unsigned char bytes[(size_t)IMAGES * PIXELS];
    int status = read_bytes(folder, images, 16, bytes, (size_t)count * PIXELS, error);
    for (size_t i = 0; i < (size_t)count * PIXELS && !status; i++)
        pixels[(size_t)first + i / PIXELS][i % PIXELS] = (float)bytes[i] / 255;
    if (!status)
        status = read_bytes(folder, labels, 8, bytes, (size_t)count, error);
    for (int i = 0; i < count && !status; i++)
        digits[first + i] = bytes[i];
    return status;
}

/* Moves an image by (down, right), filling with zeros. */
static void move_image(float *image, int down, int right)
{
    float moved[PIXELS] = { 0 };
    size_t kept = (size_t)(SIDE - abs(right));
    for (int y = 0; y < SIDE; y++)
        if (y - down >= 0 && y - down < SIDE)
            memcpy(moved + y * SIDE + (right > 0 ? right : 0),
                   image + (y - down) * SIDE + (right < 0 ? -right : 0), kept * sizeof *image);
    memcpy(image, moved, sizeof moved);
}

static int move(void *payload, et_batch *batch, et_error *error)
{
    const program *p = payload;
    const uint64_t places = 2 * (uint64_t)p->moves + 1;
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        uint64_t n = ((uint64_t)batch->epoch << 32 | batch->sample[i]) * 0x9e3779b97f4a7c15u;
        n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u; /* splitmix64 */
        move_image((float *)batch->data[0] + i * PIXELS, (int)((n >> 40) % places) - p->moves,
                   (int)((n >> 52) % places) - p->moves);
    }
    return (void)error, ET_OK;
}

static int open_source(program *p, et_source **out, int first, int count, bool train,
                       et_error *error)
{
    et_array arrays[] = { { "pixels", ET_F32, pixels[first], et_shape_3(SIDE, SIDE, 1) },
                          { "digits", ET_I32, digits + first, et_shape_scalar() } };
    et_batches_options options = {
        .shuffle = train, .repeat = train, .seed = p->seed, .capacity = { train ? BATCH : JUDGED }
    };
    et_samples *samples;
    return et_arrays_open(&samples, arrays, 2, count, error) ||
           et_batches_open(out, samples, &options, error) ||
           (train && p->moves && et_map_open(out, *out, move, p, error));
}

/* ---- model ---- */

static et_node *convolve(et_scope *s, et_node *x, int filters, int side, int stride)
{
    et_conv2d_options options = { .window = { .same = true, .stride = { stride, stride } },
                                  .no_bias = true };
    x = et_conv2d(s, x, filters, side, side, &options);
    return et_relu(et_norm_batch(et_in(s, "norm"), x, 0.9f, 1e-3f));
}

static void build(et_scope *s, void *payload)
{
    const program *p = payload;
    et_pool_options two = { .window = { 2, 2 } };
    et_node *h = et_batch_input(s, "pixels"), *labels = et_batch_input(s, "digits"), *right;
    h = convolve(et_in(s, "conv0"), h, p->width, 5, 2);
    h = et_max_pool(convolve(et_in(s, "conv1"), h, 2 * p->width, 3, 1), &two);
    h = convolve(et_in(s, "conv2"), h, 4 * p->width, 3, 1);
    h = et_reshape(h, et_shape_2(et_node_shape(h).size[0], PIXELS / 16 * 4 * p->width));
    h = et_dense(et_in(s, "logits"), h, 10);
    et_loss(s, "loss", et_cross_entropy(h, labels, 0, NULL, &right), 1);
    et_measure(s, "accuracy", et_sum(right), et_sum(et_labelled(labels)));
}

static int64_t steps_of(const program *p)
{
    return (int64_t)(p->epochs * TRAIN / BATCH);
}

static int open_all(program *p, et_error *error)
{
    char rates[256];
    snprintf(rates, sizeof rates,
             "{warmup: {type: linear, linear: {warmup_steps: %lld}}, learning_rate: {type: cosine, "
             "cosine: {initial_learning_rate: %g, decay_steps: %lld}}}",
             (long long)steps_of(p) / 10, RATE, (long long)steps_of(p));
    et_optimizer_setup adam = { .settings = rates };
    et_pass_options training = { .training = true };
    if (read_set(p->data, "train-images-idx3", "train-labels-idx1", 0, IMAGES, error) ||
        read_set(p->data, "t10k-images-idx3", "t10k-labels-idx1", IMAGES, TEST, error) ||
        et_device_open(&p->device, error) || et_params_new(&p->params, error) ||
        open_source(p, &p->train, 0, TRAIN, true, error) ||
        open_source(p, &p->valid, TRAIN, VALID, false, error) ||
        open_source(p, &p->test, IMAGES, TEST, false, error) ||
        et_batch_new(&p->batch, &p->train->layout, error) ||
        et_batch_new(&p->judged, &p->test->layout, error) ||
        et_pass_open(&p->learn, p->device, p->params, &p->train->layout, build, p, &training,
                     error) ||
        et_pass_open(&p->judge, p->device, p->params, &p->test->layout, build, p, NULL, error) ||
        et_params_materialize(p->params, false, error) ||
        et_optimizer_open(&p->optimizer, p->device, p->params, NULL, &adam, error))
        return error->status;
    return et_init_draw(p->params, p->seed), ET_OK;
}

/* ---- training ---- */

static int train(program *p, et_error *error)
{
    for (int64_t i = 0; i < steps_of(p); i++)
        if (et_source_next(p->train, p->batch, error) ||
            et_pass_run(p->learn, p->batch, p->seed, (uint64_t)i, error) ||
            et_optimizer_update(p->optimizer, p->learn, NULL, error))
            return error->status;
    return ET_OK;
}

/* Prints the fraction of a source's images that are classified correctly. */
static int evaluate(program *p, const char *name, et_source *source, et_error *error)
{
    double right = 0, count = 0;
    int status;
    while (!(status = et_source_next(source, p->judged, error)) && p->judged->filled[0] > 0) {
        if ((status = et_pass_run(p->judge, p->judged, 0, 0, error)))
            break;
        for (int m = 0; m < et_pass_measures(p->judge); m++)
            if (!strcmp(et_pass_measured(p->judge, m).name, "accuracy")) {
                right += et_pass_measured(p->judge, m).total;
                count += et_pass_measured(p->judge, m).weight;
            }
    }
    if (!status)
        printf("%s accuracy: %.2f %%\n", name, 100 * right / count);
    return status;
}

int main(int argc, char **argv)
{
    static program p;
    et_error error = ET_ERROR_INIT;
    if (argc < 5 || atof(argv[2]) <= 0 || atoi(argv[3]) <= 0 || atoi(argv[4]) < 0 ||
        atoi(argv[4]) >= SIDE)
        return fprintf(stderr, "usage: %s DATA EPOCHS WIDTH MOVES [SEED]\n", argv[0]), 2;
    p.data = argv[1], p.epochs = atof(argv[2]), p.width = atoi(argv[3]), p.moves = atoi(argv[4]);
    p.seed = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    (void)(open_all(&p, &error) || train(&p, &error) ||
           evaluate(&p, "validation", p.valid, &error) || evaluate(&p, "test", p.test, &error));
    et_optimizer_free(p.optimizer), et_pass_close(p.learn), et_pass_close(p.judge);
    et_batch_free(p.batch), et_batch_free(p.judged);
    et_source_close(p.train), et_source_close(p.valid), et_source_close(p.test);
    et_params_free(p.params), et_device_close(p.device);
    return error.status ? fprintf(stderr, "%s\n", error.text), 1 : 0;
}
