/* Text for a terminal: its width, and lines broken between words. */
#ifndef ETUDE_BASE_TEXT_TERMINAL_H
#define ETUDE_BASE_TEXT_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

#include "base/text/strbuf.h"

/* Columns of the terminal that a descriptor writes to; 80: it is none, or does not say. */
int et_terminal_width(int fd);

/* Prints words, which blanks or line ends part, broken between them so that no line passes width;
 * column: where the first line begins. Lines after the first are indented by indent. A word longer
 * than a line stays whole. */
void et_terminal_wrap(FILE *to, const char *text, int column, int indent, int width);

/* Appends lines of text, each broken between words so that none passes width; gaps stay as they
 * are. The rest of a line is indented to where the text behind its first gap of two spaces or more
 * begins, or by 4. A word longer than a line stays whole. */
void et_terminal_fold(et_strbuf *out, const char *text, int width);

#endif
