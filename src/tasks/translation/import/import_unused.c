/* Tensors that are read and not used, as a text of the export. */
#include "base/alloc.h"
#include "base/files/file.h"
#include "base/files/scratch.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/unused_tensors.h"

enum { MOST = 3 };

typedef struct unused {
    et_weights_file *file;
    const char *names[MOST];
    et_shape shapes[MOST];
    size_t count;
} unused;

static void add(unused *list, const char *name)
{
    if (et_weights_file_find(list->file, name, &list->shapes[list->count]))
        list->names[list->count++] = name;
}

static int read_item(void *self, size_t item, et_safetensors_take_fn *take, void *payload,
                     et_error *error)
{
    const unused *list = self;
    const float *values;
    int status = et_weights_file_read(list->file, list->names[item], &values, error);
    return status ? status
                  : take(payload, values,
                         (size_t)et_shape_count(list->shapes[item]) * sizeof *values, error);
}

static int write_file(unused *list, const char *path, et_error *error)
{
    const et_safetensors_reader reader = { read_item, list };
    et_safetensors_item items[MOST];
    et_safetensors_written written;
    et_file_writer writer;
    for (size_t i = 0; i < list->count; i++)
        items[i] = (et_safetensors_item){ .name = list->names[i],
                                          .tensor = { .dtype = ET_F32, .shape = list->shapes[i] } };
    int status =
        et_safetensors_draft(&writer, &written, path, items, list->count, &reader, NULL, error);
    return status ? status : et_file_writer_commit(&writer, error);
}

static int make_file(unused *list, char **bytes, size_t *length, et_error *error)
{
    char *directory;
    int status = et_scratch_open(&directory, "etude-import", error);
    if (status)
        return status;
    char *path = et_path_join(directory, ET_UNUSED_TENSORS);
    status = path ? write_file(list, path, error) : et_alloc_failed(error, 0, "a path");
    if (!status)
        status = et_file_read(bytes, length, path, ET_UNUSED_BYTES_MAX, error);
    et_free(path);
    et_scratch_close(directory);
    return status;
}

bool et_import_passes_shared(const et_import_facts *facts, const et_weights_file *file)
{
    et_shape shape;
    return !facts->shared && et_weights_file_find(file, ET_UNUSED_TABLE, &shape) &&
           et_weights_file_find(file, "model.encoder.embed_tokens.weight", &shape);
}

int et_import_read_unused(et_import *from, char **bytes, size_t *length, et_error *error)
{
    unused list = { .file = from->weights };
    *bytes = NULL;
    *length = 0;
    if (from->marian)
        return ET_OK;
    /* Their sizes were checked; positions may be more than the model's parameters. */
    et_weights_file_limit(from->weights, SIZE_MAX / sizeof(double));
    if (et_import_passes_shared(&from->facts, from->weights))
        add(&list, ET_UNUSED_TABLE);
    add(&list, ET_UNUSED_ENCODER_POSITIONS);
    add(&list, ET_UNUSED_DECODER_POSITIONS);
    return list.count ? make_file(&list, bytes, length, error) : ET_OK;
}
