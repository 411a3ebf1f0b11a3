#include "formats/marian/lexicon.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct et_lexicon {
    char *bytes; /* owned, as name */
    size_t length;
    char *name;
    uint64_t first, sources;
    const uint64_t *offsets; /* [sources + 1] in bytes, as list */
    const uint32_t *list;
};

typedef struct header {
    uint64_t magic, checksum, first, best, offsets, list;
} header;

/* Over the whole words of 64 bits after the checksum, as boost::hash_combine has it. */
uint64_t et_lexicon_checksum(const char *bytes, size_t length)
{
    uint64_t sum = 0, word;
    et_assert(length >= ET_LEXICON_HEADER);
    for (size_t at = 2 * sizeof word; at + sizeof word <= length; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        sum ^= word + 0x9e3779b9u + (sum << 6) + (sum >> 2);
    }
    return sum;
}

static int damaged(const et_lexicon *l, size_t at, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT, "%s: byte %zu: %s; download the file again", l->name, at,
                   what);
}

/* Sizes are checked by division, so that none overflows. */
static int read_header(et_lexicon *l, header *h, et_error *error)
{
    if (l->length < sizeof *h)
        return damaged(l, l->length, "the file ends in its head", error);
    memcpy(h, l->bytes, sizeof *h);
    const size_t rest = l->length - sizeof *h;
    if (h->magic != ET_LEXICON_MAGIC)
        return damaged(l, 0, "this is no binary shortlist of Marian", error);
    if (h->offsets < 1 || h->offsets > rest / sizeof(uint64_t) ||
        h->list != (rest - h->offsets * sizeof(uint64_t)) / sizeof(uint32_t) ||
        (rest - h->offsets * sizeof(uint64_t)) % sizeof(uint32_t))
        return damaged(l, 4 * sizeof(uint64_t), "the file has another size than its lists", error);
    if (h->checksum != et_lexicon_checksum(l->bytes, l->length))
        return damaged(l, sizeof(uint64_t), "the checksum differs", error);
    return ET_OK;
}

static int check(et_lexicon *l, const header *h, int64_t source, int64_t target, et_error *error)
{
    const size_t lists = sizeof *h + h->offsets * sizeof(uint64_t);
    if (l->sources > (uint64_t)source)
        return et_fail(error, ET_EFORMAT,
                       "%s: lists of %llu source tokens, but the vocabulary has %lld; take the "
                       "files of one model",
                       l->name, (unsigned long long)l->sources, (long long)source);
    for (uint64_t i = 0; i < h->offsets; i++)
        if (l->offsets[i] > h->list || (i && l->offsets[i] < l->offsets[i - 1]))
            return damaged(l, sizeof *h + i * sizeof(uint64_t), "an offset is out of order", error);
    for (uint64_t i = 0; i < h->list; i++)
        if (l->list[i] >= (uint64_t)target)
            return et_fail(error, ET_EFORMAT,
                           "%s: byte %zu: token %u is not in the target's vocabulary of %lld "
                           "tokens; take the files of one model",
                           l->name, lists + i * sizeof(uint32_t), l->list[i], (long long)target);
    l->first = h->first < (uint64_t)target ? h->first : (uint64_t)target;
    return ET_OK;
}

int et_lexicon_open(et_lexicon **out, char *bytes, size_t length, int64_t source, int64_t target,
                    const char *name, et_error *error)
{
    header h;
    *out = NULL;
    et_lexicon *l = et_alloc_zero(1, sizeof *l);
    if (!l || !(l->name = et_strdup(name))) {
        et_free(l);
        et_free(bytes);
        return et_alloc_failed(error, "a shortlist");
    }
    l->bytes = bytes;
    l->length = length;
    int status = read_header(l, &h, error);
    if (!status) {
        l->sources = h.offsets - 1;
        l->offsets = (const void *)(bytes + sizeof h);
        l->list = (const void *)(bytes + sizeof h + h.offsets * sizeof(uint64_t));
        status = check(l, &h, source, target, error);
    }
    if (status)
        et_lexicon_close(l);
    else
        *out = l;
    return status;
}

void et_lexicon_close(et_lexicon *lexicon)
{
    if (!lexicon)
        return;
    et_free(lexicon->bytes);
    et_free(lexicon->name);
    et_free(lexicon);
}

int64_t et_lexicon_first(const et_lexicon *lexicon)
{
    return (int64_t)lexicon->first;
}

const uint32_t *et_lexicon_of(const et_lexicon *lexicon, int32_t source, size_t *count)
{
    *count = 0;
    if (source < 0 || (uint64_t)source >= lexicon->sources)
        return NULL;
    *count = (size_t)(lexicon->offsets[source + 1] - lexicon->offsets[source]);
    return lexicon->list + lexicon->offsets[source];
}

const char *et_lexicon_bytes(const et_lexicon *lexicon, size_t *length)
{
    *length = lexicon->length;
    return lexicon->bytes;
}

int et_lexicon_make(const uint64_t *offsets, int64_t sources, const uint32_t *list, int64_t first,
                    int64_t best, char **bytes, size_t *length, et_error *error)
{
    header h = { ET_LEXICON_MAGIC, 0, (uint64_t)first, (uint64_t)best, (uint64_t)sources + 1,
                 offsets[sources] };
    const size_t of_offsets = h.offsets * sizeof *offsets;
    const size_t of_list = h.list * sizeof *list;
    *length = sizeof h + of_offsets + of_list;
    *bytes = et_alloc(1, *length);
    if (!*bytes)
        return et_alloc_failed(error, "a shortlist");
    memcpy(*bytes, &h, sizeof h);
    memcpy(*bytes + sizeof h, offsets, of_offsets);
    if (of_list)
        memcpy(*bytes + sizeof h + of_offsets, list, of_list);
    h.checksum = et_lexicon_checksum(*bytes, *length);
    memcpy(*bytes, &h, sizeof h);
    return ET_OK;
}
