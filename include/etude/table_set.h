/* Data sets: named sources of a table's rows (table_columns.h), with the schema, metadata and
 * features that describe them (TensorFX's DataSet). Reading a source gives batches of encoded rows
 * (<etude/data.h>). The same encoder parses instances for prediction.
 *
 *     const et_table_set_path paths[] = { { "train", "train.csv" }, { "eval", "eval-*.csv" } };
 *     et_table_set_options options = { .schema_path = "schema.yaml",
 *                                    .metadata_path = "metadata.json",
 *                                    .features_path = "features.yaml" };
 *     et_read_options read = { .shuffle = true };
 *     if (et_csv_table_set_open(&data, paths, 2, NULL, &options, &error) ||
 *         et_table_columns_read(&source, et_table_set_columns(data, "train"), &read, &error)) ...
 *
 *     const et_table_set_path records[] = { { "train", "train-*.tfrecord" } };
 *     if (et_examples_table_set_open(&data, records, 1, &options, &error)) ...
 *     for (int i = 0; i < et_table_set_count(data); i++)
 *         puts(et_table_columns_name(et_table_set_at(data, i)));
 *
 * Without features, each field is a feature of the same name. Numbers stay as they are. Texts
 * become ids of their entries, or keys if they have no entries. Fields of variable length are used
 * only if they have entries, and become counts (one-hot). Batches are float32, also for targets
 * that are numbers, and a float_list of a record is float32 in the file. So subtract an offset from
 * targets such as 1e12 +- 3,000, or use `etude train`, which does. An open source or samples do not
 * depend on the data set any more. A data set does not change; any number of threads may read
 * it. */
#ifndef ETUDE_TABLE_SET_H
#define ETUDE_TABLE_SET_H

#include <etude/example.h>
#include <etude/feature_set.h>
#include <etude/table_columns.h>

typedef struct et_table_set et_table_set;

/* ---- data sets ---- */

/* Schema, metadata and features. Give each as an object (the data set copies what it needs) or as a
 * path. */
typedef struct et_table_set_options {
    const et_schema
        *schema; /* frames may leave it out: made from the column types of the first frame */
    const char *schema_path;
    const et_metadata *metadata; /* may be left out: frames compute it from the first frame, files
                                    have none then */
    const char *metadata_path;
    const et_feature_set *features;
    const char *features_path;
} et_table_set_options;

typedef struct et_table_set_member {
    const char *name; /* "train", "eval"; copied */
    et_table_columns *source;
} et_table_set_member;

/* Opens a data set of sources of any kinds, or of no source. The data set owns the sources on
 * success. ET_ECONFIG: a name twice, a source of another data set, schema, metadata or features
 * given twice, no schema, or contradictions between these three. */
ET_API int et_table_set_open(et_table_set **out, const et_table_set_member *members, int count,
                             const et_table_set_options *options, et_error *error);
ET_API void et_table_set_close(et_table_set *dataset); /* NULL allowed */

/* ---- data sets of one kind of sources ---- */

typedef struct et_table_set_path {
    const char *name;
    const char *path;
} et_table_set_path;

typedef struct et_table_set_frame {
    const char *name;
    et_frame frame;
} et_table_set_frame;

/* At least one source, opened as in table_columns.h; errors as above. */
ET_API int et_csv_table_set_open(et_table_set **out, const et_table_set_path *paths, int count,
                                 const et_csv_format *format, const et_table_set_options *options,
                                 et_error *error);
ET_API int et_examples_table_set_open(et_table_set **out, const et_table_set_path *paths, int count,
                                      const et_table_set_options *options, et_error *error);
ET_API int et_frame_table_set_open(et_table_set **out, const et_table_set_frame *frames, int count,
                                   const et_table_set_options *options, et_error *error);

/* ---- instances ---- */

/* Instances as samples, in their order: rows of CSV (also for frames and without a source), or
 * serialized tf.Examples, as in the first source. prediction: fields that only targets use may be
 * missing; such targets are -1 or NaN. The first instance may be a header. Without a header, a row
 * without targets has all other columns in the schema's order. If no feature is a target and a row
 * has one column too few, its first column is missing, as in TensorFX. ET_EDATA: the error names
 * the instance, from 1. */
ET_API int et_table_set_parse_instances(et_samples **out, const et_table_set *dataset,
                                        const et_bytes *instances, size_t count, bool prediction,
                                        et_error *error);

/* ---- contents ---- */

ET_API int et_table_set_count(const et_table_set *dataset); /* of sources */
/* By position, from 0, and by name. Borrowed; NULL: no such source. */
ET_API et_table_columns *et_table_set_at(const et_table_set *dataset, int position);
ET_API et_table_columns *et_table_set_columns(const et_table_set *dataset, const char *name);
/* Borrowed. If no features were given, the data set has made them. */
ET_API const et_schema *et_table_set_schema(const et_table_set *dataset);
ET_API const et_metadata *et_table_set_metadata(const et_table_set *dataset);
ET_API const et_feature_set *et_table_set_features(const et_table_set *dataset);

#endif
