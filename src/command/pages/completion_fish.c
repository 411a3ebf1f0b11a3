/* Completion of fish: a line for each option. */
#include "command/pages/completion.h"

/* Text in single quotes as fish has them: backslash and quote are escaped by a backslash. */
static void append_quoted(et_strbuf *to, const char *text)
{
    et_strbuf_append_char(to, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            et_strbuf_append_char(to, '\\');
        et_strbuf_append_char(to, *text);
    }
    et_strbuf_append_char(to, '\'');
}

/* " -x -a 'float32 int8'", what a value or a plain word may be. */
static void append_value(et_strbuf *to, const et_completion *all, const et_completes *value)
{
    et_strbuf words = ET_STRBUF_INIT;
    et_completion_words(&words, all, value);
    if (value->settings)
        et_strbuf_printf(&words, "(__%s_set)", all->word);
    else if (value->runs)
        et_strbuf_printf(&words, "%s(__%s_runs)", words.length ? " " : "", all->word);
    else if (value->directories)
        et_strbuf_printf(&words, "%s(__fish_complete_directories)", words.length ? " " : "");
    if (words.length) {
        et_strbuf_append(to, " -a ");
        append_quoted(to, et_strbuf_text(&words));
    }
    if (value->files)
        et_strbuf_append(to, " -F");
    et_strbuf_release(&words);
}

static void print_line(FILE *to, const et_completion *all, const et_strbuf *condition,
                       const et_strbuf *rest)
{
    et_strbuf line = ET_STRBUF_INIT;
    et_strbuf_append(&line, "complete -c ");
    append_quoted(&line, all->program->name);
    et_strbuf_append(&line, " -n ");
    append_quoted(&line, et_strbuf_text(condition));
    fprintf(to, "%s%s\n", et_strbuf_text(&line), et_strbuf_text(rest));
    et_strbuf_release(&line);
}

static void print_option(FILE *to, const et_completion *all, const et_strbuf *condition,
                         const et_arg *row)
{
    const et_completes value = et_completes_of(row);
    et_strbuf rest = ET_STRBUF_INIT;
    et_strbuf_append(&rest, " -l ");
    append_quoted(&rest, row->field.name);
    if (row->alias) {
        et_strbuf_append(&rest, " -l ");
        append_quoted(&rest, row->alias);
    }
    if (value.most) {
        et_strbuf_append(&rest, value.files ? " -r" : " -x");
        append_value(&rest, all, &value);
    }
    et_strbuf_append(&rest, " -d ");
    append_quoted(&rest, row->field.help);
    print_line(to, all, condition, &rest);
    et_strbuf_release(&rest);
}

static void print_command(FILE *to, const et_completion *all, size_t at)
{
    const et_description *described = &all->described[at];
    et_strbuf condition = ET_STRBUF_INIT, rest = ET_STRBUF_INIT;
    et_strbuf_append(&condition, "__fish_seen_subcommand_from ");
    append_quoted(&condition, all->commands->row[at]->name);
    for (const et_described *one = described->first; one; one = one->next)
        for (const et_arg *row = one->rows; row && row->field.name; row++)
            if (et_completion_offers(described, one, row))
                print_option(to, all, &condition, row);
    const et_completes plain = et_completion_plain(described);
    append_value(&rest, all, &plain);
    if (rest.length)
        print_line(to, all, &condition, &rest);
    et_strbuf_release(&condition);
    et_strbuf_release(&rest);
}

static void print_first(FILE *to, const et_completion *all, const char *name, const char *help)
{
    et_strbuf condition = ET_STRBUF_INIT, rest = ET_STRBUF_INIT;
    et_strbuf_append(&condition, "__fish_use_subcommand");
    et_strbuf_append(&rest, " -a ");
    append_quoted(&rest, name);
    et_strbuf_append(&rest, " -d ");
    append_quoted(&rest, help);
    print_line(to, all, &condition, &rest);
    et_strbuf_release(&condition);
    et_strbuf_release(&rest);
}

/* For et_completion_print_lines. fish puts no blank behind a dot or a sign, and finds what stands
 * behind --set= by itself. */
static const char set[] =
    "# Settings: names as far as the next dot, or words behind the sign; a comma begins the next.\n"
    "function __@@_set\n"
    "    set -l experiment ''\n"
    "    set -l before ''\n"
    "    for word in (commandline -opc)\n"
    "        if test \"$before\" = --experiment\n"
    "            set experiment $word\n"
    "        else if string match -q -- '--experiment=*' $word\n"
    "            set experiment (string replace -- --experiment= '' $word)\n"
    "        else if test -z \"$experiment\" -a -f \"$word/params.yaml\"\n"
    "            read -d ' ' before experiment <\"$word/params.yaml\"\n"
    "        end\n"
    "        set before $word\n"
    "    end\n"
    "    set -l typed (commandline -ct | string replace -r -- '^--[a-z-]+=' '')\n"
    "    set -l last (string replace -r -- '.*,' '' \"$typed\")\n"
    "    set -l kept (string replace -r -- '[^,]*$' '' \"$typed\")\n"
    "    for setting in (__@@_settings $experiment | string split ' ')\n"
    "        set -l parts (string split -m1 = -- $setting)\n"
    "        if string match -q '*=*' -- $last\n"
    "            string match -q -- \"$parts[1]=*\" $last; and test -n \"$parts[2]\"\n"
    "            and string split '|' -- $parts[2] | string replace -r '^' \"$kept$parts[1]=\"\n"
    "        else if string match -q -- \"$last*\" $parts[1]\n"
    "            set -l rest (string sub -s (math (string length -- \"$last\") + 1) -- $parts[1])\n"
    "            set -l level (string split -m1 . -- $rest)\n"
    "            if set -q level[2]\n"
    "                echo $kept$last$level[1].\n"
    "            else\n"
    "                echo $kept$parts[1]=\n"
    "            end\n"
    "        end\n"
    "    end\n"
    "end\n\n";

static void print_set(FILE *to, const et_completion *all)
{
    fprintf(to,
            "# Settings of an experiment: NAME=, and the words that may follow.\n"
            "function __%s_settings\n    switch \"$argv\"\n",
            all->word);
    for (int k = 0; k < all->program->count; k++) {
        et_strbuf names = ET_STRBUF_INIT;
        for (const et_experiment_row *row = all->program->kinds[k]->experiments; row->name; row++) {
            et_strbuf_append_char(&names, ' ');
            append_quoted(&names, row->name);
        }
        if (names.length)
            fprintf(to, "        case%s\n            echo '%s'\n", et_strbuf_text(&names),
                    et_strbuf_text(&all->settings[k]));
        et_strbuf_release(&names);
    }
    fputs("        case '*'\n", to);
    for (int k = 0; k < all->program->count; k++)
        if (all->settings[k].length)
            fprintf(to, "            echo '%s'\n", et_strbuf_text(&all->settings[k]));
    fputs("    end\nend\n\n", to);
    et_completion_print_lines(to, all, set);
}

void et_completion_fish(FILE *to, const et_completion *all)
{
    const char *name = all->program->name;
    et_strbuf quoted = ET_STRBUF_INIT;
    append_quoted(&quoted, name);
    fprintf(to, "# fish completion of %s, made by `%s completion fish`.\n\n", name, name);
    fprintf(to,
            "# Directories that are a run, or that have directories in them.\n"
            "function __%s_runs\n"
            "    for directory in (__fish_complete_directories (commandline -ct))\n"
            "        set -l path (string split -f1 \\t -- $directory)\n"
            "        if test -e \"$path/params.yaml\"; or count $path/*/ >/dev/null\n"
            "            echo $path\n        end\n    end\nend\n\n",
            all->word);
    print_set(to, all);
    fprintf(to, "complete -c %s -f\n", et_strbuf_text(&quoted));
    fprintf(to, "complete -c %s -l help -d 'print the help and end'\n", et_strbuf_text(&quoted));
    for (size_t i = 0; i < all->commands->count; i++)
        print_first(to, all, all->commands->row[i]->name, all->commands->row[i]->help);
    print_first(to, all, "help", "print the help of a command");
    for (size_t i = 0; i < all->commands->count; i++)
        print_command(to, all, i);
    const et_completes commands = { .commands = true };
    et_strbuf condition = ET_STRBUF_INIT, rest = ET_STRBUF_INIT;
    et_strbuf_append(&condition, "__fish_seen_subcommand_from help");
    append_value(&rest, all, &commands);
    print_line(to, all, &condition, &rest);
    et_strbuf_release(&condition);
    et_strbuf_release(&rest);
    et_strbuf_release(&quoted);
}
