#include "tasks/tabular/ensemble/ensemble_private.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/target/target.h"

#define BYTES_MAX ((size_t)16 << 30)

#define FOLD   "fold"
#define LABEL  "label"
#define ROW    "row"
#define TARGET "target"
#define WEIGHT "weight"

static const et_encoded_field *target_of(const et_tabular_task *task)
{
    return et_encoder_field(task->encoder, et_encoder_target(task->encoder));
}

/* ---- writing ---- */

static void print_row(const et_tabular_task *task, const et_validation_rows *rows, int16_t fold,
                      int64_t row, et_value *out)
{
    char where[1024];
    task->table->class->describe(task->table, (uint32_t)row, 0, where, sizeof where);
    et_value_set_string(out, ROW, where);
    et_value_set_int(out, FOLD, fold + 1);
    if (task->target.weight)
        et_value_set_float(out, WEIGHT, rows->weight[row]);
    if (rows->class) {
        const et_encoded_field *field = target_of(task);
        const float *output = rows->output + row * rows->width;
        et_value *list = et_value_set_list(out, ET_TABULAR_SCORES);
        int64_t best = 0;
        for (int64_t i = 0; i < rows->width; i++) {
            et_value_add_float(list, (double)output[i]);
            if (output[i] > output[best])
                best = i;
        }
        et_value_set_string(out, LABEL, field->label[best]);
        et_value_set_string(out, TARGET, field->label[rows->class[row]]);
    } else {
        et_value *list = et_value_set_list(out, task->target.kind->output);
        et_value *targets = et_value_set_list(out, TARGET);
        for (int64_t i = row * rows->width; i < (row + 1) * rows->width; i++)
            et_value_add_float(list, rows->value[i]);
        for (int64_t i = row * rows->targets; i < (row + 1) * rows->targets; i++)
            et_value_add_float(targets, rows->written[i]);
    }
}

int et_fold_rows_write(const et_tabular_task *task, const et_validation_rows *rows,
                       const int16_t *fold, const char *path, et_error *error)
{
    et_assert(task && rows && path && rows->width > 0 &&
              (rows->class ? rows->output != NULL : rows->value && rows->written));
    et_strbuf text = ET_STRBUF_INIT;
    et_arena arena = ET_ARENA_INIT;
    bool failed = false;
    for (int64_t row = 0; row < rows->rows && !failed; row++) {
        if (fold[row] < 0)
            continue;
        et_value *out = et_value_dict(&arena);
        print_row(task, rows, fold[row], row, out);
        failed = et_value_failed(out);
        if (!failed)
            et_json_print(&text, out, 0);
        et_strbuf_append_char(&text, '\n');
        et_arena_release(&arena);
    }
    int status = failed || text.failed
                     ? et_alloc_failed(error, text.length, "predictions of folds")
                     : et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    return status;
}

/* ---- scoring ---- */

/* A list of width finite numbers. */
static bool read_numbers(const et_value *line, const char *key, int64_t width, double *numbers)
{
    const et_value *list = et_value_get(line, key);
    if (!list || list->kind != ET_VALUE_LIST || (int64_t)list->count != width)
        return false;
    for (const et_value *one = list->first; one; one = one->next) {
        if (one->kind != ET_VALUE_FLOAT && one->kind != ET_VALUE_INT)
            return false;
        *numbers++ = one->kind == ET_VALUE_INT ? (double)one->integer : one->real;
    }
    return true;
}

/* To row s->rows. numbers: [width], scratch. */
static bool read_row(const et_tabular_task *task, et_validation_rows *s, const et_value *line,
                     double *numbers)
{
    const int64_t row = s->rows, at = row * s->width;
    const et_encoded_field *field = target_of(task);
    const et_value *target = et_value_get(line, TARGET);
    int32_t class = 0;
    if (et_value_get(line, WEIGHT) && et_value_read_float(line, WEIGHT, &s->weight[row], NULL))
        return false;
    if (!s->class)
        return read_numbers(line, TARGET, s->targets, s->written + row * s->targets) &&
               read_numbers(line, task->target.kind->output, s->width, s->value + at);
    if (!target || target->kind != ET_VALUE_STRING)
        return false;
    while (class < field->classes && strcmp(field->label[class], target->string) != 0)
        class ++;
    s->class[row] = class;
    if (class == field->classes || !read_numbers(line, ET_TABULAR_SCORES, s->width, numbers))
        return false;
    for (int64_t i = 0; i < s->width; i++)
        s->output[at + i] = (float)numbers[i];
    return true;
}

static int read_lines(const et_tabular_task *task, et_validation_rows *s, const char *path,
                      et_error *error)
{
    const int64_t most = s->rows;
    double *numbers = et_alloc_zero((size_t)s->width, sizeof *numbers);
    et_json_lines lines = { .at = NULL };
    et_value *line;
    int status = numbers ? et_json_lines_open(&lines, path, BYTES_MAX, error)
                         : et_alloc_failed(error, (size_t)s->width * sizeof *numbers, "a row");
    s->rows = 0;
    while (!status && !(status = et_json_lines_next(&lines, &line, error)) && line &&
           lines.number <= most) {
        s->weight[s->rows] = 1;
        status = read_row(task, s, line, numbers) ? ET_OK : ET_EFORMAT;
        s->rows += !status;
    }
    if (lines.number > most)
        status = et_fail(error, ET_EFORMAT, "%s has more rows than the training files", path);
    else if (status == ET_EFORMAT && lines.number)
        status = et_fail(error, status,
                         "%s:%lld: no prediction of the target %s; name a file to evaluate", path,
                         (long long)lines.number, target_of(task)->column[0]);
    else if (!status && lines.at < lines.end)
        status = et_fail(error, ET_EFORMAT, "%s:%lld: the last line is not whole", path,
                         (long long)lines.number + 1);
    et_json_lines_close(&lines);
    et_free(numbers);
    return status;
}

int et_tabular_score_out_of_fold(et_tabular_task *task, et_value *logs, et_error *error)
{
    et_assert(task && logs);
    char *path = et_path_join(task->context.model_dir, ET_SERIES_FOLDS);
    int status = path ? read_lines(task, &task->results, path, error)
                      : et_alloc_failed(error, strlen(task->context.model_dir), "a path");
    et_free(path);
    return status ? status : et_tabular_validate(&task->task, 0, logs, error);
}
