#include "data/vocabulary_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- protocol buffers: https://protobuf.dev/programming-guides/encoding ---- */

typedef struct span {
    const unsigned char *at;
    size_t left;
} span;

enum wire { WIRE_VARINT = 0, WIRE_I64 = 1, WIRE_BYTES = 2, WIRE_I32 = 5 };

typedef struct field {
    uint32_t number;
    enum wire wire;
    uint64_t value; /* of a varint */
    span bytes;     /* of all others */
} field;

static bool take_varint(span *in, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && in->left; shift += 7) {
        unsigned char byte = *in->at++;
        in->left--;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool take_bytes(span *in, uint64_t length, span *out)
{
    if (length > in->left)
        return false;
    *out = (span){ in->at, (size_t)length };
    in->at += length;
    in->left -= (size_t)length;
    return true;
}

static bool take_field(span *in, field *out)
{
    uint64_t tag, length;
    if (!take_varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    *out = (field){ .number = (uint32_t)(tag >> 3), .wire = (enum wire)(tag & 7) };
    switch (tag & 7) {
    case WIRE_VARINT:
        return take_varint(in, &out->value);
    case WIRE_I64:
        return take_bytes(in, 8, &out->bytes);
    case WIRE_BYTES:
        return take_varint(in, &length) && take_bytes(in, length, &out->bytes);
    case WIRE_I32:
        return take_bytes(in, 4, &out->bytes);
    default:
        return false;
    }
}

static uint32_t little_endian(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* ---- the normalisation table ---- */

/* A double array of the Darts-clone kind: 32-bit units. A unit's low byte (with bit 31) is the
 * label it is entered by, bit 8 says that a value hangs on it, the rest is the distance to its
 * children: child of c is at (own position ^ distance ^ c). */
typedef struct trie {
    const unsigned char *units;
    uint32_t count;
    size_t strings; /* bytes of replacement texts, which values index */
} trie;

static uint32_t unit_at(const trie *table, uint32_t at)
{
    return little_endian(table->units + 4 * (size_t)at);
}

static uint32_t unit_children(uint32_t unit, uint32_t at)
{
    return at ^ ((unit >> 10) << ((unit & 0x200) >> 6));
}

/* Whether all that can be looked up from a unit lies within the table. One with bit 31 is a
 * value and never entered (the root is where all begin). The builder leaves units that no text
 * leads to without a distance, so that every unit may be held to this, reached or not. */
static bool unit_is_sound(const trie *table, uint32_t at)
{
    uint32_t unit = unit_at(table, at);
    uint32_t children = unit_children(unit, at);
    if (at != 0 && (unit & 0x80000000))
        return true;
    if ((children | 0xff) >= table->count)
        return false;
    bool has_value = at != 0 && (unit & 0x100);
    return !has_value || (unit_at(table, children) & 0x7fffffff) < table->strings;
}

/* The table: size of the double array in bytes, the array, replacement texts that end in 0. */
static bool table_is_sound(span table)
{
    if (table.left == 0)
        return true;
    if (table.left < 8)
        return false;
    uint32_t bytes = little_endian(table.at);
    size_t rest = table.left - 4;
    if (bytes < 4 || bytes % 4 || bytes >= rest || table.at[table.left - 1] != 0)
        return false;
    trie units = { table.at + 4, bytes / 4, rest - bytes };
    for (uint32_t at = 0; at < units.count; at++)
        if (!unit_is_sound(&units, at))
            return false;
    return true;
}

/* ---- the model: numbers of fields are those of sentencepiece_model.proto ---- */

enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3, NORMALIZER_TABLE = 2 };
enum { TRAINER_MODEL_TYPE = 3, TRAINER_BOS = 46, TRAINER_EOS = 47, TRAINER_PAD = 48 };
enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3 };

/* What is gathered: the symbols' texts stand behind the pieces. */
typedef struct reader {
    et_vocabulary_facts *facts;
    span eos, bos, pad;
} reader;

static span text_span(const char *text)
{
    return (span){ (const unsigned char *)text, strlen(text) };
}

static bool same_text(span left, span right)
{
    return left.left == right.left && memcmp(left.at, right.at, left.left) == 0;
}

static bool is_finite(span bytes)
{
    uint32_t bits = little_endian(bytes.at);
    float score;
    memcpy(&score, &bits, sizeof score);
    return isfinite(score);
}

/* A special symbol is a control piece with that symbol's text, as PieceToId finds it. */
static void note_piece(const reader *in, span text, uint64_t type, int32_t id)
{
    et_vocabulary_facts *facts = in->facts;
    if (type == TYPE_UNKNOWN)
        facts->unk = id;
    if (type != TYPE_CONTROL)
        return;
    if (same_text(text, in->eos))
        facts->eos = id;
    if (same_text(text, in->bos))
        facts->bos = id;
    if (same_text(text, in->pad))
        facts->pad = id;
}

static bool read_piece(const reader *in, span piece)
{
    field part;
    span text = { piece.at, 0 };
    uint64_t type = 0;
    while (piece.left) {
        if (!take_field(&piece, &part))
            return false;
        if (part.number == PIECE_TEXT && part.wire == WIRE_BYTES)
            text = part.bytes;
        else if (part.number == PIECE_TYPE && part.wire == WIRE_VARINT)
            type = part.value;
        else if (part.number == PIECE_SCORE && part.wire == WIRE_I32 && !is_finite(part.bytes))
            return false;
    }
    if (in->facts->pieces == INT32_MAX)
        return false;
    note_piece(in, text, type, in->facts->pieces++);
    return true;
}

static bool normalizer_is_sound(span normalizer)
{
    field part;
    while (normalizer.left) {
        if (!take_field(&normalizer, &part))
            return false;
        if (part.number == NORMALIZER_TABLE && part.wire == WIRE_BYTES &&
            !table_is_sound(part.bytes))
            return false;
    }
    return true;
}

/* An empty text is SentencePiece's own. */
static void note_symbol(span *symbol, const field *part, uint32_t number)
{
    if (part->number == number && part->wire == WIRE_BYTES && part->bytes.left)
        *symbol = part->bytes;
}

static bool read_trainer(reader *in, span trainer)
{
    field part;
    while (trainer.left) {
        if (!take_field(&trainer, &part))
            return false;
        if (part.number == TRAINER_MODEL_TYPE && part.wire == WIRE_VARINT)
            in->facts->model_type = (int)part.value;
        note_symbol(&in->eos, &part, TRAINER_EOS);
        note_symbol(&in->bos, &part, TRAINER_BOS);
        note_symbol(&in->pad, &part, TRAINER_PAD);
    }
    return true;
}

/* In the first pass all but pieces, in the second the pieces. */
static bool read_part(reader *in, const field *part, bool pieces)
{
    if (part->wire != WIRE_BYTES || pieces != (part->number == MODEL_PIECE))
        return true;
    switch (part->number) {
    case MODEL_PIECE:
        return read_piece(in, part->bytes);
    case MODEL_TRAINER:
        return read_trainer(in, part->bytes);
    case MODEL_NORMALIZER:
    case MODEL_DENORMALIZER:
        return normalizer_is_sound(part->bytes);
    default:
        return true;
    }
}

int et_vocabulary_check(et_vocabulary_facts *facts, const void *bytes, size_t length,
                        const char *name, et_error *error)
{
    reader in = { facts, text_span("</s>"), text_span("<s>"), text_span("<pad>") };
    span model = { bytes, length };
    field part;
    bool sound = true;
    *facts = (et_vocabulary_facts){ 1, 0, -1, -1, -1, -1 };
    for (int pieces = 0; pieces < 2 && sound; pieces++) {
        model = (span){ bytes, length };
        while (sound && model.left)
            sound = take_field(&model, &part) && read_part(&in, &part, pieces);
    }
    if (sound && facts->pieces > 0)
        return ET_OK;
    return et_fail(error, ET_EFORMAT,
                   "%s: not a SentencePiece model, or damaged at byte %zu of %zu: copy it again",
                   name, length - model.left, length);
}
