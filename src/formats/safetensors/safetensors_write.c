/* The writer. A file is written front to back in one pass, and its header, which comes first,
 * has the checksums of all data; so tensors are read twice: once for their checksums
 * (append_header), once to be written (write_file). They must not change in between.
 *
 *   order_items -> check_names -> append_header -> seal_head -> room on the disk? -> write_file
 *
 * Only the header needs memory. The order of the data is by element size, then as given: so without
 * padding, every tensor begins at a multiple of its element's size.
 *
 * Equal input gives equal bytes: no time, no name of a machine, keys in a fixed order. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/map.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/safetensors_private.h"

/* A file being written: shared by append_header and the functions after it. It lives for one call
 * of et_safetensors_draft. */
struct draft {
    const char *path;                  /* borrowed */
    const char *format;                /* of a foreign file; NULL: it is sealed */
    const et_safetensors_item **items; /* in the order of the data; owned */
    const et_safetensors_item *given;  /* in the caller's order */
    size_t count;                      /* of items */
    const et_safetensors_reader *reader;
    et_strbuf head; /* length and header */
    uint64_t data;  /* bytes after head */
};

/* qsort is not stable, so the addresses say what came first. */
static int by_element_size(const void *left, const void *right)
{
    const et_safetensors_item *a = *(const et_safetensors_item *const *)left;
    const et_safetensors_item *b = *(const et_safetensors_item *const *)right;
    const size_t sa = et_safetensors_element(a->tensor.dtype);
    const size_t sb = et_safetensors_element(b->tensor.dtype);
    if (sa != sb)
        return sa > sb ? -1 : 1;
    return a < b ? -1 : a > b; /* as given: both point into one array */
}

/* Wide elements first, so that every tensor is aligned although the format allows no holes. With
 * F32 and BF16: all of 4 bytes, then all of 2, and no offset is odd for either. */
static int order_items(struct draft *draft, const et_safetensors_item *items, et_error *error)
{
    draft->items = et_alloc(draft->count, sizeof *draft->items);
    if (draft->items == NULL)
        return et_alloc_failed(error, "a list of tensors");
    for (size_t i = 0; i < draft->count; i++)
        /* Pointers are sorted, not items: the caller's array is const. */
        draft->items[i] = &items[i];
    qsort(draft->items, draft->count, sizeof *draft->items, by_element_size);
    return ET_OK;
}

/* Names are keys: unique, not the metadata's, and such that the reader takes them. Names come
 * from models, which users may extend, so they are errors and not asserts. */
static int check_names(const struct draft *draft, et_error *error)
{
    et_map seen = ET_MAP_INIT;
    int status = ET_OK;
    for (size_t i = 0; i < draft->count && !status; i++) {
        const char *name = draft->items[i]->name;
        int64_t other;
        /* The reader refuses such names, so a file with one could not be read back. */
        if (!et_tensor_name_sound(name))
            status = et_fail(error, ET_EFAIL,
                             "%s: the name of tensor %zu is not UTF-8 or has control characters",
                             draft->path, i);
        else if (et_map_get(&seen, name, &other) || strcmp(name, ET_TENSOR_METADATA) == 0)
            status = et_fail(error, ET_EFAIL, "%s: two tensors are named \"%s\"; rename one",
                             draft->path, name);
        else if (!et_map_put(&seen, name, (int64_t)i))
            status = et_alloc_failed(error, "names of tensors");
    }
    et_map_release(&seen);
    return status;
}

/* With JSON's escapes, as the printer of all other JSON here has them. */
static void append_string(et_strbuf *out, const char *text)
{
    const et_value value = { .kind = ET_VALUE_STRING, .string = text };
    et_json_print(out, &value, 0);
}

/* Passes all bytes of an item to take, from memory or from the reader. */
static int read_item(const struct draft *draft, const et_safetensors_item *item, uint64_t bytes,
                     et_safetensors_take_fn *take, void *payload, et_error *error)
{
    const et_safetensors_reader *reader = draft->reader;
    if (item->tensor.data || !bytes)
        return take(payload, item->tensor.data, bytes, error);
    et_assert(reader);
    return reader->read(reader->self, (size_t)(item - draft->given), take, payload, error);
}

static int add_to_checksum(void *stream, const void *bytes, size_t size, et_error *error)
{
    (void)error;
    if (size)
        et_checksum_stream_add(stream, bytes, size);
    return ET_OK;
}

static int checksum_of(uint64_t *out, const struct draft *draft, const et_safetensors_item *item,
                       uint64_t bytes, et_error *error)
{
    et_checksum_stream *stream;
    *out = item->tensor.data || !bytes ? et_checksum(item->tensor.data, bytes) : 0;
    if (item->tensor.data || !bytes)
        return ET_OK;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    status = read_item(draft, item, bytes, add_to_checksum, stream, error);
    *out = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return status;
}

/* ,"<name>":{"dtype":..,"shape":[..],"data_offsets":[..]} */
static void append_tensor(et_strbuf *out, const et_safetensors_item *item, uint64_t begin,
                          uint64_t end)
{
    const et_shape *shape = &item->tensor.shape;
    et_strbuf_append_char(out, ',');
    append_string(out, item->name);
    et_strbuf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[",
                     et_safetensors_dtype_name(item->tensor.dtype));
    for (int i = 0; i < shape->rank; i++)
        et_strbuf_printf(out, "%s%lld", i > 0 ? "," : "", (long long)shape->size[i]);
    et_strbuf_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                     (unsigned long long)end);
}

/* The metadata of a sealed file: the seal with zeros for its digits, the caller's, checksums. */
static int append_seal(struct draft *draft, const et_value *metadata, et_error *error)
{
    et_strbuf *head = &draft->head;
    et_strbuf key = ET_STRBUF_INIT;
    et_strbuf_append(head, ET_SAFETENSORS_SEAL "0000000000000000\"");
    /* ,"key":"value" for each; keys of the seal are the caller's bug. */
    for (const et_value *v = metadata ? metadata->first : NULL; v != NULL; v = v->next) {
        et_assert(v->kind == ET_VALUE_STRING);
        et_assert(strcmp(v->key, ET_SAFETENSORS_KEY_FORMAT) != 0);
        et_assert(strcmp(v->key, ET_SAFETENSORS_KEY_HEADER) != 0);
        et_assert(strncmp(v->key, ET_SAFETENSORS_KEY_TENSOR, strlen(ET_SAFETENSORS_KEY_TENSOR)) !=
                  0);
        et_strbuf_append_char(head, ',');
        append_string(head, v->key);
        et_strbuf_append_char(head, ':');
        append_string(head, v->string);
    }
    int status = ET_OK;
    for (size_t i = 0; i < draft->count && !status; i++) {
        const et_safetensors_item *item = draft->items[i];
        uint64_t bytes = 0, checksum = 0;
        et_safetensors_bytes(&bytes, item->tensor.dtype, item->tensor.shape);
        status = checksum_of(&checksum, draft, item, bytes, error);
        /* ,"checksum/<name>":"<digits>" */
        et_strbuf_reset(&key);
        et_strbuf_printf(&key, "%s%s", ET_SAFETENSORS_KEY_TENSOR, item->name);
        head->failed |= key.failed;
        et_strbuf_append_char(head, ',');
        append_string(head, et_strbuf_text(&key));
        et_strbuf_printf(head, ":\"%s\"", et_checksum_print(checksum).digits);
    }
    et_strbuf_release(&key);
    return status;
}

/* Header without its length and seal; data becomes the number of bytes after it. */
static int append_header(struct draft *draft, const et_value *metadata, et_error *error)
{
    et_strbuf *head = &draft->head;
    /* Room for the length, which is known when the header is. */
    et_strbuf_append_bytes(head, "\0\0\0\0\0\0\0\0", ET_SAFETENSORS_PREFIX);
    int status = ET_OK;
    for (size_t i = 0; i < draft->count && !status; i++) {
        const et_safetensors_item *item = draft->items[i];
        uint64_t bytes;
        if (!et_safetensors_bytes(&bytes, item->tensor.dtype, item->tensor.shape))
            status = et_fail(error, ET_EFAIL, "%s: %s is too large", draft->path, item->name);
    }
    if (!status && draft->format) {
        et_strbuf_append(head, "{\"" ET_TENSOR_METADATA "\":{\"" ET_SAFETENSORS_KEY_FORMAT "\":");
        append_string(head, draft->format);
    } else if (!status) {
        status = append_seal(draft, metadata, error);
    }
    et_strbuf_append_char(head, '}');
    for (size_t i = 0; i < draft->count && !status; i++) {
        uint64_t bytes = 0;
        et_safetensors_bytes(&bytes, draft->items[i]->tensor.dtype, draft->items[i]->tensor.shape);
        append_tensor(head, draft->items[i], draft->data, draft->data + bytes);
        draft->data += bytes;
    }
    et_strbuf_append_char(head, '}');
    return status;
}

/* Padding, length and the header's checksum. Spaces pad to ET_SAFETENSORS_ALIGNMENT, so the data
 * is aligned in the mapping. The length goes in before the checksum, which covers it. */
static int seal_head(struct draft *draft, et_error *error)
{
    et_strbuf *head = &draft->head;
    /* The format allows spaces after the object for this purpose. */
    const size_t over = head->length % ET_SAFETENSORS_ALIGNMENT;
    et_strbuf_append_blanks(head, over ? (int)(ET_SAFETENSORS_ALIGNMENT - over) : 0);
    if (head->failed)
        return et_alloc_failed(error, "the header of a checkpoint");
    /* The value of the first eight bytes: the length of the header with padding, without these
     * eight bytes. */
    const uint64_t length = head->length - ET_SAFETENSORS_PREFIX;
    if (length > ET_SAFETENSORS_HEADER_MAX)
        return et_fail(error, ET_EFAIL, "%s: a header of %llu bytes is too large; %d are allowed",
                       draft->path, (unsigned long long)length, ET_SAFETENSORS_HEADER_MAX);
    /* Little-endian on any machine. */
    for (int i = 0; i < ET_SAFETENSORS_PREFIX; i++)
        head->data[i] = (char)(length >> (8 * i));
    if (draft->format)
        return ET_OK;
    uint64_t checksum;
    const int status = et_safetensors_seal_compute(&checksum, head->data, head->length, error);
    if (status)
        return status;
    memcpy(head->data + et_safetensors_seal_position(), et_checksum_print(checksum).digits,
           ET_CHECKSUM_DIGITS);
    return ET_OK;
}

/* The file, and the checksum of the whole, which the manifest keeps. */
struct output {
    et_file_writer *writer;
    et_checksum_stream *whole;
};

static int write_piece(void *payload, const void *bytes, size_t length, et_error *error)
{
    const struct output *to = payload;
    if (length == 0)
        return ET_OK;
    et_checksum_stream_add(to->whole, bytes, length);
    return et_file_writer_write(to->writer, bytes, length, error);
}

/* On failure the temporary file is gone; on success it is complete and not yet durable. */
static int write_file(et_file_writer *writer, et_safetensors_written *written,
                      const struct draft *draft, et_error *error)
{
    /* The checksum of the whole file, header first, computed while writing; the manifest keeps it.
     */
    et_checksum_stream *whole;
    int status = et_checksum_stream_open(&whole, error);
    if (status)
        return status;
    status = et_file_writer_open(writer, draft->path, error);
    if (!status) {
        /* Header, then tensors in the order in which their offsets were given. */
        struct output to = { writer, whole };
        status = write_piece(&to, draft->head.data, draft->head.length, error);
        for (size_t i = 0; i < draft->count && !status; i++) {
            const et_safetensors_item *item = draft->items[i];
            uint64_t bytes = 0;
            et_safetensors_bytes(&bytes, item->tensor.dtype, item->tensor.shape);
            status = read_item(draft, item, bytes, write_piece, &to, error);
        }
        if (status)
            et_file_writer_abandon(writer);
    }
    written->bytes = draft->head.length + draft->data;
    written->checksum = et_checksum_stream_value(whole);
    et_checksum_stream_close(whole);
    return status;
}

/* A disk that is too full is found before the first byte. The writer outlives all that is freed
 * here. */
static int write_draft(struct draft *draft, et_file_writer *writer, et_safetensors_written *written,
                       const et_value *metadata, et_error *error)
{
    et_assert(draft->path && (draft->given || draft->count == 0));
    *written = (et_safetensors_written){ 0 };
    int status = order_items(draft, draft->given, error);
    if (!status && !(status = check_names(draft, error)) &&
        !(status = append_header(draft, metadata, error)) && !(status = seal_head(draft, error)) &&
        !(status = et_disk_check(draft->path, draft->head.length + draft->data, error)))
        status = write_file(writer, written, draft, error);
    et_free(draft->items);
    et_strbuf_release(&draft->head);
    return status;
}

int et_safetensors_draft(et_file_writer *writer, et_safetensors_written *written, const char *path,
                         const et_safetensors_item *items, size_t count,
                         const et_safetensors_reader *reader, const et_value *metadata,
                         et_error *error)
{
    struct draft draft = {
        .path = path, .given = items, .count = count, .reader = reader, .head = ET_STRBUF_INIT
    };
    return write_draft(&draft, writer, written, metadata, error);
}

/* The draft, then fsync and rename. */
int et_safetensors_write(et_safetensors_written *written, const char *path,
                         const et_safetensors_item *items, size_t count, const et_value *metadata,
                         et_error *error)
{
    et_file_writer writer;
    int status = et_safetensors_draft(&writer, written, path, items, count, NULL, metadata, error);
    return status ? status : et_file_writer_commit(&writer, error);
}

int et_safetensors_write_foreign(const char *path, const char *format,
                                 const et_safetensors_item *items, size_t count,
                                 const et_safetensors_reader *reader, et_error *error)
{
    et_file_writer writer;
    et_safetensors_written written;
    struct draft draft = { .path = path,
                           .format = format,
                           .given = items,
                           .count = count,
                           .reader = reader,
                           .head = ET_STRBUF_INIT };
    int status = write_draft(&draft, &writer, &written, NULL, error);
    return status ? status : et_file_writer_commit(&writer, error);
}
