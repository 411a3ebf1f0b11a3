/* A document from its text to its translation, in two rounds: segments, then the parts of those
 * whose translation has lost a span. */
#include "tasks/translation/documents/document.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "tasks/translation/documents/document_private.h"

/* Checks translations of segments, and mends those that have lost a span. Spans of a translation
 * are found as in the source. A tag is found at the next position of its bytes. */

/* A segment with more spans is translated in parts, which needs less time than a search for all. */
#define SPANS_MAX 256

/* ---- line ends ---- */

static bool has_tag_text(const et_segment *s)
{
    for (size_t i = 0; i < s->spans.count; i++)
        if (s->spans.items[i].tag)
            return true;
    return false;
}

/* Copies text. If a tag has text of its own, such as an ICU message, _ replaces each space within
 * the tags, so that no line is broken there. wrap itself finds tags from < to >. */
static void mask_tags(const et_segment *s, const et_strbuf *text, et_strbuf *masked)
{
    et_strbuf_append_bytes(masked, et_strbuf_text(text), text->length);
    const bool own = has_tag_text(s);
    size_t at = 0;
    for (size_t i = 0; i < s->spans.count && own && !masked->failed; i++) {
        const et_span *span = &s->spans.items[i];
        char *found = span->kind == ET_SPAN_TAG ? memmem(masked->data + at, masked->length - at,
                                                         s->text + span->start, span->length)
                                                : NULL;
        if (!found)
            continue;
        at = (size_t)(found - masked->data) + span->length;
        while ((found = memchr(found, ' ', (size_t)(masked->data + at - found))) != NULL)
            *found = '_';
    }
}

/* Replaces spaces of text by line ends, so that lines are about equally long. */
static void wrap(const et_document *d, const et_segment *s, et_strbuf *text)
{
    et_strbuf out = ET_STRBUF_INIT, masked = ET_STRBUF_INIT;
    const size_t length = text->length;
    size_t from = 0;
    if (s->breaks)
        mask_tags(s, text, &masked);
    text->failed |= masked.failed;
    for (int line = 1; line <= s->breaks && !masked.failed; line++) {
        const size_t wanted = length * (size_t)line / (size_t)(s->breaks + 1);
        size_t best = 0, distance = length;
        bool tag = false;
        for (size_t i = from; i < length; i++) {
            const size_t off = i < wanted ? wanted - i : i - wanted;
            if (i > wanted && off >= distance)
                break;
            tag = masked.data[i] == '<' || (tag && masked.data[i] != '>');
            if (masked.data[i] == ' ' && !tag && i > from && off < distance) {
                best = i;
                distance = off;
            }
        }
        if (!best)
            break;
        et_strbuf_append_bytes(&out, text->data + from, best - from);
        et_strbuf_append(&out, d->line_end);
        from = best + 1;
    }
    if (from) {
        et_strbuf_append_bytes(&out, text->data + from, length - from);
        et_strbuf_reset(text);
        et_strbuf_append_bytes(text, et_strbuf_text(&out), out.length);
        text->failed |= out.failed;
    }
    et_strbuf_release(&out);
    et_strbuf_release(&masked);
}

/* ---- checks ---- */

/* Marks an unmarked span of the segment as found. false: no such span, or an ordered span must come
 * first. */
static bool mark(const et_segment *s, bool *marked, const et_span *found, const char *text)
{
    for (size_t i = 0; i < s->spans.count; i++) {
        const et_span *span = &s->spans.items[i];
        if (marked[i] || span->kind == ET_SPAN_TAG)
            continue;
        if (span->length == found->length && !memcmp(s->text + span->start, text, found->length))
            return marked[i] = true;
        if (span->ordered && found->ordered)
            return false;
    }
    return false;
}

/* The next tag at index i or later; NULL: none. */
static const et_span *next_tag(const et_segment *s, size_t i)
{
    while (i < s->spans.count && s->spans.items[i].kind != ET_SPAN_TAG)
        i++;
    return i < s->spans.count ? &s->spans.items[i] : NULL;
}

/* Finds the next span of a translation, at `from` or later. tag: the source's tag that must come
 * next; NULL: no tag is left. */
static bool find(const et_segment *s, const et_span *tag, const char *result, size_t length,
                 size_t from, et_span *found)
{
    const char *next =
        tag ? memmem(result + from, length - from, s->text + tag->start, tag->length) : NULL;
    const size_t end = next ? (size_t)(next - result) : length;
    if (et_span_find(result, end, from, found))
        return true;
    if (!next)
        return false;
    *found = (et_span){ end, tag->length, ET_SPAN_TAG, 0, false };
    return true;
}

static bool is_md(const et_segment *s)
{
    return s->escape == ET_ESCAPE_MD || s->escape == ET_ESCAPE_MD_CELL;
}

/* Characters that may be markup in a segment. */
static const char *special_of(const et_document *d, const et_segment *s)
{
    switch (s->escape) {
    case ET_ESCAPE_MD:
    case ET_ESCAPE_MD_CELL:
        return "\\`*[]<>~";
    case ET_ESCAPE_PO:
        return "<>%{}";
    case ET_ESCAPE_NONE:
        return d->format == ET_DOCUMENT_SRT ? "<>" : "";
    default:
        return "<>";
    }
}

/* The structure of a text at the place of the segment. */
static bool structure_of(const et_segment *s, const char *text, size_t length, et_strbuf *out)
{
    const bool cell = s->escape == ET_ESCAPE_MD_CELL;
    et_strbuf whole = ET_STRBUF_INIT;
    et_strbuf_append(&whole, cell ? "|x|" : "");
    et_strbuf_append(&whole, s->before);
    et_strbuf_append_bytes(&whole, text, length);
    et_strbuf_append(&whole, s->after);
    et_strbuf_append(&whole, cell ? "|\n|---|---|---|\n" : "");
    const bool good = !whole.failed && et_md_structure(et_strbuf_text(&whole), whole.length, out);
    et_strbuf_release(&whole);
    return good;
}

/* Whether Markdown's reader finds the same structure in a translation as in the source. */
static bool is_alike(const et_segment *s, const et_strbuf *out)
{
    et_strbuf before = ET_STRBUF_INIT, after = ET_STRBUF_INIT;
    const bool good = structure_of(s, s->text, s->length, &before) && !out->failed &&
                      structure_of(s, et_strbuf_text(out), out->length, &after) &&
                      before.length == after.length &&
                      !memcmp(et_strbuf_text(&before), et_strbuf_text(&after), before.length);
    et_strbuf_release(&before);
    et_strbuf_release(&after);
    return good;
}

/* Whether c is in the source's text between its spans. */
static bool is_in_source(const et_segment *s, char c)
{
    size_t at = 0;
    for (size_t i = 0; i <= s->spans.count; i++) {
        const et_span *span = i < s->spans.count ? &s->spans.items[i] : NULL;
        if (memchr(s->text + at, c, (span ? span->start : s->length) - at))
            return true;
        at = span ? span->start + span->length : at;
    }
    return false;
}

/* Whether text has markup that the source's text has not. Markdown's is checked as a whole. */
static bool is_spoiled(const et_document *d, const et_segment *s, const char *text, size_t length)
{
    const char *special = special_of(d, s);
    for (size_t i = 0; i < length && !is_md(s); i++)
        if (strchr(special, text[i]) && !is_in_source(s, text[i]))
            return true;
    return false;
}

/* Whether a tag could be mistaken for text. */
static bool is_ambiguous(const et_document *d, const et_segment *s)
{
    if (!next_tag(s, 0))
        return false;
    const bool resource = s->escape == ET_ESCAPE_RESOURCE || s->escape == ET_ESCAPE_RESOURCE_CDATA;
    for (const char *c = resource ? "<>\"\\" : special_of(d, s); *c; c++)
        if (is_in_source(s, *c))
            return true;
    return false;
}

/* Whether every span was found. tag: the next tag of the source that was not found; NULL: none. */
static bool is_complete(const et_segment *s, const et_span *tag, const bool *marked)
{
    for (size_t i = 0; i < s->spans.count; i++)
        if (!marked[i] && s->spans.items[i].kind != ET_SPAN_TAG)
            return false;
    return !tag;
}

/* Whether a translation has lost all words between two tags that follow each other. */
static bool is_emptied(const et_segment *s, const et_span *first, const et_span *second,
                       const char *text, size_t length)
{
    const size_t from = first->start + first->length;
    return first + 1 == second && et_text_has_letter(s->text + from, second->start - from) &&
           !et_text_has_letter(text, length);
}

/* Writes the bytes of a translation up to a span. false: these bytes contain markup. */
static bool write_up_to(const et_document *d, const et_segment *s, et_escape escape,
                        const char *text, size_t length, et_strbuf *out)
{
    et_document_encode(d, escape, text, length, out);
    return !is_spoiled(d, s, text, length);
}

/* Whether an apostrophe of text[from, at) quotes the syntax of ICU at `at`: d'{name}. */
static bool is_quoted(const char *text, size_t from, size_t at)
{
    size_t marks = 0;
    while (marks < at - from && text[at - marks - 1] == '\'')
        marks++;
    return marks % 2 && strchr("{#", text[at]);
}

/* A number more is no fault: "three" may become 3. */
static bool check(const et_document *d, const et_segment *s, et_escape escape, const char *result,
                  bool *marked, et_strbuf *out)
{
    const size_t length = strlen(result);
    const et_span *tag = next_tag(s, 0), *before = NULL; /* before: if the last span was a tag */
    et_span found;
    size_t at = 0;
    for (; find(s, tag, result, length, at, &found); at = found.start + found.length) {
        const char *text = result + found.start;
        const size_t gap = found.start - at;
        if (found.kind == ET_SPAN_TAG) {
            if (before && is_emptied(s, before, tag, result + at, gap))
                return false;
            before = tag;
            tag = next_tag(s, (size_t)(tag - s->spans.items) + 1);
        } else {
            if (!mark(s, marked, &found, text) && found.kind != ET_SPAN_NUMBER)
                return false;
            before = NULL;
        }
        if (!write_up_to(d, s, escape, result + at, gap, out))
            return false;
        if (s->message && is_quoted(result, at, found.start))
            et_document_encode(d, s->escape, "'", 1, out);
        et_document_encode_span(d, s->escape, &found, text, out);
    }
    return write_up_to(d, s, escape, result + at, length - at, out) && is_complete(s, tag, marked);
}

/* Writes a translation of the segment into out, which is emptied first. The translation must have
 * each span of the segment, and no other placeholder, URL, address or markup; otherwise the result
 * is false. */
static bool segment_accept(et_document *d, const et_segment *s, const char *result, et_strbuf *out)
{
    et_assert(s->text && result && out);
    bool *marked = et_alloc_zero(s->spans.count + 1, sizeof *marked);
    d->failed |= !marked;
    et_strbuf_reset(out);
    bool good = marked && *result && s->spans.count <= SPANS_MAX && !is_ambiguous(d, s) &&
                check(d, s, s->escape, result, marked, out);
    if (good && is_md(s) && !is_alike(s, out)) {
        et_strbuf_reset(out);
        memset(marked, 0, s->spans.count * sizeof *marked);
        good = check(d, s, ET_ESCAPE_MD_MARKS, result, marked, out) && is_alike(s, out);
    }
    et_free(marked);
    if (good)
        wrap(d, s, out);
    return good;
}

/* ---- parts ---- */

static const char *copy_line(et_document *d, const char *text, size_t length)
{
    const char *copy = et_arena_strndup(&d->arena, text, length);
    d->failed |= !copy;
    return copy;
}

/* White space, punctuation and symbols at the ends of a part stay. */
static void trim(const char *text, size_t *from, size_t *to)
{
    size_t last = *from, size;
    bool begun = false;
    for (size_t i = *from; i < *to; i += size) {
        uint32_t code;
        size = et_utf8_decode(text + i, *to - i, &code);
        if (et_unicode_is_space(code) || et_unicode_is_punctuation(code) ||
            et_unicode_is_symbol(code))
            continue;
        *from = begun ? *from : i;
        begun = true;
        last = i + size;
    }
    *to = begun ? last : *from;
}

/* Copies a part as a line to translate, with the segment's language tag. */
static const char *copy_part(et_document *d, const et_segment *s, size_t at, size_t length)
{
    if (!s->tag)
        return copy_line(d, s->text + at, length);
    const char *line = et_arena_printf(&d->arena, "%s %.*s", s->tag, (int)length, s->text + at);
    d->failed |= !line;
    return line;
}

/* Cuts a segment into parts. */
static void segment_cut(et_document *d, et_segment *s)
{
    et_assert(!s->parts);
    s->parts = et_arena_array(&d->arena, s->spans.count + 1, sizeof *s->parts);
    d->failed |= !s->parts;
    for (size_t i = 0, at = 0; i <= s->spans.count && !d->failed; i++) {
        const et_span *span = i < s->spans.count ? &s->spans.items[i] : NULL;
        size_t end = span ? span->start : s->length;
        et_part *part = &s->parts[i];
        trim(s->text, &at, &end);
        *part = (et_part){ .start = at, .length = end - at };
        if (et_text_has_letter(s->text + at, end - at))
            part->line = copy_part(d, s, at, end - at);
        at = span ? span->start + span->length : at;
    }
}

/* Removes the end of sentence that a model adds to a part. The punctuation of the source follows
 * the part. */
static size_t without_end(const char *text, size_t length)
{
    static const char *const ends[] = { ".", "!", "?", "\xe3\x80\x82" /* 。 */ };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t count = strlen(ends[i]);
        if (length > count && !memcmp(text + length - count, ends[i], count)) {
            length -= count;
            break;
        }
    }
    while (length && text[length - 1] == ' ')
        length--;
    return length;
}

/* Takes the translation of a part, if it has no spans except numbers. */
static void segment_take_part(et_document *d, const et_segment *s, et_part *part,
                              const char *result)
{
    et_assert(part && result);
    const size_t length = without_end(result, strlen(result));
    et_span found = { 0, 0, ET_SPAN_NUMBER, 0, false };
    for (size_t at = 0; et_span_find(result, length, at, &found); at = found.start + found.length)
        if (found.kind != ET_SPAN_NUMBER)
            break;
    if (!length || found.kind != ET_SPAN_NUMBER || is_spoiled(d, s, result, length))
        et_document_count_kept(d, s->line);
    else
        part->result = copy_line(d, result, length);
}

static void join(const et_document *d, const et_segment *s, et_escape escape, et_strbuf *out)
{
    size_t at = 0;
    et_strbuf_reset(out);
    for (size_t i = 0; i <= s->spans.count; i++) {
        const et_part *part = s->parts ? &s->parts[i] : NULL;
        const et_span *span = i < s->spans.count ? &s->spans.items[i] : NULL;
        const size_t end = span ? span->start : s->length;
        if (part && part->result) {
            et_document_encode(d, s->escape, s->text + at, part->start - at, out);
            et_document_encode(d, escape, part->result, strlen(part->result), out);
            at = part->start + part->length;
        }
        et_document_encode(d, s->escape, s->text + at, end - at, out);
        if (span)
            et_document_encode_span(d, s->escape, span, s->text + span->start, out);
        at = span ? span->start + span->length : end;
    }
}

/* Writes the segment in the source's language. */
static void segment_source(const et_document *d, const et_segment *s, et_strbuf *out)
{
    et_assert(out);
    et_segment whole = *s;
    whole.parts = NULL;
    join(d, &whole, s->escape, out);
    wrap(d, s, out);
}

/* Writes the segment from its parts' results into out, emptied before. */
static void segment_join(et_document *d, const et_segment *s, et_strbuf *out)
{
    et_assert(s->parts && out);
    join(d, s, s->escape, out);
    if (is_md(s) && !is_alike(s, out)) {
        join(d, s, ET_ESCAPE_MD_MARKS, out);
        if (!is_alike(s, out)) {
            et_document_count_kept(d, s->line);
            segment_source(d, s, out);
            return;
        }
    }
    wrap(d, s, out);
}

/* Plain text: a segment, or several sentences, for each line. */

static int document_read_lines(et_document *d, et_error *error)
{
    const char *at = d->text, *end = d->text + d->length;
    (void)error;
    for (size_t line = d->first_line; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((stop ? stop : end) - at);
        et_document_add(d, at, length, line);
        et_document_end(d);
        if (stop)
            et_document_keep(d, "\n", 1);
        at += length + 1;
    }
    return ET_OK;
}

/* cure: of a format that is not read. */
static const struct {
    const char *endings;
    int format;
    const char *cure;
} rows[] = {
    { ".html .htm .xht", ET_DOCUMENT_HTML, NULL },
    { ".xml .xhtml .svg .rss .atom .dita .ditamap .dbk .docbook", ET_DOCUMENT_XML, NULL },
    { ".po .pot", ET_DOCUMENT_PO, NULL },
    { ".srt .vtt", ET_DOCUMENT_SRT, NULL },
    { ".md .markdown .mkd .mdown .mdx .qmd .rmd", ET_DOCUMENT_MD, NULL },
    { ".xliff .xlf .sdlxliff .mxliff .mqxliff", 0,
      "convert it with translate-toolkit: xliff2po, and po2xliff for the translation" },
    { ".tmx", 0, "make two text files of it, with a sentence a line" },
    { ".json .arb", 0, "convert it with translate-toolkit: json2po, and po2json" },
    { ".jsonl .ndjson", 0, "make a text file of it, with a text a line: jq -r .text" },
    { ".yaml .yml", 0, "convert it with translate-toolkit: yaml2po, and po2yaml" },
    { ".resx", 0, "convert it with translate-toolkit: resx2po, and po2resx" },
    { ".ts .qm", 0, "convert it with translate-toolkit: ts2po, and po2ts" },
    { ".properties .strings", 0, "convert it with translate-toolkit: prop2po, and po2prop" },
    { ".ini", 0, "convert it with translate-toolkit: ini2po, and po2ini" },
    { ".php", 0, "convert it with translate-toolkit: php2po, and po2php" },
    { ".stringsdict .plist .ftl .toml", 0, "convert it to a message catalogue (.po)" },
    { ".mo .gmo", 0, "unpack it: msgunfmt" },
    { ".csv .tsv", 0, "make a text file of the column, with a text a line" },
    { ".docx .odt .rtf .epub .rst .adoc .asciidoc .tex .latex .org .textile .ipynb .doc", 0,
      "convert it to Markdown or HTML, for example with pandoc" },
    { ".pptx .ppt .odp .xlsx .xls .ods", 0,
      "convert it with translate-toolkit: odf2xliff, xliff2po" },
    { ".pdf", 0, "extract its text: pdftotext" },
    { ".ass .ssa .sub .sbv .ttml .dfxp .smi .lrc", 0,
      "convert it to SubRip: ffmpeg -i FILE FILE.srt" },
};

int et_document_format_of(const char *path, int *format, et_error *error)
{
    et_assert(path && format);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name), start;
    *format = ET_DOCUMENT_LINES;
    if (length > 3 && !strcasecmp(name + length - 3, ".gz"))
        length -= 3;
    for (start = length; start && name[start - 1] != '.';)
        start--;
    if (start < 2) /* a name that begins with its dot has no ending */
        return ET_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!et_is_listed(rows[i].endings, name + start - 1, length - start + 1))
            continue;
        *format = rows[i].format;
        if (rows[i].cure)
            return et_fail(
                error, ET_EUSAGE,
                "%s: Etude does not translate this format; %s. To translate its lines as "
                "they are: --format lines",
                path, rows[i].cure);
        return ET_OK;
    }
    return ET_OK;
}

typedef int read_fn(et_document *d, et_error *error);

static const struct {
    read_fn *read;
    et_escape escape;
} formats[] = {
    [ET_DOCUMENT_LINES] = { document_read_lines, ET_ESCAPE_NONE },
    [ET_DOCUMENT_TEXT] = { document_read_lines, ET_ESCAPE_NONE },
    [ET_DOCUMENT_HTML] = { et_document_read_html, ET_ESCAPE_MARKUP },
    [ET_DOCUMENT_XML] = { et_document_read_xml, ET_ESCAPE_MARKUP },
    [ET_DOCUMENT_PO] = { et_document_read_po, ET_ESCAPE_PO },
    [ET_DOCUMENT_SRT] = { et_document_read_srt, ET_ESCAPE_NONE },
    [ET_DOCUMENT_MD] = { et_document_read_md, ET_ESCAPE_MD },
};

const char *const et_document_formats[] = {
    "lines", "text", "html", "xml", "po", "srt", "md", NULL
};

static int check_text(et_document *d, et_error *error)
{
    const char *nul = memchr(d->text, 0, d->length);
    size_t bad;
    if (nul)
        return et_fail(error, ET_EDATA, "%s:%zu: the text has a byte NUL: save it as UTF-8",
                       d->name, et_document_line(d, (size_t)(nul - d->text)));
    if (!et_utf8_valid(d->text, d->length, &bad))
        return et_fail(error, ET_EDATA, "%s:%zu: byte 0x%02X is not UTF-8: save the text as UTF-8",
                       d->name, et_document_line(d, bad), (unsigned)(unsigned char)d->text[bad]);
    return ET_OK;
}

static int read_all(et_document *d, et_error *error)
{
    int status = check_text(d, error);
    if (status)
        return status;
    const size_t mark = et_utf8_mark(d->text, d->length);
    et_document_keep(d, d->text, mark);
    d->text += mark;
    d->length -= mark;
    status = formats[d->format].read(d, error);
    if (status)
        return status;
    et_document_end(d);
    d->counts.segments = d->count;
    d->read_counts = d->counts;
    d->lines = et_alloc(d->count + 1, sizeof *d->lines);
    d->numbers = et_alloc(d->count + 1, sizeof *d->numbers);
    if (d->failed || d->kept.failed || !d->lines || !d->numbers)
        return et_alloc_failed(error, d->name);
    return ET_OK;
}

int et_document_open(et_document **out, const char *text, size_t length,
                     const et_document_options *options, et_error *error)
{
    et_assert(text && options);
    *out = NULL;
    et_document *d = et_alloc_zero(1, sizeof *d);
    if (!d)
        return et_alloc_failed(error, options->name);
    d->name = options->name;
    d->text = text;
    d->length = length;
    d->format = options->format;
    d->escape = formats[d->format].escape;
    d->sentences = options->sentences;
    d->language_tags = options->tags;
    d->usual_tag = options->tag ? et_arena_strdup(&d->arena, options->tag) : NULL;
    d->failed = options->tag && !d->usual_tag;
    d->written = ~0ull;
    d->first_line = options->first_line ? options->first_line : 1;
    /* The end of a text without lines has a line end. */
    const char *end = memchr(text, '\n', length);
    d->line_end = end && end > text && end[-1] == '\r' ? "\r\n" : "\n";
    int status = read_all(d, error);
    d->sentences = NULL;
    d->language_tags = NULL;
    if (status)
        et_document_close(d);
    else
        *out = d;
    return status;
}

void et_document_close(et_document *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++)
        et_spans_release(&d->segments[i].spans);
    et_run_release(&d->run);
    et_run_release(&d->outer);
    et_strbuf_release(&d->kept);
    et_strbuf_release(&d->checked);
    et_free(d->filled);
    et_free(d->lines);
    et_free(d->numbers);
    et_free(d->segments);
    et_free(d->items.at);
    et_free(d->tag_items.at);
    et_free(d->tags);
    et_arena_release(&d->arena);
    et_free(d);
}

/* ---- rounds ---- */

/* The next part to translate at or after segment *s, part *p. */
static et_part *next_part(et_document *d, size_t *s, size_t *p)
{
    for (; *s < d->count; ++*s, *p = 0) {
        et_segment *segment = &d->segments[*s];
        for (; segment->parts && *p <= segment->spans.count; ++*p)
            if (segment->parts[*p].line)
                return &segment->parts[(*p)++];
    }
    return NULL;
}

static int list_parts(et_document *d)
{
    size_t count = 0, s = 0, p = 0;
    while (next_part(d, &s, &p))
        count++;
    /* Not fewer than the segments, for a restart. */
    const size_t most = (count > d->count ? count : d->count) + 1;
    const char **lines = et_alloc(most, sizeof *lines);
    size_t *numbers = et_alloc(most, sizeof *numbers);
    if (!lines || !numbers) {
        et_free(lines);
        et_free(numbers);
        return ET_ENOMEM;
    }
    et_free(d->lines);
    et_free(d->numbers);
    d->lines = lines;
    d->numbers = numbers;
    d->line_count = s = p = 0;
    for (et_part *part; (part = next_part(d, &s, &p)) != NULL;) {
        d->numbers[d->line_count] = d->segments[s].line;
        d->lines[d->line_count++] = part->line;
    }
    return ET_OK;
}

const char *const *et_document_lines(et_document *d, size_t *count)
{
    et_assert(count);
    if (!d->round)
        for (d->line_count = 0; d->line_count < d->count; d->line_count++) {
            d->lines[d->line_count] = d->segments[d->line_count].source;
            d->numbers[d->line_count] = d->segments[d->line_count].line;
        }
    *count = d->line_count;
    return d->line_count ? d->lines : NULL;
}

const size_t *et_document_line_numbers(const et_document *d)
{
    return d->numbers;
}

static void set_result(et_document *d, et_segment *s, et_strbuf *encoded)
{
    if (s->accelerator.mark)
        et_accelerator_insert(encoded, s->accelerator);
    s->result = et_strbuf_keep(encoded, &d->arena);
    d->failed |= !s->result;
}

static void take_segments(et_document *d, char *const *results, et_strbuf *encoded)
{
    for (size_t i = 0; i < d->count && !d->failed; i++) {
        et_segment *s = &d->segments[i];
        d->written = s->entities;
        if (d->format == ET_DOCUMENT_LINES) {
            s->result = et_arena_strdup(&d->arena, results[i]);
            d->failed |= !s->result;
        } else if (segment_accept(d, s, results[i], encoded)) {
            set_result(d, s, encoded);
        } else {
            segment_cut(d, s);
            if (!d->counts.repaired++)
                d->counts.line = s->line;
        }
    }
    if (!d->failed)
        d->failed = list_parts(d) != ET_OK;
}

/* ---- output ---- */

static void print_plain(const et_document *d, const et_item *item, et_strbuf *out)
{
    if (item->segment == ET_NO_SEGMENT)
        et_strbuf_append_bytes(out, d->kept.data + item->from, item->length);
    else
        et_strbuf_append(out, d->segments[item->segment].result);
}

/* Appends a translation with its tags' own text translated. A result has the bytes of all tags of
 * its source, in order, and nothing between them looks like one. */
static void print_segment(const et_document *d, const et_segment *s, et_strbuf *out)
{
    const char *at = s->result, *end = at + strlen(at);
    for (size_t i = 0; i < s->spans.count; i++) {
        const et_span *span = &s->spans.items[i];
        if (span->kind != ET_SPAN_TAG)
            continue;
        const char *found = memmem(at, (size_t)(end - at), s->text + span->start, span->length);
        et_assert(found);
        const et_tag tag = span->tag ? d->tags[span->tag - 1] : (et_tag){ 0, 0 };
        et_strbuf_append_bytes(out, at, (size_t)(found - at) + (span->tag ? 0 : span->length));
        for (size_t k = 0; k < tag.count; k++)
            print_plain(d, &d->tag_items.at[tag.first + k], out);
        at = found + span->length;
    }
    et_strbuf_append_bytes(out, at, (size_t)(end - at));
}

void et_document_print(const et_document *d, et_strbuf *out)
{
    et_assert(out);
    if (d->checked.length) {
        et_strbuf_append_bytes(out, d->checked.data, d->checked.length);
        return;
    }
    for (size_t i = 0; i < d->items.count; i++) {
        const et_item *item = &d->items.at[i];
        if (item->segment != ET_NO_SEGMENT && has_tag_text(&d->segments[item->segment]))
            print_segment(d, &d->segments[item->segment], out);
        else
            print_plain(d, item, out);
    }
}

/* ---- structure ---- */

/* Most segments to find by halving. If more change the structure, all segments after the last one
 * found stay in the source's language. */
#define CULPRITS_MAX 32

/* The structure of the output with the results of the first segments; the others are as in the
 * source. */
static void print_structure(et_document *d, size_t count, const char *const *sources,
                            et_strbuf *out)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_document some = *d;
    some.segments = et_alloc(d->count + 1, sizeof *some.segments);
    et_strbuf_reset(out);
    if (some.segments && d->count)
        memcpy(some.segments, d->segments, d->count * sizeof *some.segments);
    for (size_t i = count; some.segments && i < d->count; i++)
        some.segments[i].result = sources[i];
    if (some.segments)
        et_document_print(&some, &text);
    const size_t mark = et_utf8_mark(et_strbuf_text(&text), text.length);
    d->failed |= !some.segments || text.failed ||
                 !et_md_structure(et_strbuf_text(&text) + mark, text.length - mark, out);
    et_strbuf_release(&text);
    et_free(some.segments);
}

static bool is_same(const et_strbuf *a, const et_strbuf *b)
{
    return a->length == b->length && !memcmp(et_strbuf_text(a), et_strbuf_text(b), a->length);
}

/* Puts back the source of the first segment that changes the structure, then of the next one. */
static void keep_culprits(et_document *d, const char *const *sources, const et_strbuf *wanted)
{
    et_strbuf found = ET_STRBUF_INIT;
    for (int left = CULPRITS_MAX; left && !d->failed; left--) {
        size_t low = 0, high = d->count; /* with the first `low` results the structure is the wanted
                                            one, with the first `high` it is not */
        print_structure(d, high, sources, &found);
        if (is_same(&found, wanted))
            break;
        while (low + 1 < high && !d->failed) {
            const size_t middle = (low + high) / 2;
            print_structure(d, middle, sources, &found);
            *(is_same(&found, wanted) ? &low : &high) = middle;
        }
        for (size_t i = low; i < (left > 1 ? high : d->count); i++) {
            d->segments[i].result = sources[i];
            et_document_count_kept(d, d->segments[i].line);
        }
    }
    et_strbuf_release(&found);
}

/* Each translation was checked alone; this is for the few that change the text around them. */
static void keep_structure(et_document *d, et_strbuf *encoded)
{
    et_strbuf wanted = ET_STRBUF_INIT, found = ET_STRBUF_INIT;
    const char **sources = et_arena_array(&d->arena, d->count + 1, sizeof *sources);
    d->failed |= !sources || !et_md_structure(d->text, d->length, &wanted);
    if (!d->failed)
        print_structure(d, d->count, sources, &found);
    if (!d->failed && !is_same(&found, &wanted)) {
        for (size_t i = 0; i < d->count && !d->failed; i++) {
            d->written = d->segments[i].entities;
            segment_source(d, &d->segments[i], encoded);
            sources[i] = et_strbuf_keep(encoded, &d->arena);
            d->failed |= !sources[i];
        }
        if (!d->failed)
            print_structure(d, 0, sources, &wanted);
        keep_culprits(d, sources, &wanted);
    }
    et_strbuf_release(&wanted);
    et_strbuf_release(&found);
}

int et_document_take(et_document *d, char *const *results, et_error *error)
{
    et_strbuf encoded = ET_STRBUF_INIT;
    et_assert(d->line_count && d->round < 2);
    if (!d->round++)
        take_segments(d, results, &encoded);
    else {
        size_t s = 0, p = 0;
        for (size_t i = 0; i < d->line_count && !d->failed; i++) {
            et_part *part = next_part(d, &s, &p);
            segment_take_part(d, &d->segments[s], part, results[i]);
        }
        d->line_count = 0;
    }
    const bool last = !d->line_count;
    int status = ET_OK;
    if (last && !d->failed)
        for (size_t i = 0; i < d->count && !d->failed; i++) {
            et_segment *s = &d->segments[i];
            if (!s->parts)
                continue;
            d->written = s->entities;
            segment_join(d, s, &encoded);
            set_result(d, s, &encoded);
        }
    if (last && !d->failed && d->format == ET_DOCUMENT_MD)
        keep_structure(d, &encoded);
    if (last && !d->failed && d->format == ET_DOCUMENT_PO) {
        et_strbuf_reset(&encoded);
        et_document_print(d, &encoded);
        d->failed = encoded.failed;
        status = d->failed ? ET_OK : et_document_check_po(d, &encoded, error);
    }
    et_strbuf_release(&encoded);
    return status || !d->failed ? status : et_alloc_failed(error, d->name);
}

void et_document_restart(et_document *d)
{
    for (size_t i = 0; i < d->count; i++) {
        d->segments[i].parts = NULL;
        d->segments[i].result = NULL;
    }
    d->counts = d->read_counts;
    d->round = 0;
    et_strbuf_reset(&d->checked);
}

et_document_counts et_document_count(const et_document *d)
{
    return d->counts;
}
