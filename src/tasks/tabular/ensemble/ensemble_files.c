#include "tasks/tabular/ensemble/ensemble_private.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/tensor/params.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/target/target.h"

#define BYTES_MAX ((size_t)16 << 30)

#define FOLD   "fold"
#define LABEL  "label"
#define ROW    "row"
#define TARGET "target"
#define WEIGHT "weight"

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
        const et_encoded_field *field = task->target.field;
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

static int write_fold_rows(const et_tabular_task *task, const et_validation_rows *rows,
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
                     ? et_alloc_failed(error, "predictions of folds")
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
        if (!et_value_is_number(one))
            return false;
        *numbers++ = et_value_number(one);
    }
    return true;
}

/* To row s->rows. numbers: [width], scratch. */
static bool read_row(const et_tabular_task *task, et_validation_rows *s, const et_value *line,
                     double *numbers)
{
    const int64_t row = s->rows, at = row * s->width;
    const et_encoded_field *field = task->target.field;
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
    double *numbers = et_alloc_zero(s->width, sizeof *numbers);
    et_json_lines lines = { .at = NULL };
    et_value *line;
    int status = numbers ? et_json_lines_open(&lines, path, BYTES_MAX, error)
                         : et_alloc_failed(error, "a row");
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
                         (long long)lines.number, task->target.field->column[0]);
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
    int status = read_lines(task, &task->results,
                            et_path_of(task->context.model_dir, ET_SERIES_FOLDS).text, error);
    return status ? status : et_tabular_validate(&task->task, 0, logs, error);
}

/* ---- the model ---- */

/* Whether the model needs a parameter: a pack predicts only with its best weights. */
static bool is_read(const et_tabular_member *member, const et_params *from, int i)
{
    return member->model.type != ET_TABULAR_PACK ||
           strncmp(et_params_name(from, i), ET_PACK_MEMBER "_", strlen(ET_PACK_MEMBER "_")) != 0;
}

/* Declares the parameters of a member, MEMBER/NAME, or copies their values. */
static int add_member(et_selection *s, et_params *to, const et_tabular_member *member,
                      et_params *from, bool copy, et_error *error)
{
    int status = ET_OK, index;
    for (int i = 0; i < et_params_count(from) && !status; i++) {
        const et_init zeros = { ET_INIT_ZEROS, 0 };
        const et_shape shape = et_params_shape(from, i);
        if (!is_read(member, from, i))
            continue;
        const char *name =
            et_arena_printf(&s->arena, "%s/%s", member->name, et_params_name(from, i));
        if (!name)
            return et_alloc_failed(error, "a name");
        if (copy)
            memcpy(et_params_values_of(to, et_params_find(to, name)), et_params_values_of(from, i),
                   et_shape_count(shape) * sizeof(float));
        else if (et_params_is_trained(from, i))
            status = et_params_declare(to, name, shape, zeros, &index, error);
        else
            status = et_params_declare_variable(to, name, shape, zeros, &index, error);
    }
    return status;
}

static int join(et_selection *s, et_params *params, const et_structs *ensemble, int64_t *step,
                et_error *error)
{
    const et_tabular_member *members = ensemble->items;
    int status = ET_OK;
    *step = 0;
    for (size_t i = 0; i < ensemble->count && !status; i++) {
        *step = s->member[i]->step > *step ? s->member[i]->step : *step;
        status = add_member(s, params, &members[i], s->member[i]->params, false, error);
    }
    if (!status)
        status = et_params_materialize(params, false, error);
    for (size_t i = 0; i < ensemble->count && !status; i++)
        status = add_member(s, params, &members[i], s->member[i]->params, true, error);
    return status;
}

static int write_model(et_selection *s, const et_experiment *experiment, et_params *params,
                       et_error *error)
{
    et_assert(experiment->task && params);
    const et_tabular_options *options = experiment->task;
    et_value *identity = NULL;
    et_artifact_content content = { .params = params };
    int status = join(s, params, &options->ensemble, &content.step, error);
    if (!status)
        status = et_experiment_identify(&identity, experiment, et_tabular_identify, &s->task->task,
                                        &s->arena, error);
    content.identity = identity;
    s->run.step = content.step;
    return status ? status
                  : et_artifact_write_weights(
                        &content, et_path_of(s->task->context.model_dir, ET_ARTIFACT_WEIGHTS).text,
                        error);
}

int et_selection_write(et_series_run *run, const et_experiment *experiment, et_error *error)
{
    et_selection *s = (et_selection *)(void *)run;
    et_params *params;
    int status =
        s->folds > 1
            ? write_fold_rows(s->task, &s->result, s->fold,
                              et_path_of(s->task->context.model_dir, ET_SERIES_FOLDS).text, error)
            : ET_OK;
    if (!status)
        status = et_params_new(&params, error);
    if (status)
        return status;
    status = write_model(s, experiment, params, error);
    et_params_free(params);
    return status;
}
