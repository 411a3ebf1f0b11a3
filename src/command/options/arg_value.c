/* What help calls a value. Apart from args.c: descriptions want it, which args.c adds to. */
#include <stdio.h>
#include <string.h>

#include "command/options/args.h"

et_arg_called et_arg_value(const et_arg *arg)
{
    et_arg_called called = { "" };
    const char *const *choice = arg->value ? NULL : arg->field.choices;
    snprintf(called.text, sizeof called.text, "%s", arg->value ? arg->value : "");
    for (size_t used = 0; choice && *choice; used = strlen(called.text))
        snprintf(called.text + used, sizeof called.text - used, "%s%s", used ? "|" : "", *choice++);
    return called;
}
