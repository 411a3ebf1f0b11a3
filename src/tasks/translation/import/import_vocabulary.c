/* vocab.json, or Marian's list, gives numbers to tokens, and SentencePiece models split text: each
 * side's vocabulary is its SentencePiece model with the numbers of vocab.json. */
#include "formats/torch/transformers_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "data/text/sentences.h"
#include "data/text/vocabulary/vocabulary_check.h"
#include "tasks/translation/import/import_private.h"

/* ---- renumber ---- */

/* Gives the pieces of a SentencePiece model other numbers. Some programs number tokens by a
 * separate list, and use SentencePiece only to split text. A piece that is not in the list is
 * unknown. Tokens of the list that are not pieces have other sources (another language's model,
 * tags).
 *
 * The result is a SentencePiece model whose first pieces are the list, in its order. Tokens that
 * the model does not have become unused pieces, which no text contains, but whose numbers have a
 * text. Pieces that are not in the list follow without a number (vocabulary_check.h), so text is
 * split as before. If the model already has these numbers, the result is the model.
 *
 * A model is written piece by piece. Other parts (normalization, the trainer's settings) are copied
 * as they are; in the trainer's settings, texts of the special symbols follow the copy, because the
 * last one counts.
 *
 * https://protobuf.dev/programming-guides/encoding; numbers of fields are those of
 * sentencepiece_model.proto. */

/* Tokens by number, all different and none empty; borrowed. */
typedef struct vocabulary_list {
    const char *const *tokens; /* [count] */
    int32_t count;
    int32_t eos, unk, pad; /* numbers of the special symbols */
    int32_t added; /* the last tokens: a text that has one becomes it, whatever the model says */
} vocabulary_list;

/* ModelProto; SentencePiece; TrainerSpec. */
enum { MODEL_PIECE = 1, PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { MODEL_TRAINER = 2, TRAINER_UNK = 45, TRAINER_EOS = 47, TRAINER_PAD = 48 };
enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4, TYPE_UNUSED = 5 };
enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_I32 = 5 };
enum { MODEL_UNIGRAM = 1 };

typedef struct renumbering {
    const vocabulary_list *list;
    et_arena arena;              /* of all arrays and texts */
    et_vocabulary_piece *pieces; /* [count] of the model */
    const char **names;          /* [count] their texts, with a 0 */
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
    r->pieces = et_arena_array(&r->arena, r->count, sizeof *r->pieces);
    r->names = et_arena_array(&r->arena, r->count, sizeof *r->names);
    r->listed = et_arena_array(&r->arena, r->count, sizeof *r->listed);
    bool whole = !r->arena.failed;
    size_t at = 0;
    for (int32_t i = 0; whole && i < r->count; i++) {
        if (!et_vocabulary_next_piece(model, length, &at, &r->pieces[i]))
            break;
        r->names[i] = et_arena_strndup(&r->arena, r->pieces[i].text, r->pieces[i].length);
        whole = r->names[i] && et_map_put(&r->by_text, r->names[i], i);
    }
    return whole ? ET_OK : et_alloc_failed(error, "a vocabulary");
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
    const vocabulary_list *list = r->list;
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
    const vocabulary_list *list = r->list;
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
    const vocabulary_list *list = r->list;
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
        return r->out.failed ? et_alloc_failed(error, "a vocabulary") : ET_OK;
    }
    put_listed(r, &foreign, &tags);
    if (foreign && r->facts.model_type != MODEL_UNIGRAM)
        return et_fail(error, ET_EFORMAT,
                       "%s: its kind is not unigram, but %d tokens of the vocabulary are not in "
                       "this file; only a unigram model can have additional tokens",
                       name, (int)foreign);
    /* Appends the remaining pieces, except special symbols, because no text becomes a special
     * symbol. */
    for (int32_t i = 0; i < r->count; i++)
        if (!r->listed[i] && r->pieces[i].type != TYPE_UNKNOWN && r->pieces[i].type != TYPE_CONTROL)
            put_piece(&r->out, r->names[i], r->pieces[i].score, r->pieces[i].type);
    put_parts(r, model, length);
    put_number(&r->out, ET_VOCABULARY_FIELD_TOKENS, (uint64_t)r->list->count);
    if (tags)
        put_number(&r->out, ET_VOCABULARY_FIELD_TAGS, 1);
    return r->out.failed ? et_alloc_failed(error, "a vocabulary") : ET_OK;
}

/* *bytes: free with et_free. name: of the model, for messages. ET_EFORMAT: the model is damaged, or
 * its segmentation would change: only a unigram model can have extra pieces and foreign tokens. */
static int vocabulary_renumber(char **bytes, size_t *length, const vocabulary_list *list,
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
        status = et_alloc_failed(error, "a vocabulary");
    et_arena_release(&r.arena);
    et_map_release(&r.by_text);
    et_strbuf_release(&r.out);
    return status;
}

/* ---- */

/* README.md of a release of OPUS-MT, which has a section for each release, the newest last:
 *
 *   # opus-2020-06-28.zip
 *   * source language(s): eng
 *   * target language(s): afr aln
 *   * pre-processing: normalization + SentencePiece (spm32k,spm32k)
 *   * download: [opus-2020-06-28.zip](https://object.pouta.csc.fi/.../eng-ine/opus-2020-06-28.zip)
 *
 * Releases of OPUS-MT before the Tatoeba Challenge name their languages only in the link. */

#define README     "README.md"
#define README_MAX ((size_t)16 << 20)

/* A part of the text; length 0: none. */
typedef struct part {
    const char *text;
    size_t length;
} part;

typedef struct release {
    part languages[ET_SIDES];
    bool normalized;
} release;

static part trim(part p)
{
    while (p.length && strchr(" \t\r", *p.text))
        p.text++, p.length--;
    while (p.length && strchr(" \t\r", p.text[p.length - 1]))
        p.length--;
    return p;
}

/* Whether a line begins with name; *value: the text after it. */
static bool has_name(part line, const char *name, part *value)
{
    const size_t length = strlen(name);
    if (line.length < length || memcmp(line.text, name, length) != 0)
        return false;
    *value = trim((part){ line.text + length, line.length - length });
    return true;
}

static bool contains(part p, const char *word)
{
    const size_t length = strlen(word);
    for (; p.length >= length; p.text++, p.length--)
        if (!memcmp(p.text, word, length))
            return true;
    return false;
}

/* ".../en-de/opus.zip)" -> "en" and "de". Empty for a folder whose name does not have exactly one
 * "-". */
static void read_link(part link, part languages[ET_SIDES])
{
    size_t end = link.length, begin, dash;
    while (end && link.text[end - 1] != '/')
        end--;
    for (begin = end ? --end : 0; begin && link.text[begin - 1] != '/';)
        begin--;
    for (dash = begin; dash < end && link.text[dash] != '-';)
        dash++;
    if (!begin || dash == end || memchr(link.text + dash + 1, '-', end - dash - 1))
        return;
    languages[ET_SIDE_SOURCE] = (part){ link.text + begin, dash - begin };
    languages[ET_SIDE_TARGET] = (part){ link.text + dash + 1, end - dash - 1 };
}

static release read_text(const char *text, size_t length)
{
    release r = { .normalized = false };
    for (const char *end = text + length; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        part line = (part){ text, (size_t)(stop - text) };
        part value;
        line = trim(line);
        if (has_name(line, "# ", &value))
            r = (release){ .normalized = false };
        else if (has_name(line, "* source language(s):", &value))
            r.languages[ET_SIDE_SOURCE] = value;
        else if (has_name(line, "* target language(s):", &value))
            r.languages[ET_SIDE_TARGET] = value;
        else if (has_name(line, "* pre-processing:", &value))
            r.normalized = contains(value, "normalization");
        else if (has_name(line, "* download:", &value) && !r.languages[ET_SIDE_SOURCE].length &&
                 !r.languages[ET_SIDE_TARGET].length)
            read_link(value, r.languages);
        text = stop + 1;
    }
    return r;
}

/* Several languages have the general rules, as mul has. */
static int set(et_import *from, et_value *vocabulary, const char *setting, part language,
               et_error *error)
{
    if (!language.length)
        return ET_OK;
    const char *code = et_arena_strndup(&from->arena, language.text, language.length);
    if (!code)
        return et_alloc_failed(error, "a language");
    et_value_set_string(vocabulary, setting, et_language_is_code(code) ? code : "mul");
    return ET_OK;
}

/* The punctuation that README.md says text was normalized for, if it says so. */
static int import_read_release(et_import *from, et_value *vocabulary, et_error *error)
{
    char *text;
    size_t length;
    if (!et_import_has(from, README))
        return ET_OK;
    int status = et_import_read_file(from, README, README_MAX, &text, &length, error);
    if (status)
        return status;
    const release r = read_text(text, length);
    if (r.normalized)
        status = set(from, vocabulary, "source_punctuation", r.languages[ET_SIDE_SOURCE], error);
    if (r.normalized && !status)
        status = set(from, vocabulary, "target_punctuation", r.languages[ET_SIDE_TARGET], error);
    et_free(text);
    return status;
}

/* Names of the special symbols. */
typedef struct symbols {
    const char *eos, *unk, *pad;
} symbols;

/* A text, or an object whose "content" is the text. */
static void read_symbol(const et_value *config, const char *key, const char **symbol)
{
    const et_value *v = et_value_get(config, key);
    const et_value *content = et_value_get(v, "content");
    v = content ? content : v;
    if (v && v->kind == ET_VALUE_STRING && *v->string)
        *symbol = v->string;
}

/* Such models were trained on text with normalized punctuation. A group of languages, "ROMANCE",
 * has the general rules; as a code it is mul. */
static void set_punctuation(const et_value *config, const char *key, et_value *vocabulary,
                            const char *setting)
{
    const et_value *v = et_value_get(config, key);
    if (v && v->kind == ET_VALUE_STRING && *v->string)
        et_value_set_string(vocabulary, setting,
                            et_language_is_code(v->string) ? v->string : "mul");
}

/* A file that several parts look at, each for its own keys. */
static int read_once(et_import *from, const char *name, et_value **json, et_error *error)
{
    enum { FILES = sizeof from->kept / sizeof *from->kept };
    int i = 0;
    while (i < FILES && from->kept_name[i] && strcmp(from->kept_name[i], name) != 0)
        i++;
    et_assert(i < FILES);
    int status =
        from->kept_name[i] ? ET_OK : et_import_read_json(from, name, &from->kept[i], error);
    if (!status)
        from->kept_name[i] = name;
    *json = from->kept[i];
    return status;
}

/* *separate: the target has its own list. */
static int read_tokenizer(et_import *from, et_value *vocabulary, symbols *s, bool *separate,
                          et_error *error)
{
    et_value *config = NULL;
    *s = (symbols){ "</s>", "<unk>", "<pad>" };
    *separate = et_import_has(from, ET_TRANSFORMERS_TARGET_VOCABULARY);
    if (from->marian)
        return import_read_release(from, vocabulary, error);
    if (!et_import_has(from, ET_TRANSFORMERS_TOKENIZER))
        return ET_OK;
    int status = read_once(from, ET_TRANSFORMERS_TOKENIZER, &config, error);
    const et_value *own = et_value_get(config, "separate_vocabs");
    if (own && own->kind == ET_VALUE_BOOL)
        *separate = own->boolean;
    read_symbol(config, "eos_token", &s->eos);
    read_symbol(config, "unk_token", &s->unk);
    read_symbol(config, "pad_token", &s->pad);
    set_punctuation(config, "source_lang", vocabulary, "source_punctuation");
    set_punctuation(config, "target_lang", vocabulary, "target_punctuation");
    return status;
}

/* ---- added tokens ---- */

static const char *rows_of(int side)
{
    return side == ET_SIDE_SOURCE ? "vocab_size" : "decoder_vocab_size";
}

/* The vocabulary may have the token, with this ID: files repeat the special symbols. */
static int add_token(et_import *from, int side, const char *file, const char *token, int64_t id,
                     et_error *error)
{
    et_value *json = from->tokens[side];
    const et_value *known = et_value_get(json, token),
                   number = { .kind = ET_VALUE_INT, .integer = id };
    const int64_t first = (int64_t)json->count - from->added[side];
    if (known && known->kind == ET_VALUE_INT && known->integer == id)
        return ET_OK;
    if (known)
        return et_fail(error, ET_EFORMAT,
                       "%s: the token \"%.100s\" has the number %lld, but another one in %s; "
                       "download both files again",
                       et_import_path(from, file), token, (long long)id, from->lists[side]);
    if (id < first)
        return et_fail(error, ET_EFORMAT,
                       "%s: the added token \"%.100s\" has the number %lld, which another token of "
                       "%s has; download both files again",
                       et_import_path(from, file), token, (long long)id, from->lists[side]);
    if (id >= from->facts.tokens[side])
        return et_fail(error, ET_EFORMAT,
                       "%s: the added token \"%.100s\" has the number %lld, but the model has "
                       "weights for %lld tokens (%s in config.json); remove the token from the "
                       "file, or save the model after resize_token_embeddings",
                       et_import_path(from, file), token, (long long)id,
                       (long long)from->facts.tokens[side], rows_of(side));
    from->added[side]++;
    return et_value_append_copy(json, token, &number) ? ET_OK
                                                      : et_alloc_failed(error, "a vocabulary");
}

static int refuse_added(et_import *from, const char *file, const char *key, et_error *error)
{
    return et_fail(error, ET_EFORMAT,
                   "%s: %s must give added tokens as texts with numbers; download the file again",
                   et_import_path(from, file), key);
}

/* A dict of numbers by token, as added_tokens.json is; a dict of objects by number; or a list of
 * objects with an "id". Objects have the token as "content". */
static int add_tokens(et_import *from, int side, const char *file, const char *key,
                      const et_value *tokens, et_error *error)
{
    int status = ET_OK;
    if (tokens && tokens->kind != ET_VALUE_DICT && tokens->kind != ET_VALUE_LIST)
        return refuse_added(from, file, key, error);
    for (const et_value *v = tokens ? tokens->first : NULL; v && !status; v = v->next) {
        const et_value *content = et_value_get(v, "content"), *id = et_value_get(v, "id");
        const char *token = content && content->kind == ET_VALUE_STRING ? content->string : v->key;
        char *end = NULL;
        int64_t number = -1;
        if (v->kind == ET_VALUE_INT)
            number = v->integer;
        else if (id && id->kind == ET_VALUE_INT)
            number = id->integer;
        else if (content && v->key)
            number = strtoll(v->key, &end, 10);
        const bool whole = !end || (end != v->key && !*end);
        status = token && *token && number >= 0 && whole
                     ? add_token(from, side, file, token, number, error)
                     : refuse_added(from, file, key, error);
    }
    return status;
}

/* Tokens that were added to a trained model and are missing in its vocabulary. If the target has a
 * complete list of its own, they belong to the source. */
static int read_added(et_import *from, int side, et_error *error)
{
    static const struct {
        const char *file, *key; /* NULL: the whole file */
    } sources[] = { { ET_TRANSFORMERS_ADDED, NULL },
                    { ET_TRANSFORMERS_TOKENIZER, "added_tokens_decoder" },
                    { ET_TRANSFORMERS_TOKENIZER, "added_tokens" },
                    { ET_TRANSFORMERS_FAST_TOKENIZER, "added_tokens" } };
    const bool full = (int64_t)from->tokens[side]->count == from->facts.tokens[side];
    int status = ET_OK;
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !status; i++) {
        const char *file = sources[i].file, *key = sources[i].key;
        et_value *json = NULL;
        if (!et_import_has(from, file) || (full && side == ET_SIDE_TARGET))
            continue;
        status = read_once(from, file, &json, error);
        if (!status)
            status = add_tokens(from, side, file, key ? key : "the file",
                                key ? et_value_get(json, key) : json, error);
    }
    return status;
}

/* ---- the list ---- */

/* Every number from 0 on has one token. */
static int list_tokens(const et_value *json, const char **tokens, const char *path, et_error *error)
{
    const int64_t count = (int64_t)json->count;
    for (const et_value *v = json->first; v; v = v->next) {
        if (v->kind != ET_VALUE_INT || v->integer < 0 || v->integer >= count)
            return et_fail(error, ET_EFORMAT,
                           "%s: \"%.100s\" has no number from 0 to %lld, so another token has no "
                           "number, or two have one; download the file again",
                           path, v->key, (long long)count - 1);
        if (tokens[v->integer])
            return et_fail(
                error, ET_EFORMAT,
                "%s: \"%.100s\" and \"%.100s\" have one number, %lld; download the file again",
                path, tokens[v->integer], v->key, (long long)v->integer);
        if (!*v->key)
            return et_fail(error, ET_EFORMAT, "%s: the token with number %lld is empty", path,
                           (long long)v->integer);
        tokens[v->integer] = v->key;
    }
    return ET_OK;
}

/* expected: the ID in `by`, a file or a list; -1: any. */
static int find_symbol(const et_value *json, const char *symbol, int64_t expected, const char *by,
                       int32_t *number, const char *path, et_error *error)
{
    const et_value *v = et_value_get(json, symbol);
    if (!v)
        return et_fail(error, ET_EFORMAT, "%s has no token \"%s\"", path, symbol);
    *number = (int32_t)v->integer;
    if (expected >= 0 && *number != expected)
        return et_fail(error, ET_EFORMAT, "%s: \"%s\" has the number %d, but %s says %lld", path,
                       symbol, (int)*number, by, (long long)expected);
    return ET_OK;
}

static int read_list(et_import *from, int side, const symbols *s, vocabulary_list *list,
                     et_error *error)
{
    const et_foreign_model *facts = &from->facts;
    const char *path = et_import_path(from, from->lists[side]);
    const char *by = from->marian ? from->lists[ET_SIDE_TARGET] : ET_TRANSFORMERS_CONFIG;
    const et_value *json = from->tokens[side];
    int status = ET_OK;
    if ((int64_t)json->count != facts->tokens[side])
        status = et_fail(error, ET_EFORMAT,
                         "%s has %zu tokens, including the added tokens, but config.json says %lld "
                         "(%s); download config.json, the vocabulary and " ET_TRANSFORMERS_ADDED
                         " again",
                         path, json->count, (long long)facts->tokens[side], rows_of(side));
    const char **tokens = status ? NULL : et_arena_array(&from->arena, json->count, sizeof *tokens);
    if (!status && !tokens)
        status = et_alloc_failed(error, "a vocabulary");
    if (!status)
        status = list_tokens(json, tokens, path, error);
    if (status)
        return status;
    *list = (vocabulary_list){ .tokens = tokens,
                               .count = (int32_t)json->count,
                               .added = from->added[side] };
    if ((status = find_symbol(json, s->eos, facts->eos, by, &list->eos, path, error)) ||
        (status = find_symbol(json, s->unk, -1, by, &list->unk, path, error)))
        return status;
    return find_symbol(json, from->marian ? from->start[side] : s->pad,
                       side == ET_SIDE_TARGET ? facts->pad : -1, by, &list->pad, path, error);
}

static int make_vocabulary(et_import *from, int side, const vocabulary_list *list, et_error *error)
{
    char *bytes = NULL;
    size_t length;
    et_vocabulary *vocabulary;
    const char *path = et_import_path(from, from->models[side]);
    int status = et_import_read_file(from, from->models[side], ET_VOCABULARY_BYTES_MAX, &bytes,
                                     &length, error);
    if (!status)
        status = vocabulary_renumber(&from->vocabulary[side], &from->vocabulary_length[side], list,
                                     bytes, length, path, error);
    et_free(bytes);
    if (!status)
        status = et_vocabulary_parse(&vocabulary, from->vocabulary[side],
                                     from->vocabulary_length[side], path, error);
    if (!status)
        et_vocabulary_close(vocabulary);
    return status;
}

int et_import_read_vocabularies(et_import *from, et_error *error)
{
    vocabulary_list lists[ET_SIDES];
    symbols s;
    bool separate = false;
    et_value *vocabulary = et_value_set_dict(from->settings, "vocabulary");
    et_value_set_bool(vocabulary, "shared", false);
    int status = read_tokenizer(from, vocabulary, &s, &separate, error);
    for (int side = 0; side < ET_SIDES && !status; side++) {
        const bool own = side == ET_SIDE_TARGET && separate;
        const char *name = own ? ET_TRANSFORMERS_TARGET_VOCABULARY : ET_TRANSFORMERS_VOCABULARY;
        if (!from->marian)
            from->lists[side] = name;
        if (!from->marian && side == ET_SIDE_TARGET && !own) {
            from->tokens[side] = from->tokens[ET_SIDE_SOURCE];
            from->added[side] = from->added[ET_SIDE_SOURCE];
        } else if (!from->marian) {
            status = et_import_read_json(from, name, &from->tokens[side], error);
            if (!status)
                status = read_added(from, side, error);
        }
        if (!status)
            status = read_list(from, side, &s, &lists[side], error);
        if (!status)
            status = make_vocabulary(from, side, &lists[side], error);
    }
    if (status)
        return status;
    /* Numbers of the search's forbidden tokens become tokens. */
    const vocabulary_list *target = &lists[ET_SIDE_TARGET];
    et_value *model = et_value_get(from->settings, "model");
    const et_value *numbers = et_value_get(model, "suppressed_tokens");
    et_value *names = et_value_list(&from->arena);
    for (const et_value *v = numbers->first; v; v = v->next) {
        if (v->integer < 0 || v->integer >= target->count)
            return et_fail(error, ET_EFORMAT,
                           "%s: bad_words_ids has %lld, which is no token of the vocabulary",
                           from->folder, (long long)v->integer);
        et_value_add_string(names, target->tokens[v->integer]);
    }
    et_value *to = et_value_set_list(model, "suppressed_tokens");
    for (const et_value *v = names ? names->first : NULL; v; v = v->next)
        et_value_add_string(to, v->string);
    return ET_OK;
}
