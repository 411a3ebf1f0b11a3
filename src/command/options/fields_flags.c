/* Settings of a program from its command line, by a table of two rows: one takes the flags with a
 * prefix, the other the remaining words. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/options/options.h"

int et_fields_flags(const et_fields *table, void *options, const char *prefix, int *argc,
                    char **argv, et_arena *arena, et_error *error)
{
    et_assert(table && options && *argc >= 0);
    struct whole {
        void *options;
        et_strings left;
    } whole = { options, { NULL, 0 } };
    const et_option rows[] = {
        { .field = { .name = prefix ? prefix : "",
                     .kind = ET_FIELD_KIND_STRUCT,
                     .offset = offsetof(struct whole, options),
                     .nested = table,
                     .indirect = true },
          .form = ET_OPTION_FORM_FIELDS },
        ET_OPTION_ROW(struct whole, left, et_strings, STRINGS, PASSED, "", NULL, ""),
        ET_OPTION_END,
    };
    const int own = *argc > 0; /* the program's name */
    const et_usage usage = { rows, 0, NULL, NULL };
    const et_program program = { .name = "command line" };
    const et_call call = {
        .program = &program, .command = "", .argc = *argc - own, .argv = argv + own
    };
    et_command_line line;
    int status = et_command_line_open(&line, &usage, &whole, &call, arena, error);
    if (!status)
        status = et_command_line_parse(&line, error);
    if (status)
        return status;
    for (size_t i = 0; i < whole.left.count; i++)
        argv[own + (int)i] = (char *)(uintptr_t)whole.left.items[i];
    if (own + (int)whole.left.count < *argc)
        argv[own + whole.left.count] = NULL;
    *argc = own + (int)whole.left.count;
    return ET_OK;
}
