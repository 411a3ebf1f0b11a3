/* README.md of a release of OPUS-MT, which has a section for each release, the newest last:
 *
 *   # opus-2020-06-28.zip
 *   * source language(s): eng
 *   * target language(s): afr aln
 *   * pre-processing: normalization + SentencePiece (spm32k,spm32k)
 *   * download: [opus-2020-06-28.zip](https://object.pouta.csc.fi/.../eng-ine/opus-2020-06-28.zip)
 *
 * Releases of OPUS-MT before the Tatoeba Challenge name their languages only in the link. */
#include <string.h>

#include "base/alloc.h"
#include "base/values/value.h"
#include "data/text/sentences.h"
#include "tasks/translation/import/import_private.h"

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

/* *value: what follows the name in a line that begins with it. */
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

/* ".../en-de/opus.zip)" -> "en" and "de"; nothing of a folder with more or fewer "-". */
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

static void read_line(part line, release *r)
{
    part value;
    line = trim(line);
    if (has_name(line, "# ", &value))
        *r = (release){ .normalized = false };
    else if (has_name(line, "* source language(s):", &value))
        r->languages[ET_SIDE_SOURCE] = value;
    else if (has_name(line, "* target language(s):", &value))
        r->languages[ET_SIDE_TARGET] = value;
    else if (has_name(line, "* pre-processing:", &value))
        r->normalized = contains(value, "normalization");
    else if (has_name(line, "* download:", &value) && !r->languages[ET_SIDE_SOURCE].length &&
             !r->languages[ET_SIDE_TARGET].length)
        read_link(value, r->languages);
}

static release read_text(const char *text, size_t length)
{
    release r = { .normalized = false };
    for (const char *end = text + length; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        read_line((part){ text, (size_t)(stop - text) }, &r);
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
    const char *code = et_arena_printf(&from->arena, "%.*s", (int)language.length, language.text);
    if (!code)
        return et_alloc_failed(error, language.length, "a language");
    et_value_set_string(vocabulary, setting, et_language_is_code(code) ? code : "mul");
    return ET_OK;
}

int et_import_read_release(et_import *from, et_value *vocabulary, et_error *error)
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
