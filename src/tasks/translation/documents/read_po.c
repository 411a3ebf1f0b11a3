/* Message catalogues of gettext. gettext's library parses a catalogue into messages and checks
 * translations. The library keeps no positions, so a scan of the strings finds the place of each
 * msgstr; everything else stays byte by byte. Only this file uses the library, whose state is
 * global: one thread at a time.
 *
 *     msgid "Open %s"        becomes        msgid "Open %s"
 *     msgstr ""                             msgstr "%s öffnen"
 *
 * An empty msgstr gets the translation of its msgid. A plural form gets the translation of
 * msgid_plural, except the form for the number 1. Marks of keys (&File) are set again. Other
 * messages and the header stay. Each line of a message is a segment in its own string, and so is
 * each text between two or more spaces. At the end the library checks the directives of the new
 * messages as msgfmt -c does; refused messages stay empty. */
#include <gettext-po.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/library.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "tasks/translation/documents/document_private.h"

#define CALLS(X)                                                                                   \
    X(, po_file_domain_header)                                                                     \
    X(, po_file_free)                                                                              \
    X(, po_file_read)                                                                              \
    X(, po_header_field)                                                                           \
    X(, po_message_check_format)                                                                   \
    X(, po_message_is_obsolete)                                                                    \
    X(, po_message_iterator)                                                                       \
    X(, po_message_iterator_free)                                                                  \
    X(, po_message_msgid)                                                                          \
    X(, po_message_msgid_plural)                                                                   \
    X(, po_next_message)

ET_LIBRARY(gettext, CALLS, ET_GETTEXTPO_FILE, "libgettextpo");

/* ---- the library ---- */

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* Results of the handlers for the running call. */
static struct {
    const char *name;
    et_error *error; /* NULL: only counted */
    int errors;
    jmp_buf *fatal; /* a fatal error must not return */
} report;

static void take_error(int severity, po_message_t message, const char *file, size_t line,
                       size_t column, int lines, const char *text)
{
    const int length = (int)strcspn(text, "\n");
    (void)message, (void)file, (void)column, (void)lines;
    if (severity == PO_SEVERITY_WARNING)
        return;
    if (!report.errors++ && report.error && line != (size_t)-1 && line)
        et_fail(report.error, ET_EDATA, "%s:%zu: %.*s", report.name, line, length, text);
    else if (report.errors == 1 && report.error)
        et_fail(report.error, ET_EDATA, "%s: %.*s", report.name, length, text);
    if (severity == PO_SEVERITY_FATAL_ERROR)
        longjmp(*report.fatal, 1);
}

static void take_errors(int severity, po_message_t message, const char *file, size_t line,
                        size_t column, int lines, const char *text, po_message_t other,
                        const char *other_file, size_t other_line, size_t other_column,
                        int other_lines, const char *other_text)
{
    (void)other, (void)other_file, (void)other_line, (void)other_column;
    (void)other_lines, (void)other_text;
    take_error(severity, message, file, line, column, lines, text);
}

static const struct po_xerror_handler handler = { take_error, take_errors };

static po_file_t read_named(const char *path, const char *name, et_error *error)
{
    jmp_buf fatal;
    po_file_t volatile file = NULL;
    pthread_mutex_lock(&one_at_a_time);
    report.name = name;
    report.error = error;
    report.errors = 0;
    report.fatal = &fatal;
    if (!setjmp(fatal))
        file = gettext.po_file_read(path, &handler);
    if (report.errors && file) {
        gettext.po_file_free(file);
        file = NULL;
    }
    report.fatal = NULL;
    pthread_mutex_unlock(&one_at_a_time);
    return file;
}

/* The library reads only files with a name. */
static int read_catalogue(const et_document *d, const char *text, size_t length, po_file_t *out,
                          et_error *error)
{
    char path[64];
    const int fd = memfd_create("catalogue", MFD_CLOEXEC);
    size_t done = 0;
    ssize_t some = 1;
    *out = NULL;
    while (fd >= 0 && done < length && (some = write(fd, text + done, length - done)) > 0)
        done += (size_t)some;
    int status = fd < 0 || done < length ? et_alloc_failed(error, d->name) : ET_OK;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!status) {
        *out = read_named(path, d->name, error);
        status = *out ? ET_OK : ET_EDATA;
    }
    if (fd >= 0)
        close(fd);
    return status;
}

/* Whether msgfmt -c refuses the directives of a message. */
static bool is_refused(po_message_t message)
{
    jmp_buf fatal;
    pthread_mutex_lock(&one_at_a_time);
    report.error = NULL;
    report.errors = 0;
    report.fatal = &fatal;
    if (!setjmp(fatal))
        gettext.po_message_check_format(message, &handler);
    const bool refused = report.errors > 0;
    report.fatal = NULL;
    pthread_mutex_unlock(&one_at_a_time);
    return refused;
}

/* ---- positions ---- */

typedef enum keyword { ID, PLURAL, STRING, DOMAIN, OTHER } keyword;

/* A keyword and its strings. */
typedef struct value {
    keyword keyword;
    int form;              /* of msgstr[N] */
    const char *from, *to; /* the first quote and the last */
    size_t line;
    bool empty;
} value;

typedef struct scanner {
    const char *at, *end;
    size_t line;
} scanner;

static void skip_blanks(scanner *s)
{
    for (bool comment = false; s->at < s->end; s->at++) {
        comment = (comment || *s->at == '#') && *s->at != '\n';
        if (!comment && !strchr(" \t\r\n\f\v", *s->at))
            return;
        s->line += *s->at == '\n';
    }
}

/* Finds the next value of the catalogue. false: none is left. */
static bool next_value(scanner *s, value *v)
{
    static const char *const words[] = {
        [ID] = "msgid", [PLURAL] = "msgid_plural", [STRING] = "msgstr", [DOMAIN] = "domain"
    };
    *v = (value){ .keyword = OTHER, .empty = true };
    skip_blanks(s);
    const char *word = s->at;
    while (s->at < s->end && ((*s->at >= 'a' && *s->at <= 'z') || *s->at == '_'))
        s->at++;
    const size_t length = (size_t)(s->at - word);
    for (int i = 0; i < OTHER; i++)
        if (strlen(words[i]) == length && !memcmp(words[i], word, length))
            v->keyword = (keyword)i;
    v->line = s->line;
    for (skip_blanks(s); s->at < s->end && strchr("[]0123456789", *s->at); skip_blanks(s)) {
        if (*s->at != '[' && *s->at != ']')
            v->form = v->form < 1000 ? v->form * 10 + *s->at - '0' : v->form;
        s->at++;
    }
    while (s->at < s->end && *s->at == '"') {
        v->from = v->from ? v->from : s->at;
        for (v->to = ++s->at; s->at < s->end && *s->at != '"'; s->at++)
            s->at += *s->at == '\\' && s->at + 1 < s->end;
        v->empty &= s->at == v->to;
        v->to = s->at;
        s->at += s->at < s->end;
        skip_blanks(s);
    }
    return v->from != NULL;
}

/* ---- the translation ---- */

typedef struct reader {
    et_document *d;
    po_file_t file;
    po_message_iterator_t iterator;
    po_message_t message;
    scanner scan;
    et_plural_forms forms;
    const char *kept; /* bytes before this are already in the document */
    size_t id_line;
} reader;

/* Moves to the next message that is not obsolete: the scan sees no others. */
static po_message_t next_message(po_message_iterator_t iterator)
{
    po_message_t message;
    do
        message = gettext.po_next_message(iterator);
    while (message && gettext.po_message_is_obsolete(message));
    return message;
}

/* The line ends of a message: each string in quotes ends with one. */
static void end_line(et_document *d, bool last)
{
    et_document_keep(d, "\\n", 2);
    if (last)
        return;
    et_document_keep(d, "\"", 1);
    et_document_keep(d, d->line_end, strlen(d->line_end));
    et_document_keep(d, "\"", 1);
}

static void add_message(et_document *d, const char *text, size_t line)
{
    const et_marking marking = { .line = line, .spaces = true };
    size_t at;
    if (et_accelerator_find(text, &d->accelerator, &at)) {
        et_document_add_marked(d, text, at, &marking);
        text += at + 1;
    }
    const char *const last = text + strlen(text);
    for (const char *end; *text; text = end) {
        end = text + strcspn(text, "{\n");
        for (size_t size; *end == '{'; end += strcspn(end, "{\n")) {
            size = et_document_message_size(end, (size_t)(last - end));
            end += size ? size : 1;
        }
        et_document_add_marked(d, text, (size_t)(end - text), &marking);
        et_document_end(d);
        if (*end)
            end_line(d, !*++end);
    }
    d->accelerator.mark = 0;
}

/* Whether both texts have the same placeholders, in order. */
static bool has_same_placeholders(const char *a, const char *b)
{
    size_t at = 0, other_at = 0;
    for (;;) {
        et_span span = { 0 }, other = { 0 };
        bool found, other_found;
        while ((found = et_span_find(a, strlen(a), at, &span)) && span.kind == ET_SPAN_NUMBER)
            at = span.start + span.length;
        while ((other_found = et_span_find(b, strlen(b), other_at, &other)) &&
               other.kind == ET_SPAN_NUMBER)
            other_at = other.start + other.length;
        if (!found || !other_found)
            return found == other_found;
        if (span.length != other.length || memcmp(a + span.start, b + other.start, span.length))
            return false;
        at = span.start + span.length;
        other_at = other.start + other.length;
    }
}

/* The text whose translation becomes this form of the message. */
static const char *source_of(const reader *r, int form)
{
    const char *id = gettext.po_message_msgid(r->message);
    const char *plural = gettext.po_message_msgid_plural(r->message);
    if (!plural)
        return id;
    if (form != r->forms.one || r->forms.count == 1)
        return plural;
    return !r->forms.many || has_same_placeholders(id, plural) ? id : plural;
}

static void keep_to(reader *r, const char *to)
{
    et_document_keep(r->d, r->kept, (size_t)(to - r->kept));
    r->kept = to;
}

/* The character set of the header. A template has none yet: it gets UTF-8. */
static int take_header(reader *r, const value *v, const char *header, et_error *error)
{
    static const char field[] = "charset=";
    char *type = gettext.po_header_field(header, "Content-Type");
    char *plural = gettext.po_header_field(header, "Plural-Forms");
    const char *found = type ? strstr(type, field) : NULL;
    int status = ET_OK;
    (void)et_plural_forms_read(plural ? plural : "", &r->forms);
    if (found && !strcmp(found + strlen(field), "CHARSET")) {
        const char *at = memmem(v->from, (size_t)(v->to - v->from), "charset=CHARSET", 15);
        if (at) {
            keep_to(r, at + strlen(field));
            et_document_keep(r->d, "UTF-8", 5);
            r->kept = at + 15;
            et_log(ET_LOG_WARNING,
                   "%s is a template: its header gets charset=UTF-8; msginit fills in the language "
                   "and the plural forms",
                   r->d->name);
        }
    } else if (found && strcasecmp(found + strlen(field), "UTF-8") != 0) {
        status = et_fail(error, ET_EDATA,
                         "%s:%zu: the header names the character set %.40s, and translations are "
                         "UTF-8; convert the file with: msgconv -t UTF-8",
                         r->d->name, v->line, found + strlen(field));
    }
    free(type);
    free(plural);
    return status;
}

static int take_string(reader *r, const value *v, et_error *error)
{
    const char *id = gettext.po_message_msgid(r->message);
    const char *header = gettext.po_file_domain_header(r->file, NULL);
    const bool fills = *id && v->empty;
    et_document *d = r->d;
    if (!ET_VECTOR_APPEND(d->filled, d->filled_count, d->filled_capacity, fills ? r->id_line : 0)) {
        d->failed = true;
        return ET_OK; /* the document fails at its end */
    }
    if (!*id && header && r->d->filled_count == 1)
        return take_header(r, v, header, error);
    if (fills) {
        keep_to(r, v->from + 1);
        add_message(r->d, source_of(r, v->form), r->id_line);
        r->kept = v->to;
    }
    return ET_OK;
}

static int take_value(reader *r, const value *v, et_error *error)
{
    if (v->keyword == DOMAIN)
        return et_fail(error, ET_EDATA,
                       "%s:%zu: Etude reads catalogues of one domain; make a file of each domain",
                       r->d->name, v->line);
    if (v->keyword == ID) {
        r->message = next_message(r->iterator);
        r->id_line = v->line;
    }
    if (!r->message && v->keyword != OTHER)
        return et_fail(error, ET_EDATA, "%s:%zu: libgettextpo has not read this message",
                       r->d->name, v->line);
    return v->keyword == STRING ? take_string(r, v, error) : ET_OK;
}

int et_document_read_po(et_document *d, et_error *error)
{
    reader r = { .d = d, .kept = d->text, .forms = { 2, 0, false } };
    value v;
    int status;
    if ((status = et_library_load(&library, &gettext, error)) ||
        (status = read_catalogue(d, d->text, d->length, &r.file, error)))
        return status;
    r.scan = (scanner){ d->text, d->text + d->length, 1 };
    r.iterator = gettext.po_message_iterator(r.file, NULL);
    while (!status && next_value(&r.scan, &v))
        status = take_value(&r, &v, error);
    if (!status)
        keep_to(&r, d->text + d->length);
    gettext.po_message_iterator_free(r.iterator);
    gettext.po_file_free(r.file);
    return status;
}

/* ---- the check ---- */

/* Appends the printed document, whose first bytes are a mark, without the new strings of refused
 * messages. Returns their number. */
static size_t append_checked(et_document *d, const et_strbuf *text, size_t mark, po_file_t file,
                             et_strbuf *out)
{
    po_message_iterator_t iterator = gettext.po_message_iterator(file, NULL);
    scanner scan = { text->data + mark, text->data + text->length, 1 };
    const char *kept = text->data;
    bool refused = false;
    size_t string = 0, count = 0;
    for (value v; next_value(&scan, &v);) {
        if (v.keyword == ID) {
            po_message_t message = next_message(iterator);
            refused = message && is_refused(message);
        } else if (v.keyword == STRING && string < d->filled_count && d->filled[string++] &&
                   refused) {
            et_strbuf_append_bytes(out, kept, (size_t)(v.from + 1 - kept));
            kept = v.to;
            d->counts.refused_line = count ? d->counts.refused_line : d->filled[string - 1];
            count++;
        }
    }
    et_strbuf_append_bytes(out, kept, (size_t)(scan.end - kept));
    gettext.po_message_iterator_free(iterator);
    return count;
}

int et_document_check_po(et_document *d, const et_strbuf *text, et_error *error)
{
    et_assert(text);
    po_file_t file;
    const size_t mark = et_utf8_mark(et_strbuf_text(text), text->length);
    int status = read_catalogue(d, text->data + mark, text->length - mark, &file, error);
    if (status)
        return status;
    d->counts.refused = append_checked(d, text, mark, file, &d->checked);
    if (!d->counts.refused)
        et_strbuf_reset(&d->checked);
    d->failed |= d->checked.failed;
    gettext.po_file_free(file);
    return ET_OK;
}
