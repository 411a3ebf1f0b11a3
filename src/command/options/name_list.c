#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "command/options/options.h"
#include "data/table/rows/csv.h"

#define NAMES_MAX 1000

typedef struct naming {
    const char *option;
    const char *name[NAMES_MAX];
    size_t count;
    et_arena *arena;
} naming;

static int add_name(naming *n, const et_cell *cell, et_error *error)
{
    if (!cell->text || !cell->length)
        return et_fail(error, ET_EUSAGE, "%s: a name is empty; separate names with single commas",
                       n->option);
    const char *name = et_arena_strndup(n->arena, cell->text, cell->length);
    if (!name)
        return et_alloc_failed(error, "a name");
    for (size_t i = 0; i < n->count; i++)
        if (!strcmp(n->name[i], name))
            return et_fail(error, ET_EUSAGE, "%s: %.64s is given twice", n->option, name);
    if (n->count == NAMES_MAX)
        return et_fail(error, ET_EUSAGE, "%s: more than %d names", n->option, NAMES_MAX);
    n->name[n->count++] = name;
    return ET_OK;
}

static int read_value(naming *n, const char *value, et_error *error)
{
    static const char *const nothing[] = { "", NULL };
    const et_csv_options options = { .delimiter = ',', .missing = nothing };
    const size_t length = strlen(value);
    char *text = et_arena_printf(n->arena, "%s ", value);
    et_csv *csv = NULL;
    et_csv_row row = { .count = 0 };
    if (!text)
        return et_alloc_failed(error, "names");
    int status = et_csv_open_text(&csv, text, length, n->option, &options, error);
    if (!status)
        status = et_csv_next(csv, &row, error);
    if (status && status != ET_ENOMEM)
        status = ET_EUSAGE;
    if (!status && !row.count)
        status = et_fail(error, ET_EUSAGE, "%s: give a name", n->option);
    for (int i = 0; i < row.count && !status; i++)
        status = add_name(n, &row.cell[i], error);
    et_csv_close(csv);
    return status;
}

int et_name_list_read(et_strings *names, const char *option, const et_strings *values,
                      et_arena *arena, et_error *error)
{
    et_assert(option && (values->items || !values->count));
    naming n = { .option = option, .arena = arena };
    int status = ET_OK;
    *names = (et_strings){ NULL, 0 };
    for (size_t i = 0; i < values->count && !status; i++)
        status = read_value(&n, values->items[i], error);
    const char **items = status ? NULL : et_arena_array(arena, n.count, sizeof *items);
    if (!status && !items && n.count)
        return et_alloc_failed(error, "names");
    for (size_t i = 0; i < n.count && !status; i++)
        items[i] = n.name[i];
    *names = (et_strings){ items, status ? 0 : n.count };
    return status;
}

/* ---- amounts ---- */

#define TIME_MAX 1e9 /* seconds */

/* Reads 1:30:00, 10:00 and 2-00:00:00. false: text has another form. */
static bool read_clock(double *seconds, const char *text)
{
    double days = 0, whole = 0, part = 0;
    bool has_days = false, more = true;
    int parts = 0;
    for (const char *at = text; more; at++) {
        char *end;
        if (*at < '0' || *at > '9')
            return false;
        part = (double)strtol(at, &end, 10);
        at = end;
        if (*at == '-' && !parts && !has_days) {
            has_days = true;
            days = part;
            continue;
        }
        if (parts > 0 && part >= 60)
            return false;
        whole = whole * 60 + part;
        parts++;
        more = *at == ':';
        if (*at && !more)
            return false;
    }
    *seconds = days * 86400 + whole;
    return parts == 3 || (parts == 2 && !has_days);
}

/* Reads 45s, 2.5h and 1d12h30m, larger units first. false: text has another form. */
static bool read_units(double *seconds, const char *text)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
    size_t i = 0;
    *seconds = 0;
    do {
        char *end;
        const double number = et_decimal_read_typed(text, &end);
        while (i < sizeof units / sizeof units[0] && units[i].unit != *end)
            i++;
        if (end == text || !(number >= 0) || i == sizeof units / sizeof units[0])
            return false;
        *seconds += number * units[i++].seconds;
        text = end + 1;
    } while (*text);
    return true;
}

int et_amount_time(double *seconds, const char *name, const char *text, et_error *error)
{
    et_assert(seconds && name && text);
    const bool right = strchr(text, ':') ? read_clock(seconds, text) : read_units(seconds, text);
    if (right && *seconds > 0 && *seconds <= TIME_MAX)
        return ET_OK;
    return et_fail(error, ET_EUSAGE,
                   "--%s %s: not a time; write 1h30m, 90m, 2.5h, 45s or 1:30:00 (hours, minutes, "
                   "seconds)",
                   name, text);
}

int et_amount_bytes(uint64_t *bytes, const char *name, const char *text, et_error *error)
{
    et_assert(bytes && name && text);
    static const char letters[] = "KMGT";
    char *end;
    double number = et_decimal_read_typed(text, &end);
    const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    const char *rest = letter ? end + 1 : end;
    const bool binary = !strcasecmp(rest, "iB");
    for (long i = letter ? letter - letters + 1 : 0; i > 0; i--)
        number *= binary ? 1024 : 1000;
    bool right = end != text && (letter || !*end) && (!*rest || binary || !strcasecmp(rest, "B"));
    if (right && number >= 1 && number <= 1e18) {
        *bytes = (uint64_t)number;
        return ET_OK;
    }
    return et_fail(error, ET_EUSAGE, "--%s %s: not a size; write 500M, 4G or 4GiB", name, text);
}
