/* XML by expat, which gives the position of each piece of markup; the bytes between are text.
 * Nothing is rebuilt from a parsed tree, so all markup stays byte by byte. Only this file uses
 * expat. External entities are never read, entities are not expanded in text, and expat itself
 * limits what they expand to in attributes.
 *
 * An element belongs to the text around it if its parent has text (mixed content). Exception: a
 * list or table, that is several elements without text between them. This is known only at the end
 * of the element. So expat's walk lists the markup, and a second walk writes the document.
 *
 * Attributes stay, because their names do not tell whether people read the values. The content of
 * translate="no" also stays (up to translate="yes" in it), as do Android's translatable="false" and
 * elements for code or data in common vocabularies. The text of a CDATA section is a segment of its
 * own. */
#include <expat.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/files/library.h"
#include "base/vector.h"
#include "tasks/translation/documents/document_private.h"

/* XML_Parse is expat.Parse, and so on. */
#define CALLS(X)                                                                                   \
    X(XML_, ErrorString)                                                                           \
    X(XML_, GetCurrentByteCount)                                                                   \
    X(XML_, GetCurrentByteIndex)                                                                   \
    X(XML_, GetCurrentColumnNumber)                                                                \
    X(XML_, GetCurrentLineNumber)                                                                  \
    X(XML_, GetErrorCode)                                                                          \
    X(XML_, Parse)                                                                                 \
    X(XML_, ParserCreate)                                                                          \
    X(XML_, ParserFree)                                                                            \
    X(XML_, SetCdataSectionHandler)                                                                \
    X(XML_, SetCharacterDataHandler)                                                               \
    X(XML_, SetCommentHandler)                                                                     \
    X(XML_, SetDefaultHandler)                                                                     \
    X(XML_, SetElementHandler)                                                                     \
    X(XML_, SetProcessingInstructionHandler)                                                       \
    X(XML_, SetUserData)                                                                           \
    X(XML_, SetXmlDeclHandler)                                                                     \
    X(XML_, StopParser)

ET_LIBRARY(expat, CALLS, ET_EXPAT_FILE, "expat");

/* Bytes that expat gets at a time: its lengths are int. */
#define CHUNK ((size_t)1 << 24)

/* ---- vocabularies ---- */

/* Elements that never contain text for people, in any vocabulary. */
static const char code[] = "script style code codeblock codeph programlisting";

/* root: local names of root elements. stay: elements whose content stays. spaces: elements whose
 * white space stays. */
static const struct {
    const char *root, *stay, *spaces;
} vocabularies[] = {
    { "resources",
      "xliff:g color dimen bool integer integer-array drawable id attr declare-styleable public",
      "" },
    { "rss feed",
      " link guid pubDate lastBuildDate language docs generator ttl id updated published uri email "
      "dc:date url width height kbd samp var pre textarea math svg updatePeriod explicit "
      "episodeType itunes:type itunes:author itunes:owner dc:creator author managingEditor "
      "webMaster podcast:locked podcast:medium ",
      "" },
    { "svg", "metadata", "" },
    { "plist", "key data date integer real", "" },
    { "root", "resheader xsd:schema", "" }, /* of .resx */
    { "html", "kbd samp var pre textarea math svg", "" },
    /* DITA and DocBook. */
    { "topic concept task reference map bookmap glossentry dita troubleshooting book article "
      "chapter section sect1 sect2 part preface appendix refentry set",
      " screen synopsis cmdsynopsis funcsynopsis command cmdname option function parameter "
      "parmname filename filepath literal constant varname envar classname methodname type "
      "systemitem userinput computeroutput systemoutput msgnum apiname replaceable uri email code "
      "inlineequation equation productnumber pubdate date isbn pre xmlelement xmlatt xmlnsname "
      "xmlpi textentity numcharref parameterentity markupname sgmltag tag symbol package "
      "interfacename exceptionname structname structfield returnvalue errorcode errorname prompt "
      "personname firstname surname othername ",
      "literallayout address lines" },
};
#define VOCABULARIES (sizeof vocabularies / sizeof *vocabularies)
enum { ANDROID, RSS, SVG, PLIST, RESX };

/* Root elements of formats that hold each source with its translation. */
static const struct {
    const char *root, *format, *cure;
} refused[] = {
    { "xliff", "XLIFF",
      "convert the file with translate-toolkit: xliff2po, and po2xliff for the translation" },
    { "tmx", "TMX", "make two text files of it, with a sentence a line" },
    { "TS", "catalogues of Qt",
      "convert the file with translate-toolkit: ts2po, and po2ts for the translation" },
};

/* As et_is_listed, but the case of names matters in XML. */
static bool is_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; length && (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

static const char *local_name(const char *name)
{
    const char *colon = strchr(name, ':');
    return colon ? colon + 1 : name;
}

/* ---- expat's walk ---- */

typedef enum token_kind { START, END, OTHER, SECTION } token_kind;

typedef struct token {
    token_kind kind;
    size_t start, end; /* in the document */
    size_t element;    /* of START and END: their element; of others: the element around them */
} token;

typedef struct element {
    size_t parent; /* its own number: the root */
    size_t last;   /* the token of its end */
    size_t children;
    bool text;  /* has text in itself, not only white space */
    bool lines; /* line ends between its elements */
    bool stays, spaces;
    bool entry;  /* of .resx, which may have a comment for translators */
    bool partly; /* it stays, except an element with translate="yes" in it */
} element;

typedef struct reader {
    et_document *d;
    XML_Parser parser;
    token *tokens; /* [count], owned */
    size_t count, capacity;
    element *elements; /* [element_count], owned */
    size_t element_count, element_capacity;
    size_t open; /* the innermost open element */
    size_t depth;
    size_t section; /* where the open CDATA section begins; 0: no section is open */
    size_t vocabulary;
    bool rule;   /* of .stringsdict: the last key names a rule, so its value is no text */
    bool failed; /* no memory */
    int status;  /* error of XML that expat accepts and Etude refuses */
    et_error *error;
} reader;

static void stop(reader *r, int status)
{
    r->status = status;
    r->failed |= status == ET_ENOMEM;
    expat.StopParser(r->parser, XML_FALSE);
}

static void add_token(reader *r, token_kind kind, size_t start, size_t end)
{
    if (!ET_VECTOR_APPEND(r->tokens, r->count, r->capacity, (token){ kind, start, end, r->open }))
        stop(r, ET_ENOMEM);
}

static size_t position(const reader *r)
{
    return (size_t)expat.GetCurrentByteIndex(r->parser);
}

static void add_here(reader *r, token_kind kind)
{
    const size_t start = position(r);
    add_token(r, kind, start, start + (size_t)expat.GetCurrentByteCount(r->parser));
}

static void read_attributes(const reader *r, element *e, const char *name, const char **attributes)
{
    const size_t v = r->vocabulary;
    const char *local = local_name(name);
    const bool entry = v == RESX && is_listed("data metadata", name);
    e->stays |= is_listed(code, local) || r->rule ||
                (v == RESX && r->elements[e->parent].entry && !strcmp(name, "comment"));
    if (v < VOCABULARIES) {
        e->stays |= is_listed(vocabularies[v].stay, name) || is_listed(vocabularies[v].stay, local);
        e->spaces |= is_listed(vocabularies[v].spaces, local);
    }
    for (const char **a = attributes; *a; a += 2) {
        if (!strcmp(a[0], "xml:space"))
            e->spaces = !strcmp(a[1], "preserve");
        if (!strcmp(local_name(a[0]), "translate"))
            e->stays = !strcasecmp(a[1], "no") || (e->stays && strcasecmp(a[1], "yes") != 0);
        e->stays |= !strcmp(local_name(a[0]), "translatable") && !strcasecmp(a[1], "false");
        e->stays |= !strcmp(a[0], "class") && is_listed(a[1], "notranslate");
        e->entry |= entry && !strcmp(a[0], "name");
        /* Values of .resx that are no texts: images, sizes, names of controls. */
        e->stays |= entry && (!strcmp(a[0], "mimetype") ||
                              (!strcmp(a[0], "type") && strncmp(a[1], "System.String", 13) != 0) ||
                              (!strcmp(a[0], "name") && !strncmp(a[1], ">>", 2)));
    }
}

static void XMLCALL on_start(void *self, const char *name, const char **attributes)
{
    reader *r = self;
    if (!ET_VECTOR_GROW(r->elements, r->element_capacity, r->element_count + 1)) {
        stop(r, ET_ENOMEM);
        return;
    }
    const size_t number = r->element_count++;
    element *e = &r->elements[number];
    *e = (element){ .parent = r->depth ? r->open : number };
    if (r->depth++) {
        r->elements[r->open].children++;
        e->spaces = r->elements[r->open].spaces;
        e->stays = r->elements[r->open].stays;
    } else {
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
            if (!strcmp(local_name(name), refused[i].root))
                stop(r, et_fail(r->error, ET_EDATA, "%s: Etude does not read %s; %s", r->d->name,
                                refused[i].format, refused[i].cure));
        r->vocabulary = 0;
        while (r->vocabulary < VOCABULARIES &&
               !is_listed(vocabularies[r->vocabulary].root, local_name(name)))
            r->vocabulary++;
    }
    read_attributes(r, e, name, attributes);
    for (size_t i = e->parent; !e->stays && r->elements[i].stays && !r->elements[i].partly;
         i = r->elements[i].parent)
        r->elements[i].partly = true;
    r->open = number;
    add_here(r, START);
}

static void XMLCALL on_end(void *self, const char *name)
{
    reader *r = self;
    (void)name;
    if (r->status)
        return;
    r->elements[r->open].last = r->count;
    add_here(r, END);
    r->open = r->elements[r->open].parent;
    r->depth--;
}

static void XMLCALL on_text(void *self, const char *text, int length)
{
    reader *r = self;
    element *e = r->depth ? &r->elements[r->open] : NULL;
    for (int i = 0; i < length && e && !r->section; i++) {
        e->lines |= text[i] == '\n';
        e->text |= !strchr(" \t\r\n", text[i]) || !text[i];
    }
    if (r->vocabulary == PLIST && length && !strchr(" \t\r\n", *text))
        r->rule = et_is_listed("NSStringFormatSpecTypeKey NSStringFormatValueTypeKey", text,
                               (size_t)length);
}

/* Gets references to entities, which are not expanded. */
static void XMLCALL on_other(void *self, const char *text, int length)
{
    reader *r = self;
    if (r->depth && length && *text == '&')
        r->elements[r->open].text = true;
}

static void XMLCALL on_comment(void *self, const char *text)
{
    (void)text;
    if (((reader *)self)->depth)
        add_here(self, OTHER);
}

static void XMLCALL on_instruction(void *self, const char *target, const char *text)
{
    (void)target;
    on_comment(self, text);
}

static void XMLCALL on_section(void *self)
{
    reader *r = self;
    r->section = position(r);
}

static void XMLCALL on_section_end(void *self)
{
    reader *r = self;
    add_token(r, SECTION, r->section, position(r) + (size_t)expat.GetCurrentByteCount(r->parser));
    r->section = 0;
}

static void XMLCALL on_declaration(void *self, const char *version, const char *encoding,
                                   int standalone)
{
    reader *r = self;
    (void)version, (void)standalone;
    if (encoding && strcasecmp(encoding, "UTF-8") != 0)
        stop(r,
             et_fail(r->error, ET_EDATA,
                     "%s:1: the declaration names the encoding %.40s, and translations are UTF-8; "
                     "convert the file with: iconv -f %.40s -t UTF-8, and write "
                     "encoding=\"UTF-8\"",
                     r->d->name, encoding, encoding));
}

/* Makes the error for a text that expat refuses. */
static int explain(const reader *r)
{
    const enum XML_Error kind = expat.GetErrorCode(r->parser);
    const size_t line = (size_t)expat.GetCurrentLineNumber(r->parser);
    const size_t column = (size_t)expat.GetCurrentColumnNumber(r->parser) + 1;
    const char *cure = kind == XML_ERROR_UNDEFINED_ENTITY
                           ? "; write the character, or declare the entity in the DOCTYPE"
                           : "";
    size_t open = 0;
    if (kind == XML_ERROR_NO_MEMORY)
        return et_alloc_failed(r->error, r->d->name);
    if (!r->depth)
        return et_fail(r->error, ET_EDATA, "%s:%zu:%zu: %s%s", r->d->name, line, column,
                       expat.ErrorString(kind), cure);
    for (size_t i = 0; i < r->count; i++)
        if (r->tokens[i].kind == START && r->tokens[i].element == r->open)
            open = r->tokens[i].start;
    const char *name = r->d->text + open + 1;
    size_t length = 0, open_line = 1;
    while (open + 1 + length < r->d->length && !strchr(" \t\r\n/>", name[length]))
        length++;
    for (size_t i = 0; i < open; i++)
        open_line += r->d->text[i] == '\n';
    return et_fail(r->error, ET_EDATA, "%s:%zu:%zu: %s%s; <%.*s> of line %zu is open", r->d->name,
                   line, column, expat.ErrorString(kind), cure, (int)(length < 60 ? length : 60),
                   name, open_line);
}

static int list_markup(reader *r)
{
    r->parser = expat.ParserCreate(NULL);
    if (!r->parser)
        return et_alloc_failed(r->error, r->d->name);
    expat.SetUserData(r->parser, r);
    expat.SetElementHandler(r->parser, on_start, on_end);
    expat.SetCharacterDataHandler(r->parser, on_text);
    expat.SetCommentHandler(r->parser, on_comment);
    expat.SetProcessingInstructionHandler(r->parser, on_instruction);
    expat.SetCdataSectionHandler(r->parser, on_section, on_section_end);
    expat.SetXmlDeclHandler(r->parser, on_declaration);
    expat.SetDefaultHandler(r->parser, on_other);
    enum XML_Status parsed = XML_STATUS_OK;
    size_t at = 0;
    do {
        const size_t left = r->d->length - at, size = left < CHUNK ? left : CHUNK;
        parsed = expat.Parse(r->parser, r->d->text + at, (int)size, size == left);
        at += size;
    } while (parsed == XML_STATUS_OK && at < r->d->length);
    int status = r->status;
    if (r->failed)
        status = et_alloc_failed(r->error, r->d->name);
    else if (!status && parsed != XML_STATUS_OK)
        status = explain(r);
    expat.ParserFree(r->parser);
    return status;
}

/* ---- the second walk ---- */

static bool is_inner(const reader *r, size_t number)
{
    const element *e = &r->elements[number];
    const bool list = !e->text && (e->children > 1 || (e->children && e->lines));
    return e->parent != number && r->elements[e->parent].text && !list;
}

/* @string/name and ?attr/name of Android refer to another text. */
static bool is_resource(const char *text, size_t length)
{
    size_t from = 0;
    while (from < length && strchr(" \t\r\n", text[from]))
        from++;
    while (length > from && strchr(" \t\r\n", text[length - 1]))
        length--;
    return length > from && strchr("@?", text[from]) && memchr(text + from, '/', length - from) &&
           !memchr(text + from, ' ', length - from);
}

static void add_text(reader *r, size_t from, size_t to, size_t number, bool section)
{
    et_document *d = r->d;
    const bool android = r->vocabulary == ANDROID, stays = r->elements[number].stays;
    const et_marking marking = { .line = et_document_line(r->d, from),
                                 .references = !section,
                                 .spaces = r->elements[number].spaces,
                                 .backslashes = android };
    const et_escape escape = d->escape;
    if (stays && is_inner(r, number)) {
        et_document_add_tag(d, d->text + from, to - from, marking.line);
        return;
    }
    if (stays || (android && is_resource(d->text + from, to - from))) {
        et_document_keep(d, d->text + from, to - from);
        return;
    }
    if (section)
        d->escape = android ? ET_ESCAPE_RESOURCE_CDATA : ET_ESCAPE_CDATA;
    et_document_add_marked(d, d->text + from, to - from, &marking);
    if (section)
        et_document_end(d);
    d->escape = escape;
}

static void add_section(reader *r, const token *t)
{
    static const char begin[] = "<![CDATA[", end[] = "]]>";
    const bool inner = r->elements[t->element].text;
    const size_t line = et_document_line(r->d, t->start);
    if (inner)
        et_document_begin_tag(r->d);
    et_document_keep(r->d, begin, strlen(begin));
    add_text(r, t->start + strlen(begin), t->end - strlen(end), t->element, true);
    et_document_keep(r->d, end, strlen(end));
    if (inner)
        et_document_end_tag(r->d, r->d->text + t->start, t->end - t->start, line);
}

static void write_document(reader *r)
{
    size_t at = r->tokens[0].start, open = 0;
    if (r->vocabulary == ANDROID)
        r->d->escape = ET_ESCAPE_RESOURCE;
    et_document_keep(r->d, r->d->text, at);
    for (size_t i = 0; i < r->count; i++) {
        const token *t = &r->tokens[i];
        size_t end = t->end;
        if (t->start > at)
            add_text(r, at, t->start, open, false);
        const element *e = &r->elements[t->element];
        if (t->kind == START && e->stays && !e->partly) {
            i = e->last;
            end = r->tokens[i].end;
        } else if (t->kind == START) {
            open = t->element;
        } else if (t->kind == END) {
            open = e->parent;
        }
        if (t->kind == SECTION && !e->stays)
            add_section(r, t);
        else if (end > t->start) {
            /* Markup, and the content of an element that stays. */
            const char *text = r->d->text + t->start;
            if (t->kind == OTHER ? e->text : is_inner(r, t->element))
                et_document_add_tag(r->d, text, end - t->start, et_document_line(r->d, t->start));
            else
                et_document_keep(r->d, text, end - t->start);
        }
        at = end;
    }
    et_document_keep(r->d, r->d->text + at, r->d->length - at);
}

int et_document_read_xml(et_document *d, et_error *error)
{
    reader r = { .d = d, .error = error };
    int status = et_library_load(&library, &expat, error);
    if (!status)
        status = list_markup(&r);
    if (!status)
        write_document(&r);
    et_free(r.tokens);
    et_free(r.elements);
    return status;
}
