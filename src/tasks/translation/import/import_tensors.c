/* Files of weights, and their tensors by the names that transformers and Marian give them
 * (interchange/tensor_map.h).
 *
 * Every tensor of the file is used, or compared with one that is used (copies of a shared table,
 * the sinusoids), or refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "engine/kernel/positions.h"
#include "formats/marian/marian_model.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/torch_file.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/interchange/unused_tensors.h"
#include "train/checkpoint/artifact/artifact.h"

struct et_weights_file {
    const char *path; /* owned, as all */
    et_safetensors *safetensors;
    et_torch_file *torch;
    et_npz *npz;
    et_marian_model *marian;
    bool *seen;   /* [count] */
    size_t limit; /* elements of a tensor that is read: a file may claim any size */
    float *room;
    void *bytes; /* a tensor's bytes, as stored in the file */
    size_t room_elements, bytes_elements;
};

/* A tensor of any of them. */
typedef struct tensor {
    const char *name;
    et_shape shape;
    et_pickle_type type;
    const char *type_name; /* for messages */
    size_t number;
} tensor;

static const char *const position_names[] = { ET_UNUSED_ENCODER_POSITIONS,
                                              ET_UNUSED_DECODER_POSITIONS };

/* ---- files ---- */

static size_t count_of(const et_weights_file *file)
{
    return file->torch    ? et_torch_file_count(file->torch)
           : file->npz    ? et_npz_count(file->npz)
           : file->marian ? et_marian_model_count(file->marian)
                          : et_safetensors_count(file->safetensors);
}

static tensor tensor_at(const et_weights_file *file, size_t i)
{
    if (file->torch) {
        const et_pickle_tensor *t = et_torch_file_at(file->torch, i);
        return (tensor){ t->name, t->shape, t->storage->kind, t->storage->type, i };
    }
    if (file->npz) {
        const et_npz_array *a = et_npz_at(file->npz, i);
        const et_pickle_type kind = a->type == ET_NPZ_FLOAT32   ? ET_PICKLE_FLOAT32
                                    : a->type == ET_NPZ_FLOAT16 ? ET_PICKLE_FLOAT16
                                                                : ET_PICKLE_OTHER;
        return (tensor){ a->name, a->shape, kind, a->type_name, i };
    }
    if (file->marian) {
        const et_marian_item *m = et_marian_model_at(file->marian, i);
        const bool read = m->type != ET_MARIAN_TYPE_OTHER && m->type != ET_MARIAN_TYPE_BYTE;
        return (tensor){ m->name, m->shape, read ? ET_PICKLE_FLOAT32 : ET_PICKLE_OTHER,
                         m->type_name, i };
    }
    const et_safetensors_tensor *t = et_safetensors_at(file->safetensors, i);
    const et_pickle_type type = t->dtype == ET_F32               ? ET_PICKLE_FLOAT32
                                : t->dtype == ET_BF16            ? ET_PICKLE_BFLOAT16
                                : t->dtype == ET_SAFETENSORS_F16 ? ET_PICKLE_FLOAT16
                                                                 : ET_PICKLE_OTHER;
    return (tensor){ t->name, t->shape, type, et_dtype_name(t->dtype), i };
}

/* From the last: of two with one name it counts. */
static bool find(const et_weights_file *file, const char *name, tensor *out)
{
    for (size_t i = count_of(file); i-- > 0;) {
        *out = tensor_at(file, i);
        if (!strcmp(out->name, name))
            return true;
    }
    return false;
}

/* The usual reason is an incomplete download, unless the message already says what to do. */
static int open_safetensors(et_weights_file *file, et_error *error)
{
    et_error why = ET_ERROR_INIT;
    int status = et_safetensors_open_foreign(&file->safetensors, file->path, &why);
    const bool cure = status == ET_EFORMAT && !strstr(why.text, "; ");
    return status
               ? et_fail(error, status, "%s%s", why.text, cure ? "; download the file again" : "")
               : ET_OK;
}

static int open_file(et_weights_file *file, et_error *error)
{
    int status = file->npz || file->marian ? ET_OK
                 : et_safetensors_is_name(file->path)
                     ? open_safetensors(file, error)
                     : et_torch_file_open(&file->torch, file->path, error);
    if (status)
        return status;
    file->limit = SIZE_MAX / sizeof(double);
    return ET_ALLOC_ZERO(file->seen, count_of(file), "a file of weights", error);
}

int et_weights_file_open(et_weights_file **out, et_npz *npz, et_marian_model *marian,
                         const char *path, et_error *error)
{
    *out = NULL;
    et_weights_file *file = et_alloc_zero(1, sizeof *file);
    if (!file) {
        et_npz_close(npz);
        et_marian_model_close(marian);
        return et_alloc_failed(error, "a file of weights");
    }
    file->npz = npz;
    file->marian = marian;
    file->path = path ? et_strdup(path) : NULL;
    int status = file->path ? open_file(file, error) : et_alloc_failed(error, "a file of weights");
    if (status)
        et_weights_file_close(file);
    else
        *out = file;
    return status;
}

void et_weights_file_close(et_weights_file *file)
{
    if (!file)
        return;
    et_safetensors_close(file->safetensors);
    et_torch_file_close(file->torch);
    et_npz_close(file->npz);
    et_marian_model_close(file->marian);
    et_free((char *)file->path);
    et_free(file->seen);
    et_free(file->room);
    et_free(file->bytes);
    et_free(file);
}

/* Finds a tensor and its shape by name; false: no such tensor. If two tensors have one name, the
 * last one counts. */
static bool weights_file_find(const et_weights_file *file, const char *name, et_shape *shape)
{
    et_assert(name && shape);
    tensor t;
    const bool there = find(file, name, &t);
    if (there)
        *shape = t.shape;
    return there;
}

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* The next tensor, from number *i on, whose name ends so; NULL: none. *i: 0 at first. */
static const char *weights_file_next(const et_weights_file *file, const char *ending, size_t *i)
{
    et_assert(ending && i);
    while (*i < count_of(file)) {
        const char *name = tensor_at(file, (*i)++).name;
        if (et_path_ends(name, ending))
            return name;
    }
    return NULL;
}

/* "float16" or "bfloat16" if all tensors except these [count] have this type; else NULL. */
static const char *weights_file_precision(const et_weights_file *file, const char *const *except,
                                          size_t count)
{
    et_assert(except || !count);
    et_pickle_type type = ET_PICKLE_OTHER;
    for (size_t i = 0; i < count_of(file); i++) {
        const tensor t = tensor_at(file, i);
        if (is_among(t.name, except, count))
            continue;
        if (type != ET_PICKLE_OTHER && t.type != type)
            return NULL;
        type = t.type;
    }
    return type == ET_PICKLE_FLOAT16 ? "float16" : type == ET_PICKLE_BFLOAT16 ? "bfloat16" : NULL;
}

/* "PATH: NAME WHAT" */
static int weights_file_refuse(const et_weights_file *file, const char *name, const char *what,
                               et_error *error)
{
    et_assert(name && what);
    return et_fail(error, ET_EFORMAT, "%s: %s %s", file->path, name, what);
}

/* ---- values ---- */

static int check_tensor(const et_weights_file *file, const tensor *t, et_error *error)
{
    if (t->type == ET_PICKLE_OTHER)
        return et_fail(error, ET_EFORMAT, "%s: %s has the type %s, but only %s are supported",
                       file->path, t->name, t->type_name,
                       file->marian ? "float32, float16 and intgemm8"
                                    : "float32, float16 and bfloat16");
    if ((uint64_t)et_shape_count(t->shape) > file->limit)
        return et_fail(error, ET_EFORMAT, "%s: %s has %lld elements, more than the model",
                       file->path, t->name, (long long)et_shape_count(t->shape));
    return ET_OK;
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

static int read_values(et_weights_file *file, const tensor *t, et_error *error)
{
    const size_t count = (size_t)et_shape_count(t->shape);
    int status = check_tensor(file, t, error);
    if (!status && (!ET_VECTOR_GROW(file->room, file->room_elements, count + 1) ||
                    (!file->safetensors && !et_vector_grow(&file->bytes, &file->bytes_elements,
                                                           count + 1, sizeof(float)))))
        status = et_alloc_failed(error, "a tensor");
    if (status)
        return status;
    const void *bytes = file->bytes;
    if (file->torch)
        status = et_torch_file_read(file->torch, et_torch_file_at(file->torch, t->number),
                                    file->bytes, error);
    else if (file->npz)
        status = et_npz_read(file->npz, et_npz_at(file->npz, t->number), file->bytes, error);
    else if (file->marian)
        status = et_marian_model_read(file->marian, et_marian_model_at(file->marian, t->number),
                                      file->bytes, error);
    else
        bytes = et_safetensors_at(file->safetensors, t->number)->data;
    for (size_t i = 0; i < count && !status; i++) {
        file->room[i] = value_at(bytes, i, t->type);
        if (!isfinite(file->room[i]))
            status = weights_file_refuse(file, t->name, "has values that are not finite", error);
    }
    return status;
}

/* The values of a required tensor; borrowed until the next read. ET_EFORMAT: no such tensor, a type
 * other than float32, float16 or bfloat16, values that are not finite, or a tensor that is too
 * large. */
static int weights_file_read(et_weights_file *file, const char *name, const float **values,
                             et_error *error)
{
    et_assert(name && values);
    tensor t;
    if (!find(file, name, &t))
        return et_fail(error, ET_EFORMAT, "%s: there is no tensor %s; download the file again",
                       file->path, name);
    file->seen[t.number] = true;
    int status = read_values(file, &t, error);
    *values = file->room;
    return status;
}

/* The values of a tensor that must have this shape, which follows from the model's settings. */
static int weights_file_need(et_weights_file *file, const char *name, et_shape shape,
                             const float **values, et_error *error)
{
    et_assert(name && values);
    et_shape there;
    char is[ET_SHAPE_TEXT_MAX], wanted[ET_SHAPE_TEXT_MAX];
    if (weights_file_find(file, name, &there) && !et_shape_equal(there, shape))
        return et_fail(error, ET_EFORMAT,
                       "%s: %s has the shape %s, but its settings give %s; take the settings and "
                       "the weights of one model",
                       file->path, name, et_shape_print(there, is), et_shape_print(shape, wanted));
    return weights_file_read(file, name, values, error);
}

/* Whether Etude does not need a tensor: texts, and the multipliers of rows. */
static bool is_besides(const et_weights_file *file, size_t i)
{
    if (file->marian)
        return et_marian_model_at(file->marian, i)->type == ET_MARIAN_TYPE_BYTE ||
               et_path_ends(et_marian_model_at(file->marian, i)->name, ET_MARIAN_MULTIPLIER);
    return file->npz && et_npz_at(file->npz, i)->type == ET_NPZ_BYTE;
}

/* The parameters of the model, which receive the tensors of another program. */

/* The values of the parameter scope/name, which is declared, and its shape. */
static float *import_param(const et_import_reading *r, const char *scope, const char *name,
                           et_shape *shape)
{
    const int i = et_params_find_printf(r->params, "%s/%s", scope, name);
    et_assert(i >= 0);
    *shape = et_params_shape(r->params, i);
    return et_params_values_of(r->params, i);
}

/* Reads one tensor into its parameter; for et_tensor_map_each, self: an et_import_reading. */
static int import_read_mapped(void *self, const et_mapped_tensor *mapped, et_error *error)
{
    const et_import_reading *r = self;
    const float *values;
    int status = weights_file_need(r->file, mapped->name, mapped->shape, &values, error);
    if (!status)
        et_mapped_tensor_put(mapped, r->params, values);
    return status;
}

/* Keeps the tensors that an import does not use in a text of the export (unused_tensors.h). */

typedef struct unused {
    et_weights_file *file;
    et_value *metadata;         /* NULL: none */
    et_safetensors_item *items; /* [count] owned */
    size_t count, capacity;
    bool failed;
} unused;

static void add(unused *list, const char *name)
{
    et_shape shape;
    if (!weights_file_find(list->file, name, &shape) || list->failed)
        return;
    const et_safetensors_item item = { .name = name,
                                       .tensor = { .dtype = ET_F32, .shape = shape } };
    list->failed = !ET_VECTOR_APPEND(list->items, list->count, list->capacity, item);
}

static int read_item(void *self, size_t item, et_safetensors_take_fn *take, void *payload,
                     et_error *error)
{
    const unused *list = self;
    const float *values;
    const et_safetensors_item *of = &list->items[item];
    int status = weights_file_read(list->file, of->name, &values, error);
    return status ? status
                  : take(payload, values, et_shape_count(of->tensor.shape) * sizeof *values, error);
}

static int make_unused(unused *list, char **bytes, size_t *length, et_error *error)
{
    const et_safetensors_reader reader = { read_item, list };
    et_safetensors_written written;
    et_file_writer writer;
    char *directory;
    int status = et_scratch_open(&directory, "etude-import", error);
    if (status)
        return status;
    const et_path path = et_path_of(directory, ET_UNUSED_TENSORS);
    status = et_safetensors_draft(&writer, &written, path.text, list->items, list->count, &reader,
                                  list->metadata, error);
    if (!status && !(status = et_file_writer_commit(&writer, error)))
        status = et_file_read(bytes, length, path.text, ET_UNUSED_BYTES_MAX, error);
    et_scratch_close(directory);
    return status;
}

/* text: copied; "" notes nothing. */
static void note(et_import *from, unused *list, const char *key, const char *text)
{
    if (!*text)
        return;
    if (!list->metadata)
        list->metadata = et_value_dict(&from->arena);
    et_value_set_string(list->metadata, key, et_arena_strdup(&from->arena, text));
}

/* Records the other names of a table. */
static int note_copies(et_import *from, unused *list, et_error *error)
{
    static const char *const names[ET_UNUSED_COPIES_MAX] = { ET_UNUSED_OF_OUTPUT,
                                                             ET_UNUSED_OF_ENCODER,
                                                             ET_UNUSED_OF_DECODER };
    const int count = !from->facts.tied ? 0 : from->facts.shared ? ET_UNUSED_COPIES_MAX : 1;
    et_strbuf copies = ET_STRBUF_INIT;
    et_shape shape;
    for (int i = 0; i < count; i++)
        if (weights_file_find(from->weights, names[i], &shape))
            et_strbuf_printf(&copies, "%s ", names[i]);
    note(from, list, ET_UNUSED_COPIES, et_strbuf_text(&copies));
    const bool failed = copies.failed;
    et_strbuf_release(&copies);
    return failed ? et_alloc_failed(error, "names of tables") : ET_OK;
}

/* If there are tables of positions, their number of rows is the number of positions. */
static int note_lengths(et_import *from, unused *list, et_error *error)
{
    et_shape shape;
    const bool tables = weights_file_find(from->weights, ET_UNUSED_ENCODER_POSITIONS, &shape) ||
                        weights_file_find(from->weights, ET_UNUSED_DECODER_POSITIONS, &shape);
    const struct {
        const char *key;
        int64_t length;
    } lengths[] = { { ET_UNUSED_POSITIONS, tables ? 0 : from->facts.positions },
                    { ET_UNUSED_LONGEST, from->facts.longest } };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char text[24] = "";
        if (lengths[i].length)
            snprintf(text, sizeof text, "%lld", (long long)lengths[i].length);
        note(from, list, lengths[i].key, text);
    }
    return list->metadata && et_value_failed(list->metadata)
               ? et_alloc_failed(error, "a model's settings")
               : ET_OK;
}

/* Whether the folder has a shared table although each side has its own table. */
static bool import_passes_shared(const et_foreign_model *facts, const et_weights_file *file)
{
    et_shape shape;
    return !facts->shared && weights_file_find(file, ET_UNUSED_TABLE, &shape) &&
           weights_file_find(file, ET_UNUSED_OF_ENCODER, &shape);
}

static int find_unused(et_import *from, unused *list, et_error *error)
{
    if (import_passes_shared(&from->facts, from->weights))
        add(list, ET_UNUSED_TABLE);
    for (int i = 0; i < 2; i++)
        add(list, position_names[i]);
    /* Tables of positions of half models may be in float32. */
    const char *precision = weights_file_precision(from->weights, position_names, 2);
    note(from, list, ET_UNUSED_PRECISION, precision ? precision : "");
    int status = note_copies(from, list, error);
    return status ? status : note_lengths(from, list, error);
}

int et_import_read_unused(et_import *from, char **bytes, size_t *length, et_error *error)
{
    et_assert(from->weights && bytes && length);
    unused list = { .file = from->weights };
    const char *name;
    size_t at = 0;
    int status = ET_OK;
    *bytes = NULL;
    *length = 0;
    /* Sizes were checked. Tables of positions may be larger than the model's parameters. */
    from->weights->limit = SIZE_MAX / sizeof(double);
    if (!from->marian)
        status = find_unused(from, &list, error);
    else
        while ((name = weights_file_next(from->weights, ET_MARIAN_MULTIPLIER, &at)))
            add(&list, name);
    if (!status && list.failed)
        status = et_alloc_failed(error, "names of tensors");
    if (!status && (list.count || list.metadata))
        status = make_unused(&list, bytes, length, error);
    et_free(list.items);
    return status;
}

/* Weights by Marian's names (interchange/tensor_map.h, marian_files.h). Marian's tables have no row
 * for the token that begins a target. In Etude, this row is the last one and has zeros. */

static int read_marian_table(const et_import_reading *r, const char *name, const char *scope,
                             et_error *error)
{
    et_shape shape;
    const float *values;
    float *table = import_param(r, scope, "table", &shape);
    const int64_t rows = shape.size[0] - 1, width = shape.size[1];
    int status = weights_file_need(r->file, name, et_shape_2(rows, width), &values, error);
    if (status)
        return status;
    memcpy(table, values, (size_t)(rows * width) * sizeof *table);
    memset(table + rows * width, 0, width * sizeof *table);
    return ET_OK;
}

/* Older files store the output's table as [width, rows]. */
static int read_output(const et_import_reading *r, const char *scope, et_error *error)
{
    et_shape shape;
    const float *values;
    if (!weights_file_find(r->file, ET_MARIAN_OUTPUT_WIDE, &shape))
        return read_marian_table(r, ET_MARIAN_OUTPUT, scope, error);
    float *table = import_param(r, scope, "table", &shape);
    const int64_t rows = shape.size[0] - 1, width = shape.size[1];
    int status =
        weights_file_need(r->file, ET_MARIAN_OUTPUT_WIDE, et_shape_2(width, rows), &values, error);
    for (int64_t i = 0; i < rows && !status; i++)
        for (int64_t k = 0; k < width; k++)
            table[i * width + k] = values[k * rows + i];
    memset(table + rows * width, 0, width * sizeof *table);
    return status;
}

static int read_marian_tables(const et_import_reading *r, et_error *error)
{
    const et_transformer *model = r->model;
    const bool shared = r->facts->shared;
    int status = shared ? read_marian_table(r, ET_MARIAN_SHARED, model->target.scope, error)
                        : read_marian_table(r, ET_MARIAN_OF_ENCODER, model->source.scope, error);
    if (!status && !shared)
        status = read_marian_table(r, ET_MARIAN_OF_DECODER, model->target.scope, error);
    return status || r->facts->tied ? status : read_output(r, model->output.scope, error);
}

/* ---- tables ---- */

/* Most names of a table in a file: of equal tables, safetensors keep only one name. */
enum { TABLE_NAMES = 4 };
typedef struct table {
    const char *scope;
    const char *names[TABLE_NAMES];
} table;

/* The first existing name gives the table; tensors with the other names are copies. */
static int read_table(et_import_reading *r, const table *of, et_error *error)
{
    et_shape shape, there;
    bool done = false;
    int status = ET_OK;
    float *rows = import_param(r, of->scope, "table", &shape);
    const size_t bytes = et_shape_count(shape) * sizeof *rows;
    for (int i = 0; i < TABLE_NAMES && of->names[i] && !status; i++) {
        const float *values;
        if (!weights_file_find(r->file, of->names[i], &there))
            continue;
        status = weights_file_need(r->file, of->names[i], shape, &values, error);
        if (!status && done && memcmp(rows, values, bytes) != 0)
            status = weights_file_refuse(r->file, of->names[i],
                                         "differs from the table that config.json shares it with",
                                         error);
        else if (!status && !done)
            memcpy(rows, values, bytes);
        done = true;
    }
    const float *none;
    return status || done ? status : weights_file_read(r->file, of->names[0], &none, error);
}

#define SHARED     ET_UNUSED_TABLE
#define OF_ENCODER ET_UNUSED_OF_ENCODER
#define OF_DECODER ET_UNUSED_OF_DECODER
#define OF_OUTPUT  ET_UNUSED_OF_OUTPUT

/* Without tied tables, transformers since version 5 has a table for each side, even if config.json
 * declares shared tables. It also stores an unused table. */
static int compare_tables(et_import *from, et_error *error)
{
    et_foreign_model *facts = &from->facts;
    et_shape encoder, decoder;
    const float *values;
    if (!facts->shared || facts->tied || !weights_file_find(from->weights, OF_ENCODER, &encoder) ||
        !weights_file_find(from->weights, OF_DECODER, &decoder) ||
        !et_shape_equal(encoder, decoder) || encoder.rank != 2 ||
        encoder.size[0] != facts->tokens[ET_SIDE_SOURCE])
        return ET_OK;
    int status = weights_file_read(from->weights, OF_ENCODER, &values, error);
    const size_t count = (size_t)et_shape_count(encoder), bytes = count * sizeof *values;
    float *first = status ? NULL : et_alloc(count, sizeof *first);
    if (!status && !first)
        status = et_alloc_failed(error, "a table");
    if (!status) {
        memcpy(first, values, bytes);
        status = weights_file_read(from->weights, OF_DECODER, &values, error);
    }
    facts->shared = status || !memcmp(first, values, bytes);
    et_free(first);
    return status;
}

static int find_shared(et_import *from, et_error *error)
{
    int status = compare_tables(from, error);
    et_value_set_bool(et_value_get(from->settings, "model"), "shared_embeddings",
                      from->facts.shared);
    return status;
}

static int read_tables(et_import_reading *r, et_error *error)
{
    const et_foreign_model *facts = r->facts;
    const bool passes = import_passes_shared(facts, r->file);
    const char *output = facts->tied ? OF_OUTPUT : NULL;
    const table all[] = {
        { r->model->target.scope, { SHARED, OF_ENCODER, OF_DECODER, output } },
        { r->model->source.scope, { OF_ENCODER, passes ? NULL : SHARED } },
        { r->model->target.scope, { OF_DECODER, output } },
        { r->model->output.scope, { OF_OUTPUT } },
    };
    int status = ET_OK;
    if (passes) {
        /* The table is not used, but kept for an export. */
        et_shape shape;
        const float *values;
        import_param(r, r->model->source.scope, "table", &shape);
        status = weights_file_need(r->file, SHARED, shape, &values, error);
    }
    if (!status && facts->shared)
        status = read_table(r, &all[0], error);
    else
        for (int i = 1; i <= 2 && !status; i++)
            status = read_table(r, &all[i], error);
    return status || facts->tied ? status : read_table(r, &all[3], error);
}

/* marian: the last token, which begins a target, is not in the file. */
static int read_bias(const et_import_reading *r, bool marian, et_error *error)
{
    et_shape shape;
    const float *values;
    float *bias = import_param(r, r->model->output.scope, "bias", &shape);
    const int64_t count = shape.size[0] - marian;
    int status = weights_file_need(r->file, marian ? ET_MARIAN_BIAS : "final_logits_bias",
                                   et_shape_2(1, count), &values, error);
    if (!status)
        memcpy(bias, values, count * sizeof *bias);
    if (marian)
        bias[count] = 0;
    return status;
}

/* ---- positions ---- */

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
    if (!weights_file_find(file, name, &shape))
        return ET_OK;
    if (shape.rank != 2 || shape.size[1] != width)
        return weights_file_refuse(file, name, "has another width than the embeddings", error);
    if (shape.size[0] > ET_TRANSLATION_LENGTH_MAX)
        return weights_file_refuse(file, name, "has too many positions", error);
    int status = weights_file_read(file, name, &values, error);
    const int64_t count = et_shape_count(shape);
    float *made = status ? NULL : et_alloc(count, sizeof *made);
    if (!status && !made)
        status = et_alloc_failed(error, "positions");
    const char *is = NULL;
    for (int open = 1; open >= 0 && !status && !is; open--) {
        et_positions_fill(made, shape.size[0], width, open);
        if (same_positions(values, made, count))
            is = open ? "paper" : "tensor2tensor";
    }
    et_free(made);
    if (!status && !is)
        return weights_file_refuse(file, name,
                                   "is not a table of sinusoids, which is not supported", error);
    if (!status && *kind && strcmp(*kind, is) != 0)
        return weights_file_refuse(file, name, "has other sinusoids than the encoder", error);
    *kind = status ? NULL : is;
    return status;
}

/* Older files have tables of positions, transformers' own; so have files with other tables. Etude
 * computes positions, so these tables must be sinusoids. */
static int read_positions(et_import *from, et_error *error)
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

int et_import_open_weights(et_import *from, et_error *error)
{
    et_assert(!from->weights);
    static const char *const others[] = { "model.safetensors.index.json",
                                          "pytorch_model.bin.index.json", "tf_model.h5",
                                          "flax_model.msgpack", "rust_model.ot" };
    const bool safe = et_import_has(from, ET_ARTIFACT_WEIGHTS);
    const char *name = safe ? ET_ARTIFACT_WEIGHTS : "pytorch_model.bin", *other = NULL;
    const char *path = et_import_path(from, name);
    if (!path)
        return et_alloc_failed(error, "a path");
    for (size_t i = 0; i < sizeof others / sizeof *others && !other; i++)
        other = et_import_has(from, others[i]) ? others[i] : NULL;
    if (!safe && !et_import_has(from, name))
        return et_fail(error, ET_ENOTFOUND,
                       "%s has neither model.safetensors nor pytorch_model.bin%s%s%s", from->folder,
                       other ? ", but " : "; download one of them", other ? other : "",
                       other ? ", which is not supported" : "");
    int status;
    if ((status = et_import_check_file(from, name, error)) ||
        (status = et_weights_file_open(&from->weights, NULL, NULL, path, error)) ||
        (status = read_positions(from, error)))
        return status;
    return find_shared(from, error);
}

int et_import_read_tensors(et_import *from, et_params *params, const et_transformer *model,
                           et_error *error)
{
    et_assert(from->weights && params && model);
    et_import_reading r = {
        .file = from->weights, .facts = &from->facts, .params = params, .model = model
    };
    const et_tensor_map map = { model, params,
                                from->marian ? ET_NAMES_MARIAN : ET_NAMES_TRANSFORMERS };
    from->weights->limit = (size_t)et_params_elements(params);
    et_params_begin_change(params);
    int status = from->marian ? read_marian_tables(&r, error) : read_tables(&r, error);
    if (!status && !(status = read_bias(&r, from->marian, error)))
        status = et_tensor_map_each(&map, import_read_mapped, &r, error);
    et_params_changed(params, true);
    if (status)
        return status;
    /* Every tensor was read. */
    const et_weights_file *file = from->weights;
    for (size_t i = 0; i < count_of(file); i++)
        if (!file->seen[i] && !is_besides(file, i))
            return weights_file_refuse(file, tensor_at(file, i).name,
                                       "does not belong to a supported part of a model", error);
    return ET_OK;
}
