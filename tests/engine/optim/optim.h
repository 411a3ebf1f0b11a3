/* Shared code of the tests of optim/. Include after cmocka.h. */
#ifndef ETUDE_TESTS_OPTIM_OPTIM_H
#define ETUDE_TESTS_OPTIM_OPTIM_H

#include <string.h>

#include "base/fields/fields.h"
#include "base/values/yaml.h"
#include "calls.h"
#include "engine/optim/options.h"
#include "engine/optim/own_rule.h"

/* Of et_optimizer_options.type: the rule of own_rule.h; tests of all rules end with it. */
enum { OWN_RULE = ET_OPTIMIZER_COUNT };

static inline et_optimization_options default_options(void)
{
    static const lion_options own = { .beta_1 = 0.9, .beta_2 = 0.99 };
    et_optimization_options options = { .optimizer.own = own_rules };
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.own_settings[0] = (void *)&own;
    return options;
}

/* Reads text into options, as trainer.optimizer_config has it; lists live in arena. */
static inline int read_options(et_optimization_options *options, const char *text, et_arena *arena,
                               et_error *error)
{
    et_value *value;
    int status = et_yaml_parse(&value, arena, text, strlen(text), "test.yaml", error);
    if (!status)
        status = et_fields_read(&et_optimization_fields, options, value, arena, "test.yaml",
                                "trainer.optimizer_config", error);
    return status;
}

/* A list of names in settings of a rule, and one of the other settings. */
#define PATTERNS(...)                                                                              \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define LIST(...)                                                                                  \
    (et_strings)                                                                                   \
    {                                                                                              \
        (const char *const[]){ __VA_ARGS__ },                                                      \
            sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)                    \
    }

#endif
