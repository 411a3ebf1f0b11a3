/* TensorFX's parser of a program's flags: a growing list of rows for the only parser of command
 * lines (command/options/). This file adds members by name. */
#include "tasks/tabular/builders/builders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "command/options/options.h"

/* ---- rows ---- */

static bool is_end(const et_option *flag)
{
    return flag->field.kind == ET_FIELD_KIND_END;
}

static const et_option *find(const et_argument_parser *parser, const char *word, size_t length)
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
static const char *fault_of(const et_option *flag)
{
    const et_field *field = &flag->field;
    if (!field->name || !*field->name || strpbrk(field->name, ":=. ") || field->name[0] == '-')
        return "its name is not valid for a flag";
    if (field->indirect)
        return "its member is not in the struct itself";
    if (flag->form != ET_OPTION_FORM_VALUE && flag->form != ET_OPTION_FORM_INDEXED)
        return "a flag is given with its value, or by number";
    if (flag->form == ET_OPTION_FORM_INDEXED && field->kind != ET_FIELD_KIND_INT)
        return "only an integer can be numbered";
    switch (field->kind) {
    case ET_FIELD_KIND_CHOICE:
        return field->choices && field->choices[0] ? NULL : "a choice needs names";
    case ET_FIELD_KIND_BOOL:
    case ET_FIELD_KIND_INT:
    case ET_FIELD_KIND_FLOAT:
    case ET_FIELD_KIND_STRING:
        return NULL;
    default:
        return "a flag must be a bool, a number, a choice or a text";
    }
}

static int add_flag(et_argument_parser *parser, const et_option *flag, et_error *error)
{
    const char *name = flag->field.name ? flag->field.name : "", *fault = fault_of(flag);
    if (fault)
        return et_fail(error, ET_EUSAGE, "flag --%s: %s", name, fault);
    if (find(parser, name, strlen(name)) || et_same_name("help", 4, name) ||
        (flag->alias && find(parser, flag->alias, strlen(flag->alias))))
        return et_fail(error, ET_EUSAGE, "two flags are called --%s; rename one", name);
    et_option *flags =
        et_vector_grow(parser->flags, &parser->capacity, parser->count + 2, sizeof *flags, 32);
    if (!flags)
        return et_alloc_failed(error, (parser->count + 1) * sizeof *flags, "a parser");
    parser->flags = flags;
    parser->flags[parser->count++] = *flag;
    parser->flags[parser->count] = (et_option)ET_OPTION_END;
    return ET_OK;
}

int et_argument_parser_add(et_argument_parser *parser, const et_option *flags, et_error *error)
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
        const et_option *flag = &parser->flags[i];
        if (flag->form == ET_OPTION_FORM_INDEXED)
            *(et_integer_list *)et_field_member(&flag->field, arguments) =
                (et_integer_list){ NULL, 0 };
        else
            et_field_reset(&flag->field, arguments);
    }
}

static int set_list(const et_option *flag, et_arguments *arguments, const et_value *list,
                    const char *where, et_error *error)
{
    et_field item_row = flag->field;
    item_row.offset = 0;
    if (list->kind != ET_VALUE_LIST || list->count > ET_INTEGERS_MAX)
        return et_fail(error, ET_ECONFIG, "%s: give a list of up to %d integers, not %s", where,
                       ET_INTEGERS_MAX, et_value_kind_name(list->kind));
    int64_t *items = et_arena_array(arguments->arena, list->count + 1, sizeof *items);
    if (!items)
        return et_alloc_failed(error, list->count * sizeof *items, "a flag");
    int status = ET_OK;
    size_t count = 0;
    for (const et_value *item = list->first; item && !status; item = item->next)
        status =
            et_field_read(&item_row, &items[count++], item, arguments->arena, false, where, error);
    *(et_integer_list *)et_field_member(&flag->field, arguments) =
        (et_integer_list){ items, count };
    return status;
}

int et_argument_parser_set(const et_argument_parser *parser, et_arguments *arguments,
                           const char *key, const et_value *value, et_error *error)
{
    const et_option *flag = find(parser, key, strlen(key));
    const char **names = flag ? NULL : et_alloc(parser->count + 1, sizeof *names);
    if (!flag && !names)
        return et_alloc_failed(error, parser->count * sizeof *names, "names");
    for (size_t i = 0; !flag && i <= parser->count; i++)
        names[i] = i < parser->count ? parser->flags[i].field.name : NULL;
    int status =
        !flag ? et_fail(error, ET_ECONFIG, "%s: not an argument of %s%s", key, parser->name,
                        et_nearest_hint(key, names, "").text)
        : flag->form == ET_OPTION_FORM_INDEXED
            ? set_list(flag, arguments, value, key, error)
            : et_field_read(&flag->field, arguments, value, arguments->arena, false, key, error);
    et_free(names);
    return status;
}

/* ---- a command line ---- */

/* The flags, for a line of so many words. */
static int open_line(et_command_line *line, const et_argument_parser *parser, et_call *call,
                     et_program *program, et_arguments *arguments, et_arena *arena, et_error *error)
{
    static const et_option none[] = { ET_OPTION_END };
    /* The struct has more than flags, and keeps what it has. */
    const et_usage usage = { parser->count ? parser->flags : none, 0, NULL, NULL };
    *program = (et_program){ .name = parser->name };
    call->program = program;
    call->command = "";
    return et_command_line_open(line, &usage, arguments, call, arena, error);
}

int et_argument_parser_parse(const et_argument_parser *parser, et_arguments *arguments,
                             const char *const *args, bool parse_job, et_error *error)
{
    et_command_line line;
    et_program program;
    et_call call = { .argc = 0 };
    while (args && args[call.argc])
        call.argc++;
    /* The line may go before the arguments do. */
    call.argv = et_arena_array(arguments->arena, (size_t)call.argc + 1, sizeof *call.argv);
    for (int i = 0; call.argv && i < call.argc; i++)
        call.argv[i] = et_arena_strdup(arguments->arena, args[i]);
    if (arguments->arena->failed)
        return et_alloc_failed(error, (size_t)call.argc * sizeof *call.argv, "arguments");
    int status = open_line(&line, parser, &call, &program, arguments, arguments->arena, error);
    line.jobs = parse_job;
    if (!status)
        status = et_command_line_parse(&line, error);
    arguments->help |= !status && line.help;
    return status;
}

/* ---- help ---- */

int et_argument_parser_help(const et_argument_parser *parser, char **text, et_error *error)
{
    et_arguments nowhere;
    et_command_line line;
    et_program program;
    et_call call = { .argc = 0 };
    et_arena arena = ET_ARENA_INIT;
    const et_usage usage = { parser->flags, 0, NULL, NULL };
    char *whole = NULL;
    size_t length;
    *text = NULL;
    FILE *to = open_memstream(&whole, &length);
    int status = to ? open_line(&line, parser, &call, &program, &nowhere, &arena, error)
                    : et_fail_errno(error, "help");
    line.limits = true;
    if (!status)
        et_command_line_help(to, &line, &usage);
    if (to && fclose(to) && !status)
        status = et_fail_errno(error, "help");
    et_arena_release(&arena);
    *text = status ? NULL : et_strdup(whole);
    free(whole);
    return status || *text ? status : et_alloc_failed(error, 1, "help");
}
