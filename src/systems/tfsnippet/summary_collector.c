/* Collectors, the stack that has them on top of each other, and collections by name. Serialised
 * summaries one after another form one message (summary_message.c), so a list of summaries is
 * stored as its bytes. The bottom entry of a stack is its own collector and is never popped. */
#include <etude/summary_collector.h>

#include <string.h>

#include <etude/summary_message.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "engine/tensor/tensor.h"

typedef struct collection {
    char *name; /* owned */
    et_strbuf summaries;
} collection;

typedef struct entry {
    et_summary_collector *collector;
    bool auto_histogram;
} entry;

struct et_summary_collector {
    et_summary_stack *stack;
    et_summary_collector *next; /* of the stack's */
    et_strings collections;     /* in arena */
    et_arena arena;
    bool no_add_to_collections;
    et_strbuf summaries;
};

struct et_summary_stack {
    entry *entries; /* [count], at least 1 after new; owned */
    size_t count, capacity;
    collection *collections; /* [collection_count], owned */
    size_t collection_count, collection_capacity;
    et_summary_collector *collectors; /* all that are open */
};

/* ---- collectors ---- */

static int copy_names(et_summary_collector *c, et_strings names, et_error *error)
{
    const char **items = et_arena_array(&c->arena, names.count + 1, sizeof *items);
    for (size_t i = 0; i < names.count; i++) {
        if (!names.items[i] || !*names.items[i])
            return et_fail(error, ET_EUSAGE, "collection %zu of a collector has no name", i);
        if (items)
            items[i] = et_arena_strdup(&c->arena, names.items[i]);
    }
    c->collections = (et_strings){ items, names.count };
    return c->arena.failed ? et_alloc_failed(error, "a collector of summaries") : ET_OK;
}

int et_summary_collector_new(et_summary_collector **out, et_summary_stack *stack,
                             const et_summary_collector_options *options, et_error *error)
{
    static const et_summary_collector_options defaults = { .no_add_to_collections = false };
    options = options ? options : &defaults;
    *out = NULL;
    et_summary_collector *c;
    if (ET_ALLOC_ZERO(c, 1, "a collector of summaries", error))
        return ET_ENOMEM;
    c->stack = stack;
    c->no_add_to_collections = options->no_add_to_collections;
    c->next = stack->collectors;
    stack->collectors = c;
    int status = copy_names(c, options->collections, error);
    if (status)
        et_summary_collector_free(c);
    else
        *out = c;
    return status;
}

void et_summary_collector_free(et_summary_collector *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->stack->count; i++)
        et_assert(c->stack->entries[i].collector != c);
    et_summary_collector **at = &c->stack->collectors;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    et_strbuf_release(&c->summaries);
    et_arena_release(&c->arena);
    et_free(c);
}

const void *et_summary_collector_merge(const et_summary_collector *c, size_t *length)
{
    *length = c->summaries.length;
    return *length ? et_strbuf_text(&c->summaries) : NULL;
}

/* ---- the stack ---- */

int et_summary_stack_push(et_summary_stack *stack, et_summary_collector *collector,
                          et_auto_histogram histogram, et_error *error)
{
    if (collector->stack != stack)
        return et_fail(error, ET_EUSAGE, "a collector of summaries belongs to another stack");
    const bool below = stack->count && stack->entries[stack->count - 1].auto_histogram;
    const bool on = histogram == ET_AUTO_HISTOGRAM_KEEP ? below : histogram == ET_AUTO_HISTOGRAM_ON;
    if (!ET_VECTOR_APPEND(stack->entries, stack->count, stack->capacity, (entry){ collector, on }))
        return et_alloc_failed(error, "a stack of collectors");
    return ET_OK;
}

int et_summary_stack_pop(et_summary_stack *stack, et_error *error)
{
    if (stack->count < 2)
        return et_fail(error, ET_EUSAGE,
                       "the stack of collectors has only its own collector: pop what you pushed");
    stack->count--;
    return ET_OK;
}

et_summary_collector *et_summary_stack_top(et_summary_stack *stack)
{
    et_assert(stack->count > 0);
    return stack->entries[stack->count - 1].collector;
}

bool et_summary_stack_auto_histogram(const et_summary_stack *stack)
{
    return stack->entries[stack->count - 1].auto_histogram;
}

int et_summary_stack_new(et_summary_stack **out, et_error *error)
{
    static const char *const names[] = { ET_SUMMARIES };
    const et_summary_collector_options options = { .collections = { names, 1 } };
    et_summary_collector *bottom = NULL;
    et_summary_stack *stack;
    *out = NULL;
    if (ET_ALLOC_ZERO(stack, 1, "a stack of collectors", error))
        return ET_ENOMEM;
    int status = et_summary_collector_new(&bottom, stack, &options, error);
    if (!status)
        status = et_summary_stack_push(stack, bottom, ET_AUTO_HISTOGRAM_OFF, error);
    if (status)
        et_summary_stack_free(stack);
    else
        *out = stack;
    return status;
}

void et_summary_stack_free(et_summary_stack *stack)
{
    if (!stack)
        return;
    stack->count = 0;
    while (stack->collectors)
        et_summary_collector_free(stack->collectors);
    for (size_t i = 0; i < stack->collection_count; i++) {
        et_free(stack->collections[i].name);
        et_strbuf_release(&stack->collections[i].summaries);
    }
    et_free(stack->collections);
    et_free(stack->entries);
    et_free(stack);
}

/* ---- collections ---- */

static collection *find(const et_summary_stack *stack, const char *name)
{
    for (size_t i = 0; name && i < stack->collection_count; i++)
        if (!strcmp(stack->collections[i].name, name))
            return &stack->collections[i];
    return NULL;
}

const void *et_summary_stack_collection(const et_summary_stack *stack, const char *name,
                                        size_t *length)
{
    const collection *one = find(stack, name);
    *length = one ? one->summaries.length : 0;
    return *length ? et_strbuf_text(&one->summaries) : NULL;
}

void et_summary_stack_clear(et_summary_stack *stack)
{
    for (et_summary_collector *c = stack->collectors; c; c = c->next)
        et_strbuf_reset(&c->summaries);
    for (size_t i = 0; i < stack->collection_count; i++)
        et_strbuf_reset(&stack->collections[i].summaries);
}

static int add_collection(et_summary_stack *stack, const char *name, et_error *error)
{
    const bool grown =
        ET_VECTOR_GROW(stack->collections, stack->collection_capacity, stack->collection_count + 1);
    char *copy = grown ? et_strdup(name) : NULL;
    if (!copy)
        return et_alloc_failed(error, "a collection of summaries");
    stack->collections[stack->collection_count++] = (collection){ copy, ET_STRBUF_INIT };
    return ET_OK;
}

/* ---- adding ---- */

static int append(et_strbuf *summaries, const void *bytes, size_t length, et_error *error)
{
    const size_t before = summaries->length;
    et_strbuf_append_bytes(summaries, bytes, length);
    if (!summaries->failed)
        return ET_OK;
    summaries->failed = false;
    et_strbuf_truncate(summaries, before);
    return et_alloc_failed(error, "a summary");
}

int et_summary_collector_add(et_summary_collector *c, const void *bytes, size_t length,
                             const et_strings *collections, et_error *error)
{
    const et_strings none = { NULL, 0 };
    const et_strings *to = c->no_add_to_collections ? &none
                           : collections            ? collections
                                                    : &c->collections;
    int status =
        bytes && length ? ET_OK : et_fail(error, ET_EUSAGE, "a summary to collect has no bytes");
    for (size_t i = 0; !status && i < to->count; i++)
        if (!to->items[i] || !*to->items[i])
            status = et_fail(error, ET_EUSAGE, "collection %zu of a summary has no name", i);
        else if (!find(c->stack, to->items[i]))
            status = add_collection(c->stack, to->items[i], error);
    size_t added = 0;
    while (!status && added < to->count) {
        status = append(&find(c->stack, to->items[added])->summaries, bytes, length, error);
        added += !status;
    }
    if (!status)
        status = append(&c->summaries, bytes, length, error);
    while (status && added > 0) {
        et_strbuf *one = &find(c->stack, to->items[--added])->summaries;
        et_strbuf_truncate(one, one->length - length);
    }
    return status;
}

int et_summary_collector_add_histogram(et_summary_collector *c, const char *name, et_tensor tensor,
                                       bool strip_scope, const et_strings *collections,
                                       et_error *error)
{
    const char *last = name && strip_scope ? strrchr(name, '/') : NULL;
    const int64_t count = et_shape_count(tensor.shape);
    if (!et_tensor_is_real(tensor) && tensor.dtype != ET_I32)
        return et_fail(error, ET_EDATA,
                       "the histogram %s: give a float32, bfloat16 or int32 tensor",
                       name ? name : "without a name");
    if (!tensor.data || count < 1)
        return et_fail(error, ET_EDATA, "the histogram %s: the tensor has no element",
                       name ? name : "without a name");
    double *values;
    if (ET_ALLOC(values, count, "a histogram", error))
        return ET_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        values[i] = et_tensor_number(tensor, i);
    et_summary *summary = NULL;
    int status = et_summary_new(&summary, error);
    if (!status)
        status = et_summary_add_histogram(summary, last ? last + 1 : name, values, count, error);
    if (!status) {
        size_t length;
        const void *bytes = et_summary_bytes(summary, &length);
        status = et_summary_collector_add(c, bytes, length, collections, error);
    }
    et_summary_free(summary);
    et_free(values);
    return status;
}
