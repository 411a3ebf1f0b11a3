/* The texts that describe a table: schema, metadata, features. They have these names in a run, in
 * an export, in a job's output, and in the output of the command `data`.
 *
 *     et_table_files table = { .schema = NULL };
 *     if (et_table_file_parse(&table, ET_TABLE_FILE_SCHEMA, text, length, path, &error) ||
 *         et_table_file_save(&table, ET_TABLE_FILE_SCHEMA, ET_TABLE_SCHEMA, &error)) ...
 *     et_table_files_release(&table);
 */
#ifndef ETUDE_TASKS_TABULAR_TABLE_FILES_H
#define ETUDE_TASKS_TABULAR_TABLE_FILES_H

#include <etude/feature_set.h>
#include <etude/metadata.h>
#include <etude/schema.h>

#define ET_TABLE_SCHEMA   "schema.yaml"
#define ET_TABLE_METADATA "metadata.json"
#define ET_TABLE_FEATURES "features.yaml"

/* Most bytes of a file. */
#define ET_TABLE_BYTES_MAX ((size_t)1 << 30)

/* In the order of reading: features are of a schema. */
enum {
    ET_TABLE_FILE_SCHEMA,
    ET_TABLE_FILE_METADATA,
    ET_TABLE_FILE_FEATURES,
    ET_TABLE_FILES,
};

/* Texts of an export in addition to its weights: those of the table, then params.yaml of a run, or
 * builder.yaml of a job. */
enum { ET_TABLE_FILE_MODEL = ET_TABLE_FILES, ET_TABLE_MODEL_FILES };

/* Indexed by the numbers of the table's texts. */
extern const char *const et_table_file_names[ET_TABLE_FILES];

typedef struct et_table_files {
    et_schema *schema; /* NULL: missing, as the next */
    et_metadata *metadata;
    et_feature_set *features;
} et_table_files;

/* An existing text stays. path is for messages. */
int et_table_file_parse(et_table_files *table, int which, const char *text, size_t length,
                        const char *path, et_error *error);
int et_table_file_save(const et_table_files *table, int which, const char *path, et_error *error);

/* Frees all texts; the table is empty afterwards. */
void et_table_files_release(et_table_files *table);

#endif
