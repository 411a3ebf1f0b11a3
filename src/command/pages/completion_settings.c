/* The settings of a kind of task, as completion offers them: all that its tables name, since a
 * group that is not selected may be selected on the same line. */
#include "base/alloc.h"
#include "base/arena.h"
#include "command/pages/completion.h"
#include "systems/modelgarden/experiment.h"

static void append_words(et_strbuf *to, const et_field *field)
{
    if (field->kind == ET_FIELD_KIND_BOOL)
        et_strbuf_append(to, "true|false");
    for (int i = 0; field->choices && field->choices[i]; i++)
        et_strbuf_printf(to, "%s%s", i ? "|" : "", field->choices[i]);
    if (field->zero)
        et_strbuf_append(to, field->zero);
}

static void append_table(et_strbuf *to, const et_fields *table, const char *path, et_arena *arena)
{
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        const char *whole = et_arena_printf(arena, "%s%s%s", path, *path ? "." : "", field->name);
        if (!whole || field->kind == ET_FIELD_KIND_ONLY)
            continue;
        if (field->kind == ET_FIELD_KIND_STRUCT) {
            append_table(to, field->nested, whole, arena);
            continue;
        }
        et_strbuf_printf(to, "%s%s=", to->length ? " " : "", whole);
        append_words(to, field);
    }
}

int et_completion_settings(et_strbuf *to, const et_program *program, const et_task_kind *kind,
                           et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    int status = ET_OK;
    if (kind->experiments->name) {
        status = et_experiment_begin(&experiment, program, kind->experiments->name, &arena, error);
        if (!status)
            append_table(to, experiment.table, "", &arena);
    }
    if (!status && (arena.failed || to->failed))
        status = et_alloc_failed(error, arena.used, "settings");
    et_arena_release(&arena);
    return status;
}

void et_completion_print_settings(FILE *to, const et_completion *all)
{
    et_strbuf every = ET_STRBUF_INIT;
    fprintf(to,
            "# Settings of an experiment: NAME=, and the words that may follow.\n"
            "_%s_settings() {\n    case $1 in\n",
            all->word);
    for (int k = 0; k < all->program->count; k++) {
        const et_experiment_row *rows = all->program->kinds[k]->experiments;
        et_strbuf names = ET_STRBUF_INIT, first = ET_STRBUF_INIT;
        for (const et_experiment_row *row = rows; row->name; row++) {
            et_strbuf_append(&names, row == rows ? "" : "|");
            et_shell_quote(&names, row->name);
        }
        if (names.length) {
            et_shell_quote(&first, rows->name);
            et_strbuf_printf(&every, "%s_%s_settings %s", every.length ? "; " : "", all->word,
                             et_strbuf_text(&first));
            fprintf(to, "    %s)\n        echo '%s' ;;\n", et_strbuf_text(&names),
                    et_strbuf_text(&all->settings[k]));
        }
        et_strbuf_release(&names);
        et_strbuf_release(&first);
    }
    fprintf(to, "    *) %s ;;\n    esac\n}\n\n", every.length ? et_strbuf_text(&every) : ":");
    et_strbuf_release(&every);
}
