#include "tasks/tabular/table_files.h"

#include "base/assert.h"

const char *const et_table_file_names[ET_TABLE_FILES] = {
    [ET_TABLE_FILE_SCHEMA] = ET_TABLE_SCHEMA,
    [ET_TABLE_FILE_METADATA] = ET_TABLE_METADATA,
    [ET_TABLE_FILE_FEATURES] = ET_TABLE_FEATURES,
};

int et_table_file_parse(et_table_files *table, int which, const char *text, size_t length,
                        const char *path, et_error *error)
{
    et_assert(which >= 0 && which < ET_TABLE_FILES);
    if (which == ET_TABLE_FILE_SCHEMA && !table->schema)
        return et_schema_parse(&table->schema, text, length, path, error);
    if (which == ET_TABLE_FILE_METADATA && !table->metadata)
        return et_metadata_parse(&table->metadata, text, length, path, error);
    if (which == ET_TABLE_FILE_FEATURES && !table->features)
        return et_feature_set_parse(&table->features, text, length, path, error);
    return ET_OK;
}

int et_table_file_save(const et_table_files *table, int which, const char *path, et_error *error)
{
    et_assert(which >= 0 && which < ET_TABLE_FILES);
    return which == ET_TABLE_FILE_SCHEMA     ? et_schema_save(table->schema, path, error)
           : which == ET_TABLE_FILE_METADATA ? et_metadata_save(table->metadata, path, error)
                                             : et_feature_set_save(table->features, path, error);
}

void et_table_files_release(et_table_files *table)
{
    et_schema_free(table->schema);
    et_metadata_free(table->metadata);
    et_feature_set_free(table->features);
    *table = (et_table_files){ .schema = NULL };
}
