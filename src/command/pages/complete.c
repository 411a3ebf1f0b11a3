/* etude complete WORDS...: prints the candidates for the last word, one per line; WORDS follow the
 * program's name. The functions that `completion` prints call this command. The tables that parse
 * the words (command/options/) decide what the last word may be. A wrong line gives no candidates
 * and no message. */
#include "command/pages/complete.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "command/command.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/pages/offers.h"

/* ---- options ---- */

static void add_options(et_offers *offers, const et_command_line *line, const char *word)
{
    const size_t before = offers->text.length;
    for (int i = 0; i < line->count; i++) {
        const et_option *row = line->slots[i].row;
        char name[80];
        snprintf(name, sizeof name, "--%s", et_option_typed(row).text);
        if (et_option_is_shown(row) && row->field.kind != ET_FIELD_KIND_ONLY)
            et_offers_add(offers, "", word, name, line->slots[i].help);
    }
    et_offers_add(offers, "", word, "--help", "print the help and end");
    for (int i = 0; i < line->count && offers->text.length == before; i++) {
        char name[80];
        snprintf(name, sizeof name, "--%s",
                 line->slots[i].row->alias ? line->slots[i].row->alias : "");
        if (name[2] && et_option_is_shown(line->slots[i].row))
            et_offers_add(offers, "", word, name, line->slots[i].help);
    }
}

/* Whether the words are the line of another command, as of `launch`. words: from its name on. */
static bool is_command_line(const et_option_position *position, const et_call *call,
                            char *const *words)
{
    return position->ended && position->plain_nth > 0 && position->plain &&
           strstr(position->plain->row->field.name, "COMMAND") &&
           strcmp(*words, call->command) != 0;
}

static void add_position(et_offers *offers, const et_option_position *position, const char *word)
{
    char before[4096];
    snprintf(before, sizeof before, "%.*s", (int)(position->text - word), word);
    if (position->slot && position->slot->row->field.kind == ET_FIELD_KIND_BOOL) {
        et_offers_add(offers, before, position->text, "true", NULL);
        et_offers_add(offers, before, position->text, "false", NULL);
    } else if (position->slot) {
        /* A run that is begun is a directory. */
        const bool run = !strcmp(position->slot->row->field.name, "model-dir");
        et_offers_add_value(offers, before, position->text, run ? "RUN" : position->slot->value,
                            position->nth, false);
    }
    if (position->more && position->plain)
        et_offers_add_value(offers, "", word, position->plain->row->field.name, position->plain_nth,
                            true);
}

/* ---- commands ---- */

static void complete(et_offers *offers, int argc, char **argv);

/* Words of a command with a usage. */
static void complete_usage(et_offers *offers, const et_command *row, const et_call *call,
                           et_arena *arena)
{
    const char *word = call->argv[call->argc - 1];
    et_command_line line;
    et_option_position position;
    void *options = et_arena_alloc(arena, row->usage->size + 1);
    if (!options || et_command_line_open(&line, row->usage, options, call, arena, NULL))
        return;
    et_command_line_position(&line, &position);
    char **inner = call->argv + call->argc - 1 - position.plain_nth;
    if (is_command_line(&position, call, inner))
        complete(offers, position.plain_nth + 1, inner);
    else if (!position.ended && *word == '-' && (!position.slot || position.more))
        add_options(offers, &line, word);
    else
        add_position(offers, &position, word);
}

/* call: argv ends with the word that is completed. */
static void complete_command(et_offers *offers, const et_command *row, const et_call *call)
{
    const char *word = call->argv[call->argc - 1];
    et_arena arena = ET_ARENA_INIT;
    if (row->usage)
        complete_usage(offers, row, call, &arena);
    et_arena_release(&arena);
    for (const et_command *one = row->commands; one && one->name; one++) {
        const et_call inner = { .program = call->program,
                                .command = one->name,
                                .argc = call->argc - 1,
                                .argv = call->argv + 1 };
        if (call->argc == 1)
            et_offers_add(offers, "", word, one->name, one->help);
        else if (!strcmp(call->argv[0], one->name))
            complete_command(offers, one, &inner);
    }
    if (row->commands && call->argc == 1)
        et_offers_add(offers, "", word, "--help", "print the help and end");
}

/* Kinds may have commands of one name: the run on the line says whose it is, else all are offered.
 */
static void complete_named(et_offers *offers, const et_call *call)
{
    const et_program *program = call->program;
    const et_commands all = et_commands_of(program);
    const et_command *row = et_commands_find(&all, call->command);
    et_call before = *call;
    before.argc--;
    const et_named_run named = et_run_named(&before);
    const et_task_kind *chosen = et_kind_named(&before);
    offers->kind = chosen ? chosen : named.kind;
    const et_command *own = named.kind ? et_command_of(program, named.kind, call->command) : NULL;
    if (own || !row) {
        if (own)
            complete_command(offers, own, call);
        return;
    }
    complete_command(offers, row, call);
    for (int k = 0; k < program->count; k++) {
        own = et_command_of(program, program->kinds[k], call->command);
        if (own && own != row)
            complete_command(offers, own, call);
    }
}

/* argv: the words after the program's name; the last one is unfinished. */
static void complete(et_offers *offers, int argc, char **argv)
{
    const char *word = argv[argc - 1];
    if (argc == 1) {
        et_offers_add_commands(offers, word);
        et_offers_add(offers, "", word, "help", "print the help of a command");
        if (*word == '-') {
            et_offers_add(offers, "", word, "--help", "print the commands and end");
            et_offers_add(offers, "", word, "--version", "print the version and end");
        }
        return;
    }
    if (!strcmp(argv[0], "help")) {
        et_offers_add_commands(offers, word);
        if (*word == '-')
            et_offers_add(offers, "", word, "--man", "print a page for man");
        return;
    }
    const et_call call = {
        .program = offers->program, .command = argv[0], .argc = argc - 1, .argv = argv + 1
    };
    complete_named(offers, &call);
}

int et_complete(const et_program *program, int argc, char **argv, et_error *error)
{
    char none[] = "", *words[] = { none, NULL };
    et_offers offers = { .program = program };
    complete(&offers, argc ? argc : 1, argc ? argv : words);
    fputs(et_strbuf_text(&offers.text), stdout);
    int status = offers.text.failed ? et_alloc_failed(error, offers.text.length, "words") : ET_OK;
    et_offers_release(&offers);
    return status;
}
