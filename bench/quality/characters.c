/* Tiny Shakespeare in the open division: the fastest way that was found to reach a loss.
 *
 *     quality_characters TEXT STEPS [SEED]
 *
 * TEXT as for examples/charlm_orbit.c. The context of a character is the same as in that program,
 * at most the 64 characters before it in its window, and the last tenth of the text is held out.
 * The input of the model at each position is the sum of four embeddings, of the last 1, 2, 3 and 4
 * characters (hashed to 12 and 14 bits; Svenstrup et al. 2017, "Hash embeddings for efficient word
 * representations", has one hash more). One Transformer layer of width 64 follows. Muon for its
 * matrices, Adam for the rest, batches of 16 windows; the rate rises for a tenth of the steps and
 * falls to 0 along half a cosine. All choices were made on the ninth tenth of the text, with models
 * trained on the first eight: with TENTHS=9 in the environment, the program reads only nine tenths.
 * The last line is the loss on the held-out text, in nats per character. */
#define _POSIX_C_SOURCE 200809L
#include <etude/etude.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CONTEXT = 64,
    BATCH = 16,
    WIDTH = 64,
    HEADS = 2,
    KINDS = 256,
    GRAMS = 4, /* embeddings of a place: of so many characters and fewer */
    TEXT = 1 << 22
};
#define RATE 0.02

typedef struct program {
    const char *text;
    int64_t steps;
    uint64_t seed;
    et_device *device;
    et_params *params;
    et_source *train, *valid;
    et_batch *batch, *judged;
    et_pass *learn, *judge;
    et_optimizer *optimizer;
} program;

static const int bits[GRAMS] = { 8, 12, 14, 14 }; /* of a number */
static int32_t grams[TEXT][GRAMS];                /* the character; numbers of 2 and more */

/* ---- data ---- */

static int64_t read_text(const char *name)
{
    FILE *file = fopen(name, "rb");
    int64_t length = 0;
    uint64_t last = 0; /* eight characters */
    for (int c; file && length < TEXT && (c = getc(file)) != EOF; length++) {
        last = last << 8 | (uint64_t)c;
        grams[length][0] = c;
        for (int n = 1; n < GRAMS; n++) {
            uint64_t gram = last & (((uint64_t)1 << 8 * (n + 1)) - 1);
            grams[length][n] = (int32_t)(gram * 0x9e3779b97f4a7c15u >> (64 - bits[n]));
        }
    }
    return (file ? fclose(file) : 0), length;
}

/* Takes away what reaches back before a window: -1 has an embedding of zeros. */
static int cut(void *unused, et_batch *batch, et_error *error)
{
    int32_t(*place)[GRAMS] = batch->data[0];
    for (int64_t i = 0; i < batch->filled[0]; i++, place += CONTEXT + 1)
        for (int n = 1; n < GRAMS; n++)
            for (int k = 0; k < n; k++)
                place[k][n] = -1;
    return (void)unused, (void)error, ET_OK;
}

/* Every window in training; in evaluation, adjacent ones. */
static int open_source(program *p, et_source **out, int64_t first, int64_t length, bool train,
                       et_error *error)
{
    et_array places = { "text", ET_I32, grams[first], et_shape_1(GRAMS) };
    et_batches_options options = {
        .shuffle = train, .repeat = train, .seed = p->seed, .capacity = { BATCH }
    };
    et_samples *samples;
    return et_windows_open(&samples, &places, length, CONTEXT + 1, error) ||
           (!train && et_shard_open(&samples, samples, 0, CONTEXT, error)) ||
           et_batches_open(out, samples, &options, error) ||
           et_map_open(out, *out, cut, NULL, error);
}

/* ---- model ---- */

static et_node *block(et_scope *s, et_node *x, et_node *offsets)
{
    et_attention_options causal = { .heads = HEADS, .causal = true, .longest_key = CONTEXT };
    et_dense_options plain = { .no_bias = true }, relu = plain;
    relu.activation = ET_ACTIVATION_RELU;
    et_node *h = et_norm_rms(et_in(s, "norm"), x, 1e-5f);
    h = et_dense_with(et_in(s, "qkv"), h, 3 * WIDTH, &plain);
    h = et_attention(s, h, h, offsets, offsets, &causal);
    x = et_add(x, et_dense_with(et_in(s, "mixed"), h, WIDTH, &plain));
    h = et_dense_with(et_in(s, "hidden"), et_norm_rms(et_in(s, "norm2"), x, 1e-5f), 2 * WIDTH,
                      &relu);
    return et_add(x, et_dense_with(et_in(s, "out"), h, WIDTH, &plain));
}

/* Column n of [rows, GRAMS]. */
static et_node *column(et_node *places, int n)
{
    int64_t rows = et_node_shape(places).size[0];
    return et_reshape(et_slice_columns(places, n, 1), et_shape_1(rows));
}

static void build(et_scope *s, void *unused)
{
    const et_init small = { ET_INIT_NORMAL, 0.02f };
    et_node *windows = et_batch_input(s, "text"); /* [batch, CONTEXT + 1, GRAMS] */
    int64_t batch = et_node_shape(windows).size[0];
    et_node *offsets = et_integers(s, 0, batch + 1, CONTEXT);
    et_shape rows = et_shape_2(batch * CONTEXT, GRAMS);
    windows = et_reshape(windows, et_shape_2(batch, (CONTEXT + 1) * GRAMS));
    et_node *seen = et_reshape(et_slice_columns(windows, 0, CONTEXT * GRAMS), rows);
    et_node *next = et_reshape(et_slice_columns(windows, GRAMS, CONTEXT * GRAMS), rows);
    et_node *x = NULL;
    for (int n = 0; n < GRAMS; n++) {
        et_shape shape = et_shape_2((int64_t)1 << bits[n], WIDTH);
        et_node *table = et_param(et_at(s, "grams", n), "embedding", shape, small);
        et_node *part = et_embedding(column(seen, n), table, 1, NULL, NULL);
        x = x ? et_add(x, part) : part;
    }
    et_node *places = et_param(s, "places", et_shape_1(CONTEXT * WIDTH), small);
    x = et_bias(et_reshape(x, et_shape_2(batch, CONTEXT * WIDTH)), places); /* by window */
    x = block(et_in(s, "layer"), et_reshape(x, et_shape_2(batch * CONTEXT, WIDTH)), offsets);
    x = et_norm_rms(et_in(s, "norm"), x, 1e-5f);
    et_node *output = et_param(s, "output", et_shape_2(KINDS, WIDTH), small);
    et_loss(s, "loss", et_vocabulary_loss(x, output, column(next, 0), 0), 1);
    (void)unused;
}

static int open_all(program *p, et_error *error)
{
    char settings[512];
    snprintf(
        settings, sizeof settings,
        "{optimizer: {type: muon, muon: {exclude_from_orthogonalization: [embedding, output]}}, "
        "warmup: {type: linear, linear: {warmup_steps: %lld}}, learning_rate: {type: cosine, "
        "cosine: {initial_learning_rate: %g, decay_steps: %lld}}}",
        (long long)p->steps / 10, RATE, (long long)p->steps);
    et_optimizer_setup muon = { .settings = settings };
    et_pass_options training = { .training = true };
    const char *tenths = getenv("TENTHS");
    int64_t length = read_text(p->text), held_out = length / 10;
    if (tenths && atoi(tenths) == 9)
        length -= held_out;
    if (held_out <= CONTEXT)
        return et_fail(error, ET_EDATA, "%s: not there, or too short a text", p->text);
    if (et_device_open(&p->device, error) || et_params_new(&p->params, error) ||
        open_source(p, &p->train, 0, length - held_out, true, error) ||
        open_source(p, &p->valid, length - held_out, held_out, false, error) ||
        et_batch_new(&p->batch, &p->train->layout, error) ||
        et_batch_new(&p->judged, &p->valid->layout, error) ||
        et_pass_open(&p->learn, p->device, p->params, &p->train->layout, build, NULL, &training,
                     error) ||
        et_pass_open(&p->judge, p->device, p->params, &p->valid->layout, build, NULL, NULL,
                     error) ||
        et_params_materialize(p->params, false, error) ||
        et_optimizer_open(&p->optimizer, p->device, p->params, NULL, &muon, error))
        return error->status;
    return et_init_draw(p->params, p->seed), ET_OK;
}

/* ---- training ---- */

static int train(program *p, et_error *error)
{
    for (int64_t i = 0; i < p->steps; i++)
        if (et_source_next(p->train, p->batch, error) ||
            et_pass_run(p->learn, p->batch, p->seed, (uint64_t)i, error) ||
            et_optimizer_update(p->optimizer, p->learn, NULL, error))
            return error->status;
    return ET_OK;
}

static int evaluate(program *p, et_error *error)
{
    double loss = 0, characters = 0;
    int status;
    while (!(status = et_source_next(p->valid, p->judged, error)) && p->judged->filled[0] > 0) {
        if ((status = et_pass_run(p->judge, p->judged, 0, 0, error)))
            return status;
        loss += et_pass_loss(p->judge), characters += et_pass_divisor(p->judge);
    }
    if (!status)
        printf("validation loss: %.4f\n", loss / characters);
    return status;
}

int main(int argc, char **argv)
{
    static program p;
    et_error error = ET_ERROR_INIT;
    if (argc < 3 || atoi(argv[2]) <= 0)
        return fprintf(stderr, "usage: %s TEXT STEPS [SEED]\n", argv[0]), 2;
    p.text = argv[1], p.steps = atoi(argv[2]);
    p.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    (void)(open_all(&p, &error) || train(&p, &error) || evaluate(&p, &error));
    et_optimizer_free(p.optimizer), et_pass_close(p.learn), et_pass_close(p.judge);
    et_batch_free(p.batch), et_batch_free(p.judged);
    et_source_close(p.train), et_source_close(p.valid);
    et_params_free(p.params), et_device_close(p.device);
    return error.status ? fprintf(stderr, "%s\n", error.text), 1 : 0;
}
