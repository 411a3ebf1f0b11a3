/* Validation beside the loss: what the model gave for each row is kept, batch by batch, and scored
 * as a whole when all rows are there. A validation of some batches scores those. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/number.h"
#include "io/log_names.h"
#include "tasks/tabular/task_private.h"

int et_tabular_open_seen(et_tabular_task *task, et_error *error)
{
    et_tabular_seen *s = &task->seen;
    for (int i = 0; i < task->validations; i++)
        s->rows = task->validation[i]->count > s->rows ? task->validation[i]->count : s->rows;
    if (!s->rows)
        return ET_OK;
    s->width = task->target.values ? task->target.values : task->target.classes;
    size_t rows = (size_t)s->rows, cells = rows * (size_t)s->width;
    s->weight = et_alloc_zero(rows, sizeof *s->weight);
    if (task->target.classes) {
        s->output = et_alloc_zero(cells, sizeof *s->output);
        s->class = et_alloc_zero(rows, sizeof *s->class);
    } else {
        s->value = et_alloc_zero(cells, sizeof *s->value);
        s->written = et_alloc_zero(cells, sizeof *s->written);
    }
    bool whole =
        s->weight && (task->target.classes ? s->output && s->class : s->value && s->written);
    return whole ? ET_OK : et_alloc_failed(error, cells * sizeof *s->value, "validation");
}

void et_tabular_close_seen(et_tabular_seen *seen)
{
    et_free(seen->output);
    et_free(seen->weight);
    et_free(seen->class);
    et_free(seen->value);
    et_free(seen->written);
}

bool et_tabular_kept(et_task *self, int number, et_kept_rows *rows)
{
    const et_tabular_seen *s = &((et_tabular_task *)(void *)self)->seen;
    const size_t width = (size_t)s->width;
    const et_kept_rows all[] = {
        { s->weight, s->rows, sizeof *s->weight },
        s->class ? (et_kept_rows){ s->output, s->rows, width * sizeof *s->output }
                 : (et_kept_rows){ s->value, s->rows, width * sizeof *s->value },
        s->class ? (et_kept_rows){ s->class, s->rows, sizeof *s->class }
                 : (et_kept_rows){ s->written, s->rows, width * sizeof *s->written },
    };
    if ((size_t)number >= sizeof all / sizeof *all)
        return false;
    *rows = all[number];
    return true;
}

static void keep_class(et_tabular_task *task, const et_batch *batch, const float *output)
{
    et_tabular_seen *s = &task->seen;
    const int32_t *class = batch->data[et_layout_find(batch->layout, task->target.field)];
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        const size_t row = batch->sample[i];
        s->class[row] = class[i];
        memcpy(s->output + row * (size_t)s->width, output + i * s->width,
               (size_t)s->width * sizeof *output);
    }
}

/* In doubles, as the file has them; of an encoder that is not exact they are those of a float32. */
static void keep_values(et_tabular_task *task, const et_batch *batch, const float *output)
{
    et_tabular_seen *s = &task->seen;
    const int exact = et_encoder_written(task->encoder);
    const float *value = batch->data[et_layout_find(batch->layout, task->target.field)];
    const void *written =
        exact < 0 ? NULL
                  : batch->data[et_layout_find(batch->layout,
                                               et_encoder_field(task->encoder, exact)->name)];
    for (int64_t k = 0; k < s->width; k++) {
        const et_target_unit unit = et_encoder_unit(task->encoder, k);
        for (int64_t i = 0; i < batch->filled[0]; i++) {
            const size_t at = batch->sample[i] * (size_t)s->width + (size_t)k;
            const int64_t from = i * s->width + k;
            s->value[at] = unit.offset + unit.scale * (double)output[from];
            s->written[at] = written ? et_encoded_written(written, from) : (double)value[from];
        }
    }
}

static void keep(et_tabular_task *task, const et_batch *batch, const float *output)
{
    et_tabular_seen *s = &task->seen;
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        et_assert((int64_t)batch->sample[i] < s->rows);
        s->weight[batch->sample[i]] = 1;
    }
    if (s->class)
        keep_class(task, batch, output);
    else
        keep_values(task, batch, output);
}

int et_tabular_process_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    et_tabular_task *task = (et_tabular_task *)(void *)self;
    const char *name = task->target.values ? ET_TABULAR_VALUES : ET_TABULAR_SCORES;
    (void)error;
    if (now->optimizer)
        return ET_OK;
    et_tensor output = et_pass_output(now->model, name);
    et_assert(output.data && output.dtype == ET_F32 && output.shape.size[1] == task->seen.width);
    keep(task, now->inputs, output.data);
    return ET_OK;
}

/* Whether a label is a word, in letters of either case. */
static bool is_word(const char *label, const char *word)
{
    for (; *word && (*label | 32) == *word; word++)
        label++;
    return !*word && !*label;
}

/* Entries stand by how frequent they are; what is asked for is a yes, or the larger number. */
static bool is_asked_for(const char *label, const char *other)
{
    static const char *const words[] = { "true", "yes", "y", "t", "positive", "pos", NULL };
    double number, second;
    if (et_number_is(et_number_parse(&number, label, strlen(label))) &&
        et_number_is(et_number_parse(&second, other, strlen(other))))
        return number > second;
    for (int i = 0; words[i]; i++)
        if (is_word(label, words[i]))
            return true;
    return false;
}

int et_tabular_asked_for(const et_tabular_task *task)
{
    const et_encoded_field *field =
        et_encoder_field(task->encoder, et_encoder_target(task->encoder));
    return field->classes != 2 || !is_asked_for(field->label[0], field->label[1]);
}

static int score_classes(const et_tabular_task *task, et_value *logs, et_error *error)
{
    const et_tabular_seen *s = &task->seen;
    et_class_predictions predictions = { .count = s->rows,
                                         .classes = s->width,
                                         .probability = s->output,
                                         .target = s->class,
                                         .weight = s->weight,
                                         .bins = task->options.calibration_bins,
                                         .first = !et_tabular_asked_for(task) };
    et_class_scores scores;
    int status = et_class_scores_compute(&scores, NULL, &predictions, error);
    if (!status)
        status = et_class_scores_log(&scores, ET_LOGGED_OF_VALIDATION, logs, error);
    if (!status && !et_value_set_float(logs, ET_TABULAR_LIKELIHOOD, -scores.log_loss))
        status = et_alloc_failed(error, 0, "scores");
    return status;
}

static int score_values(const et_tabular_task *task, et_value *logs, et_error *error)
{
    const et_tabular_seen *s = &task->seen;
    et_value_predictions predictions = { .count = s->rows,
                                         .targets = s->width,
                                         .wide_value = s->value,
                                         .wide_target = s->written,
                                         .weight = s->weight };
    et_value_scores scores;
    int status = et_value_scores_compute(&scores, &predictions, error);
    return status ? status : et_value_scores_log(&scores, ET_LOGGED_OF_VALIDATION, logs, error);
}

int et_tabular_validate(et_task *self, int64_t step, et_value *logs, et_error *error)
{
    const et_tabular_task *task = (const et_tabular_task *)(const void *)self;
    (void)step;
    return task->target.values ? score_values(task, logs, error) : score_classes(task, logs, error);
}
