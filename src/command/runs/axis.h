/* An axis maps values to positions between 0 and 1, and has ticks. Ticks are at 1, 2 or 5 times a
 * power of ten (P. Heckbert, "Nice numbers for graph labels", Graphics Gems, 1990); on an axis of
 * times, at whole parts of minutes, hours and days; on a logarithmic axis, at decades. */
#ifndef ETUDE_COMMAND_RUNS_AXIS_H
#define ETUDE_COMMAND_RUNS_AXIS_H

#include "base/text/format.h"
#include "command/runs/chart.h"

#define ET_AXIS_TICKS_MAX 32

typedef struct et_axis {
    double low, high; /* finite, low < high */
    bool log, time;
    double step;                     /* between ticks; 0: decades */
    double ticks[ET_AXIS_TICKS_MAX]; /* [count], ascending, within the axis */
    int count;
} et_axis;

/* low <= high, finite, above 0 if log. A single value gets space on both sides. If most_ticks is 4
 * or more, the axis has at least 4 ticks, even if this exceeds most_ticks. */
et_axis et_axis_make(double low, double high, bool log, bool time, int most_ticks);

/* NaN: the value is not on the axis. */
double et_axis_position(const et_axis *axis, double value);

/* No two ticks of an axis have equal labels. */
et_format et_axis_label(const et_axis *axis, int tick);
/* Characters of the longest label. */
int et_axis_label_length(const et_axis *axis);

/* Both axes of a chart. ET_EDATA: no point of it can be drawn. */
int et_chart_axes(et_axis *x, et_axis *y, const et_chart *chart, int x_ticks, int y_ticks,
                  et_error *error);

#endif
