/* What the files that say what a table is are called: in a run, in an export, in a job's output,
 * and where `data` writes those that it has inferred. */
#ifndef ETUDE_TASKS_TABULAR_TABLE_NAMES_H
#define ETUDE_TASKS_TABULAR_TABLE_NAMES_H

#define ET_TABLE_SCHEMA   "schema.yaml"
#define ET_TABLE_METADATA "metadata.json"
#define ET_TABLE_FEATURES "features.yaml"

#endif
