/* etude completion: prints the function that completes words in a shell. The function asks `etude
 * complete` for the candidates (complete.c); it knows no commands and no options. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fields/fields.h"
#include "command/command.h"
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
    "Prints a script with which your shell completes commands, options and values.\nInstalled "
    "packages contain the script.",
    "bash >~/.local/share/bash-completion/completions/etude"
};

/* @@ is the program's name, @_ the same with "_" for all that a function's name cannot have. bash
 * cuts words at = and : and replaces only the last part. It quotes the names of files. */
static const char bash[] =
    "# bash completion of @@, made by `@@ completion bash`.\n"
    "_@_() {\n"
    "    local line word=${COMP_WORDS[COMP_CWORD]} i\n"
    "    local -a words=()\n"
    "    for ((i = 1; i <= COMP_CWORD; i++)); do\n"
    "        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* || ${COMP_WORDS[i - 1]} == *[=:] ]]; "
    "then\n"
    "            words[-1]+=${COMP_WORDS[i]}\n"
    "        else\n"
    "            words+=(\"${COMP_WORDS[i]}\")\n"
    "        fi\n"
    "    done\n"
    "    [[ $word != [=:]* ]] || word=\n"
    "    local before=${words[-1]%\"$word\"}\n"
    "    words=(\"${words[@]//\\\\/}\")\n"
    "    words=(\"${words[@]#[\\\"\\']}\")\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        line=${line%%$'\\t'*}\n"
    "        COMPREPLY+=(\"${line#\"$before\"}\")\n"
    "    done < <(\"${1/#\\~/$HOME}\" complete \"${words[@]}\" 2>/dev/null)\n"
    "    [[ ! -e ${COMPREPLY[0]-} ]] || compopt -o filenames 2>/dev/null\n"
    "    [[ ${COMPREPLY[0]-} != *[/=.] ]] || compopt -o nospace 2>/dev/null\n"
    "}\n"
    "complete -F _@_ -- @@\n";

static const char zsh[] =
    "#compdef @@\n"
    "# zsh completion of @@, made by `@@ completion zsh`.\n"
    "_@_() {\n"
    "    local line word\n"
    "    local -a whole begun\n"
    "    for line in \"${(@f)$(\"${(Q)words[1]}\" complete \"${(@Q)words[2,CURRENT-1]}\" "
    "\"${(Q)PREFIX}\" 2>/dev/null)}\"; do\n"
    "        word=${${line%%$'\\t'*}//:/\\\\:}\n"
    "        [[ $line != *$'\\t'* ]] || word+=:${line#*$'\\t'}\n"
    "        if [[ ${line%%$'\\t'*} == *[/=.] ]]; then begun+=($word); else whole+=($word); fi\n"
    "    done\n"
    "    _describe '' whole -- begun -S ''\n"
    "}\n"
    "if [[ $funcstack[1] == _@_ ]]; then _@_ \"$@\"; else compdef _@_ @@; fi\n";

/* fish adds no blank after =, . and /. */
static const char fish[] =
    "# fish completion of @@, made by `@@ completion fish`.\n"
    "function __@__complete\n"
    "    set -l words (commandline -opc)\n"
    "    $words[1] complete $words[2..] (commandline -ct | string unescape) 2>/dev/null\n"
    "end\n"
    "complete -c @@ -f -a '(__@__complete)'\n";

static const struct {
    const char *name, *text;
} shells[] = {
    { "bash", bash },
    { "zsh", zsh },
    { "fish", fish },
};

#define SHELLS (sizeof shells / sizeof shells[0])

/* Whether a script can contain the name without quotes. */
static bool is_plain(const char *name)
{
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._+-", *at))
            return false;
    return *name && *name != '-';
}

int et_cmd_completion(const et_call *call, et_error *error)
{
    const char *shell = ((const completion_options *)call->options)->shell;
    if (!shell)
        return et_fail(error, ET_EUSAGE, "completion: no shell is given; choose bash, zsh or fish");
    if (!is_plain(call->program->name))
        return et_fail(error, ET_EUSAGE,
                       "completion: %s: shells cannot complete a program of this name; name it "
                       "with letters, digits and ._+- only",
                       call->program->name);
    for (size_t i = 0; i < SHELLS; i++)
        if (!strcmp(shells[i].name, shell)) {
            for (const char *at = shells[i].text; *at; at++) {
                const bool name = at[0] == '@' && at[1] == '@', word = at[0] == '@' && at[1] == '_';
                if (!name && !word)
                    putchar(*at);
                for (const char *c = call->program->name; (name || word) && *c; c++)
                    putchar(name || isalnum((unsigned char)*c) ? *c : '_');
                at += name || word;
            }
            return ET_OK;
        }
    const char *names[SHELLS + 1] = { NULL };
    for (size_t i = 0; i < SHELLS; i++)
        names[i] = shells[i].name;
    return et_fail(error, ET_EUSAGE,
                   "completion: no script for the shell %s%s; choose bash, zsh or fish", shell,
                   et_nearest_hint(shell, names, "").text);
}
