/* A data set: an encoder and the sources that are read with it. Schema, metadata and features are
 * copied or loaded, so only frames of the caller must outlive it. */
#include "data/table/table_set.h"

#include <string.h>

#include "base/alloc.h"
#include "data/table/features/encoder.h"
#include "data/table/features/feature_set.h"
#include "data/table/frame.h"
#include "data/table/schema/schema.h"

struct et_table_set {
    et_table_columns **sources; /* [count], owned */
    int count;
    et_schema *schema; /* NULL: it was given; the encoder has a copy */
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

static int copy_metadata(et_metadata **out, const et_metadata *metadata, et_error *error)
{
    int count = metadata ? et_metadata_count(metadata) : 0;
    et_column_metadata *columns = et_alloc((size_t)count, sizeof *columns);
    if (!columns)
        return et_alloc_failed(error, sizeof *columns, "metadata");
    for (int i = 0; i < count; i++)
        columns[i] = *et_metadata_at(metadata, i);
    int status = et_metadata_create(out, columns, count, error);
    et_free(columns);
    return status;
}

static int copy_features(et_feature_set **out, const et_feature_set *set, et_error *error)
{
    int count = et_feature_set_count(set);
    et_feature_spec *specs = et_alloc((size_t)count, sizeof *specs);
    if (!specs)
        return et_alloc_failed(error, sizeof *specs, "features");
    for (int i = 0; i < count; i++)
        specs[i] = *et_feature_set_at(set, i);
    int status = et_feature_set_make(out, specs, count, et_feature_set_source(set), error);
    et_free(specs);
    return status;
}

/* Each field under its own name. */
static int make_features(et_table_set *self, const et_schema *schema, et_error *error)
{
    int count = et_schema_count(schema);
    et_feature_spec *specs = et_alloc_zero((size_t)count, sizeof *specs);
    if (!specs)
        return et_alloc_failed(error, sizeof *specs, "features");
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
    return frame
               ? et_frame_schema(&self->schema, frame, error)
               : et_fail(error, ET_ECONFIG,
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
    return frame && !o->metadata ? et_frame_metadata(&self->metadata, frame, error)
                                 : copy_metadata(&self->metadata, o->metadata, error);
}

static int find_features(et_table_set *self, const et_table_set_options *o, const et_schema *schema,
                         et_error *error)
{
    int status = check_one("features", o->features, o->features_path, error);
    if (status)
        return status;
    if (o->features_path)
        return et_feature_set_load(&self->features, o->features_path, error);
    return o->features ? copy_features(&self->features, o->features, error)
                       : make_features(self, schema, error);
}

/* frame: of the first source; NULL: it is not a frame. */
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

static int check_sources(const et_table_set_member *parts, int count, et_error *error)
{
    for (int i = 0; i < count; i++) {
        if (!parts[i].name || !*parts[i].name || !parts[i].source)
            return et_fail(error, ET_ECONFIG, "source %d of a data set needs a name and a source",
                           i + 1);
        if (parts[i].source->encoder)
            return et_fail(error, ET_ECONFIG, "source %.60s already belongs to a data set",
                           parts[i].name);
        for (int k = 0; k < i; k++)
            if (!strcmp(parts[i].name, parts[k].name) || parts[i].source == parts[k].source)
                return et_fail(error, ET_ECONFIG, "two sources are called %.60s: rename one",
                               parts[i].name);
    }
    return ET_OK;
}

/* The last thing that can fail: the sources are the caller's until then. */
static int name_sources(et_table_set *self, const et_table_set_member *parts, int count,
                        et_error *error)
{
    self->sources = et_alloc_zero((size_t)count + 1, sizeof *self->sources);
    bool whole = self->sources != NULL;
    for (int i = 0; whole && i < count; i++) {
        parts[i].source->name = et_strdup(parts[i].name);
        whole = parts[i].source->name != NULL;
    }
    for (int i = 0; i < count; i++)
        if (whole) {
            self->sources[self->count++] = parts[i].source;
            parts[i].source->encoder = self->encoder;
        } else {
            et_free(parts[i].source->name);
            parts[i].source->name = NULL;
        }
    return whole ? ET_OK : et_alloc_failed(error, sizeof *self->sources, "a data set");
}

int et_table_set_open(et_table_set **out, const et_table_set_member *members, int count,
                      const et_table_set_options *options, et_error *error)
{
    if (count < 0 || (count && !members))
        return et_fail(error, ET_ECONFIG, "%d sources of a data set, but no array of them", count);
    int status = check_sources(members, count, error);
    if (status)
        return status;
    const et_table_columns *first = count ? members[0].source : NULL;
    et_table_set *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a data set");
    status = find_all(self, options, first && first->in_memory ? &first->frame : NULL, error);
    if (!status)
        status = name_sources(self, members, count, error);
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

/* One source, of whatever kind it is made from. */
typedef int open_fn(et_table_columns **out, const void *from, int i, const et_csv_format *format,
                    et_error *error);

static int open_csv(et_table_columns **out, const void *from, int i, const et_csv_format *format,
                    et_error *error)
{
    return et_csv_columns_open(out, ((const et_table_set_path *)from)[i].path, format, error);
}

static int open_examples(et_table_columns **out, const void *from, int i,
                         const et_csv_format *format, et_error *error)
{
    (void)format;
    return et_examples_columns_open(out, ((const et_table_set_path *)from)[i].path, error);
}

static int open_frame(et_table_columns **out, const void *from, int i, const et_csv_format *format,
                      et_error *error)
{
    (void)format;
    return et_frame_columns_open(out, &((const et_table_set_frame *)from)[i].frame, error);
}

static const char *name_of(const void *from, int i, open_fn *open)
{
    return open == open_frame ? ((const et_table_set_frame *)from)[i].name
                              : ((const et_table_set_path *)from)[i].name;
}

static int open_sources(et_table_set **out, const void *from, int count, open_fn *open,
                        const et_csv_format *format, const et_table_set_options *options,
                        et_error *error)
{
    int status = ET_OK;
    if (count < 1 || !from)
        return et_fail(error, ET_ECONFIG, "At least one DataSource must be specified.");
    et_table_set_member *parts = et_alloc_zero((size_t)count, sizeof *parts);
    if (!parts)
        return et_alloc_failed(error, sizeof *parts, "a data set");
    for (int i = 0; !status && i < count; i++) {
        parts[i].name = name_of(from, i, open);
        status = open(&parts[i].source, from, i, format, error);
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
    return open_sources(out, paths, count, open_csv, format, options, error);
}

int et_examples_table_set_open(et_table_set **out, const et_table_set_path *paths, int count,
                               const et_table_set_options *options, et_error *error)
{
    return open_sources(out, paths, count, open_examples, NULL, options, error);
}

int et_frame_table_set_open(et_table_set **out, const et_table_set_frame *frames, int count,
                            const et_table_set_options *options, et_error *error)
{
    return open_sources(out, frames, count, open_frame, NULL, options, error);
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
