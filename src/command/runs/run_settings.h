/* Settings of several runs, by dotted path, for comparing them.
 *
 *     et_run_settings settings;
 *     et_run_settings_open(&settings, &histories, &error);
 *     ... of i < settings.count with settings.differs[i]:
 *     ... settings.names[i], et_run_settings_value(&settings, i, run) ...
 *     et_run_settings_close(&settings);
 */
#ifndef ETUDE_COMMAND_RUNS_RUN_SETTINGS_H
#define ETUDE_COMMAND_RUNS_RUN_SETTINGS_H

#include "base/arena.h"
#include "base/map.h"
#include "command/runs/histories.h"

typedef struct et_run_settings {
    const char **names;  /* [count] in the order in which runs have them */
    const char **values; /* [count, runs] as text; NULL: the run has none */
    bool *differs;       /* [count] two runs have different values, or only one of them has a value;
                            runs with unknown settings are ignored */
    size_t count, runs, name_capacity, value_capacity;
    et_arena arena;
    et_map index;
} et_run_settings;

int et_run_settings_open(et_run_settings *settings, const et_histories *runs, et_error *error);
void et_run_settings_close(et_run_settings *settings);

/* NULL: the run does not have this setting. */
const char *et_run_settings_value(const et_run_settings *settings, size_t name, size_t run);

/* The name for a table: the shortest end, from a dot on, that no other differing setting has. */
const char *et_run_settings_head(const et_run_settings *settings, size_t name);

#endif
