/* Texts are named in three forms: line by line, in two columns, in records. The texts of train_data
 * and those of each part of its mix are handled in the same way. */
#include "tasks/translation/settings/input.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "data/batches/source.h"
#include "data/text/pairs.h"
#include "data/text/paths.h"
#include "formats/events/log_names.h"
#include "train/run/options.h"

/* A sentence is never cut for a batch, so the budget has to hold the longest that may come. The
 * bound of the last bucket is one more than the longest. */
int et_translation_check_batching(const char *name, const et_translation_data *data, bool training,
                                  et_error *error)
{
    et_assert(name);
    const bool bucketed = data->batching == ET_BATCHING_BUCKETED;
    if (data->static_batch && bucketed)
        return et_fail(error, ET_ECONFIG,
                       "task.%s: static_batch and batching: bucketed are both set; keep one", name);
    if (data->static_batch && !training)
        return ET_OK;
    if (data->max_seq_length + bucketed <= data->global_batch_size)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.%s.global_batch_size: %lld tokens are fewer than max_seq_length, %lld%s; "
                   "raise the batch size or lower the length",
                   name, (long long)data->global_batch_size, (long long)data->max_seq_length,
                   bucketed ? ", rounded up to its bucket" : "");
}

static int open_bucketed(et_source **out, et_samples *samples, const et_translation_data *data,
                         const et_batches_options *order, bool training, et_error *error)
{
    et_bucket buckets[ET_BUCKETS_MAX];
    const int64_t budget = data->global_batch_size;
    int count = 1;
    if (!data->static_batch)
        count = et_buckets_scaled(buckets, data->max_seq_length, budget);
    else
        buckets[0] =
            (et_bucket){ data->max_seq_length, training ? budget / data->max_seq_length : budget };
    et_assert(count >= 1);
    et_bucketed_options options = { order->seed, order->shuffle, order->repeat, buckets, count };
    return et_bucketed_open(out, samples, &options, error);
}

int et_translation_batches(et_source **out, et_samples *samples, const et_translation_data *data,
                           const et_batches_options *order, bool training, et_error *error)
{
    et_assert(out && samples && order);
    const bool packed = !data->static_batch && data->batching == ET_BATCHING_PACKED;
    int status = packed ? et_batches_open(out, samples, order, error)
                        : open_bucketed(out, samples, data, order, training, error);
    if (status)
        et_samples_close(samples);
    return status;
}

#define SETTING_MAX 48 /* "train_data.mix[7]" */

/* ---- settings ---- */

/* null names no file, and neither does "". */
static const char *text_of(const char *setting)
{
    return setting ? setting : "";
}

/* The part for train_data itself: a text of weight 1. */
static et_translation_part part_of_data(const et_translation_data *data)
{
    return (et_translation_part){ .source_path = data->source_path,
                                  .target_path = data->target_path,
                                  .tsv_path = data->tsv_path,
                                  .input_path = data->input_path,
                                  .src_lang = text_of(data->src_lang),
                                  .tgt_lang = text_of(data->tgt_lang),
                                  .tag = text_of(data->tag),
                                  .tag_column = data->tag_column,
                                  .weight = 1 };
}

/* Several texts: of a mix, or sets. */
static const et_structs *list_of(const et_translation_data *data)
{
    return data->sets.count ? &data->sets : &data->mix;
}

/* Part i of the list. A part without languages has those of data. */
static et_translation_part part_at(const et_translation_data *data, size_t i)
{
    et_translation_part part = ((const et_translation_part *)list_of(data)->items)[i];
    if (!*text_of(part.src_lang))
        part.src_lang = text_of(data->src_lang);
    if (!*text_of(part.tgt_lang))
        part.tgt_lang = text_of(data->tgt_lang);
    if (!*text_of(part.tag) && !part.tag_column)
        part.tag = text_of(data->tag);
    return part;
}

/* The files of a part: names of their settings, and their members in a corpus. */
enum { PATH_LISTS = 4 };
static const struct {
    const char *name;
    size_t given, found; /* et_strings, in et_translation_part and in et_corpus_paths */
} path_lists[PATH_LISTS] = {
    { "source_path", offsetof(et_translation_part, source_path),
      offsetof(et_corpus_paths, source) },
    { "target_path", offsetof(et_translation_part, target_path),
      offsetof(et_corpus_paths, target) },
    { "tsv_path", offsetof(et_translation_part, tsv_path), offsetof(et_corpus_paths, tsv) },
    { "input_path", offsetof(et_translation_part, input_path), offsetof(et_corpus_paths, records) },
};

static const et_strings *paths_of(const et_translation_part *part, int list)
{
    return (const et_strings *)(const void *)((const char *)part + path_lists[list].given);
}

static bool names_text(const et_translation_part *part)
{
    size_t count = 0;
    for (int i = 0; i < PATH_LISTS; i++)
        count += paths_of(part, i)->count;
    return count;
}

bool et_translation_has_data(const et_translation_data *data)
{
    const et_translation_part part = part_of_data(data);
    return list_of(data)->count || names_text(&part);
}

const char *et_translation_metric_of_set(const et_translation_data *data, const char *name)
{
    const et_translation_part *sets = data->sets.items;
    for (size_t i = 0; i < data->sets.count; i++) {
        const char *metric = et_logged_below(name, text_of(sets[i].name));
        if (metric)
            return metric;
    }
    return NULL;
}

/* Both sides must have the same number of files, so that a missing file is found before reading. */
static int check_sides(const char *name, int64_t source, int64_t target, et_error *error)
{
    if (source == target || source < 0 || target < 0)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.%s: %lld source_path files but %lld target_path files; give equal numbers",
                   name, (long long)source, (long long)target);
}

static int check_tag(const char *name, const et_translation_part *part, et_error *error)
{
    const char *tag = text_of(part->tag);
    if (part->tag_column && *tag)
        return et_fail(error, ET_ECONFIG, "task.%s: tag and tag_column are both set; keep one",
                       name);
    if (part->tag_column && !part->tsv_path.count)
        return et_fail(error, ET_ECONFIG, "task.%s.tag_column: only with tsv_path", name);
    for (const char *at = tag; *at; at++)
        if ((unsigned char)*at <= ' ')
            return et_fail(error, ET_ECONFIG, "task.%s.tag: \"%.100s\": give one word", name, tag);
    return ET_OK;
}

static int check_part(const char *name, const et_translation_part *part, et_error *error)
{
    const char *first = NULL;
    for (int i = 0; i < PATH_LISTS; i++) {
        const et_strings *paths = paths_of(part, i);
        for (size_t k = 0; k < paths->count; k++)
            if (!*paths->items[k])
                return et_fail(error, ET_ECONFIG,
                               "task.%s.%s: path %zu of %zu is empty; name a file", name,
                               path_lists[i].name, k + 1, paths->count);
    }
    for (int i = 0; i < PATH_LISTS; i++) {
        if (!paths_of(part, i)->count)
            continue;
        if (first && i > 1)
            return et_fail(error, ET_ECONFIG, "task.%s: %s and %s are both set; keep one", name,
                           first, path_lists[i].name);
        first = first ? first : path_lists[i].name;
    }
    int status;
    if ((status = check_sides(name, et_paths_count(&part->source_path),
                              et_paths_count(&part->target_path), error)) ||
        (status = check_tag(name, part, error)))
        return status;
    if (!part->input_path.count ||
        (*part->src_lang && *part->tgt_lang && strcmp(part->src_lang, part->tgt_lang)))
        return ET_OK;
    return et_fail(
        error, ET_ECONFIG,
        "task.%s: input_path needs src_lang and tgt_lang, the names of two features in its records",
        name);
}

/* Several texts: a mix to train on, or sets to validate on. */
static int check_texts(const char *name, const et_translation_data *data, bool training,
                       et_error *error)
{
    const et_translation_part own = part_of_data(data);
    const et_translation_part *first = data->sets.items;
    const size_t mix = data->mix.count, sets = data->sets.count;
    int status = ET_OK;
    if (mix && names_text(&own))
        return et_fail(error, ET_ECONFIG,
                       "task.%s: mix and paths are both set; move the files into the mix", name);
    if (mix && !training)
        return et_fail(error, ET_ECONFIG,
                       "task.%s.mix: a mix is only for training; name one text, or sets", name);
    if (mix > ET_TRANSLATION_MIX_MAX)
        return et_fail(error, ET_ECONFIG,
                       "task.%s.mix: %zu texts; give at most %d (each may have many files)", name,
                       mix, ET_TRANSLATION_MIX_MAX);
    if (sets && training)
        return et_fail(error, ET_ECONFIG, "task.%s.sets: sets are only for validation; use mix",
                       name);
    if (sets && names_text(&own))
        return et_fail(error, ET_ECONFIG,
                       "task.%s: sets and paths are both set; move the files into a set, or remove "
                       "them (source_path=null and so on)",
                       name);
    if (sets > ET_TRANSLATION_SETS_MAX)
        return et_fail(error, ET_ECONFIG, "task.%s.sets: %zu sets; give at most %d", name, sets,
                       ET_TRANSLATION_SETS_MAX);
    for (size_t i = 0; !status && i < mix + sets; i++) {
        char own_name[SETTING_MAX];
        const et_translation_part part = part_at(data, i);
        snprintf(own_name, sizeof own_name, "%s.%s[%zu]", name, sets ? "sets" : "mix", i);
        if (sets)
            status = et_item_name_check("validation_data.sets", "sets", &first->name, sizeof *first,
                                        i, error);
        if (!status)
            status = names_text(&part) ? check_part(own_name, &part, error)
                                       : et_fail(error, ET_ECONFIG,
                                                 "task.%s: no text is given; name files", own_name);
    }
    return status;
}

/* Refuses values of settings that Etude could not honour. */
static int check_others(const char *name, const et_translation_data *data, bool training,
                        et_error *error)
{
    const struct {
        const char *name, *value;
    } named[] = {
        { "tfds_name", data->tfds_name },
        { "tfds_split", data->tfds_split },
        { "tfds_data_dir", data->tfds_data_dir },
        { "tfds_skip_decoding_feature", data->tfds_skip_decoding_feature },
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i].value && *named[i].value)
            return et_fail(error, ET_ECONFIG,
                           "task.%s.%s: %s: Etude has no named data sets: write the data to files "
                           "and name them in input_path",
                           name, named[i].name, named[i].value);
    if (data->bpe_dropout > 0 && data->unigram_alpha > 0)
        return et_fail(error, ET_ECONFIG,
                       "task.%s: bpe_dropout and unigram_alpha are both set; keep the one for the "
                       "kind of vocabulary",
                       name);
    if (!training && (data->bpe_dropout > 0 || data->unigram_alpha > 0))
        return et_fail(
            error, ET_ECONFIG,
            "task.%s.%s: sub-words are only sampled in training: set it in task.train_data", name,
            data->bpe_dropout > 0 ? "bpe_dropout" : "unigram_alpha");
    et_augment augment;
    int status = et_augment_parse(&augment, data->augment, error);
    if (status)
        return et_fail_while(error, status, "task.%s.augment", name);
    if (!training && et_augment_is_used(&augment))
        return et_fail(error, ET_ECONFIG,
                       "task.%s.augment: only training has changed copies: set it in "
                       "task.train_data",
                       name);
    if (!training && (data->deduplicate || data->max_length_ratio > 0))
        return et_fail(error, ET_ECONFIG,
                       "task.%s.%s: validation always scores all pairs, so that scores stay "
                       "comparable; leave it out",
                       name, data->deduplicate ? "deduplicate" : "max_length_ratio");
    if (data->tfds_as_supervised)
        return et_fail(error, ET_ECONFIG,
                       "task.%s.tfds_as_supervised: Etude has no named data sets; leave it false",
                       name);
    if (data->is_training != ET_TRANSLATION_UNSET &&
        (data->is_training == ET_TRANSLATION_TRUE) != training)
        return et_fail(error, ET_ECONFIG, "task.%s.is_training: %s %s; leave it out", name,
                       training ? "false, and" : "true, and",
                       training ? "the task learns from it" : "it is scored once, in order");
    return ET_OK;
}

int et_translation_check_data(const char *name, const et_translation_data *data, bool training,
                              et_error *error)
{
    et_assert(name);
    const et_translation_part own = part_of_data(data);
    int status;
    if ((status = check_texts(name, data, training, error)) ||
        (status = check_part(name, &own, error)) ||
        (status = check_others(name, data, training, error)))
        return status;
    /* A run without validation data is fine, one without training data is not. */
    if (training && !et_translation_has_data(data))
        return et_fail(
            error, ET_ECONFIG,
            "task.%s: no data; set source_path and target_path, or tsv_path, or input_path", name);
    return et_translation_check_batching(name, data, training, error);
}

/* ---- files ---- */

static int match_part(et_corpus_paths *out, const char *name, const et_translation_part *part,
                      et_arena *arena, et_error *error)
{
    int status = ET_OK;
    *out = (et_corpus_paths){ .source_feature = part->src_lang,
                              .target_feature = part->tgt_lang,
                              .tag = part->tag,
                              .tag_column = part->tag_column };
    for (int i = 0; !status && i < PATH_LISTS; i++) {
        et_strings *found = (et_strings *)(void *)((char *)out + path_lists[i].found);
        char setting[SETTING_MAX + 24];
        snprintf(setting, sizeof setting, "task.%s.%s", name, path_lists[i].name);
        status = et_paths_match(found, paths_of(part, i), setting, arena, error);
    }
    return status
               ? status
               : check_sides(name, (int64_t)out->source.count, (int64_t)out->target.count, error);
}

int et_translation_input_open(et_translation_input *input, const char *name,
                              const et_translation_data *data, et_error *error)
{
    et_assert(input && name && data);
    const size_t parts = list_of(data)->count;
    size_t count = parts ? parts : et_translation_has_data(data);
    *input = (et_translation_input){ .arena = ET_ARENA_INIT };
    input->texts = et_arena_array(&input->arena, count, sizeof *input->texts);
    int status = input->texts ? ET_OK : et_alloc_failed(error, "texts");
    for (size_t i = 0; !status && i < count; i++) {
        char own_name[SETTING_MAX];
        const et_translation_part part = parts ? part_at(data, i) : part_of_data(data);
        snprintf(own_name, sizeof own_name, "%s", name);
        if (parts)
            snprintf(own_name, sizeof own_name, "%s.%s[%zu]", name,
                     data->sets.count ? "sets" : "mix", i);
        input->texts[i].weight = part.weight;
        input->texts[i].name = data->sets.count ? part.name : NULL;
        status = match_part(&input->texts[i].paths, own_name, &part, &input->arena, error);
        if (!status)
            status = et_augment_parse(&input->texts[i].paths.augment, data->augment, error);
    }
    if (status)
        et_arena_release(&input->arena);
    else
        input->count = count;
    return status;
}

void et_translation_input_close(et_translation_input *input)
{
    for (size_t i = 0; i < input->count; i++)
        et_encoded_close(input->texts[i].encoded);
    for (int side = 0; side < 2; side++)
        et_subwords_close(input->subwords[side]);
    et_arena_release(&input->arena);
    *input = (et_translation_input){ .arena = ET_ARENA_INIT };
}

static void read_part(const et_translation_part *part,
                      void (*file)(void *payload, const char *path), void *payload)
{
    for (int i = 0; i < PATH_LISTS; i++) {
        /* A missing file is not readable either; opening it reports the error. */
        et_arena arena = ET_ARENA_INIT;
        et_strings found;
        if (et_paths_match(&found, paths_of(part, i), NULL, &arena, NULL))
            found = *paths_of(part, i);
        for (size_t n = 0; n < found.count; n++)
            file(payload, found.items[n]);
        et_arena_release(&arena);
    }
}

void et_translation_input_reads(const et_translation_data *data,
                                void (*file)(void *payload, const char *path), void *payload)
{
    et_assert(file);
    et_translation_part part = part_of_data(data);
    read_part(&part, file, payload);
    for (size_t i = 0; i < list_of(data)->count; i++) {
        part = part_at(data, i);
        read_part(&part, file, payload);
    }
}

/* ---- getters ---- */

uint64_t et_translation_input_key(const et_translation_input *input)
{
    et_assert(input->count > 0);
    uint64_t key = input->texts[0].encoded->key;
    for (size_t i = 0; input->count > 1 && i < input->count; i++) {
        uint64_t facts[3] = { i ? key : 0, input->texts[i].encoded->key, 0 };
        memcpy(&facts[2], &input->texts[i].weight, sizeof facts[2]);
        key = et_checksum(facts, sizeof facts);
    }
    return key;
}

/* At most one of the two rates is set. */
int et_translation_check_drawing(const et_translation_data *data, const char *kind, et_error *error)
{
    et_assert(kind);
    const char *name = data->bpe_dropout > 0 ? "bpe_dropout" : "unigram_alpha";
    const char *of = data->bpe_dropout > 0 ? "bpe" : "unigram";
    if ((data->bpe_dropout <= 0 && data->unigram_alpha <= 0) || strcmp(kind, of) == 0)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "task.train_data.%s is only for vocabularies of kind %s, but this one is %s; "
                   "set %s, or train a vocabulary with task.vocabulary.model_type=%s",
                   name, of, kind, data->bpe_dropout > 0 ? "unigram_alpha" : "bpe_dropout", of);
}

int et_translation_input_subwords(et_translation_input *input, const et_translation_data *data,
                                  et_sides sides, et_error *error)
{
    const double rate = data->bpe_dropout > 0 ? data->bpe_dropout : data->unigram_alpha;
    const et_vocabulary *of[2] = { sides.source, sides.target };
    int status = ET_OK;
    for (int side = 0; !status && side < 2 && rate > 0; side++) {
        status = et_translation_check_drawing(data, et_vocabulary_kind(of[side]), error);
        if (!status)
            status = et_subwords_open(&input->subwords[side], of[side], rate, error);
    }
    return status;
}

int et_translation_input_samples(et_samples **out, const et_translation_input *input, uint64_t seed,
                                 int64_t most, et_error *error)
{
    const et_pairs_drawing drawing = { input->subwords[0], input->subwords[1], seed, most };
    et_samples *parts[ET_TRANSLATION_MIX_MAX] = { NULL };
    double weights[ET_TRANSLATION_MIX_MAX];
    int status = ET_OK;
    et_assert(input->count > 0 && input->count <= ET_TRANSLATION_MIX_MAX);
    for (size_t i = 0; !status && i < input->count; i++) {
        weights[i] = input->texts[i].weight;
        status = et_drawn_pairs_open(&parts[i], input->texts[i].encoded, &drawing, error);
    }
    if (!status && input->count == 1)
        *out = parts[0];
    else if (!status)
        status = et_mix_open(out, parts, weights, (int)input->count, seed, error);
    for (size_t i = 0; status && i < input->count; i++)
        et_samples_close(parts[i]);
    return status;
}

/* ---- lines ---- */

/* The next wanted line of the open text. */
static int next_wanted(et_translation_lines *lines, const char **text, size_t *length,
                       et_error *error)
{
    int status, side;
    do {
        side = lines->side;
        status = et_corpus_next_line(lines->corpus, text, length, error);
        lines->side = !side;
    } while (!status && *text && !lines->of[side]);
    return status;
}

int et_translation_next_line(et_translation_lines *lines, const char **text, size_t *length,
                             et_error *error)
{
    et_assert(text && length);
    const et_translation_input *input = lines->input;
    int status = ET_OK;
    *text = NULL;
    while (!status && !*text && lines->text < input->count) {
        if (!lines->corpus)
            status = et_corpus_open(&lines->corpus, &input->texts[lines->text].paths, error);
        if (!status)
            status = next_wanted(lines, text, length, error);
        if (status || *text)
            break;
        et_translation_lines_close(lines);
        lines->text++;
    }
    return status;
}

void et_translation_lines_close(et_translation_lines *lines)
{
    et_corpus_close(lines->corpus);
    lines->corpus = NULL;
    lines->side = 0;
}
