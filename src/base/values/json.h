/* JSON to values and back, with jansson; only this module uses it. The reader is for hostile input:
 * depth, size, duplicate keys, invalid UTF-8 and NUL in strings are errors with line and column. */
#ifndef ETUDE_BASE_VALUES_JSON_H
#define ETUDE_BASE_VALUES_JSON_H

#include <etude/value.h>

#include "base/arena.h"
#include "base/text/strbuf.h"

/* Parses length bytes. name is for messages (a file's path); NULL: the text is one line, messages
 * have only the column, and the caller adds the file and line. ET_EFORMAT also for an integer
 * beyond 64 bits and a number beyond a double. */
int et_json_parse(et_value **out, et_arena *arena, const char *text, size_t length,
                  const char *name, et_error *error);

/* The same for data, whose numbers may be texts of digits: each number keeps its text as written
 * (et_value.text). No number is too large: an integer beyond 64 bits is a float, and a number
 * beyond a double an infinite one. */
int et_json_parse_written(et_value **out, et_arena *arena, const char *text, size_t length,
                          const char *name, et_error *error);

/* Appends value as JSON: compact on one line if indent is 0. Floats are printed with the
 * fewest digits that read back equal, in the C locale; NaN and infinity as null. */
void et_json_print(et_strbuf *out, const et_value *value, int indent);

/* The lines of a file, each a value:
 *
 *     int status = et_json_lines_open(&lines, path, most, &error);
 *     while (!status && !(status = et_json_lines_next(&lines, &line, &error)) && line)
 *         status = ...;
 *     et_json_lines_close(&lines);
 *
 * A last line without its end, as a kill leaves it, is not read. The caller adds path and number to
 * the message of a failure. */
typedef struct et_json_lines {
    char *text;           /* owned */
    const char *at, *end; /* bytes not read yet; at the end: the torn line */
    int64_t number;       /* of the last line that was read, from 1 */
    et_arena arena;       /* of this line */
} et_json_lines;

/* most: bytes. After a failure there is nothing to close. */
int et_json_lines_open(et_json_lines *lines, const char *path, size_t most, et_error *error);
/* line is valid until the next call. NULL: there are no more. */
int et_json_lines_next(et_json_lines *lines, et_value **line, et_error *error);
void et_json_lines_close(et_json_lines *lines);

/* Whether both print the same. False also if memory is short. */
bool et_json_same(const et_value *a, const et_value *b);

/* "an object", "null": the name of a kind for people who write JSON (et_value_kind_name has the
 * words of settings). */
const char *et_json_kind_name(et_value_kind kind);

/* Replaces a file as a whole (et_file_write); end follows the value: "\n", "". ET_ENOMEM also if
 * value is incomplete. */
int et_json_write(const char *path, const et_value *value, int indent, const char *end,
                  et_error *error);

/* Appends text in quotes. A byte that is not UTF-8 (a path from the system may have one) becomes
 * U+FFFD, so that readers accept the result. */
void et_json_print_string(et_strbuf *out, const char *text);

/* The same without quotes; print_valid appends the parts that are UTF-8. */
typedef void et_json_print_fn(et_strbuf *out, const char *text, size_t length);
void et_json_print_mended(et_strbuf *out, const char *text, et_json_print_fn *print_valid);

#endif
