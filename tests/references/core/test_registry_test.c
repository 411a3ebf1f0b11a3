/* Model Garden, official/core/registry_test.py. What a program registers are the experiments of its
 * kinds of task, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/task_open.h>

#include "formats/files.h"

typedef struct options {
    bool flag;
} options;

static const et_field rows[] = { ET_FIELD_BOOL(options, flag, false, "a setting"), ET_FIELD_END };
static const char settings[] =
    "{trainer: {train_steps: 1, optimizer_config: {optimizer: {type: adam}, learning_rate: "
    "{type: constant, constant: {learning_rate: 0.01}}}}}";
static const et_fields table = { "functions", rows };

static int open_task(et_task **out, const void *given, const et_task_context *context,
                     et_error *error)
{
    (void)out, (void)given, (void)context;
    return et_fail(error, ET_EFAIL, "opened");
}

static void close_task(et_task *task)
{
    (void)task;
}

/* Looks up name among the experiments; "opened" is the error if it is there. */
static int look_up(const char *directory, const et_experiment_row *experiments, const char *name,
                   et_error *error)
{
    const et_task_kind kind = { .name = "functions",
                                .fields = &table,
                                .size = sizeof(options),
                                .experiments = experiments,
                                .open = open_task,
                                .close = close_task };
    et_task_context context = { .model_dir = directory };
    et_task *task;
    int status = et_device_open(&context.device, error);
    if (!status)
        status = et_params_new(&context.params, error);
    if (!status)
        status = et_task_open(&task, &kind, name, settings, &context, error);
    et_params_free(context.params);
    et_device_close(context.device);
    return status;
}

static void test_registry_test__register_error(void **state)
{
    static const et_experiment_row right[] = { { "functions/func_0", NULL, NULL },
                                               { NULL, NULL, NULL } };
    static const et_experiment_row wrong[] = { { "functions/func_0", NULL, NULL },
                                               { "functions/func_0/sub_func", NULL, NULL },
                                               { NULL, NULL, NULL } };
    const char *directory = in(state, "run");
    assert_fails(look_up(directory, right, "functions/func_0", error), ET_EFAIL, "opened");
    assert_fails(look_up(directory, wrong, "functions/func_0", error), ET_EUSAGE,
                 "functions/func_0");
    assert_fails(look_up(directory, right, "non-exist", error), ET_ECONFIG, "non-exist");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry_test__register_error),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
