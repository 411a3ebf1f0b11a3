/* Shared code of the tests of `etude serve`: a small model `m` whose translations are known,
 * requests for them, and valid or refused answers. Include after cmocka.h. */
#ifndef ETUDE_TESTS_CLI_SERVED_H
#define ETUDE_TESTS_CLI_SERVED_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/value.h>

#include "base/arena.h"

enum { SERVED_LINES = 60 }; /* of a.en, and of its translations by `translate` */

/* Seconds for an immediate answer: less than the ten seconds that a partial request may take. */
#define SERVED_PATIENCE 9

#define START "POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
#define JSON  "Content-Type: application/json\r\n"
#define GOOD  "Content-Length: 16\r\n\r\n{\"lines\": [\"a\"]}"

/* Setup of a group: bad_set_up, and the model. bad_tear_down ends it. */
int served_set_up(void **state);

/* A line of a.en and its translation. */
const char *served_source(int line);
const char *served_target(int line);

/* {"lines": [...]} of some lines, from first on, cyclically; options precede them; free it. */
char *request_of(int first, int count, const char *options);

const et_value *parse(et_arena *arena, const char *text);

/* Whether an answer has the command's words. */
bool is_right(const char *answer, int first, int count);
void assert_right(int port, int first, int count);

/* Refused with this status and an error in JSON that says these words; NULL: any. */
void assert_refused(const char *name, const char *answer, int status, const char *words);

/* Posts all bodies that are no request: each is refused. How many there are. */
size_t assert_bad_json(int port);

void assert_answers_at_once(int port, const char *path);

/* count times a text, around it before and after; free it. */
char *repeat(const char *before, const char *text, size_t count, const char *after);

#endif
