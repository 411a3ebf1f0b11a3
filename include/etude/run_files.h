/* Files of a run, for programs around it: which step it has reached, its values as a file for other
 * programs, its parameters as a list for people; and removing its checkpoints to begin anew. What
 * keeps them while it trains is run.h.
 *
 *     int64_t step;
 *     if (et_run_files_step("runs/a", &step, &error)) ...                    none yet: ET_ENOTFOUND
 *     et_run_files_write_metrics("runs/a", step, logs, &error);       runs/a/metrics-<step>.json
 *     et_run_files_write_params("runs/a/model.txt", params, &error);
 *     int64_t numbers = et_run_files_count_params(params, true);
 *     et_run_files_remove_checkpoints("runs/a", &error);
 *
 * Model Garden's train_utils. Files are replaced whole. Any thread. */
#ifndef ETUDE_RUN_FILES_H
#define ETUDE_RUN_FILES_H

#include <etude/params.h>
#include <etude/value.h>

/* The step of the newest sound checkpoint. Reads beside a run that trains. ET_ENOTFOUND: there is
 * none. */
ET_API int et_run_files_step(const char *model_dir, int64_t *step, et_error *error);

/* Removes all checkpoints of a run but the best one. Takes the lock: ET_EBUSY while another process
 * trains there. A directory without any is fine. Killed half-way it leaves some. */
ET_API int et_run_files_remove_checkpoints(const char *model_dir, et_error *error);

/* Writes a dict as MODEL_DIR/metrics-<step>.json. Numbers are numbers (Model Garden writes texts);
 * those that JSON has not are null. */
ET_API int et_run_files_write_metrics(const char *model_dir, int64_t step, const et_value *values,
                                      et_error *error);

/* How many numbers a model has; trained_only: without its variables. */
ET_API int64_t et_run_files_count_params(const et_params *params, bool trained_only);

/* Writes a line "name [shape]" for each parameter and variable, an empty one, and
 * "Total params: 1,234". */
ET_API int et_run_files_write_params(const char *path, const et_params *params, et_error *error);

#endif
