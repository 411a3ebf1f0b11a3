/* One line of text that is redrawn in place. et_progress_line computes everything that needs no
 * terminal, and tests call it; the other functions choose the time, the descriptor and the
 * characters.
 *
 * A bar of BAR_WIDTH_MIN columns stays if the step leaves room. Other parts are dropped for it: the
 * epoch first, then the fields from the right except the first, the rate, the remaining time, the
 * first field. Free columns then make the bar longer, up to BAR_WIDTH.
 *
 *   step  1,840/6,000 ━━━━━━━━━╸           31%  loss 3.127  34.1k tok/s  2:04 left
 *
 * Invariants:
 *
 *   (1) every change of the screen is one write: "\r", the line, "erase the rest";
 *   (2) while the bar is drawn, the cursor is after it in the last line, and all other output
 *       first erases it;
 *   (3) the lock protects all of the struct, except members set at the opening and drawn_time;
 *   (4) states are kept only for drawing: without a bar, a state that is not due is dropped.
 *
 * A signal handler must not call these functions: the interrupted thread may hold the lock. */
#include "formats/events/progress.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/inline.h"
#include "base/plain.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/terminal.h"
#include "base/text/unicode.h"

#define REDRAW_INTERVAL 0.1 /* seconds */
#define BAR_WIDTH       30  /* columns, as long as they fit */
#define BAR_WIDTH_MIN   10
#define ERASE_REST      "\033[K"

/* Bytes of a drawn line: a wide terminal's, with colors and characters of three bytes. */
#define LINE_ROOM 1024

struct et_progress {
    pthread_mutex_t lock;                             /* of everything below */
    int fd;                                           /* borrowed; -1: no output */
    et_progress_mode mode;                            /* never AUTO */
    bool color, ascii;                                /* as in et_progress_style */
    bool terminal;                                    /* messages are wrapped at its width */
    bool rows, mute;                                  /* as in et_progress_options */
    double plain_interval;                            /* seconds between lines if there is no bar */
    et_progress_state state;                          /* the latest state */
    et_progress_field fields[ET_PROGRESS_FIELDS_MAX]; /* copies, which state points to */
    bool started;                                     /* there is a state */
    bool drawn;                                       /* the terminal's last line shows a bar */
    int64_t first_step, drawn_step; /* of the first update, and of the last line */
    double first_time;              /* monotonic, as drawn_time */
    _Atomic double drawn_time;
    et_strbuf line;                             /* the text to write */
    et_strbuf plain;                            /* a message in it */
    void (*copy)(void *self, const char *text); /* gets messages; NULL: none */
    void *copy_self;
};

/* ---- the line ---- */

/* Pure functions of a state, a width and a style. */

static int columns(const char *text)
{
    return (int)et_utf8_columns(text, strlen(text));
}

/* width columns; half columns are drawn in UTF-8. The part that is not done is spaces, so that
 * the bar's length does not depend on the fraction. */
static void append_bar(et_strbuf *out, double fraction, int width, et_progress_style style)
{
    et_assert(fraction >= 0 && fraction <= 1 && width > 0);
    const int halves = (int)(fraction * 2 * width);
    const char *full = style.ascii ? "=" : "\u2501", *half = style.ascii ? ">" : "\u2578";
    et_strbuf_append(out, style.color ? "\033[36m" : "");
    for (int i = 0; i < width; i++)
        et_strbuf_append(out, 2 * i + 2 <= halves ? full : 2 * i + 1 <= halves ? half : " ");
    et_strbuf_append(out, style.color ? "\033[0m" : "");
}

/* Fields, rate, epoch, time left. */
enum { PARTS_MAX = ET_PROGRESS_FIELDS_MAX + 3 };

#define PART_NAME_MAX 21

/* A part of the line right of the bar, two spaces before it. 64 bytes are enough: names are cut at
 * 20, numbers have fewer than 40. */
typedef struct part {
    char text[64];
    int rank; /* the part with the highest is dropped first */
} part;

enum { RANK_FIRST_FIELD, RANK_LEFT, RANK_RATE, RANK_FIELDS, RANK_EPOCH = PARTS_MAX };

/* Returns how many. */
static int make_parts(part parts[PARTS_MAX], const et_progress_state *state)
{
    int count = 0;
    for (size_t i = 0; i < state->field_count; i++) {
        const et_progress_field *field = &state->fields[i];
        char name[PART_NAME_MAX];
        et_plain_copy(name, sizeof name, field->name);
        parts[count].rank = i ? RANK_FIELDS + (int)i : RANK_FIRST_FIELD;
        snprintf(parts[count++].text, 64, "  %s %s", name,
                 (field->fixed ? et_format_decimals : et_format_value)(field->value).text);
    }
    if (!isnan(state->rate)) {
        parts[count].rank = RANK_RATE;
        snprintf(parts[count++].text, 64, "  %s %.20s", et_format_rate(state->rate).text,
                 state->unit ? state->unit : "");
    }
    if (state->epoch > 0) {
        parts[count].rank = RANK_EPOCH;
        snprintf(parts[count++].text, 64, "  epoch %s", et_format_count(state->epoch).text);
    }
    if (!isnan(state->seconds_left)) {
        parts[count].rank = RANK_LEFT;
        snprintf(parts[count++].text, 64, "  %s left",
                 et_format_duration(state->seconds_left).text);
    }
    return count;
}

/* Drops parts until the rest fits into `room` columns. Returns the columns of the rest. */
static int drop_parts(part *parts, int *count, int room)
{
    int used = 0;
    for (int i = 0; i < *count; i++)
        used += columns(parts[i].text);
    while (used > room && *count > 0) {
        int first = 0;
        for (int i = 1; i < *count; i++)
            first = parts[i].rank > parts[first].rank ? i : first;
        used -= columns(parts[first].text);
        memmove(&parts[first], &parts[first + 1], (size_t)(--*count - first) * sizeof *parts);
    }
    return used;
}

/* width 0 leaves everything in and draws no bar, as in a log file. */
void et_progress_line(et_strbuf *out, const et_progress_state *state, et_progress_style style)
{
    et_assert(state->field_count <= ET_PROGRESS_FIELDS_MAX);
    part parts[PARTS_MAX];
    int count = make_parts(parts, state);
    const size_t start = out->length;
    /* "step  1,840/6,000", the step as wide as steps. */
    const et_format total = et_format_count(state->steps);
    et_strbuf_printf(out, "%s  ", state->what ? state->what : "step");
    if (state->steps > 0)
        et_strbuf_printf(out, "%*s/%s", (int)strlen(total.text), et_format_count(state->step).text,
                         total.text);
    else
        et_strbuf_append(out, et_format_count(state->step).text);
    /* " 31%" and a space before it, and one before the bar. */
    const int percent = state->steps > 0 ? 5 : 0, least = percent ? BAR_WIDTH_MIN + 1 : 0;
    const int room = style.width - percent - (int)(out->length - start);
    const int used = drop_parts(parts, &count,
                                !style.width    ? INT_MAX
                                : room >= least ? room - least
                                                : room);
    if (percent) {
        const double fraction = fmin(1.0, (double)state->step / (double)state->steps);
        int bar = room - used - 1;
        bar = bar > BAR_WIDTH ? BAR_WIDTH : bar;
        if (bar >= BAR_WIDTH_MIN) {
            et_strbuf_append_char(out, ' ');
            append_bar(out, fraction, bar, style);
        }
        et_strbuf_printf(out, " %3d%%", (int)(100 * fraction));
    }
    for (int i = 0; i < count; i++)
        et_strbuf_append(out, parts[i].text);
}

/* ---- the terminal ---- */

/* An empty variable counts as none: https://no-color.org has it so. */
static bool has_value(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && *value != '\0';
}

/* POSIX: the first of these that is set decides about characters. */
bool et_locale_is_utf8(void)
{
    static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < 3; i++) {
        if (has_value(variables[i])) {
            const char *locale = getenv(variables[i]);
            return strcasestr(locale, "utf-8") != NULL || strcasestr(locale, "utf8") != NULL;
        }
    }
    return false;
}

/* One column stays free, so that no terminal wraps. Asked at every drawing: windows change. */
static int line_width(int fd)
{
    return et_terminal_width(fd) - 1;
}

/* Makes one call of write for each change of the screen, so that nothing comes between its parts.
 * Ignores a failed write. A line that is incomplete for lack of memory is not shown. */
static void put(et_progress *progress)
{
    if (progress->fd >= 0 && !progress->line.failed && progress->line.length > 0)
        et_fd_write(progress->fd, progress->line.data, progress->line.length, "progress", NULL);
    /* A buffer that failed once stays failed; released, it can be tried again with the next
     * line. */
    if (progress->line.failed)
        et_strbuf_release(&progress->line);
    et_strbuf_reset(&progress->line);
}

/* The time left is computed with the mean speed since the first update. The mean varies less than
 * the speed of the last seconds, and includes recurring validations. */
static et_progress_state shown(const et_progress *progress)
{
    et_progress_state state = progress->state;
    const double done = (double)(state.step - progress->first_step);
    if (isnan(state.seconds_left) && state.steps != 0 && done > 0)
        state.seconds_left =
            (state.time - progress->first_time) / done * (double)(state.steps - state.step);
    return state;
}

/* Writes over the old line, which may be longer, and erases the rest of it. */
static void append_bar_line(et_progress *progress)
{
    et_strbuf_append_char(&progress->line, '\r');
    const et_progress_style style = { line_width(progress->fd), progress->color, progress->ascii };
    const et_progress_state state = shown(progress);
    et_progress_line(&progress->line, &state, style);
    et_strbuf_append(&progress->line, ERASE_REST);
    progress->drawn = true;
}

/* A plain line has no bar and no colour and ends in a line end. */
static void draw(et_progress *progress)
{
    if (progress->mode == ET_PROGRESS_BAR) {
        append_bar_line(progress);
    } else {
        const et_progress_style plain = { 0, false, true };
        const et_progress_state state = shown(progress);
        et_progress_line(&progress->line, &state, plain);
        et_strbuf_append_char(&progress->line, '\n');
    }
    progress->drawn_time = progress->state.time;
    progress->drawn_step = progress->state.step;
    put(progress);
}

/* ---- what callers see ---- */

/* Each takes the lock for as long as it takes, the write included: lines of two threads never
 * mix. */

/* The environment is read here, once; the window's width at each drawing. */
int et_progress_open(et_progress **out, const et_progress_options *options, et_error *error)
{
    *out = NULL;
    et_progress *progress = et_alloc_zero(1, sizeof *progress);
    if (progress == NULL)
        return et_alloc_failed(error, "progress");
    if (pthread_mutex_init(&progress->lock, NULL)) {
        et_free(progress);
        return et_fail(error, ET_EFAIL, "progress: cannot make a lock");
    }
    progress->fd = options->fd;
    /* The mode is decided here, because the type of the descriptor does not change later. */
    progress->mode = options->mode;
    progress->terminal = options->fd >= 0 && isatty(options->fd);
    /* Terminals that do not know "\r" and ERASE_REST, such as editors' shells, say so. */
    const char *terminal = getenv("TERM");
    const bool dumb = terminal == NULL || *terminal == '\0' || strcmp(terminal, "dumb") == 0;
    if (progress->mode == ET_PROGRESS_AUTO)
        progress->mode = progress->terminal && !dumb ? ET_PROGRESS_BAR : ET_PROGRESS_PLAIN;
    progress->rows = options->rows;
    progress->color = !has_value("NO_COLOR");
    progress->ascii = !et_locale_is_utf8();
    progress->plain_interval = options->plain_interval;
    progress->mute = options->mute;
    /* A short training among several has no plain line. */
    progress->drawn_time =
        options->mute && progress->mode == ET_PROGRESS_PLAIN ? et_clock_monotonic() : -INFINITY;
    /* Reserves memory, so that no step allocates. If this fails, a later line tries again. */
    et_strbuf_printf(&progress->line, "%*s", LINE_ROOM, "");
    et_strbuf_reset(&progress->line);
    *out = progress;
    return ET_OK;
}

static bool is_due(const et_progress *progress, double time, double interval)
{
    return time - atomic_load_explicit(&progress->drawn_time, memory_order_relaxed) >= interval;
}

/* The last step is shown whenever it comes, once. */
ET_NOINLINE static void take_state(et_progress *progress, const et_progress_state *state)
{
    pthread_mutex_lock(&progress->lock);
    const bool first = !progress->started;
    et_assert(state->field_count <= ET_PROGRESS_FIELDS_MAX);
    progress->state = *state;
    if (state->time == 0)
        progress->state.time = et_clock_monotonic();
    if (first) {
        progress->started = true;
        progress->first_step = state->step;
        progress->first_time = progress->state.time;
    }
    /* The caller's fields live only as long as the call. */
    if (state->field_count > 0)
        memcpy(progress->fields, state->fields, state->field_count * sizeof *state->fields);
    progress->state.fields = progress->fields;
    /* Short work, such as one of several trainings, has no plain line. */
    if (first && progress->mute && progress->mode == ET_PROGRESS_PLAIN)
        progress->drawn_time = progress->state.time;
    const double interval =
        progress->mode == ET_PROGRESS_BAR ? REDRAW_INTERVAL : progress->plain_interval;
    const bool end = state->step == state->steps;
    const bool reported = end && progress->rows && progress->mode == ET_PROGRESS_PLAIN;
    /* 100 % is shown although the line before it was a moment ago. */
    const bool last = end && progress->drawn_step != state->step;
    if (!reported && (last || is_due(progress, progress->state.time, interval)))
        draw(progress);
    pthread_mutex_unlock(&progress->lock);
}

/* Asks without the lock, at every step, whether there is something to draw. */
void et_progress_update(et_progress *progress, const et_progress_state *state)
{
    et_assert(state->step >= 0);
    const bool passed_over = progress->mode == ET_PROGRESS_PLAIN
                                 ? state->step != state->steps && state->time != 0 &&
                                       !is_due(progress, state->time, progress->plain_interval)
                                 : progress->mode == ET_PROGRESS_QUIET;
    if (!passed_over)
        take_state(progress, state);
}

/* No text moves the cursor, or reaches the copy as an escape sequence. */
static void make_plain(et_progress *progress, const char *text)
{
    if (progress->plain.failed)
        et_strbuf_release(&progress->plain);
    et_strbuf_reset(&progress->plain);
    et_plain_append_lines(&progress->plain, text, strlen(text));
}

static void copy(et_progress *progress)
{
    if (progress->copy && !progress->plain.failed)
        progress->copy(progress->copy_self, et_strbuf_text(&progress->plain));
}

/* Erases the bar, writes the text there and the bar below it, in one write. */
void et_progress_alert(et_progress *progress, const char *text)
{
    pthread_mutex_lock(&progress->lock);
    make_plain(progress, text);
    const bool bar = progress->drawn;
    et_strbuf_append(&progress->line, bar ? "\r" ERASE_REST : "");
    /* On a terminal, lines wrap between words. */
    const char *plain = et_strbuf_text(&progress->plain);
    if (progress->terminal)
        et_terminal_fold(&progress->line, plain, line_width(progress->fd));
    else
        et_strbuf_append(&progress->line, plain);
    progress->line.failed |= progress->plain.failed;
    et_strbuf_append_char(&progress->line, '\n');
    if (bar)
        append_bar_line(progress);
    put(progress);
    copy(progress);
    pthread_mutex_unlock(&progress->lock);
}

void et_progress_record(et_progress *progress, const char *text)
{
    pthread_mutex_lock(&progress->lock);
    make_plain(progress, text);
    copy(progress);
    pthread_mutex_unlock(&progress->lock);
}

void et_progress_message(et_progress *progress, const char *text)
{
    (progress->mute ? et_progress_record : et_progress_alert)(progress, text);
}

void et_progress_copy_to(et_progress *progress, void (*to)(void *self, const char *text),
                         void *self)
{
    pthread_mutex_lock(&progress->lock);
    progress->copy = to;
    progress->copy_self = self;
    pthread_mutex_unlock(&progress->lock);
}

int et_progress_width(const et_progress *progress)
{
    return line_width(progress->fd);
}

/* The mode does not change after the opening, so no lock is needed. */
const char *et_progress_eraser(const et_progress *progress)
{
    return progress->mode == ET_PROGRESS_BAR ? "\r" ERASE_REST : "";
}

/* Without a bar there is nothing to take away: plain lines end in line ends. */
void et_progress_finish(et_progress *progress, bool keep)
{
    pthread_mutex_lock(&progress->lock);
    if (progress->drawn) {
        if (keep && !progress->mute) {
            append_bar_line(progress);
            et_strbuf_append_char(&progress->line, '\n');
        } else {
            et_strbuf_append(&progress->line, "\r" ERASE_REST);
        }
        put(progress);
        progress->drawn = false;
    }
    pthread_mutex_unlock(&progress->lock);
}

/* The descriptor stays open: it belongs to the caller. */
void et_progress_close(et_progress *progress)
{
    if (progress == NULL)
        return;
    et_progress_finish(progress, true);
    pthread_mutex_destroy(&progress->lock);
    et_strbuf_release(&progress->line);
    et_strbuf_release(&progress->plain);
    et_free(progress);
}
