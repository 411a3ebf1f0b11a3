#include "tasks/translation/recipe.h"

#include <math.h>

#include "base/alloc.h"
#include "data/text/corpus.h"
#include "tasks/translation/input.h"
#include "tasks/translation/translation_options.h"

/* X(name, setting, label), in the order in which people read them; followers behind their first. */
#define ROWS(X)                                                                                    \
    X(VOCABULARY, "task.vocabulary.max_size", "vocabulary up to")                                  \
    X(DROPOUT, "task.model.dropout_rate", "dropout")                                               \
    X(ENCODER_DROPOUT, "task.model.encoder.dropout_rate", NULL)                                    \
    X(DECODER_DROPOUT, "task.model.decoder.dropout_rate", NULL)                                    \
    X(SMOOTHING, "task.model.label_smoothing", "label smoothing")                                  \
    X(SAMPLED, "task.model.sampled_vocabulary", "sampled softmax")                                 \
    X(BATCH, "task.train_data.global_batch_size", "batches of")                                    \
    X(PEAK, RATE "cosine.initial_learning_rate", "peak rate")                                      \
    X(DECAY, RATE "cosine.decay_steps", NULL)                                                      \
    X(WARMUP, "trainer.optimizer_config.warmup.linear.warmup_steps", "warm-up steps")              \
    X(AVERAGE, "trainer.optimizer_config.ema.average_decay", "average of weights")                 \
    X(SUMMARY, "trainer.summary_interval", NULL)                                                   \
    X(VALIDATION, "trainer.validation_interval", "steps between validations")                      \
    X(CHECKPOINT, "trainer.checkpoint_interval", NULL)

#define RATE                       "trainer.optimizer_config.learning_rate."
#define NAME(name, setting, label) name,
#define ROW(name, setting, label)  { setting, label },
enum { ROWS(NAME) COUNT };
static const et_recipe_row rows[COUNT] = { ROWS(ROW) };

/* ---- measuring ---- */

#define BYTES_A_TOKEN 4.5 /* of a target text */

/* Pairs that training may see, before those are left out that are too long. */
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

/* Passes: what a small model still learns from. */
static double usual_epochs(int64_t pairs)
{
    const double epochs = 20 * sqrt(30000 / (double)pairs);
    return epochs < 3 ? 3 : epochs > 60 ? 60 : round(epochs);
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

#define SEARCH 16.0 /* what a token takes that is searched for, by one that is trained on */

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
    amounts->epochs = usual_epochs(amounts->samples);
    amounts->validation = SEARCH * tokens / (double)options->train_data.global_batch_size;
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

static void choose(const void *settings, const et_recipe_amounts *amounts, et_recipe_value *values)
{
    const et_translation_options *options = settings;
    const double pairs = (double)amounts->samples;
    set(values, BATCH, 2048);
    const double batch = values[BATCH].number;
    const double steps =
        amounts->steps ? (double)amounts->steps : fmax(amounts->epochs * amounts->units / batch, 1);
    const double epochs = steps * batch / amounts->units;

    set(values, VOCABULARY, to_multiple(clamp(46 * sqrt(pairs), 1000, 32000), 500));
    const double dropout = to_multiple(clamp(0.1 + 0.05 * log2(epochs / 8), 0.05, 0.3), 0.05);
    set(values, DROPOUT, dropout);
    set(values, ENCODER_DROPOUT, values[DROPOUT].number);
    set(values, DECODER_DROPOUT, values[DROPOUT].number);
    set(values, SMOOTHING, 0.1);
    set(values, SAMPLED, options->model.r_drop > 0 ? 0 : fmax(2048, batch));
    set(values, PEAK, 0.005);
    set(values, DECAY, amounts->steps ? steps : -round(1000 * amounts->epochs));
    set(values, WARMUP, to_multiple(clamp(0.1 * steps, 1, 1000), steps > 200 ? 10 : 1));
    set(values, AVERAGE, 0.998);

    const double one = fmax(amounts->validation, 1);
    const double validations =
        clamp(floor(ET_RECIPE_VALIDATION * steps / one), 1, ET_RECIPE_VALIDATIONS);
    const double interval = fmax(ceil(steps / validations), 1);
    set(values, SUMMARY, fmax(floor(interval / 4), 1));
    set(values, VALIDATION, interval);
    set(values, CHECKPOINT, interval);
}

const et_recipe et_translation_recipe = {
    .experiment = ET_TRANSLATION_AUTO,
    .noun = "pair",
    .rows = rows,
    .count = COUNT,
    .measure = measure,
    .choose = choose,
};
