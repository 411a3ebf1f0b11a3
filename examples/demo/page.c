#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libxml/HTMLparser.h>

/* Largest page read, in bytes: the parser counts in int. */
#define PAGE_MAX (64 << 20)

/* Text that grows with blanks folded as it comes. */
typedef struct text_line {
    char *text;
    size_t length, capacity;
    bool blank; /* a blank is due before the next character */
    bool failed;
} text_line;

static void line_put(text_line *line, const char *bytes, size_t count)
{
    size_t needed = line->length + count + 2;
    if (needed > line->capacity && !line->failed) {
        char *grown = realloc(line->text, 2 * needed);
        line->failed = !grown;
        if (grown) {
            line->text = grown;
            line->capacity = 2 * needed;
        }
    }
    if (line->failed)
        return;
    if (line->blank && line->length)
        line->text[line->length++] = ' ';
    line->blank = false;
    memcpy(line->text + line->length, bytes, count);
    line->length += count;
    line->text[line->length] = '\0';
}

/* Bytes of the white space or of the invisible character that text begins with, 0: neither.
 * *drop: it takes no room, so it separates nothing. */
static size_t space_at(const unsigned char *text, bool *drop)
{
    *drop = false;
    if (text[0] <= ' ' || text[0] == 0x7f)
        return 1;
    if (text[0] == 0xc2 && (text[1] == 0xa0 || text[1] == 0xad)) { /* no-break, soft hyphen */
        *drop = text[1] == 0xad;
        return 2;
    }
    if (text[0] == 0xe2 && text[1] == 0x80) {
        *drop = text[2] >= 0x8b && text[2] <= 0x8f; /* zero width, direction marks */
        bool wide = text[2] >= 0x80 && text[2] <= 0x8a;
        return *drop || wide || text[2] == 0xa8 || text[2] == 0xa9 || text[2] == 0xaf ? 3 : 0;
    }
    *drop = text[0] == 0xef && text[1] == 0xbb && text[2] == 0xbf; /* byte order mark */
    return *drop ? 3 : 0;
}

/* text ends in a zero, so looking two bytes ahead of a lead byte stays inside. */
static void line_append(text_line *line, const xmlChar *text)
{
    while (*text) {
        bool drop;
        size_t space = space_at(text, &drop), length = 0;
        line->blank = line->blank || (space && !drop);
        text += space;
        while (!space && text[length] && !space_at(text + length, &drop))
            length++;
        if (length)
            line_put(line, (const char *)text, length);
        text += length;
    }
}

/* ---- the tree ---- */

static bool is_named(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && !strcmp((const char *)node->name, name);
}

/* Whether an attribute's value begins with, or with `anywhere` holds, a word. */
static bool has_attribute(const xmlNode *node, const char *attribute, const char *word,
                          bool anywhere)
{
    xmlChar *value = xmlGetProp(node, (const xmlChar *)attribute);
    const char *found = value ? strstr((const char *)value, word) : NULL;
    bool has = found && (anywhere || found == (const char *)value);
    xmlFree(value);
    return has;
}

/* Of a switch's alternatives: the one named default, or else the first. */
static const xmlNode *choose_alternative(const xmlNode *parent)
{
    const xmlNode *first = NULL;
    for (const xmlNode *node = parent->children; node; node = node->next) {
        if (node->type != XML_ELEMENT_NODE)
            continue;
        if (has_attribute(node, "id", "default", false))
            return node;
        if (!first)
            first = node;
    }
    return first;
}

static bool is_left_out(const xmlNode *node)
{
    if (is_named(node, "script") || is_named(node, "style"))
        return true;
    return node->type == XML_ELEMENT_NODE && node->parent &&
           node->parent->type == XML_ELEMENT_NODE &&
           has_attribute(node->parent, "class", "switch", false) &&
           choose_alternative(node->parent) != node;
}

/* The node after `node` in the order of the page, within `root`; NULL: none. Loops where a
 * recursion would be as deep as the page is nested. */
static const xmlNode *next_node(const xmlNode *node, const xmlNode *root, bool skip_children)
{
    if (!skip_children && node->type == XML_ELEMENT_NODE && node->children)
        return node->children;
    while (node != root && !node->next)
        node = node->parent;
    return node == root ? NULL : node->next;
}

/* All text below root, as one line. */
static void gather_text(text_line *line, const xmlNode *root)
{
    bool skip = false;
    for (const xmlNode *node = root; node; node = next_node(node, root, skip)) {
        skip = node != root && is_left_out(node);
        if (skip)
            continue;
        if (node->type == XML_TEXT_NODE && node->content)
            line_append(line, node->content);
        else if (is_named(node, "br"))
            line->blank = true;
    }
}

static bool is_paragraph(const xmlNode *node)
{
    static const char *const names[] = { "p", "h1", "h2", "h3", "h4", "h5", "h6" };
    bool named = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !named; i++)
        named = is_named(node, names[i]);
    return named && !has_attribute(node, "class", "code", true);
}

static int add_paragraph(help_page *page, const xmlNode *node)
{
    xmlChar *id = xmlGetProp(node, (const xmlChar *)"id");
    if (!id || !*id) {
        xmlFree(id);
        return 0;
    }
    text_line line = { 0 };
    gather_text(&line, node);
    if (page->count == page->capacity && line.length) {
        size_t capacity = page->capacity ? 2 * page->capacity : 32;
        help_paragraph *grown = realloc(page->items, capacity * sizeof *grown);
        line.failed = line.failed || !grown;
        if (grown) {
            page->items = grown;
            page->capacity = capacity;
        }
    }
    char *copy = line.length && !line.failed ? strdup((const char *)id) : NULL;
    xmlFree(id);
    if (copy) {
        page->items[page->count] = (help_paragraph){ copy, line.text, page->count };
        page->count++;
        return 0;
    }
    free(line.text);
    return line.failed || line.length ? ENOMEM : 0;
}

static int add_all(help_page *page, const xmlNode *root)
{
    int status = 0;
    for (const xmlNode *node = root; node && !status; node = next_node(node, root, false))
        if (is_paragraph(node))
            status = add_paragraph(page, node);
    return status;
}

/* ---- the page ---- */

/* Whole file, with a zero behind it. */
static int read_file(char **out, int *length, const char *path)
{
    struct stat info;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno;
    int status = fstat(fd, &info) ? errno : info.st_size > PAGE_MAX ? EFBIG : 0;
    size_t size = status ? 0 : (size_t)info.st_size, have = 0;
    char *bytes = status ? NULL : malloc(size + 1);
    if (!status && !bytes)
        status = ENOMEM;
    while (!status && have < size) {
        ssize_t count = read(fd, bytes + have, size - have);
        if (count < 0 && errno != EINTR)
            status = errno;
        if (count == 0)
            break;
        have += count > 0 ? (size_t)count : 0;
    }
    close(fd);
    if (status) {
        free(bytes);
        return status;
    }
    bytes[have] = '\0';
    *out = bytes;
    *length = (int)have;
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const help_paragraph *)a)->id, ((const help_paragraph *)b)->id);
}

static int compare_paragraphs(const void *a, const void *b)
{
    size_t first = ((const help_paragraph *)a)->order, second = ((const help_paragraph *)b)->order;
    int ids = compare_ids(a, b);
    return ids ? ids : (first > second) - (first < second);
}

/* Sorts by id and keeps the first of equal ones. */
static void sort_paragraphs(help_page *page)
{
    size_t kept = 0;
    if (page->count)
        qsort(page->items, page->count, sizeof *page->items, compare_paragraphs);
    for (size_t i = 0; i < page->count; i++) {
        if (kept && !compare_ids(&page->items[kept - 1], &page->items[i])) {
            free(page->items[i].id);
            free(page->items[i].text);
        } else {
            page->items[kept++] = page->items[i];
        }
    }
    page->count = kept;
}

int page_read(help_page *page, const char *path)
{
    char *bytes;
    int length = 0;
    int status = read_file(&bytes, &length, path);
    if (status)
        return status;
    if (memchr(bytes, '\0', (size_t)length) || !xmlCheckUTF8((const xmlChar *)bytes)) {
        free(bytes);
        return EILSEQ;
    }
    /* An empty file is no document to the parser. */
    htmlDocPtr document =
        length ? htmlReadMemory(bytes, length, NULL, "UTF-8",
                                HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                                    HTML_PARSE_NONET | HTML_PARSE_COMPACT)
               : NULL;
    if (document && xmlDocGetRootElement(document))
        status = add_all(page, xmlDocGetRootElement(document));
    xmlFreeDoc(document);
    free(bytes);
    if (status)
        page_release(page);
    else
        sort_paragraphs(page);
    return status;
}

const char *page_find(const help_page *page, const char *id)
{
    help_paragraph key = { (char *)id, NULL, 0 };
    const help_paragraph *found =
        page->count ? bsearch(&key, page->items, page->count, sizeof key, compare_ids) : NULL;
    return found ? found->text : NULL;
}

void page_release(help_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        free(page->items[i].id);
        free(page->items[i].text);
    }
    free(page->items);
    *page = (help_page)PAGE_INIT;
}
