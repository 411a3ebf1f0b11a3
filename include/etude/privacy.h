/* Differential privacy of training, and what it costs.
 *
 *     static const et_privacy_options privacy = {
 *         .clipping_norm = 1, .noise_multiplier = 1.1, .per_example = true
 *     };
 *     et_task_trainer_options options = { .batches = 256, .dp_config = &privacy };
 *     et_privacy_spent(256. / 60000, 1.1, 14063, 1e-5, &epsilon, NULL, &error);
 *
 * per_example (Abadi et al. 2016, "Deep learning with differential privacy", algorithm 1): each
 * batch is one sample, whose gradient is clipped; noise is added to their sum. That alone bounds
 * what a sample can do, and only of it et_privacy_spent speaks. Otherwise as Model Garden's
 * dp_config: the mean gradient of the whole update is clipped, and noise added to it: no promise to
 * a sample.
 *
 * Noise is counted, a function of seed and step: who knows the seed of a run knows the noise. It is
 * float32: it hides a sample from who sees weights, not from who sees how they were rounded. */
#ifndef ETUDE_PRIVACY_H
#define ETUDE_PRIVACY_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_privacy_options {
    double clipping_norm;    /* largest L2 norm, over all that is trained; 0: 1e8 */
    double noise_multiplier; /* deviation of the noise, in clipping norms; 0: none */
    bool per_example;        /* batches have one sample; et_task_trainer_options.batches of them
                                make an update */
} et_privacy_options;

/* For the table of a kind of task (experiment.h), whose trainer is given what the row says as
 * dp_config: ET_FIELD_STRUCT(own_options, differential_privacy_config, &et_privacy_fields, "...").
 */
ET_DATA const struct et_fields et_privacy_fields;

/* The epsilon of (epsilon, delta) after steps updates whose samples were each taken with
 * probability sampling_rate (a shuffled pass is held to be that): Renyi divergence of the sampled
 * Gaussian mechanism at whole orders 2 to 256 (Mironov, Talwar and Zhang 2019, section 3.3),
 * converted as Canonne, Kamath and Steinke 2020, proposition 12. *order (NULL allowed): which gives
 * it. Infinity: there is no noise. ET_ECONFIG: a rate or delta that is no probability, a negative
 * number. */
ET_API int et_privacy_spent(double sampling_rate, double noise_multiplier, int64_t steps,
                            double delta, double *epsilon, int *order, et_error *error);

#endif
