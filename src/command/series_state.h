/* The progress of a run that is a series of trainings (tabular/auto, --folds). Such a run has no
 * session of its own, and no weights until all trainings are done. Reads only the run's files. */
#ifndef ETUDE_COMMAND_SERIES_STATE_H
#define ETUDE_COMMAND_SERIES_STATE_H

#include <stdbool.h>

#include "base/text/strbuf.h"

/* Whether the run is a series that has no model yet. */
bool et_series_is_unfinished(const char *model_dir);
/* The state of a series: "done" if it has a model. Otherwise the reason (session.h) or "killed" of
 * a training that ended badly, or "interrupted". NULL: not a series. Static. */
const char *et_series_reason(const char *model_dir);
/* Appends "linear: done; mlp: in training (a/members/mlp_2); tabm: left out; realmlp: not begun".
 */
void et_series_describe(et_strbuf *out, const char *model_dir);

#endif
