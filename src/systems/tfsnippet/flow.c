#include "systems/tfsnippet/flow.h"

#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "data/batches/source.h"

void et_flows_release(et_flows *flows)
{
    for (size_t i = 0; i < flows->count; i++) {
        et_free(flows->flows[i].name);
        et_free(flows->flows[i].reader);
        et_batch_cursor_release(&flows->flows[i].cursor);
    }
    et_free(flows->flows);
    et_arena_release(&flows->arena);
    *flows = (et_flows){ 0 };
}

et_flow *et_flows_find(et_flows *flows, const et_source *source)
{
    for (size_t i = 0; i < flows->count; i++)
        if (flows->flows[i].cursor.source == source)
            return &flows->flows[i];
    return NULL;
}

static bool is_taken(const et_flows *flows, const char *name)
{
    for (size_t i = 0; i < flows->count; i++)
        if (!strcmp(flows->flows[i].name, name))
            return true;
    return false;
}

static int claim(et_flow *flow, et_error *error)
{
    int status = et_source_claim(flow->cursor.source, flow->reader, error);
    flow->open = !status;
    return status;
}

void et_flow_close(et_flow *flow)
{
    if (!flow->open)
        return;
    et_source_position(flow->cursor.source, &flow->at);
    et_source_end(flow->cursor.source);
    flow->open = false;
}

/* If another reader has moved the source, there is nothing to give back. */
static void give_back(et_flow *flow)
{
    et_position now;
    et_flow_close(flow);
    if (!flow->cursor.waits || flow->cursor.source->reader)
        return;
    et_source_position(flow->cursor.source, &now);
    if (et_position_equal(&now, &flow->at))
        (void)et_batch_cursor_give_back(&flow->cursor, NULL); /* the next reader sees the failure */
}

void et_flows_close(et_flows *flows)
{
    for (size_t i = 0; i < flows->count; i++)
        give_back(&flows->flows[i]);
}

/* {"position": {...}, "pass": 3, "over": 1}; "pass" -1: none is open. */
static int restore_flow(et_flow *flow, const et_value *dict, et_error *error)
{
    const et_value *position = et_value_get(dict, "position");
    int64_t pass;
    int status = et_value_read_int(dict, "pass", &pass, error);
    if (!status)
        status = et_value_read_int(dict, "over", &flow->over, error);
    if (!status && flow->over < 0)
        status = et_fail(error, ET_EFORMAT, "over: %lld is negative", (long long)flow->over);
    if (!status && (!position || position->kind != ET_VALUE_DICT))
        status = et_fail(error, ET_EFORMAT, "the position is missing");
    if (!status)
        status = claim(flow, error);
    if (!status)
        status = et_batch_cursor_restore(&flow->cursor, position, error);
    et_flow_close(flow);
    if (status)
        return et_fail_while(error, status, "%s%s", *flow->name ? "source " : "source of steps",
                             flow->name);
    flow->known = true;
    flow->pass_over = flow->over;
    flow->cursor.begun = pass >= 0;
    flow->cursor.pass = pass;
    flow->empty = pass < 0;
    return ET_OK;
}

static void sane(const et_flow *flow)
{
    et_assert(flow->cursor.source && flow->name && flow->cursor.batch);
    et_assert(!flow->cursor.waits || flow->cursor.begun);
    et_assert(flow->over >= 0 && flow->pass_over >= 0 && flow->pass_over <= flow->over);
    et_assert(!flow->cursor.begun || flow->cursor.pass >= 0);
    et_assert(flow->known || (!flow->open && !flow->cursor.begun));
}

int et_flows_add(et_flows *flows, const char *name, et_source *source, bool saved, et_error *error)
{
    const et_flow *known = et_flows_find(flows, source);
    if (known)
        return et_fail(error, ET_ECONFIG,
                       *known->name ? "%s: this source already gives steps, as %s"
                                    : "%s: this source already gives steps%s",
                       name, known->name);
    if (is_taken(flows, name) && *name)
        return et_fail(error, ET_ECONFIG, "two sources of steps have the name %s", name);
    if (saved && is_taken(flows, name))
        return et_fail(error, ET_ECONFIG,
                       "two sources of steps have no name, so a checkpoint could not distinguish "
                       "them: name them with et_loop_add_source");
    et_flow *grown =
        et_vector_grow(flows->flows, &flows->capacity, flows->count + 1, sizeof *grown, 2);
    if (!grown)
        return et_alloc_failed(error, sizeof *grown, "a source");
    flows->flows = grown;
    const size_t length = sizeof "a loop (source )" + strlen(name);
    et_flow flow = { .name = et_strdup(name), .reader = et_alloc(length, 1), .empty = true };
    int status = flow.name && flow.reader ? et_batch_cursor_open(&flow.cursor, source, error)
                                          : et_alloc_failed(error, length, "a source");
    if (!status)
        snprintf(flow.reader, length, *name ? "a loop (source %s)" : "a loop", name);
    const et_value *restored = et_value_get(flows->restored, name);
    if (!status && restored)
        status = restore_flow(&flow, restored, error);
    if (!status) {
        flows->flows[flows->count++] = flow;
        return ET_OK;
    }
    et_batch_cursor_release(&flow.cursor);
    et_free(flow.name);
    et_free(flow.reader);
    return status;
}

void et_flows_end_epoch(et_flows *flows)
{
    for (size_t i = 0; i < flows->count; i++)
        flows->flows[i].over = flows->flows[i].pass_over = 0;
}

/* ---- batches ---- */

/* Two ends in a row: there is nothing between them. */
static int rewind_flow(et_flow *flow, et_error *error)
{
    if (flow->empty)
        return et_fail(error, ET_EDATA, "the source of steps gives no batch");
    flow->empty = true;
    return et_batch_cursor_rewind(&flow->cursor, true, error);
}

/* To the beginning of a pass, or to where this loop was, if another reader came between. */
static int open_pass(et_flow *flow, et_error *error)
{
    et_position now;
    int status = claim(flow, error);
    if (status)
        return status;
    et_source_position(flow->cursor.source, &now);
    if (!flow->known)
        status = et_batch_cursor_rewind(&flow->cursor, true, error);
    else if (!et_position_equal(&now, &flow->at))
        status = et_source_seek(flow->cursor.source, &flow->at, error);
    flow->known = true;
    return status;
}

/* A pass is within if its cursor has given a batch and the next is of the same pass. */
static int leave(et_flow *flow, et_error *error)
{
    if (!flow->cursor.begun || flow->cursor.waits) {
        et_flow_close(flow);
        return ET_OK;
    }
    int status = flow->open ? ET_OK : open_pass(flow, error);
    if (!status)
        status = et_batch_cursor_rewind(&flow->cursor, true, error);
    flow->empty = true;
    et_flow_close(flow);
    return status;
}

int et_flows_leave(et_flows *flows, const et_batch *batch, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; batch && !status && i < flows->count; i++)
        if (flows->flows[i].cursor.batch == batch)
            status = leave(&flows->flows[i], error);
    return status;
}

int et_flows_begin_epoch(et_flows *flows, et_error *error)
{
    int status = ET_OK;
    et_flows_end_epoch(flows);
    for (size_t i = 0; !status && i < flows->count; i++)
        status = leave(&flows->flows[i], error);
    return status;
}

int et_flow_next(et_flow *flow, bool *over, et_error *error)
{
    sane(flow);
    *over = flow->pass_over > 0;
    if (*over) {
        flow->pass_over--;
        return ET_OK;
    }
    int status = flow->open ? ET_OK : open_pass(flow, error);
    if (!status)
        status = et_batch_cursor_next(&flow->cursor, over, error);
    if (status)
        return status;
    flow->over += *over;
    if (!flow->cursor.begun)
        status = rewind_flow(flow, error);
    else
        flow->empty = false;
    if (*over)
        et_flow_close(flow);
    sane(flow);
    return status;
}

/* ---- as a part of the state ---- */

/* The restored position of the unnamed source, as long as no step has shown which source that
 * is. */
static int save_waiting(et_value *dict, const et_flows *flows, et_error *error)
{
    const et_value *waiting = is_taken(flows, "") ? NULL : et_value_get(flows->restored, "");
    if (!waiting)
        return ET_OK;
    et_value *copy = et_value_set_dict(dict, "");
    return copy ? et_value_merge(copy, waiting, error) : et_alloc_failed(error, 0, "a state tree");
}

static int save_position(const et_flow *flow, et_value *dict, et_error *error)
{
    return flow->open || flow->cursor.waits ? et_batch_cursor_save(&flow->cursor, dict, error)
                                            : et_position_save(&flow->at, dict, error);
}

static int save(const void *self, et_value *dict, et_error *error)
{
    const et_flows *flows = self;
    for (size_t i = 0; i < flows->count; i++) {
        const et_flow *flow = &flows->flows[i];
        if (!flow->known)
            continue;
        et_value *one = et_value_set_dict(dict, flow->name);
        et_value *position = et_value_set_dict(one, "position");
        int status = position ? save_position(flow, position, error)
                              : et_alloc_failed(error, 0, "a state tree");
        if (status)
            return status;
        const bool within = flow->cursor.begun && !flow->cursor.waits;
        if (!et_value_set_int(one, "pass", within ? flow->cursor.pass : -1) ||
            !et_value_set_int(one, "over", flow->over))
            return et_alloc_failed(error, 0, "a state tree");
    }
    return save_waiting(dict, flows, error);
}

/* A copy is kept for the source without a name, which comes with the first step. */
static int restore(void *self, const et_value *dict, et_error *error)
{
    et_flows *flows = self;
    et_arena_release(&flows->arena);
    flows->restored = et_value_dict(&flows->arena);
    int status = flows->restored ? et_value_merge(flows->restored, dict, error)
                                 : et_alloc_failed(error, 0, "the state");
    for (const et_value *one = dict->first; !status && one; one = one->next) {
        et_flow *flow = NULL;
        for (size_t i = 0; i < flows->count; i++)
            if (!strcmp(flows->flows[i].name, one->key))
                flow = &flows->flows[i];
        if (flow)
            status = restore_flow(flow, one, error);
        else if (*one->key)
            et_log(ET_LOG_WARNING, "the checkpoint has a source named %s, but this loop does not",
                   one->key);
    }
    return status;
}

const et_part_class et_flows_part = { "positions in data", save, restore };
