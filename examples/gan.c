/* Two networks against each other: a generator learns to place points on a circle, a discriminator
 * to tell them from real ones (least squares; Mao et al. 2017). Shows one store of parameters, two
 * passes that each train half of the parameters, two optimizers, and the program's own step.
 *
 *     cc gan.c -o gan $(pkg-config --cflags --libs etude)
 *     ./gan RUN STEPS
 *
 * prints nothing; losses and the mean radius (near 1) are in RUN/metrics.jsonl. Started again, the
 * program resumes. */
#include <etude/etude.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 4096, BATCH = 256, NOISE = 8, D = 0, G = 1 };
static const char *const half[] = { "discriminator/", "generator/" };

typedef struct gan {
    et_trainer trainer;
    float real[POINTS][2];
    et_device *device;
    et_params *params;
    et_source *source;
    et_batch *batch;
    et_pass *pass[2]; /* the discriminator's turn, the generator's */
    et_optimizer *optimizer[2];
} gan;

static int open_data(gan *g, et_error *error)
{
    et_array arrays[] = { { "real", ET_F32, g->real, et_shape_1(2) } };
    et_batches_options options = { .shuffle = true, .repeat = true, .capacity = { BATCH } };
    et_samples *samples;

    for (int i = 0; i < POINTS; i++) {
        g->real[i][0] = cosf(i * 6.28319f / POINTS);
        g->real[i][1] = sinf(i * 6.28319f / POINTS);
    }
    return et_arrays_open(&samples, arrays, 1, POINTS, error) ||
           et_batches_open(&g->source, samples, &options, error) ||
           et_batch_new(&g->batch, &g->source->layout, error);
}

static et_node *network(et_scope *s, et_node *x, int64_t units)
{
    et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    for (int i = 0; i < 2; i++)
        x = et_dense_with(et_at(s, "hidden", i), x, 64, &relu);
    return et_dense(et_in(s, "out"), x, units);
}

/* Noise is counted by step: both turns see the same, and so does a run that resumes. */
static void play(et_scope *s, void *who)
{
    et_node *noise = et_noise(s, "noise", et_shape_2(BATCH, NOISE));
    et_node *fake = network(et_in(s, "generator"), noise, 2);
    et_node *judged = network(et_in(s, "discriminator"), fake, 1);
    et_node *real = network(et_in(s, "discriminator"), et_batch_input(s, "real"), 1);
    et_output(s, "fake", fake);
    et_node *wanted = who == half[D] ? real : judged; /* to be 1: (w - 1)^2 - 1 */
    et_loss(s, "loss", et_sub(et_mul(wanted, wanted), et_scale(wanted, 2)), 1);
    if (who == half[D])
        et_loss(s, "on_fake", et_mul(judged, judged), 1);
}

static int attach(et_trainer *self, et_state *state, et_error *error)
{
    gan *g = (gan *)self;
    return et_state_add_params(state, g->params, error) ||
           et_state_add_optimizer(state, "optimizer/d", g->optimizer[D], error) ||
           et_state_add_optimizer(state, "optimizer/g", g->optimizer[G], error) ||
           et_state_add(state, "data", &et_source_part, g->source, error);
}

static int step(et_trainer *self, et_error *error)
{
    gan *g = (gan *)self;
    int status = et_source_next(g->source, g->batch, error);
    for (int i = D; i <= G && !status; i++) {
        status = et_pass_run(g->pass[i], g->batch, 1, (uint64_t)self->step, error);
        if (!status) /* the driver acts on ET_EDIVERGED */
            status = et_optimizer_update(g->optimizer[i], g->pass[i], NULL, error);
    }
    return status;
}

static int fill_logs(et_trainer *self, et_value *logs, et_error *error)
{
    const gan *g = (gan *)self;
    const float(*fake)[2] = et_pass_output(g->pass[G], "fake").data;
    double radius = 0;
    for (int i = 0; i < BATCH; i++)
        radius += hypotf(fake[i][0], fake[i][1]) / BATCH;
    et_value_set_float(logs, "radius", radius);
    et_value_set_float(logs, "d_loss", et_pass_loss(g->pass[D]) / BATCH);
    et_value_set_float(logs, "g_loss", et_pass_loss(g->pass[G]) / BATCH);
    (void)error;
    return ET_OK;
}

int main(int argc, char **argv)
{
    static const et_trainer_class class = {
        .name = "gan", .attach = attach, .step = step, .loop_end = fill_logs
    };
    static gan g = { .trainer.class = &class };
    et_error error = ET_ERROR_INIT;
    et_controller *controller = NULL;
    et_controller_options options = { .trainer = &g.trainer, .summary_interval = 100 };

    if (argc != 3) {
        fprintf(stderr, "usage: %s RUN STEPS\n", argv[0]);
        return 2;
    }
    et_log_to_stderr();
    options.run.model_dir = argv[1];
    options.train_steps = atoi(argv[2]);

    int status = et_device_open(&g.device, &error) || et_params_new(&g.params, &error) ||
                 open_data(&g, &error);

    for (int i = D; i <= G && !status; i++) {
        et_pass_options pass = { .training = true, .trains = half[i] };
        status = et_pass_open(&g.pass[i], g.device, g.params, &g.source->layout, play,
                              (void *)half[i], &pass, &error) ||
                 (i == D && et_params_materialize(g.params, false, &error)) || /* D has them all */
                 et_optimizer_open(&g.optimizer[i], g.device, g.params, half[i], NULL, &error);
    }

    if (!status)
        et_init_draw(g.params, 1); /* a checkpoint replaces it */
    status = status || et_controller_open(&controller, &options, &error) ||
             et_controller_train(controller, &error);
    status = et_controller_close(controller, status ? NULL : &error) || status;

    for (int i = D; i <= G; i++) {
        et_optimizer_free(g.optimizer[i]);
        et_pass_close(g.pass[i]);
    }
    et_batch_free(g.batch);
    et_source_close(g.source);
    et_params_free(g.params);
    et_device_close(g.device);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    return status != 0;
}
