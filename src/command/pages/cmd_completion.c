/* etude completion: the script that makes a shell complete what is typed (completion.h). */
#include "command/pages/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fields/fields.h"
#include "command/options/options.h"

typedef struct completion_options {
    const char *shell;
} completion_options;

static const et_option options[] = {
    ET_OPTION_WORD(completion_options, shell, "bash|zsh|fish", "shell"),
    ET_OPTION_END,
};

const et_usage et_usage_completion = {
    options, sizeof(completion_options),
    "Prints what makes a shell complete commands, options and their values. "
    "Installed\npackages have it already.",
    "bash >~/.local/share/bash-completion/completions/etude"
};

static const struct {
    const char *name;
    void (*print)(FILE *to, const et_completion *all);
} shells[] = {
    { "bash", et_completion_bash },
    { "zsh", et_completion_zsh },
    { "fish", et_completion_fish },
};

#define SHELLS (sizeof shells / sizeof shells[0])

static int unknown_shell(const char *shell, et_error *error)
{
    const char *names[SHELLS + 1] = { NULL };
    for (size_t i = 0; i < SHELLS; i++)
        names[i] = shells[i].name;
    return et_fail(error, ET_EUSAGE, "completion: no shell %s%s; there are bash, zsh and fish",
                   shell, et_nearest_hint(shell, names, "").text);
}

/* Both arrays are there, zeroed. */
static int print_with(const et_call *call, size_t shell, const et_commands *commands,
                      et_description *described, et_strbuf *settings, et_error *error)
{
    const et_program *program = call->program;
    et_strbuf word = ET_STRBUF_INIT;
    int status = ET_OK;
    for (size_t i = 0; i < commands->count && !status; i++)
        status = et_describe(&described[i], program, commands->row[i], error);
    for (int k = 0; k < program->count && !status; k++)
        status = et_completion_settings(&settings[k], program, program->kinds[k], error);
    for (const char *at = program->name; *at; at++)
        et_strbuf_append_char(&word, isalnum((unsigned char)*at) ? *at : '_');
    if (!status && word.failed)
        status = et_alloc_failed(error, 0, "a name");
    const et_completion all = { program, commands, described, et_strbuf_text(&word), settings };
    if (!status)
        shells[shell].print(stdout, &all);
    et_strbuf_release(&word);
    return status;
}

static int print(const et_call *call, size_t shell, et_error *error)
{
    const et_commands commands = et_commands_of(call->program);
    const int kinds = call->program->count;
    et_description *described = et_alloc_zero(commands.count, sizeof *described);
    et_strbuf *settings = et_alloc_zero((size_t)kinds + 1, sizeof *settings);
    int status = described && settings
                     ? print_with(call, shell, &commands, described, settings, error)
                     : et_alloc_failed(error, 0, "help");
    for (size_t i = 0; i < commands.count && described; i++)
        et_description_release(&described[i]);
    for (int k = 0; k < kinds && settings; k++)
        et_strbuf_release(&settings[k]);
    et_free(settings);
    et_free(described);
    return status;
}

int et_cmd_completion(const et_call *call, et_error *error)
{
    const char *shell = ((const completion_options *)call->options)->shell;
    if (!shell)
        return et_fail(error, ET_EUSAGE, "completion: which shell is missing: bash, zsh or fish");
    size_t at = 0;
    while (at < SHELLS && strcmp(shells[at].name, shell) != 0)
        at++;
    return at < SHELLS ? print(call, at, error) : unknown_shell(shell, error);
}
