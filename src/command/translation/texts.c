#include "command/translation/texts.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/format.h"
#include "data/text/sentences.h"
#include "tasks/translation/decoding/translator_private.h"

int et_texts_open(et_texts *texts, int format, bool split, const char *language, et_error *error)
{
    *texts = (et_texts){ .format = format };
    return split ? et_sentences_open(&texts->sentences, language, error) : ET_OK;
}

void et_texts_close(et_texts *texts)
{
    et_sentences_close(texts->sentences);
    texts->sentences = NULL;
}

static void count(et_document_counts *all, const et_document_counts *some)
{
    size_t known = 0;
    if (!all->repaired)
        all->line = some->line;
    all->segments += some->segments;
    all->repaired += some->repaired;
    all->kept += some->kept;
    if (!all->refused)
        all->refused_line = some->refused_line;
    all->refused += some->refused;
    while (known < ET_DOCUMENT_KEPT_LINES && all->kept_lines[known])
        known++;
    for (size_t i = 0; known < ET_DOCUMENT_KEPT_LINES && i < ET_DOCUMENT_KEPT_LINES; i++)
        all->kept_lines[known++] = some->kept_lines[i];
}

static int translate_round(et_texts *texts, et_translator *translator, et_document *document,
                           const char *const *lines, size_t lines_count, et_error *error)
{
    char **results = et_alloc_zero(lines_count, sizeof *results);
    if (!results)
        return et_alloc_failed(error, lines_count * sizeof *results, "translations");
    et_translator_set_first_line(translator, texts->translated + 1);
    et_translator_set_line_numbers(translator, et_document_line_numbers(document));
    int status = et_translator_translate(translator, lines, lines_count, results, error);
    et_translator_set_line_numbers(translator, NULL);
    if (!status) {
        texts->translated += lines_count;
        status = et_document_take(document, results, error);
        et_translator_free_results(results, lines_count);
    }
    et_free(results);
    return status;
}

static int translate_document(et_texts *texts, et_translator *translator, const et_strbuf *text,
                              et_strbuf *out, et_error *error)
{
    const et_document_options options = { .format = texts->format,
                                          .sentences = texts->sentences,
                                          .tags = &translator->language_tags,
                                          .name = texts->name,
                                          .first_line = texts->lines + 1 };
    et_document *document;
    const char *const *lines;
    size_t lines_count;
    int status = et_document_open(&document, et_strbuf_text(text), text->length, &options, error);
    while (!status && (lines = et_document_lines(document, &lines_count)) != NULL)
        status = translate_round(texts, translator, document, lines, lines_count, error);
    if (!status) {
        const et_document_counts counts = et_document_count(document);
        count(&texts->counts, &counts);
        et_document_print(document, out);
    }
    et_document_close(document);
    return status;
}

int et_texts_translate(et_texts *texts, et_translator *translator, const et_lines *lines,
                       et_strbuf *out, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (size_t i = 0; i < lines->count; i++) {
        et_strbuf_append(&text, lines->items[i]);
        if (texts->format == ET_DOCUMENT_LINES)
            et_strbuf_append_char(&text, '\n');
    }
    int status = text.failed ? et_alloc_failed(error, text.length, texts->name)
                             : translate_document(texts, translator, &text, out, error);
    texts->lines += lines->count;
    et_strbuf_release(&text);
    return status;
}

void et_texts_tell(const et_texts *texts)
{
    const et_document_counts *c = &texts->counts;
    if (c->refused)
        fprintf(stderr,
                "left empty   %s: msgfmt -c would refuse the translations; the first is %s:%zu\n",
                et_format_many((int64_t)c->refused, "message").text, texts->name, c->refused_line);
    if (c->repaired)
        fprintf(stderr,
                "in parts     %s of %s segments: the model changed their markup, placeholders, "
                "addresses or numbers, so the text between these was translated alone; the first "
                "is %s:%zu\n",
                et_format_count((int64_t)c->repaired).text,
                et_format_count((int64_t)c->segments).text, texts->name, c->line);
    if (!c->kept)
        return;
    fprintf(stderr,
            "as it was    %s not translated:", et_format_many((int64_t)c->kept, "text").text);
    for (size_t i = 0; i < ET_DOCUMENT_KEPT_LINES && c->kept_lines[i]; i++)
        fprintf(stderr, "%s %s:%zu", i ? "," : "", texts->name, c->kept_lines[i]);
    fprintf(stderr, "%s\n",
            c->kept > ET_DOCUMENT_KEPT_LINES && c->kept_lines[ET_DOCUMENT_KEPT_LINES - 1] ? ", ..."
                                                                                          : "");
}
