/* Prints help of a command from its table: one or more lines per option, under the headings of the
 * rows. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "base/text/terminal.h"
#include "command/options/options.h"

#define COLUMN 31 /* column where the text of an option begins */
#define WIDTH  80 /* at most; a terminal may be narrower */

/* Replaces a word of a text, in arena. */
static const char *put_in(const char *text, const char *word, const char *what, et_arena *arena)
{
    const char *at = text ? strstr(text, word) : NULL;
    return at ? et_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, what, at + strlen(word))
              : text;
}

const char *et_usage_example(const et_usage *usage, const et_program *program, et_arena *arena)
{
    et_assert(usage && program);
    const et_task_kind *kind = program->count ? program->kinds[0] : NULL;
    const char *text = usage->example ? usage->example : "";
    if (!kind)
        return text;
    const char *data =
        kind->example ? et_arena_printf(arena, " \\\n        %s", kind->example) : "";
    text =
        put_in(text, "EXPERIMENT", kind->experiments->name ? kind->experiments->name : "", arena);
    return data ? put_in(text, " DATA", data, arena) : NULL;
}

static void print_option(FILE *to, const et_command_line *line, const et_option_slot *slot,
                         int width)
{
    const et_option *row = slot->row;
    et_strbuf text = ET_STRBUF_INIT;
    /* "    --model-dir DIR            where the run is kept" */
    int used = fprintf(to, "    --%s%s%s", et_option_typed(row).text,
                       row->form == ET_OPTION_FORM_INDEXED ? ":N" : "", slot->value ? " " : "");
    /* A long "train|eval|..." wraps below its start. */
    const int begin = used;
    for (const char *value = slot->value ? slot->value : ""; *value;) {
        const int length = (int)strcspn(value, "|") + (value[strcspn(value, "|")] == '|');
        if (used > begin && used + length > width) {
            fprintf(to, "\n%*s", begin, "");
            used = begin;
        }
        fprintf(to, "%.*s", length, value);
        used += length;
        value += length;
    }
    /* After a long name, the text gets a separate line. */
    fprintf(to, used > COLUMN - 1 ? "\n%*s" : "%*s", used > COLUMN - 1 ? COLUMN : COLUMN - used,
            "");
    et_strbuf_printf(&text, "%s%s", et_option_is_refused(row) ? "not supported here: " : "",
                     slot->help ? slot->help : "");
    if (line->limits) {
        /* " (1 to 9; default 3)" */
        const et_field *field = &row->field;
        et_strbuf range = ET_STRBUF_INIT, usual = ET_STRBUF_INIT;
        et_field_range(field, &range);
        if (field->kind == ET_FIELD_KIND_CHOICE || field->kind == ET_FIELD_KIND_FLOAT ||
            (field->kind == ET_FIELD_KIND_STRING && field->default_string) ||
            (field->kind == ET_FIELD_KIND_INT && row->form == ET_OPTION_FORM_VALUE))
            et_field_default(field, &usual);
        const bool both = range.length && usual.length;
        if (range.length || usual.length)
            et_strbuf_printf(&text, " (%s%s%s%s)", et_strbuf_text(&range), both ? "; " : "",
                             usual.length ? "default " : "", et_strbuf_text(&usual));
        text.failed |= range.failed || usual.failed;
        et_strbuf_release(&range);
        et_strbuf_release(&usual);
    }
    if (row->alias)
        et_strbuf_printf(&text, " (or --%s)", row->alias);
    if (row->letter)
        et_strbuf_printf(&text, " (or -%c)", row->letter);
    et_terminal_wrap(to, et_strbuf_text(&text), COLUMN, COLUMN, width);
    fputc('\n', to);
    et_strbuf_release(&text);
}

void et_command_line_help(FILE *to, const et_command_line *line, const et_usage *usage)
{
    et_assert(line->call && usage);
    const et_call *call = line->call;
    const bool terminal = fileno(to) >= 0 && isatty(fileno(to));
    const int columns = terminal ? et_terminal_width(fileno(to)) - 1 : WIDTH;
    const char *example = et_usage_example(usage, call->program, line->arena);
    fprintf(to, "usage: %s%s%s", call->program->name, *call->command ? " " : "", call->command);
    for (int i = 0; i < line->count; i++)
        if (et_option_is_plain(line->slots[i].row) && *line->slots[i].row->field.name)
            fprintf(to, " %s", line->slots[i].row->field.name);
    fputs(" [OPTION]...\n", to);
    if (usage->about) {
        fputc('\n', to);
        et_terminal_wrap(to, usage->about, 0, 0, columns < WIDTH ? columns : WIDTH);
        fputc('\n', to);
    }
    if (example && *example)
        fprintf(to, "\nexample:\n    %s %s %s\n", call->program->name, call->command, example);
    bool headed = false;
    for (int i = 0; i < line->count; i++) {
        const et_option_slot *slot = &line->slots[i];
        if (!et_option_is_shown(slot->row))
            continue;
        if (slot->row->group || !headed)
            fprintf(to, "\n%s:\n", slot->row->group ? slot->row->group : "options");
        headed = true;
        print_option(to, line, slot, columns < WIDTH ? columns : WIDTH);
    }
    fprintf(to, "%s    %-*s %s\n", headed ? "" : "\noptions:\n", COLUMN - 5, "--help", "this text");
}
