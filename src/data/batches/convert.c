/* Sources whose batches have other fields than their inner source. The inner source fills a batch
 * of its own, and unchanged fields are passed on from it. */
#include "data/batches/source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/tensor/layout.h"

#define MADE (-1)

typedef struct convert {
    et_source source;
    et_source *inner;       /* owned */
    et_batch *from;         /* of inner's layout */
    et_layout_field *field; /* [fields], owned */
    int *passed;            /* [fields]: which of inner's; MADE */
    et_convert_fn *make;    /* NULL: no field is made */
    void *payload;
    bool owned; /* payload is */
} convert;

et_batch et_batch_view(const et_layout *layout, void **data, const et_batch *batch)
{
    et_batch view = {
        .layout = layout, .data = data, .sample = batch->sample, .epoch = batch->epoch
    };
    memcpy(view.filled, batch->filled, sizeof view.filled);
    return view;
}

static int convert_next(et_source *source, et_batch *batch, et_error *error)
{
    convert *self = (convert *)source;
    const et_batch *from = self->from;
    int status = et_source_next(self->inner, self->from, error);
    if (status)
        return status;
    if (!from->filled[0]) {
        et_batch_clear(batch);
        return ET_OK;
    }
    const et_layout *layout = &source->layout;
    memcpy(batch->filled, from->filled, sizeof batch->filled);
    memcpy(batch->sample, from->sample, (size_t)layout->capacity[0] * sizeof *batch->sample);
    batch->epoch = from->epoch;
    for (int i = 0; i < layout->fields; i++)
        if (self->passed[i] != MADE)
            memcpy(batch->data[i], from->data[self->passed[i]], et_layout_bytes(layout, i));
    if (self->make)
        status = self->make(self->payload, from, batch, error);
    if (status)
        return status;
    et_assert_equal(batch->filled[0], from->filled[0]);
    et_batch_finish(batch);
    return ET_OK;
}

static void convert_position(const et_source *source, et_position *position)
{
    const convert *self = (const convert *)source;
    self->inner->class->position(self->inner, position);
}

static int convert_seek(et_source *source, const et_position *position, et_error *error)
{
    return et_source_seek(((convert *)source)->inner, position, error);
}

static int convert_rewind(et_source *source, bool next, et_error *error)
{
    return et_source_rewind_to(((convert *)source)->inner, next, error);
}

static void convert_describe(const et_source *source, const et_batch *batch, char *text,
                             size_t size)
{
    const convert *self = (const convert *)source;
    et_batch view = et_batch_view(&self->inner->layout, self->from->data, batch);
    et_source_describe(self->inner, &view, text, size);
}

static void release(convert *self)
{
    et_batch_free(self->from);
    et_free(self->field);
    et_free(self->passed);
    et_free(self);
}

static void convert_close(et_source *source)
{
    convert *self = (convert *)source;
    et_source_close(self->inner);
    if (self->owned)
        et_free(self->payload);
    release(self);
}

static int convert_batches(et_source *source, int64_t *count, et_error *error)
{
    return et_source_batches(((convert *)source)->inner, count, error);
}

static uint64_t convert_content(const et_source *source)
{
    return et_source_content(((const convert *)source)->inner);
}

static const et_source_class convert_class = {
    "convert",     convert_next,    convert_position, convert_seek,   convert_describe,
    convert_close, convert_batches, convert_content,  convert_rewind,
};

/* layout has the rows; passed is adopted. */
static int convert_open(convert **out, et_source *inner, const et_layout *layout, int *passed,
                        et_error *error)
{
    convert *self = et_alloc_zero(1, sizeof *self);
    if (!self) {
        et_free(passed);
        return et_alloc_failed(error, sizeof *self, "a source");
    }
    self->source = (et_source){ .class = &convert_class, .layout = *layout, .begun = inner->begun };
    self->inner = inner;
    self->passed = passed;
    int status = et_layout_own(&self->field, layout->field, layout->fields, error);
    if (!status)
        status = et_batch_new(&self->from, &inner->layout, error);
    if (status) {
        release(self);
        return status;
    }
    self->source.layout.field = self->field;
    *out = self;
    return ET_OK;
}

static int mask_of(const et_layout *layout)
{
    for (int i = 0; i < layout->fields; i++)
        if (layout->field[i].empty == ET_EMPTY_MASK)
            return i;
    return -1;
}

/* ---- select ---- */

/* The chosen fields, in order, then the mask. */
static int choose(const et_layout *inner, const char *const *fields, int count,
                  et_layout_field *row, int *passed, int *chosen, et_error *error)
{
    int mask = mask_of(inner);
    bool masked = mask < 0;
    for (int i = 0; i < count; i++) {
        int at = fields[i] ? et_layout_find(inner, fields[i]) : -1;
        if (at < 0)
            return et_fail(error, ET_ECONFIG,
                           "batches have no field %s to select; one is called %s",
                           fields[i] ? fields[i] : "(without a name)", inner->field[0].name);
        masked = masked || at == mask;
        passed[(*chosen)++] = at;
    }
    if (!masked)
        passed[(*chosen)++] = mask;
    for (int i = 0; i < *chosen; i++)
        row[i] = inner->field[passed[i]];
    return ET_OK;
}

int et_select_open(et_source **out, et_source *inner, const char *const *fields, int count,
                   et_error *error)
{
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "no field is selected: name at least one");
    int *passed = et_alloc((size_t)count + 1, sizeof *passed);
    et_layout_field *row = et_alloc((size_t)count + 1, sizeof *row);
    et_layout layout = inner->layout;
    convert *self = NULL;
    layout.field = row;
    layout.fields = 0;
    int status =
        passed && row ? ET_OK : et_alloc_failed(error, (size_t)count * sizeof *row, "a choice");
    if (!status)
        status = choose(&inner->layout, fields, count, row, passed, &layout.fields, error);
    if (status)
        et_free(passed);
    else
        status = convert_open(&self, inner, &layout, passed, error);
    et_free(row);
    if (!status)
        *out = &self->source;
    return status;
}

/* ---- convert ---- */

/* Inner's rows, with new rows in place of one or after them. */
static void replace(et_layout *layout, et_layout_field *row, int *passed,
                    const et_layout_field *made, int count)
{
    memcpy(row, layout->field, (size_t)layout->fields * sizeof *row);
    layout->field = row;
    for (int i = 0; i < layout->fields; i++)
        passed[i] = i;
    for (int i = 0; i < count; i++) {
        int at = made[i].name ? et_layout_find(layout, made[i].name) : -1;
        if (at < 0)
            at = layout->fields++;
        row[at] = made[i];
        passed[at] = MADE;
        if (!row[at].name)
            return;
    }
}

static int open_made(convert **out, et_source *inner, const et_layout_field *made, int count,
                     et_convert_fn *make, void *payload, et_error *error)
{
    et_assert(inner);
    if (count < 1 || !made || !make)
        return et_fail(error, ET_ECONFIG,
                       "a conversion to %d fields: give at least one field, and the function that "
                       "fills the fields",
                       made ? count : 0);
    size_t most = (size_t)inner->layout.fields + (size_t)count;
    int *passed = et_alloc(most, sizeof *passed);
    et_layout_field *row = et_alloc(most, sizeof *row);
    if (!passed || !row) {
        et_free(passed);
        et_free(row);
        return et_alloc_failed(error, most * sizeof *row, "a conversion");
    }
    et_layout layout = inner->layout;
    replace(&layout, row, passed, made, count);
    int status = et_layout_check(&layout, error);
    if (status)
        et_free(passed);
    else
        status = convert_open(out, inner, &layout, passed, error);
    et_free(row);
    if (!status) {
        (*out)->make = make;
        (*out)->payload = payload;
    }
    return status;
}

int et_convert_open(et_source **out, et_source *inner, const et_layout_field *made, int count,
                    et_convert_fn *make, void *payload, et_error *error)
{
    convert *self = NULL;
    int status = open_made(&self, inner, made, count, make, payload, error);
    if (!status)
        *out = &self->source;
    return status;
}

int et_convert_adopt(et_source **out, et_source *inner, const et_layout_field *made, int count,
                     et_convert_fn *make, void *payload, et_error *error)
{
    convert *self = NULL;
    int status = open_made(&self, inner, made, count, make, payload, error);
    if (status)
        return status;
    self->owned = true;
    *out = &self->source;
    return ET_OK;
}
