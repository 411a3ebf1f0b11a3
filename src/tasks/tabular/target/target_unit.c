#include "tasks/tabular/target/target_unit.h"

#include <math.h>

#include "base/alloc.h"

static bool number_of(const et_value *value, double *number)
{
    *number = value->kind == ET_VALUE_INT ? (double)value->integer : value->real;
    return (value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT) && isfinite(*number);
}

int et_target_unit_identify(const et_encoder *encoder, et_value *identity, et_error *error)
{
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
