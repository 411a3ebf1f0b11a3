/* etude complete WORDS...: prints the candidates for the last word, one per line; WORDS follow the
 * program's name. The functions that `completion` prints call this command. The tables that parse
 * words (command/options/) give the candidates for the last word. A wrong line gives no candidates
 * and no message. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/command.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/map.h"
#include "base/sort.h"
#include "base/text/strbuf.h"
#include "command/command.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/pages/pages.h"
#include "formats/safetensors/safetensors.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/run_names.h"

/* ---- the script of a shell ---- */

/* etude completion: prints the function that completes words in a shell. The function asks `etude
 * complete` for the candidates; it knows no commands and no options. */

typedef struct completion_options {
    const char *shell;
} completion_options;

static const et_option completion_rows[] = {
    ET_OPTION_WORD(completion_options, shell, "bash|zsh|fish", "shell"),
    ET_OPTION_END,
};

const et_usage et_usage_completion = {
    completion_rows, sizeof(completion_options),
    "Prints a script with which your shell completes commands, options and values.\nInstalled "
    "packages contain the script.",
    "bash >~/.local/share/bash-completion/completions/etude"
};

/* @@ is the program's name; @_ is this name with "_" for characters that a function's name cannot
 * have. bash cuts words at = and :, replaces only the last part, and quotes the names of files. */
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

/* ---- completions ---- */

/* Candidates for the last word of a command line, by the name of the value (<etude/options.h>).
 * Each candidate is a whole word: it begins with the text before the value in the same word,
 * "--set=". */

typedef struct completions {
    const et_program *program;
    const et_task_kind *kind; /* the kind whose settings are offered; NULL: all kinds */
    et_strbuf text;           /* one line each: word, tab, description */
    et_map known;             /* words that are in text, in arena */
    et_arena arena;
} completions;

#define HELP_MOST 72 /* bytes of the help of a word; a menu has one line for it */

/* Adds before and word as a candidate, if word begins with typed. help: description of the word;
 * NULL: none. Leaves out a word with a line end. */
static void add_completion(completions *list, const char *before, const char *typed,
                           const char *word, const char *help)
{
    et_assert(before && typed);
    int64_t known;
    char whole[4096];
    const int length = snprintf(whole, sizeof whole, "%s%s", before, word);
    if (strncmp(word, typed, strlen(typed)) != 0 || length >= (int)sizeof whole)
        return;
    for (const char *at = whole; *at; at++)
        if (iscntrl((unsigned char)*at))
            return;
    if (et_map_get(&list->known, whole, &known))
        return;
    const char *key = et_arena_strdup(&list->arena, whole);
    if (!key || !et_map_put(&list->known, key, 1))
        return;
    et_strbuf_append(&list->text, whole);
    const size_t shown = help ? strcspn(help, ";\n") : 0;
    if (shown)
        et_strbuf_printf(&list->text, "\t%.*s", (int)(shown < HELP_MOST ? shown : HELP_MOST), help);
    et_strbuf_append_char(&list->text, '\n');
}

/* Adds the commands of the program. */
static void add_commands(completions *list, const char *typed)
{
    const et_commands all = et_commands_of(list->program);
    for (size_t i = 0; i < all.count; i++)
        add_completion(list, "", typed, all.row[i]->name, all.row[i]->help);
}

/* ---- files ---- */

typedef enum wanted { WANTED_FILES, WANTED_DIRECTORIES, WANTED_RUNS } wanted;

static bool has_directory(const char *path)
{
    DIR *open = opendir(path);
    bool found = false;
    for (const struct dirent *entry; open && !found && (entry = readdir(open)) != NULL;) {
        char whole[4096];
        struct stat about;
        snprintf(whole, sizeof whole, "%s/%s", path, entry->d_name);
        found = entry->d_name[0] != '.' && !stat(whole, &about) && S_ISDIR(about.st_mode);
    }
    if (open)
        closedir(open);
    return found;
}

ET_SORT_BY(compare_names, char *const, strcmp(*a, *b), 0)

/* Names in a directory that begin with the first bytes of one, by name, in arena. Hidden ones only
 * if the point was typed. */
static const char **list_names(size_t *count, const char *directory, const char *begin,
                               et_arena *arena)
{
    DIR *open = opendir(directory);
    const char **names = NULL;
    size_t room = 0;
    *count = 0;
    for (const struct dirent *entry; open && (entry = readdir(open)) != NULL;) {
        const char *name = entry->d_name;
        if (strncmp(name, begin, strlen(begin)) != 0 || (*name == '.' && *begin != '.') ||
            !strcmp(name, ".") || !strcmp(name, ".."))
            continue;
        if (*count == room) {
            room = room ? 2 * room : 64;
            const char **grown = et_arena_array(arena, room, sizeof *grown);
            if (grown && *count)
                memcpy(grown, names, *count * sizeof *names);
            names = grown;
        }
        const char *copy = et_arena_strdup(arena, name);
        if (!names || !copy)
            break;
        names[(*count)++] = copy;
    }
    if (open)
        closedir(open);
    if (names)
        qsort(names, *count, sizeof *names, compare_names);
    return names;
}

/* Finds "~/a" in the home directory, and offers it as typed. */
static const char *searched_directory(const char *typed, size_t length, et_arena *arena)
{
    const char *home = getenv("HOME");
    if (!length)
        return ".";
    if (home && !strncmp(typed, "~/", 2))
        return et_arena_printf(arena, "%s%.*s", home, (int)length - 1, typed + 1);
    return et_arena_strndup(arena, typed, length);
}

static void add_paths(completions *list, const char *before, const char *typed, wanted what)
{
    const char *slash = strrchr(typed, '/');
    const size_t length = slash ? (size_t)(slash - typed) + 1 : 0;
    et_arena arena = ET_ARENA_INIT;
    const char *directory = searched_directory(typed, length, &arena);
    size_t count = 0;
    const char **names = directory ? list_names(&count, directory, typed + length, &arena) : NULL;
    for (size_t i = 0; i < count; i++) {
        struct stat about;
        const char *path = et_arena_printf(&arena, "%s/%s", directory, names[i]);
        const bool there = path && !stat(path, &about);
        const bool is_directory = there && S_ISDIR(about.st_mode);
        const char *word = et_arena_printf(&arena, "%.*s%s%s", (int)length, typed, names[i],
                                           is_directory ? "/" : "");
        /* A run is a directory with settings, an export in one file or a directory on the way to
         * one. */
        const bool offered = what != WANTED_RUNS ? is_directory || what == WANTED_FILES
                             : is_directory ? there && (et_file_exists_in(path, ET_RUN_SETTINGS) ||
                                                        has_directory(path))
                                            : there && et_safetensors_is_name(path);
        if (there && word && offered)
            add_completion(list, before, typed, word, NULL);
    }
    et_arena_release(&arena);
}

/* ---- settings ---- */

/* Words that a setting may be. */
static void add_setting_values(completions *list, const char *before, const char *typed,
                               const et_field *field)
{
    if (field->kind == ET_FIELD_KIND_BOOL) {
        add_completion(list, before, typed, "true", NULL);
        add_completion(list, before, typed, "false", NULL);
    }
    for (int i = 0; field->choices && field->choices[i]; i++)
        add_completion(list, before, typed, field->choices[i], NULL);
    if (field->zero)
        add_completion(list, before, typed, field->zero, NULL);
}

/* before: the typed text up to the name, "--set=a.b=1,trainer."; typed: the rest, perhaps with an
 * equals sign. */
static void add_names(completions *list, const char *before, const char *typed,
                      const et_fields *table)
{
    const size_t length = strcspn(typed, ".=");
    et_strbuf whole = ET_STRBUF_INIT;
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        const bool is_group = field->kind == ET_FIELD_KIND_STRUCT;
        const bool is_typed = strlen(field->name) == length && !strncmp(field->name, typed, length);
        if (field->kind == ET_FIELD_KIND_ONLY)
            continue;
        et_strbuf_reset(&whole);
        if (!typed[length]) {
            et_strbuf_printf(&whole, "%s%c", field->name, is_group ? '.' : '=');
            add_completion(list, before, typed, et_strbuf_text(&whole), field->help);
            continue;
        }
        et_strbuf_printf(&whole, "%s%.*s", before, (int)length + 1, typed);
        if (is_typed && is_group && typed[length] == '.')
            add_names(list, et_strbuf_text(&whole), typed + length + 1, field->nested);
        else if (is_typed && typed[length] == '=')
            add_setting_values(list, et_strbuf_text(&whole), typed + length + 1, field);
    }
    et_strbuf_release(&whole);
}

/* ---- by name ---- */

/* Offers values for a placeholder in capitals (FILE, RUN) if they can be looked up. */
static void add_named(completions *list, const char *before, const char *typed, const char *name)
{
    static const struct {
        const char *name;
        wanted what;
    } paths[] = {
        { "FILE", WANTED_FILES },       { "PATH", WANTED_FILES },
        { "CHECKPOINT", WANTED_FILES }, { "REFERENCE", WANTED_FILES },
        { "SOURCE", WANTED_FILES },     { "TARGET", WANTED_FILES },
        { "PROGRAM", WANTED_FILES },    { "DIR", WANTED_DIRECTORIES },
        { "RUN", WANTED_RUNS },
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (!strcmp(paths[i].name, name))
            add_paths(list, before, typed, paths[i].what);
    if (!strcmp(name, "EXPERIMENT"))
        for (int k = 0; k < list->program->count; k++)
            for (const et_experiment_row *row = list->program->kinds[k]->experiments; row->name;
                 row++)
                add_completion(list, before, typed, row->name, row->help);
    if (!strcmp(name, "COMMAND"))
        add_commands(list, typed);
    if (!strcmp(name, "KEY=VALUE")) {
        /* The last of several settings, "a=1,b.c=tr". */
        const char *comma = strrchr(typed, ','), *last = comma ? comma + 1 : typed;
        et_strbuf whole = ET_STRBUF_INIT;
        et_strbuf_printf(&whole, "%s%.*s", before, (int)(last - typed), typed);
        for (int k = 0; k < list->program->count; k++) {
            et_arena arena = ET_ARENA_INIT;
            et_experiment experiment;
            const et_task_kind *kind = list->program->kinds[k];
            const char *first = kind->experiments->name;
            if ((!list->kind || list->kind == kind) && first &&
                !et_experiment_begin(&experiment, list->program, first, &arena, NULL))
                add_names(list, et_strbuf_text(&whole), last, experiment.table);
            et_arena_release(&arena);
        }
        et_strbuf_release(&whole);
    }
}

/* Word nth of "SOURCE TARGET", or the last: *length bytes of it. */
static const char *nth_word(const char *called, int nth, size_t *length)
{
    const char *at = called + strspn(called, " -");
    for (;; nth--) {
        *length = strcspn(at, " ");
        const char *next = at + *length + strspn(at + *length, " ");
        if (!nth || !*next)
            return at;
        at = next;
    }
}

/* Adds the possible values for word nth of a value's name. choice: a word in small letters is a
 * candidate even without alternatives. */
static void add_value(completions *list, const char *before, const char *typed, const char *called,
                      int nth, bool choice)
{
    size_t length;
    const char *word = nth_word(called ? called : "", nth, &length), *end = word + length;
    choice |= memchr(word, '|', length) != NULL;
    while (word < end) {
        char name[64];
        const size_t part = strcspn(word, " |[].,");
        snprintf(name, sizeof name, "%.*s", (int)part, word);
        const bool small = islower((unsigned char)*name) || isdigit((unsigned char)*name);
        if (small && choice)
            add_completion(list, before, typed, name, NULL);
        else if (*name)
            add_named(list, before, typed, name);
        word += part ? part : 1;
    }
}

/* ---- options ---- */

static void add_options(completions *list, const et_command_line *line, const char *word)
{
    const size_t before = list->text.length;
    for (int i = 0; i < line->count; i++) {
        const et_option *row = line->slots[i].row;
        char name[80];
        snprintf(name, sizeof name, "--%s", et_option_typed(row).text);
        if (et_option_is_shown(row) && row->field.kind != ET_FIELD_KIND_ONLY)
            add_completion(list, "", word, name, line->slots[i].help);
    }
    add_completion(list, "", word, "--help", "print the help and end");
    for (int i = 0; i < line->count && list->text.length == before; i++) {
        char name[80];
        snprintf(name, sizeof name, "--%s",
                 line->slots[i].row->alias ? line->slots[i].row->alias : "");
        if (name[2] && et_option_is_shown(line->slots[i].row))
            add_completion(list, "", word, name, line->slots[i].help);
    }
}

/* ---- commands ---- */

static void complete(completions *list, int argc, char **argv);

/* Words of a command with a usage. */
static void complete_usage(completions *list, const et_command *row, const et_call *call,
                           et_arena *arena)
{
    const char *word = call->argv[call->argc - 1];
    et_command_line line;
    et_option_position position;
    void *options = et_arena_alloc(arena, row->usage->size + 1);
    if (!options || et_command_line_open(&line, row->usage, options, call, arena, NULL))
        return;
    et_command_line_position(&line, &position);
    char **inner = call->argv + call->argc - 1 - position.plain_nth;
    /* The words may be the line of another command, as of `launch`. */
    if (position.ended && position.plain_nth > 0 && position.plain &&
        strstr(position.plain->row->field.name, "COMMAND") && strcmp(*inner, call->command) != 0)
        complete(list, position.plain_nth + 1, inner);
    else if (!position.ended && *word == '-' && (!position.slot || position.more))
        add_options(list, &line, word);
    else {
        char before[4096];
        snprintf(before, sizeof before, "%.*s", (int)(position.text - word), word);
        if (position.slot && position.slot->row->field.kind == ET_FIELD_KIND_BOOL) {
            add_completion(list, before, position.text, "true", NULL);
            add_completion(list, before, position.text, "false", NULL);
        } else if (position.slot) {
            /* A run that is begun is a directory. */
            const bool run = !strcmp(position.slot->row->field.name, "model-dir");
            add_value(list, before, position.text, run ? "RUN" : position.slot->value, position.nth,
                      false);
        }
        if (position.more && position.plain)
            add_value(list, "", word, position.plain->row->field.name, position.plain_nth, true);
    }
}

/* call: argv ends with the word that is completed. */
static void complete_command(completions *list, const et_command *row, const et_call *call)
{
    const char *word = call->argv[call->argc - 1];
    et_arena arena = ET_ARENA_INIT;
    if (row->usage)
        complete_usage(list, row, call, &arena);
    et_arena_release(&arena);
    for (const et_command *one = row->commands; one && one->name; one++) {
        const et_call inner = { .program = call->program,
                                .command = one->name,
                                .argc = call->argc - 1,
                                .argv = call->argv + 1 };
        if (call->argc == 1)
            add_completion(list, "", word, one->name, one->help);
        else if (!strcmp(call->argv[0], one->name))
            complete_command(list, one, &inner);
    }
    if (row->commands && call->argc == 1)
        add_completion(list, "", word, "--help", "print the help and end");
}

/* If several kinds have a command of this name, the run on the line selects one; otherwise all are
 * offered. */
static void complete_named(completions *list, const et_call *call)
{
    const et_program *program = call->program;
    const et_commands all = et_commands_of(program);
    const et_command *row = et_commands_find(&all, call->command);
    et_call before = *call;
    before.argc--;
    const et_named_run named = et_run_named(&before);
    const et_task_kind *chosen = et_kind_named(&before);
    list->kind = chosen ? chosen : named.kind;
    const et_command *own = named.kind ? et_command_of(program, named.kind, call->command) : NULL;
    if (own || !row) {
        if (own)
            complete_command(list, own, call);
        return;
    }
    complete_command(list, row, call);
    for (int k = 0; k < program->count; k++) {
        own = et_command_of(program, program->kinds[k], call->command);
        if (own && own != row)
            complete_command(list, own, call);
    }
}

/* argv: the words after the program's name; the last one is unfinished. */
static void complete(completions *list, int argc, char **argv)
{
    const char *word = argv[argc - 1];
    if (argc == 1) {
        add_commands(list, word);
        add_completion(list, "", word, "help", "print the help of a command");
        if (*word == '-') {
            add_completion(list, "", word, "--help", "print the commands and end");
            add_completion(list, "", word, "--version", "print the version and end");
        }
        return;
    }
    if (!strcmp(argv[0], "help")) {
        add_commands(list, word);
        if (*word == '-')
            add_completion(list, "", word, "--man", "print a page for man");
        return;
    }
    const et_call call = {
        .program = list->program, .command = argv[0], .argc = argc - 1, .argv = argv + 1
    };
    complete_named(list, &call);
}

int et_complete(const et_program *program, int argc, char **argv, et_error *error)
{
    char none[] = "", *words[] = { none, NULL };
    completions list = { .program = program };
    complete(&list, argc ? argc : 1, argc ? argv : words);
    fputs(et_strbuf_text(&list.text), stdout);
    int status = list.text.failed ? et_alloc_failed(error, "words") : ET_OK;
    et_strbuf_release(&list.text);
    et_map_release(&list.known);
    et_arena_release(&list.arena);
    return status;
}
