#include "tasks/translation/import/import_private.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "tasks/translation/settings/translation_options.h"

int et_import_refuse(const et_import_config *c, const et_value *value, const char *why,
                     et_error *error)
{
    et_assert(value);
    et_strbuf text = ET_STRBUF_INIT;
    et_json_print(&text, value, 0);
    int status = et_fail(error, ET_ECONFIG, "%s: %s is %.100s, %s", c->name, value->key,
                         et_strbuf_text(&text), why);
    et_strbuf_release(&text);
    return status;
}

int et_import_check_fixed(const et_import_config *c, const et_import_fixed *rows, size_t count,
                          et_error *error)
{
    et_assert(rows || !count);
    for (size_t i = 0; i < count; i++) {
        const et_value *v = et_value_get(c->values, rows[i].field);
        if (!v || v->kind == ET_VALUE_NULL)
            continue;
        const double is = v->kind == ET_VALUE_BOOL    ? v->boolean
                          : v->kind == ET_VALUE_INT   ? (double)v->integer
                          : v->kind == ET_VALUE_FLOAT ? v->real
                                                      : -1;
        if (is != rows[i].number)
            return et_import_refuse(c, v, rows[i].why, error);
    }
    return ET_OK;
}

int et_import_read_count(const et_import_config *c, const char *field, int64_t *out,
                         et_error *error)
{
    et_assert(field && out);
    int status = et_value_read_int(c->values, field, out, error);
    if (status)
        return et_fail_while(error, status, "%s", c->name);
    if (*out < 0 || *out > INT32_MAX)
        return et_import_refuse(c, et_value_get(c->values, field), "but must be a count", error);
    return ET_OK;
}

int et_import_read_size(const et_import_config *c, const char *field, int64_t most, int64_t *out,
                        et_error *error)
{
    et_assert(field && most > 0 && out);
    char why[64];
    int status = et_import_read_count(c, field, out, error);
    if (status || (*out >= 1 && *out <= most))
        return status;
    snprintf(why, sizeof why, "but must be 1 to %lld", (long long)most);
    return et_import_refuse(c, et_value_get(c->values, field), why, error);
}

int et_import_read_bool(const et_import_config *c, const char *field, bool otherwise, bool *out,
                        et_error *error)
{
    et_assert(field && out);
    const et_value *v = et_value_get(c->values, field);
    *out = otherwise;
    if (!v || v->kind == ET_VALUE_NULL)
        return ET_OK;
    if (v->kind != ET_VALUE_BOOL)
        return et_import_refuse(c, v, "but must be true or false", error);
    *out = v->boolean;
    return ET_OK;
}

int et_import_read_rate(const et_import_config *c, const char *field, double otherwise, double *out,
                        et_error *error)
{
    et_assert(field && out);
    const et_value *v = et_value_get(c->values, field);
    *out = otherwise;
    if (!v || v->kind == ET_VALUE_NULL)
        return ET_OK;
    int status = et_value_read_float(c->values, field, out, error);
    if (status)
        return et_fail_while(error, status, "%s", c->name);
    return *out >= 0 && *out <= 1 ? ET_OK
                                  : et_import_refuse(c, v, "but must be from 0 to 1", error);
}

int et_import_check_width(const et_import_config *c, const char *field, int64_t width,
                          et_error *error)
{
    return width >= 4 && width % 2 == 0
               ? ET_OK
               : et_import_refuse(c, et_value_get(c->values, field),
                                  "but must be even, and at least 4", error);
}

int et_import_check_heads(const et_import_config *c, const char *field, int64_t width,
                          const char *why, et_error *error)
{
    et_assert(field && why);
    const et_value *heads = et_value_get(c->values, field);
    return heads->integer && width % heads->integer == 0 ? ET_OK
                                                         : et_import_refuse(c, heads, why, error);
}

int et_import_read_search(et_import_field beams, et_import_field alpha, double otherwise,
                          et_value *model, et_error *error)
{
    const et_value *size = beams.value, *length = alpha.value;
    const double power = !length || length->kind == ET_VALUE_NULL ? otherwise
                         : length->kind == ET_VALUE_BOOL          ? length->boolean
                         : length->kind == ET_VALUE_INT           ? (double)length->integer
                         : length->kind == ET_VALUE_FLOAT         ? length->real
                                                                  : -1;
    if (size && size->kind == ET_VALUE_NULL)
        size = NULL;
    if (size && (size->kind != ET_VALUE_INT || size->integer < 1 || size->integer > 64))
        return et_import_refuse(beams.of, size, "but must be from 1 to 64", error);
    if (!(power >= 0 && power <= ET_TRANSLATION_ALPHA_MAX))
        return et_import_refuse(alpha.of, length, "but must be from 0 to 10", error);
    et_value_set_int(model, "beam_size", size ? size->integer : 1);
    et_value_set_float(model, "alpha", power);
    et_value_set_string(model, "length_penalty", "length");
    return ET_OK;
}
