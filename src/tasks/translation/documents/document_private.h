/* A document, for its own files: document.c, segments.c, repair.c and the formats. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_DOCUMENT_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_DOCUMENT_PRIVATE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "tasks/translation/documents/document.h"
#include "tasks/translation/documents/spans.h"

/* How the text of a segment is written into its document. */
typedef enum et_escape {
    ET_ESCAPE_NONE,
    ET_ESCAPE_MARKUP, /* & < as entities */
    ET_ESCAPE_PO,     /* " \ and control characters with a backslash */
} et_escape;

/* The text between two spans of a segment, translated alone. */
typedef struct et_part {
    size_t start, length; /* in the segment's text, without outer white space */
    const char *line;     /* in the arena; NULL: it has no letter and stays */
    const char *result;   /* the same; NULL: not translated yet, or it stays */
} et_part;

typedef struct et_segment {
    const char *text; /* a line: [length] bytes and a 0, in the arena. Spans are in it as they are
                         in the document, the rest is decoded */
    size_t length;
    et_spans spans;
    size_t line;        /* of the document */
    int breaks;         /* line ends that the translation gets, evenly spread */
    const char *result; /* encoded, in the arena; NULL: none yet */
    et_part *parts;     /* [spans.count + 1], in the arena; NULL: not translated in parts */
} et_segment;

/* An item of the output: a segment, or bytes of `kept`. */
typedef struct et_item {
    size_t from, length;
    size_t segment; /* ET_NO_SEGMENT: none */
} et_item;
#define ET_NO_SEGMENT ((size_t)-1)

/* A character that the document writes as an entity, and how: "&nbsp;". */
typedef struct et_entity {
    char bytes[5]; /* its UTF-8 and a 0 */
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
    const char *line_end; /* of the document: LF or CR LF */
    struct et_sentences *sentences;
    et_strbuf kept;
    et_item *items; /* [item_count], owned */
    size_t item_count, item_capacity;
    et_segment *segments; /* [count], owned */
    size_t count, capacity;
    const char **lines; /* [line_count] of the round, owned */
    size_t line_count;
    int round;   /* 0: segments, 1: parts, 2: done */
    bool failed; /* no memory: items are missing */
    et_document_counts counts;
    /* the segment that a format is collecting */
    et_strbuf run;
    et_spans run_tags;
    size_t run_line;
};

/* ---- segments.c, for formats ---- */

/* Bytes that stay. Ends the segment. */
void et_document_keep(et_document *d, const char *bytes, size_t length);
/* Text of the segment, decoded; white space becomes one space. line: of the document. */
void et_document_add(et_document *d, const char *text, size_t length, size_t line);
/* Inline markup of the segment, as it is written. */
void et_document_add_tag(et_document *d, const char *bytes, size_t length, size_t line);
/* Adds text with its entities decoded. An unknown one is inline markup, and so are symbols such as
 * &copy;, which models lose easily. */
void et_document_add_decoded(et_document *d, const char *text, size_t length, size_t line);
/* Ends the segment. White space and markup at its ends stay. */
void et_document_end(et_document *d);
/* The same of one character that the document writes as an entity, [length] bytes. */
void et_document_add_entity(et_document *d, uint32_t code, const char *written, size_t length,
                            size_t line);

/* ---- repair.c ---- */

/* Encodes text for the document. */
void et_document_encode(const et_document *d, const char *text, size_t length, et_strbuf *out);
/* Writes a translation of the segment into out, emptied before, if each span of the segment is in
 * it and no other placeholder, URL, address or markup; else false. */
bool et_segment_accept(et_document *d, const et_segment *s, const char *result, et_strbuf *out);
/* Cuts a segment into parts. */
void et_segment_cut(et_document *d, et_segment *s);
/* Takes the translation of a part, if it has no span but numbers. */
void et_segment_take_part(et_document *d, const et_segment *s, et_part *part, const char *result);
/* Writes the segment from its parts' results into out, emptied before. */
void et_segment_join(et_document *d, const et_segment *s, et_strbuf *out);

/* ---- formats: each walks over the whole text ---- */

int et_document_read_lines(et_document *d, et_error *error);
int et_document_read_html(et_document *d, et_error *error);
int et_document_read_xml(et_document *d, et_error *error);
int et_document_read_po(et_document *d, et_error *error);
int et_document_read_srt(et_document *d, et_error *error);
int et_document_read_md(et_document *d, et_error *error);

#endif
