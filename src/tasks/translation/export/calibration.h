/* What parallel text says about a translator, for an engine that multiplies bytes and has a
 * shortlist. The model predicts the text's targets, and for each product of rows with weights the
 * largest absolute value of the rows of a batch is kept. The cross-attention of the last layer
 * aligns the tokens of each pair.
 *
 *     et_calibration *c;
 *     if (et_calibration_run(&c, translator, "a.en", "a.de", &error)) ...
 *     et_calibration_multiplier(c, param);
 *     if (et_calibration_shortlist(c, before, &bytes, &length, &error)) ...
 *     et_calibration_free(c);
 */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_CALIBRATION_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_CALIBRATION_H

#include "formats/marian/lexicon.h"
#include "tasks/translation/decoding/translator_private.h"

/* Pairs that are read; the rest of a longer text is left out, with a line that says so. */
#define ET_CALIBRATION_PAIRS_MAX 200000

/* Tokens of the target that come always, and most of a source token, as the shortlists of Bergamot.
 */
#define ET_CALIBRATION_FIRST 50
#define ET_CALIBRATION_BEST  50

typedef struct et_calibration et_calibration;

/* source, target: files of parallel lines. ET_EDATA: other numbers of lines, or no pair. */
int et_calibration_run(et_calibration **out, const et_translator *t, const char *source,
                       const char *target, et_error *error);
void et_calibration_free(et_calibration *calibration); /* NULL allowed */

/* The rows that weights `param` are multiplied with become bytes by this factor: 127 / (mean + 1.1
 * standard deviations of the largest values of batches). Source: browsermt/students,
 * extract_stats.py. */
float et_calibration_multiplier(const et_calibration *calibration, int param);

/* A shortlist (et_free): the target tokens most often aligned with each source token, and those of
 * `before`, a shortlist that the model has already; NULL: none. A token that both sides have may
 * give itself. */
int et_calibration_shortlist(et_calibration *calibration, const et_lexicon *before, char **bytes,
                             size_t *length, et_error *error);

#endif
