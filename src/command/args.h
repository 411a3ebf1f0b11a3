/* Command lines: one table of options per command says what it takes; parsing, help and the
 * nearest name of a misspelt option come from it.
 *
 *     const char *model_dir = NULL;
 *     const et_arg table[] = {
 *         { "model-dir", "DIR", "where the run is kept", ET_ARG_TEXT, &model_dir, NULL },
 *         ET_ARG_END
 *     };
 *
 * Long options only, `--name value` or `--name=value`, but for -h and -q (--quiet); `-` and `_` are
 * alike, so Model Garden's spellings work. What begins with -- is a value only after `=`; no text
 * is empty. Options and other arguments may come in any order; after `--` there are no options.
 *
 * What a value is called says what it may be, to people and to shells that complete it
 * (described.h): words with `|` between are taken as they are, "float32|int8"; FILE, DIR, RUN,
 * EXPERIMENT and COMMAND stand for names of that kind. */
#ifndef ETUDE_COMMAND_ARGS_H
#define ETUDE_COMMAND_ARGS_H

#include <stdbool.h>
#include <stdio.h>

#include <etude/command.h>

/* What a value is read as, and the type that target points to. */
typedef enum et_arg_kind {
    ET_ARG_FLAG,   /* bool: present */
    ET_ARG_SWITCH, /* bool: --name or --name=true, --noname or --name=false */
    ET_ARG_TEXT,   /* const char * */
    ET_ARG_COUNT,  /* int64_t, 0 to ET_ARG_COUNT_MAX */
    ET_ARG_REAL,   /* double, finite, not negative */
    ET_ARG_LIST,   /* et_arg_list: may be given again */
    ET_ARG_NONE,  /* no target: an option of other systems that takes no value but "" here; its help
                     says why */
    ET_ARG_WORDS, /* et_arg_words: up to most of them and to the next option, at least one */
    ET_ARG_WORD,  /* const char *: the one word that is no option, in place of the option with the
                     same  target */
    ET_ARG_REST,  /* et_arg_list: what is not an option; last in the table */
    ET_ARG_MEMBER, /* et_arg_member: takes the place of what --model-dir of the same table names */
    ET_ARG_PROCESSORS, /* no target: a number of threads, which this process computes with from the
                          moment it is read */
} et_arg_kind;

#define ET_ARG_LIST_MAX  256
#define ET_ARG_COUNT_MAX 1000000000

/* Values of an option that may be given again, or all words that are no options. */
typedef struct et_arg_list {
    const char *items[ET_ARG_LIST_MAX]; /* as given, borrowed from argv */
    int count;
} et_arg_list;

/* What stands behind an option, up to the next one; "--name=value": that alone. */
typedef struct et_arg_words {
    char *const *items; /* [count] in argv, or &one */
    char *one;
    int count; /* 0: not given */
    int most;  /* set by the caller */
} et_arg_words;

/* One of the models that a run trains together: where it lies is in folder, to which the target of
 * --model-dir points from then on. */
typedef struct et_arg_member {
    const char *name; /* NULL: not given */
    char folder[4096];
} et_arg_member;

/* A row of a command's table of options. */
typedef struct et_arg {
    const char *name;  /* without --; of WORD and REST: what is shown */
    const char *value; /* what its value is called; NULL for flags */
    const char *help;  /* what it does, in a line */
    et_arg_kind kind;
    void *target;      /* where it goes; of the type that kind says */
    const char *alias; /* another name for it, or NULL */
} et_arg;

/* Of commands that load a trained model. */
#define ET_ARG_MODEL_DIR(directory)                                                                \
    {                                                                                              \
        "model-dir", "DIR", "the run that trained the model", ET_ARG_TEXT, &(directory), NULL      \
    }

#define ET_ARG_CHECKPOINT(name)                                                                    \
    {                                                                                              \
        "checkpoint", "best|newest|STEP|FILE", "which one; else the best, or the newest",          \
            ET_ARG_TEXT, &(name), NULL                                                             \
    }

/* A run as a word, for a table with the option --model-dir before it. */
#define ET_ARG_RUN(directory)                                                                      \
    {                                                                                              \
        "[RUN]", "run", NULL, ET_ARG_WORD, &(directory), NULL                                      \
    }

/* Of commands that use a trained model. */
#define ET_ARG_TASK(member)                                                                        \
    {                                                                                              \
        "task", "NAME", "of a run of several tasks, which one", ET_ARG_MEMBER, &(member), NULL     \
    }

/* Of commands that compute. */
#define ET_ARG_THREADS                                                                             \
    {                                                                                              \
        "threads", "N",                                                                            \
            "compute with N threads (else all processors, or OMP_NUM_THREADS); "                   \
            "results do not depend on it",                                                         \
            ET_ARG_PROCESSORS, NULL, NULL                                                          \
    }

/* Of commands that load weights: without it the averaged ones, where a run has them. */
#define ET_ARG_LIVE_WEIGHTS(flag)                                                                  \
    {                                                                                              \
        "live-weights", NULL, "not the averaged ones", ET_ARG_FLAG, &(flag), NULL                  \
    }

/* For et_args_check_precision. */
#define ET_ARG_PRECISION(precision)                                                                \
    {                                                                                              \
        "precision", "float32|bfloat16|int8", "of computing; else the run's", ET_ARG_TEXT,         \
            &(precision), NULL                                                                     \
    }

/* Of commands that say how far they are: nothing but errors and warnings. -q is the same. */
#define ET_ARG_QUIET(flag)                                                                         \
    {                                                                                              \
        "quiet", NULL, "say nothing but errors and warnings (-q)", ET_ARG_FLAG, &(flag), NULL      \
    }

#define ET_ARG_END                                                                                 \
    {                                                                                              \
        NULL, NULL, NULL, ET_ARG_FLAG, NULL, NULL                                                  \
    }

/* Parses the arguments of a call. ET_EUSAGE names the word and the nearest option; ET_ECONFIG: a
 * run has no such task.
 * *help: --help was given before anything wrong, and nothing else counts. */
int et_args_parse(const et_arg *table, const et_call *call, bool *help, et_error *error);

/* Prints usage, what the command does, an example (what stands behind the command's name) and the
 * options; or keeps it all, in a call with a description. */
void et_args_help(FILE *to, const et_arg *table, const et_call *call, const char *about,
                  const char *example);

/* A time as people and Slurm write it, in seconds: [[D-]H:]M:S, or a number with s, m, h or d.
 * name: of the option. ET_EUSAGE: it is none, or not positive. */
int et_args_read_time(double *seconds, const char *name, const char *text, et_error *error);

/* Bytes as people write them: 500M, 4G, 1.5GB in thousands, 4GiB in 1,024s. ET_EUSAGE: no such. */
int et_args_read_bytes(uint64_t *bytes, const char *name, const char *text, et_error *error);

/* Values of --precision. ET_EUSAGE: neither NULL nor one of them. */
int et_args_check_precision(const char *precision, et_error *error);

#endif
