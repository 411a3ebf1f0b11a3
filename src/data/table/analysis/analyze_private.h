/* The analysis, for its own files: columns (analyze_head.c), statistics (analyze.c), results
 * (analyze_report.c, analyze_suspect.c, analyze_column.c), and notations (analyze_formats.c). */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_ANALYZE_PRIVATE_H
#define ETUDE_DATA_TABLE_ANALYSIS_ANALYZE_PRIVATE_H

#include "data/table/analysis/analyze.h"
#include "data/table/analysis/column_stats.h"
#include "data/table/analysis/column_use.h"
#include "data/table/rows/same_header.h"

/* The columns of a table's files. */
typedef struct et_table_head {
    bool jsonl; /* of JSON lines: columns are fields, and the members after name and numeric are not
                   used */
    char delimiter;      /* 0: of JSON lines */
    bool header;         /* the first row of the first file is one */
    int columns;         /* of a row */
    const char **name;   /* [columns], in the arena */
    bool *numeric;       /* [columns], of JSON lines: texts such as "NA" are missing values */
    int fields;          /* number of analyzed columns, or of the fields of a schema */
    const int **column;  /* [fields]: which columns are a field's */
    int *column_count;   /* [fields] */
    et_same_header same; /* the header, or the names that the schema gives for none; count 0:
                            columns have no names */
} et_table_head;

/* Largest fraction of a numeric column's values that are not numbers. */
#define ET_TEXT_SHARE 0.1

/* Opens a file to look at its first rows, and to read them again (et_csv_again). known: for a file
 * after the first one, what the head of the first file says, until its first row is read; else
 * NULL. */
int et_table_head_open(et_csv **csv, const et_csv_known *known, const char *path,
                       const et_analyze_options *options, et_error *error);
et_csv_known et_table_head_known(const et_table_head *head);
/* Finds the head in the first file. Memory is in arena, except the parts that release frees. */
int et_table_head_find(et_table_head *head, et_csv *csv, const char *path,
                       const et_analyze_options *options, et_arena *arena, et_error *error);
/* Another file: position [head->columns] has the positions of the first file's columns in its rows;
 * *header: its first row has their names. paths: all files. ET_EDATA: its columns differ. */
int et_table_head_match(const et_table_head *head, int *position, bool *header, et_csv *csv,
                        const char *path, const et_analyze_options *options,
                        const et_strings *paths, et_error *error);
void et_table_head_release(et_table_head *head);

/* The sums of an analysis. */
typedef struct et_table_stats {
    const et_strings *paths;
    const et_analyze_options *options; /* with defaults in place */
    et_table_head head;
    et_column_stats *field;   /* [head.fields] */
    et_number_format *format; /* [head.fields]: by which the columns are read */
    et_seen_at *unclear;      /* [head.fields]: the first text of which both notations make two
                                 numbers, where no value of the column says which; line 0: none */
    int64_t rows;
    uint64_t bytes;         /* of all files */
    uint64_t missing_found; /* which markers of missing values were there, as csv_scan.h has it */
} et_table_stats;

/* One column while it is reported. */
typedef struct et_table_column {
    const et_table_stats *table;
    const et_column_stats *stats;
    const char *name;
    et_schema_type type;
    bool target;
    bool key;                  /* nearly every text is another */
    const et_seen_at *unclear; /* of et_table_stats; NULL: the column has no notation */
    et_column_use use;
    int64_t values, numbers, distinct;
    et_sketch_view view; /* of numbers */
} et_table_column;

/* Whether mean and deviation are finite. */
bool et_table_column_has_moments(const et_table_column *column);
double et_table_column_deviation(const et_table_column *column);
/* Whether values are whole numbers, so few that they may be classes. */
bool et_table_column_few_whole(const et_table_column *column);
/* Whether a number is written in two ways, as 1 and 1.0: entries [first] and [second]. */
bool et_table_column_twice(const et_column_stats *stats, size_t *first, size_t *second);

/* Adds a suspicious fact: {column, kind, text}. */
void et_table_suspect(et_value *list, const char *column, const char *kind, const char *text);
/* Adds those of a column. ET_ENOMEM. */
int et_table_column_suspect(et_value *list, const et_table_column *column, et_error *error);
/* Adds those about two columns or two rows, by the first rows. uses, metadata [fields]. ET_ENOMEM.
 */
int et_table_relations_suspect(et_value *list, const et_table_stats *table,
                               const et_column_use *uses, const et_column_metadata *metadata,
                               et_error *error);
/* Adds the column whose values name groups of similar rows, by the first rows. */
void et_table_groups_suspect(et_value *list, const et_table_stats *table,
                             const et_column_use *uses);

/* Integer or real if nearly all values are numbers, and no codes. */
et_schema_type et_table_column_type(const et_table_column *column);

/* Schema, metadata and report. */
int et_table_stats_report(const et_table_stats *table, et_analysis *out, et_error *error);

/* ET_EDATA: a named target does not exist. */
int et_table_head_check_columns(const et_table_head *head, const et_analyze_options *options,
                                const char *path, et_error *error);
const char *et_table_head_field(const et_table_head *head, const et_analyze_options *options,
                                int field);

#endif
