/* Tables of the translation task's settings (base/fields/fields.h): a row is a member of
 * translation_options.h with its key, default, limits and help. Relations of two settings are
 * checked below the tables; relations with the data (does the longest sentence fit?) when the data
 * are open.
 *
 * To add a setting: a member in translation_options.h and a row here, then its use. If another
 * value makes another model, put .change = ET_CHANGE_MODEL after its help. */
#include "tasks/translation/settings/translation_options.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/strbuf.h"
#include "data/text/sentences.h"
#include "formats/events/log_names.h"
#include "tasks/translation/settings/input.h"
#include "tasks/translation/settings/vocabularies.h"
#include "train/run/options.h"

/* Rows of encoder and decoder. Defaults are those of the base model of Vaswani et al. 2017, as in
 * Model Garden (pre-norm). Dropout rates end below 1, because 1 would leave nothing; Model Garden
 * has dropout in three places, fairseq's model in the first only. Position of the norms, and
 * biases: the other settings of FAIRSEQ_STACK (translation_experiments.c). */
#define STACK_FIELDS                                                                               \
    ET_FIELD_INT(et_translation_stack, num_layers, 6, 1, ET_TRANSLATION_LAYERS_MAX,                \
                 "layers of the stack"),                                                           \
        ET_FIELD_INT(et_translation_stack, num_attention_heads, 8, 1, ET_TRANSLATION_HEADS_MAX,    \
                     "attention heads; must divide embedding_width"),                              \
        ET_FIELD_INT(et_translation_stack, intermediate_size, 2048, 1, ET_TRANSLATION_INNER_MAX,   \
                     "width of the feed-forward's inner layer"),                                   \
        ET_FIELD_CHOICE(et_translation_stack, activation, ET_ACTIVATION_RELU, et_activation_names, \
                        "activation of the feed-forward"),                                         \
        ET_FIELD_FLOAT(et_translation_stack, dropout_rate, 0.1, 0, 0.99,                           \
                       "dropout after each sub-layer", .change = ET_CHANGE_ASK),                   \
        ET_FIELD_FLOAT(et_translation_stack, attention_dropout_rate, 0.1, 0, 0.99,                 \
                       "dropout on attention weights", .change = ET_CHANGE_ASK),                   \
        ET_FIELD_FLOAT(et_translation_stack, intermediate_dropout, 0.1, 0, 0.99,                   \
                       "dropout inside the feed-forward", .change = ET_CHANGE_ASK),                \
        ET_FIELD_BOOL(et_translation_stack, use_bias, false,                                       \
                      "biases in attention projections (the feed-forward always has them)"),       \
        ET_FIELD_BOOL(et_translation_stack, norm_first, true,                                      \
                      "normalize before each sub-layer (pre-norm); false: after it (post-norm)"),  \
        ET_FIELD_BOOL(et_translation_stack, final_norm, true,                                      \
                      "normalize after the last layer; false with post-norm is fairseq's model"),  \
        ET_FIELD_FLOAT(et_translation_stack, norm_epsilon, 1e-6, 1e-12, 1,                         \
                       "added to the variance in layer norm")

static const et_field encoder_fields[] = { STACK_FIELDS, ET_FIELD_END };

/* ORDER ET_RECURRENCE_*. */
static const char *const recurrences[] = { "none", "ssru", NULL };

static const et_field decoder_fields[] = {
    STACK_FIELDS,
    ET_FIELD_CHOICE(
        et_translation_stack, recurrence, ET_RECURRENCE_NONE, recurrences,
        "ssru: a recurrence in place of self-attention, so that a step of decoding does "
        "not take longer as the sentence grows"),
    ET_FIELD_END
};

/* Named as messages name them. */
static const et_fields encoder_table = { "stack", encoder_fields };
static const et_fields decoder_table = { "stack", decoder_fields };

/* ORDER ET_SINUSOIDS_*. */
static const char *const sinusoids[] = { "tensor2tensor", "paper", NULL };

/* ORDER ET_LENGTH_PENALTY_*. */
static const char *const length_penalties[] = { "gnmt", "length", NULL };

/* The decode_*, beam_size and alpha rows are of searching: a trained run may be used with
 * others. */
static const et_field model_fields[] = {
    ET_FIELD_STRUCT(et_translation_model, encoder, &encoder_table, "the encoder",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_STRUCT(et_translation_model, decoder, &decoder_table,
                    "the decoder; a word sets its recurrence", .word = "recurrence",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_INT(et_translation_model, embedding_width, 512, 4, 65536,
                 "width of embeddings and of all layers; even", .change = ET_CHANGE_MODEL),
    ET_FIELD_BOOL(et_translation_model, tied_embeddings, true,
                  "use the target embeddings as the output projection; false: a separate matrix",
                  .change = ET_CHANGE_MODEL),
    ET_FIELD_BOOL(et_translation_model, shared_embeddings, false,
                  "one embedding table for two vocabularies whose tokens have the same IDs",
                  .change = ET_CHANGE_MODEL),
    ET_FIELD_BOOL(et_translation_model, scale_embeddings, true,
                  "multiply embeddings by the square root of embedding_width",
                  .change = ET_CHANGE_MODEL),
    ET_FIELD_CHOICE(et_translation_model, sinusoids, ET_SINUSOIDS_TENSOR2TENSOR, sinusoids,
                    "rates of the sinusoidal positions: 10000^(-i / (width / 2 - 1)), or as in the "
                    "paper 10000^(-i / (width / 2))",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_BOOL(et_translation_model, output_bias, false,
                  "add a bias to the logit of each token; training keeps its initial values",
                  .change = ET_CHANGE_MODEL),
    ET_FIELD_BOOL(
        et_translation_model, zero_start, false,
        "the embedding of the first target token is zero and is not trained, as in Marian",
        .change = ET_CHANGE_MODEL),
    ET_FIELD_FLOAT(et_translation_model, dropout_rate, 0.1, 0, 0.99, "dropout on embeddings",
                   .change = ET_CHANGE_ASK),
    /* From here to alpha: searching, in validation and as the translator's defaults. */
    ET_FIELD_BOOL(et_translation_model, padded_decode, false,
                  "decode in steps of equal shape, up to decode_max_length (required); the results "
                  "are the same"),
    ET_FIELD_INT(et_translation_model, decode_max_length, 0, 0, ET_TRANSLATION_LENGTH_MAX,
                 "longest translation in tokens; 0: source length + extra_decode_length",
                 .nullable = true),
    ET_FIELD_INT(et_translation_model, extra_decode_length, 50, 0, ET_TRANSLATION_LENGTH_MAX,
                 "tokens by which a translation may exceed its source"),
    ET_FIELD_FLOAT(et_translation_model, decode_length_factor, 0, 0, ET_TRANSLATION_FACTOR_MAX,
                   "longest translation by source length, as Marian's max-length-factor, in place "
                   "of extra_decode_length; 0: not used"),
    ET_FIELD_INT(et_translation_model, beam_size, 4, 1, 64, "hypotheses in the beam; 1: greedy"),
    ET_FIELD_FLOAT(et_translation_model, alpha, 0.6, 0, ET_TRANSLATION_ALPHA_MAX,
                   "power of the length penalty"),
    ET_FIELD_CHOICE(et_translation_model, length_penalty, ET_LENGTH_PENALTY_GNMT, length_penalties,
                    "scores are divided by ((5 + length) / 6)^alpha (gnmt), or by length^alpha; "
                    "length also ends the search as transformers does"),
    ET_FIELD_BOOL(et_translation_model, shrink_beam, false,
                  "each finished hypothesis makes the beam narrower, as in Marian; false: the beam "
                  "keeps its width"),
    ET_FIELD_BOOL(et_translation_model, force_end, false,
                  "a translation that reaches the maximal length gets the end of the sentence as "
                  "its last token, without effect on the score"),
    ET_FIELD_STRINGS(et_translation_model, suppressed_tokens,
                     "tokens of the target that are never generated, such as <pad>"),
    /* For the loss, in training and in validation. */
    ET_FIELD_FLOAT(et_translation_model, label_smoothing, 0.1, 0, 0.99,
                   "probability spread over the tokens that are not the label",
                   .change = ET_CHANGE_ASK),
    ET_FIELD_FLOAT(et_translation_model, r_drop, 0, 0, 1000,
                   "R-Drop: compute each batch twice with different dropout and add a loss on the "
                   "difference, with this weight (5 is usual); 0: off",
                   .change = ET_CHANGE_ASK),
    ET_FIELD_INT(et_translation_model, sampled_vocabulary, 0, 0, INT32_MAX,
                 "sampled softmax: number of tokens in an update's softmax (the batch's tokens and "
                 "random other tokens); at least the tokens of a batch (or shard); 0: all. "
                 "Validation always uses all",
                 .change = ET_CHANGE_ASK),
    ET_FIELD_END
};
static const et_fields model_table = { "model", model_fields };

/* ORDER ET_BATCHING_*. */
static const char *const batchings[] = { "packed", "bucketed", NULL };

/* Rows of a text, which a part of a mix has as well. */
#define TEXT_FIELDS(type)                                                                          \
    ET_FIELD_STRINGS(type, source_path,                                                            \
                     "text files of the source language, plain or .gz, one sentence per line",     \
                     .change = ET_CHANGE_FREE),                                                    \
        ET_FIELD_STRINGS(type, target_path,                                                        \
                         "text files of the target language, the translations line by line",       \
                         .change = ET_CHANGE_FREE),                                                \
        ET_FIELD_STRINGS(                                                                          \
            type, tsv_path,                                                                        \
            "instead of source_path and target_path: files with SOURCE TAB TARGET per line",       \
            .change = ET_CHANGE_FREE),                                                             \
        ET_FIELD_STRINGS(type, input_path,                                                         \
                         "instead of text files: TFRecord files of tf.Examples, plain or GZIP",    \
                         .change = ET_CHANGE_FREE),                                                \
        ET_FIELD_STRING(type, src_lang, "", "feature of input_path with the source",               \
                        .change = ET_CHANGE_FREE),                                                 \
        ET_FIELD_STRING(type, tgt_lang, "", "feature of input_path with the translation",          \
                        .change = ET_CHANGE_FREE),                                                 \
        ET_FIELD_STRING(type, tag, "",                                                             \
                        "token in front of each source line, such as >>fra<<: the language that "  \
                        "a multilingual model translates to",                                      \
                        .change = ET_CHANGE_FREE),                                                 \
        ET_FIELD_BOOL(                                                                             \
            type, tag_column, false,                                                               \
            "tsv_path has three columns, TAG TAB SOURCE TAB TARGET: a tag for each line",          \
            .change = ET_CHANGE_FREE)

static const et_field part_fields[] = {
    TEXT_FIELDS(et_translation_part),
    ET_FIELD_FLOAT(et_translation_part, weight, 1, 1e-6, 1e6,
                   "weight: fraction of the pairs that come from this part"),
    ET_FIELD_END
};
static const et_fields part_table = { "mix", part_fields };

static const et_field set_fields[] = {
    ET_FIELD_STRING(
        et_translation_part, name, "",
        "prefix of the logged scores of this set, such as news in news/" ET_TRANSLATION_BLEU),
    TEXT_FIELDS(et_translation_part), ET_FIELD_END
};
static const et_fields set_table = { "sets", set_fields };

/* ORDER ET_TRANSLATION_UNSET, ... */
static const char *const truths[] = { "null", "true", "false", NULL };

#define SEED_MAX 9007199254740992.0 /* 2^53: exact as a limit of a row */

/* One table for training and validation. Validation does not shuffle and skips nothing: sentences
 * longer than max_seq_length are cut there for the loss, and translated whole. */
static const et_field data_fields[] = {
    /* One of three forms: the first two, the third, the fourth (input.h). */
    TEXT_FIELDS(et_translation_data),
    ET_FIELD_STRUCTS(et_translation_data, mix, et_translation_part, &part_table,
                     "instead of paths: several texts with weights", .change = ET_CHANGE_FREE),
    ET_FIELD_STRUCTS(
        et_translation_data, sets, et_translation_part, &set_table,
        "for validation_data, instead of paths: several texts that are scored separately",
        .change = ET_CHANGE_FREE),
    ET_FIELD_INT(et_translation_data, global_batch_size, 4096, 1, 1048576,
                 "tokens per batch, on the source and on the target side"),
    /* Filters of training pairs: part of the cache's key (data/text/encoded.h). */
    ET_FIELD_INT(et_translation_data, max_seq_length, 64, 2, 65535,
                 "longest sentence in tokens, with the end of sentence; training skips longer "
                 "pairs; validation cuts them for the loss, but translates and scores them whole"),
    ET_FIELD_FLOAT(et_translation_data, max_length_ratio, 0, 0, 1000,
                   "maximal ratio of the two sentence lengths; 0: no limit"),
    ET_FIELD_BOOL(et_translation_data, deduplicate, false, "remove duplicate pairs"),
    ET_FIELD_INT(et_translation_data, limit, 0, 0, UINT32_MAX,
                 "number of pairs to use, from the first of each text after filtering; 0: all"),
    ET_FIELD_INT(et_translation_data, shuffle_pool, 8192, 1, 16777216,
                 "number of pairs that are sorted by length before they form batches"),
    ET_FIELD_BOOL(et_translation_data, static_batch, false,
                  "batches of global_batch_size / max_seq_length pairs (validation: "
                  "global_batch_size pairs) of any length"),
    ET_FIELD_CHOICE(et_translation_data, batching, ET_BATCHING_PACKED, batchings,
                    "packed: as many pairs as fit; bucketed: pairs of similar length, as in Model "
                    "Garden without static_batch"),
    ET_FIELD_STRING(et_translation_data, augment, "",
                    "changed copies of pairs in training, each with a rate: case:0.1 (capitals, "
                    "title case, lower case), placeholders:0.1 ({name}, %s, URLs, numbers)"),
    ET_FIELD_FLOAT(et_translation_data, bpe_dropout, 0, 0, 0.99,
                   "BPE dropout in training: probability to skip a merge, so a sentence has other "
                   "tokens in each pass"),
    ET_FIELD_FLOAT(et_translation_data, unigram_alpha, 0, 0, 1000,
                   "the same for a unigram vocabulary: sample tokens by their probability to this "
                   "power, such as 0.2; 0: the most likely"),
    ET_FIELD_INT(et_translation_data, seed, -1, -1, SEED_MAX,
                 "seed of the data order; -1: runtime.seed", .nullable = true),
    ET_FIELD_INT(et_translation_data, prefetch_buffer_size, -1, -1, 1024,
                 "batches read ahead in training; -1: runtime.prefetch", .nullable = true,
                 .change = ET_CHANGE_FREE),
    /* The following settings have no effect here, or are refused: input.h says why. */
    ET_FIELD_CHOICE(et_translation_data, is_training, ET_TRANSLATION_UNSET, truths,
                    "must be true in train_data, false in validation_data",
                    .change = ET_CHANGE_FREE),
    ET_FIELD_BOOL(et_translation_data, drop_remainder, false,
                  "no effect: no pair is dropped, because passes follow each other without gaps",
                  .change = ET_CHANGE_FREE),
    ET_FIELD_INT(et_translation_data, shuffle_buffer_size, 100, 0, INT64_MAX,
                 "no effect: all data is shuffled", .change = ET_CHANGE_FREE),
    ET_FIELD_BOOL(et_translation_data, cache, false, "no effect: encoded text is always cached",
                  .change = ET_CHANGE_FREE),
    ET_FIELD_INT(et_translation_data, cycle_length, 0, 0, INT64_MAX,
                 "no effect: pairs are numbered file by file, then shuffled", .nullable = true,
                 .change = ET_CHANGE_FREE),
    ET_FIELD_INT(et_translation_data, block_length, 1, 1, INT64_MAX, "no effect, as cycle_length",
                 .change = ET_CHANGE_FREE),
    ET_FIELD_CHOICE(et_translation_data, deterministic, ET_TRANSLATION_UNSET, truths,
                    "no effect: the order is always deterministic", .change = ET_CHANGE_FREE),
    ET_FIELD_BOOL(et_translation_data, sharding, true,
                  "no effect: every rank reads all data and computes a part of each batch",
                  .change = ET_CHANGE_FREE),
    ET_FIELD_STRING(et_translation_data, tfds_name, "",
                    "must be empty: there are no named data sets", .change = ET_CHANGE_FREE),
    ET_FIELD_STRING(et_translation_data, tfds_split, "",
                    "must be empty: there are no named data sets", .change = ET_CHANGE_FREE),
    ET_FIELD_STRING(et_translation_data, tfds_data_dir, "",
                    "must be empty: there are no named data sets", .change = ET_CHANGE_FREE),
    ET_FIELD_BOOL(et_translation_data, tfds_as_supervised, false,
                  "must be false: there are no named data sets", .change = ET_CHANGE_FREE),
    ET_FIELD_STRING(et_translation_data, tfds_skip_decoding_feature, "",
                    "must be empty: there are no named data sets", .change = ET_CHANGE_FREE),
    ET_FIELD_ONLY("sentencepiece_model_path", "",
                  "training and validation share the vocabulary in task.sentencepiece_model_path"),
    ET_FIELD_ONLY("transform_and_batch", "true", "text is always encoded and batched"),
    ET_FIELD_ONLY("has_unique_id", "false", "sentences are numbered as they are read"),
    ET_DATA_ONLY_FIELDS, ET_FIELD_END
};
const et_fields et_translation_data_fields = { "data", data_fields };

/* ORDER et_vocabulary_kind. */
static const char *const model_types[] = { "unigram", "bpe", NULL };

/* Sizes of a vocabulary: symbols and a few tokens; more than any text gives. */
#define SIZE_LEAST 8
#define SIZE_MOST  1000000

static const et_field side_fields[] = {
    ET_FIELD_INT(et_translation_side, size, 0, 0, SIZE_MOST,
                 "number of tokens when this vocabulary is trained; 0: task.vocabulary.size",
                 .zero = "auto"),
    ET_FIELD_STRING(et_translation_side, path, NULL,
                    "SentencePiece model of this language; null or \"\": trained on its text",
                    .change = ET_CHANGE_FREE),
    ET_FIELD_END
};
static const et_fields side_table = { "side", side_fields };

static const et_field vocabulary_fields[] = {
    ET_FIELD_BOOL(et_translation_vocabulary, shared, true,
                  "one vocabulary and embedding table for both languages; false: one for each",
                  .change = ET_CHANGE_MODEL),
    ET_FIELD_STRUCT(et_translation_vocabulary, source, &side_table,
                    "vocabulary of the source if shared is false"),
    ET_FIELD_STRUCT(et_translation_vocabulary, target, &side_table,
                    "vocabulary of the target if shared is false"),
    /* For training one; a given or kept vocabulary has its own. */
    ET_FIELD_INT(et_translation_vocabulary, size, 0, 0, SIZE_MOST,
                 "number of tokens when the vocabulary is trained; 0 or auto: max_size, or as many "
                 "as the text allows",
                 .zero = "auto"),
    ET_FIELD_INT(et_translation_vocabulary, max_size, 8000, SIZE_LEAST, SIZE_MOST,
                 "maximal number of tokens if size is 0"),
    ET_FIELD_CHOICE(et_translation_vocabulary, model_type, ET_VOCABULARY_UNIGRAM, model_types,
                    "kind of SentencePiece model"),
    ET_FIELD_FLOAT(et_translation_vocabulary, character_coverage, 1.0, 0.98, 1,
                   "fraction of the text's characters that the vocabulary covers"),
    ET_FIELD_BOOL(et_translation_vocabulary, byte_fallback, false,
                  "add 256 tokens for bytes, so that no character is unknown"),
    ET_FIELD_STRING(et_translation_vocabulary, source_punctuation, "",
                    "normalize the punctuation of the source as Moses does for this language, for "
                    "example en; \"\": do not",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_STRING(et_translation_vocabulary, target_punctuation, "", "the same for the target",
                    .change = ET_CHANGE_MODEL),
    ET_FIELD_STRINGS(et_translation_vocabulary, user_defined_symbols,
                     "texts that are always a single token, such as <url>"),
    ET_FIELD_END
};
static const et_fields vocabulary_table = { "vocabulary", vocabulary_fields };

/* Index 0: et_bleu_tokens 13a; 1: none. See open_scores in translation_validate.c. */
static const char *const tokenizers[] = { "13a", "none", NULL };

/* The root of `task`. */
static const et_field translation_fields[] = {
    ET_FIELD_STRUCT(et_translation_options, model, &model_table, "the Transformer"),
    ET_FIELD_STRUCT(et_translation_options, train_data, &et_translation_data_fields,
                    "training data", .change = ET_CHANGE_FIXED),
    ET_FIELD_STRUCT(et_translation_options, validation_data, &et_translation_data_fields,
                    "validation data; a list is read as sets", .list = "sets", .nullable = true),
    ET_FIELD_STRING(et_translation_options, sentencepiece_model_path, NULL,
                    "SentencePiece model; null or \"\": trained on the training data"),
    ET_FIELD_STRING(et_translation_options, init_checkpoint, NULL,
                    "initial weights of a new run: a file, a run's directory (its newest "
                    "checkpoint) or its best/, or a folder of another program that etude import "
                    "takes; null: random"),
    ET_FIELD_STRING(et_translation_options, init_pattern, NULL,
                    "regular expression: parameters that init_checkpoint initializes; null: all",
                    .with = "init_checkpoint=*"),
    ET_FIELD_STRUCT(et_translation_options, vocabulary, &vocabulary_table,
                    "training of a vocabulary", .change = ET_CHANGE_FIXED),
    ET_FIELD_INT(et_translation_options, print_translations, 0, 0, 1000,
                 "number of translations shown at each validation; true: 1,000", .nullable = true,
                 .truth = 1000),
    ET_FIELD_CHOICE(et_translation_options, score_tokenize, 0, tokenizers,
                    "tokenization of BLEU in validation"),
    ET_FIELD_BOOL(et_translation_options, score_lowercase, false,
                  "convert to lower case before BLEU in validation"),
    ET_FIELD_STRUCT(et_translation_options, differential_privacy_config, &et_privacy_fields,
                    "differential privacy: clipped and noisy gradients", .change = ET_CHANGE_FIXED,
                    .nullable = true),
    ET_TASK_ONLY_FIELDS,
    ET_FIELD_END
};
const et_fields et_translation_fields = { "task", translation_fields };

/* Each head gets width / heads columns. */
static int check_heads(const char *name, const et_translation_stack *stack, int64_t width,
                       et_error *error)
{
    et_assert(stack->num_attention_heads > 0);
    if (width % stack->num_attention_heads == 0)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.model.%s.num_attention_heads: %lld heads do not divide "
                   "task.model.embedding_width, %lld; choose a divisor of it",
                   name, (long long)stack->num_attention_heads, (long long)width);
}

static int check_size(const char *setting, int64_t size, et_error *error)
{
    if (!size || size >= SIZE_LEAST)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%s: %lld is too small; choose at least %d, or 0 for as many as the text allows",
                   setting, (long long)size, SIZE_LEAST);
}

static int check_punctuation(const et_translation_vocabulary *v, et_error *error)
{
    const struct {
        const char *name, *language;
    } rows[] = { { "source_punctuation", v->source_punctuation },
                 { "target_punctuation", v->target_punctuation } };
    for (int i = 0; i < 2; i++)
        if (rows[i].language && *rows[i].language && !et_language_is_code(rows[i].language))
            return et_fail(error, ET_ECONFIG,
                           "task.vocabulary.%s: %s is not the code of a language, such as en",
                           rows[i].name, rows[i].language);
    return ET_OK;
}

/* A setting of a vocabulary that the run does not have is refused, because it would be ignored. */
static int check_vocabulary(const et_translation_options *options, et_error *error)
{
    const et_translation_vocabulary *v = &options->vocabulary;
    const struct {
        const char *name, *path;
        int64_t size;
    } rows[] = {
        { "source", v->source.path, v->source.size },
        { "target", v->target.path, v->target.size },
    };
    const char *both = options->sentencepiece_model_path;
    int status = check_size("task.vocabulary.size", v->size, error);
    if (!status)
        status = check_punctuation(v, error);
    for (int i = 0; i < 2 && !status; i++) {
        const bool path = rows[i].path && *rows[i].path;
        char setting[64];
        snprintf(setting, sizeof setting, "task.vocabulary.%s.%s", rows[i].name,
                 path ? "path" : "size");
        if (v->shared && (path || rows[i].size))
            return et_fail(error, ET_ECONFIG,
                           "%s: both languages share a vocabulary; set task.vocabulary.shared to "
                           "false (--separate-vocabularies), or %s for both",
                           setting,
                           path ? "task.sentencepiece_model_path" : "task.vocabulary.size");
        status = check_size(setting, rows[i].size, error);
    }
    if (!status && v->shared && options->model.shared_embeddings)
        status = et_fail(error, ET_ECONFIG,
                         "task.model.shared_embeddings: both languages share a vocabulary, so they "
                         "share the table in any case; leave this setting out");
    if (!status && !v->shared && both && *both)
        return et_fail(error, ET_ECONFIG,
                       "task.sentencepiece_model_path: %s is for a shared vocabulary, but "
                       "task.vocabulary.shared is false; set task.vocabulary.source.path and "
                       "task.vocabulary.target.path",
                       both);
    return status;
}

static bool drops(const et_translation_stack *stack)
{
    return stack->dropout_rate > 0 || stack->attention_dropout_rate > 0 ||
           stack->intermediate_dropout > 0;
}

static int check_losses(const et_translation_model *model, et_error *error)
{
    /* Without dropout both draws are the same, for twice the work. */
    if (model->r_drop > 0 && model->dropout_rate == 0 && !drops(&model->encoder) &&
        !drops(&model->decoder))
        return et_fail(error, ET_ECONFIG,
                       "task.model.r_drop: %g needs dropout, but all dropout rates are 0; set "
                       "task.model.dropout_rate, or set r_drop to 0",
                       model->r_drop);
    if (model->sampled_vocabulary && model->r_drop > 0)
        return et_fail(error, ET_ECONFIG,
                       "task.model.sampled_vocabulary: cannot be combined with r_drop, which "
                       "compares predictions of all tokens; set one of them to 0");
    if (model->output_bias && (model->r_drop > 0 || model->sampled_vocabulary))
        return et_fail(error, ET_ECONFIG,
                       "task.model.%s: cannot be combined with task.model.output_bias; set it to 0",
                       model->r_drop > 0 ? "r_drop" : "sampled_vocabulary");
    return ET_OK;
}

/* Odd widths have no sinusoid positions: half of the columns are sines, half cosines. */
int et_translation_check(const void *settings, et_error *error)
{
    et_assert(settings);
    const et_translation_options *options = settings;
    const et_translation_model *model = &options->model;
    if (model->embedding_width % 2)
        return et_fail(error, ET_ECONFIG,
                       "task.model.embedding_width: %lld is odd; choose an even one",
                       (long long)model->embedding_width);
    if (model->padded_decode && !model->decode_max_length)
        return et_fail(error, ET_ECONFIG,
                       "task.model.padded_decode: needs task.model.decode_max_length; set it, or "
                       "set padded_decode to false");
    int status;
    if ((status = check_losses(model, error)) ||
        (status = check_heads("encoder", &model->encoder, model->embedding_width, error)) ||
        (status = check_heads("decoder", &model->decoder, model->embedding_width, error)) ||
        (status = check_vocabulary(options, error)) ||
        (status = et_translation_check_data("train_data", &options->train_data, true, error)))
        return status;
    return et_translation_check_data("validation_data", &options->validation_data, false, error);
}

/* Values that et_translation_validate logs. Keep both in step: the message below lists these names.
 */
static const char *const metrics[] = {
    ET_LOGGED_VALIDATION_LOSS,
    ET_LOGGED_OF_VALIDATION "nll",
    ET_LOGGED_OF_VALIDATION "perplexity",
    ET_LOGGED_OF_VALIDATION "accuracy",
    ET_TRANSLATION_BLEU,
    ET_TRANSLATION_GARDEN_BLEU,
    ET_TRANSLATION_CHRF,
    NULL,
};

/* Known before training, not at the first validation. */
int et_translation_check_metric(const void *settings, const char *name, et_error *error)
{
    const et_translation_options *options = settings;
    et_assert(name);
    const et_translation_data *data = &options->validation_data;
    if (!et_translation_has_data(data))
        return et_fail(error, ET_ECONFIG,
                       "trainer.best_checkpoint_eval_metric: %s needs validation; set "
                       "task.validation_data",
                       name);
    const char *metric = name;
    if (data->sets.count)
        metric = et_translation_metric_of_set(data, name);
    for (int i = 0; metric && metrics[i]; i++)
        if (!strcmp(metrics[i], metric))
            return ET_OK;
    et_strbuf known = ET_STRBUF_INIT;
    for (int i = 0; metrics[i]; i++)
        et_strbuf_printf(&known, "%s%s", i ? ", " : "", metrics[i]);
    int status =
        data->sets.count
            ? et_fail(error, ET_ECONFIG,
                      "trainer.best_checkpoint_eval_metric: validation has no value %s; write "
                      "SET/METRIC, with a metric of %s",
                      name, et_strbuf_text(&known))
            : et_fail(
                  error, ET_ECONFIG,
                  "trainer.best_checkpoint_eval_metric: validation has no value %s%s (it has: %s)",
                  name, et_nearest_hint(name, metrics, "").text, et_strbuf_text(&known));
    et_strbuf_release(&known);
    return status;
}

/* Converts settings (double, int64_t) to the types of layers (float, int). */
static et_transformer_stack stack_of(const et_translation_stack *options)
{
    /* Limits of the fields keep every number within the narrower type. */
    return (et_transformer_stack){
        .num_layers = (int)options->num_layers,
        .num_attention_heads = (int)options->num_attention_heads,
        .intermediate_size = options->intermediate_size,
        .activation = (et_activation)options->activation,
        .dropout_rate = (float)options->dropout_rate,
        .attention_dropout_rate = (float)options->attention_dropout_rate,
        .intermediate_dropout = (float)options->intermediate_dropout,
        .use_bias = options->use_bias,
        .norm_first = options->norm_first,
        .final_norm = options->final_norm,
        .ssru = options->recurrence == ET_RECURRENCE_SSRU,
        .norm_epsilon = (float)options->norm_epsilon,
    };
}

/* The caller gives the numbers that settings do not have. Vocabulary sizes are known when
 * vocabularies are open; positions depend on the purpose of the graph. */
et_transformer et_translation_transformer(const et_translation_options *options, int64_t source,
                                          int64_t target, int64_t max_positions)
{
    et_assert(source > 0 && target > 0 && max_positions > 0);
    et_vocabularies v;
    et_vocabularies_init(&v, &options->vocabulary);
    const char *table = options->model.shared_embeddings
                            ? ET_TRANSLATION_SHARED_TABLE
                            : et_vocabularies_role(&v, ET_SIDE_TARGET)->table;
    const char *of_source =
        options->model.shared_embeddings ? table : et_vocabularies_role(&v, ET_SIDE_SOURCE)->table;
    return (et_transformer){
        .encoder = stack_of(&options->model.encoder),
        .decoder = stack_of(&options->model.decoder),
        .source = { of_source, source },
        .target = { table, target },
        .output = { options->model.tied_embeddings ? table : "output", target },
        .width = options->model.embedding_width,
        .max_positions = max_positions,
        .open_positions = options->model.sinusoids == ET_SINUSOIDS_PAPER,
        .plain_embeddings = !options->model.scale_embeddings,
        .output_bias = options->model.output_bias,
        .dropout_rate = (float)options->model.dropout_rate,
    };
}
