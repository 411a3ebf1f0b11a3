#include "command/pages/offers.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/files/file.h"
#include "command/command.h"
#include "formats/safetensors/safetensors.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/run_names.h"

#define HELP_MOST 72 /* bytes of the help of a word; a menu has one line for it */

/* Words with a line's end in them are no line. */
void et_offers_add(et_offers *offers, const char *before, const char *typed, const char *word,
                   const char *help)
{
    int64_t known;
    char whole[4096];
    const int length = snprintf(whole, sizeof whole, "%s%s", before, word);
    if (strncmp(word, typed, strlen(typed)) != 0 || length >= (int)sizeof whole)
        return;
    for (const char *at = whole; *at; at++)
        if (iscntrl((unsigned char)*at))
            return;
    if (et_map_get(&offers->known, whole, &known))
        return;
    const char *key = et_arena_strdup(&offers->arena, whole);
    if (!key || !et_map_put(&offers->known, key, 1))
        return;
    et_strbuf_append(&offers->text, whole);
    const size_t shown = help ? strcspn(help, ";\n") : 0;
    if (shown)
        et_strbuf_printf(&offers->text, "\t%.*s", (int)(shown < HELP_MOST ? shown : HELP_MOST),
                         help);
    et_strbuf_append_char(&offers->text, '\n');
}

void et_offers_release(et_offers *offers)
{
    et_strbuf_release(&offers->text);
    et_map_release(&offers->known);
    et_arena_release(&offers->arena);
}

void et_offers_add_commands(et_offers *offers, const char *typed)
{
    const et_commands all = et_commands_of(offers->program);
    for (size_t i = 0; i < all.count; i++)
        et_offers_add(offers, "", typed, all.row[i]->name, all.row[i]->help);
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

/* Whether a path is offered. A run is a directory with settings, an export in one file or a
 * directory on the way to one. */
static bool is_wanted(const char *path, bool is_directory, wanted what)
{
    if (what == WANTED_RUNS)
        return is_directory ? et_file_exists_in(path, ET_RUN_SETTINGS) || has_directory(path)
                            : et_safetensors_is_name(path);
    return is_directory || what == WANTED_FILES;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

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

/* "~/a" is looked up in the home directory, and offered as it was typed. */
static const char *look_in(const char *typed, size_t length, et_arena *arena)
{
    const char *home = getenv("HOME");
    if (!length)
        return ".";
    if (home && !strncmp(typed, "~/", 2))
        return et_arena_printf(arena, "%s%.*s", home, (int)length - 1, typed + 1);
    return et_arena_printf(arena, "%.*s", (int)length, typed);
}

static void add_paths(et_offers *offers, const char *before, const char *typed, wanted what)
{
    const char *slash = strrchr(typed, '/');
    const size_t length = slash ? (size_t)(slash - typed) + 1 : 0;
    et_arena arena = ET_ARENA_INIT;
    const char *directory = look_in(typed, length, &arena);
    size_t count = 0;
    const char **names = directory ? list_names(&count, directory, typed + length, &arena) : NULL;
    for (size_t i = 0; i < count; i++) {
        struct stat about;
        const char *path = et_arena_printf(&arena, "%s/%s", directory, names[i]);
        const bool there = path && !stat(path, &about);
        const bool is_directory = there && S_ISDIR(about.st_mode);
        const char *word = et_arena_printf(&arena, "%.*s%s%s", (int)length, typed, names[i],
                                           is_directory ? "/" : "");
        if (there && word && is_wanted(path, is_directory, what))
            et_offers_add(offers, before, typed, word, NULL);
    }
    et_arena_release(&arena);
}

/* ---- settings ---- */

/* Words that a setting may be. */
static void add_setting_values(et_offers *offers, const char *before, const char *typed,
                               const et_field *field)
{
    if (field->kind == ET_FIELD_KIND_BOOL) {
        et_offers_add(offers, before, typed, "true", NULL);
        et_offers_add(offers, before, typed, "false", NULL);
    }
    for (int i = 0; field->choices && field->choices[i]; i++)
        et_offers_add(offers, before, typed, field->choices[i], NULL);
    if (field->zero)
        et_offers_add(offers, before, typed, field->zero, NULL);
}

/* before: the typed text up to the name, "--set=a.b=1,trainer."; typed: the rest, perhaps with an
 * equals sign. */
static void add_names(et_offers *offers, const char *before, const char *typed,
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
            et_offers_add(offers, before, typed, et_strbuf_text(&whole), field->help);
            continue;
        }
        et_strbuf_printf(&whole, "%s%.*s", before, (int)length + 1, typed);
        if (is_typed && is_group && typed[length] == '.')
            add_names(offers, et_strbuf_text(&whole), typed + length + 1, field->nested);
        else if (is_typed && typed[length] == '=')
            add_setting_values(offers, et_strbuf_text(&whole), typed + length + 1, field);
    }
    et_strbuf_release(&whole);
}

static void add_settings_of(et_offers *offers, const char *before, const char *typed,
                            const et_task_kind *kind)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    const char *name = kind->experiments->name;
    if (name && !et_experiment_begin(&experiment, offers->program, name, &arena, NULL))
        add_names(offers, before, typed, experiment.table);
    et_arena_release(&arena);
}

/* ---- by name ---- */

/* Offers values for a placeholder in capitals (FILE, RUN) if they can be looked up. */
static void add_named(et_offers *offers, const char *before, const char *typed, const char *name)
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
            add_paths(offers, before, typed, paths[i].what);
    if (!strcmp(name, "EXPERIMENT"))
        for (int k = 0; k < offers->program->count; k++)
            for (const et_experiment_row *row = offers->program->kinds[k]->experiments; row->name;
                 row++)
                et_offers_add(offers, before, typed, row->name, row->help);
    if (!strcmp(name, "COMMAND"))
        et_offers_add_commands(offers, typed);
    if (!strcmp(name, "KEY=VALUE")) {
        /* The last of several settings, "a=1,b.c=tr". */
        const char *comma = strrchr(typed, ','), *last = comma ? comma + 1 : typed;
        et_strbuf whole = ET_STRBUF_INIT;
        et_strbuf_printf(&whole, "%s%.*s", before, (int)(last - typed), typed);
        for (int k = 0; k < offers->program->count; k++)
            if (!offers->kind || offers->kind == offers->program->kinds[k])
                add_settings_of(offers, et_strbuf_text(&whole), last, offers->program->kinds[k]);
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

void et_offers_add_value(et_offers *offers, const char *before, const char *typed,
                         const char *called, int nth, bool choice)
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
            et_offers_add(offers, before, typed, name, NULL);
        else if (*name)
            add_named(offers, before, typed, name);
        word += part ? part : 1;
    }
}
