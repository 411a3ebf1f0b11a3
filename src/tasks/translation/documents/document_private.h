/* A document, for its own files: document.c, segments.c and the formats. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_DOCUMENT_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_DOCUMENT_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "tasks/translation/documents/document.h"

/* ---- spans.c ---- */

/* Parts of a text that a translation must not change: placeholders of programs, URLs, e-mail
 * addresses and numbers. */

typedef struct et_span {
    size_t start, length;                                    /* bytes */
    enum { ET_SPAN_TEXT, ET_SPAN_NUMBER, ET_SPAN_TAG } kind; /* tags also keep their order */
    size_t tag;   /* number of a tag with text of its own, from 1; 0: no such tag */
    bool ordered; /* a directive without a number or name, such as %s: keeps its order */
} et_span;

typedef struct et_spans {
    et_span *items; /* [count], by position; owned */
    size_t count, capacity;
} et_spans;

/* false: no memory. */
bool et_spans_add(et_spans *spans, et_span span);
void et_spans_release(et_spans *spans);

/* Finds the first span of text that starts at `from` or later. false: none. */
bool et_span_find(const char *text, size_t length, size_t from, et_span *span);

/* Whether text has a letter, in whatever script. */
bool et_text_has_letter(const char *text, size_t length);

/* ---- the document ---- */

/* How the text of a segment is written into its document. */
typedef enum et_escape {
    ET_ESCAPE_NONE,
    ET_ESCAPE_MARKUP,         /* & < as entities */
    ET_ESCAPE_SINGLE,         /* as MARKUP, and ', for a value in single quotes */
    ET_ESCAPE_DOUBLE,         /* as MARKUP, and ", for a value in double quotes */
    ET_ESCAPE_CDATA,          /* ]]> in two sections */
    ET_ESCAPE_PO,             /* " \ and control characters with a backslash */
    ET_ESCAPE_RESOURCE,       /* Android's: as MARKUP, and ' " \ with a backslash */
    ET_ESCAPE_RESOURCE_CDATA, /* as CDATA, and ' " \ with a backslash */
    ET_ESCAPE_MD,       /* unchanged, if Markdown's own reader then finds the same structure */
    ET_ESCAPE_MD_CELL,  /* as MD, in a cell of a table */
    ET_ESCAPE_MD_MARKS, /* a backslash before characters that may be markup */
} et_escape;

/* Marks of keys in texts of menus and buttons: &File of Qt and Windows, _File of GTK. A translation
 * keeps the key if it has this letter. */
typedef struct et_accelerator {
    char mark; /* & or _; 0: no mark */
    char key;  /* the letter or digit after it */
} et_accelerator;

/* The text between two spans of a segment, translated alone. */
typedef struct et_part {
    size_t start, length; /* in the segment's text, without outer white space */
    const char *line;     /* in the arena; NULL: no letter, so the text stays */
    const char *result;   /* in the arena; NULL: not translated yet, or the text stays */
} et_part;

typedef struct et_segment {
    const char *text; /* a line: [length] bytes and a 0, in the arena. Spans are in it as they are
                         in the document, the rest is decoded */
    size_t length;
    const char *source; /* the line to translate: text, with its language tag in front */
    uint64_t entities;  /* as in its run */
    bool message;       /* of ICU, in which an apostrophe before { or # quotes */
    const char *tag;    /* the language tag; NULL: none; in the arena */
    et_spans spans;
    et_escape escape;
    size_t line;                /* of the document */
    int breaks;                 /* line ends that the translation gets, evenly spread */
    et_accelerator accelerator; /* that the translation gets */
    const char *before, *after; /* of Markdown: markup around it; in the arena */
    const char *result;         /* encoded, in the arena; NULL: none yet */
    et_part *parts;             /* [spans.count + 1], in the arena; NULL: not translated in parts */
} et_segment;

/* An item of the output: a segment, or bytes of `kept`. */
typedef struct et_item {
    size_t from, length;
    size_t segment; /* ET_NO_SEGMENT: none */
} et_item;
#define ET_NO_SEGMENT ((size_t)-1)

typedef struct et_items {
    et_item *at; /* [count], owned */
    size_t count, capacity;
} et_items;

/* Inline markup with text of its own, such as a title: a range of tag_items. */
typedef struct et_tag {
    size_t first, count;
} et_tag;

/* Text of a run from the document, where its bytes may be others: &amp; is &. */
typedef struct et_source {
    size_t start, length; /* in the run */
    const char *bytes;    /* [count] of the document */
    size_t count;
} et_source;

/* The text that a format is collecting. */
typedef struct et_run {
    et_strbuf text;
    et_spans tags;
    et_source *sources; /* [source_count], by start, owned */
    size_t source_count, source_capacity;
    size_t line;
    uint64_t entities; /* bit i: the run has the document's entity i */
    bool message;      /* has messages of ICU */
} et_run;

/* A character that the document writes as an entity, and how: "&nbsp;". */
typedef struct et_entity {
    char bytes[5]; /* its UTF-8 and a 0 */
    bool only;     /* the document writes the character only so */
    const char *written;
} et_entity;
#define ET_ENTITIES_MAX 64

struct et_document {
    et_arena arena;
    const char *name, *text;
    size_t length;
    int format;
    et_escape escape;
    et_entity *entities; /* [entity_count]: characters that are written by name; in the arena */
    size_t entity_count;
    uint64_t written;     /* bit i: the next text to encode may have entity i; if `only`, it always
                             may */
    const char *line_end; /* of the document: LF or CR LF */
    struct et_sentences *sentences;
    const et_strings *language_tags; /* NULL: none */
    const char *language_tag;        /* of the segment that is collected; NULL: none */
    const char *usual_tag;           /* of segments without a tag; NULL: none */
    et_strbuf kept;
    et_items items, tag_items;
    et_tag *tags; /* [tag_count], owned */
    size_t tag_count, tag_capacity;
    et_segment *segments; /* [count], owned */
    size_t count, capacity;
    const char **lines; /* [line_count] of the round, owned */
    size_t *numbers;    /* [line_count]: line of the document where each line to translate begins */
    size_t line_count;
    int round;                              /* 0: segments, 1: parts, 2: done */
    bool failed;                            /* no memory: items are missing */
    et_document_counts counts, read_counts; /* read_counts: of no round */
    et_run run, outer;                      /* outer: around a tag with its own text */
    bool in_tag;                            /* new items belong to the tag */
    et_accelerator accelerator;             /* of the next segment */
    int messages;                           /* ICU messages around the run */
    bool plural;                            /* around the run is a plural: # is its number */
    size_t *filled; /* PO: [filled_count], of each msgstr the line of its message if it was
                       empty, else 0; owned */
    size_t filled_count, filled_capacity;
    et_strbuf
        checked; /* PO: the document without translations that were refused; empty: all hold */
    size_t first_line;
    size_t line_known, line_at; /* line_at: line ends before the position line_known */
};

/* ---- segments.c, for formats ---- */

/* Bytes that stay. Ends the segment. */
void et_document_keep(et_document *d, const char *bytes, size_t length);
/* Keeps text that the format does not read. Text with letters is counted as kept. */
void et_document_keep_words(et_document *d, const char *text, size_t length, size_t line);
/* The line of a position in the document. Fast if the last position was near. */
size_t et_document_line(et_document *d, size_t position);
/* Text of the segment, decoded; white space becomes one space. line: of the document. */
void et_document_add(et_document *d, const char *text, size_t length, size_t line);
/* The same of text that the document writes as bytes [count]. They stay if the text has no letter.
 */
void et_document_add_written(et_document *d, const char *text, size_t length, const char *bytes,
                             size_t count, size_t line);
/* Inline markup of the segment, as it is written. */
void et_document_add_tag(et_document *d, const char *bytes, size_t length, size_t line);
/* Inline markup with its own text. The text kept and added between begin and end replaces the bytes
 * in the output. Such tags do not nest. */
void et_document_begin_tag(et_document *d);
void et_document_end_tag(et_document *d, const char *bytes, size_t length, size_t line);
/* Adds text with its entities decoded. Unknown entities become inline markup, and so do symbols
 * such as &copy;, which models lose easily. */
void et_document_add_decoded(et_document *d, const char *text, size_t length, size_t line);
/* Whether this text alone has words to translate. Adds nothing. */
bool et_document_has_words(et_document *d, const char *text, size_t length);
/* Adds a character that the document writes as `written`, [length]. The translation writes it so,
 * too, except letters and digits of ASCII and spaces. If the document also has the character
 * itself, only runs with the entity are written so. */
void et_document_add_entity(et_document *d, uint32_t code, const char *written, size_t length,
                            size_t line);
/* Ends the segment. White space and markup at its ends stay. The syntax of ICU messages
 * stays, and the texts of their branches are segments. A message that ICU refuses stays, counted as
 * kept. */
void et_document_end(et_document *d);
void et_run_release(et_run *run);
/* Bytes of the ICU message with branches that text begins with; 0: none. */
size_t et_document_message_size(const char *text, size_t length);

/* ---- encode.c ---- */

/* Counts a text that stays in the source's language. */
void et_document_count_kept(et_document *d, size_t line);
/* Encodes text for the document. */
void et_document_encode(const et_document *d, et_escape escape, const char *text, size_t length,
                        et_strbuf *out);
/* Encodes the bytes of a span; markup stays as it is. */
void et_document_encode_span(const et_document *d, et_escape escape, const et_span *span,
                             const char *bytes, et_strbuf *out);

/* ---- formats: each walks over the whole text ---- */

int et_document_read_html(et_document *d, et_error *error);
/* Reads [from, to) of the document as HTML. */
int et_document_read_page(et_document *d, size_t from, size_t to, et_error *error);
int et_document_read_xml(et_document *d, et_error *error);
int et_document_read_po(et_document *d, et_error *error);
/* Leaves out translations that gettext refuses. text: the printed document. ET_ENOMEM. */
int et_document_check_po(et_document *d, const et_strbuf *text, et_error *error);
int et_document_read_srt(et_document *d, et_error *error);
int et_document_read_md(et_document *d, et_error *error);

/* ---- encode.c: entities of HTML and XML, marks of keys ---- */

/* Bytes of the entity at the beginning of text [length]: "&nbsp;", "&#160;", "&#xA0;"; 0: no
 * entity. *code: its character; 0: an unknown name. */
size_t et_entity_read(const char *text, size_t length, uint32_t *code);
/* The same of an entity that HTML reads without its semicolon: "&copy 2020". Letters may follow,
 * except in the value of an attribute. */
size_t et_entity_read_open(const char *text, size_t length, bool value);

/* Whether text, a line, has a mark of a key, at [*at]. The & of "R&D" and the _ of names are not
 * marks. */
bool et_accelerator_find(const char *text, et_accelerator *accelerator, size_t *at);

/* Adds the mark to text, which is encoded for a message catalogue. The mark is put before the key,
 * else before the first letter or digit of a word, else at the end, as in Japanese: (&F). */
void et_accelerator_insert(et_strbuf *text, et_accelerator accelerator);

/* ---- marked.c ---- */

/* Text of a format that may quote markup: tags, comments and references of HTML in a message of
 * gettext, in a section of XML or, written as references (&lt;b>), in XML's text. Quoted markup
 * stays. Block elements, such as p and br, end a segment; all other elements belong to it. The
 * content of code, script and similar elements also stays. */
typedef struct et_marking {
    size_t line;      /* line of the document where the text begins */
    bool references;  /* the text has XML's references */
    bool spaces;      /* white space other than one space ends a segment and stays */
    bool backslashes; /* escapes of Android's resources: \' \n \u00A9; a quote stays */
} et_marking;

/* Adds text to the segment, as et_document_add. Markup of a PO document is encoded. */
void et_document_add_marked(et_document *d, const char *text, size_t length,
                            const et_marking *marking);

/* ---- structures, for checks of translations ---- */

/* read_md.c: appends the blocks, spans, addresses, code and inline HTML of a text, without its
 * words. Texts with the same structure give the same bytes. false: no memory, or no library. */
bool et_md_structure(const char *text, size_t length, et_strbuf *out);

/* read_html.c: appends the elements of a page and their attributes, without words: texts, and
 * values that people read. Two pages with the same structure have the same bytes. For tests,
 * because a translated page needs no such check: its markup is copied. false: no memory, or no
 * library. */
bool et_html_structure(const char *text, size_t length, et_strbuf *out);

/* ---- md_mask.c ---- */

/* Makes Markdown beyond CommonMark readable for a parser of CommonMark. The copy of the text has
 * the same positions; other markup is replaced by:
 *
 *     front matter, import of MDX, ::: of a container     blanks
 *     :::tip A title, > [!NOTE]                           a heading
 *     !!! note "A title", ??? note, === "A tab"           an item
 *     : a definition, [^1]: a footnote                    the same
 *     $x$, {{< a >}}, {% a %}, {#id .class}, [^1], :tada:   letters; in lines of their own: blanks
 */

typedef struct et_md_mask {
    const char *original; /* [length], borrowed */
    char *text;           /* [length], owned */
    size_t length;
    et_spans
        kept; /* markup that is text in the copy, and line ends that stay; by position; owned */
} et_md_mask;

/* Copies the text and masks blocks. release in any case. false: no memory. */
bool et_md_mask_open(et_md_mask *mask, const char *text, size_t length);
/* Masks inline markup outside of code, by position. */
bool et_md_mask_inline(et_md_mask *mask, const et_spans *code);
void et_md_mask_release(et_md_mask *mask);

/* ---- plural_forms.c ---- */

/* The Plural-Forms of a message catalogue. An expression of C in n gives the form of a message for
 * a number: "nplurals=2; plural=(n != 1);". */
typedef struct et_plural_forms {
    int count; /* of forms */
    int one;   /* the form of the number 1 */
    bool many; /* other numbers than 0 and 1 also have the form `one` */
} et_plural_forms;

/* false: text has no such expression. Then forms gets the two forms of English, the first only for
 * 1. */
bool et_plural_forms_read(const char *text, et_plural_forms *forms);

#endif
