/* Reads values from a request's JSON, for all services. */
#include <etude/service.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/fields/fields.h"

int et_service_number(const et_service_request *request, const char *key, int64_t least,
                      int64_t most, int64_t otherwise, int64_t *out, et_error *error)
{
    et_assert(key && least <= most && out);
    const et_value *value = et_value_get(request->json, key);
    *out = otherwise;
    if (!value)
        return ET_OK;
    if (value->kind != ET_VALUE_INT || value->integer < least || value->integer > most)
        return et_fail(error, ET_EDATA, "%s: expected a whole number from %lld to %lld", key,
                       (long long)least, (long long)most);
    *out = value->integer;
    return ET_OK;
}

int et_service_keys(const et_service_request *request, const char *const *keys, et_error *error)
{
    et_assert(keys);
    for (const et_value *v = request->json ? request->json->first : NULL; v; v = v->next) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], v->key) != 0)
            i++;
        if (keys[i])
            continue;
        char all[256] = "";
        for (i = 0; keys[i]; i++) {
            size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", keys[i]);
        }
        return et_fail(error, ET_EDATA, "unknown key %.64s%s; known keys: %s", v->key,
                       et_nearest_hint(v->key, keys, "").text, all);
    }
    return ET_OK;
}
