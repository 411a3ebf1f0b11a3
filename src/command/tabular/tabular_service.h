/* The service of predictions for `etude serve`, with the texts of `etude predict`:
 *
 *   POST /predict {"rows": [{"age": 39, "job": "clerk"}, ...]}
 *   {"predictions": [{"label": "no", "scores": {"no": 0.98123, "yes": 0.01877}}, ...]}
 *
 *     static const et_task_kind rows = { .name = "rows", .service = &et_tabular_service };
 *
 * Rows of a request may also be CSV (text/csv), with or without a header. An answer may be CSV or
 * JSON lines (Accept: text/csv, application/x-ndjson). A missing value has no key, or null; the
 * target may be given. With "unknown": true in the request, the answer also lists the columns with
 * values that the model has never seen (data/table/features/unseen.h): "unknown": [{"column":
 * "job", "values": 2, "row": 1, "value": "clrk"}], with the value of the first such row, null if it
 * is missing. In JSON lines, the last line has this list. */
#ifndef ETUDE_COMMAND_TABULAR_TABULAR_SERVICE_H
#define ETUDE_COMMAND_TABULAR_TABULAR_SERVICE_H

#include <etude/service.h>

extern const et_service_class et_tabular_service;

#endif
