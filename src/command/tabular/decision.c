#include "command/tabular/decision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "command/options/options.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/target/target.h"

/* ---- costs ---- */

static int find_label(const et_decision_classes *target, const char *text, size_t length)
{
    for (int i = 0; i < target->count; i++)
        if (strlen(target->label[i]) == length && !memcmp(target->label[i], text, length))
            return i;
    return -1;
}

/* Labels may have colons: the first one that has a label on both sides separates them. */
static int find_pair(const et_decision_classes *target, const char *text, size_t length,
                     int pair[2])
{
    for (const char *at = text; at < text + length; at++) {
        if (*at != ':')
            continue;
        pair[0] = find_label(target, text, (size_t)(at - text));
        pair[1] = find_label(target, at + 1, (size_t)(text + length - at - 1));
        if (pair[0] >= 0 && pair[1] >= 0)
            return true;
    }
    return false;
}

static int read_cost(et_decision *d, const et_decision_classes *target, const char *text,
                     et_error *error)
{
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    int pair[2];
    const double cost = equals ? et_decimal_read_typed(equals + 1, &end) : 0;
    if (!equals || end == equals + 1 || *end ||
        !find_pair(target, text, (size_t)(equals - text), pair))
        return et_fail(error, ET_EUSAGE,
                       "--costs %s: write CLASS:PREDICTION=COST with classes of %s, such as "
                       "%.40s:%.40s=5%s",
                       text, target->target, target->label[0], target->label[1],
                       strpbrk(target->label[0], ",\"") || strpbrk(target->label[1], ",\"")
                           ? ", in double quotes if it has a comma: '\"a,b:c=5\"'"
                           : "");
    if (!(cost >= 0 && isfinite(cost)))
        return et_fail(error, ET_EUSAGE, "--costs %s: give a finite cost of at least 0", text);
    double *of = &d->costs[pair[0] * target->count + pair[1]];
    if (!isnan(*of))
        return et_fail(error, ET_EUSAGE, "--costs %s: this cost is given twice", text);
    *of = cost;
    return ET_OK;
}

static int read_costs(et_decision *d, const et_strings *costs, const et_decision_classes *target,
                      et_error *error)
{
    const size_t classes = (size_t)target->count;
    et_strings items;
    int status = et_name_list_read(&items, "--costs", costs, &d->arena, error);
    d->costs = status ? NULL : et_alloc_zero(classes * classes, sizeof *d->costs);
    if (!status && !d->costs)
        status = et_alloc_failed(error, "costs");
    for (size_t i = 0; i < classes * classes && !status; i++)
        d->costs[i] = (double)NAN;
    for (size_t i = 0; i < items.count && !status; i++)
        status = read_cost(d, target, items.items[i], error);
    for (size_t i = 0; i < classes * classes && !status; i++)
        d->costs[i] = isnan(d->costs[i]) ? i / classes != i % classes : d->costs[i];
    return status;
}

/* ---- the whole ---- */

static int check(const et_decision_args *args, const et_decision_classes *classes, et_error *error)
{
    if (args->threshold > 0 && args->costs.count)
        return et_fail(error, ET_EUSAGE, "give --threshold or --costs, not both");
    if (!classes->count && et_decision_is_given(args))
        return et_fail(
            error, ET_EUSAGE,
            "the target %s is %s: --threshold and --costs are for the classes of one target",
            classes->target, classes->several ? "one of several" : "a number");
    if (args->threshold > 0 && classes->count != 2)
        return et_fail(error, ET_EUSAGE,
                       "--threshold is for two classes, but %s has %d; give --costs",
                       classes->target, classes->count);
    return ET_OK;
}

et_decision_classes et_decision_classes_of(const et_predictor *p)
{
    et_assert(p && p->model);
    return (et_decision_classes){ p->field ? p->field->column[0] : "", p->labels, p->classes,
                                  p->kind == &et_target_labels };
}

int et_decision_open(et_decision *d, const et_decision_args *args,
                     const et_decision_classes *classes, et_error *error)
{
    et_assert(classes->count >= 0 && (classes->label || !classes->count));
    *d = (et_decision){ .arena = ET_ARENA_INIT };
    int status = check(args, classes, error);
    if (!status && args->costs.count)
        status = read_costs(d, &args->costs, classes, error);
    if (!status && classes->count)
        d->how =
            (et_class_predictions){ .classes = classes->count,
                                    .first = !et_tabular_positive(classes->label, classes->count),
                                    .threshold = args->threshold,
                                    .costs = d->costs };
    return status;
}

void et_decision_release(et_decision *d)
{
    et_free(d->costs);
    et_arena_release(&d->arena);
}
