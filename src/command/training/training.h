/* Trainings as commands run them: with signals, a time limit, and lines on standard error. */
#ifndef ETUDE_COMMAND_TRAINING_TRAINING_H
#define ETUDE_COMMAND_TRAINING_TRAINING_H

#include "command/command.h"
#include "command/training/train_args.h"
#include "systems/training/training.h"

/* Equal trainings of several. */
typedef struct et_dry_run_share {
    const char *name; /* "mlp" */
    int times;
    double seconds; /* of all of them, as measured */
} et_dry_run_share;

/* One training.
 *
 *     et_train_job job = et_train_job_of(call, args);
 *     job.training.experiment = &experiment;       settled (et_train_settle); changes
 *     job.training.arena = &arena;                 of its texts
 *     job.training.model_dir = "runs/a/members/mlp_1";
 *     status = et_train_run(&job, &error);
 */
typedef struct et_train_job {
    et_training_options training; /* options of the command line; the other members are set during
                                     the run */
    const et_train_args *args;
    et_profiling profiling;
    bool quiet;              /* standard error gets only warnings, and the bar if
                                training.counted is set */
    et_reported *reported;   /* with quiet: warnings that were printed; NULL: not known */
    bool among;              /* of several trainings: a stop also returns before the run is open */
    et_dry_run_share *share; /* of a dry run: its model_dir has files; NULL: one training */
    void *follower;          /* argument of training.follow, whose self is the job */
    et_quiet_log log;        /* while it runs */
} et_train_job;

/* Fills a job from the command line, without settings. */
et_train_job et_train_job_of(const et_call *call, const et_train_args *args);

/* Trains a new or an existing run, and prints messages to standard error. ET_EINTERRUPTED: stopped
 * on request, and saved. Signals are handled as soon as the run is open. If job->training.comm is
 * NULL, the function opens the ranks of the environment, and all ranks leave at the end. */
int et_train_run(et_train_job *job, et_error *error);

/* The training of a command line, with the roles of a cluster if wanted (roles.c). TF_CONFIG
 * decides the role of this process; --distributed starts all roles on this machine. Without both,
 * one process or ranks train. */
int et_roles_train(const et_call *call, const et_train_args *args, et_train_settings *settings,
                   et_error *error);

/* `train` where the settings ask for several trainings (systems/modelgarden/series.h): folds, or an
 * experiment that tries several others. *wanted false: the settings ask for a single training, and
 * nothing was done. Also false if the settings are wrong, because an ordinary training then reports
 * the error.
 *
 * Each training is a run below RUN/members and is trained as any run. A candidate whose trainings
 * are done has a line in RUN/members.jsonl. After a kill or Ctrl-C, the same command resumes with
 * the next candidate. --time-limit is the time of all candidates together. Candidates that do not
 * fit are left out, and RUN/members.jsonl names them. */
int et_series_train(const et_call *call, const et_train_args *args, et_train_settings *settings,
                    bool *wanted, et_error *error);

/* Sends SIGALRM to the process at a monotonic time, immediately if the time has passed. ends 0:
 * never. The next training of the process ends the timer. */
void et_train_limit_time(double ends);

/* Prints that a complete run has nothing left to do. */
int et_dry_run_tell_complete(bool json, et_error *error);

/* --mode continuous_train_and_eval: fine-tunes a model from each new checkpoint of another run, to
 * measure the value of pre-training. The other run is in the directory of task.init_checkpoint.
 * Files:
 *
 *   MODEL_DIR/params.yaml         settings of all fine-tuned runs
 *   MODEL_DIR/finetune-2000/      a run that begins with the other run's step 2,000: train_and_eval
 *   MODEL_DIR/metrics-2000.json   values of its last validation
 *   MODEL_DIR/eval/               the same by step, "<name of MODEL_DIR>_<task>/<value>", for
 *                                 programs and TensorBoard (evaluation_log.h)
 *
 * It starts with the oldest checkpoint and ends after the checkpoint of --pretrain-steps, or of the
 * train_steps in the other run's settings. After a kill it resumes within a run. Unlike Model
 * Garden's, it deletes nothing in MODEL_DIR except the checkpoints of finished finetune-N, without
 * their best; logs stay. Waiting ends after trainer.continuous_eval_timeout, with ET_ENOTFOUND if
 * the last step is known. */
int et_finetune(const et_call *call, const et_train_args *args, et_train_settings *settings,
                et_error *error);

#endif
