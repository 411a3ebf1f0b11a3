/* Messages between the tasks of a cluster: a header of fixed size, then the bytes of the body. A
 * transport (et_link) carries messages and may lose, delay, repeat or damage them. A task repeats a
 * question (et_asking) until it is answered, and the answer can be repeated too. So the protocols
 * (master, worker, parameter server) work over an unreliable transport, and tests replace it by a
 * simulation.
 *
 * A header has the sender (a task's number: 0 the master, then servers, then workers), its run and
 * session, and a sequence number; an answer has the number of its question. A message with a wrong
 * checksum, size or kind is ignored. All is little-endian; floats are float32.
 *
 * No threads, no clock: the caller passes the time, in seconds. */
#ifndef ETUDE_ROLES_WIRE_MESSAGE_H
#define ETUDE_ROLES_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef enum et_message_kind {
    ET_MESSAGE_NONE,
    ET_MESSAGE_HELLO,   /* worker to master: nonce, fingerprint */
    ET_MESSAGE_ASK,     /* worker to master: number is a ticket done, or 0; a report */
    ET_MESSAGE_WELCOME, /* master to worker: session, run; the place to continue in the data */
    ET_MESSAGE_GO,      /* master to worker: number is the next ticket, extra a version;
                           value[0]: updates that are expected before its own */
    ET_MESSAGE_STOP,    /* master to worker: all is done */
    ET_MESSAGE_BYE,     /* worker to master: acknowledges STOP */
    ET_MESSAGE_PULL,    /* worker to server: values of version `number` or later; value[0]: as in GO
                         */
    ET_MESSAGE_VALUES,  /* the answer: weights, or predicted weights; number is their version */
    ET_MESSAGE_PUSH,    /* worker to server: the gradient of ticket `number` */
    ET_MESSAGE_STAGED,  /* the answer: value[0] is its sum of squares; kept until applied */
    ET_MESSAGE_OPEN,    /* master to server: state of version `number`, fingerprint */
    ET_MESSAGE_ADMIT,   /* master to server: worker `number` has session `extra` from now on */
    ET_MESSAGE_ADD,     /* master to server: pushes that are part of update `number` */
    ET_MESSAGE_APPLY,   /* master to server: make update `number` of the added gradients and these
                           pushes; value: scale, norm */
    ET_MESSAGE_READ,    /* master to server: the state is wanted */
    ET_MESSAGE_END,     /* master to server: all is done */
    ET_MESSAGE_DONE,    /* server to master: so it is; value[0]: of ADD the sum's squares */
    ET_MESSAGE_STATE,   /* server to master: weights and slots */
    ET_MESSAGE_REFUSED, /* the answer to anything: `number` is the status with which the asking task
                           ends (et_refusal_status), the bytes are a text for people */
    ET_MESSAGE_KINDS,
} et_message_kind;

typedef struct et_message {
    et_message_kind kind;
    int from;              /* a task's number */
    uint64_t run, session; /* 0: not known yet */
    uint64_t sequence;
    int64_t number, extra;
    double value[2];
    const void *bytes; /* [size], borrowed; need not be aligned */
    size_t size;
    uint64_t via; /* not sent: the connection it came over, for the answer; 0: not known */
} et_message;

#define ET_MESSAGE_HEADER 88  /* bytes */
#define ET_MESSAGE_TEXT   500 /* most bytes of a text for people */
#define ET_TASK_MASTER    0   /* numbers of tasks */
#define ET_TASKS_MAX      4096

/* header[ET_MESSAGE_HEADER], of message. */
void et_message_write(const et_message *message, unsigned char *header);

/* Reads a whole message; its bytes point into data. False: not a message. */
bool et_message_read(et_message *out, const void *data, size_t size);

/* ---- a transport ---- */

typedef struct et_link et_link;

typedef struct et_link_class {
    const char *name;
    /* Copies and sends the message, or drops it if it cannot be sent now. */
    void (*send)(et_link *self, int to, const et_message *message);
    /* A task has not answered a repeated question, so the connection may be broken; NULL: that
     * cannot happen. */
    void (*doubt)(et_link *self, int to);
} et_link_class;

struct et_link {
    const et_link_class *class;
};

void et_link_send(et_link *link, int to, const et_message *message);

/* An answer to a question: its sequence and way back; our number, kind and bytes as given. */
void et_link_answer(et_link *link, const et_message *question, et_message answer);
/* REFUSED with a status and a text. */
void et_link_refuse(et_link *link, const et_message *question, int from, int status,
                    const char *why);
/* ET_EDIVERGED if the message says so, otherwise always ET_EIO. */
int et_refusal_status(const et_message *refusal);

/* ---- a question that is repeated until it is answered ---- */

typedef struct et_asking {
    int to;
    bool waiting;
    et_message message; /* its bytes are borrowed until the answer */
    double begun, again, pause;
} et_asking;

#define ET_ASKING_PAUSE 1.0 /* seconds before the first repetition; doubled each time, up to 16 */

void et_asking_begin(et_asking *asking, et_link *link, double now, int to,
                     const et_message *message);
/* Repeats the question if its pause has passed. From the second repetition on, calls the link's
 * doubt. */
void et_asking_tick(et_asking *asking, et_link *link, double now);
/* Whether message is its answer; if so, the question is closed. */
bool et_asking_takes(et_asking *asking, const et_message *message);

/* Messages in chunks for a transport: a message is sent as one chunk or several, each of at most 32
 * KiB. Chunks of a connection arrive in order or not at all. A chunk that does not continue the
 * last one is dropped. Then its message is never complete, and the sender of the question asks
 * again. The first chunk of a message replaces an unfinished message of its connection.
 *
 * A chunk has the number of its message, its offset in the message, the size of the message (8
 * bytes each, little-endian), then its bytes. A message is a header and its body.
 *
 * Memory is allocated only for messages of several chunks, after the first chunk has arrived: at
 * most `largest` bytes per message. A fixed number of places limits how many connections have such
 * memory. Places keep their memory for the next message. If all places are in use, a further
 * connection gets the place that has waited longest for its next chunk.
 *
 * No threads. */

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
    ET_CHUNK_DROPPED, /* an earlier chunk is missing, or no memory is left */
    ET_CHUNK_WRONG,   /* an impossible piece, or longer than `largest` */
} et_chunk_state;

/* A chunk of a connection. ET_CHUNK_LAST: the message is data [size], which is valid until the next
 * call and as long as the chunk. */
et_chunk_state et_assembly_take(et_assembly *assembly, uint64_t connection, const void *chunk,
                                size_t chunk_size, const unsigned char **data, size_t *size);

#endif
