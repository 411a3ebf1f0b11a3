/* Command lines: the one parser, over the rows of <etude/options.h>. A command's table is const and
 * static; main finds the command, parses its words into a struct of its own size and prints help,
 * so a command gets its options filled in:
 *
 *     static const et_option options[] = {
 *         ET_OPTION_TEXT(pack_options, output, "output", "FILE", "where it goes"),
 *         ET_OPTION_END,
 *     };
 *     static const et_usage usage = { options, sizeof(pack_options), "Packs.", "--output a" };
 *
 *     const pack_options *o = call->options;               the command's
 *
 * Help, man pages and completion open a table as an et_command_line as well, which has a slot for
 * each row: those of groups and of the program's kinds of task are among them. */
#ifndef ETUDE_COMMAND_OPTIONS_OPTIONS_H
#define ETUDE_COMMAND_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include <etude/command.h>
#include <etude/options.h>

#include "base/arena.h"

#define ET_OPTION_COUNT_MAX 1000000000

/* Words of an option of way WORDS or FILES, each time that it is given; the reader says whether the
 * last or all of them count. */
typedef struct et_option_words {
    struct et_option_given {
        char *const *items; /* [count] */
        int count;
    } * given; /* [times], in the arena of the options */
    int times; /* 0: not given */
} et_option_words;

/* One of the models that a run trains together. The member of --model-dir in the same table becomes
 * the folder of that model. */
typedef struct et_option_task {
    const char *name; /* NULL: not given */
    char folder[4096];
} et_option_task;

/* ---- rows that several commands have ---- */

#define ET_OPTION_MODEL_DIR(type, member)                                                          \
    ET_OPTION_TEXT(type, member, "model-dir", "DIR", "the run that trained the model",             \
                   .missing = "which run")

#define ET_OPTION_CHECKPOINT(type, member)                                                         \
    ET_OPTION_TEXT(type, member, "checkpoint", "best|newest|STEP|FILE",                            \
                   "which one; else the best, or the newest")

/* A run as a word; the option --model-dir has the same member. */
#define ET_OPTION_RUN(type, member) ET_OPTION_WORD(type, member, "[RUN]", "run")

/* A file as the next word; an option has the same member. */
#define ET_OPTION_FILE(type, member) ET_OPTION_WORD(type, member, "[FILE]", "file")

#define ET_OPTION_TASK(type, member)                                                               \
    ET_OPTION_ROW(type, member, et_option_task, STRING, TASK, "task", "NAME",                      \
                  "of a run of several tasks, which one")

/* Not the averaged weights, where a run has them. */
#define ET_OPTION_LIVE_WEIGHTS(type, member)                                                       \
    ET_OPTION_FLAG(type, member, "live-weights", "not the averaged ones")

#define ET_OPTION_PRECISION(type, member)                                                          \
    ET_OPTION_TEXT(type, member, "precision", NULL, "of computing; else the run's",                \
                   .field.choices = et_option_precisions)
extern const char *const et_option_precisions[];

#define ET_OPTION_QUIET(type, member)                                                              \
    ET_OPTION_FLAG(type, member, "quiet", "say nothing but errors and warnings", .letter = 'q')

#define ET_OPTION_SET(type, member, ...)                                                           \
    ET_OPTION_LIST(type, member, "set", "KEY=VALUE", __VA_ARGS__, .alias = "params-override")

/* What computes: --threads, and --device cpu. No member. */
#define ET_OPTION_PROCESSORS                                                                       \
    {                                                                                              \
        .field = { .name = "", .kind = ET_FIELD_KIND_ONLY }, .way = ET_OPTION_WAY_GROUP,           \
        .rows = et_option_processors                                                               \
    }
extern const et_option et_option_processors[];

/* An option of other systems that takes no value but "" here, with why. */
#define ET_OPTION_NONE(name_, value_, why)                                                         \
    {                                                                                              \
        .field = ET_FIELD_ONLY(name_, "null", why), .value = (value_)                              \
    }

/* ---- a table that is open ---- */

/* A row, and where its value goes. */
typedef struct et_option_slot {
    const et_option *row;
    void *base;        /* the struct of the row's table */
    void *member;      /* NULL: none */
    const char *value; /* what its value is called; NULL: it has none */
    const char *help;  /* one line */
    int most, least;   /* WORDS, FILES: words each time; least: unless the first is alone */
    bool files;        /* words after the first have to be files */
    const char *alone; /* endings of a first word that needs no second; NULL: none */
    const char *plain; /* WORD: the word that it got as one; NULL: none */
} et_option_slot;

typedef struct et_command_line {
    const et_call *call;
    et_arena *arena;       /* of slots, lists and words */
    et_option_slot *slots; /* [count], in the order of help */
    int count;
    bool help;    /* --help was given before anything wrong: nothing else counts */
    bool jobs;    /* rows of jobs are taken */
    bool keeps;   /* members keep what they have: they get no defaults */
    bool limits;  /* help says ranges and defaults */
    bool looking; /* words are only looked at: the process stays as it is */
} et_command_line;

/* The rows of a usage, for words of a call. options: the usage's struct, which is set to zeros and
 * defaults; with size 0 it keeps what it has. ET_ENOMEM. */
int et_command_line_open(et_command_line *out, const et_usage *usage, void *options,
                         const et_call *call, et_arena *arena, et_error *error);

/* Parses the words of the call. ET_EUSAGE names the word and the nearest option; ET_ECONFIG: a run
 * has no such task. */
int et_command_line_parse(et_command_line *line, et_error *error);

/* What the last word of a line is, which may be unfinished. */
typedef struct et_option_place {
    const et_option_slot *slot;  /* whose value it may be; NULL: no option's */
    bool more;                   /* it may as well be a plain word */
    const char *text;            /* of the word, what is of the value: behind "=", or all */
    int nth;                     /* word of that option, from 0 */
    const et_option_slot *plain; /* that takes it, if it is a plain word; NULL: none does */
    int plain_nth;               /* word of REST, from 0 */
    bool ended;                  /* behind "--": no option */
} et_option_place;

/* Parses what stands before the last word of the call, which has one; mistakes are passed over. */
void et_command_line_place(et_command_line *line, et_option_place *place);

/* NULL: there is no option of that name or alias. */
et_option_slot *et_command_line_find(const et_command_line *line, const char *name, size_t length);

/* Whether a row is a word, not an option. */
static inline bool et_option_is_plain(const et_option *row)
{
    return row->way == ET_OPTION_WAY_WORD || row->way == ET_OPTION_WAY_REST ||
           row->way == ET_OPTION_WAY_PASSED;
}

/* Whether help shows it among the options. */
static inline bool et_option_is_shown(const et_option *row)
{
    return !et_option_is_plain(row) && row->way != ET_OPTION_WAY_TOLD;
}

/* Whether its member is et_option_words. */
static inline bool et_option_takes_words(const et_option *row)
{
    return row->way == ET_OPTION_WAY_WORDS || row->way == ET_OPTION_WAY_FILES ||
           (row->way == ET_OPTION_WAY_SETS && row->value);
}

/* Whether no value is taken. */
bool et_option_is_refused(const et_option *row);

/* Whether a word ends in one of several endings with blanks between, and is longer. */
bool et_option_ends_in(const char *word, const char *endings);

/* Words that a value's name has: "SOURCE TARGET" 2. */
int et_option_names(const char *value);

/* The name as it is typed, "_" as "-"; by value, so that it can stand in a call. */
typedef struct et_option_name {
    char text[96];
} et_option_name;
et_option_name et_option_typed(const et_option *row);

/* Sets the member at a dotted path, [length], below that of a row of way FIELDS, from YAML text. */
int et_option_set_below(const et_option_slot *slot, const char *path, size_t length,
                        const char *text, et_arena *arena, et_error *error);

/* ---- help ---- */

/* Usage, what the command does, an example and the options. */
void et_command_line_help(FILE *to, const et_command_line *line, const et_usage *usage);

/* The example with the program's own experiment, in arena; NULL: no memory. */
const char *et_usage_example(const et_usage *usage, const et_program *program, et_arena *arena);

#endif
