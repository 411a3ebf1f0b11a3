/* The networks of gan.c with Orbit's classes: a StandardTrainer whose step updates two networks,
 * each with its optimizer. A StandardEvaluator measures the distance of the points from the centre.
 *
 *     cc gan_orbit.c -o gan_orbit $(pkg-config --cflags --libs etude)
 *     ./gan_orbit RUN STEPS
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
    et_standard_trainer trainer;
    et_standard_evaluator evaluator;
    float real[POINTS][2], noise[POINTS][NOISE];
    et_device *device;
    et_params *params;
    et_source_tree data[2]; /* to train, to evaluate */
    et_pass *pass[3];       /* the discriminator's turn, the generator's, the judge's */
    et_optimizer *optimizer[2];
    double radius, points; /* of an evaluation: sum, and of how many */
} gan;

static gan g;
/* Noise is counted by epoch and sample: a run that resumes draws what it would have drawn. */
static int draw_noise(void *unused, et_batch *batch, et_error *error)
{
    for (uint64_t i = 0; i < BATCH * NOISE; i++) {
        uint64_t n = (uint64_t)batch->epoch * POINTS + batch->sample[i / NOISE];
        n = (n * NOISE + i % NOISE + 1) * 0x9e3779b97f4a7c15u;
        n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u; /* splitmix64 */
        ((float *)batch->data[1])[i] = (float)(n >> 40) * 0x1p-23f - 1;
    }
    (void)unused, (void)error;
    return ET_OK;
}

static int open_data(int i, et_error *error)
{
    et_array arrays[] = { { "real", ET_F32, g.real, et_shape_1(2) },
                          { "noise", ET_F32, g.noise, et_shape_1(NOISE) } };
    et_batches_options options = { .shuffle = !i, .repeat = !i, .capacity = { BATCH } };
    et_samples *samples;

    for (int k = 0; k < POINTS; k++) {
        g.real[k][0] = cosf(k * 6.28319f / POINTS);
        g.real[k][1] = sinf(k * 6.28319f / POINTS);
    }
    return et_arrays_open(&samples, arrays, 2, POINTS, error) ||
           et_batches_open(&g.data[i].source, samples, &options, error) ||
           et_map_open(&g.data[i].source, g.data[i].source, draw_noise, NULL, error);
}

static et_node *network(et_scope *s, et_node *x, int64_t units)
{
    et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    for (int i = 0; i < 2; i++)
        x = et_dense_with(et_at(s, "hidden", i), x, 64, &relu);
    return et_dense(et_in(s, "out"), x, units);
}

static void play(et_scope *s, void *who)
{
    et_node *fake = network(et_in(s, "generator"), et_batch_input(s, "noise"), 2);
    et_node *judged = network(et_in(s, "discriminator"), fake, 1);
    et_node *real = network(et_in(s, "discriminator"), et_batch_input(s, "real"), 1);
    et_output(s, "fake", fake);
    et_node *wanted = who == half[D] ? real : judged; /* to be 1: (w - 1)^2 - 1 */
    et_loss(s, "loss", et_sub(et_mul(wanted, wanted), et_scale(wanted, 2)), 1);
    if (who == half[D])
        et_loss(s, "on_fake", et_mul(judged, judged), 1);
}

static int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    (void)self;
    return et_state_add_params(state, g.params, error) ||
           et_state_add_optimizer(state, "optimizer/d", g.optimizer[D], error) ||
           et_state_add_optimizer(state, "optimizer/g", g.optimizer[G], error);
}

static int train_step(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    for (int i = D; i <= G && !status; i++) {
        status = et_pass_run(g.pass[i], batch, 1, (uint64_t)self->trainer.step, error);
        if (!status) /* the driver acts on ET_EDIVERGED */
            status = et_optimizer_update(g.optimizer[i], g.pass[i], NULL, error);
    }
    return status;
}

static int train_loop_end(et_standard_trainer *self, et_value *logs, et_error *error)
{
    et_value *loss = et_value_set_dict(logs, "loss"); /* a directory of summaries of its own */
    et_value_set_float(loss, "discriminator", et_pass_loss(g.pass[D]) / BATCH);
    et_value_set_float(loss, "generator", et_pass_loss(g.pass[G]) / BATCH);
    (void)self, (void)error;
    return ET_OK;
}

static int eval_step(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **outputs,
                     et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        status = et_pass_run(g.pass[2], batch, 0, 0, error);
    const float(*fake)[2] = status ? NULL : et_pass_output(g.pass[2], "fake").data;
    for (int i = 0; !status && i < batch->filled[0]; i++, g.points++)
        g.radius += hypotf(fake[i][0], fake[i][1]);
    (void)self, (void)outputs;
    return status;
}

static int eval_end(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    if (logs)
        et_value_set_float(logs, "radius", g.radius / g.points);
    g.radius = g.points = 0;
    (void)self, (void)state, (void)error;
    return ET_OK;
}

static int open_all(et_error *error)
{
    static const et_standard_trainer_class trains = { .name = "GanTrainer",
                                                      .attach = attach,
                                                      .train_step = train_step,
                                                      .train_loop_end = train_loop_end };
    static const et_standard_evaluator_class judges = { .name = "validation",
                                                        .eval_step = eval_step,
                                                        .eval_end = eval_end };

    int status = et_device_open(&g.device, error) || et_params_new(&g.params, error) ||
                 open_data(0, error) || open_data(1, error);

    for (int i = 0; i < 3 && !status; i++) {
        et_pass_options pass = { .training = i <= G, .trains = i <= G ? half[i] : NULL };
        status = et_pass_open(&g.pass[i], g.device, g.params, &g.data[0].source->layout, play,
                              i <= G ? (void *)half[i] : NULL, &pass, error) ||
                 (i == D && et_params_materialize(g.params, false, error)) || /* D has them all */
                 (i <= G &&
                  et_optimizer_open(&g.optimizer[i], g.device, g.params, half[i], NULL, error));
    }

    if (!status)
        et_init_draw(g.params, 1); /* a checkpoint replaces it */
    return status || et_standard_trainer_init(&g.trainer, &trains, &g.data[0], NULL, error) ||
           et_standard_evaluator_init(&g.evaluator, &judges, &g.data[1], NULL, error);
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    et_controller *controller = NULL;
    et_outer_loop_options outer = { 0 };
    et_controller_options options = { .trainer = &g.trainer.trainer,
                                      .evaluator = &g.evaluator.evaluator,
                                      .outer_loop = &outer,
                                      .steps_per_loop = 100 };

    if (argc != 3) {
        fprintf(stderr, "usage: %s RUN STEPS\n", argv[0]);
        return 2;
    }
    et_log_to_stderr();
    options.run.model_dir = argv[1];

    int status = open_all(&error) || et_controller_open(&controller, &options, &error) ||
                 et_controller_train_and_evaluate(controller, atoi(argv[2]), -1, 200, NULL, &error);

    status = et_controller_close(controller, status ? NULL : &error) || status;
    et_standard_trainer_release(&g.trainer);
    et_standard_evaluator_release(&g.evaluator);
    for (int i = 0; i < 3; i++) {
        et_pass_close(g.pass[i]);
        et_optimizer_free(i <= G ? g.optimizer[i] : NULL);
    }
    et_source_close(g.data[0].source);
    et_source_close(g.data[1].source);
    et_params_free(g.params);
    et_device_close(g.device);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    return status != 0;
}
