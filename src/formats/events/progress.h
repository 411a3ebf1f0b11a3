/* Progress for people, on one file descriptor that the program chooses. On a terminal a bar
 *
 *     step  1,840/6,000 ━━━━━━━━━━╸          31%  loss 3.127  lr 0.0041  34.1k tok/s  2:04 left
 *
 * is redrawn at most ten times per second, as wide as the window allows. Elsewhere, and with
 * TERM=dumb, the same appears as plain lines at an interval. NO_COLOR is obeyed; outside UTF-8
 * locales the bar is ASCII. Messages appear above the bar, each written at once; on a terminal they
 * are wrapped between words (base/text/terminal.h).
 *
 * Output that cannot be written (a closed terminal) is dropped: progress never stops a run. All
 * functions may be called from any thread. */
#ifndef ETUDE_FORMATS_EVENTS_PROGRESS_H
#define ETUDE_FORMATS_EVENTS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/text/strbuf.h"

typedef enum et_progress_mode {
    ET_PROGRESS_AUTO, /* BAR on a terminal that can, else PLAIN */
    ET_PROGRESS_BAR,
    ET_PROGRESS_PLAIN,
    ET_PROGRESS_QUIET, /* messages only */
} et_progress_mode;

typedef struct et_progress_options {
    int fd; /* borrowed; -1: no output */
    et_progress_mode mode;
    double plain_interval; /* seconds between plain lines */
    bool rows; /* the caller prints the last step in its own message, so no plain line is written
                * for it */
    bool mute; /* messages go to the copy alone, and no bar stays on the screen */
} et_progress_options;

#define ET_PROGRESS_OPTIONS_INIT                                                                   \
    {                                                                                              \
        -1, ET_PROGRESS_AUTO, 10.0, false, false                                                   \
    }

#define ET_PROGRESS_FIELDS_MAX 8

typedef struct et_progress_field {
    const char *name; /* "loss"; lives as long as the progress */
    double value;
    bool fixed; /* always three decimals, so that what changes slowly does not change its length */
} et_progress_field;

/* The values to show. Unknown: steps 0, epoch 0, rate and seconds_left NaN. */
typedef struct et_progress_state {
    const char *what;                /* is counted: "lines"; NULL: "step" */
    int64_t step, steps;             /* done, and in all */
    const et_progress_field *fields; /* borrowed during the call */
    size_t field_count;              /* ET_PROGRESS_FIELDS_MAX at most */
    double rate;                     /* units a second */
    const char *unit;                /* "tok/s"; lives as long as the progress */
    int64_t epoch;                   /* from 1 */
    double seconds_left;
    double time; /* of et_clock_monotonic; 0: now */
} et_progress_state;

/* How a line is to look. */
typedef struct et_progress_style {
    int width;  /* columns at most; 0: no limit, and no bar */
    bool color; /* ANSI colours */
    bool ascii; /* no characters outside ASCII */
} et_progress_style;

typedef struct et_progress et_progress;

int et_progress_open(et_progress **out, const et_progress_options *options, et_error *error);

/* Shows state, unless the last redraw (or plain line) is too recent. Cheap: call each step.
 * With seconds_left NaN it is estimated from the steps since open. */
void et_progress_update(et_progress *progress, const et_progress_state *state);

/* One or more lines above the bar; a line end is added. */
void et_progress_message(et_progress *progress, const char *text);

/* The same, also if messages are muted. */
void et_progress_alert(et_progress *progress, const char *text);

/* A line only for the copy: the bar shows it in another form, or the screen not at all. */
void et_progress_record(et_progress *progress, const char *text);

/* Calls to(self, text) for every later message, also in quiet mode: one at a time, on the thread of
 * the message. The function must not call progress. NULL: no copy. */
void et_progress_copy_to(et_progress *progress, void (*to)(void *self, const char *text),
                         void *self);

/* Columns that a line has here; 79: not a terminal. Windows change. */
int et_progress_width(const et_progress *progress);

/* The text that removes a bar; "" if there can be no bar. For writers to the descriptor that can't
 * lock, such as signal handlers; the next redraw draws the bar below. Static. */
const char *et_progress_eraser(const et_progress *progress);

/* Removes the bar; or, with keep, shows its last state and ends the line. A mute bar is always
 * removed. */
void et_progress_finish(et_progress *progress, bool keep);

void et_progress_close(et_progress *progress); /* finishes first, keeping; NULL allowed */

/* Appends the line for a state: the pure part of the above. */
void et_progress_line(et_strbuf *out, const et_progress_state *state, et_progress_style style);

/* Whether the environment asks for UTF-8: characters outside of ASCII may be drawn. */
bool et_locale_is_utf8(void);

#endif
