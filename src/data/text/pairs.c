/* Packed sentence pairs. On each side a pair follows the pairs before it, so offsets increase and
 * there is no token between two sentences. Pairs of a shuffled corpus are at unpredictable places,
 * so the next pairs are prefetched before they are copied: fetching one from memory takes as long
 * as copying five. */
#include "data/text/pairs.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "data/batches/source.h"
#include "engine/nn/transformer.h"

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
    int64_t most;              /* tokens of a side; 0: any */
    et_pairs_drawing drawing;
    int32_t *as_encoded; /* [drawing.most], owned; NULL: no sampling */
    int32_t *drawn;      /* [drawing.most], owned */
} pairs;

/* ---- sub-words of a pass ---- */

static const et_subwords *subwords_of(const pairs *self, bool target)
{
    return target ? self->drawing.target : self->drawing.source;
}

/* Writes the sentence with EOS to self->drawn and returns its length. Equal passes give equal
 * tokens. */
static int64_t draw(const pairs *self, uint32_t pair, bool target, int64_t epoch)
{
    const et_random random = { .seed = self->drawing.seed,
                               .step = (uint64_t)epoch << 32 | pair,
                               .site =
                                   et_random_site(target ? "subwords/target" : "subwords/source") };
    int64_t length = et_encoded_truncated_ids(self->encoded, pair, target, 0, self->as_encoded);
    size_t drawn =
        et_subwords_draw(subwords_of(self, target), random, self->as_encoded, (size_t)length - 1,
                         self->drawn, (size_t)self->drawing.most - 1);
    if (!drawn) {
        memcpy(self->drawn, self->as_encoded, length * sizeof *self->drawn);
        return length;
    }
    self->drawn[drawn] = self->encoded->eos[target];
    return (int64_t)drawn + 1;
}

/* ---- the class ---- */

static void drawn_sizes(const pairs *self, et_pick pick, bool target, int32_t *sizes)
{
    for (int64_t i = 0; i < pick.count; i++)
        sizes[i] = (int32_t)draw(self, pick.which[i], target, pick.epoch);
}

static void pairs_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const pairs *self = (const pairs *)samples;
    const et_encoded *encoded = self->encoded;
    for (int64_t i = 0; i < pick.count; i++) {
        if (i + AHEAD < pick.count)
            /* Three offsets, which may be on two lines of cache: the second is seldom, and left. */
            __builtin_prefetch(&encoded->offsets[2 * (int64_t)pick.which[i + AHEAD]], 0, 2);
        for (int side = 0; side < 2; side++)
            sizes[side ? ET_PAIR_TARGET : ET_PAIR_SOURCE][i] =
                (int32_t)et_encoded_truncated_length(encoded, pick.which[i], side, self->most);
    }
    if (self->drawing.source)
        drawn_sizes(self, pick, false, sizes[ET_PAIR_SOURCE]);
    if (self->drawing.target)
        drawn_sizes(self, pick, true, sizes[ET_PAIR_TARGET]);
}

/* The ids of one side, EOS last; returns how many. */
static int64_t write_ids(const pairs *self, uint32_t pair, bool target, int64_t epoch, int32_t *ids)
{
    if (!subwords_of(self, target))
        return et_encoded_truncated_ids(self->encoded, pair, target, self->most, ids);
    int64_t length = draw(self, pair, target, epoch);
    memcpy(ids, self->drawn, length * sizeof *ids);
    return length;
}

static void count_up(int32_t *positions, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        positions[i] = (int32_t)i;
}

/* The input is the labels moved by one, after the start symbol. Pieces 7 8 and EOS 1, start 0:
 * labels 7 8 1, input 0 7 8. */
static void add_target(const pairs *self, et_batch *batch, uint32_t pair, int64_t epoch)
{
    int64_t at = batch->filled[ET_PAIR_TARGET];
    int32_t *labels = (int32_t *)batch->data[ET_PAIR_TARGET_LABELS] + at;
    int32_t *ids = (int32_t *)batch->data[ET_PAIR_TARGET_IDS] + at;
    int64_t length = write_ids(self, pair, true, epoch, labels);
    ids[0] = self->encoded->start;
    memcpy(ids + 1, labels, (size_t)(length - 1) * sizeof *ids);
    count_up((int32_t *)batch->data[ET_PAIR_TARGET_POSITIONS] + at, length);
    ((int32_t *)batch->data[ET_PAIR_TARGET_OFFSETS])[batch->filled[0]] = (int32_t)at;
    batch->filled[ET_PAIR_TARGET] += length;
}

/* A hint once the pair's offsets are near: its ids, both sides side by side, will be needed soon.
 * No processor predicts the order of a shuffled corpus. */
static void fetch_ids(const et_encoded *encoded, int64_t pair)
{
    et_assert(pair >= 0 && pair < encoded->pairs);
    uint64_t width = (uint64_t)encoded->width;
    const char *at = (const char *)encoded->tokens + encoded->offsets[2 * pair] * width;
    const char *end = (const char *)encoded->tokens + encoded->offsets[2 * pair + 2] * width;
    for (; at < end; at += 64)
        __builtin_prefetch(at, 0, 3);
}

static int pairs_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    (void)error;
    const pairs *self = (const pairs *)samples;
    int64_t soon = 0;
    for (int64_t i = 0; i < pick.count; i++) {
        for (; soon < pick.count && soon <= i + AHEAD; soon++)
            fetch_ids(self->encoded, pick.which[soon]);
        int64_t at = batch->filled[ET_PAIR_SOURCE];
        int64_t length = write_ids(self, pick.which[i], false, pick.epoch,
                                   (int32_t *)batch->data[ET_PAIR_SOURCE_IDS] + at);
        count_up((int32_t *)batch->data[ET_PAIR_SOURCE_POSITIONS] + at, length);
        ((int32_t *)batch->data[ET_PAIR_SOURCE_OFFSETS])[batch->filled[0]] = (int32_t)at;
        batch->filled[ET_PAIR_SOURCE] += length;
        add_target(self, batch, pick.which[i], pick.epoch);
        batch->filled[0]++;
    }
    return ET_OK;
}

static void pairs_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                           size_t size)
{
    const char *path;
    int64_t line;
    et_encoded_locate(((const pairs *)samples)->encoded, which, kind == ET_PAIR_TARGET, &path,
                      &line);
    snprintf(text, size, "%s:%lld", path, (long long)line);
}

static void pairs_close(et_samples *samples)
{
    pairs *self = (pairs *)samples;
    et_free(self->as_encoded);
    et_free(self->drawn);
    et_free(self);
}

static const et_samples_class pairs_class = {
    .name = "sentence pairs",
    .sizes = pairs_sizes,
    .fill = pairs_fill,
    .describe = pairs_describe,
    .close = pairs_close,
};

/* Sampling gives other tokens in each pass, so a position is only valid for the same sampling. A
 * sentence's tokens are not known before they are sampled, so totals stay those of the corpus. */
static int open_drawing(pairs *self, const et_pairs_drawing *drawing, et_error *error)
{
    const size_t most = (size_t)drawing->most;
    et_samples *s = &self->samples;
    uint64_t facts[5] = { s->fingerprint, drawing->seed, most };
    et_assert(drawing->most >= s->largest[ET_PAIR_SOURCE]);
    et_assert(drawing->most >= s->largest[ET_PAIR_TARGET]);
    self->drawing = *drawing;
    self->as_encoded = et_alloc(most, sizeof *self->as_encoded);
    self->drawn = et_alloc(most, sizeof *self->drawn);
    if (!self->as_encoded || !self->drawn)
        return et_alloc_failed(error, "sub-words of a sentence");
    for (int side = 0; side < 2; side++) {
        if (!subwords_of(self, side))
            continue;
        s->largest[side ? ET_PAIR_TARGET : ET_PAIR_SOURCE] = drawing->most;
        facts[3 + side] = et_subwords_fingerprint(subwords_of(self, side));
    }
    s->fingerprint = et_checksum(facts, sizeof facts);
    return ET_OK;
}

static pairs *new_pairs(const et_encoded *encoded, et_error *error)
{
    et_assert(encoded->pairs > 0 && encoded->pairs <= UINT32_MAX);
    pairs *self = et_alloc_zero(1, sizeof *self);
    if (!self) {
        et_alloc_failed(error, "sentence pairs");
        return NULL;
    }
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
    return self;
}

int et_drawn_pairs_open(et_samples **out, const et_encoded *encoded,
                        const et_pairs_drawing *drawing, et_error *error)
{
    pairs *self = new_pairs(encoded, error);
    if (!self)
        return ET_ENOMEM;
    int status = drawing->source || drawing->target ? open_drawing(self, drawing, error) : ET_OK;
    if (status)
        pairs_close(&self->samples);
    else
        *out = &self->samples;
    return status;
}

/* ---- shortened pairs ---- */

int64_t et_pairs_truncated(const et_encoded *encoded, int64_t most)
{
    int64_t count = 0;
    for (int64_t i = 0; most && i < encoded->pairs; i++)
        count += et_encoded_source_length(encoded, i) > most ||
                 et_encoded_target_length(encoded, i) > most;
    return count;
}

int et_truncated_pairs_open(et_samples **out, const et_encoded *encoded, int64_t most,
                            et_error *error)
{
    pairs *self = new_pairs(encoded, error);
    if (!self)
        return ET_ENOMEM;
    if (et_pairs_truncated(encoded, most)) {
        /* Otherwise samples and fingerprint do not depend on the limit. */
        et_samples *s = &self->samples;
        const uint64_t facts[2] = { s->fingerprint, (uint64_t)most };
        self->most = most;
        s->fingerprint = et_checksum(facts, sizeof facts);
        for (int side = 0; side < 2; side++) {
            const int kind = side ? ET_PAIR_TARGET : ET_PAIR_SOURCE;
            s->total[kind] = 0;
            for (int64_t i = 0; i < self->encoded->pairs; i++)
                s->total[kind] += et_encoded_truncated_length(self->encoded, i, side, most);
            s->largest[kind] = s->largest[kind] > most ? most : s->largest[kind];
        }
    }
    *out = &self->samples;
    return ET_OK;
}

int et_pair_batches_open(et_source **out, const et_encoded *encoded,
                         const et_batches_options *options, et_error *error)
{
    et_samples *samples = NULL;
    const int status = et_truncated_pairs_open(&samples, encoded, 0, error);
    return status ? status : et_batches_take(out, samples, options, error);
}
