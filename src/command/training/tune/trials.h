/* A trial: a run that `train` makes in a process of its own, by its own command line.
 *
 *     et_trial trial = { .model_dir = "runs/tune/rung-1/trial-01", .argc = 3, .argv = words };
 *     bool child;
 *     int status = et_trial_run(&trial, call->program, &child, &error);
 *     if (child)
 *         return status;                         in the new process, whose work is done
 *
 * A trial that is done is not run again; one that was interrupted or killed is resumed. */
#ifndef ETUDE_COMMAND_TRAINING_TUNE_TRIALS_H
#define ETUDE_COMMAND_TRAINING_TUNE_TRIALS_H

#include <etude/command.h>

typedef enum et_trial_end {
    ET_TRIAL_DONE,
    ET_TRIAL_FAILED,  /* also: diverged */
    ET_TRIAL_STOPPED, /* saved, because of a signal or of a time limit */
    ET_TRIAL_LOST,    /* killed, or the disk was full: its settings are not the reason */
} et_trial_end;

typedef struct et_trial {
    const char *model_dir;
    int argc; /* of train: argv has model_dir, too */
    char **argv;
    const char *messages; /* file for what the process prints, replaced */
    /* results, once it has ended */
    et_trial_end end;
    bool asked;       /* a signal asked this process to stop */
    int code;         /* exit code of FAILED and LOST; below 0: a signal */
    char reason[400]; /* the same */
    char metric[200]; /* that chooses the best checkpoint */
    bool lower;       /* is better */
    double value;     /* the best one; if the run keeps no best checkpoint, the last one */
    int64_t step;     /* of this value */
    double seconds;   /* of the run's work in all sessions */
} et_trial;

/* ET_EDATA: the run is done, but has no validation. */
int et_trial_run(et_trial *trial, const et_program *program, bool *child, et_error *error);

/* Seconds that a run has worked so far; 0: there is none. */
double et_trial_seconds(const char *model_dir);

#endif
