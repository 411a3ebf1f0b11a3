/* The work after a validation of a pack. If the loss of a member on the validation rows is its
 * lowest so far, its weights are kept as its best weights. A member without a lower loss for
 * `patience` validations is done, and is not trained further. Then an ensemble is chosen from the
 * best weights of all members (greedy.h). All results are variables of the store (pack.h), so
 * checkpoints contain them. */
#ifndef ETUDE_TASKS_TABULAR_PACK_PACK_ENSEMBLE_H
#define ETUDE_TASKS_TABULAR_PACK_PACK_ENSEMBLE_H

#include <etude/group.h>
#include <etude/value.h>

#include "tasks/tabular/tabular_options.h"

/* The rows of a validation. */
typedef struct et_pack_rows {
    int64_t count;        /* rows */
    int64_t width;        /* predictions of a member for a row: classes, 1 (of class 1), targets */
    const double *weight; /* [count]; 0: the row has not been seen */
    const int32_t *class; /* [count]; below 0: no label. NULL: values */
    const double *target; /* [count, width] of values, standardised; NULL: classes */
    /* [count, 2, members, width]: probabilities, or standardised values, of members as they are,
     * then at their best */
    const float *members;
    float *mean; /* [count, width]: set to the prediction of the new ensemble */
} et_pack_rows;

/* Adds the number of members in the ensemble to logs. ET_ECONFIG: the store does not have the
 * variables: there is no graph of validation. ET_EDIVERGED: no member's predictions are finite. */
int et_pack_follow(et_params *params, const et_tabular_pack *pack, const et_pack_rows *rows,
                   et_value *logs, et_error *error);

/* Sets the rows' mean to predictions of ensembles that other rows choose: every fifth row by one
 * that the other four fifths choose from the members' best weights. So the rows' score is not
 * better because they chose the ensemble. The store does not change. Errors as above. */
int et_pack_cross_fit(et_params *params, const et_tabular_pack *pack, const et_pack_rows *rows,
                      et_error *error);

/* The members that are trained: all, until one is done. */
typedef struct et_pack_part {
    bool *which;     /* [members], owned, as group; NULL: all */
    et_group *group; /* their parameters; NULL: of all */
} et_pack_part;

/* Follows a validation, or a restore. *again: the part has changed. If all members are done, the
 * part stays as it was. */
int et_pack_part_follow(et_pack_part *part, et_params *params, const et_tabular_pack *pack,
                        bool *again, et_error *error);
void et_pack_part_release(et_pack_part *part);

/* Starts a training: no member has best weights, and the ensemble is empty, even if weights come
 * from another run. rated: there is an optimizer with the members' rates. Errors as above. */
int et_pack_begin(et_params *params, const et_tabular_pack *pack, bool rated, et_error *error);

/* Returns ET_ECONFIG: a pack cannot be trained in this way. */
int et_pack_refuse(et_error *error);

#endif
