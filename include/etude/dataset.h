/* Data sets: named sources of a table's rows, and the schema, metadata and features that say what
 * they are. TensorFX's DataSet and DataSource families. A source is read as batches of encoded
 * rows (<etude/data.h>); instances for predicting are parsed by the same encoder.
 *
 *     const et_data_set_path paths[] = { { "train", "train.csv" }, { "eval", "eval-*.csv" } };
 *     et_data_set_options options = { .schema_path = "schema.yaml",
 *                                    .metadata_path = "metadata.json",
 *                                    .features_path = "features.yaml" };
 *     et_read_options read = { .shuffle = true };
 *     if (et_csv_data_set_open(&data, paths, 2, NULL, &options, &error) ||
 *         et_data_source_read(&source, et_data_set_source(data, "train"), &read, &error)) ...
 *
 *     const et_data_set_path records[] = { { "train", "train-*.tfrecord" } };
 *     if (et_examples_data_set_open(&data, records, 1, &options, &error)) ...
 *
 * Without features each field is a feature of its own name: numbers as they are, texts as ids of
 * their entries, and texts without entries as keys; of fields of variable length those alone that
 * have entries, which are counted (one-hot). Batches are float32, numbers of targets too, and a
 * float_list of a record is float32 in the file: subtract an offset from targets such as 1e12 +-
 * 3,000, or use `etude train`, which does. What is read from a data set is independent of
 * it once it is open. A data set does not change; any number of threads may read it. */
#ifndef ETUDE_DATASET_H
#define ETUDE_DATASET_H

#include <etude/data.h>
#include <etude/example.h>
#include <etude/feature_set.h>

typedef struct et_data_set et_data_set;
typedef struct et_data_source et_data_source;

/* ---- sources ---- */

/* How CSV is written. */
typedef struct et_csv_format {
    char delimiter;             /* 0: the one that the first rows are made of */
    char comment;               /* lines that begin with it are left out; 0: none */
    bool no_header;             /* the first row is data, whatever it holds; */
    bool header;                /* it is names; neither: as it looks */
    const char *const *missing; /* texts that mean "no value", ended by NULL; NULL: "", "?", "NA",
                                   "N/A", "NaN", "nan", "null". Copied */
} et_csv_format;

/* A table in memory: TensorFX's DataFrames. */
typedef enum et_column_type {
    ET_COLUMN_CATEGORY, /* const char *: a discrete field; NULL: missing */
    ET_COLUMN_INT32,    /* int32_t, int64_t: an integer one */
    ET_COLUMN_INT64,
    ET_COLUMN_FLOAT32, /* float, double: a real one; NaN: missing */
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

/* Each of the three is an object, which is copied as far as it is needed, or a file. */
typedef struct et_data_set_options {
    const et_schema
        *schema; /* of frames it may be missing: it is made from the first one's types */
    const char *schema_path;
    const et_metadata *metadata; /* of frames the same; else missing: nothing is known */
    const char *metadata_path;
    const et_feature_set *features;
    const char *features_path;
} et_data_set_options;

typedef struct et_data_set_path {
    const char *name;
    const char *path;
} et_data_set_path;

typedef struct et_data_set_frame {
    const char *name;
    et_frame frame;
} et_data_set_frame;

/* CSV files: a path, a pattern with * or ?, or several with commas between; plain or gzip.
 * format NULL: as the file looks. ET_ECONFIG: no source, a name twice, one of the three given twice
 * or not at all, and all that they disagree about. */
ET_API int et_csv_data_set_open(et_data_set **out, const et_data_set_path *paths, int count,
                                const et_csv_format *format, const et_data_set_options *options,
                                et_error *error);
/* Record files of tf.Examples, plain or GZIP, which their bytes say. */
ET_API int et_examples_data_set_open(et_data_set **out, const et_data_set_path *paths, int count,
                                     const et_data_set_options *options, et_error *error);
/* What the frames point to is borrowed until the data set is closed. */
ET_API int et_frame_data_set_open(et_data_set **out, const et_data_set_frame *frames, int count,
                                  const et_data_set_options *options, et_error *error);
ET_API void et_data_set_close(et_data_set *dataset); /* NULL allowed */

/* ---- reading ---- */

typedef struct et_read_options {
    int64_t batch;          /* rows; 0: 128. The last one of a pass may have fewer */
    bool shuffle;           /* all rows anew in each pass, of all files together */
    int64_t shuffle_buffer; /* taken and not used: there is no buffer to be too small */
    int64_t epochs;         /* passes; 0: without end */
    int threads;            /* from 2 on, batches are made ahead by a thread; 0: 1 */
    uint64_t seed;          /* of the shuffle */
    bool keep_unlabelled;   /* rows without a target, as -1 and NaN; else they are left out */
    const char *cache;      /* a folder for rows that do not fit into memory; NULL: they have to */
    uint64_t memory;        /* bytes of rows that do; 0: half of what the machine has */
} et_read_options;

/* Batches of a source that is in a data set. options may be NULL. ET_EDATA: a row is wrong, which
 * is named. */
ET_API int et_data_source_read(et_source **out, const et_data_source *source,
                               const et_read_options *options, et_error *error);

/* Instances as samples, in their order: rows of CSV (also for frames), or serialized tf.Examples,
 * as the first source has. prediction: what only targets are made of may be absent; they are -1 and
 * NaN then. Without a header, which the first instance may be, rows without the targets have all
 * other columns in the schema's order; where the features have no target, one column too few is
 * the first, as TensorFX has it. ET_EDATA names the instance, from 1. */
ET_API int et_data_set_parse_instances(et_samples **out, const et_data_set *dataset,
                                       const et_bytes *instances, size_t count, bool prediction,
                                       et_error *error);

/* ---- what is in it ---- */

/* By name. Borrowed; NULL: no such source. */
ET_API et_data_source *et_data_set_source(const et_data_set *dataset, const char *name);
/* Borrowed. Features: those that were made where none were given. */
ET_API const et_schema *et_data_set_schema(const et_data_set *dataset);
ET_API const et_metadata *et_data_set_metadata(const et_data_set *dataset);
ET_API const et_feature_set *et_data_set_features(const et_data_set *dataset);

#endif
