/* More ops than <etude/ops.h> and its related headers, for layers and the library's own models. */
#ifndef ETUDE_ENGINE_GRAPH_BUILD_H
#define ETUDE_ENGINE_GRAPH_BUILD_H

#include <etude/ops.h>
#include <etude/ops_elementwise.h>
#include <etude/ops_image.h>
#include <etude/ops_layout.h>
#include <etude/ops_random.h>

/* Sinusoidal positions as et_sinusoid, with w_i = 10000^(-2i / dim), as Vaswani et al. 2017 write
 * them: the last is above 1/10000. */
et_node *et_sinusoid_open(et_scope *scope, int64_t rows, int64_t dim);

/* Attention of one new row per hypothesis against a cache; no derivative.
 * Self: q is qkv [R, 3D]; cache [slots, 2D] (act, k then v) is an input that this op also writes.
 * First k and v of row r go to slot[r * longest + length[r] - 1]; then row r attends to the slots
 * slot[r * longest + 0 .. length[r]-1]. Cross: q is [R, D], cache the encoder's [Tk, 2D], row r
 * attends to rows begin[r] .. begin[r] + length[r] - 1; slot NULL. slot int32 [R, longest], begin
 * and length int32 [R]. A length of 0 gives a zero row. */
et_node *et_cached_attention(et_node *q, et_node *cache, et_node *slot, et_node *begin,
                             et_node *length, int heads);

/* The recurrence of the SSRU over segments of rows, each column by itself (Kim et al. 2019, "From
 * Research to Production and Back"):
 *
 *   c[t] = f[t] c[t - 1] + (1 - f[t]) x[t],   f = 1 / (1 + e^-gate)
 *
 * x, gate and the result are act [T, D]; offsets int32 [segments + 1]. c is 0 before a segment. */
et_node *et_recurrence_over(et_node *x, et_node *gate, et_node *offsets);

/* The same for one row of each of T segments, in decoding; no derivative. state float32 [slots, D]
 * is an input that this op also writes. Row t reads c[t - 1] from slot where[t][0] (-1: zeros), and
 * writes c[t] to slot where[t][1], which no other row reads. where int32 [T, 2]. */
et_node *et_recurrence_step(et_node *x, et_node *gate, et_node *state, et_node *where);

/* The likeliest tokens of each row: of the logits h table^T (h [T, D] act, table [V, D] a
 * parameter) the count largest, best first. Result: their log-probabilities, float32 [T, count];
 * *token: which they are, int32 [T, count]. [T, V] never exists; no derivative. */
et_node *et_vocabulary_best(et_node *h, et_node *table, int count, et_node **token);

/* The loss of et_vocabulary_loss for logits h table^T + offsets, float32 [V] with no derivative;
 * NULL: none. */
et_node *et_vocabulary_loss_offset(et_node *h, et_node *table, et_node *offsets, et_node *labels,
                                   float smoothing);

/* R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks"): h and again are
 * the same rows under two draws of dropout (et_in_draw). The loss makes their predictions agree.
 * The loss of each row is (loss(h) + loss(again)) / 2 + weight / 4 (KL(p, q) + KL(q, p)), with p
 * and q the two predictions and loss as above: half of the paper's loss, whose alpha is weight. nll
 * and correct are means of both, and a row counts once. Training costs twice the work; predictions
 * need one draw.
 */
et_node *et_r_drop_loss(et_node *h, et_node *again, et_node *table, et_node *labels,
                        float smoothing, float weight);

/* In training, the same loss over `count` of the table's V rows: the labels' rows and others, drawn
 * again in each step (et_candidates, as scope/candidates, so a scope has at most one sampled loss).
 * Softmax, smoothing and all four sums are over the candidates with their offsets. So a perfect
 * prediction scores 0, and a row counts as correct less often than over all V, whose offsets are 0.
 * Other rows have derivative 0. Work is count / V of the whole. Outside training, and with a count
 * of V, it is et_vocabulary_loss, so validation always measures the same. */
et_node *et_sampled_loss(et_scope *scope, et_node *h, et_node *table, et_node *labels,
                         float smoothing, int64_t count);

/* As et_recomputable, from some way of recomputing on: ET_RECOMPUTE_MARKED or LAYERS. */
et_node *et_recomputable_from(et_node *node, et_recompute least);

/* A tensor bound before each run, by its full name (scope included). In a pass: the batch's field
 * with this name, type and shape; see et_batch_input. */
et_node *et_input(et_scope *scope, const char *name, et_dtype dtype, et_shape shape);

/* Draws count candidates among `classes` classes, to estimate a softmax by importance sampling
 * (Bengio and Senecal 2008, "Adaptive Importance Sampling to Accelerate Training of a Neural
 * Probabilistic Language Model"; Jean et al. 2015, "On Using Very Large Target Vocabulary for
 * Neural Machine Translation"). Result: int32 [count]: first the d distinct classes of labels
 * (int32 [T]; negative: no label), ascending, then other classes, drawn uniformly without
 * replacement.
 *
 * *positions, int32 [T]: the position of each label among the candidates; negative: no label.
 * *offsets, float32 [count]: the log of the number of classes that a candidate represents: 0 for
 * the labels' classes, log((classes - d) / (count - d)) for the others. If offsets are added to
 * logits z, the sum of e^z over the candidates is an unbiased estimate of the sum over all classes,
 * provided count > d. count is at least T, or equals classes. */
et_node *et_candidates(et_scope *scope, const char *name, et_node *labels, int64_t classes,
                       int64_t count, et_node **positions, et_node **offsets);

/* Copies of w [K, N] side by side, with scaled rows and columns, act [K, G N]:
 * y[k, g N + n] = w[k, n] row_scale[g K + k] column_scale[g N + n]. The size of row_scale [G K]
 * determines G. column_scale [G N]; NULL: ones. All are float32. */
et_node *et_scaled_copies(et_node *w, et_node *row_scale, et_node *column_scale);

/* x in another type, or repeated to another shape as above; x itself if it has both. */
et_node *et_copy(et_node *x, et_dtype dtype, et_shape shape);

/* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta for each column d (of an image, each
 * channel), over the rows of the batch (Ioffe and Szegedy 2015). x [T, D] or [N, H, W, D], gamma
 * and beta [D]. mask [T] or [N], float32: samples with mask 0 are not counted and become 0; NULL:
 * all count. *mean and *variance (NULL: not wanted), float32 [D], are those of the batch, the
 * variance divided by the number of counted rows. They are for moving means and have no
 * derivative. */
et_node *et_batch_norm(et_node *x, et_node *gamma, et_node *beta, et_node *mask, float epsilon,
                       et_node **mean, et_node **variance);

/* The same with given statistics, float32 [D] each: for inference, or to train the layers before
 * it. mean and variance get no derivative. */
et_node *et_batch_norm_given(et_node *x, et_node *gamma, et_node *beta, et_node *mean,
                             et_node *variance, float epsilon);

/* Elements of one array with the tables of all columns, one after another. */
int64_t et_columns_size(const et_column *columns, int count);

#endif
