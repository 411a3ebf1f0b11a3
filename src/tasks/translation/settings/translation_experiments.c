/* The experiments of translation. To add one: a row with the settings that differ from the defaults
 * of translation_options.c and train/run/options.c. */
#include "tasks/translation/settings/recipe.h"
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

/* Settings that translation/auto does not choose (recipe.h), and initial values of those that it
 * does. The rate falls to two fifths and the model is the moving average of the weights, so a run
 * may end earlier, or continue at that rate. */
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
 * are wmt14_translate/de-en, training and test, so name files of it in train_data and
 * validation_data here (and a model in sentencepiece_model_path, or one is trained). The other two
 * use its recipe at other widths, with its rate 2 / sqrt(width). */
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

static const et_task_kind settings = {
    .name = "translation",
    .fields = &et_translation_fields,
    .size = sizeof(et_translation_options),
    .experiments = et_translation_experiments,
    .check = et_translation_check,
    .check_metric = et_translation_check_metric,
    .recipe = &et_translation_recipe,
    .finetuning = &et_translation_finetuning,
};
static const et_task_kind *const kinds[] = { &settings };
const et_program et_translation_program = { .name = "etude", .kinds = kinds, .count = 1 };
