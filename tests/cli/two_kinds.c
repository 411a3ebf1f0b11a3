/* A program with two kinds of task, for test_two_kinds.sh: translation, and one that says where it
 * was opened and has a command of its own. WRONG set: a third one that lacks what a kind needs. */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct plain_options {
    int64_t size;
} plain_options;

static const et_field rows[] = { ET_FIELD_INT(plain_options, size, 3, 1, 9, "of it"),
                                 ET_FIELD_END };
static const et_fields fields = { "task", rows };

static int open_plain(et_task **out, const void *options, const et_task_context *context,
                      et_error *error)
{
    (void)out;
    return et_fail(error, ET_EDATA, "plain of size %lld opened in %s",
                   (long long)((const plain_options *)options)->size, context->model_dir);
}

static void close_plain(et_task *task)
{
    (void)task;
}

static int greet(const et_call *call, et_error *error)
{
    if (call->argc != 1)
        return et_fail(error, ET_EUSAGE, "%s: whom?", call->command);
    printf("%s of %s: hello, %s\n", call->command, call->program->name, call->argv[0]);
    return ET_OK;
}

static const et_experiment_row experiments[] = { { "plain/five", "five", "task.size=5" },
                                                 { "plain/none", "as it is", NULL },
                                                 { "plain/bad", "bad", "task.size=50" },
                                                 { NULL, NULL, NULL } };
static const et_command commands[] = { { "greet", greet, "say hello" }, { NULL, NULL, NULL } };
static const et_task_kind plain = { .name = "plain",
                                    .fields = &fields,
                                    .size = sizeof(plain_options),
                                    .experiments = experiments,
                                    .open = open_plain,
                                    .close = close_plain,
                                    .commands = commands };
static const et_task_kind wrong = { .name = "wrong", .fields = &fields };

int main(int argc, char **argv)
{
    const et_task_kind *const kinds[] = { &et_translation_kind, &plain, &wrong };
    return et_command_main(argc, argv, kinds, getenv("WRONG") ? 3 : 2);
}
