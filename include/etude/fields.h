/* Fields: one table per options struct says what its members are. From the table come the
 * parser (values to struct), validation with the nearest name, the help text and the echo
 * (struct to values), so an option is written down once.
 *
 *     typedef struct adam_options { double beta_1; int64_t warmup; char *path; } adam_options;
 *     static const et_field adam_fields[] = {
 *         ET_FIELD_FLOAT(adam_options, beta_1, 0.9, 0, 1, "decay of the first moment"),
 *         ET_FIELD_INT(adam_options, warmup, 0, 0, INT64_MAX, "steps until the peak"),
 *         ET_FIELD_STRING(adam_options, path, NULL, "file to read; none: not read"),
 *         ET_FIELD_END
 *     };
 *     const et_fields adam_table = { "adam", adam_fields };
 *     int64_t steps = et_field_steps(adam.warmup, 500);   "2ep" of 500 steps each
 *
 * Strings and lists that parsing stores live in the arena given to it. Tables are const. A task of
 * a program's own hands one in (experiment.h), and needs none of the functions. */
#ifndef ETUDE_FIELDS_H
#define ETUDE_FIELDS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/value.h>

typedef enum et_field_kind {
    ET_FIELD_KIND_END,
    ET_FIELD_KIND_BOOL,    /* bool */
    ET_FIELD_KIND_INT,     /* int64_t */
    ET_FIELD_KIND_FLOAT,   /* double */
    ET_FIELD_KIND_STRING,  /* const char *; NULL is YAML's null */
    ET_FIELD_KIND_CHOICE,  /* int: index into choices */
    ET_FIELD_KIND_STRINGS, /* et_strings; one string counts as a list of one */
    ET_FIELD_KIND_STRUCT,  /* nested struct with a table of its own */
    ET_FIELD_KIND_STRUCTS, /* et_structs; one group of settings counts as a list of one */
    ET_FIELD_KIND_EPOCHS, /* int64_t of a row of INT with .epochs: another name for it, in epochs */
    ET_FIELD_KIND_ONLY,   /* no member: has one value, and says why it takes no other */
} et_field_kind;

/* Whether a run may resume with another value. Said behind the help of a row:
 * ET_FIELD_INT(options, width, 8, 1, 64, "units", .change = ET_CHANGE_MODEL). */
typedef enum et_field_change {
    ET_CHANGE_AS_GROUP, /* as the group that it stands in; of the whole: it may */
    ET_CHANGE_FREE,     /* it may */
    ET_CHANGE_ASK,      /* only if a person says so (--accept-changes) */
    ET_CHANGE_FIXED,    /* no: what was trained depends on it */
    ET_CHANGE_MODEL,    /* no, and what a trained model computes depends on it */
} et_field_change;

/* A list of strings in an options struct. */
typedef struct et_strings {
    const char *const *items;
    size_t count;
} et_strings;

/* A list of structs in an options struct, which all have one table. */
typedef struct et_structs {
    const void *items; /* [count] */
    size_t count;
} et_structs;

typedef struct et_fields et_fields;

/* A choice that the same setting has elsewhere and not here, and why. */
typedef struct et_field_refusal {
    const char *choice, *why;
} et_field_refusal;

typedef struct et_field {
    const char *name;
    et_field_kind kind;
    size_t offset;
    double default_number;      /* BOOL, INT, FLOAT, CHOICE */
    const char *default_string; /* STRING; ONLY: its value as YAML, NULL: any is taken */
    double minimum, maximum;    /* INT, FLOAT; both ends allowed. NaN is never allowed */
    const char *const *choices; /* CHOICE: names, ended by NULL; STRING, STRINGS: those that are
                                   taken, or NULL: all are */
    const et_field_refusal *refused; /* CHOICE: ended by NULLs; NULL: none */
    const et_fields *nested;         /* STRUCT, STRUCTS */
    size_t item_size;                /* STRUCTS: bytes of one */
    bool indirect;                   /* STRUCT: the member is a pointer to it */
    const char *list;       /* STRUCT: the row of its table that a list in its place is for */
    const char *number;     /* STRUCT: the same for a number */
    bool pairs;             /* STRINGS: {a: 1, b: 2} is taken for ["a: 1", "b: 2"] */
    const char *with;       /* "row=value": counts only where that CHOICE or BOOL of the same table
                               has that value, or that STRING is null; set beside another one it is
                               refused */
    bool passing;           /* is used up when the settings are whole, and never saved: nullable,
                               echoed as null */
    bool nullable;          /* null is taken as well, for the default; with `zero` for 0. STRUCT:
                               for all defaults of its table, which say that there is none of it;
                               without, null changes nothing in a group */
    bool selects;           /* CHOICE: of the groups behind it only that of its name counts and
                               is saved. BOOL: its group is there: null is false, {} is true */
    int64_t truth;          /* INT: what true stands for, false being 0; 0: neither is taken */
    const char *zero;       /* INT: a word that is taken for 0; NULL: none is */
    bool epochs;            /* INT, a number of steps: "2ep" and "0.5ep" are taken as well, see
                               et_field_steps */
    et_field_change change; /* in a run that resumes */
    const char *help;       /* one line, with unit */
} et_field;

struct et_fields {
    const char *name;       /* what the struct configures, for messages */
    const et_field *fields; /* ended by ET_FIELD_END */
};

#define ET_FIELD_BOOL(type, member, value, ...)                                                    \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_BOOL, .offset = offsetof(type, member),             \
        .default_number = (value), .help = __VA_ARGS__                                             \
    }
#define ET_FIELD_INT(type, member, value, low, high, ...)                                          \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_INT, .offset = offsetof(type, member),              \
        .default_number = (double)(value), .minimum = (double)(low), .maximum = (double)(high),    \
        .help = __VA_ARGS__                                                                        \
    }
/* name: 3 is the same as 3ep for the row of the member, which stands before it; the later one
 * counts, and the member's row is what is saved. */
#define ET_FIELD_EPOCHS(setting, type, member, ...)                                                \
    {                                                                                              \
        .name = (setting), .kind = ET_FIELD_KIND_EPOCHS, .offset = offsetof(type, member),         \
        .help = __VA_ARGS__                                                                        \
    }
#define ET_FIELD_FLOAT(type, member, value, low, high, ...)                                        \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_FLOAT, .offset = offsetof(type, member),            \
        .default_number = (value), .minimum = (low), .maximum = (high), .help = __VA_ARGS__        \
    }
#define ET_FIELD_STRING(type, member, value, ...)                                                  \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_STRING, .offset = offsetof(type, member),           \
        .default_string = (value), .help = __VA_ARGS__                                             \
    }
#define ET_FIELD_CHOICE(type, member, value, names, ...)                                           \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_CHOICE, .offset = offsetof(type, member),           \
        .default_number = (value), .choices = (names), .help = __VA_ARGS__                         \
    }
#define ET_FIELD_STRINGS(type, member, ...)                                                        \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_STRINGS, .offset = offsetof(type, member),          \
        .help = __VA_ARGS__                                                                        \
    }
#define ET_FIELD_STRUCT(type, member, table, ...)                                                  \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_STRUCT, .offset = offsetof(type, member),           \
        .nested = (table), .help = __VA_ARGS__                                                     \
    }
#define ET_FIELD_STRUCTS(type, member, item, table, ...)                                           \
    {                                                                                              \
        .name = #member, .kind = ET_FIELD_KIND_STRUCTS, .offset = offsetof(type, member),          \
        .nested = (table), .item_size = sizeof(item), .help = __VA_ARGS__                          \
    }
/* A setting that files for other systems have and that means nothing here: setting and value are
 * texts. Any other value is refused, with why: "there is no TPU". value NULL: none is. */
#define ET_FIELD_ONLY(setting, value, why)                                                         \
    {                                                                                              \
        .name = (setting), .kind = ET_FIELD_KIND_ONLY, .default_string = (value), .help = (why)    \
    }
#define ET_FIELD_END                                                                               \
    {                                                                                              \
        .kind = ET_FIELD_KIND_END                                                                  \
    }

/* Sets every member of options to its default (empty lists, nested structs too). A list that is
 * read takes the place of the one before; its groups begin with the defaults of their table. */
ET_API void et_fields_defaults(const et_fields *table, void *options);

/* Sets members from flags "--[prefix.]path=text" or "--[prefix.]path text" of a command line, and
 * takes them out of argv; what does not begin so is left in its order, and so is all from "--" on.
 * prefix NULL or "": every flag is one. argv[0] is the program. After an error argv is useless. */
ET_API int et_fields_flags(const et_fields *table, void *options, const char *prefix, int *argc,
                           char **argv, et_arena *arena, et_error *error);

/* Steps that a member of a row with .epochs says: itself or, where it was given in epochs (then it
 * is negative: thousandths of one), as many of epoch_steps, rounded, and at least 1. */
ET_API int64_t et_field_steps(int64_t member, int64_t epoch_steps);

#endif
