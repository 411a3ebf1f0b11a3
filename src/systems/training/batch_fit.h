/* Finds the largest batch whose plan fits into a given memory, by trying. Memory grows with the
 * batch, but not by a known law, so each candidate comes from the two nearest results.
 *
 *     et_batch_fit fit = et_batch_fit_begin(budget, 4096, ET_BATCH_MOST);
 *     do
 *         bytes = needed_by(fit.batch);
 *     while (et_batch_fit_note(&fit, bytes, false));
 *     use(fit.fits);                                        0: even the smallest does not fit
 */
#ifndef ETUDE_SYSTEMS_TRAINING_BATCH_FIT_H
#define ETUDE_SYSTEMS_TRAINING_BATCH_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define ET_BATCH_LEAST 8
#define ET_BATCH_MOST  1048576

typedef struct et_batch_fit {
    uint64_t budget;     /* bytes */
    int64_t batch;       /* to be tried next */
    int64_t most;        /* no larger one is tried */
    int64_t fits, fails; /* the largest that fits, the smallest that does not; 0: none */
    uint64_t fits_bytes, fails_bytes;
    int tries;
} et_batch_fit;

/* batch: the first one to try. most: the largest one, from ET_BATCH_LEAST to ET_BATCH_MOST. */
et_batch_fit et_batch_fit_begin(uint64_t budget, int64_t batch, int64_t most);

/* What batch needs; whole: a larger one would be of no use. True: another is to be tried. */
bool et_batch_fit_note(et_batch_fit *fit, uint64_t bytes, bool whole);

#endif
