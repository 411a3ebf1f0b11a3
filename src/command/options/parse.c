/* The grammar of the words after a command's name:
 *
 *   line   = { option | word } [ "--" { word } ]
 *   option = "--" name                      a flag or switch
 *          | "--no" name                    a switch, off
 *          | "--" name "=" value            anything, dashes too
 *          | "--" name value { value }      of an option that takes words
 *          | "--" name [ ":" N ] value      value: the next argument, which does not begin with --
 *          | "-" letter [ value ]           the same as the option with that letter; -h: --help
 *
 * A name is a name or alias of the table; `-` and `_` are equal. base/fields/fields_scalar.c reads
 * values; texts stay in argv. Parsing stops at the first mistake, ET_EUSAGE; a --help before it
 * wins.
 *
 * A value must not be empty: probably DIR in `--model-dir "$DIR"` was not set, and the user did not
 * mean the current directory.
 *
 * A later value of an option replaces an earlier one, because people repeat a command with another
 * word at its end. Exception: lists. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/options/sets.h"
#include "engine/exec/device.h"
#include "systems/modelgarden/synonyms.h"
#include "train/checkpoint/artifact/artifact.h"

/* A line that is being read. */
typedef struct reading {
    et_command_line *line;
    char *const *argv;
    int argc, at;
    bool ended;                         /* "--" was read */
    const et_option_slot *behind;       /* the option whose list of words has just ended; NULL:
                                           none */
    const et_option_slot *plain_behind; /* `behind` at the first plain word */
    et_option_slot *waiting;            /* its value would be the next word, and words have ended */
    et_option_slot *open;       /* its list may continue with the next word; its words so far: */
    int open_words, rest_words; /* rest_words: of REST */
} reading;

/* ---- messages ---- */

/* "train"; of a program without commands its name. */
static const char *called(const et_command_line *line)
{
    return *line->call->command ? line->call->command : line->call->program->name;
}

/* "`etude train --help` lists the options". */
typedef struct cure {
    char text[160];
} cure;

static cure shows_all(const et_command_line *line)
{
    const et_call *call = line->call;
    cure c;
    snprintf(c.text, sizeof c.text, "`%s%s%s --help` lists the options", call->program->name,
             *call->command ? " " : "", call->command);
    return c;
}

/* Finds the row of another tool's word, if this command accepts or explains the word. *slot: the
 * option of the row, or --set for a setting; NULL: the row has only a text. */
static const et_synonym *find_synonym(const et_command_line *line, const char *word, size_t length,
                                      et_option_slot **slot)
{
    const et_call *call = line->call;
    const et_synonym *row = call->program->synonyms;
    for (*slot = NULL; row && row->of; row++) {
        if (row->of != ET_SYNONYM_OPTION || !et_synonym_has(row, word, length) ||
            !et_synonym_is_for(row, call->command))
            continue;
        const char *option = !row->same ? NULL : strchr(row->same, '.') ? "set" : row->same;
        *slot = option ? et_command_line_find(line, option, strlen(option)) : NULL;
        if (*slot || !option)
            return row;
    }
    return NULL;
}

static bool has_option(const et_option *rows, const et_program *program, const char *name)
{
    bool has = false;
    for (const et_option *row = rows; row && row->field.name && !has; row++) {
        has = et_option_is_shown(row) && (et_same_name(name, strlen(name), row->field.name) ||
                                          et_same_name(name, strlen(name), row->alias));
        if (row->form == ET_OPTION_FORM_GROUP)
            has = has_option(row->rows, program, name);
        if (row->form == ET_OPTION_FORM_KINDS)
            has = has_option(et_option_general, program, name);
        for (int k = 0; row->form == ET_OPTION_FORM_KINDS && k < program->count; k++)
            has |= has_option(program->kinds[k]->options, program, name);
    }
    return has;
}

#define OWNERS 3 /* commands that a message names */

/* Appends ": it is an option of train, tune" if other commands have the option. */
static void append_owners(et_strbuf *out, const et_call *call, const char *name)
{
    const et_program *program = call->program;
    const char *owners[OWNERS + 1] = { NULL };
    int count = 0;
    for (int k = -1; k < program->count; k++) {
        const et_command *row = k < 0 ? program->commands : program->kinds[k]->commands;
        for (; row && row->name; row++)
            if (row->usage && strcmp(row->name, call->command) != 0 &&
                !et_is_one_of(row->name, owners) &&
                has_option(row->usage->options, program, name)) {
                et_strbuf_printf(out, "%s%s", count ? ", " : ": it is an option of ",
                                 count < OWNERS ? row->name : "...");
                if (count == OWNERS)
                    return;
                owners[count++] = row->name;
            }
    }
}

#define FOREIGN_MAX 2048

/* The nearest word of another tool that this command knows; NULL: none, or no memory. */
static const char *nearest_synonym(const et_command_line *line, const char *word)
{
    const char **words = et_arena_array(line->arena, FOREIGN_MAX + 1, sizeof *words);
    size_t count = 0;
    for (const et_synonym *row = line->call->program->synonyms; words && row && row->of; row++) {
        const bool known =
            row->of == ET_SYNONYM_OPTION && et_synonym_is_for(row, line->call->command);
        for (const char *at = known ? row->words : ""; *at && count < FOREIGN_MAX;) {
            const size_t length = strcspn(at, " ");
            words[count++] = et_arena_strndup(line->arena, at, length);
            at += length + (at[length] == ' ');
            if (!words[count - 1])
                return NULL;
        }
    }
    return words ? et_nearest(word, words) : NULL;
}

/* Names the counterpart of a word of another tool, commands with this option, or the nearest name,
 * alias or "help". word: without "--", perhaps with a value. */
static int unknown(const et_command_line *line, const char *word, et_error *error)
{
    const char **names = et_alloc((size_t)line->count * 2 + 2, sizeof *names);
    et_option_name *typed = et_alloc((size_t)line->count + 1, sizeof *typed);
    char plain[64], short_name[64]; /* without ":N" */
    int count = 0;
    for (int i = 0; names && typed && i < line->count; i++) {
        const et_option *row = line->slots[i].row;
        typed[i] = et_option_typed(row);
        if (et_option_is_shown(row))
            names[count++] = typed[i].text;
        if (row->alias)
            names[count++] = row->alias;
    }
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word, "="), word);
    snprintf(short_name, sizeof short_name, "%.*s", (int)strcspn(word, "=:"), word);
    et_strbuf hint = ET_STRBUF_INIT;
    et_option_slot *slot;
    const et_synonym *synonym = find_synonym(line, short_name, strlen(short_name), &slot);
    et_synonym_print(&hint, synonym, line->call->program);
    const et_task_kind *kind = et_kind_named(line->call);
    for (int k = 0; kind && !hint.length && k < line->call->program->count; k++)
        if (has_option(line->call->program->kinds[k]->options, line->call->program, short_name))
            et_strbuf_printf(&hint,
                             ": it is an option of %s tasks, and the experiment is a %s task",
                             line->call->program->kinds[k]->name, kind->name);
    if (!hint.length && names && typed) {
        names[count++] = "help";
        names[count] = NULL;
        et_strbuf_append(&hint, et_nearest_hint(short_name, names, "--").text);
    }
    et_free(names);
    et_free(typed);
    if (!hint.length)
        append_owners(&hint, line->call, short_name);
    const char *foreign = hint.length ? NULL : nearest_synonym(line, short_name);
    if (foreign)
        et_strbuf_printf(&hint, ". Nearest: --%s", foreign);
    const bool sets = !hint.length && et_command_line_find(line, "set", 3);
    int status =
        sets ? et_fail(error, ET_EUSAGE,
                       "%s: no option --%s; %s, `%s list EXPERIMENT` the settings, which you set "
                       "with --set KEY=VALUE",
                       called(line), plain, shows_all(line).text, line->call->program->name)
             : et_fail(error, ET_EUSAGE, "%s: no option --%s%s%s%s", called(line), plain,
                       et_strbuf_text(&hint), synonym ? "" : "; ",
                       synonym ? "" : shows_all(line).text);
    et_strbuf_release(&hint);
    return status;
}

static int empty(const et_option_slot *slot, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "--%s: the value is empty; give %s",
                   et_option_typed(slot->row).text, slot->value);
}

static int missing(reading *r, et_option_slot *slot, et_error *error)
{
    r->waiting = slot;
    return et_fail(error, ET_EUSAGE, "%s: --%s needs a value: %s", called(r->line),
                   et_option_typed(slot->row).text, slot->value);
}

/* Whether a word is a setting such as "trainer.train_steps=100", for which the command has
 * --set. */
static bool is_setting(const et_command_line *line, const char *word)
{
    const size_t key = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return et_command_line_find(line, "set", 3) && key && word[key] == '=';
}

static bool is_file(const char *word)
{
    struct stat about;
    return !stat(word, &about) && S_ISREG(about.st_mode);
}

/* behind: the option whose words ended before the second word; NULL: none. */
static int two_words(const et_command_line *line, const et_option_slot *slot, const char *first,
                     const char *second, const et_option_slot *behind, et_error *error)
{
    const char *setting = is_setting(line, second)  ? second
                          : is_setting(line, first) ? first
                                                    : NULL;
    const char *file = is_file(second) ? second : is_file(first) ? first : NULL;
    char what[ET_ERROR_TEXT_MAX] = "";
    if (file && !setting && et_command_line_find(line, "data", 4))
        snprintf(what, sizeof what, "; if %.60s has the data, write --data %s", file,
                 et_shell_quote(file).text);
    else if (setting)
        snprintf(what, sizeof what, "; if this is a setting, write --set %s",
                 et_shell_quote(setting).text);
    else if (behind)
        snprintf(what, sizeof what, "; if %.60s belongs to --%s, repeat --%s before it", second,
                 behind->row->field.name, behind->row->field.name);
    else if (is_file(first) && !is_file(second))
        snprintf(what, sizeof what, "; name the %s before files", slot->row->value);
    return et_fail(error, ET_EUSAGE, "%s: takes one %s, but found %s and %s%s", called(line),
                   slot->row->value, first, second, what);
}

/* ---- values ---- */

/* The line's number of words limits the length of a list. */
static int add(const et_command_line *line, et_strings *list, const char *word, et_error *error)
{
    const size_t most = (size_t)line->call->argc + 1;
    if (!list->items)
        list->items = et_arena_array(line->arena, most, sizeof *list->items);
    if (!list->items)
        return et_alloc_failed(error, "options");
    et_assert(list->count < most);
    ((const char **)(uintptr_t)list->items)[list->count++] = word;
    return ET_OK;
}

/* suffix: the text after ":", [length]; NULL: no suffix. Without a number, the first item is meant,
 * as in TensorFX. */
static int read_index(size_t *at, const char *suffix, size_t length, const char *where,
                      et_error *error)
{
    char *end = NULL;
    long number = suffix ? strtol(suffix, &end, 10) : 1;
    *at = 0;
    if (!suffix || end == suffix || end != suffix + length)
        return ET_OK;
    if (number < 1 || number > ET_INTEGERS_MAX)
        return et_fail(error, ET_EUSAGE, "%s: the number after \":\" must be 1 to %d", where,
                       ET_INTEGERS_MAX);
    *at = (size_t)number - 1;
    return ET_OK;
}

/* where: "--name", for messages. The row's macro ensures that the member has the row's type. */
static int store(const et_command_line *line, const et_option_slot *slot, const char *word,
                 const char *where, et_error *error)
{
    const et_option *row = slot->row;
    if (!*word && row->field.kind != ET_FIELD_KIND_ONLY)
        return empty(slot, error);
    switch (row->form) {
    case ET_OPTION_FORM_FLAG:
        *(bool *)slot->member = true;
        return ET_OK;
    case ET_OPTION_FORM_SETS:
        ((et_option_uses *)slot->member)->times++;
        return ET_OK;
    case ET_OPTION_FORM_TASK:
        ((et_option_task *)slot->member)->name = word;
        return ET_OK;
    case ET_OPTION_FORM_THREADS: {
        int64_t count;
        int status = et_field_read_word(&row->field, &count, word, where, error);
        if (!status && !line->looking)
            et_device_use_threads((int)count);
        return status;
    }
    case ET_OPTION_FORM_TIME:
        return et_amount_time(slot->member, row->field.name, word, error);
    case ET_OPTION_FORM_SIZE:
        return et_amount_bytes(slot->member, row->field.name, word, error);
    default:
        return row->field.kind == ET_FIELD_KIND_STRINGS
                   ? add(line, slot->member, word, error)
                   : et_field_read_word(&row->field, slot->base, word, where, error);
    }
}

/* ---- words of an option ---- */

static et_option_slot *find_letter(const et_command_line *line, const char *word)
{
    for (int i = 0; word[0] == '-' && word[1] && !word[2] && i < line->count; i++)
        if (line->slots[i].row->letter == word[1])
            return &line->slots[i];
    return NULL;
}

/* Whether the word after a file is another file, not a RUN: it is an existing file, a pattern, a
 * name with the same ending, or the second file of a pair. */
static bool is_one_more_file(const et_option_slot *slot, int count, const char *first,
                             const char *word)
{
    if (count < slot->least && !et_option_ends_in(first, slot->alone))
        return true;
    const char *end = strrchr(first, '.');
    const size_t length = end ? strlen(end) : 0;
    return strpbrk(word, "*?[") || is_file(word) ||
           (length && strlen(word) > length && !strcmp(word + strlen(word) - length, end));
}

static int add_given(const et_command_line *line, et_option_uses *words, char *const *items,
                     int count, et_error *error)
{
    const size_t most = (size_t)line->call->argc;
    if (!words->given)
        words->given = et_arena_array(line->arena, most, sizeof *words->given);
    if (!words->given)
        return et_alloc_failed(error, "options");
    words->given[words->times++] = (et_option_given){ items, count };
    return ET_OK;
}

/* Stores the next words, or the value after "=". */
static int store_words(reading *r, et_option_slot *slot, char *value, et_error *error)
{
    char *const *items = r->argv + r->at;
    int count = 0;
    if (value && !*value)
        return empty(slot, error);
    if (value) {
        char **one = et_arena_array(r->line->arena, 1, sizeof *one);
        if (!one)
            return et_alloc_failed(error, "options");
        *one = value;
        return add_given(r->line, slot->member, one, 1, error);
    }
    for (; r->at < r->argc && count < slot->most; r->at++, count++) {
        const char *word = r->argv[r->at];
        if (!strncmp(word, "--", 2) || !strcmp(word, "-h") || find_letter(r->line, word))
            break;
        if (!*word)
            return empty(slot, error);
        if (slot->files && count && !is_one_more_file(slot, count, items[0], word))
            break;
    }
    if (!count)
        return missing(r, slot, error);
    if (slot->value && strstr(slot->value, ",..."))
        r->behind = slot;
    r->open = r->at == r->argc && count < slot->most ? slot : NULL;
    r->open_words = count;
    return add_given(r->line, slot->member, items, count, error);
}

/* ---- options ---- */

/* The switch that --noNAME or --no-NAME turns off; NULL: word is not one of these. */
static et_option_slot *find_off(const et_command_line *line, const char *word, size_t length)
{
    if (length < 3 || word[0] != 'n' || word[1] != 'o')
        return NULL;
    const size_t skipped = 2 + (word[2] == '-' || word[2] == '_');
    et_option_slot *slot = et_command_line_find(line, word + skipped, length - skipped);
    const bool is_switch = slot && slot->row->field.kind == ET_FIELD_KIND_BOOL &&
                           slot->row->form == ET_OPTION_FORM_VALUE;
    return is_switch ? slot : NULL;
}

static int check_taken(const et_command_line *line, const et_option *row, const char *name,
                       size_t length, const char *value, et_error *error)
{
    const bool flag =
        row->form == ET_OPTION_FORM_FLAG || (row->form == ET_OPTION_FORM_SETS && !row->value);
    if (row->form == ET_OPTION_FORM_REFUSED)
        return et_fail(error, ET_EUSAGE, "%s: no option --%s: %s", called(line), row->field.name,
                       row->field.help);
    if (row->job && !line->jobs)
        return et_fail(error, ET_EUSAGE,
                       "--%.*s: an argument of a job; only arguments of a model are allowed here",
                       (int)length, name);
    return flag && value ? et_fail(error, ET_EUSAGE, "%s: --%s takes no value, found %s",
                                   called(line), et_option_typed(row).text, value)
                         : ET_OK;
}

/* The next word is the value. "--set --x" is refused: most often the value was forgotten. */
static int next_value(reading *r, et_option_slot *slot, const char **value, et_error *error)
{
    const et_option_name name = et_option_typed(slot->row);
    if (r->at >= r->argc)
        return missing(r, slot, error);
    *value = r->argv[r->at++];
    return strncmp(*value, "--", 2) != 0
               ? ET_OK
               : et_fail(
                     error, ET_EUSAGE,
                     "%s: --%s needs a value, %s, but found %s; write --%s=%s if this is the value",
                     called(r->line), name.text, slot->value, *value, name.text,
                     et_shell_quote(*value).text);
}

/* value: the text after "="; NULL: no "=". name: as typed, [length], with ":N" of an indexed
 * option. */
static int take(reading *r, et_option_slot *slot, const char *name, size_t length, char *value,
                et_error *error)
{
    const et_option *row = slot->row;
    const char *text = value, *suffix = name[length] == ':' ? name + length + 1 : NULL;
    const size_t suffix_length = suffix ? strcspn(suffix, "=") : 0;
    char where[96];
    snprintf(where, sizeof where, "--%s%s%.*s", et_option_typed(row).text, suffix ? ":" : "",
             (int)(suffix_length < 16 ? suffix_length : 16), suffix ? suffix : "");
    int status = check_taken(r->line, row, name, length, value, error);
    if (status)
        return status;
    if (et_option_takes_words(row))
        return store_words(r, slot, value, error);
    if (!text && (!slot->value || row->field.kind == ET_FIELD_KIND_BOOL))
        text = "true";
    if (!text)
        status = next_value(r, slot, &text, error);
    /* Scripts for Model Garden write --params_override="${SETTINGS}" even if there are none. */
    if (status || (!*text && row->field.kind == ET_FIELD_KIND_STRINGS &&
                   et_same_name(name, length, row->alias)))
        return status;
    if (row->form != ET_OPTION_FORM_INDEXED)
        return store(r->line, slot, text, where, error);
    size_t at;
    status = read_index(&at, suffix, suffix_length, where, error);
    if (!status && !*text)
        return empty(slot, error);
    if (status)
        return status;
    /* Lengthens a list that is too short. */
    et_integer_list *list = slot->member;
    et_field item = slot->row->field;
    item.offset = 0;
    if (at >= list->count) {
        int64_t *items = et_arena_array(r->line->arena, at + 1, sizeof *items);
        if (!items)
            return et_alloc_failed(error, "options");
        for (size_t i = 0; i <= at; i++)
            items[i] = i < list->count ? list->items[i] : (int64_t)item.default_number;
        *list = (et_integer_list){ items, at + 1 };
    }
    return et_field_read_word(&item, &list->items[at], text, where, error);
}

/* The first row of a form; NULL: none. */
static et_option_slot *row_of_form(const et_command_line *line, et_option_form form)
{
    for (int i = 0; i < line->count; i++)
        if (line->slots[i].row->form == form)
            return &line->slots[i];
    return NULL;
}

/* The row of the struct that an option names, "m" of --m.path; NULL: none. */
static const et_option_slot *find_fields(const et_command_line *line, const char *word)
{
    for (int i = 0; i < line->count; i++) {
        const et_option *row = line->slots[i].row;
        const size_t length = strlen(row->field.name);
        if (row->form == ET_OPTION_FORM_FIELDS && !strncmp(word, row->field.name, length) &&
            (!length || word[length] == '.'))
            return &line->slots[i];
    }
    return NULL;
}

#define WHERE "command line" /* as messages of the YAML reader name it */

static int set_below(const et_option_slot *slot, const char *path, size_t length, const char *text,
                     et_arena *arena, et_error *error)
{
    const char *prefix = slot->row->field.name;
    et_value *value = NULL;
    int status = et_yaml_parse_value(&value, arena, text, WHERE, error);
    if (status == ET_ECONFIG)
        return et_fail_while(error, status, "--%s%s%.*s", prefix, *prefix ? "." : "", (int)length,
                             path);
    if (status)
        return status;
    value->line = 0;
    et_value *dict = et_value_nested(arena, path, length, value);
    return dict ? et_fields_read(slot->row->field.nested, slot->member, dict, arena, WHERE, prefix,
                                 error)
                : et_alloc_failed(error, "a flag");
}

/* Takes a word of another tool as an option of this command, or as a setting for --set. */
static int take_synonym(reading *r, et_option_slot *slot, const et_synonym *row, const char *name,
                        size_t length, char *value, et_error *error)
{
    et_command_line *line = r->line;
    const bool sets = strchr(row->same, '.');
    line->synonyms = et_arena_printf(
        line->arena, "%s%s--%.*s is --%s%s", line->synonyms ? line->synonyms : "",
        line->synonyms ? ", " : "", (int)length, name, sets ? "set " : "", row->same);
    if (!sets)
        return take(r, slot, name, length, value, error);
    const char *text = value;
    int status = ET_OK;
    if (strchr(row->same, '='))
        return value ? et_fail(error, ET_EUSAGE, "%s: --%.*s takes no value, found %s",
                               called(line), (int)length, name, value)
                     : add(line, slot->member, row->same, error);
    if (!text)
        status = next_value(r, slot, &text, error);
    const char *setting = status ? NULL : et_arena_printf(line->arena, "%s=%s", row->same, text);
    if (!status && !setting)
        status = et_alloc_failed(error, "options");
    return status ? status : add(line, slot->member, setting, error);
}

static int read_option(reading *r, et_error *error)
{
    char *word = r->argv[r->at] + 2, *equals = strchr(word, '=');
    const size_t whole = equals ? (size_t)(equals - word) : strlen(word);
    const char *colon = memchr(word, ':', whole);
    size_t length = colon ? (size_t)(colon - word) : whole;
    et_option_slot *slot = et_command_line_find(r->line, word, length);
    if (colon && (!slot || slot->row->form != ET_OPTION_FORM_INDEXED))
        slot = et_command_line_find(r->line, word, length = whole);
    const et_option_slot *off = slot || equals ? NULL : find_off(r->line, word, length);
    const et_option_slot *fields = slot || off ? NULL : find_fields(r->line, word);
    const et_option_slot *passed =
        slot || off || fields ? NULL : row_of_form(r->line, ET_OPTION_FORM_PASSED);
    const bool known = slot || off || fields || passed;
    et_option_slot *meant = NULL;
    const et_synonym *synonym = known ? NULL : find_synonym(r->line, word, whole, &meant);
    r->at++;
    if (meant)
        return take_synonym(r, meant, synonym, word, whole, equals ? equals + 1 : NULL, error);
    if (fields) {
        /* name: as typed, [length]. If an option follows, the value is missing. */
        const char *value = equals ? equals + 1 : NULL;
        const size_t before = strlen(fields->row->field.name), skipped = before + (before > 0);
        if (!value && (r->at >= r->argc || !strncmp(r->argv[r->at], "--", 2)))
            return et_fail(error, ET_ECONFIG, "--%.*s: the value is missing", (int)whole, word);
        return set_below(fields, word + skipped, whole - skipped, value ? value : r->argv[r->at++],
                         r->line->arena, error);
    }
    if (off)
        return store(r->line, off, "false", off->row->field.name, error);
    if (passed)
        return add(r->line, passed->member, word - 2, error);
    return slot ? take(r, slot, word, length, equals ? equals + 1 : NULL, error)
                : unknown(r->line, word, error);
}

/* ---- words that are no option ---- */

/* The row that the next word fills: the first empty row of WORD, else REST or the last row. NULL:
 * the table takes no words. */
static et_option_slot *row_of_word(const et_command_line *line)
{
    et_option_slot *last = NULL;
    for (int i = 0; i < line->count; i++) {
        et_option_slot *slot = &line->slots[i];
        if (!et_option_is_plain(slot->row))
            continue;
        last = slot;
        if (slot->row->form != ET_OPTION_FORM_WORD || !*(const char **)slot->member)
            return slot;
    }
    return last;
}

/* A directory is no file but a second RUN, unless the row is for directories or more runs. */
static bool is_second_run(const et_option_slot *slot, const char *word)
{
    struct stat about;
    const char *name = slot->row->field.name;
    return !stat(word, &about) && S_ISDIR(about.st_mode) && !strstr(name, "DIR") &&
           !strstr(name, "RUN");
}

static int read_plain(reading *r, const char *word, const et_option_slot *behind, et_error *error)
{
    const et_command_line *line = r->line;
    et_option_slot *slot = row_of_word(line), *run = row_of_form(line, ET_OPTION_FORM_WORD);
    if (run && slot && slot != run && *(const char **)run->member && is_second_run(slot, word))
        return two_words(line, run, *(const char **)run->member, word, behind, error);
    if (!slot)
        return et_fail(error, ET_EUSAGE,
                       "%s takes no argument, but found %s; options begin with --", called(line),
                       *word ? word : "\"\"");
    if (!*word && slot->row->form != ET_OPTION_FORM_PASSED)
        return et_fail(error, ET_EUSAGE, "%s: an argument is empty; give %s", called(line),
                       slot->row->field.name);
    if (slot->row->form != ET_OPTION_FORM_WORD) {
        /* The first word of another command: options after it are of that command. */
        r->ended |= !strncmp(slot->row->field.name, "--", 2);
        r->rest_words++;
        return add(line, slot->member, word, error);
    }
    const char **member = slot->member;
    if (*member)
        return two_words(line, slot, *member, word, behind, error);
    *member = slot->plain = word;
    if (slot == run)
        r->plain_behind = behind;
    return ET_OK;
}

/* ---- a line ---- */

/* A single - is a word; so is -1. */
static int read_next(reading *r, et_error *error)
{
    const et_option_slot *behind = r->behind;
    char *word = r->argv[r->at];
    et_option_slot *letter = r->ended ? NULL : find_letter(r->line, word);
    const et_option_slot *passed = row_of_form(r->line, ET_OPTION_FORM_PASSED),
                         *first = r->line->slots;
    /* Help of a program that options are passed to is its own, once it is named. */
    const bool own =
        !passed || (first->row->form != ET_OPTION_FORM_FIELDS && !*(const char **)first->member);
    r->behind = r->open = r->waiting = NULL;
    if (!r->ended && (!strcmp(word, "--help") || !strcmp(word, "-h")) && own) {
        r->line->help = true;
        return ET_OK;
    }
    if (!r->ended && !strncmp(word, "--", 2) && word[2])
        return read_option(r, error);
    r->at++;
    if (!r->ended && !strcmp(word, "--")) {
        r->ended = true;
        return passed ? add(r->line, passed->member, word, error) : ET_OK;
    }
    if (letter)
        return take(r, letter, letter->row->field.name, strlen(letter->row->field.name), NULL,
                    error);
    const char lower = (char)(word[0] == '-' ? word[1] | 32 : 0);
    if (!r->ended && lower >= 'a' && lower <= 'z' && !passed) {
        /* Handles "-e": the message names the first few options that begin with this letter. */
        et_strbuf names = ET_STRBUF_INIT;
        int count = 0;
        for (int i = 0; i < r->line->count && count < 4; i++) {
            const et_option *row = r->line->slots[i].row;
            const char *name =
                row->alias && row->alias[0] == word[1] ? row->alias : row->field.name;
            if (et_option_is_shown(row) && name[0] == word[1])
                et_strbuf_printf(&names, "%s--%s", count++ ? ", " : ", such as ", name);
        }
        int status = et_fail(error, ET_EUSAGE, "%s: no option %s; options are whole words%s",
                             called(r->line), word, count ? et_strbuf_text(&names) : "");
        et_strbuf_release(&names);
        return status;
    }
    return read_plain(r, word, behind, error);
}

/* An option has taken the place of the first word, which is the second one then. */
static int move_word(reading *r, et_error *error)
{
    et_option_slot *first = row_of_form(r->line, ET_OPTION_FORM_WORD);
    if (!first || !first->plain || *(const char **)first->member == first->plain)
        return ET_OK;
    const et_option_slot *next = row_of_word(r->line);
    const bool taken = next->row->form == ET_OPTION_FORM_WORD && *(const char **)next->member;
    et_assert(*(const char **)first->member);
    if (next == first || taken)
        return two_words(r->line, first, *(const char **)first->member, first->plain,
                         r->plain_behind, error);
    return read_plain(r, first->plain, r->plain_behind, error);
}

/* If no run is given, the command reports it later. */
static int use_task(const et_command_line *line, et_error *error)
{
    const et_option_slot *slot = row_of_form(line, ET_OPTION_FORM_TASK);
    const et_option_slot *run = et_command_line_find(line, "model-dir", 9);
    et_option_task *task = slot ? slot->member : NULL;
    char *folder;
    if (!task || !task->name || !run || !*(const char **)run->member)
        return ET_OK;
    int status = et_artifact_find_member(&folder, *(const char **)run->member, task->name, error);
    if (status)
        return et_fail_while(error, status, "%s: --%s", called(line), slot->row->field.name);
    const size_t length = strlen(folder);
    if (length < sizeof task->folder)
        memcpy(task->folder, folder, length + 1);
    else
        status = et_fail(error, ET_EUSAGE, "%s: the path is too long", folder);
    *(const char **)run->member = task->folder;
    et_free(folder);
    return status;
}

int et_command_line_parse(et_command_line *line, et_error *error)
{
    const et_call *call = line->call;
    reading r = { .line = line, .argv = call->argv, .argc = call->argc };
    et_assert(call->argc == 0 || call->argv);
    int status = ET_OK;
    while (!status && r.at < r.argc && !line->help)
        status = read_next(&r, error);
    if (status || line->help)
        return status;
    status = move_word(&r, error);
    for (int i = 0; !status && i < line->count; i++) {
        const et_option *row = line->slots[i].row;
        if (row->missing && !*(const char **)line->slots[i].member)
            status = et_fail(error, ET_EUSAGE, "%s: --%s is missing; name %s", called(line),
                             et_option_typed(row).text, row->missing);
    }
    return status ? status : use_task(line, error);
}

/* ---- a line that is not finished ---- */

void et_command_line_position(et_command_line *line, et_option_position *position)
{
    const et_call *call = line->call;
    reading r = { .line = line, .argv = call->argv, .argc = call->argc - 1 };
    et_assert(call->argc > 0);
    const char *word = call->argv[call->argc - 1], *equals = strchr(word, '=');
    line->looking = true;
    while (r.at < r.argc) {
        const int at = r.at;
        (void)read_next(&r, NULL);
        r.at += r.at == at; /* --help */
    }
    (void)move_word(&r, NULL);
    *position = (et_option_position){ .text = word, .ended = r.ended };
    position->slot = r.waiting ? r.waiting : r.open;
    position->nth = r.open ? r.open_words : 0;
    position->more = !r.waiting;
    position->plain = row_of_word(line);
    position->plain_nth = r.rest_words;
    if (position->plain && position->plain->row->form == ET_OPTION_FORM_WORD &&
        *(const char **)position->plain->member)
        position->plain = NULL;
    if (!r.waiting && !r.ended && equals && !strncmp(word, "--", 2)) {
        position->slot = et_command_line_find(line, word + 2, (size_t)(equals - word) - 2);
        position->text = equals + 1;
        position->more = false;
    }
}

/* ---- flags of a program ---- */

/* Parses with a table of two rows: one takes the flags with a prefix, the other takes the remaining
 * words. */
int et_fields_flags(const et_fields *table, void *options, const char *prefix, int *argc,
                    char **argv, et_arena *arena, et_error *error)
{
    et_assert(table && options && *argc >= 0);
    struct whole {
        void *options;
        et_strings left;
    } whole = { options, { NULL, 0 } };
    const et_option rows[] = {
        { .field = { .name = prefix ? prefix : "",
                     .kind = ET_FIELD_KIND_STRUCT,
                     .offset = offsetof(struct whole, options),
                     .nested = table,
                     .indirect = true },
          .form = ET_OPTION_FORM_FIELDS },
        ET_OPTION_ROW(struct whole, left, et_strings, STRINGS, PASSED, "", NULL, ""),
        ET_OPTION_END,
    };
    const int own = *argc > 0; /* the program's name */
    const et_usage usage = { rows, 0, NULL, NULL };
    const et_program program = { .name = "command line" };
    const et_call call = {
        .program = &program, .command = "", .argc = *argc - own, .argv = argv + own
    };
    et_command_line line;
    int status = et_command_line_open(&line, &usage, &whole, &call, arena, error);
    if (!status)
        status = et_command_line_parse(&line, error);
    if (status)
        return status;
    for (size_t i = 0; i < whole.left.count; i++)
        argv[own + (int)i] = (char *)(uintptr_t)whole.left.items[i];
    if (own + (int)whole.left.count < *argc)
        argv[own + whole.left.count] = NULL;
    *argc = own + (int)whole.left.count;
    return ET_OK;
}
