/* Messages in pieces for a transport: a message is sent as one piece or several, each of at most 32
 * KiB. Pieces of a connection arrive in order or not at all. A piece that does not continue the
 * last one is dropped; its message is then never complete, and the sender of the question asks
 * again. The first piece of a message replaces an unfinished message of its connection.
 *
 * A piece is the number of its message, its offset there, the size of the whole (8 bytes each,
 * little-endian), then its bytes. The whole is a header and its body.
 *
 * Memory is allocated only for messages of several pieces, after the first has arrived: at most
 * `largest` bytes each, for as many connections at a time as there are places. Places keep their
 * memory for the next message. A further connection gets the place that has waited longest for its
 * next piece.
 *
 * No threads. */
#ifndef ETUDE_ROLES_WIRE_PIECE_H
#define ETUDE_ROLES_WIRE_PIECE_H

#include <etude/error.h>

#include "roles/wire/message.h"

#define ET_PIECE      32768 /* most bytes of a piece */
#define ET_PIECE_HEAD 24

/* How many pieces a message with so many bytes has. */
int64_t et_piece_count(size_t size);

/* ---- from a message to its pieces ---- */

typedef struct et_cutting {
    unsigned char header[ET_MESSAGE_HEADER];
    const unsigned char *bytes; /* borrowed */
    uint64_t number;
    size_t at, whole;
} et_cutting;

/* number: another one for each message of a sender. */
void et_cutting_begin(et_cutting *cutting, const et_message *message, uint64_t number);

/* Bytes of the next piece; 0: no more pieces. */
size_t et_cutting_next(const et_cutting *cutting);

/* piece: [et_cutting_next]. */
void et_cutting_write(et_cutting *cutting, unsigned char *piece);

/* ---- and back ---- */

typedef struct et_assembly_place {
    uint64_t connection, number;
    size_t at, whole;     /* received bytes, and bytes of the whole message; whole 0: no message */
    unsigned char *bytes; /* [space], owned */
    size_t space;
    uint64_t last; /* when it went on, by a count of pieces; 0: never */
} et_assembly_place;

typedef struct et_assembly {
    size_t largest;
    int places;
    et_assembly_place *place; /* [places], owned */
    uint64_t pieces;          /* that have come */
} et_assembly;

/* largest: bytes of a message without its header. To be released in any case. */
int et_assembly_open(et_assembly *assembly, int places, size_t largest, et_error *error);
void et_assembly_release(et_assembly *assembly); /* also of zeros */

typedef enum et_piece {
    ET_PIECE_KEPT,
    ET_PIECE_LAST,    /* a message is whole with it */
    ET_PIECE_DROPPED, /* an earlier piece is missing, or there is no memory */
    ET_PIECE_WRONG,   /* an impossible piece, or longer than `largest` */
} et_piece;

/* A piece of a connection. ET_PIECE_LAST: the message is data [size], which is valid until the next
 * call and as long as the piece. */
et_piece et_assembly_take(et_assembly *assembly, uint64_t connection, const void *piece,
                          size_t piece_size, const unsigned char **data, size_t *size);

#endif
