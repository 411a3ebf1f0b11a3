/* RUN/members.jsonl: a line with the result of each candidate of a series.
 *
 *   {"candidate": "mlp", "seconds": 12.5, "values": {"accuracy": 0.871, "log_loss": 0.281}}
 *   {"candidate": "tabm", "left_out": "the time limit ended its training"}
 *
 * A resumed run follows this file. An incomplete last line is refused. The run writes the file
 * (training/series.c), and commands that show runs read it. */
#ifndef ETUDE_COMMAND_TRAINING_SERIES_LOG_H
#define ETUDE_COMMAND_TRAINING_SERIES_LOG_H

#include <stdbool.h>

#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "systems/modelgarden/series.h"

typedef struct et_series_entry {
    bool done, left_out;
    double seconds;
    et_series_score score; /* set when this process scores it, never from the file */
} et_series_entry;

typedef struct et_series_log {
    const et_series_run *run; /* borrowed */
    et_path path;
    et_series_entry *item; /* [run->count]; owned. NULL: not open */
    et_strbuf text;        /* all lines */
} et_series_log;

/* Reads the file, if it exists. ET_EFORMAT: a line is not an object, or names no candidate. */
int et_series_log_open(et_series_log *log, const char *model_dir, const et_series_run *run,
                       et_error *error);
void et_series_log_close(et_series_log *log); /* zeros allowed */

/* The progress of a run that is a series of trainings (tabular/auto, --folds). Such a run has no
 * session of its own, and no weights until all trainings are done. Reads only the run's files. */

/* Whether the run is a series that has no model yet. */
bool et_series_is_unfinished(const char *model_dir);
/* The state of a series. "done": it has a model. Otherwise the reason (session.h) or "killed" if a
 * training has failed, or else "interrupted". NULL: not a series. Static. */
const char *et_series_reason(const char *model_dir);
/* Appends "linear: done; mlp: in training (a/members/mlp_2); tabm: left out; realmlp: not begun".
 */
void et_series_describe(et_strbuf *out, const char *model_dir);

#endif
