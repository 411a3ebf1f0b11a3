/* A command is called with --help and with a description in its call. Its standard output goes to
 * memory meanwhile, since a command with help of its own prints there whatever the call says. */
#include "command/pages/described.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "command/options/options.h"

#define TEXT_MAX (1 << 20) /* of a command that prints help by itself */

static et_described *append(et_description *to, const char *command)
{
    et_described *one = et_arena_alloc(&to->arena, sizeof *one);
    if (!one)
        return NULL;
    one->command = et_arena_strdup(&to->arena, command);
    one->kind = to->kind;
    one->about = "";
    if (to->last)
        to->last->next = one;
    else
        to->first = one;
    to->last = one;
    return one;
}

static const char *copy(et_arena *arena, const char *text)
{
    return text ? et_arena_strdup(arena, text) : NULL;
}

void et_description_add(et_description *to, const et_call *call, const et_arg *table,
                        const char *about, const char *example)
{
    size_t count = 0;
    while (table[count].field.name)
        count++;
    et_described *one = append(to, call->command);
    et_arg *rows = et_arena_array(&to->arena, count + 1, sizeof *rows);
    if (!one || !rows)
        return; /* the arena knows */
    size_t kept = 0;
    for (const et_arg *row = table; row->field.name; row++) {
        if (row->way == ET_ARG_WAY_TOLD)
            continue;
        const et_arg_called value = et_arg_value(row);
        et_arg *to_row = &rows[kept++];
        *to_row = *row;
        to_row->field.name = copy(&to->arena, row->field.name);
        to_row->field.help = copy(&to->arena, row->field.help);
        to_row->field.choices = NULL;
        to_row->value = *value.text ? copy(&to->arena, value.text) : NULL;
        to_row->alias = copy(&to->arena, row->alias);
        to_row->target = NULL;
    }
    rows[kept] = (et_arg)ET_ARG_END;
    one->rows = rows;
    one->about = copy(&to->arena, about);
    one->example = copy(&to->arena, example);
}

/* ---- asking ---- */

/* Standard output while a command is asked. */
typedef struct aside {
    FILE *file; /* what is printed meanwhile */
    int kept;   /* descriptor of the real one */
} aside;

static int turn_aside(aside *a, et_error *error)
{
    fflush(stdout);
    int memory = memfd_create("help", MFD_CLOEXEC);
    a->file = memory < 0 ? NULL : fdopen(memory, "w+");
    if (memory >= 0 && !a->file)
        close(memory);
    a->kept = a->file ? dup(STDOUT_FILENO) : -1;
    if (a->kept >= 0 && dup2(fileno(a->file), STDOUT_FILENO) >= 0)
        return ET_OK;
    int status = et_fail_errno(error, "memory for the help of a command");
    if (a->kept >= 0)
        close(a->kept);
    if (a->file)
        fclose(a->file);
    return status;
}

/* What was printed, in arena. */
static const char *turn_back(aside *a, et_arena *arena)
{
    fflush(stdout);
    dup2(a->kept, STDOUT_FILENO);
    close(a->kept);
    long length = fseek(a->file, 0, SEEK_END) ? 0 : ftell(a->file);
    length = length < 0 ? 0 : length > TEXT_MAX ? TEXT_MAX : length;
    char *text = et_arena_alloc(arena, (size_t)length + 1);
    rewind(a->file);
    if (text)
        text[fread(text, 1, (size_t)length, a->file)] = 0;
    fclose(a->file);
    return text;
}

/* Of a command with a table nothing is asked. */
static int read_usage(et_description *to, const et_program *program, const et_command *row,
                      et_error *error)
{
    static const et_arg_way ways[] = {
        [ET_OPTION_WAY_FLAG] = ET_ARG_WAY_FLAG,   [ET_OPTION_WAY_WORD] = ET_ARG_WAY_WORD,
        [ET_OPTION_WAY_REST] = ET_ARG_WAY_REST,   [ET_OPTION_WAY_PASSED] = ET_ARG_WAY_REST,
        [ET_OPTION_WAY_WORDS] = ET_ARG_WAY_WORDS, [ET_OPTION_WAY_FILES] = ET_ARG_WAY_WORDS,
        [ET_OPTION_WAY_TOLD] = ET_ARG_WAY_TOLD,   [ET_OPTION_WAY_SETS] = ET_ARG_WAY_WORDS
    };
    const et_call call = { .program = program, .command = row->name };
    et_command_line line;
    void *options = et_arena_alloc(&to->arena, row->usage->size + 1);
    int status = options
                     ? et_command_line_open(&line, row->usage, options, &call, &to->arena, error)
                     : et_alloc_failed(error, 0, "help");
    et_arg *rows = status ? NULL : et_arena_array(&to->arena, (size_t)line.count + 1, sizeof *rows);
    if (!rows)
        return status ? status : et_alloc_failed(error, 0, "help");
    for (int i = 0; i < line.count; i++) {
        const et_option *from = line.slots[i].row;
        rows[i] =
            (et_arg){ .field = from->field, .value = line.slots[i].value, .alias = from->alias };
        rows[i].field.help = line.slots[i].help;
        rows[i].way = ways[from->way];
        if (from->way == ET_OPTION_WAY_SETS && !from->value)
            rows[i].field.kind = ET_FIELD_KIND_BOOL;
        if (from->field.kind == ET_FIELD_KIND_STRINGS && !rows[i].way)
            rows[i].way = ET_ARG_WAY_LIST;
    }
    rows[line.count] = (et_arg)ET_ARG_END;
    const et_call keeping = { .program = program, .command = row->name, .description = to };
    et_description_add(to, &keeping, rows, row->usage->about,
                       et_usage_example(row->usage, program, &to->arena));
    return ET_OK;
}

static int ask(et_description *to, const et_program *program, const et_command *row,
               et_error *error)
{
    char option[] = "--help", *words[] = { option, NULL };
    const et_call call = {
        .program = program, .command = row->name, .argc = 1, .argv = words, .description = to
    };
    const et_described *before = to->last;
    aside a;
    if (row->usage)
        return read_usage(to, program, row, error);
    int status = turn_aside(&a, error);
    if (status)
        return status;
    status = row->run(&call, error);
    const char *text = turn_back(&a, &to->arena);
    if (!status && to->last == before && text) {
        et_described *one = append(to, row->name);
        if (one)
            one->text = text;
    }
    if (!status && to->arena.failed)
        status = et_alloc_failed(error, 0, "help");
    return status;
}

/* Kinds with a command of one name each have their own, the others the general one: each is asked
 * once. */
int et_describe(et_description *to, const et_program *program, const et_command *row,
                et_error *error)
{
    const et_command *asked[64] = { row };
    int count = 1, status = ET_OK;
    for (int k = 0; k < program->count; k++) {
        const et_command *own = et_command_of(program, program->kinds[k], row->name);
        bool known = !own;
        for (int i = 0; i < count && !known; i++)
            known = asked[i]->run == own->run;
        if (!known && count < 64)
            asked[count++] = own;
    }
    for (int i = 0; i < count && !status; i++) {
        to->kind = NULL;
        for (int k = 0; k < program->count && count > 1 && !to->kind; k++) {
            const et_command *own = et_command_of(program, program->kinds[k], row->name);
            to->kind = own && own->run == asked[i]->run ? program->kinds[k]->name : NULL;
        }
        status = ask(to, program, asked[i], error);
    }
    return status;
}

void et_description_release(et_description *description)
{
    et_arena_release(&description->arena);
    *description = (et_description)ET_DESCRIPTION_INIT;
}

/* ---- values ---- */

/* Names in capitals that stand for something that a shell can find. */
static bool find_capitals(et_completes *found, const char *word, size_t length)
{
    static const struct {
        const char *name;
        size_t offset;
    } names[] = {
        { "FILE", offsetof(et_completes, files) },
        { "CHECKPOINT", offsetof(et_completes, files) },
        { "REFERENCE", offsetof(et_completes, files) },
        { "SOURCE", offsetof(et_completes, files) },
        { "TARGET", offsetof(et_completes, files) },
        { "PROGRAM", offsetof(et_completes, files) },
        { "DIR", offsetof(et_completes, directories) },
        { "RUN", offsetof(et_completes, runs) },
        { "EXPERIMENT", offsetof(et_completes, experiments) },
        { "COMMAND", offsetof(et_completes, commands) },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == length && !memcmp(names[i].name, word, length)) {
            memcpy((char *)found + names[i].offset, &(bool){ true }, sizeof(bool));
            return true;
        }
    return false;
}

static void add_word(et_completes *found, const char *word, size_t length)
{
    size_t used = strlen(found->words);
    if (used + length + 2 > sizeof found->words)
        return;
    if (used)
        found->words[used++] = ' ';
    memcpy(found->words + used, word, length);
    found->words[used + length] = 0;
}

et_completes et_completes_of(const et_arg *row)
{
    et_completes found = { .most = 1 };
    bool plain = et_arg_is_plain(row);
    const char *text = plain ? row->field.name : row->value;
    if (row->field.kind == ET_FIELD_KIND_BOOL || !text) {
        found.most = 0;
        return found;
    }
    if (!strcmp(text, "KEY=VALUE")) {
        found.settings = true;
        return found;
    }
    /* A single small word is said for its meaning, "--delimiter c"; of several one is typed. */
    bool chosen = plain || strchr(text, '|');
    for (const char *at = text; *at && row->way == ET_ARG_WAY_WORDS; at++)
        found.most += *at == ' ';
    while (*text) {
        size_t length = strcspn(text, " |[].=");
        bool small = islower((unsigned char)*text) || isdigit((unsigned char)*text);
        if (length && !find_capitals(&found, text, length) && chosen && small)
            add_word(&found, text, length);
        text += length ? length : 1;
    }
    /* A run that is begun is any directory. */
    if (!plain && !strcmp(row->field.name, "model-dir"))
        found.runs = found.directories;
    if (found.runs)
        found.directories = false;
    return found;
}
