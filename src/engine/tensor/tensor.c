#include "engine/tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include <etude/pass.h>

#include "base/alloc.h"
#include "base/assert.h"

/* ---- tensor ---- */

/* Shapes as values. Nothing here allocates or fails. Callers check sizes, because they know which
 * are too large (a setting, a file's header). Sizes after the rank are zero in shapes made here,
 * and are never read. */

et_shape et_shape_scalar(void)
{
    return (et_shape){ 0, { 0 } };
}

/* Vectors, matrices, images: what models here are made of. A view may have other ranks,
 * up to ET_RANK_MAX, since tensors in files do. */
et_shape et_shape_1(int64_t size)
{
    return (et_shape){ 1, { size } };
}

et_shape et_shape_2(int64_t rows, int64_t columns)
{
    return (et_shape){ 2, { rows, columns } };
}

et_shape et_shape_3(int64_t height, int64_t width, int64_t channels)
{
    return (et_shape){ 3, { height, width, channels } };
}

et_shape et_shape_4(int64_t samples, int64_t height, int64_t width, int64_t channels)
{
    return (et_shape){ 4, { samples, height, width, channels } };
}

bool et_shape_valid(et_shape shape)
{
    return et_shape_count(shape) >= 0;
}

/* Rows are dense, so bytes are elements times the size of one. */
size_t et_tensor_bytes(et_tensor tensor)
{
    int64_t count = et_shape_count(tensor.shape);
    return count < 0 ? 0 : count * et_dtype_size(tensor.dtype);
}

/* [4] and [1, 4] are two shapes: nothing here broadcasts. */
bool et_shape_equal(et_shape left, et_shape right)
{
    if (left.rank != right.rank || left.rank < 0 || left.rank > ET_RANK_MAX)
        return false;
    /* Sizes beyond the rank are not compared: they may be uninitialized. */
    for (int i = 0; i < left.rank; i++)
        if (left.size[i] != right.size[i])
            return false;
    return true;
}

/* "[]" for a scalar, "[128, 384]" for a matrix. ET_SHAPE_TEXT_MAX holds any four 64-bit numbers
 * with their commas, so nothing is ever cut. */
char *et_shape_print(et_shape shape, char text[ET_SHAPE_TEXT_MAX])
{
    int length = snprintf(text, ET_SHAPE_TEXT_MAX, "[");
    if (shape.rank < 0 || shape.rank > ET_RANK_MAX) {
        snprintf(text, ET_SHAPE_TEXT_MAX, "[rank %d]", shape.rank);
        return text;
    }
    for (int i = 0; i < shape.rank; i++)
        length += snprintf(text + length, (size_t)(ET_SHAPE_TEXT_MAX - length), "%s%lld",
                           i ? ", " : "", (long long)shape.size[i]);
    snprintf(text + length, (size_t)(ET_SHAPE_TEXT_MAX - length), "]");
    return text;
}

/* ---- layout ---- */

#define ROWS_MAX INT32_MAX /* offsets of a batch are int32 */

const et_layout_field et_layout_mask = { .name = ET_BATCH_MASK,
                                         .dtype = ET_F32,
                                         .empty = ET_EMPTY_MASK };

et_shape et_layout_shape(const et_layout *layout, int field)
{
    if (field < 0 || field >= layout->fields)
        return et_shape_scalar();
    const et_layout_field *f = &layout->field[field];
    et_shape shape = { .rank = f->item.rank + 1 };
    et_assert(shape.rank <= ET_RANK_MAX);
    shape.size[0] = layout->capacity[f->kind] + (f->empty == ET_EMPTY_OFFSETS);
    for (int i = 0; i < f->item.rank; i++)
        shape.size[i + 1] = f->item.size[i];
    return shape;
}

int et_layout_find(const et_layout *layout, const char *field)
{
    for (int i = 0; field && i < layout->fields; i++)
        if (!strcmp(layout->field[i].name, field))
            return i;
    return -1;
}

int et_layout_own(et_layout_field **out, const et_layout_field *rows, int count, et_error *error)
{
    et_assert(count > 0);
    size_t names = 0, head = count * sizeof **out;
    for (int i = 0; i < count; i++)
        names += strlen(rows[i].name) + 1;
    char *block = et_alloc(head + names, 1);
    if (!block)
        return et_alloc_failed(error, "the fields of batches");
    memcpy(block, rows, head);
    *out = (et_layout_field *)(void *)block;
    char *at = block + head;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(rows[i].name) + 1;
        memcpy(at, rows[i].name, length);
        (*out)[i].name = at;
        at += length;
    }
    return ET_OK;
}

/* Asked in every step, of names of a few letters: a call of strcmp would cost more. */
static bool same_name(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

bool et_layout_same(const et_layout *a, const et_layout *b)
{
    bool same = a->kinds == b->kinds && a->fields == b->fields && a->unit == b->unit;
    for (int i = 0; same && i < a->fields; i++) {
        const et_layout_field *l = &a->field[i], *r = &b->field[i];
        /* Also the value that fills empty rows, because a batch has only one. */
        same = same_name(l->name, r->name) && l->dtype == r->dtype && l->kind == r->kind &&
               l->empty == r->empty &&
               (l->empty != ET_EMPTY_OFFSETS || l->offsets_of == r->offsets_of) &&
               et_shape_equal(l->item, r->item);
    }
    return same;
}

size_t et_layout_bytes(const et_layout *layout, int field)
{
    return (size_t)et_shape_count(et_layout_shape(layout, field)) *
           et_dtype_size(layout->field[field].dtype);
}

/* The fault of a row for which no memory can be laid out; NULL: none. */
static const char *shapeless(const et_layout *layout, int i)
{
    const et_layout_field *f = &layout->field[i];
    if (!et_shape_valid(f->item) || f->item.rank >= ET_RANK_MAX || et_shape_count(f->item) < 1)
        return "its item is empty, or has too many dimensions";
    if (f->kind < 0 || f->kind >= layout->kinds)
        return "it counts a kind that does not exist";
    if (f->empty == ET_EMPTY_OFFSETS && (f->offsets_of < 1 || f->offsets_of >= layout->kinds))
        return "it points into a kind that does not exist";
    return et_dtype_size(f->dtype) ? NULL : "its type is invalid";
}

/* Checks as shapeless does, and refuses fields that no model could read. */
static const char *wrong(const et_layout *layout, int i)
{
    const et_layout_field *f = &layout->field[i];
    const char *why = shapeless(layout, i);
    if (why)
        return why;
    if ((unsigned)f->dtype >= ET_U8)
        return "its type is invalid";
    if ((f->empty == ET_EMPTY_NONE || f->empty == ET_EMPTY_OFFSETS) && f->dtype != ET_I32)
        return "-1 and offsets need the type int32";
    if (f->empty == ET_EMPTY_MASK && (f->dtype != ET_F32 || et_shape_count(f->item) != 1))
        return "a mask must be one float32";
    return et_layout_find(layout, f->name) < i ? "another field has this name" : NULL;
}

static int check(const et_layout *layout, const char *(*fault)(const et_layout *, int),
                 et_error *error)
{
    if (layout->kinds < 1 || layout->kinds > ET_LAYOUT_KINDS || layout->fields < 1)
        return et_fail(
            error, ET_ECONFIG,
            "batches of %d fields and %d kinds: give at least 1 field, and 1 to %d kinds",
            layout->fields, layout->kinds, ET_LAYOUT_KINDS);
    if (layout->unit < 0 || layout->unit >= layout->kinds)
        return et_fail(error, ET_ECONFIG, "batches whose unit is the kind %d: give 0 to %d",
                       layout->unit, layout->kinds - 1);
    for (int i = 0; i < layout->fields; i++)
        if (!layout->field[i].name || !*layout->field[i].name)
            return et_fail(error, ET_ECONFIG, "field %d of batches has no name", i);
    for (int i = 0; i < layout->fields; i++) {
        const char *why = fault(layout, i);
        if (why)
            return et_fail(error, ET_ECONFIG, "field %s: %s", layout->field[i].name, why);
    }
    return ET_OK;
}

int et_layout_check(const et_layout *layout, et_error *error)
{
    return check(layout, wrong, error);
}

int et_layout_check_size(const et_layout *layout, et_error *error)
{
    int status = check(layout, shapeless, error);
    for (int k = 0; !status && k < layout->kinds; k++)
        if (layout->capacity[k] < 1 || layout->capacity[k] > ROWS_MAX)
            status = et_fail(
                error, ET_ECONFIG, "batches of %lld %ss: %s", (long long)layout->capacity[k],
                layout->kind[k] ? layout->kind[k] : "sample",
                layout->capacity[k] < 1 ? "give the batch size, `capacity`" : "below 2^31");
    if (status)
        return status;
    char text[ET_SHAPE_TEXT_MAX];
    size_t bytes = 0;
    for (int i = 0; i < layout->fields; i++) {
        et_shape shape = et_layout_shape(layout, i);
        bool fits = et_shape_valid(shape);
        bytes += fits ? et_layout_bytes(layout, i) : 0;
        if (!fits || bytes > PTRDIFF_MAX)
            return et_fail(error, ET_ECONFIG, "field %s of batches: %s is too large for any memory",
                           layout->field[i].name, et_shape_print(shape, text));
    }
    return ET_OK;
}

bool et_layout_fits(const et_layout *a, const et_layout *b)
{
    if (a == b)
        return true;
    bool same = a->kinds == b->kinds && a->fields == b->fields;
    for (int k = 0; same && k < a->kinds; k++)
        same = a->capacity[k] == b->capacity[k];
    for (int i = 0; same && a->field != b->field && i < a->fields; i++)
        same = a->field[i].dtype == b->field[i].dtype && a->field[i].kind == b->field[i].kind &&
               a->field[i].empty == b->field[i].empty &&
               et_shape_equal(a->field[i].item, b->field[i].item);
    return same;
}
