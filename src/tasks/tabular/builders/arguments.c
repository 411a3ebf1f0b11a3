/* Arguments: a class's struct, filled in by a parser of all its flags. The object has an arena for
 * everything that it points to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/arguments.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "command/options/options.h"
#include "tasks/tabular/builders/builders.h"

/* TensorFX's parser of a program's flags: a growing list of rows for the only parser of command
 * lines (command/options/). This file adds members by name. */

/* ---- rows ---- */

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
    et_argument_parser *parser;
    if (ET_ALLOC_ZERO(parser, 1, "a parser", error))
        return ET_ENOMEM;
    parser->name = et_arena_strdup(&parser->arena, name && *name ? name : "trainer");
    if (!parser->name) {
        et_argument_parser_free(parser);
        return et_alloc_failed(error, "a parser");
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

int et_argument_parser_add(et_argument_parser *parser, const et_option *flags, et_error *error)
{
    for (; flags && flags->field.kind != ET_FIELD_KIND_END; flags++) {
        const char *name = flags->field.name ? flags->field.name : "", *fault = fault_of(flags);
        if (fault)
            return et_fail(error, ET_EUSAGE, "flag --%s: %s", name, fault);
        if (find(parser, name, strlen(name)) || et_same_name("help", 4, name) ||
            (flags->alias && find(parser, flags->alias, strlen(flags->alias))))
            return et_fail(error, ET_EUSAGE, "two flags are called --%s; rename one", name);
        if (!ET_VECTOR_GROW(parser->flags, parser->capacity, parser->count + 2))
            return et_alloc_failed(error, "a parser");
        parser->flags[parser->count++] = *flags;
        parser->flags[parser->count] = (et_option)ET_OPTION_END;
    }
    return ET_OK;
}

/* ---- values ---- */

static int set_list(const et_option *flag, et_arguments *arguments, const et_value *list,
                    const char *where, et_error *error)
{
    et_assert(flag->form == ET_OPTION_FORM_INDEXED);
    et_field item_row = flag->field;
    item_row.offset = 0;
    if (list->kind != ET_VALUE_LIST || list->count > ET_INTEGERS_MAX)
        return et_fail(error, ET_ECONFIG, "%s: give a list of up to %d integers, not %s", where,
                       ET_INTEGERS_MAX, et_value_kind_name(list->kind));
    int64_t *items = et_arena_array(arguments->arena, list->count, sizeof *items);
    if (!items)
        return et_alloc_failed(error, "a flag");
    int status = ET_OK;
    size_t count = 0;
    for (const et_value *item = list->first; item && !status; item = item->next)
        status =
            et_field_read(&item_row, &items[count++], item, arguments->arena, false, where, error);
    *(et_integer_list *)et_field_member(&flag->field, arguments) =
        (et_integer_list){ items, count };
    return status;
}

/* Sets the member with the value's name; where: the beginning of a message. ET_ECONFIG. */
static int set_value(const et_argument_parser *parser, et_arguments *arguments, const char *key,
                     const et_value *value, et_error *error)
{
    et_assert(key && value);
    const et_option *flag = find(parser, key, strlen(key));
    const char **names = flag ? NULL : et_alloc(parser->count + 1, sizeof *names);
    if (!flag && !names)
        return et_alloc_failed(error, "names");
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

/* Opens a command line of the parser's flags. */
static int open_line(et_command_line *line, const et_argument_parser *parser, et_call *call,
                     et_program *program, et_arguments *arguments, et_arena *arena, et_error *error)
{
    static const et_option none[] = { ET_OPTION_END };
    /* The struct has more members than flags, and keeps their values. */
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
        return et_alloc_failed(error, "arguments");
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
    return status || *text ? status : et_alloc_failed(error, "help");
}

#define CLASSES_MAX    16 /* of a class and its bases; more mean a circle */
#define COMMAND_LINE   "/proc/self/cmdline"
#define LINE_MAX_BYTES ((size_t)64 << 20)

/* ---- the flags of every program ---- */

const char *const et_level_names[] = { "FATAL", "ERROR", "WARN", "INFO", "DEBUG", NULL };

static const et_option flags[] = {
    { .field =
          ET_FIELD_STRING(et_arguments, data_schema, NULL, "columns and types of the data (YAML)"),
      .group = "Data",
      .value = "path" },
    { .field = ET_FIELD_STRING(et_arguments, data_metadata, NULL,
                               "statistics and vocabularies of the data (JSON)"),
      .value = "path" },
    { .field =
          ET_FIELD_STRING(et_arguments, data_features, NULL, "features made from the data (YAML)"),
      .value = "path" },
    { .field = ET_FIELD_STRING(et_arguments, data_train, NULL,
                               "data to train on; wildcards and commas are allowed"),
      .value = "path" },
    { .field = ET_FIELD_STRING(et_arguments, data_eval, NULL,
                               "data to evaluate on; wildcards and commas are allowed"),
      .value = "path" },
    { .field = ET_FIELD_STRING(et_arguments, output, NULL, "directory for the output of the job"),
      .alias = "job-dir",
      .group = "Job",
      .value = "path",
      .job = true },
    { .field =
          ET_FIELD_INT(et_arguments, max_steps, 1000, 1, INT64_MAX, "number of steps of the job"),
      .group = "Session" },
    { .field = ET_FIELD_INT(et_arguments, batch_size, 128, 1, 1 << 24, "instances per step") },
    { .field = ET_FIELD_INT(et_arguments, epochs, 0, 0, INT64_MAX,
                            "passes over the training data, each of rows / batch-size steps, "
                            "rounded up; 0: no limit") },
    { .field = ET_FIELD_INT(et_arguments, checkpoint_interval_secs, 300, 0, INT64_MAX,
                            "seconds between checkpoints; 0: only at the end") },
    { .field = ET_FIELD_INT(et_arguments, eval_batch_size, 1024, 1, 1 << 24,
                            "instances in a batch of evaluation") },
    { .field = ET_FIELD_INT(et_arguments, eval_interval_steps, 0, 0, INT64_MAX,
                            "steps between evaluations; 0: ten times in a job") },
    { .field = ET_FIELD_INT(et_arguments, eval_steps, 0, 0, INT64_MAX,
                            "batches per evaluation; 0: all data") },
    { .field = ET_FIELD_INT(et_arguments, seed, 0, 0, INT64_MAX,
                            "seed of initial values and data order") },
    { .field = ET_FIELD_CHOICE(et_arguments, log_level_tensorflow, ET_LEVEL_ERROR, et_level_names,
                               "lowest level of the library's messages"),
      .group = "Logging and Diagnostics",
      .value = "level" },
    { .field = ET_FIELD_BOOL(et_arguments, log_device_placement, false,
                             "print the device of each parameter") },
    { .field = ET_FIELD_CHOICE(et_arguments, log_level, ET_LEVEL_INFO, et_level_names,
                               "lowest level of messages about the job"),
      .value = "level" },
    { .field = ET_FIELD_INT(et_arguments, log_interval_steps, 100, 1, INT64_MAX,
                            "steps between printed lines and summaries") },
    ET_OPTION_END,
};

static int process_levels(et_arguments *self, et_error *error)
{
    static const int thresholds[] = { 50, 40, 30, 20, 10 };
    const int most = ET_LEVEL_DEBUG;
    if (self->log_level < 0 || self->log_level > most || self->log_level_tensorflow < 0 ||
        self->log_level_tensorflow > most)
        return et_fail(error, ET_EUSAGE, "log_level %d, log_level_tensorflow %d: give 0 to %d",
                       self->log_level, self->log_level_tensorflow, most);
    self->log_threshold = thresholds[self->log_level];
    self->log_threshold_tensorflow = thresholds[self->log_level_tensorflow];
    return ET_OK;
}

const et_arguments_class et_model_arguments = {
    .name = "trainer", .size = sizeof(et_arguments), .flags = flags, .process = process_levels
};

/* ---- classes ---- */

static const et_arguments_class *base_of(const et_arguments_class *kind)
{
    if (kind->base || kind == &et_model_arguments)
        return kind->base;
    return &et_model_arguments;
}

/* A class and its bases, the first one first. */
typedef struct lineage {
    const et_arguments_class *of[CLASSES_MAX];
    int count;
} lineage;

static int list_classes(lineage *all, const et_arguments_class *kind, et_error *error)
{
    int count = 0;
    for (const et_arguments_class *k = kind; k; k = base_of(k)) {
        if (count == CLASSES_MAX)
            return et_fail(error, ET_EUSAGE, "%s: a class of arguments with more than %d bases",
                           kind->name ? kind->name : "?", CLASSES_MAX - 1);
        all->of[count++] = k;
    }
    all->count = count;
    for (int i = 0; i < count / 2; i++) {
        const et_arguments_class *k = all->of[i];
        all->of[i] = all->of[count - 1 - i];
        all->of[count - 1 - i] = k;
    }
    for (int i = 1; i < count; i++)
        if (all->of[i]->size < all->of[i - 1]->size)
            return et_fail(error, ET_EUSAGE,
                           "%s: a struct of arguments of %zu bytes cannot begin with one of %zu",
                           all->of[i]->name ? all->of[i]->name : "?", all->of[i]->size,
                           all->of[i - 1]->size);
    return ET_OK;
}

int et_arguments_init_parser(const et_arguments_class *kind, et_argument_parser *parser,
                             et_error *error)
{
    lineage all;
    int status = list_classes(&all, kind ? kind : &et_model_arguments, error);
    for (int i = 0; !status && i < all.count; i++) {
        status = et_argument_parser_add(parser, all.of[i]->flags, error);
        if (!status && all.of[i]->init_parser)
            status = all.of[i]->init_parser(parser, error);
    }
    return status;
}

int et_arguments_build_parser(et_argument_parser **out, const et_arguments_class *kind,
                              et_error *error)
{
    int status = et_argument_parser_new(out, kind ? kind->name : NULL, error);
    if (!status)
        status = et_arguments_init_parser(kind, *out, error);
    if (status) {
        et_argument_parser_free(*out);
        *out = NULL;
    }
    return status;
}

bool et_arguments_is(const et_arguments *arguments, const et_arguments_class *kind)
{
    const et_arguments_class *k = arguments ? arguments->ET_CLASS : NULL;
    for (int i = 0; k && i < CLASSES_MAX; i++, k = base_of(k))
        if (k == (kind ? kind : &et_model_arguments))
            return true;
    return false;
}

/* ---- objects ---- */

/* Makes arguments with defaults, and the parser that fills them. */
static int begin(et_arguments **out, et_argument_parser **parser, const et_arguments_class *kind,
                 et_error *error)
{
    *out = NULL;
    kind = kind ? kind : &et_model_arguments;
    int status = et_arguments_build_parser(parser, kind, error);
    if (status)
        return status;
    et_arguments *arguments = et_alloc_zero(1, kind->size);
    et_arena *arena = et_arena_new();
    if (!arguments || !arena) {
        et_argument_parser_free(*parser);
        et_free(arguments);
        et_arena_free(arena);
        return et_alloc_failed(error, "arguments");
    }
    arguments->ET_CLASS = kind;
    arguments->arena = arena;
    for (size_t i = 0; i < (*parser)->count; i++) {
        const et_option *flag = &(*parser)->flags[i];
        if (flag->form == ET_OPTION_FORM_INDEXED)
            *(et_integer_list *)et_field_member(&flag->field, arguments) =
                (et_integer_list){ NULL, 0 };
        else
            et_field_reset(&flag->field, arguments);
    }
    *out = arguments;
    return ET_OK;
}

static int end(et_arguments **out, et_argument_parser *parser, int status)
{
    et_argument_parser_free(parser);
    if (status) {
        et_arguments_free(*out);
        *out = NULL;
    }
    return status;
}

void et_arguments_free(et_arguments *arguments)
{
    if (!arguments)
        return;
    et_arena_free(arguments->arena);
    et_free(arguments);
}

int et_arguments_create(et_arguments **out, const et_arguments_class *kind, const et_value *kwargs,
                        et_error *error)
{
    et_argument_parser *parser;
    int status = begin(out, &parser, kind, error);
    if (status)
        return status;
    if (kwargs && kwargs->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_ECONFIG, "arguments by name need a dict, not %s",
                         et_value_kind_name(kwargs->kind));
    for (const et_value *v = kwargs && !status ? kwargs->first : NULL; v && !status; v = v->next)
        status = set_value(parser, *out, v->key, v, error);
    return end(out, parser, status);
}

int et_arguments_default(et_arguments **out, const et_arguments_class *kind, et_error *error)
{
    static const char *const none[] = { NULL };
    return et_arguments_parse(out, kind, none, true, error);
}

int et_arguments_process(et_arguments *arguments, et_error *error)
{
    lineage all;
    int status = list_classes(&all, arguments->ET_CLASS, error);
    for (int i = 0; !status && i < all.count; i++)
        if (all.of[i]->process)
            status = all.of[i]->process(arguments, error);
    return status;
}

/* ---- parsing ---- */

/* The arguments of this process, the program's name left out, in arena. A library does not get them
 * as main does, so it asks the system. */
static int own_arguments(const char *const **out, et_arena *arena, et_error *error)
{
    et_assert(out && arena);
    char *bytes;
    size_t length, count = 0, at = 0;
    int status = et_file_read(&bytes, &length, COMMAND_LINE, LINE_MAX_BYTES, error);
    if (status)
        return status;
    for (size_t i = 0; i < length; i++)
        count += !bytes[i];
    const char **items = et_arena_array(arena, count + 2, sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        items[i] = et_arena_strdup(arena, bytes + at);
        at += strlen(bytes + at) + 1;
    }
    et_free(bytes);
    *out = items && count ? items + 1 : items;
    return items && !arena->failed ? ET_OK : et_alloc_failed(error, "arguments");
}

int et_arguments_parse(et_arguments **out, const et_arguments_class *kind, const char *const *args,
                       bool parse_job, et_error *error)
{
    et_argument_parser *parser;
    size_t count = 0;
    int status = begin(out, &parser, kind, error);
    if (status)
        return status;
    et_arguments *arguments = *out;
    if (!args)
        status = own_arguments(&args, arguments->arena, error);
    if (status)
        return end(out, parser, status);
    while (args[count])
        count++;
    const char **items = et_arena_array(arguments->arena, count, sizeof *items);
    for (size_t i = 0; items && i < count; i++)
        items[i] = et_arena_strdup(arguments->arena, args[i]);
    arguments->raw = (et_strings){ items, items ? count : 0 };
    status = arguments->arena->failed
                 ? et_alloc_failed(error, "arguments")
                 : et_argument_parser_parse(parser, arguments, args, parse_job, error);
    if (!status && !arguments->help)
        status = et_arguments_process(arguments, error);
    return end(out, parser, status);
}

/* ---- facts ---- */

et_value *et_arguments_echo(const et_arguments *arguments, et_arena *arena)
{
    et_assert(arguments && arena);
    et_argument_parser *parser;
    et_value *dict = et_value_dict(arena);
    if (!dict || et_arguments_build_parser(&parser, arguments->ET_CLASS, NULL))
        return NULL;
    for (size_t i = 0; i < parser->count; i++) {
        const et_option *flag = &parser->flags[i];
        if (flag->form != ET_OPTION_FORM_INDEXED) {
            et_field_echo(&flag->field, arguments, dict);
            continue;
        }
        const et_integer_list *list = (const void *)((const char *)arguments + flag->field.offset);
        et_value *items = et_value_set_list(dict, flag->field.name);
        for (size_t k = 0; k < list->count; k++)
            et_value_add_int(items, list->items[k]);
    }
    et_argument_parser_free(parser);
    return et_value_failed(dict) ? NULL : dict;
}

int et_arguments_help(const et_arguments_class *kind, char **text, et_error *error)
{
    et_argument_parser *parser;
    *text = NULL;
    int status = et_arguments_build_parser(&parser, kind, error);
    if (!status)
        status = et_argument_parser_help(parser, text, error);
    et_argument_parser_free(parser);
    return status;
}

void et_arguments_free_text(char *text)
{
    et_free(text);
}
