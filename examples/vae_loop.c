/* A variational auto-encoder of handwritten digits (Kingma and Welling 2014) with a loop's trainer:
 * 784-500-500 to 40 normal numbers and back. Each epoch draws each pixel anew as 0 or 1.
 *
 *     cc vae_loop.c -o vae_loop $(pkg-config --cflags --libs etude)
 *     ./vae_loop RUN DATA [EPOCHS [SAMPLES]]
 *
 * DATA as for mnist_loop.c. Prints a line for each epoch, then the negative log-likelihood of the
 * test set in nats, with SAMPLES (500) samples per image (Burda et al. 2016). TFSnippet reaches
 * 86.76 with normalized layers. Killed and started again, the program resumes. */
#define _POSIX_C_SOURCE 200809L
#include <etude/etude.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIXELS = 784, TRAIN = 60000, TEST = 10000, BATCH = 128, CODE = 40 };

typedef struct program {
    et_device *device;
    et_params *params;
    et_source *train, *test;
    et_pass *learn, *judge;
    et_optimizer *optimizer;
    et_loop *loop;
    et_loop_trainer *trainer;
    et_loop_evaluator *evaluator;
    et_annealing_scalar rate;
} program;

static float pixels[TRAIN + TEST][PIXELS]; /* the training set, then the test set */
static int read_set(const char *folder, const char *set, int first, int count, et_error *error)
{
    static unsigned char bytes[(size_t)TRAIN * PIXELS];
    char command[4096], head[16];
    size_t size = (size_t)count * PIXELS;
    snprintf(command, sizeof command, "gzip -dc '%s/%s-images-idx3-ubyte.gz'", folder, set);
    FILE *pipe = popen(command, "r");
    size_t got = pipe && fread(head, 1, 16, pipe) == 16 ? fread(bytes, 1, size, pipe) : 0;
    if (!pipe || pclose(pipe) == -1 || got != size)
        return et_fail(error, ET_EDATA, "%s/%s-images-idx3-ubyte.gz: not there, or not MNIST",
                       folder, set);
    for (size_t i = 0; i < size; i++)
        pixels[first + (int)(i / PIXELS)][i % PIXELS] = (float)bytes[i] / 255;
    return ET_OK;
}

static int open_source(et_source **out, int first, int count, bool train, et_error *error)
{
    et_array array = { "pixels", ET_F32, pixels[first], et_shape_1(PIXELS) };
    et_batches_options options = { .shuffle = train, .repeat = train, .capacity = { BATCH } };
    et_samples *samples;
    return et_arrays_open(&samples, &array, 1, count, error) ||
           et_batches_open(out, samples, &options, error) ||
           et_bernoulli_open(out, *out, "pixels", ET_F32, 1, error);
}

static et_node *hidden(et_scope *s, et_node *x)
{
    et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    x = et_dense_with(et_in(s, "hidden0"), x, 500, &relu);
    return et_dense_with(et_in(s, "hidden1"), x, 500, &relu);
}

/* With e ~ N(0, 1) and z = mean + exp(ln_sigma) e:
 * log p(x, z) - log q(z|x) = log p(x|z) + sum of e^2 / 2 - z^2 / 2 + ln_sigma */
static void build(et_scope *s, void *unused)
{
    et_node *x = et_batch_input(s, "pixels");
    et_scope *encoder = et_in(s, "encoder"), *decoder = et_in(s, "decoder");
    int64_t rows = et_node_shape(x).size[0];
    et_node *h = hidden(encoder, x);
    et_node *mean = et_dense(et_in(encoder, "mean"), h, CODE);
    et_node *ln_sigma = et_dense(et_in(encoder, "ln_sigma"), h, CODE);
    et_node *e = et_noise(s, "noise", et_shape_2(rows, CODE));
    et_node *z = et_add(mean, et_mul(et_exp(ln_sigma), e));
    et_node *logits = et_dense(et_in(decoder, "logits"), hidden(decoder, z), PIXELS);
    et_node *code = et_add(et_scale(et_sub(et_square(e), et_square(z)), 0.5f), ln_sigma);
    et_node *pixel = et_scale(et_binary_cross_entropy(logits, x), -PIXELS);
    et_node *bound = et_add(et_row_sum(code), pixel); /* [rows, 1], in nats */
    et_loss(s, "loss", bound, -1);
    et_output(s, "bound", bound);
    (void)unused;
}

static int open_all(program *p, const char *data, const et_loop_options *options, et_error *error)
{
    static const et_loop_measure loss = { .name = "loss" };
    et_pass_options training = { .training = true };
    et_annealing_scalar_options halving = { .initial_value = 0.001, .ratio = 0.5 };
    halving.epochs = (options->max_epoch + 9) / 10; /* after each tenth of them */

    if (read_set(data, "train", 0, TRAIN, error) || read_set(data, "t10k", TRAIN, TEST, error) ||
        et_device_open(&p->device, error) || et_params_new(&p->params, error) ||
        open_source(&p->train, 0, TRAIN, true, error) ||
        open_source(&p->test, TRAIN, TEST, false, error) ||
        et_pass_open(&p->learn, p->device, p->params, &p->train->layout, build, NULL, &training,
                     error) ||
        et_pass_open(&p->judge, p->device, p->params, &p->test->layout, build, NULL, NULL, error) ||
        et_params_materialize(p->params, false, error) ||
        et_optimizer_open(&p->optimizer, p->device, p->params, NULL, NULL, error) || /* Adam */
        et_loop_open(&p->loop, p->params, options, error) ||
        et_state_add_optimizer(et_loop_state(p->loop), "optimizer", p->optimizer, error) ||
        et_annealing_scalar_init(&p->rate, p->loop, &halving, error))
        return error->status;
    et_init_draw(p->params, 1);
    et_bound_value bound = { NULL, p->optimizer, et_annealing_scalar_dynamic(&p->rate) };
    et_loop_evaluator_options judge = { .source = p->test, .pass = p->judge }; /* valid_loss */
    et_loop_trainer_options learn = { .source = p->train, .pass = p->learn, .seed = 1 };
    learn.optimizer = p->optimizer;
    learn.metrics = &loss;
    learn.metric_count = 1;
    learn.bound_values = &bound;
    learn.bound_value_count = 1;
    return et_loop_evaluator_open(&p->evaluator, p->loop, &judge, error) ||
           et_loop_trainer_open(&p->trainer, p->loop, &learn, error) ||
           et_loop_trainer_evaluate_after(p->trainer, p->evaluator, ET_EVERY_EPOCHS(1), error) ||
           et_loop_trainer_log_after(p->trainer, ET_EVERY_EPOCHS(1), error);
}

/* Adds -log p(x), a mean over the test set; p(x) is the mean of p(x, z) / q(z|x) over samples. */
static int likelihood(program *p, int samples, double *nll, et_error *error)
{
    et_source *source = NULL;
    et_batch *batch = NULL;
    int status = open_source(&source, TRAIN, TEST, false, error) ||
                 et_batch_new(&batch, &source->layout, error);
    while (!status && !(status = et_source_next(source, batch, error)) && batch->filled[0]) {
        double most[BATCH], sum[BATCH] = { 0 }; /* of exp(bound - most) */
        for (int n = 0; n < samples; n++) {
            if ((status = et_pass_run(p->judge, batch, 2, (uint64_t)n, error)))
                break;
            const float *bound = et_pass_output(p->judge, "bound").data;
            for (int64_t i = 0; i < batch->filled[0]; i++) {
                double before = n ? most[i] : bound[i];
                most[i] = fmax(before, bound[i]);
                sum[i] = sum[i] * exp(before - most[i]) + exp(bound[i] - most[i]);
            }
        }
        for (int64_t i = 0; i < batch->filled[0] && !status; i++)
            *nll -= (most[i] + log(sum[i] / samples)) / TEST;
    }
    et_batch_free(batch);
    et_source_close(source);
    return status;
}

int main(int argc, char **argv)
{
    static program p;
    et_error error = ET_ERROR_INIT;
    et_loop_options options = { .checkpoint_epoch_freq = 1, .checkpoint_max_to_keep = 2 };
    double nll = 0;
    int samples = argc > 4 ? atoi(argv[4]) : 500;

    et_log_to_stderr();

    if (argc < 3 || samples < 1) {
        fprintf(stderr, "usage: %s RUN DATA [EPOCHS [SAMPLES]]\n", argv[0]);
        return 2;
    }

    options.checkpoint_dir = options.summary_dir = argv[1];
    options.max_epoch = argc > 3 ? atoi(argv[3]) : 1000;

    if (!open_all(&p, argv[2], &options, &error) && !et_loop_begin(p.loop, &error) &&
        !et_loop_trainer_run(p.trainer, &error) && !et_loop_end(p.loop, &error) &&
        !likelihood(&p, samples, &nll, &error))
        printf("test negative log-likelihood: %.2f nats\n", nll);

    et_loop_trainer_close(p.trainer);
    et_loop_evaluator_close(p.evaluator);
    et_loop_close(p.loop);
    et_optimizer_free(p.optimizer);
    et_pass_close(p.learn);
    et_pass_close(p.judge);
    et_source_close(p.train);
    et_source_close(p.test);
    et_params_free(p.params);
    et_device_close(p.device);
    if (error.status)
        fprintf(stderr, "%s\n", error.text);
    return error.status != 0;
}
