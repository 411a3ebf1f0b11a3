/* The use of a table's columns: one verdict per column, from which features are inferred, and the
 * lines that `train` and `data analyze` print.
 *
 *     et_column_use use = et_column_use_infer(field, metadata, &choice);
 *     et_column_use_print(&text, &use, metadata);
 *
 * gives "400 of 400 values differ: looks like an ID, ignored".
 *
 * Plain values; pure functions of schema, metadata and features. */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_COLUMN_USE_H
#define ETUDE_DATA_TABLE_ANALYSIS_COLUMN_USE_H

#include <etude/feature_set.h>
#include <etude/fields.h>

#include "base/text/strbuf.h"
#include "data/table/schema/notation.h"

/* Why a column's values are ignored. */
typedef enum et_column_ignored {
    ET_COLUMN_USED,
    ET_COLUMN_EMPTY,    /* no row has a value */
    ET_COLUMN_CONSTANT, /* every row has the same value */
    ET_COLUMN_KEY,      /* nearly every row has another text */
    ET_COLUMN_RUNNING,  /* integers that count the rows */
    ET_COLUMN_LIST,     /* any number of values */
    ET_COLUMN_GROUPS,   /* groups of rows, which are other ones in new rows */
    ET_COLUMN_DROPPED,  /* the choice drops it */
    ET_COLUMN_OTHER,    /* the choice names inputs, and the column is not among them */
    ET_COLUMN_UNNAMED,  /* no feature of a features file is over it */
} et_column_ignored;

typedef struct et_column_use {
    et_column_ignored ignored; /* its values are not used; transforms may still have MISSING */
    unsigned transforms;       /* over it: bit i for transform i */
    int64_t minimum_count;     /* of embed and one-hot */
    int64_t words;             /* of words: of a text, at most */
    et_date_order order;       /* of date, as its feature has it; ANY: the metadata's */
    et_number_format format;   /* its texts' notation; the unit is the field's */
} et_column_use;

/* Number of distinct values, if the metadata has it. */
int64_t et_column_distinct(const et_column_metadata *metadata);
/* Estimated probability that two rows have the same value by chance, by counts, quantiles or the
 * number of distinct values; 1 if the metadata lack all of these. Pairs of rows that are copies of
 * each other are left out: of `compared` rows, `copies` ordered pairs have equal inputs, each row
 * with itself included. */
double et_column_agreement(const et_column_metadata *metadata, double copies, double compared);
/* Whether rows have more copies than by chance. chance: of a row to be one, as agreements estimate
 * it from all pairs of rows, and without pairs that are copies. */
bool et_copies_are_many(double copies, double rows, const double chance[2]);
/* Whether nearly every value of a column of texts is another: at least 9 of 10, or all of fewer
 * than 20. */
bool et_column_is_key(const et_column_metadata *metadata);

/* "--drop age", "--group age". Names are quoted for a shell and, for --drop, for a list of names,
 * if they need it. */
typedef struct et_column_option {
    char text[ET_ERROR_TEXT_MAX];
} et_column_option;
et_column_option et_column_drop_option(const char *field);
et_column_option et_column_group_option(const char *field);

/* Whether a field is one of the targets. */
bool et_column_is_target(const et_feature_choice *choice, const char *field);
/* The default choice: numbers get transforms by their tails, texts are embedded. more_targets:
 * borrowed; NULL: none. */
et_feature_choice et_column_choice(const char *target, const et_strings *more_targets);
/* ET_ECONFIG: a column that the choice drops, or names as an input, has another use; or it names
 * the column for both. */
int et_column_choice_check(const et_feature_choice *choice, et_error *error);

/* The inferred use, without a features file. choice: discrete must be set. */
et_column_use et_column_use_infer(const et_schema_field *field, const et_column_metadata *metadata,
                                  const et_feature_choice *choice);
/* The uses by a set of features: [et_schema_count(schema)], all UNNAMED or USED. */
void et_column_uses_of(et_column_use *uses, const et_schema *schema, const et_feature_set *set);
/* The order of day and month in which the set's date feature reads a column. ANY: the set (NULL: no
 * set) has no order, so the order of the metadata applies. */
et_date_order et_column_date_order(const et_feature_set *set, const char *column);

/* "embedding of 188 values that occur at least 2 times (330 of 600 differ)" */
void et_column_use_print(et_strbuf *out, const et_column_use *use,
                         const et_column_metadata *metadata);
/* A line for each column: name, type, feature. If there are more than 40, columns of the same type
 * and feature share a line. uses: in the order of the schema's fields. */
int et_column_uses_print(et_strbuf *out, const et_column_use *uses, const et_schema *schema,
                         const et_metadata *metadata, et_error *error);

#endif
