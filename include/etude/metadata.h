/* Metadata: what was seen in the columns of a table: TensorFX's metadata, with what `etude data
 * analyze` finds beside it. Features are fitted from it, so a model depends on it.
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
 * Read are "entries" and "vocab": {"entries": ...}, which mean the same; both are written, so that
 * TensorFX reads them as well. Does not change once it is made; any number of threads may read. */
#ifndef ETUDE_METADATA_H
#define ETUDE_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_column_metadata {
    const char *name;
    int64_t count, missing; /* rows with and without a value; 0, 0: the file does not say */
    int64_t distinct;       /* distinct values, within 3 % where they are many; 0: not known */
    int64_t dates;          /* values that the transform date reads; 0: none, or not known */
    bool has_range;         /* min and max are there */
    bool has_moments;       /* mean and std are there */
    double min, max;
    double mean, std;   /* std: of the population */
    int quantile_count; /* values at 0, 1/(n-1), ..., 1; 0: none */
    const double *quantiles;
    int entry_count; /* distinct values, the most frequent first; 0: none */
    const char *const *entries;
    const int64_t *counts; /* [entry_count]; NULL: not known */
    bool cut;              /* there were more entries than are kept */
} et_column_metadata;

typedef struct et_metadata et_metadata;

/* Copies columns. ET_ECONFIG: a name twice or empty, an entry twice, a text that is not UTF-8, a
 * range or moments that are not finite or cannot be, quantiles that fall, counts below 0. */
ET_API int et_metadata_create(et_metadata **out, const et_column_metadata *columns, int count,
                              et_error *error);
/* JSON. name: of the text in messages. What else a column has there is not read, nor one of
 * min and max, of mean and std, without the other. ET_ECONFIG as create; ET_EFORMAT: not JSON, or a
 * value of another kind. */
ET_API int et_metadata_parse(et_metadata **out, const char *text, size_t length, const char *name,
                             et_error *error);
ET_API int et_metadata_load(et_metadata **out, const char *path, et_error *error);
ET_API void et_metadata_free(et_metadata *metadata); /* NULL allowed */
/* Writes JSON that et_metadata_load reads, a line for each column. The file is replaced whole. */
ET_API int et_metadata_save(const et_metadata *metadata, const char *path, et_error *error);

ET_API int et_metadata_count(const et_metadata *metadata);
ET_API const et_column_metadata *et_metadata_at(const et_metadata *metadata, int position);
/* Of a column that is not there: one with nothing in it, never NULL. */
ET_API const et_column_metadata *et_metadata_find(const et_metadata *metadata, const char *name);

#endif
