/* The kinds of task that this library has, each in a folder; of several at once
 * <etude/multitask_kind.h> makes one more. */
#ifndef ETUDE_COMMAND_KINDS_H
#define ETUDE_COMMAND_KINDS_H

#include <etude/experiment.h>

enum { ET_KINDS = 2 };

/* In the order of help. */
extern const et_task_kind *const et_kinds[ET_KINDS];

#endif
