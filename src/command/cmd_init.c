/* etude init: prints an experiment's settings as a file to edit. Each setting has its description,
 * range and default. Like `list`, the command walks through the field tables and their values
 * together, so every setting with a row is in the file. Groups that are not selected have no
 * effect, so the file leaves them out.
 *
 *   task:
 *     model:
 *       encoder:
 *         num_layers: 4                    # layers of the stack (1 to 256; default 6)
 *
 * --config with this file gives the same experiment. Values that a recipe chooses are comments,
 * because a recipe does not change values of the file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/yaml.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "systems/modelgarden/experiment.h"
#include "systems/modelgarden/recipe.h"

#define FILE_USUAL    "etude.yaml"
#define SETTING_WIDTH 44 /* columns of a setting with its value */

typedef struct init_options {
    const char *experiment, *file;
    bool force, quiet;
} init_options;

static const et_option options[] = {
    ET_OPTION_TEXT(init_options, experiment, "experiment", "EXPERIMENT",
                   "experiment that gives the settings (default: the first that `list` shows)"),
    ET_OPTION_FLAG(init_options, force, "force", "replace the file if it exists"),
    ET_OPTION_QUIET(init_options, quiet), ET_OPTION_WORD(init_options, file, "[FILE]", "file"),
    ET_OPTION_END
};

const et_usage et_usage_init = {
    options, sizeof(init_options),
    "Writes a file of settings for `train --config`, each with a comment.\nFILE: " FILE_USUAL
    " by default, - for standard output.",
    "mine.yaml"
};

/* ---- the text ---- */

static void print_value(et_strbuf *out, const et_value *value)
{
    et_yaml_print(out, value);
    if (out->length && et_strbuf_text(out)[out->length - 1] == '\n')
        et_strbuf_truncate(out, out->length - 1);
}

/* "(1 to 256; default 6)", or less. */
static void print_limits(et_strbuf *out, const et_field *field, const char *is, const char *usual)
{
    et_strbuf range = ET_STRBUF_INIT;
    et_field_range(field, &range);
    bool other = strcmp(is, usual) != 0 && !strchr(usual, '\n');
    if (range.length || other)
        et_strbuf_printf(out, " (%s%s%s%s)", et_strbuf_text(&range),
                         range.length && other ? "; " : "", other ? "default " : "",
                         other ? usual : "");
    out->failed |= range.failed;
    et_strbuf_release(&range);
}

/* Puts a value of several lines, such as a list of groups, below its name. off: as a comment. */
static void print_setting(et_strbuf *out, const et_field *field, const et_value *value,
                          const et_value *usual, int depth, bool off)
{
    et_strbuf is = ET_STRBUF_INIT, was = ET_STRBUF_INIT, line = ET_STRBUF_INIT;
    print_value(&is, value);
    print_value(&was, usual);
    const char *text = et_strbuf_text(&is);
    bool block = strchr(text, '\n') != NULL;
    et_strbuf_printf(&line, "%*s%s%s:%s%s", 2 * depth, "", off ? "# " : "", field->name,
                     block ? "" : " ", block ? "" : text);
    et_strbuf_printf(out, "%-*s  # %s%s", SETTING_WIDTH, et_strbuf_text(&line),
                     off ? "chosen when the run begins: " : "", field->help);
    print_limits(out, field, text, et_strbuf_text(&was));
    et_strbuf_append_char(out, '\n');
    for (size_t length; block && *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        et_strbuf_printf(out, "%*s%s%.*s\n", 2 * depth + 2, "", off ? "# " : "", (int)length, text);
    }
    out->failed |= is.failed || was.failed || line.failed;
    et_strbuf_release(&is);
    et_strbuf_release(&was);
    et_strbuf_release(&line);
}

static bool is_chosen(const et_experiment *experiment, et_strbuf *group, const char *name)
{
    const size_t length = group->length;
    et_strbuf_append(group, name);
    const bool chosen = et_recipe_chooses(experiment, et_strbuf_text(group));
    et_strbuf_truncate(group, length);
    return chosen;
}

/* values: the current tree; usual: the tree of defaults, in the table's shape. path: "task.model.",
 * the group's prefix. */
static void print_group(et_strbuf *out, const et_experiment *experiment, et_strbuf *path,
                        const et_fields *table, const et_value *values, const et_value *usual,
                        int depth)
{
    const et_value *value = values->first, *was = usual->first;
    const size_t length = path->length;
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END && value && was;
         field++, value = value->next, was = was->next) {
        et_assert(!strcmp(value->key, field->name) && !strcmp(was->key, field->name));
        if (!et_fields_counts(table, field, values))
            continue;
        const bool off = is_chosen(experiment, path, field->name);
        if (field->kind != ET_FIELD_KIND_STRUCT) {
            print_setting(out, field, value, was, depth, off);
            continue;
        }
        et_strbuf name = ET_STRBUF_INIT;
        et_strbuf_printf(&name, "%*s%s%s:", 2 * depth, "", off ? "# " : "", field->name);
        et_strbuf_printf(out, "%s%-*s  # %s\n", depth ? "" : "\n", SETTING_WIDTH,
                         et_strbuf_text(&name), field->help);
        out->failed |= name.failed;
        et_strbuf_release(&name);
        et_strbuf_printf(path, "%s.", field->name);
        print_group(out, experiment, path, field->nested, value, was, depth + 1);
        et_strbuf_truncate(path, length);
    }
}

static int print_file(et_strbuf *out, const et_experiment *experiment, const char *file,
                      et_arena *arena, et_error *error)
{
    const char *program = experiment->program->name;
    et_experiment usual = *experiment;
    usual.task = et_arena_alloc(arena, experiment->kind->size);
    if (!usual.task)
        return et_alloc_failed(error, "settings");
    et_fields_defaults(usual.table, &usual);
    const et_value *values = et_fields_echo(experiment->table, experiment, arena);
    const et_value *were = et_fields_echo(usual.table, &usual, arena);
    if (!values || !were)
        return et_alloc_failed(error, "settings");
    et_strbuf_printf(
        out,
        "# Settings for `%s train RUN --config %s`. If you remove a line, the\n# experiment's "
        "value is used. `%s list %s --all` shows the other groups.\n\nexperiment: %s\n",
        program, et_shell_quote(file).text, program, experiment->name, experiment->name);
    et_strbuf path = ET_STRBUF_INIT;
    print_group(out, experiment, &path, experiment->table, values, were, 0);
    out->failed |= path.failed;
    et_strbuf_release(&path);
    return out->failed ? et_alloc_failed(error, "settings") : ET_OK;
}

/* ---- the file ---- */

static int write_file(const init_options *args, const char *file, const et_strbuf *text,
                      const et_call *call, et_error *error)
{
    et_outputs outputs = { .program = call->program };
    if (!strcmp(file, "-")) {
        et_print_results(stdout, et_strbuf_text(text), text->length);
        return ET_OK;
    }
    struct stat info;
    const bool there = !lstat(file, &info), link = there && S_ISLNK(info.st_mode);
    if (there && !args->force && !S_ISDIR(info.st_mode))
        return et_fail(error, ET_EDENIED,
                       "%s exists%s: add --force to replace it, or name another file", file,
                       link ? ", a symbolic link" : "");
    et_outputs_check(&outputs, "init", file, error);
    int status = et_outputs_release(&outputs);
    if (!status)
        status = et_file_write(file, et_strbuf_text(text), text->length, error);
    if (!status && !args->quiet)
        et_print(
            stderr, "written: %s%s; change it, then `%s train RUN --config %s`\n", file,
            link ? ", in place of the symbolic link; the file that the link pointed to is unchanged"
                 : "",
            call->program->name, et_shell_quote(file).text);
    return status;
}

int et_cmd_init(const et_call *call, et_error *error)
{
    const init_options *args = call->options;
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_experiment experiment;
    const char *file = args->file ? args->file : FILE_USUAL;
    const char *ending = strrchr(file, '.');
    if (ending && !strcmp(ending, ".json"))
        return et_fail(error, ET_EUSAGE,
                       "init: %s: the file will be YAML with comments; name it %.*s.yaml", file,
                       (int)(ending - file), file);
    int number;
    if (!args->experiment && args->file && et_experiment_find(call->program, file, &number))
        return et_fail(error, ET_EUSAGE,
                       "init: %s is an experiment; write --experiment %s, and another name for the "
                       "file",
                       file, file);
    const char *name =
        args->experiment ? args->experiment : call->program->kinds[0]->experiments->name;
    int status;
    if (!(status = et_experiment_begin(&experiment, call->program, name, &arena, error)) &&
        !(status = print_file(&text, &experiment, file, &arena, error)))
        status = write_file(args, file, &text, call, error);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}
