/* The one parser of command lines, over the rows of <etude/options.h>. Main finds the command,
 * parses its words into a struct of the usage's size and prints help. A command gets the struct:
 *
 *     static const et_option options[] = {
 *         ET_OPTION_TEXT(pack_options, output, "output", "FILE", "where it goes"),
 *         ET_OPTION_END,
 *     };
 *     static const et_usage usage = { options, sizeof(pack_options), "Packs.", "--output a" };
 *
 *     const pack_options *o = call->options;
 *
 * Help, man pages and completion open the same table as an et_command_line. It has a slot for each
 * row, also for the rows of groups and of the program's kinds of task. */
#ifndef ETUDE_COMMAND_OPTIONS_OPTIONS_H
#define ETUDE_COMMAND_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <etude/command.h>
#include <etude/error.h>
#include <etude/fields.h>
#include <etude/options.h>

#include "base/arena.h"
#include "systems/modelgarden/synonyms.h"

/* Messages about values of this option begin with it. */
#define ET_SETTINGS_SET "--set"

#define ET_OPTION_COUNT_MAX 1000000000

/* The words of one use of an option. */
typedef struct et_option_given {
    char *const *items; /* [count] */
    int count;
} et_option_given;

/* The member of an option of way WORDS or FILES: every use of it. The command decides whether the
 * last use counts or all of them. */
typedef struct et_option_uses {
    et_option_given *given; /* [times], in the arena of the command line */
    int times;              /* 0: the option was not given */
} et_option_uses;

/* One of the models that a run trains together. The parser sets the member of --model-dir in the
 * same table to the folder of that model. */
typedef struct et_option_task {
    const char *name; /* NULL: not given */
    char folder[4096];
} et_option_task;

/* ---- rows that several commands have ---- */

#define ET_OPTION_MODEL_DIR(type, member)                                                          \
    ET_OPTION_TEXT(type, member, "model-dir", "DIR", "the run with the trained model",             \
                   .missing = "the run")

#define ET_OPTION_CHECKPOINT(type, member)                                                         \
    ET_OPTION_TEXT(type, member, "checkpoint", "best|newest|STEP|FILE",                            \
                   "which checkpoint (default: the best, or else the newest)")

/* A run as a word. Uses the member of the option --model-dir. */
#define ET_OPTION_RUN(type, member) ET_OPTION_WORD(type, member, "[RUN]", "run")

/* A file as the next word. Uses the member of an option. */
#define ET_OPTION_FILE(type, member) ET_OPTION_WORD(type, member, "[FILE]", "file")

#define ET_OPTION_TASK(type, member)                                                               \
    ET_OPTION_ROW(type, member, et_option_task, STRING, TASK, "task", "NAME",                      \
                  "which task, for a run of several tasks")

/* Use the trained weights even if a run has averaged weights. */
#define ET_OPTION_LIVE_WEIGHTS(type, member)                                                       \
    ET_OPTION_FLAG(type, member, "live-weights",                                                   \
                   "use the trained weights, not their moving average")

#define ET_OPTION_PRECISION(type, member)                                                          \
    ET_OPTION_TEXT(type, member, "precision", NULL,                                                \
                   "precision of the computation (default: the run's precision)",                  \
                   .field.choices = et_option_precisions)
extern const char *const et_option_precisions[];

#define ET_OPTION_QUIET(type, member)                                                              \
    ET_OPTION_FLAG(type, member, "quiet", "print only errors and warnings", .letter = 'q')

#define ET_OPTION_SET(type, member, ...)                                                           \
    ET_OPTION_LIST(type, member, "set", "KEY=VALUE", __VA_ARGS__, .alias = "params-override")

/* Options for the processors: --threads, and --device cpu. No member. */
#define ET_OPTION_PROCESSORS                                                                       \
    {                                                                                              \
        .field = { .name = "", .kind = ET_FIELD_KIND_ONLY }, .form = ET_OPTION_FORM_GROUP,         \
        .rows = et_option_processors                                                               \
    }
extern const et_option et_option_processors[];

/* An option of another system, whose value must be "" in Etude; why: the reason. */
#define ET_OPTION_NONE(name_, value_, why)                                                         \
    {                                                                                              \
        .field = ET_FIELD_ONLY(name_, "null", why), .value = (value_)                              \
    }

/* ---- a table that is open ---- */

/* A row and its member. */
typedef struct et_option_slot {
    const et_option *row;
    void *base;        /* the struct of the row's table */
    void *member;      /* NULL: none */
    const char *value; /* name of its value; NULL: the option has no value */
    const char *help;  /* one line */
    int most, least;   /* WORDS, FILES: words of one use; least: unless `alone` allows one */
    bool files;        /* words after the first must be files */
    const char *alone; /* endings of a first word for which one word is enough; NULL: none */
    const char *plain; /* WORD: the word for this row; NULL: not given */
} et_option_slot;

typedef struct et_command_line {
    const et_call *call;
    et_arena *arena;       /* of slots, lists and words */
    et_option_slot *slots; /* [count], in the order of help */
    int count;
    bool help;    /* --help came before any mistake: the command only prints help */
    bool jobs;    /* rows with .job are accepted */
    bool keeps;   /* members keep their values: they get no defaults */
    bool limits;  /* help prints ranges and defaults */
    bool looking; /* for completion: parsing must not change the process */
    const char
        *synonyms; /* "--val is --valid" for each word of another tool; NULL: no such words */
} et_command_line;

/* Opens the table of a usage for the words of a call. options: the struct of the usage, which is
 * set to zeros and defaults. If the usage's size is 0, the struct keeps its values. ET_ENOMEM. */
int et_command_line_open(et_command_line *out, const et_usage *usage, void *options,
                         const et_call *call, et_arena *arena, et_error *error);

/* Parses the words of the call. ET_EUSAGE names the word and the nearest option; ET_ECONFIG: a run
 * has no such task. */
int et_command_line_parse(et_command_line *line, et_error *error);

/* The possible values of the last word of a line. The word may be unfinished. */
typedef struct et_option_position {
    const et_option_slot *slot;  /* the option of this value; NULL: none */
    bool more;                   /* it may also be a plain word */
    const char *text;            /* the value within the word: after "=", or the whole word */
    int nth;                     /* number of the word in that use of the option, from 0 */
    const et_option_slot *plain; /* the row for a plain word; NULL: none */
    int plain_nth;               /* number of the word in REST, from 0 */
    bool ended;                  /* the word comes after "--", so it is not an option */
} et_option_position;

/* Parses the words before the last one and ignores mistakes. The call has at least one word. */
void et_command_line_position(et_command_line *line, et_option_position *position);

/* NULL: no option has this name or alias. */
et_option_slot *et_command_line_find(const et_command_line *line, const char *name, size_t length);

/* Whether a row is a word, not an option. */
static inline bool et_option_is_plain(const et_option *row)
{
    return row->form == ET_OPTION_FORM_WORD || row->form == ET_OPTION_FORM_REST ||
           row->form == ET_OPTION_FORM_PASSED;
}

/* Whether help shows it among the options. */
static inline bool et_option_is_shown(const et_option *row)
{
    return !et_option_is_plain(row) && row->form != ET_OPTION_FORM_REFUSED;
}

/* Whether its member is et_option_uses. */
static inline bool et_option_takes_words(const et_option *row)
{
    return row->form == ET_OPTION_FORM_WORDS || row->form == ET_OPTION_FORM_FILES ||
           (row->form == ET_OPTION_FORM_SETS && row->value);
}

/* Whether it refuses every value but "". */
bool et_option_is_refused(const et_option *row);

/* Whether a word ends in one of the endings, ".csv .tsv", and is longer. */
bool et_option_ends_in(const char *word, const char *endings);

/* Number of words in the name of a value: 2 for "SOURCE TARGET". */
int et_option_names(const char *value);

/* The name with "-" for "_". By value, so that it can be an argument of a call. */
typedef struct et_option_name {
    char text[96];
} et_option_name;
et_option_name et_option_typed(const et_option *row);

/* ---- help ---- */

/* Prints usage, description, an example and the options. */
void et_command_line_help(FILE *to, const et_command_line *line, const et_usage *usage);

/* The example with the program's experiment and data, in arena; NULL: no memory. */
const char *et_usage_example(const et_usage *usage, const et_program *program, et_arena *arena);

/* ---- values of options ---- */

/* A time as people and Slurm write it, in seconds: [[D-]H:]M:S, or a number with s, m, h or d.
 * name: of the option. ET_EUSAGE: not a time, or not positive. */
int et_amount_time(double *seconds, const char *name, const char *text, et_error *error);

/* Bytes as people write them: 500M, 4G, 1.5GB in thousands, 4GiB in 1,024s. ET_EUSAGE: no such. */
int et_amount_bytes(uint64_t *bytes, const char *name, const char *text, et_error *error);

/* Names in the values of an option, each value a row of CSV: `age,job`, `"rose, wild",age`. If the
 * option is repeated, the names of all its values are joined, in order. They live in arena.
 * ET_EUSAGE: a name is empty or repeated, or a value is not a row. */
int et_name_list_read(et_strings *names, const char *option, const et_strings *values,
                      et_arena *arena, et_error *error);

/* --threshold and --costs: how a class is chosen from its probabilities. */
typedef struct et_decision_args {
    double threshold; /* 0: none */
    et_strings costs;
} et_decision_args;

extern const et_option et_decision_options[];

bool et_decision_is_given(const et_decision_args *args);

/* The table of words that people know from other tools (systems/modelgarden/synonyms.h). */
extern const et_synonym et_synonyms[];

#endif
