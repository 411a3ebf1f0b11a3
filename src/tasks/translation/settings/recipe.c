#include "tasks/translation/settings/recipe.h"

#include <math.h>

#include "data/text/corpus.h"
#include "tasks/translation/settings/input.h"
#include "tasks/translation/settings/translation_options.h"

static const char *const vocabularies[] = { "task.vocabulary.size", "task.sentencepiece_model_path",
                                            NULL };

/* X(name, setting, label, size, unless), in the order for readers; followers come after their
 * first. */
#define ROWS(X)                                                                                    \
    X(WIDTH, MODEL "embedding_width", "width", true, NULL)                                         \
    X(ENCODER_LAYERS, MODEL "encoder.num_layers", "layers", true, NULL)                            \
    X(DECODER_LAYERS, MODEL "decoder.num_layers", NULL, true, NULL)                                \
    X(ENCODER_HEADS, MODEL "encoder.num_attention_heads", NULL, true, NULL)                        \
    X(DECODER_HEADS, MODEL "decoder.num_attention_heads", NULL, true, NULL)                        \
    X(ENCODER_INNER, MODEL "encoder.intermediate_size", "feed-forward", true, NULL)                \
    X(DECODER_INNER, MODEL "decoder.intermediate_size", NULL, true, NULL)                          \
    X(VOCABULARY, "task.vocabulary.max_size", "vocabulary up to", true, vocabularies)              \
    X(DROPOUT, MODEL "dropout_rate", "dropout", false, NULL)                                       \
    X(ENCODER_DROPOUT, MODEL "encoder.dropout_rate", NULL, false, NULL)                            \
    X(DECODER_DROPOUT, MODEL "decoder.dropout_rate", NULL, false, NULL)                            \
    X(SMOOTHING, MODEL "label_smoothing", "label smoothing", false, NULL)                          \
    X(SAMPLED, MODEL "sampled_vocabulary", "sampled softmax", false, NULL)                         \
    X(BATCH, "task.train_data.global_batch_size", "batches of", false, NULL)                       \
    X(PEAK, RATE "cosine.initial_learning_rate", "peak rate", false, NULL)                         \
    X(DECAY, RATE "cosine.decay_steps", NULL, false, NULL)                                         \
    X(WARMUP, "trainer.optimizer_config.warmup.linear.warmup_steps", "warm-up steps", false, NULL) \
    X(AVERAGE, "trainer.optimizer_config.ema.average_decay", "average of weights", false, NULL)    \
    X(SUMMARY, "trainer.summary_interval", NULL, false, NULL)                                      \
    X(VALIDATION, "trainer.validation_interval", "steps between validations", false, NULL)         \
    X(CHECKPOINT, "trainer.checkpoint_interval", NULL, false, NULL)

#define MODEL                                    "task.model."
#define RATE                                     "trainer.optimizer_config.learning_rate."
#define NAME(name, setting, label, size, unless) name,
#define ROW(name, setting, label, size, unless)  { setting, label, size, unless },
enum { ROWS(NAME) COUNT };
static const et_recipe_row rows[COUNT] = { ROWS(ROW) };

/* ---- measuring ---- */

#define BYTES_A_TOKEN 4.5 /* of a target text */

/* Pairs for training, before pairs that are too long are filtered. */
static int count(const et_corpus_paths *paths, int64_t limit, int64_t *pairs, double *bytes,
                 et_error *error)
{
    et_corpus *corpus;
    et_corpus_pair pair;
    int64_t found = 0;
    int status = et_corpus_open(&corpus, paths, error);
    if (status)
        return status;
    while ((!limit || found < limit) && !(status = et_corpus_next(corpus, &pair, error)) &&
           pair.source) {
        found++;
        *bytes += (double)pair.target_length;
    }
    et_corpus_close(corpus);
    *pairs += found;
    return status;
}

static int measure_data(const char *name, const et_translation_data *data, int64_t *pairs,
                        double *tokens, et_error *error)
{
    et_translation_input input = { 0 };
    double bytes = 0;
    int status = et_translation_input_open(&input, name, data, error);
    for (size_t i = 0; !status && i < input.count; i++)
        status = count(&input.texts[i].paths, data->limit, pairs, &bytes, error);
    et_translation_input_close(&input);
    *tokens = bytes / BYTES_A_TOKEN + (double)*pairs; /* each with an end */
    return status;
}

#define SEARCH      16.0 /* cost of a decoded token, in trained tokens */
#define SEARCH_STEP 30.0 /* smallest cost of decoding, in updates */

static int measure(const void *settings, et_recipe_amounts *amounts, et_error *error)
{
    const et_translation_options *options = settings;
    int64_t pairs = 0;
    double tokens = 0;
    int status =
        measure_data("train_data", &options->train_data, &amounts->samples, &amounts->units, error);
    if (!status)
        status = measure_data("validation_data", &options->validation_data, &pairs, &tokens, error);
    if (!status && !amounts->samples)
        amounts->samples = 1;
    amounts->units = fmax(amounts->units, 1);
    /* Passes after which a small model no longer learns much. */
    const double epochs = 20 * sqrt(30000 / (double)amounts->samples);
    amounts->epochs = epochs < 3 ? 3 : epochs > 60 ? 60 : round(epochs);
    if (pairs)
        amounts->validation =
            SEARCH_STEP + SEARCH * tokens / (double)options->train_data.global_batch_size;
    return status;
}

/* ---- choosing ---- */

static double clamp(double value, double low, double high)
{
    return fmin(fmax(value, low), high);
}

static double to_multiple(double value, double grain)
{
    return fmax(round(value / grain), 1) * grain;
}

static void set(et_recipe_value *values, int row, double number)
{
    if (!values[row].given)
        values[row].number = number;
}

typedef struct model_size {
    double pairs, tokens; /* minimum for this size; tokens: of the whole run */
    double width, layers, heads, inner, rate;
} model_size;

/* A larger model needs more text, and more time for each token. The first row has the sizes of
 * translation/tiny, the last those of translation/base. */
static const model_size sizes[] = {
    { 0, 0, 128, 4, 4, 256, 0.005 },
    { 6e4, 6e7, 256, 4, 4, 1024, 0.003 },
    { 5e5, 1e9, 512, 6, 8, 2048, 0.002 },
};

static const model_size *size_of(double pairs, double tokens)
{
    const model_size *size = sizes;
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++)
        if (pairs >= sizes[i].pairs && tokens >= sizes[i].tokens)
            size = &sizes[i];
    return size;
}

/* Wider models learn at lower rates. */
static double rate_of(double width)
{
    const model_size *size = sizes;
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++)
        if (width >= sizes[i].width)
            size = &sizes[i];
    return size->rate;
}

/* Some twenty updates a pass; each shard has room for the longest sentence. */
static double batch_of(const et_recipe_amounts *amounts, double longest)
{
    const double batch = to_multiple(clamp(amounts->units / 20, 512, 2048), 256);
    const double shards = (double)amounts->shards;
    return shards * ceil(fmax(batch / shards, longest));
}

/* summary, validation, checkpoint: rows. */
static void set_intervals(et_recipe_value *values, double steps, double validations, int summary,
                          int validation, int checkpoint)
{
    const double interval = fmax(ceil(steps / validations), 1);
    set(values, summary, fmax(floor(interval / 4), 1));
    set(values, validation, interval);
    set(values, checkpoint, interval);
}

static void choose(const void *settings, const et_recipe_amounts *amounts, et_recipe_value *values)
{
    const et_translation_options *options = settings;
    const double pairs = (double)amounts->samples;
    set(values, BATCH, batch_of(amounts, (double)options->train_data.max_seq_length));
    const double batch = values[BATCH].number;
    const double steps =
        amounts->steps ? (double)amounts->steps : fmax(amounts->epochs * amounts->units / batch, 1);
    const double epochs = steps * batch / amounts->units;

    const model_size *size = size_of(pairs, steps * batch);
    set(values, WIDTH, size->width);
    double heads = size->heads;
    while (heads > 1 && fmod(values[WIDTH].number, heads) != 0)
        heads /= 2;
    set(values, ENCODER_LAYERS, size->layers);
    set(values, DECODER_LAYERS, size->layers);
    set(values, ENCODER_HEADS, heads);
    set(values, DECODER_HEADS, heads);
    set(values, ENCODER_INNER, size->inner);
    set(values, DECODER_INNER, size->inner);
    set(values, VOCABULARY, to_multiple(clamp(46 * sqrt(pairs), 1000, 32000), 500));
    const double least = epochs < 3 ? 0.05 : 0.1, dropout = 0.1 + 0.1 * log2(epochs / 10);
    set(values, DROPOUT, to_multiple(clamp(dropout, least, 0.3), 0.05));
    set(values, ENCODER_DROPOUT, values[DROPOUT].number);
    set(values, DECODER_DROPOUT, values[DROPOUT].number);
    set(values, SMOOTHING, 0.1);
    set(values, SAMPLED, options->model.r_drop > 0 ? 0 : fmax(2048, batch));
    set(values, PEAK, rate_of(values[WIDTH].number));
    set(values, DECAY, amounts->steps ? steps : -round(1000 * amounts->epochs));
    set(values, WARMUP, to_multiple(clamp(0.1 * steps, 1, 1000), steps > 200 ? 10 : 1));
    set(values, AVERAGE, steps > 8000 ? 0.999 : 0.998);

    /* Validations take a small share of the run. */
    const double validations =
        clamp(floor(ET_RECIPE_VALIDATION * steps / fmax(amounts->validation, 1)), 1,
              ET_RECIPE_VALIDATIONS);
    set_intervals(values, steps, validations, SUMMARY, VALIDATION, CHECKPOINT);
}

const et_recipe et_translation_recipe = {
    .experiment = ET_TRANSLATION_AUTO,
    .noun = "pair",
    .rows = rows,
    .count = COUNT,
    .measure = measure,
    .choose = choose,
};

/* ---- fine-tuning ---- */

/* As ROWS. */
#define TUNED(X)                                                                                   \
    X(TUNED_RATE, RATE "polynomial.initial_learning_rate", "rate", false, NULL)                    \
    X(TUNED_END, RATE "polynomial.end_learning_rate", "falling to", false, NULL)                   \
    X(TUNED_DECAY, RATE "polynomial.decay_steps", NULL, false, NULL)                               \
    X(TUNED_WARMUP, "trainer.optimizer_config.warmup.linear.warmup_steps", "warm-up steps", false, \
      NULL)                                                                                        \
    X(TUNED_SMOOTHING, MODEL "label_smoothing", "label smoothing", false, NULL)                    \
    X(TUNED_BATCH, "task.train_data.global_batch_size", "batches of", false, NULL)                 \
    X(TUNED_AVERAGE, "trainer.optimizer_config.ema.average_decay", "average of weights", false,    \
      NULL)                                                                                        \
    X(TUNED_SUMMARY, "trainer.summary_interval", NULL, false, NULL)                                \
    X(TUNED_VALIDATION, "trainer.validation_interval", "steps between validations", false, NULL)   \
    X(TUNED_CHECKPOINT, "trainer.checkpoint_interval", NULL, false, NULL)                          \
    X(TUNED_PATIENCE, "trainer.early_stopping.patience", "early stopping after validations",       \
      false, NULL)

enum { TUNED(NAME) TUNED_COUNT };
static const et_recipe_row tuned_rows[TUNED_COUNT] = { TUNED(ROW) };

static const char tuned_settings[] =
    "{trainer: {optimizer_config: {optimizer: {type: adam, adam: {beta_2: 0.98, epsilon: 1e-9}}, "
    "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 1e-4, "
    "end_learning_rate: 1e-5, power: 1}}, warmup: {type: linear, linear: {warmup_steps: 10}}, "
    "ema: {enabled: true, average_decay: 0.99}}, train_steps: 5ep, summary_interval: 100, "
    "checkpoint_interval: 500, validation_interval: 500}}";

#define TUNED_PATIENCE_MAX 3  /* validations */
#define TUNED_VALIDATIONS  10 /* so many that a run can stop early */

/* A model that knows the language needs few passes, most of all over a large text. */
static int measure_tuned(const void *settings, et_recipe_amounts *amounts, et_error *error)
{
    int status = measure(settings, amounts, error);
    amounts->epochs = clamp(round(5 * sqrt(30000 / (double)amounts->samples)), 1, 10);
    return status;
}

static void choose_tuned(const void *settings, const et_recipe_amounts *amounts,
                         et_recipe_value *values)
{
    const et_translation_options *options = settings;
    const double width = (double)options->model.embedding_width;
    set(values, TUNED_BATCH, batch_of(amounts, (double)options->train_data.max_seq_length));
    const double batch = values[TUNED_BATCH].number;
    const double steps =
        amounts->steps ? (double)amounts->steps : fmax(amounts->epochs * amounts->units / batch, 1);
    set(values, TUNED_RATE, clamp(0.05 / width, 5e-5, 4e-4));
    set(values, TUNED_END, values[TUNED_RATE].number / 10);
    set(values, TUNED_DECAY, amounts->steps ? steps : -round(1000 * amounts->epochs));
    set(values, TUNED_WARMUP, round(clamp(0.05 * steps, 1, 50)));
    set(values, TUNED_AVERAGE, clamp(1 - 10 / steps, 0.9, 0.999));
    const double validations =
        amounts->fitting > 0 ? fmin(amounts->fitting, TUNED_VALIDATIONS) : TUNED_VALIDATIONS;
    set_intervals(values, steps, validations, TUNED_SUMMARY, TUNED_VALIDATION, TUNED_CHECKPOINT);
    set(values, TUNED_PATIENCE, amounts->validation > 0 ? TUNED_PATIENCE_MAX : 0);
}

const et_recipe et_translation_finetuning = {
    .settings = tuned_settings,
    .noun = "pair",
    .rows = tuned_rows,
    .count = TUNED_COUNT,
    .validations = TUNED_VALIDATIONS,
    .measure = measure_tuned,
    .choose = choose_tuned,
};
