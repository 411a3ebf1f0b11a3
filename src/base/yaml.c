/* libyaml's events become values one by one; a stack of open containers stands for recursion, so
 * depth costs nothing and is checked where it happens.
 *
 * Invariants while reading: open[0..depth) are containers, each inside the one before; key is
 * not NULL exactly while the innermost one is a dict whose next event is that key's value. */
#include "base/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/unicode.h"
#include "base/yaml_scalar.h"

#define DEPTH_MAX  64
#define NODES_MAX  200000
#define LENGTH_MAX ((size_t)16 << 20)

struct level {
    et_value *container;
    et_map keys; /* of a dict: those already there, to the line of each */
};

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t length;
    const char *name;
    et_arena *arena;
    et_error *error;
    et_value *root;
    struct level open[DEPTH_MAX];
    int depth;
    const char *key;
    int nodes;
    int documents;
    bool ended; /* the stream */
    bool word;  /* of a command line: messages name no line */
};

/* "name:line: ...", column 0: not known. */
__attribute__((format(printf, 4, 5))) static int fail_at(const struct reader *reader, size_t line,
                                                         size_t column, const char *format, ...)
{
    char place[48] = "", text[ET_ERROR_TEXT_MAX];
    if (!reader->word && column)
        snprintf(place, sizeof place, ":%zu:%zu", line, column);
    else if (!reader->word)
        snprintf(place, sizeof place, ":%zu", line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return et_fail(reader->error, ET_EFORMAT, "%s%s: %s", reader->name, place, text);
}

static size_t line_of(const yaml_event_t *event)
{
    return event->start_mark.line + 1;
}

/* Where bad bytes stand: libyaml gives their offset only. */
static int fail_encoding(const struct reader *reader)
{
    size_t line = 1;
    size_t end = reader->parser.problem_offset;
    for (size_t i = 0; i < end && i < reader->length; i++)
        line += reader->text[i] == '\n';
    return fail_at(reader, line, 0, "%s at byte %zu; save the file as UTF-8 text",
                   reader->parser.problem, end);
}

/* line counts from 0. */
static bool is_indented_by_tab(const struct reader *reader, size_t line)
{
    const char *text = reader->text, *end = text + reader->length;
    for (; text < end && line > 0; text++)
        line -= *text == '\n';
    while (text < end && *text == ' ')
        text++;
    return text < end && *text == '\t';
}

static int fail_parser(const struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return et_alloc_failed(reader->error, reader->length, reader->name);
    if (parser->error == YAML_READER_ERROR)
        return fail_encoding(reader);
    bool tab = is_indented_by_tab(reader, parser->problem_mark.line);
    return fail_at(reader, parser->problem_mark.line + 1, parser->problem_mark.column + 1,
                   "not YAML: %s%s%s%s", parser->problem ? parser->problem : "unreadable",
                   parser->context ? " " : "", parser->context ? parser->context : "",
                   tab ? "; indent with spaces, not tabs" : "");
}

static int no_memory(const struct reader *reader)
{
    return et_alloc_failed(reader->error, sizeof(et_value), reader->name);
}

/* A copy of a scalar's text in the arena; no NUL may be in it. */
static int copy_text(struct reader *reader, const char **out, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length)
        return fail_at(reader, line_of(event), 0, "a NUL character is not allowed in text");
    *out = et_arena_strdup(reader->arena, text);
    return *out ? ET_OK : no_memory(reader);
}

/* Hangs a finished scalar or a new container where it belongs. */
static void place(struct reader *reader, et_value *value)
{
    if (reader->depth == 0) {
        reader->root = value;
        return;
    }
    et_value_append(reader->open[reader->depth - 1].container, reader->key, value);
    reader->key = NULL;
}

static bool key_expected(const struct reader *reader)
{
    return reader->depth > 0 && !reader->key &&
           reader->open[reader->depth - 1].container->kind == ET_VALUE_DICT;
}

static int read_key(struct reader *reader, const yaml_event_t *event)
{
    const char *key = NULL;
    int failure = copy_text(reader, &key, event);
    if (failure)
        return failure;
    struct level *level = &reader->open[reader->depth - 1];
    int64_t before;
    if (et_map_get(&level->keys, key, &before))
        return fail_at(reader, line_of(event), 0, "%s stands here and at line %d; keep one of them",
                       key, (int)before);
    if (!et_map_put(&level->keys, key, line_of(event)))
        return no_memory(reader);
    reader->key = key;
    return ET_OK;
}

static int read_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *text = NULL;
    int failure = copy_text(reader, &text, event);
    if (failure)
        return failure;
    et_value *value = et_value_new(reader->arena, ET_VALUE_STRING);
    if (!value)
        return no_memory(reader);
    value->line = (int)line_of(event);
    value->text = text;
    value->string = text;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !et_yaml_resolve(value, text))
        return fail_at(reader, line_of(event), 0,
                       "%s does not fit in 64 bits; quote it if it is text", text);
    place(reader, value);
    return ET_OK;
}

static int open_container(struct reader *reader, const yaml_event_t *event, et_value_kind kind)
{
    if (reader->depth == DEPTH_MAX)
        return fail_at(reader, line_of(event), 0, "nested deeper than %d levels", DEPTH_MAX);
    et_value *value = et_value_new(reader->arena, kind);
    if (!value)
        return no_memory(reader);
    value->line = (int)line_of(event);
    place(reader, value);
    reader->open[reader->depth++] = (struct level){ value, ET_MAP_INIT };
    return ET_OK;
}

static void close_container(struct reader *reader)
{
    et_assert(reader->depth > 0);
    reader->depth--;
    et_map_release(&reader->open[reader->depth].keys);
}

/* What a node may not carry: anchors, aliases (together an exponential bomb) and tags. */
static int check_node(struct reader *reader, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return fail_at(reader, line_of(event), 0,
                       "the alias *%s is not allowed here; write its value out",
                       (const char *)event->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    default:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    }
    if (anchor)
        return fail_at(reader, line_of(event), 0,
                       "the anchor &%s is not allowed here; leave it out", (const char *)anchor);
    if (tag)
        return fail_at(reader, line_of(event), 0, "the tag %s is not allowed here; leave it out",
                       (const char *)tag);
    if (++reader->nodes > NODES_MAX)
        return fail_at(reader, line_of(event), 0, "more than %d values in one file", NODES_MAX);
    return ET_OK;
}

static int read_node(struct reader *reader, const yaml_event_t *event)
{
    int failure = check_node(reader, event);
    if (failure)
        return failure;
    if (key_expected(reader)) {
        if (event->type == YAML_SCALAR_EVENT)
            return read_key(reader, event);
        return fail_at(reader, line_of(event), 0,
                       "a list or group cannot be a name; write name: value");
    }
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(reader, event);
    return open_container(reader, event,
                          event->type == YAML_SEQUENCE_START_EVENT ? ET_VALUE_LIST : ET_VALUE_DICT);
}

static int read_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++reader->documents > 1)
            return fail_at(reader, line_of(event), 0,
                           "a second document starts here; one is read from a file");
        return ET_OK;
    case YAML_STREAM_END_EVENT:
        reader->ended = true;
        return ET_OK;
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return read_node(reader, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_container(reader);
        return ET_OK;
    default:
        return ET_OK;
    }
}

static int read_all(struct reader *reader)
{
    int failure = ET_OK;
    while (!failure && !reader->ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event))
            return fail_parser(reader);
        failure = read_event(reader, &event);
        yaml_event_delete(&event);
    }
    return failure;
}

/* The one document, NULL for an empty text. */
static int parse(et_value **out, et_arena *arena, const char *text, size_t length, bool word,
                 const char *name, et_error *error)
{
    if (length > LENGTH_MAX)
        return et_fail(error, ET_EFORMAT, "%s has %zu bytes of YAML; at most %zu are read", name,
                       length, LENGTH_MAX);
    struct reader reader = {
        .text = text, .length = length, .name = name, .arena = arena, .error = error, .word = word
    };
    if (!yaml_parser_initialize(&reader.parser))
        return et_alloc_failed(error, sizeof reader.parser, name);
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    int failure = read_all(&reader);
    while (reader.depth > 0)
        close_container(&reader);
    yaml_parser_delete(&reader.parser);
    if (!failure)
        *out = reader.root;
    return failure;
}

int et_yaml_parse(et_value **out, et_arena *arena, const char *text, size_t length,
                  const char *name, et_error *error)
{
    et_value *root = NULL;
    int failure = parse(&root, arena, text, length, false, name, error);
    if (failure)
        return failure;
    if (!root || root->kind == ET_VALUE_NULL) {
        root = et_value_dict(arena);
        if (!root)
            return et_alloc_failed(error, sizeof *root, name);
    }
    *out = root;
    return ET_OK;
}

int et_yaml_parse_value(et_value **out, et_arena *arena, const char *text, const char *name,
                        et_error *error)
{
    size_t length = strlen(text);
    if (!et_utf8_valid(text, length, NULL))
        return et_fail(error, ET_EFORMAT, "%s: the value is not UTF-8 text", name);
    const char *start = text + strspn(text, " \t\r\n");
    if (*start && strchr("[{\"'", *start)) {
        et_value *value = NULL;
        int failure = parse(&value, arena, start, strlen(start), true, name, error);
        if (!failure)
            *out = value;
        return failure;
    }
    /* Anything else is one plain scalar to its end: a shell's word may hold ": ", # or *. */
    while (length > (size_t)(start - text) && strchr(" \t\r\n", text[length - 1]))
        length--;
    char *copy = et_arena_printf(arena, "%.*s", (int)(text + length - start), start);
    et_value *value = copy ? et_value_new(arena, ET_VALUE_STRING) : NULL;
    if (!value)
        return et_alloc_failed(error, length, name);
    value->line = 1;
    value->text = copy;
    value->string = copy;
    if (!et_yaml_resolve(value, copy))
        return et_fail(error, ET_EFORMAT, "%s: %s does not fit in 64 bits; quote it if it is text",
                       name, copy);
    *out = value;
    return ET_OK;
}
