/* What a translator reads before it translates: settings, vocabulary, weights, of a run, an export
 * or one file. Cheap things first: a wrong precision or a missing vocabulary is said before weights
 * are read. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"
#include "graph/graph.h"
#include "kernel/gemm/gemm.h"
#include "tasks/translation/kind.h"
#include "tasks/translation/task.h"
#include "tasks/translation/translator_private.h"
#include "train/model_export.h"
#include "train/stored_weight.h"

/* ---- weights ---------------------------------------------------------------------------- */

/* Whether what lies beside the weights, settings and vocabulary, is theirs. */
static int check_belongs(et_translator *t, const et_model_place *place,
                         const et_checkpoint_facts *facts, et_error *error)
{
    et_identity identity = { t->checkpoint, facts->identity };
    const char *path = et_model_place_path(place, ET_TRANSLATION_VOCABULARY, &t->arena);
    int status = path ? et_experiment_check_model(&t->experiment, &identity, place->name, error)
                      : et_alloc_failed(error, strlen(place->name), "a path");
    if (!status)
        status = et_translation_check_vocabulary(et_vocabulary_checksum(t->vocabulary), &identity,
                                                 path, error);
    t->step = facts->step;
    t->identity = facts->identity;
    return status;
}

/* The best one; ET_ENOTFOUND without a warning: the run keeps none. Any other trouble with the
 * best one is a warning, since the newest is there as well. */
static int load_best(et_translator *t, const et_model_place *place)
{
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts facts = { .arena = &t->arena };
    int status = et_checkpoint_load_best(&t->checkpoint, t->params, place->name,
                                         !t->options.live_weights, &facts, &reason);
    if (status == ET_ENOTFOUND && !t->checkpoint)
        return status;
    if (!status)
        status = check_belongs(t, place, &facts, &reason);
    if (status)
        et_log(ET_LOG_WARNING, "%s; taking the newest checkpoint, not the best", reason.text);
    return status;
}

/* Of a directory that et_translator_export made. *there: whether it has such weights. */
static int load_export(et_translator *t, const et_model_place *place, bool *there, et_error *error)
{
    et_checkpoint_facts facts = { .arena = &t->arena };
    et_free(t->checkpoint);
    t->checkpoint = et_path_join(place->name, ET_MODEL_WEIGHTS);
    if (!t->checkpoint)
        return et_alloc_failed(error, strlen(place->name), "a path");
    *there = et_file_exists(t->checkpoint);
    int status =
        *there ? et_checkpoint_load_weights(t->params, t->checkpoint, false, &facts, error) : ET_OK;
    return *there && !status ? check_belongs(t, place, &facts, error) : status;
}

/* The message of "none" is about the run, not about a folder in it. */
static int load_newest(et_translator *t, const et_model_place *place, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts facts = { .arena = &t->arena };
    et_free(t->checkpoint);
    int status = et_checkpoint_load_newest(&t->checkpoint, t->params, place->name,
                                           !t->options.live_weights, &facts, &reason);
    bool exported = false;
    if (status == ET_ENOTFOUND) {
        int exports = load_export(t, place, &exported, error);
        if (exports || exported)
            return exports;
    }
    if (status == ET_ENOTFOUND)
        return et_fail(error, status,
                       "%s: no checkpoint yet; train there first, or wait until the run saves",
                       place->name);
    return status ? et_fail(error, status, "%s", reason.text)
                  : check_belongs(t, place, &facts, error);
}

static int load_named(et_translator *t, const et_model_place *place, et_error *error)
{
    et_checkpoint_facts facts = { .arena = &t->arena };
    int status = et_checkpoint_named(&t->checkpoint, place->name, t->options.checkpoint, error);
    if (!status)
        status = et_checkpoint_load_weights(t->params, t->checkpoint, !t->options.live_weights,
                                            &facts, error);
    return status ? status : check_belongs(t, place, &facts, error);
}

static int load_file(et_translator *t, const et_model_place *place, et_error *error)
{
    et_checkpoint_facts facts = { .arena = &t->arena };
    t->checkpoint = et_strdup(place->name);
    int status = t->checkpoint ? et_model_place_load(place, t->params, &facts, error)
                               : et_alloc_failed(error, strlen(place->name), "a path");
    return status ? status : check_belongs(t, place, &facts, error);
}

/* One that is named is taken or refused, it may be from anywhere, also an average; otherwise the
 * best, else the newest. */
static int load_checkpoint(et_translator *t, const et_model_place *place, et_error *error)
{
    if (et_model_place_is_file(place))
        return load_file(t, place, error);
    if (t->options.checkpoint)
        return load_named(t, place, error);
    return load_best(t, place) ? load_newest(t, place, error) : ET_OK;
}

/* ---- the rest --------------------------------------------------------------------------- */

/* Loaded now, so that a model that cannot be used is known before weights are read. The run's own
 * copy: what the ids of its weights mean. */
static int open_vocabulary(et_translator *t, const et_model_place *place, et_error *error)
{
    const char *path = et_model_place_path(place, ET_TRANSLATION_VOCABULARY, &t->arena);
    char *bytes = NULL;
    size_t length;
    int status = path ? et_model_place_read(place, ET_TRANSLATION_VOCABULARY,
                                            ET_VOCABULARY_BYTES_MAX, &bytes, &length, error)
                      : et_alloc_failed(error, strlen(place->name), "a path");
    if (!status)
        status = et_vocabulary_parse(&t->vocabulary, bytes, length, path, error);
    et_free(bytes);
    return status ? status : et_vocabulary_load(t->vocabulary, error);
}

/* 64 positions: the size of the graph below; the decoder has a table of its own. */
et_transformer et_translator_transformer(const et_translator *t)
{
    return et_translation_transformer(t->experiment.task, et_vocabulary_size(t->vocabulary), 64);
}

/* Declares the model's parameters: a graph of the smallest batch names them all. */
static int declare_params(et_translator *t, et_error *error)
{
    /* The graph is only built, never planned: building it declares the parameters. */
    et_graph *graph;
    et_transformer model = et_translator_transformer(t);
    int status = et_params_new(&t->params, error);
    if (!status)
        status = et_graph_new(&graph, t->params, NULL, error);
    if (status)
        return status;
    et_transformer_train(et_graph_scope(graph), &model, 64, 64, 1);
    status = et_graph_finish(graph, error);
    et_graph_free(graph);
    return status ? status : et_params_materialize(t->params, t->act == ET_BF16, error);
}

/* What int8 computes with is what an export in int8 holds, in look-ups as well as in products. */
static int round_weights(et_translator *t, et_error *error)
{
    int status = ET_OK;
    et_params_begin_change(t->params);
    for (int i = 0; i < et_params_count(t->params) && !status; i++)
        status = et_stored_weight_round(
            et_params_values(t->params) + et_params_offset(t->params, i),
            et_params_name(t->params, i), et_params_shape(t->params, i), error);
    et_params_changed(t->params, true);
    return status;
}

/* bfloat16 on a CPU that has no such products becomes float32: the same results but for
 * rounding, and faster there. auto in the settings cannot be: a run writes what it resolved it
 * to. stored: what a file is stored in. */
int et_translator_resolve_precision(et_translator *t, const char *stored, et_error *error)
{
    const char *precision = t->options.precision;
    if (!precision && strcmp(stored, "float32") != 0)
        precision = stored;
    bool bf16 = t->experiment.runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    int status = precision ? et_model_export_check_precision(precision, error) : ET_OK;
    if (precision)
        bf16 = !strcmp(precision, "bfloat16");
    t->int8 = precision && !strcmp(precision, "int8");
    t->act = bf16 && et_gemm_has_bf16() ? ET_BF16 : ET_F32;
    return status;
}

static int check_file(const et_translator *t, const et_model_place *place, et_error *error)
{
    if (!et_model_place_is_file(place) || !t->options.checkpoint)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%s: one file, which has one set of weights: leave out "
                   "checkpoint %s",
                   place->name, t->options.checkpoint);
}

int et_translator_open_model(et_translator *t, const et_model_place *place, et_error *error)
{
    int status = check_file(t, place, error);
    if (!status)
        status = et_experiment_open_place(&t->experiment, &et_translation_program, place, &t->arena,
                                          error);
    if (!status)
        status = et_translator_resolve_precision(t, et_model_place_precision(place), error);
    if (!status)
        status = open_vocabulary(t, place, error);
    if (!status)
        status = et_device_open(&t->device, error);
    if (!status)
        status = declare_params(t, error);
    if (!status)
        status = load_checkpoint(t, place, error);
    return status || !t->int8 ? status : round_weights(t, error);
}
