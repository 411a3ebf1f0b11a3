/* Predictions for `etude serve`, with the texts of `etude predict`:
 *
 *     POST /predict {"rows": [{"age": 39, "job": "clerk"}, ...]}
 *     {"predictions": [{"label": "no", "scores": [0.98123, 0.01877]}, ...]}
 *
 * Rows of a request may also be CSV (text/csv), with a header or without one, and an answer CSV or
 * JSON lines (Accept: text/csv, application/x-ndjson). A value that is missing has no key, or null;
 * the target may be there. With "unknown": true in the request the answer lists the columns with
 * values that the model has never seen (data/table/features/unseen.h): "unknown": [{"column":
 * "job", "values": 2, "row": 1, "value": "clrk"}], the value of the first of those rows, null where
 * it is missing. JSON lines end with that. */
#ifndef ETUDE_COMMAND_TABULAR_TABULAR_SERVICE_H
#define ETUDE_COMMAND_TABULAR_TABULAR_SERVICE_H

#include <etude/service.h>

extern const et_service_class et_tabular_service;

#endif
