/* One of several models that a run trains together: a folder of the run, with texts of its own and
 * a file, member.yaml, that says which one it is. As a place (model_place.h) it is a model like any
 * other. Its settings are a part of the run's, its weights are in the run's checkpoints, where its
 * own have its name before theirs and those that it shares have not.
 *
 *   RUN/params.yaml         task: {list: [..., {config: {...}}]}, trainer: {...}
 *   RUN/task_2/member.yaml  name: red, experiment: rings/small, settings: task.list[1].config
 *   RUN/checkpoints/...     red/logits/weight, layer_0/weight
 *
 *     et_model_member_write("runs/a/task_2", &member, &error);         who trains
 *     et_model_member_find(&folder, "runs/a", "red", &error);          runs/a/task_2
 */
#ifndef ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_MEMBER_H
#define ETUDE_TRAIN_CHECKPOINT_ARTIFACT_MODEL_MEMBER_H

#include <stdbool.h>

#include <etude/value.h>

#include "base/arena.h"

typedef struct et_model_member {
    const char *name;
    const char *experiment; /* of its kind, on top of which its settings are put */
    const char *settings;   /* where they stand in the run's: "task.list[1].config" */
    const char *run;        /* the directory; set by open, as arena and prefix */
    const char *prefix;     /* "red/" */
    et_arena arena;
} et_model_member;

/* Writes member.yaml: name, experiment and settings. */
int et_model_member_write(const char *folder, const et_model_member *member, et_error *error);

/* *out NULL: the folder is no member's. ET_EFORMAT: its file is damaged. */
int et_model_member_open(et_model_member **out, const char *folder, et_error *error);
void et_model_member_close(et_model_member *member); /* NULL allowed */

/* Its settings as the text of a run of it alone (et_free). The best value is that of its kind. */
int et_model_member_print(const et_model_member *member, char **text, size_t *length,
                          et_error *error);

/* What a checkpoint of the run says of itself becomes what one of this model alone would say. Lives
 * in arena; what a run has kept for its members stands in its dict `tasks` by their names. */
int et_model_member_identify(const et_model_member *member, const et_value **identity,
                             et_arena *arena, et_error *error);

#define ET_MODEL_MEMBERS "tasks" /* that key */

/* The folder of a run's model of that name; free with et_free. ET_ECONFIG names
 * those that there are. */
int et_model_member_find(char **folder, const char *run, const char *name, et_error *error);

/* For who wants one of them, of a run that may have several: ET_ECONFIG then, with their names and
 * how one is named; ET_OK: it has none. */
int et_model_member_wanted(const char *run, et_error *error);

#endif
