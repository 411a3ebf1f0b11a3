/* The grammar of what follows a command's name:
 *
 *   line   = { option | word } [ "--" { word } ]
 *   option = "--" name                      a flag or switch
 *          | "--no" name                    a switch, off
 *          | "--" name "=" value            anything, dashes too
 *          | "--" name value { value }      of an option that takes words
 *          | "--" name value                value: the next argument, which does not begin with --
 *          | "-h" | "-q"                    the same as --help, --quiet
 *
 * A name is one of the command's table, by its name or alias, `-` and `_` alike. What a value is
 * read as is base/fields/fields_scalar.c's to say; texts stay where they are, in argv. Parsing
 * stops at the first thing that is wrong, which is ET_EUSAGE; --help before that wins.
 *
 * A value must have something in it: DIR of `--model-dir "$DIR"` was never set, most likely, and
 * the current directory is not what was meant.
 *
 * A later value of an option that is no list replaces an earlier one, as people expect who
 * repeat a command with one word more at its end. */
#include "command/options/args.h"

#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields_scalar.h"
#include "base/text/strbuf.h"
#include "base/text/terminal.h"
#include "command/pages/described.h"
#include "train/checkpoint/artifact/model_member.h"

#define HELP_COLUMN 31  /* where the text of an option begins */
#define HELP_WIDTH  100 /* at most; a terminal may be narrower */
#define NAMES_MAX   128 /* options and their other names that the nearest is sought among */

const char *const et_arg_precisions[] = { "float32", "bfloat16", "int8", NULL };

/* NULL: no option of that name. Tables have about ten rows. */
static const et_arg *find(const et_arg *table, const char *word, size_t length)
{
    et_assert(table && word);
    for (; table->field.name; table++)
        if (!et_arg_is_plain(table) && (et_same_name(word, length, table->field.name) ||
                                        et_same_name(word, length, table->alias)))
            return table;
    return NULL;
}

/* The switch that --noNAME or --no-NAME turns off; NULL: it is none. */
static const et_arg *find_off(const et_arg *table, const char *word, size_t length)
{
    if (length < 3 || word[0] != 'n' || word[1] != 'o')
        return NULL;
    size_t skipped = 2 + (word[2] == '-' || word[2] == '_');
    const et_arg *arg = find(table, word + skipped, length - skipped);
    return arg && arg->way == ET_ARG_WAY_SWITCH ? arg : NULL;
}

/* The nearest is sought among names, aliases and "help", without what stands after "=". */
static int unknown(const et_arg *table, const et_call *call, const char *word, et_error *error)
{
    /* The list ends in NULL, as et_nearest wants it. */
    const char *names[NAMES_MAX + 1];
    int count = 0;
    char plain[64];
    /* Two places are kept: one row may add two names, and "help" comes last. */
    for (const et_arg *arg = table; arg->field.name && count < NAMES_MAX - 2; arg++) {
        if (et_arg_is_option(arg))
            names[count++] = arg->field.name;
        if (arg->alias)
            names[count++] = arg->alias;
    }
    names[count++] = "help";
    names[count] = NULL;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word, "="), word);
    const et_hint hint = et_nearest_hint(plain, names, "--");
    if (!*hint.text && find(table, "set", 3))
        return et_fail(error, ET_EUSAGE,
                       "%s: no option --%s; `%s %s --help` shows all, and `%s list EXPERIMENT` the "
                       "settings, which go as --set KEY=VALUE",
                       call->command, plain, call->program->name, call->command,
                       call->program->name);
    return et_fail(error, ET_EUSAGE, "%s: no option --%s%s; `%s %s --help` shows all",
                   call->command, plain, hint.text, call->program->name, call->command);
}

/* The list is the caller's and of fixed size: nothing to free. */
static bool add(et_arg_list *list, const char *value)
{
    et_assert(list->count >= 0 && list->count <= ET_ARG_LIST_MAX);
    if (list->count == ET_ARG_LIST_MAX)
        return false;
    list->items[list->count++] = value;
    return true;
}

static int add_option(const et_arg *arg, const char *value, et_error *error)
{
    return add(arg->target, value) ? ET_OK
                                   : et_fail(error, ET_EUSAGE, "--%s: given more than %d times",
                                             arg->field.name, ET_ARG_LIST_MAX);
}

static int add_word(const et_arg *arg, const char *command, const char *value, et_error *error)
{
    return add(arg->target, value) ? ET_OK
                                   : et_fail(error, ET_EUSAGE, "%s: more than %d arguments (%s)",
                                             command, ET_ARG_LIST_MAX, arg->field.name);
}

static int empty(const et_arg *arg, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "--%s: the value is empty; it wants %s", arg->field.name,
                   et_arg_value(arg).text);
}

static int missing(const et_arg *arg, const char *command, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "%s: --%s wants %s after it", command, arg->field.name,
                   et_arg_value(arg).text);
}

static bool ends_words(const char *word)
{
    return !strncmp(word, "--", 2) || !strcmp(word, "-q") || !strcmp(word, "-h");
}

bool et_arg_ends_in(const char *word, const char *endings)
{
    const size_t whole = strlen(word);
    for (const char *at = endings; at && *at;) {
        const size_t length = strcspn(at, " ");
        if (whole > length && !strncmp(word + whole - length, at, length))
            return true;
        at += length;
        at += strspn(at, " ");
    }
    return false;
}

/* Whether a word behind the first of several files is one more, and no RUN: a file that is there, a
 * pattern of some, a name that ends alike, or the other half of a pair. */
static bool is_one_more_file(const et_arg_words *words, int count, const char *first,
                             const char *word)
{
    if (count < words->least && !et_arg_ends_in(first, words->alone))
        return true;
    const char *end = strrchr(first, '.');
    const size_t length = end ? strlen(end) : 0;
    struct stat about;
    return strpbrk(word, "*?[") || (!stat(word, &about) && S_ISREG(about.st_mode)) ||
           (length && strlen(word) > length && !strcmp(word + strlen(word) - length, end));
}

/* Those in argv from at on, or the one behind "=". */
static int store_words(const et_arg *arg, const et_call *call, int *at, char *value,
                       et_error *error)
{
    et_arg_words *words = arg->target;
    int count = 0;
    et_assert(words->most >= 1);
    if (words->times == ET_ARG_TIMES_MAX)
        return et_fail(error, ET_EUSAGE, "--%s: given more than %d times", arg->field.name,
                       ET_ARG_TIMES_MAX);
    char *const *items = value ? NULL : call->argv + *at + 1;
    if (value && !*value)
        return empty(arg, error);
    for (; !value && *at + 1 < call->argc; ++*at, count++) {
        if (count == words->most || ends_words(call->argv[*at + 1]))
            break;
        if (!*call->argv[*at + 1])
            return empty(arg, error);
        if (words->files && count && !is_one_more_file(words, count, items[0], call->argv[*at + 1]))
            break;
    }
    if (!value && !count)
        return missing(arg, call->command, error);
    words->given[words->times].items = items;
    words->given[words->times].one = value;
    words->given[words->times++].count = value ? 1 : count;
    return ET_OK;
}

static int use_threads(const et_arg *arg, const char *word, const char *where, et_error *error)
{
    int64_t count;
    int status = et_field_read_word(&arg->field, &count, word, where, error);
    if (!status)
        et_device_use_threads((int)count);
    return status;
}

/* target is of the type that the row says; its macro has seen to that. A member begins with its
 * name. */
static int store(const et_arg *arg, const char *word, et_error *error)
{
    char where[64];
    snprintf(where, sizeof where, "--%s", arg->field.name);
    if (arg->way == ET_ARG_WAY_FLAG) {
        *(bool *)arg->target = true;
        return ET_OK;
    }
    if (!*word && arg->field.kind != ET_FIELD_KIND_ONLY)
        return empty(arg, error);
    if (arg->way == ET_ARG_WAY_PROCESSORS)
        return use_threads(arg, word, where, error);
    if (arg->way == ET_ARG_WAY_LIST)
        return add_option(arg, word, error);
    return et_field_read_word(&arg->field, arg->target, word, where, error);
}

/* Scripts for Model Garden write --params_override="${SETTINGS}" whether there are any or not. */
static bool is_left_out(const et_arg *arg, const char *word, size_t length, const char *value)
{
    return !*value && arg->way == ET_ARG_WAY_LIST && et_same_name(word, length, arg->alias);
}

/* *at is the option's place; it moves on by one if the next argument is its value. "--set --x"
 * is refused, since most often the value was forgotten. */
static int parse_option(const et_arg *table, const et_call *call, int *at, et_error *error)
{
    const char *command = call->command, *word = call->argv[*at] + 2, *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const et_arg *arg = find(table, word, length);
    const et_arg *off = arg || equals ? NULL : find_off(table, word, length);
    if (off)
        return store(off, "false", error);
    if (!arg)
        return unknown(table, call, word, error);
    if (arg->way == ET_ARG_WAY_TOLD)
        return et_fail(error, ET_EUSAGE, "%s: no option --%s: %s", command, arg->field.name,
                       arg->field.help);
    if (arg->way == ET_ARG_WAY_FLAG && equals)
        return et_fail(error, ET_EUSAGE, "%s: --%s takes no value, found %s", command,
                       arg->field.name, equals + 1);
    if (arg->way == ET_ARG_WAY_WORDS)
        return store_words(arg, call, at, equals ? call->argv[*at] + 3 + length : NULL, error);
    /* "--name" alone looks for a value in the next argument. */
    const char *value = equals ? equals + 1 : NULL;
    if (!value && (arg->way == ET_ARG_WAY_SWITCH || arg->way == ET_ARG_WAY_FLAG))
        value = "true";
    if (!value) {
        if (*at + 1 >= call->argc)
            return missing(arg, command, error);
        value = call->argv[++*at];
        if (!strncmp(value, "--", 2))
            return et_fail(error, ET_EUSAGE,
                           "%s: --%s wants %s after it, found %s; write --%s=%s if that is meant",
                           command, arg->field.name, et_arg_value(arg).text, value, arg->field.name,
                           value);
    }
    return is_left_out(arg, word, length, value) ? ET_OK : store(arg, value, error);
}

/* "-e": the options that begin so, of which the first few are named. */
static int one_dash(const et_arg *table, const char *command, const char *word, et_error *error)
{
    et_strbuf names = ET_STRBUF_INIT;
    int count = 0;
    for (const et_arg *arg = table; arg->field.name && count < 4; arg++) {
        const char *name = arg->alias && arg->alias[0] == word[1] ? arg->alias : arg->field.name;
        if (et_arg_is_option(arg) && name[0] == word[1])
            et_strbuf_printf(&names, "%s--%s", count++ ? ", " : ", such as ", name);
    }
    int status = et_fail(error, ET_EUSAGE, "%s: no option %s; options are whole words%s", command,
                         word, count ? et_strbuf_text(&names) : "");
    et_strbuf_release(&names);
    return status;
}

static bool has_one_dash(const char *word)
{
    return word[0] == '-' &&
           ((word[1] >= 'a' && word[1] <= 'z') || (word[1] >= 'A' && word[1] <= 'Z'));
}

/* "trainer.train_steps=100", for which `set` would be the option; NULL: there is none. */
static bool is_setting(const et_arg *set, const char *word)
{
    const size_t key = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return set && key && word[key] == '=';
}

/* arg: of the table. behind: the option whose last word stands right before the second one; NULL:
 * none does. */
static int two_words(const et_arg *table, const et_arg *arg, const char *command, const char *first,
                     const char *second, const et_arg *behind, et_error *error)
{
    const et_arg *set = find(table, "set", 3);
    const char *setting = is_setting(set, second) ? second : is_setting(set, first) ? first : NULL;
    char cure[128] = "";
    if (setting)
        snprintf(cure, sizeof cure, "; write --set %.80s", setting);
    else if (behind)
        snprintf(cure, sizeof cure, "; if %.60s belongs to --%s, write --%s before it again",
                 second, behind->field.name, behind->field.name);
    return et_fail(error, ET_EUSAGE, "%s: takes one %s, found %s and %s%s", command, arg->value,
                   first, second, cure);
}

static const et_arg *of_way(const et_arg *table, et_arg_way way)
{
    while (table->field.name && table->way != way)
        table++;
    return table->field.name ? table : NULL;
}

/* A directory is no file but a second RUN. */
static bool is_directory(const char *word)
{
    struct stat about;
    return !stat(word, &about) && S_ISDIR(about.st_mode);
}

static int store_word(const et_arg *table, const et_arg *arg, const char *command, const char *word,
                      const et_arg *behind, et_error *error)
{
    const char **target = arg->target;
    et_assert(target);
    if (*target)
        return two_words(table, arg, command, *target, word, behind, error);
    *target = word;
    return ET_OK;
}

/* The row that takes the next word: the first WORD that has none, else the last row. NULL: words
 * are not taken. */
static const et_arg *row_of_word(const et_arg *table)
{
    const et_arg *row = NULL;
    for (; table->field.name; table++) {
        if (!et_arg_is_plain(table))
            continue;
        row = table;
        if (table->way == ET_ARG_WAY_REST || !*(const char **)table->target)
            return row;
    }
    return row;
}

/* A word that is no option belongs to one of the table's WORD or REST rows, if it has one. */
static int parse_rest(const et_arg *table, const char *command, const char *word,
                      const et_arg *behind, et_error *error)
{
    const et_arg *rest = row_of_word(table), *run = of_way(table, ET_ARG_WAY_WORD);
    if (run && rest != run && *(const char **)run->target && is_directory(word))
        return two_words(table, run, command, *(const char **)run->target, word, behind, error);
    if (rest && !*word)
        return et_fail(error, ET_EUSAGE, "%s: an argument is empty; it wants %s", command,
                       rest->field.name);
    if (rest && rest->way == ET_ARG_WAY_WORD)
        return store_word(table, rest, command, word, behind, error);
    if (rest)
        return add_word(rest, command, word, error);
    return et_fail(error, ET_EUSAGE, "%s takes no argument, found %s; options begin with --",
                   command, word);
}

/* The option of that name if its words may be many, "FILE,..."; else NULL. */
static const et_arg *find_list(const et_arg *table, const char *name)
{
    const et_arg *arg = find(table, name, strlen(name));
    return arg && arg->way == ET_ARG_WAY_WORDS && strstr(arg->value, ",...") ? arg : NULL;
}

/* Where nothing is named the command says so. */
static int use_member(const et_arg *table, const et_call *call, et_error *error)
{
    const et_arg *row = of_way(table, ET_ARG_WAY_MEMBER), *run = find(table, "model-dir", 9);
    et_arg_member *member = row ? row->target : NULL;
    char *folder;
    if (!member || !member->name || !run || !*(const char **)run->target)
        return ET_OK;
    int status = et_model_member_find(&folder, *(const char **)run->target, member->name, error);
    if (status)
        return et_fail_while(error, status, "%s: --%s", call->command, row->field.name);
    const size_t length = strlen(folder);
    if (length < sizeof member->folder)
        memcpy(member->folder, folder, length + 1);
    else
        status = et_fail(error, ET_EUSAGE, "%s: too long for a path", folder);
    *(const char **)run->target = member->folder;
    et_free(folder);
    return status;
}

/* A row has a name, and a target where it keeps what is given. */
static void sane(const et_arg *table)
{
    for (const et_arg *arg = table; arg->field.name; arg++) {
        const bool keeps = arg->way != ET_ARG_WAY_PROCESSORS && arg->way != ET_ARG_WAY_TOLD;
        et_assert(*arg->field.name && arg->way <= ET_ARG_WAY_TOLD);
        et_assert((arg->target != NULL) >= keeps || arg->field.kind == ET_FIELD_KIND_ONLY);
        et_assert(arg->way != ET_ARG_WAY_TOLD || !arg->target);
        et_assert(arg->way != ET_ARG_WAY_REST || !arg[1].field.name);
    }
}

/* A single - is a word; so is -1. */
int et_args_parse(const et_arg *table, const et_call *call, bool *help, et_error *error)
{
    et_assert(call->argc == 0 || call->argv);
    sane(table);
    /* Until "--" was seen. */
    bool options = true;
    const et_arg *plain = of_way(table, ET_ARG_WAY_WORD);
    const char *const *word_at = plain ? plain->target : NULL, *given = NULL;
    /* Whose words end before this one, and before the one that is given. */
    const et_arg *behind = NULL, *given_behind = NULL;
    *help = false;
    int status = ET_OK;
    for (int at = 0; at < call->argc; at++) {
        const char *word = call->argv[at];
        /* What comes before it was right, or parsing had ended; what comes after does not
         * matter. */
        if (options && (!strcmp(word, "--help") || !strcmp(word, "-h"))) {
            *help = true;
            return ET_OK;
        }
        if (options && !strcmp(word, "--")) {
            options = false;
            continue;
        }
        const et_arg *quiet = options && !strcmp(word, "-q") ? find(table, "quiet", 5) : NULL;
        if (quiet)
            status = store(quiet, "", error);
        else if (options && !strncmp(word, "--", 2))
            status = parse_option(table, call, &at, error);
        else if (options && has_one_dash(word))
            status = one_dash(table, call->command, word, error);
        else
            status = parse_rest(table, call->command, word, behind, error);
        if (status)
            return status;
        if (word_at && *word_at == word) {
            given = word;
            given_behind = behind;
        }
        behind = options && !strncmp(word, "--", 2) ? find_list(table, word + 2) : NULL;
    }
    /* An option has taken the place of the first word, which is the second one then. */
    if (given && *word_at != given) {
        const et_arg *next = row_of_word(table);
        if (next == plain || (next->way == ET_ARG_WAY_WORD && *(const char **)next->target))
            return two_words(table, plain, call->command, *word_at, given, given_behind, error);
        status = parse_rest(table, call->command, given, given_behind, error);
    }
    return status ? status : use_member(table, call, error);
}

/* Whether no value is taken. */
static bool is_refused(const et_arg *arg)
{
    return arg->field.kind == ET_FIELD_KIND_ONLY && !strcmp(arg->field.default_string, "null");
}

/* From a column on; "train|eval|..." goes on below itself where it is too long. Returns the last
 * line's end. */
static int print_value(FILE *to, const char *value, int column, int width)
{
    const int begin = column;
    while (*value) {
        const int length = (int)strcspn(value, "|") + (value[strcspn(value, "|")] == '|');
        if (column > begin && column + length > width) {
            fprintf(to, "\n%*s", begin, "");
            column = begin;
        }
        fprintf(to, "%.*s", length, value);
        column += length;
        value += length;
    }
    return column;
}

/* The table is all that is known of options: help cannot name one that is not there. */
void et_args_help(FILE *to, const et_arg *table, const et_call *call, const char *about,
                  const char *example)
{
    const char *program = call->program->name;
    const int columns = isatty(fileno(to)) ? et_terminal_width(fileno(to)) - 1 : HELP_WIDTH;
    const int lines = columns < HELP_WIDTH ? columns : HELP_WIDTH;
    if (call->description) {
        et_description_add(call->description, call, table, about, example);
        return;
    }
    fprintf(to, "usage: %s %s", program, call->command);
    for (const et_arg *arg = table; arg->field.name; arg++)
        if (et_arg_is_plain(arg))
            fprintf(to, " %s", arg->field.name);
    fprintf(to, " [OPTION]...\n\n");
    et_terminal_wrap(to, about, 0, 0, lines);
    fprintf(to, "\n\nexample:\n    %s %s %s\n\noptions:\n", program, call->command, example);
    for (const et_arg *arg = table; arg->field.name; arg++) {
        char text[1024];
        const et_arg_called value = et_arg_value(arg);
        if (!et_arg_is_option(arg))
            continue;
        /* "    --model-dir DIR            where the run is kept" */
        int width = fprintf(to, "    --%s%s", arg->field.name, *value.text ? " " : "");
        width = print_value(to, value.text, width, lines);
        /* Behind a long name the text has a line of its own. */
        fprintf(to, width > HELP_COLUMN - 1 ? "\n%*s" : "%*s",
                width > HELP_COLUMN - 1 ? HELP_COLUMN : HELP_COLUMN - width, "");
        snprintf(text, sizeof text, "%s%s%s%s%s", is_refused(arg) ? "not taken here: " : "",
                 arg->field.help, arg->alias ? " (or --" : "", arg->alias ? arg->alias : "",
                 arg->alias ? ")" : "");
        et_terminal_wrap(to, text, HELP_COLUMN, HELP_COLUMN, lines);
        fputc('\n', to);
    }
    fprintf(to, "    %-*s %s\n", HELP_COLUMN - 5, "--help", "this text");
}
