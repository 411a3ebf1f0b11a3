/* A job is a run with other files next to its checkpoints: job.yaml (how it was run), builder.yaml
 * (the class of its builder, with the arguments of this class), schema, metadata and features of
 * the dataset. This module writes and reads them; model_trainer.c makes model/, the export of the
 * job. */
#ifndef ETUDE_TASKS_TABULAR_TENSORFX_JOB_FILES_H
#define ETUDE_TASKS_TABULAR_TENSORFX_JOB_FILES_H

#include <etude/experiment.h>
#include <etude/model_builder.h>

#include "base/arena.h"
#include "data/table/features/encoder.h"

/* What checkpoints of a builder belong to, in arena; whether those in a directory do. ET_ECONFIG:
 * they are of another builder or of rows that are read otherwise. */
int et_builder_identify(et_model_builder *builder, et_value **identity, et_arena *arena,
                        et_error *error);
int et_builder_check_same(const char *directory, const et_value *identity, et_arena *arena,
                          et_error *error);
int et_builder_check_identity(const et_identity *identity, const et_encoder *encoder,
                              et_error *error);

/* Writes job.yaml, schema, metadata, features and builder.yaml. */
int et_builder_write(const et_model_builder *builder, const et_job_config *config,
                     const char *directory, et_error *error);

/* Reads the text of builder.yaml; path is for messages: *kind is given or, if NULL, becomes one of
 * the library's own. ET_ECONFIG: the file is another builder's. */
int et_builder_parse(const et_model_builder_class **kind, et_arguments **arguments,
                     const char *bytes, size_t length, const char *path,
                     const et_model_builder_class *given, et_error *error);

#endif
