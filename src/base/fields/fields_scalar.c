/* The accepted values of each kind of member; they are decided only here. The rule: a value with an
 * unambiguous meaning is accepted (4e3 for an integer, yes for a truth value, 2024 for a name), and
 * every other value is refused with the value and the expected kind. A member changes only when its
 * value is right.
 *
 *   kind      accepts                                         member becomes
 *   BOOL      true, false, yes, no, on, off, 0, 1             bool
 *   INT       integers, and numbers that are whole: 1e6       int64_t, within the row's limits
 *             (as an option's value without a point)
 *             of a row of epochs also 2ep, 0.5ep              minus thousandths of an epoch
 *             the row's word for 0, such as auto              0
 *   FLOAT     numbers and integers                            double, within the row's limits
 *   EPOCHS    positive numbers; null                          as INT's 2ep; null changes nothing
 *   STRING    any scalar, as it was written, or one of the    const char *, NULL for null
 *             row's choices; null
 *   CHOICE    a name of the row's list                        int, its index in the list
 *   STRINGS   a list of scalars, or one scalar; null, ""      et_strings, empty for both; of a row
 *                                                           that is `ended`, its items
 *   STRUCTS   a list of groups, or one group; null            et_structs (fields.c)
 *   ONLY      the value of its row, in any notation, or any   there is no member
 *             scalar, if the row has no value
 *
 * null is the default of a row that is nullable.
 *
 * To add a kind: a case in each of the three switches at the end (the compiler asks for it), a
 * reader above, and a row here. */
#include "base/fields/fields.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

/* Help from a row of a table: its type, its range and its default. Messages about values out of
 * range use the same words. Only memory can fail here; the buffer remembers it. */

/* For people; ORDER et_field_kind, by designator. */
static const char *const type_names[] = {
    [ET_FIELD_KIND_BOOL] = "bool",      [ET_FIELD_KIND_INT] = "integer",
    [ET_FIELD_KIND_FLOAT] = "number",   [ET_FIELD_KIND_STRING] = "text",
    [ET_FIELD_KIND_CHOICE] = "choice",  [ET_FIELD_KIND_STRINGS] = "texts",
    [ET_FIELD_KIND_STRUCTS] = "groups", [ET_FIELD_KIND_ONLY] = "fixed",
    [ET_FIELD_KIND_EPOCHS] = "epochs",
};

/* No limit of the type itself. Integers' limits are doubles in the table, where INT64_MAX has
 * become 2^63, so it is compared as a double as well. */
static bool is_open(const et_field *field, double limit)
{
    if (field->kind == ET_FIELD_KIND_INT)
        return limit <= (double)INT64_MIN || limit >= (double)INT64_MAX;
    return fabs(limit) >= DBL_MAX;
}

/* Whole numbers exactly, however large: %.15g has no sixteenth digit. For others it is enough for
 * every limit a person writes, and 0.1 stays 0.1. */
static void append_limit(const char *before, double limit, const char *behind, et_strbuf *out)
{
    char text[ET_COUNT_TEXT_MAX];
    if (limit == trunc(limit) && fabs(limit) < 0x1p63)
        et_count_text(text, (int64_t)limit);
    else
        snprintf(text, sizeof text, "%.15g", limit);
    et_strbuf_printf(out, "%s%s%s", before, text, behind);
}

void et_field_range(const et_field *field, et_strbuf *out)
{
    for (size_t i = 0; field->choices && field->choices[i]; i++)
        et_strbuf_printf(out, "%s%s", i ? ", " : "", field->choices[i]);
    if (field->kind == ET_FIELD_KIND_ONLY)
        et_strbuf_append(out, field->default_string ? "no other value" : "any value");
    /* Other kinds have no range: any text, either truth value. */
    if (field->kind != ET_FIELD_KIND_INT && field->kind != ET_FIELD_KIND_FLOAT)
        return;
    /* Whether there is a limit to speak of on either side. */
    bool low = !is_open(field, field->minimum), high = !is_open(field, field->maximum);
    if (low)
        append_limit("", field->minimum, high ? "" : " or more", out);
    if (high)
        append_limit(low ? " to " : "", field->maximum, low ? "" : " or less", out);
    if (field->epochs)
        et_strbuf_append(out, "; or epochs: 2ep");
}

const char *et_field_type(const et_field *field)
{
    return field->kind == ET_FIELD_KIND_STRUCT ? "group" : type_names[field->kind];
}

/* Lists have none but the empty one. */
void et_field_default(const et_field *field, et_strbuf *out)
{
    switch (field->kind) {
    case ET_FIELD_KIND_BOOL:
        et_strbuf_append(out, field->default_number != 0 ? "true" : "false");
        break;
    case ET_FIELD_KIND_CHOICE:
        et_strbuf_append(out, field->choices[(int)field->default_number]);
        break;
    case ET_FIELD_KIND_EPOCHS:
    case ET_FIELD_KIND_STRING:
    case ET_FIELD_KIND_ONLY:
        et_strbuf_append(out, field->default_string ? field->default_string : "null");
        break;
    case ET_FIELD_KIND_STRINGS:
    case ET_FIELD_KIND_STRUCTS:
        et_strbuf_append(out, field->single ? "null" : "[]");
        break;
    case ET_FIELD_KIND_INT:
        et_strbuf_printf(out, "%.0f", field->default_number);
        break;
    default:
        et_strbuf_printf(out, "%.15g", field->default_number);
        break;
    }
}

/* Messages quote at most so many characters of a value, so that a mistake (a whole file as a name)
 * stays one line. */
#define QUOTED_MAX 60 /* characters of a value in a message */
#define SCALAR_MAX 48 /* a number in text */

#define DIGITS "0123456789"

#define EPOCH      1000.0 /* in a member that was given in epochs */
#define EPOCHS_MAX 1e9

/* With the fewest digits that are read back equal, as a file would have it. */
static void print_real(char number[SCALAR_MAX], double value)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (isfinite(value))
        et_strbuf_append_double(&text, value);
    else
        et_strbuf_append(&text, isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf");
    snprintf(number, SCALAR_MAX, "%s", et_strbuf_text(&text));
    et_strbuf_release(&text);
}

/* The text of a scalar: as written, or the printed number. A value from YAML has its text, so a
 * message quotes 010 or 1e-3 as the user wrote it. Other values (JSON, made by a program) are
 * printed into number, which must live as long as the result is used. */
static const char *scalar_text(const et_value *value, char number[SCALAR_MAX])
{
    if (value->text)
        return value->text;
    switch (value->kind) {
    case ET_VALUE_STRING:
        return value->string;
    case ET_VALUE_INT:
        snprintf(number, SCALAR_MAX, "%" PRId64, value->integer);
        return number;
    case ET_VALUE_FLOAT:
        print_real(number, value->real);
        return number;
    case ET_VALUE_BOOL:
        return value->boolean ? "true" : "false";
    default:
        return "null";
    }
}

/* "<where>: <value> is not <expected>". Text is quoted, so that "" and " 5" can be seen; other
 * kinds appear as written. */
static int wrong_value(const et_value *value, const char *expected, const char *where,
                       et_error *error)
{
    char number[SCALAR_MAX];
    if (et_value_is_container(value))
        return et_fail(error, ET_ECONFIG, "%s: needs %s, not %s", where, expected,
                       et_value_kind_name(value->kind));
    const char *text = scalar_text(value, number);
    if (value->kind == ET_VALUE_STRING || !*text)
        return et_fail(error, ET_ECONFIG, "%s: \"%.*s\" is not %s", where, QUOTED_MAX, text,
                       expected);
    return et_fail(error, ET_ECONFIG, "%s: %.*s is not %s", where, QUOTED_MAX, text, expected);
}

/* Also catches NaN, which is in no range, and infinities if a row's limits are finite. value:
 * quoted in the message, as written. */
static int check_range(const et_field *field, double number, const et_value *value,
                       const char *where, et_error *error)
{
    /* False for NaN, whatever the limits. */
    if (number >= field->minimum && number <= field->maximum)
        return ET_OK;
    char text[SCALAR_MAX];
    et_strbuf range = ET_STRBUF_INIT;
    et_field_range(field, &range);
    /* A row without limits only refuses values that are not finite. */
    int status = isnan(number) || range.length == 0
                     ? wrong_value(value, "a finite number", where, error)
                     : et_fail(error, ET_ECONFIG, "%s: %.*s is out of range; allowed: %s", where,
                               QUOTED_MAX, scalar_text(value, text), et_strbuf_text(&range));
    et_strbuf_release(&range);
    return status;
}

/* Truth values of both versions of YAML, and 0 and 1. words: pairs of no and yes, so that a word's
 * place gives its value. */
static int read_bool(bool *member, const et_value *value, const char *where, et_error *error)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on" };
    if (value->kind == ET_VALUE_BOOL) {
        *member = value->boolean;
        return ET_OK;
    }
    /* Other integers are refused: 2 is neither yes nor no. */
    if (value->kind == ET_VALUE_INT && (value->integer == 0 || value->integer == 1)) {
        *member = value->integer == 1;
        return ET_OK;
    }
    for (size_t i = 0; value->kind == ET_VALUE_STRING && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(value->string, words[i]) == 0) {
            *member = i % 2 == 1;
            return ET_OK;
        }
    return wrong_value(value, "true or false", where, error);
}

/* Stores a number of epochs as the member's negative thousandths; false: out of range. */
static bool store_epochs(int64_t *member, double count)
{
    if (!(count >= 0.001 && count <= EPOCHS_MAX))
        return false;
    *member = -llround(count * EPOCH);
    return true;
}

static int read_count_of_epochs(int64_t *member, const et_value *value, const char *where,
                                et_error *error)
{
    double count = et_value_is_number(value) ? et_value_number(value) : 0;
    return value->kind == ET_VALUE_NULL || store_epochs(member, count)
               ? ET_OK
               : wrong_value(value, "a positive number of epochs", where, error);
}

/* "2ep", up to EPOCHS_MAX: a number in decimal digits and the word, nothing between or after.
 * False: it is not. */
static bool read_epochs(int64_t *member, const et_value *value)
{
    size_t length = value->kind == ET_VALUE_STRING ? strlen(value->string) : 0;
    char number[SCALAR_MAX];
    if (length < 3 || length >= sizeof number || !et_text_ends(value->string, "ep"))
        return false;
    memcpy(number, value->string, length - 2);
    number[length - 2] = 0;
    if (number[strspn(number, DIGITS ".eE+-")])
        return false;
    et_value epochs = { .kind = ET_VALUE_STRING };
    et_yaml_resolve(&epochs, number);
    return store_epochs(member, et_value_is_number(&epochs) ? et_value_number(&epochs) : 0);
}

int64_t et_field_steps(int64_t member, int64_t epoch_steps)
{
    et_assert(epoch_steps >= 0);
    if (member >= 0)
        return member;
    int64_t steps = llround(-(double)member * (double)epoch_steps / EPOCH);
    return steps > 0 ? steps : 1;
}

/* 4.0 and 4e3 are integers too: people write 1e6 steps. Below 2^63 in size, so that the
 * conversion is defined; a limit of a row is compared as a double, exact up to 2^53. */
static int read_int(const et_field *field, int64_t *member, const et_value *value,
                    const char *where, et_error *error)
{
    int64_t integer;
    if (field->epochs && read_epochs(member, value))
        return ET_OK;
    if (field->truth && value->kind == ET_VALUE_BOOL) {
        *member = value->boolean ? field->truth : 0;
        return ET_OK;
    }
    if (field->zero && value->kind == ET_VALUE_STRING && !strcasecmp(value->string, field->zero)) {
        *member = 0;
        return ET_OK;
    }
    if (value->kind == ET_VALUE_INT)
        integer = value->integer;
    /* Whole, and within 64 bits: 2^63 itself is not. */
    else if (value->kind == ET_VALUE_FLOAT && fabs(value->real) < 0x1p63 &&
             value->real == trunc(value->real))
        integer = (int64_t)value->real;
    else if (value->kind == ET_VALUE_FLOAT && fabs(value->real) >= 0x1p63 &&
             field->maximum < 0x1p63)
        return check_range(field, value->real, value, where, error);
    else
        return wrong_value(value,
                           field->epochs ? "an integer, or epochs such as 2ep" : "an integer",
                           where, error);
    /* Sets the member after the check: a wrong setting does not change it. */
    int status = check_range(field, (double)integer, value, where, error);
    if (!status)
        *member = integer;
    return status;
}

/* Integers up to 2^53 convert exactly; larger ones to the nearest double. */
static int read_float(const et_field *field, double *member, const et_value *value,
                      const char *where, et_error *error)
{
    if (!et_value_is_number(value))
        return wrong_value(value, "a number", where, error);
    const double real = et_value_number(value);
    int status = check_range(field, real, value, where, error);
    if (!status)
        *member = real;
    return status;
}

/* The spelling must be exact: a choice is a name, and the message offers the nearest one. Scalars
 * of any kind are compared by their text, since a choice may be called "none" or "8". */
static int find_choice(const et_field *field, int *index, const char *text, const char *where,
                       et_error *error)
{
    for (int i = 0; field->choices[i]; i++)
        if (strcmp(text, field->choices[i]) == 0) {
            *index = i;
            return ET_OK;
        }
    /* Lists all choices, because there are few. If memory is short, the message lacks some. */
    et_strbuf allowed = ET_STRBUF_INIT;
    const char *why = NULL;
    for (const et_field_refusal *r = field->refused; r && r->choice && !why; r++)
        why = strcmp(text, r->choice) ? NULL : r->why;
    et_field_range(field, &allowed);
    if (why)
        et_fail(error, ET_ECONFIG, "%s: %s is not allowed here: %s (allowed: %s)", where, text, why,
                et_strbuf_text(&allowed));
    else
        et_fail(error, ET_ECONFIG, "%s: no choice is called %.*s%s (allowed: %s)", where,
                QUOTED_MAX, *text ? text : "\"\"", et_nearest_hint(text, field->choices, "").text,
                et_strbuf_text(&allowed));
    et_strbuf_release(&allowed);
    return ET_ECONFIG;
}

/* Copies a scalar as text; numbers and truth values as they were written. */
static int read_text(const et_field *field, const char **out, const et_value *value,
                     et_arena *arena, const char *where, et_error *error)
{
    char number[SCALAR_MAX];
    int index;
    if (et_value_is_container(value))
        return wrong_value(value, "text", where, error);
    const char *text = scalar_text(value, number);
    if (field->choices && find_choice(field, &index, text, where, error))
        return ET_ECONFIG;
    /* A copy, since value may go before the options do. */
    const char *copy = et_arena_strdup(arena, text);
    if (!copy)
        return et_alloc_failed(error, where);
    *out = copy;
    return ET_OK;
}

/* null, "" and [] give the empty list; a single scalar gives a list of one, so that --set key=a
 * works. Items are read as text, so rates 0.1 and 1e-3 stay as written. The member is only set when
 * all items are valid. */
static int read_strings(const et_field *field, et_strings *member, const et_value *value,
                        et_arena *arena, const char *where, et_error *error)
{
    bool empty = value->kind == ET_VALUE_STRING && !*value->string;
    if (value->kind == ET_VALUE_NULL || empty) {
        *member = (et_strings){ NULL, 0 };
        return ET_OK;
    }
    if (value->kind == ET_VALUE_DICT)
        return wrong_value(value, "text or a list of texts", where, error);
    /* One value is walked as a list of itself. */
    bool list = value->kind == ET_VALUE_LIST;
    size_t count = list ? value->count : 1;
    const char **items = et_arena_array(arena, count + 1, sizeof *items);
    if (!items)
        return et_alloc_failed(error, where);
    items[count] = NULL;
    const et_value *item = list ? value->first : value;
    for (size_t i = 0; i < count; i++, item = item->next) {
        /* An item without text: a dash with nothing after it is more likely a slip than a word. */
        if (item->kind == ET_VALUE_NULL || et_value_is_container(item))
            return et_fail(error, ET_ECONFIG, "%s: item %zu is %s, not text", where, i + 1,
                           et_value_kind_name(item->kind));
        int status = read_text(field, &items[i], item, arena, where, error);
        if (status)
            return status;
    }
    *member = (et_strings){ items, count };
    return ET_OK;
}

/* {yes: 3} as "yes: 3". */
static int read_pairs(et_strings *member, const et_value *dict, et_arena *arena, const char *where,
                      et_error *error)
{
    const char **items = et_arena_array(arena, dict->count + 1, sizeof *items);
    size_t count = 0;
    for (const et_value *v = dict->first; items && v; v = v->next) {
        if (v->kind == ET_VALUE_NULL || et_value_is_container(v) || !v->text)
            return et_fail(error, ET_ECONFIG, "%s: %s is %s, not a number or text", where, v->key,
                           et_value_kind_name(v->kind));
        items[count] = et_arena_printf(arena, "%s: %s", v->key, v->text);
        if (!items[count++])
            items = NULL;
    }
    if (!items)
        return et_alloc_failed(error, where);
    items[count] = NULL;
    *member = (et_strings){ items, count };
    return ET_OK;
}

/* The value of a row without a member. */
static et_value only_value(const et_field *field)
{
    const char *text = field->default_string ? field->default_string : "null";
    et_value only = { .kind = ET_VALUE_STRING, .text = text, .string = text };
    et_yaml_resolve(&only, text);
    return only;
}

/* A truth value in any of its words, a number however it is written; "" is nothing, as null is. */
static bool is_only(const et_value *only, const et_value *value)
{
    bool boolean = false;
    switch (only->kind) {
    case ET_VALUE_BOOL:
        return !read_bool(&boolean, value, "", NULL) && boolean == only->boolean;
    case ET_VALUE_INT:
        return (value->kind == ET_VALUE_INT && value->integer == only->integer) ||
               (value->kind == ET_VALUE_FLOAT && value->real == (double)only->integer);
    case ET_VALUE_FLOAT:
        return (value->kind == ET_VALUE_FLOAT && value->real == only->real) ||
               (value->kind == ET_VALUE_INT && (double)value->integer == only->real);
    case ET_VALUE_STRING:
        return value->kind == ET_VALUE_STRING && !strcmp(value->string, only->string);
    case ET_VALUE_NULL:
        return value->kind == ET_VALUE_NULL ||
               (value->kind == ET_VALUE_STRING && !*value->string) ||
               (et_value_is_container(value) && !value->count);
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        break; /* no row has one */
    }
    return false;
}

int et_field_check_only(const et_field *field, const et_value *value, const char *where,
                        et_error *error)
{
    char number[SCALAR_MAX];
    const et_value only = only_value(field);
    if (is_only(&only, value) || (!field->default_string && !et_value_is_container(value)))
        return ET_OK;
    const char *text =
        et_value_is_container(value) ? et_value_kind_name(value->kind) : scalar_text(value, number);
    if (only.kind == ET_VALUE_NULL)
        return et_fail(error, ET_ECONFIG, "%s: %.*s is not allowed here: %s", where, QUOTED_MAX,
                       text, field->help);
    return et_fail(error, ET_ECONFIG, "%s: only %s is allowed here, not %.*s: %s", where,
                   field->default_string, QUOTED_MAX, *text ? text : "\"\"", field->help);
}

/* A number as a word of a command line: no 0x10 and 0o7, and no integer with a point. */
static int check_digits(const et_field *field, const et_value *value, const char *where,
                        et_error *error)
{
    const bool integer = field->kind == ET_FIELD_KIND_INT;
    const bool number =
        integer || field->kind == ET_FIELD_KIND_FLOAT || field->kind == ET_FIELD_KIND_EPOCHS;
    const char *odd = number && value->kind == ET_VALUE_INT      ? "xo"
                      : integer && value->kind == ET_VALUE_FLOAT ? "."
                                                                 : "";
    return value->text && strpbrk(value->text, odd)
               ? wrong_value(value, integer ? "an integer" : "a number", where, error)
               : ET_OK;
}

/* The switch names every kind and has no default, so that the compiler reports a new kind. fields.c
 * handles nested structs. */
int et_field_read(const et_field *field, void *options, const et_value *value, et_arena *arena,
                  bool typed, const char *where, et_error *error)
{
    char number[SCALAR_MAX];
    int wrong = typed ? check_digits(field, value, where, error) : ET_OK;
    if (wrong)
        return wrong;
    /* The row gives the member's type. The macros of fields.h connect the kind only with the
     * member's name, so a wrong type is an error in the table. */
    void *member = et_field_member(field, options);
    if (field->nullable && value->kind == ET_VALUE_NULL) {
        et_field_reset(field, options);
        if (field->zero)
            *(int64_t *)member = 0;
        return ET_OK;
    }
    switch (field->kind) {
    case ET_FIELD_KIND_BOOL:
        return read_bool(member, value, where, error);
    case ET_FIELD_KIND_INT:
        return read_int(field, member, value, where, error);
    case ET_FIELD_KIND_EPOCHS:
        return read_count_of_epochs(member, value, where, error);
    case ET_FIELD_KIND_FLOAT:
        return read_float(field, member, value, where, error);
    /* null is no text but its absence: the member becomes NULL. */
    case ET_FIELD_KIND_STRING:
        if (value->kind != ET_VALUE_NULL)
            return read_text(field, member, value, arena, where, error);
        *(const char **)member = NULL;
        return ET_OK;
    case ET_FIELD_KIND_CHOICE:
        if (et_value_is_container(value))
            return wrong_value(value, "one name", where, error);
        return find_choice(field, member, scalar_text(value, number), where, error);
    case ET_FIELD_KIND_STRINGS: {
        et_strings list;
        int status = field->pairs && value->kind == ET_VALUE_DICT
                         ? read_pairs(&list, value, arena, where, error)
                         : read_strings(field, &list, value, arena, where, error);
        if (!status && field->ended)
            *(const char *const **)member = list.items;
        else if (!status)
            *(et_strings *)member = list;
        return status;
    }
    case ET_FIELD_KIND_STRUCTS:
    case ET_FIELD_KIND_STRUCT:
    case ET_FIELD_KIND_ONLY:
    case ET_FIELD_KIND_END:
        break;
    }
    /* A nested struct has a table, which fields.c walks; END is no member. */
    et_assert(!"a member of its own");
    return ET_OK;
}

/* A word that is no number, or a number out of range, stays text; messages quote it. */
int et_field_read_word(const et_field *field, void *options, const char *word, const char *where,
                       et_error *error)
{
    et_value value = { .kind = ET_VALUE_STRING, .string = word, .text = word };
    et_error reason = ET_ERROR_INIT;
    int index, status = ET_OK;
    if (field->kind == ET_FIELD_KIND_STRING) {
        if (field->choices)
            status = find_choice(field, &index, word, where, &reason);
        if (!status)
            *(const char **)et_field_member(field, options) = word;
    } else {
        if (field->kind != ET_FIELD_KIND_CHOICE && !et_yaml_resolve(&value, word))
            value.kind = ET_VALUE_STRING;
        status = field->kind == ET_FIELD_KIND_ONLY
                     ? et_field_check_only(field, &value, where, &reason)
                     : et_field_read(field, options, &value, NULL, true, where, &reason);
    }
    return status == ET_ECONFIG ? et_fail(error, ET_EUSAGE, "%s", reason.text) : status;
}

/* Numbers' defaults are doubles in the table: exact for integers up to 2^53. */
void et_field_reset(const et_field *field, void *options)
{
    void *member = et_field_member(field, options);
    et_assert(field->kind != ET_FIELD_KIND_CHOICE || field->choices);
    switch (field->kind) {
    case ET_FIELD_KIND_BOOL:
        *(bool *)member = field->default_number != 0;
        break;
    case ET_FIELD_KIND_INT:
        *(int64_t *)member = (int64_t)field->default_number;
        break;
    case ET_FIELD_KIND_EPOCHS: /* the member's own row has a default */
        break;
    case ET_FIELD_KIND_FLOAT:
        *(double *)member = field->default_number;
        break;
    case ET_FIELD_KIND_STRING:
        *(const char **)member = field->default_string;
        break;
    case ET_FIELD_KIND_CHOICE:
        *(int *)member = (int)field->default_number;
        break;
    case ET_FIELD_KIND_STRINGS:
        if (field->ended)
            *(const char *const **)member = NULL;
        else
            *(et_strings *)member = (et_strings){ NULL, 0 };
        break;
    case ET_FIELD_KIND_STRUCTS:
        *(et_structs *)member = (et_structs){ NULL, 0 };
        break;
    case ET_FIELD_KIND_STRUCT:
    case ET_FIELD_KIND_ONLY:
    case ET_FIELD_KIND_END:
        et_assert(!"a member of its own");
        break;
    }
}

static void echo_only(const et_field *field, et_value *dict)
{
    const et_value only = only_value(field);
    switch (only.kind) {
    case ET_VALUE_BOOL:
        et_value_set_bool(dict, field->name, only.boolean);
        break;
    case ET_VALUE_INT:
        et_value_set_int(dict, field->name, only.integer);
        break;
    case ET_VALUE_FLOAT:
        et_value_set_float(dict, field->name, only.real);
        break;
    case ET_VALUE_STRING:
        et_value_set_string(dict, field->name, only.string);
        break;
    case ET_VALUE_NULL:
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        et_value_set_null(dict, field->name);
        break;
    }
}

/* Prints the value as it was given: -1500 is 1.5ep. */
static void echo_int(const et_field *field, int64_t member, et_value *dict)
{
    char text[SCALAR_MAX];
    if (!field->epochs || member >= 0) {
        et_value_set_int(dict, field->name, member);
        return;
    }
    int length =
        snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64, -member / 1000, -member % 1000);
    while (text[length - 1] == '0')
        length--;
    length -= text[length - 1] == '.';
    snprintf(text + length, sizeof text - (size_t)length, "ep");
    et_value_set_string(dict, field->name, text);
}

et_strings et_field_strings(const et_field *field, const void *options)
{
    const void *member = (const char *)options + field->offset;
    if (!field->ended)
        return *(const et_strings *)member;
    et_strings list = { *(const char *const *const *)member, 0 };
    while (list.items && list.items[list.count])
        list.count++;
    return list;
}

/* The value as a reader of the written file would give it back: a choice by name, not by
 * number. */
void et_field_echo(const et_field *field, const void *options, et_value *dict)
{
    const void *member = (const char *)options + field->offset;
    switch (field->kind) {
    case ET_FIELD_KIND_BOOL:
        et_value_set_bool(dict, field->name, *(const bool *)member);
        break;
    case ET_FIELD_KIND_INT:
        echo_int(field, *(const int64_t *)member, dict);
        break;
    case ET_FIELD_KIND_EPOCHS:
        et_value_set_null(dict, field->name);
        break;
    case ET_FIELD_KIND_FLOAT:
        et_value_set_float(dict, field->name, *(const double *)member);
        break;
    case ET_FIELD_KIND_STRING:
        et_value_set_string(dict, field->name, *(const char *const *)member);
        break;
    case ET_FIELD_KIND_CHOICE:
        et_assert(*(const int *)member >= 0);
        et_value_set_string(dict, field->name, field->choices[*(const int *)member]);
        break;
    /* As a list, also of one, unless the row says otherwise. */
    case ET_FIELD_KIND_STRINGS: {
        const et_strings strings = et_field_strings(field, options);
        if (field->single && strings.count < 2) {
            et_value_set_string(dict, field->name, strings.count ? *strings.items : NULL);
            break;
        }
        et_value *list = et_value_set_list(dict, field->name);
        for (size_t i = 0; i < strings.count; i++)
            et_value_add_string(list, strings.items[i]);
        break;
    }
    case ET_FIELD_KIND_ONLY:
        echo_only(field, dict);
        break;
    case ET_FIELD_KIND_STRUCTS:
    case ET_FIELD_KIND_STRUCT:
    case ET_FIELD_KIND_END:
        et_assert(!"a member of its own");
        break;
    }
}

const et_field *et_fields_find(const et_fields *table, const char *name, size_t length)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++)
        if (field->name[0] == name[0] && strncmp(field->name, name, length) == 0 &&
            field->name[length] == 0)
            return field;
    return NULL;
}
