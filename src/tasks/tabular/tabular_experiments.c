/* Experiments of tables. Their length is in passes, because tables have any size. They end when
 * validation has not improved for a while; predictions use the best checkpoint. */
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/tabular_options.h"

/* For layers this small, bfloat16 would lose more accuracy than it saves time, and batches are made
 * faster than a thread could pass them on. */
#define RUNTIME "runtime: {mixed_precision_dtype: float32, prefetch: 0}"

#define PASSES(epochs, patience)                                                                   \
    "train_epochs: " epochs ", validation_interval: 1ep, checkpoint_interval: 1ep, "               \
    "summary_interval: 1ep, max_to_keep: 1, early_stopping: {patience: " patience "}"

/* With few rows, validation scores are mostly noise, so the last step is used. */
#define LAST(epochs)                                                                               \
    "train_epochs: " epochs ", validation_interval: 10ep, checkpoint_interval: 10ep, "             \
    "summary_interval: 10ep, max_to_keep: 1, best_checkpoint_eval_metric: null"

/* The average is about as good as a schedule that ends low, and does not depend on the length of
 * the training. excluded: parameters without decay. */
#define ADAMW(rate, decay, excluded)                                                               \
    "optimizer_config: {optimizer: {type: adamw, adamw: {weight_decay_rate: " decay                \
    ", exclude_from_weight_decay: [" excluded "]}}, "                                              \
    "learning_rate: {type: constant, constant: {learning_rate: " rate "}}, "                       \
    "ema: {enabled: true, average_decay: 0.999}}"

/* RealMLP-TD's: no clip and no average, since rate, decay and dropout end at 0. The rate is between
 * the paper's rates for classes (0.04) and for numbers (0.2). Frequencies begin ten times as high
 * as in the paper, which is better on the held-out rows of Adult and of California housing. */
#define REALMLP                                                                                    \
    "optimizer_config: {optimizer: {type: adamw, adamw: {weight_decay_rate: 0.02, beta_2: 0.95, "  \
    "gradient_clip_norm: 0, exclude_from_weight_decay: [bias]}}, "                                 \
    "learning_rate: {type: cosine_log, cosine_log: {peak_learning_rate: 0.1}}, "                   \
    "parameter_groups: [{pattern: input/scale, learning_rate_multiplier: 6}, "                     \
    "{pattern: 'periodic|bias|activation', learning_rate_multiplier: 0.1}], "                      \
    "regularization: {type: flat_cosine}}"

/* A member has its own rates and decay; the rate here is a factor on them. Gradients are not
 * clipped, because the norm would be of all members together. */
#define PACK                                                                                       \
    "optimizer_config: {optimizer: {type: muon, muon: {scale: shape, beta_2: 0.999, "              \
    "epsilon: 1e-8, exclude_from_weight_decay: [bias, phase], "                                    \
    "exclude_from_orthogonalization: ['logits|text_'], orthogonalization_dtype: auto}}, "          \
    "learning_rate: {type: constant, constant: {learning_rate: 1}}}"

/* A value with few rows carries little information. On the held-out rows of tables that have
 * irrelevant columns of many values, this makes the loss of the MLP some 1 % lower; on others the
 * loss is about the same. RealMLP's loss is not lower on Adult. */
#define SHRUNK "embedding_shrinkage: 5"

#define EXPERIMENT(task, trainer) "{task: {" task "}, trainer: {" trainer "}, " RUNTIME "}"

/* Many layers of a pack are wide enough for bfloat16 products, if the CPU has them. */
#define PACK_EXPERIMENT(task)                                                                      \
    "{task: {" task "}, trainer: {" PACK ", " PASSES("400", "32") "}, runtime: {prefetch: 0}}"

const et_experiment_row et_tabular_experiments[] = {
    { "tabular/linear", "linear and logistic regression",
      EXPERIMENT("model: {type: linear}, features: {discrete: one-hot}",
                 ADAMW("1e-2", "0", "") ", " PASSES("100", "10")) },
    { "tabular/tf_idf", "the same, with free texts as TF-IDF vectors",
      EXPERIMENT("model: {type: linear, word_weights: tf-idf}, features: {discrete: one-hot}",
                 ADAMW("3e-2", "0", "") ", " PASSES("100", "10")) },
    { "tabular/feed_forward", "TensorFX's model: layers with relu, gradient descent",
      EXPERIMENT("model: {type: feed_forward}, train_data: {batch_size: 128}, "
                 "features: {numeric: standardize, discrete: one-hot}",
                 "optimizer_config: {optimizer: {type: sgd}, "
                 "learning_rate: {type: constant, constant: {learning_rate: 0.01}}}, "
                 "train_steps: 1000, summary_interval: 100") },
    { "tabular/mlp", "3 layers of 128, numbers piecewise-linearly encoded",
      EXPERIMENT("model: {type: mlp, mlp: {columns: {" SHRUNK "}}}",
                 ADAMW("2e-3", "0.3", "") ", " PASSES("100", "10")) },
    { "tabular/mlp_small",
      "the same for at most some thousand rows: more weight decay, fixed length",
      EXPERIMENT("model: {type: mlp, mlp: {columns: {" SHRUNK "}}}",
                 ADAMW("2e-3", "1", "") ", " LAST("40")) },
    { "tabular/resnet", "2 blocks of 192, batch norm (Gorishniy et al. 2021)",
      EXPERIMENT("model: {type: resnet, resnet: {columns: {" SHRUNK "}}}",
                 ADAMW("1e-3", "0.1", "") ", " PASSES("100", "10")) },
    { "tabular/ft_transformer", "3 blocks of 192, columns as tokens (Gorishniy et al. 2021)",
      EXPERIMENT("model: {type: ft_transformer}",
                 ADAMW("1e-4", "1e-5", "bias, norm, tokenizer") ", " PASSES("100", "16")) },
    { "tabular/realmlp",
      "3 layers of 256, periodic numbers (Holzmueller et al. 2024, without biases from data)",
      EXPERIMENT(
          "model: {type: realmlp, realmlp: {columns: {numbers: periodic, frequency_scale: 1, "
          "one_hot_levels: 8, embedding_width: 8}, parametric_activation: true}}, "
          "features: {numeric: robust}",
          REALMLP ", " PASSES("256", "0")) },
    { "tabular/tabm", "32 networks that share 2 layers of 128 (Gorishniy et al. 2025)",
      EXPERIMENT("model: {type: tabm, tabm: {columns: {bins: 16, " SHRUNK
                 "}, shared_batches: false}}",
                 ADAMW("2e-3", "3e-4", "") ", " PASSES("100", "16")) },
    { "tabular/pack",
      "64 networks with different settings, an ensemble of the best (Gorishniy et al. 2026)",
      PACK_EXPERIMENT("model: {type: pack}, features: {numeric: quantile}") },
    { ET_TABULAR_AUTO,
      "trains linear, mlp, realmlp, tabm and a small pack (tf_idf, too, if there are texts), keeps "
      "the "
      "best or their weighted mean",
      EXPERIMENT("model: {type: mlp}, features: {also: robust}",
                 ADAMW("2e-3", "0.3", "") ", " PASSES("100", "10")) },
    { NULL, NULL, NULL },
};

static const et_task_kind settings = {
    .name = "tabular",
    .fields = &et_tabular_fields,
    .size = sizeof(et_tabular_options),
    .experiments = et_tabular_experiments,
    .check = et_tabular_check,
    .check_metric = et_tabular_check_metric,
};
static const et_task_kind *const kinds[] = { &settings };
const et_program et_tabular_program = { .name = "etude", .kinds = kinds, .count = 1 };
