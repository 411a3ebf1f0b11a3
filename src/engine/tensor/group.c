/* A group is two lists that are made once: indices of parameters by place, and the ranges that they
 * cover. A range ends if the next parameter of the group does not begin at its end, so all trained
 * parameters together are one range. */

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/pattern.h"
#include "engine/tensor/params.h"

struct et_group {
    et_params *params; /* borrowed */
    int *items;        /* [count], owned */
    et_range *ranges;  /* [range_count], owned */
    int count, range_count;
    int64_t size;
};

/* The end of the nth parameter, including its padding. */
static int64_t end_of(const et_params *params, int nth)
{
    int next = nth + 1;
    if (next < et_params_count(params) &&
        et_params_is_trained(params, et_params_in_order(params, next)))
        return et_params_offset(params, et_params_in_order(params, next));
    return et_params_trained_size(params);
}

static void add(et_group *group, int nth)
{
    int index = et_params_in_order(group->params, nth);
    int64_t begin = et_params_offset(group->params, index), end = end_of(group->params, nth);
    group->items[group->count++] = index;
    group->size += end - begin;
    if (group->range_count && group->ranges[group->range_count - 1].end == begin)
        group->ranges[group->range_count - 1].end = end;
    else
        group->ranges[group->range_count++] = (et_range){ begin, end };
}

int et_group_choose(et_group **out, et_params *params, et_group_fn *chosen, void *payload,
                    et_error *error)
{
    et_assert(et_params_ready(params));
    const int count = et_params_count(params);
    if (ET_ALLOC_ZERO(*out, 1, "a group", error))
        return ET_ENOMEM;
    et_group *group = *out;
    group->params = params;
    if (ET_ALLOC(group->items, count, "a group", error) ||
        ET_ALLOC(group->ranges, count, "a group", error)) {
        et_group_free(group);
        *out = NULL;
        return ET_ENOMEM;
    }
    for (int nth = 0; nth < count; nth++) {
        int index = et_params_in_order(params, nth);
        if (et_params_is_trained(params, index) && chosen(params, index, payload))
            add(group, nth);
    }
    return ET_OK;
}

/* A name that matches nothing is an error. If nothing is trained, the group of all is empty. */
static int check_any(et_group **group, const char *how, const char *text, et_error *error)
{
    const et_params *params = (*group)->params;
    if ((*group)->count || !*text)
        return ET_OK;
    const bool any = et_params_trained_size(params) > 0;
    const char *first = any ? et_params_name(params, et_params_in_order(params, 0)) : "";
    et_group_free(*group);
    *group = NULL;
    return et_fail(error, ET_ECONFIG, "no trained parameter %s '%s'; %s%s", how, text,
                   any ? "the first is " : "there are none", first);
}

static bool begins(const et_params *params, int index, void *prefix)
{
    return strncmp(et_params_name(params, index), prefix, strlen(prefix)) == 0;
}

int et_group_new(et_group **out, et_params *params, const char *prefix, et_error *error)
{
    prefix = prefix ? prefix : "";
    int status = et_group_choose(out, params, begins, (void *)(uintptr_t)prefix, error);
    return status ? status : check_any(out, "has a name that begins with", prefix, error);
}

static bool matches(const et_params *params, int index, void *patterns)
{
    return et_patterns_match(patterns, et_params_name(params, index));
}

int et_group_match(et_group **out, et_params *params, const char *expression, et_error *error)
{
    et_patterns *patterns;
    *out = NULL;
    if (!expression)
        return et_fail(error, ET_ECONFIG, "a group: an expression is NULL");
    int status = et_patterns_new(&patterns, (et_strings){ &expression, 1 }, "a group", error);
    if (!status)
        status = et_group_choose(out, params, matches, patterns, error);
    et_patterns_free(patterns);
    return status ? status : check_any(out, "has a name with", expression, error);
}

void et_group_free(et_group *group)
{
    if (!group)
        return;
    et_free(group->items);
    et_free(group->ranges);
    et_free(group);
}

et_params *et_group_params(const et_group *group)
{
    return group->params;
}

int et_group_count(const et_group *group)
{
    return group->count;
}

int et_group_param(const et_group *group, int i)
{
    return i >= 0 && i < group->count ? group->items[i] : -1;
}

int64_t et_group_size(const et_group *group)
{
    return group->size;
}

int et_group_ranges(const et_group *group, const et_range **ranges)
{
    *ranges = group->ranges;
    return group->range_count;
}
