/* Weights by the names that transformers gives them (interchange/tensor_map.h).
 *
 * Every tensor of the file is used, or compared with one that is used (copies of a shared table,
 * the sinusoids), or refused. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/values/value.h"
#include "engine/kernel/positions.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/import/weights_file.h"
#include "tasks/translation/interchange/unused_tensors.h"
#include "train/checkpoint/artifact/artifact.h"

int et_import_open_weights(et_import *from, et_error *error)
{
    static const char *const others[] = { "model.safetensors.index.json",
                                          "pytorch_model.bin.index.json", "tf_model.h5",
                                          "flax_model.msgpack", "rust_model.ot" };
    const bool safe = et_import_has(from, ET_ARTIFACT_WEIGHTS);
    const char *name = safe ? ET_ARTIFACT_WEIGHTS : "pytorch_model.bin", *other = NULL;
    const char *path = et_import_path(from, name);
    if (!path)
        return et_alloc_failed(error, 0, "a path");
    for (size_t i = 0; i < sizeof others / sizeof *others && !other; i++)
        other = et_import_has(from, others[i]) ? others[i] : NULL;
    if (!safe && !et_import_has(from, name))
        return et_fail(error, ET_ENOTFOUND,
                       "%s has neither model.safetensors nor pytorch_model.bin%s%s%s", from->folder,
                       other ? ", but " : "; download one of them", other ? other : "",
                       other ? ", which is not supported" : "");
    int status = et_import_check_file(from, name, error);
    return status ? status : et_weights_file_open(&from->weights, path, error);
}

/* ---- tables ---- */

/* Names that a table may have there: safetensors keep one of several that are the same. */
enum { TABLE_NAMES = 4 };
typedef struct table {
    const char *scope;
    const char *names[TABLE_NAMES];
} table;

/* The first name that is there gives the table; others are copies. */
static int read_table(et_import_reading *r, const table *of, et_error *error)
{
    et_shape shape, there;
    bool done = false;
    int status = ET_OK;
    float *rows = et_import_param(r, of->scope, "table", &shape);
    const size_t bytes = (size_t)et_shape_count(shape) * sizeof *rows;
    for (int i = 0; i < TABLE_NAMES && of->names[i] && !status; i++) {
        const float *values;
        if (!et_weights_file_find(r->file, of->names[i], &there))
            continue;
        status = et_weights_file_need(r->file, of->names[i], shape, &values, error);
        if (!status && done && memcmp(rows, values, bytes) != 0)
            status = et_weights_file_refuse(
                r->file, of->names[i], "differs from the table that config.json shares it with",
                error);
        else if (!status && !done)
            memcpy(rows, values, bytes);
        done = true;
    }
    const float *none;
    return status || done ? status : et_weights_file_read(r->file, of->names[0], &none, error);
}

#define SHARED     ET_UNUSED_TABLE
#define OF_ENCODER ET_UNUSED_OF_ENCODER
#define OF_DECODER ET_UNUSED_OF_DECODER
#define OF_OUTPUT  ET_UNUSED_OF_OUTPUT

/* Without tied tables, transformers since 5 keeps a table for each side, whatever config.json says
 * of sharing, and one more that is not used. */
static int compare_tables(et_import *from, et_error *error)
{
    et_import_facts *facts = &from->facts;
    et_shape encoder, decoder;
    const float *values;
    if (!facts->shared || facts->tied ||
        !et_weights_file_find(from->weights, OF_ENCODER, &encoder) ||
        !et_weights_file_find(from->weights, OF_DECODER, &decoder) ||
        !et_shape_equal(encoder, decoder) || encoder.rank != 2 ||
        encoder.size[0] != facts->tokens[ET_SIDE_SOURCE])
        return ET_OK;
    int status = et_weights_file_read(from->weights, OF_ENCODER, &values, error);
    const size_t count = (size_t)et_shape_count(encoder), bytes = count * sizeof *values;
    float *first = status ? NULL : et_alloc(count + 1, sizeof *first);
    if (!status && !first)
        status = et_alloc_failed(error, bytes, "a table");
    if (!status) {
        memcpy(first, values, bytes);
        status = et_weights_file_read(from->weights, OF_DECODER, &values, error);
    }
    facts->shared = status || !memcmp(first, values, bytes);
    et_free(first);
    return status;
}

int et_import_look_at_tables(et_import *from, et_error *error)
{
    int status = compare_tables(from, error);
    et_value_set_bool(et_value_get(from->settings, "model"), "shared_embeddings",
                      from->facts.shared);
    return status;
}

/* Checks a table that is not used, but kept for an export. */
static int pass_shared(et_import_reading *r, et_error *error)
{
    et_shape shape;
    const float *values;
    et_import_param(r, r->model->source.scope, "table", &shape);
    return et_weights_file_need(r->file, SHARED, shape, &values, error);
}

static int read_tables(et_import_reading *r, et_error *error)
{
    const et_import_facts *facts = r->facts;
    const bool passes = et_import_passes_shared(facts, r->file);
    const char *output = facts->tied ? OF_OUTPUT : NULL;
    const table all[] = {
        { r->model->target.scope, { SHARED, OF_ENCODER, OF_DECODER, output } },
        { r->model->source.scope, { OF_ENCODER, passes ? NULL : SHARED } },
        { r->model->target.scope, { OF_DECODER, output } },
        { r->model->output.scope, { OF_OUTPUT } },
    };
    int status = passes ? pass_shared(r, error) : ET_OK;
    if (!status && facts->shared)
        status = read_table(r, &all[0], error);
    else
        for (int i = 1; i <= 2 && !status; i++)
            status = read_table(r, &all[i], error);
    return status || facts->tied ? status : read_table(r, &all[3], error);
}

static int read_bias(et_import_reading *r, et_error *error)
{
    et_shape shape;
    const float *values;
    float *bias = et_import_param(r, r->model->output.scope, "bias", &shape);
    int status = et_weights_file_need(r->file, "final_logits_bias", et_shape_2(1, shape.size[0]),
                                      &values, error);
    if (!status)
        memcpy(bias, values, (size_t)shape.size[0] * sizeof *bias);
    return status;
}

/* ---- positions ---- */

static const char *const position_names[] = { ET_UNUSED_ENCODER_POSITIONS,
                                              ET_UNUSED_DECODER_POSITIONS };

/* bfloat16 keeps 8 bits, so a sine differs by at most 2^-8. */
static bool same_positions(const float *values, const float *made, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(made[i] - values[i]) <= 0.004f))
            return false;
    return true;
}

/* *kind: which sinusoids a table of positions has, "paper" first. */
static int find_sinusoids(et_weights_file *file, const char *name, int64_t width, const char **kind,
                          et_error *error)
{
    et_shape shape;
    const float *values;
    if (!et_weights_file_find(file, name, &shape))
        return ET_OK;
    if (shape.rank != 2 || shape.size[1] != width)
        return et_weights_file_refuse(file, name, "has another width than the embeddings", error);
    if (shape.size[0] > ET_TRANSLATION_LENGTH_MAX)
        return et_weights_file_refuse(file, name, "has too many positions", error);
    int status = et_weights_file_read(file, name, &values, error);
    const int64_t count = et_shape_count(shape);
    float *made = status ? NULL : et_alloc((size_t)count + 1, sizeof *made);
    if (!status && !made)
        status = et_alloc_failed(error, (size_t)count * sizeof *made, "positions");
    const char *is = NULL;
    for (int open = 1; open >= 0 && !status && !is; open--) {
        et_positions_fill(made, shape.size[0], width, open);
        if (same_positions(values, made, count))
            is = open ? "paper" : "tensor2tensor";
    }
    et_free(made);
    if (!status && !is)
        return et_weights_file_refuse(file, name,
                                      "is not a table of sinusoids, which is not supported", error);
    if (!status && *kind && strcmp(*kind, is) != 0)
        return et_weights_file_refuse(file, name, "has other sinusoids than the encoder", error);
    *kind = status ? NULL : is;
    return status;
}

/* Tables of positions are in older files, where they are transformers' own, and in those that have
 * others. They are made here, so they must be sinusoids. */
int et_import_read_positions(et_import *from, et_error *error)
{
    et_value *model = et_value_get(from->settings, "model");
    const int64_t width = et_value_get(model, "embedding_width")->integer;
    const char *kind = NULL;
    int status = ET_OK;
    for (int i = 0; i < 2 && !status; i++)
        status = find_sinusoids(from->weights, position_names[i], width, &kind, error);
    if (!status && kind)
        et_value_set_string(model, "sinusoids", kind);
    return status;
}

/* ---- all ---- */

int et_import_read_tensors(et_import *from, et_params *params, const et_transformer *model,
                           et_error *error)
{
    et_import_reading r = {
        .file = from->weights, .facts = &from->facts, .params = params, .model = model
    };
    const et_tensor_map map = { model, params, ET_NAMES_TRANSFORMERS };
    et_weights_file_limit(from->weights, (size_t)et_params_elements(params));
    et_params_begin_change(params);
    int status = read_tables(&r, error);
    if (!status)
        status = read_bias(&r, error);
    if (!status)
        status = et_tensor_map_each(&map, et_import_read_mapped, &r, error);
    et_params_changed(params, true);
    return status ? status : et_weights_file_check_seen(from->weights, error);
}
