/* A language model of characters (bytes), as with Orbit: a Transformer reads up to 64 characters of
 * a text and predicts the next one. The last tenth of the text is held out.
 *
 *     cc charlm_orbit.c -o charlm_orbit $(pkg-config --cflags --libs etude)
 *     ./charlm_orbit RUN TEXT [STEPS]
 *
 * prints the validation loss in nats a character: 1.88 on tiny Shakespeare within 2,000 steps.
 * All losses are in RUN/metrics.jsonl. Started again, the program resumes. */
#include <etude/etude.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 4, HEADS = 4, WIDTH = 128, CONTEXT = 64, BATCH = 12, TEXT = 1 << 24, KINDS = 256 };
static struct {
    et_standard_trainer trainer;
    et_standard_evaluator evaluator;
    et_device *device;
    et_params *params;
    et_source_tree data[2]; /* to train, to evaluate */
    et_pass *pass[2];       /* so too */
    et_optimizer *optimizer;
    double loss, characters, mean; /* since a loop or an evaluation began; of the last one */
} m;

static int32_t text[TEXT];
static int64_t read_text(FILE *file)
{
    int64_t length = 0;
    while (file && length < TEXT && (text[length] = getc(file)) != EOF)
        length++;
    if (file)
        fclose(file);
    return length;
}

static et_node *block(et_scope *s, et_node *x, et_node *offsets)
{
    et_attention_options causal = { .heads = HEADS, .causal = true, .longest_key = CONTEXT };
    et_dense_options plain = { .no_bias = true }, gelu = plain;
    gelu.activation = ET_ACTIVATION_GELU;
    et_node *qkv = et_norm(et_in(s, "norm"), x, 1e-5f);
    qkv = et_dense_with(et_in(s, "qkv"), qkv, 3 * WIDTH, &plain);
    et_node *mixed = et_attention(s, qkv, qkv, offsets, offsets, &causal);
    x = et_add(x, et_dense_with(et_in(s, "mixed"), mixed, WIDTH, &plain));
    et_node *h = et_norm(et_in(s, "norm2"), x, 1e-5f);
    h = et_dense_with(et_in(s, "hidden"), h, 4 * WIDTH, &gelu);
    return et_add(x, et_dense_with(et_in(s, "out"), h, WIDTH, &plain));
}

static void build(et_scope *s, void *unused)
{
    const et_init small = { ET_INIT_NORMAL, 0.02f };
    (void)unused;

    et_node *windows = et_batch_input(s, "text"); /* [batch, CONTEXT + 1] */
    int64_t batch = et_node_shape(windows).size[0], rows = batch * CONTEXT;
    et_node *offsets = et_integers(s, 0, batch + 1, CONTEXT);
    et_node *ids = et_reshape(et_slice_columns(windows, 0, CONTEXT), et_shape_1(rows));
    et_node *labels = et_reshape(et_slice_columns(windows, 1, CONTEXT), et_shape_1(rows));
    et_node *table = et_param(s, "characters", et_shape_2(KINDS, WIDTH), small);
    et_node *x = et_embedding(ids, table, 1, NULL, NULL);
    et_node *places = et_param(s, "places", et_shape_1(CONTEXT * WIDTH), small);
    x = et_bias(et_reshape(x, et_shape_2(batch, CONTEXT * WIDTH)), places); /* by window */
    x = et_reshape(x, et_shape_2(rows, WIDTH));
    for (int i = 0; i < LAYERS; i++)
        x = block(et_at(s, "layer", i), x, offsets);
    x = et_norm(et_in(s, "norm"), x, 1e-5f);
    et_loss(s, "loss", et_vocabulary_loss(x, table, labels, 0), 1);
}

/* Every window to train; to evaluate those that lie side by side. */
static int open_half(int i, int64_t first, int64_t length, et_error *error)
{
    et_array characters = { "text", ET_I32, text + first, et_shape_scalar() };
    et_batches_options options = { .shuffle = !i, .repeat = !i, .capacity = { BATCH } };
    et_samples *samples;
    return et_windows_open(&samples, &characters, length, CONTEXT + 1, error) ||
           (i && et_shard_open(&samples, samples, 0, CONTEXT, error)) ||
           et_batches_open(&m.data[i].source, samples, &options, error) ||
           et_pass_open(&m.pass[i], m.device, m.params, &m.data[i].source->layout, build, NULL,
                        &(et_pass_options){ .training = !i }, error);
}

static int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    (void)self;
    return et_state_add_params(state, m.params, error) ||
           et_state_add_optimizer(state, "optimizer", m.optimizer, error);
}

static int run(et_pass *pass, et_source_tree_cursor *cursor, et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        status = et_pass_run(pass, batch, 0, 0, error); /* nothing is drawn */
    if (status)
        return status;

    m.loss += et_pass_loss(pass);
    m.characters += et_pass_divisor(pass);
    return ET_OK;
}

static int train_step(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
{
    (void)self;
    int status = run(m.pass[0], cursor, error);
    return status ? status : et_optimizer_update(m.optimizer, m.pass[0], NULL, error);
}

static int eval_step(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **outputs,
                     et_error *error)
{
    (void)self, (void)outputs;
    return run(m.pass[1], cursor, error);
}

static int eval_end(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    (void)self, (void)state, (void)error;
    m.mean = m.loss / m.characters;
    et_value_set_float(logs, "loss", m.mean); /* no logs: nothing is set */
    m.loss = m.characters = 0;
    return ET_OK;
}

static int train_loop_end(et_standard_trainer *self, et_value *logs, et_error *error)
{
    (void)self;
    return eval_end(NULL, NULL, logs, error);
}

static int open_all(const char *path, et_error *error)
{
    static const et_standard_trainer_class trains = { .name = "LanguageModel",
                                                      .attach = attach,
                                                      .train_step = train_step,
                                                      .train_loop_end = train_loop_end };
    static const et_standard_evaluator_class judges = { .name = "validation",
                                                        .eval_step = eval_step,
                                                        .eval_end = eval_end };
    static const char *const norms[] = { "scale", "offset", NULL };
    const et_adamw adamw = { .beta_2 = 0.99,
                             .weight_decay_rate = 0.1,
                             .exclude_from_weight_decay = norms };
    const et_schedule_cosine cosine = { .initial_learning_rate = 0.001,
                                        .decay_steps = 2000,
                                        .alpha = 0.1 };
    et_optimizer_setup adam = { .adamw = &adamw, .cosine = &cosine, .warmup_steps = 100 };

    int64_t length = read_text(fopen(path, "rb")), held_out = length / 10;
    if (held_out <= CONTEXT)
        return et_fail(error, ET_EDATA, "%s: not there, or too short a text", path);

    int status = et_device_open(&m.device, error) || et_params_new(&m.params, error) ||
                 open_half(0, 0, length - held_out, error) ||
                 open_half(1, length - held_out, held_out, error) ||
                 et_params_materialize(m.params, false, error) ||
                 et_optimizer_open(&m.optimizer, m.device, m.params, NULL, &adam, error);

    if (!status)
        et_init_draw(m.params, 1); /* a checkpoint replaces it */
    return status || et_standard_trainer_init(&m.trainer, &trains, &m.data[0], NULL, error) ||
           et_standard_evaluator_init(&m.evaluator, &judges, &m.data[1], NULL, error);
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    et_controller *controller = NULL;
    et_controller_options options = { .trainer = &m.trainer.trainer, .steps_per_loop = 100 };

    et_log_to_stderr();

    if (argc < 3) {
        fprintf(stderr, "usage: %s RUN TEXT [STEPS]\n", argv[0]);
        return 2;
    }

    options.evaluator = &m.evaluator.evaluator;
    options.outer_loop = &(et_outer_loop_options){ 0 };
    options.run.model_dir = argv[1];

    int status = open_all(argv[2], &error) || et_controller_open(&controller, &options, &error) ||
                 et_controller_train_and_evaluate(controller, argc > 3 ? atoi(argv[3]) : 2000, -1,
                                                  500, NULL, &error) ||
                 et_controller_evaluate(controller, -1, NULL, &error);

    if (!status)
        printf("validation loss: %.4f\n", m.mean);

    status = et_controller_close(controller, status ? NULL : &error) || status;

    et_standard_trainer_release(&m.trainer);
    et_standard_evaluator_release(&m.evaluator);
    et_optimizer_free(m.optimizer);
    et_pass_close(m.pass[0]);
    et_pass_close(m.pass[1]);
    et_source_close(m.data[0].source);
    et_source_close(m.data[1].source);
    et_params_free(m.params);
    et_device_close(m.device);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    return status != 0;
}
