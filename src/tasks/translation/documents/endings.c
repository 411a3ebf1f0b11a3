#include "tasks/translation/documents/endings.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "tasks/translation/documents/document.h"

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
