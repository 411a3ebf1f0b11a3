/* A program that answers rows: it reads rows from standard input, one per line, and answers each at
 * once. The answer to a wrong row is a message; the program then continues. It reads the model from
 * memory, as a program with a built-in model would.
 *
 *     cc serving.c -o serving $(pkg-config --cflags --libs etude)
 *     ./serving income.safetensors <rows.csv          rows of CSV: 39,clerk
 *     echo 'job=clerk,age=39' | ./serving runs/income     cells by name, in any order
 *
 * The model is a run of `etude train` on a table, an export, or a file of et_model_save (income.c).
 * The program prints the label of each row with its scores, or the value, and describes the model
 * on standard error. */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_LINE = 1 << 16, COLUMNS_MAX = 256 };

/* ---- opening ---- */

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

/* Exports the model to one file, and opens the bytes of this file. */
static int open_in_memory(et_predictor **out, const et_predictor *trained, et_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "serving-%d.safetensors", (int)getpid());
    int status = et_predictor_export(trained, path, NULL, error);
    if (status)
        return status;

    size_t length;
    void *bytes = read_file(path, &length);
    remove(path);
    if (!bytes)
        return et_fail_errno(error, "%s", path);

    status = et_predictor_open_memory(out, bytes, length, NULL, error);
    free(bytes);
    return status ? et_fail_while(error, status, "opening %s", path) : ET_OK;
}

static void describe(const et_predictor *predictor)
{
    const et_table_facts *facts = et_predictor_facts(predictor);

    fprintf(stderr, "columns:");
    for (int i = 0; i < et_schema_count(facts->schema); i++) {
        const et_schema_field *field = et_schema_at(facts->schema, i);
        fprintf(stderr, " %s (%s)", field->name, et_schema_type_name(field->type));
    }

    fprintf(stderr, "\nlabels:");
    for (int i = 0; i < facts->labels; i++)
        fprintf(stderr, " %s", facts->label[i]);
    fprintf(stderr, "\ncheckpoint: %s\n", facts->checkpoint);
}

/* ---- answering ---- */

/* "age=39,job=clerk": the text is cut in place. */
static int predict_cells(et_predictor *predictor, char *line, et_predictions **out, et_error *error)
{
    et_named_cell cells[COLUMNS_MAX];
    size_t count = 0;

    for (char *word = strtok(line, ","); word; word = strtok(NULL, ",")) {
        char *sign = strchr(word, '=');
        if (!sign || count == COLUMNS_MAX)
            return et_fail(error, ET_EUSAGE, "%s: %s", word,
                           sign ? "too many cells" : "not of the form COLUMN=VALUE");
        *sign = 0;
        cells[count++] = (et_named_cell){ word, sign + 1 };
    }
    return et_predictor_predict_cells(predictor, cells, count, 1, out, error);
}

static void print_answer(const et_predictor *predictor, const et_predictions *found)
{
    const et_table_facts *facts = et_predictor_facts(predictor);
    const et_prediction one = et_predictions_at(found, 0);

    printf("%s", one.failure ? one.failure : one.label ? one.label : "values");
    for (int k = 0; !one.failure && k < facts->outputs; k++) {
        const double *values = et_predictions_values(found, 0, k);
        printf(", %s", facts->output[k].name);
        for (int64_t i = 0; i < facts->output[k].width; i++)
            printf(" %.3f", values[i]);
    }
    printf("\n");
}

static void answer(et_predictor *predictor, char *line)
{
    const char *rows[] = { line };
    et_error error = ET_ERROR_INIT;
    et_predictions *found = NULL;

    int status = strchr(line, '=') ? predict_cells(predictor, line, &found, &error)
                                   : et_predictor_predict(predictor, rows, 1, &found, &error);
    if (status)
        printf("%s\n", error.text);
    else
        print_answer(predictor, found);
    fflush(stdout); /* whoever asked waits for this line */
    et_predictions_free(found);
}

int main(int argc, char **argv)
{
    static char line[LONGEST_LINE];
    et_error error = ET_ERROR_INIT;
    et_predictor *trained = NULL, *predictor = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: %s MODEL\n", argv[0]);
        return 2;
    }
    et_log_to_stderr();

    if (et_predictor_open(&trained, argv[1], NULL, &error) ||
        open_in_memory(&predictor, trained, &error)) {
        fprintf(stderr, "%s\n", error.text);
        et_predictor_close(trained);
        return 1;
    }
    et_predictor_close(trained);

    describe(predictor);
    et_predictor_set_lenient(predictor, true); /* a bad row is an answer, not an error */
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line)
            answer(predictor, line);
    }
    et_predictor_close(predictor);
    return 0;
}
