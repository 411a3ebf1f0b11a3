/* Opens the task's data: stages that translation_task.c runs in order, with the vocabularies in
 * between (setup_vocabulary.c).
 *
 *   training     encoded pairs (cache) -> batches -> [trace] -> [prefetch]
 *   validation   encoded pairs (cache, all of them, complete), and the raw lines for scores;
 *                batches for the loss have them cut to max_seq_length
 *   others       for a program's settings, on top of the task's: other texts, encoded in memory
 * with the task's vocabularies and kept until the task is closed */
#include <stdio.h>
#include <string.h>

#include <etude/settings.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"
#include "tasks/translation/settings/batching.h"
#include "tasks/translation/translation_task_private.h"
#include "train/checkpoint/identity.h"

int et_translation_open_files(et_translation_task *task, et_error *error)
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

/* ---- data ---- */

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

/* By way of MODEL_DIR/cache/<name>, whose folder is made here; a cache that cannot be written is
 * only a warning. */
static int open_encoded(et_translation_task *task, et_encoded **out, const char *name,
                        const et_corpus_paths *paths, const et_encoded_options *options,
                        et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const char *directory =
        et_arena_printf(&arena, "%s/%s", task->context.model_dir, ET_TRANSLATION_CACHE);
    const char *path = directory ? et_arena_printf(&arena, "%s/%s", directory, name) : NULL;
    et_encoded_options own = *options;
    own.read_only = task->context.reader;
    int status = path ? ET_OK : et_alloc_failed(error, strlen(name), "a path");
    if (!status && !own.read_only)
        status = et_directory_make(directory, error);
    if (!status)
        status = et_encoded_open(out, paths, task->sides, &own, path, error);
    et_arena_release(&arena);
    return status;
}

/* The key that the training text had when the newest checkpoint was made; 0: not known. */
static uint64_t expected_text(const et_translation_task *task)
{
    const et_identity *identity = task->context.identity;
    const char *digits;
    uint64_t key;
    bool known = identity && identity->values &&
                 !et_value_read_string(identity->values, ET_IDENTITY_DATA, &digits, NULL) &&
                 et_checksum_parse(&key, digits);
    return known ? key : 0;
}

/* Compares the checksum of several texts together; single texts are compared when they are opened.
 */
static int check_texts(const et_translation_task *task, et_error *error)
{
    uint64_t expected = expected_text(task), key = et_translation_input_key(&task->training);
    if (!expected || expected == key)
        return ET_OK;
    const char *run = task->context.model_dir;
    return et_fail(
        error, ET_EDATA,
        "task.train_data.mix: %s was trained with other texts or weights (checksum %s, was %s). "
        "Restore them, or train another run from its weights: etude train %s-2 --init %s",
        run, et_checksum_print(key).digits, et_checksum_print(expected).digits, run, run);
}

/* Part of the cache's key: other limits make another cache. */
static et_encoded_options translation_filter(const et_translation_data *data, bool training)
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

int et_translation_open_training(et_translation_task *task, et_error *error)
{
    et_assert(task->sides.source && task->sides.target);
    const et_translation_data *data = &task->options.train_data;
    et_translation_input *input = &task->training;
    et_encoded_options filter = translation_filter(data, true);
    int status = ET_OK;
    filter.expected = input->count == 1 ? expected_text(task) : 0;
    for (size_t i = 0; !status && i < input->count; i++) {
        char name[32] = "train.pairs";
        if (i)
            snprintf(name, sizeof name, "train.%zu.pairs", i);
        status = check_tag(task, input->texts[i].paths.tag, error);
        if (!status)
            status = open_encoded(task, &input->texts[i].encoded, name, &input->texts[i].paths,
                                  &filter, error);
        /* Cached text was checked when the cache was made. */
        const et_encoded *encoded = input->texts[i].encoded;
        if (!status && !encoded->from_cache)
            status = et_translation_check_unknowns(task, encoded, error);
        if (!status && !encoded->from_cache)
            status = et_translation_check_tags(task, encoded, "train_data", error);
    }
    if (!status && input->count > 1)
        status = check_texts(task, error);
    return status ? status : et_translation_input_subwords(input, data, task->sides, error);
}

/* One replica's part of the batch that is set, and of one pipeline's samples. */
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

/* One shard's part of the batch size, checked like a batch of that size. */
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
    const int64_t sampled = et_translation_sampled(task);
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
    int status = share_of(task, &share, error);
    if (!status)
        status = part_of(part, "train_data", true, &share, error);
    if (!status)
        status = check_sampled(task, data, error);
    if (status)
        return status;
    et_batches_options options = batches_of(data, "task.train_data.global_batch_size");
    et_samples *samples;
    options.seed = data->seed < 0 ? task->context.seed : (uint64_t)data->seed;
    options.shuffle = options.repeat = true;
    options.pool = data->shuffle_pool;
    status =
        et_translation_input_samples(&samples, input, options.seed, data->max_seq_length, error);
    if (!status)
        status = take_part(&samples, part, error);
    return status ? status : et_translation_batches(out, samples, data, &options, true, error);
}

/* Each decorator adopts the inner source. The trace is inside the prefetch, on that thread's own
 * track, so that a trace shows when batches are made and not when they are taken. */
static int translation_training(const et_translation_task *task, const et_translation_input *input,
                                const et_translation_data *data, const et_input_context *part,
                                et_source **out, et_error *error)
{
    et_track *track = et_device_track(task->context.device);
    const int64_t ahead = data->prefetch_buffer_size;
    const int depth = ahead < 0 ? task->context.prefetch : (int)ahead;
    int status = training_batches(task, input, data, part, out, error);
    if (status || !depth)
        return status;
    if (task->context.device->tracing->trace)
        status = et_traced_source_open(out, *out, et_track_beside(track, "prefetch"), error);
    if (!status)
        status = et_prefetch_open(out, *out, depth, error);
    if (status) {
        et_source_close(*out);
        *out = NULL;
    }
    return status;
}

/* Reads the raw target lines as references, one for each pair: validation keeps all pairs, in the
 * corpus's order. Scores compare with the file's lines, not with what the vocabulary decodes. */
static int read_references(et_scored *scored, const et_corpus_paths *paths, et_error *error)
{
    et_assert(!scored->references);
    size_t count = (size_t)scored->encoded->pairs;
    scored->references = et_alloc_zero(count, sizeof(char *));
    if (!scored->references)
        return et_alloc_failed(error, count * sizeof(char *), "references");
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
        scored->references[i] = et_strndup(pair.target, pair.target_length);
        if (!scored->references[i])
            status = et_alloc_failed(error, pair.target_length, "references");
    }
    et_corpus_close(corpus);
    return status;
}

/* As many pairs as a batch has numbers for, in all data of the task. */
static int translation_open_scored(et_translation_task *task, et_scored *scored,
                                   const et_corpus_paths *paths, et_error *error)
{
    et_validation *validation = &task->validation;
    if (scored->encoded->pairs > UINT32_MAX - validation->numbered)
        return et_fail(error, ET_EDATA, "more than 4,294,967,295 pairs to score: use fewer");
    scored->first = (uint32_t)validation->numbered;
    validation->numbered += scored->encoded->pairs;
    return read_references(scored, paths, error);
}

int et_translation_check_beam(const et_translation_task *task, et_error *error)
{
    const int64_t beam = task->options.model.beam_size;
    const int32_t tokens = et_vocabulary_size(task->sides.target);
    if (2 * beam <= tokens)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.model.beam_size: %lld is more than half of the %d tokens in the "
                   "vocabulary; choose at most %d",
                   (long long)beam, (int)tokens, (int)tokens / 2);
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
int et_translation_open_validation(et_translation_task *task, et_error *error)
{
    const et_translation_data *data = &task->options.validation_data;
    et_validation *validation = &task->validation;
    const et_encoded_options all = translation_filter(data, false);
    /* Known now, not after hours of training. */
    int status = validation->input.count ? et_translation_check_beam(task, error) : ET_OK;
    for (size_t i = 0; i < validation->input.count && !status; i++) {
        et_translation_text *text = &validation->input.texts[i];
        et_scored *scored = &validation->scored[i];
        char name[32] = "validation.pairs";
        if (i)
            snprintf(name, sizeof name, "validation.%zu.pairs", i);
        status = check_tag(task, text->paths.tag, error);
        if (!status)
            status = open_encoded(task, &text->encoded, name, &text->paths, &all, error);
        if (!status && !text->encoded->from_cache)
            status = et_translation_check_tags(task, text->encoded, "validation_data", error);
        if (status)
            break;
        scored->name = text->name;
        scored->encoded = text->encoded;
        validation->count++;
        status = translation_open_scored(task, scored, &text->paths, error);
    }
    if (!status && task->context.evaluates)
        et_translation_describe_validation(task, true);
    return status;
}

/* All pairs in order of length; each batch is as full as possible. A sequence longer than
 * max_seq_length is cut as in Model Garden: EOS is at the cut. */
int et_translation_validation(const et_translation_task *task, const et_scored *scored,
                              const et_translation_data *data, const et_input_context *part,
                              et_source **out, et_error *error)
{
    et_assert(scored->encoded && data && out);
    et_translation_data share = *data;
    const bool parted = part && part->input_pipelines > 1;
    et_samples *samples;
    et_source *numbered;
    (void)task;
    *out = NULL;
    int status = part_of(part, "validation_data", false, &share, error);
    if (!status)
        status = et_truncated_pairs_open(&samples, scored->encoded, data->max_seq_length, error);
    if (!status)
        status = take_part(&samples, part, error);
    if (status)
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

const et_scored *et_translation_scored(const et_translation_task *task, int64_t number,
                                       int64_t *pair)
{
    et_assert(pair);
    const et_validation *v = &task->validation;
    const et_scored *found = NULL;
    for (int i = 0; i < v->count && !found; i++)
        if (number >= v->scored[i].first &&
            number - v->scored[i].first < v->scored[i].encoded->pairs)
            found = &v->scored[i];
    for (const et_other_inputs *o = task->others; o && !found; o = o->next)
        if (o->scored.encoded && number >= o->scored.first &&
            number - o->scored.first < o->scored.encoded->pairs)
            found = &o->scored;
    *pair = found ? number - found->first : -1;
    return found;
}

/* Accepts any state of opening: missing members are NULL. */
void et_translation_close_scored(et_scored *scored)
{
    for (int64_t i = 0; scored->references && i < scored->encoded->pairs; i++)
        et_free(scored->references[i]);
    et_free(scored->references);
    scored->references = NULL;
}

static void close_one(et_other_inputs *other)
{
    et_translation_close_scored(&other->scored);
    et_translation_input_close(&other->input);
    et_arena_release(&other->arena);
    et_free(other);
}

void et_translation_close_inputs(et_translation_task *task)
{
    while (task->others) {
        et_other_inputs *other = task->others;
        task->others = other->next;
        close_one(other);
    }
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
    const et_encoded_options filter = translation_filter(&other->data, training);
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
    return translation_open_scored(task, &other->scored, &input->texts[0].paths, error);
}

static int open_other(et_translation_task *task, const et_data_config *params,
                      et_other_inputs **out, et_error *error)
{
    const et_translation_options *options = &task->options;
    et_other_inputs *other = et_alloc_zero(1, sizeof *other);
    if (!other)
        return et_alloc_failed(error, sizeof *other, "inputs");
    int status =
        read_settings(other, params->training ? &options->train_data : &options->validation_data,
                      params->settings, error);
    if (!status)
        status = check_settings(&other->data, params->training, error);
    if (!status)
        status = open_texts(task, other, params->training, error);
    if (status) {
        close_one(other);
        return status;
    }
    other->next = task->others;
    *out = task->others = other;
    return ET_OK;
}

int et_translation_build_inputs(et_task *self, const et_data_config *params,
                                const et_input_context *part, et_source **out, et_error *error)
{
    et_assert(params && out);
    et_translation_task *task = (et_translation_task *)(void *)self;
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
            return translation_training(task, &task->training, &options->train_data, part, out,
                                        error);
        return task->validation.count
                   ? et_translation_validation(task, &task->validation.scored[0],
                                               &options->validation_data, part, out, error)
                   : ET_OK;
    }
    int status = open_other(task, params, &other, error);
    if (status)
        return status;
    return params->training
               ? translation_training(task, &other->input, &other->data, part, out, error)
               : et_translation_validation(task, &other->scored, &other->data, part, out, error);
}

int64_t et_translation_sampled(const et_translation_task *task)
{
    et_assert(task->sides.target);
    const int64_t words = et_vocabulary_size(task->sides.target);
    const int64_t sampled = task->options.model.sampled_vocabulary;
    return sampled && sampled < words ? sampled : words;
}
