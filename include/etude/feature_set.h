/* Feature sets: the columns of a table as a model sees them. A feature is a transform of fields of
 * a schema. A set of features, fitted to a schema and metadata, is an encoder
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
 * A set does not change after it is made; any number of threads may read it. */
#ifndef ETUDE_FEATURE_SET_H
#define ETUDE_FEATURE_SET_H

#include <etude/metadata.h>
#include <etude/schema.h>

/* The transform of a value x of a field. "Missing" is the result for a row without a value. A
 * feature of several fields, or of a field with several values, has one result for each, side by
 * side. For a field of variable length, one-hot and bucketize set the columns of all its values to
 * 1. */
typedef enum et_transform {
    ET_TRANSFORM_IDENTITY,    /* x; missing 0 */
    ET_TRANSFORM_TARGET,      /* class by the metadata's entries, or the number itself */
    ET_TRANSFORM_CONCAT,      /* the features side by side, in order */
    ET_TRANSFORM_LOG,         /* ln(x + 1); x <= -1 is an error; missing 0 */
    ET_TRANSFORM_SCALE,       /* min..max of the metadata to transform.min..max (0..1); a constant
                                 column gives transform.min; not clipped; missing: the middle */
    ET_TRANSFORM_BUCKETIZE,   /* boundaries + 1 columns: column i is 1 if i boundaries are <= x,
                                 others 0; missing: all 0 */
    ET_TRANSFORM_ONE_HOT,     /* entries + 1 columns, one of them 1; the last is for unknown and
                                 missing */
    ET_TRANSFORM_STANDARDIZE, /* (x - mean) / std; a constant column 0; missing 0 */
    ET_TRANSFORM_QUANTILE, /* to a standard normal distribution by the quantiles, clipped at +-5.2;
                              equal values get the middle of their quantiles; a constant column 0;
                              missing 0 */
    ET_TRANSFORM_ROBUST,   /* z / sqrt(1 + (z / 3)^2), so within +-3, of z = (x - median) / (third
                              quartile - first), or if both are equal 2 (x - median) / (max - min);
                              a constant column 0; missing 0 */
    ET_TRANSFORM_CLIP,     /* z = (x - mean) / std; if |z| > t: 2 t - t^2 / |z| with z's sign, so
                              within +-2 t. t is max(d / std, 4), where d is five interquartile
                              ranges. If min or max is further than d from the median, mean and
                              std are those of the quantiles, each clipped to that distance. If d
                              is 0, t is the larger |z| of min and max. Constant column: 0;
                              missing: 0 */
    ET_TRANSFORM_EMBED,    /* an id: the position among the entries; unknown and missing have the
                              two ids after the entries */
    ET_TRANSFORM_HASH,     /* an id: xxHash of the text, or of the number as a double, modulo
                              transform.buckets; missing: the id after the buckets */
    ET_TRANSFORM_CROSS,    /* the same for several fields together; missing: all fields are
                              missing */
    ET_TRANSFORM_DATE,     /* parts of a date: "2024-05-31[T12:30[:00]]", 31.5.2024, 5/31/2024,
                              "31 May 2024" (as written, any time zone), or seconds since 1970.
                              The year is from -1, the metadata's first, to 1, the last; without
                              both (year - 1970) / 100. Another part is its position in its cycle,
                              0..1, with sine and cosine; missing 0 */
    ET_TRANSFORM_MISSING,  /* 1 for a missing value, else 0 */
    ET_TRANSFORM_KEY, /* the text itself, only copied to predictions; no model sees it. An identity
                         feature named "key" outside a concat is a key too, as in TensorFX */
    ET_TRANSFORM_WORDS,  /* ids of the words of a free text and of each two adjacent words: a hash
                            modulo transform.buckets. Words after the first transform.words are
                            ignored. Models sum a learned vector for each id; rare ids weigh more */
    ET_TRANSFORM_WEIGHT, /* the weight of the row in loss and scores, a number of at least 0; no
                            model sees it. Missing is an error */
    ET_TRANSFORM_COUNT,
} et_transform;

/* In a file, all members after fields except features are in a group `transform` (min, max,
 * boundaries, buckets, words, parts, order, classes, minimum_count). A text in a concat's features
 * names another feature of the file; that feature is then only a part of the concat. */
typedef struct et_feature_spec {
    const char *name; /* optional in a concat */
    et_transform type;
    const char *const *fields; /* [field_count]; none: the field with the feature's name */
    int field_count;
    double minimum, maximum;  /* scale; both 0: 0 and 1. A file may not set both to 0 */
    const double *boundaries; /* [boundary_count], increasing */
    int boundary_count;
    int64_t buckets;       /* hash, cross, words */
    int64_t words;         /* words: of a text, at most */
    int64_t minimum_count; /* embed, one-hot: entries with fewer rows are treated as unknown; 0:
                              keep all */
    const char *const
        *parts; /* [part_count] of year, month, day, weekday, hour, minute; none: all */
    int part_count;
    et_date_order order;                    /* date; ANY: the metadata's, or month first */
    bool classes;                           /* target: the numbers of an integer field are
                                               classes */
    const struct et_feature_spec *features; /* [feature_count]; concat */
    int feature_count;
    int line; /* line in the file; 0: not from a file */
} et_feature_spec;

typedef struct et_feature_set et_feature_set;

/* Copies specs. ET_ECONFIG: no features, a name twice, or a type lacks a member. */
ET_API int et_feature_set_create(et_feature_set **out, const et_feature_spec *specs, int count,
                                 et_error *error);
/* Reads YAML. name: of the text, for messages, which also have the line. ET_ECONFIG, ET_EFORMAT. */
ET_API int et_feature_set_parse(et_feature_set **out, const char *text, size_t length,
                                const char *name, et_error *error);
ET_API int et_feature_set_load(et_feature_set **out, const char *path, et_error *error);
ET_API void et_feature_set_free(et_feature_set *set); /* NULL allowed */

/* Writes YAML for et_feature_set_load. Replaces the file atomically. */
ET_API int et_feature_set_save(const et_feature_set *set, const char *path, et_error *error);

/* Chooses features from the metadata as a person would:
 * - Numbers go into "X" with the transform `numeric`, plus missing if some are missing.
 * - Texts use `discrete` (embed: "ids"; one-hot: in X), with minimum_count 5 if more than a tenth
 * of the values differ. Texts that are dates use date. The target is "Y".
 * - Ignored: columns that are constant or empty, and columns that look like IDs (texts of which 90
 *   % differ, integers that number the rows). Whether a value of such an ID is missing is still an
 *   input. */
typedef struct et_feature_choice {
    et_transform numeric;  /* clip, standardize, quantile, scale or robust; 0: quantile for columns
                              with a long tail, clip for others. If the metadata lacks its
                              statistics: the next of clip, standardize, scale, identity */
    et_transform discrete; /* 0: embed; one-hot */
    et_transform also;     /* a second numeric one, in a feature of its own, such as "X_robust"; 0:
                              none */
    const char *target;    /* field; NULL: none */
    const char *const *more_targets; /* [more_target_count]: fields that are targets as well; all
                                        are numbers, or all have two classes each */
    int more_target_count;
    bool classes;               /* the numbers of an integer target are classes */
    const char *id;             /* field that is only copied to predictions, as a key; NULL: none */
    const char *groups;         /* field with the group of each row, not an input; NULL: none */
    const char *weight;         /* field, the rows' weights: the feature "W"; NULL: none */
    bool unchanged;             /* numbers have the transform identity; numeric must be 0 */
    const char *const *dropped; /* [dropped_count]: fields that are not inputs of the model */
    int dropped_count;
    const char *const *only; /* [only_count]: no other fields are inputs; NULL: all may be */
    int only_count;
} et_feature_choice;
/* ET_ECONFIG: a named column does not exist, one column has two of these uses, a target that cannot
 * be learned, or all columns are ignored. ET_EDATA: the target's values are too small to square;
 * weights are missing, negative or all 0. */
ET_API int et_feature_set_infer(et_feature_set **out, const et_schema *schema,
                                const et_metadata *metadata, const et_feature_choice *choice,
                                et_error *error);

ET_API int et_feature_set_count(const et_feature_set *set);
/* By position, from 0, and by name. Borrowed; NULL: no such feature. */
ET_API const et_feature_spec *et_feature_set_at(const et_feature_set *set, int position);
ET_API const et_feature_spec *et_feature_set_find(const et_feature_set *set, const char *name);
ET_API const char *et_transform_name(et_transform type); /* name in files: "one-hot" */

#endif
