/* Sampling of sub-words. A word is the characters of its tokens. Symbols are runs of characters,
 * from starts[i] to starts[i + 1].
 *
 *   BPE      single characters, whose neighbours are merged, the pair with the best score first
 *   unigram  ways[i] is the logarithm of the sum of the weights of all segmentations from character
 *            i to the end; from the front, each token is sampled by its fraction of the sum
 *            (Scott 2002, "Bayesian methods for hidden Markov models", forward filtering,
 *            backward sampling, here from the other end)
 *
 * Words are short, so BPE looks at all pairs in each step. */
#include "data/text/vocabulary/subwords.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "data/text/vocabulary/vocabulary_check.h"

typedef struct piece {
    et_vocabulary_piece own;
    bool text; /* can be split, because it is neither a symbol nor a byte */
    bool cut;  /* all its characters are also tokens */
} piece;

struct et_subwords {
    bool merges; /* BPE */
    double rate;
    int32_t count;  /* of tokens */
    size_t longest; /* bytes of a token */
    piece *pieces;  /* [count] */
    int32_t *slots; /* [mask + 1]: the token of a text, by the text's hash; -1: none */
    size_t mask;
};

/* ---- the table of texts ---- */

static int32_t *slot_of(const et_subwords *self, const char *text, size_t length)
{
    size_t at = et_checksum(text, length) & self->mask;
    for (; self->slots[at] >= 0; at = (at + 1) & self->mask) {
        const et_vocabulary_piece *found = &self->pieces[self->slots[at]].own;
        if (found->length == length && !memcmp(found->text, text, length))
            break;
    }
    return &self->slots[at];
}

/* -1: no token. */
static int32_t find(const et_subwords *self, const char *text, size_t length)
{
    return length <= self->longest ? *slot_of(self, text, length) : -1;
}

/* Whatever the bytes are, a character has one at least. */
static size_t character(const char *text, size_t length)
{
    size_t bytes = 1;
    while (bytes < length && ((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes++;
    return bytes;
}

static bool is_cut(const et_subwords *self, const et_vocabulary_piece *own)
{
    for (size_t at = 0, bytes; at < own->length; at += bytes) {
        bytes = character(own->text + at, own->length - at);
        if (find(self, own->text + at, bytes) < 0)
            return false;
    }
    return true;
}

static int make_table(et_subwords *self, const et_vocabulary *vocabulary, et_error *error)
{
    size_t length, at = 0, slots = 1;
    const char *bytes = et_vocabulary_bytes(vocabulary, &length);
    while (slots < 2 * (size_t)self->count)
        slots *= 2;
    self->mask = slots - 1;
    self->pieces = et_alloc_zero(self->count, sizeof *self->pieces);
    self->slots = et_alloc(slots, sizeof *self->slots);
    if (!self->pieces || !self->slots)
        return et_alloc_failed(error, "sub-words");
    for (size_t i = 0; i < slots; i++)
        self->slots[i] = -1;
    for (int32_t id = 0; id < self->count; id++) {
        piece *p = &self->pieces[id];
        if (!et_vocabulary_next_piece(bytes, length, &at, &p->own))
            break;
        p->text = p->own.type == ET_VOCABULARY_PIECE_NORMAL && p->own.length > 0;
        if (!p->text)
            continue;
        if (p->own.length > self->longest)
            self->longest = p->own.length;
        *slot_of(self, p->own.text, p->own.length) = id;
    }
    for (int32_t id = 0; id < self->count; id++)
        self->pieces[id].cut = self->pieces[id].text && is_cut(self, &self->pieces[id].own);
    return ET_OK;
}

int et_subwords_open(et_subwords **out, const et_vocabulary *vocabulary, double rate,
                     et_error *error)
{
    const char *kind = et_vocabulary_kind(vocabulary);
    const bool merges = strcmp(kind, "bpe") == 0;
    *out = NULL;
    int status = ET_OK;
    if (!merges && strcmp(kind, "unigram") != 0)
        status = et_fail(
            error, ET_ECONFIG,
            "sub-words can only be sampled from a vocabulary of kind bpe or unigram, not %s", kind);
    else if (!(merges ? rate >= 0 && rate < 1 : rate > 0 && rate <= 1e6))
        status = et_fail(error, ET_ECONFIG, "sub-word sampling rate %g: %s", rate,
                         merges ? "for BPE give at least 0 and less than 1"
                                : "for unigram give more than 0");
    et_subwords *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, "sub-words");
    self->merges = merges;
    self->rate = rate;
    self->count = et_vocabulary_size(vocabulary);
    status = make_table(self, vocabulary, error);
    if (status)
        et_subwords_close(self);
    else
        *out = self;
    return status;
}

void et_subwords_close(et_subwords *subwords)
{
    if (!subwords)
        return;
    et_free(subwords->pieces);
    et_free(subwords->slots);
    et_free(subwords);
}

uint64_t et_subwords_fingerprint(const et_subwords *subwords)
{
    uint64_t facts[2] = { subwords->merges, 0 };
    memcpy(&facts[1], &subwords->rate, sizeof facts[1]);
    return et_checksum(facts, sizeof facts);
}

/* ---- a word ---- */

/* Symbols of a word: at most its bytes. */
typedef struct word {
    char text[ET_SUBWORDS_WORD];
    int starts[ET_SUBWORDS_WORD + 1]; /* [count + 1] */
    int32_t ids[ET_SUBWORDS_WORD];    /* [count] */
    bool fixed[ET_SUBWORDS_WORD];     /* [count]: takes no part */
    int count;
} word;

/* Uniform numbers of one sentence, in turn. */
typedef struct draws {
    et_random random;
    uint64_t next;
    et_philox_block block;
} draws;

/* In [0, 1), of 24 bits. */
static float draw(draws *from)
{
    if (from->next % 4 == 0)
        from->block = et_random_block(from->random, from->next / 4);
    return (float)(from->block.word[from->next++ % 4] >> 8) * 0x1p-24f;
}

static void add_symbol(word *to, const char *text, size_t length, int32_t id, bool fixed)
{
    const int at = to->starts[to->count];
    memcpy(to->text + at, text, length);
    to->ids[to->count] = id;
    to->fixed[to->count] = fixed;
    to->starts[++to->count] = at + (int)length;
}

/* A token that may not be split becomes one fixed symbol. */
static void add_token(word *to, const et_subwords *self, int32_t id)
{
    const piece *p = &self->pieces[id];
    if (!p->cut) {
        add_symbol(to, "", 0, id, true);
        return;
    }
    for (size_t at = 0, bytes; at < p->own.length; at += bytes) {
        const char *text = p->own.text + at;
        bytes = character(text, p->own.length - at);
        add_symbol(to, text, bytes, find(self, text, bytes), false);
    }
}

/* -1: they make no token. */
static int32_t merged(const et_subwords *self, const word *of, int at)
{
    if (at < 0 || at + 1 >= of->count || of->fixed[at] || of->fixed[at + 1])
        return -1;
    return find(self, of->text + of->starts[at], (size_t)(of->starts[at + 2] - of->starts[at]));
}

static void merge_word(const et_subwords *self, word *of, draws *from)
{
    int32_t made[ET_SUBWORDS_WORD]; /* [count]: token of symbols i and i + 1 */
    for (int i = 0; i < of->count; i++)
        made[i] = merged(self, of, i);
    for (;;) {
        int best = -1;
        for (int i = 0; i + 1 < of->count; i++) {
            if (made[i] < 0 || (double)draw(from) < self->rate)
                continue;
            if (best < 0 || self->pieces[made[i]].own.score > self->pieces[made[best]].own.score)
                best = i;
        }
        if (best < 0)
            return;
        const size_t behind = (size_t)(--of->count - best - 1);
        of->ids[best] = made[best];
        memmove(&of->ids[best + 1], &of->ids[best + 2], behind * sizeof *of->ids);
        memmove(&of->fixed[best + 1], &of->fixed[best + 2], behind * sizeof *of->fixed);
        memmove(&of->starts[best + 1], &of->starts[best + 2], (behind + 1) * sizeof *of->starts);
        memmove(&made[best + 1], &made[best + 2], behind * sizeof *made);
        made[best] = merged(self, of, best);
        if (best > 0)
            made[best - 1] = merged(self, of, best - 1);
    }
}

/* The logarithm of the weight of a token from symbol begin to end - 1, with all segmentations that
 * may follow it. */
static double weight(const et_subwords *self, const word *of, const double *segmentations,
                     int begin, int end, int32_t *id)
{
    const size_t bytes = (size_t)(of->starts[end] - of->starts[begin]);
    const bool fixed = of->fixed[begin];
    if (fixed && end > begin + 1)
        return -INFINITY;
    *id = fixed ? of->ids[begin] : find(self, of->text + of->starts[begin], bytes);
    if (*id < 0)
        return -INFINITY;
    return (fixed ? 0 : self->rate * (double)self->pieces[*id].own.score) + segmentations[end];
}

/* Symbols that a token from begin may end before: up to a fixed one, and to the longest token. */
static int last_end(const et_subwords *self, const word *of, int begin)
{
    int end = begin + 1;
    while (!of->fixed[begin] && end < of->count && !of->fixed[end] &&
           (size_t)(of->starts[end + 1] - of->starts[begin]) <= self->longest)
        end++;
    return end;
}

static void draw_word(const et_subwords *self, word *of, draws *from)
{
    double segmentations[ET_SUBWORDS_WORD + 1];
    int32_t ids[ET_SUBWORDS_WORD] = { 0 };
    int count = 0;
    segmentations[of->count] = 0;
    for (int i = of->count - 1; i >= 0; i--) {
        double sum = -INFINITY;
        int32_t id;
        for (int end = last_end(self, of, i); end > i; end--) {
            double one = weight(self, of, segmentations, i, end, &id);
            double most = one > sum ? one : sum, least = one > sum ? sum : one;
            if (one > -INFINITY)
                sum = most + log1p(exp(least - most));
        }
        segmentations[i] = sum;
    }
    for (int begin = 0, end; begin < of->count; begin = end) {
        double left = (double)draw(from);
        int last = last_end(self, of, begin);
        int taken = begin + 1;
        for (end = begin + 1; end <= last && left >= 0; end++) {
            int32_t id;
            double share = weight(self, of, segmentations, begin, end, &id);
            if (share == -INFINITY)
                continue;
            ids[count] = id;
            taken = end;
            left -= exp(share - segmentations[begin]);
        }
        count++;
        end = taken;
    }
    memcpy(of->ids, ids, count * sizeof *ids);
    of->count = count;
}

/* ---- a sentence ---- */

/* The number of tokens of the word that begins with ids[0]. *bytes: bytes of their symbols. A
 * symbol without bytes counts as one byte, so *bytes is at least the number of symbols. */
static size_t word_of(const et_subwords *self, const int32_t *ids, size_t count, size_t *bytes)
{
    static const char space[] = "\xe2\x96\x81"; /* U+2581 */
    size_t tokens = 0;
    *bytes = 0;
    for (; tokens < count; tokens++) {
        const et_vocabulary_piece *own = &self->pieces[ids[tokens]].own;
        if (tokens && own->length >= 3 && !memcmp(own->text, space, 3))
            break;
        *bytes += own->length ? own->length : 1;
    }
    return tokens;
}

size_t et_subwords_draw(const et_subwords *subwords, et_random random, const int32_t *ids,
                        size_t count, int32_t *out, size_t room)
{
    draws from = { .random = random };
    size_t made = 0;
    for (size_t at = 0, tokens; at < count; at += tokens) {
        size_t bytes;
        word of = { .count = 0 };
        tokens = word_of(subwords, ids + at, count - at, &bytes);
        const bool fits = bytes <= ET_SUBWORDS_WORD;
        for (size_t i = 0; fits && i < tokens; i++)
            add_token(&of, subwords, ids[at + i]);
        if (fits && subwords->merges)
            merge_word(subwords, &of, &from);
        else if (fits)
            draw_word(subwords, &of, &from);
        size_t added = fits ? (size_t)of.count : tokens;
        if (added > room - made)
            return 0;
        memcpy(out + made, fits ? of.ids : ids + at, added * sizeof *out);
        made += added;
    }
    return made;
}
