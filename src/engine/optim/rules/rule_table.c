#include "engine/optim/rules/rule.h"

static const et_rule_class *const rules[] = {
    [ET_OPTIMIZER_NONE] = NULL,
#define RULE(ID, name, help) [ET_OPTIMIZER_##ID] = &et_rule_##name,
#include "engine/optim/rules/rules.def"
#undef RULE
};

const et_rule_class *et_rule_of(int type)
{
    return rules[type];
}
