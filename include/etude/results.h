/* Results of a program in a directory (as TFSnippet's MLResults): its settings, and values that it
 * notes while it runs. To read the settings from the command line, use et_fields_flags.
 *
 *     settings s, defaults;
 *     et_fields_defaults(&table, &s);
 *     et_fields_defaults(&table, &defaults);
 *     et_fields_flags(&table, &s, "mnist", &argc, argv, arena, &error);     --mnist.rate=0.1
 *     et_results_open(&results, NULL, "mnist", &error);
 *     et_results_save_config(results, &table, &s, &defaults, &error);
 *     et_results_set(results, "accuracy", 0.984, &error);
 *     et_results_update(results, values, &error);
 *     et_results_make_directory(results, "images", &error);
 *     printf("%s:\n%s", et_results_directory(results), et_results_format(results, arena));
 *     const et_value *accuracy = et_value_get(et_results_values(results), "accuracy");
 *     et_results_close(results);
 *
 * The files config.json, config.defaults.json and result.json are complete at any time. Use from
 * one thread. */
#ifndef ETUDE_RESULTS_H
#define ETUDE_RESULTS_H

#include <etude/fields.h>

typedef struct et_results et_results;

/* Makes the directory and its parents. directory NULL: "results/NAME", with name the program's
 * name; or the working directory if MLSTORAGE_EXPERIMENT_ID is set, because the launcher then gave
 * the program a directory. Values of an existing result.json stay, so a resumed run adds to them.
 * ET_EFORMAT: the file is damaged. */
ET_API int et_results_open(et_results **out, const char *directory, const char *name,
                           et_error *error);
ET_API void et_results_close(et_results *results); /* NULL allowed */
ET_API const char *et_results_directory(const et_results *results);

/* Writes config.json with the members that differ from defaults, and config.defaults.json with all
 * members of defaults. defaults: the struct after et_fields_defaults. */
ET_API int et_results_save_config(et_results *results, const et_fields *table, const void *options,
                                  const void *defaults, et_error *error);

/* Adds or replaces values, dict by dict, and writes result.json durably. Numbers that are not
 * finite become null in the file. */
ET_API int et_results_update(et_results *results, const et_value *values, et_error *error);
ET_API int et_results_set(et_results *results, const char *name, double value, et_error *error);
ET_API const et_value *et_results_values(const et_results *results); /* until the next change */

/* A table for people, in arena: one line per value, by name. Numbers have 6 digits, other values
 * are as in JSON. NULL: no memory. */
ET_API const char *et_results_format(const et_results *results, et_arena *arena);

/* Makes a directory in the results directory, with its parents, for files of the program. */
ET_API int et_results_make_directory(et_results *results, const char *name, et_error *error);

#endif
