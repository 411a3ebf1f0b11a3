/* Trainers and evaluators with hooks and data (Orbit's StandardTrainer and StandardEvaluator). A
 * class gives the work of a step; loops, positions in the data and ends are handled for it.
 *
 *     typedef struct adder { et_standard_trainer standard; double sum; } adder;
 *     static int add(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error)
 *     {
 *         const et_batch *batch;
 *         int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
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
 * A data set is a source, or a tree of sources by name; a cursor reads it. Training continues with
 * one cursor from call to call. A new data set begins at its beginning. The rest of the old one is
 * not read, and its sources return to their first positions. Cursors are in the state tree, so a
 * resumed run reads the same batches as an uninterrupted one. Data sets, sources and classes are
 * borrowed until release or replacement. Use from one thread.
 *
 * Differences to Orbit: eval_reduce is always called, also if eval_begin set no state. The end of
 * training data is an error. If evaluation data end before the requested steps, a warning says
 * so. */
#ifndef ETUDE_STANDARD_H
#define ETUDE_STANDARD_H

#include <etude/data.h>
#include <etude/trainer.h>

/* ---- data ---- */

typedef struct et_source_tree et_source_tree;

struct et_source_tree {
    const char *name;            /* name in its group, unique there; ignored for the root */
    et_source *source;           /* NULL: a group */
    const et_source_tree *parts; /* [count]: of a group */
    int count;
};

typedef struct et_source_tree_cursor et_source_tree_cursor;

/* Status: no more data. This is not an error, and users never see it. A step must return the status
 * unchanged; the step then does not count. */
#define ET_CURSOR_ENDED (-1)

/* Returns the next batch of the source at a path of names, "pairs/source"; NULL: the data set is
 * one source. Borrowed until the next batch of this source. ET_CURSOR_ENDED; ET_EUSAGE: no such
 * path. */
ET_API int et_source_tree_cursor_next(et_source_tree_cursor *cursor, const char *path,
                                      const et_batch **batch, et_error *error);

/* ---- training ---- */

typedef struct et_standard_trainer et_standard_trainer;

/* Methods in the order of calls; all except train_step are optional. */
typedef struct et_standard_trainer_class {
    const char *name; /* "MyTrainer"; its module is then named "my_trainer" */
    /* Adds state that resumes, besides the data; start sets initial values of a new run:
     * trainer.h. */
    int (*attach)(et_standard_trainer *self, et_state *state, et_error *error);
    int (*start)(et_standard_trainer *self, et_error *error);
    /* An inner loop begins, before data are read: reset metrics here. */
    int (*train_loop_begin)(et_standard_trainer *self, et_error *error);
    int (*train_step)(et_standard_trainer *self, et_source_tree_cursor *cursor, et_error *error);
    /* Adds results of the loop to logs; they may be nested. */
    int (*train_loop_end)(et_standard_trainer *self, et_value *logs, et_error *error);
} et_standard_trainer_class;

/* TensorFlow's options of a loop. They change nothing, but combinations that Orbit refuses are
 * refused. */
typedef struct et_standard_trainer_options {
    bool no_tf_function;           /* use_tf_function=False */
    bool no_tf_while_loop;         /* use_tf_while_loop=False */
    bool tpu_summary_optimization; /* use_tpu_summary_optimization=True */
} et_standard_trainer_options;

struct et_standard_trainer {
    et_trainer trainer; /* for drivers */
    const et_standard_trainer_class *ET_CLASS;
    struct et_standard_data *data; /* internal */
};

/* The caller owns self, or the struct that begins with self, and releases it. options NULL: {0}. */
ET_API int et_standard_trainer_init(et_standard_trainer *self,
                                    const et_standard_trainer_class *class_,
                                    const et_source_tree *train_dataset,
                                    const et_standard_trainer_options *options, et_error *error);
ET_API void et_standard_trainer_release(et_standard_trainer *self);

/* Call between steps. On failure the old data set stays. */
ET_API int et_standard_trainer_set_dataset(et_standard_trainer *self,
                                           const et_source_tree *train_dataset, et_error *error);

/* ---- evaluation ---- */

typedef struct et_standard_evaluator et_standard_evaluator;

/* Methods in the order of calls; all except eval_step are optional. state and outputs belong to the
 * evaluator: each is NULL until a hook sets it. */
typedef struct et_standard_evaluator_class {
    const char *name; /* name of its module, and directory of its logs: "validation" */
    int (*attach)(et_standard_evaluator *self, et_state *state, et_error *error);
    /* Called before data are read. */
    int (*eval_begin)(et_standard_evaluator *self, void **state, et_error *error);
    int (*eval_step)(et_standard_evaluator *self, et_source_tree_cursor *cursor, void **outputs,
                     et_error *error);
    int (*eval_reduce)(et_standard_evaluator *self, void **state, void *outputs, et_error *error);
    /* logs NULL: the evaluation was interrupted or has failed. */
    int (*eval_end)(et_standard_evaluator *self, void *state, et_value *logs, et_error *error);
} et_standard_evaluator_class;

typedef struct et_standard_evaluator_options {
    bool no_tf_function; /* use_tf_function=False: no effect */
    bool tf_while_loop;  /* use_tf_while_loop=True: as in Orbit, refused with all data (-1) */
    bool keep_iterator;  /* recreate_iterator_for_each_eval=False: an evaluation continues where the
                            last one ended; otherwise each begins at the beginning */
} et_standard_evaluator_options;

struct et_standard_evaluator {
    et_evaluator evaluator; /* for drivers */
    const et_standard_evaluator_class *ET_CLASS;
    struct et_standard_data *data; /* internal */
};

ET_API int et_standard_evaluator_init(et_standard_evaluator *self,
                                      const et_standard_evaluator_class *class_,
                                      const et_source_tree *eval_dataset,
                                      const et_standard_evaluator_options *options,
                                      et_error *error);
ET_API void et_standard_evaluator_release(et_standard_evaluator *self);

ET_API int et_standard_evaluator_set_dataset(et_standard_evaluator *self,
                                             const et_source_tree *eval_dataset, et_error *error);

#endif
