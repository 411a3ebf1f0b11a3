/* Fields: a table that describes the members of an options struct. The parser (values to struct),
 * the validation with the nearest name, the help text and the echo (struct to values) all use this
 * table, so an option is written down once.
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
 * The parser stores strings and lists in the arena that you pass. Tables are const. A program's own
 * task passes a table (experiment.h) and does not call these functions. */
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
    ET_FIELD_KIND_STRUCT,  /* nested struct with its own table */
    ET_FIELD_KIND_STRUCTS, /* et_structs; one group of settings counts as a list of one */
    ET_FIELD_KIND_EPOCHS,  /* another name, in epochs, for the int64_t of an INT row with .epochs */
    ET_FIELD_KIND_ONLY,    /* no member: one allowed value, and the reason */
} et_field_kind;

/* Whether a run may resume with another value. Set it after the help of a row:
 * ET_FIELD_INT(options, width, 8, 1, 64, "units", .change = ET_CHANGE_MODEL). */
typedef enum et_field_change {
    ET_CHANGE_AS_GROUP, /* as the group that contains it; at the top level: yes */
    ET_CHANGE_FREE,     /* yes */
    ET_CHANGE_ASK,      /* only with --accept-changes */
    ET_CHANGE_FIXED,    /* no: the trained weights depend on it */
    ET_CHANGE_MODEL,    /* no: the output of the trained model also depends on it */
} et_field_change;

/* A list of strings in an options struct. */
typedef struct et_strings {
    const char *const *items;
    size_t count;
} et_strings;

/* A list of structs in an options struct; all have the same table. */
typedef struct et_structs {
    const void *items; /* [count] */
    size_t count;
} et_structs;

typedef struct et_fields et_fields;

/* A choice that other systems have for this setting, and why Etude refuses it. */
typedef struct et_field_refusal {
    const char *choice, *why;
} et_field_refusal;

typedef struct et_field {
    const char *name;
    et_field_kind kind;
    size_t offset;
    double default_number;           /* BOOL, INT, FLOAT, CHOICE */
    const char *default_string;      /* STRING; ONLY: its value as YAML, NULL: any value */
    double minimum, maximum;         /* INT, FLOAT; both ends allowed. NaN is never allowed */
    const char *const *choices;      /* CHOICE: names, ended by NULL; STRING, STRINGS: the allowed
                                        values, or NULL: all */
    const et_field_refusal *refused; /* CHOICE: ended by NULLs; NULL: none */
    const et_fields *nested;         /* STRUCT, STRUCTS */
    size_t item_size;                /* STRUCTS: bytes of one */
    bool indirect;                   /* STRUCT: the member is a pointer to it */
    const char *list;       /* STRUCT: a list given for the group sets this row of its table */
    const char *number;     /* STRUCT: a number given for the group sets this row of its table */
    const char *word;       /* STRUCT: a text given for the group sets this row of its table */
    bool pairs;             /* STRINGS: {a: 1, b: 2} means ["a: 1", "b: 2"] */
    bool single;            /* STRINGS: a list of one is saved as its item, an empty one as null */
    bool ended;             /* STRINGS: a const char *const * ended by NULL; NULL: none */
    const char *with;       /* "row=value": has an effect only if this CHOICE or BOOL of the same
                               table has this value, or this STRING is null ("row=null") or set
                               ("row=*"); otherwise setting it is an error */
    bool passing;           /* consumed when the settings are complete, and never saved: nullable,
                               echoed as null */
    bool nullable;          /* null is allowed and means the default; with `zero` it means 0.
                               STRUCT: null sets all defaults of the table, which must mean "off";
                               if not nullable, null changes nothing in a group */
    bool selects;           /* CHOICE: of the following groups, and of members with the name of a
                               choice, only the one with the chosen name has an effect and is saved.
                               BOOL: whether its group is set: null is false, {} is true */
    int64_t truth;          /* INT: the value of true, where false is 0; 0: no truth values */
    const char *zero;       /* INT: a word that means 0; NULL: no word */
    bool epochs;            /* INT, a number of steps: "2ep" and "0.5ep" are also allowed, see
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
/* `name: 3` is the same as 3ep for the row of the member, which must come before this row. The
 * later setting counts; the member's row is saved. */
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
/* A setting from files of other systems that has no effect in Etude. setting and value are texts.
 * Any other value is an error with the reason `why`. value NULL: all values are allowed. */
#define ET_FIELD_ONLY(setting, value, why)                                                         \
    {                                                                                              \
        .name = (setting), .kind = ET_FIELD_KIND_ONLY, .default_string = (value), .help = (why)    \
    }
#define ET_FIELD_END                                                                               \
    {                                                                                              \
        .kind = ET_FIELD_KIND_END                                                                  \
    }

/* Sets every member of options to its default (lists: empty), also in nested structs. Reading a
 * list later replaces the previous list; its groups start with the defaults of their table. */
ET_API void et_fields_defaults(const et_fields *table, void *options);

/* Sets members from flags "--[prefix.]path=text" or "--[prefix.]path text" of a command line, and
 * removes these flags from argv. Other words keep their order, and so do all words from "--" on.
 * prefix NULL or "": every flag sets a member. argv[0] is the program. After an error do not use
 * argv. */
ET_API int et_fields_flags(const et_fields *table, void *options, const char *prefix, int *argc,
                           char **argv, et_arena *arena, et_error *error);

/* Number of steps of a member whose row has .epochs. A member >= 0 is a number of steps. A negative
 * member is a number of epochs in thousandths: converted with epoch_steps, rounded, at least 1. */
ET_API int64_t et_field_steps(int64_t member, int64_t epoch_steps);

#endif
