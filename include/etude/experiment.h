/* Kinds of task: a program's own tasks for the whole command (et_command_main, command.h). A kind
 * is a row with the table of its settings, the function that opens a task, its experiments and its
 * files in a run. Only the first six members are required.
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
 * Rows are const and static. One thread calls the methods. */
#ifndef ETUDE_EXPERIMENT_H
#define ETUDE_EXPERIMENT_H

#include <signal.h>

#include <etude/options.h>
#include <etude/task.h>

/* The identity of a checkpoint: plain values that describe how its weights were made. */
typedef struct et_identity {
    const char *checkpoint; /* path of the file; NULL: no checkpoint */
    const et_value *values; /* NULL: no identity */
} et_identity;

/* The run that a task is opened for. A task may keep a copy; the objects that it points to outlive
 * the task. */
typedef struct et_task_context {
    const char *model_dir; /* folder of the run's files; exists */
    const char *shown_dir; /* how et_task_tell names model_dir, which with `train --dry-run` is a
                              temporary folder; NULL: by its path */
    et_params *params;     /* store for the model's parameters */
    et_device *device;
    uint64_t seed;               /* seed of the order of the data */
    bool bfloat16;               /* activations are bfloat16 */
    int prefetch;                /* batches to read ahead; 0: none */
    int64_t validation_interval; /* in steps; 0: never */
    const char *best_metric; /* metric that chooses the best checkpoint; NULL: none, or the task's
                                choice */
    const et_identity *identity; /* of the run's newest checkpoint; NULL: not known */
    void *listener;              /* lines for people are sent by tell(listener, line) */
    void (*tell)(void *listener, const char *line); /* NULL: lines are dropped */
    const volatile sig_atomic_t *stop; /* not 0: long work ends with ET_EINTERRUPTED. May be NULL */
    bool reader;                       /* write nothing below model_dir: another process owns it */
    bool evaluates;  /* if there is validation data, training data need not be opened */
    int data_shards; /* batches of an update, see et_task_context_batch; 0: 1 */
    void *foreign;   /* of the kind's et_foreign_class, open: the model of another program that
                        init_checkpoint names; NULL: open it if it is one */
    et_comm *comm;   /* ranks that open the task together, for evaluations that share more than
                        batches; NULL: only this process */
} et_task_context;

/* Computes *size of a batch: the global size of a setting, divided by context->data_shards.
 * ET_ECONFIG: the division leaves a remainder. */
ET_API int et_task_context_batch(const et_task_context *context, int64_t global,
                                 const char *setting, int64_t *size, et_error *error);

/* Sends a line for people (printf format) to context->tell, cut to 1,023 bytes. */
ET_API void et_task_tell(const et_task_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An experiment: a name for a set of settings. */
typedef struct et_experiment_row {
    const char *name; /* stored in runs, so never rename it; unique in a program. "/" as in paths:
                         "rings/small". A name must not be a folder of another name */
    const char *help; /* one line for `list`; NULL: none */
    const char *settings; /* on top of the defaults: "{task: {...}, trainer: {...}}", or
                             "trainer.train_steps=500,..." as for --set; NULL: none */
} et_experiment_row;

struct et_artifact;
struct et_task_kind;

/* Models of another program, for --init and in place of a run: a folder of transformers. */
typedef struct et_foreign_class {
    const char *experiment; /* the experiment of a run that fine-tunes such a model */
    bool (*is)(const char *path);
    /* Reads and checks the whole model, once. *settings gets the settings of a run that fine-tunes
     * the model, as text of params.yaml; borrowed until close. */
    int (*open)(void **out, const char *path, const char **settings, et_error *error);
    void (*close)(void *foreign);
    /* Opens the model as an export in one file, without a file. NULL: only --init takes it. */
    int (*open_export)(struct et_artifact *out, const char *path, et_error *error);
} et_foreign_class;

/* A relation between settings, such as "task.train_data.min <= task.train_data.max" (settings.h).
 * Checked when all settings are known. */
typedef struct et_restriction {
    const char *experiment; /* NULL: for all experiments of the kind */
    const char *text;
} et_restriction;

/* Files of a kind in a run, in addition to the files of all runs. */
enum {
    ET_RUN_FOLDER = 1,        /* a folder whose files are first written under temporary names */
    ET_RUN_MADE_AT_START = 2, /* made before the first step: deleted if the start fails in a new
                                 directory */
    ET_RUN_COMPARED = 4,      /* belongs to checkpoints; kind->belongs compares it */
    ET_RUN_SAMPLES = 8,       /* a folder of texts, STEP.txt, with samples of the model's output */
};
typedef struct et_run_file {
    const char *name; /* relative to model_dir; contents before their folder */
    int what;         /* ET_RUN_* bits */
} et_run_file;

#define ET_RUN_FILE_NAME 256 /* bytes for such a name */

/* File number i of a kind, from 0; the name may be in buffer. The entry after the last has none. */
typedef et_run_file et_run_file_fn(const struct et_task_kind *self, int i,
                                   char buffer[ET_RUN_FILE_NAME]);

struct et_command;
struct et_service_class;

typedef struct et_task_kind {
    const char *name;                     /* "rings" */
    const et_fields *fields;              /* of the settings under `task` */
    size_t size;                          /* of the struct that the settings fill */
    const et_experiment_row *experiments; /* ended by a row without a name */
    /* options: the struct; outlives the task. */
    int (*open)(et_task **out, const void *options, const et_task_context *context,
                et_error *error);
    void (*close)(et_task *task); /* NULL allowed */

    const et_restriction *restrictions; /* ended by a row without a text */
    /* Checks relations between settings. ET_ECONFIG: the error names setting and cure. */
    int (*check)(const void *options, et_error *error);
    /* Checks that validation gives a value with this name, for the best checkpoint. */
    int (*check_metric)(const void *options, const char *name, et_error *error);
    /* On resume: fills settings that are not given from kept, the settings that the run began
     * with. */
    void (*adopt)(void *options, const void *kept);
    /* Calls file for each file that the settings name as input, so that nothing overwrites it. path
     * is valid during the call. */
    void (*reads)(const void *options, void (*file)(void *payload, const char *path),
                  void *payload);
    /* Sends lines about data and model (et_task_tell) before step 1. NULL: the model's size. */
    void (*describe)(et_task *task);
    /* Adds values other than settings to a new dict that identifies checkpoints: checksums of
     * files. The key "text" is for the training text or other training data. */
    int (*identify)(const et_task *task, et_value *identity, et_error *error);
    /* Checks that a run's files with ET_RUN_COMPARED belong to a checkpoint. */
    int (*belongs)(const void *options, const char *model_dir, const et_identity *identity,
                   et_error *error);

    const et_run_file *files;          /* ended by a row without a name */
    const struct et_command *commands; /* commands of the kind, ended by a row without a name
                                          (command.h). A command with the name of a general one
                                          replaces it for runs of this kind */
    /* Texts for people. */
    const char *example;   /* settings that training needs, for help: "--set task.path=a.csv" */
    const char *rate;      /* unit of the rate in the progress bar, "tok/s"; NULL: the batches' */
    const char *amount;    /* unit of the size of batches, "tokens a side"; NULL: the batches' */
    const char *next;      /* the command that uses a trained model, and what it does: */
    const char *next_help; /* "translate", "translates lines"; NULL: evaluate */
    const et_option *options; /* of `train`: short forms of settings, rows of ET_OPTION_SETS, ended
                                 by ET_OPTION_END */
    /* Starts a new run from another run (--init): a setting that names no file of the model
     * (ET_RUN_COMPARED) gets the file in model_dir. model_dir may also be an export in one file,
     * which contains these texts. *taken: the files that were found, in words for people,
     * "vocabulary"; NULL: none. Texts live in arena. */
    int (*inherit)(void *options, const char *model_dir, et_arena *arena, const char **taken,
                   et_error *error);
    /* Paths of settings that describe the text of the weights, such as its punctuation. Such a run
     * takes them from the other run, or from the model of another program, unless the user sets
     * them. Ended by NULL; NULL: none. */
    const char *const *of_weights;
    /* Settings that name files of which a run keeps its own copy, ended by NULL; or NULL. A run
     * that starts from another one takes the copies (inherit) instead of these files. */
    const char *const *kept;
    const et_foreign_class *foreign;        /* NULL: it takes no models of other programs */
    const struct et_service_class *service; /* the service for `serve` (service.h); NULL: none */
    const char *batch; /* setting of the size of a training batch, for `train --memory`:
                          "task.train_data.batch_size"; NULL: --memory is refused */
    /* Sets defaults that the table cannot express, after those of the table. */
    void (*begin)(const struct et_task_kind *self, void *options);
    /* `plot RUN --attention TEXT`: writes an SVG file, path, of the model's attention in a text.
     * run: a run or an export. NULL: not supported. */
    int (*attention)(const char *run, const char *text, const char *path, et_error *error);
    /* Sets the batch size for a kind with several settings of it. The first becomes batch; the
     * others keep their ratio to the first. If like is not NULL, all become its values. */
    int (*set_batch)(void *options, const void *like, int64_t batch, et_error *error);
    et_run_file_fn *file; /* instead of files, for a long list of files */
    /* The program's own update rules for trainer.optimizer_config.optimizer.type, ended by NULL
     * (optimizer_rule.h); NULL: none */
    const struct et_optimizer_rule *const *rules;
    const struct et_recipe *recipe; /* internal: settings chosen from the size of the data and the
                                       length of the run; NULL: none */
    const struct et_recipe *finetuning; /* internal: the same for a run that begins with a trained
                                           model (--init) and its settings; NULL: none */
    const struct et_series *series;     /* internal: several trainings as one run; NULL: none */
} et_task_kind;

#endif
