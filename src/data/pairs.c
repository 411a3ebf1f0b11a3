/* A pair takes places behind those before it on each side, so offsets rise and no token is between
 * two sentences. Pairs of a shuffled corpus lie where no processor would guess, so the next ones
 * are brought nearer before they are copied: a fetch from memory takes as long as copying some
 * five. */
#include "data/pairs.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/pair_names.h"

#define AHEAD 8

#define IDS(id, text, of)                                                                          \
    [id] = { .name = (text), .dtype = ET_I32, .kind = (of), .empty = ET_EMPTY_NONE }
#define POSITIONS(id, text, of)                                                                    \
    [id] = { .name = (text), .dtype = ET_I32, .kind = (of), .empty = ET_EMPTY_ZERO }
#define OFFSETS(id, text, of)                                                                      \
    [id] = { .name = (text), .dtype = ET_I32, .empty = ET_EMPTY_OFFSETS, .offsets_of = (of) }
const et_layout_field et_pair_fields[ET_PAIR_FIELDS] = {
    IDS(ET_PAIR_SOURCE_IDS, ET_PAIR_NAME_SOURCE_IDS, ET_PAIR_SOURCE),
    POSITIONS(ET_PAIR_SOURCE_POSITIONS, ET_PAIR_NAME_SOURCE_POSITIONS, ET_PAIR_SOURCE),
    IDS(ET_PAIR_TARGET_IDS, ET_PAIR_NAME_TARGET_IDS, ET_PAIR_TARGET),
    POSITIONS(ET_PAIR_TARGET_POSITIONS, ET_PAIR_NAME_TARGET_POSITIONS, ET_PAIR_TARGET),
    IDS(ET_PAIR_TARGET_LABELS, ET_PAIR_NAME_TARGET_LABELS, ET_PAIR_TARGET),
    OFFSETS(ET_PAIR_SOURCE_OFFSETS, ET_PAIR_NAME_SOURCE_OFFSETS, ET_PAIR_SOURCE),
    OFFSETS(ET_PAIR_TARGET_OFFSETS, ET_PAIR_NAME_TARGET_OFFSETS, ET_PAIR_TARGET),
};
#undef IDS
#undef POSITIONS
#undef OFFSETS

typedef struct pairs {
    et_samples samples;
    const et_encoded *encoded; /* borrowed */
} pairs;

static void pairs_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const et_encoded *encoded = ((const pairs *)samples)->encoded;
    for (int64_t i = 0; i < pick.count; i++) {
        if (i + AHEAD < pick.count)
            et_encoded_lengths_soon(encoded, pick.which[i + AHEAD]);
        sizes[ET_PAIR_SOURCE][i] = (int32_t)et_encoded_source_length(encoded, pick.which[i]);
        sizes[ET_PAIR_TARGET][i] = (int32_t)et_encoded_target_length(encoded, pick.which[i]);
    }
}

static void count_up(int32_t *positions, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        positions[i] = (int32_t)i;
}

static void add_source(const et_encoded *encoded, et_batch *batch, uint32_t pair)
{
    int64_t at = batch->filled[ET_PAIR_SOURCE], length = et_encoded_source_length(encoded, pair);
    et_encoded_ids(encoded, pair, false, (int32_t *)batch->data[ET_PAIR_SOURCE_IDS] + at);
    count_up((int32_t *)batch->data[ET_PAIR_SOURCE_POSITIONS] + at, length);
    ((int32_t *)batch->data[ET_PAIR_SOURCE_OFFSETS])[batch->filled[0]] = (int32_t)at;
    batch->filled[ET_PAIR_SOURCE] += length;
}

/* The input is the labels moved on by one, behind the start symbol. Pieces 7 8 and EOS 1, start
 * 0: labels 7 8 1, input 0 7 8. */
static void add_target(const et_encoded *encoded, et_batch *batch, uint32_t pair)
{
    int64_t at = batch->filled[ET_PAIR_TARGET], length = et_encoded_target_length(encoded, pair);
    int32_t *labels = (int32_t *)batch->data[ET_PAIR_TARGET_LABELS] + at;
    int32_t *ids = (int32_t *)batch->data[ET_PAIR_TARGET_IDS] + at;
    et_encoded_ids(encoded, pair, true, labels);
    ids[0] = encoded->start;
    memcpy(ids + 1, labels, (size_t)(length - 1) * sizeof *ids);
    count_up((int32_t *)batch->data[ET_PAIR_TARGET_POSITIONS] + at, length);
    ((int32_t *)batch->data[ET_PAIR_TARGET_OFFSETS])[batch->filled[0]] = (int32_t)at;
    batch->filled[ET_PAIR_TARGET] += length;
}

static int pairs_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    (void)error;
    const et_encoded *encoded = ((const pairs *)samples)->encoded;
    int64_t soon = 0;
    for (int64_t i = 0; i < pick.count; i++) {
        for (; soon < pick.count && soon <= i + AHEAD; soon++)
            et_encoded_ids_soon(encoded, pick.which[soon]);
        add_source(encoded, batch, pick.which[i]);
        add_target(encoded, batch, pick.which[i]);
        batch->filled[0]++;
    }
    return ET_OK;
}

static void pairs_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                           size_t size)
{
    const char *path;
    int64_t line;
    et_encoded_place(((const pairs *)samples)->encoded, which, kind == ET_PAIR_TARGET, &path,
                     &line);
    snprintf(text, size, "%s:%lld", path, (long long)line);
}

static void pairs_close(et_samples *samples)
{
    et_free(samples);
}

static const et_samples_class pairs_class = {
    .name = "sentence pairs",
    .sizes = pairs_sizes,
    .fill = pairs_fill,
    .describe = pairs_describe,
    .close = pairs_close,
};

int et_pairs_open(et_samples **out, const et_encoded *encoded, et_error *error)
{
    et_assert(encoded->pairs > 0 && encoded->pairs <= UINT32_MAX);
    pairs *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "sentence pairs");
    self->samples = (et_samples){
        .class = &pairs_class,
        .layout = { .kinds = ET_PAIR_KINDS,
                    .fields = ET_PAIR_FIELDS,
                    .kind = { "sentence pair", "source token", "target token" },
                    .unit = ET_PAIR_TARGET,
                    .unit_name = "token",
                    .field = et_pair_fields },
        .count = encoded->pairs,
        .total = { encoded->pairs, encoded->sizes.source_tokens, encoded->sizes.target_tokens },
        .largest = { 1, encoded->sizes.longest_source, encoded->sizes.longest_target },
        .fingerprint = encoded->key,
    };
    self->encoded = encoded;
    *out = &self->samples;
    return ET_OK;
}

int et_pair_batches_open(et_source **out, const et_encoded *encoded,
                         const et_batches_options *options, et_error *error)
{
    et_samples *samples = NULL;
    int status = et_pairs_open(&samples, encoded, error);
    if (status)
        return status;
    status = et_batches_open(out, samples, options, error);
    if (status)
        et_samples_close(samples);
    return status;
}
