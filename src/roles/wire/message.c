#include "roles/wire/message.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "roles/wire/wire.h"

#define MAGIC     0x31637465u /* "etc1" */
#define CHECKED   80          /* bytes of a header before its checksum */
#define PAUSE_MAX 16.0

/* Layout: magic 0, kind 4, from 8, (zero) 12, run 16, session 24, sequence 32, number 40, extra 48,
 * value 56, size 72, checksum 80. The checksum covers the bytes before it and the body. */
static uint64_t checksum_of(const unsigned char *header, const void *bytes, size_t size)
{
    uint64_t both[2] = { et_checksum(header, CHECKED), size ? et_checksum(bytes, size) : 0 };
    return et_checksum(both, sizeof both);
}

void et_message_write(const et_message *message, unsigned char *header)
{
    uint32_t words[4] = { MAGIC, (uint32_t)message->kind, (uint32_t)message->from, 0 };
    uint64_t size = message->size;
    memcpy(header, words, sizeof words);
    memcpy(header + 16, &message->run, 8);
    memcpy(header + 24, &message->session, 8);
    memcpy(header + 32, &message->sequence, 8);
    memcpy(header + 40, &message->number, 8);
    memcpy(header + 48, &message->extra, 8);
    memcpy(header + 56, message->value, 16);
    memcpy(header + 72, &size, 8);
    uint64_t checksum = checksum_of(header, message->bytes, message->size);
    memcpy(header + CHECKED, &checksum, 8);
}

bool et_message_read(et_message *out, const void *data, size_t size)
{
    const unsigned char *header = data;
    uint32_t words[4];
    uint64_t length, checksum;
    if (size < ET_MESSAGE_HEADER)
        return false;
    memcpy(words, header, sizeof words);
    memcpy(&length, header + 72, 8);
    memcpy(&checksum, header + CHECKED, 8);
    if (words[0] != MAGIC || words[1] == 0 || words[1] >= ET_MESSAGE_KINDS ||
        words[2] >= ET_TASKS_MAX || words[3] || length != size - ET_MESSAGE_HEADER)
        return false;
    *out = (et_message){ .kind = (et_message_kind)words[1],
                         .from = (int)words[2],
                         .bytes = header + ET_MESSAGE_HEADER,
                         .size = (size_t)length };
    if (checksum_of(header, out->bytes, out->size) != checksum)
        return false;
    memcpy(&out->run, header + 16, 8);
    memcpy(&out->session, header + 24, 8);
    memcpy(&out->sequence, header + 32, 8);
    memcpy(&out->number, header + 40, 8);
    memcpy(&out->extra, header + 48, 8);
    memcpy(out->value, header + 56, 16);
    return true;
}

void et_link_send(et_link *link, int to, const et_message *message)
{
    link->class->send(link, to, message);
}

void et_link_answer(et_link *link, const et_message *question, et_message answer)
{
    answer.sequence = question->sequence;
    answer.via = question->via;
    et_link_send(link, question->from, &answer);
}

void et_link_refuse(et_link *link, const et_message *question, int from, int status,
                    const char *why)
{
    size_t size = strnlen(why, ET_MESSAGE_TEXT);
    et_message answer = { .kind = ET_MESSAGE_REFUSED,
                          .from = from,
                          .run = question->run,
                          .session = question->session,
                          .number = status,
                          .bytes = why,
                          .size = size };
    et_link_answer(link, question, answer);
}

int et_refusal_status(const et_message *refusal)
{
    return refusal->number == ET_EDIVERGED ? ET_EDIVERGED : ET_EIO;
}

void et_asking_begin(et_asking *asking, et_link *link, double now, int to,
                     const et_message *message)
{
    *asking = (et_asking){ .to = to,
                           .waiting = true,
                           .message = *message,
                           .begun = now,
                           .again = now + ET_ASKING_PAUSE,
                           .pause = ET_ASKING_PAUSE };
    et_link_send(link, to, message);
}

void et_asking_tick(et_asking *asking, et_link *link, double now)
{
    if (!asking->waiting || now < asking->again)
        return;
    if (asking->pause > ET_ASKING_PAUSE && link->class->doubt)
        link->class->doubt(link, asking->to);
    asking->pause = asking->pause * 2 < PAUSE_MAX ? asking->pause * 2 : PAUSE_MAX;
    asking->again = now + asking->pause;
    et_link_send(link, asking->to, &asking->message);
}

bool et_asking_takes(et_asking *asking, const et_message *message)
{
    if (!asking->waiting || message->from != asking->to ||
        message->sequence != asking->message.sequence)
        return false;
    asking->waiting = false;
    return true;
}

/* ---- addresses ---- */

const char *const et_job_role_names[] = { "master", "ps", "worker", NULL };

int et_address_find(struct addrinfo **out, const char *address, et_error *error)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    *out = NULL;
    if (!length || length >= sizeof host)
        return et_fail(error, ET_ECONFIG, "%s: not of the form host:port", address);
    bool bracketed = address[0] == '[' && address[length - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)length - 2 * bracketed, address + bracketed);
    int reason = getaddrinfo(host, colon + 1, &hints, out);
    return reason ? et_fail(error, ET_ECONFIG, "%s: %s", address, gai_strerror(reason)) : ET_OK;
}

/* ---- chunks ---- */

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
    return ET_ALLOC_ZERO(assembly->buffer, buffers, "messages under way", error);
}

void et_assembly_release(et_assembly *assembly)
{
    for (int i = 0; assembly->buffer && i < assembly->buffers; i++)
        et_free(assembly->buffer[i].bytes);
    et_free(assembly->buffer);
    *assembly = (et_assembly){ 0 };
}

/* The place to reuse: the least recently used place without a message in progress. If all are in
 * progress: the place that has waited longest. */
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
        buffer->bytes = et_alloc(1, head[2]);
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
    memcpy(buffer->bytes + buffer->at, *data, count);
    buffer->at += (size_t)count;
    buffer->last = ++assembly->chunks;
    *data = buffer->bytes;
    if (buffer->at < buffer->whole)
        return ET_CHUNK_KEPT;
    buffer->whole = 0;
    return ET_CHUNK_LAST;
}
