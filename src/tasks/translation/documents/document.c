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

static bool is_listed(const char *list, const char *ending, size_t length)
{
    for (const char *at = list; *at; at += *at == ' ') {
        const size_t item = strcspn(at, " ");
        if (item == length && !strncasecmp(at, ending, length))
            return true;
        at += item;
    }
    return false;
}

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
        if (!is_listed(rows[i].endings, name + start - 1, length - start + 1))
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
        return et_alloc_failed(error, d->length, d->name);
    return ET_OK;
}

int et_document_open(et_document **out, const char *text, size_t length,
                     const et_document_options *options, et_error *error)
{
    et_assert(text && options);
    *out = NULL;
    et_document *d = et_alloc_zero(1, sizeof *d);
    if (!d)
        return et_alloc_failed(error, sizeof *d, options->name);
    d->name = options->name;
    d->text = text;
    d->length = length;
    d->format = options->format;
    d->escape = formats[d->format].escape;
    d->sentences = options->sentences;
    d->language_tags = options->tags;
    d->usual_tag = options->tag ? et_arena_strdup(&d->arena, options->tag) : NULL;
    d->failed = options->tag && !d->usual_tag;
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

static void release_run(et_run *run)
{
    et_spans_release(&run->tags);
    et_strbuf_release(&run->text);
}

void et_document_close(et_document *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->count; i++)
        et_spans_release(&d->segments[i].spans);
    release_run(&d->run);
    release_run(&d->outer);
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
    s->result = encoded->failed ? NULL : et_arena_strdup(&d->arena, et_strbuf_text(encoded));
    d->failed |= !s->result;
}

static void take_segments(et_document *d, char *const *results, et_strbuf *encoded)
{
    for (size_t i = 0; i < d->count && !d->failed; i++) {
        et_segment *s = &d->segments[i];
        if (d->format == ET_DOCUMENT_LINES) {
            s->result = et_arena_strdup(&d->arena, results[i]);
            d->failed |= !s->result;
        } else if (et_segment_accept(d, s, results[i], encoded)) {
            set_result(d, s, encoded);
        } else {
            et_segment_cut(d, s);
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

static bool has_tag_text(const et_segment *s)
{
    for (size_t i = 0; i < s->spans.count; i++)
        if (s->spans.items[i].tag)
            return true;
    return false;
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

/* The most segments that are looked for by halving; then all that follow stay. */
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
    d->failed |=
        !some.segments || text.failed || !et_md_structure(et_strbuf_text(&text), text.length, out);
    et_strbuf_release(&text);
    et_free(some.segments);
}

static bool is_same(const et_strbuf *a, const et_strbuf *b)
{
    return a->length == b->length && !memcmp(et_strbuf_text(a), et_strbuf_text(b), a->length);
}

/* The first segment that changes the structure stays as it is in the source; then the next. */
static void keep_culprits(et_document *d, const char *const *sources, const et_strbuf *wanted)
{
    et_strbuf found = ET_STRBUF_INIT;
    for (int left = CULPRITS_MAX; left && !d->failed; left--) {
        size_t low = 0, high = d->count; /* the same up to low, another up to high */
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
            et_segment_source(d, &d->segments[i], encoded);
            sources[i] = et_arena_strdup(&d->arena, et_strbuf_text(encoded));
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
            et_segment_take_part(d, &d->segments[s], part, results[i]);
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
            et_segment_join(d, s, &encoded);
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
    return status || !d->failed ? status : et_alloc_failed(error, d->length, d->name);
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
