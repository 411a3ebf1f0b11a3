/* Words become values as YAML reads them, without its marks: a path is text whatever it holds. */
#include "command/shorts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/yaml_scalar.h"

/* Of every task. */
static const et_short general[] = {
    { "steps", "N", { "trainer.train_steps" }, "updates in all; 2ep: passes over the data" },
    { "epochs", "N", { "trainer.train_epochs" }, "passes over the data, in place of steps" },
    { "seed", "N", { "runtime.seed" }, "of initial values, order of data and dropout" },
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

/* "KEY=VALUE": a setting that takes no word. */
static bool is_given(const char *setting)
{
    return strchr(setting, '=') != NULL;
}

/* Settings that take words. */
static int taking_of(const et_short *as)
{
    const int most = (int)(sizeof as->settings / sizeof *as->settings);
    int taking = 0;
    for (int i = 0; i < most && as->settings[i]; i++)
        taking += !is_given(as->settings[i]);
    return taking;
}

static int words_of(const et_short *as)
{
    const char *dots = as->value ? strstr(as->value, "...") : NULL;
    const int taking = taking_of(as);
    return taking == 1 && dots && !dots[3] ? WORDS_MOST : taking;
}

/* In place of one with fewer words that is there. */
static void add(et_shorts *shorts, const et_short *table, et_arg *rows)
{
    for (; table && table->name; table++) {
        int i = 0;
        while (i < shorts->count && strcmp(shorts->first[i]->name, table->name) != 0)
            i++;
        if (i < shorts->count && words_of(table) <= words_of(shorts->first[i]))
            continue;
        et_assert(shorts->count < ET_SHORTS_MAX);
        shorts->count += i == shorts->count;
        shorts->first[i] = table;
        shorts->words[i].most = words_of(table);
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
            add(shorts, call->program->kinds[i]->shorts, rows);
    add(shorts, general, rows);
    return shorts->count;
}

/* A scalar, or of several words a list. */
static et_value *value_of(const et_arg_words *words, int first, int count, et_arena *arena)
{
    et_value *list = count == 1 ? NULL : et_value_list(arena);
    for (int i = 0; i < count; i++) {
        et_value *item = et_value_new(arena, ET_VALUE_STRING);
        if (!item)
            return NULL;
        item->text = item->string = words->items[first + i];
        et_yaml_resolve(item, item->text);
        if (count == 1)
            return item;
        et_value_append(list, NULL, item);
    }
    return list && !et_value_failed(list) ? list : NULL;
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

static int apply(const et_short *as, const et_arg_words *words, et_experiment *experiment,
                 et_arena *arena, et_error *error)
{
    const int settings = taking_of(as), most = (int)(sizeof as->settings / sizeof *as->settings);
    if (settings == 2 && words->count != 2)
        return et_fail(error, ET_EUSAGE, "--%s: takes two words, %s, found %d", as->name, as->value,
                       words->count);
    const char *name = et_arena_printf(arena, "--%s", as->name);
    int status = name ? ET_OK : et_alloc_failed(error, 0, "settings");
    for (int i = 0, word = 0; i < most && as->settings[i] && !status; i++) {
        if (is_given(as->settings[i])) {
            status = assign_given(experiment, name, as->settings[i], arena, error);
            continue;
        }
        const et_value *value = value_of(words, word++, settings == 2 ? 1 : words->count, arena);
        status = value
                     ? et_experiment_assign(experiment, name, as->settings[i], value, arena, error)
                     : et_alloc_failed(error, 0, "settings");
    }
    return status;
}

int et_shorts_apply(const et_shorts *shorts, et_experiment *experiment, et_arena *arena,
                    et_error *error)
{
    for (int i = 0; i < shorts->count; i++) {
        const char *name = shorts->first[i]->name;
        if (!shorts->words[i].count && !shorts->flags[i])
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
