/* Shared code of the tests of optim/. Include after cmocka.h. */
#ifndef ETUDE_TESTS_OPTIM_OPTIM_H
#define ETUDE_TESTS_OPTIM_OPTIM_H

#include <string.h>

#include "base/fields/fields.h"
#include "base/values/yaml.h"
#include "calls.h"
#include "engine/optim/options.h"

static inline et_optimization_options default_options(void)
{
    et_optimization_options options = { 0 };
    et_fields_defaults(&et_optimization_fields, &options);
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

#define LIST(...)                                                                                  \
    (et_strings)                                                                                   \
    {                                                                                              \
        (const char *const[]){ __VA_ARGS__ },                                                      \
            sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)                    \
    }

#endif
