/* Encoded pairs made by hand, and shared code of the tests of batches. */
#ifndef ETUDE_TESTS_DATA_PAIRS_FIXTURE_H
#define ETUDE_TESTS_DATA_PAIRS_FIXTURE_H

#include "data/batches/source.h"
#include "data/fixture.h"
#include "data/text/pairs.h"

/* Makes pairs whose lengths are spread like those of captions: 5 to 40 tokens, 14 on average, the
 * same for both sides. Token k of side s of pair i is a function of these three numbers. */
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
    uint16_t *tokens = malloc(offsets[2 * pairs] * sizeof *tokens);
    for (uint64_t i = 0; i < offsets[2 * pairs]; i++)
        tokens[i] = (uint16_t)(3 + i * 2654435761u % 60000);
    et_encoded encoded = { .pairs = pairs,
                           .offsets = offsets,
                           .tokens = tokens,
                           .width = 2,
                           .start = 0,
                           .eos = { 1, 1 },
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
    free((void *)(uintptr_t)encoded->tokens);
}

typedef struct pair_shape {
    int64_t source_budget, target_budget, max_segments;
} pair_shape;

#define ENDLESS                                                                                    \
    {                                                                                              \
        .shuffle = true, .bucket = true, .repeat = true                                            \
    }
#define ONE_PASS                                                                                   \
    {                                                                                              \
        .bucket = true                                                                             \
    }

static inline int try_source(et_source **source, const et_encoded *encoded, const pair_shape *shape,
                             const et_batches_options *options, et_error *error)
{
    et_batches_options o = *options;
    o.capacity[ET_PAIR_SEGMENTS] = shape->max_segments;
    o.capacity[ET_PAIR_SOURCE] = shape->source_budget;
    o.capacity[ET_PAIR_TARGET] = shape->target_budget;
    return et_pair_batches_open(source, encoded, &o, error);
}

static inline et_source *open_source(const et_encoded *encoded, const pair_shape *shape,
                                     const et_batches_options *options)
{
    et_source *source = NULL;
    et_error error = ET_ERROR_INIT;
    if (try_source(&source, encoded, shape, options, &error))
        fail_msg("%s", error.text);
    return source;
}

static inline et_layout pair_layout(const pair_shape *shape)
{
    return (
        et_layout){ .kinds = ET_PAIR_KINDS,
                    .fields = ET_PAIR_FIELDS,
                    .capacity = { shape->max_segments, shape->source_budget, shape->target_budget },
                    .field = et_pair_fields };
}

/* Of a layout that lives as long as the program. */
static inline void open_batch(et_batch **batch, const pair_shape *shape)
{
    static et_layout layouts[64];
    static int used;
    et_layout *layout = &layouts[used++ % 64];
    *layout = pair_layout(shape);
    assert_int_equal(et_batch_new(batch, layout, NULL), ET_OK);
}

static inline void next_batch(et_source *source, et_batch *batch)
{
    et_error error = ET_ERROR_INIT;
    if (et_source_next(source, batch, &error))
        fail_msg("%s", error.text);
}

static inline int32_t *ints(const et_batch *batch, int field)
{
    return batch->data[field];
}

static inline void assert_same_batch(const et_batch *left, const et_batch *right)
{
    assert_memory_equal(left->filled, right->filled, sizeof left->filled);
    assert_int_equal(left->epoch, right->epoch);
    for (int i = 0; i < left->layout->fields; i++) {
        size_t bytes = (size_t)et_shape_count(et_layout_shape(left->layout, i)) *
                       et_dtype_size(left->layout->field[i].dtype);
        assert_memory_equal(left->data[i], right->data[i], bytes);
    }
    assert_memory_equal(left->sample, right->sample, (size_t)left->filled[0] * 4);
}

static inline int64_t position_at(const et_position *position, const char *name)
{
    int64_t value;
    assert_int_equal(et_position_get(position, name, &value, NULL), ET_OK);
    return value;
}

static inline void assert_same_position(const et_position *left, const et_position *right)
{
    assert_int_equal(left->count, right->count);
    for (int i = 0; i < left->count; i++) {
        assert_string_equal(left->name[i], right->name[i]);
        assert_int_equal(left->value[i], right->value[i]);
    }
}

/* A number that changes with anything in a batch. */
static inline uint64_t batch_digest(const et_batch *batch)
{
    uint64_t hash = (uint64_t)batch->filled[0] * 31 + (uint64_t)batch->epoch;
    for (int64_t i = 0; i < batch->layout->capacity[ET_PAIR_SOURCE]; i++)
        hash = (hash ^ (uint32_t)ints(batch, ET_PAIR_SOURCE_IDS)[i]) * 1099511628211u;
    for (int64_t i = 0; i < batch->layout->capacity[ET_PAIR_TARGET]; i++)
        hash = (hash ^ (uint32_t)ints(batch, ET_PAIR_TARGET_LABELS)[i]) * 1099511628211u;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        hash = (hash ^ batch->sample[i]) * 1099511628211u;
    return hash;
}

#endif
