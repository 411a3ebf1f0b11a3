/* Completion of zsh: a specification for _arguments of each command. It is a file for $fpath, named
 * _PROGRAM, and works as well when it is sourced. */
#include "command/pages/completion.h"

#include <string.h>

/* In a specification brackets and colons have a meaning. */
static void append_escaped(et_strbuf *to, const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text))
            et_strbuf_append_char(to, '\\');
        et_strbuf_append_char(to, *text);
    }
}

/* What completes a value: words, one function, or several side by side. */
static void append_action(et_strbuf *to, const et_completion *all, const et_completes *value)
{
    et_strbuf words = ET_STRBUF_INIT;
    et_completion_words(&words, all, value);
    const char *kind = value->runs          ? "runs"
                       : value->files       ? "files"
                       : value->directories ? "directories"
                                            : NULL;
    if (kind && words.length) {
        et_strbuf_printf(to, "_alternative \"words\\:word\\:(%s)\" ", et_strbuf_text(&words));
        et_strbuf_printf(to, "\"%s\\:%s\\:", kind, kind);
    }
    if (value->settings)
        et_strbuf_printf(to, "_%s_set", all->word);
    else if (value->runs)
        et_strbuf_printf(to, "_%s_runs", all->word);
    else if (kind)
        et_strbuf_append(to, value->files ? "_files" : "_files -/");
    else if (words.length)
        et_strbuf_printf(to, "(%s)", et_strbuf_text(&words));
    else
        et_strbuf_append_char(to, ' '); /* anything, and nothing is offered */
    if (kind && words.length)
        et_strbuf_append_char(to, '"');
    et_strbuf_release(&words);
}

/* "            '*--set=[settings on top]:KEY=VALUE: ' \" */
static void print_option(FILE *to, const et_completion *all, const char *name, const et_arg *row)
{
    const et_completes value = et_completes_of(row);
    et_strbuf text = ET_STRBUF_INIT, quoted = ET_STRBUF_INIT;
    et_strbuf_printf(&text, "%s--%s%s[", row->way == ET_ARG_WAY_LIST ? "*" : "", name,
                     value.most ? "=" : "");
    append_escaped(&text, row->field.help);
    et_strbuf_append_char(&text, ']');
    for (int i = 0; i < value.most; i++) {
        et_strbuf_append_char(&text, ':');
        append_escaped(&text, row->value);
        et_strbuf_append_char(&text, ':');
        append_action(&text, all, &value);
    }
    et_shell_quote(&quoted, et_strbuf_text(&text));
    fprintf(to, "            %s \\\n", et_strbuf_text(&quoted));
    et_strbuf_release(&text);
    et_strbuf_release(&quoted);
}

static void print_command(FILE *to, const et_completion *all, size_t at)
{
    const et_description *described = &all->described[at];
    et_strbuf text = ET_STRBUF_INIT, quoted = ET_STRBUF_INIT;
    et_shell_quote(&quoted, all->commands->row[at]->name);
    fprintf(to, "        %s)\n            _arguments \\\n", et_strbuf_text(&quoted));
    for (const et_described *one = described->first; one; one = one->next)
        for (const et_arg *row = one->rows; row && row->field.name; row++)
            if (et_completion_offers(described, one, row)) {
                print_option(to, all, row->field.name, row);
                if (row->alias)
                    print_option(to, all, row->alias, row);
            }
    const et_completes plain = et_completion_plain(described);
    et_strbuf_append(&text, "*:argument:");
    append_action(&text, all, &plain);
    et_strbuf_reset(&quoted);
    et_shell_quote(&quoted, et_strbuf_text(&text));
    fprintf(to, "            '--help[print the help and end]' \\\n            %s ;;\n",
            et_strbuf_text(&quoted));
    et_strbuf_release(&text);
    et_strbuf_release(&quoted);
}

static void print_commands(FILE *to, const et_completion *all)
{
    for (size_t i = 0; i < all->commands->count; i++) {
        const et_command *row = all->commands->row[i];
        et_strbuf text = ET_STRBUF_INIT, quoted = ET_STRBUF_INIT;
        append_escaped(&text, row->name);
        et_strbuf_append_char(&text, ':');
        append_escaped(&text, row->help);
        et_shell_quote(&quoted, et_strbuf_text(&text));
        fprintf(to, "        %s\n", et_strbuf_text(&quoted));
        et_strbuf_release(&text);
        et_strbuf_release(&quoted);
    }
    fputs("        'help:print the help of a command'\n", to);
}

/* For et_completion_print_lines. */
static const char set[] =
    "# Settings: names as far as the next dot, or words behind the sign; a comma begins the next.\n"
    "_@@_set() {\n"
    "    local experiment setting name rest i\n"
    "    local -aU offered\n"
    "    compset -P '*,'\n"
    "    for ((i = 1; i < CURRENT; i++)); do\n"
    "        case $words[i] in\n"
    "        --experiment) experiment=$words[i+1] ;;\n"
    "        --experiment=*) experiment=${words[i]#*=} ;;\n"
    "        *) [[ -n $experiment || ! -f $words[i]/params.yaml ]] ||\n"
    "            read -r name experiment <$words[i]/params.yaml ;;\n"
    "        esac\n"
    "    done\n"
    "    rest=$PREFIX\n"
    "    [[ $rest != *=* ]] || compset -P '*='\n"
    "    for setting in $(_@@_settings \"$experiment\"); do\n"
    "        name=${setting%%=*}\n"
    "        if [[ $rest == *=* ]]; then\n"
    "            [[ $name != ${rest%%=*} ]] || offered+=(${(s:|:)setting#*=})\n"
    "        elif [[ $name == $rest* ]]; then\n"
    "            [[ ${name#$rest} == *.* ]] && name=$rest${${name#$rest}%%.*}. || name+='='\n"
    "            offered+=($name)\n"
    "        fi\n"
    "    done\n"
    "    if [[ $rest == *=* ]]; then compadd -a offered; else compadd -S '' -a offered; fi\n"
    "}\n\n";

static void print_set(FILE *to, const et_completion *all)
{
    et_completion_print_settings(to, all);
    et_completion_print_lines(to, all, set);
}

void et_completion_zsh(FILE *to, const et_completion *all)
{
    const char *name = all->program->name, *word = all->word;
    fprintf(to, "#compdef %s\n# zsh completion of %s, made by `%s completion zsh`.\n\n", name, name,
            name);
    fprintf(to,
            "# Directories that are a run, or that have directories in them.\n"
            "_%s_is_run() { [[ -e $REPLY/params.yaml || -n $REPLY/*(#qN/) ]] }\n"
            "_%s_runs() { _files -g '*(-/+_%s_is_run)' }\n\n",
            word, word, word);
    print_set(to, all);
    fprintf(to,
            "_%s() {\n    local curcontext=$curcontext state line ret=1\n"
            "    typeset -A opt_args\n    local -a commands\n    commands=(\n",
            word);
    print_commands(to, all);
    fputs("    )\n"
          "    _arguments -C '(- *)--help[print the commands and end]' \\\n"
          "        '(- *)--version[print the version and end]' \\\n"
          "        '1:command:->command' '*::argument:->argument' && ret=0\n"
          "    case $state in\n"
          "    command) _describe -t commands command commands && ret=0 ;;\n"
          "    argument)\n"
          "        case $words[1] in\n"
          "        help) _describe -t commands command commands && ret=0 ;;\n",
          to);
    for (size_t i = 0; i < all->commands->count; i++)
        print_command(to, all, i);
    fprintf(to,
            "        esac && ret=0 ;;\n    esac\n    return ret\n}\n\n"
            "if [[ $funcstack[1] == _%s ]]; then\n    _%s \"$@\"\nelse\n"
            "    compdef _%s %s\nfi\n",
            word, word, word, name);
}
