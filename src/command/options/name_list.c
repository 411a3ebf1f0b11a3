#include "command/options/options.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
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
    const char *name = et_arena_printf(n->arena, "%.*s", (int)cell->length, cell->text);
    if (!name)
        return et_alloc_failed(error, cell->length, "a name");
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
        return et_alloc_failed(error, length, "names");
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
        return et_alloc_failed(error, n.count * sizeof *items, "names");
    for (size_t i = 0; i < n.count && !status; i++)
        items[i] = n.name[i];
    *names = (et_strings){ items, status ? 0 : n.count };
    return status;
}
