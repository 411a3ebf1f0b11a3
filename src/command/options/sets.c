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
    TAKES_VALUES, /* a word for each setting, or no words */
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

/* An option while its settings are applied. Its first failure stays in status, and later
 * assignments do nothing. */
typedef struct applying {
    const et_option *row;
    const et_option_uses *words;
    const et_option_settings *settings;
    et_experiment *experiment;
    et_arena *arena;
    et_error *error;
    const char *name; /* "--data" */
    int status;
} applying;

/* value NULL, or not whole: no memory. */
static void assign(applying *a, const char *setting, const et_value *value)
{
    if (!a->status)
        a->status = et_value_failed(value)
                        ? et_alloc_failed(a->error, "settings")
                        : et_experiment_assign_typed(a->experiment, a->name, setting, value,
                                                     a->arena, a->error);
}

static et_value *typed_of(const char *word, et_arena *arena)
{
    et_value *value = et_value_new(arena, ET_VALUE_STRING);
    if (value) {
        value->text = value->string = word;
        et_yaml_resolve(value, word);
    }
    return value;
}

/* A word that YAML reads as null ("null", "~") stays a text. To set nothing, leave the option
 * out. */
static et_value *scalar_of(const char *word, et_arena *arena)
{
    et_value *value = typed_of(word, arena);
    if (value && value->kind == ET_VALUE_NULL) {
        value->kind = ET_VALUE_STRING;
        value->string = word;
    }
    return value;
}

/* The word at a place of one time that the option was given. */
static const char *word_at(const et_option_uses *words, int time, int at)
{
    return words->given[time].items[at];
}

/* The word of the last time; NULL: the option was not given. */
static const char *last_word(const et_option_uses *words)
{
    return words ? word_at(words, words->times - 1, 0) : NULL;
}

/* The names in the word of the last use; of an option that is a list, of each use. */
static void apply_names(applying *a)
{
    const int times = a->words->times, first = a->row->sets->list ? 0 : times - 1;
    const char **rows = et_arena_array(a->arena, times, sizeof *rows);
    if (!rows) {
        a->status = et_alloc_failed(a->error, "names");
        return;
    }
    for (int i = first; i < times; i++)
        rows[i - first] = word_at(a->words, i, 0);
    et_strings names;
    a->status = et_name_list_read(&names, a->name, &(et_strings){ rows, (size_t)(times - first) },
                                  a->arena, a->error);
    et_value *list = a->status ? NULL : et_value_list(a->arena);
    for (size_t i = 0; list && i < names.count; i++)
        et_value_add_string(list, names.items[i]);
    assign(a, a->row->sets->settings[0], list);
}

/* The words of every use, as a list; a single word as a scalar. */
static et_value *items_of(const et_option_uses *words, et_arena *arena)
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
static void assign_given(applying *a, const char *setting)
{
    const char *equals = strchr(setting, '=');
    const char *key = et_arena_strndup(a->arena, setting, equals - setting);
    assign(a, key, typed_of(equals + 1, a->arena));
}

bool et_path_has_pairs(const char *path)
{
    return et_path_ends(path, ".tsv") || et_path_ends(path, ".tsv.gz");
}

/* Applies one word to all settings that have an effect. A list gets the words of all uses, any
 * other setting the last word. */
static void apply_one(applying *a)
{
    const et_option_sets *sets = a->row->sets;
    const et_value *value =
        sets->list ? items_of(a->words, a->arena) : scalar_of(last_word(a->words), a->arena);
    int used = 0;
    if (et_value_failed(value))
        a->status = et_alloc_failed(a->error, "settings");
    for (int i = 0; i < SETTINGS_MOST && sets->settings[i] && !a->status; i++) {
        if (is_given(sets->settings[i])) {
            assign_given(a, sets->settings[i]);
        } else if (et_fields_is_open(a->experiment->table, a->experiment, sets->settings[i])) {
            assign(a, sets->settings[i], value);
            used++;
        }
    }
    const char *experiment = a->experiment->name;
    if (!a->status && !used)
        a->status =
            *sets->settings
                ? et_fail(a->error, ET_EUSAGE,
                          "--%s: the %s of %s has no such setting; `%s list %s` shows its "
                          "settings (use --set)",
                          a->row->field.name,
                          strncmp(*sets->settings, "trainer.", 8) ? "model" : "optimizer",
                          experiment, a->experiment->program->name, experiment)
                : et_fail(a->error, ET_EUSAGE, "--%s: %s", a->row->field.name, a->row->field.help);
}

/* ---- options that are given several times ---- */

static const et_option_uses *words_of(const et_option_settings *settings, const char *name)
{
    for (int i = 0; name && i < settings->count; i++)
        if (!strcmp(settings->names[i], name) && settings->words[i].times)
            return &settings->words[i];
    return NULL;
}

/* "text/new.en.gz" -> "new", or "new-2" if "new" is used. */
static const char *name_part(const et_value *parts, const char *path, et_arena *arena)
{
    const char *base = et_path_base(path), *name;
    char *stem = et_arena_strndup(arena, base, strcspn(base, "."));
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

/* "--data a.tsv b.tsv" would be one text per language, and XML would be lines. */
static int check_pairs(const applying *a, int time)
{
    const int count = a->row->sets->pairs ? a->words->given[time].count : 0;
    for (int i = 0; i < count; i++) {
        const char *path = word_at(a->words, time, i);
        if (et_path_ends(path, ".tmx"))
            return et_fail(a->error, ET_EUSAGE,
                           "--%s: %s is TMX by its name, which is not read; make two text "
                           "files of it",
                           a->row->field.name, path);
        if (count > 1 && et_path_has_pairs(path))
            return et_fail(
                a->error, ET_EUSAGE,
                "--%s: %s has both languages by its name; give --%s once for each file of pairs",
                a->row->field.name, path, a->row->field.name);
    }
    return ET_OK;
}

/* The files of one use of the option: a word for each setting, or a file of pairs. */
static int add_part(applying *a, et_value *parts, int time)
{
    const et_option *row = a->row;
    const int wanted = settings_of(row), found = a->words->given[time].count;
    const char *first = word_at(a->words, time, 0);
    const bool alone = row->sets->pairs && found == 1 && et_path_has_pairs(first);
    et_value *part = et_value_dict(a->arena);
    int status = check_pairs(a, time);
    if (status)
        return status;
    if (!alone && found != wanted)
        return et_fail(a->error, ET_EUSAGE, "--%s: takes %s each time, but found %s",
                       row->field.name, row->value, et_format_many(found, "word").text);
    for (int i = 0, word = 0; part && word < found; i++) {
        const char *setting = alone ? row->sets->pairs : row->sets->settings[i];
        const char *dot = strrchr(setting, '.'); /* "a.b.name" -> "name" */
        if (!is_given(setting))
            et_value_set_string(part, dot ? dot + 1 : setting, word_at(a->words, time, word++));
    }
    const char *name = row->sets->named ? name_part(parts, first, a->arena) : "";
    if (!part || !name || (*name && !et_value_set_string(part, "name", name)) ||
        et_value_failed(part))
        return et_alloc_failed(a->error, "settings");
    et_value_append(parts, NULL, part);
    return ET_OK;
}

static int weigh_part(et_value *part, const char *name, const char *item, et_arena *arena,
                      et_error *error)
{
    et_value *weight = scalar_of(item, arena);
    if (!weight)
        return et_alloc_failed(error, "settings");
    const double number = weight->kind == ET_VALUE_INT     ? (double)weight->integer
                          : weight->kind == ET_VALUE_FLOAT ? weight->real
                                                           : -1;
    if (!(number > 0))
        return et_fail(error, ET_EUSAGE, "--%s: '%s' is not a positive number", name, weight->text);
    et_value_set_float(part, "weight", number);
    return ET_OK;
}

/* Items of another option, one for each part, "3,1": weights, or tags. A part without a tag has an
 * empty item. */
static void mark_parts(applying *a, et_value *parts, const char *option, bool weights)
{
    const char *text = last_word(words_of(a->settings, option)), *at = text;
    for (et_value *part = parts->first; text && part && !a->status; part = part->next) {
        const size_t length = strcspn(at, ",");
        const char *end = at + length;
        const char *item = et_arena_strndup(a->arena, at, length);
        at = end + (*end == ',');
        if (!item)
            a->status = et_alloc_failed(a->error, "settings");
        else if (!part->next != !*end)
            a->status = et_fail(a->error, ET_EUSAGE,
                                "--%s %s: give one %s for each --%s (%zu), with commas", option,
                                text, weights ? "number" : "tag", a->row->field.name, parts->count);
        else if (weights)
            a->status = weigh_part(part, option, item, a->arena, a->error);
        else if (*item)
            et_value_set_string(part, "tag", item);
    }
}

/* Groups in place of the settings that one text has. */
static void apply_parts(applying *a)
{
    const et_option_sets *sets = a->row->sets;
    et_value *parts = et_value_list(a->arena), *none = et_value_list(a->arena);
    if (!parts || !none)
        a->status = et_alloc_failed(a->error, "settings");
    for (int time = 0; time < a->words->times && !a->status; time++)
        a->status = add_part(a, parts, time);
    if (a->status)
        return;
    mark_parts(a, parts, sets->weights, true);
    mark_parts(a, parts, sets->tags, false);
    for (int i = 0; i < SETTINGS_MOST && sets->settings[i]; i++)
        assign(a, sets->settings[i], none);
    if (sets->pairs)
        assign(a, sets->pairs, none);
    assign(a, sets->parts, parts);
}

/* Items of the parts of another option, which sets them (apply_parts), or of its only text. */
static void apply_items(applying *a)
{
    const et_option_sets *sets = a->row->sets;
    const et_option_uses *of = words_of(a->settings, sets->of);
    const char *setting = *sets->settings, *text = last_word(a->words);
    if (of && of->times > 1)
        return;
    if (!of || !setting)
        a->status = et_fail(a->error, ET_EUSAGE, "--%s: only with %s--%s", a->row->field.name,
                            setting ? "" : "several ", sets->of);
    else if (strchr(text, ','))
        a->status = et_fail(a->error, ET_EUSAGE, "--%s %s: give one tag for each --%s (1)",
                            a->row->field.name, text, sets->of);
    et_value *value = a->status ? NULL : et_value_new(a->arena, ET_VALUE_STRING);
    if (value)
        value->text = value->string = text;
    assign(a, setting, value);
}

/* ---- all ---- */

/* `--valid 0.2`: a fraction in place of files. */
static int check_files(const et_option *row, const et_option_uses *words,
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

/* A word for each setting; or one file of pairs for the setting of pairs, and the unused form is
 * set to empty. */
static void apply_words(applying *a)
{
    const et_option_sets *sets = a->row->sets;
    const int wanted = settings_of(a->row), last = a->words->times - 1;
    const int found = a->row->value ? a->words->given[last].count : 0;
    const bool list = taking_of(a->row) != TAKES_VALUES;
    const char *pairs = sets->pairs && found == 1 ? word_at(a->words, last, 0) : NULL;
    const bool alone = pairs && et_path_has_pairs(pairs);
    /* A single text: clears parts that came from the settings of another run. */
    if (sets->parts)
        assign(a, sets->parts, et_value_list(a->arena));
    if (a->status || (a->status = check_pairs(a, last)))
        return;
    if (!list && wanted && wanted != found && !alone)
        a->status = et_fail(
            a->error, ET_EUSAGE, "--%s: takes %s (%s), but found %d%s", a->row->field.name,
            wanted == 2 ? "two words" : "one word", a->row->value, found,
            sets->pairs
                ? "; the name of a file of pairs ends in .tsv, and a table needs --target COLUMN"
                : "");
    else
        a->status = check_files(a->row, a->words, a->experiment, a->error);
    if (a->status)
        return;
    if (sets->names) {
        apply_names(a);
        return;
    }
    if (sets->pairs) {
        et_value *of_pairs = et_value_list(a->arena);
        if (alone)
            et_value_add_string(of_pairs, pairs);
        assign(a, sets->pairs, of_pairs);
    }
    for (int i = 0; alone && i < wanted; i++)
        assign(a, sets->settings[i], et_value_list(a->arena));
    for (int i = 0, word = 0; !alone && i < SETTINGS_MOST && sets->settings[i]; i++) {
        if (is_given(sets->settings[i]))
            assign_given(a, sets->settings[i]);
        else
            assign(a, sets->settings[i],
                   list ? items_of(a->words, a->arena)
                        : scalar_of(word_at(a->words, last, word++), a->arena));
    }
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
        applying a = { .row = row,
                       .words = &settings->words[i],
                       .settings = settings,
                       .experiment = experiment,
                       .arena = arena,
                       .error = error,
                       .name = et_arena_printf(arena, "--%s", name) };
        if (!a.name)
            return et_alloc_failed(error, "settings");
        if (row->sets->of)
            apply_items(&a);
        else if (row->sets->parts && a.words->times > 1)
            apply_parts(&a);
        else if (taking_of(row) == TAKES_ONE)
            apply_one(&a);
        else
            apply_words(&a);
        if (a.status)
            return a.status;
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
