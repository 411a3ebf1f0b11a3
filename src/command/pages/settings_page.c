/* A table of settings is written once for each group of the field tables: first the trainer's and
 * the runtime's, which all experiments have, then each kind's own. What experiments set is found by
 * comparing their trees of values with the tree of defaults, which are of one shape. */
#include "command/pages/settings_page.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/fields/fields_scalar.h"
#include "base/text/strbuf.h"
#include "base/values/yaml.h"
#include "systems/modelgarden/experiment.h"

#define EXPERIMENTS_MAX 32 /* of a kind, on the page */

/* In a cell a bar would end it. */
static void put_cell(FILE *to, const char *text)
{
    for (; *text && *text != '\n'; text++) {
        if (*text == '|')
            fputc('\\', to);
        fputc(*text, to);
    }
}

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

/* "| `max_to_keep` | integer | 5 | 1 to 100,000 | free | checkpoints kept |" */
static void print_row(FILE *to, const et_field *field, et_field_change change)
{
    et_strbuf value = ET_STRBUF_INIT, range = ET_STRBUF_INIT;
    et_field_default(field, &value);
    et_field_range(field, &range);
    fprintf(to, "| `%s` | %s | `", field->name, et_field_type(field));
    put_cell(to, *et_strbuf_text(&value) ? et_strbuf_text(&value) : "\"\"");
    fputs("` | ", to);
    put_cell(to, et_strbuf_text(&range));
    fprintf(to, " | %s | ", change_of(change));
    put_cell(to, field->help ? field->help : "");
    fputs(" |\n", to);
    et_strbuf_release(&value);
    et_strbuf_release(&range);
}

/* What is printed. */
typedef struct page {
    const et_program *program;
    et_arena *arena;
} page;

/* The kind whose settings below `task` a table is; NULL: none. */
static const char *kind_with(const et_program *program, const et_fields *table)
{
    for (int i = 0; i < program->count; i++)
        if (program->kinds[i]->fields == table)
            return program->kinds[i]->name;
    return NULL;
}

/* A group's own settings under a heading, then the groups in it. change: the group's. */
static void print_group(FILE *to, const page *p, const et_fields *table, const char *path,
                        const char *help, et_field_change change)
{
    bool headed = false;
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        if (field->kind == ET_FIELD_KIND_STRUCT)
            continue;
        if (!headed)
            fprintf(to,
                    "\n### %s\n\n%s%s| setting | type | default | range | resuming | meaning |\n"
                    "|---|---|---|---|---|---|\n",
                    path, help ? help : "", help && *help ? ".\n\n" : "");
        headed = true;
        print_row(to, field, field->change ? field->change : change);
    }
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        const bool list = field->kind == ET_FIELD_KIND_STRUCTS;
        if (field->kind != ET_FIELD_KIND_STRUCT && !list)
            continue;
        const char *whole =
            et_arena_printf(p->arena, "%s.%s%s", path, field->name, list ? "[]" : "");
        const char *other = whole ? kind_with(p->program, field->nested) : NULL;
        if (other)
            fprintf(to, "\n### %s\n\nWhat stands below `task` under *Of %s*.\n", whole, other);
        else if (whole)
            print_group(to, p, field->nested, whole, field->help,
                        field->change ? field->change : change);
    }
}

/* ---- what experiments set ---- */

/* Of a kind, beside the defaults. */
typedef struct beside {
    const et_value *echo[EXPERIMENTS_MAX]; /* at one place of the tree */
    int count;
} beside;

static void append_value(et_strbuf *to, const et_value *value)
{
    et_yaml_print(to, value);
    while (to->length && et_strbuf_text(to)[to->length - 1] == '\n')
        et_strbuf_cut(to, to->length - 1);
}

static void print_difference(FILE *to, const char *path, const et_value *usual, const beside *own)
{
    et_strbuf wanted = ET_STRBUF_INIT, value = ET_STRBUF_INIT;
    bool differs = false;
    append_value(&wanted, usual);
    for (int pass = 0; pass < 2; pass++) {
        if (pass && differs) {
            fprintf(to, "| `%s` | ", path);
            put_cell(to, et_strbuf_text(&wanted));
        }
        for (int i = 0; i < own->count && (!pass || differs); i++) {
            et_strbuf_reset(&value);
            append_value(&value, own->echo[i]);
            bool same = !strcmp(et_strbuf_text(&value), et_strbuf_text(&wanted));
            differs |= !same;
            if (pass) {
                fputs(" | ", to);
                put_cell(to, same ? "" : et_strbuf_text(&value));
            }
        }
    }
    if (differs)
        fputs(" |\n", to);
    et_strbuf_release(&wanted);
    et_strbuf_release(&value);
}

/* Table and trees side by side: each has a child for each row. */
static void print_differences(FILE *to, const et_fields *table, const char *path,
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
            print_differences(to, field->nested, whole, value, &inside, arena);
        else
            print_difference(to, whole, value, &inside);
        for (int i = 0; i < own->count; i++)
            inside.echo[i] = inside.echo[i]->next;
    }
}

static int print_experiments(FILE *to, const et_program *program, const et_task_kind *kind,
                             et_arena *arena, et_error *error)
{
    beside own = { .count = 0 };
    et_experiment experiment = { 0 };
    fprintf(to, "\n## Experiments of %s\n\n| experiment | |\n|---|---|\n", kind->name);
    for (const et_experiment_row *row = kind->experiments; row->name; row++)
        fprintf(to, "| `%s` | %s |\n", row->name, row->help);
    fputs("\nWhat they set; an empty cell is the default.\n\n| setting | default |", to);
    for (const et_experiment_row *row = kind->experiments; row->name && own.count < EXPERIMENTS_MAX;
         row++) {
        int status = et_experiment_begin(&experiment, program, row->name, arena, error);
        if (status)
            return status;
        own.echo[own.count] = et_fields_echo(experiment.table, &experiment, arena);
        if (!own.echo[own.count++])
            return et_alloc_failed(error, 0, "settings");
        fprintf(to, " %s |", row->name);
    }
    fputs("\n|---|---|", to);
    for (int i = 0; i < own.count; i++)
        fputs("---|", to);
    fputc('\n', to);
    et_assert(experiment.table);
    et_fields_defaults(experiment.table, &experiment);
    const et_value *usual = et_fields_echo(experiment.table, &experiment, arena);
    if (!usual)
        return et_alloc_failed(error, 0, "settings");
    print_differences(to, experiment.table, "", usual, &own, arena);
    return ET_OK;
}

/* ---- the page ---- */

static void print_head(FILE *to, const et_program *program)
{
    fprintf(to,
            "# Settings\n\n"
            "Made by `%s list --markdown` of the tables that the command reads settings with; not\n"
            "edited. `%s list EXPERIMENT [WORD]...` shows what counts for one, `--yaml` as a file "
            "that\n`train --config` takes. A setting is given as `--set trainer.max_to_keep=2`, or "
            "in a YAML\nfile as a tree or with its dotted name. A name with `[]` is a list of "
            "groups.\n\n"
            "*resuming*: whether the setting may change in a run that is there. `free`: it may. "
            "`asks`: with\n`--accept-changes`. `no`: what was trained depends on it. Type `fixed`: "
            "taken from files of other\nsystems with this value alone.\n",
            program->name, program->name);
}

/* The rows of the whole that are of a kind, or those that are of every task. */
static void print_part(FILE *to, const et_experiment *experiment, bool of_kind, et_arena *arena)
{
    const page p = { experiment->program, arena };
    for (const et_field *field = experiment->table->fields; field->kind != ET_FIELD_KIND_END;
         field++)
        if (field->kind == ET_FIELD_KIND_STRUCT && !strcmp(field->name, "task") == of_kind)
            print_group(to, &p, field->nested, field->name, NULL, field->change);
}

int et_settings_page(FILE *to, const et_program *program, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    int status = ET_OK;
    print_head(to, program);
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
            print_part(to, &experiment, false, &arena);
        }
        fprintf(to, "\n## Of %s\n", kind->name);
        print_part(to, &experiment, true, &arena);
        status = print_experiments(to, program, kind, &arena, error);
    }
    if (!status && arena.failed)
        status = et_alloc_failed(error, 0, "settings");
    et_arena_release(&arena);
    return status;
}
