/* Settings of the translation task: Model Garden's names and defaults if it has them, and Etude's
 * own. */
#ifndef ETUDE_TASKS_TRANSLATION_SETTINGS_TRANSLATION_OPTIONS_H
#define ETUDE_TASKS_TRANSLATION_SETTINGS_TRANSLATION_OPTIONS_H

#include <etude/privacy.h>

#include "base/fields/fields.h"
#include "data/text/vocabulary/vocabulary.h"
#include "engine/nn/transformer.h"

/* The most that a translation has, in tokens, and the largest length penalty. */
#define ET_TRANSLATION_LENGTH_MAX 65535
/* Limits of a stack: layers, heads, width of the feed-forward's inner layer. */
#define ET_TRANSLATION_LAYERS_MAX 256
#define ET_TRANSLATION_HEADS_MAX  1024
#define ET_TRANSLATION_INNER_MAX  1048576

/* Longest source that is translated, in tokens, EOS counted; longer ones are cut, with a
 * message. */
#define ET_TRANSLATION_SOURCE_MAX 1024
#define ET_TRANSLATION_ALPHA_MAX  10.0
#define ET_TRANSLATION_FACTOR_MAX 100.0

/* task.model.encoder, task.model.decoder */
typedef struct et_translation_stack {
    int64_t num_layers, num_attention_heads; /* heads divide the width */
    int64_t intermediate_size;               /* of the feed-forward's inner layer */
    int activation;                          /* an et_activation */
    /* After each sub-layer, on attention's weights, after the activation of the feed-forward. */
    double dropout_rate, attention_dropout_rate, intermediate_dropout;
    /* Biases of attention's projections; pre-norm; a norm after the last layer. */
    bool use_bias, norm_first, final_norm;
    double norm_epsilon; /* added to the variance */
    int recurrence;      /* ET_RECURRENCE_*; of the decoder */
} et_translation_stack;

/* In place of the decoder's self-attention: transformer.h has the formula of SSRU. */
enum { ET_RECURRENCE_NONE, ET_RECURRENCE_SSRU };

/* Wavelengths of positions: to 10000 times the shortest, or just below (et_sinusoid_open). */
enum { ET_SINUSOIDS_TENSOR2TENSOR, ET_SINUSOIDS_PAPER };

/* Scores of a search are divided by ((5 + length) / 6)^alpha, or by length^alpha (beam.h). */
enum { ET_LENGTH_PENALTY_GNMT, ET_LENGTH_PENALTY_LENGTH };

/* task.model */
typedef struct et_translation_model {
    et_translation_stack encoder, decoder;
    int64_t embedding_width; /* of embeddings and all layers; even */
    bool tied_embeddings;    /* the target's are the output projection */
    bool shared_embeddings;  /* two vocabularies, which number their tokens alike, have one table */
    bool scale_embeddings;   /* by sqrt(width) */
    int sinusoids;           /* ET_SINUSOIDS_* */
    bool output_bias;        /* added to logits, not trained */
    bool zero_start;         /* the start token's embedding is zeros, not trained */
    double dropout_rate;
    bool padded_decode;           /* decode_max_length must be given */
    int64_t decode_max_length;    /* 0: from the source length */
    int64_t extra_decode_length;  /* tokens that a translation may be longer than its source */
    double decode_length_factor;  /* in place of extra_decode_length; 0: not used */
    int64_t beam_size;            /* hypotheses kept; 1: greedy */
    double alpha;                 /* of the length penalty */
    int length_penalty;           /* ET_LENGTH_PENALTY_* */
    bool shrink_beam;             /* et_beam_options.shrinks */
    bool force_end;               /* also ends a translation of the greatest length with EOS */
    et_strings suppressed_tokens; /* of the target, never generated */
    double label_smoothing;       /* spread over the tokens that are not the label */
    double r_drop;                /* weight of the difference between two draws of dropout; 0: one
                                     draw */
    int64_t sampled_vocabulary;   /* tokens that an update's softmax is over; 0: all */
} et_translation_model;

/* How pairs become batches: as many as fit the token budget, or by bucket of length. */
enum { ET_BATCHING_PACKED, ET_BATCHING_BUCKETED };

/* task.train_data.mix, task.validation_data.sets: one text among several. Paths as in
 * et_translation_data. */
typedef struct et_translation_part {
    et_strings source_path, target_path, tsv_path, input_path;
    const char *src_lang, *tgt_lang; /* empty: as the data's, and so the tag */
    const char *tag;                 /* in front of each source line */
    bool tag_column;                 /* of tsv_path: each line has its own tag */
    double weight;                   /* its share of a pass is weight by the sum of weights */
    const char *name;                /* of a set of validation data */
} et_translation_part;

/* A truth value that may be left open. */
enum { ET_TRANSLATION_UNSET, ET_TRANSLATION_TRUE, ET_TRANSLATION_FALSE };

/* task.train_data, task.validation_data; input.h describes their use. */
typedef struct et_translation_data {
    /* One of four. */
    et_strings source_path, target_path; /* line by line */
    et_strings tsv_path;                 /* source TAB target */
    et_strings input_path;               /* records of tf.Examples */
    et_structs mix;                      /* several texts: et_translation_part */
    const char *src_lang, *tgt_lang;     /* the two features of a record */
    const char *tag;                     /* as in et_translation_part, and the next */
    bool tag_column;
    et_structs sets;           /* validation data, each with its own scores: et_translation_part */
    int64_t global_batch_size; /* tokens of a batch, on each side; of validation with
                                  static_batch, pairs */
    int64_t max_seq_length;    /* tokens, EOS counted; in validation, of sentences in the
                                  loss */
    double max_length_ratio;   /* longer side by shorter; 0: any */
    bool deduplicate;
    int64_t limit;        /* the first pairs that are kept of a text; 0: all */
    int64_t shuffle_pool; /* sentence pairs sorted by length at a time */
    bool static_batch;    /* batches of so many pairs, whatever their lengths */
    int batching;         /* ET_BATCHING_* */
    const char *augment;  /* data/text/augment.h */
    double bpe_dropout;   /* rate of skipped merges (data/text/vocabulary/subwords.h); 0: none */
    double unigram_alpha; /* power of probabilities of drawn tokens (subwords.h); 0: none */
    int64_t seed;         /* of the order and of sampled tokens; -1: the run's */
    int64_t prefetch_buffer_size; /* batches read ahead in training; -1: the run's */
    /* From files of other systems, without effect. */
    int is_training, deterministic; /* ET_TRANSLATION_* */
    int64_t shuffle_buffer_size, cycle_length, block_length;
    bool drop_remainder, cache, sharding, tfds_as_supervised;
    const char *tfds_name, *tfds_split, *tfds_data_dir, *tfds_skip_decoding_feature;
} et_translation_data;

/* task.vocabulary.source, task.vocabulary.target: of a side that has its own vocabulary. */
typedef struct et_translation_side {
    int64_t size;     /* 0: as of both */
    const char *path; /* a SentencePiece model; NULL or empty: trained on the side's text */
} et_translation_side;

/* task.vocabulary */
typedef struct et_translation_vocabulary {
    bool shared; /* one of both sides; else source and target have one each */
    et_translation_side source, target;
    int64_t size;              /* 0: max_size, or the largest that the text allows */
    int64_t max_size;          /* where size is 0 */
    int model_type;            /* an et_vocabulary_kind */
    double character_coverage; /* share of characters that get their own tokens */
    const char *source_punctuation, *target_punctuation; /* languages; empty: not normalized */
    bool byte_fallback;
    et_strings user_defined_symbols; /* as in et_vocabulary_options */
} et_translation_vocabulary;

typedef struct et_translation_options {
    et_translation_model model;
    et_translation_data train_data, validation_data;
    const char *sentencepiece_model_path;       /* NULL: trained on the data */
    const char *init_checkpoint, *init_pattern; /* as in et_task */
    et_translation_vocabulary vocabulary;
    int64_t print_translations; /* of each validation, shown; all are in a file */
    int score_tokenize;         /* for BLEU in validation */
    bool score_lowercase;
    et_privacy_options differential_privacy_config;
} et_translation_options;

/* The table of all these settings: `task` in a settings file. */
extern const et_fields et_translation_fields;
extern const et_fields et_translation_data_fields; /* of et_translation_data */

/* Methods of the kind (settings: an et_translation_options).
 *
 * Checks relations between fields: heads divide widths, paths come in pairs, the budget holds a
 * sentence. ET_ECONFIG names the setting and the cure. */
int et_translation_check(const void *settings, et_error *error);

/* Values of validation in addition to losses; the first two have Model Garden's names. */
#define ET_TRANSLATION_BLEU        "sacrebleu_score"
#define ET_TRANSLATION_GARDEN_BLEU "bleu_score"
#define ET_TRANSLATION_CHRF        "chrf_score"

/* Checks that validation gives a value with this name (for "best"). ET_ECONFIG: no such value, or
 * no validation data; the error suggests the nearest name. */
int et_translation_check_metric(const void *settings, const char *name, et_error *error);

/* The model that the options describe. source, target: tokens of a side; max_positions: rows of the
 * sinusoid table. */
et_transformer et_translation_transformer(const et_translation_options *options, int64_t source,
                                          int64_t target, int64_t max_positions);

#endif
