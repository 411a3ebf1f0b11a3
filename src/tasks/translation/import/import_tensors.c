/* Weights by the names that transformers gives them. PyTorch keeps a projection as [outputs,
 * inputs], Etude as [inputs, outputs]; queries, keys and values are three tensors there and columns
 * of one here.
 *
 * Every tensor of the file is used, or compared with one that is used (copies of a shared table,
 * the sinusoids), or refused: `seen` counts them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/numbers/half.h"
#include "engine/kernel/positions.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/torch_file.h"
#include "tasks/translation/import/import_private.h"
#include "train/checkpoint/artifact/artifact.h"

#define NAME_MAX_BYTES 192

/* One of the two files. */
typedef struct source {
    const char *path;
    et_safetensors *safetensors;
    et_torch_file *torch;
    bool *seen;  /* [count]; owned, as the next */
    void *bytes; /* of a tensor, as it is stored */
} source;

/* A tensor of either file. */
typedef struct tensor {
    const char *name;
    et_shape shape;
    et_pickle_type type;
    const char *type_name; /* for messages */
    size_t number;
} tensor;

typedef struct reading {
    source from;
    et_import *import;
    et_params *params;
    const et_transformer *model;
    float *room; /* for the largest tensor; owned */
    size_t most; /* elements of it */
} reading;

/* ---- files ---- */

static size_t count_of(const source *from)
{
    return from->torch ? et_torch_file_count(from->torch) : et_safetensors_count(from->safetensors);
}

static tensor tensor_at(const source *from, size_t i)
{
    if (from->torch) {
        const et_pickle_tensor *t = et_torch_file_at(from->torch, i);
        return (tensor){ t->name, t->shape, t->storage->kind, t->storage->type, i };
    }
    const et_safetensors_tensor *t = et_safetensors_at(from->safetensors, i);
    const et_pickle_type type = t->dtype == ET_F32               ? ET_PICKLE_FLOAT32
                                : t->dtype == ET_BF16            ? ET_PICKLE_BFLOAT16
                                : t->dtype == ET_SAFETENSORS_F16 ? ET_PICKLE_FLOAT16
                                                                 : ET_PICKLE_OTHER;
    return (tensor){ t->name, t->shape, type, et_dtype_name(t->dtype), i };
}

/* From the last: of two with one name it counts. */
static bool find(const source *from, const char *name, tensor *out)
{
    for (size_t i = count_of(from); i-- > 0;) {
        *out = tensor_at(from, i);
        if (!strcmp(out->name, name))
            return true;
    }
    return false;
}

static int open_file(et_import *import, source *from, et_error *error)
{
    static const char *const others[] = { "model.safetensors.index.json",
                                          "pytorch_model.bin.index.json", "tf_model.h5",
                                          "flax_model.msgpack", "rust_model.ot" };
    const bool safe = et_import_has(import, ET_ARTIFACT_WEIGHTS);
    const char *name = safe ? ET_ARTIFACT_WEIGHTS : "pytorch_model.bin", *other = NULL;
    from->path = et_import_path(import, name);
    if (!from->path)
        return et_alloc_failed(error, 0, "a path");
    for (size_t i = 0; i < sizeof others / sizeof *others && !other; i++)
        other = et_import_has(import, others[i]) ? others[i] : NULL;
    if (!safe && !et_import_has(import, name))
        return et_fail(error, ET_ENOTFOUND,
                       "%s has neither model.safetensors nor pytorch_model.bin%s%s%s",
                       import->folder, other ? ", but " : "; download one of them",
                       other ? other : "", other ? ", which is not supported" : "");
    int status = et_import_check_file(import, name, error);
    if (status)
        return status;
    return safe ? et_safetensors_open_foreign(&from->safetensors, from->path, error)
                : et_torch_file_open(&from->torch, from->path, error);
}

static int refuse(const source *from, const tensor *t, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT, "%s: %s %s", from->path, t->name, what);
}

static int check_type(const source *from, const tensor *t, et_error *error)
{
    if (t->type != ET_PICKLE_OTHER)
        return ET_OK;
    return et_fail(error, ET_EFORMAT,
                   "%s: %s has the type %s, but only float32, float16 and bfloat16 are supported",
                   from->path, t->name, t->type_name);
}

static float value_at(const void *bytes, size_t i, et_pickle_type type)
{
    float wide;
    uint16_t half;
    if (type == ET_PICKLE_FLOAT32) {
        memcpy(&wide, (const char *)bytes + 4 * i, sizeof wide);
        return wide;
    }
    memcpy(&half, (const char *)bytes + 2 * i, sizeof half);
    return type == ET_PICKLE_FLOAT16 ? et_half_to_float(half) : et_bf16_to_float(half);
}

/* For tensors of up to so many elements. */
static int make_room(reading *r, size_t most, et_error *error)
{
    const size_t count = count_of(&r->from);
    r->most = most;
    r->from.seen = et_alloc_zero(count + 1, sizeof *r->from.seen);
    r->room = et_alloc(r->most + 1, sizeof *r->room);
    r->from.bytes = r->from.torch ? et_alloc(r->most + 1, sizeof(float)) : NULL;
    return r->from.seen && r->room && (r->from.bytes || !r->from.torch)
               ? ET_OK
               : et_alloc_failed(error, r->most * sizeof *r->room, "a tensor");
}

static void release_room(reading *r)
{
    et_free(r->from.seen);
    et_free(r->from.bytes);
    et_free(r->room);
}

/* As float32, in room. */
static int read_values(reading *r, const tensor *t, et_error *error)
{
    source *from = &r->from;
    const size_t count = (size_t)et_shape_count(t->shape);
    const void *bytes = from->bytes;
    et_assert(count <= r->most);
    int status = check_type(from, t, error);
    if (status)
        return status;
    if (from->torch)
        status = et_torch_file_read(from->torch, et_torch_file_at(from->torch, t->number),
                                    from->bytes, error);
    else
        bytes = et_safetensors_at(from->safetensors, t->number)->data;
    for (size_t i = 0; i < count && !status; i++) {
        r->room[i] = value_at(bytes, i, t->type);
        if (!isfinite(r->room[i]))
            status = refuse(from, t, "has values that are not finite", error);
    }
    return status;
}

/* The tensor of a name and a shape, in room. */
static int need(reading *r, const char *name, et_shape shape, et_error *error)
{
    tensor t;
    char is[ET_SHAPE_TEXT_MAX], wanted[ET_SHAPE_TEXT_MAX];
    if (!find(&r->from, name, &t))
        return et_fail(error, ET_EFORMAT, "%s: there is no tensor %s; download the file again",
                       r->from.path, name);
    if (!et_shape_equal(t.shape, shape))
        return et_fail(error, ET_EFORMAT, "%s: %s has the shape %s, but config.json gives %s",
                       r->from.path, name, et_shape_print(t.shape, is),
                       et_shape_print(shape, wanted));
    r->from.seen[t.number] = true;
    return read_values(r, &t, error);
}

/* ---- parameters ---- */

static float *param_of(const reading *r, const char *name, et_shape *shape)
{
    const int i = et_params_find(r->params, name);
    et_assert(i >= 0);
    *shape = et_params_shape(r->params, i);
    return et_params_values(r->params) + et_params_offset(r->params, i);
}

/* A projection [outputs, inputs] and its bias become columns first .. first + outputs - 1 of a
 * weight [inputs, columns] and its bias. */
static int read_columns(reading *r, const char *from, const char *to, int64_t first,
                        int64_t outputs, et_error *error)
{
    char name[NAME_MAX_BYTES];
    et_shape whole, of_bias;
    snprintf(name, sizeof name, "%s/weight", to);
    float *weight = param_of(r, name, &whole);
    snprintf(name, sizeof name, "%s/bias", to);
    float *bias = param_of(r, name, &of_bias);
    const int64_t inputs = whole.size[0], columns = whole.size[1];
    et_assert(first + outputs <= columns);
    snprintf(name, sizeof name, "%s.weight", from);
    int status = need(r, name, et_shape_2(outputs, inputs), error);
    for (int64_t o = 0; o < outputs && !status; o++)
        for (int64_t i = 0; i < inputs; i++)
            weight[i * columns + first + o] = r->room[o * inputs + i];
    snprintf(name, sizeof name, "%s.bias", from);
    if (!status)
        status = need(r, name, et_shape_1(outputs), error);
    if (!status)
        memcpy(bias + first, r->room, (size_t)outputs * sizeof *bias);
    return status;
}

/* Parts of a sub-layer: each a projection there, side by side here. */
static int read_parts(reading *r, const char *from, const char *const *parts, int count,
                      const char *to, et_error *error)
{
    char there[NAME_MAX_BYTES], weight[NAME_MAX_BYTES];
    et_shape whole;
    snprintf(weight, sizeof weight, "%s/weight", to);
    param_of(r, weight, &whole);
    const int64_t outputs = whole.size[1] / count;
    int status = ET_OK;
    for (int i = 0; i < count && !status; i++) {
        snprintf(there, sizeof there, "%s.%s", from, parts[i]);
        status = read_columns(r, there, to, i * outputs, outputs, error);
    }
    return status;
}

static int read_vector(reading *r, const char *from, const char *to, et_error *error)
{
    et_shape shape;
    float *values = param_of(r, to, &shape);
    int status = need(r, from, shape, error);
    if (!status)
        memcpy(values, r->room, (size_t)et_shape_count(shape) * sizeof *values);
    return status;
}

static int read_norm(reading *r, const char *from, const char *to, et_error *error)
{
    char there[NAME_MAX_BYTES], here[NAME_MAX_BYTES];
    snprintf(there, sizeof there, "%s.weight", from);
    snprintf(here, sizeof here, "%s/norm/scale", to);
    int status = read_vector(r, there, here, error);
    snprintf(there, sizeof there, "%s.bias", from);
    snprintf(here, sizeof here, "%s/norm/offset", to);
    return status ? status : read_vector(r, there, here, error);
}

/* ---- layers ---- */

/* Projections of a sub-layer, and where they go. */
typedef struct sublayer {
    const char *from; /* with a dot behind; "" of the feed-forward */
    const char *parts[3];
    int count;
    const char *to;
} sublayer;

static const sublayer sublayers[] = {
    { "self_attn.", { "q_proj", "k_proj", "v_proj" }, 3, "self_attention/qkv" },
    { "self_attn.", { "out_proj" }, 1, "self_attention/output" },
    { "", { "fc1" }, 1, "feed_forward/in" },
    { "", { "fc2" }, 1, "feed_forward/out" },
    { "encoder_attn.", { "q_proj" }, 1, "cross_attention/query" }, /* of the decoder alone */
    { "encoder_attn.", { "k_proj", "v_proj" }, 2, "cross_attention/key_value" },
    { "encoder_attn.", { "out_proj" }, 1, "cross_attention/output" },
};
enum { ENCODER_SUBLAYERS = 4, DECODER_SUBLAYERS = sizeof sublayers / sizeof *sublayers };

static const char *const norms[][2] = { { "self_attn_layer_norm", "self_attention" },
                                        { "final_layer_norm", "feed_forward" },
                                        { "encoder_attn_layer_norm", "cross_attention" } };

static int read_layer(reading *r, const char *stack, int layer, et_error *error)
{
    char there[NAME_MAX_BYTES], here[NAME_MAX_BYTES];
    const bool decoder = !strcmp(stack, "decoder");
    int status = ET_OK;
    for (int i = 0; i < (decoder ? DECODER_SUBLAYERS : ENCODER_SUBLAYERS) && !status; i++) {
        const sublayer *s = &sublayers[i];
        const char *parts[3];
        char names[3][64];
        for (int k = 0; k < s->count; k++) {
            snprintf(names[k], sizeof names[k], "%s%s", s->from, s->parts[k]);
            parts[k] = names[k];
        }
        snprintf(there, sizeof there, "model.%s.layers.%d", stack, layer);
        snprintf(here, sizeof here, "%s/layer_%d/%s", stack, layer, s->to);
        status = read_parts(r, there, parts, s->count, here, error);
    }
    for (int i = 0; i < (decoder ? 3 : 2) && !status; i++) {
        snprintf(there, sizeof there, "model.%s.layers.%d.%s", stack, layer, norms[i][0]);
        snprintf(here, sizeof here, "%s/layer_%d/%s", stack, layer, norms[i][1]);
        status = read_norm(r, there, here, error);
    }
    return status;
}

/* ---- tables ---- */

/* Names that a table may have there: safetensors keep one of several that are the same. */
enum { TABLE_NAMES = 4 };
typedef struct table {
    const char *scope;
    const char *names[TABLE_NAMES];
} table;

/* A copy of a table that is there already. */
static int compare_table(reading *r, const char *name, const float *values, et_shape shape,
                         et_error *error)
{
    tensor t;
    int status = need(r, name, shape, error);
    if (!status && memcmp(values, r->room, (size_t)et_shape_count(shape) * sizeof *values) != 0 &&
        find(&r->from, name, &t))
        status =
            refuse(&r->from, &t, "differs from the table that config.json shares it with", error);
    return status;
}

static int read_table(reading *r, const table *of, et_error *error)
{
    char to[NAME_MAX_BYTES];
    tensor t;
    et_shape shape;
    bool done = false;
    int status = ET_OK;
    snprintf(to, sizeof to, "%s/table", of->scope);
    float *values = param_of(r, to, &shape);
    for (int i = 0; i < TABLE_NAMES && of->names[i] && !status; i++) {
        if (!find(&r->from, of->names[i], &t))
            continue;
        if (done) {
            status = compare_table(r, of->names[i], values, shape, error);
            continue;
        }
        status = need(r, of->names[i], shape, error);
        if (!status)
            memcpy(values, r->room, (size_t)et_shape_count(shape) * sizeof *values);
        done = true;
    }
    if (!status && !done)
        status = need(r, of->names[0], shape, error); /* says that there is none */
    return status;
}

#define SHARED     "model.shared.weight"
#define OF_ENCODER "model.encoder.embed_tokens.weight"
#define OF_DECODER "model.decoder.embed_tokens.weight"
#define OF_OUTPUT  "lm_head.weight"

/* Without tied tables, transformers since 5 keeps a table for each side, whatever config.json says
 * of sharing, and one more that is not used. */
static int look(et_import *import, source *from, et_error *error)
{
    et_import_facts *facts = &import->facts;
    reading r = { .import = import, .from = *from };
    tensor encoder, decoder;
    float *first = NULL;
    if (!facts->shared || facts->tied || !find(from, OF_ENCODER, &encoder) ||
        !find(from, OF_DECODER, &decoder) || !et_shape_equal(encoder.shape, decoder.shape) ||
        encoder.shape.rank != 2 || encoder.shape.size[0] != facts->tokens[ET_SIDE_SOURCE])
        return ET_OK;
    int status = make_room(&r, (size_t)et_shape_count(encoder.shape), error);
    const size_t bytes = r.most * sizeof *first;
    first = status ? NULL : et_alloc(r.most + 1, sizeof *first);
    if (!status && !first)
        status = et_alloc_failed(error, bytes, "a table");
    if (!status)
        status = read_values(&r, &encoder, error);
    if (!status) {
        memcpy(first, r.room, bytes);
        status = read_values(&r, &decoder, error);
    }
    facts->apart = !status && memcmp(first, r.room, bytes) != 0;
    facts->shared = !facts->apart;
    et_free(first);
    release_room(&r);
    return status;
}

int et_import_look_at_tables(et_import *from, et_error *error)
{
    source file = { 0 };
    int status = open_file(from, &file, error);
    if (!status)
        status = look(from, &file, error);
    et_safetensors_close(file.safetensors);
    et_torch_file_close(file.torch);
    et_value_set_bool(et_value_get(from->settings, "model"), "shared_embeddings",
                      from->facts.shared);
    return status;
}

static int read_tables(reading *r, et_error *error)
{
    const et_import_facts *facts = &r->import->facts;
    tensor unused;
    const char *output = facts->tied ? OF_OUTPUT : NULL;
    const table all[] = {
        { r->model->target.scope, { SHARED, OF_ENCODER, OF_DECODER, output } },
        { r->model->source.scope, { OF_ENCODER, facts->shared || facts->apart ? NULL : SHARED } },
        { r->model->target.scope, { OF_DECODER, output } },
        { r->model->output.scope, { OF_OUTPUT } },
    };
    int status = ET_OK;
    if (facts->apart && find(&r->from, SHARED, &unused))
        r->from.seen[unused.number] = true;
    if (facts->shared)
        status = read_table(r, &all[0], error);
    else
        for (int i = 1; i <= 2 && !status; i++)
            status = read_table(r, &all[i], error);
    return status || facts->tied ? status : read_table(r, &all[3], error);
}

static int read_bias(reading *r, et_error *error)
{
    char to[NAME_MAX_BYTES];
    et_shape shape;
    snprintf(to, sizeof to, "%s/bias", r->model->output.scope);
    float *values = param_of(r, to, &shape);
    int status = need(r, "final_logits_bias", et_shape_2(1, shape.size[0]), error);
    if (!status)
        memcpy(values, r->room, (size_t)shape.size[0] * sizeof *values);
    return status;
}

/* Tables of positions are in older files. They are made here, so they must be the sinusoids. */
static int check_positions(reading *r, const char *stack, et_error *error)
{
    char name[NAME_MAX_BYTES];
    tensor t;
    const int64_t width = r->model->width;
    snprintf(name, sizeof name, "model.%s.embed_positions.weight", stack);
    if (!find(&r->from, name, &t))
        return ET_OK;
    r->from.seen[t.number] = true;
    if (t.shape.rank != 2 || t.shape.size[1] != width)
        return refuse(&r->from, &t, "has another width than the embeddings", error);
    float *made = et_alloc((size_t)et_shape_count(t.shape) + 1, sizeof *made);
    if (!made)
        return et_alloc_failed(error, (size_t)et_shape_count(t.shape) * sizeof *made, "positions");
    et_positions_fill(made, t.shape.size[0], width, true);
    int status = read_values(r, &t, error);
    /* bfloat16 keeps 8 bits, so a sine differs by at most 2^-8. */
    for (int64_t i = 0; i < et_shape_count(t.shape) && !status; i++)
        if (fabsf(made[i] - r->room[i]) > 0.004f)
            status = refuse(&r->from, &t,
                            "differs from the table of sinusoids, which is not supported", error);
    et_free(made);
    return status;
}

/* ---- all ---- */

/* The largest tensor of the file. A storage may claim to be of any size; the largest tensor that is
 * read is a parameter. */
static int measure(reading *r, size_t *most, et_error *error)
{
    const size_t count = count_of(&r->from);
    const size_t known = (size_t)et_params_elements(r->params) +
                         (size_t)(r->model->width * 2 * ET_TRANSLATION_LENGTH_MAX);
    *most = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t elements = et_shape_count(tensor_at(&r->from, i).shape);
        *most = elements > 0 && (size_t)elements > *most ? (size_t)elements : *most;
    }
    return *most <= known
               ? ET_OK
               : et_fail(error, ET_EFORMAT,
                         "%s: a tensor has %zu elements, more than the model of config.json",
                         r->from.path, *most);
}

static int check_seen(const reading *r, et_error *error)
{
    for (size_t i = 0; i < count_of(&r->from); i++) {
        const tensor t = tensor_at(&r->from, i);
        if (!r->from.seen[i])
            return refuse(&r->from, &t, "does not belong to a supported part of a model", error);
    }
    return ET_OK;
}

static int read_all(reading *r, et_error *error)
{
    int status = read_tables(r, error);
    if (!status)
        status = read_bias(r, error);
    for (int i = 0; i < r->model->encoder.num_layers && !status; i++)
        status = read_layer(r, "encoder", i, error);
    for (int i = 0; i < r->model->decoder.num_layers && !status; i++)
        status = read_layer(r, "decoder", i, error);
    if (!status)
        status = check_positions(r, "encoder", error);
    if (!status)
        status = check_positions(r, "decoder", error);
    return status ? status : check_seen(r, error);
}

int et_import_read_tensors(et_import *from, et_params *params, const et_transformer *model,
                           et_error *error)
{
    reading r = { .import = from, .params = params, .model = model };
    size_t most;
    int status = open_file(from, &r.from, error);
    if (!status)
        status = measure(&r, &most, error);
    if (!status)
        status = make_room(&r, most, error);
    et_params_begin_change(params);
    if (!status)
        status = read_all(&r, error);
    et_params_changed(params, true);
    et_safetensors_close(r.from.safetensors);
    et_torch_file_close(r.from.torch);
    release_room(&r);
    return status;
}
