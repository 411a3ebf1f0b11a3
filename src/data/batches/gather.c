/* Fields of several samples, or of several sources, side by side in one batch.
 *
 * Kind 0, the samples, is common. The other kinds follow part by part: kinds 1 2 of one part and 1
 * of the next become 1 2 3. If several parts have a mask, the batch has the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/flows.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/text/unicode.h"
#include "data/batches/source.h"
#include "engine/tensor/tensor.h"

/* Offsets of the parts' layouts in the joined layout. */
typedef struct offsets {
    et_layout layout;
    et_layout_field *field; /* [layout.fields], owned */
    int *at;                /* [parts][fields of the part]: field numbers, one part after another */
    int *first;             /* [parts]: in at */
    int *kind;              /* [parts]: the joined kind for kind 1 of the part */
    et_arena arena;         /* of these lists */
} offsets;

static void release_offsets(offsets *p)
{
    et_free(p->field);
    et_arena_release(&p->arena);
    *p = (offsets){ .field = NULL };
}

static int no_room(et_error *error)
{
    return et_alloc_failed(error, "a gathering of data");
}

/* The index of a part's kind. */
static int kind_at(const offsets *p, int part, int kind)
{
    return kind ? p->kind[part] + kind - 1 : 0;
}

static int add_kinds(offsets *p, const et_layout *part, int i, et_error *error)
{
    et_layout *all = &p->layout;
    p->kind[i] = all->kinds;
    if (all->kinds + part->kinds - 1 > ET_LAYOUT_KINDS)
        return et_fail(error, ET_ECONFIG, "batches of more than %d kinds: gather fewer parts",
                       ET_LAYOUT_KINDS);
    for (int k = 1; k < part->kinds; k++) {
        all->kind[all->kinds] = part->kind[k];
        all->capacity[all->kinds++] = part->capacity[k];
    }
    return ET_OK;
}

/* row: the joined fields; as many as all parts have together. */
static int add_fields(offsets *p, const et_layout *part, int i, et_layout_field *row,
                      et_error *error)
{
    et_layout *all = &p->layout;
    for (int f = 0; f < part->fields; f++) {
        int at = et_layout_find(all, part->field[f].name);
        bool mask = at >= 0 && row[at].empty == ET_EMPTY_MASK && row[at].kind == 0 &&
                    part->field[f].empty == ET_EMPTY_MASK && part->field[f].kind == 0;
        if (at >= 0 && !mask)
            return et_fail(
                error, ET_ECONFIG,
                "part %d and another part both have a field %s: rename one of the fields", i,
                part->field[f].name);
        p->at[p->first[i] + f] = mask ? at : all->fields;
        if (mask)
            continue;
        et_layout_field *made = &row[all->fields++];
        *made = part->field[f];
        made->kind = kind_at(p, i, made->kind);
        made->offsets_of = kind_at(p, i, made->offsets_of);
    }
    return ET_OK;
}

static int make_offsets(offsets *p, const et_layout *const *part, int count, et_error *error)
{
    et_arena *arena = &p->arena;
    size_t fields = 0, parts = (size_t)count;
    et_assert(count >= 1);
    p->first = et_arena_array(arena, parts, sizeof *p->first);
    p->kind = et_arena_array(arena, parts, sizeof *p->kind);
    for (int i = 0; p->first && i < count; i++) {
        p->first[i] = (int)fields;
        fields += (size_t)part[i]->fields;
    }
    p->at = et_arena_array(arena, fields, sizeof *p->at);
    et_layout_field *row = et_arena_array(arena, fields, sizeof *row);
    p->layout = *part[0];
    p->layout.kinds = 1;
    p->layout.fields = 0;
    p->layout.field = row;
    int status = arena->failed ? no_room(error) : ET_OK;
    for (int i = 0; !status && i < count; i++) {
        status = add_kinds(p, part[i], i, error);
        if (!status)
            status = add_fields(p, part[i], i, row, error);
    }
    if (!status)
        status = et_layout_own(&p->field, row, p->layout.fields, error);
    if (status)
        release_offsets(p);
    else
        p->layout.field = p->field;
    return status;
}

/* parts: pointers to sources or samples. */
static int check_parts_given(const void *const *parts, int count, et_error *error)
{
    if (count < 1 || count > UINT8_MAX)
        return et_fail(error, ET_ECONFIG, "%d parts to gather: give 1 to %d", count, UINT8_MAX);
    for (int i = 0; i < count; i++)
        if (!parts || !parts[i])
            return et_fail(error, ET_EUSAGE, "part %d to gather is NULL", i);
    return ET_OK;
}

/* ---- samples ---- */

typedef struct gather {
    et_samples samples;
    et_samples **parts; /* [count], owned */
    int count;
    offsets offsets;
    void **data; /* [fields of the largest part]: a part's fields in a batch */
} gather;

static void gather_sizes(const et_samples *samples, et_pick pick, int32_t *const *sizes)
{
    const gather *self = (const gather *)samples;
    int32_t *at[ET_LAYOUT_KINDS] = { NULL };
    for (int i = 0; i < self->count; i++) {
        const et_samples *part = self->parts[i];
        for (int k = 1; k < part->layout.kinds; k++)
            at[k] = sizes[kind_at(&self->offsets, i, k)];
        if (part->layout.kinds > 1)
            part->class->sizes(part, pick, at);
    }
}

static int fill_part(gather *self, int i, et_pick pick, et_batch *batch, et_error *error)
{
    et_samples *part = self->parts[i];
    const offsets *p = &self->offsets;
    et_layout layout = part->layout;
    for (int f = 0; f < layout.fields; f++)
        self->data[f] = batch->data[p->at[p->first[i] + f]];
    et_batch view = et_batch_view(&layout, self->data, batch);
    for (int k = 0; k < layout.kinds; k++) {
        layout.capacity[k] = batch->layout->capacity[kind_at(p, i, k)];
        view.filled[k] = batch->filled[kind_at(p, i, k)];
    }
    int status = part->class->fill(part, pick, &view, error);
    if (status)
        return status;
    et_assert_equal(view.filled[0], batch->filled[0] + pick.count);
    for (int k = 1; k < layout.kinds; k++)
        batch->filled[kind_at(p, i, k)] = view.filled[k];
    return ET_OK;
}

static int gather_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    gather *self = (gather *)samples;
    int status = ET_OK;
    for (int i = 0; !status && i < self->count; i++)
        status = fill_part(self, i, pick, batch, error);
    if (!status)
        batch->filled[0] += pick.count;
    return status;
}

static void gather_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                            size_t size)
{
    const gather *self = (const gather *)samples;
    int i = self->count - 1;
    while (i > 0 && (kind == 0 || self->offsets.kind[i] > kind))
        i--;
    self->parts[i]->class->describe(self->parts[i], which,
                                    kind ? kind - self->offsets.kind[i] + 1 : 0, text, size);
}

static void release_gather(gather *self)
{
    release_offsets(&self->offsets);
    et_free(self->parts);
    et_free(self->data);
    et_free(self);
}

static void gather_close(et_samples *samples)
{
    gather *self = (gather *)samples;
    for (int i = 0; i < self->count; i++)
        et_samples_close(self->parts[i]);
    release_gather(self);
}

static const et_samples_class gather_class = {
    .name = "gather",
    .sizes = gather_sizes,
    .fill = gather_fill,
    .describe = gather_describe,
    .close = gather_close,
};

static void measure(gather *self)
{
    et_samples *s = &self->samples;
    uint64_t print = (uint64_t)self->count;
    s->count = self->parts[0]->count;
    s->total[0] = s->count;
    s->largest[0] = 1;
    for (int i = 0; i < self->count; i++) {
        const et_samples *part = self->parts[i];
        for (int k = 1; k < part->layout.kinds; k++) {
            s->total[kind_at(&self->offsets, i, k)] = part->total[k];
            s->largest[kind_at(&self->offsets, i, k)] = part->largest[k];
        }
        uint64_t facts[] = { print, part->fingerprint };
        print = et_checksum(facts, sizeof facts);
    }
    s->fingerprint = print;
}

int et_gather_open(et_samples **out, et_samples *const *parts, int count, et_error *error)
{
    const et_layout *layout[UINT8_MAX];
    size_t fields = 0;
    int status = check_parts_given((const void *const *)parts, count, error);
    for (int i = 1; !status && i < count; i++)
        if (parts[i]->count != parts[0]->count)
            status = et_fail(error, ET_ECONFIG,
                             "%s has %lld samples, but %s has %lld: gathered parts need equal "
                             "numbers of samples",
                             parts[0]->layout.field[0].name, (long long)parts[0]->count,
                             parts[i]->layout.field[0].name, (long long)parts[i]->count);
    gather *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : no_room(error);
    for (int i = 0; i < count; i++) {
        layout[i] = &parts[i]->layout;
        fields += (size_t)layout[i]->fields;
    }
    self->count = count;
    self->parts = et_alloc(count, sizeof(et_samples *));
    self->data = et_alloc(fields, sizeof *self->data);
    status = self->parts && self->data ? ET_OK : no_room(error);
    if (!status)
        status = make_offsets(&self->offsets, layout, count, error);
    if (status) {
        release_gather(self);
        return status;
    }
    memcpy(self->parts, parts, count * sizeof(et_samples *));
    self->samples.class = &gather_class;
    self->samples.layout = self->offsets.layout;
    measure(self);
    *out = &self->samples;
    return ET_OK;
}

/* ---- sources ---- */

/* A position has the numbers of all parts, each name prefixed by the part's number: "0/epoch",
 * "1/epoch". */

#define NUMBER_MAX 64

typedef struct gathered {
    et_source *source; /* owned */
    et_batch *batch;
    int64_t pass; /* epoch of the previous batch; -1: none */
} gathered;

typedef struct sources {
    et_source source;
    gathered *parts; /* [count] */
    int count;
    offsets offsets;
    char number[ET_POSITION_MAX][NUMBER_MAX]; /* names of a position's, in order */
} sources;

static int unequal(const sources *self, int i, et_error *error)
{
    const et_batch *first = self->parts[0].batch, *other = self->parts[i].batch;
    return et_fail(error, ET_EDATA,
                   "%s has a batch of %lld %ss where %s has one of %lld (pass %lld and %lld): "
                   "gathered sources need equally many batches of equal size",
                   first->layout->field[0].name, (long long)first->filled[0],
                   first->layout->kind[0], other->layout->field[0].name,
                   (long long)other->filled[0], (long long)first->epoch, (long long)other->epoch);
}

/* Whether a part begins another pass with its batch. */
static bool begins_pass(const gathered *part)
{
    return part->pass >= 0 && part->batch->epoch != part->pass;
}

/* The parts must end together: a part that repeats would continue with rows that do not belong
 * together. */
static int check_parts(sources *self, et_error *error)
{
    const gathered *first = self->parts;
    for (int i = 1; i < self->count; i++) {
        const gathered *part = &self->parts[i];
        if (part->batch->filled[0] != first->batch->filled[0] ||
            (first->batch->filled[0] && begins_pass(part) != begins_pass(first)))
            return unequal(self, i, error);
    }
    for (int i = 0; i < self->count; i++)
        self->parts[i].pass = self->parts[i].batch->epoch;
    return ET_OK;
}

static int sources_next(et_source *source, et_batch *batch, et_error *error)
{
    sources *self = (sources *)source;
    const et_batch *first = self->parts[0].batch;
    int status = ET_OK;
    for (int i = 0; !status && i < self->count; i++)
        status = et_source_next(self->parts[i].source, self->parts[i].batch, error);
    if (!status)
        status = check_parts(self, error);
    if (status)
        return status;
    et_batch_clear(batch);
    if (!first->filled[0])
        return ET_OK;
    batch->filled[0] = first->filled[0];
    batch->epoch = first->epoch;
    memcpy(batch->sample, first->sample, batch->filled[0] * sizeof *batch->sample);
    for (int i = 0; i < self->count; i++) {
        const offsets *p = &self->offsets;
        const et_batch *from = self->parts[i].batch;
        for (int k = 1; k < from->layout->kinds; k++)
            batch->filled[kind_at(p, i, k)] = from->filled[k];
        for (int f = 0; f < from->layout->fields; f++)
            memcpy(batch->data[p->at[p->first[i] + f]], from->data[f],
                   et_layout_bytes(from->layout, f));
    }
    return ET_OK;
}

static void sources_position(const et_source *source, et_position *position)
{
    const sources *self = (const sources *)source;
    for (int i = 0; i < self->count; i++) {
        et_position part;
        et_source_position(self->parts[i].source, &part);
        for (int n = 0; n < part.count; n++)
            et_position_put(position, self->number[position->count], part.value[n]);
    }
}

/* The numbers of part i. */
static et_position position_of(const et_position *position, int i)
{
    et_position part = { 0 };
    for (int n = 0; n < position->count; n++) {
        char *rest;
        const char *name = position->name[n];
        if (et_ascii_is_digit(*name) && strtol(name, &rest, 10) == i && *rest == '/')
            et_position_put(&part, rest + 1, position->value[n]);
    }
    return part;
}

/* Seeks all parts or none: if a part refuses, the parts before it go back. */
static int sources_seek(et_source *source, const et_position *position, et_error *error)
{
    sources *self = (sources *)source;
    et_position before = { 0 };
    int status = ET_OK, moved = 0;
    sources_position(source, &before);
    for (int i = 0; i < self->count; i++)
        self->parts[i].pass = -1;
    for (; !status && moved < self->count; moved++) {
        et_position part = position_of(position, moved);
        status = et_source_seek(self->parts[moved].source, &part, error);
    }
    for (int i = 0; status && i < moved - 1; i++) {
        et_position part = position_of(&before, i);
        et_source_seek(self->parts[i].source, &part, NULL);
    }
    return status;
}

/* Parts that repeat are in the same pass, because next fails otherwise. */
static int sources_rewind(et_source *source, bool next, et_error *error)
{
    sources *self = (sources *)source;
    int status = ET_OK;
    for (int i = 0; !status && i < self->count; i++) {
        self->parts[i].pass = -1;
        status = et_source_rewind_to(self->parts[i].source, next, error);
    }
    return status;
}

static void sources_describe(const et_source *source, const et_batch *batch, char *text,
                             size_t size)
{
    const gathered *first = &((const sources *)source)->parts[0];
    et_batch view = et_batch_view(&first->source->layout, first->batch->data, batch);
    et_source_describe(first->source, &view, text, size);
}

static void release_sources(sources *self)
{
    for (int i = 0; self->parts && i < self->count; i++)
        et_batch_free(self->parts[i].batch);
    et_free(self->parts);
    release_offsets(&self->offsets);
    et_free(self);
}

static void sources_close(et_source *source)
{
    sources *self = (sources *)source;
    for (int i = 0; i < self->count; i++)
        et_source_close(self->parts[i].source);
    release_sources(self);
}

/* All parts have the same number of batches. */
static int sources_batches(et_source *source, int64_t *count, et_error *error)
{
    return et_source_batches(((sources *)source)->parts[0].source, count, error);
}

/* Unknown if the content of any part is unknown. */
static uint64_t sources_content(const et_source *source)
{
    const sources *self = (const sources *)source;
    uint64_t print = (uint64_t)self->count;
    for (int i = 0; i < self->count; i++)
        print = et_content_joined(print, et_source_content(self->parts[i].source));
    return print;
}

static const et_source_class sources_class = {
    "gather",      sources_next,    sources_position, sources_seek,   sources_describe,
    sources_close, sources_batches, sources_content,  sources_rewind,
};

static int fill_sources(sources *self, et_source *const *parts, int count, et_error *error)
{
    const et_layout *layout[UINT8_MAX];
    self->parts = et_alloc_zero(count, sizeof *self->parts);
    if (!self->parts)
        return no_room(error);
    self->count = count;
    int status = ET_OK;
    for (int i = 0; !status && i < count; i++) {
        layout[i] = &parts[i]->layout;
        self->parts[i].source = parts[i];
        self->parts[i].pass = -1;
        status = et_batch_new(&self->parts[i].batch, layout[i], error);
    }
    if (status)
        return status;
    int numbers = 0;
    for (int i = 0; i < self->count; i++) {
        et_position part;
        et_source_position(self->parts[i].source, &part);
        if (numbers + part.count > ET_POSITION_MAX)
            return et_fail(error, ET_ECONFIG,
                           "the positions of %d sources need more than %d numbers: gather samples, "
                           "or fewer sources",
                           self->count, ET_POSITION_MAX);
        for (int n = 0; n < part.count; n++)
            if (snprintf(self->number[numbers++], NUMBER_MAX, "%d/%s", i, part.name[n]) >=
                NUMBER_MAX)
                return et_fail(error, ET_ECONFIG, "a position's number %s: its name is too long",
                               part.name[n]);
    }
    return make_offsets(&self->offsets, layout, count, error);
}

int et_gather_sources_open(et_source **out, et_source *const *parts, int count, et_error *error)
{
    int status = check_parts_given((const void *const *)parts, count, error);
    for (int i = 1; !status && i < count; i++) {
        const et_layout *first = &parts[0]->layout, *other = &parts[i]->layout;
        if (first->capacity[0] != other->capacity[0])
            status = et_fail(error, ET_ECONFIG,
                             "%s has batches of %lld, but %s has batches of %lld: gathered sources "
                             "need equal batch sizes",
                             first->field[0].name, (long long)first->capacity[0],
                             other->field[0].name, (long long)other->capacity[0]);
    }
    sources *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : no_room(error);
    status = fill_sources(self, parts, count, error);
    if (status) {
        release_sources(self);
        return status;
    }
    self->source = (et_source){ .class = &sources_class, .layout = self->offsets.layout };
    for (int i = 0; i < count; i++)
        self->source.begun |= parts[i]->begun;
    *out = &self->source;
    return ET_OK;
}
