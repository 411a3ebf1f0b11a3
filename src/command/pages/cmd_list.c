/* etude list: experiments, or all settings of one. The command walks through the field tables
 * (base/fields/fields.h) and their values together; et_fields_echo gives the values in the order of
 * the tables. So every setting with a row is listed.
 *
 *   etude list NAME  ->  a line for each setting: path, value, what it does, its range */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/command.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "base/text/terminal.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/command.h"
#include "command/print.h"
#include "formats/grid.h"
#include "systems/modelgarden/experiment.h"
#include "systems/modelgarden/recipe.h"

/* ---- the page of settings ---- */

/* The page of settings has one table for each group of the field tables. The groups of all
 * experiments come first (trainer, runtime), then each kind's groups. The settings that an
 * experiment changes are the differences between its values and the defaults, two trees of the same
 * shape. */

#define EXPERIMENTS_MAX 32 /* of a kind, on the page */

/* ---- contents of tables ---- */

/* "`max_to_keep`", "integer", "`5`", "1 to 100,000", "free", "checkpoints kept" */
static void add_row(et_grid *grid, const et_field *field, et_field_change change)
{
    static const char *const changes[] = { [ET_CHANGE_AS_GROUP] = "free",
                                           [ET_CHANGE_FREE] = "free",
                                           [ET_CHANGE_ASK] = "asks",
                                           [ET_CHANGE_FIXED] = "no",
                                           [ET_CHANGE_MODEL] = "no" };
    et_strbuf value = ET_STRBUF_INIT, range = ET_STRBUF_INIT;
    et_field_default(field, &value);
    et_field_range(field, &range);
    grid->failed |= value.failed || range.failed;
    et_grid_addf(grid, "`%s`", field->name);
    et_grid_add(grid, et_field_type(field));
    et_grid_addf(grid, "`%s`", value.length ? value.data : "\"\"");
    et_grid_add(grid, et_strbuf_text(&range));
    et_grid_add(grid, changes[change]);
    et_grid_add(grid, field->help);
    et_strbuf_release(&value);
    et_strbuf_release(&range);
}

/* The page being printed, and its output. */
typedef struct page {
    FILE *to;
    const et_program *program;
    et_arena *arena;
    bool failed; /* no memory was left for a table */
} page;

/* Prints the table and releases it. */
static void print_table(page *p, et_grid *grid)
{
    p->failed |= et_grid_print(grid, p->to, ET_GRID_MARKDOWN, NULL) != ET_OK;
    et_grid_release(grid);
}

/* The kind whose table of settings below `task` this is; NULL: none. */
static const char *kind_with(const et_program *program, const et_fields *table)
{
    for (int i = 0; i < program->count; i++)
        if (program->kinds[i]->fields == table)
            return program->kinds[i]->name;
    return NULL;
}

/* Prints a group's own settings under a heading; nothing if it has only groups. */
static void print_own(page *p, const et_fields *table, const char *path, const char *help,
                      et_field_change change)
{
    static const char *const heads[] = { "setting", "type",     "default",
                                         "range",   "resuming", "meaning" };
    et_grid grid = { .columns = sizeof heads / sizeof *heads };
    et_grid_add_row(&grid, heads);
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++)
        if (field->kind != ET_FIELD_KIND_STRUCT)
            add_row(&grid, field, field->change ? field->change : change);
    if (grid.count > grid.columns) {
        fprintf(p->to, "\n### %s\n\n%s%s", path, help ? help : "", help && *help ? ".\n\n" : "");
        print_table(p, &grid);
    }
    et_grid_release(&grid);
}

/* The group directly below `task` that a list of groups repeats; NULL: none. */
static const char *repeated(const et_program *program, const et_fields *table, const char *path)
{
    for (int i = 0; i < program->count && strstr(path, "[]"); i++)
        for (const et_field *field = program->kinds[i]->fields->fields;
             field->kind != ET_FIELD_KIND_END; field++)
            if (field->kind == ET_FIELD_KIND_STRUCT && field->nested == table)
                return field->name;
    return NULL;
}

/* A group's own settings, then the groups in it. change: the group's. */
static void print_group(page *p, const et_fields *table, const char *path, const char *help,
                        et_field_change change)
{
    print_own(p, table, path, help, change);
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        const bool list = field->kind == ET_FIELD_KIND_STRUCTS;
        if (field->kind != ET_FIELD_KIND_STRUCT && !list)
            continue;
        const char *whole =
            et_arena_printf(p->arena, "%s.%s%s", path, field->name, list ? "[]" : "");
        const char *other = whole ? kind_with(p->program, field->nested) : NULL;
        if (other)
            fprintf(p->to, "\n### %s\n\nThe settings below `task` are under *Of %s*.\n", whole,
                    other);
        else if (whole && (other = repeated(p->program, field->nested, whole)) != NULL)
            fprintf(p->to, "\n### %s\n\nThe same settings as under `task.%s`.\n", whole, other);
        else if (whole)
            print_group(p, field->nested, whole, field->help,
                        field->change ? field->change : change);
    }
}

/* ---- settings that experiments change ---- */

/* A kind's values, next to the defaults. */
typedef struct beside {
    const et_value *echo[EXPERIMENTS_MAX]; /* at one place of the tree */
    int count;
} beside;

/* In YAML, in the arena. NULL: no memory. */
static const char *text_of(const et_value *value, et_arena *arena)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_yaml_print(&text, value);
    while (text.length && text.data[text.length - 1] == '\n')
        et_strbuf_truncate(&text, text.length - 1);
    return et_strbuf_keep(&text, arena);
}

/* Adds a row if an experiment changes the setting at this path. */
static void add_difference(et_grid *grid, const char *path, const et_value *usual,
                           const beside *own, et_arena *arena)
{
    const char *wanted = text_of(usual, arena), *set[EXPERIMENTS_MAX];
    bool differs = false;
    for (int i = 0; i < own->count; i++) {
        const char *text = text_of(own->echo[i], arena);
        grid->failed |= !text || !wanted;
        set[i] = !grid->failed && strcmp(text, wanted) != 0 ? text : NULL;
        differs |= set[i] != NULL;
    }
    if (!differs)
        return;
    et_grid_addf(grid, "`%s`", path);
    et_grid_add(grid, wanted);
    for (int i = 0; i < own->count; i++)
        et_grid_add(grid, set[i]);
}

/* Walks through table and trees together: each tree has a child for each row. */
static void add_differences(et_grid *grid, const et_fields *table, const char *path,
                            const et_value *usual, const beside *own, et_arena *arena)
{
    beside inside = { .count = own->count };
    const et_value *value = usual->first;
    for (int i = 0; i < own->count; i++)
        inside.echo[i] = own->echo[i]->first;
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END && value;
         field++, value = value->next) {
        const char *whole = et_arena_printf(arena, "%s%s%s", path, *path ? "." : "", field->name);
        if (!whole)
            return;
        if (field->kind == ET_FIELD_KIND_STRUCT)
            add_differences(grid, field->nested, whole, value, &inside, arena);
        else
            add_difference(grid, whole, value, &inside, arena);
        for (int i = 0; i < own->count; i++)
            inside.echo[i] = inside.echo[i]->next;
    }
}

static int print_experiments(page *p, const et_task_kind *kind, et_error *error)
{
    beside own = { .count = 0 };
    et_experiment experiment = { 0 };
    const char *heads[2 + EXPERIMENTS_MAX] = { "setting", "default" };
    et_grid names = { .columns = 2 };
    et_grid_add_row(&names, (const char *const[]){ "experiment", NULL });
    for (const et_experiment_row *row = kind->experiments; row->name; row++) {
        et_grid_addf(&names, "`%s`", row->name);
        et_grid_add(&names, row->help);
    }
    fprintf(p->to, "\n## Experiments of %s\n\n", kind->name);
    print_table(p, &names);
    for (const et_experiment_row *row = kind->experiments; row->name && own.count < EXPERIMENTS_MAX;
         row++) {
        int status = et_experiment_begin(&experiment, p->program, row->name, p->arena, error);
        if (status)
            return status;
        heads[2 + own.count] = row->name;
        own.echo[own.count] = et_fields_echo(experiment.table, &experiment, p->arena);
        if (!own.echo[own.count++])
            return et_alloc_failed(error, "settings");
    }
    et_assert(experiment.table);
    et_fields_defaults(experiment.table, &experiment);
    const et_value *usual = et_fields_echo(experiment.table, &experiment, p->arena);
    if (!usual)
        return et_alloc_failed(error, "settings");
    et_grid grid = { .columns = 2 + (size_t)own.count };
    et_grid_add_row(&grid, heads);
    add_differences(&grid, experiment.table, "", usual, &own, p->arena);
    fputs("\nTheir settings; an empty cell is the default.\n\n", p->to);
    print_table(p, &grid);
    return ET_OK;
}

/* Prints the settings of the kind (`task`), or the settings that all tasks have. */
static void print_part(page *p, const et_experiment *experiment, bool of_kind)
{
    for (const et_field *field = experiment->table->fields; field->kind != ET_FIELD_KIND_END;
         field++)
        if (field->kind == ET_FIELD_KIND_STRUCT && !strcmp(field->name, "task") == of_kind)
            print_group(p, field->nested, field->name, NULL, field->change);
}

/* ET_ECONFIG: an experiment's own settings are wrong. */
static int settings_page(FILE *to, const et_program *program, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    page p = { .to = to, .program = program, .arena = &arena };
    int status = ET_OK;
    fprintf(to,
            "# Settings\n\nGenerated by `%s list --markdown`; do not edit. `%s list EXPERIMENT "
            "[WORD]...` shows the\nsettings of one experiment, with `--yaml` as a file for `train "
            "--config`. Give a setting as\n`--set trainer.max_to_keep=2`, or in a YAML file as a "
            "tree or by its dotted name. A name\nwith `[]` is a list of groups.\n\n**resuming*: "
            "whether a resumed run may change the setting. `free`: yes. `asks`: only "
            "with\n`--accept-changes`. `no`: the trained weights depend on it. Type `fixed`: files "
            "of other\nsystems may contain this setting, with this value only.\n",
            program->name, program->name);
    for (int k = 0; k < program->count && !status; k++) {
        const et_task_kind *kind = program->kinds[k];
        et_experiment experiment;
        et_assert(kind->experiments);
        if (!kind->experiments->name)
            continue;
        status = et_experiment_begin(&experiment, program, kind->experiments->name, &arena, error);
        if (status)
            break;
        if (!k) {
            fputs("\n## Of every task\n", to);
            print_part(&p, &experiment, false);
        }
        fprintf(to, "\n## Of %s\n", kind->name);
        print_part(&p, &experiment, true);
        status = print_experiments(&p, kind, error);
    }
    if (!status && (p.failed || arena.failed))
        status = et_alloc_failed(error, "settings");
    et_arena_release(&arena);
    return status;
}

/* ---- the listing ---- */

#define SETTING_WIDTH 56 /* columns of a setting with its value */

/* The experiment to list, and how. */
typedef struct listing {
    const char *experiment;
    const et_experiment *of; /* this experiment; NULL: not filled in yet */
    et_strings words;        /* only settings with all of them in path or help */
    bool all, yaml;          /* all: also groups that are not selected; yaml: in the form of a file
                                for --config */
    bool json;
    size_t shown;       /* settings, so far */
    et_value *settings; /* of json: a list that they are added to */
    bool markdown;      /* a page of all settings of all experiments */
} listing;

static const et_option options[] = {
    ET_OPTION_TEXT(listing, experiment, "experiment", "EXPERIMENT",
                   "show the settings of this experiment"),
    ET_OPTION_FLAG(listing, all, "all",
                   "also show groups that are not selected, and settings without effect"),
    ET_OPTION_FLAG(listing, yaml, "yaml", "print the settings as a file for `train --config`"),
    ET_OPTION_JSON(listing, json),
    ET_OPTION_FLAG(listing, markdown, "markdown",
                   "print all settings of all experiments as Markdown"),
    ET_OPTION_REST(listing, words, "[EXPERIMENT] [WORD]..."),
    ET_OPTION_END
};

const et_usage et_usage_list = {
    options, sizeof(listing),
    "Lists all experiments, the experiments of a folder (tabular), or the settings of one "
    "experiment.\nWith WORDs, lists only settings whose name or help contains every WORD.",
    "EXPERIMENT"
};

/* Prints one line for programs; on a terminal, text that does not fit wraps to further lines. */
static void print_commented(const char *setting, const char *text)
{
    const int width = et_terminal_width(STDOUT_FILENO) - 1, length = (int)strlen(setting);
    const int before = length > SETTING_WIDTH ? length : SETTING_WIDTH;
    if (!isatty(STDOUT_FILENO) || before + 4 + (int)et_utf8_columns(text, strlen(text)) <= width) {
        printf("%-*s  # %s\n", SETTING_WIDTH, setting, text);
        return;
    }
    printf("%s\n    # ", setting);
    et_terminal_wrap(stdout, text, 6, 6, width);
    putchar('\n');
}

/* "trainer.max_to_keep: 5    # checkpoints kept, newest first (1 to 100000)"
 * After # are the field's help and range.
 * chosen: a recipe set the value. */
static void print_setting(const et_field *field, const char *path, const et_value *value,
                          bool chosen)
{
    /* The value in YAML, as in a file or after --set. */
    et_strbuf line = ET_STRBUF_INIT, range = ET_STRBUF_INIT;
    et_strbuf text = ET_STRBUF_INIT, plain = ET_STRBUF_INIT;
    et_strbuf_printf(&line, "%s: ", path);
    const size_t length = line.length;
    et_yaml_print(&line, value);
    et_assert(field->help);
    et_field_range(field, &range);
    if (strchr(et_strbuf_text(&line), '\n')) {
        et_strbuf_truncate(&line, length);
        et_json_print(&line, value, 0); /* also valid YAML, in one line */
    }
    et_plain_append(&plain, et_strbuf_text(&line));
    et_strbuf_printf(&text, "%s%s", chosen ? "chosen when the run begins: " : "", field->help);
    if (range.length)
        et_strbuf_printf(&text, " (%s)", et_strbuf_text(&range));
    print_commented(et_strbuf_text(&plain), et_strbuf_text(&text));
    et_strbuf_release(&plain);
    et_strbuf_release(&text);
    et_strbuf_release(&line);
    et_strbuf_release(&range);
}

/* Case and - _ aside. */
static bool begins(const char *text, const char *word)
{
    for (; *word; text++, word++)
        if (tolower((unsigned char)(*text == '-' ? '_' : *text)) !=
            tolower((unsigned char)(*word == '-' ? '_' : *word)))
            return false;
    return true;
}

/* Finds `word`, one of two letters, as a whole word: "already" contains "lr" too. */
static bool contains(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = text; *at; at++)
        if (begins(at, word) && (length > 2 || ((at == text || !isalpha((unsigned char)at[-1])) &&
                                                !isalpha((unsigned char)at[length]))))
            return true;
    return !*word;
}

/* "lr" is so of learning_rate. */
static bool is_initials(const char *name, const char *word)
{
    for (; *name && *word; word++) {
        if (!begins(name, (const char[]){ *word, 0 }))
            return false;
        name += strcspn(name, "_");
        name += *name == '_';
    }
    return !*name && !*word;
}

static bool is_wanted(const listing *l, const et_field *field, const char *path)
{
    for (size_t i = 1; i < l->words.count; i++)
        if (!contains(path, l->words.items[i]) && !contains(field->help, l->words.items[i]) &&
            !is_initials(field->name, l->words.items[i]))
            return false;
    return true;
}

/* echo: the values, as a tree of the table's shape. Prints depth first, with dots in paths. If a
 * path cannot be allocated, printing stops and the arena reports the failure to the caller. */
static void print_settings(listing *l, const et_fields *table, const et_value *echo,
                           const char *path, et_arena *arena)
{
    et_assert(echo->kind == ET_VALUE_DICT);
    const et_value *value = echo->first;
    /* Table and tree side by side: the echo has a child for each row. */
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END && value;
         field++, value = value->next) {
        const char *whole = et_arena_printf(arena, "%s%s%s", path, *path ? "." : "", field->name);
        if (!whole)
            return;
        if (!l->all && !et_fields_counts(table, field, echo))
            continue;
        /* A group has no line of its own; its settings follow. */
        if (field->kind == ET_FIELD_KIND_STRUCT)
            print_settings(l, field->nested, value, whole, arena);
        else if (is_wanted(l, field, whole) && ++l->shown && l->settings) {
            bool chosen = et_recipe_chooses(l->of, whole);
            et_strbuf range = ET_STRBUF_INIT;
            et_value *one = et_value_add_dict(l->settings);
            et_field_range(field, &range);
            et_value_set_string(one, "name", whole);
            if (one)
                et_value_append_copy(one, "value", value);
            et_value_set_string(one, "help", field->help);
            if (chosen)
                et_value_set_bool(one, "chosen", true);
            if (range.length)
                et_value_set_string(one, "range", et_strbuf_text(&range));
            et_strbuf_release(&range);
        } else if (is_wanted(l, field, whole))
            print_setting(field, whole, value, et_recipe_chooses(l->of, whole));
    }
}

/* Lists the experiment as it starts: defaults and the experiment's own settings, no run's files. */
static int list_settings(listing *l, const et_program *program, et_error *error)
{
    et_experiment experiment;
    et_arena arena = ET_ARENA_INIT;
    int status = et_experiment_begin(&experiment, program, l->experiment, &arena, error);
    l->of = &experiment;
    if (status) {
        et_arena_release(&arena);
        return status;
    }
    /* Values as a tree of the tables' shape: print_settings walks both together. */
    et_value *echo = l->yaml ? et_fields_effective(experiment.table, &experiment, &arena)
                             : et_fields_echo(experiment.table, &experiment, &arena);
    if (echo && l->yaml) {
        et_recipe_leave_out(&experiment, echo); /* so that a run from the file lets its recipe
                                                   choose */
        /* As params.yaml has it. */
        et_strbuf text = ET_STRBUF_INIT;
        et_strbuf_printf(&text, "experiment: %s\n", experiment.name);
        et_yaml_print(&text, echo);
        et_print_results(stdout, et_strbuf_text(&text), text.length);
        et_strbuf_release(&text);
    }
    if (echo && !l->yaml && l->json) {
        et_value *results = et_value_dict(&arena);
        et_value_set_string(results, "experiment", experiment.name);
        l->settings = et_value_set_list(results, "settings");
        if (l->settings)
            print_settings(l, experiment.table, echo, "", &arena);
        status = et_print_json(results, error);
    } else if (echo && !l->yaml) {
        /* A file of these lines is a file of settings. */
        if (l->words.count <= 1 && !l->all)
            et_print(stdout, "experiment: %s\n", experiment.name);
        print_settings(l, experiment.table, echo, "", &arena);
    }
    if (echo && !l->yaml && !l->shown)
        status =
            et_fail(error, ET_ENOTFOUND, "list: no setting of %s has %s in its name or help%s",
                    experiment.name, l->words.count > 2 ? "all these words" : l->words.items[1],
                    l->all ? "" : "; --all also searches groups that are not selected");
    if (!echo || arena.failed)
        status = et_alloc_failed(error, "settings");
    et_arena_release(&arena);
    return status;
}

/* Whether an experiment is in a folder, "tabular" or "tabular/"; folder NULL: all are. */
static bool is_in(const et_experiment_row *row, const char *folder)
{
    const size_t length = folder ? strlen(folder) - (folder[strlen(folder) - 1] == '/') : 0;
    return !folder || (!strncmp(row->name, folder, length) && row->name[length] == '/');
}

static bool is_folder(const et_program *program, const char *name)
{
    for (int i = 0; i < program->count; i++)
        for (const et_experiment_row *row = program->kinds[i]->experiments; row->name; row++)
            if (is_in(row, name))
                return true;
    return false;
}

/* `etude list`, `etude list NAME [WORD]...`, `etude list --experiment NAME`. */
int et_cmd_list(const et_call *call, et_error *error)
{
    listing *shown = call->options;
    /* Both ways of naming it are allowed, one at a time. */
    if (shown->words.count && shown->experiment)
        return et_fail(error, ET_EUSAGE, "list: name one experiment at a time");
    if (shown->words.count)
        shown->experiment = shown->words.items[0];
    if (shown->yaml && shown->json)
        return et_fail(error, ET_EUSAGE, "list: use either --yaml or --json");
    if (shown->yaml && (!shown->experiment || shown->words.count > 1))
        return et_fail(error, ET_EUSAGE, "list: --yaml shows all settings of one experiment");
    if (shown->all && (shown->yaml || shown->markdown))
        return et_fail(error, ET_EUSAGE,
                       "list: --all does not go with --%s, which shows all settings",
                       shown->yaml ? "yaml" : "markdown");
    if (shown->markdown && shown->json)
        return et_fail(error, ET_EUSAGE, "list: use either --markdown or --json");
    if (shown->markdown && shown->experiment)
        return et_fail(error, ET_EUSAGE, "list: --markdown shows all experiments; leave out %s",
                       shown->experiment);
    if (shown->markdown)
        return settings_page(stdout, call->program, error);
    const bool folder = shown->experiment && shown->words.count <= 1 && !shown->yaml &&
                        is_folder(call->program, shown->experiment);
    if (shown->experiment && !folder)
        return list_settings(shown, call->program, error);
    et_arena arena = ET_ARENA_INIT;
    et_value *results = et_value_dict(&arena);
    et_value *rows = shown->json ? et_value_set_list(results, "experiments") : NULL;
    for (int i = 0; i < call->program->count; i++)
        for (const et_experiment_row *row = call->program->kinds[i]->experiments; row->name;
             row++) {
            if (!is_in(row, shown->experiment))
                continue;
            et_value *one = rows ? et_value_add_dict(rows) : NULL;
            et_value_set_string(one, "name", row->name);
            et_value_set_string(one, "help", row->help);
            if (!shown->json)
                et_print_help(stdout, "%-22s  %s\n", row->name, row->help ? row->help : "");
        }
    int status = shown->json ? et_print_json(results, error) : ET_OK;
    et_arena_release(&arena);
    return status;
}
