/* Files of tf.Examples (TFRecord): written, read record by record, and read as samples.
 *
 *     cc records.c -o records $(pkg-config --cflags --libs etude)
 *     ./records FOLDER
 *
 * prints what the records hold and the order in which two files are interleaved. */
#include <etude/etude.h>

#include <stdio.h>
#include <string.h>

enum { FILES = 2, RECORDS = 3, WIDTH = 2 };

/* The record of a number: features of each kind. */
static int fill(et_example_builder *b, int64_t number, et_error *error)
{
    const float point[WIDTH] = { (float)number, (float)number / 2 };
    const et_bytes raw = { "\x01\x02\x03", 3 };
    const et_feature label = {
        .key = "label", .kind = ET_FEATURE_INTS, .count = 1, .ints = &number
    };

    et_example_reset(b);
    et_example_add_feature(et_example_add_floats(b, "point", point, WIDTH), &label);
    et_example_add_text(et_example_add_bytes(b, "raw", &raw, 1), "name", "a point");

    const void *bytes;
    size_t length;
    return et_example_serialized(b, &bytes, &length, error); /* what failed above is told here */
}

/* A file of its records, and one of them copied from the other builder's. */
static int write_file(const char *path, int64_t first, et_error *error)
{
    et_example_builder *b = NULL, *copy = NULL;
    et_record_writer *writer = NULL;
    int status = et_example_builder_new(&b, NULL, error);
    if (!status)
        status = et_example_builder_new(&copy, NULL, error);
    if (!status)
        status = et_record_writer_open(&writer, path, "tfrecord", error);

    for (int64_t i = 0; i < RECORDS && !status; i++) {
        status = fill(b, first + i, error);
        et_example_set(copy, et_example_built(b));
        if (!status)
            status = et_record_write_example(writer, copy, error);
    }

    if (status)
        et_record_writer_abandon(writer); /* no half file is left */
    else
        status = et_record_writer_close(writer, error);
    et_example_builder_free(copy);
    et_example_builder_free(b);
    return status;
}

static int show_record(const void *bytes, size_t length, et_error *error)
{
    et_example *example;
    int status = et_example_parse(&example, bytes, length, error);
    if (status)
        return status;
    const et_feature *label = et_example_find(example, "label");
    const et_feature *name = et_example_find(example, "name");
    if (label && name)
        printf("label %d: %.*s, %zu features\n", (int)label->ints[0], (int)name->bytes[0].length,
               (const char *)name->bytes[0].data, example->count);
    et_example_free(example);
    return ET_OK;
}

static int show_file(const char *path, et_error *error)
{
    et_record_reader *reader;
    int status = et_record_reader_open(&reader, path, error);
    if (status)
        return status;
    const void *bytes;
    size_t length;
    do {
        status = et_record_read(reader, &bytes, &length, error);
        if (!status && bytes)
            status = show_record(bytes, length, error);
    } while (!status && bytes);
    et_record_reader_close(reader);
    return status;
}

/* One record of each file in turn, in batches of three. */
static int show_batches(char paths[FILES][256], et_error *error)
{
    const et_record_field fields[] = {
        { .name = "label", .dtype = ET_I32 },
        { .name = "point", .dtype = ET_F32, .shape = { .rank = 1, .size = { WIDTH } } }
    };
    const et_batches_options options = { .capacity = { 3 } };
    et_samples *parts[FILES] = { NULL }, *all = NULL;
    et_source *source = NULL;
    et_batch *batch = NULL;

    int status = ET_OK;
    for (int i = 0; i < FILES && !status; i++) {
        const char *path = paths[i];
        status = et_records_open(&parts[i], &path, 1, fields, 2, NULL, error);
    }
    if (!status)
        status = et_interleave_open(&all, parts, FILES, 0, 1, error);
    if (status) { /* nobody has taken them */
        for (int i = 0; i < FILES; i++)
            et_samples_close(parts[i]);
        return status;
    }

    status = et_batches_open(&source, all, &options, error);
    if (!status)
        status = et_batch_new(&batch, &source->layout, error);
    while (!status && !(status = et_source_next(source, batch, error)) && batch->filled[0]) {
        int field = et_layout_find(batch->layout, "label");
        const int32_t *labels = batch->data[field];
        printf("batch:");
        for (int64_t i = 0; i < batch->filled[0]; i++)
            printf(" %d", labels[i]);
        printf("\n");
    }
    et_batch_free(batch);
    et_source_close(source);
    return status;
}

/* A small file at once: Model Garden's write_small_dataset; compressed. */
static int write_small(const char *path, et_error *error)
{
    const int64_t id = 7;
    const et_feature features[] = {
        { .key = "id", .kind = ET_FEATURE_INTS, .count = 1, .ints = &id }
    };
    et_example_builder *b;
    int status = et_example_builder_new(&b, "small", error);
    if (status)
        return status;
    et_example_add_features(b, features, 1); /* "small/id" */
    status = et_records_write(path, "tfrecord_compressed", &b, 1, error);
    et_example_builder_free(b);
    return status;
}

/* Records need not be tf.Examples: a record is bytes. */
static int write_bytes(const char *path, et_error *error)
{
    et_record_writer *writer;
    int status = et_record_writer_open(&writer, path, NULL, error);
    if (status)
        return status;
    status = et_record_write(writer, "any bytes", strlen("any bytes"), error);
    if (status) {
        et_record_writer_abandon(writer);
        return status;
    }
    return et_record_writer_close(writer, error);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }

    et_error error = ET_ERROR_INIT;
    et_log_to_stderr();
    char paths[FILES][256], path[256];
    int status = ET_OK;
    for (int i = 0; i < FILES && !status; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/points-%d.tfrecord", argv[1], i);
        status = write_file(paths[i], 10 * i, &error);
    }
    if (!status)
        status = show_file(paths[0], &error);
    if (!status)
        status = show_batches(paths, &error);

    snprintf(path, sizeof path, "%s/small.tfrecord.gz", argv[1]);
    if (!status)
        status = write_small(path, &error);
    snprintf(path, sizeof path, "%s/bytes.tfrecord", argv[1]);
    if (!status)
        status = write_bytes(path, &error);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    return status ? 1 : 0;
}
