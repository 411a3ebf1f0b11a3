/* Predicting rows of a table from a program.
 *
 *     build/examples/predict RUN ROW...                  rows of CSV: "5.1,3.5,1.4,0.2"
 *     build/examples/predict RUN COLUMN=VALUE...         one row, cell by cell
 *
 * RUN is what `etude train` has made, or an export. The model is exported to one file,
 * RUN.safetensors, and read again from memory, as a program does that has a model built in. */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 64 };

static int print_model(const et_predictor *predictor)
{
    const et_table_facts *facts = et_predictor_facts(predictor);
    printf("columns:");
    for (int i = 0; i < et_schema_count(facts->schema); i++) {
        const et_schema_field *field = et_schema_at(facts->schema, i);
        printf(" %s (%s)", field->name, et_schema_type_name(field->type));
    }
    printf("\nlabels:");
    for (int i = 0; i < facts->labels; i++)
        printf(" %s", facts->label[i]);
    printf("\ncheckpoint: %s\n", facts->checkpoint);
    return ET_OK;
}

/* Each row: its label, or what is wrong with it, and the values of each output. */
static void print_rows(const et_predictor *predictor, const et_predictions *found)
{
    const et_table_facts *facts = et_predictor_facts(predictor);
    for (size_t row = 0; row < et_predictions_count(found); row++) {
        const et_prediction one = et_predictions_at(found, row);
        printf("%s", one.failure ? one.failure : one.label ? one.label : "values");
        for (int k = 0; !one.failure && k < facts->outputs; k++) {
            const double *values = et_predictions_values(found, row, k);
            printf(", %s", facts->output[k].name);
            for (int64_t i = 0; i < facts->output[k].width; i++)
                printf(" %.3f", values[i]);
        }
        printf("\n");
    }
}

/* COLUMN=VALUE of the command line: the texts are cut in place. */
static int predict_cells(et_predictor *predictor, char **words, size_t count, et_predictions **out,
                         et_error *error)
{
    et_named_cell cells[COLUMNS_MAX];
    if (count > COLUMNS_MAX)
        return et_fail(error, ET_EUSAGE, "at most %d cells, not %zu", COLUMNS_MAX, count);
    for (size_t i = 0; i < count; i++) {
        char *sign = strchr(words[i], '=');
        if (!sign)
            return et_fail(error, ET_EUSAGE, "%s: no COLUMN=VALUE", words[i]);
        *sign = 0;
        cells[i] = (et_named_cell){ words[i], sign + 1 };
    }
    return et_predictor_predict_cells(predictor, cells, count, 1, out, error);
}

/* What is in a file. The caller frees it; NULL: it cannot be read. */
static void *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    void *bytes = size > 0 ? malloc((size_t)size) : NULL;
    *length = bytes ? fread(bytes, 1, (size_t)size, file) : 0;
    fclose(file);
    return bytes;
}

/* Exports the model to one file, and opens that file's bytes. */
static int open_exported(et_predictor **out, const et_predictor *predictor, const char *run,
                         et_error *error)
{
    char path[1024];
    snprintf(path, sizeof path, "%s.safetensors", run);
    remove(path);
    int status = et_predictor_export(predictor, path, NULL, error);
    if (status)
        return status;

    size_t length;
    void *bytes = read_file(path, &length);
    if (!bytes)
        return et_fail_errno(error, "%s", path);
    status = et_predictor_open_memory(out, bytes, length, NULL, error);
    free(bytes);
    return status ? et_fail_while(error, status, "opening %s", path) : ET_OK;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s RUN ROW...\n       %s RUN COLUMN=VALUE...\n", argv[0], argv[0]);
        return 2;
    }

    et_error error = ET_ERROR_INIT;
    et_log_to_stderr();
    et_predictor *trained, *predictor = NULL;
    et_predictions *found = NULL;
    size_t count = (size_t)argc - 2;
    int status = et_predictor_open(&trained, argv[1], NULL, &error);
    if (!status)
        status = open_exported(&predictor, trained, argv[1], &error);
    et_predictor_close(trained);
    if (!status)
        status = print_model(predictor);

    if (!status && strchr(argv[2], '=')) {
        status = predict_cells(predictor, argv + 2, count, &found, &error);
    } else if (!status) {
        et_predictor_set_lenient(predictor, true); /* a bad row does not end the call */
        status =
            et_predictor_predict(predictor, (const char *const *)argv + 2, count, &found, &error);
    }
    if (!status)
        print_rows(predictor, found);
    else
        fprintf(stderr, "%s\n", error.text);

    et_predictions_free(found);
    et_predictor_close(predictor);
    return status ? 1 : 0;
}
