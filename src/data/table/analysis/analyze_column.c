/* Facts about a column's numbers, for the report and its suspicions. */
#include <float.h>
#include <math.h>

#include "data/table/analysis/analyze_private.h"

static double number_at(const et_column_stats *stats, size_t i)
{
    const et_entries *entries = &stats->entries;
    double number = 0;
    et_cell_classify(&stats->format, et_entries_text(entries, &entries->entry[i]),
                     entries->entry[i].length, &number);
    return number;
}

bool et_table_column_few_whole(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    return et_column_stats_exact(s) && c->numbers == c->values && c->numbers && s->whole &&
           c->table->options->classes >= 0 &&
           s->entries.count <= (size_t)c->table->options->classes;
}

bool et_table_column_twice(const et_column_stats *stats, size_t *first, size_t *second)
{
    for (*second = 0; *second < stats->entries.count; ++*second)
        for (*first = 0; *first < *second; ++*first)
            if (number_at(stats, *first) == number_at(stats, *second))
                return true;
    return false;
}

bool et_table_column_has_moments(const et_table_column *c)
{
    const et_column_stats *s = c->stats;
    const bool underflows = s->min < s->max && s->squares < DBL_MIN;
    return c->numbers && isfinite(s->mean) && isfinite(s->squares) && !underflows;
}

double et_table_column_deviation(const et_table_column *c)
{
    return sqrt(c->stats->squares / (double)c->numbers);
}
