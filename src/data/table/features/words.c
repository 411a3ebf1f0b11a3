/* The transform words: a free text as ids of its words and of each two words side by side. A text
 * is lower-cased and split at all characters except letters, digits and marks. An id is the xxHash
 * of a word, or of two words with a blank between, modulo the buckets. The ids of a text are in the
 * order word, pair, word, ...; the remaining columns are -1. */
#include "data/table/features/transforms.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"

static bool is_letter(uint32_t code)
{
    return code > ' ' && !et_unicode_is_space(code) && !et_unicode_is_punctuation(code) &&
           !et_unicode_is_symbol(code);
}

int64_t et_words_count(const char *text, size_t length)
{
    int64_t count = 0;
    bool counted = false;
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i], lower = c | 32;
        const bool letter = c >= 0x80 || (lower >= 'a' && lower <= 'z');
        count += letter && !counted;
        counted = c > ' ' && (counted || letter);
    }
    return count;
}

int64_t et_words_taken(const char *text, size_t length)
{
    int64_t count = 0;
    bool inside = false;
    for (size_t i = 0; i < length;) {
        uint32_t code = (unsigned char)text[i];
        const size_t bytes = code < 0x80 ? 1 : et_utf8_decode(text + i, length - i, &code);
        const bool letter = is_letter(code);
        count += letter && !inside;
        inside = letter;
        i += bytes ? bytes : 1;
    }
    return count;
}

void et_words_fit(et_fitted_transform *fitted, const et_fitting *with)
{
    fitted->width = 2 * with->spec->words - 1;
    fitted->cardinality = with->spec->buckets;
    fitted->unknown = -1;
    const char **names = et_arena_array(with->arena, fitted->width, sizeof *names);
    fitted->column = names;
    for (int64_t i = 0; names && i < fitted->width; i++)
        names[i] = with->name;
}

/* Words in lower case, a blank after each. */
static int read_words(et_strbuf *out, const et_reading *value, et_error *error)
{
    et_codes codes = ET_CODES_INIT, lower = ET_CODES_INIT;
    int status = et_codes_decode(&codes, value->text, value->length, error);
    if (!status)
        status = et_codes_lower(&lower, &codes, error);
    bool inside = false;
    for (size_t i = 0; !status && i < lower.count; i++) {
        const bool letter = is_letter(lower.items[i]);
        if (letter)
            et_strbuf_append_code(out, lower.items[i]);
        else if (inside)
            et_strbuf_append_char(out, ' ');
        inside = letter;
    }
    if (inside)
        et_strbuf_append_char(out, ' ');
    et_codes_release(&lower);
    et_codes_release(&codes);
    return !status && out->failed ? et_alloc_failed(error, "words") : status;
}

static int32_t id_of(const et_fitted_transform *f, const char *text, size_t length)
{
    return (int32_t)(et_checksum(text, length) % (uint64_t)f->cardinality);
}

static void put_ids(const et_fitted_transform *f, int32_t *to, const char *text, size_t length)
{
    const char *end = text + length, *before = NULL;
    int64_t count = 0;
    while (text < end && count < f->width) {
        const char *blank = memchr(text, ' ', (size_t)(end - text));
        et_assert(blank != NULL);
        if (before)
            to[count++] = id_of(f, before, (size_t)(blank - before));
        et_assert(count < f->width);
        to[count++] = id_of(f, text, (size_t)(blank - text));
        before = text;
        text = blank + 1;
    }
}

int et_words_apply(const et_fitted_transform *f, const et_reading *value, void *to, et_error *error)
{
    et_strbuf words = ET_STRBUF_INIT;
    int32_t *ids = to;
    for (int64_t i = 0; i < f->width; i++)
        ids[i] = -1;
    if (value->missing)
        return ET_OK;
    int status = read_words(&words, value, error);
    if (!status && words.length)
        put_ids(f, ids, et_strbuf_text(&words), words.length);
    et_strbuf_release(&words);
    return status;
}
