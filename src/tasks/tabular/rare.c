/* Finds parts of a target that cannot be learned or measured, before the first step: classes
 * without training rows, classes without validation rows, numbers that are all equal. */
#include <stdio.h>
#include <string.h>

#include <etude/comm.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/tabular_task_private.h"

/* Of the rows of a part of the data. */
typedef struct target_seen {
    const et_encoded_field *target;
    int field;      /* classes, or the numbers as they are written, in a batch */
    int64_t *count; /* [classes] rows of each; of numbers [width] rows that differ from the first */
    double *first;  /* [width] of numbers */
} target_seen;

static void see_classes(void *payload, const et_batch *batch, int64_t first)
{
    const target_seen *s = payload;
    const int32_t *class = batch->data[s->field];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        if (class[i] >= 0)
            s->count[class[i]]++;
}

static void see_numbers(void *payload, const et_batch *batch, int64_t first)
{
    const target_seen *s = payload;
    const int64_t width = s->target->width;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        for (int64_t k = 0; k < width; k++) {
            double t = et_encoded_written(batch->data[s->field], i * width + k);
            if (first + i == 0)
                s->first[k] = t;
            s->count[k] += t != s->first[k];
        }
}

/* Counts anew. */
static int see(target_seen *s, const et_tabular_task *task, et_samples *rows, et_error *error)
{
    const int written = et_encoder_written(task->encoder);
    const char *field =
        task->target.classes ? task->target.field : et_encoder_field(task->encoder, written)->name;
    s->field = et_layout_find(&rows->layout, field);
    memset(s->count, 0,
           (size_t)(task->target.classes ? task->target.classes : task->target.values) *
               sizeof *s->count);
    return et_tabular_read(rows, rows->count, task->target.classes ? see_classes : see_numbers, s,
                           error);
}

/* ---- messages ---- */

#define NAMED_MAX 8

/* "a, b and c", of many the first ones; how many there are. */
static int name_missing(const char *const *names, const int64_t *count, int all, et_strbuf *text)
{
    int missing = 0, at = 0;
    for (int i = 0; i < all; i++)
        missing += count[i] == 0;
    const int shown = missing > NAMED_MAX ? NAMED_MAX : missing;
    for (int i = 0; i < all && at < shown; i++)
        if (!count[i]) {
            const char *between = !at ? "" : at + 1 < shown || shown < missing ? ", " : " and ";
            et_strbuf_printf(text, "%s%.60s", between, names[i]);
            at++;
        }
    if (shown < missing)
        et_strbuf_printf(text, " and %d more classes", missing - shown);
    return missing;
}

static void tell_unlearned(const target_seen *s)
{
    et_strbuf names = ET_STRBUF_INIT;
    const int missing = name_missing(s->target->label, s->count, s->target->classes, &names);
    if (missing)
        et_log(ET_LOG_WARNING, "target %s: no training row has %s: the model cannot learn %s",
               s->target->column[0], et_strbuf_text(&names),
               missing > 1 ? "these classes" : "this class");
    et_strbuf_release(&names);
}

/* Of two classes precision and the rest are those of the one that is asked for. */
static const char *unmeasured(const et_tabular_task *task, const target_seen *s, int missing)
{
    if (s->target->classes > 2)
        return missing > 1 ? "the scores do not cover them" : "the scores do not cover it";
    return s->count[et_tabular_asked_for(task)] ? "precision and AUC are meaningless"
                                                : "precision, recall, F1 and AUC are meaningless";
}

static void tell_unmeasured(const et_tabular_task *task, const target_seen *s, const char *where)
{
    et_strbuf names = ET_STRBUF_INIT;
    const bool classes = task->target.classes > 0;
    const int64_t all = classes ? s->target->classes : s->target->width;
    const int missing =
        name_missing(classes ? s->target->label : s->target->column, s->count, (int)all, &names);
    if (missing && classes)
        et_log(ET_LOG_WARNING, "target %s: no row of %s is %s: %s", s->target->column[0],
               et_strbuf_text(&names), where, unmeasured(task, s, missing));
    else if (missing)
        et_log(ET_LOG_WARNING,
               "target %s: all rows that are %s have the same value: r2 is meaningless",
               et_strbuf_text(&names), where);
    et_strbuf_release(&names);
}

/* ---- all parts ---- */

static int look(target_seen *s, const et_tabular_task *task, et_error *error)
{
    const et_tabular_set *sets = task->options.validation_data.sets.items;
    int status = ET_OK;
    if (task->target.classes) {
        status = see(s, task, task->training, error);
        if (!status)
            tell_unlearned(s);
    }
    for (int i = 0; !status && i < task->validations; i++) {
        char where[160] = "held out";
        if (task->other[0])
            snprintf(where, sizeof where, "in the validation %s%.120s", sets ? "set " : "data",
                     sets ? sets[i].name : "");
        status = see(s, task, task->validation[i], error);
        if (!status)
            tell_unmeasured(task, s, where);
    }
    return status;
}

int et_tabular_tell_rare(const et_tabular_task *task, et_error *error)
{
    const et_encoded_field *target =
        et_encoder_field(task->encoder, et_encoder_target(task->encoder));
    const bool classes = target->kind == ET_ENCODED_CLASS;
    const size_t count = (size_t)(classes ? target->classes : target->width);
    if (task->context.reader || et_comm_rank(task->context.comm) ||
        (!classes && et_encoder_written(task->encoder) < 0))
        return ET_OK;
    target_seen s = { .target = target,
                      .count = et_alloc(count, sizeof *s.count),
                      .first = et_alloc(count, sizeof *s.first) };
    int status = s.count && s.first
                     ? look(&s, task, error)
                     : et_alloc_failed(error, count * sizeof *s.count, "counts of a target");
    et_free(s.count);
    et_free(s.first);
    return status;
}
