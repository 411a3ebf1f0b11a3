/* Data sources: named rows of a data set (TensorFX's DataSource), from CSV files, record files of
 * tf.Examples, arrays of a program (frames) or a class of a program. Opening a source opens no
 * file; each read does. A data set (table_set.h) says how the rows of its sources are encoded.
 *
 *     static int read_lines(et_own_columns *self, et_instances *to, et_error *error)
 *     {
 *         return et_instances_add(to, "5.1,setosa", 10, error);
 *     }
 *     static const et_own_columns_class lines_class = { .name = "lines",
 *                                                       .read_instances = read_lines };
 *
 *     et_own_columns lines = { .class = &lines_class };
 *     et_table_columns *train, *eval, *frame, *records;
 *     if (et_own_columns_open(&train, &lines, &error) ||
 *         et_csv_columns_open(&eval, "eval-*.csv", NULL, &error) ||
 *         et_frame_columns_open(&frame, &(et_frame){ columns, 2, rows }, &error) ||
 *         et_examples_columns_open(&records, "train-*.tfrecord", &error)) ...
 *     const et_table_set_member members[] = { { "train", train }, { "eval", eval } };
 *     if (et_table_set_open(&data, members, 2, &options, &error) ||
 *         et_table_columns_read(&batches, train, &(et_read_options){ .epochs = 1 }, &error)) ...
 *     et_table_columns_close(frame);               of a source that is in no data set
 *
 * A source does not change; any number of threads may read it. */
#ifndef ETUDE_TABLE_COLUMNS_H
#define ETUDE_TABLE_COLUMNS_H

#include <etude/data.h>

typedef struct et_table_columns et_table_columns;

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

/* A source of a program's own class. The first field of the program's struct is its class. */
typedef struct et_own_columns et_own_columns;
typedef struct et_instances et_instances; /* the rows of one read */

typedef struct et_own_columns_class {
    const char *name;
    bool examples; /* instances are serialized tf.Examples; otherwise rows of CSV, with a header or
                      without, as et_table_set_parse_instances reads them */
    /* Adds all rows of one pass, in order, by et_instances_add. Called for each read; shuffling and
     * repeating are done afterwards. NULL: the source cannot be read. */
    int (*read_instances)(et_own_columns *self, et_instances *to, et_error *error);
    void (*close)(et_own_columns *self); /* with the source; NULL: nothing */
} et_own_columns_class;

struct et_own_columns {
    const et_own_columns_class *ET_CLASS;
};

/* Copies an instance. */
ET_API int et_instances_add(et_instances *to, const void *data, size_t length, et_error *error);

/* ---- opening ---- */

/* CSV files, plain or gzip: a path, a pattern with * or ?, or several of them with commas between.
 * format NULL: found from the file. ET_ECONFIG: no path, or header and no_header. */
ET_API int et_csv_columns_open(et_table_columns **out, const char *paths,
                               const et_csv_format *format, et_error *error);
/* Record files of tf.Examples, plain or GZIP; found from their bytes. */
ET_API int et_examples_columns_open(et_table_columns **out, const char *paths, et_error *error);
/* Borrows the arrays of the frame until the source is closed. */
ET_API int et_frame_columns_open(et_table_columns **out, const et_frame *frame, et_error *error);
/* Borrows own until the source is closed, which calls its close. */
ET_API int et_own_columns_open(et_table_columns **out, et_own_columns *own, et_error *error);
/* NULL allowed. The data set of a source closes it. */
ET_API void et_table_columns_close(et_table_columns *source);

ET_API const char *et_table_columns_name(const et_table_columns *source); /* in its data set; NULL:
                                                                             it is in none */

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
    const char *cache;      /* of files: folder for rows that do not fit into memory; NULL: all rows
                               must fit, as those of other sources */
    uint64_t memory;        /* of files: most bytes of rows in memory; 0: half of the machine's
                               memory */
} et_read_options;

/* Opens batches of a source of a data set, and its files. options may be NULL. ET_ENOTFOUND: there
 * is no such file. ET_EDATA: a row is wrong; the error names the row. */
ET_API int et_table_columns_read(et_source **out, const et_table_columns *source,
                                 const et_read_options *options, et_error *error);

#endif
