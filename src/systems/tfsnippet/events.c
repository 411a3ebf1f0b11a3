/* Events with lists of handlers. A handler that is removed while its event is fired leaves a hole,
 * so positions in the list do not change. Holes are closed when no event is being fired. */
#include <etude/events.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "systems/tfsnippet/loop_private.h"

typedef struct handler {
    et_event_fn *call; /* NULL: taken off */
    void *payload;
} handler;

typedef struct hub_event {
    char *name;                      /* owned */
    handler *handlers;               /* [count], owned */
    size_t count, handlers_capacity; /* in the order of et_event_hub_on */
} hub_event;

struct et_event_hub {
    hub_event *events; /* [count], owned */
    size_t count, capacity;
    const char **allowed; /* [count], names of events, for messages; NULL: any event */
    int firing;           /* number of nested firings */
};

static int add_event(et_event_hub *hub, const char *name, et_error *error)
{
    char *copy =
        ET_VECTOR_GROW(hub->events, hub->capacity, hub->count + 1) ? et_strdup(name) : NULL;
    if (!copy)
        return et_alloc_failed(error, "an event");
    hub->events[hub->count++] = (hub_event){ .name = copy };
    return ET_OK;
}

int et_event_hub_new(et_event_hub **out, const char *const *allowed, int count, et_error *error)
{
    *out = NULL;
    if (allowed && count < 0)
        return et_fail(error, ET_EUSAGE, "%d allowed events: the number must not be negative",
                       count);
    count = allowed ? count : 0;
    for (int i = 0; i < count; i++)
        if (!allowed[i])
            return et_fail(error, ET_EUSAGE, "allowed event %d has no name", i);
    et_event_hub *hub;
    if (ET_ALLOC_ZERO(hub, 1, "events", error))
        return ET_ENOMEM;
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++)
        status = add_event(hub, allowed[i], error);
    if (!status && allowed) {
        hub->allowed = et_alloc_zero((size_t)count + 1, sizeof *hub->allowed);
        if (!hub->allowed)
            status = et_alloc_failed(error, "events");
        for (int i = 0; !status && i < count; i++)
            hub->allowed[i] = hub->events[i].name;
    }
    if (status)
        et_event_hub_free(hub);
    else
        *out = hub;
    return status;
}

void et_event_hub_free(et_event_hub *hub)
{
    if (!hub)
        return;
    et_assert(!hub->firing);
    for (size_t i = 0; i < hub->count; i++) {
        et_free(hub->events[i].name);
        et_free(hub->events[i].handlers);
    }
    et_free(hub->events);
    et_free(hub->allowed);
    et_free(hub);
}

/* *out NULL: an event without handlers, in a hub that allows any name. */
static int look_up(hub_event **out, et_event_hub *hub, const char *name, et_error *error)
{
    *out = NULL;
    if (!name)
        return et_fail(error, ET_ECONFIG, "an event has no name");
    for (size_t i = 0; i < hub->count; i++)
        if (!strcmp(hub->events[i].name, name)) {
            *out = &hub->events[i];
            return ET_OK;
        }
    return hub->allowed ? et_fail(error, ET_ECONFIG, "there is no event %s%s", name,
                                  et_nearest_hint(name, hub->allowed, "").text)
                        : ET_OK;
}

int et_event_hub_on(et_event_hub *hub, const char *name, et_event_fn *call, void *payload,
                    et_error *error)
{
    hub_event *one;
    et_assert(call);
    int status = look_up(&one, hub, name, error);
    if (!status && !one) {
        status = add_event(hub, name, error);
        one = &hub->events[hub->count - !status];
    }
    if (status)
        return status;
    if (!ET_VECTOR_APPEND(one->handlers, one->count, one->handlers_capacity,
                          (handler){ call, payload }))
        return et_alloc_failed(error, "a handler");
    return ET_OK;
}

static void close_holes(et_event_hub *hub)
{
    for (size_t i = 0; !hub->firing && i < hub->count; i++) {
        hub_event *one = &hub->events[i];
        size_t left = 0;
        for (size_t k = 0; k < one->count; k++)
            if (one->handlers[k].call)
                one->handlers[left++] = one->handlers[k];
        one->count = left;
    }
}

int et_event_hub_off(et_event_hub *hub, const char *name, et_event_fn *call, void *payload,
                     et_error *error)
{
    hub_event *one;
    int status = look_up(&one, hub, name, error);
    for (size_t i = 0; !status && one && i < one->count; i++)
        if (one->handlers[i].call == call && one->handlers[i].payload == payload) {
            one->handlers[i].call = NULL;
            close_holes(hub);
            return ET_OK;
        }
    return status ? status
                  : et_fail(error, ET_ENOTFOUND, "%s has no such handler with this payload", name);
}

/* Uses indices, because handlers may add events and handlers, which moves both lists. */
static int fire(et_event_hub *hub, const char *name, bool reverse, const void *what,
                et_error *error)
{
    hub_event *one;
    int status = look_up(&one, hub, name, error);
    if (status || !one)
        return status;
    size_t number = (size_t)(one - hub->events), count = one->count;
    hub->firing++;
    for (size_t i = 0; !status && i < count; i++) {
        handler h = hub->events[number].handlers[reverse ? count - 1 - i : i];
        if (h.call)
            status = h.call(h.payload, hub->events[number].name, what, error);
    }
    if (--hub->firing == 0)
        close_holes(hub);
    return status;
}

int et_event_hub_fire(et_event_hub *hub, const char *name, const void *what, et_error *error)
{
    return fire(hub, name, false, what, error);
}

int et_event_hub_reverse_fire(et_event_hub *hub, const char *name, const void *what,
                              et_error *error)
{
    return fire(hub, name, true, what, error);
}

int et_event_hub_clear(et_event_hub *hub, const char *name, et_error *error)
{
    hub_event *one = NULL;
    int status = name ? look_up(&one, hub, name, error) : ET_OK;
    et_assert(hub->events || !hub->count);
    for (size_t i = 0; !status && i < hub->count; i++)
        if (!name || one == &hub->events[i])
            for (size_t k = 0; k < hub->events[i].count; k++)
                hub->events[i].handlers[k].call = NULL;
    close_holes(hub);
    return status;
}

/* ---- every public function ---- */

/* The common work of all public functions of a loop: checking whether a call is allowed, events,
 * lines for people. */

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
