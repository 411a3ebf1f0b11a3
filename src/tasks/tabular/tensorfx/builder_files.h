/* What a job keeps of its builder beside checkpoints, and finds again: builder.yaml says which
 * class it is, with which arguments of its own; schema, metadata and features are the dataset's. */
#ifndef ETUDE_TASKS_TABULAR_TENSORFX_BUILDER_FILES_H
#define ETUDE_TASKS_TABULAR_TENSORFX_BUILDER_FILES_H

#include <etude/experiment.h>
#include <etude/model_builder.h>
#include <etude/predictor.h>

#include "base/arena.h"
#include "data/table/features/encoder.h"

/* Rows of a dataset's source. */
int et_builder_rows(et_data_set *dataset, const char *source, int64_t *rows, et_error *error);

/* What checkpoints of a builder belong to, in arena; whether those in a directory do. ET_ECONFIG:
 * they are of another builder or of rows that are read otherwise. */
int et_builder_identify(et_model_builder *builder, et_value **identity, et_arena *arena,
                        et_error *error);
int et_builder_check_same(const char *directory, const et_value *identity, et_arena *arena,
                          et_error *error);
int et_builder_check_identity(const et_identity *identity, const et_encoder *encoder,
                              et_error *error);

/* Writes the four files. */
int et_builder_write(const et_model_builder *builder, const char *directory, et_error *error);
/* The fourth, builder.yaml, as path. */
int et_builder_write_class(const et_model_builder *builder, const char *path, et_error *error);
/* Reads such a text, which is path in messages: *kind is given or, where that is NULL, one of the
 * library's own. ET_ECONFIG: it is another builder's. */
int et_builder_parse(const et_model_builder_class **kind, et_arguments **arguments,
                     const char *bytes, size_t length, const char *path,
                     const et_model_builder_class *given, et_error *error);

/* The graph of prediction: what adds its nodes, and the store that it declares into. */
int et_builder_prediction(et_model_builder *builder, et_params **params, et_build_fn **build,
                          void **payload, et_error *error);

/* builder_model.c: OUTPUT/model from what is in OUTPUT, made beside it and put in its place.
 * checkpoint: as et_predictor_options has it. ET_ECONFIG, which the first says before there is
 * anything to export: a file that is none of a model's is in the way. Opening it. */
int et_builder_check_place(const char *output, et_error *error);
int et_builder_export(et_model_builder *builder, const char *output, const char *checkpoint,
                      et_error *error);
int et_builder_open_model(et_predictor **out, const et_model_builder *builder, const char *output,
                          et_error *error);

#endif
