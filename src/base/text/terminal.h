/* Text for a terminal: its width, and lines broken between words. */
#ifndef ETUDE_BASE_TEXT_TERMINAL_H
#define ETUDE_BASE_TEXT_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

#include "base/text/strbuf.h"

/* Columns of the terminal that a descriptor writes to; 80 if it is not a terminal or the size is
 * unknown. */
int et_terminal_width(int fd);

/* Prints words, separated by blanks or line ends, with line breaks so that no line is longer than
 * width; column: start of the first line. Lines after the first are indented by indent. A word
 * longer than a line stays whole. */
void et_terminal_wrap(FILE *to, const char *text, int column, int indent, int width);

/* Appends lines of text, broken between words so that none is longer than width; gaps stay. The
 * rest of a line is indented to the text after its first gap of two or more spaces, or by 4. A word
 * longer than a line stays whole. */
void et_terminal_fold(et_strbuf *out, const char *text, int width);

#endif
