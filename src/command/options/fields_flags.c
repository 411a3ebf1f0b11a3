/* Settings of a program from its command line: a table of two rows, of which one takes the flags of
 * a prefix and the other what is left. */
#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/options/options.h"

#define WHERE "command line"

/* A dict with value at a dotted path, length long. */
static et_value *nest(et_arena *arena, const char *path, size_t length, et_value *value)
{
    et_value *whole = et_value_dict(arena), *dict = whole;
    while (whole) {
        size_t part = strcspn(path, ".");
        part = part < length ? part : length;
        const char *key = et_arena_printf(arena, "%.*s", (int)part, path);
        if (!key)
            return NULL;
        if (part == length) {
            et_value_append(dict, key, value);
            return et_value_failed(whole) ? NULL : whole;
        }
        dict = et_value_set_dict(dict, key);
        path += part + 1;
        length -= part + 1;
    }
    return NULL;
}

int et_option_set_below(const et_option_slot *slot, const char *path, size_t length,
                        const char *text, et_arena *arena, et_error *error)
{
    const char *prefix = slot->row->field.name;
    et_value *value = NULL;
    int status = et_yaml_parse_value(&value, arena, text, WHERE, error);
    if (status == ET_ECONFIG)
        return et_fail_while(error, status, "--%s%s%.*s", prefix, *prefix ? "." : "", (int)length,
                             path);
    if (status)
        return status;
    value->line = 0;
    et_value *dict = nest(arena, path, length, value);
    return dict ? et_fields_read(slot->row->field.nested, slot->member, dict, arena, WHERE, prefix,
                                 error)
                : et_alloc_failed(error, length, "a flag");
}

int et_fields_flags(const et_fields *table, void *options, const char *prefix, int *argc,
                    char **argv, et_arena *arena, et_error *error)
{
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
          .way = ET_OPTION_WAY_FIELDS },
        ET_OPTION_ROW(struct whole, left, et_strings, STRINGS, PASSED, "", NULL, ""),
        ET_OPTION_END,
    };
    const int own = *argc > 0; /* the program's name */
    const et_usage usage = { rows, 0, NULL, NULL };
    const et_program program = { .name = WHERE };
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
