/* Keeps the tensors that an import does not use in a text of the export (unused_tensors.h). */
#include <stdio.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/unused_tensors.h"

typedef struct unused {
    et_weights_file *file;
    et_value *metadata;         /* NULL: none */
    et_safetensors_item *items; /* [count] owned */
    size_t count, capacity;
    bool failed;
} unused;

static void add(unused *list, const char *name)
{
    et_shape shape;
    if (!et_weights_file_find(list->file, name, &shape) || list->failed)
        return;
    et_safetensors_item *items =
        et_vector_grow(list->items, &list->capacity, list->count + 1, sizeof *items, 8);
    list->failed = !items;
    if (!items)
        return;
    list->items = items;
    items[list->count++] =
        (et_safetensors_item){ .name = name, .tensor = { .dtype = ET_F32, .shape = shape } };
}

static int read_item(void *self, size_t item, et_safetensors_take_fn *take, void *payload,
                     et_error *error)
{
    const unused *list = self;
    const float *values;
    const et_safetensors_item *of = &list->items[item];
    int status = et_weights_file_read(list->file, of->name, &values, error);
    return status ? status
                  : take(payload, values, (size_t)et_shape_count(of->tensor.shape) * sizeof *values,
                         error);
}

static int write_file(unused *list, const char *path, et_error *error)
{
    const et_safetensors_reader reader = { read_item, list };
    et_safetensors_written written;
    et_file_writer writer;
    int status = et_safetensors_draft(&writer, &written, path, list->items, list->count, &reader,
                                      list->metadata, error);
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

/* text: copied; "" notes nothing. */
static void note(et_import *from, unused *list, const char *key, const char *text)
{
    if (!*text)
        return;
    if (!list->metadata)
        list->metadata = et_value_dict(&from->arena);
    et_value_set_string(list->metadata, key, et_arena_strdup(&from->arena, text));
}

/* Records the other names of a table. */
static int note_copies(et_import *from, unused *list, et_error *error)
{
    static const char *const names[ET_UNUSED_COPIES_MAX] = { ET_UNUSED_OF_OUTPUT,
                                                             ET_UNUSED_OF_ENCODER,
                                                             ET_UNUSED_OF_DECODER };
    const int count = !from->facts.tied ? 0 : from->facts.shared ? ET_UNUSED_COPIES_MAX : 1;
    et_strbuf copies = ET_STRBUF_INIT;
    et_shape shape;
    for (int i = 0; i < count; i++)
        if (et_weights_file_find(from->weights, names[i], &shape))
            et_strbuf_printf(&copies, "%s ", names[i]);
    note(from, list, ET_UNUSED_COPIES, et_strbuf_text(&copies));
    const bool failed = copies.failed;
    et_strbuf_release(&copies);
    return failed ? et_alloc_failed(error, 0, "names of tables") : ET_OK;
}

/* If there are tables of positions, their number of rows is the number of positions. */
static int note_lengths(et_import *from, unused *list, et_error *error)
{
    et_shape shape;
    const bool tables = et_weights_file_find(from->weights, ET_UNUSED_ENCODER_POSITIONS, &shape) ||
                        et_weights_file_find(from->weights, ET_UNUSED_DECODER_POSITIONS, &shape);
    const struct {
        const char *key;
        int64_t length;
    } lengths[] = { { ET_UNUSED_POSITIONS, tables ? 0 : from->facts.positions },
                    { ET_UNUSED_LONGEST, from->facts.longest } };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char text[24] = "";
        if (lengths[i].length)
            snprintf(text, sizeof text, "%lld", (long long)lengths[i].length);
        note(from, list, lengths[i].key, text);
    }
    return list->metadata && et_value_failed(list->metadata)
               ? et_alloc_failed(error, 0, "a model's settings")
               : ET_OK;
}

/* Tables of positions of half models may be in float32. */
static void note_precision(et_import *from, unused *list)
{
    static const char *const tables[] = { ET_UNUSED_ENCODER_POSITIONS,
                                          ET_UNUSED_DECODER_POSITIONS };
    const char *precision = et_weights_file_precision(from->weights, tables, 2);
    note(from, list, ET_UNUSED_PRECISION, precision ? precision : "");
}

bool et_import_passes_shared(const et_import_facts *facts, const et_weights_file *file)
{
    et_shape shape;
    return !facts->shared && et_weights_file_find(file, ET_UNUSED_TABLE, &shape) &&
           et_weights_file_find(file, ET_UNUSED_OF_ENCODER, &shape);
}

static int find_unused(et_import *from, unused *list, et_error *error)
{
    if (et_import_passes_shared(&from->facts, from->weights))
        add(list, ET_UNUSED_TABLE);
    add(list, ET_UNUSED_ENCODER_POSITIONS);
    add(list, ET_UNUSED_DECODER_POSITIONS);
    note_precision(from, list);
    int status = note_copies(from, list, error);
    return status ? status : note_lengths(from, list, error);
}

int et_import_read_unused(et_import *from, char **bytes, size_t *length, et_error *error)
{
    unused list = { .file = from->weights };
    const char *name;
    size_t at = 0;
    int status = ET_OK;
    *bytes = NULL;
    *length = 0;
    /* Sizes were checked. Tables of positions may be larger than the model's parameters. */
    et_weights_file_limit(from->weights, SIZE_MAX / sizeof(double));
    if (!from->marian)
        status = find_unused(from, &list, error);
    else
        while ((name = et_weights_file_next(from->weights, ET_MARIAN_MULTIPLIER, &at)))
            add(&list, name);
    if (!status && list.failed)
        status = et_alloc_failed(error, list.count, "names of tensors");
    if (!status && (list.count || list.metadata))
        status = make_file(&list, bytes, length, error);
    et_free(list.items);
    return status;
}
