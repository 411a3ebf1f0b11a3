/* The class of the task, working on batches of pairs.
 *
 *   data     training: shuffled, in buckets, without end, read ahead; validation: one pass
 *   model    transformer over source and target: "decoded", and the "table" of tokens
 *   losses   vocabulary loss over the labels
 *   outputs  of a validation step: beam search; reduce: its scores (translation_validate.c) */
#include "tasks/translation/translation_task.h"

#include <stdio.h>
#include <string.h>

#include <etude/settings.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/stages.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/nn/transformer.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "tasks/translation/overlap.h"
#include "tasks/translation/settings/input.h"
#include "tasks/translation/translation_task_private.h"
#include "train/checkpoint/identity.h"
#include "train/task/task_private.h"

/* ---- data: stages in order, with the vocabularies between them (setup_vocabulary.c) ----
 *
 *   training     encoded pairs (cache) -> batches -> [trace] -> [prefetch]
 *   validation   encoded pairs (cache, all of them, complete), and the raw lines for scores;
 *                batches for the loss have them cut to max_seq_length
 *   others       for a program's settings, on top of the task's: other texts, encoded in memory
 *                with the task's vocabularies and kept until the task is closed */

static int open_files(et_translation_task *task, et_error *error)
{
    /* An evaluation on validation data does not need the training data. */
    int status =
        !task->context.evaluates || !et_translation_has_data(&task->options.validation_data)
            ? et_translation_input_open(&task->training, "train_data", &task->options.train_data,
                                        error)
            : ET_OK;
    return status ? status
                  : et_translation_input_open(&task->validation.input, "validation_data",
                                              &task->options.validation_data, error);
}

/* Tokens in the softmax of an update: all tokens of the target, unless some are drawn. */
static int64_t sampled_tokens(const et_translation_task *task)
{
    et_assert(task->sides.target);
    const int64_t words = et_vocabulary_size(task->sides.target);
    const int64_t sampled = task->options.model.sampled_vocabulary;
    return sampled && sampled < words ? sampled : words;
}

/* A corpus becomes ids once; the next start maps them (data/text/encoded.h). */

/* At most a segment for every four tokens of a side: shorter sentences are rare, and each
 * segment costs an offset. The layout depends on settings only, so training and resuming have one
 * plan. */
static et_batches_options batches_of(const et_translation_data *data, const char *setting)
{
    et_assert(data->global_batch_size > 0);
    int64_t segments = data->global_batch_size / 4;
    et_batches_options options = { .bucket = true, .setting = setting };
    options.cure = "lower max_seq_length";
    options.capacity[ET_PAIR_SEGMENTS] = segments < 1 ? 1 : segments;
    options.capacity[ET_PAIR_SOURCE] = data->global_batch_size;
    options.capacity[ET_PAIR_TARGET] = data->global_batch_size;
    return options;
}

/* Compares the checksum of several texts together; single texts are compared when they are opened.
 */
static int check_texts(const et_translation_task *task, et_error *error)
{
    const uint64_t expected = et_identity_data(task->context.identity);
    const uint64_t key = et_translation_input_key(&task->training);
    if (!expected || expected == key)
        return ET_OK;
    const char *run = task->context.model_dir;
    return et_fail(
        error, ET_EDATA,
        "task.train_data.mix: %s was trained with other texts or weights (checksum %s, was %s). "
        "Restore them, or train another run from its weights: etude train %s --init %s",
        run, et_checksum_print(key).digits, et_checksum_print(expected).digits,
        et_shell_quote(et_path_print("%s-2", run).text).text, et_shell_quote(run).text);
}

/* Part of the cache's key: other limits make another cache. */
static et_encoded_options filter_of(const et_translation_data *data, bool training)
{
    return training ? (et_encoded_options){ .max_seq_length = data->max_seq_length,
                                            .max_ratio = data->max_length_ratio,
                                            .deduplicate = data->deduplicate,
                                            .limit = data->limit }
                    : (et_encoded_options){ .keep_all = true, .limit = data->limit };
}

/* A tag of several tokens is text like any other, which no model was told apart by. */
static int check_tag(const et_translation_task *task, const char *tag, et_error *error)
{
    et_tokens tokens = ET_TOKENS_INIT;
    if (!tag || !*tag)
        return ET_OK;
    int status = et_vocabulary_encode(task->sides.source, tag, strlen(tag), &tokens, error);
    bool found = false;
    for (size_t i = 0; i < tokens.count && !found; i++)
        found = !strcmp(et_vocabulary_token(task->sides.source, tokens.ids[i]), tag);
    et_tokens_release(&tokens);
    return status || found
               ? status
               : et_fail(error, ET_ECONFIG,
                         "tag: \"%.100s\" is not a token of the source vocabulary; choose one of "
                         "its tokens, or train a vocabulary with this one "
                         "(task.vocabulary.user_defined_symbols)",
                         tag);
}

/* Opens text through its cache, MODEL_DIR/cache/train.pairs, and makes the cache's folder. A cache
 * that cannot be written is only a warning. Cached text was checked when the cache was made. */
static int open_text(et_translation_task *task, et_translation_text *text, size_t number,
                     bool training, const et_encoded_options *filter, et_error *error)
{
    const et_path directory = et_path_of(task->context.model_dir, ET_TRANSLATION_CACHE);
    const char *of = training ? "train" : "validation";
    et_encoded_options own = *filter;
    char name[32];
    own.read_only = task->context.reader;
    if (number)
        snprintf(name, sizeof name, "%s.%zu.pairs", of, number);
    else
        snprintf(name, sizeof name, "%s.pairs", of);
    int status;
    if ((status = check_tag(task, text->paths.tag, error)) ||
        (!own.read_only && (status = et_directory_make(directory.text, error))) ||
        (status = et_encoded_open(&text->encoded, &text->paths, task->sides, &own,
                                  et_path_of(directory.text, name).text, error)) ||
        (training && !text->encoded->from_cache &&
         (status = et_translation_check_unknowns(task, text->encoded, error))))
        return status;
    return text->encoded->from_cache
               ? ET_OK
               : et_translation_check_tags(task, text->encoded,
                                           training ? "train_data" : "validation_data", error);
}

static int open_training(et_translation_task *task, et_error *error)
{
    et_assert(task->sides.source && task->sides.target);
    const et_translation_data *data = &task->options.train_data;
    et_translation_input *input = &task->training;
    et_encoded_options filter = filter_of(data, true);
    int status = ET_OK;
    filter.expected = input->count == 1 ? et_identity_data(task->context.identity) : 0;
    for (size_t i = 0; !status && i < input->count; i++)
        status = open_text(task, &input->texts[i], i, true, &filter, error);
    if (!status && input->count > 1)
        status = check_texts(task, error);
    return status ? status : et_translation_input_subwords(input, data, task->sides, error);
}

/* The part of one replica in the batch size, and of one pipeline in the samples. */
static int part_of(const et_input_context *part, const char *name, bool training,
                   et_translation_data *share, et_error *error)
{
    const int64_t replicas = part && part->replicas_in_sync ? part->replicas_in_sync : 1;
    if (replicas == 1)
        return ET_OK;
    if (share->global_batch_size % replicas)
        return et_fail(error, ET_ECONFIG,
                       "task.%s.global_batch_size: %lld cannot be split into %lld equal parts, one "
                       "per replica",
                       name, (long long)share->global_batch_size, (long long)replicas);
    share->global_batch_size /= replicas;
    return et_translation_check_batching(name, share, training, error);
}

static int take_part(et_samples **samples, const et_input_context *part, et_error *error)
{
    if (!part || part->input_pipelines <= 1)
        return ET_OK;
    int status =
        et_shard_open(samples, *samples, part->input_pipeline, part->input_pipelines, error);
    if (status)
        et_samples_close(*samples);
    return status;
}

/* The part of one shard in the batch size, checked like a batch of this size. */
static int share_of(const et_translation_task *task, et_translation_data *share, et_error *error)
{
    if (task->context.data_shards <= 1)
        return ET_OK;
    int status = et_task_context_batch(&task->context, share->global_batch_size,
                                       "task.train_data.global_batch_size",
                                       &share->global_batch_size, error);
    if (status)
        return status;
    status = et_translation_check_batching("train_data", share, true, error);
    return status ? et_fail_while(error, status, "with runtime.data_shards: %d",
                                  task->context.data_shards)
                  : ET_OK;
}

/* Labels of a batch may all differ, and each is among the tokens that are drawn. */
static int check_sampled(const et_translation_task *task, const et_translation_data *share,
                         et_error *error)
{
    const int64_t sampled = sampled_tokens(task);
    if (sampled >= share->global_batch_size || sampled == et_vocabulary_size(task->sides.target))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.model.sampled_vocabulary: %lld tokens are too few, as a batch%s may have "
                   "up to %lld different ones (task.train_data.global_batch_size); set at least as "
                   "many, or 0 for the whole vocabulary",
                   (long long)sampled, task->context.data_shards > 1 ? " of a shard" : "",
                   (long long)share->global_batch_size);
}

static int training_batches(const et_translation_task *task, const et_translation_input *input,
                            const et_translation_data *whole, const et_input_context *part,
                            et_source **out, et_error *error)
{
    et_translation_data share = *whole;
    const et_translation_data *data = &share;
    int status;
    if ((status = share_of(task, &share, error)) ||
        (status = part_of(part, "train_data", true, &share, error)) ||
        (status = check_sampled(task, data, error)))
        return status;
    et_batches_options options = batches_of(data, "task.train_data.global_batch_size");
    et_samples *samples;
    options.seed = data->seed < 0 ? task->context.seed : (uint64_t)data->seed;
    options.shuffle = options.repeat = true;
    options.pool = data->shuffle_pool;
    if ((status = et_translation_input_samples(&samples, input, options.seed, data->max_seq_length,
                                               error)) ||
        (status = take_part(&samples, part, error)))
        return status;
    return et_translation_batches(out, samples, data, &options, true, error);
}

static int open_batches(const et_translation_task *task, const et_translation_input *input,
                        const et_translation_data *data, const et_input_context *part,
                        et_source **out, et_error *error)
{
    const int64_t ahead = data->prefetch_buffer_size;
    const int depth = ahead < 0 ? task->context.prefetch : (int)ahead;
    const int status = training_batches(task, input, data, part, out, error);
    return status ? status : et_task_read_ahead(out, &task->context, depth, error);
}

/* Reads the raw target lines as references, one for each pair: validation keeps all pairs, in the
 * corpus's order. Scores use the file's lines, not decoded tokens. */
static int read_references(et_scored *scored, const et_corpus_paths *paths, et_arena *arena,
                           et_error *error)
{
    et_assert(!scored->references);
    size_t count = (size_t)scored->encoded->pairs;
    const char **references = et_arena_array(arena, count, sizeof *references);
    scored->references = references;
    if (!references)
        return et_alloc_failed(error, "references");
    et_corpus *corpus;
    et_corpus_pair pair;
    int status = et_corpus_open(&corpus, paths, error);
    if (status)
        return status;
    for (size_t i = 0; i < count && !status; i++) {
        status = et_corpus_next(corpus, &pair, error);
        if (!status && !pair.target)
            status = et_fail(error, ET_EDATA,
                             "the validation text changed while Etude read it: only %zu pairs of "
                             "%zu are left; start again",
                             i, count);
        if (status)
            break;
        references[i] = et_arena_strndup(arena, pair.target, pair.target_length);
        if (!references[i])
            status = et_alloc_failed(error, "references");
    }
    et_corpus_close(corpus);
    return status;
}

/* Checks that a batch has numbers for the pairs in all data of the task. */
static int open_scored(et_translation_task *task, et_scored *scored, const et_corpus_paths *paths,
                       et_arena *arena, et_error *error)
{
    et_validation *validation = &task->validation;
    if (scored->encoded->pairs > UINT32_MAX - validation->numbered)
        return et_fail(error, ET_EDATA, "more than 4,294,967,295 pairs to score: use fewer");
    scored->first = (uint32_t)validation->numbered;
    validation->numbered += scored->encoded->pairs;
    return read_references(scored, paths, arena, error);
}

static int64_t sources_above(const et_encoded *encoded, int64_t most)
{
    int64_t count = 0;
    for (int64_t i = 0; i < encoded->pairs; i++)
        count += et_encoded_source_length(encoded, i) > most;
    return count;
}

/* "validation   23 pairs; 3 shortened to 64 tokens for the loss and the accuracy ..." */
static void tell_validation(const et_translation_task *task, const et_scored *scored)
{
    const int64_t most = task->options.validation_data.max_seq_length;
    const int64_t long_sources = sources_above(scored->encoded, ET_TRANSLATION_SOURCE_MAX);
    et_corpus_counts counts = scored->encoded->counts;
    et_strbuf text = ET_STRBUF_INIT;
    counts.cut = et_pairs_truncated(scored->encoded, most);
    et_corpus_counts_print(&counts, &text);
    if (counts.cut)
        et_strbuf_printf(&text,
                         " to %s tokens for loss and accuracy "
                         "(task.validation_data.max_seq_length), but translated and scored whole",
                         et_format_count(most).text);
    if (long_sources)
        et_strbuf_printf(&text, "%s %s translated from the first %s tokens",
                         counts.cut ? ", but" : ";", et_format_many(long_sources, "source").text,
                         et_format_count(ET_TRANSLATION_SOURCE_MAX - 1).text);
    et_task_tell(&task->context, "validation   %s%s%s", scored->name ? scored->name : "",
                 scored->name ? ": " : "", et_strbuf_text(&text));
    et_strbuf_release(&text);
}

void et_translation_describe_validation(const et_translation_task *task, bool cut_alone)
{
    const int64_t most = task->options.validation_data.max_seq_length;
    for (int i = 0; i < task->validation.count; i++) {
        const et_scored *scored = &task->validation.scored[i];
        if (!cut_alone || et_pairs_truncated(scored->encoded, most) ||
            sources_above(scored->encoded, ET_TRANSLATION_SOURCE_MAX))
            tell_validation(task, scored);
    }
}

/* Without validation data nothing is opened. The decoder is made at the first validation. All pairs
 * are kept whole, so that scores of different settings are of the same lines. */
static int open_validation(et_translation_task *task, et_error *error)
{
    const et_translation_data *data = &task->options.validation_data;
    et_validation *validation = &task->validation;
    const et_encoded_options all = filter_of(data, false);
    /* Known now, not after hours of training. */
    int status = validation->input.count ? et_translation_check_beam(task, error) : ET_OK;
    for (size_t i = 0; i < validation->input.count && !status; i++) {
        et_translation_text *text = &validation->input.texts[i];
        et_scored *scored = &validation->scored[i];
        if ((status = open_text(task, text, i, false, &all, error)))
            break;
        scored->name = text->name;
        scored->encoded = text->encoded;
        validation->count++;
        status = open_scored(task, scored, &text->paths, &validation->input.arena, error);
    }
    if (!status && task->context.evaluates)
        et_translation_describe_validation(task, true);
    return status;
}

/* All pairs in order of length; each batch is as full as possible. A sequence longer than
 * max_seq_length is cut as in Model Garden: EOS is at the cut. */
static int validation_batches(const et_scored *scored, const et_translation_data *data,
                              const et_input_context *part, et_source **out, et_error *error)
{
    et_assert(scored->encoded && data && out);
    et_translation_data share = *data;
    const bool parted = part && part->input_pipelines > 1;
    et_samples *samples;
    et_source *numbered;
    *out = NULL;
    int status;
    if ((status = part_of(part, "validation_data", false, &share, error)) ||
        (status =
             et_truncated_pairs_open(&samples, scored->encoded, data->max_seq_length, error)) ||
        (status = take_part(&samples, part, error)))
        return status;
    et_batches_options options = batches_of(&share, "task.validation_data.global_batch_size");
    status = et_translation_batches(out, samples, &share, &options, false, error);
    if (status)
        return status;
    status = et_numbered_open(&numbered, *out,
                              scored->first + (parted ? (uint32_t)part->input_pipeline : 0),
                              parted ? (uint32_t)part->input_pipelines : 1, error);
    if (status)
        et_source_close(*out);
    *out = status ? NULL : numbered;
    return status;
}

static void close_one(et_other_inputs *other)
{
    et_translation_input_close(&other->input);
    et_arena_release(&other->arena);
    et_free(other);
}

/* Settings that name a text replace all of the task's. */
static int read_settings(et_other_inputs *other, const et_translation_data *own, const char *text,
                         et_error *error)
{
    et_settings settings = { .table = &et_translation_data_fields,
                             .options = &other->data,
                             .arena = &other->arena };
    other->data = *own;
    et_translation_data *data = &other->data;
    const et_strings none = { NULL, 0 };
    data->source_path = data->target_path = data->tsv_path = data->input_path = none;
    data->mix = data->sets = (et_structs){ NULL, 0 };
    int status = et_settings_override(&settings, text, error);
    if (status || et_translation_has_data(&other->data))
        return status;
    other->data = *own;
    return et_settings_override(&settings, text, error);
}

static int check_settings(const et_translation_data *data, bool training, et_error *error)
{
    const char *name = training ? "train_data" : "validation_data";
    int status = et_translation_check_data(name, data, training, error);
    if (!status && data->sets.count)
        status =
            et_fail(error, ET_ECONFIG, "task.%s.sets: inputs need one text; name its files", name);
    if (!status && !et_translation_has_data(data))
        status = et_fail(error, ET_ECONFIG, "task.%s: no data; name a text in the settings", name);
    return status;
}

static int open_texts(et_translation_task *task, et_other_inputs *other, bool training,
                      et_error *error)
{
    const et_encoded_options filter = filter_of(&other->data, training);
    et_translation_input *input = &other->input;
    int status = et_translation_input_open(input, training ? "train_data" : "validation_data",
                                           &other->data, error);
    for (size_t i = 0; !status && i < input->count; i++)
        status = et_encoded_open(&input->texts[i].encoded, &input->texts[i].paths, task->sides,
                                 &filter, NULL, error);
    if (!status && training)
        return et_translation_input_subwords(input, &other->data, task->sides, error);
    if (status)
        return status;
    other->scored.encoded = input->texts[0].encoded;
    return open_scored(task, &other->scored, &input->texts[0].paths, &input->arena, error);
}

static int open_other(et_translation_task *task, const et_data_config *params,
                      et_other_inputs **out, et_error *error)
{
    const et_translation_options *options = &task->options;
    et_other_inputs *other;
    if (ET_ALLOC_ZERO(other, 1, "inputs", error))
        return ET_ENOMEM;
    int status =
        read_settings(other, params->training ? &options->train_data : &options->validation_data,
                      params->settings, error);
    if (!status && !(status = check_settings(&other->data, params->training, error)))
        status = open_texts(task, other, params->training, error);
    if (status) {
        close_one(other);
        return status;
    }
    other->next = task->others;
    *out = task->others = other;
    return ET_OK;
}

static int build_inputs(et_task *self, const et_data_config *params, const et_input_context *part,
                        et_source **out, et_error *error)
{
    et_assert(params && out);
    et_translation_task *task = et_translation_task_of(self);
    et_other_inputs *other = NULL;
    *out = NULL;
    if (!params->settings) {
        const et_translation_options *options = &task->options;
        if (params->training && !task->training.count)
            return et_fail(
                error, ET_EUSAGE,
                "the task was opened to evaluate and has no training data; name data in the "
                "settings of the inputs");
        if (params->training)
            return open_batches(task, &task->training, &options->train_data, part, out, error);
        return task->validation.count
                   ? validation_batches(&task->validation.scored[0], &options->validation_data,
                                        part, out, error)
                   : ET_OK;
    }
    int status = open_other(task, params, &other, error);
    if (status)
        return status;
    return params->training ? open_batches(task, &other->input, &other->data, part, out, error)
                            : validation_batches(&other->scored, &other->data, part, out, error);
}

/* The model of training and of validation, with its inputs.
 *
 *   loss = sum over labels of the label-smoothed cross-entropy of softmax(h table^T)
 *
 * with h [target tokens, width] the decoder's output and table [vocabulary, width], as usual, the
 * embedding of the target: inputs and outputs share one table (Press and Wolf 2017, "Using the
 * output embedding to improve language models").
 *
 * With r_drop, training computes h twice, with two samples of dropout, and the loss is
 * et_r_drop_loss; with sampled_vocabulary it is et_sampled_loss; with output_bias, the bias is
 * added to logits. */

/* h for the graph's batches, by the scope's draw of dropout. */
static et_node *decoded(et_scope *scope, const et_transformer *model)
{
    const int64_t *capacity = et_scope_layout(scope)->capacity;
    et_assert(capacity[ET_PAIR_SOURCE] > 0 && capacity[ET_PAIR_TARGET] > 0);
    return et_transformer_train(scope, model, capacity[ET_PAIR_SOURCE], capacity[ET_PAIR_TARGET],
                                capacity[ET_PAIR_SEGMENTS]);
}

/* The parameter with the target's embeddings, and the row of the token that begins a
 * target. */
static int start_row(const et_translation_task *task, const et_params *params, int64_t *row)
{
    const et_transformer model =
        et_translation_transformer(&task->options, et_vocabulary_size(task->sides.source),
                                   et_vocabulary_size(task->sides.target), 2);
    *row = et_vocabulary_start(task->sides.target);
    const int index = et_params_find_printf(params, "%s/table", model.target.scope);
    et_assert(index >= 0);
    return index;
}

/* For training and validation: the same model with other shapes. The table of positions has rows
 * for the longest sentence of all open data, because rows cost little. */
static void build_model(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses)
{
    (void)aux_losses; /* there are none */
    et_translation_task *task = et_translation_task_of(self);
    const et_translation_options *o = &task->options;
    int64_t max_positions =
        training ? o->train_data.max_seq_length : o->validation_data.max_seq_length;
    for (const et_other_inputs *other = task->others; other; other = other->next)
        if (other->data.max_seq_length > max_positions)
            max_positions = other->data.max_seq_length;
    et_transformer model =
        et_translation_transformer(o, et_vocabulary_size(task->sides.source),
                                   et_vocabulary_size(task->sides.target), max_positions);
    model.embedded = et_layout_find(et_scope_layout(scope), ET_PAIR_NAME_SOURCE_EMBEDDED) >= 0;
    et_nodes_put(outputs, "decoded", decoded(scope, &model));
    if (et_scope_training(scope) && o->model.r_drop > 0)
        et_nodes_put(outputs, "decoded_again", decoded(et_in_draw(scope, "second"), &model));
    et_nodes_put(outputs, "table", et_transformer_table(scope, &model));
    if (model.output_bias)
        et_nodes_put(outputs, "bias", et_transformer_output_bias(scope, &model));
    if (et_task_defines_metrics(&task->task, scope)) {
        /* Names outputs for a program's metrics: "outputs", the likeliest token after each token of
         * the targets, and "decoded", h. Only if the task's build_metrics defines metrics, because
         * the product with the table is as large as the loss's product. */
        et_node *h = et_nodes_get(outputs, "decoded"), *table = et_nodes_get(outputs, "table");
        et_node *bias = et_nodes_get(outputs, "bias"), *token;
        et_output(scope, "decoded", h);
        if (bias) {
            const et_matmul_options logits = { .transpose_b = true, .f32 = true };
            token = et_matmul(h, table, bias, &logits);
        } else
            et_vocabulary_best(h, table, 1, &token);
        et_output(scope, "outputs", token);
    }
    if (o->model.zero_start) {
        int64_t row;
        const int table = start_row(task, task->context.params, &row);
        et_params_hold_zeros(task->context.params, table, row);
    }
}

/* The labels of a program's own model: those with this name, or the only ones. */
static et_node *labels_of(et_scope *scope, const et_nodes *labels)
{
    const char *name = et_pair_fields[ET_PAIR_TARGET_LABELS].name;
    if (!labels)
        return et_batch_input(scope, name);
    return labels->count == 1 ? labels->node[0] : et_nodes_need(scope, labels, name);
}

/* Labels of -1 (the rest of a batch) count in no sum. */
static void build_losses(et_task *self, et_scope *scope, const et_nodes *own,
                         const et_nodes *outputs, const et_nodes *aux_losses)
{
    (void)aux_losses;
    const et_translation_task *task = et_translation_task_of(self);
    const et_translation_model *model = &task->options.model;
    const float smoothing = (float)model->label_smoothing;
    et_node *labels = labels_of(scope, own), *logits = et_nodes_get(outputs, "logits");
    if (logits) {
        et_loss(scope, "loss", et_softmax_loss(logits, labels, smoothing), 1);
        return;
    }
    et_node *h = et_nodes_need(scope, outputs, "decoded");
    et_node *again = et_nodes_get(outputs, "decoded_again");
    et_node *table = et_nodes_need(scope, outputs, "table");
    et_node *bias = et_nodes_get(outputs, "bias"), *loss;
    if (bias)
        loss = et_vocabulary_loss_offset(h, table, bias, labels, smoothing);
    else if (again)
        loss = et_r_drop_loss(h, again, table, labels, smoothing, (float)model->r_drop);
    else
        loss = et_sampled_loss(scope, h, table, labels, smoothing, sampled_tokens(task));
    et_loss(scope, "loss", loss, 1);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    return build_inputs(self, &(et_data_config){ .training = training }, NULL, out, error);
}

static int validation_set(et_task *self, int number, const char **name, et_source **out,
                          et_error *error)
{
    et_translation_task *task = et_translation_task_of(self);
    const et_scored *scored = &task->validation.scored[number];
    *out = NULL;
    if (number >= task->validation.count || !scored->name)
        return ET_OK;
    *name = scored->name;
    return validation_batches(scored, &task->options.validation_data, NULL, out, error);
}

/* Metrics of a program compare the labels of the batch with the likeliest tokens (name_outputs). */
static int process_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    const et_batch *batch = now->inputs;
    const char *name = et_pair_fields[ET_PAIR_TARGET_LABELS].name;
    const int field = batch && !now->labels ? et_layout_find(batch->layout, name) : -1;
    et_task_step own = *now;
    et_tensor labels;
    if (field >= 0) {
        labels = (et_tensor){ batch->data[field], batch->layout->field[field].dtype,
                              et_layout_shape(batch->layout, field) };
        own.labels = &labels;
    }
    return et_task_defaults.process_metrics(self, &own, error);
}

/* Results of pairs are in logs, which ranks share. */
static bool kept(et_task *self, int number, et_kept_rows *rows)
{
    (void)self, (void)number, (void)rows;
    return false;
}

static int initialize(et_task *self, et_params *params, et_error *error)
{
    et_translation_task *task = et_translation_task_of(self);
    et_import *from = NULL;
    int status = ET_OK;
    if (!self->init_checkpoint || !et_import_is_folder(self->init_checkpoint))
        status = et_task_defaults.initialize(self, params, error);
    else
        status = et_translation_foreign(task, self->init_checkpoint, &from, error);
    if (!status && from)
        status = et_import_initialize(from, params, self->init_pattern, error);
    if (!status && task->options.model.zero_start) {
        int64_t row;
        const int table = start_row(task, params, &row);
        const int64_t width = et_params_shape(params, table).size[1];
        et_params_begin_change(params);
        memset(et_params_values_of(params, table) + row * width, 0, width * sizeof(float));
        et_params_changed(params, true);
    }
    return status;
}

static const char *const main_metrics[] = { ET_TRANSLATION_BLEU, ET_LOGGED_VALIDATION_LOSS, NULL };

static const et_task_class translation_class = {
    .name = "translation",
    .data = data,
    .build_inputs = build_inputs,
    .build_model = build_model,
    .build_losses = build_losses,
    .initialize = initialize,
    .process_metrics = process_metrics,
    .inference_step = et_translation_inference_step,
    .validation_outputs = et_translation_validation_outputs,
    .aggregate_logs = et_translation_aggregate,
    .reduce_aggregated_logs = et_translation_reduce,
    .best_metric = ET_TRANSLATION_BLEU,
    .verdict = et_translation_verdict,
    .main_metrics = main_metrics,
    .validation_set = validation_set,
    .kept = kept,
};

/* ---- opening and closing ---- */

/* The task owns everything it opens but sources, which its trainer closes before. */

/* Only for a new run: a resumed run has these warnings in its log. */
static int tell_overlap(et_translation_task *task, et_error *error)
{
    const et_task_context *context = &task->context;
    const et_overlap_texts texts = { .train_data = &task->options.train_data,
                                     .training = &task->training,
                                     .tested = task->validation.input.texts,
                                     .tested_count = task->validation.count,
                                     .stop = context->stop };
    return context->reader || et_comm_rank(context->comm) ||
                   (context->identity && context->identity->values)
               ? ET_OK
               : et_translation_tell_overlap(&texts, error);
}

/* Each stage needs the earlier ones. After a failure, close closes the opened parts. */
static int (*const stages[])(et_translation_task *, et_error *) = {
    open_files, et_translation_open_vocabularies, open_training, open_validation, tell_overlap,
};

int et_translation_task_open(et_task **out, const et_translation_options *options,
                             const et_task_context *context, et_error *error)
{
    et_assert(options && context && context->params && context->device);
    *out = NULL;
    int status = et_translation_check(options, error);
    if (status)
        return status;
    et_translation_task *task;
    if (ET_ALLOC_ZERO(task, 1, "a task", error))
        return ET_ENOMEM;
    /* Copies of the structs; lists and texts in them are the caller's and outlive the task. */
    task->options = *options;
    task->context = *context;
    ET_STAGES_RUN(status, stages, task, error);
    if (status) {
        et_translation_task_close(&task->task);
        return status;
    }
    /* The model's memory comes next: the peak is not to be the sum of both. */
    bool made = false;
    for (size_t i = 0; i < task->training.count; i++)
        made |= !task->training.texts[i].encoded->from_cache;
    for (int i = 0; i < task->vocabularies.count; i++)
        made |= task->vocabulary_seconds[i] > 0;
    if (made)
        et_alloc_trim();
    task->task.class = &translation_class;
    task->task.logging_dir = context->model_dir;
    task->task.task_config = &task->options;
    task->task.init_checkpoint = options->init_checkpoint;
    task->task.init_pattern = options->init_pattern;
    *out = &task->task;
    return ET_OK;
}

/* In reverse. */
void et_translation_task_close(et_task *task)
{
    if (!task)
        return;
    et_translation_task *self = et_translation_task_of(task);
    et_translation_close_validation(self);
    while (self->others) {
        et_other_inputs *other = self->others;
        self->others = other->next;
        close_one(other);
    }
    et_translation_input_close(&self->training);
    et_vocabularies_close(&self->vocabularies);
    for (int i = 0; i < ET_SIDES; i++)
        et_free(self->vocabulary_paths[i]);
    et_free(self->suppressed);
    et_import_close(self->foreign);
    et_free(self);
}

/* The identity of a run's checkpoints, in addition to its settings: checksums of vocabularies and
 * of the encoded text. */
int et_translation_identify(const et_task *task, et_value *identity, et_error *error)
{
    const et_translation_task *self = et_translation_task_of(task);
    et_vocabularies_identify(&self->vocabularies, identity);
    return et_value_set_string(identity, ET_IDENTITY_DATA,
                               et_checksum_print(et_translation_input_key(&self->training)).digits)
               ? ET_OK
               : et_alloc_failed(error, "settings");
}

int et_translation_belongs(const void *options, const char *model_dir, const et_identity *identity,
                           et_error *error)
{
    et_assert(options && model_dir);
    et_arena arena = ET_ARENA_INIT;
    et_vocabularies v;
    et_artifact artifact;
    et_vocabularies_init(&v, &((const et_translation_options *)options)->vocabulary);
    int status = et_artifact_open(&artifact, model_dir, error);
    if (!status)
        status = et_vocabularies_check_all(&v, identity, &artifact, &arena, error);
    et_artifact_close(&artifact);
    et_arena_release(&arena);
    return status;
}
