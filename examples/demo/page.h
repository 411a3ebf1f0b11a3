/* Paragraphs of an HTML page, by id.
 *
 * Every paragraph and heading with an id becomes one line of text. Tags are removed, entities
 * decoded, and all white space is folded into single blanks. Listings of code, scripts and styles
 * are left out. If a page holds texts for several systems (an element of class "switch..."), the
 * default text counts. Damaged HTML is read as far as browsers would read it. The caller decides
 * which pages belong together.
 *
 *     help_page page = PAGE_INIT;
 *     if (page_read(&page, "help/en-US/text/a.html")) ...
 *     const char *text = page_find(&page, "par_id3149489");
 *     page_release(&page); */
#ifndef ETUDE_DEMO_PAGE_H
#define ETUDE_DEMO_PAGE_H

#include <stddef.h>

typedef struct help_paragraph {
    char *id;     /* not empty */
    char *text;   /* UTF-8, one line, no blank at either end, not empty */
    size_t order; /* on the page, from 0 */
} help_paragraph;

/* Owns its paragraphs, which stand in the order of their ids; of equal ids the first on the page
 * stays. */
typedef struct help_page {
    help_paragraph *items;
    size_t count, capacity;
} help_page;

#define PAGE_INIT                                                                                  \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* Reads a file into an empty page. 0, or an errno: of the file, or ENOMEM; EILSEQ: not UTF-8. A
 * file without paragraphs is an empty page. */
int page_read(help_page *page, const char *path);

/* The text of an id, or NULL. Borrowed until the page is released. */
const char *page_find(const help_page *page, const char *id);

/* Frees all; the page is empty and may be used again. */
void page_release(help_page *page);

#endif
