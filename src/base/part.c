/* Saves doubles bit for bit: JSON prints a finite double so that it reads back unchanged; NaN and
 * infinity are texts. */
#include <etude/state.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NaN and infinity by their bits, "bits:" and 16 hexadecimal digits: even the payload of a NaN
 * comes back. */
#define BITS_PREFIX "bits:"
#define BITS_DIGITS 16

/* 1.5 -> 1.5, NaN -> "bits:7ff8000000000000". Finite numbers are printed so that they read back
 * as the same double. */
et_value *et_part_set_real(et_value *dict, const char *key, double real)
{
    if (isfinite(real))
        return et_value_set_float(dict, key, real);
    unsigned long long bits;
    memcpy(&bits, &real, sizeof bits);
    char text[32];
    snprintf(text, sizeof text, BITS_PREFIX "%0*llx", BITS_DIGITS, bits);
    return et_value_set_string(dict, key, text);
}

int et_part_read_real(const et_value *dict, const char *key, double *out, et_error *error)
{
    const et_value *value = et_value_get(dict, key);
    if (!value || value->kind != ET_VALUE_STRING)
        return et_value_read_float(dict, key, out, error);
    const size_t prefix = strlen(BITS_PREFIX);
    const char *digits = strncmp(value->string, BITS_PREFIX, prefix) ? "" : value->string + prefix;
    if (strspn(digits, "0123456789abcdef") != BITS_DIGITS || digits[BITS_DIGITS])
        return et_fail(error, ET_EFORMAT, "%s: '%s' is not a number", key, value->string);
    const unsigned long long bits = strtoull(digits, NULL, 16);
    memcpy(out, &bits, sizeof *out);
    return ET_OK;
}
