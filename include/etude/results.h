/* Results of a program in a directory (as TFSnippet's MLResults): the settings that it ran with,
 * and values that are noted while it runs. Settings may come from its command line:
 * et_fields_flags.
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
 * Files are whole at any time: config.json and config.defaults.json, result.json. One thread. */
#ifndef ETUDE_RESULTS_H
#define ETUDE_RESULTS_H

#include <etude/fields.h>

typedef struct et_results et_results;

/* Makes the directory and those above. NULL: "results/NAME", name being the program's; or the
 * working directory, where MLSTORAGE_EXPERIMENT_ID is set, as by those who started the program in
 * one of its own. Values of a result.json that is there stay, so a run that resumes adds to it.
 * ET_EFORMAT: it is damaged. */
ET_API int et_results_open(et_results **out, const char *directory, const char *name,
                           et_error *error);
ET_API void et_results_close(et_results *results); /* NULL allowed */
ET_API const char *et_results_directory(const et_results *results);

/* Writes config.json, the members that are not as in defaults, and config.defaults.json, all of
 * those. defaults is such a struct as et_fields_defaults has left it. */
ET_API int et_results_save_config(et_results *results, const et_fields *table, const void *options,
                                  const void *defaults, et_error *error);

/* Adds values, dict by dict, or replaces them, and writes result.json anew, durably. A number that
 * is not finite is null in it. */
ET_API int et_results_update(et_results *results, const et_value *values, et_error *error);
ET_API int et_results_set(et_results *results, const char *name, double value, et_error *error);
ET_API const et_value *et_results_values(const et_results *results); /* until the next of those */

/* A table for people, in arena: a line for each value, by name, numbers with 6 digits, what is not
 * a number as in JSON. NULL: no memory. */
ET_API const char *et_results_format(const et_results *results, et_arena *arena);

/* Makes a directory in it, and those above: for what a program writes itself. */
ET_API int et_results_make_directory(et_results *results, const char *name, et_error *error);

#endif
