/* Settings from a command line. A flag's path becomes a tree of dicts with the value at its end,
 * which is read as a file's would be. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/values/value.h"
#include "base/values/yaml.h"

#define WHERE "command line"

/* What stands behind "--" and "prefix." of an argument; NULL: it is no such flag. */
static const char *flag_path(const char *argument, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(argument, "--", 2) || !argument[2])
        return NULL;
    argument += 2;
    if (!length)
        return argument;
    return !strncmp(argument, prefix, length) && argument[length] == '.' ? argument + length + 1
                                                                         : NULL;
}

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

static int set_flag(const et_fields *table, void *options, const char *prefix, const char *path,
                    const char *text, et_arena *arena, et_error *error)
{
    size_t length = strcspn(path, "=");
    et_value *value = NULL;
    int status = et_yaml_parse_value(&value, arena, text, WHERE, error);
    if (status == ET_ECONFIG)
        return et_fail_while(error, status, "--%s%s%.*s", prefix, *prefix ? "." : "", (int)length,
                             path);
    if (status)
        return status;
    value->line = 0;
    et_value *dict = nest(arena, path, length, value);
    return dict ? et_fields_read(table, options, dict, arena, WHERE, prefix, error)
                : et_alloc_failed(error, length, "a flag");
}

/* How many arguments a flag is, with its text. What is a flag itself is no value: that was
 * forgotten, and --key=--value says that it is meant. */
static int flag_text(const char **text, const char *path, const char *next)
{
    const char *sign = strchr(path, '=');
    *text = sign ? sign + 1 : next && strncmp(next, "--", 2) != 0 ? next : NULL;
    return sign ? 1 : 2;
}

int et_fields_flags(const et_fields *table, void *options, const char *prefix, int *argc,
                    char **argv, et_arena *arena, et_error *error)
{
    int kept = *argc > 0, i = kept;
    prefix = prefix ? prefix : "";
    while (i < *argc && strcmp(argv[i], "--")) {
        const char *path = flag_path(argv[i], prefix), *text;
        if (!path) {
            argv[kept++] = argv[i++];
            continue;
        }
        const char *flag = argv[i];
        i += flag_text(&text, path, i + 1 < *argc ? argv[i + 1] : NULL);
        if (!text)
            return et_fail(error, ET_ECONFIG, "%s: a value is missing", flag);
        int status = set_flag(table, options, prefix, path, text, arena, error);
        if (status)
            return status;
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    if (kept < *argc)
        argv[kept] = NULL;
    *argc = kept;
    return ET_OK;
}
