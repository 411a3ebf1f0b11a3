/* Numbers in texts. Most numbers are parsed by number_short.h, all others by et_decimal_parse,
 * which uses the C++ library. The short way remains because it reads most tables faster: a number
 * with six decimals takes 8 ns compared with 20 ns of the library, a number with two digits 7 ns
 * compared with 13 ns (EPYC, GCC 12's library; bench_csv, row floats). */
#include "data/table/schema/number.h"

#include <math.h>

#include "base/inline.h"
#include "base/numbers/decimal.h"
#include "data/table/schema/number_short.h"

const double et_number_tens[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

ET_NOINLINE static et_number parse_any(double *out, const char *text, size_t length)
{
    const size_t plus = length && *text == '+', sign = plus || (length && *text == '-');
    double value;
    if (plus && length > 1 && text[1] == '-')
        return ET_NUMBER_NONE;
    const size_t read = et_decimal_parse(&value, text + plus, length - plus);
    if (!read || plus + read < length)
        return ET_NUMBER_NONE;
    if (isinf(value))
        return ET_NUMBER_LARGE;
    *out = value;
    return sign + et_number_digits_at(text + sign, length - sign) == length ? ET_NUMBER_INTEGER
                                                                            : ET_NUMBER_REAL;
}

et_number et_number_parse(double *out, const char *text, size_t length)
{
    bool integer;
    if (length && et_number_short(out, &integer, text, length))
        return integer ? ET_NUMBER_INTEGER : ET_NUMBER_REAL;
    return parse_any(out, text, length);
}
