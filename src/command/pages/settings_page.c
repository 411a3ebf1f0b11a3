/* The page of settings has one table for each group of the field tables: first the trainer's and
 * the runtime's, which all experiments have, then each kind's. Comparing the values of an
 * experiment with the defaults, a tree of the same shape, gives the settings that the experiment
 * changes. */
#include "command/pages/settings_page.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "base/values/yaml.h"
#include "formats/grid.h"
#include "systems/modelgarden/experiment.h"

#define EXPERIMENTS_MAX 32 /* of a kind, on the page */

/* ---- what tables say ---- */

static const char *change_of(et_field_change change)
{
    static const char *const words[] = { [ET_CHANGE_AS_GROUP] = "free",
                                         [ET_CHANGE_FREE] = "free",
                                         [ET_CHANGE_ASK] = "asks",
                                         [ET_CHANGE_FIXED] = "no",
                                         [ET_CHANGE_MODEL] = "no" };
    return words[change];
}

/* "`max_to_keep`", "integer", "`5`", "1 to 100,000", "free", "checkpoints kept" */
static void add_row(et_grid *grid, const et_field *field, et_field_change change)
{
    et_strbuf value = ET_STRBUF_INIT, range = ET_STRBUF_INIT;
    et_field_default(field, &value);
    et_field_range(field, &range);
    grid->failed |= value.failed || range.failed;
    et_grid_addf(grid, "`%s`", field->name);
    et_grid_add(grid, et_field_type(field));
    et_grid_addf(grid, "`%s`", value.length ? value.data : "\"\"");
    et_grid_add(grid, et_strbuf_text(&range));
    et_grid_add(grid, change_of(change));
    et_grid_add(grid, field->help);
    et_strbuf_release(&value);
    et_strbuf_release(&range);
}

/* The page being printed, and its output. */
typedef struct page {
    FILE *to;
    const et_program *program;
    et_arena *arena;
    bool failed; /* there was no memory for a table */
} page;

/* Prints the table and releases it. */
static void print_table(page *p, et_grid *grid)
{
    p->failed |= et_grid_print(grid, p->to, ET_GRID_MARKDOWN, NULL) != ET_OK;
    et_grid_release(grid);
}

/* The kind whose settings below `task` a table is; NULL: none. */
static const char *kind_with(const et_program *program, const et_fields *table)
{
    for (int i = 0; i < program->count; i++)
        if (program->kinds[i]->fields == table)
            return program->kinds[i]->name;
    return NULL;
}

/* A group's own settings under a heading; nothing if all are groups. */
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

/* The group right below `task` that a group in a list repeats; NULL: none. */
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

/* ---- what experiments set ---- */

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
    const char *copy = text.failed ? NULL : et_arena_strdup(arena, et_strbuf_text(&text));
    et_strbuf_release(&text);
    return copy;
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

/* Table and trees side by side: each has a child for each row. */
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

static void list_experiments(page *p, const et_task_kind *kind)
{
    et_grid grid = { .columns = 2 };
    et_grid_add_row(&grid, (const char *const[]){ "experiment", NULL });
    for (const et_experiment_row *row = kind->experiments; row->name; row++) {
        et_grid_addf(&grid, "`%s`", row->name);
        et_grid_add(&grid, row->help);
    }
    fprintf(p->to, "\n## Experiments of %s\n\n", kind->name);
    print_table(p, &grid);
}

static int print_experiments(page *p, const et_task_kind *kind, et_error *error)
{
    beside own = { .count = 0 };
    et_experiment experiment = { 0 };
    const char *heads[2 + EXPERIMENTS_MAX] = { "setting", "default" };
    list_experiments(p, kind);
    for (const et_experiment_row *row = kind->experiments; row->name && own.count < EXPERIMENTS_MAX;
         row++) {
        int status = et_experiment_begin(&experiment, p->program, row->name, p->arena, error);
        if (status)
            return status;
        heads[2 + own.count] = row->name;
        own.echo[own.count] = et_fields_echo(experiment.table, &experiment, p->arena);
        if (!own.echo[own.count++])
            return et_alloc_failed(error, 0, "settings");
    }
    et_assert(experiment.table);
    et_fields_defaults(experiment.table, &experiment);
    const et_value *usual = et_fields_echo(experiment.table, &experiment, p->arena);
    if (!usual)
        return et_alloc_failed(error, 0, "settings");
    et_grid grid = { .columns = 2 + (size_t)own.count };
    et_grid_add_row(&grid, heads);
    add_differences(&grid, experiment.table, "", usual, &own, p->arena);
    fputs("\nTheir settings; an empty cell is the default.\n\n", p->to);
    print_table(p, &grid);
    return ET_OK;
}

/* ---- the page ---- */

/* Prints the settings of the kind (`task`), or the settings that all tasks have. */
static void print_part(page *p, const et_experiment *experiment, bool of_kind)
{
    for (const et_field *field = experiment->table->fields; field->kind != ET_FIELD_KIND_END;
         field++)
        if (field->kind == ET_FIELD_KIND_STRUCT && !strcmp(field->name, "task") == of_kind)
            print_group(p, field->nested, field->name, NULL, field->change);
}

int et_settings_page(FILE *to, const et_program *program, et_error *error)
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
        status = et_alloc_failed(error, 0, "settings");
    et_arena_release(&arena);
    return status;
}
