#include "train/checkpoint/artifact/model_load.h"

#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "train/checkpoint/artifact/model_export.h"
#include "train/run/run_names.h"

static et_weights_choice choice_of(const et_model_load *load)
{
    return (et_weights_choice){ !load->live_weights, et_model_place_prefix(load->place) };
}

/* Weights of other shapes may be those of other files than lie beside them, and which file it is
 * says more than a shape. */
static int check(et_model_load *load, int status, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts *facts = &load->facts;
    if (facts->arena && facts->identity &&
        et_model_place_identify(load->place, &facts->identity, facts->arena, &reason))
        return et_fail(error, reason.status, "%s", reason.text);
    if (!status)
        return load->check(load->payload, load, error);
    if (status != ET_ECONFIG || !load->facts.identity || !load->check(load->payload, load, &reason))
        return status;
    return et_fail(error, status, "%s", reason.text);
}

static int load_file(et_model_load *load, et_error *error)
{
    const char *name = load->place->name;
    if (load->named)
        return et_fail(error, ET_ECONFIG,
                       "%s is a single file with one set of weights: leave out checkpoint %s", name,
                       load->named);
    load->checkpoint = et_strdup(name);
    return load->checkpoint ? et_model_place_load(load->place, load->params, &load->facts, error)
                            : et_alloc_failed(error, strlen(name), "a path");
}

static int load_named(et_model_load *load, et_error *error)
{
    return et_checkpoint_take_named(&load->checkpoint, load->params,
                                    et_model_place_run(load->place), load->named, choice_of(load),
                                    &load->facts, error);
}

/* *there: the directory is an export. */
static int load_export(et_model_load *load, bool *there, et_error *error)
{
    *there = et_model_place_has(load->place, ET_MODEL_WEIGHTS);
    if (!*there)
        return ET_OK;
    load->checkpoint = et_path_join(load->place->name, ET_MODEL_WEIGHTS);
    return load->checkpoint ? et_checkpoint_load_weights(load->params, load->checkpoint, false,
                                                         &load->facts, error)
                            : et_alloc_failed(error, strlen(load->place->name), "a path");
}

/* ET_ENOTFOUND without a warning: the run keeps none. Any other trouble with the best one is a
 * warning, since the newest is there as well. */
static int load_best(et_model_load *load)
{
    et_error reason = ET_ERROR_INIT;
    int status =
        et_checkpoint_take_best(&load->checkpoint, load->params, et_model_place_run(load->place),
                                choice_of(load), &load->facts, &reason);
    if (status == ET_ENOTFOUND && !load->checkpoint)
        return status;
    status = check(load, status, &reason);
    if (status)
        et_log(ET_LOG_WARNING, "%s; using the newest checkpoint instead of the best", reason.text);
    return status;
}

/* The message of "none" is about the run, not about a folder in it. */
static int load_newest(et_model_load *load, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    et_free(load->checkpoint);
    load->checkpoint = NULL;
    load->facts.identity = NULL;
    int status =
        et_checkpoint_take_newest(&load->checkpoint, load->params, et_model_place_run(load->place),
                                  choice_of(load), &load->facts, &reason);
    if (status == ET_ENOTFOUND)
        return et_fail(error, status,
                       "%s: no checkpoint yet; train this run first, or wait until it saves",
                       et_model_place_run(load->place));
    status = check(load, status, &reason);
    return status ? et_fail(error, status, "%s", reason.text) : ET_OK;
}

/* What is exported has one set of weights, whichever that is. */
static void warn_of_export(const et_model_load *load)
{
    const et_model_place *place = load->place;
    bool export = et_model_place_is_file(place) ? et_model_place_has(place, ET_RUN_SETTINGS)
                                                : et_model_place_has(place, ET_MODEL_WEIGHTS);
    if (load->live_weights && export)
        et_log(ET_LOG_WARNING,
               "%s is an export with one set of weights; to get the trained weights, export the "
               "run with --live-weights",
               place->name);
}

int et_model_load_weights(et_model_load *load, et_error *error)
{
    bool known = true;
    warn_of_export(load);
    int status = et_model_place_is_file(load->place) ? load_file(load, error)
                 : load->named                       ? load_named(load, error)
                                                     : load_export(load, &known, error);
    if (!known && !load_best(load))
        return ET_OK;
    return known ? check(load, status, error) : load_newest(load, error);
}
