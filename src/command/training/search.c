#include "command/training/search.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/numbers/decimal.h"
#include "base/numbers/philox.h"
#include "base/text/strbuf.h"
#include "command/options/options.h"

#define DIGITS   4   /* of a real number */
#define ATTEMPTS 100 /* draws for a trial */

#define EXAMPLE "write NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C, such as lr=1e-4..1e-2:log"

static int bad(const char *text, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "--search %s: " EXAMPLE, text);
}

/* Whether text [length] is a finite number; *whole: it is written as an integer. */
static bool read_bound(double *value, bool *whole, const char *text, size_t length)
{
    *whole = length && strspn(text, "+-0123456789") >= length;
    return length && et_decimal_parse(value, text, length) == length && isfinite(*value);
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
    if (read_forms(s, high + length)) {
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
    return bad(text, error);
}

int et_search_parse(et_search_space *s, const char *text, et_arena *arena, et_error *error)
{
    et_assert(s && text);
    const char *equals = strchr(text, '=');
    *s = (et_search_space){ .log = false };
    if (!equals || equals == text || !equals[1])
        return bad(text, error);
    const char *name = text + (!strncmp(text, "--", 2) ? 2 : 0);
    s->name = et_arena_strndup(arena, name, equals - name);
    if (!s->name)
        return et_alloc_failed(error, "a search");
    const char *values = equals + 1, *dots = strstr(values, "..");
    if (dots)
        return read_range(s, text, values, dots, error);
    int status =
        et_name_list_read(&s->choices, "--search", &(et_strings){ &values, 1 }, arena, error);
    return status || s->choices.count > 1 ? status : bad(text, error);
}

/* ---- drawing ---- */

/* Values are numbers here; for choices, an index. number [count] is the last combination. */
typedef struct drawing {
    const et_search_space *spaces;
    int count;
    double *number;
    et_map seen;     /* keys in arena */
    et_strbuf key;   /* of number */
    et_arena *arena; /* of the caller */
} drawing;

/* [0, 1) with 53 bits. */
static double uniform(et_random random, uint64_t attempt)
{
    const et_philox_block block = et_random_block(random, attempt);
    const uint64_t bits = (uint64_t)block.word[0] << 32 | block.word[1];
    return (double)(bits >> 11) * 0x1p-53;
}

static double draw_number(const et_search_space *s, double u)
{
    if (s->choices.count)
        return floor(u * (double)s->choices.count);
    /* Each whole number has an equal part of the range, also the first and the last. */
    const double low = s->low - (s->whole ? 0.5 : 0), high = s->high + (s->whole ? 0.5 : 0);
    const double value =
        s->log ? exp(log(low) + u * (log(high) - log(low))) : low + u * (high - low);
    return fmin(fmax(s->whole ? round(value) : value, s->low), s->high);
}

/* 0 without a sign. */
static void print_number(char text[ET_DECIMAL_SIZE], const et_search_space *s, double number)
{
    const bool whole = s->whole || s->choices.count;
    et_decimal_print(text, ET_DECIMAL_SIZE, whole ? 0 : DIGITS, whole, number == 0 ? 0 : number);
}

/* Whether no trial has the combination. */
static bool is_new(drawing *d)
{
    char text[ET_DECIMAL_SIZE];
    int64_t trial;
    et_strbuf_reset(&d->key);
    for (int i = 0; i < d->count; i++) {
        print_number(text, &d->spaces[i], d->number[i]);
        et_strbuf_printf(&d->key, "%s ", text);
    }
    return !et_map_get(&d->seen, et_strbuf_text(&d->key), &trial);
}

static bool is_finite(const drawing *d)
{
    for (int i = 0; i < d->count; i++)
        if (!d->spaces[i].choices.count && !d->spaces[i].whole)
            return false;
    return true;
}

/* Advances like a counter with values as digits. false: the combination was the last; it is the
 * first again. */
static bool advance(drawing *d)
{
    for (int i = 0; i < d->count; i++) {
        const et_search_space *s = &d->spaces[i];
        const double low = s->choices.count ? 0 : s->low;
        const double high = s->choices.count ? (double)s->choices.count - 1 : s->high;
        if (d->number[i] < high) {
            d->number[i]++;
            return true;
        }
        d->number[i] = low;
    }
    return false;
}

/* If draws only repeat combinations, takes the next one in order, so that every combination is
 * found. */
static bool draw_new(drawing *d, uint64_t seed, int trial)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        for (int i = 0; i < d->count; i++) {
            const et_search_space *s = &d->spaces[i];
            const et_random random = { seed, (uint64_t)trial, et_random_site(s->name) };
            d->number[i] = draw_number(s, uniform(random, (uint64_t)attempt));
        }
        if (is_new(d))
            return true;
    }
    for (int turns = is_finite(d) ? 2 : 0; turns;) {
        turns -= !advance(d);
        if (is_new(d))
            return true;
    }
    return false;
}

static bool keep(drawing *d, const char **values, int trial)
{
    char text[ET_DECIMAL_SIZE];
    const char *key = et_strbuf_keep(&d->key, d->arena);
    for (int i = 0; i < d->count; i++) {
        const et_search_space *s = &d->spaces[i];
        print_number(text, s, d->number[i]);
        values[i] = s->choices.count ? s->choices.items[(size_t)d->number[i]]
                                     : et_arena_strdup(d->arena, text);
    }
    return key && !d->arena->failed && et_map_put(&d->seen, key, trial);
}

int et_search_draw(const char **values, int *trials, const et_search_space *spaces, int count,
                   uint64_t seed, et_arena *arena, et_error *error)
{
    et_assert(count >= 0 && *trials >= 0 && (spaces || !count));
    drawing d = { .spaces = spaces, .count = count, .key = ET_STRBUF_INIT, .arena = arena };
    int trial = 0;
    d.number = et_arena_array(arena, count, sizeof *d.number);
    bool whole = d.number != NULL;
    for (; whole && trial < *trials && draw_new(&d, seed, trial); trial++)
        whole = keep(&d, values + (size_t)trial * (size_t)count, trial);
    et_map_release(&d.seen);
    et_strbuf_release(&d.key);
    if (!whole)
        return et_alloc_failed(error, "trials");
    *trials = trial;
    return ET_OK;
}
