/* A run's history: its logged values, as series of points by name, with settings and sessions.
 * Reads only and takes no lock, so the run may be training; update reads new lines. A last line
 * without an end (cut short by a kill, or being written) is ignored.
 *
 *     et_history *history;
 *     et_history_open(&history, "runs/a", &error);
 *     const et_history_series *loss = et_history_find(history, "train.training_loss");
 *     ... loss->points[i] ...
 *     bool anew;
 *     et_history_update(history, &anew, &error);          now and then, while the run trains
 *     ... anew: everything was read again, because earlier points are invalid;
 *     ... else there are new series and points at the ends ...
 *     et_history_close(history);
 *
 * Names are those of RUN/metrics.jsonl, with a dot for each level: {"step": 200, "train":
 * {"training_loss": 4.1, "time": {"steps_per_second": 8.2}}} has train.training_loss and
 * train.time.steps_per_second. Values of `--mode continuous_eval` (RUN/validation/metrics.jsonl)
 * begin with "measured.". Numbers and truth values are points, null is NaN; texts and lists are
 * ignored. No name has a control character.
 *
 * Files may come from anyone. ET_EFORMAT, with file and line: a line longer than
 * ET_HISTORY_LINE_MAX, more names than ET_HISTORY_SERIES_MAX, or not JSON. Lines before it stay
 * read. Use a value from one thread. */
#ifndef ETUDE_COMMAND_RUNS_HISTORY_H
#define ETUDE_COMMAND_RUNS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/value.h>

#define ET_HISTORY_LINE_MAX   ((size_t)16 << 20)
#define ET_HISTORY_NAME_MAX   400
#define ET_HISTORY_SERIES_MAX 4096

typedef struct et_history_point {
    int64_t step;
    double wall;  /* time of logging, seconds since 1970; NaN: unknown */
    double value; /* NaN: not a number */
} et_history_point;

typedef struct et_history_series {
    const char *name;
    et_history_point *points; /* [count] in the order of the log */
    size_t count, capacity;
} et_history_series;

/* Read only; everything except model_dir is valid until update or close. */
typedef struct et_history {
    const char *model_dir;     /* as given to open */
    et_history_series *series; /* [count] in the order of their names' first use; update adds at the
                                * end unless everything is read again */
    size_t count, capacity;
    int64_t lines;                /* of metrics.jsonl, whole ones */
    int64_t step;                 /* the largest logged step; -1: none */
    double first_wall, last_wall; /* of the run's own lines; NaN: none */
    const et_value *settings;     /* params.yaml; NULL: no such file */
    const et_value *info;         /* info.json (session.h); NULL: no such file */
    struct et_history_files *files;
} et_history;

/* Whether a directory is a run: it has metrics.jsonl or params.yaml. */
bool et_history_is_run(const char *directory);

/* Reads everything. ET_ENOTFOUND: the directory is not a run; *out is NULL. If a file of the run is
 * damaged, *out has the readable part and must be closed too. */
int et_history_open(et_history **out, const char *model_dir, et_error *error);
/* For a run that strangers may write to: reads only files below root (et_file_read_below), also in
 * updates. */
int et_history_open_below(et_history **out, const char *model_dir, const char *root,
                          et_error *error);

/* Reads new lines. *anew: everything was read again, because a log was replaced or cut off (a
 * resumed run, or a run that went back to a checkpoint). On failure earlier results stay; the next
 * call tries again. */
int et_history_update(et_history *history, bool *anew, et_error *error);

void et_history_close(et_history *history); /* NULL allowed */

/* NULL: no series has this name. */
const et_history_series *et_history_find(const et_history *history, const char *name);

/* Series for a name from a user; a slash or a bar counts as a dot. Tried in this order: the series
 * with this name; series whose names end with a dot and this name (validation_loss); the same if
 * "training_" and "validation_" are ignored (loss finds two series). Returns the number of series
 * found; at most `most` go to out. */
size_t et_history_match(const et_history *history, const char *word, const et_history_series **out,
                        size_t most);

/* The name of a series as a person writes it: "validation loss" of "validation.validation_loss",
 * "steps per second (train)" of "train.time.steps_per_second". In arena; NULL: no memory. */
const char *et_history_label(const et_history_series *series, et_arena *arena);

/* ---- facts ---- */

/* A setting by its dotted path, NULL: not known. */
const et_value *et_history_setting(const et_history *history, const char *path);

/* The best validation, as the run itself logged it last: metric, value and step are of one line. */
typedef struct et_history_best {
    const et_history_series *series; /* of the metric; NULL: the run keeps no best */
    const char *metric;              /* as validation names it */
    bool lower;                      /* the lower the better */
    int64_t step;
    double value;
} et_history_best;
et_history_best et_history_best_of(const et_history *history);

/* Whether lower values are better, judged by parts of the name: loss, nll, error, perplexity,
 * seconds and similar ones. The run's own statement about its best metric has priority. */
bool et_history_is_lower_better(const et_history *history, const et_history_series *series);

/* Whether the series repeats an earlier one: the same measure of the same data, with the same
 * numbers or their negatives (et_metric_is_double). */
bool et_history_repeats(const et_history *history, const et_history_series *series);

/* The point with the best value, the first of equals; NULL: no value is a number. */
const et_history_point *et_history_extreme(const et_history_series *series, bool lower);

/* The training loss, or else the first series; NULL: no logs. */
const et_history_series *et_history_loss(const et_history *history);

/* The list of its sessions, oldest first; NULL: none. */
const et_value *et_history_sessions(const et_history *history);

/* Steps done: the largest step of a log, of the last session's begin or end, or of a checkpoint;
 * -1: none is known, as of a run that trains several models. */
int64_t et_history_steps_done(const et_history *history);

/* Steps in all: as the run has counted them, or its settings; 0: not known. */
int64_t et_history_steps(const et_history *history);

/* The step of the last session's first logged values; 0: not known. */
int64_t et_history_first_values(const et_history *history);

/* Steps of an epoch, estimated from the log: the largest of step / epoch, which is slightly too
 * small; NaN: the log has no epochs. */
double et_history_steps_per_epoch(const et_history *history);

/* The run's working time until `wall`, without pauses between sessions; without sessions, the time
 * since its first log. NaN: unknown. */
double et_history_seconds(const et_history *history, double wall);

/* The same for the whole run: until now while it runs, else until its last sign of life. */
double et_history_seconds_in_all(const et_history *history);

/* How the run is. */
typedef enum et_history_state {
    ET_HISTORY_UNKNOWN,     /* no sessions were kept */
    ET_HISTORY_RUNNING,     /* on this machine */
    ET_HISTORY_DONE,        /* to its last step, or stopped early */
    ET_HISTORY_INTERRUPTED, /* saved, to be resumed */
    ET_HISTORY_DIVERGED,
    ET_HISTORY_FAILED,
    ET_HISTORY_KILLED, /* ended without a word, or works on another machine */
} et_history_state;
et_history_state et_history_state_of(const et_history *history);
const char *et_history_state_name(et_history_state state); /* "running"; "" of UNKNOWN; static */

/* Adds the known facts: "run", "state", "step", "steps", "seconds", and "best" with metric, value
 * and step of best. No best: best->series is NULL or best->step negative. */
void et_history_describe(const et_history *history, const et_history_best *best, et_value *dict);

/* Parameters of the model, from the last session, or else from the head of the newest existing
 * checkpoint; 0: unknown. */
int64_t et_run_parameters(const et_history *history);

#endif
