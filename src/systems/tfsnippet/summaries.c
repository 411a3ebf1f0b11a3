/* Summaries of a program in the event files of a loop, and the graph of a pass. */
#include <etude/comm.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/exec/pass.h"
#include "engine/graph/graph.h"
#include "formats/events/event.h"
#include "formats/events/sink.h"
#include "systems/tfsnippet/loop_private.h"

/* Only rank 0 has the loop's own writer. */
static int need_writer(et_loop *loop)
{
    int status = et_loop_ready(loop);
    const bool elsewhere = et_comm_rank(loop->options.comm) && loop->options.summary_dir;
    if (status || loop->writer || elsewhere)
        return status;
    return et_fail(&loop->error, ET_EUSAGE,
                   "cannot write a summary: give the loop summary_dir or summary_writer");
}

int et_loop_add_summary(et_loop *loop, const et_value *summary)
{
    et_loop_event event = { .summary = summary };
    int status = need_writer(loop);
    if (!status && (!summary || summary->kind != ET_VALUE_DICT))
        status = et_fail(&loop->error, ET_EDATA, "a summary must be a dict of values by tag");
    if (!status && loop->writer)
        status = et_sink_write(loop->writer, loop->at.step, summary, &loop->error);
    if (!status)
        status = et_loop_fire(loop, ET_EVENT_SUMMARY_ADDED, &event, false);
    return et_loop_explain(loop, status, &loop->error);
}

int et_loop_add_summary_bytes(et_loop *loop, const void *bytes, size_t length)
{
    et_loop_event event = { .bytes = bytes, .length = length };
    int status = need_writer(loop);
    if (!status && loop->writer)
        status = et_sink_write_summary(loop->writer, loop->at.step, bytes, length, &loop->error);
    if (!status)
        status = et_loop_fire(loop, ET_EVENT_SUMMARY_ADDED, &event, false);
    return et_loop_explain(loop, status, &loop->error);
}

/* ---- the graph of a pass ---- */

/* Names by node id, since names may be equal: a repeated name gets the id as a suffix. */
static const char **make_names(const et_graph *graph, et_arena *arena)
{
    const char **names = et_arena_array(arena, (size_t)graph->count + 1, sizeof *names);
    et_map taken = { 0 };
    bool whole = names != NULL;
    for (int i = 0; i < graph->count && whole; i++) {
        const char *name = graph->nodes[i]->name;
        int64_t other;
        bool again = !name || !*name || et_map_get(&taken, name, &other);
        names[i] = again ? et_arena_printf(arena, "%s_%d", name && *name ? name : "node", i) : name;
        whole = names[i] && et_map_put(&taken, names[i], i);
    }
    et_map_release(&taken);
    return whole ? names : NULL;
}

int et_loop_write_graph(et_sink *writer, const et_pass *pass, et_error *error)
{
    const et_graph *graph = et_pass_graph(pass);
    bool any;
    et_arena arena = ET_ARENA_INIT;
    if (!graph)
        return et_fail(error, ET_EUSAGE,
                       "summary_pass has no graph: the pass is not open, or its last plan failed");
    const char **names = make_names(graph, &arena);
    size_t count = (size_t)graph->count;
    et_events_node *nodes = et_arena_array(&arena, count + 1, sizeof *nodes);
    bool whole = names && nodes;
    for (int i = 0; i < graph->count && whole; i++) {
        et_events_node *out = &nodes[i];
        const et_node *node = graph->nodes[i];
        const char **inputs = et_arena_array(&arena, (size_t)node->inputs + 1, sizeof *inputs);
        *out = (et_events_node){ .name = names[i],
                                 .op = et_op_name(node->op),
                                 .inputs = inputs,
                                 .rank = node->type[0].shape.rank,
                                 .size = node->type[0].shape.size };
        for (int k = 0; inputs && k < node->inputs; k++)
            inputs[out->input_count++] = names[node->input[k]->id];
        whole = inputs != NULL;
    }
    int status =
        whole ? et_sink_write_message(writer, &(et_sink_message){ .nodes = nodes, .count = count },
                                      &any, error)
              : et_alloc_failed(error, count * sizeof *nodes, "a graph");
    et_arena_release(&arena);
    return status;
}
