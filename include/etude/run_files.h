/* Files of a run, for other programs: the step of the run, its values as a file, its parameters as
 * a list for people, and removing its checkpoints. To write a run while training, see run.h.
 *
 *     int64_t step;
 *     if (et_run_files_step("runs/a", &step, &error)) ...                    none yet: ET_ENOTFOUND
 *     et_run_files_write_metrics("runs/a", step, logs, &error);       runs/a/metrics-<step>.json
 *     et_run_files_write_params("runs/a/model.txt", params, &error);
 *     et_run_files_write_variables("runs/a/mlp.txt", variables, count, &error);    of a module
 *     int64_t numbers = et_run_files_count_params(params, true);
 *     et_run_files_remove_checkpoints("runs/a", &error);
 *
 * As Model Garden's train_utils. Files are replaced atomically. Any thread may call. */
#ifndef ETUDE_RUN_FILES_H
#define ETUDE_RUN_FILES_H

#include <etude/module.h>
#include <etude/params.h>
#include <etude/value.h>

/* The step of the newest undamaged checkpoint. Works also while the run trains. ET_ENOTFOUND: no
 * checkpoint. */
ET_API int et_run_files_step(const char *model_dir, int64_t *step, et_error *error);

/* Removes all checkpoints of a run except the best. Takes the lock; ET_EBUSY: another process
 * trains in this directory. No checkpoints: no error. If killed halfway, some checkpoints
 * remain. */
ET_API int et_run_files_remove_checkpoints(const char *model_dir, et_error *error);

/* Writes a dict as MODEL_DIR/metrics-<step>.json. Numbers are JSON numbers (Model Garden writes
 * texts); NaN and infinity are null. */
ET_API int et_run_files_write_metrics(const char *model_dir, int64_t step, const et_value *values,
                                      et_error *error);

/* Number of elements of a model; trained_only: without its variables. */
ET_API int64_t et_run_files_count_params(const et_params *params, bool trained_only);

/* Writes a line "name [shape]" for each parameter and variable in order of declaration, an empty
 * line, and "Total params: 1,234". */
ET_API int et_run_files_write_params(const char *path, const et_params *params, et_error *error);

/* The same for variables in their order, such as those of et_module_variables, sorted by name. */
ET_API int et_run_files_write_variables(const char *path, const et_module_variable *variables,
                                        size_t count, et_error *error);

#endif
