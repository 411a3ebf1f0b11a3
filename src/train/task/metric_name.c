#include "train/task/metric_name.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"

/* A whole name wins over a nested one, at every depth. */
bool et_metric_named(const et_value *logs, const char *name, double *value)
{
    const et_value *found = et_value_get(logs, name);
    for (const char *mark = name; !found && (mark = strpbrk(mark, "|/.")) != NULL; mark++) {
        char part[256];
        snprintf(part, sizeof part, "%.*s", (int)(mark - name), name);
        const et_value *below = et_value_get(logs, part);
        if (below && below->kind == ET_VALUE_DICT)
            return et_metric_named(below, mark + 1, value);
    }
    return found && !et_value_read_float(logs, name, value, NULL);
}

const char *et_metric_beside(const char *metric, const char *name, et_arena *arena)
{
    size_t length = strlen(metric);
    while (length && !strchr("|/.", metric[length - 1]))
        length--;
    return et_arena_printf(arena, "%.*s%s", (int)length, metric, name);
}
