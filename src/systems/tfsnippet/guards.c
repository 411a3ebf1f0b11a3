/* The common work of all public functions of a loop: checking whether a call is allowed, events,
 * lines for people. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/strbuf.h"
#include "systems/tfsnippet/loop_private.h"

/* Limit of nested events: deeper nesting is an endless recursion. */
#define FIRING_MOST 16

/* The invariants at every public function, after any handler or restored state. */
static void sane(const et_loop *l)
{
    const bool runs = l->phase == ET_LOOP_RUNNING || l->phase == ET_LOOP_ENDING;
    et_assert(l->params && l->group && l->state && l->events);
    et_assert(l->phase <= ET_LOOP_ENDED && (!runs || l->run));
    et_assert(l->at.within_epoch || !l->at.within_step);
    et_assert(l->at.within_step || !l->step_data);
    et_assert(!l->at.resumes || !l->at.within_epoch);
    et_assert(l->at.step >= 0 && l->at.epoch >= 0);
    et_assert(l->at.epochs_done >= 0 && l->at.epochs_done <= l->at.epoch);
    et_assert(l->at.steps_done >= 0 && l->at.steps_done <= l->at.step);
    et_assert(l->firing >= 0 && l->firing <= FIRING_MOST);
    et_assert(l->best.step >= -1);
    et_assert(l->own.optimizer_count <= l->own.optimizer_capacity);
    et_assert(l->own.object_count <= l->own.object_capacity &&
              l->metrics.pair_count <= l->metrics.pair_capacity);
}

int et_loop_ready(et_loop *loop)
{
    sane(loop);
    if (loop->error.status)
        return loop->error.status;
    if (loop->phase == ET_LOOP_RUNNING || loop->phase == ET_LOOP_ENDING)
        return ET_OK;
    return et_fail(&loop->error, ET_EUSAGE, "%s",
                   loop->phase == ET_LOOP_OPEN ? "the loop has not begun: call et_loop_begin first"
                                               : "the loop has ended: open a new loop");
}

int et_loop_ready_in_epoch(et_loop *loop)
{
    int status = et_loop_ready(loop);
    if (status || loop->at.within_epoch)
        return status;
    return et_fail(&loop->error, ET_EUSAGE,
                   "An epoch or a step loop is expected, but neither has been opened");
}

/* Callers of events rely on an unchanged loop. */
int et_loop_refuse_in_handler(et_loop *loop)
{
    if (!loop->firing || loop->error.status)
        return loop->error.status;
    return et_fail(
        &loop->error, ET_EUSAGE,
        "A loop is not left and not ended in a handler of an event: let the handler fail");
}

int et_loop_explain(const et_loop *loop, int status, et_error *error)
{
    if (status && !error->status)
        et_fail(error, status, "%s",
                loop->error.status ? loop->error.text
                                   : "a function of the program failed without an error text");
    return status;
}

int et_loop_fire_of(et_loop *loop, et_event_hub *events, const char *name, const void *event,
                    bool reverse, et_error *error)
{
    if (loop->firing == FIRING_MOST)
        return et_fail(error, ET_EUSAGE,
                       "a handler of an event fires the same event again, endlessly");
    loop->firing++;
    int status = reverse ? et_event_hub_reverse_fire(events, name, event, error)
                         : et_event_hub_fire(events, name, event, error);
    loop->firing--;
    return status;
}

/* Errors of handlers are reported first. */
int et_loop_fire(et_loop *loop, const char *name, et_loop_event *event, bool reverse)
{
    et_error failure = ET_ERROR_INIT;
    event->loop = loop;
    int status = et_loop_fire_of(loop, loop->events, name, event, reverse, &failure);
    if (loop->error.status)
        return loop->error.status;
    if (status)
        et_fail(&loop->error, status, "%s",
                failure.status ? failure.text : "a handler failed without an error text");
    return status ? et_fail_while(&loop->error, status, "%s", name) : ET_OK;
}

int et_loop_fail(et_loop *loop, const et_error *error)
{
    if (error->status && !loop->error.status)
        loop->error = *error;
    return loop->error.status;
}

void et_loop_print(et_loop *loop, const char *text)
{
    if (loop->out.quiet)
        return;
    et_strbuf_reset(&loop->out.plain);
    et_plain_append_lines(&loop->out.plain, text, strlen(text));
    if (loop->options.print)
        loop->options.print(loop->options.print_payload, et_strbuf_text(&loop->out.plain));
    else
        printf("%s\n", et_strbuf_text(&loop->out.plain)), fflush(stdout);
}
