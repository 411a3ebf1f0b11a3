/* --threshold and --costs: how a class is chosen from its probabilities. */
#ifndef ETUDE_COMMAND_DECISION_ARGS_H
#define ETUDE_COMMAND_DECISION_ARGS_H

#include "command/options/options.h"

typedef struct et_decision_args {
    double threshold; /* 0: none */
    et_strings costs;
} et_decision_args;

extern const et_option et_decision_options[];

bool et_decision_is_given(const et_decision_args *args);

#endif
