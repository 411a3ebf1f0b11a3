/* Metadata: facts about the values in the columns of a table (TensorFX's metadata, with more facts
 * from `etude data analyze`). Features are fitted to the metadata, so a model depends on it.
 *
 *   {"age": {"count": 32561, "missing": 0, "distinct": 73, "min": 17, "max": 90, "mean": 38.58,
 *    "std": 13.64, "quantiles": [17, 19, ...]},
 *   "income": {"entries": ["<=50K", ">50K"], "counts": [24720, 7841]}}
 *
 *     et_metadata *metadata;
 *     if (et_metadata_load(&metadata, "metadata.json", &error)) ...
 *     if (et_metadata_parse(&metadata, text, strlen(text), "metadata", &error)) ...    of a text
 *     const et_column_metadata *age = et_metadata_find(metadata, "age");
 *     for (int i = 0; i < et_metadata_count(metadata); i++)
 *         puts(et_metadata_at(metadata, i)->name);
 *     et_metadata_free(metadata);
 *
 * A file may have "entries" or, with the same meaning, "vocab": {"entries": ...}. Saving writes
 * both, so TensorFX can read the file too. Metadata does not change after it is made; any number of
 * threads may read it. */
#ifndef ETUDE_METADATA_H
#define ETUDE_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* How to read dates of three numbers that do not begin with the year, such as 3/4/2024. */
typedef enum et_date_order {
    ET_DATE_ANY, /* no date depends on the order */
    ET_DATE_MONTH_FIRST,
    ET_DATE_DAY_FIRST,
    ET_DATE_TIME, /* times of day without a date */
} et_date_order;

typedef struct et_column_metadata {
    const char *name;
    int64_t count, missing; /* rows with and without a value; both 0: not in the file */
    int64_t distinct;       /* number of distinct values, within 3 % if there are many; 0:
                               unknown */
    int64_t words;          /* words of all texts together; 0: none, or unknown */
    int64_t most_words;     /* of the longest text, as the transform words cuts it; the same */
    int64_t dates;          /* values that the transform date can read; 0: none, or unknown */
    et_date_order order;    /* of these dates */
    int64_t first_year, last_year; /* of these dates; last_year 0: unknown */
    bool has_range;                /* min and max are set */
    bool has_moments;              /* mean and std are set */
    double min, max;
    double mean, std;   /* std of the population */
    int quantile_count; /* values at 0, 1/(n-1), ..., 1; 0: none */
    const double *quantiles;
    int entry_count; /* distinct values, most frequent first; 0: none */
    const char *const *entries;
    const int64_t *counts; /* [entry_count]; NULL: unknown */
    bool cut;              /* less frequent entries were dropped */
} et_column_metadata;

typedef struct et_metadata et_metadata;

/* Copies columns. ET_ECONFIG: an empty name or a name twice, an entry twice, a text that is not
 * UTF-8, range or moments that are not finite or impossible, decreasing quantiles, counts below
 * 0. */
ET_API int et_metadata_create(et_metadata **out, const et_column_metadata *columns, int count,
                              et_error *error);
/* Reads JSON. name: of the text, for messages. Ignores other keys of a column, min without max, and
 * mean without std. ET_ECONFIG as create; ET_EFORMAT: not JSON, or a value of the wrong type. */
ET_API int et_metadata_parse(et_metadata **out, const char *text, size_t length, const char *name,
                             et_error *error);
ET_API int et_metadata_load(et_metadata **out, const char *path, et_error *error);
ET_API void et_metadata_free(et_metadata *metadata); /* NULL allowed */
/* Writes JSON for et_metadata_load, one line per column. Replaces the file atomically. */
ET_API int et_metadata_save(const et_metadata *metadata, const char *path, et_error *error);

ET_API int et_metadata_count(const et_metadata *metadata);
ET_API const et_column_metadata *et_metadata_at(const et_metadata *metadata, int position);
/* If there is no such column, returns empty metadata, never NULL. */
ET_API const et_column_metadata *et_metadata_find(const et_metadata *metadata, const char *name);

#endif
