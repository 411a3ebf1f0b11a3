/* The commands of a program: general commands from the table of etude/dispatch.c, and the commands
 * of the program's kinds of task. */
#include <string.h>

#include "base/assert.h"
#include "command/command.h"

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
