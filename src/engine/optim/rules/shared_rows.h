/* Rows that are common to tables of options.c and of rule_options.c. Private to this folder. */
#ifndef ETUDE_ENGINE_OPTIM_RULES_SHARED_ROWS_H
#define ETUDE_ENGINE_OPTIM_RULES_SHARED_ROWS_H

#include "base/fields/fields.h"

/* Files that Model Garden has saved have it in each group. */
#define TENSORFLOW_NAME ET_FIELD_ONLY("name", NULL, "no effect: the name in TensorFlow")

#endif
