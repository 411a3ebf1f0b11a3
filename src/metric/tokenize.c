/* The scripts' tokenizers, each as a list of passes over an array of code points:
 *
 *   13a    decode entities, pad with spaces, [punctuation] -> " x ", then . , - by their neighbours
 *   v14    P next to a non-digit is separated, S always (P, S: Unicode categories)
 *   none   unchanged
 *   char   every character
 *
 *   "It's 3.5%, really." -> "It's 3.5 % , really ."        (13a)
 *
 * A script is a sequence of substitutions of regular expressions over the whole line. Each pass
 * here is one of them, so it can be compared with its source: matches do not overlap, and the
 * search continues after the last match. All passes are linear.
 *
 * To add one: a function and a row in `tokenizers`, and its name in <etude/score.h>. */
#include "metric/score.h"

#include <string.h>

#include "base/assert.h"

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

/* s/(class)/ \1 /g Example, class of punctuation: "a,b" -> "a , b". */
static int set_apart(et_tokenizer *tokenizer, class_fn class, et_error *error)
{
    if (begin(tokenizer, error))
        return ET_ENOMEM;
    const et_codes *line = &tokenizer->line;
    uint32_t *to = tokenizer->spare.items;
    for (size_t i = 0; i < line->count; i++) {
        /* Adds a space on each side; later, two spaces count as one. */
        bool apart = class(line->items[i]);
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

/* For the tokenizer "char": every character is a word. */
static bool any(uint32_t code)
{
    (void)code;
    return true;
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

/* Words are what white space separates already. */
static int tokenize_none(et_tokenizer *tokenizer, et_error *error)
{
    (void)tokenizer, (void)error;
    return ET_OK;
}

static int tokenize_char(et_tokenizer *tokenizer, et_error *error)
{
    return set_apart(tokenizer, any, error);
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
    [ET_BLEU_TOKENS_NONE] = { "none", tokenize_none },
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
    return tokenizers[tokens].run(tokenizer, error);
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
