#include "roles/wire/piece.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MOST (ET_PIECE - ET_PIECE_HEAD) /* bytes of a message in a piece */

int64_t et_piece_count(size_t size)
{
    return (int64_t)(size / MOST + (size % MOST + ET_MESSAGE_HEADER + MOST - 1) / MOST);
}

/* ---- from a message to its pieces ---- */

void et_cutting_begin(et_cutting *cutting, const et_message *message, uint64_t number)
{
    *cutting = (et_cutting){ .bytes = message->bytes,
                             .number = number,
                             .whole = ET_MESSAGE_HEADER + message->size };
    et_message_write(message, cutting->header);
}

size_t et_cutting_next(const et_cutting *cutting)
{
    size_t left = cutting->whole - cutting->at;
    return left ? ET_PIECE_HEAD + (left < MOST ? left : MOST) : 0;
}

void et_cutting_write(et_cutting *cutting, unsigned char *piece)
{
    size_t size = et_cutting_next(cutting) - ET_PIECE_HEAD;
    uint64_t head[3] = { cutting->number, cutting->at, cutting->whole };
    /* The header is in the first piece, whole. */
    size_t ahead = cutting->at ? 0 : ET_MESSAGE_HEADER;
    et_assert(cutting->at < cutting->whole);
    memcpy(piece, head, sizeof head);
    memcpy(piece + ET_PIECE_HEAD, cutting->header, ahead);
    if (size > ahead)
        memcpy(piece + ET_PIECE_HEAD + ahead,
               cutting->bytes + cutting->at + ahead - ET_MESSAGE_HEADER, size - ahead);
    cutting->at += size;
}

/* ---- and back ---- */

int et_assembly_open(et_assembly *assembly, int places, size_t largest, et_error *error)
{
    et_assert(places >= 1);
    *assembly = (et_assembly){ .largest = largest, .places = places };
    assembly->place = et_alloc_zero((size_t)places, sizeof *assembly->place);
    return assembly->place ? ET_OK
                           : et_alloc_failed(error, (size_t)places * sizeof *assembly->place,
                                             "messages under way");
}

void et_assembly_release(et_assembly *assembly)
{
    for (int i = 0; assembly->place && i < assembly->places; i++)
        et_free(assembly->place[i].bytes);
    et_free(assembly->place);
    *assembly = (et_assembly){ 0 };
}

/* That of a connection; NULL: it has none. */
static et_assembly_place *place_of(const et_assembly *assembly, uint64_t connection)
{
    for (int i = 0; i < assembly->places; i++)
        if (assembly->place[i].last && assembly->place[i].connection == connection)
            return &assembly->place[i];
    return NULL;
}

/* The one that is needed least: where nothing is under way, and nothing has been for the longest.
 */
static et_assembly_place *least_needed(const et_assembly *assembly)
{
    et_assembly_place *least = assembly->place;
    for (int i = 1; i < assembly->places; i++) {
        et_assembly_place *other = &assembly->place[i];
        if (!other->whole == !least->whole ? other->last < least->last : !other->whole)
            least = other;
    }
    return least;
}

static bool make_room(et_assembly_place *place, size_t whole)
{
    if (whole <= place->space)
        return true;
    et_free(place->bytes);
    place->bytes = et_alloc(1, whole);
    place->space = place->bytes ? whole : 0;
    return place->bytes;
}

/* Where a message's next piece goes; NULL: nowhere. */
static et_assembly_place *find_place(et_assembly *assembly, uint64_t connection,
                                     const uint64_t *head)
{
    et_assembly_place *place = place_of(assembly, connection);
    if (head[1])
        return place && place->whole == head[2] && place->number == head[0] && place->at == head[1]
                   ? place
                   : NULL;
    place = place ? place : least_needed(assembly);
    place->whole = 0;
    if (!make_room(place, (size_t)head[2]))
        return NULL;
    place->connection = connection;
    place->number = head[0];
    place->at = 0;
    place->whole = (size_t)head[2];
    return place;
}

et_piece et_assembly_take(et_assembly *assembly, uint64_t connection, const void *piece,
                          size_t piece_size, const unsigned char **data, size_t *size)
{
    uint64_t head[3];
    const unsigned char *bytes = piece;
    if (piece_size <= sizeof head)
        return ET_PIECE_WRONG;
    memcpy(head, piece, sizeof head);
    uint64_t count = piece_size - sizeof head;
    if (head[2] < ET_MESSAGE_HEADER || head[2] - ET_MESSAGE_HEADER > assembly->largest ||
        head[1] > head[2] || count > head[2] - head[1])
        return ET_PIECE_WRONG;
    *size = (size_t)head[2];
    *data = bytes + sizeof head;
    if (count == head[2])
        return ET_PIECE_LAST;
    et_assembly_place *place = find_place(assembly, connection, head);
    if (!place)
        return ET_PIECE_DROPPED;
    memcpy(place->bytes + place->at, *data, (size_t)count);
    place->at += (size_t)count;
    place->last = ++assembly->pieces;
    *data = place->bytes;
    if (place->at < place->whole)
        return ET_PIECE_KEPT;
    place->whole = 0;
    return ET_PIECE_LAST;
}
