/* Arguments and model builders, for the library, beyond <etude/arguments.h> and
 * <etude/model_builder.h>. */
#ifndef ETUDE_TASKS_TABULAR_BUILDERS_BUILDERS_H
#define ETUDE_TASKS_TABULAR_BUILDERS_BUILDERS_H

#include <etude/arguments.h>
#include <etude/experiment.h>
#include <etude/model_builder.h>

#include "base/arena.h"
#include "data/table/features/encoder.h"

/* ---- arguments.c ---- */

struct et_argument_parser {
    et_arena arena;   /* of the name */
    const char *name; /* of the program */
    et_option *flags; /* [count], owned; then one row that ends them */
    size_t count, capacity;
};

/* All values, by name, in arena; NULL if no memory is left. */
et_value *et_arguments_echo(const et_arguments *arguments, et_arena *arena);

bool et_arguments_is(const et_arguments *arguments, const et_arguments_class *kind);

/* ---- model_builder.c ---- */

/* The kinds of graph. */
typedef enum et_builder_phase {
    ET_PHASE_TRAINING,
    ET_PHASE_EVALUATION,
    ET_PHASE_PREDICTION,
} et_builder_phase;

/* A store. Earlier stores live as long as the builder, because graphs may use them. */
typedef struct et_builder_store {
    et_params *params;
    struct et_builder_store *before;
} et_builder_store;

/* An interface with its private members. */
typedef struct et_builder_graph {
    et_graph_interface face; /* the first member */
    et_builder_phase phase;
    et_table_set *dataset;         /* the data set of the graph */
    struct et_builder_graph *next; /* of the builder's open ones */
} et_builder_graph;

typedef struct et_model_builder_internals {
    et_model_builder_class methods; /* of the class, or else of the nearest base that has it */
    et_device *device;              /* NULL: not opened yet */
    et_builder_store *store;        /* NULL: none yet */
    et_builder_graph *graphs;
    et_arena arena; /* of layouts of prediction */
    int64_t global_steps;
} et_model_builder_internals;

/* A class with methods, arguments and size of the struct from its bases. */
int et_model_builder_class_resolve(et_model_builder_class *out, const et_model_builder_class *kind,
                                   et_error *error);

/* The device that graphs run on, opened at the first call. */
int et_model_builder_open_device(et_model_builder *builder, et_device **out, et_error *error);

/* Replaces the store by an empty one. */
int et_model_builder_renew(et_model_builder *builder, et_error *error);

/* ---- job_files.c ---- */

/* A job is a run with its own files next to the checkpoints: job.yaml (how it was run),
 * builder.yaml (the class and the arguments of its builder), schema, metadata and features of the
 * dataset. This module writes and reads these files; model_trainer.c makes model/, the export of
 * the job. */

/* identify: the identity of a builder's checkpoints, in arena. check_same, check_identity: check
 * that checkpoints have it. ET_ECONFIG: they are of another builder, or of rows with another
 * encoding. */
int et_builder_identify(et_model_builder *builder, et_value **identity, et_arena *arena,
                        et_error *error);
int et_builder_check_same(const char *directory, const et_value *identity, et_arena *arena,
                          et_error *error);
int et_builder_check_identity(const et_identity *identity, const et_encoder *encoder,
                              et_error *error);

/* Writes job.yaml, schema, metadata, features and builder.yaml. */
int et_builder_write(const et_model_builder *builder, const et_job_config *config,
                     const char *directory, et_error *error);

/* Reads the text of builder.yaml; path is for messages. given: the expected class; NULL: a class of
 * the library, which becomes *kind. ET_ECONFIG: the file belongs to another builder. */
int et_builder_parse(const et_model_builder_class **kind, et_arguments **arguments,
                     const char *bytes, size_t length, const char *path,
                     const et_model_builder_class *given, et_error *error);

#endif
