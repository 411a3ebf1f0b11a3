/* A data set: an encoder and the sources that are read with it. Schema, metadata and features are
 * copied or loaded, so only frames of the caller must outlive it. */
#include "data/table/table_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/sort.h"
#include "data/table/features/encoder.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/schema.h"

/* ---- schema and metadata of a frame ---- */

/* Schema and metadata of arrays in memory; all values are exact. A column's numbers or texts are
 * sorted once. Then minimum, maximum and quantiles, or entries and counts, are read off. */

/* Number of quantiles for transforms. `etude data analyze` gives fewer, but here all values are
 * known. */
#define QUANTILES 1001

/* ---- numbers ---- */

ET_SORT_NUMBERS(by_number, double)

/* Interpolates linearly between the two neighbouring values, as numpy does. */
static double quantile(const double *sorted, int64_t count, int i)
{
    double position = (double)i * (double)(count - 1) / (QUANTILES - 1);
    int64_t low = (int64_t)position;
    if (low >= count - 1)
        return sorted[count - 1];
    /* Not from + (to - from) * part, which overflows if they are far apart. */
    const double from = sorted[low], to = sorted[low + 1], part = position - (double)low;
    const double value = from * (1 - part) + to * part;
    return value < from ? from : value > to ? to : value;
}

static int describe_numbers(et_column_metadata *m, const et_frame *frame, int column,
                            et_arena *arena, et_error *error)
{
    double *numbers = et_alloc(frame->rows, sizeof *numbers);
    double *quantiles = et_arena_array(arena, QUANTILES, sizeof *quantiles);
    int status = numbers && quantiles ? ET_OK : et_alloc_failed(error, "metadata");
    for (int64_t i = 0; !status && i < frame->rows; i++) {
        et_reading value = et_frame_value(&frame->columns[column], i);
        if (!value.missing && !isfinite(value.number))
            status =
                et_fail(error, ET_EDATA, "column %.60s, row %lld: %g is not finite: correct it",
                        m->name, (long long)i + 1, value.number);
        if (!value.missing)
            numbers[m->count++] = value.number;
    }
    m->missing = frame->rows - m->count;
    if (!status && m->count) {
        qsort(numbers, m->count, sizeof *numbers, by_number);
        m->min = numbers[0];
        m->max = numbers[m->count - 1];
        /* Mean first, then the squares of the differences: no large number is subtracted from a
         * large one. */
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < m->count; i++)
            sum += numbers[i];
        m->mean = sum / (double)m->count;
        for (int64_t i = 0; i < m->count; i++)
            squares += (numbers[i] - m->mean) * (numbers[i] - m->mean);
        m->std = sqrt(squares / (double)m->count);
        m->has_range = true;
        m->has_moments = isfinite(m->mean) && isfinite(m->std);
        for (int i = 0; i < QUANTILES; i++)
            quantiles[i] = quantile(numbers, m->count, i);
        m->quantiles = quantiles;
        m->quantile_count = QUANTILES;
    }
    et_free(numbers);
    return status;
}

/* ---- texts ---- */

ET_SORT_BY(by_bytes, char *const, strcmp(*a, *b), 0)

static int describe_texts(et_column_metadata *m, const et_frame *frame, int column, et_arena *arena,
                          et_error *error)
{
    const char *const *from = frame->columns[column].data;
    const char **texts = et_arena_array(arena, frame->rows, sizeof *texts);
    int64_t *counts = et_arena_array(arena, frame->rows, sizeof *counts);
    if (!texts || !counts)
        return et_alloc_failed(error, "metadata");
    for (int64_t i = 0; i < frame->rows; i++)
        if (from[i])
            texts[m->count++] = from[i];
    m->missing = frame->rows - m->count;
    qsort(texts, m->count, sizeof *texts, by_bytes);
    for (int64_t i = 0; i < m->count; i++) {
        if (!m->entry_count || strcmp(texts[m->entry_count - 1], texts[i]))
            texts[m->entry_count++] = texts[i];
        counts[m->entry_count - 1]++;
    }
    m->entries = texts;
    m->counts = counts;
    m->distinct = m->entry_count;
    return ET_OK;
}

/* TensorFX's schema for the first frame: fields by the types of columns; min and max of numbers;
 * sorted values of texts. Transforms also need counts, mean, std and quantiles. */
static int frame_metadata(et_metadata **out, const et_frame *frame, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    int status = et_frame_check(frame, error), count = frame->column_count;
    et_column_metadata *columns = status ? NULL : et_arena_array(&arena, count, sizeof *columns);
    if (!status && !columns)
        status = et_alloc_failed(error, "metadata");
    for (int i = 0; !status && i < count; i++) {
        columns[i].name = frame->columns[i].name;
        status = frame->columns[i].type == ET_COLUMN_CATEGORY
                     ? describe_texts(&columns[i], frame, i, &arena, error)
                     : describe_numbers(&columns[i], frame, i, &arena, error);
    }
    if (!status)
        status = et_metadata_create(out, columns, count, error);
    et_arena_release(&arena);
    return status;
}

struct et_table_set {
    et_table_columns **sources; /* [count], owned */
    int count;
    et_schema *schema; /* NULL: the caller gave the schema, which the encoder has copied */
    et_metadata *metadata;
    et_feature_set *features;
    et_encoder *encoder;
};

/* ---- schema, metadata and features ---- */

static int check_one(const char *what, const void *object, const char *path, et_error *error)
{
    return object && path
               ? et_fail(error, ET_ECONFIG,
                         "both the %s of a data set and %s are given: choose one", what, path)
               : ET_OK;
}

/* Each field under its own name. */
static int make_features(et_table_set *self, const et_schema *schema, et_error *error)
{
    int count = et_schema_count(schema);
    et_feature_spec *specs;
    if (ET_ALLOC_ZERO(specs, count, "features", error))
        return ET_ENOMEM;
    int features = 0;
    for (int i = 0; i < count; i++) {
        const et_schema_field *f = et_schema_at(schema, i);
        const bool entries = et_metadata_find(self->metadata, f->name)->entry_count > 0;
        const bool numeric = et_schema_numeric(f), varies = f->length == ET_SCHEMA_VARIABLE;
        if (varies && (numeric || !entries))
            continue;
        specs[features].name = f->name;
        specs[features++].type = varies    ? ET_TRANSFORM_ONE_HOT
                                 : numeric ? ET_TRANSFORM_IDENTITY
                                 : entries ? ET_TRANSFORM_EMBED
                                           : ET_TRANSFORM_KEY;
    }
    int status = et_feature_set_make(&self->features, specs, features, NULL, error);
    et_free(specs);
    return status;
}

static int find_schema(et_table_set *self, const et_table_set_options *o, const et_frame *frame,
                       et_error *error)
{
    int status = check_one("schema", o->schema, o->schema_path, error);
    if (status)
        return status;
    if (o->schema_path)
        return et_schema_load(&self->schema, o->schema_path, error);
    if (o->schema)
        return ET_OK;
    if (frame) {
        status = et_frame_check(frame, error);
        if (status)
            return status;
        et_schema_field *fields;
        if (ET_ALLOC_ZERO(fields, frame->column_count, "a schema", error))
            return ET_ENOMEM;
        for (int i = 0; i < frame->column_count; i++) {
            fields[i].name = frame->columns[i].name;
            fields[i].type = et_column_field_type(frame->columns[i].type);
        }
        status = et_schema_create(&self->schema, fields, frame->column_count, error);
        et_free(fields);
        return status;
    }
    return et_fail(error, ET_ECONFIG,
                   "a data set needs a schema, unless its first source is a frame: give one, "
                   "for example the file that `etude data analyze` writes");
}

static int find_metadata(et_table_set *self, const et_table_set_options *o, const et_frame *frame,
                         et_error *error)
{
    int status = check_one("metadata", o->metadata, o->metadata_path, error);
    if (status)
        return status;
    if (o->metadata_path)
        return et_metadata_load(&self->metadata, o->metadata_path, error);
    if (frame && !o->metadata)
        return frame_metadata(&self->metadata, frame, error);
    int count = o->metadata ? et_metadata_count(o->metadata) : 0;
    et_column_metadata *columns;
    if (ET_ALLOC(columns, count, "metadata", error))
        return ET_ENOMEM;
    for (int i = 0; i < count; i++)
        columns[i] = *et_metadata_at(o->metadata, i);
    status = et_metadata_create(&self->metadata, columns, count, error);
    et_free(columns);
    return status;
}

static int find_features(et_table_set *self, const et_table_set_options *o, const et_schema *schema,
                         et_error *error)
{
    int status = check_one("features", o->features, o->features_path, error);
    if (status)
        return status;
    if (o->features_path)
        return et_feature_set_load(&self->features, o->features_path, error);
    if (o->features) {
        int count = et_feature_set_count(o->features);
        et_feature_spec *specs;
        if (ET_ALLOC(specs, count, "features", error))
            return ET_ENOMEM;
        for (int i = 0; i < count; i++)
            specs[i] = *et_feature_set_at(o->features, i);
        status = et_feature_set_make(&self->features, specs, count,
                                     et_feature_set_source(o->features), error);
        et_free(specs);
        return status;
    }
    return make_features(self, schema, error);
}

/* frame: of the first source; NULL: the source is not a frame. */
static int find_all(et_table_set *self, const et_table_set_options *options, const et_frame *frame,
                    et_error *error)
{
    static const et_table_set_options none;
    const et_table_set_options *o = options ? options : &none;
    int status = find_schema(self, o, frame, error);
    if (!status)
        status = find_metadata(self, o, frame, error);
    const et_schema *schema = self->schema ? self->schema : o->schema;
    if (!status)
        status = find_features(self, o, schema, error);
    return status ? status
                  : et_encoder_new(&self->encoder, schema, self->metadata, self->features, error);
}

/* ---- opening ---- */

int et_table_set_open(et_table_set **out, const et_table_set_member *members, int count,
                      const et_table_set_options *options, et_error *error)
{
    if (count < 0 || (count && !members))
        return et_fail(error, ET_ECONFIG, "%d sources of a data set, but no array of them", count);
    for (int i = 0; i < count; i++) {
        if (!members[i].name || !*members[i].name || !members[i].source)
            return et_fail(error, ET_ECONFIG, "source %d of a data set needs a name and a source",
                           i + 1);
        if (members[i].source->encoder)
            return et_fail(error, ET_ECONFIG, "source %.60s already belongs to a data set",
                           members[i].name);
        for (int k = 0; k < i; k++)
            if (!strcmp(members[i].name, members[k].name) || members[i].source == members[k].source)
                return et_fail(error, ET_ECONFIG, "two sources are called %.60s: rename one",
                               members[i].name);
    }
    const et_table_columns *first = count ? members[0].source : NULL;
    et_table_set *self;
    if (ET_ALLOC_ZERO(self, 1, "a data set", error))
        return ET_ENOMEM;
    int status = find_all(self, options, first && first->in_memory ? &first->frame : NULL, error);
    if (!status) {
        /* The last thing that can fail: the sources are the caller's until then. */
        self->sources = et_alloc_zero((size_t)count + 1, sizeof *self->sources);
        bool whole = self->sources != NULL;
        for (int i = 0; whole && i < count; i++) {
            members[i].source->name = et_strdup(members[i].name);
            whole = members[i].source->name != NULL;
        }
        for (int i = 0; i < count; i++)
            if (whole) {
                self->sources[self->count++] = members[i].source;
                members[i].source->encoder = self->encoder;
            } else {
                et_free(members[i].source->name);
                members[i].source->name = NULL;
            }
        status = whole ? ET_OK : et_alloc_failed(error, "a data set");
    }
    if (status) {
        et_table_set_close(self);
        return status;
    }
    *out = self;
    return ET_OK;
}

void et_table_set_close(et_table_set *dataset)
{
    if (!dataset)
        return;
    et_assert(dataset->sources || !dataset->count);
    for (int i = 0; i < dataset->count; i++)
        et_table_columns_close(dataset->sources[i]);
    et_free(dataset->sources);
    et_encoder_free(dataset->encoder);
    et_feature_set_free(dataset->features);
    et_metadata_free(dataset->metadata);
    et_schema_free(dataset->schema);
    et_free(dataset);
}

/* ---- sets of sources of one kind ---- */

/* Opens a data set of frames, or of paths: tf.Examples or CSV. */
static int open_sources(et_table_set **out, const et_table_set_frame *frames,
                        const et_table_set_path *paths, bool examples, int count,
                        const et_csv_format *format, const et_table_set_options *options,
                        et_error *error)
{
    int status = ET_OK;
    if (count < 1 || (!frames && !paths))
        return et_fail(error, ET_ECONFIG, "At least one DataSource must be specified.");
    et_table_set_member *parts;
    if (ET_ALLOC_ZERO(parts, count, "a data set", error))
        return ET_ENOMEM;
    for (int i = 0; !status && i < count; i++) {
        et_table_columns **source = &parts[i].source;
        parts[i].name = frames ? frames[i].name : paths[i].name;
        status = frames     ? et_frame_columns_open(source, &frames[i].frame, error)
                 : examples ? et_examples_columns_open(source, paths[i].path, error)
                            : et_csv_columns_open(source, paths[i].path, format, error);
        if (status)
            et_fail_while(error, status, "source %.60s", parts[i].name ? parts[i].name : "");
    }
    if (!status)
        status = et_table_set_open(out, parts, count, options, error);
    for (int i = 0; status && i < count; i++)
        et_table_columns_close(parts[i].source);
    et_free(parts);
    return status;
}

int et_csv_table_set_open(et_table_set **out, const et_table_set_path *paths, int count,
                          const et_csv_format *format, const et_table_set_options *options,
                          et_error *error)
{
    return open_sources(out, NULL, paths, false, count, format, options, error);
}

int et_examples_table_set_open(et_table_set **out, const et_table_set_path *paths, int count,
                               const et_table_set_options *options, et_error *error)
{
    return open_sources(out, NULL, paths, true, count, NULL, options, error);
}

int et_frame_table_set_open(et_table_set **out, const et_table_set_frame *frames, int count,
                            const et_table_set_options *options, et_error *error)
{
    return open_sources(out, frames, NULL, false, count, NULL, options, error);
}

/* ---- instances ---- */

int et_table_set_parse_instances(et_samples **out, const et_table_set *dataset,
                                 const et_bytes *instances, size_t count, bool prediction,
                                 et_error *error)
{
    const et_table_columns *like = dataset->count ? dataset->sources[0] : NULL;
    et_rows_options how = { .no_targets = prediction };
    const et_table_samples_options table = { .keep_unlabelled = true };
    if (!count || !instances)
        return et_fail(error, ET_EDATA, "no instance is given: give at least one");
    for (size_t i = 0; i < count; i++)
        if (!instances[i].data && instances[i].length)
            return et_fail(error, ET_EDATA, "instance %zu is NULL", i + 1);
    if (like && !like->in_memory && !like->own) {
        how.csv = like->csv;
        how.header = like->header == ET_HEADER_THERE ? ET_HEADER_FOUND : like->header;
    }
    et_rows *rows = NULL;
    int status = et_rows_open_instances(&rows, et_encoder_row_layout(dataset->encoder), instances,
                                        count, like && like->examples, &how, error);
    if (!status)
        status = et_table_read(out, dataset->encoder, rows, &table, error);
    et_rows_close(rows);
    return status;
}

/* ---- getters ---- */

int et_table_set_count(const et_table_set *dataset)
{
    return dataset->count;
}

et_table_columns *et_table_set_at(const et_table_set *dataset, int position)
{
    return position >= 0 && position < dataset->count ? dataset->sources[position] : NULL;
}

et_table_columns *et_table_set_columns(const et_table_set *dataset, const char *name)
{
    for (int i = 0; name && i < dataset->count; i++)
        if (!strcmp(dataset->sources[i]->name, name))
            return dataset->sources[i];
    return NULL;
}

const et_schema *et_table_set_schema(const et_table_set *dataset)
{
    return et_encoder_schema(dataset->encoder);
}

const et_metadata *et_table_set_metadata(const et_table_set *dataset)
{
    return dataset->metadata;
}

const et_feature_set *et_table_set_features(const et_table_set *dataset)
{
    return dataset->features;
}

const et_encoder *et_table_set_encoder(const et_table_set *set)
{
    return set->encoder;
}
