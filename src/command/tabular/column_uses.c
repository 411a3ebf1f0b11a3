#include "command/tabular/column_uses.h"

#include "tasks/tabular/tabular_task.h"

/* Why features ignore a column is known only if they were inferred. */
bool et_tabular_find_uses(const et_tabular_task *task, et_column_use *uses)
{
    const char *given = task->options.features_path;
    const et_feature_choice choice = et_tabular_choice(&task->options);
    bool ids = false;
    et_column_uses_of(uses, task->texts.schema, task->texts.features);
    for (int i = 0; i < et_schema_count(task->texts.schema) && !(given && *given); i++) {
        const et_schema_field *field = et_schema_at(task->texts.schema, i);
        et_column_use inferred = et_column_use_infer(
            field, et_metadata_find(task->texts.metadata, field->name), &choice);
        if (inferred.ignored && !(uses[i].transforms & ~inferred.transforms))
            uses[i].ignored = inferred.ignored;
        const et_column_use *use = &uses[i];
        ids |= use->ignored == ET_COLUMN_KEY || use->ignored == ET_COLUMN_RUNNING;
    }
    return ids;
}
