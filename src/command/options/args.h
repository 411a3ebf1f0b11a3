/* Command lines: one table of options per command says what it takes; parsing, help and the
 * nearest name of a misspelt option come from it. What a value may be is a field's to say, as of a
 * setting (fields.h): kind, range, choices, help; and it is read and refused as one. A row adds
 * what only a command line has: how the option is given, what its value is called, another name.
 *
 *     const char *model_dir = NULL;
 *     int64_t last = 0;
 *     const et_arg table[] = {
 *         ET_ARG_TEXT("model-dir", "DIR", &model_dir, "where the run is kept"),
 *         ET_ARG_COUNT("last", "N", &last, 1, 256, "of so many checkpoints"),
 *         ET_ARG_END
 *     };
 *
 * Long options only, `--name value` or `--name=value`, but for -h and -q (--quiet); another letter
 * behind one dash is refused with the options that begin with it. `-` and `_` are alike, so Model
 * Garden's spellings work. What begins with -- is a value only after `=`; none is
 * empty. Options and other arguments may come in any order; after `--` there are no options.
 *
 * What a value is called says what it may be, to people and to shells that complete it
 * (described.h): words with `|` between are taken as they are, "float32|int8"; FILE, DIR, RUN,
 * EXPERIMENT and COMMAND stand for names of that kind. */
#ifndef ETUDE_COMMAND_OPTIONS_ARGS_H
#define ETUDE_COMMAND_OPTIONS_ARGS_H

#include <float.h>
#include <stdbool.h>
#include <stdio.h>

#include <etude/command.h>
#include <etude/fields.h>

#include "engine/exec/device.h"

/* How an option is given, and with another target than the field's kind has: what that is. */
typedef enum et_arg_way {
    ET_ARG_WAY_VALUE,  /* --name value */
    ET_ARG_WAY_FLAG,   /* --name: true */
    ET_ARG_WAY_SWITCH, /* --name or --name=true, --noname or --name=false */
    ET_ARG_WAY_LIST,   /* et_arg_list: --name value, may be given again */
    ET_ARG_WAY_WORDS,  /* et_arg_words: up to most of them and to the next option, at least one */
    ET_ARG_WAY_WORD,   /* a word that is no option, in place of the option with the same target; of
                          several such rows the first whose target is not set takes it */
    ET_ARG_WAY_REST,   /* et_arg_list: what is not an option; last in the table */
    ET_ARG_WAY_MEMBER, /* et_arg_member: takes the place of what --model-dir of the same table
                          names */
    ET_ARG_WAY_PROCESSORS, /* no target: a number of threads, which this process computes with from
                              the moment it is read */
    ET_ARG_WAY_TOLD, /* no target and not in help: always refused; the row's help says what other
                        programs' option of that name is here */
} et_arg_way;

#define ET_ARG_LIST_MAX  256
#define ET_ARG_COUNT_MAX 1000000000

/* Values of an option that may be given again, or all words that are no options. */
typedef struct et_arg_list {
    const char *items[ET_ARG_LIST_MAX]; /* as given, borrowed from argv */
    int count;
} et_arg_list;

#define ET_ARG_TIMES_MAX 32

/* What stands behind an option, up to the next one; "--name=value": that alone. Each time that it
 * is given by itself, since the reader says whether the last or all of them count. */
typedef struct et_arg_words {
    struct {
        char *const *items; /* [count] in argv; NULL: one */
        char *one;
        int count;
    } given[ET_ARG_TIMES_MAX];
    int times;  /* 0: not given */
    int most;   /* words at a time; set by the caller, as files */
    int least;  /* so many belong together, unless the first ends as one that stands alone */
    bool files; /* behind those only words that are names of files, or end as the first does */
    const char *alone; /* such endings, ".csv .tsv"; NULL: none */
} et_arg_words;

/* One of the models that a run trains together: where it lies is in folder, to which the target of
 * --model-dir points from then on. */
typedef struct et_arg_member {
    const char *name; /* NULL: not given */
    char folder[4096];
} et_arg_member;

/* A row of a command's table of options. It has a field and is none: programs are built with
 * fields as they are, and a setting has no plain word, no second name and no target. A table is
 * made where its targets are, which lie in several structs; so a field has no offset here. */
typedef struct et_arg {
    et_field field;    /* name: without --, of WORD and REST what is shown; NULL: the end */
    const char *value; /* what its value is called; NULL: its choices, of a flag nothing */
    const char *alias; /* another name for it, or NULL */
    et_arg_way way;
    void *target; /* where it goes */
} et_arg;

/* Rows. What may stand behind the help: .alias = "another-name", .field.choices = names. */
#define ET_ARG_TEXT(name_, value_, to, ...)                                                        \
    ET_ARG_ROW(name_, STRING, value_, VALUE, const char *, to, __VA_ARGS__)
#define ET_ARG_COUNT(name_, value_, to, low, high, ...)                                            \
    ET_ARG_ROW(name_, INT, value_, VALUE, int64_t, to, __VA_ARGS__, .field.minimum = (low),        \
               .field.maximum = (high))
#define ET_ARG_REAL(name_, value_, to, low, high, ...)                                             \
    ET_ARG_ROW(name_, FLOAT, value_, VALUE, double, to, __VA_ARGS__, .field.minimum = (low),       \
               .field.maximum = (high))
#define ET_ARG_CHOICE(name_, value_, to, names, ...) /* int: its place among them */               \
    ET_ARG_ROW(name_, CHOICE, value_, VALUE, int, to, __VA_ARGS__, .field.choices = (names))
#define ET_ARG_FLAG(name_, to, ...) ET_ARG_ROW(name_, BOOL, NULL, FLAG, bool, to, __VA_ARGS__)
#define ET_ARG_SWITCH(name_, value_, to, ...)                                                      \
    ET_ARG_ROW(name_, BOOL, value_, SWITCH, bool, to, __VA_ARGS__)
#define ET_ARG_LIST(name_, value_, to, ...)                                                        \
    ET_ARG_ROW(name_, STRING, value_, LIST, et_arg_list, to, __VA_ARGS__)
#define ET_ARG_WORDS(name_, value_, to, ...)                                                       \
    ET_ARG_ROW(name_, STRING, value_, WORDS, et_arg_words, to, __VA_ARGS__)
#define ET_ARG_WORD(name_, value_, to) ET_ARG_ROW(name_, STRING, value_, WORD, const char *, to, "")
#define ET_ARG_REST(name_, to)         ET_ARG_ROW(name_, STRING, NULL, REST, et_arg_list, to, "")
/* An option of other systems that takes no value but "" here, with why. */
#define ET_ARG_NONE(name_, value_, why)                                                            \
    ET_ARG_ROW(name_, ONLY, value_, VALUE, void, NULL, why, .field.default_string = "null")
#define ET_ARG_TOLD(name_, what) ET_ARG_ROW(name_, ONLY, "VALUE", TOLD, void, NULL, what)
#define ET_ARG_END                                                                                 \
    {                                                                                              \
        .target = NULL                                                                             \
    }
/* What those are made of; that a target is of its type is checked. */
#define ET_ARG_ROW(name_, kind_, value_, way_, type, to, ...)                                      \
    {                                                                                              \
        .field.name = (name_), .field.kind = ET_FIELD_KIND_##kind_, .value = (value_),             \
        .way = ET_ARG_WAY_##way_, .target = 1 ? (to) : (type *)NULL, .field.help = __VA_ARGS__     \
    }

/* Of commands that load a trained model. */
#define ET_ARG_MODEL_DIR(directory)                                                                \
    ET_ARG_TEXT("model-dir", "DIR", &(directory), "the run that trained the model")

#define ET_ARG_CHECKPOINT(name)                                                                    \
    ET_ARG_TEXT("checkpoint", "best|newest|STEP|FILE", &(name),                                    \
                "which one; else the best, or the newest")

/* A run as a word, for a table with the option --model-dir before it. */
#define ET_ARG_RUN(directory) ET_ARG_WORD("[RUN]", "run", &(directory))

/* A file as the next word, for a table with an option of the same target. */
#define ET_ARG_FILE(path) ET_ARG_WORD("[FILE]", "file", &(path))

/* Of commands that use a trained model. */
#define ET_ARG_TASK(member)                                                                        \
    ET_ARG_ROW("task", STRING, "NAME", MEMBER, et_arg_member, &(member),                           \
               "of a run of several tasks, which one")

/* Of commands that compute. */
#define ET_ARG_THREADS                                                                             \
    ET_ARG_ROW("threads", INT, "N", PROCESSORS, void, NULL,                                        \
               "compute with N threads (else all processors, or OMP_NUM_THREADS); "                \
               "results do not depend on it",                                                      \
               .field.minimum = 1, .field.maximum = ET_DEVICE_THREADS_MAX)

/* Of commands that load weights: without it the averaged ones, where a run has them. */
#define ET_ARG_LIVE_WEIGHTS(flag) ET_ARG_FLAG("live-weights", &(flag), "not the averaged ones")

/* text: its name, or NULL. */
#define ET_ARG_PRECISION(text)                                                                     \
    ET_ARG_TEXT("precision", NULL, &(text), "of computing; else the run's",                        \
                .field.choices = et_arg_precisions)
extern const char *const et_arg_precisions[];

/* Of commands that say how far they are: nothing but errors and warnings. -q is the same. */
#define ET_ARG_QUIET(flag) ET_ARG_FLAG("quiet", &(flag), "say nothing but errors and warnings (-q)")

/* Whether a word ends in one of several endings with blanks between, which are not all of it. */
bool et_arg_ends_in(const char *word, const char *endings);

/* Whether it is no option but what stands between them. */
static inline bool et_arg_is_plain(const et_arg *arg)
{
    return arg->way == ET_ARG_WAY_WORD || arg->way == ET_ARG_WAY_REST;
}

/* Whether help shows it among the options. */
static inline bool et_arg_is_option(const et_arg *arg)
{
    return !et_arg_is_plain(arg) && arg->way != ET_ARG_WAY_TOLD;
}

/* What a row's value is called: "N", "float32|int8"; "": it has none. By value, so that it can
 * stand in a call. */
typedef struct et_arg_called {
    char text[160];
} et_arg_called;
et_arg_called et_arg_value(const et_arg *arg);

/* Parses the arguments of a call. ET_EUSAGE names the word and the nearest option; ET_ECONFIG: a
 * run has no such task.
 * *help: --help was given before anything wrong, and nothing else counts. */
int et_args_parse(const et_arg *table, const et_call *call, bool *help, et_error *error);

/* Prints usage, what the command does, an example (what stands behind the command's name) and the
 * options; or keeps it all, in a call with a description. */
void et_args_help(FILE *to, const et_arg *table, const et_call *call, const char *about,
                  const char *example);

#endif
