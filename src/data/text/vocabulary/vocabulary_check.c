/* Checks the bytes of a model and reads its facts, without the library.
 *
 * A model is a protocol buffer message (sentencepiece_model.proto). The parts of the wire format
 * that are needed (https://protobuf.dev/programming-guides/encoding):
 *
 *   message = { field }
 *   field   = varint(number << 3 | wire) payload
 *   payload = varint                       wire 0
 *           | 8 bytes                      wire 1
 *           | varint length, bytes         wire 2: strings and messages
 *           | 4 bytes                      wire 5
 *   varint  = { byte with bit 7 set } byte without; 7 bits each, lowest first
 *
 * Example: 08 96 01 is field 1, varint 150. Other fields are skipped; groups (wires 3 and 4) occur
 * in no model and are refused.
 *
 * Tokens are read last: the texts of special symbols are in the trainer's part, which follows the
 * tokens in the library's files.
 *
 * Nothing is allocated, nothing is read outside [bytes, bytes + length), and the time is linear in
 * the length. */
#include "data/text/vocabulary/vocabulary_check.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"

/* ---- protocol buffers: https://protobuf.dev/programming-guides/encoding ---- */

/* Bytes not yet read: taking moves at on and left down. */
typedef struct span {
    const unsigned char *at;
    size_t left;
} span;

/* How a payload's length is found: the low three bits of a tag. */
enum wire { WIRE_VARINT = 0, WIRE_I64 = 1, WIRE_BYTES = 2, WIRE_I32 = 5 };

typedef struct field {
    uint32_t number; /* 1 to 2^29 - 1 */
    enum wire wire;
    uint64_t value; /* of a varint */
    span bytes;     /* of all others */
} field;

/* At most ten bytes; bits above 64 are lost, as the library has it. false: cut off. */
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

/* length comes from the file and is compared before anything is believed. */
static bool take_bytes(span *in, uint64_t length, span *out)
{
    if (length > in->left)
        return false;
    *out = (span){ in->at, (size_t)length };
    in->at += length;
    in->left -= (size_t)length;
    return true;
}

/* false: damaged. in is then within the field, as the message says. */
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

/* At any address, because nothing in a message is aligned. */
static uint32_t little_endian(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* ---- the normalisation table ---- */

/* A double array of the Darts-clone kind, with 32-bit units. A unit has the label that leads to it
 * (low byte and bit 31), a flag that it has a value (bit 8), and the distance to its children: the
 * child for c is at (own position ^ distance ^ c). Layout of a unit, from its lowest bit: 8 label,
 * 1 has a value, 1 the distance is shifted by 8, 21 distance, 1 is a value
 * (https://github.com/s-yata/darts-clone). */
typedef struct trie {
    const unsigned char *units;
    uint32_t count; /* of units */
    size_t strings; /* bytes of replacement texts, which values index */
} trie;

/* Unit `at`, which is below count. */
static uint32_t unit_at(const trie *table, uint32_t at)
{
    et_assert(at < table->count);
    return little_endian(table->units + 4 * (size_t)at);
}

/* The base of the children's labels; a value is at this position itself (label 0). (unit & 0x200)
 * >> 6 is 8 if the distance is in steps of 256, else 0. */
static uint32_t unit_children(uint32_t unit, uint32_t at)
{
    return at ^ ((unit >> 10) << ((unit & 0x200) >> 6));
}

/* Whether every lookup from a unit stays within the table. A unit with bit 31 is a value and is
 * never entered, except the root. The builder leaves unreachable units without a distance, so every
 * unit can be checked, reachable or not. children
 * 0xff is the farthest place that any label leads to. */
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

/* The table: size of the double array in bytes, the array, replacement texts that end in 0. A text
 * is read from the offset in a value to the next 0, so the last byte must be 0. A model without a
 * table has no normalization. */
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

/* ---- the model: field numbers are from sentencepiece_model.proto ---- */

/* ModelProto. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3, MODEL_DENORMALIZER = 5 };
/* ModelProto.SentencePiece, NormalizerSpec. */
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3, NORMALIZER_TABLE = 2 };
/* TrainerSpec: the type, and the texts of three symbols. */
enum { TRAINER_MODEL_TYPE = 3, TRAINER_BOS = 46, TRAINER_EOS = 47, TRAINER_PAD = 48 };
/* ModelProto.SentencePiece.Type. */
enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3 };

/* The results so far: the symbols' texts follow the tokens. */
typedef struct reader {
    et_vocabulary_facts *facts;
    span eos, bos, pad; /* texts, within the model's bytes or static */
} reader;

static span text_span(const char *text)
{
    return (span){ (const unsigned char *)text, strlen(text) };
}

static bool same_text(span left, span right)
{
    return left.left == right.left && memcmp(left.at, right.at, left.left) == 0;
}

/* A score that is no number would make every comparison of the encoder false. */
static bool take_score(span bytes, float *score)
{
    uint32_t bits = little_endian(bytes.at);
    memcpy(score, &bits, sizeof *score);
    return isfinite(*score);
}

/* A special symbol is a control token with that symbol's text, as PieceToId finds it. If several
 * have the same text, the last one counts; if the library finds another, loading fails (agrees, in
 * vocabulary_sentencepiece.cc). */
static void note_token(const reader *in, span text, int type, int32_t id)
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

/* A field that comes twice counts the second time. */
static bool take_piece(span token, et_vocabulary_piece *piece)
{
    field part;
    *piece = (et_vocabulary_piece){ (const char *)token.at, 0, 0, ET_VOCABULARY_PIECE_NORMAL };
    while (token.left) {
        if (!take_field(&token, &part))
            return false;
        if (part.number == PIECE_TEXT && part.wire == WIRE_BYTES) {
            piece->text = (const char *)part.bytes.at;
            piece->length = part.bytes.left;
        } else if (part.number == PIECE_TYPE && part.wire == WIRE_VARINT)
            piece->type = part.value <= INT_MAX ? (int)part.value : 0;
        else if (part.number == PIECE_SCORE && part.wire == WIRE_I32 &&
                 !take_score(part.bytes, &piece->score))
            return false;
    }
    return true;
}

/* Ids are the places of tokens in the file, from 0. */
static bool read_token(const reader *in, span token)
{
    et_vocabulary_piece piece;
    if (!take_piece(token, &piece) || in->facts->pieces == INT32_MAX)
        return false;
    span text = { (const unsigned char *)piece.text, piece.length };
    note_token(in, text, piece.type, in->facts->pieces++);
    return true;
}

/* Checks every table, because the library uses the last one. */
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

/* In the first pass all but tokens, in the second the tokens. */
static bool read_part(reader *in, const field *part, bool tokens)
{
    if (part->wire == WIRE_VARINT && !tokens) {
        /* Field that Etude adds to a model. */
        if (part->number == ET_VOCABULARY_FIELD_TOKENS)
            in->facts->tokens = part->value <= INT32_MAX ? (int32_t)part->value : INT32_MAX;
        if (part->number == ET_VOCABULARY_FIELD_TAGS)
            in->facts->tags = part->value != 0;
    }
    if (part->wire != WIRE_BYTES || tokens != (part->number == MODEL_PIECE))
        return true;
    switch (part->number) {
    case MODEL_PIECE:
        return read_token(in, part->bytes);
    case MODEL_TRAINER:
        return read_trainer(in, part->bytes);
    case MODEL_NORMALIZER:
    case MODEL_DENORMALIZER:
        return normalizer_is_sound(part->bytes);
    default:
        return true;
    }
}

/* Defaults are the format's: unigram, "</s>", "<s>", "<pad>". */
static reader reader_of(et_vocabulary_facts *facts)
{
    *facts = (et_vocabulary_facts){ 1, 0, 0, false, -1, -1, -1, -1 };
    return (reader){ facts, text_span("</s>"), text_span("<s>"), text_span("<pad>") };
}

static bool read_parts(reader *in, span *model, bool tokens)
{
    field part;
    bool sound = true;
    while (sound && model->left)
        sound = take_field(model, &part) && read_part(in, &part, tokens);
    return sound;
}

/* The reported position is where reading stopped, in a nested message its end. */
int et_vocabulary_check(et_vocabulary_facts *facts, const void *bytes, size_t length,
                        const char *name, et_error *error)
{
    reader in = reader_of(facts);
    span model = { bytes, length };
    if (!length)
        return et_fail(error, ET_EFORMAT, "%s: the file is empty: copy it again", name);
    bool sound = read_parts(&in, &model, false);
    if (sound) {
        model = (span){ bytes, length };
        sound = read_parts(&in, &model, true);
    }
    if (!sound)
        return et_fail(
            error, ET_EFORMAT,
            "%s: not a SentencePiece model, or damaged at byte %zu of %zu: copy it again", name,
            length - model.left, length);
    if (!facts->pieces)
        return et_fail(error, ET_EFORMAT,
                       "%s: not a SentencePiece model, or an incomplete one: it has no tokens",
                       name);
    if (!facts->tokens)
        facts->tokens = facts->pieces;
    if (facts->tokens > facts->pieces || facts->eos >= facts->tokens ||
        facts->unk >= facts->tokens || facts->bos >= facts->tokens || facts->pad >= facts->tokens)
        return et_fail(error, ET_EFORMAT,
                       "%s: damaged: Etude numbered %d of its %d tokens, which must include its "
                       "symbols: copy it again",
                       name, (int)facts->tokens, (int)facts->pieces);
    return ET_OK;
}

int et_vocabulary_check_symbols(const et_vocabulary_facts *facts, const void *bytes, size_t length,
                                const char *name, et_error *error)
{
    et_vocabulary_facts unused;
    et_vocabulary_piece piece;
    reader in = reader_of(&unused);
    size_t at = 0;
    if (facts->eos < 0) {
        span model = { bytes, length };
        read_parts(&in, &model, false);
        const int text = in.eos.left < 60 ? (int)in.eos.left : 60;
        for (int id = 0; et_vocabulary_next_piece(bytes, length, &at, &piece); id++)
            if (same_text((span){ (const unsigned char *)piece.text, piece.length }, in.eos))
                return et_fail(error, ET_EFORMAT,
                               "%s: EOS token not in tokenizer vocab: token %d, \"%.*s\", is not a "
                               "control token; train the model again, with eos_id=%d",
                               name, id, text, (const char *)in.eos.at, id);
        return et_fail(error, ET_EFORMAT,
                       "%s: EOS token not in tokenizer vocab: none of its %d tokens is \"%.*s\"; "
                       "train the model again, with an eos_id of at least 0",
                       name, (int)facts->tokens, text, (const char *)in.eos.at);
    }
    return facts->unk >= 0
               ? ET_OK
               : et_fail(error, ET_EFORMAT,
                         "%s: none of its %d tokens is for unknown text; train the model again, "
                         "with an unk_id of at least 0",
                         name, (int)facts->tokens);
}

bool et_vocabulary_next_piece(const void *bytes, size_t length, size_t *at,
                              et_vocabulary_piece *piece)
{
    span model = { (const unsigned char *)bytes + *at, length - *at };
    field part;
    while (take_field(&model, &part))
        if (part.number == MODEL_PIECE && part.wire == WIRE_BYTES) {
            *at = length - model.left;
            return take_piece(part.bytes, piece);
        }
    return false;
}

bool et_vocabulary_next_part(const void *bytes, size_t length, size_t *at, et_vocabulary_part *part)
{
    span model = { (const unsigned char *)bytes + *at, length - *at };
    const unsigned char *begin = model.at;
    field one;
    if (!model.left || !take_field(&model, &one))
        return false;
    *part = (et_vocabulary_part){ .number = one.number,
                                  .whole = begin,
                                  .whole_length = (size_t)(model.at - begin) };
    if (one.wire == WIRE_BYTES) {
        part->bytes = one.bytes.at;
        part->length = one.bytes.left;
    }
    *at = length - model.left;
    return true;
}
