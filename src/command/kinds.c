#include "command/kinds.h"

#include <etude/tabular.h>

#include "tasks/translation/translation_kind.h"

const et_task_kind *const et_kinds[ET_KINDS] = { &et_translation_kind, &et_tabular_kind };
