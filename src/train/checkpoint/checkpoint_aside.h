/* Files in the directories of a run that are not the run's work: checkpoints that it does not
 * resume, or the best one of those. They are moved aside before the run writes there
 * (base/files/aside.h). */
#ifndef ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_ASIDE_H
#define ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_ASIDE_H

#include <stdint.h>

#include "formats/safetensors/manifest.h"

/* Checkpoints after step `line`, up to which they are the run's (-1: none is), but for those that
 * this process has written. They leave with the manifest's next commit. */
int et_checkpoints_set_aside(et_manifest *manifest, const char *directory, int64_t line,
                             et_error *error);

/* All of best/, if it has a best one. */
int et_checkpoint_set_best_aside(const char *best_directory, et_error *error);

/* The step of the entry that is the file at path; -1: none is. */
int64_t et_checkpoint_step_at(const et_manifest *manifest, const char *directory, const char *path);

#endif
