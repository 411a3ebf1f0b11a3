/* Data for a program's settings, on top of the task's: other texts, encoded in memory with the
 * task's vocabularies and kept until the task is closed. */
#include <etude/settings.h>

#include "base/alloc.h"
#include "tasks/translation/translation_task_private.h"

const et_scored *et_translation_scored(const et_translation_task *task, int64_t number,
                                       int64_t *pair)
{
    const et_validation *v = &task->validation;
    const et_scored *found = NULL;
    for (int i = 0; i < v->count && !found; i++)
        if (number >= v->scored[i].first &&
            number - v->scored[i].first < v->scored[i].encoded->pairs)
            found = &v->scored[i];
    for (const et_other_inputs *o = task->others; o && !found; o = o->next)
        if (o->scored.encoded && number >= o->scored.first &&
            number - o->scored.first < o->scored.encoded->pairs)
            found = &o->scored;
    *pair = found ? number - found->first : -1;
    return found;
}

/* Accepts any state of opening: missing members are NULL. */
void et_translation_close_scored(et_scored *scored)
{
    for (int64_t i = 0; scored->references && i < scored->encoded->pairs; i++)
        et_free(scored->references[i]);
    et_free(scored->references);
    scored->references = NULL;
}

static void close_one(et_other_inputs *other)
{
    et_translation_close_scored(&other->scored);
    et_translation_input_close(&other->input);
    et_arena_release(&other->arena);
    et_free(other);
}

void et_translation_close_inputs(et_translation_task *task)
{
    while (task->others) {
        et_other_inputs *other = task->others;
        task->others = other->next;
        close_one(other);
    }
}

static void forget_texts(et_translation_data *data)
{
    const et_strings none = { NULL, 0 };
    data->source_path = data->target_path = data->tsv_path = data->input_path = none;
    data->mix = data->sets = (et_structs){ NULL, 0 };
}

/* Settings that name a text replace all of the task's. */
static int read_settings(et_other_inputs *other, const et_translation_data *own, const char *text,
                         et_error *error)
{
    et_settings settings = { .table = &et_translation_data_fields,
                             .options = &other->data,
                             .arena = &other->arena };
    other->data = *own;
    forget_texts(&other->data);
    int status = et_settings_override(&settings, text, error);
    if (status || et_translation_has_data(&other->data))
        return status;
    other->data = *own;
    return et_settings_override(&settings, text, error);
}

static int check_settings(const et_translation_data *data, bool training, et_error *error)
{
    const char *name = training ? "train_data" : "validation_data";
    int status = et_translation_check_data(name, data, training, error);
    if (!status && data->sets.count)
        status =
            et_fail(error, ET_ECONFIG, "task.%s.sets: inputs need one text; name its files", name);
    if (!status && !et_translation_has_data(data))
        status = et_fail(error, ET_ECONFIG, "task.%s: no data; name a text in the settings", name);
    return status;
}

static int open_texts(et_translation_task *task, et_other_inputs *other, bool training,
                      et_error *error)
{
    const et_encoded_options filter = et_translation_filter(&other->data, training);
    et_translation_input *input = &other->input;
    int status = et_translation_input_open(input, training ? "train_data" : "validation_data",
                                           &other->data, error);
    for (size_t i = 0; !status && i < input->count; i++)
        status = et_encoded_open(&input->texts[i].encoded, &input->texts[i].paths, task->sides,
                                 &filter, NULL, error);
    if (!status && training)
        return et_translation_input_subwords(input, &other->data, task->sides, error);
    if (status)
        return status;
    other->scored.encoded = input->texts[0].encoded;
    return et_translation_open_scored(task, &other->scored, &input->texts[0].paths, error);
}

static int open_other(et_translation_task *task, const et_data_config *params,
                      et_other_inputs **out, et_error *error)
{
    const et_translation_options *options = &task->options;
    et_other_inputs *other = et_alloc_zero(1, sizeof *other);
    if (!other)
        return et_alloc_failed(error, sizeof *other, "inputs");
    int status =
        read_settings(other, params->training ? &options->train_data : &options->validation_data,
                      params->settings, error);
    if (!status)
        status = check_settings(&other->data, params->training, error);
    if (!status)
        status = open_texts(task, other, params->training, error);
    if (status) {
        close_one(other);
        return status;
    }
    other->next = task->others;
    *out = task->others = other;
    return ET_OK;
}

static int own_inputs(et_translation_task *task, bool training, const et_input_context *part,
                      et_source **out, et_error *error)
{
    const et_translation_options *options = &task->options;
    if (training && !task->training.count)
        return et_fail(error, ET_EUSAGE,
                       "the task was opened to evaluate and has no training data; name data in the "
                       "settings of the inputs");
    if (training)
        return et_translation_training(task, &task->training, &options->train_data, part, out,
                                       error);
    return task->validation.count
               ? et_translation_validation(task, &task->validation.scored[0],
                                           &options->validation_data, part, out, error)
               : ET_OK;
}

int et_translation_build_inputs(et_task *self, const et_data_config *params,
                                const et_input_context *part, et_source **out, et_error *error)
{
    et_translation_task *task = (et_translation_task *)(void *)self;
    et_other_inputs *other = NULL;
    *out = NULL;
    if (!params->settings)
        return own_inputs(task, params->training, part, out, error);
    int status = open_other(task, params, &other, error);
    if (status)
        return status;
    return params->training
               ? et_translation_training(task, &other->input, &other->data, part, out, error)
               : et_translation_validation(task, &other->scored, &other->data, part, out, error);
}
