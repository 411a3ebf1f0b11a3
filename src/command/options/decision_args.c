#include "command/options/decision_args.h"

const et_option et_decision_options[] = {
    ET_OPTION_REAL(et_decision_args, threshold, "threshold", "T", 1e-9, 1,
                   "for two classes: predict the positive one if its probability is at least T"),
    ET_OPTION_LIST(et_decision_args, costs, "costs", "CLASS:PREDICTION=COST,...",
                   "costs of errors (others: 1); predict the class with the least expected cost"),
    ET_OPTION_END,
};

bool et_decision_is_given(const et_decision_args *args)
{
    return args->threshold > 0 || args->costs.count;
}
