/* --profile: a trace (base/threads/trace.h) of a window of steps, then a file
 * (formats/events/trace_file.c) and a table of times (engine/exec/profile.h). The training thread
 * writes them between two steps, as soon as the window has passed, or at the end, if the work ends
 * within the window.
 *
 * A write error does not stop the work: it is a warning, and the command's error at the end if the
 * work succeeded. */
#include "systems/training/profile.h"

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "engine/exec/profile.h"
#include "formats/events/event.h"

/* Steps of training that are recorded without --profile-steps: caches and clocks are warm. */
enum { FIRST = 10, LAST = 20 };

/* ---- writing ---- */

/* The file is written first, because the user asked for it, and measuring the peak for the table
 * takes time. Both use the same trace and do not change it. */

/* Rates in the table are fractions of the peak. The peak is measured now, under the same load of
 * the machine as the work. */
static int show_table(const et_profiling *p, const et_trace_facts *facts, et_error *error)
{
    et_peak peak;
    et_profile profile;
    et_strbuf text = ET_STRBUF_INIT;
    int status = et_peak_measure(&peak, p->device, et_profile_dtype(p->trace), error);
    if (status)
        return status;
    et_profile_make(&profile, p->trace, &peak);
    /* "profile      FILE: 11 steps, 812.4 ms; open it at ..." */
    et_strbuf_printf(&text, "profile      %s: %s, %.1f ms; open it at https://ui.perfetto.dev\n",
                     p->path, et_format_many(facts->units, "step").text,
                     1e-6 * (double)(facts->end - facts->begin));
    if (facts->dropped)
        et_strbuf_printf(&text, "profile      %s spans were dropped for lack of memory\n",
                         et_format_count(facts->dropped).text);
    et_profile_print(&profile, &text);
    /* All appends are checked at once. */
    if (text.failed)
        status = et_alloc_failed(error, "the table of a profile");
    else
        text.data[text.length - 1] = 0; /* the line end that showing adds */
    if (!status)
        p->tell(p->listener, et_strbuf_text(&text));
    et_strbuf_release(&text);
    return status;
}

/* Sets `written` first, so that a failure is not repeated at the end. */
static int write_all(et_profiling *p, et_error *error)
{
    et_trace_facts facts = et_trace_facts_of(p->trace);
    p->written = true;
    int status = et_trace_file_write(p->trace, "etude", p->path, error);
    return status ? status : show_table(p, &facts, error);
}

/* The window has passed and the work continues, so users need not wait for its end. */
static void on_over(void *payload)
{
    et_profiling *p = payload;
    p->status = write_all(p, &p->error);
    if (p->status)
        et_log(ET_LOG_WARNING, "--profile: %s", p->error.text);
}

/* ---- opening and closing ---- */

/* Without --profile, path and trace are NULL and every function returns immediately, so callers
 * need not check. */

/* Steps count from 1. first and last are 0 until the recorded steps are chosen. */
static void sane(const et_profiling *p)
{
    et_assert(p->first >= 0 && p->last >= 0 && (!p->trace || p->first <= p->last));
    et_assert(!p->trace || (p->path && p->device));
    et_assert(!p->written || p->trace);
    et_assert(p->status || !p->error.status);
}

/* The device has the trace from now on; plans made later record their calls in it. */
int et_profiling_open(et_profiling *p, et_device *device, const char *unit, et_error *error)
{
    sane(p);
    if (!p->path)
        return ET_OK;
    et_assert(device && unit && !p->trace);
    /* The trace calls on_over in the thread that records, when the window is over. */
    et_trace_options options = ET_TRACE_OPTIONS_INIT;
    options.unit = unit;
    options.over = on_over;
    options.payload = p;
    int status = et_trace_new(&p->trace, &options, error);
    if (status)
        return status;
    p->device = device;
    et_device_record(device, p->trace);
    return ET_OK;
}

/* 30 steps: 10 to 20; 6 steps: 3 to 6; 1 step: 1. */
int et_profiling_begin(et_profiling *p, int64_t steps, et_error *error)
{
    sane(p);
    et_assert(steps >= 0);
    if (!p->path)
        return ET_OK;
    /* Steps count from this start: a run that resumes at step 2000 also has a step 1. */
    if (p->steps && steps && p->first > steps)
        return et_fail(error, ET_EUSAGE,
                       "--profile-steps %s: this start does only %s steps; steps are counted from "
                       "1 at each start",
                       p->steps, et_format_count(steps).text);
    if (!p->steps && steps) {
        p->first = steps < LAST ? (steps + 1) / 2 : FIRST;
        p->last = steps < LAST ? steps : LAST;
    }
    et_trace_window(p->trace, p->first, p->last ? p->last : INT64_MAX);
    return ET_OK;
}

/* run: the status of the work, which has priority over the status of writing. */
int et_profiling_close(et_profiling *p, int run, et_error *error)
{
    sane(p);
    if (!p->trace)
        return ET_OK;
    if (!p->written) {
        /* The window may still be open. Then the profile has the steps so far. */
        et_trace_stop(p->trace);
        et_trace_facts facts = et_trace_facts_of(p->trace);
        if (facts.end > facts.begin)
            p->status = write_all(p, &p->error);
        else if (!run || run == ET_EINTERRUPTED)
            et_log(ET_LOG_WARNING,
                   "--profile: none of the chosen steps was done; Etude does not write %s",
                   p->path);
        if (p->status && run)
            et_log(ET_LOG_WARNING, "--profile: %s", p->error.text);
    }
    return p->status && !run ? et_fail(error, p->status, "--profile: %s", p->error.text) : ET_OK;
}

void et_profiling_release(et_profiling *p)
{
    et_trace_free(p->trace);
    p->trace = NULL;
}
