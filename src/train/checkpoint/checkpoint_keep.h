/* The rule for the checkpoints that a run keeps: the newest N, and of the older ones one for every
 * so many hours forever (<etude/checkpoint.h>). It only edits the manifest; files are deleted
 * elsewhere. */
#ifndef ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_KEEP_H
#define ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_KEEP_H

#include <etude/checkpoint.h>

#include "formats/safetensors/manifest.h"

typedef struct et_checkpoint_keep {
    int64_t newest; /* N, at least 1 */
    double hours;   /* 0: none for good */
    double opened;  /* the time of day when the manager was: hours count from the first such time */
} et_checkpoint_keep;

/* ET_EUSAGE: hours that are none. */
int et_checkpoint_keep_check(const et_checkpoint_options *options, et_error *error);
et_checkpoint_keep et_checkpoint_keep_rule(const et_checkpoint_options *options, double opened);

/* If the manifest was lost, it is unknown which checkpoints are kept forever. Then all beyond the
 * newest N are, because an extra file is better than a lost one. */
void et_checkpoint_keep_found(et_manifest *manifest, const et_checkpoint_keep *keep);

/* Removes transient and old checkpoints; the newest always stays. */
int et_checkpoint_thin_out(et_manifest *manifest, const et_checkpoint_keep *keep, et_error *error);

#endif
