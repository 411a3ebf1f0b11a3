/* Regular expressions with PCRE2, for settings that people write and names that models make. Perl's
 * syntax is close to Python's, which Model Garden's settings use. A search finds an expression
 * anywhere in a name, as re.search does.
 *
 * Expressions are compiled once. A search keeps its state on the stack, so threads may share
 * compiled expressions, and a search cannot fail for lack of memory: callers need a yes or no, and
 * a wrong no would train another model. PCRE2 compiles with its own allocator; its memory is small
 * and not counted by et_alloc_count. */
#include "base/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Calls of PCRE2's matcher in one search: names are short, so more is a runaway expression
 * such as (a+)+b. Reaching it counts as not found. */
#define MATCH_LIMIT 100000

/* Bytes of one search: PCRE2 begins with 20 KiB for places to come back to, then takes twice as
 * much. An expression that needs more counts as runaway. */
#define SEARCH_BYTES ((size_t)96 << 10)

/* One block: the head and as many compiled expressions as were given. */
struct et_patterns {
    size_t count;                /* compiled so far: what free frees */
    pcre2_match_context *limits; /* MATCH_LIMIT, for all searches */
    pcre2_code *code[];          /* [count], owned */
};

/* UTF mode: . is one character of a name, not one byte. */
static int compile(pcre2_code **out, const char *expression, const char *setting, et_error *error)
{
    int fault;
    PCRE2_SIZE position;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                                     &fault, &position, NULL);
    if (!code) {
        /* PCRE2's own message, cut if it is long. */
        PCRE2_UCHAR text[128] = "unknown";
        char around[40];
        if (fault == PCRE2_ERROR_HEAP_FAILED)
            return et_alloc_failed(error, setting);
        pcre2_get_error_message(fault, text, sizeof text);
        /* The position at which PCRE2 stopped, in characters from 1; PCRE2 counts bytes from 0. The
         * text before an invalid byte is valid UTF-8, so each of its characters has one first
         * byte. */
        size_t character = 1;
        for (size_t i = 0; i < position; i++)
            character += ((unsigned char)expression[i] & 0xc0) != 0x80;
        if (expression[position])
            snprintf(around, sizeof around, "at character %zu", character);
        else
            snprintf(around, sizeof around, "at its end");
        return et_fail(error, ET_ECONFIG, "%s: '%s' is not a regular expression: %s %s", setting,
                       expression, (const char *)text, around);
    }
    *out = code;
    return ET_OK;
}

/* count grows with each success, so that free only sees complete patterns after a failure. */
int et_patterns_new(et_patterns **out, et_strings expressions, const char *setting, et_error *error)
{
    size_t bytes = sizeof(et_patterns) + expressions.count * sizeof(pcre2_code *);
    et_patterns *patterns = et_alloc_zero(1, bytes);
    *out = NULL;
    if (!patterns)
        return et_alloc_failed(error, "regular expressions");
    /* A context is the only way to give a search its limit. */
    patterns->limits = pcre2_match_context_create(NULL);
    if (!patterns->limits) {
        et_patterns_free(patterns);
        return et_alloc_failed(error, "regular expressions");
    }
    pcre2_set_match_limit(patterns->limits, MATCH_LIMIT);
    int status = ET_OK;
    for (size_t i = 0; !status && i < expressions.count; i++) {
        status = compile(&patterns->code[i], expressions.items[i], setting, error);
        patterns->count += !status;
    }
    if (status)
        et_patterns_free(patterns);
    else
        *out = patterns;
    return status;
}

void et_patterns_free(et_patterns *patterns)
{
    if (!patterns)
        return;
    for (size_t i = 0; i < patterns->count; i++)
        pcre2_code_free(patterns->code[i]);
    pcre2_match_context_free(patterns->limits);
    et_free(patterns);
}

/* Memory of one search: given out in order, and back all at once. */
typedef struct search_room {
    alignas(16) unsigned char bytes[SEARCH_BYTES];
    size_t used;
} search_room;

static void *take(size_t size, void *payload)
{
    search_room *room = payload;
    const size_t rounded = (size + 15) / 16 * 16;
    if (rounded < size || rounded > SEARCH_BYTES - room->used)
        return NULL;
    void *memory = room->bytes + room->used;
    room->used += rounded;
    return memory;
}

static void leave(void *memory, void *payload)
{
    (void)memory, (void)payload;
}

/* One pair of offsets is the least that PCRE2 takes. Beyond a limit the answer is no; it must be
 * some answer, and the same each time. */
static bool found(const et_patterns *patterns, const pcre2_code *code, const char *text)
{
    search_room room;
    room.used = 0;
    pcre2_general_context *context = pcre2_general_context_create(take, leave, &room);
    pcre2_match_data *data = context ? pcre2_match_data_create(1, context) : NULL;
    et_assert(data);
    int matched = pcre2_match(code, (PCRE2_SPTR)text, strlen(text), 0, 0, data, patterns->limits);
    pcre2_match_data_free(data);
    return matched >= 0;
}

bool et_patterns_match_one(const et_patterns *patterns, size_t index, const char *text)
{
    et_assert(patterns && index < patterns->count && text);
    return found(patterns, patterns->code[index], text);
}

/* An empty list finds nothing. */
bool et_patterns_match(const et_patterns *patterns, const char *text)
{
    et_assert(patterns && text);
    for (size_t i = 0; i < patterns->count; i++)
        if (found(patterns, patterns->code[i], text))
            return true;
    return false;
}
