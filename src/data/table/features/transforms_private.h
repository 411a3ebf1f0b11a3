/* Helpers of the files of transforms, and the transforms that are not in transforms.c. */
#ifndef ETUDE_DATA_TABLE_FEATURES_TRANSFORMS_PRIVATE_H
#define ETUDE_DATA_TABLE_FEATURES_TRANSFORMS_PRIVATE_H

#include <math.h>
#include <string.h>

#include "data/table/features/transforms.h"

/* The transform has one column, named after the field. */
void et_fit_one_column(et_fitted *fitted, const et_fitting *with);
/* The initial line: x itself. */
void et_fit_line(et_fitted *fitted, const et_fitting *with);
void et_fit_standardize(et_fitted *fitted, const et_fitting *with);
/* Reports that the metadata of the field is not enough. */
void et_fitting_lacks(const et_fitting *with, const char *what);

/* The number of points below x; or_equal: not above x. */
int et_fitted_points_below(const et_fitted *f, double x, bool or_equal);

static inline int et_put_number(void *to, double x, double of, et_error *error)
{
    float value = (float)x;
    memcpy(to, &value, sizeof value);
    return isfinite(value)
               ? ET_OK
               : et_fail(error, ET_EDATA, "%g is too large for float32: correct it", of);
}

/* In transforms_quantiles.c. */
void et_fit_quantile(et_fitted *fitted, const et_fitting *with);
int et_apply_quantile(const et_fitted *f, const et_reading *value, void *to, et_error *error);
const char *et_emit_quantile(et_emitting *e);
void et_fit_robust(et_fitted *fitted, const et_fitting *with);
int et_apply_robust(const et_fitted *f, const et_reading *value, void *to, et_error *error);
const char *et_emit_robust(et_emitting *e);
void et_fit_clip(et_fitted *fitted, const et_fitting *with);
int et_apply_clip(const et_fitted *f, const et_reading *value, void *to, et_error *error);
const char *et_emit_clip(et_emitting *e);

#endif
