/* Messages of ICU with branches, as programs write them for plurals and genders:
 *
 *     {count, plural, one {# file} other {# files}}
 *
 * The syntax is for programs; the texts of the branches are for people. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_MESSAGES_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Messages inside of branches, at most; deeper ones are text. */
#define ET_MESSAGES_MAX 8

typedef struct et_message {
    size_t start, end; /* of the whole, with its braces */
    size_t first;      /* where its branches begin */
    bool counts;       /* plural or selectordinal: # is the number */
} et_message;

/* Whether a message may begin in text: quick. */
bool et_message_may_begin(const char *text, size_t length);

/* Finds the first whole message at from or later. false: none. */
bool et_message_find(const char *text, size_t length, size_t from, et_message *message);

/* The text of the next branch, [from, to). *at: message.first at first. false: none is left. end:
 * the message's. */
bool et_message_branch(const char *text, size_t end, size_t *at, size_t *from, size_t *to);

/* Bytes of the quoted syntax that text begins with, such as '{'; 0: none. */
size_t et_message_quoted(const char *text, size_t length);

#endif
