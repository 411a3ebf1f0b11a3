/* A picture of the decoder's attention for one line and its translation: words of the translation
 * label the rows, words of the line the columns. */
#ifndef ETUDE_COMMAND_TRANSLATION_ATTENTION_H
#define ETUDE_COMMAND_TRANSLATION_ATTENTION_H

#include <etude/hypotheses.h>

/* Writes an SVG file, whole or not at all. found has alignments (et_decoding_options). ET_EDATA: no
 * word was translated. */
int et_attention_draw(const char *path, const char *line, const et_hypothesis *found,
                      et_error *error);

/* The same of the best translation that the model of a run or an export gives of a line. */
int et_attention_plot(const char *run, const char *line, const char *path, et_error *error);

#endif
