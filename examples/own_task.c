/* A new kind of task with its own data, settings and metric, and the whole `etude` command for it.
 * The model learns on which of two noisy rings a point of the plane lies.
 *
 *     cc own_task.c -o own_task $(pkg-config --cflags --libs etude)
 *     ./own_task train --experiment rings/small --model-dir runs/rings \
 *             --set task.noise=0.2,trainer.train_steps=500
 *     ./own_task evaluate --model-dir runs/rings
 *
 * prints what `etude` prints. After a kill, the same command resumes. */
#include <etude/etude.h>
#include <math.h>
#include <stdlib.h>

/* ---- settings: what stands below `task` in files and behind --set ---- */

enum { POINTS_MAX = 100000 };

typedef struct rings_options {
    int64_t points, hidden, layers, batch_size;
    double noise;
} rings_options;
static const et_field rows[] = {
    ET_FIELD_INT(rings_options, points, 2000, 100, POINTS_MAX, "in all", .change = ET_CHANGE_FIXED),
    ET_FIELD_FLOAT(rings_options, noise, 0.1, 0, 1, "their deviation", .change = ET_CHANGE_FIXED),
    ET_FIELD_INT(rings_options, hidden, 16, 1, 4096, "units of a layer", .change = ET_CHANGE_MODEL),
    ET_FIELD_INT(rings_options, layers, 2, 1, 16, "hidden layers", .change = ET_CHANGE_MODEL),
    ET_FIELD_INT(rings_options, batch_size, 50, 1, 4096, "points a step",
                 .change = ET_CHANGE_FIXED),
    ET_FIELD_END
};
static const et_fields fields = { "task", rows };

/* What a table cannot say: the fifth part is held out for validation. */
static int check(const void *settings, et_error *error)
{
    const rings_options *o = settings;
    if (o->batch_size <= o->points - o->points / 5)
        return ET_OK;
    return et_fail(error, ET_ECONFIG, "task.batch_size: %lld is more than the points to train on",
                   (long long)o->batch_size);
}

/* ---- the task ---- */
typedef struct rings {
    et_task task; /* the first member */
    rings_options options;
    uint64_t seed;
    int64_t share; /* points of a training batch, of which an update may have several */
    /* Coordinates; 1 in the column of the ring, else -1; 0 or 1. */
    float place[POINTS_MAX][2], sign[POINTS_MAX][2];
    int32_t ring[POINTS_MAX];
} rings;

/* Between 0 and 1, a function of number: data are one of the settings. */
static double draw(uint64_t number)
{
    number = (number + 1) * 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return (double)(number >> 11) * 0x1p-53;
}

static void make_points(rings *r)
{
    for (int64_t i = 0; i < r->options.points; i++) {
        uint64_t number = 4 * (r->seed * 1000003u + (uint64_t)i);
        double noise = sqrt(-2 * log(1 - draw(number))) * cos(6.283185307 * draw(number + 1));
        double radius = 1 + (double)(i % 2) + r->options.noise * noise;
        double angle = 6.283185307 * draw(number + 2);
        r->ring[i] = i % 2;
        r->place[i][0] = (float)(radius * cos(angle));
        r->place[i][1] = (float)(radius * sin(angle));
        r->sign[i][i % 2] = 1;
        r->sign[i][1 - i % 2] = -1;
    }
}

static void build(et_task *self, et_scope *s, bool training)
{
    const rings *r = (const rings *)self;
    const et_dense_options layer = { .activation = ET_ACTIVATION_TANH };
    et_node *h = et_batch_input(s, "place"), *sign = et_batch_input(s, "sign");
    for (int i = 0; i < r->options.layers; i++)
        h = et_dense_with(et_at(s, "hidden", i), h, r->options.hidden, &layer);
    et_node *logits = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(logits, et_batch_input(s, "ring"), 0), 1);
    /* The metric of its own: the right logit less the other. Signs of empty rows are 0. */
    et_measure(s, "margin", et_sum(et_mul(logits, sign)),
               et_scale(et_sum(et_mul(sign, sign)), 0.5f));
    (void)training; /* the same model in both */
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const rings *r = (const rings *)self;
    int64_t held_out = r->options.points / 5, first = training ? held_out : 0;
    et_array arrays[] = { { "place", ET_F32, r->place[first], et_shape_1(2) },
                          { "sign", ET_F32, r->sign[first], et_shape_1(2) },
                          { "ring", ET_I32, r->ring + first, et_shape_scalar() } };
    et_batches_options options = { .seed = r->seed, .capacity = { r->options.batch_size } };
    if (training)
        options.capacity[0] = r->share;
    options.shuffle = options.repeat = training;
    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, 3,
                                training ? r->options.points - held_out : held_out, error);
    return status ? status : et_batches_open(out, samples, &options, error);
}
static const et_task_class rings_class = {
    .name = "rings", .build = build, .data = data, .best_metric = "validation_margin"
};

static int open_rings(et_task **out, const void *settings, const et_task_context *context,
                      et_error *error)
{
    rings *r = calloc(1, sizeof *r);
    if (!r)
        return et_fail(error, ET_ENOMEM, "no memory for a task");
    r->task.class = &rings_class;
    r->options = *(const rings_options *)settings;
    r->seed = context->seed;
    int status =
        et_task_context_batch(context, r->options.batch_size, "task.batch_size", &r->share, error);
    if (status) {
        free(r);
        return status;
    }
    make_points(r);
    *out = &r->task;
    return ET_OK;
}

static void close_rings(et_task *task)
{
    free(task);
}

int main(int argc, char **argv)
{
    static const et_experiment_row experiments[] = {
        { "rings/small", "two hidden layers of 16",
          "{trainer: {train_steps: 500, steps_per_loop: 50, summary_interval: 50, "
          "validation_interval: 100, checkpoint_interval: 100, optimizer_config: {"
          "optimizer: {type: adam}, learning_rate: {type: constant, constant: {learning_rate: "
          "0.01}}}}, runtime: {mixed_precision_dtype: float32}}" },
        { NULL, NULL, NULL }
    };
    static const et_task_kind kind = { .name = "rings",
                                       .fields = &fields,
                                       .size = sizeof(rings_options),
                                       .experiments = experiments,
                                       .batch = "task.batch_size",
                                       .check = check,
                                       .open = open_rings,
                                       .close = close_rings };
    return et_command_main(argc, argv, (const et_task_kind *const[]){ &kind }, 1);
}
