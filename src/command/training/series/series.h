/* `train` where the settings ask for several trainings (systems/modelgarden/series.h): folds, or an
 * experiment that tries several others.
 *
 *     status = et_series_train(call, args, &wanted, &error);
 *     return wanted ? status : ...;
 *
 * Each training is a run below RUN/members and is trained as any run. A candidate whose trainings
 * are done has a line in RUN/members.jsonl: a killed command resumes with the next one, and so does
 * the same command after Ctrl-C. With several candidates, --time-limit is the time of all of them:
 * those that do not fit are left out, and that is in the file as well. */
#ifndef ETUDE_COMMAND_TRAINING_SERIES_H
#define ETUDE_COMMAND_TRAINING_SERIES_H

#include "command/training/train_args.h"

/* *wanted: whether the settings ask for several trainings; if not, nothing is done. It is false
 * also if the settings are wrong: an ordinary training then reports the error. */
int et_series_train(const et_call *call, const et_train_args *args, bool *wanted, et_error *error);

#endif
