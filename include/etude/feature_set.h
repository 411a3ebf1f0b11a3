/* Feature sets: what a model sees of a table. A feature is a transform over fields of a schema; a
 * set of them, with the schema and the metadata that they are fitted from, is an encoder
 * (src/data/table/features/encoder.h), which turns rows into arrays. TensorFX's FeatureSet and
 * Feature, in YAML:
 *
 *   features:
 *   - {name: X, type: concat, features: [
 *    {name: age, type: standardize}, {name: gain, type: log}, {name: sex, type: one-hot}]}
 *   - {name: job, type: embed}
 *   - {name: Y, type: target, fields: income}
 *
 *     et_feature_set *features;
 *     if (et_feature_set_load(&features, "features.yaml", &error)) ...
 *     if (et_feature_set_parse(&features, text, strlen(text), "features", &error)) ...    a text
 *     const et_feature_spec *job = et_feature_set_find(features, "job");
 *     et_feature_set_free(features);
 *
 * A set does not change once it is made; any number of threads may read it. */
#ifndef ETUDE_FEATURE_SET_H
#define ETUDE_FEATURE_SET_H

#include <etude/metadata.h>
#include <etude/schema.h>

/* What a value x of a field becomes. "Missing" is what a row without one gives. Over several fields
 * it is each one's, side by side; so it is over a field of several values. Of a field of variable
 * length one-hot and bucketize mark the columns of all its values. */
typedef enum et_transform {
    ET_TRANSFORM_IDENTITY,  /* x; missing 0 */
    ET_TRANSFORM_TARGET,    /* class by the metadata's entries, or the number itself */
    ET_TRANSFORM_CONCAT,    /* its features side by side, in order */
    ET_TRANSFORM_LOG,       /* ln(x + 1); x <= -1 is an error; missing 0 */
    ET_TRANSFORM_SCALE,     /* min..max of the metadata to transform.min..max (0..1); a constant
                               column gives transform.min; not clipped; missing: the middle */
    ET_TRANSFORM_BUCKETIZE, /* one of boundaries + 1 columns is 1, that of so many boundaries <= x;
                               missing: none is */
    ET_TRANSFORM_ONE_HOT,   /* one of entries + 1 columns is 1, the last: unknown or missing */
    ET_TRANSFORM_STANDARDIZE, /* (x - mean) / std; a constant column 0; missing 0 */
    ET_TRANSFORM_QUANTILE, /* by the quantiles to a standard normal, ties to the middle of theirs,
                              clipped at +-5.2; a constant column 0; missing 0 */
    ET_TRANSFORM_EMBED,    /* place among the entries as an id; unknown and missing have ids of
                              their own behind them */
    ET_TRANSFORM_HASH,     /* xxHash of the text, or of the number as a double, modulo
                              transform.buckets as an id; the one behind them: missing */
    ET_TRANSFORM_CROSS,    /* the same of several fields together; missing: all of them are */
    ET_TRANSFORM_DATE,    /* parts of "2024-05-31[T12:30[:00]]", as written whatever the zone, or of
                             seconds since 1970: the year as (year - 1970) / 100; of others where
                             they are in their cycle as 0..1, sine and cosine; missing 0 */
    ET_TRANSFORM_MISSING, /* 1 where the value is missing, else 0 */
    ET_TRANSFORM_KEY, /* the text itself, which no model sees: predictions carry it. Identity named
                         "key", in no concat, is one: TensorFX goes by the name */
    ET_TRANSFORM_COUNT,
} et_transform;

/* In a file the members behind fields stand in a group `transform` (min, max, boundaries, buckets,
 * parts, classes, minimum_count), but features. A text in a concat's features names another feature
 * of the file, which is then a part of the concat alone. */
typedef struct et_feature_spec {
    const char *name; /* in a concat it may be left out */
    et_transform type;
    const char *const *fields; /* [field_count]; none: the field with its name */
    int field_count;
    double minimum, maximum;  /* scale; both 0: 0 and 1. In a file they are refused */
    const double *boundaries; /* [boundary_count], rising */
    int boundary_count;
    int64_t buckets;       /* hash, cross */
    int64_t minimum_count; /* embed, one-hot: entries with fewer rows are as unknown ones; 0: none
                              are */
    const char *const
        *parts; /* [part_count] of year, month, day, weekday, hour, minute; none: all */
    int part_count;
    bool classes;                           /* target: an integer field's numbers are classes */
    const struct et_feature_spec *features; /* [feature_count]; concat */
    int feature_count;
    int line; /* of the file that it was read from; else 0 */
} et_feature_spec;

typedef struct et_feature_set et_feature_set;

/* Copies specs. ET_ECONFIG: none, a name twice, what a type needs is not there. */
ET_API int et_feature_set_create(et_feature_set **out, const et_feature_spec *specs, int count,
                                 et_error *error);
/* YAML. name: of the text in messages, which give the line too. ET_ECONFIG, ET_EFORMAT. */
ET_API int et_feature_set_parse(et_feature_set **out, const char *text, size_t length,
                                const char *name, et_error *error);
ET_API int et_feature_set_load(et_feature_set **out, const char *path, et_error *error);
ET_API void et_feature_set_free(et_feature_set *set); /* NULL allowed */

/* Writes YAML that et_feature_set_load reads. The file is replaced whole. */
ET_API int et_feature_set_save(const et_feature_set *set, const char *path, et_error *error);

/* What a person would choose who looks at the metadata: numbers ("X") by the transform `numeric`,
 * with missing where some are; texts by `discrete` (embed: "ids"; one-hot: in X), with
 * minimum_count 2 where more than half of the values differ; texts that are dates by date; the
 * target ("Y"). Ignored are columns that are constant or have no value, and what looks like an ID
 * (texts of which nine of ten differ, integers that count the rows), but for whether it is missing.
 */
typedef struct et_feature_choice {
    et_transform numeric;  /* 0, standardize; quantile; scale: as far as the metadata goes */
    et_transform discrete; /* 0, embed; one-hot */
    const char *target;    /* field; NULL: none */
    bool classes;          /* of an integer target: its numbers are classes */
} et_feature_choice;
/* ET_ECONFIG: no such target, or no column says anything. */
ET_API int et_feature_set_infer(et_feature_set **out, const et_schema *schema,
                                const et_metadata *metadata, const et_feature_choice *choice,
                                et_error *error);

ET_API int et_feature_set_count(const et_feature_set *set);
/* By position, from 0, and by name. Borrowed; NULL: no such feature. */
ET_API const et_feature_spec *et_feature_set_at(const et_feature_set *set, int position);
ET_API const et_feature_spec *et_feature_set_find(const et_feature_set *set, const char *name);
ET_API const char *et_transform_name(et_transform type); /* "one-hot"; the file's word */

#endif
