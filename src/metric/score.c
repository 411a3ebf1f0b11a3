/* The common part of BLEU, chrF and TER: pairs become counts, counts are added, and a score is
 * computed from the counts.
 *
 * Every score first refuses an empty corpus and two corpora of different lengths: pairing lines by
 * chance would give a number that looks like a score. */
#include "metric/score.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <etude/version.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"

/* ---- tokens ---- */

/* The scripts' tokenizers, each as a list of passes over an array of code points:
 *
 *   13a    decode entities, pad with spaces, [punctuation] -> " x ", then . , - by their neighbours
 *   v14    P next to a non-digit is separated, S always (P, S: Unicode categories)
 *   none   unchanged
 *   char   every character
 *
 *   "It's 3.5%, really." -> "It's 3.5 % , really ."        (13a)
 *
 * A script is a sequence of substitutions of regular expressions over the whole line. Each pass is
 * one substitution, so it can be compared with its source: matches do not overlap, and the search
 * continues after the last match. All passes are linear.
 *
 * To add one: a function and a row in `tokenizers`, and its name in <etude/score.h>. */

/* Whether a code point is in a class of characters. */
typedef bool (*class_fn)(uint32_t code);

/* A pass writes at most three codes for each that it reads. Found in set_apart: " x ". */
enum { GROWTH = 3 };

/* Reserves room in `spare` for the output of a pass; at least one code, so that there is an array.
 */
static int begin(et_tokenizer *tokenizer, et_error *error)
{
    size_t room;
    if (__builtin_mul_overflow(tokenizer->line.count, GROWTH, &room))
        room = SIZE_MAX;
    return et_codes_reserve(&tokenizer->spare, room ? room : 1, error);
}

/* The pass wrote count codes into spare: they are the line now. The old line becomes the next
 * pass's spare. */
static void end(et_tokenizer *tokenizer, size_t count)
{
    et_codes line = tokenizer->spare;
    et_assert(count <= line.capacity);
    line.count = count;
    tokenizer->spare = tokenizer->line;
    tokenizer->line = line;
}

/* s/(class)/ \1 /g, class NULL: every character. Example, class of punctuation: "a,b" -> "a , b".
 */
static int set_apart(et_tokenizer *tokenizer, class_fn class, et_error *error)
{
    if (begin(tokenizer, error))
        return ET_ENOMEM;
    const et_codes *line = &tokenizer->line;
    uint32_t *to = tokenizer->spare.items;
    for (size_t i = 0; i < line->count; i++) {
        /* Adds a space on each side; later, two spaces count as one. */
        bool apart = !class || class(line->items[i]);
        if (apart)
            *to++ = ' ';
        *to++ = line->items[i];
        if (apart)
            *to++ = ' ';
    }
    end(tokenizer, (size_t)(to - tokenizer->spare.items));
    return ET_OK;
}

/* s/(left)(right)/.../g with spaces before, between and after the pair as requested. */
typedef struct pair_rule {
    class_fn left, right;
    bool before, behind; /* between always */
} pair_rule;

/* After a match the search continues after both characters, as a regular expression with /g does.
 * In "1-2-3" the pair ("1", "-") is replaced, then "2" begins the next: "1 - 2 - 3". */
static int split_pairs(et_tokenizer *tokenizer, const pair_rule *rule, et_error *error)
{
    et_assert(rule->left && rule->right);
    if (begin(tokenizer, error))
        return ET_ENOMEM;
    const et_codes *line = &tokenizer->line;
    uint32_t *to = tokenizer->spare.items;
    /* i moves by one without a match, and by two after a match. */
    size_t i = 0;
    while (i < line->count) {
        uint32_t code = line->items[i];
        if (i + 1 == line->count || !rule->right(line->items[i + 1]) || !rule->left(code)) {
            *to++ = code;
            i++;
            continue;
        }
        /* Additional spaces do no harm: words are the texts between them. */
        if (rule->before)
            *to++ = ' ';
        *to++ = code;
        *to++ = ' ';
        *to++ = line->items[i + 1];
        if (rule->behind)
            *to++ = ' ';
        i += 2;
    }
    end(tokenizer, (size_t)(to - tokenizer->spare.items));
    return ET_OK;
}

/* Replaces each find in place by one code, or by nothing (0). Never longer than before, so it
 * needs no second buffer. */
static void replace(et_codes *line, const char *find, uint32_t by)
{
    et_assert(*find);
    size_t length = strlen(find), count = 0, i = 0;
    while (i < line->count) {
        size_t same = 0;
        while (same < length && i + same < line->count &&
               line->items[i + same] == (unsigned char)find[same])
            same++;
        if (same < length) {
            line->items[count++] = line->items[i++];
            continue;
        }
        if (by)
            line->items[count++] = by;
        i += length;
    }
    line->count = count;
}

/* The class [0-9] of mteval-v13a. */
static bool ascii_digit(uint32_t code)
{
    return code >= '0' && code <= '9';
}

static bool not_ascii_digit(uint32_t code)
{
    return !ascii_digit(code);
}

/* Between digits they belong to a number, anywhere else they are words. */
static bool period_or_comma(uint32_t code)
{
    return code == '.' || code == ',';
}

static bool dash(uint32_t code)
{
    return code == '-';
}

/* [\{-\~\[-\` -\&\(-\+\:-\@\/]: ASCII punctuation but ' , - . and the space. */
static bool mteval_punctuation(uint32_t code)
{
    return (code >= '{' && code <= '~') || (code >= '[' && code <= '`') ||
           (code >= ' ' && code <= '&') || (code >= '(' && code <= '+') ||
           (code >= ':' && code <= '@') || code == '/';
}

/* Model Garden's class consists of all P* characters without escapes, so the backslash only escapes
 * the bracket after it and is no member. */
static bool v14_punctuation(uint32_t code)
{
    return code != '\\' && et_unicode_is_punctuation(code);
}

/* [^\d] of Python's re: over all of Unicode. */
static bool not_digit(uint32_t code)
{
    return !et_unicode_is_digit(code);
}

static int tokenize_char(et_tokenizer *tokenizer, et_error *error)
{
    return set_apart(tokenizer, NULL, error);
}

/* mteval-v13a.pl without its SGML, in the order of sacrebleu. The script puts a space before and
 * after the line, so that a period at either end has a neighbour that is no digit. Entities are
 * decoded after line ends are gone, in this order, so that "&amp;lt;" becomes "<". */
static int tokenize_13a(et_tokenizer *tokenizer, et_error *error)
{
    static const pair_rule rules[] = {
        { not_ascii_digit, period_or_comma, false, true },
        { period_or_comma, not_ascii_digit, true, false },
        { ascii_digit, dash, false, true },
    };
    /* The script works on a whole segment, which may hold line ends; a line of ours has none,
     * and the passes about them find nothing. */
    et_codes *line = &tokenizer->line;
    /* sacrebleu strips the end of each line before any tokenizer sees it. */
    while (line->count > 0 && et_unicode_is_space(line->items[line->count - 1]))
        line->count--;
    replace(line, "<skipped>", 0);
    replace(line, "-\n", 0);
    replace(line, "\n", ' ');
    replace(line, "&quot;", '"');
    replace(line, "&amp;", '&');
    replace(line, "&lt;", '<');
    replace(line, "&gt;", '>');
    if (et_codes_reserve(line, line->count + 2, error))
        return ET_ENOMEM;
    memmove(line->items + 1, line->items, line->count * sizeof(*line->items));
    line->items[0] = ' ';
    line->items[line->count + 1] = ' ';
    line->count += 2;
    if (set_apart(tokenizer, mteval_punctuation, error))
        return ET_ENOMEM;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (split_pairs(tokenizer, &rules[i], error))
            return ET_ENOMEM;
    return ET_OK;
}

/* mteval-v14.pl, international tokenization, as in Model Garden's metrics/bleu.py. */
static int tokenize_v14(et_tokenizer *tokenizer, et_error *error)
{
    static const pair_rule rules[] = {
        { not_digit, v14_punctuation, false, true },
        { v14_punctuation, not_digit, true, false },
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (split_pairs(tokenizer, &rules[i], error))
            return ET_ENOMEM;
    return set_apart(tokenizer, et_unicode_is_symbol, error);
}

/* ORDER et_bleu_tokens: name in signatures, passes. */
static const struct {
    const char *name;
    int (*run)(et_tokenizer *tokenizer, et_error *error);
} tokenizers[] = {
    [ET_BLEU_TOKENS_13A] = { "13a", tokenize_13a },
    [ET_BLEU_TOKENS_NONE] = { "none", NULL }, /* words are what white space separates already */
    [ET_BLEU_TOKENS_CHAR] = { "char", tokenize_char },
    [ET_BLEU_TOKENS_V14] = { "mteval-v14", tokenize_v14 },
};

/* Lower case comes before the passes, as in sacrebleu, and follows Unicode. */
int et_tokenizer_run(et_tokenizer *tokenizer, et_bleu_tokens tokens, bool lowercase,
                     const char *text, et_error *error)
{
    et_assert((size_t)tokens < sizeof(tokenizers) / sizeof(*tokenizers));
    /* Bytes to code points: the only step that may refuse a line. */
    int status = et_codes_decode(&tokenizer->line, text, strlen(text), error);
    if (status)
        return status;
    if (lowercase) {
        if (et_codes_lower(&tokenizer->spare, &tokenizer->line, error))
            return ET_ENOMEM;
        end(tokenizer, tokenizer->spare.count);
    }
    return tokenizers[tokens].run ? tokenizers[tokens].run(tokenizer, error) : ET_OK;
}

void et_tokenizer_release(et_tokenizer *tokenizer)
{
    et_codes_release(&tokenizer->line);
    et_codes_release(&tokenizer->spare);
}

/* White space of any kind and length is between words; none are empty. */
bool et_word_next(const et_codes *line, size_t *at, size_t *first, size_t *end_of_word)
{
    size_t i = *at;
    while (i < line->count && et_unicode_is_space(line->items[i]))
        i++;
    *first = i;
    while (i < line->count && !et_unicode_is_space(line->items[i]))
        i++;
    *end_of_word = i;
    *at = i;
    return i > *first;
}

/* As in sacrebleu's "tok:". */
const char *et_bleu_tokens_name(et_bleu_tokens tokens)
{
    et_assert((size_t)tokens < sizeof(tokenizers) / sizeof(*tokenizers));
    return tokenizers[tokens].name;
}

/* ---- n-grams ---- */

/* Two hash tables with open addressing and linear probing, both for one pair of lines at a time.
 *
 * An n-gram is the pair (n-gram of n - 1 that it begins with, last code). Orders are counted one
 * after another. When order n is counted, at[side][i] is the slot of the n-gram of order n - 1 at
 * position i, so the key of order n is this slot and one code, 64 bits. With order 1 the slot is
 * always 0.
 *
 *   reference a b a b, order 2: (slot of a, b) twice, (slot of b, a) once
 *   hypothesis b a b:           b a matches, a b matches -> 2
 *
 * A slot's number has a meaning only within its order: slots are released between orders, but keys
 * of order n hold slot numbers of order n - 1, which are equal exactly for equal n-grams. An n-gram
 * of the hypothesis that the reference lacks is `none`; then no longer n-gram at its position can
 * be shared.
 *
 * Invariants:
 *   (1) a slot counts only if its stamp is the table's;
 *   (2) at least half of the slots that a mask reaches are free, so a search ends.
 *
 * Time is linear in both lines for each order; memory is kept from pair to pair. */

/* One n-gram of the reference. */
struct et_ngram_slot {
    uint64_t key;   /* slot of the first n - 1 codes << 32 | last code */
    uint32_t stamp; /* 0: never used */
    uint32_t left;  /* occurrences in the reference that have no partner yet */
};

/* One word of the reference. */
struct et_word_slot {
    uint64_t hash;       /* of the word's codes, compared before the codes are */
    size_t first, count; /* codes of the reference's line */
    uint32_t stamp;      /* 0: never used */
    uint32_t number;     /* from 0, in the order of the reference */
};

/* A position from which no n-gram of this length is shared, and so no longer one either. */
static const uint32_t none = UINT32_MAX;

/* The finaliser of MurmurHash3 (Appleby, public domain): every bit counts for every bit. Keys of
 * neighbours differ in few bits, and the mask takes the lowest. */
static uint64_t mix(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xFF51AFD7ED558CCD);
    key ^= key >> 33;
    key *= UINT64_C(0xC4CEB9FE1A85EC53);
    return key ^ key >> 33;
}

/* The table size for count entries, 0 if there can be none. Slots are numbered in 32 bits. */
static size_t table_size(size_t count)
{
    size_t size = 16;
    while (size / 2 < count) {
        if (size > UINT32_MAX / 2)
            return 0;
        size *= 2;
    }
    return size;
}

/* Makes a table of at least `size` slots of `bytes` bytes each, zeroed. Old slots are not copied:
 * they belong to an earlier pair. */
static int grow(void **slots, size_t *capacity, size_t size, size_t bytes, et_error *error)
{
    if (size && size <= *capacity)
        return 0;
    void *grown = size ? et_alloc_zero(size, bytes) : NULL;
    if (!grown)
        return et_alloc_failed(error, "n-grams of a line");
    et_free(*slots);
    *slots = grown;
    *capacity = size;
    return 0;
}

/* A new stamp makes all slots free. After 2^32 uses it comes back to 0; then the slots are wiped
 * once. */
static void renew(void *slots, size_t capacity, size_t bytes, uint32_t *stamp)
{
    if (++*stamp == 0) {
        memset(slots, 0, capacity * bytes);
        *stamp = 1;
    }
}

/* The slot of key, or the free slot for it. mask: of the part of the table in use, whose size
 * depends on the pair. */
static uint32_t find_ngram(const et_ngrams *ngrams, size_t mask, uint64_t key)
{
    et_assert(mask + 1 <= ngrams->capacity);
    size_t slot = mix(key) & mask;
    while (ngrams->slots[slot].stamp == ngrams->stamp && ngrams->slots[slot].key != key)
        slot = (slot + 1) & mask;
    return (uint32_t)slot;
}

/* Enters the reference's n-grams: on entry at[] has the slots of order - 1, then of order. */
static void enter(et_ngrams *ngrams, size_t mask, const et_codes *reference, size_t order)
{
    uint32_t *at = ngrams->at[1].items;
    for (size_t i = 0; i + order <= reference->count; i++) {
        uint64_t key = (uint64_t)at[i] << 32 | reference->items[i + order - 1];
        uint32_t index = find_ngram(ngrams, mask, key);
        et_ngram_slot *slot = &ngrams->slots[index];
        if (slot->stamp != ngrams->stamp)
            *slot = (et_ngram_slot){ key, ngrams->stamp, 0 };
        slot->left++;
        at[i] = index;
    }
}

/* Takes the hypothesis' n-grams out again; returns how many were there. */
static int64_t take(et_ngrams *ngrams, size_t mask, const et_codes *hypothesis, size_t order)
{
    int64_t match = 0;
    uint32_t *at = ngrams->at[0].items;
    for (size_t i = 0; i + order <= hypothesis->count; i++) {
        if (at[i] == none)
            continue;
        uint64_t key = (uint64_t)at[i] << 32 | hypothesis->items[i + order - 1];
        uint32_t index = find_ngram(ngrams, mask, key);
        et_ngram_slot *slot = &ngrams->slots[index];
        at[i] = slot->stamp == ngrams->stamp ? index : none;
        if (at[i] != none && slot->left > 0) {
            slot->left--;
            match++;
        }
    }
    return match;
}

/* Before order 1 every position is in "slot 0", the empty n-gram's. */
int et_ngrams_match(et_ngrams *ngrams, const et_codes *hypothesis, const et_codes *reference,
                    int order, int64_t match[], et_error *error)
{
    et_assert(order >= 1);
    /* For the reference's n-grams of one order: at most one for each of its codes. */
    size_t size = table_size(reference->count);
    void *slots = ngrams->slots;
    int status = grow(&slots, &ngrams->capacity, size, sizeof(et_ngram_slot), error);
    ngrams->slots = slots;
    if (status || et_codes_reserve(&ngrams->at[0], hypothesis->count, error) ||
        et_codes_reserve(&ngrams->at[1], reference->count, error))
        return ET_ENOMEM;
    if (hypothesis->count)
        memset(ngrams->at[0].items, 0, hypothesis->count * sizeof(uint32_t));
    if (reference->count)
        memset(ngrams->at[1].items, 0, reference->count * sizeof(uint32_t));
    /* The table of order n - 1 is cleared here; only the slot numbers in at[] are kept. */
    for (int n = 1; n <= order; n++) {
        renew(ngrams->slots, ngrams->capacity, sizeof(et_ngram_slot), &ngrams->stamp);
        enter(ngrams, size - 1, reference, (size_t)n);
        match[n - 1] = take(ngrams, size - 1, hypothesis, (size_t)n);
    }
    return 0;
}

/* The slot of a word, or the free slot for it. line: the line that contains the words in slots. */
static et_word_slot *find_word(const et_words *words, size_t mask, const et_codes *line,
                               const uint32_t *word, size_t count, uint64_t hash)
{
    size_t at = hash & mask;
    for (;; at = (at + 1) & mask) {
        et_word_slot *slot = &words->slots[at];
        if (slot->stamp != words->stamp)
            return slot;
        /* Hashes may be equal by accident, words are compared by their codes. */
        if (slot->hash == hash && slot->count == count &&
            !memcmp(line->items + slot->first, word, count * sizeof(*word)))
            return slot;
    }
}

/* To know how much room is needed, before anything is written. */
static size_t count_words(const et_codes *line)
{
    size_t count = 0, at = 0, first, end;
    while (et_word_next(line, &at, &first, &end))
        count++;
    return count;
}

/* Numbers the words of one side. The reference comes first and enters its words, so that the
 * hypothesis finds them. */
static void number_side(et_words *words, size_t mask, et_codes *out, const et_codes *line,
                        const et_codes *reference_line)
{
    size_t at = 0, first, end;
    out->count = 0;
    while (et_word_next(line, &at, &first, &end)) {
        const uint32_t *word = line->items + first;
        size_t length = end - first;
        /* The length comes first, so that words with a common prefix differ from the start. */
        uint64_t hash = length;
        for (size_t i = 0; i < length; i++)
            hash = mix(hash ^ word[i]);
        et_word_slot *slot = find_word(words, mask, reference_line, word, length, hash);
        uint32_t number = ET_WORD_UNKNOWN;
        if (slot->stamp == words->stamp) {
            number = slot->number;
        } else if (line == reference_line) {
            number = (uint32_t)out->count;
            *slot = (et_word_slot){ hash, first, length, words->stamp, number };
        }
        out->items[out->count++] = number;
    }
}

/* The reference's words are numbered from 0; what only the hypothesis has is ET_WORD_UNKNOWN,
 * which no n-gram of the reference holds. */
int et_words_number(et_words *words, et_codes *hypothesis, et_codes *reference,
                    const et_codes *hypothesis_line, const et_codes *reference_line,
                    et_error *error)
{
    et_assert(hypothesis_line != reference_line);
    et_assert(hypothesis != reference);
    size_t reference_count = count_words(reference_line);
    size_t size = table_size(reference_count);
    void *slots = words->slots;
    int status = grow(&slots, &words->capacity, size, sizeof(et_word_slot), error);
    words->slots = slots;
    if (status || et_codes_reserve(reference, reference_count, error) ||
        et_codes_reserve(hypothesis, count_words(hypothesis_line), error))
        return ET_ENOMEM;
    renew(words->slots, words->capacity, sizeof(et_word_slot), &words->stamp);
    number_side(words, size - 1, reference, reference_line, reference_line);
    number_side(words, size - 1, hypothesis, hypothesis_line, reference_line);
    return 0;
}

/* ---- scores ---- */

/* The message depends on which of the two counts is wrong. */
static int check_counts(size_t hypotheses, size_t references, et_error *error)
{
    if (hypotheses != references)
        return et_fail(error, ET_EDATA,
                       "%zu hypotheses but %zu references: give equal numbers of lines (an empty "
                       "translation is an empty line)",
                       hypotheses, references);
    if (!references)
        return et_fail(error, ET_EDATA, "nothing to score: no pair of hypothesis and reference");
    return 0;
}

/* Names the line and the side that is NULL. */
static int check_pair(const char *hypothesis, const char *reference, int64_t line, et_error *error)
{
    if (hypothesis && reference)
        return 0;
    return et_fail(error, ET_EDATA, "%s line %" PRId64 ": the text is NULL; an empty line is \"\"",
                   hypothesis ? "reference" : "hypothesis", line);
}

/* More than both metrics have. */
enum { COUNTS_MAX = 32 };

int et_score_new(et_score **out, const et_score_class *class, const et_bleu_options *options,
                 et_error *error)
{
    /* Zeros are empty counts, and tokenizers and tables without memory. */
    et_score *score = et_alloc_zero(1, sizeof *score);
    *out = score;
    if (!score)
        return et_alloc_failed(error, class->title);
    score->class = class;
    score->options = *options;
    return ET_OK;
}

void et_score_free(et_score *score)
{
    if (!score)
        return;
    et_tokenizer_release(&score->hypothesis);
    et_tokenizer_release(&score->reference);
    et_codes_release(&score->hypothesis_words);
    et_codes_release(&score->reference_words);
    et_free(score->words.slots);
    et_free(score->ngrams.slots);
    et_codes_release(&score->ngrams.at[0]);
    et_codes_release(&score->ngrams.at[1]);
    et_shift_edits *edits = &score->edits;
    et_codes_release(&edits->words);
    et_codes_release(&edits->moved);
    et_free(edits->begin);
    et_free(score);
}

/* Memory and options stay. */
void et_score_clear(et_score *score)
{
    memset(&score->counts, 0, sizeof score->counts);
    score->line = 0;
}

/* Splits texts into tokens, numbers the words, and lets the class count. */
int et_score_count(et_score *score, et_score_counts *counts, int64_t line, const char *hypothesis,
                   const char *reference, et_error *error)
{
    const et_bleu_options *o = &score->options;
    et_tokenizer *const ours = &score->hypothesis, *const theirs = &score->reference;
    int status = check_pair(hypothesis, reference, line, error);
    if (status)
        return status;
    if ((status = et_tokenizer_run(ours, o->tokens, o->lowercase, hypothesis, error)))
        return et_fail_while(error, status, "hypothesis line %" PRId64, line);
    if ((status = et_tokenizer_run(theirs, o->tokens, o->lowercase, reference, error)))
        return et_fail_while(error, status, "reference line %" PRId64, line);
    if (score->class->by_words &&
        (status = et_words_number(&score->words, &score->hypothesis_words, &score->reference_words,
                                  &ours->line, &theirs->line, error)))
        return status;
    return score->class->count(score, counts, error);
}

/* A pair that fails is not counted, and neither is its line. Messages count lines from 1: the next
 * one is line + 1. */
int et_score_add(et_score *score, const char *hypothesis, const char *reference, et_error *error)
{
    et_score_counts counts;
    int status = et_score_count(score, &counts, score->line + 1, hypothesis, reference, error);
    if (!status)
        status = et_score_merge(score, &counts, error);
    score->line += !status;
    return status;
}

/* Counts first: with different numbers of lines no pair is added. */
int et_score_add_corpus(et_score *score, const char *const *hypotheses, size_t hypothesis_count,
                        const char *const *references, size_t reference_count, et_error *error)
{
    int status = check_counts(hypothesis_count, reference_count, error);
    if (!status)
        status = check_pair((const char *)hypotheses, (const char *)references, 1, error);
    for (size_t i = 0; !status && i < reference_count; i++)
        status = et_score_add(score, hypotheses[i], references[i], error);
    return status;
}

void et_score_sum(const et_score *score, et_score_counts *sum, const et_score_counts *counts)
{
    int64_t *to = (int64_t *)(void *)sum;
    const int64_t *from = (const int64_t *)(const void *)counts;
    for (size_t i = 0; i < score->class->size / sizeof *to; i++)
        to[i] += from[i];
}

void et_score_compute(const et_score *score, et_score_result *result, const et_score_counts *counts)
{
    score->class->compute(score, result, counts);
}

/* Integers only, so the order of merging changes no bit. A failure changes nothing. */
int et_score_merge(et_score *score, const et_score_counts *counts, et_error *error)
{
    const size_t size = score->class->size;
    int64_t to[COUNTS_MAX], from[COUNTS_MAX];
    et_assert(size <= sizeof to && size % sizeof *to == 0);
    int status = score->class->check(counts, error);
    if (status)
        return status;
    memcpy(to, &score->counts, size);
    memcpy(from, counts, size);
    for (size_t i = 0; i < size / sizeof *to; i++)
        if (from[i] < 0 || __builtin_add_overflow(to[i], from[i], &to[i]))
            return et_fail(error, ET_EDATA, "counts to merge: %" PRId64 " is not a valid count",
                           from[i]);
    memcpy(&score->counts, to, size);
    return ET_OK;
}

/* No pair at all is an error, not a score of 0. */
int et_score_value(const et_score *score, et_score_result *result, et_error *error)
{
    if (!score->counts.bleu.pairs)
        return check_counts(0, 0, error);
    score->class->compute(score, result, &score->counts);
    return ET_OK;
}

/* Counts nothing: the sums are as before. */
int et_score_sentence(et_score *score, et_score_result *result, const char *hypothesis,
                      const char *reference, et_error *error)
{
    et_score_counts counts;
    int status = et_score_count(score, &counts, 1, hypothesis, reference, error);
    if (!status)
        score->class->compute(score, result, &counts);
    return status;
}

const et_score_counts *et_score_total(const et_score *score)
{
    return &score->counts;
}

/* sacrebleu's keys in its order; the version is Etude's, because Etude computed the score. */
char *et_score_signature(const et_score *score, char text[ET_SCORE_TEXT_MAX])
{
    char own[ET_SCORE_TEXT_MAX];
    const char *settings = score->class->settings;
    if (!settings)
        score->class->sign(score, own);
    snprintf(text, ET_SCORE_TEXT_MAX, "nrefs:1|case:%s|%s|version:etude-%s",
             score->options.lowercase ? "lc" : "mixed", settings ? settings : own, ET_VERSION);
    return text;
}

char *et_score_print(const et_score *score, const et_score_result *result, int width,
                     const char *signature, char text[ET_SCORE_TEXT_MAX])
{
    char name[ET_SCORE_TEXT_MAX];
    snprintf(name, sizeof name, "%s%s%s", score->class->title, signature ? "|" : "",
             signature ? signature : "");
    width = width < 0 ? 0 : width > 17 ? 17 : width;
    if (score->class->print)
        score->class->print(result, width, name, text);
    else
        snprintf(text, ET_SCORE_TEXT_MAX, "%s = %s", name,
                 et_format_fixed(result->score, width).text);
    return text;
}
