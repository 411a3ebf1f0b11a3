/* A table in the program's memory: schema, metadata and features, batches of encoded rows, and a
 * single row that is encoded in the same way.
 *
 *     cc table.c -o table $(pkg-config --cflags --libs etude)
 *     ./table FOLDER
 *
 * writes schema.yaml, metadata.json and features.yaml to FOLDER, and prints encoded rows. */
#include <etude/etude.h>

#include <stdio.h>
#include <string.h>

enum { ROWS = 4 };

static const char *const names[] = { "ann", "bob", "cleo", "dan" };
static const char *const colours[] = { "red", "blue", "red", NULL };
static const double sizes[ROWS] = { 1, 2, 3, 4 };
static const et_frame_column columns[] = { { "name", ET_COLUMN_CATEGORY, names },
                                           { "colour", ET_COLUMN_CATEGORY, colours },
                                           { "size", ET_COLUMN_FLOAT64, sizes } };

/* What describes the table: objects and files of them. */
typedef struct described {
    et_schema *schema;
    et_metadata *metadata;
    et_feature_set *features;
} described;

static int describe(described *d, et_error *error)
{
    static const et_schema_field fields[] = { { .name = "name", .type = ET_SCHEMA_DISCRETE },
                                              { .name = "colour", .type = ET_SCHEMA_DISCRETE },
                                              { .name = "size", .type = ET_SCHEMA_REAL } };
    static const char *const entries[] = { "red", "blue" };
    static const et_column_metadata seen[] = {
        { .name = "colour", .entry_count = 2, .entries = entries },
        { .name = "size",
          .has_range = true,
          .min = 1,
          .max = 4,
          .has_moments = true,
          .mean = 2.5,
          .std = 1.118 },
    };
    int status = et_schema_create(&d->schema, fields, 3, error);
    if (!status)
        status = et_metadata_create(&d->metadata, seen, 2, error);

    /* Features as a person would choose them; then the program's own. */
    const et_feature_choice choice = { .target = "colour" };
    if (!status)
        status = et_feature_set_infer(&d->features, d->schema, d->metadata, &choice, error);
    for (int i = 0; !status && i < et_feature_set_count(d->features); i++) {
        const et_feature_spec *spec = et_feature_set_at(d->features, i);
        printf("inferred: %s, %s\n", spec->name, et_transform_name(spec->type));
    }
    et_feature_set_free(d->features);
    d->features = NULL;

    static const char *const target[] = { "colour" }, *const key[] = { "name" };
    static const et_feature_spec specs[] = {
        { .name = "size", .type = ET_TRANSFORM_SCALE },
        { .name = "colour_known",
          .type = ET_TRANSFORM_ONE_HOT,
          .fields = target,
          .field_count = 1 },
        { .name = "who", .type = ET_TRANSFORM_KEY, .fields = key, .field_count = 1 },
    };
    return status ? status : et_feature_set_create(&d->features, specs, 3, error);
}

static void release(described *d)
{
    et_schema_free(d->schema);
    et_metadata_free(d->metadata);
    et_feature_set_free(d->features);
    *d = (described){ 0 };
}

static int save(const described *d, char paths[3][256], et_error *error)
{
    int status = et_schema_save(d->schema, paths[0], error);
    if (!status)
        status = et_metadata_save(d->metadata, paths[1], error);
    return status ? status : et_feature_set_save(d->features, paths[2], error);
}

static int print_batch(et_source *source, et_error *error)
{
    et_batch *batch;
    int status = et_batch_new(&batch, &source->layout, error);
    if (!status)
        status = et_source_next(source, batch, error);
    for (int f = 0; !status && f < batch->layout->fields; f++) {
        const et_layout_field *field = &batch->layout->field[f];
        if (field->dtype != ET_F32)
            continue;
        int64_t width = et_shape_count(field->item);
        printf("%s:", field->name);
        for (int64_t i = 0; i < batch->filled[0] * width; i++)
            printf(" %.3f", ((const float *)batch->data[f])[i]);
        printf("\n");
    }
    et_batch_free(batch);
    return status;
}

/* All rows in one batch. */
static int read_rows(const et_table_set *data, et_error *error)
{
    const et_read_options once = { .batch = ROWS, .epochs = 1 };
    et_source *source;
    int status = et_table_columns_read(&source, et_table_set_columns(data, "train"), &once, error);
    if (status)
        return status;
    status = print_batch(source, error);
    et_source_close(source);
    return status;
}

/* A row of CSV, as somebody asks for its prediction. */
static int read_instance(const et_table_set *data, et_error *error)
{
    const char *row = "eve,blue,2.5";
    const et_bytes instance = { row, strlen(row) };
    const et_batches_options one = { .capacity = { 1 } };
    et_samples *samples;
    et_source *source;
    int status = et_table_set_parse_instances(&samples, data, &instance, 1, true, error);
    if (status)
        return status;
    status = et_batches_open(&source, samples, &one, error);
    if (status) {
        et_samples_close(samples);
        return status;
    }
    status = print_batch(source, error);
    et_source_close(source);
    return status;
}

/* The data set reads the three from files; it has copies of its own. */
static int read_table(char paths[3][256], et_error *error)
{
    const et_table_set_frame frames[] = { { "train", { columns, 3, ROWS } } };
    const et_table_set_options options = { .schema_path = paths[0],
                                           .metadata_path = paths[1],
                                           .features_path = paths[2] };
    et_table_set *data;
    int status = et_frame_table_set_open(&data, frames, 1, &options, error);
    if (status)
        return status;
    printf("%d fields, %d columns with metadata, %d features\n",
           et_schema_count(et_table_set_schema(data)),
           et_metadata_count(et_table_set_metadata(data)),
           et_feature_set_count(et_table_set_features(data)));
    status = read_rows(data, error);
    if (!status)
        status = read_instance(data, error);
    et_table_set_close(data);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }

    static const char *const files[] = { "schema.yaml", "metadata.json", "features.yaml" };
    char paths[3][256];
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", argv[1], files[i]);

    et_error error = ET_ERROR_INIT;
    et_log_to_stderr();
    described d = { 0 };
    int status = describe(&d, &error);
    if (!status)
        status = save(&d, paths, &error);
    release(&d);
    if (!status)
        status = read_table(paths, &error);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    return status ? 1 : 0;
}
