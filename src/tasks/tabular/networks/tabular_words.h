/* Free texts as inputs of models: each text is a vector. With the ids i of a text's words and word
 * pairs, once for each time,
 *
 *   v = 0.3 sum_i w_i t_i / sqrt(sum_i w_i^2),   w_i = (n_i / (n_i + 40))^2, 0 if n_i is below 2
 *
 * t_i is learned, and n_i is the number of training rows whose text has i. Adam moves
 * the vector of a rare word as far as that of a frequent one, so w_i shrinks what few rows say.
 * With the weights of TF-IDF, smoothed as in scikit-learn, and n rows,
 *
 *   w_i = 1 + log((1 + n) / (1 + n_i)), 0 if n_i is below 2
 *
 * The w_i are a variable, set before the first step. */
#ifndef ETUDE_TASKS_TABULAR_TABULAR_WORDS_H
#define ETUDE_TASKS_TABULAR_TABULAR_WORDS_H

#include <etude/data.h>
#include <etude/layers.h>

#include "data/table/features/encoder.h"

/* How many texts a row has. */
int et_tabular_words_count(const et_encoder *encoder);

/* Text number k, [rows, width] act. model: the scope of the whole model, which has the w_i;
 * learned: the scope that has the t_i, the model's or that of a part that learns for itself. begin:
 * initial values of the t_i. */
et_node *et_tabular_words(et_scope *model, et_scope *learned, const et_encoder *encoder, int k,
                          int64_t width, et_init begin);

/* Sets the variables from the training rows. weights: ET_TABULAR_WORDS_FREQUENCY or TF_IDF.
 * ET_ECONFIG: TF_IDF, and there are no texts. */
int et_tabular_words_fit(et_params *params, int weights, const et_encoder *encoder,
                         et_samples *samples, et_error *error);

#endif
