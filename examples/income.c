/* Trains a model that predicts a column of a CSV file from the other columns, evaluates it, saves
 * it, and predicts other rows.
 *
 *     cc income.c -o income $(pkg-config --cflags --libs etude)
 *     ./income people.csv income new.csv
 *
 * writes income.safetensors, and prints a line of JSON for each row of new.csv. `etude predict
 * income.safetensors new.csv` reads the model, too. */
#include <stdio.h>

#include <etude/etude.h>

/* What the held-out rows say. */
static int judge(et_model *model, et_error *error)
{
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    int status = et_model_evaluate_source(model, NULL, logs, error);
    for (const et_value *v = status ? NULL : logs->first; v; v = v->next)
        if (v->kind == ET_VALUE_FLOAT)
            fprintf(stderr, "%s %.3f\n", v->key, v->real);
    et_arena_free(arena);
    return status;
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    et_table *table = NULL;
    et_model *model = NULL;
    const et_fit fit = { .epochs = 20, .verbose = ET_FIT_LINES };

    if (argc != 4) {
        fprintf(stderr, "usage: %s TABLE COLUMN ROWS\n", argv[0]);
        return 2;
    }
    et_log_to_stderr();
    if (et_table_open(&table, argv[1], argv[2], NULL, &error) ||
        et_model_for_table(&model, table, "mlp", NULL, &error) ||
        et_model_fit(model, et_table_source(table), &fit, &error) || judge(model, &error) ||
        et_model_save(model, "income.safetensors", &error) ||
        et_model_predict_csv(model, argv[3], stdout, &error))
        fprintf(stderr, "%s\n", error.text);
    et_model_close(model);
    et_table_close(table);
    return error.status != 0;
}
