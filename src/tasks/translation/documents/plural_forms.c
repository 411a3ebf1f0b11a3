/* Precedence climbing over the operators that gettext allows. The expression is evaluated while it
 * is read, once for each number. */
#include "base/assert.h"
#include "base/text/unicode.h"
#include "tasks/translation/documents/document_private.h"

#include <stdlib.h>
#include <string.h>

/* Numbers that are tried, as msgfmt does. */
#define NUMBERS 1000
/* Bytes of the longest expression. */
#define LENGTH_MAX 1024
/* Operators and brackets inside of each other. */
#define DEPTH_MAX 64

typedef struct reader {
    const char *at;
    unsigned long n;
    int depth;
    bool bad;
} reader;

static unsigned long conditional(reader *r);

static bool take(reader *r, const char *word)
{
    r->at += strspn(r->at, " \t\n");
    const size_t length = strlen(word);
    if (strncmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static unsigned long primary(reader *r)
{
    unsigned long value = 0;
    r->at += strspn(r->at, " \t\n");
    if (++r->depth > DEPTH_MAX) {
        r->bad = true;
    } else if (*r->at == '!' && r->at[1] != '=') {
        r->at++;
        value = !primary(r);
    } else if (take(r, "(")) {
        value = conditional(r);
        r->bad |= !take(r, ")");
    } else if (take(r, "n")) {
        value = r->n;
    } else if (et_ascii_is_digit(*r->at)) {
        char *end;
        value = strtoul(r->at, &end, 10);
        r->at = end;
    } else {
        r->bad = true;
    }
    r->depth--;
    return value;
}

/* Longer operators first. */
static const struct {
    const char *word;
    int level;
} operators[] = { { "||", 1 }, { "&&", 2 }, { "==", 3 }, { "!=", 3 }, { "<=", 4 },
                  { ">=", 4 }, { "<", 4 },  { ">", 4 },  { "+", 5 },  { "-", 5 },
                  { "*", 6 },  { "/", 6 },  { "%", 6 } };
#define OPERATORS (sizeof operators / sizeof *operators)

static unsigned long apply(reader *r, size_t operator, unsigned long a, unsigned long b)
{
    r->bad |= operator>= 11 && !b;
    switch (operator) {
    case 0:
        return a || b;
    case 1:
        return a && b;
    case 2:
        return a == b;
    case 3:
        return a != b;
    case 4:
        return a <= b;
    case 5:
        return a >= b;
    case 6:
        return a < b;
    case 7:
        return a > b;
    case 8:
        return a + b;
    case 9:
        return a - b;
    case 10:
        return a * b;
    case 11:
        return b ? a / b : 0;
    default:
        return b ? a % b : 0;
    }
}

static unsigned long binary(reader *r, int level)
{
    unsigned long value = primary(r);
    while (!r->bad) {
        size_t i = 0;
        const char *before = r->at;
        while (i < OPERATORS && !take(r, operators[i].word))
            i++;
        if (i == OPERATORS || operators[i].level < level) {
            r->at = before;
            break;
        }
        const unsigned long other = binary(r, operators[i].level + 1);
        value = apply(r, i, value, other);
    }
    return value;
}

static unsigned long conditional(reader *r)
{
    const unsigned long test = binary(r, 1);
    if (r->bad || !take(r, "?"))
        return test;
    if (++r->depth > DEPTH_MAX) {
        r->bad = true;
        return 0;
    }
    const unsigned long yes = conditional(r);
    r->bad |= !take(r, ":");
    const unsigned long no = r->bad ? 0 : conditional(r);
    r->depth--;
    return test ? yes : no;
}

bool et_plural_forms_read(const char *text, et_plural_forms *forms)
{
    et_assert(forms);
    const char *count = strstr(text, "nplurals="), *plural = strstr(text, "plural=");
    *forms = (et_plural_forms){ 2, 0, false };
    if (!count || !plural || strlen(plural) > LENGTH_MAX)
        return false;
    const long wanted = strtol(count + 9, NULL, 10);
    et_plural_forms read = { (int)wanted, 0, false };
    if (wanted < 1 || wanted > 100)
        return false;
    for (unsigned long n = 0; n <= NUMBERS; n++) {
        /* 1 first: its form is compared with the others. */
        reader r = { plural + 7, n == 0 ? 1 : n == 1 ? 0 : n, 0, false };
        const unsigned long form = conditional(&r);
        r.at += strspn(r.at, " \t\n");
        if (r.bad || (*r.at && *r.at != ';') || form >= (unsigned long)wanted)
            return false;
        if (r.n == 1)
            read.one = (int)form;
        read.many |= r.n > 1 && (int)form == read.one;
    }
    *forms = read;
    return true;
}
