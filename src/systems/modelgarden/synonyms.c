#include "systems/modelgarden/synonyms.h"

#include <string.h>

static bool same(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return false;
    return true;
}

static bool has(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const size_t one = strcspn(at, " ");
        if (one == length && same(at, word, length))
            return true;
        at += one;
    }
    return false;
}

bool et_synonym_has(const et_synonym *row, const char *word, size_t length)
{
    return length && has(row->words, word, length);
}

bool et_synonym_is_for(const et_synonym *row, const char *command)
{
    return !row->commands || has(row->commands, command, strlen(command));
}

const et_synonym *et_synonym_find(const et_program *program, et_synonym_of of, const char *word)
{
    for (const et_synonym *row = program->synonyms; row && row->of; row++)
        if (row->of == of && et_synonym_has(row, word, strlen(word)))
            return row;
    return NULL;
}

void et_synonym_print(et_strbuf *out, const et_synonym *row, const et_program *program)
{
    static const char own[] = "`etude ";
    if (!row)
        return;
    et_strbuf_append(out, ": ");
    for (const char *at = row->text, *next; *at; at = next) {
        const char *call = strstr(at, own);
        next = call ? call + strlen(own) : at + strlen(at);
        et_strbuf_append_bytes(out, at, (size_t)((call ? call : next) - at));
        if (call)
            et_strbuf_printf(out, "`%s ", program->name);
    }
}
