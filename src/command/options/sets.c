/* Words become values as in YAML, but without YAML's quoting: a path is always text. */
#include "command/options/sets.h"

#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "base/values/yaml_scalar.h"

enum { SETTINGS_MOST = sizeof((et_option_sets *)0)->settings / sizeof(const char *) };

static const et_option *find(const et_option *table, const char *name)
{
    for (; table && table->field.name; table++)
        if (!strcmp(table->field.name, name))
            return table;
    return NULL;
}

typedef enum taking {
    TAKES_VALUES, /* a word for each setting, or none */
    TAKES_ONE,    /* "RATE": one word for all settings */
    TAKES_ITEMS,  /* "FILE,...", "TEXT...": items of one list */
} taking;

/* "KEY=VALUE": a setting that takes no word. */
static bool is_given(const char *setting)
{
    return strchr(setting, '=') != NULL;
}

/* Settings that take words. */
static int settings_of(const et_option *row)
{
    int count = 0;
    for (int i = 0; i < SETTINGS_MOST && row->sets->settings[i]; i++)
        count += !is_given(row->sets->settings[i]);
    return count;
}

static taking taking_of(const et_option *row)
{
    const char *dots = row->value ? strstr(row->value, "...") : NULL;
    if (!dots && et_option_names(row->value) == 1)
        return TAKES_ONE;
    return settings_of(row) == 1 && dots && dots > row->value && !dots[3] ? TAKES_ITEMS
                                                                          : TAKES_VALUES;
}

/* A word that YAML reads as null ("null", "~") is kept as text: to set nothing, leave the option
 * out. */
static et_value *scalar_of(const char *word, et_arena *arena)
{
    et_value *value = et_value_new(arena, ET_VALUE_STRING);
    if (!value)
        return NULL;
    value->text = value->string = word;
    et_yaml_resolve(value, word);
    if (value->kind == ET_VALUE_NULL) {
        value->kind = ET_VALUE_STRING;
        value->string = word;
    }
    return value;
}

/* The word at a place of one time that the option was given. */
static const char *word_at(const et_option_words *words, int time, int at)
{
    return words->given[time].items[at];
}

/* The words of every use, as a list; a single word as a scalar. */
static et_value *items_of(const et_option_words *words, et_arena *arena)
{
    if (words->times == 1 && words->given[0].count == 1)
        return scalar_of(word_at(words, 0, 0), arena);
    et_value *list = et_value_list(arena);
    for (int time = 0; list && time < words->times; time++)
        for (int i = 0; i < words->given[time].count; i++) {
            et_value *item = scalar_of(word_at(words, time, i), arena);
            if (!item)
                return NULL;
            et_value_append(list, NULL, item);
        }
    return list;
}

/* As in --set. */
static int assign_given(et_experiment *experiment, const char *name, const char *setting,
                        et_arena *arena, et_error *error)
{
    const char *equals = strchr(setting, '=');
    const char *key = et_arena_printf(arena, "%.*s", (int)(equals - setting), setting);
    et_value *value = et_value_new(arena, ET_VALUE_STRING);
    if (!key || !value)
        return et_alloc_failed(error, 0, "settings");
    value->text = value->string = equals + 1;
    et_yaml_resolve(value, value->text);
    return et_experiment_assign(experiment, name, key, value, arena, error);
}

/* An option sets either two settings, each with one word, or one setting that takes a file of
 * pairs. The unused form is set to empty.
 */
static int apply_form(const et_option *row, const char *name, const char *pairs,
                      et_experiment *experiment, et_arena *arena, et_error *error)
{
    et_value *none = et_value_list(arena), *one = et_value_list(arena);
    if (!none || !one || (pairs && !et_value_add_string(one, pairs)))
        return et_alloc_failed(error, 0, "settings");
    int status = et_experiment_assign(experiment, name, row->sets->pairs, one, arena, error);
    for (int i = 0; pairs && i < settings_of(row) && !status; i++)
        status = et_experiment_assign(experiment, name, row->sets->settings[i], none, arena, error);
    return status;
}

static bool is_of_pairs(const char *path)
{
    return et_path_ends(path, ".tsv") || et_path_ends(path, ".tsv.gz");
}

/* One word for all settings that count. A list has the word of each time, another setting the last.
 */
static int apply_one(const et_option *row, const et_option_words *words, et_experiment *experiment,
                     et_arena *arena, et_error *error)
{
    const char *name = et_arena_printf(arena, "--%s", row->field.name);
    const et_value *value = row->sets->list ? items_of(words, arena)
                                            : scalar_of(word_at(words, words->times - 1, 0), arena);
    if (!name || !value)
        return et_alloc_failed(error, 0, "settings");
    int status = ET_OK, used = 0;
    for (int i = 0; i < SETTINGS_MOST && row->sets->settings[i] && !status; i++) {
        if (is_given(row->sets->settings[i])) {
            status = assign_given(experiment, name, row->sets->settings[i], arena, error);
            continue;
        }
        if (!et_fields_is_open(experiment->table, experiment, row->sets->settings[i]))
            continue;
        status =
            et_experiment_assign(experiment, name, row->sets->settings[i], value, arena, error);
        used++;
    }
    if (!status && !used)
        status = *row->sets->settings
                     ? et_fail(error, ET_EUSAGE,
                               "--%s: the model of %s has no such setting; `%s list %s` shows its "
                               "settings (use --set)",
                               row->field.name, experiment->name, experiment->program->name,
                               experiment->name)
                     : et_fail(error, ET_EUSAGE, "--%s: %s", row->field.name, row->field.help);
    return status;
}

static int apply(const et_option *row, const et_option_words *words, et_experiment *experiment,
                 et_arena *arena, et_error *error)
{
    if (taking_of(row) == TAKES_ONE)
        return apply_one(row, words, experiment, arena, error);
    const int wanted = settings_of(row);
    const int last = words->times - 1, found = row->value ? words->given[last].count : 0;
    const bool list = taking_of(row) != TAKES_VALUES;
    const char *pairs = row->sets->pairs && found == 1 ? word_at(words, last, 0) : NULL;
    const bool alone = pairs && is_of_pairs(pairs);
    if (!list && wanted && wanted != found && !alone)
        return et_fail(error, ET_EUSAGE, "--%s: takes %s (%s), but found %d%s", row->field.name,
                       wanted == 2 ? "two words" : "one word", row->value, found,
                       row->sets->pairs ? "; the name of a file of pairs ends in .tsv" : "");
    const char *name = et_arena_printf(arena, "--%s", row->field.name);
    int status = name ? ET_OK : et_alloc_failed(error, 0, "settings");
    if (!status && row->sets->pairs)
        status = apply_form(row, name, alone ? pairs : NULL, experiment, arena, error);
    if (alone)
        return status;
    for (int i = 0, word = 0; i < SETTINGS_MOST && row->sets->settings[i] && !status; i++) {
        if (is_given(row->sets->settings[i])) {
            status = assign_given(experiment, name, row->sets->settings[i], arena, error);
            continue;
        }
        const et_value *value =
            list ? items_of(words, arena) : scalar_of(word_at(words, last, word++), arena);
        status = value ? et_experiment_assign(experiment, name, row->sets->settings[i], value,
                                              arena, error)
                       : et_alloc_failed(error, 0, "settings");
    }
    return status;
}

static bool is_used(const et_option_settings *settings, const char *name)
{
    for (int i = 0; i < settings->count; i++)
        if (!strcmp(settings->names[i], name))
            return settings->words[i].times > 0;
    return false;
}

int et_option_settings_apply(const et_option_settings *settings, et_experiment *experiment,
                             et_arena *arena, et_error *error)
{
    if (is_used(settings, "steps") && is_used(settings, "epochs"))
        return et_fail(error, ET_EUSAGE, "--steps and --epochs: give only one of them");
    for (int i = 0; i < settings->count; i++) {
        const char *name = settings->names[i];
        if (!settings->words[i].times)
            continue;
        const et_option *row = find(experiment->kind->options, name);
        if (!row)
            row = find(et_option_general, name);
        if (!row)
            return et_fail(error, ET_EUSAGE,
                           "--%s: experiment %s, a task of %s, has no such option", name,
                           experiment->name, experiment->kind->name);
        int status = apply(row, &settings->words[i], experiment, arena, error);
        if (status)
            return status;
    }
    return ET_OK;
}

/* ---- the experiment that data is for ---- */

/* Whether a kind has all options that are given. */
static bool has_all(const et_option_settings *settings, const et_task_kind *kind)
{
    for (int i = 0; i < settings->count; i++) {
        const char *name = settings->names[i];
        const bool given = settings->words[i].times > 0;
        if (given && !find(kind->options, name) && !find(et_option_general, name))
            return false;
    }
    return true;
}

/* Whether no other kind has them. */
static bool is_only(const et_option_settings *settings, const et_program *program,
                    const et_task_kind *kind)
{
    for (int k = 0; k < program->count; k++)
        if (program->kinds[k] != kind && has_all(settings, program->kinds[k]))
            return false;
    return true;
}

const char *et_option_settings_experiment(const et_option_settings *settings,
                                          const et_program *program)
{
    const char *by_name = NULL, *other = NULL;
    int others = 0;
    for (int k = 0; k < program->count; k++) {
        const et_task_kind *kind = program->kinds[k];
        for (int i = 0; has_all(settings, kind) && i < settings->count; i++) {
            const et_option *row = find(kind->options, settings->names[i]);
            if (!row || !row->sets->experiment || !settings->words[i].given)
                continue;
            if (row->sets->endings &&
                et_option_ends_in(word_at(&settings->words[i], 0, 0), row->sets->endings))
                by_name = row->sets->experiment;
            if (row->sets->endings && !is_only(settings, program, kind))
                continue;
            other = row->sets->experiment;
            others++;
        }
    }
    return by_name ? by_name : others == 1 ? other : NULL;
}
