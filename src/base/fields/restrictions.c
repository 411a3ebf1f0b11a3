/* Restrictions: relations between settings, in Model Garden's notation.
 *
 *   restriction = operand operator operand
 *   operator    = "==" | "!=" | "<=" | "<" | ">=" | ">"
 *   operand     = constant | path of a setting
 *   constant    = begins with a digit or with - and a digit; None, null, true, false
 *
 * They are checked when all sources are applied, on the settings as a tree. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/fields/settings.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

typedef enum relation { EQUAL, UNEQUAL, NOT_ABOVE, BELOW, NOT_BELOW, ABOVE, RELATIONS } relation;

/* Signs of two characters are searched first, because each begins with another sign. */
static const char *const signs[RELATIONS] = {
    [EQUAL] = "==",     [UNEQUAL] = "!=", [NOT_ABOVE] = "<=",
    [NOT_BELOW] = ">=", [BELOW] = "<",    [ABOVE] = ">",
};
static const relation search[RELATIONS] = { EQUAL, UNEQUAL, NOT_ABOVE, NOT_BELOW, BELOW, ABOVE };

typedef struct restriction {
    const char *text; /* as the user wrote it */
    relation relation;
    const char *name[2];      /* operands as written */
    const et_value *value[2]; /* their values */
} restriction;

static const char *trimmed(et_arena *arena, const char *text, size_t length)
{
    size_t blanks = strspn(text, " \t");
    text += blanks < length ? blanks : length;
    length -= blanks < length ? blanks : length;
    while (length && strchr(" \t", text[length - 1]))
        length--;
    return et_arena_strndup(arena, text, length);
}

static int malformed(const char *text, et_error *error)
{
    return et_fail(
        error, ET_EUSAGE,
        "the restriction \"%s\" is not of the form A op B, op being one of == != <= < >= >", text);
}

static int split(restriction *r, et_arena *arena, et_error *error)
{
    const char *at = NULL;
    for (int i = 0; i < RELATIONS && !at; i++) {
        at = strstr(r->text, signs[search[i]]);
        r->relation = search[i];
    }
    if (!at)
        return malformed(r->text, error);
    const char *behind = at + strlen(signs[r->relation]);
    r->name[0] = trimmed(arena, r->text, (size_t)(at - r->text));
    r->name[1] = trimmed(arena, behind, strlen(behind));
    if (!r->name[0] || !r->name[1])
        return et_alloc_failed(error, "a restriction");
    for (int i = 0; i < 2; i++)
        if (!*r->name[i] || strpbrk(r->name[i], "=<>! \t"))
            return malformed(r->text, error);
    return ET_OK;
}

static bool is_constant(const char *text)
{
    const char *digit = text + (*text == '-');
    return (*digit >= '0' && *digit <= '9') || !strcmp(text, "None") || !strcmp(text, "null") ||
           !strcmp(text, "true") || !strcmp(text, "false");
}

static int resolve(restriction *r, const et_value *tree, et_error *error)
{
    for (int i = 0; i < 2; i++) {
        if (is_constant(r->name[i])) {
            et_value *value = et_value_new(tree->arena, ET_VALUE_STRING);
            if (!value)
                return et_alloc_failed(error, "a restriction");
            value->text = value->string = r->name[i];
            if (!strcmp(r->name[i], "None"))
                value->kind = ET_VALUE_NULL;
            else if (!et_yaml_resolve(value, r->name[i]) || value->kind == ET_VALUE_STRING)
                return et_fail(error, ET_EUSAGE, "the restriction \"%s\": %s is not a number",
                               r->text, r->name[i]);
            r->value[i] = value;
            continue;
        }
        r->value[i] = et_value_path(tree, r->name[i]);
        if (!r->value[i])
            return et_fail(error, ET_EUSAGE, "the restriction \"%s\": no setting is called %s",
                           r->text, r->name[i]);
    }
    return ET_OK;
}

/* null, a choice that is not made, by either of its words, and a list with nothing in it. */
static bool is_none(const et_value *value)
{
    return value->kind == ET_VALUE_NULL || (value->kind == ET_VALUE_LIST && !value->count) ||
           (value->kind == ET_VALUE_STRING &&
            (!strcmp(value->string, "none") || !strcmp(value->string, "null")));
}

static bool is_number(const et_value *value)
{
    return value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT ||
           value->kind == ET_VALUE_BOOL;
}

static double number(const et_value *value)
{
    return value->kind == ET_VALUE_BOOL  ? value->boolean
           : value->kind == ET_VALUE_INT ? (double)value->integer
                                         : value->real;
}

/* Groups are equal if they have the same members with equal values, in any order; lists, if their
 * items are. */
static bool is_equal(const et_value *a, const et_value *b)
{
    if (is_none(a) || is_none(b))
        return is_none(a) && is_none(b);
    if (is_number(a) && is_number(b))
        return number(a) == number(b);
    if (a->kind != b->kind)
        return false;
    if (a->kind == ET_VALUE_STRING)
        return !strcmp(a->string, b->string);
    bool equal = a->count == b->count;
    const et_value *other = b->first;
    for (const et_value *item = a->first; item && equal; item = item->next) {
        const et_value *same = a->kind == ET_VALUE_DICT ? et_value_get(b, item->key) : other;
        equal = same && is_equal(item, same);
        other = other ? other->next : NULL;
    }
    return equal;
}

static bool holds(const restriction *r)
{
    const et_value *a = r->value[0], *b = r->value[1];
    switch (r->relation) {
    case EQUAL:
        return is_equal(a, b);
    case UNEQUAL:
        return !is_equal(a, b);
    case NOT_ABOVE:
        return number(a) <= number(b);
    case BELOW:
        return number(a) < number(b);
    case NOT_BELOW:
        return number(a) >= number(b);
    case ABOVE:
        return number(a) > number(b);
    case RELATIONS:
        break;
    }
    et_assert(!"an operator");
    return false;
}

/* ---- messages ---- */

/* "a.b is 5", of a constant nothing. */
static void describe(et_strbuf *out, const restriction *r, int side)
{
    et_strbuf whole = ET_STRBUF_INIT;
    if (is_constant(r->name[side]))
        return;
    if (r->value[side]->kind == ET_VALUE_DICT)
        et_json_print(&whole, r->value[side], 0);
    else
        et_yaml_print(&whole, r->value[side]);
    const char *text = et_strbuf_text(&whole);
    et_strbuf_printf(out, "%s%s is %.*s", out->length ? ", " : "", r->name[side],
                     (int)strcspn(text, "\n"), text);
    out->failed |= whole.failed;
    et_strbuf_release(&whole);
}

static int report(const restriction *r, const char *what, et_error *error)
{
    et_strbuf values = ET_STRBUF_INIT;
    describe(&values, r, 0);
    describe(&values, r, 1);
    int status =
        values.failed
            ? et_alloc_failed(error, "a message")
            : et_fail(error, ET_ECONFIG,
                      "these settings contradict each other: %s must hold%s%s; change one of them",
                      r->text, what, et_strbuf_text(&values));
    et_strbuf_release(&values);
    return status;
}

static int check_one(const char *text, const et_value *tree, et_error *error)
{
    restriction r = { .text = text };
    int status;
    if ((status = split(&r, tree->arena, error)) || (status = resolve(&r, tree, error)))
        return status;
    bool ordered = r.relation != EQUAL && r.relation != UNEQUAL;
    if (ordered && (!is_number(r.value[0]) || !is_number(r.value[1])))
        return report(&r, " for numbers, and ", error);
    return holds(&r) ? ET_OK : report(&r, ", and ", error);
}

int et_settings_check(const et_settings *settings, const char *const *restrictions, et_error *error)
{
    if (!restrictions || !*restrictions)
        return ET_OK;
    et_arena arena = ET_ARENA_INIT;
    et_value *tree = et_fields_echo(et_settings_table(settings), settings->options, &arena);
    int status = tree ? ET_OK : et_alloc_failed(error, "settings");
    if (!status && settings->extra)
        status = et_value_merge(tree, settings->extra, error);
    for (; !status && *restrictions; restrictions++)
        status = check_one(*restrictions, tree, error);
    et_arena_release(&arena);
    return status;
}
