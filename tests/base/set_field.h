/* Sets a member by its dotted path from YAML text, as `--set path=text` does. */
#ifndef ETUDE_TEST_SET_FIELD_H
#define ETUDE_TEST_SET_FIELD_H

#include "base/fields/fields.h"
#include "base/fields/settings.h"

static inline int set_field(const et_fields *table, void *options, const char *path,
                            const char *text, et_arena *arena, et_error *error)
{
    const et_fields_origin from = { .name = "--set", .arena = arena, .option = true };
    return et_fields_set_from(&from, table, options, path, NULL, text, error);
}

#endif
