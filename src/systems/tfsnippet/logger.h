/* Statistics of metrics by name, for collecting, printing and saving. A name is added with its
 * first value and stays; clearing removes only values. Names that end in "time" or "timer" depend
 * on the clock and are not saved. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_LOGGER_H
#define ETUDE_SYSTEMS_TFSNIPPET_LOGGER_H

#include <etude/loop_log.h>

#include "base/text/strbuf.h"

typedef struct et_logger_item {
    char *name;                /* owned */
    et_statistics *statistics; /* owned */
} et_logger_item;

/* What has a value, in a formatter's order. */
typedef struct et_logger_list {
    et_loop_stats *stats; /* [count], owned; names and values are the logger's */
    int count;
    size_t capacity;
} et_logger_list;

/* Zero: nothing was collected. */
typedef struct et_logger {
    et_logger_item *items; /* [count], owned, in order of their first value */
    size_t count, capacity;
    et_logger_list spare; /* memory that is used again */
} et_logger;

bool et_logger_is_time(const char *name);

int et_logger_collect(et_logger *logger, const et_loop_metric *metric, et_error *error);
void et_logger_clear(et_logger *logger);
void et_logger_release(et_logger *logger);

/* The caller may read the list, and collect meanwhile, until it gives the list back. */
int et_logger_sort(et_logger_list *out, et_logger *logger, const et_metric_formatter *formatter,
                   et_error *error);
void et_logger_give_back(et_logger *logger, et_logger_list *list);

/* "name: mean (±deviation); ..." of the sorted metrics. */
void et_logger_print(const et_logger_list *list, const et_metric_formatter *formatter,
                     et_strbuf *out);

int et_logger_save(const et_logger *logger, et_value *dict, et_error *error);
int et_logger_restore(et_logger *logger, const et_value *dict, et_error *error);

#endif
