/* TabPack (Gorishniy, Kotelnikov, Rubachev and Babenko 2026): many networks with different settings
 * (members.h) are trained as one graph, whose loss is the sum of their losses: no gradient of a
 * member depends on another. After each validation the best weights of each member are kept in
 * variables, of which an ensemble is chosen (pack_ensemble.h). The ensemble is what predicts.
 * Members that are done leave the training graph and the optimizer's updates; the store keeps them.
 *
 *   member_3/...       parameters
 *   best/member_3/...  variables: its best ones so far
 *   ensemble/share     [members]: weights of the mean of predictions, 0: not in the ensemble
 *   ensemble/loss      [members]: of the best ones, on the validation rows
 *   ensemble/since     [members]: validations since then, the best one counted; 0: none yet */
#ifndef ETUDE_TASKS_TABULAR_PACK_PACK_H
#define ETUDE_TASKS_TABULAR_PACK_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "data/table/features/encoder.h"
#include "tasks/tabular/tabular_options.h"

#define ET_PACK_BEST     "best"
#define ET_PACK_ENSEMBLE "ensemble"
#define ET_PACK_SHARE    "share"
#define ET_PACK_LOSS     "loss"
#define ET_PACK_SINCE    "since"

/* Whether a pack can learn so many targets of two classes each (0: one target of any kind), or so
 * many quantiles of one. It learns neither yet. */
static inline bool et_pack_learns(size_t labels, size_t quantiles)
{
    return !labels && !quantiles;
}

/* The outputs of all members side by side, float32 [rows, members * outputs]. which: [members] of
 * the pack that the graph has; NULL: all. */
et_node *et_pack_build(et_scope *scope, const et_tabular_model *model, const et_encoder *encoder,
                       int64_t outputs, const bool *which);

/* The same of the best weights. */
et_node *et_pack_build_best(et_scope *scope, const et_tabular_model *model,
                            const et_encoder *encoder, int64_t outputs, const bool *which);

/* The weighted mean of predictions [rows, members * width] of these members, [rows, width]. */
et_node *et_pack_mean(et_scope *scope, const et_tabular_pack *pack, et_node *predictions,
                      int64_t width, const bool *which);

/* Declares what a validation changes. */
void et_pack_declare(et_scope *scope, const et_tabular_pack *pack);

#endif
