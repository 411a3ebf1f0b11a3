#include "command/training/tune/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numbers/decimal.h"
#include "base/numbers/philox.h"
#include "command/options/name_list.h"

#define DIGITS 4 /* of a real number */

#define EXAMPLE "write NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C, such as lr=1e-4..1e-2:log"

static int bad(const char *text, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "--search %s: " EXAMPLE, text);
}

/* A finite number that is all of text [length]; *whole: it is written as an integer. */
static bool read_bound(double *value, bool *whole, const char *text, size_t length)
{
    *whole = length && strspn(text, "+-0123456789") >= length;
    return length && et_decimal_parse(value, text, length) == length && isfinite(*value);
}

static int check_range(const et_search_space *s, const char *text, et_error *error)
{
    if (!(s->low < s->high))
        return et_fail(error, ET_EUSAGE, "--search %s: the first bound must be the smaller one",
                       text);
    if (s->log && s->low <= 0)
        return et_fail(error, ET_EUSAGE, "--search %s: with :log both bounds must be above 0",
                       text);
    if (s->whole && s->high - s->low > 1e9)
        return et_fail(error, ET_EUSAGE,
                       "--search %s: more than a billion whole numbers; use :real", text);
    return ET_OK;
}

/* Forms after the second bound: ":log", ":real", both. */
static bool read_forms(et_search_space *s, const char *text)
{
    while (*text) {
        if (!strncmp(text, ":log", 4)) {
            s->log = true;
            text += 4;
        } else if (!strncmp(text, ":real", 5)) {
            s->whole = false;
            text += 5;
        } else {
            return false;
        }
    }
    return true;
}

static int read_range(et_search_space *s, const char *text, const char *low, const char *dots,
                      et_error *error)
{
    const char *high = dots + 2;
    const size_t length = strcspn(high, ":");
    bool whole[2];
    if (!read_bound(&s->low, &whole[0], low, (size_t)(dots - low)) ||
        !read_bound(&s->high, &whole[1], high, length))
        return bad(text, error);
    s->whole = whole[0] && whole[1];
    return read_forms(s, high + length) ? check_range(s, text, error) : bad(text, error);
}

int et_search_parse(et_search_space *s, const char *text, et_arena *arena, et_error *error)
{
    const char *equals = strchr(text, '=');
    *s = (et_search_space){ .log = false };
    if (!equals || equals == text || !equals[1])
        return bad(text, error);
    const char *name = text + (!strncmp(text, "--", 2) ? 2 : 0);
    s->name = et_arena_printf(arena, "%.*s", (int)(equals - name), name);
    if (!s->name)
        return et_alloc_failed(error, strlen(text), "a search");
    const char *values = equals + 1, *dots = strstr(values, "..");
    if (dots)
        return read_range(s, text, values, dots, error);
    int status =
        et_name_list_read(&s->choices, "--search", &(et_strings){ &values, 1 }, arena, error);
    return status || s->choices.count > 1 ? status : bad(text, error);
}

/* ---- sampling ---- */

/* [0, 1) with 53 bits. */
static double uniform(const et_search_space *s, uint64_t seed, int trial)
{
    const et_random random = { seed, (uint64_t)trial, et_random_site(s->name) };
    const et_philox_block block = et_random_block(random, 0);
    const uint64_t bits = (uint64_t)block.word[0] << 32 | block.word[1];
    return (double)(bits >> 11) * 0x1p-53;
}

static double sample_range(const et_search_space *s, double u)
{
    /* Each whole number has the same part of the range, also at its ends. */
    const double low = s->low - (s->whole ? 0.5 : 0), high = s->high + (s->whole ? 0.5 : 0);
    const double value =
        s->log ? exp(log(low) + u * (log(high) - log(low))) : low + u * (high - low);
    return fmin(fmax(s->whole ? round(value) : value, s->low), s->high);
}

const char *et_search_sample(const et_search_space *s, uint64_t seed, int trial, et_arena *arena)
{
    const double u = uniform(s, seed, trial);
    if (s->choices.count)
        return s->choices.items[(size_t)(u * (double)s->choices.count)];
    char text[ET_DECIMAL_SIZE];
    et_decimal_print(text, sizeof text, s->whole ? 0 : DIGITS, s->whole, sample_range(s, u));
    return et_arena_strdup(arena, text);
}
