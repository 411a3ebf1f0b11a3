/* Several problems in one message: problems are collected and reported together. Problems that do
 * not fit into the text of an error are counted.
 *
 *     et_problems problems = ET_PROBLEMS_INIT;
 *     et_problems_add(&problems, "field %s is not in the schema", name);
 *     status = et_problems_report(&problems, ET_ECONFIG, "the features do not fit", &error);
 */
#ifndef ETUDE_BASE_TEXT_PROBLEMS_H
#define ETUDE_BASE_TEXT_PROBLEMS_H

#include <etude/error.h>

#include "base/text/strbuf.h"

typedef struct et_problems {
    et_strbuf text;
    int count, shown;
} et_problems;

#define ET_PROBLEMS_INIT                                                                           \
    {                                                                                              \
        ET_STRBUF_INIT, 0, 0                                                                       \
    }

void et_problems_add(et_problems *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ET_OK: no problems; else "what: one", "what, in 3 places: (1) one; (2) two; ...". Releases
 * problems. */
int et_problems_report(et_problems *self, int status, const char *what, et_error *error);

#endif
