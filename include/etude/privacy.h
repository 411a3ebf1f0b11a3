/* Differential privacy of training, and its cost.
 *
 *     static const et_privacy_options privacy = {
 *         .clipping_norm = 1, .noise_multiplier = 1.1, .per_example = true
 *     };
 *     et_task_trainer_options options = { .batches = 256, .dp_config = &privacy };
 *     et_privacy_spent(256. / 60000, 1.1, 14063, 1e-5, &epsilon, NULL, &error);
 *
 * per_example (Abadi et al. 2016, "Deep learning with differential privacy", algorithm 1): each
 * batch is one sample. Its gradient is clipped, and noise is added to the sum. Only per_example
 * bounds the influence of a sample, and et_privacy_spent is valid only for per_example. Without
 * per_example, as in Model Garden's dp_config, the mean gradient of the update is clipped and gets
 * noise: this gives no guarantee for a sample.
 *
 * The noise is a function of seed and step, so anyone with the seed of a run knows the noise. The
 * noise is float32: it protects against a reader of the weights, not against attacks on their
 * rounding. */
#ifndef ETUDE_PRIVACY_H
#define ETUDE_PRIVACY_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_privacy_options {
    double clipping_norm;    /* largest L2 norm over all trained parameters; 0: 1e8 */
    double noise_multiplier; /* standard deviation of the noise, in clipping norms; 0: no noise */
    bool per_example;        /* batches have one sample; an update has
                                et_task_trainer_options.batches batches */
} et_privacy_options;

/* Rows for the table of a kind of task (experiment.h); its trainer gets the struct as dp_config:
 * ET_FIELD_STRUCT(own_options, differential_privacy_config, &et_privacy_fields, "..."). */
ET_DATA const struct et_fields et_privacy_fields;

/* Computes epsilon of (epsilon, delta) after steps updates, with each sample in an update with
 * probability sampling_rate (also assumed for a shuffled pass). Method: Renyi divergence of the
 * sampled Gaussian mechanism at whole orders 2 to 256 (Mironov, Talwar and Zhang 2019, section
 * 3.3), converted as in Canonne, Kamath and Steinke 2020, proposition 12. *order (NULL allowed):
 * the order that gives the smallest epsilon. Infinity: no noise. ET_ECONFIG: a rate or delta that
 * is not a probability, or a negative number. */
ET_API int et_privacy_spent(double sampling_rate, double noise_multiplier, int64_t steps,
                            double delta, double *epsilon, int *order, et_error *error);

#endif
