/* tf.Example: named lists of bytes, integers or floats, as one protobuf message. A builder collects
 * features and gives the message's bytes. Parsing gives the features back. For files of records see
 * records.h.
 *
 *     et_example_builder *b;
 *     if (et_example_builder_new(&b, NULL, &error)) ...
 *     et_example_add_text(et_example_add_ints(b, "unique_id", &id, 1), "src_lang", "a house");
 *     if (et_example_serialized(b, &bytes, &length, &error)) ...
 *     et_example_builder_free(b);
 *
 * The functions that add return their builder, so you can nest the calls. If one of them fails (no
 * memory, a key that is not UTF-8), the builder keeps the error and et_example_serialized returns
 * it. Equal features give equal bytes, whatever the order of adding (Model Garden's builder leaves
 * the order to protobuf). Values are copied. Use from one thread at a time. */
#ifndef ETUDE_EXAMPLE_H
#define ETUDE_EXAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef enum et_feature_kind {
    ET_FEATURE_NONE, /* a key without a list */
    ET_FEATURE_BYTES,
    ET_FEATURE_FLOATS,
    ET_FEATURE_INTS,
} et_feature_kind;

typedef struct et_bytes {
    const void *data; /* NULL allowed if length is 0 */
    size_t length;
} et_bytes;

typedef struct et_feature {
    const char *key;
    et_feature_kind kind;
    size_t count; /* number of values, in the member for kind */
    const et_bytes *bytes;
    const float *floats;
    const int64_t *ints;
} et_feature;

/* ---- reading ---- */

typedef struct et_example {
    const et_feature *features; /* [count], sorted by key; if a message has a key twice, the last
                                   feature */
    size_t count;
} et_example;

/* Copies from bytes. Lists may be packed or not. ET_EFORMAT: not a tf.Example, or parsing needs
 * memory of more than 64 times length. */
ET_API int et_example_parse(et_example **out, const void *bytes, size_t length, et_error *error);
ET_API void et_example_free(et_example *example); /* NULL allowed */

/* NULL: no feature has this key. Borrowed from the example. */
ET_API const et_feature *et_example_find(const et_example *example, const char *key);

/* ---- building ---- */

typedef struct et_example_builder et_example_builder;

/* prefix: keys begin with "prefix/", as in Model Garden's builder; NULL or "": no prefix. */
ET_API int et_example_builder_new(et_example_builder **out, const char *prefix, et_error *error);
ET_API void et_example_builder_free(et_example_builder *builder); /* NULL allowed */

/* A feature replaces an earlier feature with the same key. A count of 0 gives an empty list. */
ET_API et_example_builder *et_example_add_feature(et_example_builder *builder,
                                                  const et_feature *feature);
ET_API et_example_builder *et_example_add_features(et_example_builder *builder,
                                                   const et_feature *features, size_t count);
ET_API et_example_builder *et_example_add_bytes(et_example_builder *builder, const char *key,
                                                const et_bytes *values, size_t count);
ET_API et_example_builder *et_example_add_text(et_example_builder *builder, const char *key,
                                               const char *text); /* a list of one */
ET_API et_example_builder *et_example_add_ints(et_example_builder *builder, const char *key,
                                               const int64_t *values, size_t count);
ET_API et_example_builder *et_example_add_floats(et_example_builder *builder, const char *key,
                                                 const float *values, size_t count);

/* set: replaces the features with those of example, without adding the prefix. reset: removes all
 * features. Both also clear the kept error. */
ET_API et_example_builder *et_example_set(et_example_builder *builder, const et_example *example);
ET_API et_example_builder *et_example_reset(et_example_builder *builder);

/* The current features. Borrowed until the builder's next call. */
ET_API const et_example *et_example_built(const et_example_builder *builder);

/* The bytes of the message, valid until the builder's next call. Returns the first error since new,
 * set or reset. */
ET_API int et_example_serialized(et_example_builder *builder, const void **bytes, size_t *length,
                                 et_error *error);

#endif
