/* Markdown beyond CommonMark, made readable for a parser of CommonMark: a copy of the text with the
 * same positions, in which other markup is replaced.
 *
 *     front matter, import of MDX, ::: of a container     blanks
 *     :::tip A title, > [!NOTE]                           a heading
 *     !!! note "A title", ??? note, === "A tab"           an item
 *     : a definition, [^1]: a footnote                    the same
 *     $x$, {{< a >}}, {% a %}, {#id .class}, [^1], :tada:   letters; in lines of their own: blanks
 */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_MD_MASK_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_MD_MASK_H

#include "tasks/translation/documents/spans.h"

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

#endif
