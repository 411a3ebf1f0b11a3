/* Writes a model piece by piece. Other parts (normalization, the trainer's settings) are copied as
 * they are; in the trainer's settings, texts of the special symbols follow the copy, because the
 * last one counts.
 *
 * https://protobuf.dev/programming-guides/encoding; numbers of fields are those of
 * sentencepiece_model.proto. */
#include "data/text/vocabulary/renumber.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text/strbuf.h"
#include "data/text/vocabulary/vocabulary_check.h"

/* ModelProto; SentencePiece; TrainerSpec. */
enum { MODEL_PIECE = 1, PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { MODEL_TRAINER = 2, TRAINER_UNK = 45, TRAINER_EOS = 47, TRAINER_PAD = 48 };
enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4, TYPE_UNUSED = 5 };
enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_I32 = 5 };
enum { MODEL_UNIGRAM = 1 };

typedef struct renumbering {
    const et_vocabulary_list *list;
    et_vocabulary_piece *pieces; /* [count] of the model */
    char **names;                /* [count] their texts, with a 0; owned */
    int32_t count;
    et_map by_text; /* pieces of the model */
    et_vocabulary_facts facts;
    bool *listed; /* [count] whether the list has it */
    et_strbuf out;
} renumbering;

/* ---- writing messages ---- */

static void put_varint(et_strbuf *out, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        et_strbuf_append_char(out, (char)(value | 0x80));
    et_strbuf_append_char(out, (char)value);
}

static void put_tag(et_strbuf *out, uint32_t field, unsigned wire)
{
    put_varint(out, (uint64_t)field << 3 | wire);
}

static void put_bytes(et_strbuf *out, uint32_t field, const void *bytes, size_t length)
{
    put_tag(out, field, WIRE_BYTES);
    put_varint(out, length);
    et_strbuf_append_bytes(out, bytes, length);
}

static void put_number(et_strbuf *out, uint32_t field, uint64_t value)
{
    put_tag(out, field, WIRE_VARINT);
    put_varint(out, value);
}

static void put_piece(et_strbuf *out, const char *text, float score, int type)
{
    et_strbuf piece = ET_STRBUF_INIT;
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    put_bytes(&piece, PIECE_TEXT, text, strlen(text));
    put_tag(&piece, PIECE_SCORE, WIRE_I32);
    for (int i = 0; i < 4; i++)
        et_strbuf_append_char(&piece, (char)(bits >> 8 * i));
    put_number(&piece, PIECE_TYPE, (uint64_t)type);
    put_bytes(out, MODEL_PIECE, piece.data, piece.length);
    out->failed |= piece.failed;
    et_strbuf_release(&piece);
}

/* ---- reading the model ---- */

static int read_model(renumbering *r, const void *model, size_t length, const char *name,
                      et_error *error)
{
    int status = et_vocabulary_check(&r->facts, model, length, name, error);
    if (status)
        return status;
    r->count = r->facts.pieces;
    r->pieces = et_alloc_zero((size_t)r->count, sizeof *r->pieces);
    r->names = et_alloc_zero((size_t)r->count, sizeof *r->names);
    r->listed = et_alloc_zero((size_t)r->count, sizeof *r->listed);
    if (r->pieces && r->names && r->listed) {
        size_t at = 0;
        for (int32_t i = 0; i < r->count; i++) {
            if (!et_vocabulary_next_piece(model, length, &at, &r->pieces[i]))
                break;
            r->names[i] = et_strndup(r->pieces[i].text, r->pieces[i].length);
            if (!r->names[i] || !et_map_put(&r->by_text, r->names[i], i))
                return et_alloc_failed(error, length, "a vocabulary");
        }
        return ET_OK;
    }
    return et_alloc_failed(error, length, "a vocabulary");
}

/* ---- the new one ---- */

static bool is_tag(const char *token)
{
    const size_t length = strlen(token);
    return length > 4 && !strncmp(token, ">>", 2) && !strcmp(token + length - 2, "<<");
}

/* *foreign: tokens that the model does not have. */
static void put_listed(renumbering *r, int32_t *foreign, bool *tags)
{
    const et_vocabulary_list *list = r->list;
    for (int32_t i = 0; i < list->count; i++) {
        const char *token = list->tokens[i];
        int64_t own = -1;
        int type = TYPE_UNUSED;
        if (et_map_get(&r->by_text, token, &own)) {
            r->listed[own] = true;
            type = r->pieces[own].type;
        }
        if (i == list->eos || i == list->pad)
            type = TYPE_CONTROL;
        else if (i == list->unk)
            type = TYPE_UNKNOWN;
        else if (i >= list->count - list->added && !is_tag(token))
            type = TYPE_USER_DEFINED;
        else if (type == TYPE_UNKNOWN)
            type = TYPE_UNUSED;
        *foreign += type == TYPE_UNUSED;
        *tags |= is_tag(token);
        put_piece(&r->out, token, own < 0 ? 0 : r->pieces[own].score, type);
    }
}

/* All parts of the model but its pieces; of several settings of the trainer each gets the symbols.
 */
static void put_parts(renumbering *r, const void *model, size_t length)
{
    const et_vocabulary_list *list = r->list;
    const char *symbols[] = { list->tokens[list->unk], list->tokens[list->eos],
                              list->tokens[list->pad] };
    static const uint32_t fields[] = { TRAINER_UNK, TRAINER_EOS, TRAINER_PAD };
    et_strbuf trainer = ET_STRBUF_INIT;
    et_vocabulary_part part;
    for (size_t at = 0; et_vocabulary_next_part(model, length, &at, &part);) {
        if (part.number == MODEL_PIECE)
            continue;
        if (part.number != MODEL_TRAINER) {
            et_strbuf_append_bytes(&r->out, part.whole, part.whole_length);
            continue;
        }
        et_strbuf_append_bytes(&trainer, part.bytes, part.length);
    }
    for (int i = 0; i < 3; i++)
        put_bytes(&trainer, fields[i], symbols[i], strlen(symbols[i]));
    put_bytes(&r->out, MODEL_TRAINER, trainer.data, trainer.length);
    r->out.failed |= trainer.failed;
    et_strbuf_release(&trainer);
}

/* Whether the model's numbers and symbols are the list's. */
static bool is_numbered(const renumbering *r)
{
    const et_vocabulary_list *list = r->list;
    const et_vocabulary_facts *facts = &r->facts;
    bool tags = false;
    if (facts->tokens != list->count || facts->eos != list->eos || facts->unk != list->unk ||
        facts->pad != list->pad)
        return false;
    for (int32_t i = 0; i < list->count; i++) {
        if (strcmp(r->names[i], list->tokens[i]) != 0)
            return false;
        tags |= is_tag(list->tokens[i]);
    }
    return tags == facts->tags;
}

static int write_model(renumbering *r, const void *model, size_t length, const char *name,
                       et_error *error)
{
    int32_t foreign = 0;
    bool tags = false;
    if (is_numbered(r)) {
        et_strbuf_append_bytes(&r->out, model, length);
        return r->out.failed ? et_alloc_failed(error, length, "a vocabulary") : ET_OK;
    }
    put_listed(r, &foreign, &tags);
    if (foreign && r->facts.model_type != MODEL_UNIGRAM)
        return et_fail(
            error, ET_EFORMAT,
            "%s: its kind is not unigram, and %d tokens of the vocabulary are not in it; "
            "only a unigram model can have such tokens",
            name, (int)foreign);
    /* The rest, without special symbols: no text becomes one of those. */
    for (int32_t i = 0; i < r->count; i++)
        if (!r->listed[i] && r->pieces[i].type != TYPE_UNKNOWN && r->pieces[i].type != TYPE_CONTROL)
            put_piece(&r->out, r->names[i], r->pieces[i].score, r->pieces[i].type);
    put_parts(r, model, length);
    put_number(&r->out, ET_VOCABULARY_FIELD_TOKENS, (uint64_t)r->list->count);
    if (tags)
        put_number(&r->out, ET_VOCABULARY_FIELD_TAGS, 1);
    return r->out.failed ? et_alloc_failed(error, length, "a vocabulary") : ET_OK;
}

int et_vocabulary_renumber(char **bytes, size_t *length, const et_vocabulary_list *list,
                           const void *model, size_t model_length, const char *name,
                           et_error *error)
{
    renumbering r = { .list = list, .by_text = ET_MAP_INIT, .out = ET_STRBUF_INIT };
    int status = read_model(&r, model, model_length, name, error);
    if (!status)
        status = write_model(&r, model, model_length, name, error);
    *bytes = status ? NULL : et_strndup(r.out.data, r.out.length);
    *length = r.out.length;
    if (!status && !*bytes)
        status = et_alloc_failed(error, r.out.length, "a vocabulary");
    for (int32_t i = 0; r.names && i < r.count; i++)
        et_free(r.names[i]);
    et_free(r.names);
    et_free(r.pieces);
    et_free(r.listed);
    et_map_release(&r.by_text);
    et_strbuf_release(&r.out);
    return status;
}
