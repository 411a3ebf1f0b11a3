/* Reads YAML: libyaml's events become values one by one. A stack of open containers replaces
 * recursion, so depth costs nothing and is checked at once.
 *
 * The accepted part of YAML 1.2 (https://yaml.org/spec/1.2.2/) is the part that JSON has too:
 *
 *   stream   := [ document ]                 a second document is refused
 *   document := value
 *   value    := scalar | list | dict         no anchors, aliases or tags before it
 *   list     := "-" items, or [a, b]
 *   dict     := scalar ":" value ..., or {a: 1}; keys are unique
 *
 * et_yaml_resolve gives plain scalars their kind; quoted ones and blocks (| and >) are strings.
 *
 * Events of {a: [1]} and their effects: mapping start (open a dict), scalar a (becomes key),
 * sequence start (a list, added under key and opened), scalar 1 (added to the list), sequence end,
 * mapping end (closed).
 *
 * Invariants while reading:
 *
 *   (1) open[0..depth) are containers, each inside the previous one;
 *   (2) key is not NULL exactly while the innermost container is a dict and its next event is the
 *       value of key;
 *   (3) maps of keys exist only for open levels, and parse() closes levels that an error left open.
 *
 * Limits: a text that exceeds them costs at most NODES_MAX values and DEPTH_MAX maps. */
#include "base/values/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/numbers/decimal.h"
#include "base/text/unicode.h"
#include "base/values/value.h"

/* The core schema is a list of regular expressions; each function below is one of them, so nothing
 * depends on what strtod accepts (hexadecimal floats, "infinity", leading blanks).
 *
 *   null, ~ and nothing   null           .nan            not a number
 *   true, false           truth values   [-+]?.inf       infinity
 *   12, -7, 0o17, 0x1f    integers       1.5, .5, 1e3    numbers (1e3 by the schema itself)
 *   everything else       text: yes, 1_000, 0b1, 12:30, 0x, 1.2.3
 *
 * Words have three spellings: null, Null, NULL. YAML 1.1's yes, no, on and off stay text; fields
 * that need a truth value accept them (fields_scalar.c). 017 is 17: octal is only 0o17. */

#define DIGITS "0123456789"

/* words end in NULL. */
static bool among(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* The words of the schema, in its three spellings each. */
static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
static const char *const trues[] = { "true", "True", "TRUE", NULL };
static const char *const falses[] = { "false", "False", "FALSE", NULL };
static const char *const nans[] = { ".nan", ".NaN", ".NAN", NULL };
static const char *const infinities[] = { ".inf", ".Inf", ".INF", NULL };

/* The base of an integer and where its digits start: [-+]?[0-9]+ 0o[0-7]+ 0x[0-9a-fA-F]+;
 * 0: not an integer. */
static int integer_base(const char *text, const char **digits)
{
    int base = 10;
    *digits = text;
    /* These have no sign: -0x10 is text. */
    if (text[0] == '0' && (text[1] == 'o' || text[1] == 'x')) {
        base = text[1] == 'o' ? 8 : 16;
        *digits = text + 2;
    }
    const char *first = *digits + (base == 10 && (*text == '-' || *text == '+'));
    const char *const allowed = base == 8    ? "01234567"
                                : base == 16 ? DIGITS "abcdefABCDEF"
                                             : DIGITS;
    return *first && first[strspn(first, allowed)] == 0 ? base : 0;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool is_float(const char *text)
{
    text += *text == '-' || *text == '+';
    size_t whole = strspn(text, DIGITS), part = 0;
    text += whole;
    if (*text == '.') {
        part = strspn(text + 1, DIGITS);
        text += 1 + part;
    }
    /* A single point or sign is text. */
    if (whole + part == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text += 1 + (text[1] == '-' || text[1] == '+');
        size_t exponent = strspn(text, DIGITS);
        /* "1e" and "1e+" are text. */
        if (exponent == 0)
            return false;
        text += exponent;
    }
    return *text == 0;
}

/* A value's kind and content change together. */
static void become_float(et_value *value, double real)
{
    value->kind = ET_VALUE_FLOAT;
    value->real = real;
}

static void become_bool(et_value *value, bool boolean)
{
    value->kind = ET_VALUE_BOOL;
    value->boolean = boolean;
}

/* Integers are tried before floats, because the float syntax accepts them too; no other kinds
 * overlap. Integers beyond 64 bits and floats beyond a double are refused, not rounded: a changed
 * seed or rate would go unnoticed. */
bool et_yaml_resolve(et_value *value, const char *text)
{
    const char *digits;
    const char *unsigned_text = text + (*text == '-' || *text == '+');
    int base = integer_base(text, &digits);
    if (base) {
        /* strtoll reports a number beyond 64 bits only by errno. */
        errno = 0;
        long long integer = strtoll(digits, NULL, base);
        if (errno)
            return false;
        value->kind = ET_VALUE_INT;
        value->integer = integer;
    } else if (is_float(text)) {
        const double real = et_decimal_read(text, NULL);
        if (!isfinite(real))
            return false;
        become_float(value, real);
    } else if (among(unsigned_text, infinities)) {
        become_float(value, *text == '-' ? -INFINITY : INFINITY);
    } else if (among(text, nans)) {
        become_float(value, NAN);
    } else if (among(text, trues)) {
        become_bool(value, true);
    } else if (among(text, falses)) {
        become_bool(value, false);
    } else if (among(text, nulls)) {
        value->kind = ET_VALUE_NULL;
    }
    return true;
}

/* Far beyond any file that people write. Text, values and keys are in memory at once. */
#define DEPTH_MAX  64
#define NODES_MAX  2000000
#define LENGTH_MAX ((size_t)16 << 20)

struct level {
    et_value *container; /* a list or dict */
    et_map keys;         /* of a dict: those already there, to the line of each */
};

struct reader {
    yaml_parser_t parser; /* libyaml's; has the place of a syntax error */
    const char *text;     /* borrowed; for messages about bytes and tabs */
    size_t length;        /* of text, bytes */
    const char *name;     /* what messages start with: a path, or --set key */
    et_arena *arena;      /* where values and texts go */
    et_error *error;
    et_value *root;               /* of the document; NULL until its first event */
    struct level open[DEPTH_MAX]; /* [depth] in use, outermost first */
    int depth;
    const char *key; /* read and waiting for its value; in the arena */
    int nodes;       /* scalars and containers so far, keys too */
    int documents;   /* begun so far */
    bool ended;      /* the stream */
    int status;      /* of the failure that ends the reading */
    bool word;       /* of a command line: messages name no line */
};

/* The functions of a reader are false, or NULL, after a failure; then status says why. */

/* "name:line: ...", or "name:line:column: ..." if the column is known (not 0); a word of a command
 * line has neither. */
__attribute__((format(printf, 4, 5))) static bool fail_at(struct reader *reader, size_t line,
                                                          size_t column, const char *format, ...)
{
    /* The caller's text first: et_fail takes one format, and this message has two. */
    char position[48] = "", text[ET_ERROR_TEXT_MAX];
    if (!reader->word && column)
        snprintf(position, sizeof position, ":%zu:%zu", line, column);
    else if (!reader->word)
        snprintf(position, sizeof position, ":%zu", line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    reader->status = et_fail(reader->error, ET_EFORMAT, "%s%s: %s", reader->name, position, text);
    return false;
}

static void *no_memory(struct reader *reader)
{
    reader->status = et_alloc_failed(reader->error, reader->name);
    return NULL;
}

/* libyaml counts from 0, people from 1. */
static size_t line_of(const yaml_event_t *event)
{
    return event->start_mark.line + 1;
}

/* Whether the indentation of a line (from 0) has a tab: the commonest cause of a syntax error,
 * which libyaml's message ("found character that cannot start any token") does not name. */
static bool is_indented_by_tab(const struct reader *reader, size_t line)
{
    const char *text = reader->text, *end = text + reader->length;
    for (; text < end && line > 0; text++)
        line -= *text == '\n';
    while (text < end && *text == ' ')
        text++;
    return text < end && *text == '\t';
}

/* Three kinds of failure inside libyaml: memory, bytes, syntax. */
static bool fail_parser(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory(reader);
    /* Bytes that are no UTF-8, or characters that YAML does not allow. */
    if (parser->error == YAML_READER_ERROR) {
        /* Finds the line of bad bytes: libyaml only gives their offset. */
        size_t line = 1, end = parser->problem_offset;
        for (size_t i = 0; i < end && i < reader->length; i++)
            line += reader->text[i] == '\n';
        return fail_at(reader, line, 0, "%s at byte %zu; save the file as UTF-8 text",
                       parser->problem, end);
    }
    /* The line where libyaml stopped, which is the line of the tab. */
    bool tab = is_indented_by_tab(reader, parser->problem_mark.line);
    return fail_at(reader, parser->problem_mark.line + 1, parser->problem_mark.column + 1,
                   "not YAML: %s%s%s%s", parser->problem ? parser->problem : "unreadable",
                   parser->context ? " " : "", parser->context ? parser->context : "",
                   tab ? "; indent with spaces, not tabs" : "");
}

/* A copy of a scalar's text in the arena; no NUL may be in it. */
static const char *copy_text(struct reader *reader, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    /* "\0" in double quotes is such a NUL; strings here end at the first. */
    if (strlen(text) != event->data.scalar.length) {
        fail_at(reader, line_of(event), 0, "a NUL character is not allowed in text; remove it");
        return NULL;
    }
    const char *copy = et_arena_strdup(reader->arena, text);
    return copy ? copy : no_memory(reader);
}

/* Adds a finished scalar or a new container to the innermost open container, with the waiting key
 * if that is a dict; or makes it the root. */
static void position(struct reader *reader, et_value *value)
{
    /* The first event of the document; there is no second without a second document. */
    if (reader->depth == 0) {
        reader->root = value;
        return;
    }
    et_value_append(reader->open[reader->depth - 1].container, reader->key, value);
    reader->key = NULL;
}

/* A duplicate would silently win or lose, so it is refused, with both lines. The map makes
 * that O(1) for each key: a dict of n keys costs O(n). */
static bool read_key(struct reader *reader, const yaml_event_t *event)
{
    const char *key = copy_text(reader, event);
    if (!key)
        return false;
    struct level *level = &reader->open[reader->depth - 1];
    /* The line of the first one. */
    int64_t before;
    if (et_map_get(&level->keys, key, &before))
        return fail_at(reader, line_of(event), 0, "%s is set here and in line %d; keep one of them",
                       key, (int)before);
    if (!et_map_put(&level->keys, key, line_of(event)))
        return no_memory(reader);
    reader->key = key;
    return true;
}

/* value->text stays next to the resolved value, so that a setting can be read as it was written (a
 * name "010", a rate "1e-3"). */
static bool read_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *text = copy_text(reader, event);
    if (!text)
        return false;
    et_value *value = et_value_new(reader->arena, ET_VALUE_STRING);
    if (!value)
        return no_memory(reader);
    value->line = (int)line_of(event);
    value->text = text;
    value->string = text;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !et_yaml_resolve(value, text))
        return fail_at(reader, line_of(event), 0,
                       "%s does not fit in 64 bits; quote it if it is text", text);
    position(reader, value);
    return true;
}

/* Hung up before its children come, so that the tree is whole at any time. */
static bool open_container(struct reader *reader, const yaml_event_t *event, et_value_kind kind)
{
    if (reader->depth == DEPTH_MAX)
        return fail_at(reader, line_of(event), 0, "nested deeper than %d levels", DEPTH_MAX);
    et_value *value = et_value_new(reader->arena, kind);
    if (!value)
        return no_memory(reader);
    value->line = (int)line_of(event);
    position(reader, value);
    et_assert(reader->depth >= 0 && reader->depth < DEPTH_MAX);
    reader->open[reader->depth++] = (struct level){ value, ET_MAP_INIT };
    return true;
}

/* libyaml sees to it that starts and ends match; key is NULL again by then. */
static void close_container(struct reader *reader)
{
    et_assert(reader->depth > 0);
    reader->depth--;
    et_map_release(&reader->open[reader->depth].keys);
}

/* Refuses anchors, aliases (together an exponential bomb) and tags. */
static bool check_node(struct reader *reader, const yaml_event_t *event)
{
    /* Three events begin a node and have these in three places. */
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
    return true;
}

/* An event that begins a value or a key. YAML allows a container as a key ("? [a]"), but no name
 * here is one. */
static bool read_node(struct reader *reader, const yaml_event_t *event)
{
    if (!check_node(reader, event))
        return false;
    /* Inside a dict, with no key waiting. */
    if (reader->depth > 0 && !reader->key &&
        reader->open[reader->depth - 1].container->kind == ET_VALUE_DICT) {
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

/* Document ends, stream starts and events without content change nothing. */
static bool read_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++reader->documents > 1)
            return fail_at(reader, line_of(event), 0,
                           "a second document starts here; put it into another file");
        return true;
    case YAML_STREAM_END_EVENT:
        reader->ended = true;
        return true;
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return read_node(reader, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_container(reader);
        return true;
    default:
        return true;
    }
}

/* The one document, NULL for an empty text. word: text is a value of a command line. In any case
 * levels are closed and the parser is released; values of a failed read stay in the arena,
 * unreachable. */
static int parse(et_value **out, et_arena *arena, const char *text, size_t length, bool word,
                 const char *name, et_error *error)
{
    et_assert(out && arena && name);
    if (length > LENGTH_MAX)
        return et_fail(error, ET_EFORMAT, "%s has %zu bytes of YAML, more than the limit of %zu",
                       name, length, LENGTH_MAX);
    struct reader reader = {
        .text = text, .length = length, .name = name, .arena = arena, .error = error, .word = word
    };
    if (!yaml_parser_initialize(&reader.parser))
        return et_alloc_failed(error, name);
    /* Else libyaml would guess from the first bytes. */
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    while (!reader.status && !reader.ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader.parser, &event)) {
            fail_parser(&reader);
        } else {
            read_event(&reader, &event);
            yaml_event_delete(&event); /* libyaml's memory until then, on failure too */
        }
    }
    /* Closes levels that an error left open; each has a map to release. */
    while (reader.depth > 0)
        close_container(&reader);
    yaml_parser_delete(&reader.parser);
    if (!reader.status)
        *out = reader.root;
    return reader.status;
}

/* Nothing, comments only and "null" are all an empty file: no settings. */
int et_yaml_parse(et_value **out, et_arena *arena, const char *text, size_t length,
                  const char *name, et_error *error)
{
    et_value *root = NULL;
    if (!text)
        return et_fail(error, ET_EDATA, "%s: the text is NULL", name);
    /* libyaml counts the byte order mark as a column, so the second key would be less indented. */
    const size_t mark = et_utf8_mark(text, length);
    int status = parse(&root, arena, text + mark, length - mark, false, name, error);
    if (status)
        return status;
    /* A file without settings is one with an empty dict: callers ask it for keys. */
    if (!root || root->kind == ET_VALUE_NULL) {
        root = et_value_dict(arena);
        if (!root)
            return et_alloc_failed(error, name);
    }
    *out = root;
    return ET_OK;
}

/* "[1, 2]", "{a: 1}" and quoted text are YAML; blanks around are no part of it. */
static int parse_value(et_value **out, et_arena *arena, const char *text, const char *name,
                       et_error *error)
{
    size_t length = strlen(text);
    if (!et_utf8_valid(text, length, NULL))
        return et_fail(error, ET_EFORMAT, "%s: the value is not UTF-8 text", name);
    /* A value in flow style or quotes, which only YAML's own parser can read. */
    const char *start = text + strspn(text, " \t\r\n");
    if (*start && strchr("[{\"'", *start)) {
        et_value *value = NULL;
        int status = parse(&value, arena, start, strlen(start), true, name, error);
        if (!status)
            *out = value;
        return status;
    }
    /* Anything else is one plain scalar to its end: a shell's word may hold ": ", # or *. */
    while (length > (size_t)(start - text) && strchr(" \t\r\n", text[length - 1]))
        length--;
    /* Without the blanks around it. */
    char *copy = et_arena_strndup(arena, start, text + length - start);
    et_value *value = copy ? et_value_new(arena, ET_VALUE_STRING) : NULL;
    if (!value)
        return et_alloc_failed(error, name);
    value->line = 1;
    value->text = copy;
    value->string = copy;
    if (!et_yaml_resolve(value, copy))
        return et_fail(error, ET_EFORMAT, "%s: %s does not fit in 64 bits; quote it if it is text",
                       name, copy);
    *out = value;
    return ET_OK;
}

int et_yaml_parse_value(et_value **out, et_arena *arena, const char *text, const char *name,
                        et_error *error)
{
    int status = parse_value(out, arena, text, name, error);
    if (status != ET_EFORMAT)
        return status;
    if (error)
        error->status = ET_ECONFIG;
    return ET_ECONFIG;
}
