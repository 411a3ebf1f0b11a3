/* Kinds of task: what a program hands to et_command_main (command.h) to have a task of its own with
 * the whole command. A kind is a row: the table of its settings, how a task is opened from them,
 * its experiments, and what of a run's files is its own. All but the first six members is optional.
 *
 *     static const et_experiment_row experiments[] = {
 *         { "rings/small", "two rings",
 *           "{task: {hidden: 16}, trainer: {train_steps: 500, optimizer_config: {"
 *           "optimizer: {type: adam}, learning_rate: {type: constant, constant: {"
 *           "learning_rate: 0.01}}}}}" },
 *         { NULL, NULL, NULL },
 *     };
 *     static const et_task_kind rings = { .name = "rings", .fields = &rings_fields,
 *         .size = sizeof(rings_options), .experiments = experiments, .open = rings_open,
 *         .close = rings_close };
 *     et_task_tell(context, "%d points", 200);         in open: a line for people
 *
 * Rows are const and static. Methods are called by one thread. */
#ifndef ETUDE_EXPERIMENT_H
#define ETUDE_EXPERIMENT_H

#include <signal.h>

#include <etude/options.h>
#include <etude/task.h>

/* What a checkpoint belongs to: plain values that say with what its weights were made. */
typedef struct et_identity {
    const char *checkpoint; /* path of the file; NULL: there is none */
    const et_value *values; /* NULL: it has none */
} et_identity;

/* What a task needs of the run that it is opened for; a copy of it may be kept, all that it points
 * to outlives the task. */
typedef struct et_task_context {
    const char *model_dir; /* where the run's files go; it is there */
    et_params *params;     /* the store that the model declares into */
    et_device *device;
    uint64_t seed;               /* of the order of the data */
    bool bfloat16;               /* type of activations */
    int prefetch;                /* batches ahead; 0: none */
    int64_t validation_interval; /* in steps; 0: never */
    const char *best_metric; /* what is to choose the best; NULL: nothing, or as the task likes */
    const et_identity *identity; /* of the run's newest checkpoint; NULL: not known */
    void *listener;              /* a line for people goes to tell(listener, line); */
    void (*tell)(void *listener, const char *line); /* NULL: nobody looks */
    const volatile sig_atomic_t
        *stop;       /* not 0: what takes long ends with ET_EINTERRUPTED; or NULL */
    bool reader;     /* nothing is written below model_dir: that is another process's */
    bool evaluates;  /* with validation data, what is learnt from need not be opened */
    int data_shards; /* batches of an update, each a share of what the settings call a batch:
                        et_task_context_batch; 0: 1 */
    et_comm *comm;   /* ranks that open the task together, for what their tasks share of an
                        evaluation beside its batches; NULL: this process alone */
} et_task_context;

/* The size of a training batch: global, which a setting says, cut into context->data_shards.
 * ET_ECONFIG: that leaves a rest. */
ET_API int et_task_context_batch(const et_task_context *context, int64_t global,
                                 const char *setting, int64_t *size, et_error *error);

/* A line for people, made as printf makes it, where somebody looks. What does not fit in 1,023
 * bytes is cut off. */
ET_API void et_task_tell(const et_task_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An experiment: a name for a whole set of settings. */
typedef struct et_experiment_row {
    const char *name; /* in files of runs, so it stays; unique in a program, with "/" as in paths,
                         where none is a folder of another: "rings/small" */
    const char *help; /* a line for `list`; NULL: none */
    const char *settings; /* on top of the defaults: "{task: {...}, trainer: {...}}" or
                             "trainer.train_steps=500,...", as behind --set; or NULL */
} et_experiment_row;

/* What settings have to be to each other, such as "task.train_data.min <= task.train_data.max"
 * (settings.h). It is looked at when everything has been put on top. */
typedef struct et_restriction {
    const char *experiment; /* NULL: of all of the kind */
    const char *text;
} et_restriction;

/* Files of a run that a kind keeps beside those that all runs have. */
enum {
    ET_RUN_FOLDER = 1, /* holds files that are written under temporary names */
    ET_RUN_MADE_AT_START =
        2,               /* before the first step: goes if the start fails in a new directory */
    ET_RUN_COMPARED = 4, /* belongs to checkpoints; kind->belongs knows */
    ET_RUN_SAMPLES = 8,  /* a folder of texts, STEP.txt, of what a model gives as it learns */
};
typedef struct et_run_file {
    const char *name; /* below model_dir; contents before their folder */
    int what;         /* of the above */
} et_run_file;

#define ET_RUN_FILE_NAME 256 /* room for such a name */

struct et_task_kind;

/* File number i of a kind, from 0; its name, if it is made, in buffer. Behind the last comes one
 * without a name. */
typedef et_run_file et_run_file_fn(const struct et_task_kind *self, int i,
                                   char buffer[ET_RUN_FILE_NAME]);

struct et_command;
struct et_service_class;

typedef struct et_task_kind {
    const char *name;                     /* "rings" */
    const et_fields *fields;              /* of the settings below `task` */
    size_t size;                          /* of the struct that they fill */
    const et_experiment_row *experiments; /* ended by a row without a name */
    /* options: the struct; outlives the task. */
    int (*open)(et_task **out, const void *options, const et_task_context *context,
                et_error *error);
    void (*close)(et_task *task); /* NULL allowed */

    const et_restriction *restrictions; /* ended by a row without a text */
    /* What tables cannot check: ET_ECONFIG names setting and cure. */
    int (*check)(const void *options, et_error *error);
    /* Whether validation gives a value of this name, for the best checkpoint. */
    int (*check_metric)(const void *options, const char *name, et_error *error);
    /* A run resumes: what these settings leave open is what it began with. */
    void (*adopt)(void *options, const void *kept);
    /* Calls file for each file that the settings name: it is read, and nothing may be written to.
     * path is file's until it returns. */
    void (*reads)(const void *options, void (*file)(void *payload, const char *path),
                  void *payload);
    /* Tells lines about data and model, before the first step. NULL: the model's size. */
    void (*describe)(et_task *task);
    /* Adds to a new dict what checkpoints of the task belong to besides settings: checksums of its
     * files, and of the text or the like that it learns from under the key "text". */
    int (*identify)(const et_task *task, et_value *identity, et_error *error);
    /* Whether a run's files (ET_RUN_COMPARED) are those that a checkpoint belongs to. */
    int (*belongs)(const void *options, const char *model_dir, const et_identity *identity,
                   et_error *error);

    const et_run_file *files;          /* ended by a row without a name */
    const struct et_command *commands; /* its own, ended by a row without a name (command.h); one
                                          with the name of a general one takes its place, for
                                          this kind's runs */
    /* Words. */
    const char *example; /* settings that training needs, for help: "--set task.path=a.csv" */
    const char *rate;    /* unit of the rate in the progress bar, "tok/s"; NULL: the batches' */
    const char *amount;  /* what batches are counted in, "tokens a side"; NULL: the batches' unit */
    const char *next;    /* the command that a trained model is for, and what it does: */
    const char *next_help;    /* "translate", "translates lines"; NULL: evaluate */
    const et_option *options; /* of `train`, short forms of settings: rows of ET_OPTION_SETS, ended
                                 by ET_OPTION_END */
    /* A new run begins with the weights of another one (--init): settings that name no file for
     * what weights belong to (ET_RUN_COMPARED) name that of model_dir, which may be an export in
     * one file: that then has all texts of a run (train reads them there). *taken: what was, for
     * people, "vocabulary"; NULL: nothing. Texts live in arena. */
    int (*inherit)(void *options, const char *model_dir, et_arena *arena, const char **taken,
                   et_error *error);
    const struct et_service_class *service; /* what answers `serve` (service.h); NULL: nothing */
    const char *batch; /* the setting that is the size of a training batch, for `train --memory`:
                          "task.train_data.batch_size"; NULL: it is not offered */
    /* When options have the table's defaults: what no table can say. */
    void (*begin)(const struct et_task_kind *self, void *options);
    /* `plot RUN --attention TEXT`: an SVG file, path, of what a trained model looks at in a text;
     * run: a run or an export. NULL: there is no such picture. */
    int (*attention)(const char *run, const char *text, const char *path, et_error *error);
    /* The same of a kind whose batches are several settings: the first of them becomes batch, the
     * others follow as they are to it in the settings; or, like not NULL, all become that one's. */
    int (*set_batch)(void *options, const void *like, int64_t batch, et_error *error);
    et_run_file_fn *file;           /* in place of a list of files, where that would be long */
    const struct et_recipe *recipe; /* the library's own: settings that follow from the size of the
                                       data and the length of the run; NULL: nothing is chosen */
} et_task_kind;

#endif
