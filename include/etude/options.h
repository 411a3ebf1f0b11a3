/* Options of a command line. One type of row serves commands, the short options of a kind of task
 * and the flags of a program. A row is a field (fields.h: name, member, kind, range, default, help)
 * with additions for a command line: the form of the value, its name in help, other names of the
 * option. The parser, help, man pages and completion read the same const table.
 *
 *     typedef struct greet_options { const char *name; int64_t times; bool loud; } greet_options;
 *     static const et_option options[] = {
 *         ET_OPTION_COUNT(greet_options, times, "times", "N", 1, 9, "say it N times (default: 1)",
 *                         .field.default_number = 1),
 *         ET_OPTION_FLAG(greet_options, loud, "loud", "in capitals"),
 *         ET_OPTION_WORD(greet_options, name, "NAME", "name"),
 *         ET_OPTION_END
 *     };
 *
 * A person types `--name value` or `--name=value`. `-` and `_` are the same. Options and words may
 * come in any order; after `--` there are only words. A later value replaces an earlier one, except
 * in a list.
 *
 * The name of a value tells people and completion what the value may be. FILE, DIR, RUN, EXPERIMENT
 * and COMMAND mean a name of that kind, KEY=VALUE a setting. Words with `|` between them are typed
 * as they are: "float32|int8". */
#ifndef ETUDE_OPTIONS_H
#define ETUDE_OPTIONS_H

#include <float.h>

#include <etude/fields.h>

/* How a value is given. The member has the type of the field's kind, or the type named here. */
typedef enum et_option_form {
    ET_OPTION_FORM_VALUE,   /* --name value. A BOOL: --name, --name=false, --no-name. STRINGS: the
                              option may be repeated */
    ET_OPTION_FORM_FLAG,    /* --name: true. It takes no value */
    ET_OPTION_FORM_WORD,    /* a word that is not an option. Words fill these rows in their order; a
                              row whose member an option has set is full */
    ET_OPTION_FORM_REST,    /* all words that fill no row of WORD. STRINGS */
    ET_OPTION_FORM_PASSED,  /* the same, and all options that the table does not have. STRINGS. If
                              the  first row of the table has a value, --help is one of them */
    ET_OPTION_FORM_TIME,    /* double: seconds, from 90m or 1:30:00 */
    ET_OPTION_FORM_SIZE,    /* uint64_t: bytes, from 4G or 500M */
    ET_OPTION_FORM_INDEXED, /* et_integer_list: --name:N value, N from 1; gaps are the default */
    ET_OPTION_FORM_GROUP,   /* a struct that has a table of its own: its rows */
    ET_OPTION_FORM_FIELDS,  /* a struct with settings, field.nested: --name.path value, in YAML. If
                              the name is "": --path value */
    ET_OPTION_FORM_REFUSED, /* no member. The option is refused with its help, and not shown */
    ET_OPTION_FORM_SETS,    /* no member. The option sets settings: et_option_sets */
    /* The library's own commands use these. */
    ET_OPTION_FORM_WORDS,   /* et_option_uses: --name value value, as many as the value has names */
    ET_OPTION_FORM_FILES,   /* the same; a word after the first must be a file */
    ET_OPTION_FORM_THREADS, /* no member: the number of threads of this process */
    ET_OPTION_FORM_TASK,    /* et_option_task: one of the models that a run trains together */
    ET_OPTION_FORM_KINDS,   /* et_option_settings: the options of the program's kinds of task */
} et_option_form;

/* The member of an indexed option: --hidden-layers:1 20 --hidden-layers:2 10. */
typedef struct et_integer_list {
    int64_t *items;
    size_t count;
} et_integer_list;

#define ET_INTEGERS_MAX 1024 /* items of one */

/* The settings that an option of a kind of task (et_task_kind.options) sets. If its value is one
 * word, "RATE", each of the settings that has an effect gets the word. "SOURCE TARGET" has a word
 * for each setting. "TEXT..." takes any number of words for one setting, "FILE,..." one, or several
 * files. A setting with a value, "task.shared=false", takes no word. An option without settings is
 * refused with its help. Two kinds may have an option of the same name. */
typedef struct et_option_sets {
    const char *settings[5];
    bool list;  /* one word for settings that are lists: each use of the option adds a word */
    bool names; /* of a list: the word of the last use, or with `list` of each, is a row of CSV,
                   whose cells are items */
    const char *pairs; /* the setting for one file of pairs, *.tsv, given in place of two files */
    /* For an option that may be repeated, once per text. parts: a setting with a list of groups,
     * one per text; the members are named like the last words of settings and pairs. named: each
     * group also gets a `name`, from its file. weights, tags: options that give each text a
     * `weight` and a `tag`. */
    const char *parts, *weights, *tags;
    bool named;
    const char *of; /* the option whose weights or tags this option has */
    /* For the option that names data: if the command line names no experiment, the files choose
     * it. */
    const char *experiment; /* the experiment that the data choose; NULL: the user must name an
                               experiment */
    const char *endings;    /* suffixes of these files, ".csv .csv.gz"; NULL: all suffixes that no
                               other kind has */
} et_option_sets;

/* A row. Programs name the members that they set. */
typedef struct et_option {
    et_field field;    /* name: without --; of words, what help shows. NULL: the end of the table */
    const char *alias; /* another name; NULL: none */
    const char *value; /* name of its value; NULL: its choices, or a word for its kind */
    et_option_form form;
    char letter;                  /* 'n': -n is the same as --name; 0: none */
    bool job;                     /* et_argument_parser_parse takes it only with parse_job */
    const char *missing;          /* the option must be given; "the run", for the message. A text */
    const char *group;            /* heading in help; NULL: the heading of the row before */
    const struct et_option *rows; /* of GROUP: ended by ET_OPTION_END */
    const et_option_sets *sets;   /* of SETS */
} et_option;

/* The options of a command and the texts of its help, all static. */
typedef struct et_usage {
    const et_option *options; /* ended by ET_OPTION_END */
    size_t size;              /* of the struct that the options fill; its other members are zero */
    const char *about;        /* what the command does */
    const char *example;      /* what follows the name of the command. EXPERIMENT becomes the first
                                 experiment of the program, DATA what its kind of task needs */
} et_usage;

/* Rows: ET_OPTION_TEXT(type, member, name, value, help, ...). Other members may follow the help:
 * .alias = "other-name", .letter = 'n', .field.default_number = 1. */
#define ET_OPTION_TEXT(type, member, name_, value_, ...)                                           \
    ET_OPTION_ROW(type, member, const char *, STRING, VALUE, name_, value_, __VA_ARGS__)
#define ET_OPTION_COUNT(type, member, name_, value_, low, high, ...)                               \
    ET_OPTION_ROW(type, member, int64_t, INT, VALUE, name_, value_, __VA_ARGS__,                   \
                  .field.minimum = (double)(low), .field.maximum = (double)(high))
#define ET_OPTION_REAL(type, member, name_, value_, low, high, ...)                                \
    ET_OPTION_ROW(type, member, double, FLOAT, VALUE, name_, value_, __VA_ARGS__,                  \
                  .field.minimum = (low), .field.maximum = (high))
/* int: index into names, ended by NULL. */
#define ET_OPTION_CHOICE(type, member, name_, value_, names, ...)                                  \
    ET_OPTION_ROW(type, member, int, CHOICE, VALUE, name_, value_, __VA_ARGS__,                    \
                  .field.choices = (names))
#define ET_OPTION_FLAG(type, member, name_, ...)                                                   \
    ET_OPTION_ROW(type, member, bool, BOOL, FLAG, name_, NULL, __VA_ARGS__)
#define ET_OPTION_SWITCH(type, member, name_, value_, ...)                                         \
    ET_OPTION_ROW(type, member, bool, BOOL, VALUE, name_, value_, __VA_ARGS__)
#define ET_OPTION_LIST(type, member, name_, value_, ...)                                           \
    ET_OPTION_ROW(type, member, et_strings, STRINGS, VALUE, name_, value_, __VA_ARGS__)
#define ET_OPTION_TIME(type, member, name_, value_, ...)                                           \
    ET_OPTION_ROW(type, member, double, FLOAT, TIME, name_, value_, __VA_ARGS__)
#define ET_OPTION_SIZE(type, member, name_, value_, ...)                                           \
    ET_OPTION_ROW(type, member, uint64_t, INT, SIZE, name_, value_, __VA_ARGS__)
/* Words. shown: in help, "[RUN]"; what: in messages, "run". */
#define ET_OPTION_WORD(type, member, shown, what)                                                  \
    ET_OPTION_ROW(type, member, const char *, STRING, WORD, shown, what, "")
#define ET_OPTION_REST(type, member, shown)                                                        \
    ET_OPTION_ROW(type, member, et_strings, STRINGS, REST, shown, NULL, "")
/* The rows of another table, for a member that is a struct. */
#define ET_OPTION_GROUP(type, member, table)                                                       \
    {                                                                                              \
        .field = { .name = "", .kind = ET_FIELD_KIND_ONLY, .offset = offsetof(type, member) },     \
        .form = ET_OPTION_FORM_GROUP, .rows = (table)                                              \
    }
/* For a kind of task: ET_OPTION_SETS("lr", "RATE", "help", .settings = { "trainer.rate" }). */
#define ET_OPTION_SETS(name_, value_, help_, ...)                                                  \
    {                                                                                              \
        .field = { .name = (name_), .kind = ET_FIELD_KIND_STRING, .help = (help_) },               \
        .value = (value_), .form = ET_OPTION_FORM_SETS, .sets = &(const et_option_sets)            \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
/* An option of other programs, which is refused: "no option --resume: what". */
#define ET_OPTION_REFUSED(name_, what)                                                             \
    {                                                                                              \
        .field = { .name = (name_), .kind = ET_FIELD_KIND_ONLY, .help = (what) },                  \
        .form = ET_OPTION_FORM_REFUSED                                                             \
    }
#define ET_OPTION_END                                                                              \
    {                                                                                              \
        .field = ET_FIELD_END                                                                      \
    }
/* All rows are made of this. The compiler checks the type of the member. */
#define ET_OPTION_ROW(type, member, of, kind_, form_, name_, value_, ...)                          \
    {                                                                                              \
        .field.name = (name_), .field.kind = ET_FIELD_KIND_##kind_,                                \
        .field.offset = offsetof(type, member) + 0 * sizeof(1 ? &((type *)0)->member : (of *)0),   \
        .value = (value_), .form = ET_OPTION_FORM_##form_, .field.help = __VA_ARGS__               \
    }

#endif
