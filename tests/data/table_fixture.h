/* What tests of tables share: schema, metadata and features from texts, and the encoder of them.
 * Include after calls.h. */
#ifndef ETUDE_TESTS_DATA_TABLE_FIXTURE_H
#define ETUDE_TESTS_DATA_TABLE_FIXTURE_H

#include <string.h>

#include "data/table/features/encoder.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct three {
    et_schema *schema;
    et_metadata *metadata;
    et_feature_set *features;
} three;

static inline void three_free(three *t)
{
    et_schema_free(t->schema);
    et_metadata_free(t->metadata);
    et_feature_set_free(t->features);
    *t = (three){ NULL, NULL, NULL };
}

static inline int three_parse(three *t, const char *schema, const char *metadata,
                              const char *features, et_error *error)
{
    *t = (three){ NULL, NULL, NULL };
    int status = et_schema_parse(&t->schema, schema, strlen(schema), "schema.yaml", error);
    if (!status)
        status =
            et_metadata_parse(&t->metadata, metadata, strlen(metadata), "metadata.json", error);
    if (!status)
        status =
            et_feature_set_parse(&t->features, features, strlen(features), "features.yaml", error);
    if (status)
        three_free(t);
    return status;
}

static inline int encoder_parse(et_encoder **out, const char *schema, const char *metadata,
                                const char *features, et_error *error)
{
    three t;
    int status = three_parse(&t, schema, metadata, features, error);
    if (!status)
        status = et_encoder_new(out, t.schema, t.metadata, t.features, error);
    three_free(&t);
    return status;
}

static inline et_cell cell_of(const char *text)
{
    return (et_cell){ text, text ? strlen(text) : 0 };
}

#endif
