/* The report of an analysis (data/table/analysis/analyze_report.c) for people: a table of numeric
 * columns with small histograms, a table of discrete columns with their most frequent values, and
 * suspicious findings. */
#ifndef ETUDE_COMMAND_TABULAR_DATA_REPORT_H
#define ETUDE_COMMAND_TABULAR_DATA_REPORT_H

#include <stdbool.h>

#include <etude/value.h>

#include "base/text/strbuf.h"

/* ascii: draws only ASCII characters; names and values are not changed. */
void et_data_report_print(et_strbuf *out, const et_value *report, bool ascii);

#endif
