#include "tasks/multitask/member.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "base/values/yaml.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/artifact/artifact.h"

/* Lines of one text that are none of another. */
static int count_others(const char *text, const char *other)
{
    int count = 0;
    for (size_t length; *text; text += length + (text[length] != 0)) {
        const char *at = other;
        length = strcspn(text, "\n");
        while (at && (strncmp(at, text, length) != 0 || (at[length] && at[length] != '\n')))
            at = (at = strchr(at, '\n')) ? at + 1 : NULL;
        count += !at;
    }
    return count;
}

static int print_task(const et_task_kind *kind, const void *options, et_arena *arena,
                      et_strbuf *out, et_error *error)
{
    const et_value *values = et_fields_effective(kind->fields, options, arena);
    if (values)
        et_yaml_print(out, values);
    return values && !out->failed ? ET_OK : et_alloc_failed(error, 0, "settings");
}

/* Which of the kind's experiments the task's settings are like: its name is what people read. One
 * whose own settings are wrong is none. */
static int choose_experiment(const et_multitask_settings *settings, int i, et_arena *arena,
                             const char **name, et_error *error)
{
    const et_task_kind *kind = et_multitask_kind_of(settings, i);
    const et_program program = { "etude", &kind, 1, NULL };
    et_strbuf own = ET_STRBUF_INIT, usual = ET_STRBUF_INIT;
    int least = INT_MAX;
    int status = print_task(kind, et_multitask_options_of(settings, i), arena, &own, error);
    *name = kind->experiments->name;
    for (const et_experiment_row *row = kind->experiments; row->name && !status; row++) {
        et_experiment one;
        et_strbuf_reset(&usual);
        if (et_experiment_begin(&one, &program, row->name, arena, NULL))
            continue;
        status = print_task(kind, one.task, arena, &usual, error);
        int others = status ? INT_MAX : count_others(et_strbuf_text(&own), et_strbuf_text(&usual));
        if (others < least) {
            least = others;
            *name = row->name;
        }
    }
    et_strbuf_release(&own);
    et_strbuf_release(&usual);
    return status;
}

int et_multitask_write_member(const et_multitask_settings *settings, int i, const char *folder,
                              et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_artifact_member member = { .name = et_multitask_routine_at(settings, i)->task_name };
    int status = choose_experiment(settings, i, &arena, &member.experiment, error);
    member.settings = et_arena_printf(&arena, "task.task_routines[%d].task_config.%s", i,
                                      et_multitask_kind_of(settings, i)->name);
    if (!status)
        status = member.settings ? et_artifact_write_member(folder, &member, error)
                                 : et_alloc_failed(error, 0, "settings");
    et_arena_release(&arena);
    return status;
}
