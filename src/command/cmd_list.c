/* etude list: experiments, or all settings of one. The settings are not written down here: the
 * field tables (base/fields.h) are walked side by side with their values, which et_fields_echo
 * gives in the tables' order, so a new setting is listed as soon as it has a row.
 *
 *   etude list NAME  ->  a line for each setting: path, value, what it does, its range
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields_scalar.h"
#include "base/yaml.h"
#include "command/args.h"
#include "command/command.h"
#include "train/experiment.h"

#define SETTING_WIDTH 56 /* columns of a setting with its value */

/* "trainer.max_to_keep: 5    # checkpoints kept, newest first (1 to 100000)" A value of several
 * lines shows its first. What follows # is the field's help and range. */
static void print_setting(const et_field *field, const char *path, const et_value *value)
{
    /* The value in YAML, as it would stand in a file or behind --set. */
    et_strbuf line = ET_STRBUF_INIT, range = ET_STRBUF_INIT;
    et_strbuf_printf(&line, "%s: ", path);
    et_yaml_print(&line, value);
    et_assert(field->help);
    et_field_range(field, &range);
    printf("%-*.*s  # %s", SETTING_WIDTH, (int)strcspn(et_strbuf_text(&line), "\n"),
           et_strbuf_text(&line), field->help);
    printf(range.length ? " (%s)\n" : "\n", et_strbuf_text(&range));
    et_strbuf_release(&line);
    et_strbuf_release(&range);
}

/* echo: the values, as a tree of the table's shape. Depth first, paths with dots. Without memory
 * for a path it stops, and the arena says so to the caller. */
static void print_settings(const et_fields *table, const et_value *echo, const char *path,
                           et_arena *arena)
{
    et_assert(echo->kind == ET_VALUE_DICT);
    const et_value *value = echo->first;
    /* Table and tree side by side: the echo has a child for each row. */
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END && value;
         field++, value = value->next) {
        const char *whole = et_arena_printf(arena, "%s%s%s", path, *path ? "." : "", field->name);
        if (!whole)
            return;
        /* A group's own line would say nothing: its settings follow. */
        if (field->kind == ET_FIELD_KIND_STRUCT)
            print_settings(field->nested, value, whole, arena);
        else
            print_setting(field, whole, value);
    }
}

/* The experiment as it begins: defaults and what the experiment sets, no run's files. */
static int list_settings(const et_program *program, const char *name, et_error *error)
{
    et_experiment experiment;
    et_arena arena = ET_ARENA_INIT;
    int status = et_experiment_begin(&experiment, program, name, &arena, error);
    if (status) {
        et_arena_release(&arena);
        return status;
    }
    /* Values as a tree of the tables' shape: what print_settings walks beside them. */
    et_value *echo = et_fields_echo(experiment.table, &experiment, &arena);
    if (echo)
        print_settings(experiment.table, echo, "", &arena);
    if (!echo || arena.failed)
        status = et_alloc_failed(error, 0, "settings");
    et_arena_release(&arena);
    return status;
}

/* `etude list`, `etude list NAME`, `etude list --experiment NAME`. */
int et_cmd_list(const et_call *call, et_error *error)
{
    const char *experiment = NULL;
    et_arg_list names = { .count = 0 };
    const et_arg table[] = { { "experiment", "NAME", "show the settings of this experiment",
                               ET_ARG_TEXT, &experiment, NULL },
                             { "[EXPERIMENT]", NULL, NULL, ET_ARG_REST, &names, NULL },
                             ET_ARG_END };
    bool help;
    int status = et_args_parse(table, call, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, call,
                     "Lists experiments, or all settings of one with their values.",
                     call->program->kinds[0]->experiments->name);
        return ET_OK;
    }
    /* Both ways of naming it are taken, one at a time. */
    if (names.count + (experiment != NULL) > 1)
        return et_fail(error, ET_EUSAGE, "list: one experiment at a time");
    if (names.count)
        experiment = names.items[0];
    if (experiment)
        return list_settings(call->program, experiment, error);
    /* Without a name: the tables of experiments. */
    for (int i = 0; i < call->program->count; i++)
        for (const et_experiment_row *row = call->program->kinds[i]->experiments; row->name; row++)
            printf("%-20s %s\n", row->name, row->help);
    return ET_OK;
}
