/* Completion of bash: two functions that are tables, and one that looks them up. bash cuts words at
 * `=`, so --name=value is put together again before it is looked at; of it the shell replaces what
 * stands behind the sign. Needs bash 4.3 and no other package. */
#include "command/pages/completion.h"

/* What a value may be, in the terms of the script: how many words, then each, then kinds of name.
 */
static void append_value(et_strbuf *to, const et_completion *all, const et_completes *value)
{
    et_strbuf words = ET_STRBUF_INIT;
    et_completion_words(&words, all, value);
    et_strbuf_printf(to, "%d%s%s%s%s%s%s", value->most, words.length ? " " : "",
                     et_strbuf_text(&words), value->files ? " @file" : "",
                     value->directories ? " @directory" : "", value->runs ? " @run" : "",
                     value->settings ? " @setting" : "");
    et_strbuf_release(&words);
}

/* "        'train:--config'|'train:--config-file') echo '1 @file' ;;" */
static void print_value(FILE *to, const et_completion *all, const char *command, const char *name,
                        const char *alias, const et_completes *value)
{
    et_strbuf line = ET_STRBUF_INIT, key = ET_STRBUF_INIT, words = ET_STRBUF_INIT;
    et_strbuf_printf(&key, "%s:%s", command, name);
    et_shell_quote(&line, et_strbuf_text(&key));
    if (alias) {
        et_strbuf_reset(&key);
        et_strbuf_printf(&key, "%s:--%s", command, alias);
        et_strbuf_append_char(&line, '|');
        et_shell_quote(&line, et_strbuf_text(&key));
    }
    append_value(&words, all, value);
    et_strbuf_append(&line, ") echo ");
    et_shell_quote(&line, et_strbuf_text(&words));
    fprintf(to, "        %s ;;\n", et_strbuf_text(&line));
    et_strbuf_release(&line);
    et_strbuf_release(&key);
    et_strbuf_release(&words);
}

static void print_options(FILE *to, const et_completion *all, size_t at)
{
    const et_description *described = &all->described[at];
    et_strbuf line = ET_STRBUF_INIT, name = ET_STRBUF_INIT;
    et_shell_quote(&name, all->commands->row[at]->name);
    for (const et_described *one = described->first; one; one = one->next)
        for (const et_arg *row = one->rows; row && row->field.name; row++)
            if (et_completion_offers(described, one, row))
                et_strbuf_printf(&line, "--%s ", row->field.name);
    et_strbuf_append(&line, "--help");
    et_strbuf_append(&name, ") echo ");
    et_shell_quote(&name, et_strbuf_text(&line));
    fprintf(to, "        %s ;;\n", et_strbuf_text(&name));
    et_strbuf_release(&line);
    et_strbuf_release(&name);
}

static void print_values(FILE *to, const et_completion *all, size_t at)
{
    const et_description *described = &all->described[at];
    const char *command = all->commands->row[at]->name;
    for (const et_described *one = described->first; one; one = one->next)
        for (const et_arg *row = one->rows; row && row->field.name; row++) {
            const et_completes value = et_completes_of(row);
            if (!value.most || !et_completion_offers(described, one, row))
                continue;
            et_strbuf name = ET_STRBUF_INIT;
            et_strbuf_printf(&name, "--%s", row->field.name);
            print_value(to, all, command, et_strbuf_text(&name), row->alias, &value);
            et_strbuf_release(&name);
        }
    const et_completes plain = et_completion_plain(described);
    print_value(to, all, command, "-", NULL, &plain);
}

/* For et_completion_print_lines. */
static const char lookup[] =
    "# Directories that are a run, or that have directories in them.\n"
    "_@@_runs() {\n"
    "    local directory\n"
    "    compgen -d -- \"$1\" | while IFS= read -r directory; do\n"
    "        if [[ -e $directory/params.yaml ]] || compgen -G \"$directory/*/\" >/dev/null; then\n"
    "            printf '%s\\n' \"$directory\"\n"
    "        fi\n"
    "    done\n"
    "}\n"
    "\n"
    "# What may stand at the end of settings, $1: names as far as the next dot, or words behind "
    "the\n"
    "# sign. bash replaces what is behind the last sign of the line.\n"
    "_@@_set() {\n"
    "    local last=${1##*,} keep='' experiment='' name='' setting='' rest='' i\n"
    "    [[ $1 != *,* ]] || { keep=${1%,*}, keep=${keep##*=}; }\n"
    "    for ((i = 0; i < ${#words[@]}; i++)); do\n"
    "        case ${words[i]} in\n"
    "        --experiment) experiment=${words[i + 1]-} ;;\n"
    "        --experiment=*) experiment=${words[i]#*=} ;;\n"
    "        *) [[ -n $experiment || ! -f ${words[i]}/params.yaml ]] ||\n"
    "            read -r name experiment <\"${words[i]}/params.yaml\" ;;\n"
    "        esac\n"
    "    done\n"
    "    for setting in $(_@@_settings \"$experiment\"); do\n"
    "        name=${setting%%=*}\n"
    "        if [[ $last == *=* ]]; then\n"
    "            [[ $name == \"${last%%=*}\" ]] || continue\n"
    "            setting=${setting#*=}\n"
    "            compgen -W \"${setting//|/ }\" -- \"${last#*=}\"\n"
    "        elif [[ $name == \"$last\"* ]]; then\n"
    "            rest=${name#\"$last\"}\n"
    "            [[ $rest != *.* ]] && name+='=' || name=$last${rest%%.*}.\n"
    "            printf '%s\\n' \"$keep$name\"\n"
    "        fi\n"
    "    done | sort -u\n"
    "}\n"
    "\n"
    "_@@() {\n"
    "    local cur='' option='' word='' most='' kinds='' i given=0\n"
    "    local -a words=() found=()\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i <= COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if ((${#words[@]})) && [[ $word == '=' || ${words[-1]} == *= ]]; then\n"
    "            words[-1]+=$word\n"
    "        else\n"
    "            words+=(\"$word\")\n"
    "        fi\n"
    "    done\n"
    "    cur=${words[-1]}\n"
    "    unset 'words[-1]'\n"
    "    if ((${#words[@]} == 0)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$(_@@_options '')\" -- \"$cur\")\n"
    "        return\n"
    "    fi\n"
    "    if [[ $cur == --*=* ]]; then\n"
    "        option=${cur%%=*} cur=${cur#*=}\n"
    "    else\n"
    "        for ((i = ${#words[@]} - 1; i > 0; i--, given++)); do\n"
    "            if [[ ${words[i]} == --* ]]; then\n"
    "                option=${words[i]}\n"
    "                break\n"
    "            fi\n"
    "        done\n"
    "        read -r most kinds < <(_@@_values \"${words[0]}\" \"${option//_/-}\")\n"
    "        if ((given >= ${most:-0})); then option=''; fi\n"
    "        if [[ -z $option && $cur == -* ]]; then\n"
    "            mapfile -t COMPREPLY < <(compgen -W \"$(_@@_options \"${words[0]}\")\" -- "
    "\"$cur\")\n"
    "            return\n"
    "        fi\n"
    "    fi\n"
    "    read -r most kinds < <(_@@_values \"${words[0]}\" \"${option//_/-}\")\n"
    "    for word in $kinds; do\n"
    "        found=()\n"
    "        case $word in\n"
    "        @file) mapfile -t found < <(compgen -f -- \"$cur\") ;;\n"
    "        @directory) mapfile -t found < <(compgen -d -- \"$cur\") ;;\n"
    "        @run) mapfile -t found < <(_@@_runs \"$cur\") ;;\n"
    "        @setting)\n"
    "            mapfile -t found < <(_@@_set \"$cur\")\n"
    "            [[ ${found[0]-} != *[.=] ]] || compopt -o nospace 2>/dev/null ;;\n"
    "        *) [[ $word != \"$cur\"* ]] || COMPREPLY+=(\"$word\") ;;\n"
    "        esac\n"
    "        [[ $word != @[fdr]* ]] || compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY+=(\"${found[@]}\")\n"
    "    done\n"
    "}\n"
    "\n";

static void print_first_words(FILE *to, const et_completion *all)
{
    et_strbuf words = ET_STRBUF_INIT, quoted = ET_STRBUF_INIT;
    for (size_t i = 0; i < all->commands->count; i++)
        et_strbuf_printf(&words, "%s ", all->commands->row[i]->name);
    et_strbuf_append(&words, "help --help --version");
    et_shell_quote(&quoted, et_strbuf_text(&words));
    fprintf(to, "        '') echo %s ;;\n        help) echo --man ;;\n", et_strbuf_text(&quoted));
    et_strbuf_release(&words);
    et_strbuf_release(&quoted);
}

void et_completion_bash(FILE *to, const et_completion *all)
{
    const size_t count = all->commands->count;
    et_strbuf name = ET_STRBUF_INIT;
    fprintf(to,
            "# bash completion of %s, made by `%s completion bash`.\n\n"
            "# What begins a word with --, by command; '': the first word.\n"
            "_%s_options() {\n    case $1 in\n",
            all->program->name, all->program->name, all->word);
    print_first_words(to, all);
    for (size_t i = 0; i < count; i++)
        print_options(to, all, i);
    fprintf(to,
            "    esac\n}\n\n"
            "# COMMAND:OPTION, or COMMAND:- of plain words: how many belong to it, then which.\n"
            "_%s_values() {\n    case $1:${2:--} in\n",
            all->word);
    const et_completes commands = { .commands = true };
    print_value(to, all, "help", "-", NULL, &commands);
    for (size_t i = 0; i < count; i++)
        print_values(to, all, i);
    fputs("    esac\n}\n\n", to);
    et_completion_print_settings(to, all);
    et_completion_print_lines(to, all, lookup);
    et_shell_quote(&name, all->program->name);
    fprintf(to, "complete -F _%s -- %s\n", all->word, et_strbuf_text(&name));
    et_strbuf_release(&name);
}
