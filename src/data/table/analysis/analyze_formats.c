/* Notations of columns: the first pass counts texts that are numbers in a notation, the second one
 * reads them so, and a column that is no number after that is a text again. */
#include "base/alloc.h"
#include "data/table/analysis/analyze_private.h"

int et_table_formats_begin(et_table_stats *table, et_arena *arena, et_error *error)
{
    const size_t count = (size_t)table->head.fields;
    table->format = et_arena_array(arena, count, sizeof *table->format);
    table->unclear = et_arena_array(arena, count, sizeof *table->unclear);
    if (arena->failed)
        return et_alloc_failed(error, count * sizeof *table->unclear, "columns");
    for (size_t i = 0; table->options->schema && i < count; i++)
        table->format[i] = et_number_format_of(et_schema_at(table->options->schema, (int)i));
    return ET_OK;
}

bool et_table_formats_find(et_table_stats *table, et_arena *arena)
{
    bool found = false;
    for (int i = 0; i < table->head.fields; i++) {
        const et_column_stats *s = &table->field[i];
        et_number_format *format = &table->format[i];
        *format = et_column_stats_format(s);
        if (!format->notation)
            continue;
        found = true;
        if (format->unit)
            format->unit = et_arena_strdup(arena, format->unit);
        if (et_column_stats_format_unclear(s))
            table->unclear[i] = s->noted.first_unclear;
    }
    return found;
}

bool et_table_formats_check(et_table_stats *table)
{
    bool wrong = false;
    for (int i = 0; i < table->head.fields; i++) {
        const et_column_stats *s = &table->field[i];
        const et_table_column column = { .table = table,
                                         .stats = s,
                                         .values = et_column_stats_values(s),
                                         .numbers = et_column_stats_numbers(s),
                                         .distinct = et_column_stats_distinct(s) };
        if (!table->format[i].notation || et_table_column_type(&column) != ET_SCHEMA_DISCRETE)
            continue;
        wrong = true;
        table->format[i] = (et_number_format){ ET_NOTATION_PLAIN, NULL };
        table->unclear[i] = (et_seen_at){ 0 };
    }
    return wrong;
}
