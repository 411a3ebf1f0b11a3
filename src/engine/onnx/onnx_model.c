/* The message is a tree of pointers in an arena, in the order of the calls. Weights are pointed to
 * and copied only to the file. protobuf-c packs the message piece by piece into the file's
 * writer. */
#include "engine/onnx/onnx_model.h"

#include <stdio.h>
#include <string.h>

#include <etude/version.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "engine/onnx/onnx.pb-c.h"

#define IR_VERSION   8
#define OPERATOR_SET 17
#define ML_DOMAIN    "ai.onnx.ml"
#define ML_SET       3
#define BYTES_MAX    ((size_t)INT32_MAX)
#define PIECE        ((size_t)1 << 16) /* bytes that are gathered before they are written */

enum {
    ATTRIBUTE_FLOAT = 1,
    ATTRIBUTE_INT = 2,
    ATTRIBUTE_TEXT = 3,
    ATTRIBUTE_INTS = 7,
    ATTRIBUTE_TEXTS = 8
};

typedef Etude__Onnx__Node node_message;
typedef Etude__Onnx__Tensor tensor_message;
typedef Etude__Onnx__ValueInfo value_message;
typedef Etude__Onnx__Attribute attribute_message;

/* Messages of one kind, by address, as protobuf-c has repeated ones. */
typedef struct list {
    void **items; /* [count] of [capacity], owned */
    size_t count, capacity;
} list;

struct et_onnx {
    et_arena arena; /* messages, names, small constants */
    const char *name;
    list nodes, constants, inputs, outputs, notes;
    list attributes; /* of the last node */
    int64_t names;   /* made so far */
    bool ml;         /* some node is of ML_DOMAIN */
    bool failed;
};

/* ---- making ---- */

int et_onnx_new(et_onnx **out, const char *name, et_error *error)
{
    if (ET_ALLOC_ZERO(*out, 1, "a model to export", error))
        return ET_ENOMEM;
    et_onnx *model = *out;
    model->name = et_arena_strdup(&model->arena, name);
    model->failed = !model->name;
    return ET_OK;
}

void et_onnx_free(et_onnx *model)
{
    if (!model)
        return;
    list *const lists[] = { &model->nodes,   &model->constants, &model->inputs,
                            &model->outputs, &model->notes,     &model->attributes };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        et_free(lists[i]->items);
    et_arena_release(&model->arena);
    et_free(model);
}

bool et_onnx_failed(const et_onnx *model)
{
    return model->failed;
}

static void *take(et_onnx *model, size_t bytes)
{
    void *memory = model->failed ? NULL : et_arena_alloc(&model->arena, bytes ? bytes : 1);
    model->failed |= !memory;
    return memory;
}

static char *copy(et_onnx *model, const char *text)
{
    char *to = text ? take(model, strlen(text) + 1) : NULL;
    return to ? strcpy(to, text) : NULL;
}

static bool add(et_onnx *model, list *to, void *item)
{
    model->failed =
        model->failed || !item || !ET_VECTOR_APPEND(to->items, to->count, to->capacity, item);
    return !model->failed;
}

/* A name for an op's result: ":MatMul_12". No parameter's name begins so. */
static char *new_name(et_onnx *model, const char *of)
{
    char text[96];
    snprintf(text, sizeof text, ":%.64s_%lld", of, (long long)model->names++);
    return copy(model, text);
}

/* The attributes of the node before belong to it from now on. */
static void close_node(et_onnx *model)
{
    list *attributes = &model->attributes;
    if (model->failed || !attributes->count)
        return;
    node_message *node = model->nodes.items[model->nodes.count - 1];
    node->attribute = take(model, attributes->count * sizeof *node->attribute);
    if (!node->attribute)
        return;
    memcpy(node->attribute, attributes->items, attributes->count * sizeof *node->attribute);
    node->n_attribute = attributes->count;
    attributes->count = 0;
}

/* ---- inputs and outputs ---- */

static Etude__Onnx__Shape *shape_of(et_onnx *model, const et_onnx_dim *dims, int count)
{
    Etude__Onnx__Shape *shape = take(model, sizeof *shape);
    Etude__Onnx__Dimension **all = take(model, count * sizeof *all);
    if (!shape || !all)
        return NULL;
    etude__onnx__shape__init(shape);
    for (int i = 0; i < count; i++) {
        Etude__Onnx__Dimension *dim = take(model, sizeof *dim);
        if (!dim)
            return NULL;
        etude__onnx__dimension__init(dim);
        dim->value_case = dims[i].name ? ETUDE__ONNX__DIMENSION__VALUE_DIM_PARAM
                                       : ETUDE__ONNX__DIMENSION__VALUE_DIM_VALUE;
        if (dims[i].name)
            dim->dim_param = copy(model, dims[i].name);
        else
            dim->dim_value = dims[i].size;
        all[i] = dim;
    }
    shape->n_dim = (size_t)count;
    shape->dim = all;
    return shape;
}

static void add_value(et_onnx *model, list *to, char *name, et_onnx_type type,
                      const et_onnx_dim *dims, int count)
{
    value_message *value = take(model, sizeof *value);
    Etude__Onnx__Type *is = take(model, sizeof *is);
    Etude__Onnx__TensorType *tensor = take(model, sizeof *tensor);
    Etude__Onnx__Shape *shape = shape_of(model, dims, count);
    if (model->failed)
        return;
    etude__onnx__value_info__init(value);
    etude__onnx__type__init(is);
    etude__onnx__tensor_type__init(tensor);
    tensor->has_elem_type = true;
    tensor->elem_type = (int32_t)type;
    tensor->shape = shape;
    is->tensor_type = tensor;
    value->name = name;
    value->type = is;
    add(model, to, value);
}

const char *et_onnx_input(et_onnx *model, const char *name, et_onnx_type type,
                          const et_onnx_dim *dims, int count)
{
    char *own = copy(model, name);
    add_value(model, &model->inputs, own, type, dims, count);
    return model->failed ? NULL : own;
}

void et_onnx_describe(et_onnx *model, const char *text)
{
    char *own = copy(model, text);
    if (model->failed)
        return;
    et_assert(model->inputs.count);
    ((value_message *)model->inputs.items[model->inputs.count - 1])->doc_string = own;
}

/* A value has one name, and an output its own. */
void et_onnx_output(et_onnx *model, const char *value, const char *name, et_onnx_type type,
                    const et_onnx_dim *dims, int count)
{
    char *own = copy(model, name);
    if (!et_onnx_node(model, "Identity", &value, 1) || !own)
        return;
    node_message *node = model->nodes.items[model->nodes.count - 1];
    node->output[0] = own;
    add_value(model, &model->outputs, own, type, dims, count);
}

/* ---- constants ---- */

/* NULL: no memory. */
static tensor_message *new_constant(et_onnx *model, char *name, et_onnx_type type,
                                    const int64_t *dims, int rank)
{
    tensor_message *tensor = take(model, sizeof *tensor);
    int64_t *sizes = take(model, rank * sizeof *sizes);
    if (model->failed)
        return NULL;
    etude__onnx__tensor__init(tensor);
    if (rank)
        memcpy(sizes, dims, rank * sizeof *sizes);
    tensor->n_dims = (size_t)rank;
    tensor->dims = sizes;
    tensor->has_data_type = true;
    tensor->data_type = (int32_t)type;
    tensor->name = name;
    return tensor;
}

static const char *add_constant(et_onnx *model, char *name, et_onnx_type type, const void *data,
                                size_t bytes, const int64_t *dims, int rank)
{
    tensor_message *tensor = new_constant(model, name, type, dims, rank);
    if (!tensor)
        return NULL;
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){ bytes, (uint8_t *)data };
    return add(model, &model->constants, tensor) ? name : NULL;
}

/* Adds a copy of data as a constant; its name is derived from `of`. */
static const char *copy_constant(et_onnx *model, const char *of, et_onnx_type type,
                                 const void *data, size_t bytes, const int64_t *dims, int rank)
{
    void *own = take(model, bytes);
    if (own && bytes)
        memcpy(own, data, bytes);
    return add_constant(model, new_name(model, of), type, own, bytes, dims, rank);
}

const char *et_onnx_floats(et_onnx *model, const char *name, const float *data, et_shape shape)
{
    return add_constant(model, copy(model, name), ET_ONNX_F32, data,
                        et_shape_count(shape) * sizeof *data, shape.size, shape.rank);
}

float *et_onnx_reserve_floats(et_onnx *model, int64_t count)
{
    return take(model, count * sizeof(float));
}

const char *et_onnx_array(et_onnx *model, const float *data, et_shape shape)
{
    return copy_constant(model, "array", ET_ONNX_F32, data, et_shape_count(shape) * sizeof *data,
                         shape.size, shape.rank);
}

const char *et_onnx_float(et_onnx *model, float x)
{
    return copy_constant(model, "number", ET_ONNX_F32, &x, sizeof x, NULL, 0);
}

const char *et_onnx_doubles(et_onnx *model, const double *values, int64_t count)
{
    return copy_constant(model, "numbers", ET_ONNX_F64, values, count * sizeof *values, &count, 1);
}

const char *et_onnx_ints(et_onnx *model, const int64_t *values, int count)
{
    const int64_t size = count;
    return copy_constant(model, "count", ET_ONNX_I64, values, count * sizeof *values, &size, 1);
}

const char *et_onnx_one(et_onnx *model, int64_t value)
{
    return et_onnx_ints(model, &value, 1);
}

const char *et_onnx_int(et_onnx *model, int64_t value)
{
    return copy_constant(model, "count", ET_ONNX_I64, &value, sizeof value, NULL, 0);
}

/* [count], copied. */
static ProtobufCBinaryData *copy_texts(et_onnx *model, const char *const *texts, int count)
{
    ProtobufCBinaryData *own = take(model, count * sizeof *own);
    for (int i = 0; own && i < count; i++) {
        char *text = copy(model, texts[i]);
        if (!text)
            return NULL;
        own[i] = (ProtobufCBinaryData){ strlen(text), (uint8_t *)text };
    }
    return own;
}

const char *et_onnx_texts(et_onnx *model, const char *const *texts, int count)
{
    const int64_t size = count;
    tensor_message *tensor = new_constant(model, new_name(model, "texts"), ET_ONNX_TEXT, &size, 1);
    ProtobufCBinaryData *own = copy_texts(model, texts, count);
    if (!tensor || !own)
        return NULL;
    tensor->n_string_data = (size_t)count;
    tensor->string_data = own;
    return add(model, &model->constants, tensor) ? tensor->name : NULL;
}

/* ---- nodes ---- */

const char *et_onnx_node(et_onnx *model, const char *op, const char *const *inputs, int count)
{
    close_node(model);
    node_message *node = take(model, sizeof *node);
    char **in = take(model, count * sizeof *in), **out = take(model, sizeof *out);
    char *name = new_name(model, op), *type = copy(model, op);
    for (int i = 0; i < count; i++)
        model->failed |= !inputs[i];
    if (model->failed)
        return NULL;
    etude__onnx__node__init(node);
    memcpy(in, inputs, count * sizeof *in);
    out[0] = name;
    node->n_input = (size_t)count;
    node->input = in;
    node->n_output = 1;
    node->output = out;
    node->name = name;
    node->op_type = type;
    return add(model, &model->nodes, node) ? name : NULL;
}

void et_onnx_use_ml(et_onnx *model)
{
    char *domain = copy(model, ML_DOMAIN);
    if (!domain)
        return;
    et_assert(model->nodes.count);
    ((node_message *)model->nodes.items[model->nodes.count - 1])->domain = domain;
    model->ml = true;
}

static attribute_message *add_attribute(et_onnx *model, const char *name, int type)
{
    attribute_message *attribute = take(model, sizeof *attribute);
    char *own = copy(model, name);
    if (model->failed)
        return NULL;
    et_assert(model->nodes.count);
    etude__onnx__attribute__init(attribute);
    attribute->name = own;
    attribute->has_type = true;
    attribute->type = type;
    return add(model, &model->attributes, attribute) ? attribute : NULL;
}

void et_onnx_set_int(et_onnx *model, const char *name, int64_t value)
{
    attribute_message *attribute = add_attribute(model, name, ATTRIBUTE_INT);
    if (!attribute)
        return;
    attribute->has_i = true;
    attribute->i = value;
}

void et_onnx_set_ints(et_onnx *model, const char *name, const int64_t *values, int count)
{
    attribute_message *attribute = add_attribute(model, name, ATTRIBUTE_INTS);
    int64_t *own = take(model, count * sizeof *own);
    if (!attribute || !own)
        return;
    memcpy(own, values, count * sizeof *own);
    attribute->n_ints = (size_t)count;
    attribute->ints = own;
}

void et_onnx_set_float(et_onnx *model, const char *name, float value)
{
    attribute_message *attribute = add_attribute(model, name, ATTRIBUTE_FLOAT);
    if (!attribute)
        return;
    attribute->has_f = true;
    attribute->f = value;
}

void et_onnx_set_text(et_onnx *model, const char *name, const char *value)
{
    attribute_message *attribute = add_attribute(model, name, ATTRIBUTE_TEXT);
    char *own = copy(model, value);
    if (!attribute || !own)
        return;
    attribute->has_s = true;
    attribute->s = (ProtobufCBinaryData){ strlen(own), (uint8_t *)own };
}

void et_onnx_set_texts(et_onnx *model, const char *name, const char *const *texts, int count)
{
    attribute_message *attribute = add_attribute(model, name, ATTRIBUTE_TEXTS);
    ProtobufCBinaryData *own = copy_texts(model, texts, count);
    if (!attribute || !own)
        return;
    attribute->n_strings = (size_t)count;
    attribute->strings = own;
}

/* ---- the file ---- */

void et_onnx_note(et_onnx *model, const char *key, const char *value)
{
    Etude__Onnx__Property *note = take(model, sizeof *note);
    char *own_key = copy(model, key), *own_value = copy(model, value);
    if (model->failed)
        return;
    etude__onnx__property__init(note);
    note->key = own_key;
    note->value = own_value;
    add(model, &model->notes, note);
}

/* The buffer to which protobuf-c appends. */
typedef struct sink {
    ProtobufCBuffer buffer;
    et_file_writer writer;
    unsigned char piece[PIECE];
    size_t held; /* bytes of piece */
    int status;
    et_error *error;
} sink;

static void flush(sink *to)
{
    if (!to->status && to->held)
        to->status = et_file_writer_write(&to->writer, to->piece, to->held, to->error);
    to->held = 0;
}

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *bytes)
{
    sink *to = (sink *)(void *)buffer;
    if (to->held + length > PIECE)
        flush(to);
    if (length > PIECE) {
        if (!to->status)
            to->status = et_file_writer_write(&to->writer, bytes, length, to->error);
        return;
    }
    if (length)
        memcpy(to->piece + to->held, bytes, length);
    to->held += length;
}

static int write_message(const ProtobufCMessage *message, const char *path, et_error *error)
{
    sink *to;
    if (ET_ALLOC_ZERO(to, 1, "a model to export", error))
        return ET_ENOMEM;
    to->buffer.append = append;
    to->error = error;
    int status = et_file_writer_open(&to->writer, path, error);
    if (!status) {
        protobuf_c_message_pack_to_buffer(message, &to->buffer);
        flush(to);
        status = to->status;
        if (status)
            et_file_writer_abandon(&to->writer);
        else
            status = et_file_writer_commit(&to->writer, error);
    }
    et_free(to);
    return status;
}

int et_onnx_write(et_onnx *model, const char *path, et_error *error)
{
    Etude__Onnx__Model message = ETUDE__ONNX__MODEL__INIT;
    Etude__Onnx__Graph graph;
    Etude__Onnx__OperatorSet set = ETUDE__ONNX__OPERATOR_SET__INIT,
                             ml = ETUDE__ONNX__OPERATOR_SET__INIT, *sets[] = { &set, &ml };
    char domain[] = "", ml_domain[] = ML_DOMAIN, producer[] = "etude";
    close_node(model);
    if (model->failed)
        return et_alloc_failed(error, "a model to export");
    etude__onnx__graph__init(&graph);
    graph.name = (char *)model->name;
    graph.n_node = model->nodes.count;
    graph.node = (node_message **)model->nodes.items;
    graph.n_initializer = model->constants.count;
    graph.initializer = (tensor_message **)model->constants.items;
    graph.n_input = model->inputs.count;
    graph.input = (value_message **)model->inputs.items;
    graph.n_output = model->outputs.count;
    graph.output = (value_message **)model->outputs.items;
    set.domain = domain;
    set.has_version = true;
    set.version = OPERATOR_SET;
    ml.domain = ml_domain;
    ml.has_version = true;
    ml.version = ML_SET;
    message.has_ir_version = true;
    message.ir_version = IR_VERSION;
    message.producer_name = producer;
    message.producer_version = (char *)et_version();
    message.graph = &graph;
    message.n_opset_import = model->ml ? 2 : 1;
    message.opset_import = sets;
    message.n_metadata_props = model->notes.count;
    message.metadata_props = (Etude__Onnx__Property **)model->notes.items;
    const size_t bytes = protobuf_c_message_get_packed_size(&message.base);
    if (bytes > BYTES_MAX)
        return et_fail(error, ET_EFAIL, "%s: %zu bytes, more than the 2 GiB of an ONNX file", path,
                       bytes);
    int status = et_disk_check(path, bytes, error);
    return status ? status : write_message(&message.base, path, error);
}
