/* Files in the directories of a run that are not the run's work: checkpoints that it does not
 * resume, or the best one of those. They are moved aside before the run writes there
 * (base/files/aside.h). */
#ifndef ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_ASIDE_H
#define ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_ASIDE_H

#include <stdint.h>

#include "formats/safetensors/manifest.h"

/* Moves aside the checkpoints after step `line` (-1: all), except those that this process has
 * written. Checkpoints up to `line` are the run's. The manifest's next commit drops the names of
 * the others. */
int et_checkpoints_set_aside(et_manifest *manifest, const char *directory, int64_t line,
                             et_error *error);

/* Moves aside everything in best/, if there is a best checkpoint. */
int et_checkpoint_set_best_aside(const char *best_directory, et_error *error);

/* The step of the entry with the file at path; -1: no such entry. */
int64_t et_checkpoint_step_at(const et_manifest *manifest, const char *directory, const char *path);

#endif
