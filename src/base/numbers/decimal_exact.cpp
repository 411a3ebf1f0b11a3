// std::from_chars and std::to_chars as C functions, because C has neither. Both are exact, ignore
// the locale and allocate nothing.
#include "base/numbers/decimal.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace
{
// Whether a number beyond a double is too large, rather than too small: by the place of its first
// digit that is not 0. Hostile texts have as many digits as they like, and an exponent against
// them.
bool is_large(const char *at, const char *end)
{
    long long position = 0;
    bool behind = false, begun = false;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        begun |= *at >= '1' && *at <= '9';
        if (*at == '.')
            behind = true;
        else if (begun != behind)
            position += begun ? 1 : -1;
    }
    long long exponent = 0;
    if (at < end) {
        const char *digits = at + 1 + (at[1] == '+' || at[1] == '-');
        const std::from_chars_result read = std::from_chars(digits, end, exponent);
        if (read.ec == std::errc::result_out_of_range)
            return at[1] != '-'; // no text has as many digits as would make up for it
        exponent = at[1] == '-' ? -exponent : exponent;
    }
    return position + exponent > 0;
}
} // namespace

extern "C" size_t et_decimal_parse(double *value, const char *text, size_t length)
{
    const char *digits = text + (length && *text == '-');
    if (digits == text + length || !std::strchr(".0123456789", *digits) || !*digits)
        return 0; // "inf" and "nan", which from_chars takes
    const std::from_chars_result read = std::from_chars(text, text + length, *value);
    if (read.ec == std::errc::invalid_argument)
        return 0;
    if (read.ec == std::errc::result_out_of_range)
        *value = std::copysign(is_large(digits, read.ptr) ? std::numeric_limits<double>::infinity()
                                                          : 0.0,
                               *text == '-' ? -1.0 : 1.0);
    return static_cast<size_t>(read.ptr - text);
}

extern "C" void et_decimal_shortest(char text[ET_DECIMAL_SIZE], double value)
{
    char *end = text + ET_DECIMAL_SIZE - 1;
    std::to_chars_result written = std::to_chars(text, end, value, std::chars_format::scientific);
    *written.ptr = 0;
    const char *exponent = std::strchr(text, 'e');
    const int power = static_cast<int>(std::strtol(exponent + 1, nullptr, 10));
    const int digits = static_cast<int>(std::strcspn(std::strpbrk(text, "0123456789"), "e")) -
                       (std::strchr(text, '.') ? 1 : 0);
    if (power >= -4 && power < digits)
        *std::to_chars(text, end, value, std::chars_format::fixed).ptr = 0;
}
