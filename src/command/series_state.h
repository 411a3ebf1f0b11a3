/* How far a series of trainings is (tabular/auto, --folds): the run itself has no session and,
 * until it has its model, no weights. Reads only the files of the run. */
#ifndef ETUDE_COMMAND_SERIES_STATE_H
#define ETUDE_COMMAND_SERIES_STATE_H

#include <stdbool.h>

#include "base/text/strbuf.h"

/* Whether the run is a series that has no model yet. */
bool et_series_is_unfinished(const char *model_dir);
/* "done", and without a model how its trainings were left: a reason of session.h, or "killed".
 * NULL: not a series. Static. */
const char *et_series_reason(const char *model_dir);
/* Appends "linear: done; mlp: in training (a/members/mlp_2); tabm: left out; realmlp: not begun".
 */
void et_series_describe(et_strbuf *out, const char *model_dir);

#endif
