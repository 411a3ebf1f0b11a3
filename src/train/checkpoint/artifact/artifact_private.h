/* Functions of artifact_member.c for artifact.c: a directory with one of several models of a run.
 */
#ifndef ETUDE_TRAIN_CHECKPOINT_ARTIFACT_ARTIFACT_PRIVATE_H
#define ETUDE_TRAIN_CHECKPOINT_ARTIFACT_ARTIFACT_PRIVATE_H

#include "train/checkpoint/artifact/artifact.h"

/* *out, in arena: NULL, where the folder has no member.yaml. ET_EFORMAT: the file is damaged. */
int et_artifact_member_read(const et_artifact_member **out, const char *folder, et_arena *arena,
                            et_error *error);

/* Its settings as the text of a run of this model alone (et_free). The best checkpoint is chosen by
 * the value that its kind of task says, not by the run's. */
int et_artifact_member_print(const et_artifact_member *member, char **text, size_t *length,
                             et_error *error);

/* An identity of the run becomes one of this model. Lives in arena. */
int et_artifact_member_identify(const et_artifact_member *member, const et_value **identity,
                                et_arena *arena, et_error *error);

#endif
