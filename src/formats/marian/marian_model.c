/* The parts of the file follow one another, so a cursor goes through it once; it never passes the
 * end. */
#include "formats/marian/marian_model.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/map.h"
#include "formats/safetensors/safetensors.h"

enum { VERSION = 1, HEADER = 4 * sizeof(uint64_t) };

struct et_marian_model {
    const char *path; /* in arena, as items */
    char *bytes;      /* [length] owned */
    size_t length;
    et_arena arena;
    et_map by_name;
    et_marian_item *items; /* [count] */
    size_t count;
};

typedef struct header {
    uint64_t name, type, dimensions, bytes;
} header;

/* Marian's common/types.h: a class of types plus the bytes of an element. */
static const struct {
    uint64_t number;
    const char *name;
    et_marian_type type;
    uint64_t width, after; /* bytes of an element, and after the elements */
} types[] = {
    { ET_MARIAN_NUMBER_FLOAT32, "float32", ET_MARIAN_TYPE_FLOAT32, 4, 0 },
    { ET_MARIAN_NUMBER_FLOAT16, "float16", ET_MARIAN_TYPE_FLOAT16, 2, 0 },
    { ET_MARIAN_NUMBER_BYTE, "int8", ET_MARIAN_TYPE_BYTE, 1, 0 },
    { ET_MARIAN_NUMBER_INTGEMM8, "intgemm8", ET_MARIAN_TYPE_INTGEMM8, 1, sizeof(float) },
    { 0x4102, "intgemm16", ET_MARIAN_TYPE_OTHER, 2, sizeof(float) },
    { 0x408, "float64", ET_MARIAN_TYPE_OTHER, 8, 0 },
};

/* Readers are false after a failure; then status says why. */
typedef struct cursor {
    et_marian_model *model;
    size_t at;
    int status;
    et_error *error;
} cursor;

__attribute__((format(printf, 2, 3))) static bool damaged(cursor *c, const char *format, ...)
{
    char what[256];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    c->status = et_fail(c->error, ET_EFORMAT, "%s: byte %zu: %s; download the file again",
                        c->model->path, c->at, what);
    return false;
}

static bool no_memory(cursor *c)
{
    c->status = et_alloc_failed(c->error, "a model");
    return false;
}

/* The next `count` bytes; NULL: there are fewer. */
static const char *take(cursor *c, uint64_t count)
{
    if (count > c->model->length - c->at)
        return NULL;
    const char *bytes = c->model->bytes + c->at;
    c->at += (size_t)count;
    return bytes;
}

static bool take_number(cursor *c, uint64_t *number)
{
    const char *bytes = take(c, sizeof *number);
    if (bytes)
        memcpy(number, bytes, sizeof *number);
    return bytes != NULL;
}

static header header_of(const et_marian_model *model, size_t i)
{
    header h;
    memcpy(&h, model->bytes + 2 * sizeof(uint64_t) + i * HEADER, sizeof h);
    return h;
}

/* A name must fit the files that take the item (et_tensor_name_fault). */
static bool is_name(const char *name, uint64_t length)
{
    return length > 1 && memchr(name, 0, length) == name + length - 1 &&
           !et_tensor_name_fault(name);
}

static bool read_names(et_marian_model *model, cursor *c)
{
    int64_t other;
    for (size_t i = 0; i < model->count; i++) {
        const uint64_t length = header_of(model, i).name;
        const char *name = take(c, length);
        if (!name)
            return damaged(c, "the name of item %zu has %llu bytes, more than the file has", i,
                           (unsigned long long)length);
        if (!is_name(name, length))
            return damaged(c, "item %zu has no name", i);
        if (et_map_get(&model->by_name, name, &other))
            return damaged(c, "two items have the name %.80s", name);
        model->items[i].name = name;
        if (!et_map_put(&model->by_name, name, (int64_t)i))
            return no_memory(c);
    }
    return true;
}

static bool read_shape(cursor *c, et_marian_item *item, uint64_t dimensions)
{
    int32_t size;
    if (dimensions > ET_RANK_MAX)
        return damaged(c, "%.80s has %llu dimensions", item->name, (unsigned long long)dimensions);
    for (uint64_t k = 0; k < dimensions; k++) {
        const char *bytes = take(c, sizeof size);
        if (!bytes)
            return damaged(c, "the file ends in the shape of %.80s", item->name);
        memcpy(&size, bytes, sizeof size);
        if (size < 1)
            return damaged(c, "%.80s has a size of %d", item->name, (int)size);
        item->shape.size[item->shape.rank++] = size;
    }
    return true;
}

/* Bytes that the elements need; UINT64_MAX: more than any file has. */
static uint64_t bytes_of(et_shape shape, uint64_t width, uint64_t after)
{
    uint64_t count = 1;
    for (int k = 0; k < shape.rank; k++) {
        if (count > UINT64_MAX / 16 / (uint64_t)shape.size[k])
            return UINT64_MAX;
        count *= (uint64_t)shape.size[k];
    }
    return count * width + after;
}

static bool read_data(cursor *c, et_marian_item *item, header h)
{
    uint64_t need = 0;
    item->type_name = et_arena_printf(&c->model->arena, "0x%llx", (unsigned long long)h.type);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == h.type) {
            item->type = types[i].type;
            item->type_name = types[i].name;
            need = bytes_of(item->shape, types[i].width, types[i].after);
        }
    if (!item->type_name)
        return no_memory(c);
    if (need > h.bytes)
        return damaged(c, "%.80s has %llu bytes, too few for its shape", item->name,
                       (unsigned long long)h.bytes);
    item->bytes = h.bytes;
    item->data = take(c, h.bytes);
    return item->data || damaged(c, "%.80s has %llu bytes, more than the file has", item->name,
                                 (unsigned long long)h.bytes);
}

static bool read_head(et_marian_model *model, cursor *c)
{
    uint64_t version, count;
    if (!take_number(c, &version) || !take_number(c, &count))
        return damaged(c, "the file ends here");
    if (version != VERSION)
        return damaged(c,
                       "the version is %llu, but only version 1 of Marian's binary "
                       "format is supported",
                       (unsigned long long)version);
    if (count > (model->length - c->at) / HEADER)
        return damaged(c, "%llu items are more than the file has", (unsigned long long)count);
    take(c, count * HEADER);
    model->count = (size_t)count;
    model->items = et_arena_array(&model->arena, model->count + 1, sizeof *model->items);
    if (!model->items)
        return no_memory(c);
    memset(model->items, 0, model->count * sizeof *model->items);
    return true;
}

static int read_file(et_marian_model *model, et_error *error)
{
    cursor c = { .model = model, .error = error };
    uint64_t padding;
    bool sound = read_head(model, &c) && read_names(model, &c);
    for (size_t i = 0; i < model->count && sound; i++)
        sound = read_shape(&c, &model->items[i], header_of(model, i).dimensions);
    if (sound && (!take_number(&c, &padding) || !take(&c, padding)))
        sound = damaged(&c, "the file ends before the data");
    for (size_t i = 0; i < model->count && sound; i++)
        sound = read_data(&c, &model->items[i], header_of(model, i));
    if (sound && c.at != model->length)
        damaged(&c, "%zu bytes follow the last item", model->length - c.at);
    return c.status;
}

int et_marian_model_open(et_marian_model **out, char *bytes, size_t length, const char *name,
                         et_error *error)
{
    *out = NULL;
    et_marian_model *model = et_alloc_zero(1, sizeof *model);
    if (!model) {
        et_free(bytes);
        return et_alloc_failed(error, "a model");
    }
    model->bytes = bytes;
    model->length = length;
    model->path = et_arena_strdup(&model->arena, name);
    int status = model->path ? read_file(model, error) : et_alloc_failed(error, "a path");
    if (status)
        et_marian_model_close(model);
    else
        *out = model;
    return status;
}

void et_marian_model_close(et_marian_model *model)
{
    if (!model)
        return;
    et_map_release(&model->by_name);
    et_arena_release(&model->arena);
    et_free(model->bytes);
    et_free(model);
}

size_t et_marian_model_count(const et_marian_model *model)
{
    return model->count;
}

const et_marian_item *et_marian_model_at(const et_marian_model *model, size_t index)
{
    et_assert(index < model->count);
    return &model->items[index];
}

const et_marian_item *et_marian_model_find(const et_marian_model *model, const char *name)
{
    int64_t at;
    return et_map_get(&model->by_name, name, &at) ? &model->items[at] : NULL;
}

/* ---- values ---- */

/* Rows of a matrix whose bytes are stored column by column, which is not a table; else 1. */
static size_t rows_of(const char *name, et_shape shape)
{
    return shape.rank != 2 || strstr(name, "Wemb") ? 1 : (size_t)shape.size[0];
}

int et_marian_model_read(const et_marian_model *model, const et_marian_item *item, float *values,
                         et_error *error)
{
    const size_t count = (size_t)et_shape_count(item->shape);
    et_assert(item->type == ET_MARIAN_TYPE_FLOAT32 || item->type == ET_MARIAN_TYPE_FLOAT16 ||
              item->type == ET_MARIAN_TYPE_INTGEMM8);
    if (item->type == ET_MARIAN_TYPE_INTGEMM8) {
        const signed char *bytes = (const signed char *)item->data;
        float m;
        memcpy(&m, item->data + count, sizeof m);
        if (!(isfinite(m) && m > 0))
            return et_fail(error, ET_EFORMAT,
                           "%s: %.80s has the multiplier %g; download the file again", model->path,
                           item->name, (double)m);
        const size_t rows = rows_of(item->name, item->shape), columns = rows ? count / rows : 0;
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                values[r * columns + c] = (float)bytes[c * rows + r] / m;
        return ET_OK;
    }
    if (item->type == ET_MARIAN_TYPE_FLOAT32) {
        memcpy(values, item->data, count * sizeof *values);
        return ET_OK;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, item->data + i * sizeof half, sizeof half);
        values[i] = et_half_to_float(half);
    }
    return ET_OK;
}

/* ---- writing ---- */

#define ALIGNMENT UINT64_C(256)

static uint64_t align(uint64_t at)
{
    return (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

typedef struct output {
    et_file_writer writer;
    const et_marian_written *items; /* [count] */
    size_t count;
    char *room; /* for the data of the largest item, owned */
    uint64_t most;
} output;

static size_t row_of(et_marian_type type)
{
    size_t row = 0;
    while (types[row].type != type)
        row++;
    et_assert(row < sizeof types / sizeof *types);
    return row;
}

static uint64_t data_of(const et_marian_written *item)
{
    const size_t row = row_of(item->type);
    return bytes_of(item->shape, types[row].width, types[row].after);
}

static void put_numbers(output *o, const uint64_t *numbers, size_t count)
{
    et_file_writer_put(&o->writer, numbers, count * sizeof *numbers);
}

/* All but the data. */
static void put_head(output *o)
{
    static const char zeros[ALIGNMENT];
    const uint64_t begin[] = { VERSION, o->count };
    put_numbers(o, begin, 2);
    for (size_t i = 0; i < o->count; i++) {
        const et_marian_written *item = &o->items[i];
        const uint64_t numbers[] = { strlen(item->name) + 1, types[row_of(item->type)].number,
                                     (uint64_t)item->shape.rank, align(data_of(item)) };
        put_numbers(o, numbers, 4);
    }
    for (size_t i = 0; i < o->count; i++)
        et_file_writer_put(&o->writer, o->items[i].name, strlen(o->items[i].name) + 1);
    for (size_t i = 0; i < o->count; i++)
        for (int k = 0; k < o->items[i].shape.rank; k++) {
            const int32_t size = (int32_t)o->items[i].shape.size[k];
            et_file_writer_put(&o->writer, &size, sizeof size);
        }
    const uint64_t at = o->writer.length + sizeof(uint64_t), padding = align(at) - at;
    put_numbers(o, &padding, 1);
    et_file_writer_put(&o->writer, zeros, padding);
}

static void round_item(const et_marian_written *item, const float *values, char *bytes)
{
    const size_t count = (size_t)et_shape_count(item->shape);
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(values[i]));
    const float m = most > 0 ? 127 / most : 1;
    const size_t rows = rows_of(item->name, item->shape), columns = rows ? count / rows : 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            bytes[c * rows + r] = (char)lrintf(values[r * columns + c] * m);
    memcpy(bytes + count, &m, sizeof m);
}

int et_marian_model_write(const char *path, const et_marian_written *items, size_t count,
                          et_marian_source *source, void *self, et_error *error)
{
    output o = { .items = items, .count = count };
    for (size_t i = 0; i < count; i++)
        if (align(data_of(&items[i])) > o.most)
            o.most = align(data_of(&items[i]));
    o.room = et_alloc(1, (size_t)o.most + 1);
    if (!o.room)
        return et_alloc_failed(error, "a model");
    int status = et_file_writer_open(&o.writer, path, error);
    if (status) {
        et_free(o.room);
        return status;
    }
    put_head(&o);
    for (size_t i = 0; i < count && !status; i++) {
        const et_marian_written *item = &items[i];
        const size_t length = (size_t)data_of(item), whole = (size_t)align(length);
        const void *data;
        status = source(self, i, &data, error);
        if (status)
            break;
        memset(o.room, 0, whole);
        if (item->type == ET_MARIAN_TYPE_INTGEMM8)
            round_item(item, data, o.room);
        else
            memcpy(o.room, data, length);
        status = et_file_writer_write(&o.writer, o.room, whole, error);
    }
    et_free(o.room);
    return et_file_writer_end(&o.writer, status, error);
}
