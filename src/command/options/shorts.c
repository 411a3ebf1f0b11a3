/* Words become values as YAML reads them, without its marks: a path is text whatever it holds. */
#include "command/options/shorts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "base/values/yaml_scalar.h"

/* Of every task. */
static const et_short general[] = {
    { "steps",
      "N",
      { "trainer.train_steps" },
      .help = "updates in all; 2ep: passes over the data" },
    { "epochs",
      "N",
      { "trainer.train_epochs" },
      .help = "passes over the data, in place of steps" },
    { "metric",
      "NAME",
      { "trainer.best_checkpoint_eval_metric" },
      .help = "value of validation that decides which checkpoint is best: auc, or validation_auc" },
    { "lr",
      "RATE",
      { "trainer.optimizer_config.learning_rate.peak" },
      .help = "highest learning rate of the schedule" },
    { "seed", "N", { "runtime.seed" }, .help = "of initial values, order of data and dropout" },
    { .name = NULL },
};

static const et_short *find(const et_short *table, const char *name)
{
    for (; table && table->name; table++)
        if (!strcmp(table->name, name))
            return table;
    return NULL;
}

#define WORDS_MOST 1000 /* of a list */

typedef enum taking {
    TAKES_VALUES,   /* a word for each setting, or none */
    TAKES_ONE,      /* "RATE": one word for all settings */
    TAKES_ITEMS,    /* "FILE,...": one item of a list at a time */
    TAKES_ITEM_ROW, /* "TEXT...": any number of them */
} taking;

/* "KEY=VALUE": a setting that takes no word. */
static bool is_given(const char *setting)
{
    return strchr(setting, '=') != NULL;
}

/* Settings that take words. */
static int settings_of(const et_short *as)
{
    const int most = (int)(sizeof as->settings / sizeof *as->settings);
    int count = 0;
    for (int i = 0; i < most && as->settings[i]; i++)
        count += !is_given(as->settings[i]);
    return count;
}

/* Words that its value is called by. */
static int names_of(const et_short *as)
{
    int count = 0;
    for (const char *at = as->value ? as->value : ""; *at; count++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return count;
}

static taking taking_of(const et_short *as)
{
    const char *dots = as->value ? strstr(as->value, "...") : NULL;
    if (!dots && names_of(as) == 1)
        return TAKES_ONE;
    if (settings_of(as) != 1 || !dots || dots == as->value || dots[3])
        return TAKES_VALUES;
    return dots[-1] == ',' ? TAKES_ITEMS : TAKES_ITEM_ROW;
}

/* "FILE,...": several at a time too. */
static bool takes_files(const et_short *as)
{
    return taking_of(as) == TAKES_ITEMS && !strncmp(as->value, "FILE", 4);
}

static int words_of(const et_short *as)
{
    const taking takes = taking_of(as);
    return takes == TAKES_ITEM_ROW ? WORDS_MOST : takes == TAKES_ONE ? 1 : settings_of(as);
}

/* What words may stand behind an option, by one more kind. */
static void allow(et_arg_words *words, const et_short *table)
{
    const int count = takes_files(table) ? WORDS_MOST : words_of(table);
    words->most = count > words->most ? count : words->most;
    words->files |= takes_files(table);
    if (table->alone)
        words->least = settings_of(table);
    if (table->alone || table->endings)
        words->alone = ".csv .csv.gz .tsv .tsv.gz";
}

/* The help of a name that several kinds have says what it is of each. */
static const char *help_of(et_shorts *shorts, int i, const et_short *other, const char *kind)
{
    const et_short *first = shorts->first[i];
    const char *value = first->value ? first->value : "", *words = other->value ? other->value : "";
    char *text = shorts->help[i];
    const size_t used = strlen(text);
    if (!kind || !strcmp(first->help, other->help))
        return used ? text : first->help;
    const bool same = !strcmp(value, words);
    snprintf(text + used, sizeof shorts->help[i] - used, "%s; of a %s task: %s%s%s",
             used ? "" : first->help, kind, same ? "" : words, same ? "" : ", ", other->help);
    return text;
}

/* Of a name that is there already the row with most words stays. kind: whose options these are;
 * NULL: all kinds'. */
static void add(et_shorts *shorts, const et_short *table, const char *kind, et_arg *rows)
{
    for (; table && table->name; table++) {
        int i = 0;
        while (i < shorts->count && strcmp(shorts->first[i]->name, table->name) != 0)
            i++;
        et_assert(shorts->count < ET_SHORTS_MAX);
        const bool is_new = i == shorts->count;
        shorts->count += is_new;
        allow(&shorts->words[i], table);
        if (!is_new) {
            rows[i].field.help = help_of(shorts, i, table, kind);
            if (words_of(table) > words_of(shorts->first[i])) {
                shorts->first[i] = table;
                rows[i].value = table->value;
            }
            continue;
        }
        shorts->first[i] = table;
        rows[i] = (et_arg)ET_ARG_WORDS(table->name, table->value, &shorts->words[i], table->help);
        if (!table->value)
            rows[i] = (et_arg)ET_ARG_FLAG(table->name, &shorts->flags[i], table->help);
    }
}

/* Of the experiment that stands on the command line; NULL: none does. */
static const et_task_kind *kind_named(const et_call *call)
{
    static const char option[] = "--experiment";
    const size_t length = sizeof option - 1;
    const char *name = NULL;
    for (int i = 0; i < call->argc; i++) {
        const char *word = call->argv[i];
        if (strncmp(word, option, length) != 0)
            continue;
        if (word[length] == '=')
            name = word + length + 1;
        else if (!word[length] && i + 1 < call->argc)
            name = call->argv[i + 1];
    }
    for (int k = 0; name && k < call->program->count; k++)
        for (const et_experiment_row *row = call->program->kinds[k]->experiments; row->name; row++)
            if (!strcmp(row->name, name))
                return call->program->kinds[k];
    return NULL;
}

int et_shorts_list(et_shorts *shorts, const et_call *call, et_arg *rows)
{
    const et_task_kind *kind = kind_named(call);
    memset(shorts, 0, sizeof *shorts);
    for (int i = 0; i < call->program->count; i++)
        if (!kind || kind == call->program->kinds[i])
            add(shorts, call->program->kinds[i]->shorts, call->program->kinds[i]->name, rows);
    add(shorts, general, NULL, rows);
    return shorts->count;
}

/* A word that YAML would read as nothing, "null" or "~", is a text: who wants nothing leaves the
 * option out. */
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
static const char *word_at(const et_arg_words *words, int time, int at)
{
    return words->given[time].items ? words->given[time].items[at] : words->given[time].one;
}

/* Those of all times; of one word a scalar. */
static et_value *items_of(const et_arg_words *words, et_arena *arena)
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

/* As behind --set. */
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

/* Of two settings with a word each, or one that takes a file of pairs: the other form is nothing.
 */
static int apply_form(const et_short *as, const char *name, const char *pairs,
                      et_experiment *experiment, et_arena *arena, et_error *error)
{
    et_value *none = et_value_list(arena), *one = et_value_list(arena);
    if (!none || !one || (pairs && !et_value_add_string(one, pairs)))
        return et_alloc_failed(error, 0, "settings");
    int status = et_experiment_assign(experiment, name, as->alone, one, arena, error);
    for (int i = 0; pairs && i < settings_of(as) && !status; i++)
        status = et_experiment_assign(experiment, name, as->settings[i], none, arena, error);
    return status;
}

static bool is_of_pairs(const char *path)
{
    return et_path_ends(path, ".tsv") || et_path_ends(path, ".tsv.gz");
}

/* One word for all settings that count. */
static int apply_one(const et_short *as, const et_arg_words *words, et_experiment *experiment,
                     et_arena *arena, et_error *error)
{
    const char *name = et_arena_printf(arena, "--%s", as->name);
    const et_value *value = scalar_of(word_at(words, words->times - 1, 0), arena);
    const int most = (int)(sizeof as->settings / sizeof *as->settings);
    if (!name || !value)
        return et_alloc_failed(error, 0, "settings");
    int status = ET_OK, used = 0;
    for (int i = 0; i < most && as->settings[i] && !status; i++) {
        if (is_given(as->settings[i])) {
            status = assign_given(experiment, name, as->settings[i], arena, error);
            continue;
        }
        if (!et_fields_is_open(experiment->table, experiment, as->settings[i]))
            continue;
        status = et_experiment_assign(experiment, name, as->settings[i], value, arena, error);
        used++;
    }
    if (!status && !used)
        status =
            *as->settings
                ? et_fail(error, ET_EUSAGE,
                          "--%s: the model of %s has no such setting; `%s list %s` shows its "
                          "settings, for --set",
                          as->name, experiment->name, experiment->program->name, experiment->name)
                : et_fail(error, ET_EUSAGE, "--%s: %s", as->name, as->help);
    return status;
}

static int apply(const et_short *as, const et_arg_words *words, et_experiment *experiment,
                 et_arena *arena, et_error *error)
{
    if (taking_of(as) == TAKES_ONE)
        return apply_one(as, words, experiment, arena, error);
    const int settings = settings_of(as), most = (int)(sizeof as->settings / sizeof *as->settings);
    const int last = words->times - 1, found = words->times ? words->given[last].count : 0;
    const bool list = taking_of(as) != TAKES_VALUES;
    const char *pairs = as->alone && found == 1 ? word_at(words, last, 0) : NULL;
    const bool alone = pairs && is_of_pairs(pairs);
    if (!list && settings && settings != found && !alone)
        return et_fail(error, ET_EUSAGE, "--%s: takes %s, %s, found %d%s", as->name,
                       settings == 2 ? "two words" : "one word", as->value, found,
                       as->alone ? "; the name of one file of pairs ends in .tsv" : "");
    const char *name = et_arena_printf(arena, "--%s", as->name);
    int status = name ? ET_OK : et_alloc_failed(error, 0, "settings");
    if (!status && as->alone)
        status = apply_form(as, name, alone ? pairs : NULL, experiment, arena, error);
    if (alone)
        return status;
    for (int i = 0, word = 0; i < most && as->settings[i] && !status; i++) {
        if (is_given(as->settings[i])) {
            status = assign_given(experiment, name, as->settings[i], arena, error);
            continue;
        }
        const et_value *value =
            list ? items_of(words, arena) : scalar_of(word_at(words, last, word++), arena);
        status = value
                     ? et_experiment_assign(experiment, name, as->settings[i], value, arena, error)
                     : et_alloc_failed(error, 0, "settings");
    }
    return status;
}

static bool is_used(const et_shorts *shorts, const char *name)
{
    for (int i = 0; i < shorts->count; i++)
        if (!strcmp(shorts->first[i]->name, name))
            return shorts->words[i].times > 0;
    return false;
}

int et_shorts_apply(const et_shorts *shorts, et_experiment *experiment, et_arena *arena,
                    et_error *error)
{
    if (is_used(shorts, "steps") && is_used(shorts, "epochs"))
        return et_fail(error, ET_EUSAGE,
                       "--steps and --epochs: one of them says when the run ends");
    for (int i = 0; i < shorts->count; i++) {
        const char *name = shorts->first[i]->name;
        if (!shorts->words[i].times && !shorts->flags[i])
            continue;
        const et_short *as = find(experiment->kind->shorts, name);
        if (!as)
            as = find(general, name);
        if (!as)
            return et_fail(error, ET_EUSAGE,
                           "--%s: experiment %s, a task of %s, has no such option", name,
                           experiment->name, experiment->kind->name);
        int status = apply(as, &shorts->words[i], experiment, arena, error);
        if (status)
            return status;
    }
    return ET_OK;
}

/* ---- the experiment that data is for ---- */

/* Whether a kind has all options that are given. */
static bool has_all(const et_shorts *shorts, const et_task_kind *kind)
{
    for (int i = 0; i < shorts->count; i++) {
        const char *name = shorts->first[i]->name;
        const bool given = shorts->words[i].times || shorts->flags[i];
        if (given && !find(kind->shorts, name) && !find(general, name))
            return false;
    }
    return true;
}

/* Whether no other kind has them. */
static bool is_only(const et_shorts *shorts, const et_program *program, const et_task_kind *kind)
{
    for (int k = 0; k < program->count; k++)
        if (program->kinds[k] != kind && has_all(shorts, program->kinds[k]))
            return false;
    return true;
}

const char *et_shorts_experiment(const et_shorts *shorts, const et_program *program)
{
    const char *by_name = NULL, *other = NULL;
    int others = 0;
    for (int k = 0; k < program->count; k++) {
        const et_task_kind *kind = program->kinds[k];
        for (int i = 0; has_all(shorts, kind) && i < shorts->count; i++) {
            const et_short *as = find(kind->shorts, shorts->first[i]->name);
            if (!as || !as->experiment || !shorts->words[i].times)
                continue;
            if (as->endings && et_arg_ends_in(word_at(&shorts->words[i], 0, 0), as->endings))
                by_name = as->experiment;
            if (as->endings && !is_only(shorts, program, kind))
                continue;
            other = as->experiment;
            others++;
        }
    }
    return by_name ? by_name : others == 1 ? other : NULL;
}
