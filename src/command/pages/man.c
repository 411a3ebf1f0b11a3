/* Man pages. The text comes from help and must not contain requests. So a backslash, a leading
 * point or apostrophe, and marks that typesetting would change are escaped. Letters outside ASCII
 * are written by number. A blank line becomes a paragraph, indented lines stay as they are.
 *
 * man(7) of groff 1.22 and mandoc 1.14: .TH .SH .SS .TP .PP .EX .EE, \fB \fI \fR. */
#include "command/pages/pages.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <etude/version.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "command/options/options.h"
#include "formats/events/log_names.h"
#include "train/checkpoint/run_names.h"

#define PARTS_MAX ET_COMMANDS_MAX

/* A way to call a command. A group has a part for each of its commands. A name that several kinds
 * of task use has a part for each kind. */
typedef struct part {
    char command[64];      /* as typed: "train", "tfx train" */
    const char *kind;      /* kind of task of the command, if several kinds have this name; else
                              NULL */
    const et_usage *usage; /* NULL: no usage, so its options are unknown */
    const char *help;      /* a line */
    et_call call;
    et_command_line line; /* of the usage */
} part;

typedef struct page {
    part parts[PARTS_MAX];
    int count;
    et_arena arena;
} page;

typedef struct meaning {
    const char *name, *help;
} meaning;

static const meaning exits[] = {
    { "0", "done" },
    { "1", "failed: another process uses the run, or a disk or pipe fails" },
    { "2", "the command line is wrong" },
    { "3", "wrong data or settings: a file is missing, damaged or of another kind" },
    { "4", "out of memory or disk space" },
    { "5", "diverged: the loss or a gradient is not finite; this update was not saved" },
    { "75", "interrupted and saved: the same command resumes" },
    { NULL, NULL },
};

static const meaning variables[] = {
    { "OMP_NUM_THREADS", "number of threads; results do not depend on it" },
    { "OMP_STACKSIZE", "stack of a thread, at least 256 KB" },
    { "NO_COLOR", "if set, the progress bar has no colours" },
    { "ETUDE_ISA", "kernels to use instead of the best for this CPU: avx512bf16, avx512vnni, "
                   "avx512, avx2, plain" },
    { NULL, NULL },
};

static const meaning files[] = {
    { "RUN/" ET_RUN_SETTINGS, "the settings in effect" },
    { "RUN/" ET_RUN_LOG, "logged values, a JSON object per line" },
    { "RUN/" ET_CHECKPOINT_FOLDER "/", "the newest checkpoints" },
    { "RUN/" ET_CHECKPOINT_BEST "/", "the best checkpoint" },
    { "RUN/" ET_LOGGED_TRAIN "/, RUN/" ET_LOGGED_VALIDATION "/", "events for TensorBoard" },
    { NULL, NULL },
};

/* ---- text ---- */

/* Prints the character at `text` and returns its length in bytes. Invalid UTF-8 is printed as "?".
 */
static int put_beyond(FILE *to, const unsigned char *text)
{
    int length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (strnlen((const char *)text, (size_t)length) < (size_t)length ||
        !et_utf8_valid((const char *)text, (size_t)length, NULL)) {
        fputc('?', to);
        return 1;
    }
    uint32_t code = text[0] & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++)
        code = code << 6 | (text[i] & 0x3f);
    fprintf(to, "\\[u%04X]", (unsigned)code);
    return length;
}

/* length bytes of a line. */
static void put_bytes(FILE *to, const char *text, size_t length)
{
    static const struct {
        char mark;
        const char *escape;
    } escapes[] = { { '\\', "\\e" },  { '-', "\\-" },   { '\'', "\\(aq" }, { '`', "\\(ga" },
                    { '^', "\\(ha" }, { '~', "\\(ti" }, { '"', "\\(dq" },  { '|', "|\\:" } };
    if (length && *text == '.')
        fputs("\\&", to);
    for (size_t i = 0; i < length;) {
        const unsigned char *at = (const unsigned char *)text + i;
        size_t k = 0, count = sizeof escapes / sizeof escapes[0];
        while (k < count && escapes[k].mark != (char)*at)
            k++;
        if (*at >= 0x80) {
            i += (size_t)put_beyond(to, at);
            continue;
        }
        if (k < count)
            fputs(escapes[k].escape, to);
        else
            fputc(*at < 0x20 ? ' ' : *at, to);
        i++;
    }
}

static void put(FILE *to, const char *text)
{
    put_bytes(to, text, strlen(text));
}

static void put_line(FILE *to, const char *text)
{
    put(to, text);
    fputc('\n', to);
}

/* before and after are requests and marks of man. */
static void put_between(FILE *to, const char *before, const char *text, const char *after)
{
    fputs(before, to);
    put(to, text);
    fputs(after, to);
}

/* Prints paragraphs; indented lines are unchanged. */
static void put_paragraphs(FILE *to, const char *text)
{
    bool example = false, open = false;
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        bool indented = *text == ' ';
        if (length && indented != example) {
            fputs(indented ? ".PP\n.EX\n" : ".EE\n", to);
            example = indented;
        }
        if (!length && !example && open && text[length] && text[length + 1] != ' ')
            fputs(".PP\n", to);
        if (length) {
            put_bytes(to, text, length);
            fputc('\n', to);
            open = true;
        }
    }
    if (example)
        fputs(".EE\n", to);
}

/* ---- pages ---- */

/* command NULL: the program's own page. */
static void begin(FILE *to, const et_program *program, const char *command, const char *summary)
{
    char title[128];
    snprintf(title, sizeof title, "%s%s%s", program->name, command ? "-" : "",
             command ? command : "");
    fprintf(to, ".\\\" Made by `%s help --man`.\n.TH ", program->name);
    for (const char *at = title; *at; at++)
        *at == '-' ? fputs("\\-", to) : fputc(toupper((unsigned char)*at), to);
    fputs(" 1 ", to);
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    char *end = NULL;
    long long seconds = epoch ? strtoll(epoch, &end, 10) : 0;
    time_t when = epoch && end != epoch && !*end && seconds >= 0 ? (time_t)seconds : time(NULL);
    struct tm parts;
    char text[16] = "1970-01-01";
    if (gmtime_r(&when, &parts))
        strftime(text, sizeof text, "%Y-%m-%d", &parts);
    fputs(text, to);
    fprintf(to, " \"etude %s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n", et_version());
    put(to, title);
    fputs(" \\- ", to);
    put_line(to, summary);
}

static void print_meanings(FILE *to, const char *heading, const meaning *rows)
{
    fprintf(to, ".SH %s\n", heading);
    for (; rows->name; rows++) {
        put_between(to, ".TP\n\\fB", rows->name, "\\fR\n");
        put_line(to, rows->help);
    }
}

/* Prints the call: "etude train". */
static void put_call(FILE *to, const et_program *program, const part *one)
{
    put_between(to, "", program->name, " ");
    put(to, one->command);
}

static void print_synopsis(FILE *to, const et_program *program, const part *one)
{
    fputs("\\fB", to);
    put_call(to, program, one);
    fputs("\\fR", to);
    for (int i = 0; i < one->line.count; i++) {
        const et_option *row = one->line.slots[i].row;
        if (!et_option_is_plain(row) || !*row->field.name)
            continue;
        fputc(' ', to);
        put(to, row->field.name);
    }
    fputs(one->usage ? " [\\fIOPTION\\fR]...\n" : " ...\n", to);
}

static void print_options(FILE *to, const part *one)
{
    for (int i = 0; i < one->line.count; i++) {
        const et_option_slot *slot = &one->line.slots[i];
        const et_option *row = slot->row;
        const bool is_switch = row->field.kind == ET_FIELD_KIND_BOOL;
        if (!et_option_is_shown(row))
            continue;
        put_between(to, ".TP\n\\fB\\-\\-", et_option_typed(row).text, "\\fR");
        if (slot->value)
            put_between(to, is_switch ? "[=\\fI" : " \\fI", slot->value,
                        is_switch ? "\\fR]" : "\\fR");
        if (row->alias)
            put_between(to, ", \\fB\\-\\-", row->alias, "\\fR");
        if (row->letter)
            fprintf(to, ", \\fB\\-%c\\fR", row->letter);
        fputs(et_option_is_refused(row) ? "\nnot supported here: " : "\n", to);
        put_line(to, slot->help);
    }
    fputs(".TP\n\\fB\\-\\-help\\fR, \\fB\\-h\\fR\nprint the help and end\n", to);
}

/* Prints the heading that distinguishes this way to call a command. */
static void print_heading(FILE *to, const et_program *program, const part *one)
{
    fputs(".SS ", to);
    if (one->kind) {
        fputs("Of a run of ", to);
        put_line(to, one->kind);
        return;
    }
    put_call(to, program, one);
    fputc('\n', to);
}

static void print_example(FILE *to, const et_program *program, const part *one, et_arena *arena)
{
    const char *example = et_usage_example(one->usage, program, arena);
    fputs(".EX\n", to);
    put_call(to, program, one);
    fputc(' ', to);
    const char *text = example ? example : "";
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        put_bytes(to, text, length);
        fputc('\n', to);
    }
    fputs(".EE\n", to);
}

/* ---- parts ---- */

static int add_part(page *p, const et_program *program, const et_command *row, const char *group,
                    et_error *error)
{
    et_assert(p->count < PARTS_MAX);
    part *one = &p->parts[p->count++];
    *one = (part){ .usage = row->usage, .help = row->help };
    snprintf(one->command, sizeof one->command, "%s%s%s", group ? group : "", group ? " " : "",
             row->name);
    one->call = (et_call){ .program = program, .command = one->command };
    void *options = row->usage ? et_arena_alloc(&p->arena, row->usage->size + 1) : NULL;
    if (!row->usage)
        return ET_OK;
    return options
               ? et_command_line_open(&one->line, row->usage, options, &one->call, &p->arena, error)
               : et_alloc_failed(error, "a page");
}

/* Adds the command of a kind, unless an earlier part has the same usage. */
static int add_of_kind(page *p, const et_program *program, const et_task_kind *kind,
                       const char *name, et_error *error)
{
    const et_command *own = et_command_of(program, kind, name);
    for (int i = 0; own && i < p->count; i++)
        if (p->parts[i].usage == own->usage)
            return ET_OK;
    int status = own ? add_part(p, program, own, NULL, error) : ET_OK;
    if (own)
        p->parts[p->count - 1].kind = kind->name;
    return status;
}

static int find_parts(page *p, const et_program *program, const et_command *row, et_error *error)
{
    int status = ET_OK;
    for (const et_command *one = row->commands; one && one->name && !status; one++)
        status = add_part(p, program, one, row->name, error);
    if (!row->commands)
        status = add_part(p, program, row, NULL, error);
    for (int k = 0; k < program->count && !status && !row->commands; k++)
        status = add_of_kind(p, program, program->kinds[k], row->name, error);
    /* The first part may also be the command of a kind. */
    for (int k = 0; k < program->count && p->count > 1 && !row->commands; k++)
        if (!p->parts[0].kind && et_command_of(program, program->kinds[k], row->name) == row)
            p->parts[0].kind = program->kinds[k]->name;
    return status;
}

static void print_page(FILE *to, const et_program *program, const et_command *row, page *p)
{
    const bool several = p->count > 1;
    bool headed = false;
    begin(to, program, row->name, row->help);
    fputs(".SH SYNOPSIS\n", to);
    for (int i = 0; i < p->count; i++) {
        if (i)
            fputs(".br\n", to);
        print_synopsis(to, program, &p->parts[i]);
    }
    fputs(".SH DESCRIPTION\n", to);
    for (int i = 0; i < p->count; i++) {
        const part *one = &p->parts[i];
        if (several)
            print_heading(to, program, one);
        if (one->usage)
            put_paragraphs(to, one->usage->about);
        else
            put_line(to, one->help);
    }
    fputs(".SH OPTIONS\n", to);
    for (int i = 0; i < p->count; i++) {
        if (several)
            print_heading(to, program, &p->parts[i]);
        print_options(to, &p->parts[i]);
    }
    for (int i = 0; i < p->count; i++)
        if (p->parts[i].usage && p->parts[i].usage->example) {
            fputs(headed ? ".PP\n" : ".SH EXAMPLES\n", to);
            headed = true;
            print_example(to, program, &p->parts[i], &p->arena);
        }
    print_meanings(to, "EXIT STATUS", exits);
    put_between(to, ".SH SEE ALSO\n\\fB", program->name, "\\fR(1)\n");
}

int et_man_print(FILE *to, const et_program *program, const et_command *row, et_error *error)
{
    page *p = et_alloc_zero(1, sizeof *p);
    int status = p ? find_parts(p, program, row, error) : et_alloc_failed(error, "a page");
    if (!status)
        print_page(to, program, row, p);
    if (p)
        et_arena_release(&p->arena);
    et_free(p);
    return status;
}

void et_man_print_program(FILE *to, const et_program *program, const et_commands *all)
{
    begin(to, program, NULL, "model training");
    put_between(to, ".SH SYNOPSIS\n\\fB", program->name,
                "\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.br\n\\fB");
    put(to, program->name);
    fputs("\\fR \\fBhelp\\fR [\\fB\\-\\-man\\fR] [\\fICOMMAND\\fR]\n.SH DESCRIPTION\n", to);
    fputs(
        "Trains models and uses them. Results go to standard output, everything else to standard\n"
        "error. Options are long, \\fB\\-\\-name\\fR \\fIvalue\\fR or\n"
        "\\fB\\-\\-name=\\fR\\fIvalue\\fR, in any order.\n.SH COMMANDS\n",
        to);
    for (size_t i = 0; i < all->count; i++) {
        put_between(to, ".TP\n\\fB", program->name, "\\-");
        put_between(to, "", all->row[i]->name, "\\fR(1)\n");
        put_line(to, all->row[i]->help);
    }
    print_meanings(to, "ENVIRONMENT", variables);
    print_meanings(to, "FILES", files);
    print_meanings(to, "EXIT STATUS", exits);
    fputs(".SH SEE ALSO\n", to);
    for (size_t i = 0; i < all->count; i++) {
        put_between(to, "\\fB", program->name, "\\-");
        put_between(to, "", all->row[i]->name, i + 1 < all->count ? "\\fR(1),\n" : "\\fR(1)\n");
    }
}
