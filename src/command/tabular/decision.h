/* Decides the predicted class from probabilities: --threshold and --costs of `evaluate`, `predict`
 * and `serve`.
 *
 *     et_decision decision;
 *     et_decision_open(&decision, &args->decision, &classes, &error);
 *     form.decision = &decision.how;
 *     et_decision_release(&decision);                      also after a failure
 */
#ifndef ETUDE_COMMAND_TABULAR_DECISION_H
#define ETUDE_COMMAND_TABULAR_DECISION_H

#include <etude/class_scores.h>
#include <etude/predictor.h>

#include "base/arena.h"
#include "command/options/options.h"

/* The target of a model. */
typedef struct et_decision_classes {
    const char *target;       /* its name, for messages */
    const char *const *label; /* [count] */
    int count;                /* 0: the target is numbers, or one of several */
    bool several;
} et_decision_classes;

/* The classes of an open model. The model owns the texts. */
et_decision_classes et_decision_classes_of(const et_predictor *predictor);

typedef struct et_decision {
    et_class_predictions how; /* only classes, first, threshold and costs are set */
    et_arena arena;
    double *costs; /* how's; owned */
} et_decision;

/* ET_EUSAGE: an option is not possible for these classes, or has another form. */
int et_decision_open(et_decision *decision, const et_decision_args *args,
                     const et_decision_classes *classes, et_error *error);
void et_decision_release(et_decision *decision);

#endif
