/* What the scripts of all shells are made with: quoted texts, and the words that may stand at a
 * place. */
#include "command/pages/completion.h"

#include <stdio.h>
#include <string.h>

void et_shell_quote(et_strbuf *to, const char *text)
{
    et_strbuf_append_char(to, '\'');
    for (; *text; text++)
        if (*text == '\'')
            et_strbuf_append(to, "'\\''");
        else
            et_strbuf_append_char(to, *text);
    et_strbuf_append_char(to, '\'');
}

void et_completion_print_lines(FILE *to, const et_completion *all, const char *text)
{
    for (; *text; text++)
        if (*text == '@' && text[1] == '@') {
            fputs(all->word, to);
            text++;
        } else {
            fputc(*text, to);
        }
}

static void add_word(et_strbuf *to, const char *word)
{
    et_strbuf_printf(to, "%s%s", to->length ? " " : "", word);
}

void et_completion_words(et_strbuf *to, const et_completion *all, const et_completes *value)
{
    const et_program *program = all->program;
    if (*value->words)
        add_word(to, value->words);
    for (int k = 0; k < program->count && value->experiments; k++)
        for (const et_experiment_row *row = program->kinds[k]->experiments; row->name; row++)
            add_word(to, row->name);
    for (size_t i = 0; i < all->commands->count && value->commands; i++)
        add_word(to, all->commands->row[i]->name);
}

bool et_completion_offers(const et_description *described, const et_described *in,
                          const et_arg *row)
{
    if (et_arg_is_plain(row) || row->field.kind == ET_FIELD_KIND_ONLY)
        return false;
    for (const et_described *one = described->first; one != in; one = one->next)
        for (const et_arg *other = one->rows; other && other->field.name; other++)
            if (!et_arg_is_plain(other) && !strcmp(other->field.name, row->field.name))
                return false;
    return true;
}

static void merge(et_completes *into, const et_completes *other)
{
    size_t used = strlen(into->words);
    if (*other->words && !strstr(into->words, other->words))
        snprintf(into->words + used, sizeof into->words - used, "%s%s", used ? " " : "",
                 other->words);
    into->files |= other->files;
    into->directories |= other->directories;
    into->runs |= other->runs;
    into->experiments |= other->experiments;
    into->commands |= other->commands;
}

et_completes et_completion_plain(const et_description *described)
{
    et_completes found = { .most = 0 };
    for (const et_described *one = described->first; one; one = one->next) {
        const char *second = strchr(one->command, ' ');
        if (second) {
            et_completes word = { .most = 0 };
            snprintf(word.words, sizeof word.words, "%s", second + 1);
            merge(&found, &word);
        }
        const et_arg *row = one->rows;
        while (row && row->field.name && !et_arg_is_plain(row))
            row++;
        if (row && row->field.name) { /* of several the first, a RUN */
            const et_completes value = et_completes_of(row);
            merge(&found, &value);
        }
    }
    return found;
}
