/* Tables: a CSV file as training data, and models that predict one of its columns.
 *
 *     et_table *table = NULL;
 *     et_model *model = NULL;
 *     et_fit fit = { .epochs = 20, .verbose = 1 };
 *     if (et_table_open(&table, "people.csv", "income", NULL, &error) ||
 *         et_model_for_table(&model, table, "mlp", NULL, &error) ||
 *         et_model_fit(model, et_table_source(table), &fit, &error) ||
 *         et_model_save(model, "income.safetensors", &error) ||
 *         et_model_predict_csv(model, "new.csv", stdout, &error))
 *         fprintf(stderr, "%s\n", error.text);
 *     et_model_close(model);
 *     et_table_close(table);
 *
 *     et_model *saved;
 *     if (et_model_open_saved(&saved, "income.safetensors", &error)) ...       or "runs/income"
 *
 * Opening a table analyzes it as `etude data analyze` and `etude train` do: types of columns,
 * values that are missing, features. `etude predict`, `etude serve` and <etude/predictor.h> use
 * what such a model saves, and a run of `etude train` can be opened here. One thread. */
#ifndef ETUDE_TABLE_H
#define ETUDE_TABLE_H

#include <etude/model.h>

typedef struct et_table et_table;

/* path: a file, plain or gzip, or a pattern with * or ?. target: the column to predict; NULL: the
 * settings name several, "task.target=[rain, wind]". settings: as after --set of the command,
 * "task.delimiter=;,task.held_out=0.2,task.quantile_levels=[0.1, 0.9]"; NULL: the defaults (15 % of
 * the rows are held out). ET_ENOTFOUND: no such file. ET_EDATA: no such column,
 * or a wrong row. ET_ECONFIG: a wrong setting. Rows are in memory. */
ET_API int et_table_open(et_table **out, const char *path, const char *target, const char *settings,
                         et_error *error);
ET_API void et_table_close(et_table *table); /* NULL allowed; after the trainings on it */

/* The rows to train on, from their beginning, shuffled, without end; borrowed. */
ET_API et_source *et_table_source(et_table *table);

/* name: "linear", "feed_forward", "mlp", "mlp_small", "resnet", "ft_transformer", "realmlp" or
 * "tabm", with the settings of `etude list tabular/NAME`, except task.features: the features are
 * those of the table. settings: changes to them, "task.model.mlp.width=64". NULL: none. Its
 * optimizer, seed and type of activations are settings. ET_ECONFIG: a setting that et_fit has, such
 * as "trainer.train_steps", or that only et_table_open can use, such as "task.features.drop". */
ET_API int et_model_for_table(et_model **out, et_table *table, const char *name,
                              const char *settings, et_error *error);

/* Opens a trained model of tables for prediction: a file of et_model_save, an export, or a run.
 * Training it fails with ET_EUSAGE. */
ET_API int et_model_open_saved(et_model **out, const char *path, et_error *error);

/* Prints a line of JSON for each row of a CSV file, as `etude predict`: the label and the scores of
 * the classes, the values or the quantiles. Columns by their names; the target may be missing. path
 * NULL: standard input. ET_EUSAGE: the model is not of a table, or neither trained nor loaded. */
ET_API int et_model_predict_csv(et_model *model, const char *path, FILE *to, et_error *error);

#endif
