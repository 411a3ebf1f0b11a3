/* The commands of a program, and running one: general commands from the table of etude/dispatch.c,
 * and the commands of the program's kinds of task. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/ranks.h"

const et_command *et_commands_find(const et_commands *all, const char *name)
{
    et_assert(all->count <= ET_COMMANDS_MAX && name);
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(name, all->row[i]->name))
            return all->row[i];
    return NULL;
}

static void add(et_commands *all, const et_command *row)
{
    if (all->count < ET_COMMANDS_MAX && !et_commands_find(all, row->name))
        all->row[all->count++] = row;
}

static void add_all(et_commands *all, const et_command *rows)
{
    for (const et_command *row = rows; row && row->name; row++)
        add(all, row);
}

/* Order: the first general command, the commands of the kinds, the other general commands. The
 * general `evaluate` is used only if no kind has its own. */
et_commands et_commands_of(const et_program *program)
{
    et_commands all = { .count = 0 };
    if (program->commands)
        add(&all, program->commands);
    for (int i = 0; i < program->count; i++)
        add_all(&all, program->kinds[i]->commands);
    add_all(&all, program->commands);
    return all;
}

static const et_command *row_of(const et_command *rows, const char *name)
{
    while (rows && rows->name && strcmp(rows->name, name))
        rows++;
    return rows && rows->name ? rows : NULL;
}

const et_command *et_command_of(const et_program *program, const et_task_kind *kind,
                                const char *name)
{
    const et_command *own = row_of(kind->commands, name);
    return own ? own : row_of(program->commands, name);
}

/* ---- running ---- */

static int run_with(const et_command *row, et_call *call, et_arena *arena, et_error *error)
{
    et_assert(row->usage && row->run);
    et_command_line line;
    call->options = et_arena_alloc(arena, row->usage->size + 1);
    if (!call->options)
        return et_alloc_failed(error, "options");
    int status = et_command_line_open(&line, row->usage, call->options, call, arena, error);
    if (!status)
        status = et_command_line_parse(&line, error);
    const et_option_slot *quiet = et_command_line_find(&line, "quiet", 5);
    if (!status && !line.help && line.synonyms && !(quiet && *(const bool *)quiet->member) &&
        et_ranks_are_first())
        et_print(stderr, "%-12s %s\n", "note", line.synonyms);
    if (status)
        return status;
    if (!line.help)
        return row->run(call, error);
    et_command_line_help(stdout, &line, row->usage);
    return ET_OK;
}

static void print_group(const et_command *row, const et_call *call, FILE *to)
{
    et_assert(row->commands && row->help);
    fprintf(to, "usage: %s %s COMMAND [OPTION]...\n\n%s.\n\n", call->program->name, row->name,
            row->help);
    for (const et_command *one = row->commands; one->name; one++)
        fprintf(to, "    %-10s %s\n", one->name, one->help);
}

static int run_group(const et_command *row, const et_call *call, et_error *error)
{
    char whole[64];
    if (!call->argc) {
        print_group(row, call, stderr);
        /* "train, predict or scaffold" */
        et_strbuf names = ET_STRBUF_INIT;
        for (const et_command *one = row->commands; one->name; one++)
            et_strbuf_printf(&names, "%s%s",
                             one == row->commands ? ""
                             : one[1].name        ? ", "
                                                  : " or ",
                             one->name);
        int status = et_fail(error, ET_EUSAGE, "%s: no command given: %s", row->name,
                             et_strbuf_text(&names));
        et_strbuf_release(&names);
        return status;
    }
    const char *name = call->argv[0];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        print_group(row, call, stdout);
        return ET_OK;
    }
    const et_command *one = row_of(row->commands, name);
    if (!one) {
        const char *names[ET_COMMANDS_MAX + 1] = { NULL };
        for (int i = 0; i < ET_COMMANDS_MAX && row->commands[i].name; i++)
            names[i] = row->commands[i].name;
        return et_fail(error, ET_EUSAGE, "%s: no command %s%s", row->name, name,
                       et_nearest_hint(name, names, "").text);
    }
    snprintf(whole, sizeof whole, "%s %s", call->command, name);
    const et_call inner = {
        .program = call->program, .command = whole, .argc = call->argc - 1, .argv = call->argv + 1
    };
    return et_command_run(one, &inner, error);
}

int et_command_run(const et_command *row, const et_call *call, et_error *error)
{
    et_assert(row && (row->run || row->commands));
    if (row->commands)
        return run_group(row, call, error);
    if (!row->usage)
        return row->run(call, error);
    et_arena arena = ET_ARENA_INIT;
    et_call own = *call;
    int status = run_with(row, &own, &arena, error);
    et_arena_release(&arena);
    return status;
}
