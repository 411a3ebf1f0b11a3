/* Options of a command line: one type of row for commands, for short forms of settings and for
 * arguments of programs. A row is a field (fields.h), which says name, member, kind, range, default
 * and help, with what a command line adds: how the value is given, what it is called, other names.
 * The parser, help, completion and man pages read the same const table.
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
 * On the line an option is `--name value` or `--name=value`; `-` and `_` are alike, and options and
 * words may come in any order. After `--` there are no options. A later value replaces an earlier
 * one, except of lists.
 *
 * What a value is called says what it may be, to people and to shells that complete it. FILE, DIR,
 * RUN, EXPERIMENT and COMMAND stand for names of that kind, KEY=VALUE for settings; words with `|`
 * between are typed as they are: "float32|int8". */
#ifndef ETUDE_OPTIONS_H
#define ETUDE_OPTIONS_H

#include <float.h>

#include <etude/fields.h>

/* How an option is given; with another member than the field's kind has, what that is. */
typedef enum et_option_way {
    ET_OPTION_WAY_VALUE,   /* --name value; BOOL: --name, --name=false, --no-name; STRINGS: may be
                              given again */
    ET_OPTION_WAY_FLAG,    /* --name: true */
    ET_OPTION_WAY_WORD,    /* a word that is no option: the next of these rows without a value, one
                              that an option with the same member has given included */
    ET_OPTION_WAY_REST,    /* all words that no row of WORD takes; STRINGS */
    ET_OPTION_WAY_PASSED,  /* the same, and options of no row; STRINGS. Once the first row of the
                              table is given, so is --help */
    ET_OPTION_WAY_WORDS,   /* --name value value ...: as many as its value has names; one that ends
                              in "..." takes any number. et_option_words */
    ET_OPTION_WAY_FILES,   /* the same, and a word after the first belongs to it only if it is a
                              file */
    ET_OPTION_WAY_TIME,    /* double: seconds, from 90m or 1:30:00 */
    ET_OPTION_WAY_SIZE,    /* uint64_t: bytes, from 4G or 500M */
    ET_OPTION_WAY_INDEXED, /* et_integer_list: --name:N value, N from 1; gaps are the default */
    ET_OPTION_WAY_THREADS, /* no member: the process computes with so many threads from then on */
    ET_OPTION_WAY_TASK,    /* et_option_task: one of the models that a run trains together */
    ET_OPTION_WAY_TOLD,    /* no member, not in help: always refused; help says what to do */
    ET_OPTION_WAY_GROUP,   /* the rows of another table, whose struct is the member */
    ET_OPTION_WAY_KINDS,   /* the rows of the program's kinds of task; et_option_settings */
    ET_OPTION_WAY_FIELDS,  /* --name.path value: what field.nested has below the member, in YAML; of
                              a row without a name --path */
    ET_OPTION_WAY_SETS,    /* no member: sets settings, see et_option_sets */
} et_option_way;

/* The member of an indexed option: --hidden-layers:1 20 --hidden-layers:2 10. */
typedef struct et_integer_list {
    int64_t *items;
    size_t count;
} et_integer_list;

#define ET_INTEGERS_MAX 1024 /* items of one */

/* Settings that an option of a kind of task (et_task_kind.options) sets: one word for each; the
 * same word for all that count, if its value is one word, "RATE"; all words, if its value is
 * "TEXT..." or "FILE,...", which is given file by file. Text of settings, "task.shared=false",
 * takes no word. Without settings the option is refused with its help. Kinds may have options of
 * one name. */
typedef struct et_option_sets {
    const char *settings[3];
    const char *pairs; /* the setting that takes one file of pairs, *.tsv, in place of two files */
    /* Of the option that names data, where no experiment is named: */
    const char *experiment; /* what is trained on such data; NULL: must be named */
    const char *endings;    /* of such files, ".csv .csv.gz"; NULL: all that are no other kind's */
} et_option_sets;

/* Order of members: before version 1.0 they may move. */
typedef struct et_option {
    et_field field;    /* name: without --; of words what help shows. NULL: the end of the table */
    const char *alias; /* another name; NULL: none */
    const char *value; /* what its value is called; NULL: its choices, or by its kind */
    et_option_way way;
    char letter;         /* -n is the same as --name; 0: none */
    bool job;            /* of a job: et_argument_parser_parse takes it only with parse_job */
    const char *missing; /* it must be given: "which run", for the message; NULL: it need not */
    const char *group;   /* heading in help; NULL: that of the row before */
    const struct et_option *rows; /* GROUP: ended by ET_OPTION_END */
    const et_option_sets *sets;   /* SETS */
    ET_RESERVED(2);
} et_option;

/* A command's options and help. All are static. */
typedef struct et_usage {
    const et_option *options; /* ended by ET_OPTION_END */
    size_t size;         /* of the struct that they fill, which begins with zeros and defaults */
    const char *about;   /* what the command does: for help */
    const char *example; /* what follows the command's name; EXPERIMENT is the program's first,
                            DATA what that kind of task needs */
} et_usage;

/* Rows: ET_OPTION_TEXT(type, member, name, value, help, ...). More may follow the help:
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
/* Words: shown, "[RUN]"; what, for messages: "run". */
#define ET_OPTION_WORD(type, member, shown, what)                                                  \
    ET_OPTION_ROW(type, member, const char *, STRING, WORD, shown, what, "")
#define ET_OPTION_REST(type, member, shown)                                                        \
    ET_OPTION_ROW(type, member, et_strings, STRINGS, REST, shown, NULL, "")
/* Rows of another table, for a struct within this one. */
#define ET_OPTION_GROUP(type, member, table)                                                       \
    {                                                                                              \
        .field = { .name = "", .kind = ET_FIELD_KIND_ONLY, .offset = offsetof(type, member) },     \
        .way = ET_OPTION_WAY_GROUP, .rows = (table)                                                \
    }
/* Of a kind of task: ET_OPTION_SETS("lr", "RATE", "help", .settings = { "trainer.rate" }). */
#define ET_OPTION_SETS(name_, value_, help_, ...)                                                  \
    {                                                                                              \
        .field = { .name = (name_), .kind = ET_FIELD_KIND_STRING, .help = (help_) },               \
        .value = (value_), .way = ET_OPTION_WAY_SETS, .sets = &(const et_option_sets)              \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
/* An option of other programs, always refused: "no option --resume: what". */
#define ET_OPTION_TOLD(name_, what)                                                                \
    {                                                                                              \
        .field = { .name = (name_), .kind = ET_FIELD_KIND_ONLY, .help = (what) },                  \
        .way = ET_OPTION_WAY_TOLD                                                                  \
    }
#define ET_OPTION_END                                                                              \
    {                                                                                              \
        .field = ET_FIELD_END                                                                      \
    }
/* What those are made of. That the member is of its type is checked. */
#define ET_OPTION_ROW(type, member, of, kind_, way_, name_, value_, ...)                           \
    {                                                                                              \
        .field.name = (name_), .field.kind = ET_FIELD_KIND_##kind_,                                \
        .field.offset = offsetof(type, member) + 0 * sizeof(1 ? &((type *)0)->member : (of *)0),   \
        .value = (value_), .way = ET_OPTION_WAY_##way_, .field.help = __VA_ARGS__                  \
    }

#endif
