/* Trainers and evaluators by hooks, with their data (Orbit's StandardTrainer and
 * StandardEvaluator): who writes one gives what a step is, and says nothing of loops, data
 * positions or ends.
 *
 *     typedef struct adder { et_standard_trainer standard; double sum; } adder;
 *     static int add(et_standard_trainer *self, et_cursor *cursor, et_error *error)
 *     {
 *         const et_batch *batch;
 *         int status = et_cursor_next(cursor, NULL, &batch, error);
 *         if (!status)
 *             ((adder *)self)->sum += *(const float *)batch->data[0];
 *         return status;
 *     }
 *     static const et_standard_trainer_class adder_class = { .name = "Adder", .train_step = add };
 *
 *     if (et_standard_trainer_init(&a.standard, &adder_class, &data, NULL, &error)) ...
 *     options.trainer = &a.standard.trainer;
 *     ...
 *     et_standard_trainer_set_dataset(&a.standard, &other, &error);            from now on
 *     et_standard_evaluator_set_dataset(&judge, &other, &error);
 *
 * A data set is a source or a tree of sources by name, and a cursor reads it. Training continues
 * with one cursor from call to call. A data set that replaces another begins at its beginning; the
 * rest of the other is not read, and its sources are put back to where they first stood. Cursors
 * are in the state tree: a run that resumes reads what it would have read. Data sets, sources and
 * classes are borrowed, until release or replacement. One thread.
 *
 * Unlike Orbit's: eval_reduce is called whatever eval_begin gave; training data that end are an
 * error, and evaluation data that end before the steps asked for are told. */
#ifndef ETUDE_STANDARD_H
#define ETUDE_STANDARD_H

#include <etude/data.h>
#include <etude/trainer.h>

/* ---- data ---- */

typedef struct et_dataset et_dataset;

struct et_dataset {
    const char *name;        /* within its group: of one level of the tree, unique; of the root not
                                looked at */
    et_source *source;       /* NULL: a group */
    const et_dataset *parts; /* [count]: of a group */
    int count;
};

typedef struct et_cursor et_cursor;

/* No more data: no error, and not for messages. A step returns it as it came; nothing of that step
 * counts. */
#define ET_CURSOR_ENDED (-1)

/* The next batch of the source at a path of names, "pairs/source"; NULL where the data set is one
 * source. Borrowed until the next of that source. ET_CURSOR_ENDED; ET_EUSAGE: no such path. */
ET_API int et_cursor_next(et_cursor *cursor, const char *path, const et_batch **batch,
                          et_error *error);

/* ---- training ---- */

typedef struct et_standard_trainer et_standard_trainer;

/* In the order of calls; all but train_step are optional. */
typedef struct et_standard_trainer_class {
    const char *name; /* "MyTrainer"; its module's is "my_trainer" */
    /* Hangs what resumes on the tree, beside the data; initial values of a new run: trainer.h. */
    int (*attach)(et_standard_trainer *self, et_state *state, et_error *error);
    int (*start)(et_standard_trainer *self, et_error *error);
    /* An inner loop begins, before data are looked for: metrics are reset here. */
    int (*train_loop_begin)(et_standard_trainer *self, et_error *error);
    int (*train_step)(et_standard_trainer *self, et_cursor *cursor, et_error *error);
    /* Adds to logs what the loop was like; they may be nested. */
    int (*train_loop_end)(et_standard_trainer *self, et_value *logs, et_error *error);
} et_standard_trainer_class;

/* How TensorFlow runs a loop. It changes nothing here; what Orbit refuses is refused. */
typedef struct et_standard_trainer_options {
    bool no_tf_function;           /* use_tf_function=False */
    bool no_tf_while_loop;         /* use_tf_while_loop=False */
    bool tpu_summary_optimization; /* use_tpu_summary_optimization=True */
} et_standard_trainer_options;

struct et_standard_trainer {
    et_trainer trainer; /* for drivers */
    const et_standard_trainer_class *ET_CLASS;
    struct et_standard_data *data; /* the library's */
};

/* self, or what it is the first member of, is the caller's; release it. options NULL: {0}. */
ET_API int et_standard_trainer_init(et_standard_trainer *self,
                                    const et_standard_trainer_class *class_,
                                    const et_dataset *train_dataset,
                                    const et_standard_trainer_options *options, et_error *error);
ET_API void et_standard_trainer_release(et_standard_trainer *self);

/* Between steps. On failure the one before stays. */
ET_API int et_standard_trainer_set_dataset(et_standard_trainer *self,
                                           const et_dataset *train_dataset, et_error *error);

/* ---- evaluation ---- */

typedef struct et_standard_evaluator et_standard_evaluator;

/* In the order of calls; all but eval_step are optional. state and outputs are the evaluator's own
 * business: each is NULL until a hook sets it. */
typedef struct et_standard_evaluator_class {
    const char *name; /* of its module, and the directory of its logs: "validation" */
    int (*attach)(et_standard_evaluator *self, et_state *state, et_error *error);
    /* Before data are looked for. */
    int (*eval_begin)(et_standard_evaluator *self, void **state, et_error *error);
    int (*eval_step)(et_standard_evaluator *self, et_cursor *cursor, void **outputs,
                     et_error *error);
    int (*eval_reduce)(et_standard_evaluator *self, void **state, void *outputs, et_error *error);
    /* logs NULL: it was cut short or has failed, and there is nothing to say. */
    int (*eval_end)(et_standard_evaluator *self, void *state, et_value *logs, et_error *error);
} et_standard_evaluator_class;

typedef struct et_standard_evaluator_options {
    bool no_tf_function; /* use_tf_function=False: changes nothing */
    bool tf_while_loop;  /* use_tf_while_loop=True: as in Orbit, not for all data (-1) */
    bool keep_iterator;  /* recreate_iterator_for_each_eval=False: an evaluation goes on where
                            the last one ended; else each begins at the beginning */
} et_standard_evaluator_options;

struct et_standard_evaluator {
    et_evaluator evaluator; /* for drivers */
    const et_standard_evaluator_class *ET_CLASS;
    struct et_standard_data *data; /* the library's */
};

ET_API int et_standard_evaluator_init(et_standard_evaluator *self,
                                      const et_standard_evaluator_class *class_,
                                      const et_dataset *eval_dataset,
                                      const et_standard_evaluator_options *options,
                                      et_error *error);
ET_API void et_standard_evaluator_release(et_standard_evaluator *self);

ET_API int et_standard_evaluator_set_dataset(et_standard_evaluator *self,
                                             const et_dataset *eval_dataset, et_error *error);

#endif
