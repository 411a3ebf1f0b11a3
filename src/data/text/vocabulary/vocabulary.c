/* A vocabulary in two stages: facts (size, symbols, checksum), read from the bytes at opening, and
 * SentencePiece's model, loaded when the first line needs it. A run with a cached corpus needs only
 * the first, and loading takes longer than the rest of its start.
 *
 * The second stage changes an object that many threads share through a const pointer, so it uses a
 * mutex and an atomic pointer (double-checked locking): readers that find the model pay one load
 * with acquire order. If loading fails, the model stays NULL, and the next caller tries again.
 *
 * The bytes are kept while the vocabulary is open. Memory: the file's length, and SentencePiece's
 * model once it is loaded. */
#include "data/text/vocabulary/vocabulary.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/inline.h"
#include "base/text/format.h"
#include "data/text/vocabulary/vocabulary_check.h"
#include "data/text/vocabulary/vocabulary_sentencepiece.h"

/* The changing part of a const vocabulary: loaded once, by the first thread that needs it. */
typedef struct loaded {
    pthread_mutex_t mutex;
    _Atomic(et_sentencepiece *) model; /* NULL: not yet; owned, freed by close */
} loaded;

struct et_vocabulary {
    char *bytes, *name; /* owned: the model as in its file; its name in messages */
    size_t length;      /* of bytes */
    et_vocabulary_facts facts;
    uint64_t checksum; /* XXH3-64 of bytes */
    loaded *loaded;    /* owned; a pointer, so that it may change in a const vocabulary */
};

void et_tokens_release(et_tokens *tokens)
{
    et_free(tokens->ids);
    *tokens = (et_tokens)ET_TOKENS_INIT;
}

/* ---- opening ---- */

/* Bytes -> facts (vocabulary_check.c) -> copies, without SentencePiece. */

/* Checks before copying, so that a file that is not a model costs no memory. Training needs an end
 * symbol. Text with unknown characters needs a symbol for them. A start symbol is not needed
 * (et_vocabulary_start). */
static int check(et_vocabulary *vocabulary, const void *bytes, size_t length, const char *name,
                 et_error *error)
{
    if (length > ET_VOCABULARY_BYTES_MAX)
        return et_fail(error, ET_EFORMAT, "%s: %zu bytes are too many for a vocabulary", name,
                       length);
    et_vocabulary_facts *facts = &vocabulary->facts;
    int status = et_vocabulary_check(facts, bytes, length, name, error);
    if (status)
        return status;
    if (facts->pieces > ET_VOCABULARY_TOKENS_MAX)
        return et_fail(error, ET_EFORMAT, "%s has %s tokens, more than %s; use a smaller model",
                       name, et_format_count(facts->pieces).text,
                       et_format_count(ET_VOCABULARY_TOKENS_MAX).text);
    /* The SentencePiece trainer can be told to leave these symbols out. */
    status = et_vocabulary_check_symbols(facts, bytes, length, name, error);
    if (!status)
        vocabulary->checksum = et_checksum(bytes, length);
    return status;
}

/* After a failure, close frees the allocated parts. */
int et_vocabulary_parse(et_vocabulary **out, const void *bytes, size_t length, const char *name,
                        et_error *error)
{
    *out = NULL;
    et_assert(bytes && name);
    et_vocabulary *vocabulary;
    if (ET_ALLOC_ZERO(vocabulary, 1, "a vocabulary", error))
        return ET_ENOMEM;
    int status = check(vocabulary, bytes, length, name, error);
    if (!status) {
        /* Copies, since the second stage comes when the caller's bytes may be gone. */
        vocabulary->bytes = et_alloc(length, 1);
        vocabulary->name = et_strdup(name);
        vocabulary->loaded = et_alloc_zero(1, sizeof *vocabulary->loaded);
        if (vocabulary->loaded) /* a mutex of the default kind never fails */
            pthread_mutex_init(&vocabulary->loaded->mutex, NULL);
        if (!vocabulary->bytes || !vocabulary->name || !vocabulary->loaded)
            status = et_alloc_failed(error, "a vocabulary");
        else {
            memcpy(vocabulary->bytes, bytes, length);
            vocabulary->length = length;
        }
    }
    if (status)
        et_vocabulary_close(vocabulary);
    else
        *out = vocabulary;
    return status;
}

/* The file is read whole, because the checksum and the library need all bytes. */
int et_vocabulary_open(et_vocabulary **out, const char *path, et_error *error)
{
    char *bytes;
    size_t length;
    int status = et_file_read(&bytes, &length, path, ET_VOCABULARY_BYTES_MAX, error);
    if (status)
        return status;
    status = et_vocabulary_parse(out, bytes, length, path, error);
    et_free(bytes);
    return status;
}

/* No thread may be using it. */
void et_vocabulary_close(et_vocabulary *vocabulary)
{
    if (!vocabulary)
        return;
    if (vocabulary->loaded) {
        et_sentencepiece_free(vocabulary->loaded->model);
        pthread_mutex_destroy(&vocabulary->loaded->mutex);
    }
    et_free(vocabulary->loaded);
    et_free(vocabulary->bytes);
    et_free(vocabulary->name);
    et_free(vocabulary);
}

/* ---- using it ---- */

/* Every function below begins with get_model, which may load the model and may therefore fail in
 * the same ways. */

/* The first use loads the model. Another thread waits for the mutex while the model is loaded.
 * Release order publishes the model's memory with the pointer. */
ET_NOINLINE static int load_model(const et_sentencepiece **model, const et_vocabulary *vocabulary,
                                  et_error *error)
{
    loaded *shared = vocabulary->loaded;
    int status = ET_OK;
    pthread_mutex_lock(&shared->mutex);
    /* Another thread may have loaded the model in between. */
    et_sentencepiece *found = atomic_load_explicit(&shared->model, memory_order_relaxed);
    if (!found)
        status = et_sentencepiece_load(&found, &vocabulary->facts, vocabulary->bytes,
                                       vocabulary->length, vocabulary->name, error);
    atomic_store_explicit(&shared->model, found, memory_order_release);
    pthread_mutex_unlock(&shared->mutex);
    *model = found;
    return status;
}

/* Acquire order pairs with the release of load_model: a thread that sees the pointer also sees the
 * model. */
static int get_model(const et_sentencepiece **model, const et_vocabulary *vocabulary,
                     et_error *error)
{
    *model = atomic_load_explicit(&vocabulary->loaded->model, memory_order_acquire);
    return *model ? ET_OK : load_model(model, vocabulary, error);
}

int et_vocabulary_load(const et_vocabulary *vocabulary, et_error *error)
{
    const et_sentencepiece *model;
    return get_model(&model, vocabulary, error);
}

int et_vocabulary_encode(const et_vocabulary *vocabulary, const char *text, size_t length,
                         et_tokens *tokens, et_error *error)
{
    const et_sentencepiece *model;
    int status = get_model(&model, vocabulary, error);
    return status ? status : et_sentencepiece_encode(model, text, length, tokens, error);
}

/* Checks ids, so that SentencePiece gets only ids with a token. */
int et_vocabulary_decode(const et_vocabulary *vocabulary, const int32_t *ids, size_t count,
                         et_strbuf *out, et_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary->facts.tokens)
            return et_fail(error, ET_EDATA, "token %d is not in the vocabulary of %d", (int)ids[i],
                           (int)vocabulary->facts.tokens);
    const et_sentencepiece *model;
    int status = get_model(&model, vocabulary, error);
    const size_t begin = out->length;
    if (!status)
        status = et_sentencepiece_decode(model, ids, count, out, error);
    /* Tokens for bytes (byte_fallback) may spell a line's end. */
    for (size_t i = begin; !status && i < out->length; i++)
        if ((unsigned char)out->data[i] < ' ')
            out->data[i] = ' ';
    return status;
}

/* "" for a token without a text, so that callers can print it. */
const char *et_vocabulary_token(const et_vocabulary *vocabulary, int32_t id)
{
    const et_sentencepiece *model = NULL;
    if (id >= 0 && id < vocabulary->facts.tokens && get_model(&model, vocabulary, NULL))
        return "";
    return model ? et_sentencepiece_token(model, id) : "";
}

/* ---- facts ---- */

/* From opening: no call of the library, no failure. */

int32_t et_vocabulary_size(const et_vocabulary *vocabulary)
{
    return vocabulary->facts.tokens;
}

int32_t et_vocabulary_eos(const et_vocabulary *vocabulary)
{
    return vocabulary->facts.eos;
}

int32_t et_vocabulary_unk(const et_vocabulary *vocabulary)
{
    return vocabulary->facts.unk;
}

int32_t et_vocabulary_bos(const et_vocabulary *vocabulary)
{
    return vocabulary->facts.bos;
}

int32_t et_vocabulary_pad(const et_vocabulary *vocabulary)
{
    return vocabulary->facts.pad;
}

/* Model Garden feeds the decoder id 0, which is pad in the models it trains. */
int32_t et_vocabulary_start(const et_vocabulary *vocabulary)
{
    /* In this order, so that a model of any maker has one: EOS it always has. */
    if (et_vocabulary_pad(vocabulary) >= 0)
        return et_vocabulary_pad(vocabulary);
    if (et_vocabulary_bos(vocabulary) >= 0)
        return et_vocabulary_bos(vocabulary);
    return et_vocabulary_eos(vocabulary);
}

/* Numbers of sentencepiece_model.proto, TrainerSpec.ModelType. */
const char *et_vocabulary_kind(const et_vocabulary *vocabulary)
{
    static const char *const names[] = { "unigram", "bpe", "word", "char" };
    int type = vocabulary->facts.model_type;
    return type >= 1 && type <= 4 ? names[type - 1] : "unknown";
}

const char *et_vocabulary_bytes(const et_vocabulary *vocabulary, size_t *length)
{
    *length = vocabulary->length;
    return vocabulary->bytes;
}

uint64_t et_vocabulary_checksum(const et_vocabulary *vocabulary)
{
    return vocabulary->checksum;
}

/* ---- training ---- */

/* No vocabulary is involved: lines in, a model's bytes out, which et_vocabulary_parse takes. */

int et_vocabulary_train(char **bytes, size_t *length, const et_vocabulary_options *options,
                        et_vocabulary_lines_fn *lines, void *payload, et_error *error)
{
    /* Etude checks size for its own message: at least the three special symbols and a token; the
     * limit is far above the size that any text gives. */
    int status = ET_OK;
    if (options->size < 4 || options->size > ET_VOCABULARY_TOKENS_MAX)
        status = et_fail(error, ET_ECONFIG, "a vocabulary of %lld tokens: give 4 to %s",
                         (long long)options->size, et_format_count(ET_VOCABULARY_TOKENS_MAX).text);
    else if (!(options->character_coverage >= 0.98 && options->character_coverage <= 1))
        status = et_fail(error, ET_ECONFIG, "character_coverage is %g: give 0.98 to 1",
                         options->character_coverage);

    return status ? status : et_sentencepiece_train(bytes, length, options, lines, payload, error);
}

/* In a list for people. */
#define LISTED 8

bool et_language_tag_is(const char *token)
{
    const size_t length = strlen(token);
    return length > 4 && !memcmp(token, ">>", 2) && !memcmp(token + length - 2, "<<", 2);
}

int et_language_tags_read(et_strings *tags, const et_vocabulary *vocabulary, et_arena *arena)
{
    const int32_t size = et_vocabulary_size(vocabulary);
    const char **items = NULL;
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        count = 0;
        for (int32_t id = 0; id < size; id++) {
            const char *token = et_vocabulary_token(vocabulary, id);
            if (!et_language_tag_is(token))
                continue;
            if (round && !(items[count] = et_arena_strdup(arena, token)))
                return ET_ENOMEM;
            count++;
        }
        if (!round && !(items = et_arena_array(arena, count + 1, sizeof *items)))
            return ET_ENOMEM;
    }
    *tags = (et_strings){ items, count };
    return ET_OK;
}

size_t et_language_tag_begins(const et_strings *tags, const char *text, size_t length)
{
    for (size_t i = 0; i < tags->count; i++) {
        const size_t size = strlen(tags->items[i]);
        if (length >= size && !memcmp(text, tags->items[i], size))
            return size;
    }
    return 0;
}

int32_t et_language_tags_list(const et_vocabulary *vocabulary, et_strbuf *list)
{
    int32_t count = 0;
    const int32_t size = et_vocabulary_size(vocabulary);
    for (int32_t id = 0; id < size; id++) {
        const char *token = et_vocabulary_token(vocabulary, id);
        if (!et_language_tag_is(token))
            continue;
        if (count < LISTED)
            et_strbuf_printf(list, "%s%s", count ? " " : "", token);
        count++;
    }
    if (count > LISTED)
        et_strbuf_append(list, " ...");
    return count;
}
