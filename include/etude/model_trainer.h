/* Model trainers: TensorFX's ModelTrainer. It runs a builder's graphs until the job's steps are
 * done, saves, evaluates, and gives the trained model.
 *
 *     et_training_job job = { .output = "jobs/iris" };
 *     if (et_model_trainer_new(&trainer, NULL, &error)) ...           as TF_CONFIG says
 *     if (et_model_trainer_train(trainer, &builder, &job, &predictor, &error)) ...
 *     et_predictor_close(predictor);
 *     et_model_trainer_free(trainer);
 *
 * A job's directory:
 *
 *   job.yaml                     configuration and arguments
 *   checkpoints/                 by which a job that is killed, or whose steps were raised, resumes
 *   summaries/train, validation  event files for TensorBoard
 *   model/                       what et_predictor_open opens; replaced whole at a job's end
 *
 * The model is of the best evaluation (of equal ones that with the lower loss, then the first) or,
 * without a source "eval", of the last step.
 *
 * One thread. */
#ifndef ETUDE_MODEL_TRAINER_H
#define ETUDE_MODEL_TRAINER_H

#include <signal.h>

#include <etude/model_builder.h>
#include <etude/predictor.h>

typedef struct et_model_trainer et_model_trainer;

/* TensorFX's job_args, and what of later versions is beside them. */
typedef struct et_training_job {
    const char *output;  /* the directory; NULL: the arguments' --output or --job-dir */
    et_data_set *inputs; /* NULL: the builder's dataset */
    void *listener;      /* lines about the job go to tell(listener, line);
                            of a cluster they begin "worker:0: " */
    void (*tell)(void *listener, const char *line); /* NULL: to the log, as information */
    const volatile sig_atomic_t *stop; /* not 0: the job is saved and ends; NULL: never */
} et_training_job;

/* config: copied pointer, outlives the trainer; NULL: et_job_config_environment, which it owns. */
ET_API int et_model_trainer_new(et_model_trainer **out, const et_job_config *config,
                                et_error *error);
ET_API void et_model_trainer_free(et_model_trainer *trainer); /* NULL allowed */
ET_API const et_job_config *et_model_trainer_config(const et_model_trainer *trainer);

/* Trains up to max_steps of the builder's arguments, or for so many epochs, and opens what was
 * trained: *out is yours to close, before the builder is released. The same directory may be used
 * again: the job resumes where it was, and one that is done opens its model at once. Of a cluster
 * every task calls it with the same arguments: the master does what is said here; of a worker and a
 * parameter server it returns once the master is done, and *out is NULL. ET_EINTERRUPTED: asked to
 * stop, saved. ET_EDIVERGED: a loss that is no number. ET_ECONFIG: the directory has the job of
 * another builder or of rows that are read otherwise, or a file that is none of a model's in
 * model/. ET_EIO: others of the cluster are lost; what was saved is there. */
ET_API int et_model_trainer_train(et_model_trainer *trainer, et_model_builder *builder,
                                  const et_training_job *job, et_predictor **out, et_error *error);

#endif
