#include "systems/modelgarden/main_metrics.h"

#include <string.h>

#include "base/alloc.h"
#include "formats/events/log_names.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/checkpoint/metric_name.h"

static bool is_same(const char *a, const char *b)
{
    static const char marks[] = "|/.";
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr(marks, *a) && strchr(marks, *b)))
            return false;
    return *a == *b;
}

void et_main_metrics_add(et_main_metrics *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (is_same(m->name[i], name) || et_metric_is_double(m->name[i], name))
            return;
    if (m->count < ET_MAIN_METRICS_MAX)
        m->name[m->count++] = name;
}

static void add_all(et_main_metrics *m, const et_task_class *class)
{
    const char *const usual[] = { class->best_metric ? class->best_metric
                                                     : ET_LOGGED_VALIDATION_LOSS,
                                  ET_LOGGED_VALIDATION_LOSS, NULL };
    for (const char *const *name = class->main_metrics ? class->main_metrics : usual; *name; name++)
        et_main_metrics_add(m, *name);
}

static const char *first_of(const et_task_class *class)
{
    if (class->best_metric)
        return class->best_metric;
    return class->main_metrics && *class->main_metrics ? *class->main_metrics
                                                       : ET_LOGGED_VALIDATION_LOSS;
}

int et_main_metrics_best(const char **name, const et_task_trainer *trainer, const char *prefix,
                         et_arena *arena, et_error *error)
{
    const char *own = trainer->task->class->best_metric;
    const char *set = et_task_trainer_validation_set(trainer, 0);
    *name = NULL;
    if (!own)
        return ET_OK;
    *name = et_arena_printf(arena, "%s%s%s%s", prefix, set ? set : "", set ? "/" : "", own);
    return *name ? ET_OK : et_alloc_failed(error, 0, "a name");
}

int et_main_metrics_of_task(et_main_metrics *m, const et_task_trainer *trainer, const char *prefix,
                            bool only_first, et_arena *arena, et_error *error)
{
    const et_task_class *class = trainer->task->class;
    const char *set = et_task_trainer_validation_set(trainer, 0);
    if (!trainer->validation.source)
        return ET_OK;
    if (!set && !only_first) {
        add_all(m, class);
        return ET_OK;
    }
    for (int i = 0; i == 0 || (set && !only_first);
         set = et_task_trainer_validation_set(trainer, ++i)) {
        const char *name = et_arena_printf(arena, "%s%s%s%s", prefix, set ? set : "",
                                           set ? "/" : "", first_of(class));
        if (!name)
            return et_alloc_failed(error, 0, "a name");
        et_main_metrics_add(m, name);
    }
    return ET_OK;
}
