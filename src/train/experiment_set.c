/* Settings as they stand on a command line:
 *
 *   setting    = "{" tree "}"  |  assignment { "," assignment }
 *   assignment = name "." name { "." name } "=" value
 *   value      = anything up to a comma that begins another assignment; commas within
 *                brackets or quotes never do
 *
 *   trainer.train_steps=2000                                one
 *   trainer.train_steps=2000,runtime.seed=3                 two
 *   task.train_data.path=[a.txt,b.txt]                      one, a list
 *   task.train_data.path=a,b.txt                            one: "b.txt" is no assignment
 *
 * Values are YAML in flow style (base/fields.h reads them by the field's kind). The commas are
 * Model Garden's --params_override. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/yaml.h"
#include "train/experiment.h"

/* Whether text begins with a dotted name and =: all settings are below a group. */
static bool begins_assignment(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    et_assert(text);
    text += strspn(text, " ");
    size_t length = strspn(text, letters);
    /* One name before = and no dot is a value such as "a=b", not a setting. */
    bool dotted = false;
    while (length && text[length] == '.') {
        dotted = true;
        text += length + 1;
        length = strspn(text, letters);
    }
    return dotted && length && text[length] == '=';
}

/* The end of a value in flow style or in quotes: behind its last bracket. An end that is missing
 * is found at the end of the text; YAML's parser says what is wrong. In double quotes a
 * backslash takes the next character with it, in single quotes nothing does. */
static const char *skip_enclosed(const char *value)
{
    int depth = 0;
    char quote = 0;
    for (; *value; value++) {
        if (quote) {
            if (*value == '\\' && quote == '"' && value[1])
                value++;
            else if (*value == quote)
                quote = 0;
        } else if (*value == '"' || *value == '\'') {
            quote = *value;
        } else if (*value == '[' || *value == '{') {
            depth++;
        } else if (*value == ']' || *value == '}') {
            depth--;
        }
        if (!quote && depth <= 0)
            return value + 1;
    }
    return value;
}

/* The end of the assignment at text: the comma before the next one, or the end of all. text has
 * an =, as the caller has seen. */
static const char *assignment_end(const char *text)
{
    et_assert(strchr(text, '='));
    const char *value = strchr(text, '=') + 1;
    if (*value && strchr("[{\"'", *value))
        value = skip_enclosed(value);
    while ((value = strchr(value, ',')) && !begins_assignment(value + 1))
        value++;
    return value ? value : text + strlen(text);
}

/* Copies path and value, since they are parts of one text and the readers want a 0 behind each.
 * The copies live in arena: strings of the settings point into them. */
static int set_one(et_experiment *experiment, const char *assignment, size_t length,
                   et_arena *arena, et_error *error)
{
    /* The first = ends the name; others belong to the value. */
    const char *equals = memchr(assignment, '=', length);
    if (!equals || equals == assignment)
        return et_fail(error, ET_EUSAGE,
                       "--set %.*s: not of the form key=value, such as trainer.train_steps=2000",
                       (int)length, assignment);
    const char *path = et_arena_printf(arena, "%.*s", (int)(equals - assignment), assignment);
    const char *value =
        et_arena_printf(arena, "%.*s", (int)(assignment + length - equals - 1), equals + 1);
    if (!path || !value)
        return et_alloc_failed(error, length, "a setting");
    return et_fields_set(experiment->table, experiment, path, value, arena, error);
}

/* Model Garden takes a whole tree here, too. */
static int set_tree(et_experiment *experiment, const char *text, et_arena *arena, et_error *error)
{
    et_value *dict;
    int status = et_yaml_parse_value(&dict, arena, text, "--set", error);
    if (status == ET_EFORMAT && error) /* on the command line it is a setting that is wrong */
        error->status = status = ET_ECONFIG;
    return status ? status
                  : et_fields_read(experiment->table, experiment, dict, arena, "--set", "", error);
}

/* From left to right; the first that is wrong ends it, those before it are set by then. */
int et_experiment_set(et_experiment *experiment, const char *assignment, et_arena *arena,
                      et_error *error)
{
    if (*assignment == '{')
        return set_tree(experiment, assignment, arena, error);
    int status;
    do {
        assignment += strspn(assignment, " ");
        const char *end =
            strchr(assignment, '=') ? assignment_end(assignment) : assignment + strlen(assignment);
        status = set_one(experiment, assignment, (size_t)(end - assignment), arena, error);
        assignment = *end ? end + 1 : end;
    } while (!status && *assignment);
    return status;
}
