/* More kinds of metrics than <etude/metrics.h>: scores of texts. */
#ifndef ETUDE_METRIC_KINDS_H
#define ETUDE_METRIC_KINDS_H

#include <etude/score.h>

#include "metric/metric.h"

/* Corpus scores: the state is et_bleu_counts or et_chrf_counts, which et_score_total
 * gives, to be merged. BLEU gives its own name, "bp", "hyp_len" and "ref_len"; chrF
 * one value. */
typedef struct et_bleu_metric {
    et_metric metric;
    et_bleu_options options; /* of the formula; who counts has the same */
} et_bleu_metric;

extern const et_metric_class et_bleu_metric_class;

#define ET_BLEU_METRIC(options)                                                                    \
    {                                                                                              \
        { &et_bleu_metric_class }, options                                                         \
    }

extern const et_metric et_metric_chrf;

#endif
