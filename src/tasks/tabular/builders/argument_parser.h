/* Declarations for arguments.c and argument_parser.c. */
#ifndef ETUDE_TASKS_TABULAR_TENSORFX_ARGUMENT_PARSER_H
#define ETUDE_TASKS_TABULAR_TENSORFX_ARGUMENT_PARSER_H

#include <etude/arguments.h>

#include "base/arena.h"

struct et_argument_parser {
    et_arena arena;   /* of the name */
    const char *name; /* of the program */
    et_option *flags; /* [count], owned; then one row that ends them */
    size_t count, capacity;
};

/* Every flag's member becomes its default. */
void et_argument_parser_reset(const et_argument_parser *parser, et_arguments *arguments);

/* Sets the member with the value's name; where: the beginning of a message. ET_ECONFIG. */
int et_argument_parser_set(const et_argument_parser *parser, et_arguments *arguments,
                           const char *key, const et_value *value, et_error *error);

/* All values, by name, in arena; NULL if no memory is left. */
et_value *et_arguments_echo(const et_arguments *arguments, et_arena *arena);

bool et_arguments_is(const et_arguments *arguments, const et_arguments_class *kind);

#endif
