/* Analysis of a table. One pass over CSV files in bounded memory makes the schema and the metadata,
 * to which features are fitted, and a report for people.
 *
 *     et_analyze_options options = { .target = "income" };
 *     et_analysis analysis;
 *     if (et_analyze(&analysis, &paths, &options, &error)) ...
 *     et_schema_save(analysis.schema, "schema.yaml", &error);
 *     et_analysis_release(&analysis);
 *
 * Types come from the values: integers, numbers (real), texts (discrete). A column of numbers in
 * which at most a tenth of the values are texts is numeric, and the report names the first of these
 * texts. Codes that look like numbers (007, +4930901820, 3E5, integers beyond 2^53) are texts. A
 * column inferred as integer still accepts values with a fraction (`fractions` of the schema). A
 * target with few distinct integers is discrete: classes. Metadata has quantiles of numbers from a
 * sketch (sketch.h) and the entries of discrete columns, except of columns that look like an ID
 * (column_use.h). Results do not depend on the number of threads.
 *
 * Memory: 100 KiB for each numeric column of a large table (less if there are more than 1,000), up
 * to 11 MB for each discrete column with many distinct values (less if there are more than 40), and
 * 5 MB per thread. */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_ANALYZE_H
#define ETUDE_DATA_TABLE_ANALYSIS_ANALYZE_H

#include <etude/feature_set.h>
#include <etude/metadata.h>
#include <etude/schema.h>
#include <etude/value.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "data/table/rows/rows.h"

typedef struct et_analyze_options {
    const char *target;       /* NULL: none */
    et_strings more_targets;  /* in addition to target */
    et_strings dropped, only; /* columns that are not inputs; the only inputs (empty: all may be) */
    const char *time; /* column that splits the rows: judged even if it is no input; or NULL */
    /* FOUND: the first row is a header if no cell is a number and the row differs from the
     * following rows. With a schema: if its cells are names of fields. THERE: of every file.
     * ABSENT: columns are column_1, column_2, ..., or the schema's. */
    et_header header;
    int classes; /* an integer target with at most so many values has classes; 0: with two
                    values, or with at most 20 that count from 0 or 1; -1: never */
    const et_schema *schema; /* types of the columns; NULL: inferred */
    int64_t entries;         /* most entries kept of a column; 0: 100,000 */
    int quantiles;           /* of a numeric column; 0: 257 */
    int threads;             /* 0: as many as the program has */
    et_csv_options csv;      /* columns is found */
    /* Called from time to time with the bytes read so far and the bytes of all files. */
    void (*progress)(void *payload, uint64_t done, uint64_t all);
    void *payload;
} et_analyze_options;

typedef struct et_analysis {
    et_schema *schema;
    et_metadata *metadata;
    et_value *report; /* a dict, in arena; analyze_report.c lists its keys */
    et_arena arena;
} et_analysis;

/* The choice that the report's uses of columns follow. Borrows the names. */
et_feature_choice et_analyze_choice(const et_analyze_options *options);

/* options may be NULL. ET_EDATA: a row is wrong, a column name occurs twice, there are no rows, the
 * target or a column of the schema is missing, a column is not in the schema, or files have
 * different columns. */
int et_analyze(et_analysis *out, const et_strings *paths, const et_analyze_options *options,
               et_error *error);
void et_analysis_release(et_analysis *analysis);

#endif
