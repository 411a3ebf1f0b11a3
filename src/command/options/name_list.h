/* Names in the values of an option, each value a row of CSV: `age,job`, `"rose, wild",age`.
 *
 *     et_name_list_read(&names, "--keep", &args->keep, &arena, &error);
 *
 * The option may be given again: the names are those of all its values, in order. */
#ifndef ETUDE_COMMAND_OPTIONS_NAME_LIST_H
#define ETUDE_COMMAND_OPTIONS_NAME_LIST_H

#include <etude/fields.h>

#include "base/arena.h"

/* The names are in arena. ET_EUSAGE: a name is empty or is given twice, or a value is no row. */
int et_name_list_read(et_strings *names, const char *option, const et_strings *values,
                      et_arena *arena, et_error *error);

#endif
