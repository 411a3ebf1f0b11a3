/* From flags to members and back to words. A parser is a list of rows; there are some twenty, so a
 * name is found by walking it.
 *
 *   flag = "--" name [ ":" N ] [ "=" text ]      the value is the next argument where no text is
 *
 * What a value may be is base/fields/fields_scalar.c's to say. */
#include "tasks/tabular/tensorfx/argument_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields_scalar.h"
#include "base/reserved.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/vector.h"

#define NAMES_MAX  256 /* flags and their other names that the nearest is sought among */
#define LEFT_WIDTH 30  /* columns of help for a flag and what its value is called */

/* ---- rows ---- */

static bool is_end(const et_flag *flag)
{
    return flag->field.kind == ET_FIELD_KIND_END;
}

static const et_flag *find(const et_argument_parser *parser, const char *word, size_t length)
{
    for (size_t i = 0; i < parser->count; i++)
        if (et_same_name(word, length, parser->flags[i].field.name) ||
            et_same_name(word, length, parser->flags[i].alias))
            return &parser->flags[i];
    return NULL;
}

int et_argument_parser_new(et_argument_parser **out, const char *name, et_error *error)
{
    *out = NULL;
    et_argument_parser *parser = et_alloc_zero(1, sizeof *parser);
    if (!parser)
        return et_alloc_failed(error, sizeof *parser, "a parser");
    parser->name = et_arena_strdup(&parser->arena, name && *name ? name : "trainer");
    if (!parser->name) {
        et_argument_parser_free(parser);
        return et_alloc_failed(error, 1, "a parser");
    }
    *out = parser;
    return ET_OK;
}

void et_argument_parser_free(et_argument_parser *parser)
{
    if (!parser)
        return;
    et_arena_release(&parser->arena);
    et_free(parser->flags);
    et_free(parser);
}

/* Why a row can be no flag; NULL: it can. */
static const char *fault_of(const et_flag *flag)
{
    const et_field *field = &flag->field;
    if (!field->name || !*field->name || strpbrk(field->name, ":=. ") || field->name[0] == '-')
        return "its name is none of a flag";
    if (field->indirect)
        return "its member is not in the struct itself";
    if (flag->indexed && field->kind != ET_FIELD_KIND_INT)
        return "what is indexed is an integer";
    switch (field->kind) {
    case ET_FIELD_KIND_CHOICE:
        return field->choices && field->choices[0] ? NULL : "a choice needs names";
    case ET_FIELD_KIND_BOOL:
    case ET_FIELD_KIND_INT:
    case ET_FIELD_KIND_FLOAT:
    case ET_FIELD_KIND_STRING:
        return NULL;
    default:
        return "a flag is a truth value, a number, a choice or text";
    }
}

static int add_flag(et_argument_parser *parser, const et_flag *flag, et_error *error)
{
    const char *name = flag->field.name ? flag->field.name : "", *fault = fault_of(flag);
    int status = et_options_check(flag, "et_flag", error);
    if (status)
        return status;
    if (fault)
        return et_fail(error, ET_EUSAGE, "flag --%s: %s", name, fault);
    if (find(parser, name, strlen(name)) || et_same_name("help", 4, name) ||
        (flag->alias && find(parser, flag->alias, strlen(flag->alias))))
        return et_fail(error, ET_EUSAGE, "flag --%s is there twice; rename one", name);
    et_flag *flags =
        et_vector_grow(parser->flags, &parser->capacity, parser->count + 1, sizeof *flags, 32);
    if (!flags)
        return et_alloc_failed(error, (parser->count + 1) * sizeof *flags, "a parser");
    parser->flags = flags;
    parser->flags[parser->count++] = *flag;
    return ET_OK;
}

int et_argument_parser_add(et_argument_parser *parser, const et_flag *flags, et_error *error)
{
    int status = ET_OK;
    for (; flags && !is_end(flags) && !status; flags++)
        status = add_flag(parser, flags, error);
    return status;
}

/* ---- values ---- */

void et_argument_parser_reset(const et_argument_parser *parser, et_arguments *arguments)
{
    for (size_t i = 0; i < parser->count; i++) {
        const et_flag *flag = &parser->flags[i];
        if (flag->indexed)
            *(et_integer_list *)et_field_member(&flag->field, arguments) =
                (et_integer_list){ NULL, 0 };
        else
            et_field_reset(&flag->field, arguments);
    }
}

/* An item of an indexed flag is read as a member of its own is. */
static et_field item_of(const et_flag *flag)
{
    et_field item = flag->field;
    item.offset = 0;
    return item;
}

/* Item number `at`, from 0; a list that is too short grows. */
static int set_item(const et_flag *flag, et_arguments *arguments, size_t at, int64_t number,
                    et_error *error)
{
    et_integer_list *list = et_field_member(&flag->field, arguments);
    if (at >= list->count) {
        int64_t *items = et_arena_array(arguments->arena, at + 1, sizeof *items);
        if (!items)
            return et_alloc_failed(error, (at + 1) * sizeof *items, "a flag");
        for (size_t i = 0; i <= at; i++)
            items[i] = i < list->count ? list->items[i] : (int64_t)flag->field.default_number;
        *list = (et_integer_list){ items, at + 1 };
    }
    list->items[at] = number;
    return ET_OK;
}

static int set_list(const et_flag *flag, et_arguments *arguments, const et_value *list,
                    const char *where, et_error *error)
{
    const et_field row = item_of(flag);
    size_t at = 0;
    if (list->kind != ET_VALUE_LIST || list->count > ET_INTEGERS_MAX)
        return et_fail(error, ET_ECONFIG, "%s: needs a list of up to %d integers, not %s", where,
                       ET_INTEGERS_MAX, et_value_kind_name(list->kind));
    int status = ET_OK;
    for (const et_value *item = list->first; item && !status; item = item->next) {
        int64_t number;
        status = et_field_read(&row, &number, item, arguments->arena, where, error);
        if (!status)
            status = set_item(flag, arguments, at++, number, error);
    }
    return status;
}

static int unknown(const et_argument_parser *parser, const char *word, size_t length,
                   const char *mark, int status, et_error *error)
{
    const char *names[NAMES_MAX + 1];
    char plain[64];
    size_t count = 0;
    for (size_t i = 0; i < parser->count && count < NAMES_MAX - 2; i++) {
        names[count++] = parser->flags[i].field.name;
        if (parser->flags[i].alias)
            names[count++] = parser->flags[i].alias;
    }
    names[count++] = "help";
    names[count] = NULL;
    snprintf(plain, sizeof plain, "%.*s", (int)(length < 63 ? length : 63), word);
    et_hint hint = et_nearest_hint(plain, names, mark);
    /* As it is typed; what stands before the name is the hint's own words. */
    char *name = strrchr(hint.text, ' ');
    for (; *mark && name && *name; name++)
        *name = *name == '_' ? '-' : *name;
    return et_fail(error, status, "%s%s: no such argument of %s%s", mark, plain, parser->name,
                   hint.text);
}

int et_argument_parser_set(const et_argument_parser *parser, et_arguments *arguments,
                           const char *key, const et_value *value, et_error *error)
{
    const et_flag *flag = find(parser, key, strlen(key));
    if (!flag)
        return unknown(parser, key, strlen(key), "", ET_ECONFIG, error);
    return flag->indexed
               ? set_list(flag, arguments, value, key, error)
               : et_field_read(&flag->field, arguments, value, arguments->arena, key, error);
}

/* ---- a command line ---- */

/* A flag of the line. */
typedef struct word {
    const et_flag *flag;
    const char *text;   /* its value; NULL: a truth value that is given alone */
    const char *suffix; /* behind ":", up to suffix_length; NULL: there is none */
    size_t suffix_length;
    char where[80]; /* "--hidden-layers:1", for messages */
} word;

/* As TensorFX: what is no number is the first. */
static int item_number(const word *w, size_t *at, et_error *error)
{
    char *end;
    *at = 0;
    if (!w->suffix)
        return ET_OK;
    long number = strtol(w->suffix, &end, 10);
    if (end == w->suffix || end != w->suffix + w->suffix_length)
        return ET_OK;
    if (number < 1 || number > ET_INTEGERS_MAX)
        return et_fail(error, ET_EUSAGE, "%s: the number behind \":\" must be 1 to %d", w->where,
                       ET_INTEGERS_MAX);
    *at = (size_t)number - 1;
    return ET_OK;
}

static int store(const word *w, et_arguments *arguments, et_error *error)
{
    const et_field *field = &w->flag->field;
    const char *text = w->text ? w->text : "true";
    size_t at;
    int status = item_number(w, &at, error);
    if (status)
        return status;
    if (!*text)
        return et_fail(error, ET_EUSAGE, "%s: the value is empty", w->where);
    if (w->flag->indexed) {
        const et_field row = item_of(w->flag);
        int64_t number;
        status = et_field_read_word(&row, &number, text, w->where, error);
        return status ? status : set_item(w->flag, arguments, at, number, error);
    }
    /* The line may go before the arguments do. */
    if (field->kind == ET_FIELD_KIND_STRING && !(text = et_arena_strdup(arguments->arena, text)))
        return et_alloc_failed(error, 0, "a flag");
    return et_field_read_word(field, arguments, text, w->where, error);
}

/* Takes a flag apart, and its value if that is the next argument: *taken. */
static int read_word(const et_argument_parser *parser, const char *const *args, bool parse_job,
                     word *w, int *taken, et_error *error)
{
    const char *name = args[0] + 2, *sign = strchr(name, '=');
    size_t length = sign ? (size_t)(sign - name) : strlen(name);
    const char *colon = memchr(name, ':', length);
    *w = (word){ .suffix = colon ? colon + 1 : NULL };
    if (colon) {
        w->suffix_length = length - (size_t)(colon + 1 - name);
        length = (size_t)(colon - name);
    }
    snprintf(w->where, sizeof w->where, "%.*s",
             (int)(2 + length + (colon ? 1 + w->suffix_length : 0)), args[0]);
    w->flag = find(parser, name, length);
    if (!w->flag)
        return unknown(parser, name, length, "--", ET_EUSAGE, error);
    if (w->flag->job && !parse_job)
        return et_fail(error, ET_EUSAGE, "%s: an argument of a job, and here a model's alone are",
                       w->where);
    if (colon && !w->flag->indexed)
        return et_fail(error, ET_EUSAGE, "%s: unknown argument; --%.*s is not numbered", w->where,
                       (int)length, name);
    w->text = sign ? sign + 1 : NULL;
    *taken = 1;
    if (sign || w->flag->field.kind == ET_FIELD_KIND_BOOL)
        return ET_OK;
    w->text = args[1];
    *taken = 2;
    if (w->text && strncmp(w->text, "--", 2) != 0)
        return ET_OK;
    return et_fail(error, ET_EUSAGE, "%s: a value is missing%s", w->where,
                   w->text ? "; one that begins with -- stands behind =" : "");
}

int et_argument_parser_parse(const et_argument_parser *parser, et_arguments *arguments,
                             const char *const *args, bool parse_job, et_error *error)
{
    et_assert(arguments->arena);
    int status = ET_OK, taken = 0;
    word w;
    for (; !status && args && *args; args += taken) {
        if (!strcmp(*args, "--help") || !strcmp(*args, "-h")) {
            arguments->help = true;
            return ET_OK;
        }
        if (strncmp(*args, "--", 2) != 0 || !(*args)[2])
            return et_fail(error, ET_EUSAGE, "%s: no argument of %s; arguments begin with --",
                           **args ? *args : "\"\"", parser->name);
        status = read_word(parser, args, parse_job, &w, &taken, error);
        if (!status)
            status = store(&w, arguments, error);
    }
    return status;
}

/* ---- help ---- */

static const char *metavar_of(const et_flag *flag)
{
    static const char *const words[] = { [ET_FIELD_KIND_INT] = "n",
                                         [ET_FIELD_KIND_FLOAT] = "x",
                                         [ET_FIELD_KIND_STRING] = "text",
                                         [ET_FIELD_KIND_CHOICE] = "name" };
    if (flag->field.kind == ET_FIELD_KIND_BOOL)
        return "";
    return flag->metavar ? flag->metavar : words[flag->field.kind];
}

/* " (FATAL, ERROR; default ERROR)"; what needs no default has none. */
static void append_limits(et_strbuf *out, const et_flag *flag)
{
    const et_field *field = &flag->field;
    et_strbuf range = ET_STRBUF_INIT;
    et_field_range(field, &range);
    const char *between = range.length ? "; " : "";
    et_strbuf_printf(out, " (%s", et_strbuf_text(&range));
    if (field->kind == ET_FIELD_KIND_CHOICE || field->kind == ET_FIELD_KIND_FLOAT ||
        (field->kind == ET_FIELD_KIND_STRING && field->default_string) ||
        (field->kind == ET_FIELD_KIND_INT && !flag->indexed)) {
        et_strbuf_printf(out, "%sdefault ", between);
        et_field_default(field, out);
    }
    et_strbuf_append(out, ")");
    out->failed |= range.failed;
    et_strbuf_release(&range);
    /* Nothing was to say. */
    if (et_text_ends(et_strbuf_text(out), " ()"))
        et_strbuf_cut(out, out->length - 3);
}

static void append_flag(et_strbuf *out, const et_flag *flag)
{
    const char *metavar = metavar_of(flag);
    char left[96];
    int length = snprintf(left, sizeof left, "--%s%s%s%s", flag->field.name,
                          flag->indexed ? ":N" : "", *metavar ? " " : "", metavar);
    for (int i = 0; i < length && left[i] && left[i] != ' '; i++)
        left[i] = left[i] == '_' ? '-' : left[i];
    et_strbuf_printf(out, "    %-*s %s", LEFT_WIDTH, left,
                     flag->field.help ? flag->field.help : "");
    append_limits(out, flag);
    if (flag->alias)
        et_strbuf_printf(out, " (or --%s)", flag->alias);
    et_strbuf_append(out, "\n");
}

int et_argument_parser_help(const et_argument_parser *parser, char **text, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_printf(&out, "usage: %s [--help] [options]\n", parser->name);
    for (size_t i = 0; i < parser->count; i++) {
        const et_flag *flag = &parser->flags[i];
        if (flag->group || i == 0)
            et_strbuf_printf(&out, "\n%s:\n", flag->group ? flag->group : "Arguments");
        append_flag(&out, flag);
    }
    *text = et_strbuf_detach(&out);
    return *text ? ET_OK : et_alloc_failed(error, 1, "help");
}
