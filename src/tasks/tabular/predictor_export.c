/* A model for use alone: what rows are encoded by and what the model is, as it was read, beside its
 * weights (train/model_export.h). */
#include <etude/model_export.h>

#include "base/reserved.h"
#include "tasks/tabular/predictor_private.h"

int et_predictor_export_as(const et_predictor *p, const char *path,
                           const et_export_options *options, et_error *error)
{
    static const et_export_options defaults = { 0 };
    const et_export_options *o = options ? options : &defaults;
    const et_table_model *from = p->model;
    const et_model_export model = { .texts = from->text,
                                    .count = ET_TABLE_TEXTS,
                                    .params = from->params,
                                    .step = from->step,
                                    .identity = from->identity,
                                    .precision = o->precision };
    int status = et_options_check(o, "et_export_options", error);
    return status ? status : et_model_export_write(&model, path, error);
}

int et_predictor_export(const et_predictor *p, const char *path, et_error *error)
{
    return et_predictor_export_as(p, path, NULL, error);
}
