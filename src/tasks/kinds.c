#include "tasks/kinds.h"

#include <etude/tabular.h>

#include "tasks/translation/kind.h"

const et_task_kind *const et_kinds[ET_KINDS] = { &et_translation_kind, &et_tabular_kind };
