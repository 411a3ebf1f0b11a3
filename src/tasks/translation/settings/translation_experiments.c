/* The experiments of translation. To add one: a row with the settings that differ from the defaults
 * of translation_options.c and train/run/options.c. */
#include <math.h>

#include "data/text/corpus.h"
#include "tasks/translation/settings/input.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/settings/translation_options.h"

/* fairseq's transformer: post-norm, biases everywhere, dropout only between sub-layers. */
#define FAIRSEQ_STACK                                                                              \
    "{num_layers: 4, num_attention_heads: 4, intermediate_size: 256, use_bias: true, "             \
    "norm_first: false, final_norm: false, norm_epsilon: 1e-5, dropout_rate: 0.3, "                \
    "attention_dropout_rate: 0, intermediate_dropout: 0}"

/* Model and recipe of Wu et al. 2021, "Good for misconceived reasons" (Multi30k). The learning
 * rate rises for 2000 steps to 0.005 and falls with 1/sqrt(step). */
#define TINY                                                                                       \
    "{task: {model: {encoder: " FAIRSEQ_STACK ", decoder: " FAIRSEQ_STACK ", "                     \
    "embedding_width: 128, dropout_rate: 0.3}}, "                                                  \
    "trainer: {optimizer_config: {optimizer: {type: adam, adam: {beta_2: 0.98, epsilon: 1e-8}}, "  \
    "learning_rate: {type: inverse_sqrt, inverse_sqrt: {peak_learning_rate: 0.005, "               \
    "warmup_init_learning_rate: 1e-7, warmup_steps: 2000}}}, "                                     \
    "train_steps: 6000, steps_per_loop: 100, summary_interval: 100}}"

/* Settings that translation/auto does not choose (ROWS), and initial values of chosen settings. The
 * rate falls to two fifths, and the moving average of the weights is the model. So a run may end
 * earlier, or continue at the final rate. */
#define AUTO_STACK                                                                                 \
    "{num_layers: 4, num_attention_heads: 4, intermediate_size: 256, use_bias: true, "             \
    "norm_epsilon: 1e-5, dropout_rate: 0.1, attention_dropout_rate: 0, intermediate_dropout: 0}"
#define AUTO                                                                                       \
    "{task: {vocabulary: {model_type: bpe}, train_data: {global_batch_size: 2048, "                \
    "max_seq_length: 256}, validation_data: {max_seq_length: 256}, "                               \
    "model: {encoder: " AUTO_STACK ", decoder: " AUTO_STACK                                        \
    ", embedding_width: 128, dropout_rate: 0.1, alpha: 1}}, "                                      \
    "trainer: {optimizer_config: {optimizer: {type: muon, "                                        \
    "muon: {exclude_from_orthogonalization: [embedding], orthogonalization_dtype: bfloat16}}, "    \
    "learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.005, alpha: 0.4}}, "          \
    "warmup: {type: linear, linear: {warmup_steps: 200}}, ema: {enabled: true, average_decay: "    \
    "0.998}}, "                                                                                    \
    "train_steps: 20ep, summary_interval: 100, max_to_keep: 2}}"

/* The base model of Vaswani et al. 2017 with Model Garden's schedule for it. Its rate is
 * width^-0.5 * 2 * min(step^-0.5, step * warmup^-1.5): 2 / sqrt(512) and power -0.5, with the
 * linear warm-up in front. */
#define BASE                                                                                       \
    "{task: {vocabulary: {max_size: 32000}, train_data: {global_batch_size: 24576}}, "             \
    "trainer: {optimizer_config: {optimizer: {type: adam, adam: {beta_2: 0.997, epsilon: 1e-9}}, " \
    "learning_rate: {type: power, power: {initial_learning_rate: 0.08838834764831843, "            \
    "power: -0.5}}, warmup: {type: linear, linear: {warmup_steps: 16000}}}, "                      \
    "train_steps: 300000, steps_per_loop: 1000, summary_interval: 1000, "                          \
    "checkpoint_interval: 5000, validation_interval: 5000}}"

/* The students of Bergamot and Firefox, "tiny11": post-norm with biases, the decoder a recurrence,
 * no dropout and no smoothing, because a student learns from a teacher's translations (`augment
 * --forward`). The rate rises for 16,000 steps to 0.0003. Source: browsermt/students,
 * train-student. */
#define STUDENT_STACK                                                                              \
    "num_attention_heads: 8, intermediate_size: 1536, activation: relu, use_bias: true, "          \
    "norm_first: false, final_norm: false, norm_epsilon: 1e-6, dropout_rate: 0, "                  \
    "attention_dropout_rate: 0, intermediate_dropout: 0}"
#define STUDENT                                                                                    \
    "{task: {vocabulary: {max_size: 32000}, train_data: {global_batch_size: 24576}, "              \
    "model: {encoder: {num_layers: 6, " STUDENT_STACK                                              \
    ", decoder: {num_layers: 2, recurrence: ssru, " STUDENT_STACK                                  \
    ", embedding_width: 256, zero_start: true, dropout_rate: 0, label_smoothing: 0, beam_size: "   \
    "1, "                                                                                          \
    "alpha: 1, length_penalty: length, shrink_beam: true}}, "                                      \
    "trainer: {optimizer_config: {optimizer: {type: adam, adam: {beta_2: 0.98, epsilon: 1e-9}}, "  \
    "learning_rate: {type: inverse_sqrt, inverse_sqrt: {peak_learning_rate: 0.0003, "              \
    "warmup_init_learning_rate: 0, warmup_steps: 16000}}, ema: {enabled: true, "                   \
    "average_decay: 0.9999}}, "                                                                    \
    "train_steps: 300000, steps_per_loop: 1000, summary_interval: 1000, "                          \
    "checkpoint_interval: 5000, validation_interval: 5000}}"

/* Model Garden's wmt_transformer/large, with every value that it sets except enable_xla. Its data
 * are wmt14_translate/de-en, training and test: name their files in train_data and validation_data.
 * If sentencepiece_model_path names no model, one is trained. The other two use its recipe at other
 * widths, with its rate 2 / sqrt(width). */
#define WMT_DATA                                                                                   \
    "train_data: {global_batch_size: 24576, static_batch: true, max_seq_length: 64, " WMT_PAIR     \
    "}, validation_data: {global_batch_size: 32, static_batch: true, max_seq_length: "             \
    "100, " WMT_PAIR "}"
#define WMT_PAIR "src_lang: en, tgt_lang: de"
#define WMT(width, heads, inner, rate)                                                             \
    "{task: {vocabulary: {max_size: 32000}, model: {padded_decode: true, decode_max_length: 100, " \
    "embedding_width: " width ", encoder: {num_attention_heads: " heads                            \
    ", intermediate_size: " inner "}, decoder: {num_attention_heads: " heads                       \
    ", intermediate_size: " inner "}}, " WMT_DATA "}, "                                            \
    "trainer: {optimizer_config: {optimizer: {type: adam, adam: {beta_2: 0.997, epsilon: 1e-9}}, " \
    "learning_rate: {type: power, power: {initial_learning_rate: " rate ", power: -0.5}}, "        \
    "warmup: {type: linear, linear: {warmup_steps: 16000, warmup_learning_rate: 0}}}, "            \
    "train_steps: 300000, steps_per_loop: 1000, summary_interval: 1000, "                          \
    "checkpoint_interval: 5000, validation_interval: 5000, max_to_keep: 1}}"

const et_experiment_row et_translation_experiments[] = {
    { ET_TRANSLATION_AUTO,
      "settings chosen from the number of pairs and the steps or the time limit", AUTO },
    { "translation/tiny", "4+4 layers, width 128, feed-forward 256, 4 heads, post-norm", TINY },
    { ET_TRANSLATION_BASE, "6+6 layers, width 512, feed-forward 2,048, 8 heads, pre-norm", BASE },
    { "translation/student",
      "6+2 layers, width 256, feed-forward 1,536, 8 heads, the decoder a recurrence: fast, for a "
      "teacher's translations",
      STUDENT },
    { "wmt_transformer/large", "6+6 layers, width 1,024, feed-forward 4,096, 16 heads, pre-norm",
      WMT("1024", "16", "4096", "0.0625") },
    { "wmt_transformer/base", "the same, width 512, feed-forward 2,048, 8 heads",
      WMT("512", "8", "2048", "0.08838834764831843") },
    { "wmt_transformer/tiny", "the same, width 128, feed-forward 512, 4 heads",
      WMT("128", "4", "512", "0.17677669529663687") },
    { NULL, NULL, NULL },
};

static const et_task_kind settings_alone = {
    .name = "translation",
    .fields = &et_translation_fields,
    .size = sizeof(et_translation_options),
    .experiments = et_translation_experiments,
    .check = et_translation_check,
    .check_metric = et_translation_check_metric,
    .recipe = &et_translation_recipe,
    .finetuning = &et_translation_finetuning,
};
static const et_task_kind *const kinds[] = { &settings_alone };
const et_program et_translation_program = { .name = "etude", .kinds = kinds, .count = 1 };

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
    /* 0.3, not 6 * 0.05, which is another number. */
    set(values, DROPOUT, to_multiple(20 * clamp(dropout, least, 0.3), 1) / 20);
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
