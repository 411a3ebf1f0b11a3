#include "roles/wire/chunk.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MOST (ET_CHUNK - ET_CHUNK_HEAD) /* bytes of a message in a chunk */

int64_t et_chunk_count(size_t size)
{
    return (int64_t)(size / MOST + (size % MOST + ET_MESSAGE_HEADER + MOST - 1) / MOST);
}

/* ---- from a message to its chunks ---- */

void et_chunking_begin(et_chunking *cutting, const et_message *message, uint64_t number)
{
    *cutting = (et_chunking){ .bytes = message->bytes,
                              .number = number,
                              .whole = ET_MESSAGE_HEADER + message->size };
    et_message_write(message, cutting->header);
}

size_t et_chunking_next(const et_chunking *cutting)
{
    size_t left = cutting->whole - cutting->at;
    return left ? ET_CHUNK_HEAD + (left < MOST ? left : MOST) : 0;
}

void et_chunking_write(et_chunking *cutting, unsigned char *chunk)
{
    size_t size = et_chunking_next(cutting) - ET_CHUNK_HEAD;
    uint64_t head[3] = { cutting->number, cutting->at, cutting->whole };
    /* The header is in the first chunk, whole. */
    size_t ahead = cutting->at ? 0 : ET_MESSAGE_HEADER;
    et_assert(cutting->at < cutting->whole);
    memcpy(chunk, head, sizeof head);
    memcpy(chunk + ET_CHUNK_HEAD, cutting->header, ahead);
    if (size > ahead)
        memcpy(chunk + ET_CHUNK_HEAD + ahead,
               cutting->bytes + cutting->at + ahead - ET_MESSAGE_HEADER, size - ahead);
    cutting->at += size;
}

/* ---- and back ---- */

int et_assembly_open(et_assembly *assembly, int buffers, size_t largest, et_error *error)
{
    et_assert(buffers >= 1);
    *assembly = (et_assembly){ .largest = largest, .buffers = buffers };
    assembly->buffer = et_alloc_zero((size_t)buffers, sizeof *assembly->buffer);
    return assembly->buffer ? ET_OK
                            : et_alloc_failed(error, (size_t)buffers * sizeof *assembly->buffer,
                                              "messages under way");
}

void et_assembly_release(et_assembly *assembly)
{
    for (int i = 0; assembly->buffer && i < assembly->buffers; i++)
        et_free(assembly->buffer[i].bytes);
    et_free(assembly->buffer);
    *assembly = (et_assembly){ 0 };
}

/* The place that may be reused: one without a message in progress, unused for the longest time; if
 * all are in progress, the one that has waited longest. */
static et_assembly_buffer *least_needed(const et_assembly *assembly)
{
    et_assembly_buffer *least = assembly->buffer;
    for (int i = 1; i < assembly->buffers; i++) {
        et_assembly_buffer *other = &assembly->buffer[i];
        if (!other->whole == !least->whole ? other->last < least->last : !other->whole)
            least = other;
    }
    return least;
}

/* The place of a message's next chunk; NULL: none. */
static et_assembly_buffer *find_buffer(et_assembly *assembly, uint64_t connection,
                                       const uint64_t *head)
{
    et_assembly_buffer *buffer = NULL;
    for (int i = 0; !buffer && i < assembly->buffers; i++)
        if (assembly->buffer[i].last && assembly->buffer[i].connection == connection)
            buffer = &assembly->buffer[i];
    if (head[1])
        return buffer && buffer->whole == head[2] && buffer->number == head[0] &&
                       buffer->at == head[1]
                   ? buffer
                   : NULL;
    buffer = buffer ? buffer : least_needed(assembly);
    buffer->whole = 0;
    if (head[2] > buffer->space) {
        et_free(buffer->bytes);
        buffer->bytes = et_alloc(1, (size_t)head[2]);
        buffer->space = buffer->bytes ? (size_t)head[2] : 0;
        if (!buffer->bytes)
            return NULL;
    }
    buffer->connection = connection;
    buffer->number = head[0];
    buffer->at = 0;
    buffer->whole = (size_t)head[2];
    return buffer;
}

et_chunk_state et_assembly_take(et_assembly *assembly, uint64_t connection, const void *chunk,
                                size_t chunk_size, const unsigned char **data, size_t *size)
{
    uint64_t head[3];
    const unsigned char *bytes = chunk;
    if (chunk_size <= sizeof head)
        return ET_CHUNK_WRONG;
    memcpy(head, chunk, sizeof head);
    uint64_t count = chunk_size - sizeof head;
    if (head[2] < ET_MESSAGE_HEADER || head[2] - ET_MESSAGE_HEADER > assembly->largest ||
        head[1] > head[2] || count > head[2] - head[1])
        return ET_CHUNK_WRONG;
    *size = (size_t)head[2];
    *data = bytes + sizeof head;
    if (count == head[2])
        return ET_CHUNK_LAST;
    et_assembly_buffer *buffer = find_buffer(assembly, connection, head);
    if (!buffer)
        return ET_CHUNK_DROPPED;
    memcpy(buffer->bytes + buffer->at, *data, (size_t)count);
    buffer->at += (size_t)count;
    buffer->last = ++assembly->chunks;
    *data = buffer->bytes;
    if (buffer->at < buffer->whole)
        return ET_CHUNK_KEPT;
    buffer->whole = 0;
    return ET_CHUNK_LAST;
}
