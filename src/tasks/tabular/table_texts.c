#include "tasks/tabular/table_texts.h"

#include "base/assert.h"

const char *const et_table_text_names[ET_TABLE_TEXTS] = {
    [ET_TABLE_TEXT_SCHEMA] = ET_TABLE_SCHEMA,
    [ET_TABLE_TEXT_METADATA] = ET_TABLE_METADATA,
    [ET_TABLE_TEXT_FEATURES] = ET_TABLE_FEATURES,
};

int et_table_text_parse(et_table_texts *table, int which, const char *text, size_t length,
                        const char *path, et_error *error)
{
    et_assert(which >= 0 && which < ET_TABLE_TEXTS);
    if (which == ET_TABLE_TEXT_SCHEMA && !table->schema)
        return et_schema_parse(&table->schema, text, length, path, error);
    if (which == ET_TABLE_TEXT_METADATA && !table->metadata)
        return et_metadata_parse(&table->metadata, text, length, path, error);
    if (which == ET_TABLE_TEXT_FEATURES && !table->features)
        return et_feature_set_parse(&table->features, text, length, path, error);
    return ET_OK;
}

int et_table_text_save(const et_table_texts *table, int which, const char *path, et_error *error)
{
    et_assert(which >= 0 && which < ET_TABLE_TEXTS);
    return which == ET_TABLE_TEXT_SCHEMA     ? et_schema_save(table->schema, path, error)
           : which == ET_TABLE_TEXT_METADATA ? et_metadata_save(table->metadata, path, error)
                                             : et_feature_set_save(table->features, path, error);
}

void et_table_texts_release(et_table_texts *table)
{
    et_schema_free(table->schema);
    et_metadata_free(table->metadata);
    et_feature_set_free(table->features);
    *table = (et_table_texts){ .schema = NULL };
}
