/* Values of logs by the names that people give them. */
#ifndef ETUDE_TRAIN_TASK_METRIC_NAME_H
#define ETUDE_TRAIN_TASK_METRIC_NAME_H

#include <etude/value.h>

/* The number of that name, which may have dots and bars in it; else of nested dicts: "a|b", "a/b"
 * and "a.b" are b in the dict a. False: there is none. */
bool et_metric_named(const et_value *logs, const char *name, double *value);

/* What stands beside a metric under a name of its own: "b" and "a|c" give "a|b". In arena; NULL: no
 * memory. */
const char *et_metric_beside(const char *metric, const char *name, et_arena *arena);

#endif
