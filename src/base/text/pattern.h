/* Lists of regular expressions that are searched in names (Perl's syntax, no implied anchors), for
 * example to choose parameters that decay. Only this module uses PCRE2. After compile, matching is
 * thread-safe. */
#ifndef ETUDE_BASE_TEXT_PATTERN_H
#define ETUDE_BASE_TEXT_PATTERN_H

#include <stdbool.h>

#include <etude/fields.h>

typedef struct et_patterns et_patterns;

/* Compiles every expression. ET_ECONFIG names setting, expression and position of a fault. */
int et_patterns_new(et_patterns **out, et_strings expressions, const char *setting,
                    et_error *error);
void et_patterns_free(et_patterns *patterns); /* NULL allowed */

/* Whether any expression is found in text. An expression that needs too much work (matching
 * is limited) counts as not found. */
bool et_patterns_match(const et_patterns *patterns, const char *text);

/* The same for one pattern of the list, by index. */
bool et_patterns_match_one(const et_patterns *patterns, size_t index, const char *text);

#endif
