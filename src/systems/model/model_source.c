#include "systems/model/model_source.h"

#include <string.h>

#include "data/batches/source.h"
#include "engine/tensor/layout.h"

static et_model_source *outer_of(et_source *source)
{
    return (et_model_source *)(void *)source;
}

static const et_model_source *const_outer_of(const et_source *source)
{
    return (const et_model_source *)(const void *)source;
}

static int next(et_source *self, et_batch *batch, et_error *error)
{
    et_model_source *outer = outer_of(self);
    et_batch_clear(batch);
    int status = outer->inner ? et_source_next(outer->inner, batch, error) : ET_OK;
    if (status || batch->filled[0] || !outer->repeats || !outer->inner)
        return status;
    status = et_source_rewind_to(outer->inner, true, error);
    return status ? status : et_source_next(outer->inner, batch, error);
}

static void position(const et_source *self, et_position *out)
{
    const et_model_source *outer = const_outer_of(self);
    if (outer->inner)
        et_source_position(outer->inner, out);
}

static int seek(et_source *self, const et_position *to, et_error *error)
{
    et_model_source *outer = outer_of(self);
    return outer->inner ? et_source_seek(outer->inner, to, error) : ET_OK;
}

static int rewind_inner(et_source *self, bool again, et_error *error)
{
    et_model_source *outer = outer_of(self);
    return outer->inner ? et_source_rewind_to(outer->inner, again, error) : ET_OK;
}

static void describe(const et_source *self, const et_batch *batch, char *text, size_t size)
{
    const et_model_source *outer = const_outer_of(self);
    if (outer->inner)
        et_source_describe(outer->inner, batch, text, size);
}

static void close_outer(et_source *self)
{
    (void)self; /* a member of the model */
}

static int batches(et_source *self, int64_t *count, et_error *error)
{
    et_model_source *outer = outer_of(self);
    *count = 0;
    return outer->inner ? et_source_batches(outer->inner, count, error) : ET_OK;
}

static uint64_t content(const et_source *self)
{
    const et_model_source *outer = const_outer_of(self);
    return outer->inner ? et_source_content(outer->inner) : 0;
}

void et_model_source_init(et_model_source *outer, const et_layout *layout, bool repeats)
{
    static const et_source_class class = { .name = "outer",
                                           .next = next,
                                           .position = position,
                                           .seek = seek,
                                           .describe = describe,
                                           .close = close_outer,
                                           .batches = batches,
                                           .content = content,
                                           .rewind = rewind_inner };
    *outer = (et_model_source){ .source = { .class = &class, .layout = *layout, .begun = true },
                                .repeats = repeats };
}

static int misfit(const et_layout *wanted, const et_layout *given, et_error *error)
{
    for (int f = 0; f < wanted->fields; f++) {
        const et_layout_field *field = &wanted->field[f];
        const int at = et_layout_find(given, field->name);
        if (at < 0 || given->field[at].dtype != field->dtype ||
            !et_shape_equal(given->field[at].item, field->item))
            return et_fail(error, ET_ECONFIG,
                           "the source's batches have %s field %s as this model reads it: give "
                           "the fields of et_model_options",
                           at < 0 ? "no" : "another", field->name);
    }
    if (given->capacity[0] != wanted->capacity[0])
        return et_fail(error, ET_ECONFIG,
                       "the source's batches have %lld samples, but this model's have %lld: make "
                       "them equal",
                       (long long)given->capacity[0], (long long)wanted->capacity[0]);
    return et_fail(error, ET_ECONFIG,
                   "the source's batches have other fields than this model: give the fields of "
                   "et_model_options, and no others");
}

int et_model_source_set(et_model_source *outer, et_source *inner, et_error *error)
{
    if (inner && !et_layout_fits(&inner->layout, &outer->source.layout))
        return misfit(&outer->source.layout, &inner->layout, error);
    if (outer->inner)
        et_source_end(outer->inner);
    outer->inner = NULL;
    int status =
        inner ? et_source_begin(inner, outer->repeats ? "a training" : "an evaluation", error)
              : ET_OK;
    if (!status)
        outer->inner = inner;
    return status;
}
