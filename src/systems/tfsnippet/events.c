/* Events with lists of handlers. A handler that is removed while its event is fired leaves a hole,
 * so positions in the list do not change. Holes are closed when no event is being fired. */
#include "systems/tfsnippet/events.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/vector.h"

typedef struct handler {
    et_event_fn *call; /* NULL: taken off */
    void *payload;
} handler;

typedef struct event {
    char *name;                      /* owned */
    handler *handlers;               /* [count], owned */
    size_t count, handlers_capacity; /* in order of hanging on */
} event;

struct et_event_source {
    event *events; /* [count], owned */
    size_t count, capacity;
    const char **allowed; /* [count], names of events, for messages; NULL: any event */
    int firing;           /* how many firings are under way, in each other */
};

static event *find(et_event_source *source, const char *name)
{
    for (size_t i = 0; name && i < source->count; i++)
        if (!strcmp(source->events[i].name, name))
            return &source->events[i];
    return NULL;
}

static int add_event(et_event_source *source, const char *name, et_error *error)
{
    event *events =
        et_vector_grow(source->events, &source->capacity, source->count + 1, sizeof *events, 16);
    char *copy = events ? et_strdup(name) : NULL;
    if (events)
        source->events = events;
    if (!copy)
        return et_alloc_failed(error, strlen(name) + sizeof *events, "an event");
    source->events[source->count++] = (event){ .name = copy };
    return ET_OK;
}

static int allow(et_event_source *source, const char *const *allowed, int count, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++)
        status = add_event(source, allowed[i], error);
    if (status)
        return status;
    source->allowed = et_alloc((size_t)count + 1, sizeof *source->allowed);
    if (!source->allowed)
        return et_alloc_failed(error, (size_t)count * sizeof *source->allowed, "events");
    for (int i = 0; i < count; i++)
        source->allowed[i] = source->events[i].name;
    source->allowed[count] = NULL;
    return ET_OK;
}

int et_event_source_new(et_event_source **out, const char *const *allowed, int count,
                        et_error *error)
{
    *out = NULL;
    if (allowed && count < 0)
        return et_fail(error, ET_EUSAGE, "%d allowed events: the number must not be negative",
                       count);
    for (int i = 0; allowed && i < count; i++)
        if (!allowed[i])
            return et_fail(error, ET_EUSAGE, "allowed event %d has no name", i);
    et_event_source *source = et_alloc_zero(1, sizeof *source);
    if (!source)
        return et_alloc_failed(error, sizeof *source, "events");
    int status = allowed ? allow(source, allowed, count, error) : ET_OK;
    if (status)
        et_event_source_free(source);
    else
        *out = source;
    return status;
}

void et_event_source_free(et_event_source *source)
{
    if (!source)
        return;
    et_assert(!source->firing);
    for (size_t i = 0; i < source->count; i++) {
        et_free(source->events[i].name);
        et_free(source->events[i].handlers);
    }
    et_free(source->events);
    et_free(source->allowed);
    et_free(source);
}

/* *out NULL: an event that nobody has asked for yet, where all are allowed. */
static int look_up(event **out, et_event_source *source, const char *name, et_error *error)
{
    *out = find(source, name);
    if (*out || (name && !source->allowed))
        return ET_OK;
    if (!name)
        return et_fail(error, ET_ECONFIG, "an event has no name");
    return et_fail(error, ET_ECONFIG, "there is no event %s%s", name,
                   et_nearest_hint(name, source->allowed, "").text);
}

int et_event_source_on(et_event_source *source, const char *name, et_event_fn *call, void *payload,
                       et_error *error)
{
    event *one;
    et_assert(call);
    int status = look_up(&one, source, name, error);
    if (!status && !one) {
        status = add_event(source, name, error);
        one = &source->events[source->count - !status];
    }
    if (status)
        return status;
    handler *handlers =
        et_vector_grow(one->handlers, &one->handlers_capacity, one->count + 1, sizeof *handlers, 4);
    if (!handlers)
        return et_alloc_failed(error, sizeof *handlers, "a handler");
    one->handlers = handlers;
    one->handlers[one->count++] = (handler){ call, payload };
    return ET_OK;
}

static void close_holes(et_event_source *source)
{
    for (size_t i = 0; !source->firing && i < source->count; i++) {
        event *one = &source->events[i];
        size_t left = 0;
        for (size_t k = 0; k < one->count; k++)
            if (one->handlers[k].call)
                one->handlers[left++] = one->handlers[k];
        one->count = left;
    }
}

int et_event_source_off(et_event_source *source, const char *name, et_event_fn *call, void *payload,
                        et_error *error)
{
    event *one;
    int status = look_up(&one, source, name, error);
    for (size_t i = 0; !status && one && i < one->count; i++)
        if (one->handlers[i].call == call && one->handlers[i].payload == payload) {
            one->handlers[i].call = NULL;
            close_holes(source);
            return ET_OK;
        }
    return status ? status
                  : et_fail(error, ET_ENOTFOUND, "%s has no such handler with this payload", name);
}

/* By place and by number, as handlers may hang on more and move both lists. */
static int fire(et_event_source *source, const char *name, bool reverse, const void *what,
                et_error *error)
{
    event *one;
    int status = look_up(&one, source, name, error);
    if (status || !one)
        return status;
    size_t number = (size_t)(one - source->events), count = one->count;
    source->firing++;
    for (size_t i = 0; !status && i < count; i++) {
        handler h = source->events[number].handlers[reverse ? count - 1 - i : i];
        if (h.call)
            status = h.call(h.payload, source->events[number].name, what, error);
    }
    if (--source->firing == 0)
        close_holes(source);
    return status;
}

int et_event_source_fire(et_event_source *source, const char *name, const void *what,
                         et_error *error)
{
    return fire(source, name, false, what, error);
}

int et_event_source_reverse_fire(et_event_source *source, const char *name, const void *what,
                                 et_error *error)
{
    return fire(source, name, true, what, error);
}

int et_event_source_clear(et_event_source *source, const char *name, et_error *error)
{
    event *one = NULL;
    int status = name ? look_up(&one, source, name, error) : ET_OK;
    et_assert(source->events || !source->count);
    for (size_t i = 0; !status && i < source->count; i++)
        if (!name || one == &source->events[i])
            for (size_t k = 0; k < source->events[i].count; k++)
                source->events[i].handlers[k].call = NULL;
    close_holes(source);
    return status;
}
