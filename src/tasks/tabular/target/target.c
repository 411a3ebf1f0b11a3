/* Finds the target by features and settings, and its unit. */
#include "tasks/tabular/target/target.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/values/value.h"

static int find_weight(et_tabular_target *target, const et_tabular_options *options,
                       const et_encoder *encoder, et_error *error)
{
    const int index = et_encoder_weight(encoder);
    const et_encoded_field *field = index < 0 ? NULL : et_encoder_field(encoder, index);
    const char *wanted = options->weight && *options->weight ? options->weight : NULL;
    target->weight = field ? field->name : NULL;
    if (wanted && !field)
        return et_fail(error, ET_ECONFIG,
                       "task.weight is %s, but the features have no weight: add {name: W, type: "
                       "weight, fields: %s}",
                       wanted, wanted);
    if (wanted && strcmp(wanted, field->column[0]) != 0)
        return et_fail(error, ET_ECONFIG,
                       "task.weight is %s, but the weight in the features is %s; name one column",
                       wanted, field->column[0]);
    return ET_OK;
}

/* Checks that the targets of the features are those of the settings, in any order. */
static int check_names(const et_tabular_options *options, const et_encoded_field *field,
                       et_error *error)
{
    const int64_t count = field->kind == ET_ENCODED_CLASS ? 1 : field->width;
    const et_strings *wanted = &options->target;
    if (wanted->count && wanted->count != (size_t)count)
        return et_fail(error, ET_ECONFIG,
                       "task.target names %s, but the target in the features has %lld; name the "
                       "same columns",
                       et_format_many((int64_t)wanted->count, "column").text, (long long)count);
    for (size_t i = 0; i < wanted->count; i++) {
        int64_t k = 0;
        while (k < count && strcmp(wanted->items[i], field->column[k]) != 0)
            k++;
        if (k == count)
            return et_fail(error, ET_ECONFIG,
                           "task.target is %s, but the target in the features is %s%s; name %s",
                           wanted->items[i], field->column[0], count > 1 ? ", ..." : "",
                           count > 1 ? "the same columns" : "one column");
    }
    return ET_OK;
}

/* Checks that the loss is one of this kind of target. */
static int check_loss(const et_tabular_target *target, const et_tabular_options *options,
                      const et_encoded_field *field, et_error *error)
{
    const int loss = options->loss;
    if (loss == ET_TABULAR_LOSS_BINARY && target->classes && field->classes != 2)
        return et_fail(error, ET_ECONFIG,
                       "task.loss: binary needs two classes, but %s has %d; choose softmax",
                       field->column[0], field->classes);
    if (loss == ET_TABULAR_LOSS_SOFTMAX && target->labels)
        return et_fail(error, ET_ECONFIG,
                       "task.loss: softmax is for one target, and there are %d; choose binary, or "
                       "auto",
                       target->labels);
    if (loss != ET_TABULAR_LOSS_AUTO && !target->values != (loss <= ET_TABULAR_LOSS_BINARY))
        return et_fail(error, ET_ECONFIG, "task.loss: the target %s %s; choose %s, or auto",
                       field->column[0], target->values ? "is a number" : "has classes",
                       target->values    ? "squared, absolute or huber"
                       : target->classes ? "softmax or binary"
                                         : "binary");
    return ET_OK;
}

/* Checks settings that only some kinds of target have. */
static int check_settings(const et_tabular_target *target, const et_tabular_options *options,
                          const et_encoded_field *field, et_error *error)
{
    const char *of_classes = options->label_smoothing > 0   ? "label_smoothing"
                             : options->class_weights.count ? "class_weights"
                             : options->calibration_bins != ET_TABULAR_CALIBRATION_BINS
                                 ? "calibration_bins"
                                 : NULL;
    if (target->values && of_classes)
        return et_fail(error, ET_ECONFIG,
                       "task.%s: the target %s is a number, not a class; leave this setting out",
                       of_classes, field->column[0]);
    if (target->labels && options->class_weights.count)
        return et_fail(error, ET_ECONFIG,
                       "task.class_weights: weights are of the classes of one target, and there "
                       "are %d; leave this setting out",
                       target->labels);
    if (target->quantiles && target->values != 1)
        return et_fail(error, ET_ECONFIG,
                       "task.quantile_levels: quantiles are of one target that is a number, but "
                       "the target %s %s; leave this setting out",
                       field->column[0], target->values ? "has several columns" : "has classes");
    if (options->model.type == ET_TABULAR_PACK && !options->ensemble.count &&
        !et_pack_learns((size_t)target->labels, (size_t)target->quantiles))
        return et_fail(error, ET_ECONFIG,
                       "a pack (task.model.type: pack) cannot learn %s yet; choose another model, "
                       "such as tabular/realmlp",
                       target->labels ? "several targets of two classes" : "quantiles");
    return ET_OK;
}

int et_tabular_target_of(et_tabular_target *target, const et_tabular_options *options,
                         const et_encoder *encoder, et_error *error)
{
    et_assert(target && options && encoder);
    const int index = et_encoder_target(encoder);
    const char *key[2];
    int targets = 0;
    if (et_encoder_key(encoder, 0, &key[0]) >= 0 && et_encoder_key(encoder, 1, &key[1]) >= 0)
        return et_fail(error, ET_ECONFIG, "the features %s and %s are both keys; keep one", key[0],
                       key[1]);
    for (int f = 0; f < et_encoder_fields(encoder); f++)
        targets += et_encoded_is_target(et_encoder_field(encoder, f)->kind);
    if (index < 0 || targets != 1)
        return et_fail(error, ET_ECONFIG, "the features have %d targets; keep one", targets);
    const et_encoded_field *field = et_encoder_field(encoder, index);
    *target = (et_tabular_target){
        .field = field->name,
        .classes = field->kind == ET_ENCODED_CLASS ? field->classes : 0,
        .labels = field->kind == ET_ENCODED_LABELS ? (int)field->width : 0,
        .values = field->kind == ET_ENCODED_VALUES ? field->width : 0,
    };
    int status = check_names(options, field, error);
    if (!status)
        status =
            et_tabular_levels(target->level, &target->quantiles, &options->quantile_levels, error);
    target->kind = target->quantiles ? &et_target_quantiles
                   : target->values  ? &et_target_values
                   : target->labels  ? &et_target_labels
                                     : &et_target_classes;
    target->width = target->quantiles ? target->quantiles
                    : target->classes ? target->classes
                                      : field->width;
    target->targets = target->classes || target->quantiles ? 1 : target->width;
    if (!status)
        status = find_weight(target, options, encoder, error);
    if (!status && field->kind == ET_ENCODED_CLASS && field->classes < 2)
        status = et_fail(error, ET_EDATA,
                         "the target %s has only one class (%s): there is nothing to learn",
                         field->column[0], field->classes ? field->label[0] : "none");
    if (!status)
        status = check_loss(target, options, field, error);
    return status ? status : check_settings(target, options, field, error);
}

et_target_unit et_tabular_unit(const et_tabular_task *task, int64_t column)
{
    et_assert(task->encoder && column >= 0);
    return task->target.values ? et_encoder_unit(task->encoder, task->target.quantiles ? 0 : column)
                               : (et_target_unit){ 0, 1 };
}

/* ---- the unit in a checkpoint ---- */

static bool number_of(const et_value *value, double *number)
{
    *number = value->kind == ET_VALUE_INT ? (double)value->integer : value->real;
    return (value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT) && isfinite(*number);
}

int et_target_unit_identify(const et_encoder *encoder, et_value *identity, et_error *error)
{
    et_assert(encoder && identity);
    const et_encoded_field *field = et_encoder_field(encoder, et_encoder_target(encoder));
    if (field->kind != ET_ENCODED_VALUES)
        return ET_OK;
    et_value *list = et_value_set_list(identity, ET_TARGET_UNIT);
    for (int64_t k = 0; k < field->width; k++) {
        const et_target_unit unit = et_encoder_unit(encoder, k);
        et_value_add_float(list, unit.offset);
        et_value_add_float(list, unit.scale);
    }
    return et_value_failed(identity) ? et_alloc_failed(error, 0, "the unit of the target") : ET_OK;
}

int et_target_unit_read(et_target_unit *units, int64_t targets, bool *found,
                        const et_value *identity, et_error *error)
{
    et_assert(units && targets > 0 && found);
    const et_value *list = et_value_get(identity, ET_TARGET_UNIT);
    const et_value *value = list ? list->first : NULL;
    bool sound = !list || (list->kind == ET_VALUE_LIST && list->count == 2 * (size_t)targets);
    *found = list != NULL;
    for (int64_t k = 0; k < targets; k++)
        units[k] = (et_target_unit){ 0, 1 };
    for (int64_t k = 0; sound && list && k < targets; k++) {
        sound = number_of(value, &units[k].offset) && number_of(value->next, &units[k].scale) &&
                units[k].scale > 0;
        value = value->next->next;
    }
    return sound ? ET_OK
                 : et_fail(error, ET_EFORMAT,
                           ET_TARGET_UNIT " must be an offset and a scale for each of %lld "
                                          "targets: the checkpoint is damaged",
                           (long long)targets);
}
