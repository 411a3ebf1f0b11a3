/* The lifecycle of a loop: options, parts of the state tree, restoring, the end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/comm.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/map.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "engine/comm/together.h"
#include "engine/exec/pass.h"
#include "engine/graph/graph.h"
#include "engine/tensor/params.h"
#include "formats/events/event.h"
#include "formats/events/sink.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state.h"
#include "train/run/run.h"

static const char *const event_names[] = {
    ET_EVENT_ENTER_LOOP,           ET_EVENT_EXIT_LOOP,
    ET_EVENT_BEFORE_EPOCH,         ET_EVENT_AFTER_EPOCH,
    ET_EVENT_BEFORE_STEP,          ET_EVENT_AFTER_STEP,
    ET_EVENT_METRICS_COLLECTED,    ET_EVENT_TIME_METRICS_COLLECTED,
    ET_EVENT_METRIC_STATS_PRINTED, ET_EVENT_TIME_METRIC_STATS_PRINTED,
    ET_EVENT_SUMMARY_ADDED,
};

/* ---- options ---- */

/* Names are keys of a checkpoint. */
static int check_frequencies(const et_loop_options *o, et_error *error)
{
    for (int i = 0; i < o->summary_commit_freq_count; i++) {
        const char *name = o->summary_commit_freqs[i].name;
        size_t bad;
        if (!name || o->summary_commit_freqs[i].every < 1)
            return et_fail(
                error, ET_ECONFIG,
                "summary_commit_freqs[%d]: needs a name and a positive frequency, got %lld", i,
                (long long)o->summary_commit_freqs[i].every);
        if (!et_utf8_valid(name, strlen(name), &bad))
            return et_fail(error, ET_ECONFIG, "summary_commit_freqs[%d]: the name is not UTF-8", i);
        for (int k = 0; k < i; k++)
            if (!strcmp(name, o->summary_commit_freqs[k].name))
                return et_fail(error, ET_ECONFIG,
                               "summary_commit_freqs[%d]: %s already has a frequency (%lld)", i,
                               name, (long long)o->summary_commit_freqs[k].every);
    }
    return ET_OK;
}

static int check_options(const et_params *params, const et_loop_options *o, et_error *error)
{
    if (!params || !et_params_ready(params))
        return et_fail(error, ET_EUSAGE, "call et_params_materialize before you open a loop");
    if (o->max_epoch < 0 || o->max_step < 0)
        return et_fail(error, ET_ECONFIG,
                       "max_epoch %lld, max_step %lld: give at least 1, or 0 for no limit",
                       (long long)o->max_epoch, (long long)o->max_step);
    if (o->checkpoint_epoch_freq < 0)
        return et_fail(error, ET_ECONFIG,
                       "`checkpoint_epoch_freq` must be a positive integer: got %lld",
                       (long long)o->checkpoint_epoch_freq);
    if (o->checkpoint_epoch_freq && !o->checkpoint_dir)
        return et_fail(error, ET_ECONFIG, "checkpoint_epoch_freq needs checkpoint_dir");
    if (o->checkpoint_max_to_keep < 0)
        return et_fail(error, ET_ECONFIG,
                       "checkpoint_max_to_keep: %lld; give at least 1, or 0 to keep all",
                       (long long)o->checkpoint_max_to_keep);
    if (o->valid_metric_better < ET_LOOP_BETTER_BY_NAME ||
        o->valid_metric_better > ET_LOOP_BETTER_LARGER)
        return et_fail(error, ET_ECONFIG, "valid_metric_better: %d is not one of ET_LOOP_BETTER_*",
                       o->valid_metric_better);
    if (o->early_stopping && o->valid_metric_name && !*o->valid_metric_name)
        return et_fail(error, ET_ECONFIG, "early_stopping needs valid_metric_name");
    if (o->formatter && (!o->formatter->compare || !o->formatter->format))
        return et_fail(error, ET_EUSAGE, "formatter: needs both compare and format");
    if (o->group && et_group_params(o->group) != params)
        return et_fail(error, ET_ECONFIG, "group: belongs to another store");
    if (o->var_group_count < 0 || o->summary_commit_freq_count < 0 ||
        (o->var_group_count && !o->var_groups) ||
        (o->summary_commit_freq_count && !o->summary_commit_freqs))
        return et_fail(error, ET_ECONFIG,
                       "var_groups: %d, summary_commit_freqs: %d: counts must be at least 0, and 0 "
                       "if the list is NULL",
                       o->var_group_count, o->summary_commit_freq_count);
    for (int i = 0; i < o->var_group_count; i++)
        if (!o->var_groups[i])
            return et_fail(error, ET_ECONFIG, "var_groups[%d]: needs a name", i);
    return check_frequencies(o, error);
}

/* NULL stays NULL. */
static const char *keep(et_loop *loop, const char *text)
{
    return text ? et_arena_strdup(&loop->arena, text) : NULL;
}

/* Copies texts, with defaults for names; "" becomes NULL if it means "none". */
static int copy_options(et_loop *loop, const et_loop_options *given, et_error *error)
{
    et_loop_options *o = &loop->options;
    const char *valid = given->valid_metric_name ? given->valid_metric_name : "valid_loss";
    const char *prefix = given->summary_metric_prefix ? given->summary_metric_prefix : "metrics/";
    const size_t groups = (size_t)given->var_group_count;
    const size_t freqs = (size_t)given->summary_commit_freq_count;
    *o = *given;
    loop->formatter = given->formatter ? *given->formatter : et_metric_formatter_default;
    o->formatter = &loop->formatter;
    o->checkpoint_dir = keep(loop, given->checkpoint_dir);
    o->restore_checkpoint = keep(loop, given->restore_checkpoint);
    o->summary_dir = keep(loop, given->summary_writer ? NULL : given->summary_dir);
    o->summary_graph = keep(loop, given->summary_graph);
    o->summary_metric_prefix = keep(loop, prefix);
    o->valid_metric_name = *valid ? keep(loop, valid) : NULL;
    const char **names = et_arena_array(&loop->arena, groups + 1, sizeof *names);
    et_loop_commit *commits = et_arena_array(&loop->arena, freqs + 1, sizeof *commits);
    for (size_t i = 0; names && i < groups; i++)
        names[i] = keep(loop, given->var_groups[i]);
    for (size_t i = 0; commits && i < freqs; i++)
        commits[i] = (et_loop_commit){ keep(loop, given->summary_commit_freqs[i].name),
                                       given->summary_commit_freqs[i].every, 0 };
    o->var_groups = names;
    o->summary_commit_freqs = NULL;
    loop->metrics.commits = commits;
    return loop->arena.failed ? et_alloc_failed(error, "a loop") : ET_OK;
}

/* Matches from the start of a name, as Python's match. */
static int compile_skip(et_loop *loop, et_error *error)
{
    const char *given = loop->options.summary_skip_pattern;
    const char *pattern = given ? given : ".*(time|timer)$";
    if (!*pattern)
        return ET_OK;
    char *anchored = et_arena_printf(&loop->arena, "\\A(?:%s)", pattern);
    if (!anchored)
        return et_alloc_failed(error, "a pattern");
    const char *items[] = { anchored };
    loop->options.summary_skip_pattern = NULL;
    return et_patterns_new(&loop->skip, (et_strings){ items, 1 }, "summary_skip_pattern", error);
}

/* given NULL: all. */
static bool is_wanted(const et_params *params, int index, void *given)
{
    (void)params;
    for (int i = 0; given && i < et_group_count(given); i++)
        if (et_group_param(given, i) == index)
            return true;
    return !given;
}

/* From here on, options.group is NULL if the caller gave no group. */
static int choose_group(et_loop *loop, et_error *error)
{
    const et_group *given = loop->options.group;
    int status = et_group_choose(&loop->group, loop->params, is_wanted, (void *)given, error);
    loop->options.group = given ? loop->group : NULL;
    if (!status && loop->options.early_stopping && !et_group_count(loop->group))
        status =
            et_fail(error, ET_ECONFIG, "early_stopping: the loop has no parameters to restore");
    return status;
}

/* ---- open and close ---- */

int et_loop_open(et_loop **out, et_params *params, const et_loop_options *options, et_error *error)
{
    static const et_loop_options defaults = { 0 };
    *out = NULL;
    options = options ? options : &defaults;
    int status = check_options(params, options, error);
    et_loop *loop = status ? NULL : et_alloc_zero(1, sizeof *loop);
    if (!loop)
        return status ? status : et_alloc_failed(error, "a loop");
    loop->params = params;
    loop->clock.epoch_begun = loop->clock.step_begun = loop->best.value = (double)NAN;
    loop->best.step = -1;
    loop->out.quiet = et_comm_rank(options->comm) != 0;
    if (!(status = copy_options(loop, options, error)) && !(status = compile_skip(loop, error)) &&
        !(status = choose_group(loop, error)) &&
        !(status = et_event_hub_new(&loop->events, event_names,
                                    sizeof event_names / sizeof *event_names, error)) &&
        !(status = et_state_new(&loop->state, error)))
        status = et_state_add_params(loop->state, loop->params, error);
    if (status) {
        et_loop_close(loop);
        return status;
    }
    const char *valid = loop->options.valid_metric_name;
    int better = loop->options.valid_metric_better;
    loop->best.smaller_is_better =
        better == ET_LOOP_BETTER_BY_NAME
            ? !valid || !(et_text_ends(valid, "acc") || et_text_ends(valid, "accuracy"))
            : better == ET_LOOP_BETTER_SMALLER;
    *out = loop;
    return ET_OK;
}

void et_loop_close(et_loop *loop)
{
    if (!loop)
        return;
    et_assert(!loop->firing);
    if (loop->phase == ET_LOOP_RUNNING) {
        if (!loop->error.status)
            et_fail(&loop->error, ET_EINTERRUPTED, "closed before its end");
        et_loop_end(loop, NULL);
    }
    for (size_t i = 0; i < loop->metrics.pair_count; i++)
        et_statistics_free(loop->metrics.pairs[i].collector);
    et_free(loop->metrics.pairs);
    et_free(loop->own.objects);
    et_free(loop->own.optimizers);
    et_free(loop->best.values);
    et_flows_release(&loop->flows);
    et_logger_release(&loop->metrics.epoch);
    et_logger_release(&loop->metrics.step);
    et_strbuf_release(&loop->out.line);
    et_strbuf_release(&loop->out.plain);
    et_state_free(loop->state);
    et_event_hub_free(loop->events);
    et_group_free(loop->group);
    et_patterns_free(loop->skip);
    et_arena_release(&loop->arena);
    et_free(loop);
}

/* et_loop_begin restores parts by their names, which checkpoints hold. */
static int check_part(const et_loop *loop, const char *what, const char *name, et_error *error)
{
    if (loop->phase != ET_LOOP_OPEN)
        return et_fail(error, ET_EUSAGE, "%s: et_loop_begin restores objects, so add them before",
                       name ? name : "(without a name)");
    if (!name || !*name)
        return et_fail(error, ET_ECONFIG, "%s of a loop has no name", what);
    return et_utf8_valid(name, strlen(name), NULL)
               ? ET_OK
               : et_fail(error, ET_ECONFIG, "%s of a loop: the name %s is not UTF-8", what, name);
}

int et_loop_add_object(et_loop *loop, const char *name, const et_part_class *kind, void *self,
                       et_error *error)
{
    et_assert(kind->save && kind->restore);
    int status = check_part(loop, "an object", name, error);
    if (status)
        return status;
    for (size_t i = 0; i < loop->own.object_count; i++)
        if (!strcmp(loop->own.objects[i].name, name))
            return et_fail(error, ET_ECONFIG, "two objects of a loop have the name %s", name);
    const bool grown =
        ET_VECTOR_GROW(loop->own.objects, loop->own.object_capacity, loop->own.object_count + 1);
    const char *copy = grown ? keep(loop, name) : NULL;
    if (!copy)
        return et_alloc_failed(error, "an object of a loop");
    loop->own.objects[loop->own.object_count++] = (et_loop_object){ copy, kind, self };
    return ET_OK;
}

int et_loop_add_source(et_loop *loop, const char *name, et_source *source, et_error *error)
{
    int status = check_part(loop, "a source", name, error);
    if (status)
        return status;
    if (!source)
        return et_fail(error, ET_ECONFIG, "source %s of a loop is NULL", name);
    return et_flows_add(&loop->flows, name, source, true, error);
}

/* ---- the state ---- */

/* The state of a loop, besides store and run:
 *
 *   loop      counters, whether an epoch is open, how long summaries have waited
 *   metrics   {"epoch": {...}, "step": {...}}, without values that depend on the clock
 *   data      positions of sources (steps.c)
 *   objects   {name: ...} of the program; each of them may be missing */

static int save_loop(const void *self, et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    et_assert(loop->metrics.commits && loop->at.epochs_done <= loop->at.epoch);
    et_value_set_int(dict, "epoch", loop->at.epoch);
    et_value_set_int(dict, "step", loop->at.step);
    et_value_set_bool(dict, "within_epoch", loop->at.within_epoch || loop->at.resumes);
    et_value_set_int(dict, "epochs_done", loop->at.epochs_done);
    et_value_set_int(dict, "steps_done", loop->at.steps_done);
    et_value_set_bool(dict, "is_best", loop->best.is_last);
    et_value *waited = et_value_set_dict(dict, "waited");
    for (int i = 0; i < loop->options.summary_commit_freq_count; i++)
        et_value_set_int(waited, loop->metrics.commits[i].name, loop->metrics.commits[i].waited);
    if (loop->at.within_step || loop->at.ends_step)
        et_value_set_bool(dict, "within_step", true);
    (void)error;
    return ET_OK;
}

static int restore_loop(void *self, const et_value *dict, et_error *error)
{
    et_loop *loop = self;
    const struct {
        const char *key;
        int64_t *value;
    } counters[] = { { "epoch", &loop->at.epoch },
                     { "step", &loop->at.step },
                     { "epochs_done", &loop->at.epochs_done },
                     { "steps_done", &loop->at.steps_done } };
    int status = ET_OK;
    for (size_t i = 0; !status && i < sizeof counters / sizeof *counters; i++) {
        status = et_value_read_int(dict, counters[i].key, counters[i].value, error);
        if (!status && *counters[i].value < 0)
            status = et_fail(error, ET_EFORMAT, "%s: %lld is negative", counters[i].key,
                             (long long)*counters[i].value);
    }
    if (!status && (loop->at.epochs_done > loop->at.epoch || loop->at.steps_done > loop->at.step))
        status = et_fail(error, ET_EFORMAT,
                         "epoch %lld, step %lld: no more can be done, and %lld and %lld are",
                         (long long)loop->at.epoch, (long long)loop->at.step,
                         (long long)loop->at.epochs_done, (long long)loop->at.steps_done);
    if (!status)
        status = et_value_read_bool(dict, "within_epoch", &loop->at.resumes, error);
    if (!status)
        status = et_value_read_bool(dict, "is_best", &loop->best.is_last, error);
    loop->at.ends_step = false;
    if (!status && et_value_get(dict, "within_step"))
        status = et_value_read_bool(dict, "within_step", &loop->at.ends_step, error);
    /* Frequencies may have changed: missing ones begin anew. */
    const et_value *counts = et_value_get(dict, "waited");
    for (int i = 0; !status && i < loop->options.summary_commit_freq_count; i++) {
        et_loop_commit *commit = &loop->metrics.commits[i];
        int64_t waited;
        if (!et_value_read_int(counts, commit->name, &waited, NULL) && waited >= 0)
            commit->waited = waited % commit->every;
    }
    return status;
}

static const et_part_class loop_part = { "a loop", save_loop, restore_loop };

static int save_objects(const void *self, et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    int status = ET_OK;
    for (size_t i = 0; !status && i < loop->own.object_count; i++) {
        const et_loop_object *object = &loop->own.objects[i];
        et_value *one = et_value_set_dict(dict, object->name);
        status = one ? object->kind->save(object->self, one, error)
                     : et_alloc_failed(error, "a state tree");
        if (status)
            et_fail_while(error, status, "%s", object->name);
    }
    return status;
}

static int restore_objects(void *self, const et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    for (const et_value *one = dict->first; one; one = one->next) {
        size_t at = 0;
        while (at < loop->own.object_count && strcmp(loop->own.objects[at].name, one->key) != 0)
            at++;
        if (at == loop->own.object_count)
            et_log(ET_LOG_WARNING,
                   "the checkpoint has an object named %s, but this loop does not: the next "
                   "checkpoint will omit it",
                   one->key);
    }
    for (size_t i = 0; i < loop->own.object_count; i++) {
        const et_loop_object *object = &loop->own.objects[i];
        const et_value *one = et_value_get(dict, object->name);
        if (!one && !loop->options.restore_partial)
            return et_fail(error, ET_ECONFIG,
                           "object %s is not in the checkpoint; set restore_partial to leave it "
                           "unchanged",
                           object->name);
        if (!one) {
            et_log(ET_LOG_WARNING, "the checkpoint has no object named %s: the object is unchanged",
                   object->name);
            continue;
        }
        int status = one->kind == ET_VALUE_DICT ? object->kind->restore(object->self, one, error)
                                                : et_fail(error, ET_EFORMAT, "not a dict");
        if (status)
            return et_fail_while(error, status, "%s", object->name);
    }
    return ET_OK;
}

static const et_part_class objects_part = { "objects of a loop", save_objects, restore_objects };

static int add_parts(et_loop *loop, et_error *error)
{
    /* "optimizer", "optimizer/2", ...: in the order of trainers, skipping used names. */
    int status = ET_OK;
    for (size_t i = 0; !status && i < loop->own.optimizer_count; i++) {
        char name[32] = "optimizer";
        for (int n = 2; et_state_has(loop->state, NULL, name); n++)
            snprintf(name, sizeof name, "optimizer/%d", n);
        if (!et_state_has(loop->state, loop->own.optimizers[i], NULL))
            status = et_state_add_optimizer(loop->state, name, loop->own.optimizers[i], error);
    }
    if (status || (status = et_state_add(loop->state, "loop", &loop_part, loop, error)) ||
        (status = et_state_add(loop->state, "metrics", &et_loop_metrics_part, loop, error)) ||
        (status = et_state_add(loop->state, "data", &et_flows_part, &loop->flows, error)))
        return status;
    return et_state_add(loop->state, "objects", &objects_part, loop, error);
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

/* Into the event files of a writer. ET_EUSAGE: the pass has no graph. */
static int write_graph(et_sink *writer, const et_pass *pass, et_error *error)
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
              : et_alloc_failed(error, "a graph");
    et_arena_release(&arena);
    return status;
}

/* ---- begin ---- */

static void tell(void *self, const char *text)
{
    et_loop_print(self, text);
}

/* Without a limit, all checkpoints are kept. */
static int open_run(et_loop *loop, et_error *error)
{
    const et_loop_options *o = &loop->options;
    et_run_options run = {
        .model_dir = o->checkpoint_dir,
        .state = loop->state,
        .max_to_keep = o->checkpoint_max_to_keep ? o->checkpoint_max_to_keep : -1,
        .best_metric = o->valid_metric_name,
        .best_comparison = loop->best.smaller_is_better ? ET_COMPARE_LOWER : ET_COMPARE_HIGHER,
        .best_unsaved = !o->early_stopping,
        .partial = o->restore_partial,
        .summary_dir = o->summary_dir,
        .no_logs = true,
        .observer = { .self = loop, .tell = tell },
        .stop = o->stop,
        .comm = o->comm,
    };
    return et_run_open(&loop->run, &run, error);
}

/* From a file, or from the newest checkpoint of the directory, if any. */
static int restore(et_loop *loop, et_error *error)
{
    const char *from = loop->options.restore_checkpoint;
    et_strbuf *line = &loop->out.line;
    int64_t step = -1;
    int status = !from   ? et_run_restore(loop->run, &step, error)
                 : *from ? et_run_restore_file(loop->run, from, error)
                         : ET_OK;
    const et_path newest = step < 0 ? et_path_print("%s", from ? from : "")
                                    : et_checkpoint_path(loop->options.checkpoint_dir, step);
    if (!status && *newest.text) {
        et_strbuf_reset(line);
        et_strbuf_printf(line, "Resume training: epoch %lld, step %lld, from checkpoint %s",
                         (long long)loop->at.epoch, (long long)loop->at.step, newest.text);
        if (line->failed)
            status = et_alloc_failed(error, "a line");
        else
            et_loop_print(loop, et_strbuf_text(line));
    }
    et_loop_read_best(loop);
    return status;
}

static bool begins_anew(const et_sink *own)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *positions = et_value_dict(&arena);
    bool any = false;
    if (positions)
        et_sink_positions(own, positions);
    for (const et_value *v = positions ? positions->first : NULL; v; v = v->next)
        any |= v->kind != ET_VALUE_DICT || v->first;
    et_arena_release(&arena);
    return !any;
}

/* Text and graph are written only if the writer's files begin anew: other files have them
 * already. */
static int open_writer(et_loop *loop, et_error *error)
{
    const et_loop_options *o = &loop->options;
    et_sink *own = et_run_sink(loop->run);
    loop->writer = o->summary_writer ? o->summary_writer : own;
    int status = own && o->summary_dir ? et_directory_make(o->summary_dir, error) : ET_OK;
    if (status || !own || !begins_anew(own))
        return status;
    if (o->summary_graph) {
        et_arena arena = ET_ARENA_INIT;
        et_value *values = et_value_dict(&arena);
        et_value_set_string(values, "graph", o->summary_graph);
        status = et_value_failed(values) ? et_alloc_failed(error, "a summary")
                                         : et_sink_write(own, 0, values, error);
        et_arena_release(&arena);
    }
    return status || !o->summary_pass ? status : write_graph(own, o->summary_pass, error);
}

static int enter(void *self, et_error *error)
{
    et_loop *loop = self;
    int status;
    if (!(status = add_parts(loop, error)) && !(status = open_run(loop, error)) &&
        !(status = restore(loop, error)) && !(status = et_run_begin(loop->run, error)))
        status = open_writer(loop, error);
    et_state_seal(loop->state);
    return status;
}

static int close_run(void *self, et_error *error)
{
    et_loop *loop = self;
    int status = et_run_close(loop->run, error);
    loop->run = NULL;
    loop->writer = NULL;
    return status;
}

int et_loop_begin(et_loop *loop, et_error *error)
{
    if (loop->error.status)
        return et_fail(error, loop->error.status, "%s", loop->error.text);
    if (loop->phase != ET_LOOP_OPEN)
        return et_fail(error, ET_EUSAGE, "the loop has already begun: open a new loop");
    int status = et_together_run(loop->options.comm, enter, loop, &loop->error);
    loop->phase = status ? ET_LOOP_ENDED : ET_LOOP_RUNNING;
    if (!status) {
        /* Counters, not progress: limits may be set later. */
        loop->clock.eta_step = (double)loop->at.step;
        loop->clock.eta_epoch = (double)(loop->at.epoch - loop->at.resumes);
        loop->clock.eta_time = et_clock_monotonic();
        status = et_loop_fire(loop, ET_EVENT_ENTER_LOOP, &(et_loop_event){ 0 }, false);
    } else {
        close_run(loop, NULL);
    }
    return status ? et_fail(error, status, "%s", loop->error.text) : ET_OK;
}

/* ---- end ---- */

/* Part of the end that all ranks do. The first failure is reported. */
static void end_part(et_loop *loop, int (*part)(void *loop, et_error *error))
{
    et_error failure = ET_ERROR_INIT;
    if (et_together_run(loop->options.comm, part, loop, &failure))
        et_loop_fail(loop, &failure);
}

static int tell_failure(void *self, et_error *error)
{
    const et_loop *loop = self;
    return loop->error.status ? et_fail(error, loop->error.status, "%s", loop->error.text) : ET_OK;
}

static int finish_saves(void *self, et_error *error)
{
    const et_loop *loop = self;
    return et_run_finish_saves(loop->run, loop->at.step, error);
}

int et_loop_end(et_loop *loop, et_error *error)
{
    if (loop->phase != ET_LOOP_RUNNING)
        return et_fail(error, loop->error.status ? loop->error.status : ET_EUSAGE, "%s",
                       loop->error.status ? loop->error.text
                                          : "the loop is not running; call et_loop_begin first");
    if (loop->firing && et_loop_refuse_in_handler(loop))
        return et_fail(error, loop->error.status, "%s", loop->error.text);
    et_loop_end_open(loop);
    end_part(loop, tell_failure);
    end_part(loop, finish_saves);
    end_part(loop, et_loop_take_best);
    /* Handlers see a loop without a failure, so they may print and write. */
    et_error failure = loop->error;
    loop->phase = ET_LOOP_ENDING;
    loop->error = (et_error)ET_ERROR_INIT;
    et_loop_fire(loop, ET_EVENT_EXIT_LOOP, &(et_loop_event){ 0 }, false);
    if (failure.status)
        loop->error = failure;
    end_part(loop, close_run);
    loop->phase = ET_LOOP_ENDED;
    return tell_failure(loop, error);
}

/* ---- getters ---- */

et_state *et_loop_state(et_loop *loop)
{
    return loop->state;
}

et_event_hub *et_loop_events(et_loop *loop)
{
    return loop->events;
}

int64_t et_loop_epoch(const et_loop *loop)
{
    return loop->at.epoch;
}

int64_t et_loop_step(const et_loop *loop)
{
    return loop->at.step;
}

bool et_loop_within_epoch(const et_loop *loop)
{
    return loop->at.within_epoch;
}

bool et_loop_within_step(const et_loop *loop)
{
    return loop->at.within_step;
}

const et_batch *et_loop_step_data(const et_loop *loop)
{
    return loop->step_data;
}

int64_t et_loop_max_epoch(const et_loop *loop)
{
    return loop->options.max_epoch;
}

int64_t et_loop_max_step(const et_loop *loop)
{
    return loop->options.max_step;
}

/* Also allowed before the loop begins. */
static int set_max(et_loop *loop, int64_t *max, int64_t value, const char *name)
{
    if (loop->error.status)
        return loop->error.status;
    if (value < 0)
        return et_fail(&loop->error, ET_ECONFIG, "%s %lld: give at least 1, or 0 for no limit",
                       name, (long long)value);
    *max = value;
    return ET_OK;
}

int et_loop_set_max_epoch(et_loop *loop, int64_t max_epoch)
{
    return set_max(loop, &loop->options.max_epoch, max_epoch, "max_epoch");
}

int et_loop_set_max_step(et_loop *loop, int64_t max_step)
{
    return set_max(loop, &loop->options.max_step, max_step, "max_step");
}

const et_group *et_loop_param_vars(const et_loop *loop)
{
    return loop->group;
}

double et_loop_best_valid_metric(const et_loop *loop)
{
    return loop->best.value;
}

const char *et_loop_valid_metric_name(const et_loop *loop)
{
    return loop->options.valid_metric_name;
}

bool et_loop_valid_metric_smaller_is_better(const et_loop *loop)
{
    return loop->best.smaller_is_better;
}

bool et_loop_use_early_stopping(const et_loop *loop)
{
    return loop->options.early_stopping;
}

et_sink *et_loop_summary_writer(et_loop *loop)
{
    return loop->writer;
}

int et_loop_var_groups(const et_loop *loop, const char *const **groups)
{
    *groups = loop->options.var_groups;
    return loop->options.var_group_count;
}

/* ---- summaries of a program, in the event files ---- */

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
