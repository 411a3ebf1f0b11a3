/* Data sets: named sources of a table's rows, with the schema, metadata and features that describe
 * them (TensorFX's DataSet and DataSource). Reading a source gives batches of encoded rows
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

#include <etude/data.h>
#include <etude/example.h>
#include <etude/feature_set.h>

typedef struct et_table_set et_table_set;
typedef struct et_table_columns et_table_columns;

/* ---- sources ---- */

/* The format of CSV files. */
typedef struct et_csv_format {
    char delimiter;             /* 0: found from the first rows */
    char comment;               /* lines that begin with it are skipped; 0: none */
    bool no_header;             /* the first row is always data */
    bool header;                /* the first row has the names. Neither: decided by its content */
    const char *const *missing; /* texts that mean "no value", ended by NULL; NULL: "", "?", "NA",
                                   "N/A", "NaN", "nan", "null". Copied */
} et_csv_format;

/* A table in memory: TensorFX's DataFrames. */
typedef enum et_column_type {
    ET_COLUMN_CATEGORY, /* const char *: a discrete field; NULL: missing */
    ET_COLUMN_INT32,    /* int32_t, int64_t: an integer field */
    ET_COLUMN_INT64,
    ET_COLUMN_FLOAT32, /* float, double: a numeric field; NaN: missing */
    ET_COLUMN_FLOAT64,
} et_column_type;

typedef struct et_frame_column {
    const char *name;
    et_column_type type;
    const void *data; /* [rows] */
} et_frame_column;

typedef struct et_frame {
    const et_frame_column *columns; /* [column_count] */
    int column_count;
    int64_t rows;
} et_frame;

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

typedef struct et_table_set_path {
    const char *name;
    const char *path;
} et_table_set_path;

typedef struct et_table_set_frame {
    const char *name;
    et_frame frame;
} et_table_set_frame;

/* CSV files, plain or gzip: a path, a pattern with * or ?, or several of them with commas between.
 * format NULL: found from the file. ET_ECONFIG: no source, a name twice, one of the three given
 * twice, no schema, or a contradiction between the three. */
ET_API int et_csv_table_set_open(et_table_set **out, const et_table_set_path *paths, int count,
                                 const et_csv_format *format, const et_table_set_options *options,
                                 et_error *error);
/* Record files of tf.Examples, plain or GZIP; found from their bytes. */
ET_API int et_examples_table_set_open(et_table_set **out, const et_table_set_path *paths, int count,
                                      const et_table_set_options *options, et_error *error);
/* Borrows the arrays of the frames until the data set is closed. */
ET_API int et_frame_table_set_open(et_table_set **out, const et_table_set_frame *frames, int count,
                                   const et_table_set_options *options, et_error *error);
ET_API void et_table_set_close(et_table_set *dataset); /* NULL allowed */

/* ---- reading ---- */

typedef struct et_read_options {
    int64_t batch;          /* rows; 0: 128. The last batch of a pass may have fewer */
    bool shuffle;           /* shuffle all rows of all files together, anew in each pass */
    int64_t shuffle_buffer; /* ignored: shuffling needs no buffer */
    int64_t epochs;         /* passes; 0: no end */
    int threads;            /* with 2 or more, a thread makes batches ahead; 0: 1 */
    uint64_t seed;          /* seed of the shuffle */
    bool keep_unlabelled;   /* keep rows without a target, with target -1 or NaN; otherwise they are
                               skipped */
    const char *cache;      /* folder for rows that do not fit into memory; NULL: all rows must
                               fit */
    uint64_t memory;        /* most bytes of rows in memory; 0: half of the machine's memory */
} et_read_options;

/* Opens batches of a source of a data set. options may be NULL. ET_EDATA: a row is wrong; the error
 * names the row. */
ET_API int et_table_columns_read(et_source **out, const et_table_columns *source,
                                 const et_read_options *options, et_error *error);

/* Instances as samples, in their order: rows of CSV (also for frames), or serialized tf.Examples,
 * as in the first source. prediction: fields that only targets use may be missing; such targets are
 * -1 or NaN. The first instance may be a header. Without a header, a row without targets has all
 * other columns in the schema's order. If no feature is a target and a row has one column too few,
 * its first column is missing, as in TensorFX. ET_EDATA: the error names the instance, from 1. */
ET_API int et_table_set_parse_instances(et_samples **out, const et_table_set *dataset,
                                        const et_bytes *instances, size_t count, bool prediction,
                                        et_error *error);

/* ---- contents ---- */

/* By name. Borrowed; NULL: no such source. */
ET_API et_table_columns *et_table_set_columns(const et_table_set *dataset, const char *name);
/* Borrowed. Features: if none were given, the ones that the data set made. */
ET_API const et_schema *et_table_set_schema(const et_table_set *dataset);
ET_API const et_metadata *et_table_set_metadata(const et_table_set *dataset);
ET_API const et_feature_set *et_table_set_features(const et_table_set *dataset);

#endif
