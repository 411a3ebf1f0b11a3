/* Words become values as in YAML, but without YAML's quoting: a path is always text. */
#include "command/options/sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/numbers/decimal.h"
#include "base/text/format.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/options/options.h"

/* Letters of the name of a part. */
#define PART_NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

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

/* The word of the last time; NULL: the option was not given. */
static const char *last_word(const et_option_words *words)
{
    return words ? word_at(words, words->times - 1, 0) : NULL;
}

/* The names in the word of the last use; all: of each use. */
static int name_items(et_value **out, const et_option_words *words, bool all, const char *option,
                      et_arena *arena, et_error *error)
{
    const int first = all ? 0 : words->times - 1;
    const char **rows = et_arena_array(arena, (size_t)words->times, sizeof *rows);
    if (!rows)
        return et_alloc_failed(error, (size_t)words->times * sizeof *rows, "names");
    for (int i = first; i < words->times; i++)
        rows[i - first] = word_at(words, i, 0);
    et_strings names;
    int status = et_name_list_read(
        &names, option, &(et_strings){ rows, (size_t)(words->times - first) }, arena, error);
    *out = status ? NULL : et_value_list(arena);
    for (size_t i = 0; *out && i < names.count; i++)
        et_value_add_string(*out, names.items[i]);
    if (status)
        return status;
    return *out && !et_value_failed(*out) ? ET_OK : et_alloc_failed(error, 0, "settings");
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
    return et_experiment_assign_typed(experiment, name, key, value, arena, error);
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
    int status = et_experiment_assign_typed(experiment, name, row->sets->pairs, one, arena, error);
    for (int i = 0; pairs && i < settings_of(row) && !status; i++)
        status = et_experiment_assign_typed(experiment, name, row->sets->settings[i], none, arena,
                                            error);
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
        status = et_experiment_assign_typed(experiment, name, row->sets->settings[i], value, arena,
                                            error);
        used++;
    }
    if (!status && !used)
        status = *row->sets->settings
                     ? et_fail(error, ET_EUSAGE,
                               "--%s: the %s of %s has no such setting; `%s list %s` shows its "
                               "settings (use --set)",
                               row->field.name,
                               strncmp(*row->sets->settings, "trainer.", 8) ? "model" : "optimizer",
                               experiment->name, experiment->program->name, experiment->name)
                     : et_fail(error, ET_EUSAGE, "--%s: %s", row->field.name, row->field.help);
    return status;
}

/* ---- options that are given several times ---- */

static const et_option_words *words_of(const et_option_settings *settings, const char *name)
{
    for (int i = 0; name && i < settings->count; i++)
        if (!strcmp(settings->names[i], name) && settings->words[i].times)
            return &settings->words[i];
    return NULL;
}

/* "a.b.name" -> "name". */
static const char *last_name(const char *setting)
{
    const char *dot = strrchr(setting, '.');
    return dot ? dot + 1 : setting;
}

/* "text/new.en.gz" -> "new", "new-2" where that is taken. */
static const char *name_part(const et_value *parts, const char *path, et_arena *arena)
{
    const char *base = et_path_base(path), *name;
    char *stem = et_arena_printf(arena, "%.*s", (int)strcspn(base, "."), base);
    if (!stem)
        return NULL;
    for (char *at = stem; *at; at++)
        if (!strspn(at, PART_NAME))
            *at = '_';
    name = *stem ? stem : "set";
    for (int number = 2;; number++) {
        const et_value *part = parts->first;
        while (part && strcmp(et_value_get(part, "name")->string, name) != 0)
            part = part->next;
        if (!part)
            return name;
        name = et_arena_printf(arena, "%s-%d", *stem ? stem : "set", number);
        if (!name)
            return NULL;
    }
}

/* The files of one time that the option was given: a word for each setting, or one of pairs. */
static int add_part(et_value *parts, const et_option *row, const et_option_words *words, int time,
                    et_arena *arena, et_error *error)
{
    const int wanted = settings_of(row), found = words->given[time].count;
    const char *first = word_at(words, time, 0);
    const bool alone = row->sets->pairs && found == 1 && is_of_pairs(first);
    et_value *part = et_value_dict(arena);
    if (!alone && found != wanted)
        return et_fail(error, ET_EUSAGE, "--%s: takes %s each time, but found %s", row->field.name,
                       row->value, et_format_many(found, "word").text);
    for (int i = 0, word = 0; part && word < found; i++) {
        const char *setting = alone ? row->sets->pairs : row->sets->settings[i];
        if (!is_given(setting))
            et_value_set_string(part, last_name(setting), word_at(words, time, word++));
    }
    const char *name = row->sets->named ? name_part(parts, first, arena) : "";
    if (!part || !name || (*name && !et_value_set_string(part, "name", name)) ||
        et_value_failed(part))
        return et_alloc_failed(error, 0, "settings");
    et_value_append(parts, NULL, part);
    return ET_OK;
}

/* The items of an option that has one for each part, "3,1". */
typedef struct part_items {
    const char *option, *what; /* its name, and that of an item */
    const char *text, *at;
} part_items;

static int next_item(const char **item, part_items *items, const et_value *parts, bool last,
                     const et_option *row, et_arena *arena, et_error *error)
{
    const size_t length = strcspn(items->at, ",");
    const char *end = items->at + length;
    *item = et_arena_printf(arena, "%.*s", (int)length, items->at);
    items->at = end + (*end == ',');
    if (!*item)
        return et_alloc_failed(error, length, "settings");
    return last == !*end
               ? ET_OK
               : et_fail(error, ET_EUSAGE, "--%s %s: give one %s for each --%s (%zu), with commas",
                         items->option, items->text, items->what, row->field.name, parts->count);
}

static int weigh_part(et_value *part, const char *name, const char *item, et_arena *arena,
                      et_error *error)
{
    et_value *weight = scalar_of(item, arena);
    if (!weight)
        return et_alloc_failed(error, 0, "settings");
    const double number = weight->kind == ET_VALUE_INT     ? (double)weight->integer
                          : weight->kind == ET_VALUE_FLOAT ? weight->real
                                                           : -1;
    if (!(number > 0))
        return et_fail(error, ET_EUSAGE, "--%s: '%s' is not a positive number", name, weight->text);
    et_value_set_float(part, "weight", number);
    return ET_OK;
}

static int weigh_parts(et_value *parts, const et_option *row, const char *text, et_arena *arena,
                       et_error *error)
{
    part_items items = { row->sets->weights, "number", text, text };
    int status = ET_OK;
    for (et_value *part = parts->first; part && !status; part = part->next) {
        const char *item;
        status = next_item(&item, &items, parts, !part->next, row, arena, error);
        if (!status)
            status = weigh_part(part, items.option, item, arena, error);
    }
    return status;
}

/* A part without a tag has an empty item. */
static int tag_parts(et_value *parts, const et_option *row, const char *text, et_arena *arena,
                     et_error *error)
{
    part_items items = { row->sets->tags, "tag", text, text };
    int status = ET_OK;
    for (et_value *part = parts->first; part && !status; part = part->next) {
        const char *item;
        status = next_item(&item, &items, parts, !part->next, row, arena, error);
        if (!status && *item)
            et_value_set_string(part, "tag", item);
    }
    return status;
}

/* Groups in place of the settings that one text has. */
static int apply_parts(const et_option *row, const et_option_words *words, const char *weights,
                       const char *tags, et_experiment *experiment, et_arena *arena,
                       et_error *error)
{
    const char *name = et_arena_printf(arena, "--%s", row->field.name);
    et_value *parts = et_value_list(arena), *none = et_value_list(arena);
    int status = name && parts && none ? ET_OK : et_alloc_failed(error, 0, "settings");
    for (int time = 0; time < words->times && !status; time++)
        status = add_part(parts, row, words, time, arena, error);
    if (!status && weights)
        status = weigh_parts(parts, row, weights, arena, error);
    if (!status && tags)
        status = tag_parts(parts, row, tags, arena, error);
    if (!status && et_value_failed(parts))
        status = et_alloc_failed(error, 0, "settings");
    for (int i = 0; i < SETTINGS_MOST && row->sets->settings[i] && !status; i++)
        status = et_experiment_assign_typed(experiment, name, row->sets->settings[i], none, arena,
                                            error);
    if (!status && row->sets->pairs)
        status = et_experiment_assign_typed(experiment, name, row->sets->pairs, none, arena, error);
    return status ? status
                  : et_experiment_assign_typed(experiment, name, row->sets->parts, parts, arena,
                                               error);
}

/* Items of the parts of another option, which sets them (apply_parts), or of its only text. */
static int apply_items(const et_option *row, const et_option_words *words,
                       const et_option_words *of, et_experiment *experiment, et_arena *arena,
                       et_error *error)
{
    const char *setting = *row->sets->settings, *text = last_word(words);
    if (of && of->times > 1)
        return ET_OK;
    if (!of || !setting)
        return et_fail(error, ET_EUSAGE, "--%s: only with %s--%s", row->field.name,
                       setting ? "" : "several ", row->sets->of);
    if (strchr(text, ','))
        return et_fail(error, ET_EUSAGE, "--%s %s: give one tag for each --%s (1)", row->field.name,
                       text, row->sets->of);
    const char *name = et_arena_printf(arena, "--%s", row->field.name);
    et_value *value = et_value_new(arena, ET_VALUE_STRING);
    if (!name || !value)
        return et_alloc_failed(error, 0, "settings");
    value->text = value->string = text;
    return et_experiment_assign_typed(experiment, name, setting, value, arena, error);
}

/* ---- all ---- */

/* `--valid 0.2`: a fraction in place of files. */
static int check_files(const et_option *row, const et_option_words *words,
                       const et_experiment *experiment, et_error *error)
{
    const char *word = row->value && !strncmp(row->value, "FILE", 4) ? last_word(words) : NULL;
    char *end = NULL;
    const double fraction = word ? et_decimal_read_typed(word, &end) : 0;
    if (!word || !(fraction > 0 && fraction < 100) || (*end && *end != '%') || et_file_exists(word))
        return ET_OK;
    return et_fail(error, ET_EUSAGE, "--%s %s: there is no such file%s", row->field.name, word,
                   find(experiment->kind->options, "held-out")
                       ? "; to hold out a fraction of the rows, use --held-out FRACTION"
                       : "");
}

static int apply_names(const et_option *row, const et_option_words *words, const char *name,
                       et_experiment *experiment, et_arena *arena, et_error *error)
{
    et_value *names = NULL;
    int status = name_items(&names, words, row->sets->list, name, arena, error);
    return status ? status
                  : et_experiment_assign_typed(experiment, name, row->sets->settings[0], names,
                                               arena, error);
}

static int apply(const et_option *row, const et_option_words *words,
                 const et_option_settings *settings, et_experiment *experiment, et_arena *arena,
                 et_error *error)
{
    if (row->sets->of)
        return apply_items(row, words, words_of(settings, row->sets->of), experiment, arena, error);
    if (row->sets->parts && words->times > 1)
        return apply_parts(row, words, last_word(words_of(settings, row->sets->weights)),
                           last_word(words_of(settings, row->sets->tags)), experiment, arena,
                           error);
    if (taking_of(row) == TAKES_ONE)
        return apply_one(row, words, experiment, arena, error);
    if (row->sets->parts) {
        /* One text: parts of a run whose settings are used are none. */
        const char *name = et_arena_printf(arena, "--%s", row->field.name);
        et_value *none = et_value_list(arena);
        int cleared = name && none ? et_experiment_assign_typed(experiment, name, row->sets->parts,
                                                                none, arena, error)
                                   : et_alloc_failed(error, 0, "settings");
        if (cleared)
            return cleared;
    }
    const int wanted = settings_of(row);
    const int last = words->times - 1, found = row->value ? words->given[last].count : 0;
    const bool list = taking_of(row) != TAKES_VALUES;
    const char *pairs = row->sets->pairs && found == 1 ? word_at(words, last, 0) : NULL;
    const bool alone = pairs && is_of_pairs(pairs);
    if (!list && wanted && wanted != found && !alone)
        return et_fail(
            error, ET_EUSAGE, "--%s: takes %s (%s), but found %d%s", row->field.name,
            wanted == 2 ? "two words" : "one word", row->value, found,
            row->sets->pairs
                ? "; the name of a file of pairs ends in .tsv, and a table needs --target COLUMN"
                : "");
    const char *name = et_arena_printf(arena, "--%s", row->field.name);
    int status =
        name ? check_files(row, words, experiment, error) : et_alloc_failed(error, 0, "settings");
    if (!status && row->sets->names)
        return apply_names(row, words, name, experiment, arena, error);
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
        status = value ? et_experiment_assign_typed(experiment, name, row->sets->settings[i], value,
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
    et_assert(settings->count >= 0 && experiment->kind);
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
        int status = apply(row, &settings->words[i], settings, experiment, arena, error);
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
