#include "clean.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct measures {
    size_t words, bytes, letters; /* letters: bytes of ASCII letters and of what is not ASCII */
} measures;

static bool is_letter(unsigned char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte >= 0x80;
}

static measures measure(const char *text)
{
    measures m = { 0 };
    bool inside = false;
    for (; *text; text++) {
        m.words += *text != ' ' && !inside;
        inside = *text != ' ';
        m.bytes++;
        m.letters += is_letter((unsigned char)*text);
    }
    return m;
}

/* The next word at or after *at, and its length; 0: none. */
static size_t next_word(const char **at)
{
    *at += strspn(*at, " ");
    return strcspn(*at, " ");
}

static bool holds_word(const char *text, const char *word, size_t length)
{
    size_t other;
    for (const char *at = text; (other = next_word(&at)) > 0; at += other)
        if (other == length && !memcmp(at, word, length))
            return true;
    return false;
}

/* Bytes of the words with a letter that stand on the other side too, against all such bytes. */
static bool is_copy(const char *source, const char *target)
{
    size_t length, shared = 0, all = 0;
    for (const char *at = source; (length = next_word(&at)) > 0; at += length) {
        bool letters = false;
        for (size_t i = 0; i < length && !letters; i++)
            letters = is_letter((unsigned char)at[i]);
        if (!letters)
            continue;
        all += length;
        shared += holds_word(target, at, length) ? length : 0;
    }
    return 10 * shared > 7 * all;
}

/* A single word is no fragment: it teaches a term. */
static bool is_fragment(measures m)
{
    return m.letters < 3 || m.letters * 2 < m.bytes;
}

/* German is a fifth longer than English in bytes; short lines get slack. */
static bool is_lopsided(measures a, measures b)
{
    return a.bytes > 2 * b.bytes + 10 || b.bytes > 2 * a.bytes + 10 || a.words > 2 * b.words + 3 ||
           b.words > 2 * a.words + 3;
}

clean_verdict clean_check(const char *source, const char *target)
{
    measures a = measure(source), b = measure(target);
    if (a.words > CLEAN_WORDS_MAX || b.words > CLEAN_WORDS_MAX)
        return CLEAN_LONG;
    if (is_copy(source, target))
        return CLEAN_COPY;
    if (is_fragment(a) || is_fragment(b))
        return CLEAN_FRAGMENT;
    if (is_lopsided(a, b))
        return CLEAN_LOPSIDED;
    return CLEAN_KEEP;
}

const char *clean_name(clean_verdict verdict)
{
    static const char *const names[CLEAN_VERDICTS] = {
        [CLEAN_KEEP] = "kept",         [CLEAN_COPY] = "copies", [CLEAN_FRAGMENT] = "fragments",
        [CLEAN_LOPSIDED] = "lopsided", [CLEAN_LONG] = "long",
    };
    return names[verdict];
}
