/* Transforms: a table with a row for each (transforms.def). Fitting reads metadata. A fitted
 * transform is a few numbers and a dictionary; applying it to a value depends only on both. Part of
 * encoder.c and feature_set.c. */
#ifndef ETUDE_DATA_TABLE_FEATURES_TRANSFORMS_H
#define ETUDE_DATA_TABLE_FEATURES_TRANSFORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/feature_set.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "data/table/features/encoder.h"
#include "engine/onnx/onnx_model.h"

/* Positions of texts in a list, by hash: for looking up the entries of a column. Texts need not be
 * terminated. A dictionary does not change after it is made; the arena owns everything. */
typedef struct et_dictionary {
    const char **texts; /* [count] */
    size_t *lengths;    /* [count] */
    int count;
    struct et_dictionary_slot *slots; /* internal */
    uint64_t mask;
} et_dictionary;

/* Copies texts. If texts are equal, only the first is used. NULL: no memory. */
et_dictionary *et_dictionary_new(et_arena *arena, const char *const *texts, int count);

/* -1: not in the dictionary. */
int et_dictionary_find(const et_dictionary *self, const char *text, size_t length);

typedef enum et_transform_over {
    ET_OVER_NOTHING,
    ET_OVER_NUMBERS, /* integer and real fields */
    ET_OVER_LABELS,  /* integer and discrete ones */
    ET_OVER_TEXTS,   /* discrete ones */
    ET_OVER_ALL,
} et_transform_over;

typedef enum et_transform_gives {
    ET_GIVES_NOTHING,
    ET_GIVES_NUMBERS,
    ET_GIVES_IDS,
    ET_GIVES_TARGET,
    ET_GIVES_WEIGHT,
    ET_GIVES_WORDS, /* ids, or -1 */
} et_transform_gives;

/* Members of a spec that a transform reads. */
enum et_transform_takes {
    ET_TAKES_RANGE = 1,
    ET_TAKES_BOUNDARIES = 2,
    ET_TAKES_BUCKETS = 4,
    ET_TAKES_PARTS = 8,
    ET_TAKES_CLASSES = 16,
    ET_TAKES_FEATURES = 32,
    ET_TAKES_LISTS = 64, /* no member: fields of variable length */
    ET_TAKES_MINIMUM_COUNT = 128,
    ET_TAKES_ORDER = 256,
    ET_TAKES_WORDS = 512,
};

/* A transform over a value of a row, or, crossed, over several. Everything is the arena's. */
typedef struct et_fitted_transform {
    const struct et_transform_row *row;
    const int *input; /* [inputs]: which values of a row */
    int inputs;
    int64_t width;                      /* columns that it gives */
    const char *const *column;          /* [width]: descriptions */
    int64_t cardinality;                /* of ids and classes */
    int64_t unknown;                    /* the id of a value that is not among the others */
    double offset, divisor, span, base; /* base + (x - offset) / divisor * span */
    double bend;         /* clip: the threshold of |z|, above which values are compressed */
    double missing;      /* the item of a missing value */
    const double *point; /* [points]: boundaries, quantiles */
    int points;
    const et_dictionary *labels; /* NULL: numbers from offset on are classes */
    bool beside;                 /* a target of two classes among several targets: yes is 1, no 0 */
    int yes;                     /* the class that is yes: 0 or 1 */
    unsigned parts;              /* of a date, a bit each */
    et_date_order order;         /* the same */
} et_fitted_transform;

/* The input of fit. */
typedef struct et_fitting {
    const et_feature_spec *spec;
    const et_schema_field *field; /* crossed: the first */
    const et_column_metadata *metadata;
    const char *name;      /* of the column: the field's name, or with an index */
    et_problems *problems; /* receives contradictions */
    et_arena *arena;
    bool exact; /* of a target: numbers are standardized */
} et_fitting;

typedef void et_transform_fit_fn(et_fitted_transform *fitted, const et_fitting *with);
/* Writes width floats, or ids: int32. ET_EDATA without the place, which the caller adds. values are
 * the row's inputs, in order. */
typedef int et_transform_apply_fn(const et_fitted_transform *fitted, const et_reading *values,
                                  void *to, et_error *error);

/* The arguments of emit, which adds apply as nodes to a model. */
typedef struct et_emitting {
    et_onnx *to;
    const et_fitted_transform *const
        *fitted; /* [count]: one transform, or several that map one number to one number */
    int count;
    const char *x; /* float64 [rows, count], a time in seconds since 1970; or text [rows, 1] */
    bool text;     /* x is text */
    const char *refused; /* set: why ONNX cannot express it */
} et_emitting;

/* Returns the output of apply for values that are not missing: float32 [rows, columns], or int64
 * [rows, 1] for ids. NaN: apply refuses the value. The caller replaces the output for missing
 * values. */
typedef const char *et_transform_emit_fn(et_emitting *e);

typedef struct et_transform_row {
    const char *name;
    et_transform_over over;
    et_transform_gives gives;
    unsigned takes;
    et_transform_fit_fn *fit; /* NULL: the transform makes no columns itself */
    et_transform_apply_fn *apply;
    et_transform_emit_fn *emit; /* NULL: no model reads it */
} et_transform_row;

extern const et_transform_row et_transform_rows[ET_TRANSFORM_COUNT];

/* A transform without a name in files: a numeric target as it is in the file, a double. */
extern const et_transform_row et_transform_written;

/* All words, ended by NULL: for hints. */
extern const char *const et_transform_words[ET_TRANSFORM_COUNT + 1];

/* The parts of a date, ended by NULL: a part's place is its bit. */
extern const char *const et_date_parts[];

/* Makes room for the names of width columns, which the caller fills in. NULL: no memory, which the
 * arena remembers. */
const char **et_fit_columns(et_fitted_transform *fitted, const et_fitting *with, int64_t width);

/* Prints the beginning of a problem of a fit: line and name of the feature. */
void et_fitting_problem(const et_fitting *with, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The name of a value among a column's entries, [length]: "07" and "7.0" of an integer field are
 * "7". The value is not missing. buffer has the text of a number. */
const char *et_level_text(const et_reading *value, char buffer[32], size_t *length);

/* The number below which a standard normal has p of its weight. p in (0, 1). */
double et_normal_quantile(double p);

/* The positive one of two labels. */

/* Whether a label is positive compared with the other: a word for yes, or the larger number. */
bool et_label_is_positive(const char *label, const char *other);

/* ---- words of texts: the transform words, and counting; pure functions ---- */

/* Most words of a text that a feature may take. */
#define ET_WORDS_MAX 4096

/* A word is a run between blanks that has a letter: codes and addresses such as 550e8400-e29b or
 * a@b.org are one word. Bytes that are not ASCII count as letters. */
int64_t et_words_count(const char *text, size_t length);

/* Words that the transform takes of a text without a limit. */
int64_t et_words_taken(const char *text, size_t length);

void et_words_fit(et_fitted_transform *fitted, const et_fitting *with);
int et_words_apply(const et_fitted_transform *f, const et_reading *value, void *to,
                   et_error *error);

/* ---- feature sets, for the library, beyond <etude/feature_set.h> ---- */

/* Greatest depth of nested concats. It also ends a program's specs that contain themselves. */
#define ET_FEATURE_DEPTH_MAX 16

/* Like et_feature_set_create. name: name of the text with the specs, with which messages begin;
 * NULL: not from a text. */
int et_feature_set_make(et_feature_set **out, const et_feature_spec *specs, int count,
                        const char *name, et_error *error);

/* The name of the text; NULL: a program's. */
const char *et_feature_set_source(const et_feature_set *set);

/* The fields of a spec. A spec without fields has the field with its own name. */
int et_feature_fields(const et_feature_spec *spec, const char *const **fields);

/* YAML that et_feature_set_parse reads, terminated. The caller frees the text (et_free). */
int et_feature_set_format(const et_feature_set *set, char **text, et_error *error);

#endif
