/* table_file.h has the layout. Head and rows are multiples of 4 bytes and padded to 8, so first and
 * foot are aligned in a mapping. A file is checked in steps; each step trusts only what the earlier
 * ones have checked. */
#include "data/table/table_file.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"

#define MAGIC   UINT64_C(0x316c626174757445) /* "Etutabl1" in little-endian bytes */
#define VERSION 1u

_Static_assert(sizeof(et_table_head) == 32, "the head has no holes");
_Static_assert(sizeof(et_table_foot) == 48, "the foot has no holes");

size_t et_table_row_size(const et_encoder *encoder)
{
    const et_layout *layout = et_encoder_layout(encoder);
    size_t size = sizeof(uint32_t);
    for (int i = 0; i < et_encoder_fields(encoder); i++)
        size +=
            (size_t)et_shape_count(layout->field[i].item) * et_dtype_size(layout->field[i].dtype);
    return size;
}

/* Bytes of zeros after `bytes` bytes of rows. */
static size_t padding(uint64_t bytes)
{
    return bytes % 8 ? (size_t)(8 - bytes % 8) : 0;
}

/* ---- writing ---- */

int et_table_writer_begin(et_table_writer *writer, const char *path, uint64_t key, size_t row_size,
                          et_error *error)
{
    et_table_head head = { MAGIC, VERSION, (uint32_t)row_size, key, 0 };
    head.checksum = et_checksum(&head, offsetof(et_table_head, checksum));
    writer->payload = NULL;
    int status = et_file_writer_open(&writer->file, path, error);
    if (status)
        return status;
    status = et_checksum_stream_open(&writer->payload, error);
    if (!status)
        status = et_file_writer_write(&writer->file, &head, sizeof head, error);
    if (status)
        et_table_writer_abandon(writer);
    return status;
}

void et_table_writer_abandon(et_table_writer *writer)
{
    et_file_writer_abandon(&writer->file);
    et_checksum_stream_close(writer->payload);
}

int et_table_writer_add(et_table_writer *writer, const void *rows, size_t bytes, et_error *error)
{
    et_checksum_stream_add(writer->payload, rows, bytes);
    return bytes ? et_file_writer_write(&writer->file, rows, bytes, error) : ET_OK;
}

int et_table_writer_end(et_table_writer *writer, const et_table_parts *parts, et_error *error)
{
    static const char zeros[8];
    size_t rows = (size_t)parts->count * parts->row_size;
    et_assert_equal(writer->file.length, sizeof(et_table_head) + rows);
    et_table_foot foot = { .rows = (uint64_t)parts->count,
                           .files = parts->files,
                           .fingerprint = parts->fingerprint,
                           .magic = MAGIC };
    int status = et_table_writer_add(writer, zeros, padding(rows), error);
    if (!status)
        status =
            et_table_writer_add(writer, parts->first, parts->files * sizeof *parts->first, error);
    foot.payload = et_checksum_stream_value(writer->payload);
    foot.checksum = et_checksum(&foot, offsetof(et_table_foot, checksum));
    if (!status)
        status = et_file_writer_write(&writer->file, &foot, sizeof foot, error);
    if (status) {
        et_table_writer_abandon(writer);
        return status;
    }
    et_checksum_stream_close(writer->payload);
    return et_file_writer_commit(&writer->file, error);
}

/* ---- soundness ---- */

static bool head_is_sound(const et_mapping *mapping)
{
    const et_table_head *head = mapping->data;
    return mapping->length >= sizeof *head + sizeof(et_table_foot) && head->magic == MAGIC &&
           head->version == VERSION &&
           head->checksum == et_checksum(head, offsetof(et_table_head, checksum));
}

/* Counts are compared before they are multiplied. */
static bool foot_is_sound(et_table_parts *parts, const et_mapping *mapping, size_t files)
{
    const char *bytes = mapping->data;
    const et_table_foot *foot = (const void *)(bytes + mapping->length - sizeof *foot);
    const et_table_head *head = mapping->data;
    if (mapping->length % 8 || foot->magic != MAGIC ||
        foot->checksum != et_checksum(foot, offsetof(et_table_foot, checksum)))
        return false;
    if (foot->files != files || foot->rows < 1 || foot->rows > UINT32_MAX ||
        foot->rows > mapping->length / parts->row_size)
        return false;
    uint64_t rows = foot->rows * parts->row_size;
    if (mapping->length !=
        sizeof *head + rows + padding(rows) + files * sizeof *parts->first + sizeof *foot)
        return false;
    parts->rows = (const unsigned char *)(head + 1);
    parts->count = (int64_t)foot->rows;
    parts->first = (const void *)(parts->rows + rows + padding(rows));
    parts->files = files;
    parts->fingerprint = foot->fingerprint;
    return true;
}

static bool payload_is_sound(const et_table_parts *parts, const et_mapping *mapping)
{
    const char *end = (const char *)mapping->data + mapping->length;
    const et_table_foot *foot = (const void *)(end - sizeof *foot);
    size_t bytes = mapping->length - sizeof(et_table_head) - sizeof *foot;
    return foot->payload == et_checksum(parts->rows, bytes);
}

static bool files_rise(const et_table_parts *parts)
{
    for (size_t i = 0; i < parts->files; i++)
        if (parts->first[i] > (uint64_t)parts->count ||
            (i ? parts->first[i] < parts->first[i - 1] : parts->first[i] != 0))
            return false;
    return true;
}

/* Checks values: ids are below their number, classes too or -1, and numbers are finite, except
 * those of targets. */
static bool item_is_sound(const et_encoded_field *f, const unsigned char *item)
{
    for (int64_t i = 0; i < f->width; i++, item += sizeof(float)) {
        int32_t id;
        float number;
        memcpy(&id, item, sizeof id);
        memcpy(&number, item, sizeof number);
        bool sound = true;
        switch (f->kind) {
        case ET_ENCODED_NUMBERS:
            sound = isfinite(number);
            break;
        case ET_ENCODED_IDS:
            sound = id >= 0 && id < f->cardinality[i];
            break;
        case ET_ENCODED_CLASS:
            sound = id >= -1 && id < f->classes;
            break;
        case ET_ENCODED_LABELS:
            sound = isnan(number) || number == 0 || number == 1;
            break;
        case ET_ENCODED_VALUES:
            sound = !isinf(number);
            break;
        case ET_ENCODED_WORDS:
            sound = id >= -1 && id < f->cardinality[i];
            break;
        case ET_ENCODED_WEIGHT:
            sound = isfinite(number) && number >= 0;
            break;
        case ET_ENCODED_WRITTEN:
            sound = i % 2 || !isinf(et_encoded_written(item, 0));
            break;
        }
        if (!sound)
            return false;
    }
    return true;
}

static bool rows_are_sound(const et_table_parts *parts, const et_encoder *encoder)
{
    for (int64_t row = 0; row < parts->count; row++) {
        const unsigned char *at = parts->rows + (size_t)row * parts->row_size;
        for (int i = 0; i < et_encoder_fields(encoder); i++) {
            const et_encoded_field *f = et_encoder_field(encoder, i);
            if (!item_is_sound(f, at))
                return false;
            at += (size_t)f->width * sizeof(float);
        }
    }
    return true;
}

/* Another key is no fault: the data or a setting changed and the file is outdated. */
const char *et_table_file_fault(et_table_parts *parts, const et_mapping *mapping, uint64_t key,
                                const et_encoder *encoder, size_t files, bool known, bool *current)
{
    const et_table_head *head = mapping->data;
    *parts = (et_table_parts){ .row_size = et_table_row_size(encoder) };
    *current = false;
    if (!head_is_sound(mapping))
        return "head";
    if (head->key != key)
        return NULL;
    *current = true;
    if (head->row_size != parts->row_size)
        return "size of rows";
    if (!foot_is_sound(parts, mapping, files))
        return "size";
    if (known)
        return NULL;
    if (!payload_is_sound(parts, mapping))
        return "checksum";
    if (!files_rise(parts))
        return "files";
    return rows_are_sound(parts, encoder) ? NULL : "rows";
}
