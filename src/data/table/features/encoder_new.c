/* Makes an encoder: goes through the features once, looks up fields, fits transforms, and collects
 * all contradictions between schema, metadata and features. */
#include "data/table/features/encoder_private.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/files/checksum.h"
#include "base/vector.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/notation.h"

/* Raise this when rows come to be encoded differently. */
#define ENCODER_VERSION 1
/* Most cells of a row, and most columns of a feature: more mean a wrong length. */
#define CELLS_MAX   (1 << 20)
#define COLUMNS_MAX (1 << 20)

/* State while an encoder is made. */
typedef struct building {
    et_encoder *self;
    const et_metadata *metadata;
    const et_feature_set *features;
    const char **names; /* of the schema's fields, ended by NULL: for hints */
    et_problems problems;
    const et_feature_spec *top; /* the feature of the set that is being added */
    bool ids, numbers;          /* kinds of columns that the feature's leaves gave */
    bool exact;
    et_error *error;
} building;

static int no_memory(const building *b)
{
    return et_alloc_failed(b->error, "an encoder");
}

/* ---- values of a row ---- */

static int add_inputs(building *b, const et_schema *schema)
{
    et_encoder *self = b->self;
    int count = et_schema_count(schema), status;
    et_schema_field *fields = et_alloc(count, sizeof *fields);
    if (!fields)
        return no_memory(b);
    for (int i = 0; i < count; i++)
        fields[i] = *et_schema_at(schema, i);
    status = et_schema_create(&self->schema, fields, count, b->error);
    et_free(fields);
    if (status)
        return status;
    self->row.begin = et_arena_array(&self->arena, (size_t)count + 1, sizeof *self->row.begin);
    for (int k = 0; k < 2; k++)
        self->row.reads[k] = et_arena_array(&self->arena, count, sizeof *self->row.reads[k]);
    self->levels = et_arena_array(&self->arena, count, sizeof *self->levels);
    b->names = et_arena_array(&self->arena, (size_t)count + 1, sizeof *b->names);
    if (self->arena.failed)
        return no_memory(b);
    for (int i = 0; i < count; i++) {
        const et_schema_field *f = et_schema_at(self->schema, i);
        int64_t length = f->length == ET_SCHEMA_VARIABLE ? 1 : f->length;
        b->names[i] = f->name;
        if (length > CELLS_MAX - self->row.begin[i])
            return et_fail(b->error, ET_ECONFIG,
                           "field %s of the schema: a row of more than %d values: lower its length",
                           f->name, CELLS_MAX);
        self->row.begin[i + 1] = self->row.begin[i] + (int)length;
    }
    self->row.schema = self->schema;
    self->row.count = self->row.begin[count];
    self->inputs = et_arena_array(&self->arena, self->row.count, sizeof *self->inputs);
    for (int i = 0; self->inputs && i < count; i++) {
        const et_schema_field *f = et_schema_at(self->schema, i);
        /* The schema's replacement for a missing value. The schema has checked that a numeric
         * field's replacement is a number. */
        et_reading value = { .numeric = et_schema_numeric(f), .missing = !f->missing };
        if (f->missing) {
            value.text = f->missing;
            value.length = strlen(f->missing);
        }
        if (f->missing && value.numeric)
            et_number_parse(&value.number, value.text, value.length);
        for (int c = self->row.begin[i]; c < self->row.begin[i + 1]; c++)
            self->inputs[c] = (et_encoder_input){ f, value };
    }
    return self->inputs ? ET_OK : no_memory(b);
}

/* ---- steps ---- */

static et_fitting fitting(building *b, const et_feature_spec *spec)
{
    return (et_fitting){
        .spec = spec, .problems = &b->problems, .arena = &b->self->arena, .exact = b->exact
    };
}

#define problem(b, spec, ...)                                                                      \
    do {                                                                                           \
        et_fitting problem_of = fitting(b, spec);                                                  \
        et_fitting_problem(&problem_of, __VA_ARGS__);                                              \
    } while (0)

/* The field of a feature. -1: the field is missing or has another type, and a problem was added. */
static int find_field(building *b, const et_feature_spec *spec, const char *name)
{
    int position = et_schema_position(b->self->schema, name);
    if (position < 0) {
        problem(b, spec, "the schema has no field %.60s%s", name,
                et_nearest_hint(name, b->names, "").text);
        return -1;
    }
    const et_schema_field *f = et_schema_at(b->self->schema, position);
    et_transform_over over = et_transform_rows[spec->type].over;
    if (f->length == ET_SCHEMA_VARIABLE &&
        !(et_transform_rows[spec->type].takes & ET_TAKES_LISTS)) {
        problem(b, spec,
                "%s has variable length: use one-hot, bucketize or missing, or set its length in "
                "the schema",
                name);
        return -1;
    }
    if ((over == ET_OVER_TEXTS && f->type != ET_SCHEMA_DISCRETE) ||
        (over == ET_OVER_NUMBERS && f->type == ET_SCHEMA_DISCRETE) ||
        (over == ET_OVER_LABELS && f->type == ET_SCHEMA_REAL)) {
        problem(b, spec, "%s does not work on %s fields such as %s: use %s",
                et_transform_name(spec->type), et_schema_type_name(f->type), name,
                f->type == ET_SCHEMA_DISCRETE ? "embed, one-hot or hash"
                                              : "standardize, quantile, scale or bucketize");
        return -1;
    }
    return position;
}

/* Largest step of a float32 at a column's mean, in its deviations. Values with larger steps are too
 * coarse to learn from. */
#define STEP_MOST 1e-3

static bool is_coarse(const et_fitted_transform *f, et_transform type, const et_column_metadata *m)
{
    double mean, std;
    if (!m || !m->has_moments || f->cardinality || !(m->std > 0) ||
        (m->has_range && m->min == m->max))
        return false;
    switch (type) {
    case ET_TRANSFORM_IDENTITY:
    case ET_TRANSFORM_TARGET:
    case ET_TRANSFORM_SCALE:
    case ET_TRANSFORM_STANDARDIZE:
        mean = f->base + (m->mean - f->offset) / f->divisor * f->span;
        std = m->std / f->divisor * f->span;
        break;
    case ET_TRANSFORM_LOG:
        mean = log1p(m->mean);
        std = m->std / (1 + m->mean);
        break;
    default:
        return false;
    }
    return std != 0 && fabs(mean) * (double)FLT_EPSILON > STEP_MOST * fabs(std);
}

/* Adds a step, fitted to the column of one cell. cells: [count], in the arena. */
static int put_step(building *b, const et_feature_spec *spec, const et_transform_row *row,
                    const int *cells, int count, int at)
{
    et_encoder *self = b->self;
    const et_schema_field *f = self->inputs[cells[0]].field;
    et_fitting with = fitting(b, spec);
    with.field = f;
    with.metadata = et_metadata_find(b->metadata, f->name);
    with.name = f->length > 1 ? et_arena_printf(&self->arena, "%s[%d]", f->name, at) : f->name;
    if (!with.name || !ET_VECTOR_GROW(self->steps, self->step_capacity, self->step_count + 1))
        return no_memory(b);
    et_encoder_step *s = &self->steps[self->step_count++];
    *s = (et_encoder_step){ .fitted = { .row = row, .input = cells, .inputs = count },
                            .field = self->field_count };
    row->fit(&s->fitted, &with);
    s->coarse =
        row == &et_transform_rows[spec->type] && is_coarse(&s->fitted, spec->type, with.metadata);
    return self->arena.failed ? no_memory(b) : ET_OK;
}

static void mark(building *b, const et_feature_spec *spec, int position)
{
    bool target = spec->type == ET_TRANSFORM_TARGET || spec->type == ET_TRANSFORM_WEIGHT;
    const et_transform type = spec->type;
    const et_encoder_levels levels =
        type == ET_TRANSFORM_EMBED || type == ET_TRANSFORM_ONE_HOT ? ET_LEVELS_KNOWN
        : type == ET_TRANSFORM_HASH || type == ET_TRANSFORM_CROSS  ? ET_LEVELS_HASHED
                                                                   : ET_LEVELS_NONE;
    b->self->row.reads[target][position] = true;
    if (levels > b->self->levels[position])
        b->self->levels[position] = levels;
    if (b->self->row.reads[!target][position])
        problem(
            b, spec,
            "%s is the target or the weight and also part of another feature: remove it from one "
            "of them",
            et_schema_at(b->self->schema, position)->name);
}

/* A step for each value of a field. */
static int add_field(building *b, const et_feature_spec *spec, const char *name)
{
    et_encoder *self = b->self;
    int status = ET_OK, position = find_field(b, spec, name);
    if (position < 0)
        return ET_OK;
    int begin = self->row.begin[position], count = self->row.begin[position + 1] - begin;
    int *cells = et_arena_array(&self->arena, count, sizeof *cells);
    if (!cells)
        return no_memory(b);
    mark(b, spec, position);
    for (int i = 0; !status && i < count; i++) {
        cells[i] = begin + i;
        status = put_step(b, spec, &et_transform_rows[spec->type], &cells[i], 1, i);
    }
    return status;
}

static int add_cross(building *b, const et_feature_spec *spec, const char *const *fields, int count)
{
    et_encoder *self = b->self;
    int *cells = et_arena_array(&self->arena, count, sizeof *cells);
    bool sound = true;
    if (!cells)
        return no_memory(b);
    if (count > ET_ENCODER_CROSS_MAX)
        problem(b, spec, "cross of %d fields: at most %d are possible", count,
                ET_ENCODER_CROSS_MAX);
    for (int i = 0; i < count; i++) {
        int position = find_field(b, spec, fields[i]);
        sound &= position >= 0;
        if (position < 0)
            continue;
        mark(b, spec, position);
        cells[i] = self->row.begin[position];
        if (self->row.begin[position + 1] - cells[i] > 1) {
            problem(b, spec, "%s has more than one value: cross needs fields with one value",
                    fields[i]);
            sound = false;
        }
    }
    return sound ? put_step(b, spec, &et_transform_rows[spec->type], cells, count, 0) : ET_OK;
}

/* Adds the steps of a feature and of the features in it. */
static int add_steps(building *b, const et_feature_spec *spec)
{
    const char *const *fields = NULL;
    int status = ET_OK, count = et_feature_fields(spec, &fields);
    et_transform_gives gives = et_transform_rows[spec->type].gives;
    b->ids |= gives == ET_GIVES_IDS;
    b->numbers |= gives == ET_GIVES_NUMBERS;
    for (int i = 0; !status && i < spec->feature_count; i++)
        status = add_steps(b, &spec->features[i]);
    if (!status && spec->type == ET_TRANSFORM_CROSS)
        return add_cross(b, spec, fields, count);
    for (int i = 0; !status && i < count; i++)
        status = add_field(b, spec, fields[i]);
    return status;
}

/* ---- fields of the layout ---- */

/* Columns of the steps from first on, side by side; their places in the item. */
static int join_columns(building *b, et_encoded_field *f, size_t first)
{
    et_encoder *self = b->self;
    for (size_t i = first; i < self->step_count; i++) {
        self->steps[i].offset = (size_t)f->width * ET_ENCODER_ITEM;
        f->width += self->steps[i].fitted.width;
        if (f->width > COLUMNS_MAX) {
            problem(b, b->top, "more than %d columns: use embed or hash instead of one-hot",
                    COLUMNS_MAX);
            return ET_OK;
        }
    }
    const char **names = et_arena_array(&self->arena, f->width, sizeof *names);
    int32_t *cardinality = et_arena_array(&self->arena, f->width, sizeof *cardinality);
    int32_t *unknown = et_arena_array(&self->arena, f->width, sizeof *unknown);
    if (!names || !cardinality || !unknown)
        return no_memory(b);
    for (size_t i = first, at = 0; i < self->step_count; i++)
        for (int64_t k = 0; k < self->steps[i].fitted.width; k++, at++) {
            names[at] = self->steps[i].fitted.column ? self->steps[i].fitted.column[k] : "";
            cardinality[at] = (int32_t)self->steps[i].fitted.cardinality;
            unknown[at] = (int32_t)self->steps[i].fitted.unknown;
        }
    f->column = names;
    f->cardinality = f->kind == ET_ENCODED_IDS || f->kind == ET_ENCODED_WORDS ? cardinality : NULL;
    f->unknown = f->kind == ET_ENCODED_IDS ? unknown : NULL;
    return ET_OK;
}

/* Targets of two classes side by side. */
static void finish_labels(building *b, et_encoded_field *f, size_t first)
{
    et_encoder *self = b->self;
    const size_t count = self->step_count - first;
    const char **labels = et_arena_array(&self->arena, 2 * count, sizeof *labels);
    f->kind = ET_ENCODED_LABELS;
    for (size_t i = 0; labels && i < count; i++) {
        const et_fitted_transform *one = &self->steps[first + i].fitted;
        for (int k = 0; k < 2; k++)
            labels[2 * i + (size_t)k] = one->beside ? one->column[k] : "";
    }
    f->label = labels;
}

/* The name of the field that a step reads. */
static const char *field_of(const et_encoder *self, size_t number)
{
    return self->inputs[self->steps[number].fitted.input[0]].field->name;
}

/* A class, numbers side by side, or several targets of two classes. */
static void finish_target(building *b, et_encoded_field *f, size_t first)
{
    const et_encoder *self = b->self;
    const size_t count = self->step_count - first;
    size_t classes = 0, number = first, class = first;
    for (size_t i = first; i < self->step_count; i++) {
        const bool is_class = self->steps[i].fitted.cardinality > 0;
        classes += is_class;
        *(is_class ? &class : &number) = i;
    }
    f->kind = classes ? ET_ENCODED_CLASS : ET_ENCODED_VALUES;
    if (!classes)
        return;
    if (classes < count)
        problem(b, b->top,
                "%s is a number and %s has classes: name targets of one kind, read whole numbers "
                "as numbers (task.target_type: number), or train a run for each target",
                field_of(self, number), field_of(self, class));
    else if (count > 1 && b->top->field_count < (int)count)
        problem(b, b->top, "a target of classes has one value: write a field for each");
    else if (count > 1)
        finish_labels(b, f, first);
    else {
        f->classes = (int)self->steps[first].fitted.cardinality;
        f->label = self->steps[first].fitted.column;
    }
}

/* One number. */
static void finish_weight(building *b, et_encoded_field *f, size_t first)
{
    f->kind = ET_ENCODED_WEIGHT;
    if (b->self->step_count - first > 1)
        problem(b, b->top, "a weight has one field with one value");
    if (et_encoder_weight(b->self) >= 0)
        problem(b, b->top, "a second weight: keep one");
}

/* Adds a step after each step of the target, with the same value. */
static int add_written(building *b, const et_feature_spec *spec, size_t first, size_t end)
{
    et_encoder *self = b->self;
    const char *name = et_arena_printf(&self->arena, "%s/written", spec->name);
    if (!name)
        return no_memory(b);
    et_encoded_field *f = &self->fields[self->field_count];
    *f = (et_encoded_field){ .name = name, .kind = ET_ENCODED_WRITTEN };
    if (et_feature_set_find(b->features, name))
        problem(b, spec, "another feature is called %.60s: rename one of them", name);
    for (size_t i = first; i < end; i++) {
        const et_fitted_transform *of = &self->steps[i].fitted;
        int status = put_step(b, spec, &et_transform_written, of->input, 1, 0);
        if (status)
            return status;
    }
    self->field_count++;
    return join_columns(b, f, end);
}

static int add_feature(building *b, const et_feature_spec *spec)
{
    et_encoder *self = b->self;
    size_t first = self->step_count;
    if (spec->type == ET_TRANSFORM_KEY) {
        const char *const *fields = NULL;
        et_feature_fields(spec, &fields);
        int position = find_field(b, spec, fields[0]);
        if (position < 0)
            return ET_OK;
        const char *name = et_arena_strdup(&b->self->arena, spec->name);
        b->self->keys[b->self->key_count++] = (et_encoder_key_field){ name, position };
        return name ? ET_OK : no_memory(b);
    }
    b->top = spec;
    b->ids = b->numbers = false;
    int status = add_steps(b, spec);
    if (status)
        return status;
    et_encoded_field *f = &self->fields[self->field_count];
    *f = (et_encoded_field){ .name = et_arena_strdup(&self->arena, spec->name),
                             .kind = spec->type == ET_TRANSFORM_WORDS ? ET_ENCODED_WORDS
                                     : b->ids                         ? ET_ENCODED_IDS
                                                                      : ET_ENCODED_NUMBERS };
    if (b->ids && b->numbers)
        problem(b, spec,
                "the concat mixes numbers and ids (of embed, hash, cross): make a concat for each");
    if (spec->type == ET_TRANSFORM_TARGET)
        finish_target(b, f, first);
    if (spec->type == ET_TRANSFORM_WEIGHT)
        finish_weight(b, f, first);
    if (!f->name)
        return no_memory(b);
    self->field_count++;
    status = join_columns(b, f, first);
    if (!status && f->kind == ET_ENCODED_CLASS) /* columns of a step are its labels */
        f->column = &self->inputs[self->steps[first].fitted.input[0]].field->name;
    if (!status && f->kind == ET_ENCODED_LABELS) {
        /* Columns of a step are its labels. */
        const char **names = et_arena_array(&b->self->arena, f->width, sizeof *names);
        for (int64_t i = 0; names && i < f->width; i++)
            names[i] = field_of(b->self, first + (size_t)i);
        f->column = names;
        status = names ? ET_OK : no_memory(b);
    }
    return status || !b->exact || f->kind != ET_ENCODED_VALUES
               ? status
               : add_written(b, spec, first, self->step_count);
}

/* ---- fingerprint ---- */

static void add_text(et_checksum_stream *stream, const char *text)
{
    et_checksum_stream_add(stream, text, strlen(text) + 1);
}

static void add_step_print(const et_encoder *self, const et_encoder_step *s,
                           et_checksum_stream *stream)
{
    const et_fitted_transform *f = &s->fitted;
    const double numbers[] = { f->offset, f->divisor, f->span, f->base,
                               isnan(f->missing) ? 0 : f->missing };
    const int64_t counts[] = {
        s->field,  (int64_t)s->offset,      f->inputs, f->width, f->cardinality,
        f->points, f->parts | f->order << 8
    };
    add_text(stream, f->row->name);
    et_checksum_stream_add(stream, numbers, sizeof numbers);
    et_checksum_stream_add(stream, counts, sizeof counts);
    et_checksum_stream_add(stream, f->point, f->points * sizeof *f->point);
    for (int i = 0; f->labels && i < f->labels->count; i++)
        add_text(stream, f->labels->texts[i]);
    for (int i = 0; i < f->inputs; i++) {
        const et_encoder_input *in = &self->inputs[f->input[i]];
        const int64_t facts[] = {
            in->field->type, in->missing.missing,
            f->input[i] - self->row.begin[et_schema_position(self->schema, in->field->name)]
        };
        add_text(stream, in->field->name);
        et_checksum_stream_add(stream, facts, sizeof facts);
        if (!in->missing.missing)
            add_text(stream, in->missing.text);
        if (in->field->notation)
            add_text(stream, et_notation_name(in->field->notation));
        if (in->field->unit)
            add_text(stream, in->field->unit);
    }
}

static int find_fingerprint(building *b)
{
    et_encoder *self = b->self;
    et_checksum_stream *stream;
    const int64_t facts[] = { ENCODER_VERSION, self->field_count };
    int status = et_checksum_stream_open(&stream, b->error);
    if (status)
        return status;
    et_checksum_stream_add(stream, facts, sizeof facts);
    for (int i = 0; i < self->field_count; i++) {
        const int64_t shape[] = { self->fields[i].kind, self->fields[i].width };
        add_text(stream, self->fields[i].name);
        et_checksum_stream_add(stream, shape, sizeof shape);
    }
    for (size_t i = 0; i < self->step_count; i++)
        add_step_print(self, &self->steps[i], stream);
    self->fingerprint = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return ET_OK;
}

/* ---- making ---- */

static int build(building *b, const et_schema *schema, const et_feature_set *features)
{
    et_encoder *self = b->self;
    size_t count = (size_t)et_feature_set_count(features);
    int status = add_inputs(b, schema);
    if (status)
        return status;
    const size_t fields = b->exact ? 2 * count : count;
    self->fields = et_arena_array(&self->arena, fields, sizeof *self->fields);
    self->keys = et_arena_array(&self->arena, count, sizeof *self->keys);
    self->layout_fields = et_arena_array(&self->arena, fields + 1, sizeof *self->layout_fields);
    if (self->arena.failed)
        return no_memory(b);
    for (size_t i = 0; !status && i < count; i++)
        status = add_feature(b, et_feature_set_at(features, (int)i));
    if (!status && !b->problems.count && !self->step_count)
        et_problems_add(&b->problems,
                        "no feature gives the model a column: add a feature that is not a key");
    if (status || b->problems.count)
        return status;
    for (int i = 0; i < self->field_count; i++) {
        const et_encoded_field *f = &self->fields[i];
        bool ids = f->kind == ET_ENCODED_IDS || f->kind == ET_ENCODED_CLASS ||
                   f->kind == ET_ENCODED_WORDS || f->kind == ET_ENCODED_WRITTEN;
        self->layout_fields[i] = (et_layout_field){
            .name = f->name,
            .dtype = ids ? ET_I32 : ET_F32,
            .item = f->kind == ET_ENCODED_CLASS || f->kind == ET_ENCODED_WEIGHT
                        ? et_shape_scalar()
                        : et_shape_1(f->width),
            .empty = ids && f->kind != ET_ENCODED_WRITTEN ? ET_EMPTY_NONE : ET_EMPTY_ZERO,
        };
    }
    self->layout_fields[self->field_count] = et_layout_mask;
    self->layout = (et_layout){
        .kinds = 1, .fields = self->field_count + 1, .kind = { "row" }, .field = self->layout_fields
    };
    return find_fingerprint(b);
}

static int make(et_encoder **out, const et_schema *schema, const et_metadata *metadata,
                const et_feature_set *features, bool exact, et_error *error)
{
    building b = { .metadata = metadata,
                   .features = features,
                   .problems = ET_PROBLEMS_INIT,
                   .exact = exact,
                   .error = error };
    if (ET_ALLOC_ZERO(b.self, 1, "an encoder", error))
        return ET_ENOMEM;
    const char *source = et_feature_set_source(features);
    char what[ET_ERROR_TEXT_MAX / 8];
    snprintf(what, sizeof what, "%.60s%sschema, metadata and features do not match",
             source ? source : "", source ? ": " : "");
    int status = build(&b, schema, features);
    const int wrong = et_problems_report(&b.problems, ET_ECONFIG, what, error);
    if (!status)
        status = wrong;
    if (status) {
        et_encoder_free(b.self);
        return status;
    }
    *out = b.self;
    return ET_OK;
}

int et_encoder_new(et_encoder **out, const et_schema *schema, const et_metadata *metadata,
                   const et_feature_set *features, et_error *error)
{
    return make(out, schema, metadata, features, false, error);
}

int et_encoder_new_exact(et_encoder **out, const et_schema *schema, const et_metadata *metadata,
                         const et_feature_set *features, et_error *error)
{
    return make(out, schema, metadata, features, true, error);
}
