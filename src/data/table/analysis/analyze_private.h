/* The analysis, for its own files: columns (analyze_head.c), statistics (analyze.c), results
 * (analyze_report.c). */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_ANALYZE_PRIVATE_H
#define ETUDE_DATA_TABLE_ANALYSIS_ANALYZE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/table/analysis/analyze.h"
#include "data/table/analysis/column_use.h"
#include "data/table/analysis/sketch.h"
#include "data/table/rows/rows.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"

/* ---- the values of a column's first rows, to compare columns row by row: numbers as numbers,
 * texts by a hash of 64 bits ---- */

/* The value of a row that has none. */
#define ET_FIRST_MISSING UINT64_MAX

typedef struct et_first_rows {
    uint64_t *value;     /* [room], owned: bits of a double, or a hash; NULL at first */
    int64_t count, room; /* most: rows to keep */
    int64_t most;
    int64_t numbers; /* rows with a number */
} et_first_rows;

static inline bool et_first_rows_full(const et_first_rows *rows)
{
    return rows->count >= rows->most;
}

/* The number in a row that has a number. */
double et_first_rows_number(const et_first_rows *rows, int64_t row);

/* ---- statistics of one column ----
 *
 * Collected while a table is read: counts by kind of value, range, moments, quantiles, distinct
 * values, entries, and examples of odd values. Results depend only on the values and their order,
 * not on the division into parts. Use from one thread at a time. */

/* Look of a text that is not a number, to people. */
typedef enum et_look {
    ET_LOOK_NONE,
    ET_LOOK_DATE,   /* 2024-05-31, 31.5.2024, 31. Mai 2024, with or without a time */
    ET_LOOK_NUMBER, /* in a notation, with or without a unit (notation.h) */
    ET_LOOK_SPAN,   /* a duration that is no time of day: 36:15, 100:00:05.5 */
    ET_LOOK_COUNT,
} et_look;

/* The class of a cell's text. CODE, LONG and EXPONENT are numbers that may be meant as texts: they
 * count as both. */
typedef enum et_cell_class {
    ET_CELL_MISSING,
    ET_CELL_INTEGER,
    ET_CELL_REAL,
    ET_CELL_TEXT,
    ET_CELL_CODE,     /* an integer with a leading zero, 007, or a phone number, +4930901820 */
    ET_CELL_LARGE,    /* a number beyond a double */
    ET_CELL_LONG,     /* an integer that a double cannot represent exactly: 1234567890123456789 */
    ET_CELL_EXPONENT, /* digits, e or E, digits: 3E5 */
    ET_CELL_CLASSES,
    ET_CELL_UNREAD = ET_CELL_CLASSES, /* a text that was not looked at */
} et_cell_class;

/* The class of a text, never MISSING. number: set for all classes except TEXT and LARGE. */
et_cell_class et_cell_classify(const et_number_format *format, const char *text, size_t length,
                               double *number);

/* A text, by its position in a block of bytes. */
typedef struct et_text_span {
    uint32_t at, length;
} et_text_span;

/* Values of one column, one after another. */
typedef struct et_column_part {
    const char *bytes;
    const unsigned char *class; /* [count] */
    const double *number;       /* [count]: of all but TEXT and LARGE */
    const et_text_span *text;   /* [count]: of all but INTEGER and REAL */
    const uint32_t *line;       /* [count]: of the row, from base_line */
    int64_t base_line;
    int file;
    int count;
} et_column_part;

/* The place where a value was seen first. */
typedef struct et_seen_at {
    int file;
    int64_t line; /* 0: not seen */
    char text[48];
} et_seen_at;

/* Distinct texts that are classified by their look. */
#define ET_STATS_SAMPLE 1000

/* Texts that are numbers in a notation. */
typedef struct et_noted_texts {
    int64_t count[2][ET_NOTATION_COMMA + 1]; /* without and with the unit, by notation; PLAIN: by
                                                both notations */
    char unit[ET_UNIT_BYTES + 1];            /* the first one; others are not counted */
    et_seen_at first_other;                  /* the first text with another unit */
    et_seen_at first_unclear;                /* of which both notations make two numbers */
} et_noted_texts;

/* How a column's values are collected. */
typedef enum et_stats_stage {
    ET_STATS_EXACT,   /* all distinct texts with their counts */
    ET_STATS_NUMBERS, /* too many distinct numbers: numbers as numbers, texts among them as
                         entries */
    ET_STATS_CUT,     /* as numbers and as entries, of which only frequent ones are kept */
    ET_STATS_KEY,     /* as numbers; nearly every text is another */
} et_stats_stage;

typedef struct et_column_stats {
    et_stats_stage stage;
    int64_t count[ET_CELL_CLASSES]; /* rows by class; once EXACT is over, or after finish */
    int64_t blanks;                 /* values with blanks at an end */
    int64_t words;                  /* of all TEXT values together */
    int64_t most_words;             /* of a TEXT value, as the transform words takes them */
    et_seen_at first[ET_CELL_CLASSES - ET_CELL_TEXT]; /* from TEXT on (et_column_stats_first) */
    char twin[24]; /* after finish, of EXACT: 1.10 if 1.1 exists too; empty: none */
    /* By et_date_order; ANY: both orders give the same date. */
    et_seen_at first_undated[ET_DATE_TIME + 1]; /* a text that is not a date */
    int64_t dated[ET_DATE_TIME + 1];            /* values that are dates */
    bool has_years;                             /* of these dates: */
    int first_year, last_year;
    int last_short_year;                   /* last year among dates with two digits; 0: none */
    char last_short[24];                   /* a date of that year */
    int64_t sampled, looks[ET_LOOK_COUNT]; /* number of the first texts with each look */
    et_noted_texts noted;
    /* Of EXACT, without a notation: distinct numbers such as 2.750, in which the point may separate
       thousands, and the first one; whether another number has a decimal point. */
    int64_t grouped;
    et_seen_at first_grouped;
    bool decimal;
    et_number_format format; /* by which texts are read; its unit is borrowed */
    double *pending;         /* [block]: numbers that no block was full of yet; NULL at first */
    int block, filled;
    int64_t numbers;                /* in the moments */
    double min, max, mean, squares; /* squares: of deviations from the mean, summed */
    bool whole;                     /* all numbers are whole */
    et_sketch sketch;
    et_entries entries;
    size_t number_entries; /* of them, the numbers */
    et_distinct distinct;  /* once EXACT is over */
    int distinct_bits;
    et_first_rows first_rows;
    bool failed; /* no memory: ignore the other members */
} et_column_stats;

typedef struct et_column_stats_options {
    size_t entries;   /* limit */
    int sketch_width; /* a power of two */
    int distinct_bits;
    int64_t first_rows; /* number of rows to keep; 0: none */
    uint64_t seed;
    et_number_format format;
} et_column_stats_options;

void et_column_stats_init(et_column_stats *stats, const et_column_stats_options *options);
void et_column_stats_release(et_column_stats *stats);

/* Whether texts may come UNREAD. A caller that does not ask may read all texts. */
bool et_column_stats_reads(const et_column_stats *stats);
void et_column_stats_add(et_column_stats *stats, const et_column_part *part);
/* After the last part. */
void et_column_stats_finish(et_column_stats *stats);

/* The place of the first value of a class; INTEGER and REAL have none. */
const et_seen_at *et_column_stats_first(const et_column_stats *stats, et_cell_class class);
/* After finish: rows with a value, and with a number of any class. */
int64_t et_column_stats_values(const et_column_stats *stats);
int64_t et_column_stats_numbers(const et_column_stats *stats);
/* The order by which most values are dates; ANY: both orders read all these values alike. */
et_date_order et_column_stats_date_order(const et_column_stats *stats);
/* Values that are dates by this order. */
int64_t et_column_stats_dates(const et_column_stats *stats);
/* The notation and the unit in which nearly all values are numbers, if some values are texts. unit:
 * borrowed from these stats. PLAIN: no such notation. */
et_number_format et_column_stats_format(const et_column_stats *stats);
/* Whether a decimal point is only assumed, because all values are ambiguous: 1,234, but neither
 * 1,234.5 nor 12.5. */
bool et_column_stats_format_unclear(const et_column_stats *stats);
/* Whether the entries are complete, with exact counts. */
bool et_column_stats_exact(const et_column_stats *stats);
/* The number of distinct values: exact if the entries are, otherwise estimated. */
int64_t et_column_stats_distinct(const et_column_stats *stats);
/* The distribution of the numbers, also exact if the entries are. False: no memory. */
bool et_column_stats_view(const et_column_stats *stats, et_sketch_view *view);

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
    et_same_header same; /* the header, or the schema's names for files without a header; count 0:
                            columns have no names */
} et_table_head;

/* Largest fraction of a numeric column's values that are not numbers. */
#define ET_TEXT_SHARE 0.1

/* Opens a file to look at its first rows, and to read them again (et_csv_again). known: for a file
 * after the first, facts from the head of the first file, borrowed until the first row is read;
 * else NULL. */
int et_table_head_open(et_csv **csv, const et_csv_known *known, const char *path,
                       const et_analyze_options *options, et_error *error);
et_csv_known et_table_head_known(const et_table_head *head);
/* Finds the head in the first file. Memory is in arena, except the memory of `same`, which the
 * caller releases. */
int et_table_head_find(et_table_head *head, et_csv *csv, const char *path,
                       const et_analyze_options *options, et_arena *arena, et_error *error);
/* Another file: position [head->columns] has the positions of the first file's columns in its rows;
 * *header: its first row has their names. paths: all files. ET_EDATA: its columns differ. */
int et_table_head_match(const et_table_head *head, int *position, bool *header, et_csv *csv,
                        const char *path, const et_analyze_options *options,
                        const et_strings *paths, et_error *error);

/* The sums of an analysis. */
typedef struct et_table_stats {
    const et_strings *paths;
    const et_analyze_options *options; /* with defaults in place */
    et_table_head head;
    et_column_stats *field;   /* [head.fields] */
    et_number_format *format; /* [head.fields]: by which the columns are read */
    et_seen_at *unclear;      /* [head.fields]: the first text that both notations read, as
                                 different numbers, in a column where no value decides between them;
                                 line 0: none */
    int64_t *bare;            /* [head.fields]: numbers without the column's unit */
    int64_t rows;
    uint64_t bytes;         /* of all files */
    uint64_t missing_found; /* bits of the markers of missing values that were found, as in
                               csv_scan.h */
} et_table_stats;

/* A column during the report. */
typedef struct et_table_column {
    const et_table_stats *table;
    const et_column_stats *stats;
    const char *name;
    et_schema_type type;
    bool target;
    bool key;                  /* nearly every text is another */
    const et_seen_at *unclear; /* of et_table_stats; NULL: the column has no notation */
    int64_t bare;              /* of et_table_stats */
    bool splits;               /* the rows, by time; it may be no input */
    et_column_use use;
    int64_t values, numbers, distinct;
    et_sketch_view view; /* of numbers */
} et_table_column;

/* Adds a suspicious fact: {column, kind, text}. */
void et_table_suspect(et_value *list, const char *column, const char *kind, const char *text);
/* Adds suspicious relations of two columns or of rows, judged by the first rows. uses, metadata
 * [fields]. ET_ENOMEM. */
int et_table_relations_suspect(et_value *list, const et_table_stats *table,
                               const et_column_use *uses, const et_column_metadata *metadata,
                               et_error *error);
/* Adds a column whose values seem to name groups of similar rows, judged by the first rows. */
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
