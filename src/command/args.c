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
 * A name is one of the command's table, by its name or alias, `-` and `_` alike. Values are kept
 * as they are (pointers into argv), numbers are read at once. Parsing stops at the first thing
 * that is wrong, which is ET_EUSAGE; --help before that wins.
 *
 * A text must have something in it: DIR of `--model-dir "$DIR"` was never set, most likely, and the
 * current directory is not what was meant.
 *
 * A later value of an option that is no list replaces an earlier one, as people expect who
 * repeat a command with one word more at its end. */
#include "command/args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields.h"
#include "command/pages/described.h"
#include "exec/device.h"
#include "train/model_member.h"

#define HELP_COLUMN 31 /* where the text of an option begins */
#define HELP_WIDTH  100
#define NAMES_MAX   64 /* options and their other names that the nearest is sought among */

/* No option. */
static bool is_plain(const et_arg *arg)
{
    return arg->kind == ET_ARG_WORD || arg->kind == ET_ARG_REST;
}

/* NULL: no option of that name. Tables have about ten rows. */
static const et_arg *find(const et_arg *table, const char *word, size_t length)
{
    et_assert(table && word);
    for (; table->name; table++)
        if (!is_plain(table) &&
            (et_same_name(word, length, table->name) || et_same_name(word, length, table->alias)))
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
    return arg && arg->kind == ET_ARG_SWITCH ? arg : NULL;
}

/* The nearest is sought among names, aliases and "help", without what stands after "=". */
static int unknown(const et_arg *table, const et_call *call, const char *word, et_error *error)
{
    /* The list ends in NULL, as et_nearest wants it. */
    const char *names[NAMES_MAX + 1];
    int count = 0;
    char plain[64];
    /* Two places are kept: one row may add two names, and "help" comes last. */
    for (const et_arg *arg = table; arg->name && count < NAMES_MAX - 2; arg++) {
        if (!is_plain(arg))
            names[count++] = arg->name;
        if (arg->alias)
            names[count++] = arg->alias;
    }
    names[count++] = "help";
    names[count] = NULL;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word, "="), word);
    return et_fail(error, ET_EUSAGE, "%s: no option --%s%s; `%s %s --help` shows all",
                   call->command, plain, et_nearest_hint(plain, names, "--").text,
                   call->program->name, call->command);
}

/* The list is the caller's and of fixed size: nothing to free. */
static int add(et_arg_list *list, const char *name, const char *value, et_error *error)
{
    et_assert(list->count >= 0 && list->count <= ET_ARG_LIST_MAX);
    if (list->count == ET_ARG_LIST_MAX)
        return et_fail(error, ET_EUSAGE, "--%s: given more than %d times", name, ET_ARG_LIST_MAX);
    list->items[list->count++] = value;
    return ET_OK;
}

static int use_threads(const char *value, et_error *error)
{
    char *end;
    double count = strtod(value, &end);
    if (end == value || *end || !(count >= 1) || count > ET_DEVICE_THREADS_MAX ||
        count != floor(count))
        return et_fail(error, ET_EUSAGE, "--threads %s: a number from 1 to %d", value,
                       ET_DEVICE_THREADS_MAX);
    et_device_use_threads((int)count);
    return ET_OK;
}

/* strtod reads counts too, so "1e3" is one; all up to ET_ARG_COUNT_MAX are exact in a double.
 * nan and inf are numbers to strtod and not to us. */
static int store_number(const et_arg *arg, const char *value, et_error *error)
{
    char *end;
    et_assert(arg->kind == ET_ARG_COUNT || arg->kind == ET_ARG_REAL);
    bool count = arg->kind == ET_ARG_COUNT;
    errno = 0;
    double real = strtod(value, &end);
    bool number = !errno && end != value && !*end && isfinite(real);
    /* Text behind the number makes it none: "10k" is not 10. */
    if (!number || (count && real != floor(real)))
        return et_fail(error, ET_EUSAGE, "--%s %s: not a %snumber", arg->name, value,
                       count ? "whole " : "");
    /* No option of ours takes a negative number. */
    if (real < 0 || (count && real > ET_ARG_COUNT_MAX))
        return et_fail(error, ET_EUSAGE, "--%s %s: must %s", arg->name, value,
                       real < 0 ? "not be negative" : "be at most 1,000,000,000");
    if (count)
        *(int64_t *)arg->target = (int64_t)real;
    else
        *(double *)arg->target = real;
    return ET_OK;
}

static int store_switch(const et_arg *arg, const char *value, et_error *error)
{
    static const char *const words[] = { "false", "true", "0", "1", "no", "yes" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcasecmp(value, words[i])) {
            *(bool *)arg->target = i % 2 == 1;
            return ET_OK;
        }
    return et_fail(error, ET_EUSAGE, "--%s=%s: choose true or false", arg->name, value);
}

/* Scripts pass options that have no value as "". */
static int refuse(const et_arg *arg, const char *value, et_error *error)
{
    return *value ? et_fail(error, ET_EUSAGE, "--%s %s: not taken here: %s", arg->name, value,
                            arg->help)
                  : ET_OK;
}

/* Those in argv from at on, or the one behind "=". */
static int store_words(const et_arg *arg, const et_call *call, int *at, char *value,
                       et_error *error)
{
    et_arg_words *words = arg->target;
    et_assert(words->most >= 1);
    *words = (et_arg_words){ .one = value, .count = 1, .most = words->most };
    words->items = &words->one;
    if (value)
        return ET_OK;
    words->items = call->argv + *at + 1;
    for (words->count = 0; *at + 1 < call->argc; ++*at, words->count++)
        if (words->count == words->most || !strncmp(call->argv[*at + 1], "--", 2))
            break;
    return words->count ? ET_OK
                        : et_fail(error, ET_EUSAGE, "%s: --%s wants %s after it", call->command,
                                  arg->name, arg->value);
}

/* target is of the type that et_arg_kind says; the row vouches for it. */
static int store(const et_arg *arg, const char *value, et_error *error)
{
    et_assert(arg->target || arg->kind == ET_ARG_NONE || arg->kind == ET_ARG_PROCESSORS);
    const bool text =
        arg->kind == ET_ARG_TEXT || arg->kind == ET_ARG_LIST || arg->kind == ET_ARG_MEMBER;
    if (text && !*value)
        return et_fail(error, ET_EUSAGE, "--%s: the value is empty; it wants %s", arg->name,
                       arg->value);
    /* Flags set, texts point into argv, numbers are read, lists grow. */
    switch (arg->kind) {
    case ET_ARG_FLAG:
        *(bool *)arg->target = true;
        return ET_OK;
    case ET_ARG_SWITCH:
        return store_switch(arg, value, error);
    case ET_ARG_NONE:
        return refuse(arg, value, error);
    case ET_ARG_PROCESSORS:
        return use_threads(value, error);
    case ET_ARG_TEXT:
        *(const char **)arg->target = value;
        return ET_OK;
    case ET_ARG_MEMBER:
        ((et_arg_member *)arg->target)->name = value;
        return ET_OK;
    case ET_ARG_COUNT:
    case ET_ARG_REAL:
        return store_number(arg, value, error);
    default:
        return add(arg->target, arg->name, value, error);
    }
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
    if (arg->kind == ET_ARG_FLAG && equals)
        return et_fail(error, ET_EUSAGE, "%s: --%s takes no value, found %s", command, arg->name,
                       equals + 1);
    if (arg->kind == ET_ARG_WORDS)
        return store_words(arg, call, at, equals ? call->argv[*at] + 3 + length : NULL, error);
    /* "--name" alone looks for a value in the next argument. */
    const char *value = equals ? equals + 1 : NULL;
    if (arg->kind == ET_ARG_SWITCH && !value)
        value = "true";
    if (arg->kind != ET_ARG_FLAG && !value) {
        if (*at + 1 >= call->argc)
            return et_fail(error, ET_EUSAGE, "%s: --%s wants %s after it", command, arg->name,
                           arg->value);
        value = call->argv[++*at];
        if (!strncmp(value, "--", 2))
            return et_fail(error, ET_EUSAGE,
                           "%s: --%s wants %s after it, found %s; write --%s=%s if that is meant",
                           command, arg->name, arg->value, value, arg->name, value);
    }
    return store(arg, value, error);
}

static int store_word(const et_arg *arg, const char *command, const char *word, et_error *error)
{
    const char **target = arg->target;
    et_assert(target);
    if (*target)
        return et_fail(error, ET_EUSAGE, "%s: takes one %s, found %s and %s", command, arg->value,
                       *target, word);
    *target = word;
    return ET_OK;
}

/* A word that is no option belongs to the table's WORD or REST row, if it has one. */
static int parse_rest(const et_arg *table, const char *command, const char *word, et_error *error)
{
    const et_arg *rest = table;
    while (rest->name && !is_plain(rest))
        rest++;
    if (rest->name && *word && rest->kind == ET_ARG_WORD)
        return store_word(rest, command, word, error);
    if (rest->name && !*word)
        return et_fail(error, ET_EUSAGE, "%s: an argument is empty; it wants %s", command,
                       rest->name);
    if (rest->name)
        return add(rest->target, rest->name, word, error);
    return et_fail(error, ET_EUSAGE, "%s takes no argument, found %s; options begin with --",
                   command, word);
}

static const et_arg *of_kind(const et_arg *table, et_arg_kind kind)
{
    while (table->name && table->kind != kind)
        table++;
    return table->name ? table : NULL;
}

/* Where nothing is named the command says so. */
static int use_member(const et_arg *table, const et_call *call, et_error *error)
{
    const et_arg *row = of_kind(table, ET_ARG_MEMBER), *run = find(table, "model-dir", 9);
    et_arg_member *member = row ? row->target : NULL;
    char *folder;
    if (!member || !member->name || !run || !*(const char **)run->target)
        return ET_OK;
    int status = et_model_member_find(&folder, *(const char **)run->target, member->name, error);
    if (status)
        return et_fail_while(error, status, "%s: --%s", call->command, row->name);
    const size_t length = strlen(folder);
    if (length < sizeof member->folder)
        memcpy(member->folder, folder, length + 1);
    else
        status = et_fail(error, ET_EUSAGE, "%s: too long for a path", folder);
    *(const char **)run->target = member->folder;
    et_free(folder);
    return status;
}

/* A single - is a word; -x is one too, and then refused unless the command takes words. */
int et_args_parse(const et_arg *table, const et_call *call, bool *help, et_error *error)
{
    et_assert(call->argc == 0 || call->argv);
    /* Until "--" was seen. */
    bool options = true;
    const et_arg *plain = table;
    while (plain->name && plain->kind != ET_ARG_WORD)
        plain++;
    const char *const *word_at = plain->name ? plain->target : NULL, *given = NULL;
    *help = false;
    for (int at = 0; at < call->argc; at++) {
        const char *word = call->argv[at];
        int status;
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
        else
            status = parse_rest(table, call->command, word, error);
        if (status)
            return status;
        if (word_at && *word_at == word)
            given = word;
    }
    if (given && *word_at != given)
        return et_fail(error, ET_EUSAGE, "%s: takes one %s, found %s and %s", call->command,
                       plain->value, given, *word_at);
    return use_member(table, call, error);
}

#define TIME_MAX 1e9 /* seconds */

/* 1:30:00, 10:00 and 2-00:00:00; false: it is not of that form. */
static bool read_clock(double *seconds, const char *text)
{
    double days = 0, whole = 0, part = 0;
    bool has_days = false, more = true;
    int parts = 0;
    for (const char *at = text; more; at++) {
        char *end;
        if (*at < '0' || *at > '9')
            return false;
        part = (double)strtol(at, &end, 10);
        at = end;
        if (*at == '-' && !parts && !has_days) {
            has_days = true;
            days = part;
            continue;
        }
        if (parts > 0 && part >= 60)
            return false;
        whole = whole * 60 + part;
        parts++;
        more = *at == ':';
        if (*at && !more)
            return false;
    }
    *seconds = days * 86400 + whole;
    return parts == 3 || (parts == 2 && !has_days);
}

int et_args_read_time(double *seconds, const char *name, const char *text, et_error *error)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    char *end;
    bool right = strchr(text, ':') && read_clock(seconds, text);
    double number = strtod(text, &end);
    for (size_t i = 0; !right && i < sizeof units / sizeof units[0]; i++)
        if (end != text && *end == units[i].unit && !end[1]) {
            *seconds = number * units[i].seconds;
            right = true;
        }
    if (right && *seconds > 0 && *seconds <= TIME_MAX)
        return ET_OK;
    return et_fail(error, ET_EUSAGE,
                   "--%s %s: no time; write hours, minutes and seconds as 1:30:00, or 90m", name,
                   text);
}

int et_args_read_bytes(uint64_t *bytes, const char *name, const char *text, et_error *error)
{
    static const char letters[] = "KMGT";
    char *end;
    double number = strtod(text, &end);
    const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    const char *rest = letter ? end + 1 : end;
    const bool binary = !strcasecmp(rest, "iB");
    for (long i = letter ? letter - letters + 1 : 0; i > 0; i--)
        number *= binary ? 1024 : 1000;
    bool right = end != text && (letter || !*end) && (!*rest || binary || !strcasecmp(rest, "B"));
    if (right && number >= 1 && number <= 1e18) {
        *bytes = (uint64_t)number;
        return ET_OK;
    }
    return et_fail(error, ET_EUSAGE, "--%s %s: no size; write 500M, 4G or 4GiB", name, text);
}

/* NULL: not given; then the run's own is used. */
int et_args_check_precision(const char *precision, et_error *error)
{
    if (!precision || !strcmp(precision, "float32") || !strcmp(precision, "bfloat16") ||
        !strcmp(precision, "int8"))
        return ET_OK;
    return et_fail(error, ET_EUSAGE, "--precision %s: choose float32, bfloat16 or int8", precision);
}

/* Words, up to column HELP_WIDTH; lines behind the first begin at indent, as what is there does. */
static void print_wrapped(FILE *to, const char *text, int indent)
{
    int column = indent;
    for (const char *word = text; *word;) {
        int length = (int)strcspn(word, " ");
        if (column + 1 + length > HELP_WIDTH && column > indent) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(to, "%s%.*s", column > indent ? " " : "", length, word);
        word += length;
        word += strspn(word, " ");
    }
}

/* The table is all that is known of options: help cannot name one that is not there. */
void et_args_help(FILE *to, const et_arg *table, const et_call *call, const char *about,
                  const char *example)
{
    const char *program = call->program->name;
    if (call->description) {
        et_description_add(call->description, call, table, about, example);
        return;
    }
    fprintf(to, "usage: %s %s", program, call->command);
    for (const et_arg *arg = table; arg->name; arg++)
        if (is_plain(arg))
            fprintf(to, " %s", arg->name);
    fprintf(to, " [OPTION]...\n\n%s\n\nexample:\n    %s %s %s\n\noptions:\n", about, program,
            call->command, example);
    for (const et_arg *arg = table; arg->name; arg++) {
        char text[1024];
        if (is_plain(arg))
            continue;
        /* "    --model-dir DIR            where the run is kept" */
        int width = fprintf(to, "    --%s%s%s", arg->name, arg->value ? " " : "",
                            arg->value ? arg->value : "");
        /* Behind a long name the text has a line of its own. */
        fprintf(to, width > HELP_COLUMN - 1 ? "\n%*s" : "%*s",
                width > HELP_COLUMN - 1 ? HELP_COLUMN : HELP_COLUMN - width, "");
        snprintf(text, sizeof text, "%s%s%s%s%s",
                 arg->kind == ET_ARG_NONE ? "not taken here: " : "", arg->help,
                 arg->alias ? " (or --" : "", arg->alias ? arg->alias : "", arg->alias ? ")" : "");
        print_wrapped(to, text, HELP_COLUMN);
        fputc('\n', to);
    }
    fprintf(to, "    %-*s %s\n", HELP_COLUMN - 5, "--help", "this text");
}
