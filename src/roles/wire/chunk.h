/* Messages in chunks for a transport: a message is sent as one chunk or several, each of at most 32
 * KiB. Pieces of a connection arrive in order or not at all. A chunk that does not continue the
 * last one is dropped; its message is then never complete, and the sender of the question asks
 * again. The first chunk of a message replaces an unfinished message of its connection.
 *
 * A chunk is the number of its message, its offset there, the size of the whole (8 bytes each,
 * little-endian), then its bytes. The whole is a header and its body.
 *
 * Memory is allocated only for messages of several chunks, after the first has arrived: at most
 * `largest` bytes each, for as many connections at a time as there are places. Places keep their
 * memory for the next message. A further connection gets the place that has waited longest for its
 * next chunk.
 *
 * No threads. */
#ifndef ETUDE_ROLES_WIRE_CHUNK_H
#define ETUDE_ROLES_WIRE_CHUNK_H

#include <etude/error.h>

#include "roles/wire/message.h"

#define ET_CHUNK      32768 /* most bytes of a chunk */
#define ET_CHUNK_HEAD 24

/* How many chunks a message with so many bytes has. */
int64_t et_chunk_count(size_t size);

/* ---- from a message to its chunks ---- */

typedef struct et_chunking {
    unsigned char header[ET_MESSAGE_HEADER];
    const unsigned char *bytes; /* borrowed */
    uint64_t number;
    size_t at, whole;
} et_chunking;

/* number: another one for each message of a sender. */
void et_chunking_begin(et_chunking *cutting, const et_message *message, uint64_t number);

/* Bytes of the next chunk; 0: no more chunks. */
size_t et_chunking_next(const et_chunking *cutting);

/* chunk: [et_chunking_next]. */
void et_chunking_write(et_chunking *cutting, unsigned char *chunk);

/* ---- and back ---- */

typedef struct et_assembly_buffer {
    uint64_t connection, number;
    size_t at, whole;     /* received bytes, and bytes of the whole message; whole 0: no message */
    unsigned char *bytes; /* [space], owned */
    size_t space;
    uint64_t last; /* number of the last chunk that continued it; 0: never */
} et_assembly_buffer;

typedef struct et_assembly {
    size_t largest;
    int buffers;
    et_assembly_buffer *buffer; /* [places], owned */
    uint64_t chunks;            /* that have come */
} et_assembly;

/* largest: bytes of a message without its header. To be released in any case. */
int et_assembly_open(et_assembly *assembly, int buffers, size_t largest, et_error *error);
void et_assembly_release(et_assembly *assembly); /* also of zeros */

typedef enum et_chunk_state {
    ET_CHUNK_KEPT,
    ET_CHUNK_LAST,    /* a message is whole with it */
    ET_CHUNK_DROPPED, /* an earlier piece is missing, or there is no memory */
    ET_CHUNK_WRONG,   /* an impossible piece, or longer than `largest` */
} et_chunk_state;

/* A chunk of a connection. ET_CHUNK_LAST: the message is data [size], which is valid until the next
 * call and as long as the chunk. */
et_chunk_state et_assembly_take(et_assembly *assembly, uint64_t connection, const void *chunk,
                                size_t chunk_size, const unsigned char **data, size_t *size);

#endif
