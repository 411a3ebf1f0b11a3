/* Shared functions of the transforms' fit: names, problems, lines, and points in order. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/text/strbuf.h"
#include "data/table/features/encoder_private.h"
#include "data/table/features/transforms.h"

/* A column is constant if its standard deviation is below this share of its mean: the deviation is
 * only rounding. Times in nanoseconds since 1970 that differ by a millisecond are not constant. */
#define STD_MIN DBL_EPSILON

const char *const et_transform_words[ET_TRANSFORM_COUNT + 1] = {
#define TRANSFORM(constant, function, word, over, gives, takes) word,
#include "data/table/features/transforms.def"
#undef TRANSFORM
    NULL,
};

const char *et_transform_name(et_transform type)
{
    return type >= 0 && type < ET_TRANSFORM_COUNT ? et_transform_words[type] : "unknown";
}

/* ---- common functions of fit ---- */

void et_fitting_problem(const et_fitting *with, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (with->spec->line)
        et_problems_add(with->problems, "line %d: feature %s: %s", with->spec->line,
                        with->spec->name, text);
    else
        et_problems_add(with->problems, "feature %s: %s", with->spec->name, text);
}

const char **et_fit_columns(et_fitted_transform *fitted, const et_fitting *with, int64_t width)
{
    const char **names = et_arena_array(with->arena, width, sizeof *names);
    fitted->width = width;
    fitted->column = names;
    return names;
}

void et_fit_one_column(et_fitted_transform *fitted, const et_fitting *with)
{
    const char **names = et_fit_columns(fitted, with, 1);
    if (names)
        names[0] = with->name;
}

void et_fit_line(et_fitted_transform *fitted, const et_fitting *with)
{
    et_fit_one_column(fitted, with);
    fitted->divisor = fitted->span = 1;
}

void et_fitting_lacks(const et_fitting *with, const char *what)
{
    const et_column_metadata *m = with->metadata;
    if (!m->count && m->missing)
        et_fitting_problem(with, "%s has no value in any row: remove the feature",
                           with->field->name);
    else
        et_fitting_problem(with,
                           "the metadata has no %s of %s, which %s needs: make the metadata again",
                           what, with->field->name, et_transform_name(with->spec->type));
}

void et_fit_standardize(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    et_fit_line(fitted, with);
    if (!m->has_moments) {
        et_fitting_lacks(with, "mean and std");
        return;
    }
    bool constant =
        (m->has_range && m->min == m->max) || !(m->std > STD_MIN * fabs(m->mean)) || m->std == 0;
    fitted->offset = m->mean;
    fitted->divisor = constant ? 1 : m->std;
    fitted->span = constant ? 0 : 1;
}

/* ---- points ---- */

int et_fitted_points_below(const et_fitted_transform *f, double x, bool or_equal)
{
    int low = 0, high = f->points;
    while (low < high) {
        int middle = low + (high - low) / 2;
        double p = f->point[middle];
        if (or_equal ? p <= x : p < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- dictionaries ---- */

/* Open addressing with linear probing over slots of 8 bytes: half of the hash, and the position. At
 * most half of the slots are used, so a search soon meets an empty one. */

typedef struct et_dictionary_slot {
    uint32_t hash;  /* the upper half; the lower one chooses the slot */
    uint32_t index; /* + 1; 0: empty */
} slot;

static slot *find(const et_dictionary *self, const char *text, size_t length, uint32_t *high)
{
    uint64_t hash = et_checksum(text, length), at = hash & self->mask;
    *high = (uint32_t)(hash >> 32);
    for (;; at = (at + 1) & self->mask) {
        slot *s = &self->slots[at];
        if (!s->index)
            return s;
        uint32_t index = s->index - 1;
        if (s->hash == *high && self->lengths[index] == length &&
            !memcmp(self->texts[index], text, length))
            return s;
    }
}

et_dictionary *et_dictionary_new(et_arena *arena, const char *const *texts, int count)
{
    et_assert(count >= 0);
    uint64_t size = 4;
    while (size < 2 * (uint64_t)count)
        size *= 2;
    et_dictionary *self = et_arena_alloc(arena, sizeof *self);
    if (!self)
        return NULL;
    self->mask = size - 1;
    self->slots = et_arena_array(arena, size, sizeof *self->slots);
    self->texts = et_arena_array(arena, count, sizeof *self->texts);
    self->lengths = et_arena_array(arena, count, sizeof *self->lengths);
    if (!self->slots || !self->texts || !self->lengths)
        return NULL;
    for (int i = 0; i < count; i++) {
        uint32_t high;
        self->texts[i] = et_arena_strdup(arena, texts[i]);
        self->lengths[i] = strlen(texts[i]);
        if (!self->texts[i])
            return NULL;
        slot *s = find(self, self->texts[i], self->lengths[i], &high);
        if (!s->index)
            *s = (slot){ high, (uint32_t)i + 1 };
    }
    self->count = count;
    return self;
}

int et_dictionary_find(const et_dictionary *self, const char *text, size_t length)
{
    uint32_t high;
    return (int)find(self, text, length, &high)->index - 1;
}
