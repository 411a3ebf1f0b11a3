/* Which commands a program has: what every program has, which main.c lists, and what its kinds of
 * task add. */
#include <string.h>

#include "command/command.h"

const et_command *et_commands_find(const et_commands *all, const char *name)
{
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

/* The first general one, those of kinds, the others. evaluate is general only where no kind has one
 * of its own. */
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
