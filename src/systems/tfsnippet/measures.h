/* Values of a pass as metrics of a loop. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_MEASURES_H
#define ETUDE_SYSTEMS_TFSNIPPET_MEASURES_H

#include <etude/loop_evaluator.h>
#include <etude/shards.h>

typedef struct et_measures {
    et_pass *pass;           /* borrowed; NULL: values come from elsewhere */
    const et_shards *shards; /* borrowed; that the pass runs in, or NULL */
    et_loop_metric *metrics; /* [count]; names owned */
    et_loop_metric *given;   /* [count]: the measures with a value, from et_measures_read */
    int *index;              /* [count]: in the pass; -1: the sum of its losses */
    int count;
} et_measures;

/* pass, if there is one, is prepared. unnamed: the name of a metric without a name; NULL: every
 * metric has a name. ET_ECONFIG: a name is missing, or the pass has no such measure. */
int et_measures_init(et_measures *measures, et_pass *pass, const et_loop_measure *list, int count,
                     const char *unnamed, et_error *error);
void et_measures_release(et_measures *measures);

/* The value of measure i in the pass's last run: a mean over the batch, which may be NaN. False:
 * the batch has no rows that count. */
bool et_measures_value(const et_measures *measures, int i, double *value);

/* Reads all measures with a value into given; returns their number. */
int et_measures_read(et_measures *measures);

#endif
