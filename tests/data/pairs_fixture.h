/* Encoded pairs made by hand, and what the tests of batches have in common. */
#ifndef ETUDE_TESTS_DATA_PAIRS_FIXTURE_H
#define ETUDE_TESTS_DATA_PAIRS_FIXTURE_H

#include "data/fixture.h"
#include "data/pair_iterator.h"

/* pairs pairs whose lengths are spread like those of captions: 5 to 40 sub-words, 14 in the
 * mean, sides alike. Piece k of side s of pair i is a function of the three. */
static inline et_encoded make_encoded(int64_t pairs)
{
    unsigned seed = 3;
    uint64_t *offsets = malloc((2 * (size_t)pairs + 1) * sizeof *offsets);
    offsets[0] = 0;
    for (int64_t i = 0; i < pairs; i++) {
        unsigned source = 5 + roll(&seed, 8) + roll(&seed, 8) + roll(&seed, 1 + roll(&seed, 22));
        unsigned target = source - 2 + roll(&seed, 5);
        offsets[2 * i + 1] = offsets[2 * i] + source;
        offsets[2 * i + 2] = offsets[2 * i + 1] + target;
    }
    uint16_t *pieces = malloc(offsets[2 * pairs] * sizeof *pieces);
    for (uint64_t i = 0; i < offsets[2 * pairs]; i++)
        pieces[i] = (uint16_t)(3 + i * 2654435761u % 60000);
    et_encoded encoded = { .pairs = pairs,
                           .offsets = offsets,
                           .pieces = pieces,
                           .width = 2,
                           .start = 0,
                           .eos = 1,
                           .vocabulary_size = 65536,
                           .key = 99 };
    for (int64_t i = 0; i < pairs; i++) {
        int64_t source = et_encoded_source_length(&encoded, i);
        int64_t target = et_encoded_target_length(&encoded, i);
        encoded.sizes.source_tokens += source;
        encoded.sizes.target_tokens += target;
        if (source > encoded.sizes.longest_source)
            encoded.sizes.longest_source = source;
        if (target > encoded.sizes.longest_target)
            encoded.sizes.longest_target = target;
    }
    return encoded;
}

static inline void release_encoded(et_encoded *encoded)
{
    free((void *)(uintptr_t)encoded->offsets);
    free((void *)(uintptr_t)encoded->pieces);
}

static inline et_pair_source *open_source(const et_encoded *encoded, const et_pair_shape *shape,
                                          const et_pair_iterator_options *options)
{
    et_pair_source *source = NULL;
    et_error error = ET_ERROR_INIT;
    if (et_pair_iterator_open(&source, encoded, shape, options, &error))
        fail_msg("%s", error.text);
    return source;
}

static inline void open_batch(et_pair_batch *batch, const et_pair_shape *shape)
{
    assert_int_equal(et_pair_batch_init(batch, shape, NULL), ET_OK);
}

static inline void next_batch(et_pair_source *source, et_pair_batch *batch)
{
    et_error error = ET_ERROR_INIT;
    if (et_pair_source_next(source, batch, &error))
        fail_msg("%s", error.text);
}

static inline void assert_same_batch(const et_pair_batch *left, const et_pair_batch *right,
                                     const et_pair_shape *shape)
{
    size_t source = (size_t)shape->source_budget * 4, target = (size_t)shape->target_budget * 4;
    size_t segments = (size_t)shape->max_segments * 4;
    assert_int_equal(left->segments, right->segments);
    assert_int_equal(left->epoch, right->epoch);
    assert_int_equal(left->source_tokens, right->source_tokens);
    assert_int_equal(left->target_tokens, right->target_tokens);
    assert_memory_equal(left->source_ids, right->source_ids, source);
    assert_memory_equal(left->source_positions, right->source_positions, source);
    assert_memory_equal(left->target_ids, right->target_ids, target);
    assert_memory_equal(left->target_positions, right->target_positions, target);
    assert_memory_equal(left->target_labels, right->target_labels, target);
    assert_memory_equal(left->source_offsets, right->source_offsets, segments + 4);
    assert_memory_equal(left->target_offsets, right->target_offsets, segments + 4);
    assert_memory_equal(left->pair, right->pair, segments);
}

/* A number that changes with anything in a batch. */
static inline uint64_t batch_digest(const et_pair_batch *batch, const et_pair_shape *shape)
{
    uint64_t hash = (uint64_t)batch->segments * 31 + (uint64_t)batch->epoch;
    for (int64_t i = 0; i < shape->source_budget; i++)
        hash = (hash ^ (uint32_t)batch->source_ids[i]) * 1099511628211u;
    for (int64_t i = 0; i < shape->target_budget; i++)
        hash = (hash ^ (uint32_t)batch->target_labels[i]) * 1099511628211u;
    for (int i = 0; i < batch->segments; i++)
        hash = (hash ^ batch->pair[i]) * 1099511628211u;
    return hash;
}

#endif
