/* Model trainers (TensorFX's ModelTrainer). A trainer runs a builder's graphs until the job's steps
 * are done, saves, evaluates, and opens the trained model.
 *
 *     et_training_job job = { .output = "jobs/iris" };
 *     if (et_model_trainer_new(&trainer, NULL, &error)) ...           configured by TF_CONFIG
 *     if (et_model_trainer_train(trainer, &builder, &job, &predictor, &error)) ...
 *     et_predictor_close(predictor);
 *     et_model_trainer_free(trainer);
 *
 * The directory of a job:
 *
 *   job.yaml                     configuration and arguments
 *   checkpoints/                 for resuming after a kill, or with more steps
 *   summaries/train, validation  event files for TensorBoard
 *   model/                       for et_predictor_open; replaced when a job ends
 *
 * The trained model has the weights of the best evaluation. If evaluations are equal, the lower
 * loss decides, then the later evaluation. Without a source "eval" the model has the weights of
 * the last step.
 *
 * Use from one thread. */
#ifndef ETUDE_MODEL_TRAINER_H
#define ETUDE_MODEL_TRAINER_H

#include <signal.h>

#include <etude/model_builder.h>
#include <etude/predictor.h>

typedef struct et_model_trainer et_model_trainer;

/* TensorFX's job_args, and more members for Etude. */
typedef struct et_training_job {
    const char *output;   /* the job's directory; NULL: the arguments' --output or --job-dir */
    et_table_set *inputs; /* NULL: the builder's dataset */
    void *listener;       /* lines about the job are sent by tell(listener, line); in a cluster they
                             begin "worker:0: " */
    void (*tell)(void *listener, const char *line); /* NULL: lines go to the log, as information */
    const volatile sig_atomic_t *stop;              /* not 0: save the job and end; NULL: never */
} et_training_job;

/* config: borrowed, outlives the trainer; NULL: the trainer owns the result of
 * et_job_config_environment. */
ET_API int et_model_trainer_new(et_model_trainer **out, const et_job_config *config,
                                et_error *error);
ET_API void et_model_trainer_free(et_model_trainer *trainer); /* NULL allowed */
ET_API const et_job_config *et_model_trainer_config(const et_model_trainer *trainer);

/* Trains up to max_steps of the builder's arguments, or their epochs, and opens the trained model.
 * *out is yours to close, before the builder is released. With the same directory again, a job
 * resumes; a finished job opens its model at once. In a cluster every task calls this function with
 * the same arguments. The master trains as described here. On workers and parameter servers the
 * call returns when the master is done, with *out NULL.
 * - ET_EINTERRUPTED: asked to stop, saved. ET_EDIVERGED: a loss is NaN or infinite.
 * - ET_ECONFIG: the directory has the job of another builder or of rows that are read differently,
 *   or model/ has a file that does not belong to a model.
 * - ET_EIO: another process of the cluster is lost; saved checkpoints remain. */
ET_API int et_model_trainer_train(et_model_trainer *trainer, et_model_builder *builder,
                                  const et_training_job *job, et_predictor **out, et_error *error);

#endif
