/* Documents: texts with paragraphs of several sentences, or a format with markup. A document is cut
 * into segments, which are translated, and a skeleton, which stays byte by byte: markup, white
 * space between segments, and texts without letters. In HTML, the value of an attribute that people
 * read (title, alt) is a segment. A parser of the format finds the same structure in the
 * translation.
 *
 * Within a segment, spans must stay as they are: inline markup, placeholders ({name}, %s, %1$d),
 * URLs, e-mail addresses and numbers. If a translation has lost or changed a span, the text between
 * the spans is translated alone, and the spans are put back between the results. If such a result
 * has a span of its own, the source's text stays.
 *
 *     const et_document_options options = { .format = ET_DOCUMENT_HTML, .name = "a.html" };
 *     if (et_document_open(&d, text, length, &options, &error)) ...
 *     while ((lines = et_document_lines(d, &count)) != NULL) {
 *         if (et_translator_translate(t, lines, count, results, &error)) ...
 *         if (et_document_take(d, results, &error)) ...
 *         et_translator_free_results(results, count);
 *     }
 *     et_document_print(d, &out);
 *     et_document_close(d);
 *
 * There are at most two rounds. A document is used by one thread at a time. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_DOCUMENT_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>
#include <etude/fields.h>

struct et_sentences;
struct et_strbuf;

typedef enum et_document_format {
    ET_DOCUMENT_LINES, /* each line is a segment, without protected spans */
    ET_DOCUMENT_TEXT,  /* as LINES, with protected spans */
    ET_DOCUMENT_HTML,
    ET_DOCUMENT_XML,
    ET_DOCUMENT_PO,  /* gettext: fills in empty translations */
    ET_DOCUMENT_SRT, /* subtitles, also WebVTT: a segment is the text of a subtitle */
    ET_DOCUMENT_MD,  /* Markdown */
} et_document_format;

/* "lines", ..., "md"; ended by NULL. */
extern const char *const et_document_formats[];

typedef struct et_document_options {
    int format;                     /* an et_document_format */
    struct et_sentences *sentences; /* cuts segments into sentences; borrowed during open. NULL:
                                       they are not cut */
    const et_strings *tags; /* language tags of the model (vocabulary.h). If a segment begins with a
                               tag, all its sentences get the tag. NULL: none; borrowed during
                               open */
    const char *tag;        /* put in front of each line without a tag; NULL: none */
    const char *name;       /* of the text, for messages */
    size_t first_line;      /* the number of its first line; 0: 1 */
} et_document_options;

#define ET_DOCUMENT_KEPT_LINES 5

/* How much of a document needed more than one translation. */
typedef struct et_document_counts {
    size_t segments;     /* to translate */
    size_t repaired;     /* translated between their spans */
    size_t kept;         /* texts that stay in the source's language: parts of repaired segments,
                            and texts in markup that the format does not read */
    size_t line;         /* line of the text, from 1, of the first repaired segment */
    size_t refused;      /* strings of PO that stay empty, because gettext refuses their
                            translations */
    size_t refused_line; /* of the first of these messages */
    size_t kept_lines[ET_DOCUMENT_KEPT_LINES]; /* the first lines with such texts; 0 ends the
                                                  list */
} et_document_counts;

typedef struct et_document et_document;

/* text: [length] bytes, which must live as long as the document. ET_EDATA names the line: the text
 * is not UTF-8, or not of this format. */
int et_document_open(et_document **out, const char *text, size_t length,
                     const et_document_options *options, et_error *error);
void et_document_close(et_document *document); /* NULL allowed */

/* The lines to translate in this round, [count]; NULL: all is translated. Valid until
 * et_document_take. */
const char *const *et_document_lines(et_document *document, size_t *count);

/* For each line to translate: the line of the text, from 1, where it begins. */
const size_t *et_document_line_numbers(const et_document *document);

/* Takes the translations of these lines. ET_ENOMEM. */
int et_document_take(et_document *document, char *const *results, et_error *error);

/* Starts the first round again, for other translations of the same lines. */
void et_document_restart(et_document *document);

/* Appends the document with its translations. Call when no lines are left. */
void et_document_print(const et_document *document, struct et_strbuf *out);

et_document_counts et_document_count(const et_document *document);

/* The format by the ending of a file's name: page.html is HTML. Sets *format, an
 * et_document_format: ET_DOCUMENT_LINES for any other ending. .gz at the end is
 * ignored. ET_EUSAGE: a format that Etude does not read; the message names the cure. */
int et_document_format_of(const char *path, int *format, et_error *error);

#endif
